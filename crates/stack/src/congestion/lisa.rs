//! LISA, the linked slow start: a subflow that joins while another is in its first slow start takes its
//! initial window from that one, so that a connection does not send two bursts at once.
//!
//! **Decides** the initial window of a joining subflow, from the window of a donor: the subflow in its first
//! slow start that has the highest sending rate. The donor gives up the same amount. Afterwards it ignores as
//! many acknowledged segments as it has in flight beyond its new window.
//!
//! **Source**: Barik, Welzl, Ferlin, Alay, "LISA: A linked slow-start algorithm for MPTCP", ICC 2016, in the
//! wording of draft-barik-mptcp-lisa-01. Its `new -= old / 2` can only mean `new = old / 2`.
//!
//! **Constants**: at least 3 segments, at most 10; a window of 20 or more gives 10, one of 6 to 19 gives
//! half, and a smaller one nothing.
//!
//! **Departures from the source**: a joining subflow never begins with more than its own initial window, if
//! that is configured below 10. The sending rate in the last round trip is the window over the smoothed RTT,
//! as a subflow in slow start uses its window.

use super::rule::Windows;
use crate::event::SubflowId;

/// The maximum window that a joining subflow takes, in segments.
const MOST: f64 = 10.0;
/// The minimum initial window, in segments.
const LEAST: f64 = 3.0;

/// The initial window of a joining subflow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Share {
    /// The window in segments.
    pub(super) window: f64,
    /// The segments that the donor gives up.
    pub(super) taken: f64,
}

/// Returns the start of a subflow with an initial window of `initial` segments, if the donor in slow start
/// has `donor` segments.
pub(super) fn share(donor: f64, initial: f64) -> Share {
    let taken = if donor >= 2.0 * MOST {
        MOST
    } else if donor >= 2.0 * LEAST {
        libm::floor(donor / 2.0)
    } else {
        return Share { window: LEAST.min(initial), taken: 0.0 };
    };
    let taken = taken.min(initial);
    Share { window: taken, taken }
}

/// Returns the subflow that `may_give` and has the highest sending rate; the first wins a tie.
pub(super) fn fastest(windows: &Windows, may_give: impl Fn(SubflowId) -> bool) -> Option<SubflowId> {
    let mut best: Option<(SubflowId, f64)> = None;
    for (id, segments, rtt) in windows.measured().filter(|(id, ..)| may_give(*id)) {
        let rate = segments / rtt;
        if best.is_none_or(|(_, most)| rate > most) {
            best = Some((id, rate));
        }
    }
    best.map(|(id, _)| id)
}
