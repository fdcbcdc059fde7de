//! The scheduler of a connection: the view that it is asked with, and the events that it is notified of.

use anabranch_units::Time;

use super::Connection;
use super::send_state::SendState;
use crate::config::{ConnectionConfig, OpportunisticRetransmission};
use crate::congestion::{AnyCongestion, CongestionControl};
use crate::event::SubflowId;
use crate::observer::Limit;
use crate::scheduler::{
    AnyScheduler, Decision, EventKinds, Scheduler, SchedulerEvent, SchedulerKind, SubflowView, View,
};
use crate::subflow::Subflow;

/// The scheduler, and its view of the subflows.
// In this order what each segment looks at lies together.
#[derive(Clone)]
#[repr(C)]
pub(super) struct Scheduling {
    /// The events that it is notified of.
    kinds: EventKinds,
    /// It may recall queued data.
    revises: bool,
    /// It is asked for one subflow alone as well.
    alone: bool,
    /// What kept the connection from sending more when it last scheduled.
    limit: Limit,
    /// How often the data-level retransmission timer has expired.
    data_timeouts: u64,
    /// Apart from the rest: a connection with one subflow may never need them.
    views: Vec<SubflowView>,
    scheduler: AnyScheduler,
}

impl Scheduling {
    pub(super) fn new(kind: &SchedulerKind) -> Scheduling {
        let scheduler = kind.build();
        Scheduling {
            kinds: scheduler.wants_events(),
            revises: scheduler.revises_queues(),
            alone: scheduler.decides_alone(),
            limit: Limit::Application,
            data_timeouts: 0,
            views: Vec::new(),
            scheduler,
        }
    }

    /// The scheduler's own choice of opportunistic retransmission, if it has one.
    pub(super) fn opportunistic(&self) -> Option<OpportunisticRetransmission> {
        self.scheduler.opportunistic()
    }

    /// True if the scheduler may recall queued data.
    #[inline]
    pub(super) fn revises(&self) -> bool {
        self.revises
    }

    /// True if the scheduler is asked even if there is only one subflow.
    #[inline]
    pub(super) fn decides_alone(&self) -> bool {
        self.alone
    }

    /// What kept the connection from sending more when it last scheduled.
    #[inline]
    pub(super) fn limit(&self) -> Limit {
        self.limit
    }

    /// Notes the present limit. True if it was another one before.
    #[inline]
    pub(super) fn note_limit(&mut self, limit: Limit) -> bool {
        core::mem::replace(&mut self.limit, limit) != limit
    }

    /// The data-level retransmission timer has expired.
    pub(super) fn on_data_timeout(&mut self) {
        self.data_timeouts += 1;
    }

    /// Takes the present state of the subflows into the view.
    pub(super) fn refresh(&mut self, subflows: &[Subflow], congestion: &AnyCongestion) {
        let mut live = subflows.iter().filter(|subflow| !subflow.is_closed());
        // The old views are overwritten: this happens for every acknowledgement.
        let mut used = 0;
        for (place, subflow) in self.views.iter_mut().zip(&mut live) {
            renew(place, subflow, congestion);
            used += 1;
        }
        self.views.truncate(used);
        self.views.extend(live.map(|subflow| view_of(subflow, congestion)));
    }

    /// Takes an assignment of `len` bytes to `subflow` into the view, which is otherwise as it was.
    pub(super) fn on_assigned(&mut self, subflow: SubflowId, len: u64) {
        if let Some(view) = self.views.iter_mut().find(|view| view.id == subflow) {
            view.queued += len;
            view.window_room = view.window_room.saturating_sub(len);
        }
    }

    /// Asks for the next decision, with the view of the last [`Scheduling::refresh`].
    pub(super) fn decide(
        &mut self,
        now: Time,
        send: &SendState,
        config: &ConnectionConfig,
        congestion: &AnyCongestion,
    ) -> Decision {
        let view = view(now, &self.views, send, config, congestion, self.data_timeouts);
        self.scheduler.decide(&view)
    }
}

#[inline]
fn view<'a>(
    now: Time,
    subflows: &'a [SubflowView],
    send: &'a SendState,
    config: &ConnectionConfig,
    congestion: &'a AnyCongestion,
    data_timeouts: u64,
) -> View<'a> {
    let unassigned = send.unassigned.total();
    // The size that the application has named counts until it has written more than that.
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
        send_buffer_full: send.blocked,
        written: send.written,
        data_timeouts,
        coupled: config.congestion.is_coupled(),
        congestion: Some(congestion),
    }
}

/// The scheduler's view of one subflow.
pub(super) fn view_of(subflow: &Subflow, congestion: &AnyCongestion) -> SubflowView {
    subflow.view(congestion.pacing_rate(subflow.id()))
}

/// A function of its own, so that the view is written in its place and not copied there.
#[inline(never)]
fn renew(view: &mut SubflowView, subflow: &Subflow, congestion: &AnyCongestion) {
    *view = view_of(subflow, congestion);
}

impl Connection {
    /// Notifies the scheduler of an event, if it listens to that kind.
    #[inline]
    pub(crate) fn tell_scheduler(&mut self, now: Time, event: &SchedulerEvent) {
        if self.scheduling.kinds.has(event.kind()) {
            self.tell_listening_scheduler(now, event);
        }
    }

    fn tell_listening_scheduler(&mut self, now: Time, event: &SchedulerEvent) {
        let Connection { scheduling, subflows, send, config, congestion, .. } = self;
        scheduling.refresh(subflows, congestion);
        let Scheduling { scheduler, views, data_timeouts, .. } = scheduling;
        scheduler.on_event(&view(now, views, send, config, congestion, *data_timeouts), event);
    }
}
