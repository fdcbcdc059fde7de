//! Acts on acknowledgements: of the subflow, and of the data level.

use anabranch_units::{Duration, Time};

use super::{Connection, Mode};
use crate::congestion::{Ack, CongestionControl, CongestionEvent};
use crate::event::{Event, SubflowSet};
use crate::observer::{LossReason, Observer};
use crate::scheduler::{RecoveryState, SchedulerEvent};
use crate::segment::{Flags, Segment};
use crate::seq::{DataRange, Seq, offset_near};
use crate::subflow::recovery::{Recovery, Verdict};
use crate::subflow::{Subflow, TcpState};
use crate::timestamp::TimestampTick;

/// How fast the loss estimate follows: the weight of the last round trip.
const LOSS_GAIN: f64 = 1.0 / 8.0;

/// What an acknowledgement has told, before the congestion control hears of it.
#[derive(Default)]
struct Told {
    advanced: u64,
    acked_bytes: u64,
    acked_segments: u32,
    lost_bytes: u64,
    lost_segments: u32,
    rtt: Option<Duration>,
    /// Relative, in microseconds, of the newest of what it has newly acknowledged.
    one_way_delay_us: Option<i64>,
    round_start: bool,
    /// Where the lowest segment begins that was taken for lost; meaningful with `lost_segments`.
    first_lost: u64,
    verdict: Verdict,
    /// Fast recovery was under way when it came.
    was_recovering: bool,
    flight_before: u64,
    recover_bytes: u64,
    /// It echoes a congestion mark.
    echo: bool,
}

impl Connection {
    /// The subflow's acknowledgement. False if the segment is not to be processed further.
    pub(crate) fn process_ack<O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        observer: &mut O,
    ) -> bool {
        let subflow = &mut self.subflows[at];
        let ack = subflow.ack_offset(segment);
        if ack > subflow.board.nxt() as i64 {
            // Never sent (RFC 9293 section 3.10.7.4).
            self.challenge(now, at);
            return false;
        }
        if ack < 0 || (ack as u64) < subflow.board.una().saturating_sub(subflow.max_window) {
            // Older than anything that can be under way (RFC 5961 section 5.2).
            self.challenge(now, at);
            return false;
        }
        let ack = ack as u64;
        let window = subflow.scaled_window(segment);
        subflow.max_window = subflow.max_window.max(window);
        let edge = ack + window;
        let window_moved = edge > subflow.window_edge;
        if window_moved {
            subflow.window_edge = edge;
            self.schedule_wanted = true;
        }
        // A duplicate may yet be reported, which tells a spurious probe or recovery.
        let tells_duplicates = subflow.sack && !segment.options.sack.is_empty();
        if subflow.board.is_empty() && !tells_duplicates {
            return true;
        }
        let id = subflow.id;
        let on_lost = |range, reason| observer.on_lost(now, self.id, id, range, reason);
        let mut told = if is_expected(subflow, segment, ack) {
            apply_expected_ack(now, self.tick, subflow, segment, ack, on_lost)
        } else {
            apply_ack(now, self.tick, subflow, segment, ack, window_moved, on_lost)
        };
        if told.lost_segments > 0 {
            let entered = told.verdict.entered;
            if self.excuses_loss(now, at, told.first_lost, told.lost_segments, entered) {
                told.verdict.entered = false;
                told.lost_bytes = 0;
            }
        }
        if told.advanced > 0 {
            let subflow = &mut self.subflows[at];
            if let Some(passed) = subflow.path_mtu.on_acked(now, subflow.board.una()) {
                subflow.mss = passed;
            }
        }
        self.inform(now, at, &told, observer);
        true
    }

    /// Congestion control, scheduler, timers and observer hear what an acknowledgement has told.
    fn inform<O: Observer>(&mut self, now: Time, at: usize, told: &Told, observer: &mut O) {
        let subflow = &mut self.subflows[at];
        let id = subflow.id;
        let verdict = told.verdict;
        if verdict.undone {
            subflow.counters.undos += 1;
            self.congestion.on_undo(id, now);
            observer.on_undo(now, self.id, id);
        }
        let lost = verdict.entered || verdict.probe_repaired;
        // A window of data is reduced for once, whatever tells of it (RFC 3168 section 6.1.2).
        let reduced = subflow.ecn.has_reduced(subflow.board.una());
        if lost || (told.echo && !reduced && subflow.recovery.state() == RecoveryState::Open) {
            subflow.counters.recoveries += u64::from(verdict.entered);
            subflow.counters.ecn_reductions += u64::from(!lost);
            subflow.ecn.on_reduced(subflow.board.nxt());
            let event = CongestionEvent {
                now,
                flight_bytes: told.flight_before,
                recover_bytes: told.recover_bytes,
                ecn: !lost,
                reduced,
            };
            self.congestion.on_congestion(id, &event);
            if verdict.probe_repaired {
                self.congestion.on_recovered(id, now);
            }
        }
        let recovering = subflow.recovery.state() == RecoveryState::Recovery;
        if told.acked_bytes > 0 || recovering {
            // The acknowledgement that ends a recovery does not open the window yet.
            let in_recovery = recovering || (told.was_recovering && !verdict.undone);
            self.congestion.on_ack(id, &congestion_ack(now, subflow, told, in_recovery));
        }
        if verdict.ended && !verdict.undone && told.was_recovering {
            self.congestion.on_recovered(id, now);
        }
        self.schedule_wanted = true;
        subflow.buffer_checked = false;
        if told.advanced > 0 {
            self.after_advance(now, at, told.advanced);
        }
        if told.lost_segments > 0 {
            self.tell_scheduler(now, &SchedulerEvent::Lost { subflow: id, segments: told.lost_segments });
        }
        self.refresh_window(at);
        self.report_windows_of(now, at, observer);
    }

    #[inline(always)]
    fn after_advance(&mut self, now: Time, at: usize, advanced: u64) {
        let subflow = &mut self.subflows[at];
        if subflow.recovery.restarts_timer() {
            subflow.timer_base = now;
        }
        let payload = advanced - u64::from(subflow.fin_acked());
        subflow.counters.bytes_acked += payload;
        if payload > 0 {
            self.stats.last_data_ack = now;
        }
        let id = subflow.id;
        if subflow.fin_acked() {
            self.after_fin_acked(now, at);
        }
        self.tell_scheduler(now, &SchedulerEvent::Acked { subflow: id, bytes: advanced });
        self.tell_writable();
    }

    /// The subflow's FIN is acknowledged.
    #[cold]
    fn after_fin_acked(&mut self, now: Time, at: usize) {
        if self.mode == Mode::Plain {
            // Here the subflow's FIN is the end of the stream: all of that is acknowledged with it,
            // before the subflow, and with it the connection, comes to its end.
            let end = self.subflows[at].board.una() as i64 + self.fallback.send_shift;
            self.on_data_ack(now, end, 0);
        }
        let subflow = &mut self.subflows[at];
        match subflow.state {
            TcpState::FinWait1 => subflow.state = TcpState::FinWait2,
            TcpState::Closing => self.enter_time_wait(now, at),
            TcpState::LastAck => self.close_subflow(now, at),
            _ => {}
        }
    }

    /// Whoever waits for room in the send buffer hears when there is some, whichever level has freed
    /// it. As Linux: a third must be free, so that the writer is not woken for every segment.
    #[inline(always)]
    pub(crate) fn tell_writable(&mut self) {
        if self.send.blocked {
            let enough = (self.send_limit() / 3 * 2).min(self.send.enough);
            // What is not acknowledged at the data level is the least that is held, and all that Linux counts.
            if self.send.buffered() <= enough && (self.models_buffers() || self.buffered() <= enough) {
                self.send.blocked = false;
                self.push_event(Event::Writable);
            }
        }
    }

    /// In a plain TCP the acknowledgement of the subflow is that of the stream.
    #[inline(always)]
    pub(crate) fn process_plain_ack(&mut self, now: Time, at: usize, segment: &Segment) {
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        let subflow = &self.subflows[at];
        let ack = offset_near(subflow.iss, subflow.board.una(), segment.ack);
        if ack < 1 {
            return;
        }
        // Offset 1 of the subflow is offset 0 of the stream; the FIN comes behind the last byte.
        let window = subflow.scaled_window(segment);
        self.on_data_ack(now, ack + self.fallback.send_shift, window);
    }

    /// The data level is acknowledged up to `offset`, and `window` bytes behind it are admitted.
    #[inline(always)]
    pub(crate) fn on_data_ack(&mut self, now: Time, offset: i64, window: u64) {
        if offset == self.send.una as i64 && self.send.una + window <= self.send.window_end {
            // Nothing new, as in most segments that bring data.
            self.send.peer_window = window;
        } else {
            self.on_new_data_ack(now, offset, window);
        }
    }

    fn on_new_data_ack(&mut self, now: Time, offset: i64, window: u64) {
        // The end of the stream is sent behind all that was written, and takes an offset of its own.
        let sent = if self.send.fin_sent { self.send.written + 1 } else { self.send.nxt };
        if offset < 0 || offset as u64 > sent {
            // Never sent, or before the stream (RFC 8684 section 3.3.2).
            return;
        }
        let offset = offset as u64;
        if offset > self.send.written {
            self.on_fin_acked(now);
        }
        let una = offset.min(self.send.written);
        // The right edge only ever grows (section 3.3.4).
        if una + window > self.send.window_end {
            self.send.window_end = una + window;
            self.schedule_wanted = true;
        }
        if offset >= self.send.una {
            self.send.peer_window = window;
        }
        let from = self.send.una;
        let carried_by =
            self.send.outstanding.as_slice().first().map_or(SubflowSet::EMPTY, |head| head.tried);
        if self.send.acknowledge(una) {
            self.progress_at = now;
            // The next closed window is probed from the beginning.
            self.persist_at = Time::NEVER;
            self.persist_backoff = 0;
            self.stats.data_acked = una;
            self.stats.last_data_ack = now;
            self.repair_further();
            self.arm_data_timer(now);
            self.schedule_wanted = true;
            self.tell_scheduler(now, &SchedulerEvent::DataAcked { from, to: una, carried_by });
            self.tell_writable();
            if self.send.blocked && self.mode == Mode::Mptcp {
                self.give_up_laggard(now);
            }
        }
    }
}

/// What the congestion control hears; closes the sample of the delivery rate.
#[inline]
fn congestion_ack(now: Time, subflow: &mut Subflow, told: &Told, in_recovery: bool) -> Ack {
    let min_rtt = subflow.rtt.min().unwrap_or(Duration::ZERO);
    let (delivery, loss) = (subflow.rate.delivery(), subflow.rate.take_loss());
    let rate = subflow.rate.finish(min_rtt);
    let slow_start = subflow.ssthresh.is_none_or(|threshold| subflow.cwnd < threshold);
    Ack {
        now,
        acked_bytes: told.acked_bytes,
        acked_segments: told.acked_segments,
        lost_bytes: told.lost_bytes,
        rtt: told.rtt,
        srtt: subflow.rtt.srtt_or_zero(),
        min_rtt,
        one_way_delay_us: told.one_way_delay_us,
        delivery_rate: rate.map(|sample| sample.rate),
        delivery,
        loss,
        app_limited: rate.is_some_and(|sample| sample.app_limited),
        cwnd_limited: subflow.cwnd_limited || (slow_start && subflow.cwnd < 2 * subflow.max_in_flight),
        ce: told.echo,
        inflight_bytes: subflow.in_flight(),
        in_recovery,
        una_advanced: told.advanced > 0,
        round_start: told.round_start,
    }
}

/// Header prediction: whether a segment acknowledges whole segments that were sent once, up to `ack`, and tells
/// nothing else, on a subflow where nothing is lost, missing or suspected.
#[inline]
fn is_expected(subflow: &Subflow, segment: &Segment, ack: u64) -> bool {
    segment.options.sack.is_empty()
        && !subflow.ecn.is_agreed()
        && subflow.recovery.is_quiet()
        && subflow.board.una() < ack
        && subflow.board.is_plain_up_to(ack)
}

/// As [`apply_ack`], where [`is_expected`].
#[inline]
fn apply_expected_ack(
    now: Time,
    tick: TimestampTick,
    subflow: &mut Subflow,
    segment: &Segment,
    ack: u64,
    on_lost: impl FnMut(DataRange, LossReason),
) -> Told {
    let una = subflow.board.una();
    let unacked = subflow.board.nxt() - una;
    let mut told = Told {
        advanced: ack - una,
        acked_bytes: ack - una,
        flight_before: unacked.max(subflow.board.in_flight()),
        recover_bytes: unacked.saturating_sub(subflow.board.sacked_bytes()),
        first_lost: u64::MAX,
        ..Told::default()
    };
    let Subflow { board, rate, recovery, .. } = subflow;
    let (mut oldest, mut newest) = (now, now);
    board.acknowledge_plain(ack, |record| {
        if told.acked_segments == 0 {
            oldest = record.sent;
        }
        newest = record.sent;
        told.acked_segments += 1;
        rate.on_delivered(now, record.space(), record.sent, &record.stamp);
        recovery.on_delivered_once(now, record);
    });
    let latest = now.since(newest);
    if told.acked_segments > 1
        && let Some(timestamps) = segment.options.timestamps.filter(|_| subflow.timestamps)
    {
        told.one_way_delay_us = Some(one_way_delay_us(tick, timestamps.value, now - latest));
        subflow.one_way_delay_us = told.one_way_delay_us;
    }
    subflow.rtt.sample(now.since(oldest));
    subflow.recovery.on_rtt_sample();
    told.rtt = Some(latest);
    subflow.recovery.on_progress();
    if !subflow.recovery.none_overtaken(&subflow.board) {
        judge(now, subflow, &mut told, false, false, |_| false, on_lost);
    }
    note_round(subflow, &mut told);
    told
}

/// The clock of the peer, as its timestamp says, less ours when it sent what is now known to have arrived.
#[inline]
fn one_way_delay_us(tick: TimestampTick, theirs: u32, sent: Time) -> i64 {
    i64::from(theirs.wrapping_sub(tick.value(sent)) as i32) * tick.period().as_micros() as i64
}

/// Notes what the recovery makes of an acknowledgement that was applied.
#[inline(never)]
fn judge(
    now: Time,
    subflow: &mut Subflow,
    told: &mut Told,
    duplicate: bool,
    dsack_undo: bool,
    echo_before: impl Fn(Time) -> bool,
    mut on_lost: impl FnMut(DataRange, LossReason),
) {
    let Subflow { board, rate, recovery, .. } = subflow;
    let mss = u64::from(subflow.mss);
    let mut lost_bytes = 0;
    let mut lost_segments = 0;
    let mut first_lost = u64::MAX;
    let reason = if subflow.sack { LossReason::Rack } else { LossReason::DuplicateAcks };
    told.verdict = recovery.on_ack(
        now,
        board,
        &subflow.rtt,
        mss,
        told.advanced,
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
    subflow.counters.segments_lost += u64::from(lost_segments);
    subflow.round_lost += u64::from(lost_segments);
    told.lost_bytes = lost_bytes;
    told.lost_segments = lost_segments;
    told.first_lost = first_lost;
}

/// Notes whether a round trip has ended.
#[inline]
fn note_round(subflow: &mut Subflow, told: &mut Told) {
    if subflow.board.una() >= subflow.round_end {
        told.round_start = true;
        subflow.round_end = subflow.board.nxt().max(subflow.board.una() + 1);
        if subflow.round_sent > 0 {
            let share = (subflow.round_lost as f64 / subflow.round_sent as f64).min(1.0);
            subflow.loss_rate += LOSS_GAIN * (share - subflow.loss_rate);
            subflow.round_sent = 0;
            subflow.round_lost = 0;
        }
    }
}

/// Applies an acknowledgement to a subflow's scoreboard and recovery.
#[inline(never)]
fn apply_ack(
    now: Time,
    tick: TimestampTick,
    subflow: &mut Subflow,
    segment: &Segment,
    ack: u64,
    window_moved: bool,
    on_lost: impl FnMut(DataRange, LossReason),
) -> Told {
    let was_recovering = subflow.recovery.state() == RecoveryState::Recovery;
    let mut told = Told { was_recovering, echo: subflow.ecn.is_told(segment), ..Told::default() };
    let una_before = subflow.board.una();
    let sacked_before = subflow.board.sacked_bytes();
    told.flight_before = (subflow.board.nxt() - una_before).max(subflow.board.in_flight());
    told.recover_bytes = (subflow.board.nxt() - una_before).saturating_sub(sacked_before);
    let min_rtt = subflow.rtt.min().unwrap_or(Duration::ZERO);
    let echo = segment.options.timestamps.filter(|_| subflow.timestamps).map(|timestamps| timestamps.echo);
    // Whether the acknowledgement answers something that was sent before a given time.
    let echo_before = |when: Time| echo.is_some_and(|echo| (echo.wrapping_sub(tick.value(when)) as i32) < 0);
    let echoes = |when: Time| echo == Some(tick.value(when));

    let Subflow { board, rate, recovery, .. } = subflow;
    // Round trips of what was sent once: of the oldest newly acknowledged segment (which a delayed
    // acknowledgement lengthens, as the timeout must know) and of the newest.
    let (mut oldest, mut newest, mut ambiguous) = (None, None, false);
    // When the segment was sent again that the acknowledgement's timestamp is of.
    let mut answered = None;
    let mut acked_segments = 0;
    let mut acked_bytes = 0;
    // The original of the first segment has arrived, and its retransmission has not: then retransmissions of the
    // segments after it are not taken for delivered either.
    let mut original = false;
    board.acknowledge(ack, |record, bytes| {
        original |= Recovery::answers_original(record, una_before, echo_before);
        acked_bytes += bytes;
        acked_segments += 1;
        if record.retransmitted() {
            ambiguous = true;
            if echoes(record.sent) {
                answered = Some(record.sent);
            }
        } else {
            oldest.get_or_insert(record.sent);
            newest = Some(record.sent);
        }
        rate.on_delivered(now, bytes, record.sent, &record.stamp);
        recovery.on_delivered(now, record, min_rtt, original);
    });
    told.advanced = board.una() - una_before;
    let mut sample = oldest.filter(|_| !ambiguous).map(|sent| now.since(sent));
    let latest = newest.map(|sent| now.since(sent));

    let mut newly = Newly { bytes: acked_bytes, segments: acked_segments, latest };
    let mut dsack_undo = false;
    if subflow.sack && !segment.options.sack.is_empty() {
        let blocks = segment.options.sack.as_slice();
        dsack_undo = apply_blocks(now, subflow, blocks, ack, min_rtt, &mut newly);
    }
    let Subflow { board, recovery, .. } = subflow;
    if let Some(timestamps) = segment.options.timestamps.filter(|_| subflow.timestamps) {
        // The relative one-way delay: their clock less ours when the newest of what is now known to have arrived was
        // sent. The echoed timestamp is that of an older segment while one is missing, and that of the first one where
        // an acknowledgement has waited for a second. One of a single segment in order may have waited for a timer.
        if let Some(age) = newly.latest.filter(|_| newly.segments > 1 || !segment.options.sack.is_empty()) {
            told.one_way_delay_us = Some(one_way_delay_us(tick, timestamps.value, now - age));
            subflow.one_way_delay_us = told.one_way_delay_us;
        }
        if sample.is_none() && told.advanced > 0 && timestamps.echo != 0 {
            let age = tick.value(now).wrapping_sub(timestamps.echo);
            if age < 1 << 31 {
                let answered = answered.or(newest.filter(|&sent| echoes(sent)));
                // Our own clock says it better than the echo.
                let exact = answered.map(|sent| now.since(sent));
                sample = Some(match tick {
                    TimestampTick::Microsecond => exact.unwrap_or(tick.span(age)),
                    // What may be up to a tick too short is no new minimum.
                    TimestampTick::Millisecond => exact.unwrap_or(tick.span(age.max(1))).max(min_rtt),
                });
            }
        }
    }
    if let Some(rtt) = sample {
        subflow.rtt.sample(rtt);
        recovery.on_rtt_sample();
    }
    told.rtt = newly.latest.or(sample);

    let duplicate = told.advanced == 0
        && segment.payload_len == 0
        && !window_moved
        && !segment.flags.has(Flags::FIN)
        && ack == board.una()
        && !board.is_empty()
        // RFC 8684 section 3: an acknowledgement that brings a signal is no sign of loss.
        && segment.options.mptcp[0].is_none();
    judge(now, subflow, &mut told, duplicate, dsack_undo, echo_before, on_lost);
    if duplicate && !subflow.sack && subflow.recovery.state() == RecoveryState::Recovery {
        newly.bytes += u64::from(subflow.mss);
        newly.segments += 1;
    }
    told.acked_bytes = newly.bytes;
    told.acked_segments = newly.segments;
    note_round(subflow, &mut told);
    told
}

/// What an acknowledgement has newly acknowledged.
struct Newly {
    bytes: u64,
    segments: u32,
    /// The round trip of the newest segment that was sent once.
    latest: Option<Duration>,
}

/// Applies the SACK blocks of an acknowledgement of everything before `ack`. Returns whether they tell that no
/// retransmission of the last reduction was necessary.
// Apart, as most acknowledgements have none.
#[inline(never)]
fn apply_blocks(
    now: Time,
    subflow: &mut Subflow,
    blocks: &[(Seq, Seq)],
    ack: u64,
    min_rtt: Duration,
    newly: &mut Newly,
) -> bool {
    let Subflow { board, rate, recovery, known_blocks, iss, .. } = subflow;
    let mut dsack_undo = false;
    // In the order of the sequence space: a block that was told after a higher one of the same
    // acknowledgement would pass for reordering (RFC 8985 section 6.2, step 3).
    let mut order = [0, 1, 2, 3];
    let order = &mut order[..blocks.len().min(4)];
    order.sort_unstable_by_key(|&index| offset_near(*iss, board.una(), blocks[index].0));
    for &index in order.iter() {
        let (left, right) = blocks[index];
        let start = offset_near(*iss, board.una(), left);
        let end = offset_near(*iss, board.una(), right);
        // Offset 0 is that of the SYN, which no block can mean.
        if start < 1 || end <= start || end as u64 > board.nxt() {
            continue;
        }
        let (start, end) = (start as u64, end as u64);
        // RFC 2883: the first block lies below the acknowledgement, or inside the second.
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
                newly.latest = Some(now.since(record.sent));
            }
            rate.on_delivered(now, record.space(), record.sent, &record.stamp);
            // The echo is that of the last segment in order.
            recovery.on_delivered(now, record, min_rtt, false);
        });
        let slot = known_blocks.iter().position(|&(s, e)| s <= start && e >= start).unwrap_or(index.min(3));
        known_blocks[slot] = (start, end);
    }
    dsack_undo
}
