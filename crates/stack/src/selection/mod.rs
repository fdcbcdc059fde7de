//! DMPTCP's choice of subflows: a path is used if the faster ones cannot finish the flow before its first
//! round trip ends.
//!
//! It decides from each path's smoothed RTT, window, threshold and loss rate, and from the bytes not yet
//! assigned to a subflow. Paths are considered in the order of their RTT. While path `i` is in its first
//! round trip, each faster path `j` has `RTT_i / RTT_j` of them and delivers `C_j(RTT_i / RTT_j)` by the
//! [transfer model](crate::transfer_model); if the sum `C_i` of these covers the remaining data, path `i` and
//! all slower ones stay idle.
//!
//! Source: *DMPTCP* (2018), section 4.2, algorithm 1 and equation 15.
//!
//! # Departures from the paper
//!
//! * Line 6 loops over `j = 1..i` where equation 15 sums over `j < i`, and line 7 prints `RTT_i / RTT_i`;
//!   equation 15 is meant.
//! * The text compares with the size of the file, the example with its remaining part; the latter is right
//!   for both, since at the start the two are equal.
//! * A flow of unknown size ([`Bytes::MAX`]) uses all paths. The paper leaves this open.
//! * The example chooses at the beginning of a round, when nothing of its window is sent. If a whole window
//!   is in flight ([`PathEstimate::full`]), and so not part of the remaining data, the first round sends the
//!   next window. Beginning with the window in flight would count it twice.
//! * [`Criterion::Delivery`] compares the times of delivery instead: path `i` stays idle if the faster ones deliver the
//!   rest before half of its round trip has passed.
//! * [`PathEstimate::rate_limit`] bounds each round by a rate; the model has only windows, which a full link exceeds.
//! * A path that is not `usable` is excluded before the choice. The caller decides whether a path is usable
//!   during the recovery from a timeout. Backup paths are considered only if no other is usable.
//! * A path without an RTT sample counts as infinitely slow, and several of them as equally slow. It is
//!   chosen if the size is unknown, if the measured paths deliver nothing at all, or if none is measured.
//!
//! # Properties of the rule
//!
//! More remaining bytes never remove a path, and a longer RTT of a path never adds it; both hold for all
//! options. A higher loss rate of any path never removes a path as long as the model's default options hold,
//! with or without clipping, limit and whole rounds: this has been searched over a grid, not proved. It does
//! *not* hold with [`TimeoutWindow::Initial`](crate::transfer_model::TimeoutWindow), where a timeout may
//! increase the window, nor with an increase much below 1, where slow start towards the threshold of 2 that
//! follows a timeout is faster than staying in congestion avoidance.

mod explain;

pub use explain::{Candidate, Contribution, Explanation, Reason, explain_selection};

use crate::transfer_model::{Criterion, PathState, TransferModel, Walk};
use anabranch_units::{Bytes, Duration};

/// The maximum number of paths; further ones are ignored.
pub const MAX_PATHS: usize = 32;

/// The measurements of a path. Paths are identified by their position in the slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathEstimate {
    /// Smoothed round-trip time; zero if there is no sample yet.
    pub srtt: Duration,
    /// Congestion window, segments. 0 counts as 1.
    pub cwnd: u32,
    /// Slow start threshold, segments; `None` is infinite.
    pub ssthresh: Option<u32>,
    /// Probability that a segment is lost, see [`PathState::loss`].
    pub loss: f64,
    /// Payload bytes of a segment. 0 counts as 1.
    pub mss: u32,
    /// The segments that the path's measured rate delivers in a round trip, which no round of the model exceeds; `None`
    /// without such a limit, as in the paper.
    pub rate_limit: Option<u32>,
    /// True if the whole window is in flight, and data in flight is not part of the remaining data: the model
    /// then begins with the next window.
    pub full: bool,
    /// True if the path can carry data now: established, and not blocked by a timeout.
    pub usable: bool,
    /// True if either end asked to use the path only if no other is left.
    pub backup: bool,
}

/// A path that was considered, with the figures that decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weighed {
    /// Position of the path.
    pub path: usize,
    /// Its RTT in RTTs of the fastest path.
    pub ratio: f64,
    /// The data that the faster paths deliver within that time (`C_i`, rounded down). // DMPTCP eq. 15
    ///
    /// For an excluded path this is a lower bound: the walk ends as soon as it suffices.
    pub predicted: Bytes,
}

/// The chosen paths and the two predictions that decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Selection {
    order: [u8; MAX_PATHS],
    len: u8,
    mask: u32,
    /// The data to be sent.
    pub remaining: Bytes,
    /// The slowest chosen path other than the fastest: the data that the faster ones deliver does not
    /// suffice.
    pub last_chosen: Option<Weighed>,
    /// The fastest excluded path: the data that the faster ones deliver suffices.
    pub first_left_out: Option<Weighed>,
}

impl Selection {
    /// Returns the chosen paths by position, fastest first.
    pub fn paths(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.order[..usize::from(self.len)].iter().map(|&path| usize::from(path))
    }

    /// True if the path at this position is chosen.
    pub fn contains(&self, path: usize) -> bool {
        path < MAX_PATHS && self.mask & (1 << path) != 0
    }

    /// Returns a mask in which bit `n` is set if the path at position `n` is chosen.
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// Returns the number of chosen paths.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// True if no path is chosen, because none is usable.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Chooses the paths for `remaining` bytes; [`Bytes::MAX`] is an unknown size.
///
/// At least one path is chosen if any is usable. Nothing is allocated. Only the first [`MAX_PATHS`] paths are
/// considered.
///
/// ```
/// use anabranch_stack::selection::{PathEstimate, select_subflows};
/// use anabranch_stack::transfer_model::TransferModel;
/// use anabranch_units::{Bytes, Duration};
///
/// let path = |millis| PathEstimate {
///     srtt: Duration::from_millis(millis),
///     cwnd: 8,
///     ssthresh: None,
///     loss: 0.0,
///     mss: 1400,
///     rate_limit: None,
///     full: false,
///     usable: true,
///     backup: false,
/// };
/// // Within 80 ms the faster path delivers 8 + 16 + 32 + 64 segments.
/// let paths = [path(80), path(20)];
/// let choice = select_subflows(&paths, Bytes(120 * 1400), &TransferModel::default());
/// assert_eq!(choice.paths().collect::<Vec<_>>(), [1]);
/// let choice = select_subflows(&paths, Bytes(120 * 1400 + 1), &TransferModel::default());
/// assert_eq!(choice.paths().collect::<Vec<_>>(), [1, 0]);
/// ```
pub fn select_subflows(paths: &[PathEstimate], remaining: Bytes, model: &TransferModel) -> Selection {
    let order = Order::new(paths);
    let coupling = Coupling::new(paths, &order, model);
    let mut delivered = [0.0; MAX_PATHS];
    // Algorithm 1 considers one path after the other. Here each path's rounds are walked once, for all slower
    // paths that may still be chosen; `chosen` is the first excluded path found so far.
    let mut chosen = order.len;
    if remaining != Bytes::MAX {
        let needed = remaining.get() as f64;
        let mut fast = 0;
        while fast + 1 < chosen {
            let path = &paths[order.at(fast)];
            let mss = path.segment();
            let mut walk = path.walk(&coupling.model_of(path));
            for slow in fast + 1..chosen {
                let enough = still_needed(needed, delivered[slow], mss);
                let segments = walk.reach(rounds(&paths[order.at(slow)], path, model), enough);
                delivered[slow] += segments * mss;
                if segments >= enough {
                    chosen = slow;
                    break;
                }
            }
            fast += 1;
        }
    }
    let weighed = |place: usize| Weighed {
        path: order.at(place),
        ratio: rtt_ratio(&paths[order.at(place)], &paths[order.at(0)]),
        predicted: Bytes(delivered[place] as u64),
    };
    let known = remaining != Bytes::MAX;
    Selection {
        order: order.paths,
        len: chosen as u8,
        mask: (0..chosen).fold(0, |mask, place| mask | 1 << order.at(place)),
        remaining,
        last_chosen: (known && chosen > 1).then(|| weighed(chosen - 1)),
        first_left_out: (chosen < order.len).then(|| weighed(chosen)),
    }
}

impl PathEstimate {
    fn state(&self) -> PathState {
        PathState { cwnd: self.cwnd, ssthresh: self.ssthresh, loss: self.loss }
    }

    /// Returns the walk over the rounds in which the path can send remaining data.
    fn walk(&self, model: &TransferModel) -> Walk {
        let state = self.state();
        if self.full { Walk::after_a_round(model, &state) } else { Walk::new(model, &state) }
    }

    fn segment(&self) -> f64 {
        f64::from(self.mss.max(1))
    }

    /// Returns the window in bytes.
    fn window(&self) -> f64 {
        f64::from(self.cwnd.max(1)) * self.segment()
    }

    fn rtt_ns(&self) -> Option<u64> {
        (!self.srtt.is_zero()).then_some(self.srtt.as_nanos())
    }
}

/// The effect of LIA on the growth of each path, if enabled. // DMPTCP eq. 1
struct Coupling<'a> {
    model: &'a TransferModel,
    /// `alpha / cwnd_total`, per byte; `None` if the paths grow independently.
    aggressiveness: Option<f64>,
}

impl<'a> Coupling<'a> {
    fn new(paths: &[PathEstimate], order: &Order, model: &'a TransferModel) -> Coupling<'a> {
        if !model.options.coupled_increase {
            return Coupling { model, aggressiveness: None };
        }
        let (mut best, mut sum) = (0.0_f64, 0.0);
        for path in (0..order.len).map(|place| &paths[order.at(place)]) {
            let Some(rtt) = path.rtt_ns() else { continue };
            let rate = path.window() / Duration(rtt).as_secs_f64();
            best = best.max(rate / Duration(rtt).as_secs_f64());
            sum += rate;
        }
        Coupling { model, aggressiveness: (sum > 0.0).then(|| best / (sum * sum)) }
    }

    /// Returns the model of one path: a round acknowledges a window, and an acknowledged byte adds `min(alpha
    /// / cwnd_total, 1 / cwnd)` segments.
    fn model_of(&self, path: &PathEstimate) -> TransferModel {
        let mut model = *self.model;
        if let Some(aggressiveness) = self.aggressiveness {
            model.options.increase *= (aggressiveness * path.window()).min(1.0);
        }
        if let Some(limit) = path.rate_limit {
            model.options.window_limit = Some(model.options.window_limit.map_or(limit, |own| own.min(limit)));
        }
        model
    }
}

/// Returns `eta`: the number of round trips of the faster path in one of the slower. // DMPTCP algorithm 1,
/// line 7
fn rtt_ratio(slow: &PathEstimate, fast: &PathEstimate) -> f64 {
    match (slow.rtt_ns(), fast.rtt_ns()) {
        (Some(slow), Some(fast)) => slow as f64 / fast as f64,
        (None, Some(_)) => f64::INFINITY,
        (_, None) => 1.0, // Both: a measured path is never slower than an unmeasured one.
    }
}

/// Returns the rounds of the faster path that count against the slower one.
///
/// By [`Criterion::Delivery`] round `k`, from 0 on, of the faster path arrives at `(k + 1/2) RTT`, and half a round trip
/// later if its window is in flight. By half of the slower path's round trip `(eta + 1) / 2` of them have
/// arrived, or `eta / 2`.
fn rounds(slow: &PathEstimate, fast: &PathEstimate, model: &TransferModel) -> f64 {
    let ratio = rtt_ratio(slow, fast);
    match model.options.criterion {
        Criterion::RoundTrip => ratio,
        Criterion::Delivery if fast.full => ratio / 2.0,
        Criterion::Delivery => (ratio + 1.0) / 2.0,
    }
}

/// Returns the segments of `mss` bytes needed in addition to the `delivered` bytes of faster paths. A walk
/// ends there, and the choice compares with it, so that rounding cannot make the two differ. // DMPTCP eq. 15
fn still_needed(needed: f64, delivered: f64, mss: f64) -> f64 {
    (needed - delivered) / mss
}

/// The paths that may be chosen, by RTT, then by position.
struct Order {
    paths: [u8; MAX_PATHS],
    len: usize,
}

impl Order {
    fn new(paths: &[PathEstimate]) -> Order {
        let paths = &paths[..paths.len().min(MAX_PATHS)];
        let backup = !paths.iter().any(|path| path.usable && !path.backup);
        let mut order = Order { paths: [0; MAX_PATHS], len: 0 };
        for (position, path) in paths.iter().enumerate() {
            if path.usable && path.backup == backup {
                order.paths[order.len] = position as u8;
                order.len += 1;
            }
        }
        order.paths[..order.len].sort_unstable_by_key(|&position| {
            (paths[usize::from(position)].rtt_ns().unwrap_or(u64::MAX), position)
        });
        order
    }

    fn at(&self, place: usize) -> usize {
        usize::from(self.paths[place])
    }
}
