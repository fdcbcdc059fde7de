//! Small queues: a subflow with several packets in the queue of the host's device gets no new data.
//!
//! **Decides** nothing itself: it shows the connection's scheduler no window of such a subflow, so that the scheduler
//! passes over it as over a subflow with a full window. A burst then continues on a slower subflow.
//!
//! **Source**: the check of `TSQ_THROTTLED` in the `default` scheduler of earlier versions of the out-of-tree MPTCP
//! kernel. Its later version (`mptcp_sched.c` of commit 0a7e92dfd967) has none, and neither has
//! upstream Linux 6.18 (`mptcp_subflow_get_send`), so there is no limit by default.
//!
//! **Constants**: the device of each subflow sends 1 Gbit/s ([`DEVICE`]).
//!
//! **Departures from the source**
//! * The limit is a number of bytes of new data. The kernel counts the memory of all packets, and its limit is two
//!   packets, or more if the pacing rate sends more in a millisecond.
//! * Data is in the queue from its assignment on. Rules that assign more than the window admits are delayed by the time
//!   of the device only.

use anabranch_units::{Duration, Rate, Time};

use super::pick::Tracked;
use super::{
    AnyScheduler, CustomScheduler, Decision, EventKinds, OpportunisticRetransmission, Scheduler,
    SchedulerEvent, SubflowView, View,
};

/// The rate of the device of each subflow.
const DEVICE: Rate = Rate::from_mbps(1000);

/// A scheduler that passes over subflows with more than `limit` in the queue of their device.
#[derive(Clone)]
pub(crate) struct SmallQueues {
    scheduler: AnyScheduler,
    /// The limit, as the time in which the device sends it.
    limit: Duration,
    /// The time at which the queue of a subflow is empty.
    empty: Tracked<Time>,
    /// The subflows as the scheduler sees them.
    shown: Vec<SubflowView>,
}

impl SmallQueues {
    /// Returns `scheduler` with a limit of that number of bytes.
    pub(crate) fn over(scheduler: AnyScheduler, limit: u32) -> AnyScheduler {
        let limit = DEVICE.transmission_time(u64::from(limit));
        let empty = Tracked::default();
        AnyScheduler::Custom(Box::new(SmallQueues { scheduler, limit, empty, shown: Vec::new() }))
    }
}

impl Scheduler for SmallQueues {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let SmallQueues { scheduler, limit, empty, shown } = self;
        // The earliest time at which a subflow without space has some.
        let mut next = Time::NEVER;
        shown.clear();
        shown.extend(view.subflows.iter().map(|subflow| {
            let empty = empty.get(subflow).max(view.now);
            let full = view.now + *limit;
            let mut seen = *subflow;
            if empty > full {
                next = next.min(empty - *limit);
                seen.window_room = 0;
            } else {
                // The packet that exceeds the limit is the last.
                seen.window_room = seen.window_room.min(DEVICE.bytes_in(full - empty) + subflow.mss);
            }
            seen
        }));
        let decision = scheduler.decide(&View { subflows: shown, ..*view });
        match decision {
            Decision::Assign { subflow, range, .. } => {
                if let Some(subflow) = view.subflow(subflow) {
                    let from = empty.get(subflow).max(view.now);
                    empty.set(subflow, from + DEVICE.transmission_time(range.len()));
                }
                decision
            }
            Decision::Wait { until, why } if next < Time::NEVER => {
                Decision::Wait { until: Some(until.map_or(next, |until| until.min(next))), why }
            }
            decision => decision,
        }
    }

    fn on_event(&mut self, view: &View<'_>, event: &SchedulerEvent) {
        self.scheduler.on_event(view, event);
    }

    fn wants_events(&self) -> EventKinds {
        self.scheduler.wants_events()
    }

    fn revises_queues(&self) -> bool {
        self.scheduler.revises_queues()
    }

    fn copies_outstanding(&self) -> bool {
        self.scheduler.copies_outstanding()
    }

    fn decides_alone(&self) -> bool {
        self.scheduler.decides_alone()
    }

    fn opportunistic(&self) -> Option<OpportunisticRetransmission> {
        self.scheduler.opportunistic()
    }
}

impl CustomScheduler for SmallQueues {
    fn clone_box(&self) -> Box<dyn CustomScheduler> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::SubflowId;
    use crate::scheduler::{MinRtt, SchedulerKind};
    use crate::seq::DataRange;

    const MSS: u64 = 1000;

    /// Returns the bytes that each subflow gets at `now`, and the time of the next question.
    fn all(scheduler: &mut impl Scheduler, now: Time, subflows: &[SubflowView]) -> ([u64; 2], Option<Time>) {
        let (mut subflows, mut left) = (subflows.to_vec(), DataRange::new(0, 1_000_000));
        let mut got = [0; 2];
        loop {
            let unassigned = [left];
            match scheduler.decide(&View::fresh(now, &subflows, &unassigned)) {
                Decision::Assign { subflow, range, .. } => {
                    let at = subflow.index();
                    got[at] += range.len();
                    subflows[at].queued += range.len();
                    left.start = range.end;
                }
                Decision::Wait { until, .. } => return (got, until),
                Decision::Recall { .. } => unreachable!("nothing is recalled"),
            }
        }
    }

    fn two() -> [SubflowView; 2] {
        let view = |id, ms| SubflowView::idle(SubflowId(id), Duration::from_millis(ms), 20, MSS);
        [view(0, 10), view(1, 100)]
    }

    #[test]
    fn a_burst_continues_on_the_slow_subflow_and_the_fast_one_is_asked_again_when_its_device_has_sent() {
        let mut scheduler = SmallQueues::over(SchedulerKind::MinRtt.build(), 5000);
        let now = Time::ZERO + Duration::from_secs(1);
        // Up to 5000 bytes, and the packet that exceeds them.
        let (got, until) = all(&mut scheduler, now, &two());
        assert_eq!(got, [6000, 6000]);
        // 1000 bytes take 8 us.
        let again = now + Duration::from_micros(8);
        assert_eq!(until, Some(again));
        assert_eq!(all(&mut scheduler, again - Duration::from_nanos(1), &two()).0, [0, 0]);
        assert_eq!(all(&mut scheduler, again, &two()).0, [1000, 1000]);
    }

    #[test]
    fn windows_that_the_device_empties_in_time_are_filled_as_without_the_limit() {
        let mut limited = SmallQueues::over(SchedulerKind::MinRtt.build(), 1_000_000);
        let (got, until) = all(&mut limited, Time::ZERO, &two());
        assert_eq!((got, until), all(&mut MinRtt::new(), Time::ZERO, &two()));
        assert_eq!((got, until), ([20_000, 20_000], None));
    }

    #[test]
    fn another_subflow_of_the_same_id_begins_with_an_empty_queue() {
        let mut scheduler = SmallQueues::over(SchedulerKind::MinRtt.build(), 5000);
        let now = Time::ZERO + Duration::from_secs(1);
        all(&mut scheduler, now, &two());
        let mut again = two();
        again[0].established = now;
        assert_eq!(all(&mut scheduler, now, &again).0, [6000, 0]);
    }
}
