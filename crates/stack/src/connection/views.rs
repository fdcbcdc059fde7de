//! The scheduler's view of a connection, and the events that it is notified of.

use anabranch_units::{Rate, Time};

use super::Connection;
use super::send_state::SendState;
use crate::config::ConnectionConfig;
use crate::congestion::{AnyCongestion, CongestionControl};
use crate::scheduler::{Scheduler, SchedulerEvent, SubflowView, View};
use crate::subflow::Subflow;

#[inline]
pub(super) fn view<'a>(
    now: Time,
    subflows: &'a [SubflowView],
    send: &'a SendState,
    config: &ConnectionConfig,
    congestion: &'a AnyCongestion,
    data_timeouts: u64,
) -> View<'a> {
    let unassigned = send.unassigned.total();
    // What the application has named counts until it has written more than that.
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

/// Apart, as the view is then written where it belongs, and not copied there.
#[inline(never)]
pub(super) fn renew(view: &mut SubflowView, subflow: &Subflow, pacing_rate: Option<Rate>) {
    *view = subflow.view(pacing_rate);
}

impl Connection {
    pub(super) fn refresh_views(&mut self) {
        let Connection { views, subflows, congestion, .. } = self;
        let mut live = subflows.iter().filter(|subflow| !subflow.is_closed());
        // Written over what stands there: this happens for every acknowledgement.
        let mut used = 0;
        for (place, subflow) in views.iter_mut().zip(&mut live) {
            renew(place, subflow, congestion.pacing_rate(subflow.id()));
            used += 1;
        }
        views.truncate(used);
        views.extend(live.map(|subflow| subflow.view(congestion.pacing_rate(subflow.id()))));
    }

    /// Tells the scheduler what has happened, if it wants to know.
    #[inline]
    pub(crate) fn tell_scheduler(&mut self, now: Time, event: &SchedulerEvent) {
        if self.scheduler_events.has(event.kind()) {
            self.tell_listening_scheduler(now, event);
        }
    }

    pub(super) fn tell_listening_scheduler(&mut self, now: Time, event: &SchedulerEvent) {
        self.refresh_views();
        let view = view(now, &self.views, &self.send, &self.config, &self.congestion, self.data_timeouts);
        self.scheduler.on_event(&view, event);
    }

    pub(crate) fn view_of(&self, at: usize) -> SubflowView {
        let subflow = &self.subflows[at];
        let pacing: Option<Rate> = self.congestion.pacing_rate(subflow.id());
        subflow.view(pacing)
    }
}
