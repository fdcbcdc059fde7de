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
//! **Departures from the source**
//! * Staleness is checked when the connection's data-level timer expires.
//! * If the kernel's send buffers are not modelled (`subflow-send-buffer = "none"`), a burst consists of
//!   whole segments, the buffer holds two windows of payload, and a subflow whose timer has expired gets no
//!   data until something is received on it; its queue is recalled.
//! * If data of a failed subflow finds no idle subflow, the scheduler continues with new data, as the kernel
//!   does.

use anabranch_units::{Duration, Time};

use super::pick::{self, Chunk, Tracked};
use super::{AssignKind, Decision, Rule, Scheduler, SubflowView, View, Why};
use crate::event::SubflowId;
use crate::parameter;
use crate::parameter::{Options, Parameter};
use crate::subflow::send_buffer::{self, end_of_piece};

/// Bytes of a burst: 2^16 less the TCP header, its options, the IPv6 header and that of a fragment.
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

/// The scheduler.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Linux {
    options: LinuxOptions,
    known: Tracked<Known>,
    /// The subflow whose burst is not complete.
    last: Option<SubflowId>,
    burst_left: u64,
    /// The number of data-level timeouts at the last check.
    checked: u64,
}

impl Linux {
    /// Returns a scheduler with the given options.
    pub fn new(options: LinuxOptions) -> Linux {
        Linux { options, known: Tracked::default(), last: None, burst_left: 0, checked: 0 }
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

    /// Runs `mptcp_pm_subflow_chk_stale` for every subflow with data outstanding.
    #[cold]
    fn check(&mut self, view: &View<'_>) {
        self.checked = view.data_timeouts;
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
            let another = view.subflows.iter().any(|other| {
                other.id != subflow.id && other.usable && self.known.get(other).stale_count < calm
            });
            known.stale = known.stale || known.stale_count > self.options.stale_loss_count && another;
            self.known.set(subflow, known);
        }
    }

    fn refresh(&mut self, view: &View<'_>) {
        for subflow in view.subflows {
            let mut known = self.known.get(subflow);
            if known.stale && known.received != subflow.last_received {
                known.stale = false;
                known.stale_count = 0;
                self.known.set(subflow, known);
            }
        }
        if view.data_timeouts != self.checked {
            self.check(view);
        }
    }

    fn is_active(&self, subflow: &SubflowView) -> bool {
        // Without a modelled send buffer, a subflow that has timed out gets no data.
        let works = if has_buffer(subflow) { subflow.usable } else { pick::works(subflow) };
        works && !self.known.get(subflow).stale
    }

    /// Recalls the queue of a subflow that is no longer active, if another is.
    fn stranded(&self, view: &View<'_>) -> Option<Decision> {
        let subflow = view.subflows.iter().find(|s| s.queued > 0 && !self.is_active(s))?;
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

    /// Reinjects like `mptcp_subflow_get_retrans`: on an idle subflow, and on a backup only if no subflow
    /// makes progress.
    fn again(&self, view: &View<'_>) -> Option<Decision> {
        let pending = view.reinject.first()?;
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

    /// Returns the decision for `subflow`, whose linger time is `linger`. It `fills` the connection's window up
    /// to its edge, as `mptcp_sendmsg_frag` does.
    fn burst(
        &mut self,
        chunk: Chunk,
        fills: bool,
        subflow: &SubflowView,
        (linger, other): (f64, f64),
    ) -> Option<Decision> {
        let range = if !has_buffer(subflow) {
            chunk.queue_on(subflow, self.burst_left)?
        } else {
            // The kernel assigns whole pieces, and then checks whether the burst is complete.
            let start = chunk.range.start;
            chunk.piece_on(subflow, end_of_piece(start) - start, fills)?
        };
        self.burst_left = self.burst_left.saturating_sub(range.len());
        let least = if has_buffer(subflow) { 1 } else { subflow.mss };
        if self.burst_left < least {
            self.last = None;
        }
        Some(pick::assign_new(subflow, range, Why::scored(Rule::Linger, linger, other)))
    }
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
    send_buffer::memory(subflow.unacked, subflow.queued, subflow.mss)
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
        if let Some(decision) = self.again(view) {
            return decision;
        }
        let chunk = match Chunk::unassigned(view) {
            Ok(chunk) => chunk,
            Err(Rule::NothingToSend) if !view.reinject.is_empty() => return pick::wait(Rule::NoRoom),
            Err(rule) => {
                // The kernel pushes until the data or the window ends, and then selects again.
                self.last = None;
                return pick::wait(rule);
            }
        };
        if let Some(last) = self.last.and_then(|last| view.subflow(last))
            && self.is_active(last)
            && self.has_memory(last)
            && let Some(decision) = self.burst(chunk, view.fills_window, last, (f64::NAN, f64::NAN))
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
        let burst = SEND_BURST.min(if room == 0 { SEND_BURST } else { room });
        self.burst_left = if view.fills_window { burst } else { burst.max(subflow.mss) };
        self.last = Some(subflow.id);
        let rate = self.rate(subflow);
        let scores = (linger, other.unwrap_or(f64::NAN));
        let Some(decision) = self.burst(chunk, view.fills_window, subflow, scores) else {
            self.last = None;
            return pick::wait(Rule::NoRoom);
        };
        let mut known = self.known.get(subflow);
        known.rate = (rate * held + pacing_rate(subflow) * burst as f64) / (burst as f64 + held);
        self.known.set(subflow, known);
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

    /// Two subflows with the kernel's send buffers, of which the second has a larger RTT.
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
}
