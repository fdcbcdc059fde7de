//! The state of a connection that its parts read and change besides their own, for one step.

use anabranch_units::{Duration, Time};

use super::subflows::{self, Subflows};
use super::timer_table::TimerTable;
use crate::config::ConnectionConfig;
use crate::scheduler::SubflowView;
use crate::subflow::Subflow;

/// The state for one step of a part.
pub(super) struct Context<'a> {
    pub now: Time,
    pub config: &'a ConnectionConfig,
    pub subflows: &'a mut Subflows,
    pub timers: &'a mut TimerTable,
}

impl Context<'_> {
    /// Returns the maximum retransmission timeout of the usable subflows.
    pub(super) fn max_rto(&self) -> Duration {
        max_rto(self.subflows, self.config)
    }

    /// Returns the usable subflow with the lowest RTT.
    pub(super) fn best_subflow(&mut self) -> Option<&mut Subflow> {
        let usable = self.subflows.iter_mut().filter(|subflow| subflow.state().is_usable());
        usable.min_by_key(|subflow| {
            let SubflowView { potentially_failed, srtt, .. } = subflow.view(None);
            (potentially_failed, srtt)
        })
    }
}

/// Returns the maximum retransmission timeout of the usable subflows.
pub(super) fn max_rto(subflows: &[Subflow], config: &ConnectionConfig) -> Duration {
    subflows::longest_timeout(subflows, &config.rto)
}

/// Returns the time of the last acceptable segment on any subflow.
pub(super) fn heard_at(subflows: &[Subflow]) -> Time {
    subflows.iter().map(|subflow| subflow.last_received()).max().unwrap_or(Time::ZERO)
}
