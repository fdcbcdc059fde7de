//! The default scheduler of upstream Linux: the subflow that is predicted to send its queued data soonest.
//!
//! **Decides** which subflow carries the next burst of at most 64 KB, by the *linger time*: the bytes that a
//! subflow still has to send or to have acknowledged, divided by its rate. RTTs are not compared. A burst may
//! be queued beyond the congestion window, as the kernel puts it into the send buffer of a subflow.
//!
//! **Source**: `mptcp_subflow_get_send` and `mptcp_subflow_get_retrans` in net/mptcp of Linux 6.18 and its
//! net-next tree; the pacing rate of `tcp_update_pacing_rate`.
//!
//! **Constants**: a burst of 65,428 bytes; a pacing rate of 2 (below half of the slow-start threshold) or 1.2
//! windows per RTT if the congestion control sets none; a send buffer of two windows, of at least 10 segments
//! (`tcp_sndbuf_expand`); a subflow on which nothing was received over more than 4 checks is *stale*.
//!
//! **A path that fails** is noticed by the data-level timer. Each expiration is a check of every subflow with data
//! outstanding, and sends the first piece of the stream on an idle subflow; on a backup if no subflow made progress in
//! two checks (`mptcp_subflow_get_retrans`). A subflow that becomes stale while another makes progress gets no more data,
//! and all data that is not acknowledged at the data level is assigned again, as fast as the other subflows accept it
//! (`__mptcp_retransmit_pending_data`). The first segment received on the stale subflow brings it back.
//!
//! **Departures from the source**
//! * If the kernel's send buffers are not modelled (`subflow-send-buffer = "none"`), a burst consists of
//!   whole segments, the buffer holds two windows of payload, and a subflow gets no data after a timeout
//!   until something is received on it; its queue is recalled, and its data is reinjected on idle subflows
//!   while the scheduler continues with new data.
//! * A check that finds a stale subflow sends nothing on an idle subflow: all data follows at once.

use anabranch_units::{Duration, Time};

use super::pick::{self, Chunk, Tracked};
use super::{AssignKind, Decision, Rule, Scheduler, SubflowView, View, Why};
use crate::event::SubflowId;
use crate::parameter;
use crate::parameter::{Options, Parameter};
use crate::pieces::{self, end_of_piece};

/// Bytes of a burst: 2^16 less the TCP header, its options, the IPv6 header and the fragment header.
const SEND_BURST: u64 = (1 << 16) - 20 - 40 - 40 - 8;

/// The options of the Linux scheduler.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinuxOptions {
    /// The send buffer of a subflow in congestion windows.
    pub send_buffer: f64,
    /// Maximum number of checks without anything received; a subflow that exceeds it is stale.
    pub stale_loss_count: u8,
}

impl LinuxOptions {
    /// The kernel's values.
    pub const DEFAULT: LinuxOptions = LinuxOptions { send_buffer: 2.0, stale_loss_count: 4 };
}

impl Options for LinuxOptions {
    const PARAMETERS: &'static [Parameter<LinuxOptions>] = &[
        parameter!(
            LinuxOptions,
            "subflow-buffer",
            "send buffer of a subflow, in congestion windows",
            number 1.0, 1000.0,
            send_buffer
        ),
        parameter!(
            LinuxOptions,
            "stale-loss-count",
            "a subflow is stale after more than this number of checks without reception",
            integer 1, 255,
            stale_loss_count
        ),
    ];
}

/// State of one subflow.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Known {
    /// The rate in bytes per second, averaged over bursts; 0 before the first.
    rate: f64,
    /// The number of checks without progress.
    stale_count: u8,
    stale: bool,
    /// The time of the last reception at the first of these checks.
    received: Time,
}

/// The action after the data-level timer has expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AfterTimeout {
    /// Wait: no subflow is idle.
    Wait,
    /// Send the first piece of the stream on this idle subflow.
    Retransmit(SubflowId),
    /// Assign all unacknowledged data again: a subflow has become stale.
    Recover,
}

/// The scheduler.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Linux {
    options: LinuxOptions,
    known: Tracked<Known>,
    /// The subflow with an incomplete burst.
    last: Option<SubflowId>,
    burst_left: u64,
    /// The number of data-level timeouts at the last check.
    checked: u64,
    /// The offset of the stream from which its pieces are counted.
    pieces_from: u64,
}

impl Linux {
    /// Returns a scheduler with the given options.
    pub fn new(options: LinuxOptions) -> Linux {
        Linux { options, known: Tracked::default(), last: None, burst_left: 0, checked: 0, pieces_from: 0 }
    }

    /// Returns the end of the piece that contains `offset` of the stream.
    ///
    /// A program that writes when all earlier data is acknowledged begins a new piece: the kernel uses the page again from
    /// its start (`skb_page_frag_refill` in net/core/sock.c of Linux 6.18).
    pub(crate) fn end_of_piece(&self, offset: u64) -> u64 {
        let from = self.pieces_from.min(offset);
        from + end_of_piece(offset - from)
    }

    /// True if `subflow` had no progress at the last check.
    pub(crate) fn has_stalled(&self, subflow: &SubflowView) -> bool {
        self.known.get(subflow).stale_count > 0
    }

    /// Returns the lowest number of checks without progress among the subflows with data outstanding.
    fn least_count(&self, view: &View<'_>) -> u8 {
        let busy = view.subflows.iter().filter(|subflow| subflow.usable && holds(subflow) > 0);
        busy.map(|subflow| self.known.get(subflow).stale_count).min().unwrap_or(u8::MAX)
    }

    /// Runs `mptcp_pm_subflow_chk_stale` for every subflow with data outstanding. Returns true if one has become
    /// stale.
    #[cold]
    fn check(&mut self, view: &View<'_>) -> bool {
        self.checked = view.data_timeouts;
        let mut lost = false;
        for subflow in view.subflows.iter().filter(|subflow| subflow.usable && holds(subflow) > 0) {
            let mut known = self.known.get(subflow);
            if known.stale_count == 0 || known.received != subflow.last_received {
                let first = known.stale_count == 0;
                known.stale_count = u8::from(first);
                known.received = subflow.last_received;
            } else {
                known.stale_count = known.stale_count.saturating_add(1);
            }
            let calm = self.options.stale_loss_count.saturating_sub(1).max(1);
            let another = || {
                view.subflows.iter().any(|other| {
                    let known = self.known.get(other);
                    other.id != subflow.id && other.usable && !known.stale && known.stale_count < calm
                })
            };
            if !known.stale && known.stale_count > self.options.stale_loss_count && another() {
                known.stale = true;
                lost = true;
            }
            self.known.set(subflow, known);
        }
        lost
    }

    /// Lets subflows on which something was received return (`mptcp_subflow_active`).
    fn wake(&mut self, view: &View<'_>) {
        for subflow in view.subflows {
            let mut known = self.known.get(subflow);
            if known.stale && known.received != subflow.last_received {
                // Its count of checks remains until the next one.
                known.stale = false;
                self.known.set(subflow, known);
            }
        }
    }

    fn refresh(&mut self, view: &View<'_>) {
        self.wake(view);
        if view.data_timeouts != self.checked {
            self.check(view);
        }
    }

    /// Handles an expiration of the data-level timer (`__mptcp_retrans`).
    #[cold]
    pub(crate) fn after_data_timeout(&mut self, view: &View<'_>) -> AfterTimeout {
        self.wake(view);
        if self.check(view) {
            return AfterTimeout::Recover;
        }
        let idle = |backup| view.subflows.iter().find(|s| s.usable && s.backup == backup && holds(s) == 0);
        let subflow = idle(false).or_else(|| idle(true).filter(|_| self.least_count(view) > 1));
        subflow.map_or(AfterTimeout::Wait, |subflow| AfterTimeout::Retransmit(subflow.id))
    }

    fn is_active(&self, subflow: &SubflowView) -> bool {
        // Without a modelled send buffer, a subflow that has timed out gets no data.
        let works = if has_buffer(subflow) { subflow.usable } else { pick::works(subflow) };
        works && !self.known.get(subflow).stale
    }

    /// Recalls the queue of a subflow that is no longer active, if another is.
    fn stranded(&self, view: &View<'_>) -> Option<Decision> {
        // Linux cannot take back data from the send buffer of a subflow.
        let left = |s: &&SubflowView| s.queued > 0 && !has_buffer(s) && !self.is_active(s);
        let subflow = view.subflows.iter().find(left)?;
        view.subflows.iter().find(|s| self.is_active(s))?;
        Some(pick::recall(subflow))
    }

    /// True if the send buffer of the subflow has space.
    fn has_memory(&self, subflow: &SubflowView) -> bool {
        if has_buffer(subflow) {
            return memory(subflow) < u64::from(subflow.send_buffer);
        }
        let window = subflow.cwnd.max(10 * subflow.mss) as f64;
        (holds(subflow) as f64) < window * self.options.send_buffer
    }

    /// Returns the rate in bytes per second: the average over bursts, or the pacing rate before the first.
    fn rate(&self, subflow: &SubflowView) -> f64 {
        let known = self.known.get(subflow).rate;
        if known > 0.0 { known } else { pacing_rate(subflow) }
    }

    /// Reinjects like `mptcp_subflow_get_retrans`, without modelled send buffers: on an idle subflow, and on a backup
    /// only if no subflow makes progress.
    fn again(&self, view: &View<'_>) -> Option<Decision> {
        let pending = view.reinject.first().filter(|_| !view.subflows.iter().any(has_buffer))?;
        let chunk = Chunk::new(view, pending.range)?;
        let idle = |backup: bool| {
            let found = view.subflows.iter().find(|s| s.usable && s.backup == backup && holds(s) == 0)?;
            Some((found, chunk.fit(found, u64::MAX)?))
        };
        let (subflow, range) = match idle(false) {
            Some(found) => found,
            None if self.least_count(view) > 1 => idle(true)?,
            None => return None,
        };
        let why = Why::rule(Rule::Reinjection);
        Some(Decision::Assign { subflow: subflow.id, range, kind: AssignKind::Reinject, why })
    }

    /// Returns the decision for `subflow`, with its linger time `linger`. It `fills` the connection's window
    /// up to its edge, as `mptcp_sendmsg_frag` does.
    fn burst(
        &mut self,
        (chunk, kind): (Chunk, AssignKind),
        fills: bool,
        subflow: &SubflowView,
        (linger, other): (f64, f64),
    ) -> Option<Decision> {
        let range = if !has_buffer(subflow) {
            chunk.queue_on(subflow, self.burst_left)?
        } else {
            // The kernel assigns whole pieces, and then checks whether the burst is complete.
            let start = chunk.range.start;
            chunk.piece_on(subflow, self.end_of_piece(start) - start, fills)?
        };
        self.burst_left = self.burst_left.saturating_sub(range.len());
        let least = if has_buffer(subflow) { 1 } else { subflow.mss };
        if self.burst_left < least {
            self.last = None;
        }
        let why = Why::scored(Rule::Linger, linger, other);
        Some(Decision::Assign { subflow: subflow.id, range, kind, why })
    }
}

/// Returns the first data to assign again, up to a gap, if the kernel's send buffers are modelled.
fn recovered(view: &View<'_>, end_of_piece: impl Fn(u64) -> u64) -> Option<Chunk> {
    let (first, rest) = view.reinject.split_first()?;
    if !view.subflows.iter().any(has_buffer) {
        return None;
    }
    let mut range = first.range;
    for next in rest {
        if next.range.start != range.end || range.end >= end_of_piece(range.start) {
            break;
        }
        range.end = next.range.end;
    }
    Chunk::new(view, range)
}

/// Returns the bytes that a subflow has to send or to have acknowledged.
fn holds(subflow: &SubflowView) -> u64 {
    subflow.unacked + subflow.queued
}

/// True if the kernel's send buffer is modelled for the subflow.
fn has_buffer(subflow: &SubflowView) -> bool {
    subflow.send_buffer != u32::MAX
}

/// Returns the memory used by the subflow's queued and unacknowledged data.
fn memory(subflow: &SubflowView) -> u64 {
    if !has_buffer(subflow) {
        return holds(subflow);
    }
    pieces::memory(subflow.unacked, subflow.queued, subflow.mss)
}

/// Returns the pacing rate in bytes per second; an RTT of 1 ms is assumed before the first sample.
fn pacing_rate(subflow: &SubflowView) -> f64 {
    if let Some(rate) = subflow.pacing_rate {
        return rate.0 as f64 / 8.0;
    }
    let srtt = subflow.srtt.unwrap_or(Duration::from_millis(1)).max(Duration(1));
    let slow_start = subflow.ssthresh.is_none_or(|threshold| subflow.cwnd < threshold / 2);
    let factor = if slow_start { 2.0 } else { 1.2 };
    factor * subflow.cwnd.max(subflow.unacked) as f64 / srtt.as_secs_f64()
}

impl Scheduler for Linux {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        self.refresh(view);
        if let Some(decision) = self.stranded(view) {
            return decision;
        }
        if view.data_una == view.data_nxt
            && view.unassigned.first().is_some_and(|new| new.start == view.data_una)
        {
            self.pieces_from = view.data_una;
        }
        let next = match recovered(view, |offset| self.end_of_piece(offset)) {
            Some(chunk) => (chunk, AssignKind::Reinject),
            None => {
                if let Some(decision) = self.again(view) {
                    return decision;
                }
                match Chunk::unassigned(view) {
                    Ok(chunk) => (chunk, AssignKind::New),
                    Err(Rule::NothingToSend) if !view.reinject.is_empty() => return pick::wait(Rule::NoRoom),
                    Err(rule) => {
                        // The kernel pushes until the data or the window ends, and then selects again.
                        self.last = None;
                        return pick::wait(rule);
                    }
                }
            }
        };
        if let Some(last) = self.last.and_then(|last| view.subflow(last))
            && self.is_active(last)
            && self.has_memory(last)
            && let Some(decision) = self.burst(next, view.fills_window, last, (f64::NAN, f64::NAN))
        {
            return decision;
        }
        self.last = None;
        let backups = !view.subflows.iter().any(|s| self.is_active(s) && !s.backup);
        let active = view.subflows.iter().filter(|s| self.is_active(s) && s.backup == backups);
        let lingers = active.map(|subflow| (subflow, memory(subflow) as f64 / self.rate(subflow)));
        let Some((subflow, linger, other)) = pick::least(lingers) else {
            return pick::wait(Rule::NoSubflow);
        };
        if !self.has_memory(subflow) {
            return pick::wait(Rule::NoRoom);
        }
        let held = memory(subflow) as f64;
        let room = view.window_end.saturating_sub(view.data_nxt);
        // Data that is assigned again may be sent in a full window, one piece after each choice.
        let burst = if room == 0 && !has_buffer(subflow) { SEND_BURST } else { SEND_BURST.min(room) };
        self.burst_left = if view.fills_window { burst } else { burst.max(subflow.mss) };
        self.last = Some(subflow.id);
        let rate = self.rate(subflow);
        let scores = (linger, other.unwrap_or(f64::NAN));
        let Some(decision) = self.burst(next, view.fills_window, subflow, scores) else {
            self.last = None;
            return pick::wait(Rule::NoRoom);
        };
        if burst > 0 {
            let mut known = self.known.get(subflow);
            known.rate = (rate * held + pacing_rate(subflow) * burst as f64) / (burst as f64 + held);
            self.known.set(subflow, known);
        }
        decision
    }

    fn revises_queues(&self) -> bool {
        true
    }

    /// As in the kernel: data in the first subflow's buffer stays there when others join.
    fn decides_alone(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seq::DataRange;

    const MSS: u64 = 1000;

    /// Two subflows with the kernel's send buffers; the second has a larger RTT.
    fn subflows() -> [SubflowView; 2] {
        [(0, 10), (1, 40)].map(|(id, rtt)| SubflowView {
            send_buffer: 1 << 20,
            window_room: 1 << 20,
            ..SubflowView::idle(SubflowId(id), Duration::from_millis(rtt), 20, MSS)
        })
    }

    fn assigned(decision: &Decision) -> Option<(u8, u64, u64)> {
        match decision {
            Decision::Assign { subflow, range, .. } => Some((subflow.0, range.start, range.end)),
            _ => None,
        }
    }

    #[test]
    fn a_burst_ends_with_the_data() {
        let mut scheduler = Linux::new(LinuxOptions::DEFAULT);
        let mut subflows = subflows();
        let decide = |scheduler: &mut Linux, subflows: &[SubflowView], data: &[DataRange]| {
            assigned(&scheduler.decide(&View::fresh(Time::from_secs(1), subflows, data)))
        };
        assert_eq!(decide(&mut scheduler, &subflows, &[DataRange::new(0, 5000)]), Some((0, 0, 5000)));
        subflows[0].queued = 5000;
        assert_eq!(decide(&mut scheduler, &subflows, &[]), None);
        // More data is a new burst, for the subflow that is idle.
        assert_eq!(decide(&mut scheduler, &subflows, &[DataRange::new(5000, 9000)]), Some((1, 5000, 9000)));
    }

    // As captured at `mptcp 7.2M/69ms/1 + 37M/96ms/1 requests:79KB/22ms/4 down first=1`: 65,456 bytes of each answer on one
    // subflow, and the rest on the other.
    #[test]
    fn an_answer_after_all_data_is_acknowledged_begins_a_piece() {
        let mut scheduler = Linux::new(LinuxOptions::DEFAULT);
        for from in [0, 79_000, 158_000] {
            let mut subflows = subflows();
            let mut data = [DataRange::new(from, from + 79_000)];
            let (mut by_subflow, mut nxt) = ([0, 0], from);
            while !data[0].is_empty() {
                let fresh = View::fresh(Time::from_secs(1), &subflows, &data);
                let view = View { data_una: from, data_nxt: nxt, ..fresh };
                let (subflow, start, end) = assigned(&scheduler.decide(&view)).unwrap();
                assert_eq!(start, data[0].start);
                by_subflow[usize::from(subflow)] += end - start;
                subflows[usize::from(subflow)].queued += end - start;
                data[0].start = end;
                nxt = end;
            }
            assert_eq!(by_subflow, [65_456, 79_000 - 65_456], "from {from}");
            scheduler.decide(&View::fresh(Time::from_secs(1), &subflows, &[]));
        }
    }

    #[test]
    fn a_window_is_filled_up_to_its_edge_if_that_is_wanted() {
        let subflows = subflows();
        let data = [DataRange::new(0, 10_000)];
        for (fills_window, end) in [(false, 2000), (true, 2500)] {
            let fresh = View::fresh(Time::from_secs(1), &subflows, &data);
            let view = View { window_end: 2500, fills_window, ..fresh };
            assert_eq!(assigned(&Linux::new(LinuxOptions::DEFAULT).decide(&view)), Some((0, 0, end)));
        }
        let narrow = subflows.map(|subflow| SubflowView { window_room: 700, ..subflow });
        let view = View { fills_window: true, ..View::fresh(Time::from_secs(1), &narrow, &data) };
        assert_eq!(assigned(&Linux::new(LinuxOptions::DEFAULT).decide(&view)), Some((0, 0, 700)));
    }

    #[test]
    fn a_burst_with_a_byte_left_goes_on_with_a_whole_piece() {
        let mut scheduler = Linux::new(LinuxOptions::DEFAULT);
        let subflows = subflows();
        let start = 2 * 32_728 - (SEND_BURST - 32_728) + 1;
        let mut at = start;
        let mut ends = Vec::new();
        for _ in 0..3 {
            let data = [DataRange::new(at, 1 << 20)];
            let view = View::fresh(Time::from_secs(1), &subflows, &data);
            let Some((0, _, end)) = assigned(&scheduler.decide(&view)) else { panic!("{at}") };
            assert_eq!(end % 32_728, 0);
            ends.push(end - start);
            at = end;
        }
        assert_eq!(ends[1], SEND_BURST - 1);
        assert_eq!(scheduler.last, None);
    }

    /// Returns the actions after `count` expirations of the data-level timer, from the number `first` on.
    fn actions(scheduler: &mut Linux, subflows: &[SubflowView], first: u64, count: u64) -> Vec<AfterTimeout> {
        let data = [DataRange::new(50_000, 90_000)];
        let fresh = View::fresh(Time::from_secs(1), subflows, &data);
        let expire = |data_timeouts| scheduler.after_data_timeout(&View { data_timeouts, ..fresh });
        (first..first + count).map(expire).collect()
    }

    // `mptcp_subflow_get_retrans`: "use backup only if there are no progresses anywhere".
    #[test]
    fn a_backup_carries_the_first_piece_after_two_checks_without_progress() {
        let mut subflows = subflows();
        subflows[0].unacked = 5 * MSS;
        let on = AfterTimeout::Retransmit;
        let idle = actions(&mut Linux::new(LinuxOptions::DEFAULT), &subflows, 1, 2);
        assert_eq!(idle, [on(SubflowId(1)); 2], "a subflow that is no backup is used at once");
        subflows[1].backup = true;
        let mut scheduler = Linux::new(LinuxOptions::DEFAULT);
        let backup = actions(&mut scheduler, &subflows, 1, 4);
        assert_eq!(backup, [AfterTimeout::Wait, on(SubflowId(1)), on(SubflowId(1)), on(SubflowId(1))]);
        // Progress on the first subflow.
        subflows[0].last_received = Time::from_millis(900);
        assert_eq!(actions(&mut scheduler, &subflows, 5, 2), [AfterTimeout::Wait; 2]);
    }

    // `mptcp_pm_nl_subflow_chk_stale` calls `__mptcp_retransmit_pending_data`, once for each subflow.
    #[test]
    fn all_data_is_assigned_again_when_a_subflow_becomes_stale() {
        let mut subflows = subflows();
        subflows[0].unacked = 5 * MSS;
        let subflows = subflows;
        let mut scheduler = Linux::new(LinuxOptions::DEFAULT);
        let all = actions(&mut scheduler, &subflows, 1, 6);
        let piece = AfterTimeout::Retransmit(SubflowId(1));
        assert_eq!(all, [piece, piece, piece, piece, AfterTimeout::Recover, piece]);
        // Data that is assigned again precedes new data, in pieces, on the active subflow only.
        let tried = crate::event::SubflowSet::one(SubflowId(0));
        let again = [(0, 20_000), (20_000, 40_000)]
            .map(|(start, end)| crate::scheduler::Pending { range: DataRange::new(start, end), tried });
        let new = [DataRange::new(40_000, 90_000)];
        let fresh = View::fresh(Time::from_secs(1), &subflows, &new);
        let view = View { data_timeouts: 6, reinject: &again, data_nxt: 40_000, ..fresh };
        let Decision::Assign { subflow, range, kind, .. } = scheduler.decide(&view) else { panic!() };
        assert_eq!((subflow.0, range, kind), (1, DataRange::new(0, 32_728), AssignKind::Reinject));
        // In a full window too: `mptcp_subflow_get_send` returns a subflow without a burst.
        let full = View { window_end: 40_000, fills_window: true, ..view };
        scheduler.last = None;
        let Decision::Assign { range, .. } = scheduler.decide(&full) else { panic!() };
        assert_eq!((range, scheduler.last), (DataRange::new(0, 32_728), None));
        // The first segment on a stale subflow brings it back (`mptcp_subflow_active`).
        let mut returned = subflows;
        returned[1].usable = false;
        assert_eq!(assigned(&scheduler.decide(&View { subflows: &returned, ..view })), None);
        returned[0].last_received = Time::from_millis(900);
        let view = View { subflows: &returned, ..view };
        assert_eq!(assigned(&scheduler.decide(&view)), Some((0, 0, 32_728)));
    }
}
