//! The sending half of a subflow: retransmissions, probes, the FIN, the records of what is sent, and pacing.

use anabranch_units::{Duration, Rate, Time};

use super::Subflow;
use super::scoreboard::{Fate, Sent, SentMapping};
use super::transmit::{NewData, SendContext};
use crate::congestion::CongestionControl;
use crate::scheduler::RecoveryState;

/// The time at the pacing rate of the maximum that Linux hands to segmentation offload at once.
const TRAIN: Duration = Duration::from_nanos(976_563);

/// The next retransmission of a subflow.
pub(super) enum Repair {
    /// Nothing is lost.
    Nothing,
    /// The congestion window does not admit it yet.
    Blocked,
    /// This segment, which counts as sent.
    Send(Sent),
}

/// Whether segments sent together continue after one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Train {
    GoesOn,
    /// The segment is the last one, which has PSH.
    Ends,
}

/// Returns the record of a segment that begins at `seq` and is sent now for the first time.
#[inline]
pub(super) fn new_record(seq: u64, now: Time) -> Sent {
    Sent {
        seq,
        len: 0,
        transmissions: 1,
        fin: false,
        fate: Fate::InFlight,
        data: 0,
        mapping: SentMapping::default(),
        sent: now,
        stamp: super::rate::SendStamp::default(),
    }
}

impl Subflow {
    /// Records each of the segments sent as `whole`, because single segments are lost and acknowledged. They
    /// share one mapping.
    #[cold]
    pub(super) fn record_burst<C: CongestionControl>(
        &mut self,
        whole: &Sent,
        context: &SendContext,
        congestion: &mut C,
    ) {
        let mut back = 0;
        while back < whole.len {
            let len = self.mss.min(whole.len - back);
            let record = Sent {
                seq: whole.seq + u64::from(back),
                len,
                data: whole.data + u64::from(back),
                mapping: SentMapping { back: whole.mapping.back + back as u16, ..whole.mapping },
                fin: whole.fin && back + len == whole.len,
                ..*whole
            };
            self.record_sent(context.now, record);
            self.after_data(context.now, u64::from(len), context.paces, congestion);
            back += len;
        }
    }

    /// True if nothing was sent for a retransmission timeout, so that the congestion window is out of date
    /// (RFC 5681 section 4.1).
    pub(super) fn was_idle(&self, now: Time) -> bool {
        self.in_flight() == 0
            && now.since(self.last_sent) > self.rtt.rto(0)
            && self.counters.data_segments_sent > 0
            && self.board.is_empty()
    }

    /// Returns the number of whole retransmission timeouts since the last transmission.
    #[cold]
    pub(super) fn idle_timeouts(&self, now: Time) -> u32 {
        let (idle, timeout) = (now.since(self.last_sent), self.rtt.rto(0).max(Duration(1)));
        u32::try_from(idle.0.saturating_sub(1) / timeout.0).unwrap_or(u32::MAX)
    }

    /// Returns the bytes that the peer's window for this subflow admits.
    #[inline]
    pub(super) fn window(&self) -> u64 {
        self.window_edge.saturating_sub(self.board.nxt())
    }

    /// True if pacing, regardless of the windows, delays the next transmission.
    pub(super) fn is_paced_out(&self, now: Time) -> bool {
        self.pace_at > now && !self.recovery.force && !self.tail_probe_wanted
    }

    /// Returns the next segment to retransmit.
    pub(super) fn next_retransmission(&mut self, now: Time) -> Repair {
        let Some(lost) = self.board.next_lost() else { return Repair::Nothing };
        self.board.split(lost, self.mss);
        let record = self.board.records()[lost];
        if !self.recovery.force && self.in_flight() + record.space() > self.cwnd {
            return Repair::Blocked;
        }
        self.recovery.force = false;
        Repair::Send(self.retransmit(now, lost))
    }

    /// Returns the last segment, to be retransmitted as a tail loss probe if one is due and there is no new
    /// data (RFC 8985 section 7.3).
    pub(super) fn take_tail_probe(&mut self, now: Time) -> Option<Sent> {
        if !core::mem::take(&mut self.tail_probe_wanted) || self.board.is_empty() {
            return None;
        }
        let last = self.board.records().len() - 1;
        if self.board.records()[last].is_sacked() {
            return None;
        }
        self.counters.tail_probes += 1;
        let end = self.board.nxt();
        self.recovery.on_probe(end, true);
        self.board.split(last, self.mss);
        Some(self.retransmit(now, last))
    }

    /// Sends the FIN, if it is due. Returns its offset.
    pub(super) fn take_fin(&mut self, now: Time) -> Option<u64> {
        if !self.state.fin_pending() || !self.queue.is_empty() {
            return None;
        }
        self.state.on_fin_sent();
        let seq = self.board.nxt();
        self.record_sent(now, Sent { fin: true, ..new_record(seq, now) });
        Some(seq)
    }

    /// Counts new data that is about to be sent from the front of the queue, including a tail loss probe or a
    /// probe of the path's MTU.
    pub(super) fn on_new_data(&mut self, now: Time, new: &NewData) {
        let len = new.range.len();
        let segments = if new.segment_size > 0 { len.div_ceil(u64::from(new.segment_size)) } else { 1 };
        let probing = core::mem::take(&mut self.tail_probe_wanted);
        if let Some(size) = new.mtu_probe {
            self.path_mtu.on_probe_sent(new.seq, size);
        }
        if probing {
            self.counters.tail_probes += 1;
            self.recovery.on_probe(new.seq + len, false);
        }
        if new.again {
            self.counters.bytes_reinjected += len;
            self.counters.segments_reinjected += segments;
        }
        self.count_new_data(now, len, segments);
    }

    #[inline]
    pub(super) fn count_new_data(&mut self, now: Time, len: u64, segments: u64) {
        if let Some(next) = self.queue.take(len) {
            self.packets.from = next as u32;
        }
        self.round_sent += segments;
        self.last_new = now;
        self.counters.data_segments_sent += segments;
        self.counters.bytes_sent += len;
    }

    /// Returns the number of the `len` bytes at the front of the queue that may be sent now: a short segment at
    /// the end of the queue waits while another one is unacknowledged (`tcp_nagle_check` and
    /// `tcp_minshall_check` in net/ipv4/tcp_output.c of Linux).
    #[inline]
    pub(super) fn without_short_end(&self, len: u64) -> u64 {
        let waits = len == self.queue.bytes() && self.short_end > self.board.una();
        if waits { len - len % u64::from(self.mss) } else { len }
    }

    /// Records a segment that is sent for the first time.
    #[inline(always)]
    pub(super) fn record_sent(&mut self, now: Time, mut record: Sent) {
        if self.board.is_empty() {
            self.timer_base = now;
        }
        record.stamp = self.rate.on_sent(now, self.board.in_flight());
        self.board.push(record);
    }

    /// Returns whether a new segment of `len` bytes, which is already recorded, ends a train of at least two
    /// sent together, like one packet of Linux's segmentation offload: the number that the pacing rate sends in a
    /// millisecond, at least two (`tcp_tso_autosize`). The last one has PSH, so that the receiver answers it.
    #[inline(always)]
    pub(super) fn train_after<C: CongestionControl>(&mut self, now: Time, len: u64, congestion: &C) -> Train {
        let goes_on = self.last_sent == now;
        self.train = if goes_on { self.train.saturating_add(1) } else { 1 };
        if self.train < 2 {
            return Train::GoesOn;
        }
        let mss = u64::from(self.mss);
        let more = self.queue.bytes() > 0 && len == mss && self.in_flight() + mss <= self.cwnd;
        let sent = (u64::from(self.train) + 1) * mss;
        if more && sent <= self.pacing_rate(congestion).bytes_in(TRAIN) {
            return Train::GoesOn;
        }
        self.train = 0;
        Train::Ends
    }

    fn retransmit(&mut self, now: Time, index: usize) -> Sent {
        let stamp = self.rate.on_sent(now, self.board.in_flight());
        self.board.retransmit(index, now, stamp);
        let record = self.board.records()[index];
        self.recovery.on_retransmit(now, &self.board, record.seq);
        if self.recovery.restarts_timer() {
            self.timer_base = now;
        }
        if record.len > 0 {
            self.round_sent += 1;
            self.counters.data_segments_sent += 1;
            self.counters.segments_retransmitted += 1;
            self.counters.bytes_sent += u64::from(record.len);
        }
        record
    }

    /// True if the window limits the sender (`tcp_is_cwnd_limited`): in slow start, if more than half of it is used.
    #[inline(always)]
    pub(super) fn is_cwnd_limited(&self) -> bool {
        let slow_start = self.ssthresh.is_none_or(|threshold| self.cwnd < threshold);
        self.cwnd_limited || (slow_start && self.cwnd < 2 * self.max_in_flight)
    }

    /// Informs the congestion control that the window was not filled for a retransmission timeout, unless the application
    /// waits for space (`tcp_cwnd_application_limited`).
    #[cold]
    pub(super) fn lower_unused<C: CongestionControl>(
        &mut self,
        now: Time,
        blocked: bool,
        congestion: &mut C,
    ) {
        self.underused = false;
        self.window_filled = self.last_sent;
        if !blocked && self.recovery.state() == RecoveryState::Open && self.board.sacked_segments() == 0 {
            congestion.on_underused(self.id, now, self.window_used);
            self.refresh_window(congestion);
            self.window_used = 0;
        }
    }

    /// Updates congestion control, validation and pacing after any segment with data was sent: congestion-window
    /// validation as in Linux, where a window limited once in a round trip is limited.
    #[inline(always)]
    pub(super) fn after_data<C: CongestionControl>(
        &mut self,
        now: Time,
        len: u64,
        paces: bool,
        congestion: &mut C,
    ) {
        congestion.on_sent(self.id, now, len);
        let in_flight = self.in_flight();
        let limited = in_flight + u64::from(self.mss) > self.cwnd;
        if self.board.una() >= self.usage_seq
            || limited
            || (!self.cwnd_limited && in_flight > self.max_in_flight)
        {
            self.cwnd_limited = limited;
            self.max_in_flight = in_flight;
            self.usage_seq = self.board.nxt();
        }
        self.last_sent = now;
        // `tcp_cwnd_validate` in net/ipv4/tcp_output.c of Linux 6.18.
        if self.is_cwnd_limited() {
            (self.window_used, self.window_filled, self.underused) = (0, now, false);
        } else {
            self.window_used = self.window_used.max(in_flight);
            self.underused = now.since(self.window_filled) >= self.rtt.rto(0);
        }
        if paces {
            let rate = self.pacing_rate(congestion);
            let gap = if rate.0 == 0 { Duration::ZERO } else { rate.transmission_time(len) };
            self.pace_at = self.pace_at.max(now) + gap;
        }
    }

    /// Returns the pacing rate: the congestion control's, or else a default from the window and the RTT.
    pub(super) fn pacing_rate<C: CongestionControl>(&self, congestion: &C) -> Rate {
        congestion.pacing_rate(self.id).unwrap_or_else(|| self.default_pacing_rate())
    }

    /// Returns the pacing rate if the congestion control has none: as in Linux, twice the window per round
    /// trip while it is below half of the threshold, and 1.2 times otherwise.
    fn default_pacing_rate(&self) -> Rate {
        let Some(srtt) = self.rtt.srtt() else { return Rate(0) };
        let fast = self.ssthresh.is_none_or(|ssthresh| self.cwnd < ssthresh / 2);
        let rate = Rate::from_bytes_over(self.cwnd.max(self.in_flight()), srtt);
        Rate((rate.as_bps_f64() * if fast { 2.0 } else { 1.2 }) as u64)
    }

    /// Returns the size of the MTU probe sent in place of a segment; the first range of its queue has `front`
    /// bytes, and `unassigned` more are written.
    #[inline]
    pub(super) fn mtu_probe(&mut self, now: Time, front: u64, unassigned: u64) -> Option<u32> {
        if !self.path_mtu.is_searching(now) {
            return None;
        }
        let calm = self.board.lost_segments() == 0 && self.board.sacked_segments() == 0;
        let size = self.path_mtu.probe_size(now, self.mss, self.cwnd, self.queue.bytes() + unassigned)?;
        (calm && front >= u64::from(size)).then_some(size)
    }

    /// Marks samples as app-limited if less than a segment is queued, nothing is to be retransmitted, and the window
    /// admits more: such a sender measures its application, or its scheduler, and not the path.
    // draft-cheng-iccrg-delivery-rate-estimation section 3.4; `tcp_rate_check_app_limited` in net/ipv4/tcp.c of Linux 6.18
    // has the same conditions, and asks each subflow.
    #[inline]
    pub(crate) fn check_drained(&mut self) {
        let (mss, flight) = (u64::from(self.mss), self.in_flight());
        let drained = self.state.is_usable()
            && self.queue.bytes() < mss
            && flight + mss <= self.cwnd
            && self.board.lost_segments() == 0;
        if drained {
            self.rate.on_app_limited(flight);
        }
    }

    /// Returns the offset of a byte that the peer has already received, which makes it answer with its window
    /// and its acknowledgement.
    pub(super) fn take_window_probe(&mut self) -> Option<u64> {
        if !core::mem::take(&mut self.probe_wanted) || !self.state.is_synchronised() {
            return None;
        }
        self.counters.window_probes += 1;
        Some(self.board.una().saturating_sub(1))
    }
}
