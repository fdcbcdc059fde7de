//! Common parts of schedulers: the candidate subflows, the data that fits on one of them, the lowest RTT, and
//! the choice of a subflow for reinjection.

use anabranch_units::{Duration, Time};

use super::{AssignKind, Decision, RecoveryState, Rule, SubflowView, View, Why, is_end_small};
use crate::event::SubflowId;
use crate::seq::DataRange;

/// Returns a wait without a time limit.
pub(super) const fn wait(rule: Rule) -> Decision {
    Decision::Wait { until: None, why: Why::rule(rule) }
}

/// True if the subflow works, even if it is busy or repairing a timeout: the negation of the out-of-tree
/// kernel's "definitely unavailable".
pub(super) fn works(subflow: &SubflowView) -> bool {
    subflow.usable && !subflow.potentially_failed
}

/// True if the congestion window admits no further segment.
pub(super) fn is_full(subflow: &SubflowView) -> bool {
    subflow.cwnd.saturating_sub(subflow.inflight + subflow.queued) < subflow.mss.max(1)
}

/// True if backups are to be used: no active (non-backup) subflow works (RFC 8684 section 3.3.8).
pub(super) fn backups_only(view: &View<'_>) -> bool {
    !view.subflows.iter().any(|subflow| works(subflow) && !subflow.backup)
}

/// Returns the subflows that may carry data, regardless of free window: the active ones, or the backups if no
/// active subflow works.
pub(super) fn candidates<'a>(view: &View<'a>) -> impl Iterator<Item = &'a SubflowView> + use<'a> {
    let backups = backups_only(view);
    view.subflows.iter().filter(move |subflow| subflow.backup == backups && subflow.may_carry())
}

/// The next data to send.
#[derive(Clone, Copy)]
pub(super) struct Chunk {
    /// The part of the data that the connection's window admits; not empty.
    pub(super) range: DataRange,
    /// True if the connection's window cut `range`.
    pub(super) cut: bool,
    /// True if nothing is outstanding, so that no acknowledgement will open the connection's window.
    pub(super) stuck: bool,
}

impl Chunk {
    /// Returns the part of `range` that the connection's window admits; `None` if there is none.
    pub(super) fn new(view: &View<'_>, range: DataRange) -> Option<Chunk> {
        let end = range.end.min(view.window_end);
        (end > range.start).then_some(Chunk {
            range: DataRange::new(range.start, end),
            cut: end < range.end,
            stuck: view.outstanding.is_empty(),
        })
    }

    /// Returns the first unassigned data, or the reason why there is none.
    pub(super) fn unassigned(view: &View<'_>) -> Result<Chunk, Rule> {
        let first = view.unassigned.first().ok_or(Rule::NothingToSend)?;
        Chunk::new(view, *first).ok_or(Rule::WindowFull)
    }

    /// Returns the data without a short end that the program is to complete; `None` if that is all.
    pub(super) fn without_end(self, view: &View<'_>) -> Option<Chunk> {
        let last = view.unassigned.last().is_some_and(|last| last.end == self.range.end);
        if !view.send_buffer_full || self.stuck || !last {
            return Some(self);
        }
        let usable = view.subflows.iter().filter(|subflow| subflow.usable);
        let mss = usable.map(|subflow| subflow.mss).min().unwrap_or(0);
        if !is_end_small(view.written - view.data_una, mss) {
            return Some(self);
        }
        (self.range.len() >= mss).then_some(Chunk { cut: true, ..self })
    }

    /// Returns the prefix for which `subflow` has window, at most `limit` bytes, in whole segments; `None` if
    /// it has no window.
    ///
    /// The last, short segment of the data is not cut. A window that ends inside a segment is filled to its
    /// edge only if nothing is in flight that could open it, which avoids silly windows (RFC 9293 section
    /// 3.8.6.2.1).
    #[inline]
    pub(super) fn fit(&self, subflow: &SubflowView, limit: u64) -> Option<DataRange> {
        self.fit_into(subflow, subflow.cwnd, limit)
    }

    /// Like [`Chunk::fit`], with a window of `cwnd` bytes instead of the subflow's.
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

    /// True if [`Chunk::fit`] would return a range, usually computed without its divisions.
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

    /// True if the receive window of `subflow` admits data, regardless of its congestion window.
    pub(super) fn fits_window(&self, subflow: &SubflowView) -> bool {
        let cwnd = subflow.inflight + subflow.queued + subflow.mss;
        self.fits(&SubflowView { cwnd, ..*subflow })
    }

    /// Returns the prefix that can be queued on `subflow`, at most `limit` bytes, in whole segments. It may
    /// exceed the congestion window, but not the receive window.
    #[inline]
    pub(super) fn queue_on(&self, subflow: &SubflowView, limit: u64) -> Option<DataRange> {
        self.fit_into(subflow, u64::MAX, limit)
    }

    /// Returns a prefix of at most `limit` bytes, within the receive window of `subflow`, that may end inside
    /// a segment: the rest is queued after it, on this subflow or on another. If it `fills` the window, also
    /// where the window ends.
    #[inline]
    pub(super) fn piece_on(&self, subflow: &SubflowView, limit: u64, fills: bool) -> Option<DataRange> {
        let len = self.range.len().min(limit);
        if fills {
            let len = len.min(subflow.window_room);
            return (len > 0).then_some(DataRange::new(self.range.start, self.range.start + len));
        }
        if len <= subflow.window_room && !(self.cut && len == self.range.len()) {
            return Some(DataRange::new(self.range.start, self.range.start + len));
        }
        self.queue_on(subflow, limit)
    }

    /// Returns the unassigned data that begins `skip` bytes after the first, as far as the connection's
    /// window admits it; `None` if there is no more than that.
    pub(super) fn ahead(view: &View<'_>, skip: u64, mss: u64) -> Option<Chunk> {
        let mut skip = skip;
        for (at, range) in view.unassigned.iter().enumerate() {
            let whole = range.len() >= skip.saturating_add(mss) || at + 1 == view.unassigned.len();
            if range.len() > skip && whole {
                return Chunk::new(view, DataRange::new(range.start + skip, range.end));
            }
            // The rest of this piece is less than a segment, so the next piece begins after it.
            skip = skip.saturating_sub(range.len());
        }
        None
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct PerSubflow<T>([T; 32]);

impl<T: Copy> PerSubflow<T> {
    /// Returns the value of `id`.
    pub(super) fn get(&self, id: SubflowId) -> T {
        self.0[id.index() & 31]
    }

    /// Sets the value of `id`.
    pub(super) fn set(&mut self, id: SubflowId, value: T) {
        self.0[id.index() & 31] = value;
    }
}

/// A value for each subflow, reset when another subflow takes the same ID.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct Tracked<T>([(Time, T); 32]);

impl<T: Copy + Default> Tracked<T> {
    /// Returns the value of `subflow`.
    pub(super) fn get(&self, subflow: &SubflowView) -> T {
        let (since, value) = self.0[subflow.id.index() & 31];
        if since == subflow.established { value } else { T::default() }
    }

    /// Sets the value of `subflow`.
    pub(super) fn set(&mut self, subflow: &SubflowView, value: T) {
        self.0[subflow.id.index() & 31] = (subflow.established, value);
    }
}

/// The subflow with the lowest smoothed RTT of all with free window.
#[derive(Clone, Copy)]
pub(super) struct Lowest<'a> {
    pub(super) subflow: &'a SubflowView,
    /// The data that fits on it.
    pub(super) range: DataRange,
    /// The lowest RTT of the others with free window.
    pub(super) other: Option<Duration>,
}

impl Lowest<'_> {
    /// Returns the reason with both RTTs in seconds.
    pub(super) fn why(&self, rule: Rule) -> Why {
        let seconds = |rtt: Option<Duration>| rtt.map_or(f64::NAN, Duration::as_secs_f64);
        Why::scored(rule, seconds(self.subflow.srtt), seconds(self.other))
    }

    /// Returns the decision for this subflow.
    pub(super) fn assign(&self, kind: AssignKind, rule: Rule) -> Decision {
        Decision::Assign { subflow: self.subflow.id, range: self.range, kind, why: self.why(rule) }
    }
}

/// Returns the subflow with the lowest score, that score, and the lowest of the others; the first wins a tie.
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

/// Returns the candidate with window for `chunk` and the lowest smoothed RTT. A subflow without an RTT counts
/// as slowest; the first wins a tie.
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

/// Reinjects the first data of a failed subflow on the subflow that never carried it and has the lowest RTT,
/// and waits for this subflow if it only lacks window. If all have carried the data, the subflow with the
/// lowest RTT is used. Returns `None` if there is nothing to reinject.
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

/// Reinjects data of a failed subflow first and otherwise returns the next new data. `Err` contains the
/// decision if there is nothing to choose.
#[inline]
pub(super) fn next_new(view: &View<'_>) -> Result<Chunk, Decision> {
    match reinject(view) {
        Some(decision) => Err(decision),
        None => Chunk::unassigned(view).map_err(wait),
    }
}

/// Queues a segment of the next new data on the candidate with the shortest `time`, in seconds, regardless of
/// its congestion window.
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

/// Returns minRTT's choice for the next new data: the data and the subflow. `Err` contains the decision if
/// there is nothing to choose.
#[inline]
pub(super) fn next_on_lowest<'a>(view: &View<'a>) -> Result<(Chunk, Lowest<'a>), Decision> {
    let chunk = next_new(view)?;
    match lowest_rtt(candidates(view), chunk) {
        Some(lowest) => Ok((chunk, lowest)),
        None => Err(wait(why_none(view))),
    }
}

/// Returns the candidates by smoothed RTT, then by ID, including those without free window; at most 32.
pub(super) fn by_rtt<'a>(view: &View<'a>) -> impl Iterator<Item = &'a SubflowView> + use<'a> {
    let subflows = view.subflows;
    let mut order = [((Duration::ZERO, SubflowId(0)), 0_u8); 32];
    let mut len = 0;
    let backups = backups_only(view);
    for (at, subflow) in subflows.iter().enumerate().take(order.len()) {
        if subflow.backup != backups || !subflow.may_carry() {
            continue;
        }
        // An insertion sort: the subflows are few, and mostly in order already.
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

/// Returns the sort key of a subflow: its smoothed RTT, then its ID.
pub(super) fn rank(subflow: &SubflowView) -> (Duration, SubflowId) {
    (rtt_or_infinite(subflow), subflow.id)
}

/// Assigns new data to a subflow.
pub(super) fn assign_new(subflow: &SubflowView, range: DataRange, why: Why) -> Decision {
    Decision::Assign { subflow: subflow.id, range, kind: AssignKind::New, why }
}

/// Returns the candidate with the lowest smoothed RTT, even if it has no free window.
pub(super) fn fastest<'a>(view: &View<'a>) -> Option<&'a SubflowView> {
    candidates(view).min_by_key(|subflow| rtt_or_infinite(subflow))
}

/// Returns the smoothed RTT, or infinity before the first sample.
pub(super) fn rtt_or_infinite(subflow: &SubflowView) -> Duration {
    subflow.srtt.unwrap_or(Duration::MAX)
}

/// Returns the bytes of a subflow in flight or queued.
pub(super) fn under_way(subflow: &SubflowView) -> u64 {
    subflow.inflight + subflow.queued
}

/// Converts `bytes` to segments of the subflow, rounded up.
pub(super) fn segments(subflow: &SubflowView, bytes: u64) -> u64 {
    bytes.div_ceil(subflow.mss.max(1))
}

/// True if nothing was ever assigned to the subflow, so that state kept under its ID belongs to its
/// predecessor.
pub(super) fn is_fresh(subflow: &SubflowView) -> bool {
    subflow.bytes_sent == 0 && subflow.queued == 0
}

/// Recalls the queue of a subflow that may not carry data now, if another may.
pub(super) fn stranded(view: &View<'_>) -> Option<Decision> {
    let subflow = view.subflows.iter().find(|subflow| subflow.queued > 0 && !subflow.may_carry())?;
    candidates(view).next()?;
    Some(recall(subflow))
}

/// Recalls the whole queue of a subflow.
pub(super) fn recall(subflow: &SubflowView) -> Decision {
    let why = Why::rule(Rule::Stranded);
    Decision::Recall { subflow: subflow.id, range: DataRange::new(0, u64::MAX), why }
}

/// Returns the reason why no subflow can take the next new data: none works, the connection's window is
/// smaller than a segment of a subflow with free congestion window, or no subflow has free window.
pub(super) fn why_none(view: &View<'_>) -> Rule {
    if !view.subflows.iter().any(works) {
        return Rule::NoSubflow;
    }
    let cut = view.unassigned.first().filter(|first| view.window_end < first.end);
    let left = cut.map(|first| view.window_end.saturating_sub(first.start));
    let is_short = |left: u64| candidates(view).any(|subflow| !is_full(subflow) && left < subflow.mss);
    if left.is_some_and(is_short) { Rule::WindowFull } else { Rule::NoRoom }
}
