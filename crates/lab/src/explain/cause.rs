//! The causes among which the time of a flow is divided, and sums over them.

use core::ops::{AddAssign, Index};

use anabranch_units::Duration;
use serde::{Deserialize, Serialize};

/// A cause of a flow's time. Every nanosecond has exactly one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A connection or a subflow was being established.
    Handshake,
    /// The application had not offered the byte yet.
    Application,
    /// Every usable congestion window was full.
    CongestionWindow,
    /// The sender withheld the byte although the windows admitted it: its pacing timer had not expired, or the
    /// segment was short and another short one unacknowledged (Nagle's algorithm).
    Pacing,
    /// The peer's receive window was full.
    ReceiveWindow,
    /// The send buffer had no space for the byte.
    SendBuffer,
    /// The scheduler waited although a subflow had free window.
    Scheduler,
    /// The packet was queued behind packets of other flows; in the account of bytes, behind any packets.
    Queueing,
    /// A link transmitted the packet, or another packet of the flow before it.
    Serialisation,
    /// The packet was on its way.
    Propagation,
    /// A lost segment had not been retransmitted yet.
    Retransmission,
    /// An earlier byte had not arrived.
    HeadOfLine,
    /// A path was down, or did not carry data again yet.
    Outage,
}

impl Cause {
    /// All causes, in the order of tables.
    pub const ALL: [Cause; 13] = [
        Cause::Handshake,
        Cause::Application,
        Cause::SendBuffer,
        Cause::ReceiveWindow,
        Cause::CongestionWindow,
        Cause::Pacing,
        Cause::Scheduler,
        Cause::Queueing,
        Cause::Serialisation,
        Cause::Propagation,
        Cause::Retransmission,
        Cause::HeadOfLine,
        Cause::Outage,
    ];

    /// Returns its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Handshake => "handshake",
            Cause::Application => "application",
            Cause::CongestionWindow => "congestion window",
            Cause::Pacing => "pacing",
            Cause::ReceiveWindow => "receive window",
            Cause::SendBuffer => "send buffer",
            Cause::Scheduler => "scheduler",
            Cause::Queueing => "queueing",
            Cause::Serialisation => "serialisation",
            Cause::Propagation => "propagation",
            Cause::Retransmission => "retransmission",
            Cause::HeadOfLine => "head-of-line",
            Cause::Outage => "outage",
        }
    }
}

/// A time for each cause, in nanoseconds. Wide enough for sums over the bytes of long flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Parts([u128; Cause::ALL.len()]);

impl Parts {
    /// Adds `span` to the time of `cause`, `times` times.
    pub fn add(&mut self, cause: Cause, span: Duration, times: u64) {
        self.0[cause as usize] += u128::from(span.0) * u128::from(times);
    }

    /// Adds, `times` times, the differences of `later` from `earlier`. No sum of `later` is smaller than in
    /// `earlier`.
    pub(super) fn add_difference(&mut self, later: &Parts, earlier: &Parts, times: u64) {
        for ((sum, later), earlier) in self.0.iter_mut().zip(later.0).zip(earlier.0) {
            *sum += (later - earlier) * u128::from(times);
        }
    }

    /// Returns the sum over all causes.
    pub fn total(&self) -> u128 {
        self.0.iter().sum()
    }

    /// Returns the cause with the longest time, the first of equal ones; none if there is no time.
    pub fn largest(&self) -> Option<Cause> {
        let causes = Cause::ALL.into_iter().filter(|cause| self[*cause] > 0);
        causes.rev().max_by_key(|cause| self[*cause])
    }
}

impl Index<Cause> for Parts {
    type Output = u128;

    fn index(&self, cause: Cause) -> &u128 {
        &self.0[cause as usize]
    }
}

impl AddAssign for Parts {
    fn add_assign(&mut self, other: Parts) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, part)| *sum += part);
    }
}
