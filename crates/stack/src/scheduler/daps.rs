//! DAPS, delay-aware packet scheduling: a schedule made beforehand, by which data arrives in order.
//!
//! **Decides** which subflow carries the next data by a schedule. It is made for the least common multiple of
//! the one-way delays: at every multiple of its delay a subflow has its turn, of as many segments as its
//! window had when the schedule was made. It is not changed before it is over, and it does not ask
//! whether the window has room: segments are queued.
//!
//! **Source**: Kuhn and others (2014), as in the Karlstad and Simula fork of the MPTCP kernel, with which
//! the DMPTCP paper compares itself. That forward delays are rounded to 4 ms, that the window is smoothed
//! and that blocking data is sent again are the fork's.
//!
//! **Constants**: delays in multiples of 4 ms, at least 1 ms; windows smoothed by 1/8 once in a round
//! trip; a schedule of at most 10,000 ms; at most 8 subflows.
//!
//! **Read differently**
//! * The paper takes the data for the slow path from further on in the stream; the fork does not. With
//!   `reorder` it is taken as far on as faster turns deliver before it arrives.
//! * What waits on a subflow that may carry nothing any more is taken back. Backups are left for
//!   emergencies; the fork does not look.
//! * The schedule ends early if the least common multiple exceeds 10,000 ms, which the fork's rounding is
//!   there for.

use anabranch_units::{Duration, Time};

use super::pick::{self, Chunk, Tracked};
use super::{AssignKind, Decision, MinRtt, Rule, Scheduler, SubflowView, View, Why};
use crate::event::SubflowId;
use crate::parameter;
use crate::parameter::{Options, Parameter};
use crate::seq::DataRange;

/// The subflows that a schedule may have.
const MOST: usize = 8;
/// The longest schedule, in milliseconds.
const LONGEST: u32 = 10_000;

/// The options of DAPS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DapsOptions {
    /// Delays are rounded to multiples of this; 0: not at all but for whole milliseconds.
    pub round_delay: Duration,
    /// The window is smoothed over round trips.
    pub smooth_cwnd: bool,
    /// There is a schedule while a subflow is in slow start; else minRTT.
    pub slow_start: bool,
    /// What blocks the receive window is sent again.
    pub retransmit: bool,
    /// Data of slower subflows is taken from further on.
    pub reorder: bool,
}

impl DapsOptions {
    /// As the fork.
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
            "delays are rounded to multiples of this; 0: to 1 ms",
            time Duration::ZERO, Duration::from_secs(1),
            round_delay
        ),
        parameter!(DapsOptions, "smooth-cwnd", "the window is smoothed over round trips", bool, smooth_cwnd),
        parameter!(
            DapsOptions,
            "slow-start",
            "a schedule while a subflow is in slow start; else minRTT",
            bool,
            slow_start
        ),
        parameter!(
            DapsOptions,
            "retransmit",
            "what blocks the receive window is sent again",
            bool,
            retransmit
        ),
        parameter!(DapsOptions, "reorder", "slower subflows take data from further on", bool, reorder),
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
    /// Whose turn it is, at what time of the schedule, of how many.
    turn: u8,
    at: u32,
    end: u32,
    /// Segments that are left in the turn.
    left: u32,
    smoothed: Tracked<Smoothed>,
}

impl Daps {
    /// With these options.
    pub fn new(options: DapsOptions) -> Daps {
        let parts = [Part::default(); MOST];
        Daps { options, parts, len: 0, turn: 0, at: 1, end: 0, left: 0, smoothed: Tracked::default() }
    }

    fn parts(&self) -> &[Part] {
        self.parts.get(..usize::from(self.len)).unwrap_or(&self.parts)
    }

    /// The one-way delay in whole milliseconds, at least 1.
    fn delay(&self, srtt: Duration) -> u32 {
        let ms = srtt.as_secs_f64() * 500.0;
        let unit = (self.options.round_delay.as_secs_f64() * 1e3).max(1.0);
        // The nearest, half up.
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

    /// Makes a schedule; false if there is nobody to have a turn.
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

    /// The subflow whose turn it is, if it is due now.
    fn due(&self) -> Option<Part> {
        let part = self.parts().get(usize::from(self.turn)).copied()?;
        (self.at <= self.end && self.at.is_multiple_of(part.delay)).then_some(part)
    }

    /// The next turn; false if the schedule is over.
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
            // The next time at which anybody is due.
            let next = self.parts().iter().map(|part| (self.at / part.delay + 1) * part.delay).min();
            self.turn = 0;
            self.at = next.unwrap_or(u32::MAX);
            if self.at > self.end {
                return false;
            }
        }
    }

    /// Begins a schedule at its first turn; false if there is none.
    fn restart(&mut self, view: &View<'_>) -> bool {
        if !self.begin(view) {
            return false;
        }
        // Time 0 has no turn.
        self.at = 0;
        self.turn = self.len;
        self.advance()
    }

    /// How many segments the turns that come later deliver before this one arrives.
    fn ahead(&self) -> u64 {
        let Some(mine) = self.due() else { return 0 };
        let arrival = self.at + mine.delay;
        let others = self.parts().iter().enumerate();
        others
            .map(|(order, part)| {
                // Turns at multiples of the delay, behind this one, that end before it arrives.
                let last = arrival.saturating_sub(part.delay + 1) / part.delay;
                let first = self.at / part.delay
                    + u32::from(order <= usize::from(self.turn) || !self.at.is_multiple_of(part.delay));
                u64::from((last + 1).saturating_sub(first.max(1))) * u64::from(part.segments)
            })
            .sum()
    }

    /// Sends again what blocks the window, on the first by RTT that has room and has not carried it.
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

    /// The turn's decision, if the subflow can take anything.
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
            // Each turn once at most, and then the same of a new schedule.
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
        // Nobody could take his turn.
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

    /// Who has the next `count` segments, by subflows with these one-way delays and windows.
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
    fn with_reordering_the_slow_one_takes_what_arrives_when_it_does() {
        // At time 3 the slow one sends what arrives at time 6: the fast one's turns at 4 (and 5, which
        // arrives at the same time) come before; a turn of the fast at 4 arrives at 5.
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
