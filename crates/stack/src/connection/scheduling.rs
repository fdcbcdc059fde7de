//! The scheduler of a connection: its view, and the events it is notified of.

use anabranch_units::{Duration, Time};

use super::Connection;
use super::data_timer::DATA_TIMER_FLOOR;
use super::send_space;
use super::send_state::SendState;
use super::subflows::Subflows;
use crate::config::{ConnectionConfig, OpportunisticRetransmission};
use crate::congestion::{AnyCongestion, CongestionControl};
use crate::event::SubflowId;
use crate::observer::Limit;
use crate::pieces;
use crate::scheduler::{
    AfterTimeout, AnyScheduler, Decision, EventKinds, Scheduler, SchedulerEvent, SchedulerKind, SmallQueues,
    SubflowView, View,
};
use crate::subflow::Subflow;

/// The number of expirations of the data-level timer after which its wait is at least [`DATA_TIMER_FLOOR`].
const MOST_REPETITIONS: u8 = 32;

/// The scheduler, and its view of the subflows.
// The field order keeps the fields used for each segment together.
#[derive(Clone)]
#[repr(C)]
pub(super) struct Scheduling {
    /// The events for which it is notified.
    kinds: EventKinds,
    /// True if it may recall queued data.
    revises: bool,
    /// True if it may copy outstanding data when there is no new data.
    copies: bool,
    /// True if it is also asked for a single subflow.
    alone: bool,
    /// True if the congestion windows of the subflows are coupled.
    coupled: bool,
    /// The limit of the last scheduling.
    limit: Limit,
    /// The number of expirations of the data-level retransmission timer since `data_wait` was set.
    repetitions: u8,
    /// The number of expirations of the data-level retransmission timer.
    data_timeouts: u64,
    /// Linux's wait for progress at the data level (`timer_ival`).
    data_wait: Duration,
    /// Allocated separately: a connection with one subflow may never need them.
    views: Vec<SubflowView>,
    scheduler: AnyScheduler,
}

impl Scheduling {
    pub(super) fn new(config: &ConnectionConfig) -> Scheduling {
        let scheduler = match (&config.scheduler, config.small_queues) {
            (kind, Some(limit)) if !matches!(kind, SchedulerKind::Linux(_)) => {
                SmallQueues::over(kind.build(), limit)
            }
            (kind, _) => kind.build(),
        };
        Scheduling {
            kinds: scheduler.wants_events(),
            revises: scheduler.revises_queues(),
            copies: scheduler.copies_outstanding(),
            alone: scheduler.decides_alone(),
            coupled: config.congestion.is_coupled(),
            limit: Limit::Application,
            data_timeouts: 0,
            data_wait: DATA_TIMER_FLOOR,
            repetitions: 0,
            views: Vec::new(),
            scheduler,
        }
    }

    /// Returns the scheduler's own mode of opportunistic retransmission, if it has one.
    pub(super) fn opportunistic(&self) -> Option<OpportunisticRetransmission> {
        self.scheduler.opportunistic()
    }

    /// True if the scheduler may recall queued data.
    #[inline]
    pub(super) fn revises(&self) -> bool {
        self.revises
    }

    /// True if the scheduler may copy outstanding data when there is no new data.
    #[inline]
    pub(super) fn copies(&self) -> bool {
        self.copies
    }

    /// True if the scheduler is asked even if there is only one subflow.
    #[inline]
    pub(super) fn decides_alone(&self) -> bool {
        self.alone
    }

    /// Returns the limit of the last scheduling.
    #[inline]
    pub(super) fn limit(&self) -> Limit {
        self.limit
    }

    /// Records the current limit; returns true if it has changed.
    #[inline]
    pub(super) fn note_limit(&mut self, limit: Limit) -> bool {
        core::mem::replace(&mut self.limit, limit) != limit
    }

    /// Counts an expiration of the data-level retransmission timer.
    pub(super) fn on_data_timeout(&mut self) {
        self.data_timeouts += 1;
        // Linux waits for the same time again. Without an end, a short one would wake a connection without
        // progress all the time.
        self.repetitions = self.repetitions.saturating_add(1);
        if self.repetitions > MOST_REPETITIONS {
            self.data_wait = self.data_wait.max(DATA_TIMER_FLOOR);
        }
    }

    /// Returns Linux's wait for progress at the data level.
    pub(super) fn data_wait(&self) -> Duration {
        self.data_wait
    }

    /// Sets Linux's wait for progress at the data level.
    pub(super) fn set_data_wait(&mut self, wait: Duration) {
        self.data_wait = wait;
        self.repetitions = 0;
    }

    /// True if Linux's scheduler has seen no progress of `subflow` at its last check.
    pub(super) fn has_stalled(&self, subflow: &SubflowView) -> bool {
        matches!(&self.scheduler, AnyScheduler::Linux(linux) if linux.has_stalled(subflow))
    }

    /// Returns the end of the piece of the stream that contains `offset`, as Linux's scheduler counts them.
    pub(super) fn end_of_piece(&self, offset: u64) -> u64 {
        match &self.scheduler {
            AnyScheduler::Linux(linux) => linux.end_of_piece(offset),
            _ => pieces::end_of_piece(offset),
        }
    }

    /// Returns the action of Linux's scheduler after the data-level timer has expired.
    #[cold]
    pub(super) fn after_data_timeout(
        &mut self,
        now: Time,
        subflows: &mut Subflows,
        send: &SendState,
        config: &ConnectionConfig,
        congestion: &AnyCongestion,
    ) -> AfterTimeout {
        self.refresh(subflows, congestion);
        let Scheduling { scheduler, views, coupled, data_timeouts, .. } = self;
        let AnyScheduler::Linux(linux) = scheduler else { return AfterTimeout::Wait };
        linux.after_data_timeout(&view(now, views, send, config, congestion, *coupled, *data_timeouts))
    }

    /// Updates the view with the current state of the subflows.
    pub(super) fn refresh(&mut self, subflows: &mut Subflows, congestion: &AnyCongestion) {
        // A pacing rate may change without an event of its subflow.
        let all = congestion.sets_pacing_rates();
        subflows.renew_views(&mut self.views, all, |id| congestion.pacing_rate(id));
    }

    /// Adds an assignment of `len` bytes to `subflow` to the view.
    pub(super) fn on_assigned(&mut self, subflow: SubflowId, len: u64) {
        if let Some(view) = self.views.iter_mut().find(|view| view.id == subflow) {
            view.queued += len;
            view.window_room = view.window_room.saturating_sub(len);
        }
    }

    /// Returns the next decision, with the view of the last [`Scheduling::refresh`].
    #[inline]
    pub(super) fn decide(
        &mut self,
        now: Time,
        send: &SendState,
        config: &ConnectionConfig,
        congestion: &AnyCongestion,
    ) -> Decision {
        let Scheduling { scheduler, views, coupled, data_timeouts, .. } = self;
        scheduler.decide(&view(now, views, send, config, congestion, *coupled, *data_timeouts))
    }
}

// Always inlined, so that it is written in place without a copy.
#[inline(always)]
fn view<'a>(
    now: Time,
    subflows: &'a [SubflowView],
    send: &'a SendState,
    config: &'a ConnectionConfig,
    congestion: &'a AnyCongestion,
    coupled: bool,
    data_timeouts: u64,
) -> View<'a> {
    let unassigned = send.unassigned.total();
    // The size announced by the application is valid until it has written more than that.
    let named = config.flow_size.map(|size| size.get().saturating_sub(send.written) + unassigned);
    View {
        now,
        subflows,
        unassigned: send.unassigned.as_slice(),
        reinject: send.reinject_now(),
        outstanding: send.outstanding.as_slice(),
        data_una: send.una,
        data_nxt: send.nxt,
        window_end: send.window_end,
        peer_window: send.peer_window,
        remaining: named.unwrap_or(unassigned),
        size_known: named.is_some(),
        send_buffer_full: send.has_more,
        send_buffer_max: send_space::largest(config, subflows.len()),
        written: send.written,
        data_timeouts,
        fills_window: config.fill_window,
        coupled,
        known: Some(&config.known_paths),
        congestion: Some(congestion),
    }
}

/// Returns the scheduler's view of one subflow.
#[inline(always)]
pub(super) fn view_of(subflow: &Subflow, congestion: &AnyCongestion) -> SubflowView {
    subflow.view(congestion.pacing_rate(subflow.id()))
}

impl Connection {
    /// Notifies the scheduler of an event of a kind that it has requested.
    #[inline]
    pub(super) fn notify_scheduler(&mut self, now: Time, event: &SchedulerEvent) {
        if self.scheduling.kinds.has(event.kind()) {
            self.tell_listening_scheduler(now, event);
        }
    }

    fn tell_listening_scheduler(&mut self, now: Time, event: &SchedulerEvent) {
        let Connection { scheduling, subflows, send, config, congestion, .. } = self;
        scheduling.refresh(subflows, congestion);
        let Scheduling { scheduler, views, coupled, data_timeouts, .. } = scheduling;
        scheduler.on_event(&view(now, views, send, config, congestion, *coupled, *data_timeouts), event);
    }
}
