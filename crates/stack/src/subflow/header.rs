//! The TCP header of a subflow's segments, the options negotiated in the handshake, and signals.

use anabranch_units::Time;

use super::path_mtu::PathMtu;
use super::recovery::Recovery;
use super::recv::Receiver;
use super::signals::Signals;
use super::{Subflow, TcpState};
use crate::config::ConnectionConfig;
use crate::segment::{Flags, OPTION_SPACE, Segment, SynOptions, Timestamps};
use crate::seq::Seq;
use crate::timestamp::TimestampTick;

/// The edge that a window field gives, from the acknowledgement of the same level on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Edge {
    /// The edge of the subflow's window: the segment has no data acknowledgement.
    Subflow,
    /// The same, and the field is not scaled: the segment is a SYN.
    Syn,
    /// The edge of the stream's window: the segment has a data acknowledgement.
    Stream,
    /// The same, and nothing is sent to this side any more.
    EndedStream,
}

impl Subflow {
    /// Processes the peer's SYN or SYN/ACK; `own_scale` is the window shift offered by this side. In SYN-SENT a
    /// SYN/ACK completes the handshake of TCP, and a SYN has crossed with the local one.
    #[cold]
    pub(crate) fn on_syn(
        &mut self,
        now: Time,
        tick: TimestampTick,
        segment: &Segment,
        own_scale: u8,
        config: &ConnectionConfig,
    ) {
        self.take_syn_options(segment, own_scale, config);
        if self.state.tcp() != TcpState::SynSent {
            return;
        }
        self.on_received(now);
        if segment.flags.has(Flags::ACK) {
            self.complete_handshake(now, tick, segment);
        } else {
            self.cross_syn();
        }
    }

    fn take_syn_options(&mut self, segment: &Segment, own_scale: u8, config: &ConnectionConfig) {
        let syn =
            segment.options.syn.unwrap_or(SynOptions { mss: 536, window_scale: None, sack_permitted: false });
        // RFC 9293 section 3.7.1: the options of a segment reduce the peer's MSS.
        let space = u32::from(syn.mss).saturating_sub(config.data_options()).max(64);
        self.mss = config.mss.min(space).clamp(64, 65_000);
        let ipv4 = self.route.local().ip.is_ipv4();
        self.path_mtu = PathMtu::new(config.path_mtu, ipv4, self.mss, config.data_options());
        self.set_send_buffer(config, config.mptcp);
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
        let tolerance = self.recovery.tolerance();
        self.recv.growth.limit_by(config.receive_memory());
        let advertised = config.mss_without_mptcp(config.mss, !ipv4);
        self.recv.advertised_mss = advertised.min(u32::from(u16::MAX)) as u16;
        self.recv.growth.begin(|buffer| config.first_threshold(buffer, advertised));
        self.recovery = Recovery::new(config, self.sack, 1);
        self.recovery.tolerate(tolerance);
    }

    /// Handles that its connection has become a plain TCP: segments have space for more payload
    /// (`mptcp_established_options` has none after a fallback, so `tcp_current_mss` in net/ipv4/tcp_output.c grows), and
    /// all that the application writes belongs to this subflow.
    #[cold]
    pub(crate) fn drop_mptcp_options(&mut self, config: &ConnectionConfig) {
        let mss = config.mss_without_mptcp(self.mss, !self.route.local().ip.is_ipv4());
        self.path_mtu.add_space(mss - self.mss);
        self.mss = mss;
        self.space_bounds = false;
        self.packets.freeze = false;
    }

    /// True if an acknowledgement number acknowledges exactly the local SYN.
    #[inline]
    pub(crate) fn is_ack_of_syn(&self, segment: &Segment) -> bool {
        segment.ack == self.iss.add(1)
    }

    /// Applies the window of the segment that completes the handshake, and its round trip.
    pub(crate) fn complete_handshake(&mut self, now: Time, tick: TimestampTick, segment: &Segment) {
        self.sample_handshake(now, tick, segment);
        self.window_edge = 1 + self.scaled_window(segment);
    }

    /// Samples the round trip that ends with `segment`, the answer to a segment of the handshake. If that was sent twice or
    /// more, the echoed timestamp shows which transmission is answered (RFC 7323 section 4.1; Linux: `tcp_ack_update_rtt`
    /// for a SYN, `tcp_synack_rtt_meas` for a SYN/ACK).
    pub(crate) fn sample_handshake(&mut self, now: Time, tick: TimestampTick, segment: &Segment) {
        if let Some(sent) = self.handshake.sent_once() {
            self.rtt.sample(now.since(sent), 0, self.board.nxt());
        } else if self.handshake.attempts() > 1
            && let Some(timestamps) = segment.options.timestamps.filter(|_| self.timestamps)
            && timestamps.echo != 0
        {
            let ticks = tick.value(now).wrapping_sub(timestamps.echo);
            let age = tick.span(ticks.max(1));
            // An echo from before the first transmission does not belong to this handshake.
            if age <= self.handshake.age(now) + tick.period() {
                self.rtt.sample(age, 0, self.board.nxt());
            }
        }
    }

    /// True if an acknowledgement would have several SACK blocks.
    #[inline]
    pub(crate) fn has_several_blocks(&self) -> bool {
        self.sack && self.recv.has_several_holes()
    }

    /// Returns the maximum number of bytes that it advertises beyond those received.
    #[inline]
    pub(crate) fn offered(&self) -> u64 {
        self.recv.offered()
    }

    /// Returns the timestamps of a segment sent now, if they are used.
    #[inline]
    fn timestamps_now(&self, now: Time, tick: TimestampTick) -> Timestamps {
        Timestamps { value: tick.value(now), echo: self.ts_recent }
    }

    /// Writes a segment without payload, with no options but the timestamps. It begins at the offset `seq`, or with the
    /// next new data.
    #[inline(always)]
    pub(crate) fn write(
        &self,
        now: Time,
        tick: TimestampTick,
        flags: Flags,
        seq: Option<u64>,
        window: u16,
        out: &mut Segment,
    ) {
        out.source = self.route.local();
        out.destination = self.route.remote();
        out.seq = self.iss.add(seq.unwrap_or(self.board.nxt()));
        out.ack = if self.state.tcp() == TcpState::SynSent { Seq(0) } else { self.recv.ack() };
        out.flags = if self.ecn.echoes() { flags.with(Flags::ECE) } else { flags };
        out.window = window;
        out.payload_len = 0;
        out.payload_sum = 0;
        out.ecn = crate::segment::Ecn::NotEct;
        out.options.clear();
        if self.timestamps {
            out.options.timestamps = Some(self.timestamps_now(now, tick));
        }
    }

    /// Adds the SACK blocks for which the other options of a segment leave space.
    #[inline(always)]
    pub(crate) fn add_blocks(&mut self, out: &mut Segment) {
        if self.sack && self.recv.has_blocks() {
            self.add_some_blocks(out);
        }
    }

    #[inline(never)]
    fn add_some_blocks(&mut self, out: &mut Segment) {
        let space = OPTION_SPACE.saturating_sub(out.options.wire_len() + 4) / 8;
        out.options.sack = self.recv.blocks(space);
    }

    /// Returns the SYN, the SYN/ACK or the third ACK of a join, with the options of TCP, and counts it as sent.
    /// Its window is `window`, its shift `scale`.
    #[cold]
    pub(crate) fn handshake_segment(
        &mut self,
        now: Time,
        tick: TimestampTick,
        window: u16,
        scale: u8,
        config: &ConnectionConfig,
    ) -> Segment {
        // RFC 6298 section 2.1 for a SYN; a join's third ACK is answered within one round trip.
        let wait = self.rtt.rto(self.handshake.attempts().min(16));
        self.on_handshake_sent(now, wait);
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

    /// Advertises a window up to the `edge`. `offer` receives the shift of the window field, and the maximum number of
    /// bytes that the subflow advertises. It returns the field, and the window of the connection: the present one for the
    /// edge of the stream, otherwise the one advertised last. Returns the field to send, and the number of bytes by which
    /// the data acknowledgement of the segment has to lag (`window_held.rs`).
    #[inline(always)]
    pub(crate) fn advertise(
        &mut self,
        edge: Edge,
        offer: impl FnOnce(u8, u64, bool) -> (u16, u64),
    ) -> (u16, u64) {
        let scale = if edge == Edge::Syn { 0 } else { self.receive_scale };
        let (field, window) = offer(scale, self.recv.offered(), self.recv.counts_last());
        match edge {
            Edge::Syn | Edge::Subflow => {
                let shown = u64::from(field) << scale;
                self.window_held.show_alone(self.recv.ack(), shown.max(window));
            }
            Edge::Stream => {
                let lag = self.window_held.show(self.recv.ack(), window);
                if lag > 0 {
                    return (((window + lag) >> scale).min(u64::from(u16::MAX)) as u16, lag);
                }
            }
            Edge::EndedStream => {}
        }
        (field, 0)
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
}
