//! What schedulers share: which subflows are candidates, how much of which data one of them can
//! take, the lowest RTT among them, and where data of a failed subflow goes.

use anabranch_units::{Duration, Time};

use super::{AssignKind, Decision, RecoveryState, Rule, SubflowView, View, Why};
use crate::event::SubflowId;
use crate::seq::DataRange;

/// A wait until something happens.
pub(super) const fn wait(rule: Rule) -> Decision {
    Decision::Wait { until: None, why: Why::rule(rule) }
}

/// Whether a subflow counts as one that works, although it may be busy or repair a timeout: the
/// out-of-tree kernel's "definitely unavailable" is the opposite.
pub(super) fn works(subflow: &SubflowView) -> bool {
    subflow.usable && !subflow.potentially_failed
}

/// Whether the congestion window admits no further segment.
pub(super) fn is_full(subflow: &SubflowView) -> bool {
    subflow.cwnd.saturating_sub(subflow.inflight + subflow.queued) < subflow.mss.max(1)
}

/// Whether backups are to be used: no subflow that works is active (RFC 8684 section 3.3.8).
pub(super) fn backups_only(view: &View<'_>) -> bool {
    !view.subflows.iter().any(|subflow| works(subflow) && !subflow.backup)
}

/// The subflows that may carry data now, were there room: of the active ones, or where none of
/// these works of the backups.
pub(super) fn candidates<'a>(view: &View<'a>) -> impl Iterator<Item = &'a SubflowView> + use<'a> {
    let backups = backups_only(view);
    view.subflows.iter().filter(move |subflow| subflow.backup == backups && subflow.may_carry())
}

/// The data that is to be sent next, and whether it may be cut anywhere.
#[derive(Clone, Copy)]
pub(super) struct Chunk {
    /// The data as far as the connection's window admits it; not empty.
    pub(super) range: DataRange,
    /// `range` was cut by the connection's window.
    pub(super) cut: bool,
    /// Nothing is outstanding: no acknowledgement will open the connection's window.
    pub(super) stuck: bool,
}

impl Chunk {
    /// As much of `range` as the connection's window admits; none where that is nothing.
    pub(super) fn new(view: &View<'_>, range: DataRange) -> Option<Chunk> {
        let end = range.end.min(view.window_end);
        (end > range.start).then_some(Chunk {
            range: DataRange::new(range.start, end),
            cut: end < range.end,
            stuck: view.outstanding.is_empty(),
        })
    }

    /// The first data that no subflow has; `Err` says why there is none.
    pub(super) fn unassigned(view: &View<'_>) -> Result<Chunk, Rule> {
        let first = view.unassigned.first().ok_or(Rule::NothingToSend)?;
        Chunk::new(view, *first).ok_or(Rule::WindowFull)
    }

    /// The first part that `subflow` has room for, at most `limit` bytes, in whole segments; none
    /// where it has no room.
    ///
    /// What ends where the data ends is not cut. A window that ends inside a segment is filled to its
    /// edge only if nothing is under way that would open it: the rule against silly windows (RFC
    /// 9293 section 3.8.6.2.1).
    #[inline]
    pub(super) fn fit(&self, subflow: &SubflowView, limit: u64) -> Option<DataRange> {
        self.fit_into(subflow, subflow.cwnd, limit)
    }

    /// The same, where a window of `cwnd` bytes takes the place of the subflow's.
    #[inline]
    pub(super) fn fit_into(&self, subflow: &SubflowView, cwnd: u64, limit: u64) -> Option<DataRange> {
        let mss = subflow.mss.max(1);
        let free = cwnd.saturating_sub(subflow.inflight + subflow.queued);
        if free < mss {
            return None;
        }
        let by_cwnd = (free - free % mss).min(limit);
        let all = self.range.len();
        let len = all.min(by_cwnd).min(subflow.window_room);
        let len = if len == all && !self.cut {
            len
        } else if len >= mss {
            len - len % mss
        } else if len == all && self.stuck
            || len == subflow.window_room && subflow.inflight + subflow.queued == 0
        {
            len
        } else {
            0
        };
        (len > 0).then_some(DataRange::new(self.range.start, self.range.start + len))
    }

    /// Whether `subflow` has room for anything: as [`Chunk::fit`], mostly without its divisions.
    #[inline]
    pub(super) fn fits(&self, subflow: &SubflowView) -> bool {
        if is_full(subflow) {
            return false;
        }
        let all = self.range.len();
        let segment = all.min(subflow.window_room) >= subflow.mss.max(1);
        let tail = !self.cut && all <= subflow.window_room && all <= subflow.mss;
        segment || tail || self.fit(subflow, u64::MAX).is_some()
    }

    /// Whether the receive window of `subflow` admits anything, whatever its congestion window.
    pub(super) fn fits_window(&self, subflow: &SubflowView) -> bool {
        let cwnd = subflow.inflight + subflow.queued + subflow.mss;
        self.fits(&SubflowView { cwnd, ..*subflow })
    }

    /// The first part that `subflow` takes into its queue, at most `limit` bytes, in whole segments:
    /// whatever its congestion window, but never beyond its receive window.
    #[inline]
    pub(super) fn queue_on(&self, subflow: &SubflowView, limit: u64) -> Option<DataRange> {
        self.fit_into(subflow, u64::MAX, limit)
    }

    /// The first part, at most `limit` bytes, wherever that ends in a segment: the next part is queued after it, on
    /// this subflow or on another. As far as the receive window of `subflow` admits it.
    #[inline]
    pub(super) fn piece_on(&self, subflow: &SubflowView, limit: u64) -> Option<DataRange> {
        let len = self.range.len().min(limit);
        if len <= subflow.window_room && !(self.cut && len == self.range.len()) {
            return Some(DataRange::new(self.range.start, self.range.start + len));
        }
        self.queue_on(subflow, limit)
    }

    /// What begins `skip` bytes further on in the data that no subflow has, as far as the
    /// connection's window admits it; none where there is no more than that.
    pub(super) fn ahead(view: &View<'_>, skip: u64, mss: u64) -> Option<Chunk> {
        let mut skip = skip;
        for (at, range) in view.unassigned.iter().enumerate() {
            let whole = range.len() >= skip.saturating_add(mss) || at + 1 == view.unassigned.len();
            if range.len() > skip && whole {
                return Chunk::new(view, DataRange::new(range.start + skip, range.end));
            }
            // What is left of this piece is less than a segment: the next begins behind it.
            skip = skip.saturating_sub(range.len());
        }
        None
    }
}

/// A value for each subflow.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct PerSubflow<T>([T; 32]);

impl<T: Copy> PerSubflow<T> {
    /// The value of `id`.
    pub(super) fn get(&self, id: SubflowId) -> T {
        self.0[id.index() & 31]
    }

    /// Makes `value` that of `id`.
    pub(super) fn set(&mut self, id: SubflowId, value: T) {
        self.0[id.index() & 31] = value;
    }
}

/// A value for each subflow that is forgotten when another subflow takes its place.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct Tracked<T>([(Time, T); 32]);

impl<T: Copy + Default> Tracked<T> {
    /// The value of `subflow`.
    pub(super) fn get(&self, subflow: &SubflowView) -> T {
        let (since, value) = self.0[subflow.id.index() & 31];
        if since == subflow.established { value } else { T::default() }
    }

    /// Makes `value` that of `subflow`.
    pub(super) fn set(&mut self, subflow: &SubflowView, value: T) {
        self.0[subflow.id.index() & 31] = (subflow.established, value);
    }
}

/// The subflow with the lowest smoothed RTT among those that have room.
#[derive(Clone, Copy)]
pub(super) struct Lowest<'a> {
    /// The subflow.
    pub(super) subflow: &'a SubflowView,
    /// What it takes of the data.
    pub(super) range: DataRange,
    /// The lowest RTT of the others with room.
    pub(super) other: Option<Duration>,
}

impl Lowest<'_> {
    /// The reason, with both RTTs in seconds.
    pub(super) fn why(&self, rule: Rule) -> Why {
        let seconds = |rtt: Option<Duration>| rtt.map_or(f64::NAN, Duration::as_secs_f64);
        Why::scored(rule, seconds(self.subflow.srtt), seconds(self.other))
    }

    /// The decision for this subflow.
    pub(super) fn assign(&self, kind: AssignKind, rule: Rule) -> Decision {
        Decision::Assign { subflow: self.subflow.id, range: self.range, kind, why: self.why(rule) }
    }
}

/// The subflow with the least score, that score, and the least of the others; the first wins a tie.
#[inline]
pub(super) fn least<'a, T: PartialOrd + Copy>(
    scored: impl Iterator<Item = (&'a SubflowView, T)>,
) -> Option<(&'a SubflowView, T, Option<T>)> {
    let mut best: Option<(&'a SubflowView, T)> = None;
    let mut other: Option<T> = None;
    for (subflow, score) in scored {
        match best {
            Some((_, least)) if score >= least => {
                if other.is_none_or(|other| score < other) {
                    other = Some(score);
                }
            }
            _ => {
                other = best.map(|(_, least)| least).or(other);
                best = Some((subflow, score));
            }
        }
    }
    best.map(|(subflow, score)| (subflow, score, other))
}

/// The one of `candidates` with the lowest smoothed RTT that has room for `chunk`. A subflow without RTT
/// counts as slowest; the first wins a tie.
#[inline]
pub(super) fn lowest_rtt<'a>(
    candidates: impl Iterator<Item = &'a SubflowView>,
    chunk: Chunk,
) -> Option<Lowest<'a>> {
    let with_room = candidates.filter(|subflow| chunk.fits(subflow));
    let (subflow, _, other) = least(with_room.map(|subflow| (subflow, rtt_or_infinite(subflow))))?;
    let range = chunk.fit(subflow, u64::MAX)?;
    Some(Lowest { subflow, range, other: other.filter(|other| *other != Duration::MAX) })
}

/// Where the first data that another subflow has failed with is reinjected: on the subflow with the lowest RTT among
/// those that never carried it, for which it waits if they only have no room now; if all have carried it, on that with
/// the lowest RTT of all. None where there is nothing to reinject.
pub(super) fn reinject(view: &View<'_>) -> Option<Decision> {
    let pending = view.reinject.first()?;
    let Some(chunk) = Chunk::new(view, pending.range) else { return Some(wait(Rule::WindowFull)) };
    let backups = backups_only(view);
    let class = || view.subflows.iter().filter(move |s| s.backup == backups && works(s));
    let untried = || class().filter(|subflow| !pending.tried.has(subflow.id));
    let may_carry = |subflow: &&SubflowView| subflow.recovery != RecoveryState::Loss;
    let chosen = if untried().next().is_some() {
        lowest_rtt(untried().filter(may_carry), chunk)
    } else {
        lowest_rtt(class().filter(may_carry), chunk)
    };
    Some(match chosen {
        Some(lowest) => lowest.assign(AssignKind::Reinject, Rule::Reinjection),
        None => wait(if class().next().is_some() { Rule::NoRoom } else { Rule::NoSubflow }),
    })
}

/// What schedulers begin with: data of a failed subflow goes first, then the next new data. `Err` is the
/// decision where there is nothing to choose.
#[inline]
pub(super) fn next_new(view: &View<'_>) -> Result<Chunk, Decision> {
    match reinject(view) {
        Some(decision) => Err(decision),
        None => Chunk::unassigned(view).map_err(wait),
    }
}

/// The next new data, a segment of it, into the queue of the candidate where `time`, in seconds, is shortest,
/// whatever its congestion window.
#[inline]
pub(super) fn queue_on_soonest(
    view: &View<'_>,
    chunk: Chunk,
    time: impl Fn(&SubflowView) -> f64,
) -> Decision {
    let takers = candidates(view).filter(|subflow| chunk.fits_window(subflow));
    let Some((subflow, soonest, other)) = least(takers.map(|subflow| (subflow, time(subflow)))) else {
        return wait(why_none(view));
    };
    let why = Why::scored(Rule::EarliestArrival, soonest, other.unwrap_or(f64::NAN));
    match chunk.queue_on(subflow, subflow.mss) {
        Some(range) => assign_new(subflow, range, why),
        None => wait(Rule::NoRoom),
    }
}

/// What minRTT would do with the next new data: how much of it, on which subflow. `Err` is the decision where
/// there is nothing to choose.
#[inline]
pub(super) fn next_on_lowest<'a>(view: &View<'a>) -> Result<(Chunk, Lowest<'a>), Decision> {
    let chunk = next_new(view)?;
    match lowest_rtt(candidates(view), chunk) {
        Some(lowest) => Ok((chunk, lowest)),
        None => Err(wait(why_none(view))),
    }
}

/// The candidates by their smoothed RTT, then by ID, whether they have room or not; at most 32.
pub(super) fn by_rtt<'a>(view: &View<'a>) -> impl Iterator<Item = &'a SubflowView> + use<'a> {
    let subflows = view.subflows;
    let mut order = [((Duration::ZERO, SubflowId(0)), 0_u8); 32];
    let mut len = 0;
    let backups = backups_only(view);
    for (at, subflow) in subflows.iter().enumerate().take(order.len()) {
        if subflow.backup != backups || !subflow.may_carry() {
            continue;
        }
        // They are few, and mostly in their order already.
        let place = (rank(subflow), at as u8);
        let mut to = len;
        while to > 0 && order[to - 1].0 > place.0 {
            order[to] = order[to - 1];
            to -= 1;
        }
        order[to] = place;
        len += 1;
    }
    order.into_iter().take(len).filter_map(move |(_, at)| subflows.get(usize::from(at)))
}

/// A subflow's place by its smoothed RTT, then by its ID.
pub(super) fn rank(subflow: &SubflowView) -> (Duration, SubflowId) {
    (rtt_or_infinite(subflow), subflow.id)
}

/// New data for a subflow.
pub(super) fn assign_new(subflow: &SubflowView, range: DataRange, why: Why) -> Decision {
    Decision::Assign { subflow: subflow.id, range, kind: AssignKind::New, why }
}

/// The candidate with the lowest smoothed RTT, whether it has room or not.
pub(super) fn fastest<'a>(view: &View<'a>) -> Option<&'a SubflowView> {
    candidates(view).min_by_key(|subflow| rtt_or_infinite(subflow))
}

/// The smoothed RTT; infinite where there is no sample.
pub(super) fn rtt_or_infinite(subflow: &SubflowView) -> Duration {
    subflow.srtt.unwrap_or(Duration::MAX)
}

/// Bytes under way on a subflow, sent or about to be.
pub(super) fn under_way(subflow: &SubflowView) -> u64 {
    subflow.inflight + subflow.queued
}

/// `bytes` in segments of the subflow, a part of one counted as one.
pub(super) fn segments(subflow: &SubflowView, bytes: u64) -> u64 {
    bytes.div_ceil(subflow.mss.max(1))
}

/// Whether a subflow has been given nothing yet, so that what is known of its place is of one before it.
pub(super) fn is_fresh(subflow: &SubflowView) -> bool {
    subflow.bytes_sent == 0 && subflow.queued == 0
}

/// Takes back what waits in the queue of a subflow that may carry nothing now, if another may.
pub(super) fn stranded(view: &View<'_>) -> Option<Decision> {
    let subflow = view.subflows.iter().find(|subflow| subflow.queued > 0 && !subflow.may_carry())?;
    candidates(view).next()?;
    Some(recall(subflow))
}

/// Takes back all that waits in the queue of a subflow.
pub(super) fn recall(subflow: &SubflowView) -> Decision {
    let why = Why::rule(Rule::Stranded);
    Decision::Recall { subflow: subflow.id, range: DataRange::new(0, u64::MAX), why }
}

/// Why no subflow takes the next new data: none works, the connection's window has less than a segment left for one
/// with room, or none of them has room.
pub(super) fn why_none(view: &View<'_>) -> Rule {
    if !view.subflows.iter().any(works) {
        return Rule::NoSubflow;
    }
    let cut = view.unassigned.first().filter(|first| view.window_end < first.end);
    let left = cut.map(|first| view.window_end.saturating_sub(first.start));
    let is_short = |left: u64| candidates(view).any(|subflow| !is_full(subflow) && left < subflow.mss);
    if left.is_some_and(is_short) { Rule::WindowFull } else { Rule::NoRoom }
}
