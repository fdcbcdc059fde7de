//! The sending half of a subflow: new segments, retransmissions, probes, the FIN, and pacing.

use anabranch_units::{Duration, Rate, Time};

use super::Subflow;
use super::scoreboard::{Fate, Sent, SentMapping};

/// The time at the pacing rate of the maximum that Linux hands to segmentation offload at once.
const TRAIN: Duration = Duration::from_nanos(976_563);

/// The next retransmission of a subflow.
pub(crate) enum Repair {
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
pub(crate) fn new_record(seq: u64, now: Time) -> Sent {
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
    /// True if nothing was sent for a retransmission timeout, so that the congestion window is out of date
    /// (RFC 5681 section 4.1).
    pub(crate) fn was_idle(&self, now: Time) -> bool {
        self.in_flight() == 0
            && now.since(self.last_sent) > self.rtt.rto(0)
            && self.counters.data_segments_sent > 0
            && self.board.is_empty()
    }

    /// Returns the bytes that the peer's window for this subflow admits.
    #[inline]
    pub(crate) fn window(&self) -> u64 {
        self.window_edge.saturating_sub(self.board.nxt())
    }

    /// True if pacing, regardless of the windows, delays the next transmission.
    pub(crate) fn is_paced_out(&self, now: Time) -> bool {
        self.pace_at > now && !self.recovery.force && !self.tail_probe_wanted
    }

    /// True if a tail loss probe is due.
    pub(crate) fn is_probing(&self) -> bool {
        self.tail_probe_wanted
    }

    /// Returns the next segment to retransmit.
    pub(crate) fn next_retransmission(&mut self, now: Time) -> Repair {
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
    pub(crate) fn take_tail_probe(&mut self, now: Time) -> Option<Sent> {
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
    pub(crate) fn take_fin(&mut self, now: Time) -> Option<u64> {
        if !self.state.fin_pending() || !self.queue.is_empty() {
            return None;
        }
        self.state.on_fin_sent();
        let seq = self.board.nxt();
        self.record_sent(now, Sent { fin: true, ..new_record(seq, now) });
        Some(seq)
    }

    /// Counts new data that is about to be sent: `segments` with `len` bytes from the front of the queue,
    /// including a tail loss probe or a probe of the path's MTU.
    pub(crate) fn on_new_data(
        &mut self,
        now: Time,
        len: u64,
        segments: u64,
        mtu_probe: Option<u32>,
        again: bool,
    ) {
        let seq = self.board.nxt();
        let probing = core::mem::take(&mut self.tail_probe_wanted);
        if let Some(size) = mtu_probe {
            self.path_mtu.on_probe_sent(seq, size);
        }
        if probing {
            self.counters.tail_probes += 1;
            self.recovery.on_probe(seq + len, false);
        }
        if again {
            self.counters.bytes_reinjected += len;
            self.counters.segments_reinjected += segments;
        }
        self.count_new_data(now, len, segments);
    }

    #[inline]
    pub(super) fn count_new_data(&mut self, now: Time, len: u64, segments: u64) {
        self.queue.take(len);
        self.round_sent += segments;
        self.last_new = now;
        self.counters.data_segments_sent += segments;
        self.counters.bytes_sent += len;
    }

    /// Returns the number of the `len` bytes at the front of the queue that may be sent now: a short segment at
    /// the end of the queue waits while another one is unacknowledged (`tcp_nagle_check` and
    /// `tcp_minshall_check` in net/ipv4/tcp_output.c of Linux).
    #[inline]
    pub(crate) fn without_short_end(&self, len: u64) -> u64 {
        let waits = len == self.queue.bytes() && self.short_end > self.board.una();
        if waits { len - len % u64::from(self.mss) } else { len }
    }

    /// Records that new data is sent up to the offset `end`, the last segment being a short one.
    #[inline]
    pub(crate) fn note_short_end(&mut self, end: u64) {
        self.short_end = end;
    }

    /// Records a segment that is sent for the first time.
    #[inline(always)]
    pub(crate) fn record_sent(&mut self, now: Time, mut record: Sent) {
        if self.board.is_empty() {
            self.timer_base = now;
        }
        record.stamp = self.rate.on_sent(now, self.board.in_flight());
        self.board.push(record);
    }

    /// Returns whether a new segment of `len` bytes, which is already recorded, ends a train of at least two
    /// sent together, like one packet of Linux's segmentation offload: the number that the pacing rate sends in a
    /// millisecond, at least two (`tcp_tso_autosize`). The last one has PSH, so that the receiver answers it.
    #[inline]
    pub(crate) fn train_after(
        &mut self,
        now: Time,
        len: u64,
        pacing_rate: impl FnOnce() -> Option<Rate>,
    ) -> Train {
        let goes_on = self.last_sent == now;
        self.train = if goes_on { self.train.saturating_add(1) } else { 1 };
        if self.train < 2 {
            return Train::GoesOn;
        }
        let mss = u64::from(self.mss);
        let more = self.queue.bytes() > 0 && len == mss && self.in_flight() + mss <= self.cwnd;
        let sent = (u64::from(self.train) + 1) * mss;
        let rate = || pacing_rate().unwrap_or_else(|| self.default_pacing_rate());
        if more && sent <= rate().bytes_in(TRAIN) {
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

    /// Records how much of the congestion window is used, after any segment with data was sent:
    /// congestion-window validation as in Linux, where a window limited once in a round trip is limited.
    #[inline]
    pub(crate) fn after_data(&mut self, now: Time) {
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
    }

    /// Delays the next segment by the time that `len` bytes take at the pacing rate.
    pub(crate) fn pace(&mut self, now: Time, len: u64, rate: Rate) {
        let gap = if rate.0 == 0 { Duration::ZERO } else { rate.transmission_time(len) };
        self.pace_at = self.pace_at.max(now) + gap;
    }

    /// Returns the pacing rate if the congestion control has none: as in Linux, twice the window per round
    /// trip while it is below half of the threshold, and 1.2 times otherwise.
    pub(crate) fn default_pacing_rate(&self) -> Rate {
        let Some(srtt) = self.rtt.srtt() else { return Rate(0) };
        let fast = self.ssthresh.is_none_or(|ssthresh| self.cwnd < ssthresh / 2);
        let rate = Rate::from_bytes_over(self.cwnd.max(self.in_flight()), srtt);
        Rate((rate.as_bps_f64() * if fast { 2.0 } else { 1.2 }) as u64)
    }

    /// Returns the size of the MTU probe sent in place of a segment; the first range of its queue has `front`
    /// bytes, and `unassigned` more are written.
    #[inline]
    pub(crate) fn mtu_probe(&mut self, now: Time, front: u64, unassigned: u64) -> Option<u32> {
        if !self.path_mtu.is_searching(now) {
            return None;
        }
        let calm = self.board.lost_segments() == 0 && self.board.sacked_segments() == 0;
        let size = self.path_mtu.probe_size(now, self.mss, self.cwnd, self.queue.bytes() + unassigned)?;
        (calm && front >= u64::from(size)).then_some(size)
    }

    /// Marks samples as app-limited: a sender that does not fill its window for lack of data measures itself,
    /// not the path.
    pub(crate) fn on_app_limited(&mut self) {
        if self.state.is_usable() && self.queue.is_empty() {
            let flight = self.in_flight();
            self.rate.on_app_limited(flight);
        }
    }

    /// Returns the offset of a byte that the peer has already received, which makes it answer with its window
    /// and its acknowledgement.
    pub(crate) fn take_window_probe(&mut self) -> Option<u64> {
        if !core::mem::take(&mut self.probe_wanted) || !self.state.is_synchronised() {
            return None;
        }
        self.counters.window_probes += 1;
        Some(self.board.una().saturating_sub(1))
    }
}
