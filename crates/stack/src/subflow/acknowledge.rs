//! Processing of a subflow's acknowledgements: the scoreboard, round trips, loss detection, the peer's
//! window.

use anabranch_units::{Duration, Time};

use super::Subflow;
use super::recovery::{Recovery, Verdict};
use crate::congestion::{Ack, CongestionControl, CongestionEvent};
use crate::observer::LossReason;
use crate::scheduler::RecoveryState;
use crate::segment::{Flags, Segment};
use crate::seq::{DataRange, Seq, offset_near};
use crate::timestamp::TimestampTick;

/// The weight of the last round trip in the loss estimate.
const LOSS_GAIN: f64 = 1.0 / 8.0;

/// The results of an acknowledgement.
#[derive(Default)]
pub(crate) struct Acked {
    pub(crate) advanced: u64,
    pub(crate) acked_bytes: u64,
    pub(crate) acked_segments: u32,
    pub(crate) lost_bytes: u64,
    pub(crate) lost_segments: u32,
    pub(crate) rtt: Option<Duration>,
    /// The relative one-way delay, in microseconds, of the newest segment newly acknowledged.
    pub(crate) one_way_delay_us: Option<i64>,
    pub(crate) round_start: bool,
    /// The start of the lowest segment marked lost; valid with `lost_segments`.
    pub(crate) first_lost: u64,
    pub(crate) verdict: Verdict,
    /// True if fast recovery was in progress when it arrived.
    pub(crate) was_recovering: bool,
    pub(crate) flight_before: u64,
    pub(crate) recover_bytes: u64,
    /// True if it echoes a congestion mark.
    pub(crate) echo: bool,
    /// True if the local FIN is acknowledged; valid with `advanced`.
    pub(crate) fin_acked: bool,
}

/// The outcome of an acknowledgement for its subflow.
pub(crate) enum AckOutcome {
    /// It acknowledges data never sent, or is older than anything that can be in flight: a challenge is due.
    Unacceptable,
    /// Nothing is in flight that it could acknowledge, and the peer's window has not grown.
    Idle,
    /// Nothing is in flight that it could acknowledge, and the peer's window has grown.
    WindowGrown,
    Applied(Acked),
}

impl Subflow {
    /// Processes the acknowledgement number, window and SACK blocks of a segment (RFC 9293 section 3.10.7.4,
    /// fifth). `lost` receives the data that is now marked lost.
    #[inline]
    pub(crate) fn acknowledge(
        &mut self,
        now: Time,
        tick: TimestampTick,
        segment: &Segment,
        lost: impl FnMut(DataRange, LossReason),
    ) -> AckOutcome {
        let ack = self.ack_offset(segment);
        if ack > self.board.nxt() as i64 {
            // Never sent (RFC 9293 section 3.10.7.4).
            return AckOutcome::Unacceptable;
        }
        if ack < 0 || (ack as u64) < self.board.una().saturating_sub(self.max_window) {
            // Older than anything that can be in flight (RFC 5961 section 5.2).
            return AckOutcome::Unacceptable;
        }
        let ack = ack as u64;
        let window_moved = self.update_window(segment, ack);
        // A later report of a duplicate may still show that a probe or a recovery was spurious.
        let reports_duplicates = self.sack && !segment.options.sack.is_empty();
        if self.board.is_empty() && !reports_duplicates {
            return if window_moved { AckOutcome::WindowGrown } else { AckOutcome::Idle };
        }
        let mut acked = self.apply_ack(now, tick, segment, ack, window_moved, lost);
        if acked.lost_segments > 0
            && self.excuses_loss(now, acked.first_lost, acked.lost_segments, acked.verdict.entered)
        {
            acked.verdict.entered = false;
            acked.lost_bytes = 0;
        }
        if acked.advanced > 0 {
            self.after_advance(now, &mut acked);
        }
        self.counters.undos += u64::from(acked.verdict.undone);
        self.buffer_checked = false;
        AckOutcome::Applied(acked)
    }

    /// Records the window of a segment that acknowledges everything before `ack`. Returns true if its right edge has
    /// moved.
    #[inline(always)]
    pub(super) fn update_window(&mut self, segment: &Segment, ack: u64) -> bool {
        let window = self.scaled_window(segment);
        self.max_window = self.max_window.max(window);
        let moved = ack + window > self.window_edge;
        if moved {
            self.window_edge = ack + window;
        }
        moved
    }

    /// Updates the state after an acknowledgement of more than before.
    #[inline(always)]
    pub(super) fn after_advance(&mut self, now: Time, acked: &mut Acked) {
        if let Some(passed) = self.path_mtu.on_acked(now, self.board.una()) {
            self.mss = passed;
        }
        if self.recovery.restarts_timer() {
            self.timer_base = now;
        }
        acked.fin_acked = self.fin_acked();
        self.counters.bytes_acked += acked.advanced - u64::from(acked.fin_acked);
    }

    /// Informs the congestion control of the results of an acknowledgement. Its window is to be read after that.
    // Inlined with its callees: the fast path knows most of the results.
    #[inline(always)]
    pub(crate) fn inform<C: CongestionControl>(&mut self, now: Time, acked: &Acked, congestion: &mut C) {
        let (id, verdict) = (self.id, acked.verdict);
        if verdict.undone {
            congestion.on_undo(id, now);
        }
        if let Some(event) = self.reduction(now, acked) {
            congestion.on_congestion(id, &event);
            if verdict.probe_repaired {
                congestion.on_recovered(id, now);
            }
        }
        if let Some(ack) = self.congestion_ack(now, acked) {
            congestion.on_ack(id, &ack);
        }
        if verdict.ended && !verdict.undone && acked.was_recovering {
            congestion.on_recovered(id, now);
        }
    }

    /// Returns the congestion event caused by an acknowledgement, if any, and records that the window is
    /// reduced for it.
    #[inline(always)]
    fn reduction(&mut self, now: Time, acked: &Acked) -> Option<CongestionEvent> {
        let lost = acked.verdict.entered || acked.verdict.probe_repaired;
        // A window of data is reduced once, whatever shows the congestion (RFC 3168 section 6.1.2).
        let reduced = self.ecn.has_reduced(self.board.una());
        let marked = acked.echo && !reduced && self.recovery.state() == RecoveryState::Open;
        if !lost && !marked {
            return None;
        }
        self.counters.recoveries += u64::from(acked.verdict.entered);
        self.counters.ecn_reductions += u64::from(!lost);
        self.ecn.on_reduced(self.board.nxt());
        Some(CongestionEvent {
            now,
            flight_bytes: acked.flight_before,
            recover_bytes: acked.recover_bytes,
            ecn: !lost,
            reduced,
        })
    }

    /// Returns the congestion control's view of an acknowledgement, if it acknowledges anything or a recovery
    /// is in progress; closes the sample of the delivery rate.
    #[inline(always)]
    fn congestion_ack(&mut self, now: Time, acked: &Acked) -> Option<Ack> {
        let recovering = self.recovery.state() == RecoveryState::Recovery;
        if acked.acked_bytes == 0 && !recovering {
            return None;
        }
        // The acknowledgement that ends a recovery does not open the window yet.
        let in_recovery = recovering || (acked.was_recovering && !acked.verdict.undone);
        let min_rtt = self.rtt.min().unwrap_or(Duration::ZERO);
        let (delivery, loss) = (self.rate.delivery(), self.rate.take_loss());
        let rate = self.rate.finish(min_rtt);
        Some(Ack {
            now,
            acked_bytes: acked.acked_bytes,
            acked_segments: acked.acked_segments,
            lost_bytes: acked.lost_bytes,
            rtt: acked.rtt,
            srtt: self.rtt.srtt_or_zero(),
            min_rtt,
            one_way_delay_us: acked.one_way_delay_us,
            delivery_rate: rate.map(|sample| sample.rate),
            delivery,
            loss,
            app_limited: rate.is_some_and(|sample| sample.app_limited),
            cwnd_limited: self.is_cwnd_limited(),
            ce: acked.echo,
            inflight_bytes: self.in_flight(),
            in_recovery,
            una_advanced: acked.advanced > 0,
            expects_reordering: self.recovery.expects_reordering(u64::from(self.mss)),
            round_start: acked.round_start,
        })
    }

    /// Runs loss detection after an acknowledgement was applied.
    #[inline(never)]
    pub(super) fn judge(
        &mut self,
        now: Time,
        acked: &mut Acked,
        duplicate: bool,
        dsack_undo: bool,
        echo_before: impl Fn(Time) -> bool,
        mut on_lost: impl FnMut(DataRange, LossReason),
    ) {
        let Subflow { board, rate, recovery, .. } = self;
        let mss = u64::from(self.mss);
        let mut lost_bytes = 0;
        let mut lost_segments = 0;
        let mut first_lost = u64::MAX;
        let reason = if self.sack { LossReason::Rack } else { LossReason::DuplicateAcks };
        acked.verdict = recovery.on_ack(
            now,
            board,
            &self.rtt,
            mss,
            acked.advanced,
            duplicate,
            dsack_undo,
            echo_before,
            |record| {
                lost_bytes += record.space();
                lost_segments += 1;
                first_lost = first_lost.min(record.seq);
                rate.on_lost(record.seq, record.space(), &record.stamp);
                on_lost(record.range(), reason);
            },
        );
        self.counters.segments_lost += u64::from(lost_segments);
        self.round_lost += u64::from(lost_segments);
        acked.lost_bytes = lost_bytes;
        acked.lost_segments = lost_segments;
        acked.first_lost = first_lost;
    }

    /// Records whether a round trip has ended.
    #[inline]
    pub(super) fn note_round(&mut self, acked: &mut Acked) {
        if self.board.una() >= self.round_end {
            acked.round_start = true;
            self.round_end = self.board.nxt().max(self.board.una() + 1);
            if self.round_sent > 0 {
                let share = (self.round_lost as f64 / self.round_sent as f64).min(1.0);
                self.loss_rate += LOSS_GAIN * (share - self.loss_rate);
                self.round_sent = 0;
                self.round_lost = 0;
            }
        }
    }

    /// Applies an acknowledgement to the scoreboard and the recovery.
    #[inline(never)]
    fn apply_ack(
        &mut self,
        now: Time,
        tick: TimestampTick,
        segment: &Segment,
        ack: u64,
        window_moved: bool,
        on_lost: impl FnMut(DataRange, LossReason),
    ) -> Acked {
        let was_recovering = self.recovery.state() == RecoveryState::Recovery;
        let mut acked = Acked { was_recovering, echo: self.ecn.is_told(segment), ..Acked::default() };
        let una_before = self.board.una();
        let sacked_before = self.board.sacked_bytes();
        acked.flight_before = (self.board.nxt() - una_before).max(self.board.in_flight());
        acked.recover_bytes = (self.board.nxt() - una_before).saturating_sub(sacked_before);
        let min_rtt = self.rtt.min().unwrap_or(Duration::ZERO);
        let echo = segment.options.timestamps.filter(|_| self.timestamps).map(|timestamps| timestamps.echo);
        // True if the acknowledgement answers something sent before a given time.
        let echo_before =
            |when: Time| echo.is_some_and(|echo| (echo.wrapping_sub(tick.value(when)) as i32) < 0);
        let echoes = |when: Time| echo == Some(tick.value(when));

        let Subflow { board, rate, recovery, .. } = self;
        // Round trips of segments sent once: of the oldest newly acknowledged segment (which a delayed
        // acknowledgement lengthens, as the timeout must include the delay) and of the newest.
        let (mut oldest, mut newest, mut ambiguous) = (None, None, false);
        // The transmission time of the first retransmission with the timestamp that the acknowledgement echoes.
        let mut answered = None;
        let mut acked_segments = 0;
        let mut acked_bytes = 0;
        // The original of the first segment has arrived, rather than its retransmission: then retransmissions
        // of the segments after it do not count as delivered either.
        let mut original = false;
        board.acknowledge(ack, |record, bytes| {
            original |= Recovery::answers_original(record, una_before, echo_before);
            acked_bytes += bytes;
            acked_segments += 1;
            if record.retransmitted() {
                ambiguous = true;
                if echoes(record.sent) {
                    answered.get_or_insert(record.sent);
                }
            } else {
                oldest.get_or_insert(record.sent);
                newest = Some(record.sent);
            }
            rate.on_delivered(now, bytes, record.sent, &record.stamp);
            recovery.on_delivered(now, record, min_rtt, original);
        });
        acked.advanced = board.una() - una_before;
        let mut sample = oldest.filter(|_| !ambiguous).map(|sent| now.since(sent));
        let latest = newest.map(|sent| now.since(sent));

        let mut newly = AckedNow { bytes: acked_bytes, segments: acked_segments, latest, first_sacked: None };
        let mut dsack_undo = false;
        if self.sack && !segment.options.sack.is_empty() {
            let blocks = segment.options.sack.as_slice();
            dsack_undo = self.apply_blocks(now, blocks, ack, min_rtt, &mut newly);
            if self.rtt.counts_sacked() {
                // Otherwise a recovery has no sample while the queue is longest.
                sample = sample.or(newly.first_sacked);
                if acked.advanced == 0 && self.shows_progress(now, newly.first_sacked) {
                    self.timer_base = now;
                }
            }
        }
        let Subflow { board, recovery, .. } = self;
        if let Some(timestamps) = segment.options.timestamps.filter(|_| self.timestamps) {
            // The relative one-way delay: the peer's clock minus the local clock at the transmission of the
            // newest segment now known to have arrived. The echoed timestamp is from an older segment while
            // one is missing, and from the first if an acknowledgement has waited for a second segment. An
            // acknowledgement of a single segment in order may have waited for a timer.
            if let Some(age) = newly.latest.filter(|_| newly.segments > 1 || !segment.options.sack.is_empty())
            {
                acked.one_way_delay_us = Some(one_way_delay_us(tick, timestamps.value, now - age));
                self.one_way_delay_us = acked.one_way_delay_us;
            }
            if sample.is_none() && acked.advanced > 0 && timestamps.echo != 0 {
                let age = tick.value(now).wrapping_sub(timestamps.echo);
                if age < 1 << 31 {
                    let answered = answered.or(newest.filter(|&sent| echoes(sent)));
                    // The local clock is more precise than the echo. Of a segment that was sent twice within a tick,
                    // both transmissions have the echoed time.
                    let exact = answered.map(|sent| now.since(sent)).filter(|&rtt| rtt >= tick.period());
                    sample = exact.or(Some(match tick {
                        TimestampTick::Microsecond => tick.span(age),
                        // A sample that may be up to a tick too short is no new minimum.
                        TimestampTick::Millisecond { .. } => tick.span(age.max(1)).max(min_rtt),
                    }));
                }
            }
        }
        if let Some(rtt) = sample {
            self.rtt.sample(rtt, board.una(), board.nxt());
            self.rtt.note_transmission(Time(now.0.saturating_sub(rtt.0)));
            recovery.on_rtt_sample();
        }
        acked.rtt = newly.latest.or(sample);

        let duplicate = acked.advanced == 0
            && segment.payload_len == 0
            && !window_moved
            && !segment.flags.has(Flags::FIN)
            && ack == board.una()
            && !board.is_empty()
            // RFC 8684 section 3: an acknowledgement with a signal is no sign of loss.
            && segment.options.mptcp[0].is_none();
        self.judge(now, &mut acked, duplicate, dsack_undo, echo_before, on_lost);
        if duplicate && !self.sack && self.recovery.state() == RecoveryState::Recovery {
            newly.bytes += u64::from(self.mss);
            newly.segments += 1;
        }
        acked.acked_bytes = newly.bytes;
        acked.acked_segments = newly.segments;
        self.note_round(&mut acked);
        acked
    }

    /// True if the first segment of those newly acknowledged selectively, with the round trip `first`, was sent before the
    /// last transmission of the head: then the head may still be acknowledged, and the retransmission timer restarts.
    /// Data sent after the head does not restart it, otherwise the timeout would be deferred as long as there is new
    /// data (`tcp_clean_rtx_queue` in net/ipv4/tcp_input.c of Linux 6.18).
    fn shows_progress(&self, now: Time, first: Option<Duration>) -> bool {
        let head = self.board.records().front();
        let earlier = || first.zip(head).is_some_and(|(rtt, head)| rtt > now.since(head.sent));
        earlier() && self.recovery.restarts_timer()
    }

    /// Applies the SACK blocks of an acknowledgement of everything before `ack`. Returns true if they show
    /// that no retransmission of the last reduction was necessary.
    // A separate function, as most acknowledgements have no blocks.
    #[inline(never)]
    fn apply_blocks(
        &mut self,
        now: Time,
        blocks: &[(Seq, Seq)],
        ack: u64,
        min_rtt: Duration,
        newly: &mut AckedNow,
    ) -> bool {
        let Subflow { board, rate, recovery, known_blocks, iss, .. } = self;
        let mut dsack_undo = false;
        // In the order of the sequence space: a block applied after a higher one of the same acknowledgement
        // would be taken for reordering (RFC 8985 section 6.2, step 3).
        let mut order = [0, 1, 2, 3];
        let order = &mut order[..blocks.len().min(4)];
        order.sort_unstable_by_key(|&index| offset_near(*iss, board.una(), blocks[index].0));
        for &index in order.iter() {
            let (left, right) = blocks[index];
            let start = offset_near(*iss, board.una(), left);
            let end = offset_near(*iss, board.una(), right);
            // Offset 0 is the SYN, which no block can contain.
            if start < 1 || end <= start || end as u64 > board.nxt() {
                continue;
            }
            let (start, end) = (start as u64, end as u64);
            // RFC 2883: the first block is below the acknowledgement, or inside the second.
            let holds_first = |&(left, right): &(Seq, Seq)| {
                offset_near(*iss, board.una(), left) <= start as i64
                    && offset_near(*iss, board.una(), right) >= end as i64
            };
            if index == 0 && (end <= ack || blocks.get(1).is_some_and(holds_first)) {
                dsack_undo |= recovery.on_dsack(board, end);
                continue;
            }
            if end <= board.una() {
                continue;
            }
            let known = known_blocks
                .iter()
                .filter(|&&(s, e)| s <= start && e > start && e <= end)
                .map(|&(_, e)| e)
                .max()
                .unwrap_or(0);
            board.sack(start, end, known, |record| {
                newly.bytes += record.space();
                newly.segments += 1;
                if !record.retransmitted() {
                    let rtt = now.since(record.sent);
                    newly.latest = Some(rtt);
                    newly.first_sacked.get_or_insert(rtt);
                }
                rate.on_delivered(now, record.space(), record.sent, &record.stamp);
                // The echo is the timestamp of the last segment in order.
                recovery.on_delivered(now, record, min_rtt, false);
            });
            let slot =
                known_blocks.iter().position(|&(s, e)| s <= start && e >= start).unwrap_or(index.min(3));
            known_blocks[slot] = (start, end);
        }
        dsack_undo
    }
}

/// Returns the peer's clock by its timestamp minus the local clock at the transmission of the segment that is
/// now known to have arrived.
#[inline]
pub(super) fn one_way_delay_us(tick: TimestampTick, theirs: u32, sent: Time) -> i64 {
    i64::from(theirs.wrapping_sub(tick.value(sent)) as i32) * tick.period().as_micros() as i64
}

/// The newly acknowledged data of an acknowledgement.
struct AckedNow {
    bytes: u64,
    segments: u32,
    /// The round trip of the newest segment that was sent once.
    latest: Option<Duration>,
    /// The round trip of the first segment that was sent once and is acknowledged selectively.
    first_sacked: Option<Duration>,
}
