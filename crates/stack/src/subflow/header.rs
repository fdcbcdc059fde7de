//! The TCP header of a subflow's segments, the options negotiated in the handshake, and signals.

use anabranch_units::Time;

use super::path_mtu::PathMtu;
use super::recovery::Recovery;
use super::recv::Receiver;
use super::signals::Signals;
use super::{Subflow, TcpState};
use crate::config::ConnectionConfig;
use crate::segment::{Flags, MptcpOption, OPTION_SPACE, Segment, SynOptions, Timestamps};
use crate::seq::Seq;
use crate::timestamp::TimestampTick;

impl Subflow {
    /// Applies the options of the peer's SYN or SYN/ACK; `own_scale` is the window shift offered by this
    /// side.
    #[cold]
    pub(crate) fn take_syn(&mut self, segment: &Segment, own_scale: u8, config: &ConnectionConfig) {
        let syn =
            segment.options.syn.unwrap_or(SynOptions { mss: 536, window_scale: None, sack_permitted: false });
        // RFC 9293 section 3.7.1: the options of a segment reduce the peer's MSS.
        let space = u32::from(syn.mss).saturating_sub(config.data_options()).max(64);
        self.mss = config.mss.min(space).clamp(64, 65_000);
        self.path_mtu = PathMtu::new(config.path_mtu, self.route.local().ip.is_ipv4(), self.mss);
        self.sack = syn.sack_permitted && config.sack;
        self.timestamps = segment.options.timestamps.is_some() && config.timestamps;
        self.receive_scale = 0;
        self.send_scale = 0;
        if let Some(shift) = syn.window_scale {
            self.send_scale = shift.min(14);
            self.receive_scale = own_scale;
        }
        if let Some(timestamps) = segment.options.timestamps {
            self.ts_recent = timestamps.value;
        }
        self.ecn.negotiate(segment, config.ecn);
        self.recv = Receiver::new(segment.seq, config.ack, config.receive_buffer);
        let threshold = self.recovery.dup_thresh();
        self.recv.growth.limit_by(config.receive_memory());
        // A host that accepts also keeps a segment in reserve (`tcp_init_buffer_space`).
        self.recv.growth.begin_with(config.first_window(true));
        self.recovery = Recovery::new(config, self.sack, 1);
        self.recovery.set_dup_thresh(threshold);
    }

    /// True if an acknowledgement number acknowledges exactly the local SYN.
    #[inline]
    pub(crate) fn is_ack_of_syn(&self, segment: &Segment) -> bool {
        segment.ack == self.iss.add(1)
    }

    /// Applies the window of the segment that completes the handshake, and a round trip if the handshake was
    /// `timed` and was sent once.
    pub(crate) fn complete_handshake(&mut self, now: Time, segment: &Segment) {
        self.sample_handshake(now);
        self.window_edge = 1 + self.scaled_window(segment);
    }

    /// Samples the round trip of a segment of the handshake that was sent once.
    pub(crate) fn sample_handshake(&mut self, now: Time) {
        if let Some(sent) = self.handshake.sent_once() {
            self.rtt.sample(now.since(sent));
        }
    }

    /// Returns the shift of the window fields that this side sends, once negotiated.
    #[inline]
    pub(crate) fn receive_scale(&self) -> u8 {
        self.receive_scale
    }

    /// True if SACK was negotiated.
    #[inline]
    pub(crate) fn has_sack(&self) -> bool {
        self.sack
    }

    /// Returns the maximum payload of a segment.
    #[inline]
    pub(crate) fn mss(&self) -> u32 {
        self.mss
    }

    /// True if every segment has to echo a received mark, or a reduction is to be signalled with new data.
    #[inline]
    pub(crate) fn announces_reduction(&self) -> bool {
        self.ecn.has_to_say()
    }

    /// Marks a segment of new data as ECN-capable.
    #[inline]
    pub(crate) fn mark_new_data(&mut self, out: &mut Segment) {
        self.ecn.on_new_data(out);
    }

    /// Returns the timestamps of a segment sent now, if they are used.
    #[inline]
    fn timestamps_now(&self, now: Time, tick: TimestampTick) -> Timestamps {
        Timestamps { value: tick.value(now), echo: self.ts_recent }
    }

    /// Writes the header of a segment that begins at `seq`, without its window, its data level and its
    /// payload.
    #[inline]
    pub(crate) fn write_header(
        &self,
        now: Time,
        tick: TimestampTick,
        flags: Flags,
        seq: u64,
        window: u16,
        out: &mut Segment,
    ) {
        out.source = self.route.local();
        out.destination = self.route.remote();
        out.seq = self.iss.add(seq);
        out.ack = if self.state.tcp() == TcpState::SynSent { Seq(0) } else { self.recv.ack() };
        out.flags = flags;
        out.window = window;
        out.payload_len = 0;
        out.payload_sum = 0;
        out.ecn = crate::segment::Ecn::NotEct;
        if self.ecn.echoes() {
            out.flags = out.flags.with(Flags::ECE);
        }
        out.options.clear();
        if self.timestamps {
            out.options.timestamps = Some(self.timestamps_now(now, tick));
        }
    }

    /// Adds the SACK blocks for which there is space, after all other options.
    #[inline]
    pub(crate) fn write_blocks(&mut self, out: &mut Segment) {
        if self.sack && self.recv.has_blocks() {
            let space = OPTION_SPACE.saturating_sub(out.options.wire_len() + 4) / 8;
            out.options.sack = self.recv.blocks(space);
        }
    }

    /// Returns the SYN, the SYN/ACK or the third ACK of a join, with the options of TCP. Its window is `window`, its shift
    /// `scale`.
    #[cold]
    pub(crate) fn handshake_segment(
        &mut self,
        now: Time,
        tick: TimestampTick,
        window: u16,
        scale: u8,
        config: &ConnectionConfig,
    ) -> Segment {
        if self.state.tcp() == TcpState::PreEstablished {
            let mut segment =
                Segment::new(self.route.local(), self.route.remote(), self.iss.add(1), Flags::ACK);
            segment.ack = self.recv.ack();
            segment.window = window;
            if self.timestamps {
                segment.options.timestamps = Some(self.timestamps_now(now, tick));
            }
            return segment;
        }
        let answering = self.state.tcp() == TcpState::SynReceived;
        let flags = if answering { Flags::SYN.with(Flags::ACK) } else { Flags::SYN };
        let asks = config.ecn && self.handshake.attempts() == 1;
        let flags = flags.with(self.ecn.syn_flags(answering, asks));
        let mut segment = Segment::new(self.route.local(), self.route.remote(), self.iss, flags);
        segment.window = window;
        if answering {
            segment.ack = self.recv.ack();
        }
        let headers = if self.route.local().ip.is_ipv4() { 40 } else { 60 };
        let offered = |agreed: bool, own: bool| if answering { agreed } else { own };
        segment.options.syn = Some(SynOptions {
            mss: config.mtu.saturating_sub(headers).min(65_535) as u16,
            window_scale: offered(self.receive_scale > 0 || self.send_scale > 0, true).then_some(scale),
            sack_permitted: offered(self.sack, config.sack),
        });
        if offered(self.timestamps, config.timestamps) {
            segment.options.timestamps = Some(self.timestamps_now(now, tick));
        }
        segment
    }

    /// Advertises a window of `window` bytes with a data acknowledgement. Returns the number of bytes by
    /// which that has to lag (`window_held.rs`).
    #[inline]
    pub(crate) fn show_window(&mut self, window: u64) -> u64 {
        self.window_held.show(self.recv.ack(), window)
    }

    /// Advertises a window of `window` bytes without a data acknowledgement.
    #[inline]
    pub(crate) fn show_window_alone(&mut self, window: u64) {
        self.window_held.show_alone(self.recv.ack(), window);
    }

    /// Records that another subflow has advertised a window of `window` bytes.
    #[inline]
    pub(crate) fn raise_shown_window(&mut self, window: u64) {
        self.window_held.raise(window);
    }

    /// Returns the options that wait to be signalled on separate acknowledgements.
    pub(crate) fn signals(&self) -> &Signals {
        &self.signals
    }

    pub(crate) fn signals_mut(&mut self) -> &mut Signals {
        &mut self.signals
    }

    /// Returns the option to be signalled now.
    pub(crate) fn next_signal(&mut self, now: Time) -> Option<MptcpOption> {
        let timeout = self.rtt.rto(0);
        self.signals.pop(now, self.recv.ack(), timeout)
    }

    /// Counts a segment without payload.
    #[inline]
    pub(crate) fn count_control(&mut self) {
        self.counters.control_segments_sent += 1;
    }

    /// Records that a segment was made that acknowledges all received data.
    #[inline]
    pub(crate) fn on_segment_sent(&mut self, out: &Segment) {
        self.recv.on_ack_sent();
        self.signals.on_other(out.payload_len, out.ack);
    }
}
