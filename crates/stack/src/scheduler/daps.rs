//! DAPS, delay-aware packet scheduling: a precomputed schedule under which data arrives in order.
//!
//! **Decides** which subflow carries the next data by a schedule. It covers the least common multiple of the
//! one-way delays: at every multiple of its delay a subflow has a turn, of as many segments as its window had
//! when the schedule was made. A schedule is not changed before its end and ignores free window: segments are
//! queued.
//!
//! **Source**: Kuhn and others (2014), as in the Karlstad and Simula fork of the MPTCP kernel, with which the
//! DMPTCP paper compares itself. Rounding forward delays to 4 ms, smoothing the window and retransmitting
//! blocking data come from the fork.
//!
//! **Constants**: delays in multiples of 4 ms, at least 1 ms; windows smoothed by 1/8 once per round trip; a
//! schedule of at most 10,000 ms; at most 8 subflows.
//!
//! **Departures from the source**
//! * The paper takes the data for the slow path from further on in the stream; the fork does not. With
//!   `reorder`, the offset is the data that faster turns deliver before the slow data arrives.
//! * The queue of a subflow that may no longer carry data is recalled. Backups are used only when no active
//!   subflow works; the fork ignores the flag.
//! * The schedule ends early if the least common multiple exceeds 10,000 ms, which the fork's rounding
//!   avoids.

use anabranch_units::{Duration, Time};

use super::pick::{self, Chunk, Tracked};
use super::{AssignKind, Decision, MinRtt, Rule, Scheduler, SubflowView, View, Why};
use crate::event::SubflowId;
use crate::parameter;
use crate::parameter::{Options, Parameter};
use crate::seq::DataRange;

/// The maximum number of subflows in a schedule.
const MOST: usize = 8;
/// The maximum length of a schedule, in milliseconds.
const LONGEST: u32 = 10_000;

/// Details that the paper on DAPS leaves open, such as the unit of delays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DapsOptions {
    /// The unit to which delays are rounded; 0 rounds to milliseconds only.
    pub round_delay: Duration,
    /// True if the window is smoothed over round trips.
    pub smooth_cwnd: bool,
    /// True if schedules are used while a subflow is in slow start; otherwise minRTT is used then.
    pub slow_start: bool,
    /// True if data that blocks the receive window is reinjected.
    pub retransmit: bool,
    /// True if data of slower subflows is taken from further on in the stream.
    pub reorder: bool,
}

impl DapsOptions {
    /// The fork's values.
    pub const DEFAULT: DapsOptions = DapsOptions {
        round_delay: Duration::from_millis(4),
        smooth_cwnd: true,
        slow_start: true,
        retransmit: true,
        reorder: false,
    };
}

impl Options for DapsOptions {
    const PARAMETERS: &'static [Parameter<DapsOptions>] = &[
        parameter!(
            DapsOptions,
            "round-delay",
            "unit to which delays are rounded; 0: 1 ms",
            time Duration::ZERO, Duration::from_secs(1),
            round_delay
        ),
        parameter!(DapsOptions, "smooth-cwnd", "the window is smoothed over round trips", bool, smooth_cwnd),
        parameter!(
            DapsOptions,
            "slow-start",
            "use a schedule while a subflow is in slow start; else minRTT",
            bool,
            slow_start
        ),
        parameter!(
            DapsOptions,
            "retransmit",
            "data that blocks the receive window is reinjected",
            bool,
            retransmit
        ),
        parameter!(
            DapsOptions,
            "reorder",
            "slower subflows take data from further on in the stream",
            bool,
            reorder
        ),
    ];
}

/// A subflow's part in the schedule.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Part {
    id: SubflowId,
    /// The one-way delay, in milliseconds.
    delay: u32,
    /// Segments in a turn.
    segments: u32,
}

/// A smoothed window.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Smoothed {
    segments: f64,
    due: Time,
}

/// The scheduler.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Daps {
    options: DapsOptions,
    parts: [Part; MOST],
    len: u8,
    /// The subflow that has the turn, at which time of the schedule, and its number of segments.
    turn: u8,
    at: u32,
    end: u32,
    /// The segments left in the turn.
    left: u32,
    smoothed: Tracked<Smoothed>,
}

impl Daps {
    /// Returns a scheduler with the given options.
    pub fn new(options: DapsOptions) -> Daps {
        let parts = [Part::default(); MOST];
        Daps { options, parts, len: 0, turn: 0, at: 1, end: 0, left: 0, smoothed: Tracked::default() }
    }

    fn parts(&self) -> &[Part] {
        self.parts.get(..usize::from(self.len)).unwrap_or(&self.parts)
    }

    /// Returns the one-way delay in whole milliseconds, at least 1.
    fn delay(&self, srtt: Duration) -> u32 {
        let ms = srtt.as_secs_f64() * 500.0;
        let unit = (self.options.round_delay.as_secs_f64() * 1e3).max(1.0);
        // To the nearest, half up.
        let rounded = libm::floor(ms / unit + 0.5) * unit;
        (rounded as u32).clamp(1, LONGEST)
    }

    fn follow_windows(&mut self, view: &View<'_>) {
        if !self.options.smooth_cwnd {
            return;
        }
        for subflow in view.subflows {
            let mut smoothed = self.smoothed.get(subflow);
            if view.now < smoothed.due {
                continue;
            }
            let window = (subflow.cwnd / subflow.mss.max(1)) as f64;
            smoothed.segments =
                if smoothed.segments > 0.0 { (7.0 * smoothed.segments + window) / 8.0 } else { window };
            smoothed.due = view.now + subflow.srtt.unwrap_or(Duration::ZERO).max(Duration(1));
            self.smoothed.set(subflow, smoothed);
        }
    }

    fn window(&self, subflow: &SubflowView) -> u32 {
        let now = (subflow.cwnd / subflow.mss.max(1)) as f64;
        let smoothed = self.smoothed.get(subflow).segments;
        let segments = if self.options.smooth_cwnd && smoothed > 0.0 { smoothed } else { now };
        (segments as u32).max(1)
    }

    /// Makes a schedule; returns false if no subflow can take part.
    fn begin(&mut self, view: &View<'_>) -> bool {
        self.len = 0;
        self.at = 1;
        self.turn = 0;
        self.left = 0;
        self.end = 1;
        for subflow in pick::by_rtt(view).filter(|subflow| subflow.srtt.is_some()).take(MOST) {
            let part = Part {
                id: subflow.id,
                delay: self.delay(subflow.srtt.unwrap_or(Duration::ZERO)),
                segments: self.window(subflow),
            };
            self.end = lcm(self.end, part.delay).min(LONGEST.max(part.delay));
            if let Some(place) = self.parts.get_mut(usize::from(self.len)) {
                *place = part;
            }
            self.len += 1;
        }
        self.len > 0
    }

    /// Returns the subflow that has the turn, if it is due now.
    fn due(&self) -> Option<Part> {
        let part = self.parts().get(usize::from(self.turn)).copied()?;
        (self.at <= self.end && self.at.is_multiple_of(part.delay)).then_some(part)
    }

    /// Moves to the next turn; returns false at the end of the schedule.
    fn advance(&mut self) -> bool {
        self.turn += 1;
        loop {
            while self.turn < self.len {
                if let Some(part) = self.due() {
                    self.left = part.segments;
                    return true;
                }
                self.turn += 1;
            }
            // The next time at which a turn is due.
            let next = self.parts().iter().map(|part| (self.at / part.delay + 1) * part.delay).min();
            self.turn = 0;
            self.at = next.unwrap_or(u32::MAX);
            if self.at > self.end {
                return false;
            }
        }
    }

    /// Begins a schedule at its first turn; returns false if there is none.
    fn restart(&mut self, view: &View<'_>) -> bool {
        if !self.begin(view) {
            return false;
        }
        // Time 0 has no turn.
        self.at = 0;
        self.turn = self.len;
        self.advance()
    }

    /// Returns the number of segments that later turns deliver before this one arrives.
    fn ahead(&self) -> u64 {
        let Some(mine) = self.due() else { return 0 };
        let arrival = self.at + mine.delay;
        let others = self.parts().iter().enumerate();
        others
            .map(|(order, part)| {
                // Turns at multiples of the delay, after this one, that end before it arrives.
                let last = arrival.saturating_sub(part.delay + 1) / part.delay;
                let first = self.at / part.delay
                    + u32::from(order <= usize::from(self.turn) || !self.at.is_multiple_of(part.delay));
                u64::from((last + 1).saturating_sub(first.max(1))) * u64::from(part.segments)
            })
            .sum()
    }

    /// Reinjects data that blocks the window, on the subflow with the lowest RTT that has free window and has
    /// not carried it.
    fn unblock(&self, view: &View<'_>) -> Option<Decision> {
        if !self.options.retransmit {
            return None;
        }
        for subflow in pick::by_rtt(view) {
            if pick::is_full(subflow) {
                continue;
            }
            let Some(pending) = view.outstanding.iter().find(|p| !p.tried.has(subflow.id)) else { continue };
            let Some(chunk) = Chunk::new(view, pending.range) else { continue };
            if let Some(range) = chunk.fit(subflow, subflow.mss) {
                let why = Why::rule(Rule::Opportunistic);
                return Some(Decision::Assign { subflow: subflow.id, range, kind: AssignKind::Copy, why });
            }
        }
        None
    }

    /// Returns the turn's decision, if the subflow can take data.
    fn take_turn(&mut self, view: &View<'_>, chunk: Chunk) -> Option<Decision> {
        let part = self.due()?;
        let subflow = pick::candidates(view).find(|subflow| subflow.id == part.id)?;
        let skip = if self.options.reorder { self.ahead() * subflow.mss } else { 0 };
        let chunk = if skip > 0 { Chunk::ahead(view, skip, subflow.mss)? } else { chunk };
        let range: DataRange = chunk.queue_on(subflow, u64::from(self.left) * subflow.mss)?;
        let given = u32::try_from(pick::segments(subflow, range.len())).unwrap_or(u32::MAX);
        self.left = self.left.saturating_sub(given);
        let why = Why::scored(Rule::Schedule, f64::from(self.at), f64::from(self.end));
        Some(pick::assign_new(subflow, range, why))
    }
}

impl Scheduler for Daps {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        if let Some(decision) = pick::stranded(view) {
            return decision;
        }
        self.follow_windows(view);
        let chunk = match pick::next_new(view) {
            Ok(chunk) => chunk,
            Err(decision) => {
                let Decision::Wait { why: Why { rule: Rule::WindowFull, .. }, .. } = decision else {
                    return decision;
                };
                return self.unblock(view).unwrap_or(decision);
            }
        };
        let starting = |subflow: &SubflowView| subflow.ssthresh.is_none_or(|t| subflow.cwnd < t);
        let planned = self.options.slow_start || !pick::candidates(view).any(starting);
        let fits = |subflow: &SubflowView| chunk.fits_window(subflow);
        if planned && pick::candidates(view).any(fits) {
            // Tries each turn of this schedule once at most, and then the turns of a new schedule.
            let mut renewed = false;
            for _ in 0..=2 * LONGEST {
                if self.left > 0
                    && let Some(decision) = self.take_turn(view, chunk)
                {
                    return decision;
                }
                if !self.advance() {
                    if renewed || !self.restart(view) {
                        break;
                    }
                    renewed = true;
                }
            }
        }
        // No subflow could take its turn.
        MinRtt.decide(view)
    }

    fn revises_queues(&self) -> bool {
        true
    }
}

fn lcm(a: u32, b: u32) -> u32 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1400;

    /// Returns the subflows that carry the next `count` segments, given one-way delays and windows.
    fn order(options: DapsOptions, parts: &[(u64, u64)], count: u64) -> Vec<(u8, u64)> {
        let mut scheduler = Daps::new(options);
        let subflow = |(at, (delay, cwnd)): (usize, &(u64, u64))| {
            SubflowView::idle(SubflowId(at as u8), Duration::from_millis(2 * delay), *cwnd, MSS)
        };
        let subflows: Vec<_> = parts.iter().enumerate().map(subflow).collect();
        let mut unassigned = vec![DataRange::new(0, count * MSS)];
        let mut found = Vec::new();
        while !unassigned.is_empty() {
            let view = View::fresh(Time::from_secs(1), &subflows, &unassigned);
            let Decision::Assign { subflow, range, .. } = scheduler.decide(&view) else { break };
            for at in (range.start..range.end).step_by(MSS as usize) {
                found.push((subflow.0, at / MSS));
            }
            let place = unassigned
                .iter()
                .position(|whole| whole.end >= range.end && whole.start <= range.start)
                .unwrap();
            let whole = unassigned.remove(place);
            for rest in [DataRange::new(range.end, whole.end), DataRange::new(whole.start, range.start)] {
                if !rest.is_empty() {
                    unassigned.insert(place, rest);
                }
            }
        }
        found
    }

    const EXACT: DapsOptions = DapsOptions { round_delay: Duration::ZERO, ..DapsOptions::DEFAULT };

    #[test]
    fn delays_of_1_and_3_give_three_to_the_fast_and_one_to_the_slow() {
        let order: Vec<u8> = order(EXACT, &[(1, 1), (3, 1)], 8).iter().map(|(id, _)| *id).collect();
        assert_eq!(order, [0, 0, 0, 1, 0, 0, 0, 1]);
    }

    #[test]
    fn delays_of_10_and_50_give_50_and_10_segments_in_a_period() {
        let order: Vec<u8> = order(EXACT, &[(10, 10), (50, 10)], 120).iter().map(|(id, _)| *id).collect();
        let period = [vec![0; 50], vec![1; 10]].concat();
        assert_eq!(order, [period.clone(), period].concat());
    }

    #[test]
    fn with_reordering_the_slow_one_takes_data_that_then_arrives_in_order() {
        // The slow segment sent at time 3 arrives at time 6. The fast turn at 4 arrives at 5, before it; that
        // at 5 arrives at the same time.
        let options = DapsOptions { reorder: true, ..EXACT };
        let order = order(options, &[(1, 1), (3, 1)], 8);
        assert_eq!(order[..4], [(0, 0), (0, 1), (0, 2), (1, 4)]);
        let mut all: Vec<u64> = order.iter().map(|(_, at)| *at).collect();
        all.sort_unstable();
        assert_eq!(all, (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn forward_delays_are_rounded_to_the_nearest_and_never_0() {
        let daps = Daps::new(DapsOptions::DEFAULT);
        let delay = |ms: u64| daps.delay(Duration::from_millis(2 * ms));
        assert_eq!([delay(0), delay(1), delay(2), delay(13), delay(14)], [1, 1, 4, 12, 16]);
        assert_eq!([lcm(12, 32), lcm(10, 50), lcm(1, 7)], [96, 50, 7]);
    }
}
