//! CP scheduling: a slower subflow is used only if the receive buffer can hold the data that arrives early.
//!
//! **Decides** which subflow carries the next data in order. The fastest carries it if it has free window.
//! Any other is used if the buffer can hold, beyond the data in flight, all data that the faster ones deliver
//! in one of its round trips: the *required buffer*. The radical scheduler compares that with the buffer; the
//! conservative one adds all outstanding data, and waits until the fastest subflow has left slow start. A
//! refused subflow pauses, and after a guard time it is probed with a few packets.
//!
//! **Source**: Oh and Lee (2015), sections 3 and 4, and the authors' published code.
//!
//! **Constants**: `beta` 4, the guard time in round trips, at most 2 s; 10 probes.
//!
//! **Departures from the source**
//! * "Available buffer" is not defined; `avail = free` follows the authors' code (the window after the next
//!   segment), `whole` is the window from the data acknowledgement.
//! * The growth of a faster subflow's window is taken from its congestion control: equation 4 in slow start
//!   (including BBR's Startup), equation 5 if it grows by acknowledgements, equation 7 if it is a function of
//!   time (CUBIC), and equation 2 if it follows from a rate (BBR after Startup). Equations 2 and 7 include
//!   the data in flight and equations 4 and 5 do not, as printed.
//! * The paper's figure 3 compares packets with bytes; both are bytes here.
//! * When a guard time ends, the probes begin with the same decision; in the figure they begin with the next.
//!   As the scheduler is asked until it waits, the result is the same.
//! * The first pause of the figure has no guard time; a later one uses the RTT saved at the pause before, as
//!   in the code.
//! * A subflow without an RTT sample is used as by minRTT; one that repairs a timeout is not ranked.

use anabranch_units::{Duration, Time};

use super::pick::{self, Tracked};
use super::{Decision, Rule, Scheduler, SubflowView, View, Why};
use crate::congestion::{CongestionControl, Growth};
use crate::parameter;
use crate::parameter::{Options, Parameter};

/// The development of the guard time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probing {
    /// The same number of round trips at every pause.
    Static,
    /// That number of round trips more with every pause.
    Dynamic,
}

/// The buffer with which the required buffer is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Available {
    /// The window beyond the next segment.
    Free,
    /// The whole window.
    Whole,
}

/// The model of the data that a faster subflow delivers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryModel {
    /// Equations 2 to 5 and 7, by congestion control: growing windows, or rates.
    Paper,
    /// The published code: constant windows.
    Code,
}

/// The options of both CP schedulers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CpOptions {
    /// The development of the guard time.
    pub probing: Probing,
    /// The guard time in round trips of the paused subflow.
    pub beta: f64,
    /// The maximum of the guard time.
    pub guard_max: Duration,
    /// The number of packets in a probe.
    pub probes: u16,
    /// The buffer with which the required buffer is compared.
    pub avail: Available,
    /// The model of the data that a faster subflow delivers.
    pub model: DeliveryModel,
    /// The maximum RTT of a used subflow, in RTTs of the fastest.
    pub delay_constraint: Option<f64>,
    /// The maximum RTT of a used subflow.
    pub delay_constraint_time: Option<Duration>,
    /// True if a round trip with sufficient buffer resets the count of pauses.
    pub reset_pauses: bool,
}

impl CpOptions {
    /// The options of the radical scheduler: dynamic probing.
    pub const RADICAL: CpOptions = CpOptions {
        probing: Probing::Dynamic,
        beta: 4.0,
        guard_max: Duration::from_secs(2),
        probes: 10,
        avail: Available::Free,
        model: DeliveryModel::Paper,
        delay_constraint: None,
        delay_constraint_time: None,
        reset_pauses: false,
    };
    /// The options of the conservative scheduler: static probing.
    pub const CONSERVATIVE: CpOptions = CpOptions { probing: Probing::Static, ..CpOptions::RADICAL };
}

impl Options for CpOptions {
    const PARAMETERS: &'static [Parameter<CpOptions>] = &[
        parameter!(
            CpOptions,
            "probing",
            "growth of the guard time with the pauses",
            choice ["static" => Probing::Static, "dynamic" => Probing::Dynamic],
            probing
        ),
        parameter!(CpOptions, "beta", "guard time, in RTTs of the paused subflow", number 0.0, 1e6, beta),
        parameter!(
            CpOptions,
            "guard-max",
            "maximum guard time",
            time Duration::ZERO, Duration::from_secs(3600),
            guard_max
        ),
        parameter!(CpOptions, "probes", "packets in a probe of a paused subflow", integer 0, 65535, probes),
        parameter!(
            CpOptions,
            "avail",
            "buffer with which the required buffer is compared",
            choice ["free" => Available::Free, "whole" => Available::Whole],
            avail
        ),
        parameter!(
            CpOptions,
            "model",
            "model of the data that a faster subflow delivers meanwhile",
            choice ["paper" => DeliveryModel::Paper, "code" => DeliveryModel::Code],
            model
        ),
        parameter!(
            CpOptions,
            "delay-constraint",
            "maximum RTT of a subflow, in RTTs of the fastest",
            open number 1.0, 1e6, "off",
            delay_constraint
        ),
        parameter!(
            CpOptions,
            "delay-constraint-time",
            "maximum RTT of a subflow other than the fastest",
            open time Duration::ZERO, Duration::from_secs(3600), "off",
            delay_constraint_time
        ),
        parameter!(
            CpOptions,
            "reset-pauses",
            "a round trip with sufficient buffer resets the count of pauses",
            bool,
            reset_pauses
        ),
    ];
}

/// The state of one subflow's pauses.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Pause {
    /// The number of pauses.
    count: u32,
    /// The start of the last pause, and the left edge of the connection's window at that time.
    at: Time,
    una: u64,
    /// The duration for which nothing changes.
    guard: Duration,
    /// The RTT at the start of the last pause.
    srtt: Duration,
    /// The number of probes left.
    probes: u16,
    /// The time since which the buffer has been sufficient; used only with `reset_pauses`.
    enough_since: Option<Time>,
}

/// Returns the segments that `subflow` delivers in one round trip of a subflow with RTT `slow`: the paper's
/// D. Data in flight is included where the equation includes it.
fn delivered_meanwhile(model: DeliveryModel, view: &View<'_>, subflow: &SubflowView, slow: Duration) -> f64 {
    let (Some(fast), mss) = (subflow.srtt, subflow.mss.max(1)) else { return 0.0 };
    let ratio = slow.as_secs_f64() / fast.as_secs_f64().max(1e-9);
    let under_way = pick::segments(subflow, pick::under_way(subflow)) as f64;
    if model == DeliveryModel::Code {
        return under_way * (libm::ceil(ratio) - 2.0).max(0.0);
    }
    // Equation 3. RTTs are whole nanoseconds, so that exact ratios stay exact.
    let rounds = if ratio >= 2.0 { (slow.0 / fast.0.max(1) - 1).min(50) } else { 0 };
    let growth = view.growth(subflow);
    if let (Growth::Time, Some(congestion)) = (growth, view.congestion) {
        // Equation 7.
        let window = |round: u64| congestion.window_at(subflow.id, view.now, fast * round) as f64;
        return (0..=rounds).map(window).sum::<f64>() / mss as f64;
    }
    if growth == Growth::Rate {
        // Equation 2.
        return sending_rate(subflow, fast) * slow.as_secs_f64() / mss as f64;
    }
    if rounds == 0 {
        return 0.0;
    }
    if growth == Growth::SlowStart {
        // Equation 4.
        return under_way * ((1_u64 << rounds) - 1) as f64;
    }
    // Equation 5. A sender that does not fill its window does not increase it.
    let limited = pick::under_way(subflow) + mss > subflow.cwnd;
    let increase = if limited { increase(view, subflow) } else { 0.0 };
    let rounds = rounds as f64;
    rounds * under_way + increase * rounds * (rounds - 1.0) / 2.0
}

/// Returns the rate in bytes per second: the pacing rate of `subflow`, or else its delivery rate, or its
/// window divided by its RTT.
fn sending_rate(subflow: &SubflowView, rtt: Duration) -> f64 {
    let named = subflow.pacing_rate.unwrap_or(subflow.delivery_rate);
    if named.0 > 0 { named.as_bps_f64() / 8.0 } else { subflow.cwnd as f64 / rtt.as_secs_f64().max(1e-9) }
}

/// Returns the segments that a round trip of congestion avoidance adds to a window: 1, or the subflow's share
/// of alpha (RFC 6356).
fn increase(view: &View<'_>, subflow: &SubflowView) -> f64 {
    if !view.coupled {
        return 1.0;
    }
    let (mut total, mut best, mut sum) = (0.0, 0.0_f64, 0.0);
    for other in view.subflows.iter().filter(|other| other.usable) {
        let Some(rtt) = other.srtt.map(|rtt| rtt.as_secs_f64().max(1e-9)) else { continue };
        let cwnd = other.cwnd as f64;
        total += cwnd;
        best = best.max(cwnd / (rtt * rtt));
        sum += cwnd / rtt;
    }
    if sum <= 0.0 {
        return 1.0;
    }
    // alpha cwnd_i / cwnd_total, where alpha is cwnd_total best / sum^2.
    (total * best / (sum * sum) * subflow.cwnd as f64 / total).min(1.0)
}

/// The common part of both schedulers.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Cp {
    options: CpOptions,
    conservative: bool,
    pauses: Tracked<Pause>,
}

impl Cp {
    fn new(options: CpOptions, conservative: bool) -> Cp {
        Cp { options, conservative, pauses: Tracked::default() }
    }

    /// Starts the next pause, which begins with probes, after the guard time has ended and the window has
    /// moved.
    fn pause_again(&self, pause: &mut Pause, view: &View<'_>, slow: Duration) {
        pause.count += 1;
        let rtt = if pause.count == 1 { slow } else { pause.srtt };
        let times = match self.options.probing {
            Probing::Static => 1.0,
            Probing::Dynamic => f64::from(pause.count),
        };
        let guard = rtt.as_secs_f64() * self.options.beta * times;
        pause.guard = Duration::from_secs_f64(guard).min(self.options.guard_max);
        pause.at = view.now;
        pause.una = view.data_una;
        pause.srtt = slow;
        pause.probes = self.options.probes;
    }

    /// True if the delay constraint forbids a subflow with RTT `slow`.
    fn is_late(&self, slow: Duration, fastest: &SubflowView) -> bool {
        let least = pick::rtt_or_infinite(fastest).as_secs_f64();
        self.options.delay_constraint.is_some_and(|most| slow.as_secs_f64() > most * least)
            || self.options.delay_constraint_time.is_some_and(|most| slow > most)
    }

    /// True if the conservative scheduler uses only the fastest subflow: while that is in slow start, or
    /// carries half of the window.
    fn keeps_to(&self, view: &View<'_>, fastest: &SubflowView) -> bool {
        self.conservative
            && (view.growth(fastest) == Growth::SlowStart
                || 2 * pick::under_way(fastest) >= view.peer_window.saturating_sub(fastest.mss))
    }

    fn decide(&mut self, view: &View<'_>) -> Decision {
        let chunk = match pick::next_new(view) {
            Ok(chunk) => chunk,
            Err(decision) => return decision,
        };
        let Some(fastest) = pick::fastest(view) else { return pick::wait(pick::why_none(view)) };
        if chunk.fits(fastest)
            && let Some(range) = chunk.fit(fastest, u64::MAX)
        {
            return pick::assign_new(fastest, range, Why::rule(Rule::LowestRtt));
        }
        let keeps = self.keeps_to(view, fastest);
        let outstanding: u64 = view.subflows.iter().map(pick::under_way).sum();
        let mut reason = Why::rule(pick::why_none(view));
        for subflow in pick::by_rtt(view).skip(1) {
            let Some(range) = chunk.fit(subflow, subflow.mss) else { continue };
            let Some(slow) = subflow.srtt else {
                return pick::assign_new(subflow, range, Why::rule(Rule::LowestRtt));
            };
            let mut pause = self.pauses.get(subflow);
            if keeps {
                pause.probes = 0;
                self.pauses.set(subflow, pause);
                reason = Why::rule(Rule::NoBuffer);
                continue;
            }
            let faster = pick::candidates(view).filter(|s| pick::rank(s) < pick::rank(subflow));
            let required: f64 =
                faster.map(|s| delivered_meanwhile(self.options.model, view, s, slow) * s.mss as f64).sum();
            let available = match self.options.avail {
                Available::Whole => view.peer_window,
                Available::Free => view.window_end - (chunk.range.start + chunk.range.len().min(subflow.mss)),
            } as f64;
            let why = Why::scored(Rule::NoBuffer, required, available);
            let decision = self.weigh(&mut pause, view, subflow, (required, available, outstanding as f64));
            let late = self.is_late(slow, fastest);
            self.pauses.set(subflow, pause);
            match decision {
                Some(Rule::PathProbe) => {
                    let guard = pause.guard.as_secs_f64();
                    let why = Why::scored(Rule::PathProbe, guard, f64::from(pause.count));
                    return pick::assign_new(subflow, range, why);
                }
                Some(_) if late => reason = Why::scored(Rule::TooSlow, slow.as_secs_f64(), f64::NAN),
                Some(rule) => return pick::assign_new(subflow, range, Why { rule, ..why }),
                None => reason = why,
            }
        }
        Decision::Wait { until: None, why: reason }
    }

    /// Returns whether a slower subflow is used, the rule, and `(required, available, outstanding)` in bytes.
    fn weigh(
        &self,
        pause: &mut Pause,
        view: &View<'_>,
        subflow: &SubflowView,
        (required, available, outstanding): (f64, f64, f64),
    ) -> Option<Rule> {
        let slow = pick::rtt_or_infinite(subflow);
        if required <= available {
            let since = *pause.enough_since.get_or_insert(view.now);
            if self.options.reset_pauses && view.now.since(since) >= slow {
                *pause = Pause { enough_since: Some(since), ..Pause::default() };
            }
            let fits = !self.conservative || required + outstanding <= available;
            return fits.then_some(Rule::LowestRtt);
        }
        pause.enough_since = None;
        let over = pause.count == 0 || view.now > pause.at + pause.guard && pause.una < view.data_una;
        if over {
            self.pause_again(pause, view, slow);
        }
        if pause.count > 1 && pause.probes > 0 {
            pause.probes -= 1;
            return Some(Rule::PathProbe);
        }
        None
    }
}

/// CP scheduling that compares the required buffer with the whole available buffer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CpRadical(Cp);

impl CpRadical {
    /// Returns a scheduler with the given options.
    pub fn new(options: CpOptions) -> CpRadical {
        CpRadical(Cp::new(options, false))
    }
}

impl Scheduler for CpRadical {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        self.0.decide(view)
    }
}

/// CP scheduling that reserves buffer for all outstanding data.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CpConservative(Cp);

impl CpConservative {
    /// Returns a scheduler with the given options.
    pub fn new(options: CpOptions) -> CpConservative {
        CpConservative(Cp::new(options, true))
    }
}

impl Scheduler for CpConservative {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        self.0.decide(view)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Rate;

    use super::*;
    use crate::congestion::{Ack, AnyCongestion, CongestionEvent, CustomCongestion, SubflowStart};
    use crate::event::SubflowId;
    use crate::seq::DataRange;

    const MSS: u64 = 1400;

    /// Returns D for `outstanding` segments on a subflow of `fast` ms, with another subflow of `slow` ms: in
    /// slow start, in congestion avoidance, and by the published code.
    fn delivered(fast: u64, slow: u64, outstanding: u64) -> (f64, f64, f64) {
        let ms = Duration::from_millis;
        let subflow = SubflowView {
            inflight: outstanding * MSS,
            ..SubflowView::idle(SubflowId(0), ms(fast), outstanding, MSS)
        };
        let avoiding = SubflowView { ssthresh: Some(MSS), ..subflow };
        let subflows = [subflow];
        let view = View::fresh(Time::ZERO, &subflows, &[]);
        let paper = |subflow| delivered_meanwhile(DeliveryModel::Paper, &view, subflow, ms(slow));
        let code = delivered_meanwhile(DeliveryModel::Code, &view, &subflow, ms(slow));
        (paper(&subflow), paper(&avoiding), code)
    }

    #[test]
    fn the_check_values_of_equations_3_to_5_come_out() {
        // Computed by hand: L = 6, 20 (2^6 - 1) = 1260, 20 * 6 + 15 = 135.
        assert_eq!(delivered(20, 150, 20), (1260.0, 135.0, 120.0));
        // L = 3: 8 * 7 = 56, 8 * 3 + 3 = 27; at whole ratios the code has one round less.
        assert_eq!(delivered(20, 80, 8), (56.0, 27.0, 16.0));
        // L = 1 from a ratio of 2 on, 0 below it.
        assert_eq!(delivered(20, 40, 10), (10.0, 10.0, 0.0));
        assert_eq!(delivered(20, 39, 10), (0.0, 0.0, 0.0));
        assert_eq!(delivered(20, 5000, 1).0, ((1_u64 << 50) - 1) as f64);
    }

    /// A congestion control that reports a fixed kind of growth, and a window that grows by 3 segments in 10
    /// ms.
    #[derive(Clone, Copy)]
    struct Says(Growth);

    impl CongestionControl for Says {
        fn on_subflow_up(&mut self, _: SubflowId, _: &SubflowStart) {}
        fn on_subflow_down(&mut self, _: SubflowId) {}
        fn on_ack(&mut self, _: SubflowId, _: &Ack) {}
        fn on_congestion(&mut self, _: SubflowId, _: &CongestionEvent) {}
        fn on_recovered(&mut self, _: SubflowId, _: Time) {}
        fn on_rto(&mut self, _: SubflowId, _: Time, _: u64, _: bool) {}
        fn on_undo(&mut self, _: SubflowId, _: Time) {}
        fn on_idle(&mut self, _: SubflowId, _: Time, _: u32) {}
        fn penalise(&mut self, _: SubflowId, _: Time) {}
        fn cwnd(&self, _: SubflowId) -> u64 {
            8 * MSS
        }
        fn ssthresh(&self, _: SubflowId) -> Option<u64> {
            None
        }
        fn growth(&self, _: SubflowId) -> Growth {
            self.0
        }
        fn window_at(&self, _: SubflowId, _: Time, ahead: Duration) -> u64 {
            (8 + 3 * (ahead.as_nanos() / 10_000_000)) * MSS
        }
    }

    impl CustomCongestion for Says {
        fn clone_box(&self) -> Box<dyn CustomCongestion> {
            Box::new(*self)
        }
    }

    /// Returns two subflows of 20 and 80 ms; the window of the first is full.
    fn full_and_slow() -> [SubflowView; 2] {
        let ms = Duration::from_millis;
        let fast = SubflowView { inflight: 8 * MSS, ..SubflowView::idle(SubflowId(0), ms(20), 8, MSS) };
        [fast, SubflowView::idle(SubflowId(1), ms(80), 8, MSS)]
    }

    fn by_growth(growth: Growth, subflows: &[SubflowView], slow_ms: u64) -> f64 {
        let congestion = AnyCongestion::Custom(Box::new(Says(growth)));
        let view = View { congestion: Some(&congestion), ..View::fresh(Time::ZERO, subflows, &[]) };
        delivered_meanwhile(DeliveryModel::Paper, &view, &subflows[0], Duration::from_millis(slow_ms))
    }

    #[test]
    fn equation_7_sums_the_windows_of_the_times_to_come() {
        let subflows = full_and_slow();
        // L = 3: 8 + 14 + 20 + 26 at 0, 20, 40 and 60 ms. The sum begins with the window in flight, also for
        // L = 0.
        assert_eq!(by_growth(Growth::Time, &subflows, 80), 68.0);
        assert_eq!(by_growth(Growth::Time, &subflows, 39), 8.0);
        // Before the first loss, slow start follows equation 4, whatever the growth after it.
        assert_eq!(by_growth(Growth::SlowStart, &subflows, 80), 56.0);
        assert_eq!(by_growth(Growth::Acks, &subflows, 80), 27.0);
    }

    #[test]
    fn equation_2_takes_the_rate_at_which_a_subflow_is_paced() {
        let [mut fast, slow] = full_and_slow();
        // 8 segments in 20 ms.
        assert!((by_growth(Growth::Rate, &[fast, slow], 80) - 32.0).abs() < 1e-9);
        fast.delivery_rate = Rate(50 * 8 * MSS);
        assert!((by_growth(Growth::Rate, &[fast, slow], 80) - 4.0).abs() < 1e-9);
        fast.pacing_rate = Some(Rate(100 * 8 * MSS));
        assert!((by_growth(Growth::Rate, &[fast, slow], 80) - 8.0).abs() < 1e-9);
        // Also below twice its RTT.
        assert!((by_growth(Growth::Rate, &[fast, slow], 30) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn the_conservative_scheduler_uses_a_slow_subflow_beside_one_that_has_no_slow_start() {
        let subflows = full_and_slow();
        let data = [DataRange::new(0, 100 * MSS)];
        for (growth, uses) in [(Growth::Rate, true), (Growth::Time, true), (Growth::SlowStart, false)] {
            let congestion = AnyCongestion::Custom(Box::new(Says(growth)));
            let view = View { congestion: Some(&congestion), ..View::fresh(Time::ZERO, &subflows, &data) };
            let decision = CpConservative::new(CpOptions::CONSERVATIVE).decide(&view);
            assert_eq!(matches!(decision, Decision::Assign { .. }), uses, "{growth:?} {decision:?}");
        }
    }

    #[test]
    fn a_window_that_is_not_filled_does_not_grow_and_a_coupled_one_grows_less() {
        let ms = Duration::from_millis;
        let slow = SubflowView::idle(SubflowId(1), ms(80), 8, MSS);
        let fast = SubflowView {
            inflight: 8 * MSS,
            ssthresh: Some(MSS),
            ..SubflowView::idle(SubflowId(0), ms(20), 8, MSS)
        };
        let subflows = [fast, slow];
        let view = View::fresh(Time::ZERO, &subflows, &[]);
        let wider = SubflowView { cwnd: 20 * MSS, ..fast };
        assert_eq!(delivered_meanwhile(DeliveryModel::Paper, &view, &wider, ms(80)), 24.0);
        // alpha cwnd_i / total = 8 (8 / 0.02^2) / (8 / 0.02 + 8 / 0.08)^2 = 160000 / 250000.
        let coupled = View { coupled: true, ..view };
        let d = delivered_meanwhile(DeliveryModel::Paper, &coupled, &fast, ms(80));
        assert!((d - (24.0 + 0.64 * 3.0)).abs() < 1e-9, "{d}");
    }
}
