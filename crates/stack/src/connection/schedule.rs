//! Asks the scheduler and executes its decisions.

use anabranch_units::Time;

use super::context::Context;
use super::opportunistic::Full;
use super::scheduling::view_of;
use super::timer_table::Timer;
use super::{Connection, Mode, Phase};
use crate::event::SubflowId;
use crate::observer::{Limit, Observer, StackEvent, report};
use crate::scheduler::{AssignKind, Decision, Rule, SubflowView, Why, is_end_small};
use crate::seq::DataRange;
use crate::subflow::Subflow;
use crate::subflow::defer::Deferral;

/// More decisions than this at one time mean that a scheduler loops endlessly.
const MAX_DECISIONS: u32 = 100_000;

impl Connection {
    /// Asks the scheduler until it waits.
    pub(super) fn schedule<O: Observer>(&mut self, now: Time, observer: &mut O) {
        self.wanted.on_schedule();
        self.send.forget_news();
        self.timers.disarm(Timer::Schedule);
        if self.phase != Phase::Open {
            return;
        }
        let mut limit = Limit::Application;
        let may_push = self.send.may_push();
        let has_data = self.send.has_data_to_assign();
        if self.rules.kernel_buffers {
            let awaits = self.send.blocked;
            self.subflows.check_each(|subflow| subflow.set_awaits_space(awaits));
        }
        if has_data || self.may_revise() || self.may_copy() {
            let mut live = self.subflows.iter().filter(|subflow| !subflow.state().is_closed());
            limit = match (live.next(), live.next()) {
                (None, _) => Limit::NoSubflow,
                (Some(only), None) if !self.scheduling.decides_alone() || self.mode == Mode::Plain => {
                    let at = only.id().index();
                    self.assign_to_only(now, at, observer)
                }
                _ => self.ask_scheduler(now, observer),
            };
        }
        limit = self.without_space(limit);
        if self.models_buffers() && may_push {
            self.update_data_wait(now);
        }
        if self.send.blocked && self.has_kernel_buffers() && self.deferral() == Deferral::Nothing {
            self.expand_buffers();
        }
        if self.opportunistic.is_on() && (limit == Limit::ReceiveWindow || self.send.blocked) {
            let full = if limit == Limit::ReceiveWindow { Full::ReceiveWindow } else { Full::SendBuffer };
            self.try_opportunistic(now, full, observer);
        }
        if self.scheduling.note_limit(limit) {
            report(observer, now, self.id, &StackEvent::Limit(limit));
        }
        let limit_now = self.scheduling.limit();
        let Connection { persist, subflows, timers, config, .. } = self;
        persist.arm(limit_now, &mut Context { now, config, subflows, timers });
        self.check_drained(limit);
        // Data that the scheduler itself has recalled is no news.
        self.send.forget_news();
    }

    /// Returns the limit after a scheduling that has found `limit`: without data to send, the send buffer, if the
    /// application waits for its space; and if subflows have no space in their buffers, theirs.
    fn without_space(&self, limit: Limit) -> Limit {
        match limit {
            Limit::Application if self.send.blocked => Limit::SendBuffer,
            Limit::CongestionWindow if self.rules.kernel_buffers && self.is_space_short() => {
                Limit::SendBuffer
            }
            limit => limit,
        }
    }

    /// Looks for subflows that have nothing to send although they could: all of them if there is no data, and
    /// the subflows that the scheduler leaves idle, if the congestion control works with rates.
    #[inline]
    fn check_drained(&mut self, limit: Limit) {
        let no_data = matches!(limit, Limit::Application | Limit::SendBuffer);
        // The only subflow of a plain TCP has the data that waits here.
        if no_data || (self.congestion.sets_pacing_rates() && self.mode == Mode::Mptcp) {
            self.subflows.check_each(|subflow| {
                subflow.check_drained();
                false
            });
        }
    }

    /// Assigns data without a scheduler if there is only one subflow: as much as its windows admit, in every
    /// state of its recovery, as in the out-of-tree kernel
    /// (`docs/decisions/one-subflow-bypasses-the-scheduler.md`).
    #[inline(never)]
    fn assign_to_only<O: Observer>(&mut self, now: Time, at: usize, observer: &mut O) -> Limit {
        loop {
            let subflow = &self.subflows[at];
            if !subflow.state().is_usable() {
                return Limit::NoSubflow;
            }
            let SubflowView { mss, inflight, queued, cwnd, window_room, .. } = subflow.view(None);
            let under_way = inflight + queued;
            let free = cwnd.saturating_sub(under_way);
            let reinject = self.send.reinject_now().first().map(|pending| pending.range);
            let (next, kind) = match (reinject, self.send.unassigned.first()) {
                (Some(range), _) => (range, AssignKind::Reinject),
                (None, Some(range)) => (range, AssignKind::New),
                (None, None) => return Limit::Application,
            };
            let end = next.end.min(self.send.window_end);
            if end <= next.start {
                return Limit::ReceiveWindow;
            }
            let mut len = (end - next.start).min(window_room);
            let whole = len == next.len();
            if !whole || (kind == AssignKind::New && self.completes_end(mss)) {
                // A window that ends inside a segment is filled to its edge only if nothing is in flight that
                // would open it (RFC 9293 section 3.8.6.2.1). So waits a short end that the application completes.
                if len >= mss {
                    len -= len % mss;
                } else if under_way > 0 {
                    len = 0;
                }
            }
            if len == 0 {
                return if whole {
                    Limit::Application
                } else if subflow.is_space_short() {
                    Limit::SendBuffer
                } else {
                    Limit::ReceiveWindow
                };
            }
            let granted = match len {
                len if len <= free => len,
                _ if free < mss => 0,
                _ => free - free % mss,
            };
            if granted > 0 {
                self.assign(now, at, DataRange::new(next.start, next.start + granted), kind, observer);
            }
            if granted == 0 || granted + mss <= len {
                // Only the congestion window prevents another whole segment.
                return Limit::CongestionWindow;
            }
        }
    }

    /// True if the application is to complete the short end of the data.
    fn completes_end(&self, mss: u64) -> bool {
        let last = self.send.unassigned.as_slice().len() == 1;
        last && self.send.has_more && self.mode == Mode::Mptcp && is_end_small(self.send.buffered(), mss)
    }

    /// True if some queue has data that the scheduler may recall.
    fn may_revise(&self) -> bool {
        self.scheduling.revises() && self.subflows.iter().any(Subflow::has_queue)
    }

    /// True if data is outstanding that the scheduler may copy to another subflow.
    fn may_copy(&self) -> bool {
        self.scheduling.copies() && !self.send.outstanding.as_slice().is_empty()
    }

    /// Assigns new data to a tail loss probe that is sent next, if there is some, regardless of the congestion
    /// window (RFC 8985 section 7.3). With several subflows, a silent one gets no new data.
    #[cold]
    pub(super) fn feed_probe<O: Observer>(&mut self, now: Time, at: usize, observer: &mut O) {
        let first = &self.subflows[at];
        let third_ack = self.wanted.wants_third_ack() && !first.handshake().is_join();
        if third_ack || !first.state().is_usable() || self.live_subflows().nth(1).is_some() {
            return;
        }
        let Some(next) = self.send.unassigned.first() else { return };
        let SubflowView { mss, window_room, .. } = self.subflows[at].view(None);
        let whole = next.len().min(mss);
        if whole <= window_room && next.start + whole <= self.send.window_end {
            let range = DataRange::new(next.start, next.start + whole);
            self.assign(now, at, range, AssignKind::New, observer);
        }
    }

    #[inline(never)]
    fn ask_scheduler<O: Observer>(&mut self, now: Time, observer: &mut O) -> Limit {
        self.scheduling.refresh(&mut self.subflows, &self.congestion);
        for _ in 0..MAX_DECISIONS {
            let Connection { scheduling, send, config, congestion, .. } = self;
            let decision = scheduling.decide(now, send, config, congestion);
            self.stats.decisions += 1;
            report(observer, now, self.id, &StackEvent::Decision(&decision));
            match decision {
                Decision::Assign { subflow, range, kind, .. } => {
                    let Some(at) = self.allowed(subflow, range, kind) else { return Limit::Scheduler };
                    self.assign(now, at, range, kind, observer);
                    self.scheduling.on_assigned(subflow, range.len());
                }
                Decision::Recall { subflow, range, .. } => {
                    if !self.recall(subflow, range) {
                        return Limit::Scheduler;
                    }
                    self.scheduling.refresh(&mut self.subflows, &self.congestion);
                }
                Decision::Wait { until, why } => {
                    self.timers
                        .arm(Timer::Schedule, until.filter(|&until| until > now).unwrap_or(Time::NEVER));
                    return limit_of(&why);
                }
            }
        }
        Limit::Scheduler
    }

    /// Returns the index of the subflow if the state allows the decision.
    fn allowed(&self, subflow: SubflowId, range: DataRange, kind: AssignKind) -> Option<usize> {
        let at = self.subflow_index(subflow).filter(|&at| self.subflows[at].state().is_usable())?;
        if range.is_empty() || range.end > self.send.window_end || range.start < self.send.una {
            return None;
        }
        let there = match kind {
            AssignKind::New => self.send.unassigned.covers(range),
            AssignKind::Copy | AssignKind::Reinject => {
                let mut covered = 0;
                self.send.outstanding.overlap(range, |part, _| covered += part.len());
                covered == range.len()
            }
        };
        there.then_some(at)
    }

    pub(super) fn assign<O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        range: DataRange,
        kind: AssignKind,
        observer: &mut O,
    ) {
        let id = self.subflows[at].id();
        report(observer, now, self.id, &StackEvent::Assigned { subflow: id, range });
        match kind {
            AssignKind::New => self.send.assign_new(range, id),
            AssignKind::Copy | AssignKind::Reinject => self.assign_again(range, id),
        }
        self.subflows[at].assign(range, kind);
        // Arm the data-level timer only once a subflow holds data.
        if !self.timers.is_armed(Timer::Data) {
            self.arm_data_timer(now);
        }
    }

    #[inline(never)]
    fn assign_again(&mut self, range: DataRange, id: SubflowId) {
        self.send.assign_again(range, id);
    }

    /// Recalls data from a subflow's queue; returns false if none of it is there.
    #[cold]
    fn recall(&mut self, subflow: SubflowId, range: DataRange) -> bool {
        let Some(at) = self.subflow_index(subflow) else { return false };
        let mut taken = false;
        let Connection { subflows, send, .. } = self;
        subflows[at].recall(range, |part, kind| {
            taken = true;
            match kind {
                AssignKind::New => send.take_back(part),
                AssignKind::Copy => {}
                AssignKind::Reinject => send.request_reinjection(part),
            }
        });
        taken
    }

    /// Lets a fast subflow with free window help while the windows block.
    #[inline(never)]
    fn try_opportunistic<O: Observer>(&mut self, now: Time, full: Full, observer: &mut O) {
        let fastest = (0..self.subflows.len())
            .filter(|&at| {
                let subflow = &self.subflows[at];
                let view = || view_of(subflow, &self.congestion);
                !subflow.state().is_closed() && view().may_carry() && view().room() > 0
            })
            .min_by_key(|&at| self.subflows[at].view(None).srtt);
        let Some(fast) = fastest else { return };
        if let Some(range) = self.help_out(now, fast, full) {
            self.assign(now, fast, range, AssignKind::Reinject, observer);
        }
    }
}

fn limit_of(why: &Why) -> Limit {
    match why.rule {
        Rule::NothingToSend => Limit::Application,
        Rule::WindowFull => Limit::ReceiveWindow,
        Rule::NoRoom => Limit::CongestionWindow,
        Rule::NoSubflow => Limit::NoSubflow,
        _ => Limit::Scheduler,
    }
}
