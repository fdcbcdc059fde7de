//! Makes the segments: their windows, acknowledgements and options.

use anabranch_units::Time;

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
use crate::subflow::scoreboard::{Sent, SentMapping};
use crate::subflow::{ResetCause, TcpState};

/// What a segment says at the data level.
#[derive(Clone, Copy)]
pub(super) enum DataLevel {
    /// A mapping, and where it starts.
    Map { data: u64, ssn: u32, mapping: SentMapping },
    /// The data acknowledgement alone.
    Ack,
    /// Nothing.
    None,
    /// Nothing, and no SACK blocks: the segment is there for another option.
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
        let seq = self.subflows[at].board().nxt();
        self.make(now, at, Flags::RST.with(Flags::ACK), seq, DataLevel::Signal, out);
        // Section 3.1: after a damaged handshake no MPTCP option leaves any more.
        let first = self.phase == Phase::Opening && !self.subflows[at].is_join();
        if self.mode != Mode::Mptcp || first {
            return;
        }
        let mut say = |option| out.options.push(option);
        match (cause, self.remote_key) {
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
                say(MptcpOption::Fail(self.failed_dsn(data)))
                    && say(MptcpOption::Reset { transient: false, reason })
            }
        };
    }

    /// The SYN, SYN/ACK, or third ACK of a join that is due.
    #[cold]
    pub(super) fn make_handshake(&mut self, now: Time, at: usize) -> Segment {
        let wait = {
            let subflow = &self.subflows[at];
            // RFC 6298 section 2.1 for a SYN; a join's third ACK is answered within one round trip.
            let attempts = subflow.handshake().attempts.min(16);
            subflow.rtt().rto(attempts)
        };
        if self.subflows[at].state() == TcpState::SynSent
            && self.subflows[at].handshake().attempts >= self.config.mptcp_syns
            && !self.subflows[at].is_join()
            && !self.config.simultaneous
        {
            // RFC 8684 section 3.1: something may drop a SYN because of its option. Linux does so after
            // the same number, and speaks TCP then whatever the answer says.
            self.speak_tcp();
        }
        let scale = own_scale(self.config.receive_buffer.max().get());
        // The window of a SYN is not scaled.
        let is_syn = self.subflows[at].state() != TcpState::PreEstablished;
        let shift = if is_syn { 0 } else { self.subflows[at].receive_scale() };
        let (window, _) = self.show_window(at, shift, false);
        let capable_flags = self.capable_flags();
        let (local_key, peer_key) = (self.local_key, self.remote_key.unwrap_or(self.local_key));
        let subflow = &mut self.subflows[at];
        subflow.on_handshake_sent(now, wait);
        let mut segment = subflow.handshake_segment(now, self.tick, window, scale, &self.config);
        let nonces = (subflow.handshake().local_nonce, subflow.handshake().remote_nonce);
        let code = || crypto::join_hmac(local_key, peer_key, nonces.0, nonces.1);
        if !is_syn {
            segment.options.push(MptcpOption::Join(Join::Ack { hmac: crypto::leftmost_160(&code()) }));
            return segment;
        }
        let answering = subflow.state() == TcpState::SynReceived;
        self.fallback.answered |= answering && subflow.is_join();
        if self.mode == Mode::Plain {
            return segment;
        }
        let join = subflow.is_join() || self.config.simultaneous;
        let (backup, address_id) = (subflow.asks_backup(), subflow.address_ids().0);
        let option = match (join, answering) {
            (false, _) => MptcpOption::Capable(Capable {
                version: 1,
                flags: capable_flags,
                sender_key: answering.then_some(local_key),
                receiver_key: None,
                data_len: None,
                checksum: None,
            }),
            (true, false) => {
                MptcpOption::Join(Join::Syn { backup, address_id, token: self.remote_token, nonce: nonces.0 })
            }
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

    /// Returns a mapping from the start of the stream to the end of `range`, which is sent for the first time at `seq`, if an
    /// MP_CAPABLE carries it there. None if a DSS does.
    ///
    /// RFC 8684 section 3.1 puts the keys and a length on the first data, in place of a DSS, and allows several segments to
    /// carry the same option, as segmentation offload makes them. Here every segment sent before the keys are confirmed
    /// carries them, with a length that reaches from the start of the stream to its own end: any one of them completes
    /// the handshake of a listener that has lost the third ACK. With DSS checksums only the first segment does, because
    /// the receiver can deliver nothing before it has a whole mapping.
    pub(super) fn first_mapping(&self, at: usize, seq: u64, range: DataRange) -> Option<SentMapping> {
        let from_start = range.start + 1 == seq && (range.start == 0 || !self.checksummed);
        if !self.keys_pending(at) || !from_start {
            return None;
        }
        let (back, len) = (u16::try_from(range.start).ok()?, u16::try_from(range.end).ok()?);
        Some(SentMapping { back, len, data_fin: false, checksum: 0 })
    }

    /// The MP_CAPABLE with both keys: that of the third ACK, or with `data` that of the first data.
    fn both_keys(&self, data: Option<SentMapping>) -> MptcpOption {
        MptcpOption::Capable(Capable {
            version: 1,
            flags: self.capable_flags(),
            sender_key: Some(self.local_key),
            receiver_key: self.remote_key,
            data_len: data.map(|mapping| mapping.len),
            checksum: data.filter(|_| self.checksummed).map(|mapping| mapping.checksum),
        })
    }

    /// A data segment as the record says.
    #[inline]
    pub(super) fn make_data(&mut self, now: Time, at: usize, record: &Sent, out: &mut Segment) {
        let ssn = (record.seq - u64::from(record.mapping.back)) as u32;
        let data = record.data - u64::from(record.mapping.back);
        let mut level = DataLevel::Map { data, ssn, mapping: record.mapping };
        let mut capable = None;
        if ssn == 1 && data == 0 && self.keys_pending(at) {
            level = DataLevel::None;
            capable = Some(self.both_keys(Some(record.mapping)));
        }
        self.make(now, at, Flags::ACK, record.seq, level, out);
        out.payload_len = record.len;
        if let Some(capable) = capable {
            out.options.push(capable);
            if out.options.wire_len() > OPTION_SPACE {
                out.options.sack = SackBlocks::EMPTY;
            }
        }
        if self.mode == Mode::Plain && self.says_infinite() {
            self.say_infinite(record.seq, out);
        }
        if record.data + u64::from(record.len) == self.send.written {
            out.flags = out.flags.with(Flags::PSH);
        }
    }

    /// A pure acknowledgement, with the DATA_FIN if that is due and needs a segment of its own.
    pub(super) fn make_ack(&mut self, now: Time, at: usize, out: &mut Segment) {
        let seq = self.subflows[at].board().nxt();
        // A data acknowledgement that says nothing new leaves its room to SACK blocks; the RFC
        // prefers that (section 3.3.2), and more than one block would not fit beside it. The window
        // counts at the data level only with a data acknowledgement, so that one that opens is news.
        let subflow = &self.subflows[at];
        let quiet = self.mode == Mode::Mptcp
            && self.confirmed
            && self.phase == Phase::Open
            && (subflow.has_sack() && subflow.recv().has_several_holes())
            && self.last_data_ack_sent == self.recv.ack_offset()
            && self.last_edge_sent >= self.recv.wanted_edge();
        let level = if quiet { DataLevel::None } else { DataLevel::Ack };
        self.make(now, at, Flags::ACK, seq, level, out);
        if self.fallback.failing.is_some() {
            self.say_failing(out);
        }
    }

    /// A segment that says the DATA_FIN by itself.
    #[cold]
    pub(crate) fn make_data_fin(&mut self, now: Time, at: usize, out: &mut Segment) {
        let seq = self.subflows[at].board().nxt();
        // Section 3.3.3: without payload, subflow sequence number 0 and length 1.
        let end = DataRange::new(self.send.written, self.send.written);
        let checksum = self.checksum_of(end, 0, true, &());
        let mapping = SentMapping { back: 0, len: 0, data_fin: true, checksum };
        let level = DataLevel::Map { data: self.send.written, ssn: 0, mapping };
        self.make(now, at, Flags::ACK, seq, level, out);
    }

    #[inline]
    pub(super) fn make(
        &mut self,
        now: Time,
        at: usize,
        flags: Flags,
        seq: u64,
        level: DataLevel,
        out: &mut Segment,
    ) {
        // RFC 8684 section 3.1: an acknowledgement that the listener may take for the third one has the keys.
        let keys = matches!(level, DataLevel::Ack) && self.keys_pending(at);
        let tells = self.mode == Mode::Mptcp && self.remote_key.is_some() && level.says_something() && !keys;
        let (window, lag) = self.show_window(at, self.subflows[at].receive_scale(), tells);
        let subflow = &mut self.subflows[at];
        subflow.write_header(now, self.tick, flags, seq, window, out);
        let reports_blocks = subflow.has_blocks() && !matches!(level, DataLevel::Signal);
        if tells {
            out.options.dss = Some(self.signal_of(level, lag));
        } else if keys {
            let keys = self.both_keys(None);
            out.options.push(keys);
        }
        if reports_blocks {
            self.subflows[at].write_blocks(out);
        }
    }

    /// The window field, shifted by `scale`, of a segment that leaves now, and by how many bytes its data
    /// acknowledgement lags behind what has arrived, if it `tells` one.
    #[inline]
    pub(super) fn show_window(&mut self, at: usize, scale: u8, tells: bool) -> (u16, u64) {
        let field = self.recv.offer(scale, self.offered(at));
        if !tells {
            let shown = u64::from(field) << scale;
            self.subflows[at].show_window_alone(shown.max(self.room_told));
            return (field, 0);
        }
        // A small scale may show less than this.
        let nxt = self.recv.nxt();
        let window = self.recv.edge() - nxt;
        // Behind the end of the stream nothing is sent.
        let finished = self.recv.finished();
        let lag = if finished { 0 } else { self.subflows[at].show_window(window) };
        self.data_ack_told = self.data_ack_told.max(nxt.saturating_sub(lag));
        let room = nxt + window - self.data_ack_told;
        if room > self.room_told {
            for subflow in &mut self.subflows {
                subflow.raise_shown_window(room);
            }
        }
        self.room_told = room;
        if lag == 0 {
            return (field, 0);
        }
        (((window + lag) >> scale).min(u64::from(u16::MAX)) as u16, lag)
    }

    /// The data sequence signal of a segment that leaves now (RFC 8684 section 3.3).
    fn signal_of(&mut self, level: DataLevel, lag: u64) -> Dss {
        let wide_dsn = self.config.dsn_width == DsnWidth::Wide;
        let offset = self.recv.ack_offset().saturating_sub(lag);
        let ack = self.remote_dsn.add(offset);
        // A peer that sends wide numbers is answered in kind (section 3.3.2).
        let wide_ack = wide_dsn || self.peer_wide;
        let data_ack = Some(if wide_ack { DataAck::Wide(ack) } else { DataAck::Narrow(ack.0 as u32) });
        self.last_data_ack_sent = offset;
        self.last_edge_sent = self.recv.wanted_edge();
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

    /// The checksum of a new mapping of `range` of our stream to the subflow's offset `ssn`.
    #[cold]
    pub(super) fn checksum_of<S: PayloadSums>(
        &self,
        range: DataRange,
        ssn: u64,
        data_fin: bool,
        sums: &S,
    ) -> u16 {
        let payload = if range.is_empty() { 0 } else { sums.sum(self.id, range) };
        let len = range.len() + u64::from(data_fin);
        checksum::of_mapping(self.local_dsn.add(range.start), ssn as u32, len as u16, payload)
    }
}

/// Whether a subflow that ends for this reason may be tried again (RFC 8684 section 3.6).
const fn is_transient(reason: ResetReason) -> bool {
    matches!(reason, ResetReason::Unspecified | ResetReason::LackOfResources | ResetReason::BadPerformance)
}
