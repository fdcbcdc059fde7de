//! Construction of segments: their windows, acknowledgements and options.

use anabranch_units::Time;

use super::fallback_state::failed_dsn;
use super::negotiate::own_scale;
use super::{Connection, Mode, Phase};
use crate::checksum::{self, PayloadSums};
use crate::config::DsnWidth;
use crate::crypto;
use crate::segment::{
    Capable, DataAck, Dss, Flags, Join, MappedDsn, Mapping, MptcpOption, OPTION_SPACE, ResetReason,
    SackBlocks, Segment,
};
use crate::seq::DataRange;
use crate::subflow::header::Edge;
use crate::subflow::scoreboard::{Sent, SentMapping};
use crate::subflow::send::Train;
use crate::subflow::{ResetCause, TcpState};

/// The content of a segment at the data level.
#[derive(Clone, Copy)]
enum DataLevel {
    /// A mapping and its start.
    Map { data: u64, ssn: u32, mapping: SentMapping },
    /// Only the data acknowledgement.
    Ack,
    /// Nothing.
    None,
    /// Nothing, and no SACK blocks: the segment is sent for another option.
    Signal,
}

impl DataLevel {
    fn says_something(&self) -> bool {
        matches!(self, DataLevel::Map { .. } | DataLevel::Ack)
    }
}

impl Connection {
    #[cold]
    pub(super) fn make_reset(&mut self, now: Time, at: usize, cause: ResetCause, out: &mut Segment) {
        self.make(now, at, Flags::RST.with(Flags::ACK), None, DataLevel::Signal, out);
        // Section 3.1: after a damaged handshake no MPTCP option is sent any more.
        let first = self.phase == Phase::Opening && !self.subflows[at].handshake().is_join();
        if self.mode != Mode::Mptcp || first {
            return;
        }
        let mut say = |option| out.options.push(option);
        match (cause, self.keys.remote()) {
            (ResetCause::Abort, Some(key)) => say(MptcpOption::FastClose(key)),
            (ResetCause::Abort, None) => return,
            (ResetCause::Because(reason), _) => {
                say(MptcpOption::Reset { transient: is_transient(reason), reason })
            }
            (ResetCause::Gone, _) => {
                say(MptcpOption::Reset { transient: false, reason: ResetReason::Unspecified })
            }
            (ResetCause::Damage(data), _) => {
                // RFC 8684 section 3.7.
                let reason = ResetReason::Middlebox;
                say(MptcpOption::Fail(failed_dsn(self.remote_dsn, data)))
                    && say(MptcpOption::Reset { transient: false, reason })
            }
        };
    }

    /// Returns the SYN, SYN/ACK, or third ACK of a join that is due.
    #[cold]
    pub(super) fn make_handshake(&mut self, now: Time, at: usize) -> Segment {
        if self.subflows[at].state().tcp() == TcpState::SynSent
            && self.subflows[at].handshake().attempts() >= self.config.mptcp_syns
            && !self.subflows[at].handshake().is_join()
            && !self.config.only.simultaneous
        {
            // RFC 8684 section 3.1: a middlebox may drop a SYN because of its option. Linux stops after the
            // same number, and then uses TCP regardless of the answer.
            self.speak_tcp();
        }
        let scale = own_scale(self.config.receive_buffer.max().get());
        let is_syn = self.subflows[at].state().tcp() != TcpState::PreEstablished;
        let (window, _) = self.show_window(at, if is_syn { Edge::Syn } else { Edge::Subflow });
        let capable_flags = self.capable_flags();
        let keys = self.keys;
        let subflow = &mut self.subflows[at];
        let mut segment = subflow.handshake_segment(now, self.tick, window, scale, &self.config);
        let nonces = subflow.handshake().nonces();
        let code = || keys.join_code(nonces.0, nonces.1);
        if !is_syn {
            segment.options.push(MptcpOption::Join(Join::Ack { hmac: crypto::leftmost_160(&code()) }));
            return segment;
        }
        let answering = subflow.state().tcp() == TcpState::SynReceived;
        if answering && subflow.handshake().is_join() {
            self.fallback.note_answered();
        }
        if self.mode == Mode::Plain {
            return segment;
        }
        let join = subflow.handshake().is_join() || self.config.only.simultaneous;
        let (backup, address_id) = (subflow.route().asks_backup(), subflow.route().ids().0);
        let option = match (join, answering) {
            (false, _) => MptcpOption::Capable(Capable {
                version: 1,
                flags: capable_flags,
                sender_key: answering.then_some(keys.local()),
                receiver_key: None,
                data_len: None,
                checksum: None,
            }),
            (true, false) => MptcpOption::Join(Join::Syn {
                backup,
                address_id,
                token: keys.remote_token(),
                nonce: nonces.0,
            }),
            (true, true) => MptcpOption::Join(Join::SynAck {
                backup,
                address_id,
                hmac: crypto::leftmost_64(&code()),
                nonce: nonces.0,
            }),
        };
        segment.options.push(option);
        segment
    }

    /// Returns a mapping from the start of the stream to the end of `range`, which is sent for the first time
    /// at `seq`, if an MP_CAPABLE carries it there; `None` if a DSS does.
    ///
    /// RFC 8684 section 3.1 puts the keys and a length on the first data, in place of a DSS, and allows
    /// several segments to carry the same option, as segmentation offload makes them. Here every segment sent
    /// before the keys are confirmed carries them, with a length from the start of the stream to its own end:
    /// any one of them completes the handshake of a listener that has lost the third ACK. With DSS checksums
    /// only the first segment does, because the receiver can deliver nothing before it has a whole mapping.
    /// Without `repeat_keys` the first two segments do: the first packet of Linux's segmentation offload.
    pub(super) fn first_mapping(&self, at: usize, seq: u64, range: DataRange) -> Option<SentMapping> {
        let from_start = range.start + 1 == seq && (range.start == 0 || !self.checksummed);
        let carries = self.config.repeat_keys || range.start < 2 * u64::from(self.config.mss);
        if !self.keys_pending(at) || !from_start || !carries {
            return None;
        }
        let (back, len) = (u16::try_from(range.start).ok()?, u16::try_from(range.end).ok()?);
        Some(SentMapping { back, len, data_fin: false, checksum: 0 })
    }

    /// Returns the MP_CAPABLE with both keys, for the third ACK or, with `data`, for the first data.
    fn both_keys(&self, data: Option<SentMapping>) -> MptcpOption {
        MptcpOption::Capable(Capable {
            version: 1,
            flags: self.capable_flags(),
            sender_key: Some(self.keys.local()),
            receiver_key: self.keys.remote(),
            data_len: data.map(|mapping| mapping.len),
            checksum: data.filter(|_| self.checksummed).map(|mapping| mapping.checksum),
        })
    }

    #[inline(always)]
    fn make_data(&mut self, now: Time, at: usize, record: &Sent, out: &mut Segment) {
        let ssn = (record.seq - u64::from(record.mapping.back)) as u32;
        let data = record.data - u64::from(record.mapping.back);
        let mut level = DataLevel::Map { data, ssn, mapping: record.mapping };
        let mut capable = None;
        if ssn == 1 && data == 0 && self.keys_pending(at) {
            level = DataLevel::None;
            capable = Some(self.both_keys(Some(record.mapping)));
        }
        self.compose(now, at, Flags::ACK, Some(record.seq), level, out);
        out.payload_len = record.len;
        if let Some(capable) = capable {
            out.options.push(capable);
            if out.options.wire_len() > OPTION_SPACE {
                out.options.sack = SackBlocks::EMPTY;
            }
        }
        if self.mode == Mode::Plain && self.fallback.is_infinite() {
            self.fallback.write_infinite(record.seq, out);
        }
        if record.data + u64::from(record.len) == self.send.written {
            out.flags = out.flags.with(Flags::PSH);
        }
    }

    /// Makes the data segment of a record sent for the first time on its subflow; with PSH if it ends its
    /// train.
    #[inline(always)]
    pub(super) fn make_new_data(
        &mut self,
        now: Time,
        at: usize,
        record: &Sent,
        train: Train,
        out: &mut Segment,
    ) {
        self.make_data(now, at, record, out);
        if record.fin {
            out.flags = out.flags.with(Flags::FIN);
        }
        if train == Train::Ends {
            out.flags = out.flags.with(Flags::PSH);
        }
    }

    /// Makes the segment of a retransmitted record: data, a FIN, or both.
    #[inline(never)]
    pub(super) fn make_again(&mut self, now: Time, at: usize, record: &Sent, out: &mut Segment) {
        if record.len == 0 {
            self.make_fin(now, at, record.seq, out);
            return;
        }
        self.make_data(now, at, record, out);
        if record.fin {
            out.flags = out.flags.with(Flags::FIN);
        }
    }

    /// Makes a FIN without data.
    pub(super) fn make_fin(&mut self, now: Time, at: usize, seq: u64, out: &mut Segment) {
        self.make(now, at, Flags::FIN.with(Flags::ACK), Some(seq), DataLevel::Ack, out);
    }

    /// Makes a probe of the peer's window: an acknowledgement with sequence number `seq`, before the window.
    /// The peer answers with its window. RFC 9293 section 3.8.6.1 describes a probe with an octet of new
    /// data; Linux probes like this, and it works at both levels because the answer carries the data
    /// acknowledgement too.
    #[cold]
    pub(super) fn make_window_probe(&mut self, now: Time, at: usize, seq: u64, out: &mut Segment) {
        self.make(now, at, Flags::ACK, Some(seq), DataLevel::Ack, out);
    }

    /// Makes an acknowledgement for an option that belongs to no segment, so that the option never displaces
    /// the data level (RFC 8684 section 3).
    #[cold]
    pub(super) fn make_signal(&mut self, now: Time, at: usize, signal: MptcpOption, out: &mut Segment) {
        self.make(now, at, Flags::ACK, None, DataLevel::Signal, out);
        out.options.push(signal);
        if out.options.wire_len() > OPTION_SPACE {
            out.options.timestamps = None;
        }
    }

    /// Makes a pure acknowledgement, with the DATA_FIN if that is due and needs its own segment.
    pub(super) fn make_ack(&mut self, now: Time, at: usize, out: &mut Segment) {
        // A data acknowledgement without news leaves its space to SACK blocks; the RFC prefers that (section
        // 3.3.2), and more than one block would not fit with it. The window applies at the data level only
        // with a data acknowledgement, so an opening window is news.
        let quiet = self.mode == Mode::Mptcp
            && self.confirmed
            && self.phase == Phase::Open
            && self.subflows[at].has_several_blocks()
            && self.advertised.is_current(&self.recv);
        let level = if quiet { DataLevel::None } else { DataLevel::Ack };
        self.compose(now, at, Flags::ACK, None, level, out);
        if self.fallback.is_failing() {
            self.fallback.write_fail(self.remote_dsn, out);
        }
    }

    /// Makes a segment that carries only the DATA_FIN.
    #[cold]
    pub(super) fn make_data_fin(&mut self, now: Time, at: usize, out: &mut Segment) {
        // Section 3.3.3: without payload, subflow sequence number 0 and length 1.
        let end = DataRange::new(self.send.written, self.send.written);
        let mut mapping = SentMapping { back: 0, len: 0, data_fin: true, checksum: 0 };
        mapping.checksum = self.checksum_of(end, 0, &mapping, &());
        let level = DataLevel::Map { data: self.send.written, ssn: 0, mapping };
        self.make(now, at, Flags::ACK, None, level, out);
    }

    /// Makes a segment that begins at the offset `seq` of its subflow, or with the next new data.
    #[inline(never)]
    fn make(
        &mut self,
        now: Time,
        at: usize,
        flags: Flags,
        seq: Option<u64>,
        level: DataLevel,
        out: &mut Segment,
    ) {
        self.compose(now, at, flags, seq, level, out);
    }

    /// [`Connection::make`], for the callers of nearly every segment: what they know is computed when they are
    /// compiled.
    #[inline(always)]
    fn compose(
        &mut self,
        now: Time,
        at: usize,
        flags: Flags,
        seq: Option<u64>,
        level: DataLevel,
        out: &mut Segment,
    ) {
        // RFC 8684 section 3.1: an acknowledgement that the listener may take for the third one carries the
        // keys.
        let keys = matches!(level, DataLevel::Ack)
            && self.keys_pending(at)
            && (self.config.repeat_keys || !self.subflows[at].has_sent_data());
        let tells =
            self.mode == Mode::Mptcp && self.keys.remote().is_some() && level.says_something() && !keys;
        let edge = match tells {
            false => Edge::Subflow,
            // Nothing is sent after the end of the stream.
            true if self.recv.finished() => Edge::EndedStream,
            true => Edge::Stream,
        };
        let (window, lag) = self.show_window(at, edge);
        self.subflows[at].write(now, self.tick, flags, seq, window, out);
        if tells {
            out.options.dss = Some(self.signal_of(level, lag));
        } else if keys {
            out.options.push(self.both_keys(None));
        }
        if !matches!(level, DataLevel::Signal) {
            self.subflows[at].add_blocks(out);
        }
    }

    /// Returns the window field of a segment sent now, and the number of bytes by which its data acknowledgement lags
    /// behind the received data.
    #[inline(always)]
    pub(super) fn show_window(&mut self, at: usize, edge: Edge) -> (u16, u64) {
        if self.recv.counts_memory() {
            self.recv.set_held_below(self.subflows.out_of_order());
        }
        let Connection { recv, advertised, subflows, config, .. } = self;
        let mss = u64::from(config.mss);
        let of_stream = matches!(edge, Edge::Stream | Edge::EndedStream);
        let (field, lag) = subflows.advertising(at).advertise(edge, |scale, most, counts_last| {
            let field = recv.offer(scale, most, mss, counts_last);
            // A small scale may advertise less than this.
            (field, if of_stream { recv.edge() - recv.nxt() } else { advertised.window() })
        });
        if of_stream && let Some(shown) = advertised.show(recv.nxt().saturating_sub(lag), recv.edge()) {
            subflows.raise_shown_window(shown);
        }
        (field, lag)
    }

    /// Returns the data sequence signal of a segment sent now (RFC 8684 section 3.3).
    #[inline(always)]
    fn signal_of(&mut self, level: DataLevel, lag: u64) -> Dss {
        let wide_dsn = self.config.dsn_width == DsnWidth::Wide;
        let offset = self.recv.ack_offset().saturating_sub(lag);
        let ack = self.remote_dsn.add(offset);
        // A peer that sends wide numbers is answered with wide ones (section 3.3.2).
        let wide_ack = wide_dsn || self.peer_wide;
        let data_ack = Some(if wide_ack { DataAck::Wide(ack) } else { DataAck::Narrow(ack.0 as u32) });
        self.advertised.on_data_ack(offset, self.recv.wanted_edge());
        let DataLevel::Map { data, ssn, mapping } = level else {
            return Dss { data_ack, mapping: None, data_fin: false };
        };
        let dsn = self.local_dsn.add(data);
        let data_fin = mapping.data_fin;
        let mapping = Some(Mapping {
            dsn: if wide_dsn { MappedDsn::Wide(dsn) } else { MappedDsn::Narrow(dsn.0 as u32) },
            ssn,
            len: mapping.len + u16::from(data_fin),
            checksum: self.checksummed.then_some(mapping.checksum),
        });
        Dss { data_ack, mapping, data_fin }
    }

    /// Returns the checksum of a new `mapping` of `range` of the local stream to the subflow's offset `ssn`.
    #[cold]
    pub(super) fn checksum_of<S: PayloadSums>(
        &self,
        range: DataRange,
        ssn: u64,
        mapping: &SentMapping,
        sums: &S,
    ) -> u16 {
        let payload = if range.is_empty() { 0 } else { sums.sum(self.id, range) };
        let len = range.len() + u64::from(mapping.data_fin);
        checksum::of_mapping(self.local_dsn.add(range.start), ssn as u32, len as u16, payload)
    }
}

/// True if a subflow that ends for this reason may be retried (RFC 8684 section 3.6).
const fn is_transient(reason: ResetReason) -> bool {
    matches!(reason, ResetReason::Unspecified | ResetReason::LackOfResources | ResetReason::BadPerformance)
}
