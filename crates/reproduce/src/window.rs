//! The window simulation of the survey of coupled congestion controls (Telecom 2022, Section 7.4).
//!
//! Windows grow in steps of a round trip: in each cycle, which is the round trip of the first path, the flows
//! whose round begins send their whole window into a FIFO of 80 packets, and a flow that loses packets
//! reduces its window once. There are no packets, no acknowledgements in between, no slow start, no timeouts,
//! and queues do not lengthen round trips.
//!
//! The survey gives the queue, the initial window of 10, the 600 cycles and the formulas of the windows. It
//! does not give the rate of the links: here it is a parameter, 100 packets in a cycle unless set. It names equations 1, 4
//! and 6, and not 7, which is the decrease of BALIA: every control halves its window, unless `balia=equation-7` is set. It
//! does not say which packets a full FIFO drops: `drops=share` shares them in proportion to what the flows send in that cycle,
//! `drops=tail` drops whole packets at the end of the arrivals, where the subflow's packets arrive after the TCP's, and
//! with `drops=all` every flow that meets a full FIFO loses one.

use crate::metric::Quantity;
use crate::values::{Values, Wanted};

/// Packets that the FIFO holds.
const QUEUE: f64 = 80.0;
/// The initial window, in packets.
const INITIAL: f64 = 10.0;
const CYCLES: usize = 600;
/// The least window, in packets.
const LEAST: f64 = 1.0;

/// A coupled control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Control {
    Lia,
    Olia,
    Balia,
    /// NewReno on each subflow.
    Uncoupled,
}

impl Control {
    fn of(name: &str) -> Option<Control> {
        Some(match name {
            "lia" => Control::Lia,
            "olia" => Control::Olia,
            "balia" => Control::Balia,
            "uncoupled" => Control::Uncoupled,
            _ => return None,
        })
    }
}

/// The parameters of a simulation, as `rtt=2 compete rate=100`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// The round trip of the second path in cycles.
    rtt: usize,
    /// Whether a TCP shares the link of the first subflow.
    compete: bool,
    /// Packets that a link sends in a cycle.
    rate: f64,
    /// The packets that a full FIFO drops.
    drops: Drops,
    /// Whether BALIA reduces its window by equation 7.
    equation_7: bool,
}

/// The packets that a full FIFO drops.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Drops {
    /// Of each flow in proportion to its packets, in fractions.
    Share,
    /// Whole packets at the end of the arrivals: the subflow's after the TCP's.
    Tail,
    /// At least one of each flow that sends.
    All,
}

/// A flow or subflow.
#[derive(Clone, Copy, Debug)]
struct Flow {
    window: f64,
    rtt: usize,
    link: usize,
    /// Packets since the last loss, and between the last two, for OLIA.
    since_loss: f64,
    between: f64,
    /// The fraction of a packet that it has lost so far.
    lost: f64,
}

impl Flow {
    fn new(rtt: usize, link: usize) -> Flow {
        Flow { window: INITIAL, rtt, link, since_loss: 0.0, between: 0.0, lost: 0.0 }
    }

    /// Packets in a cycle.
    fn rate(&self) -> f64 {
        self.window / self.rtt as f64
    }
}

/// The windows in each cycle: of both subflows, and of the TCP.
type Trace = Vec<[f64; 3]>;

impl Setting {
    /// Parses the parameters.
    ///
    /// # Errors
    /// If one is unknown.
    pub fn parse(text: &str) -> Result<Setting, String> {
        let mut setting =
            Setting { rtt: 1, compete: false, rate: 100.0, drops: Drops::Share, equation_7: false };
        for word in text.split_whitespace() {
            let wrong = || {
                format!(
                    "`{word}` is no parameter of the window simulation; there are rtt=N, compete, rate=N, \
                     drops=share|tail|all, balia=half|equation-7"
                )
            };
            match word.split_once('=') {
                None if word == "compete" => setting.compete = true,
                Some(("rtt", value)) => {
                    setting.rtt =
                        value.parse().ok().filter(|rtt| (1..=100).contains(rtt)).ok_or_else(wrong)?;
                }
                Some(("rate", value)) => {
                    let rate: Option<u32> = value.parse().ok();
                    setting.rate = rate.filter(|rate| *rate > 0).map(f64::from).ok_or_else(wrong)?;
                }
                Some(("drops", "share")) => setting.drops = Drops::Share,
                Some(("drops", "tail")) => setting.drops = Drops::Tail,
                Some(("drops", "all")) => setting.drops = Drops::All,
                Some(("balia", "half")) => setting.equation_7 = false,
                Some(("balia", "equation-7")) => setting.equation_7 = true,
                _ => return Err(wrong()),
            }
        }
        Ok(setting)
    }

    /// Simulates, and returns the windows at the end of each cycle. The TCP has a link that no other flow
    /// uses, unless it competes.
    fn run(&self, control: Control) -> Trace {
        let mut flows =
            [Flow::new(1, 0), Flow::new(self.rtt, 1), Flow::new(1, if self.compete { 0 } else { 2 })];
        let mut queues = [0.0_f64; 3];
        let mut trace = Trace::with_capacity(CYCLES);
        for cycle in 0..CYCLES {
            let sends = |flow: &Flow| cycle % flow.rtt == 0;
            for (link, queue) in queues.iter_mut().enumerate() {
                let offered: f64 = flows
                    .iter()
                    .filter(|flow| flow.link == link && sends(flow))
                    .map(|flow| flow.window)
                    .sum();
                let filled = (*queue + offered - self.rate).max(0.0);
                let dropped = (filled - QUEUE).max(0.0);
                *queue = filled - dropped;
                let mut left = dropped.ceil();
                // The TCP is the last one: its packets are before the subflow's in the queue.
                for flow in flows.iter_mut().filter(|flow| flow.link == link && sends(flow)) {
                    flow.lost += match self.drops {
                        Drops::Share => dropped * flow.window / offered,
                        Drops::Tail => {
                            let own = left.min(flow.window.floor());
                            left -= own;
                            own
                        }
                        Drops::All => dropped.ceil().min(1.0),
                    };
                }
            }
            let before = flows;
            for place in 0..flows.len() {
                if !sends(&before[place]) {
                    continue;
                }
                let coupled = place < 2 && control != Control::Uncoupled;
                let flow = &mut flows[place];
                if flow.lost >= 1.0 {
                    let reduction = match control {
                        Control::Balia if coupled && self.equation_7 => balia_reduction(&before[..2], place),
                        _ => 0.5,
                    };
                    flow.window = (flow.window * (1.0 - reduction)).max(LEAST);
                    flow.between = flow.since_loss;
                    (flow.since_loss, flow.lost) = (0.0, 0.0);
                } else {
                    // As many acknowledgements as packets in a round.
                    let each = match (coupled, control) {
                        (true, Control::Lia) => lia(&before[..2], place),
                        (true, Control::Olia) => olia(&before[..2], place),
                        (true, Control::Balia) => balia(&before[..2], place),
                        _ => 1.0 / flow.window,
                    };
                    flow.since_loss += flow.window;
                    flow.window = (flow.window + each * before[place].window).max(LEAST);
                }
            }
            trace.push([flows[0].window, flows[1].window, flows[2].window]);
        }
        trace
    }

    /// Returns the wanted measures of the contenders `lia`, `olia`, `balia` and `uncoupled`: `window` (the mean)
    /// and `window-most`, in packets, and `rate`, the packets in a cycle, of both subflows together or with `.1` and `.2` of one, with a span of
    /// cycles after `@`, and of the TCP with `beside`.
    ///
    /// # Errors
    /// If there is no such contender or measure.
    pub(crate) fn measure(&self, wanted: &Wanted) -> Result<Values, String> {
        let mut values = Values::new();
        for name in &wanted.contenders {
            let control = Control::of(name).ok_or_else(|| {
                format!("the window simulation has lia, olia, balia and uncoupled, and no `{name}`")
            })?;
            let trace = self.run(control);
            let own = values.entry(name.clone()).or_default();
            for metric in &wanted.metrics {
                // A round of the second path takes several cycles.
                let rounds = if metric.quantity == Quantity::PerCycle { self.rtt as f64 } else { 1.0 };
                let window = |windows: &[f64; 3]| match (metric.beside, metric.path) {
                    (true, _) => windows[2],
                    (false, Some(0)) => windows[0],
                    (false, Some(_)) => windows[1] / rounds,
                    (false, None) => windows[0] + windows[1] / rounds,
                };
                let (from, to) = metric.span.unwrap_or((0.0, CYCLES as f64));
                let seen = trace.iter().take(to as usize).skip(from as usize).map(window);
                let value = match metric.quantity {
                    Quantity::Window | Quantity::PerCycle => seen.clone().sum::<f64>() / seen.count() as f64,
                    Quantity::WindowMost => seen.fold(0.0, f64::max),
                    _ => return Err(format!("the window simulation has no `{metric}`")),
                };
                own.insert(metric.to_string(), vec![value]);
            }
        }
        Ok(values)
    }
}

/// The increase of LIA for an acknowledgement (RFC 6356, the survey's equation 1).
fn lia(flows: &[Flow], place: usize) -> f64 {
    let total: f64 = flows.iter().map(|flow| flow.window).sum();
    let rate: f64 = flows.iter().map(Flow::rate).sum();
    let best = flows.iter().map(|flow| flow.rate() / flow.rtt as f64).fold(0.0, f64::max);
    let alpha = total * best / (rate * rate);
    (alpha / total).min(1.0 / flows[place].window)
}

/// The increase of OLIA (the survey's equation 4).
fn olia(flows: &[Flow], place: usize) -> f64 {
    let rate: f64 = flows.iter().map(Flow::rate).sum();
    let quality = |flow: &Flow| flow.between.max(flow.since_loss).powi(2) / flow.rtt as f64;
    let best_quality = flows.iter().map(quality).fold(0.0, f64::max);
    let largest = flows.iter().map(|flow| flow.window).fold(0.0, f64::max);
    let best = |flow: &Flow| quality(flow) >= best_quality;
    let large = |flow: &Flow| flow.window >= largest;
    let collected = flows.iter().filter(|flow| best(flow) && !large(flow)).count();
    let flow = &flows[place];
    let n = flows.len() as f64;
    let alpha = if collected == 0 {
        0.0
    } else if best(flow) && !large(flow) {
        1.0 / (n * collected as f64)
    } else if large(flow) {
        -1.0 / (n * flows.iter().filter(|flow| large(flow)).count() as f64)
    } else {
        0.0
    };
    flow.rate() / flow.rtt as f64 / (rate * rate) + alpha / flow.window
}

/// The ratio of the best rate to a subflow's.
fn balia_alpha(flows: &[Flow], place: usize) -> f64 {
    flows.iter().map(Flow::rate).fold(0.0, f64::max) / flows[place].rate()
}

/// The increase of BALIA (the survey's equation 6).
fn balia(flows: &[Flow], place: usize) -> f64 {
    let alpha = balia_alpha(flows, place);
    let rate: f64 = flows.iter().map(Flow::rate).sum();
    let own = flows[place].rate() / flows[place].rtt as f64 / (rate * rate);
    own * (1.0 + alpha) / 2.0 * (4.0 + alpha) / 5.0
}

/// The part of the window that BALIA gives up at a loss.
fn balia_reduction(flows: &[Flow], place: usize) -> f64 {
    0.5 * balia_alpha(flows, place).min(1.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(text: &str) -> Trace {
        let (control, rest) = text.split_once(' ').unwrap_or((text, ""));
        Setting::parse(rest).unwrap().run(Control::of(control).unwrap())
    }

    fn mean(trace: &Trace, place: usize) -> f64 {
        trace.iter().map(|windows| windows[place]).sum::<f64>() / trace.len() as f64
    }

    #[test]
    fn two_equal_subflows_grow_by_a_quarter_each_and_a_tcp_by_one() {
        for control in ["lia", "olia", "balia"] {
            let [first, second, tcp] = trace(&format!("{control} rate=10000"))[99];
            assert!((first - 35.0).abs() < 0.1 && (second - 35.0).abs() < 0.1, "{control}: {first} {second}");
            assert!((tcp - 110.0).abs() < 1e-6);
        }
    }

    #[test]
    fn two_tcps_share_a_link() {
        let trace = trace("uncoupled compete");
        assert!((mean(&trace, 0) / mean(&trace, 2) - 1.0).abs() < 0.05);
    }

    #[test]
    fn a_lone_tcp_has_the_sawtooth_of_its_link_and_queue() {
        // A round of W fills C and the queue of 80, which the next rounds of W/2 leave empty again.
        let most = trace("uncoupled")[100..].iter().map(|windows| windows[2]).fold(0.0, f64::max);
        let least = trace("uncoupled")[100..].iter().map(|windows| windows[2]).fold(f64::INFINITY, f64::min);
        assert!((least / most - 0.5).abs() < 0.02, "{least} {most}");
        assert!(most > 100.0 && most < 180.0, "{most}");
    }

    #[test]
    fn a_coupled_subflow_yields_to_a_tcp_where_the_other_has_a_path_of_its_own() {
        let trace = trace("lia compete");
        assert!(mean(&trace, 0) < 0.7 * mean(&trace, 2));
        assert!(mean(&trace, 1) > mean(&trace, 0));
    }

    /// A flow with this window and a round trip of that number of cycles.
    fn flow(window: f64, rtt: usize) -> Flow {
        Flow { window, ..Flow::new(rtt, 0) }
    }

    #[test]
    fn the_increases_are_those_of_the_surveys_equations() {
        // Windows of 20 and 30 with round trips of 1 and 3: rates of 20 and 10.
        let flows = [flow(20.0, 1), flow(30.0, 3)];
        let close =
            |value: f64, expected: f64| assert!((value - expected).abs() < 1e-12, "{value} {expected}");
        // LIA: the best w / rtt^2 is 20, over the square of the sum of the rates.
        close(lia(&flows, 0), 20.0 / 900.0);
        close(lia(&flows, 1), 20.0 / 900.0);
        // It is never faster than a TCP: 1 / 100 is less than 0.01 * 100 * ... of the other subflow.
        let far = [flow(2.0, 1), flow(100.0, 100)];
        close(lia(&far, 0), 2.0 / 9.0);
        close(lia(&far, 1), 1.0 / 100.0);
        // BALIA: alpha is 1 on the best subflow and 2 on the other.
        close(balia(&flows, 0), 20.0 / 900.0);
        close(balia(&flows, 1), 10.0 / 3.0 / 900.0 * 1.5 * 6.0 / 5.0);
        // Half of the window, and at most three quarters.
        close(balia_reduction(&flows, 0), 0.5);
        close(balia_reduction(&[flow(20.0, 1), flow(45.0, 3)], 1), 0.5 * 20.0 / 15.0);
        close(balia_reduction(&[flow(20.0, 1), flow(6.0, 3)], 1), 0.75);
        // OLIA moves window from the largest to the best. While the largest is the best, nothing moves.
        let mut olia_flows = flows;
        (olia_flows[0].since_loss, olia_flows[1].since_loss) = (100.0, 300.0);
        close(olia(&olia_flows, 0), 20.0 / 900.0);
        close(olia(&olia_flows, 1), 10.0 / 3.0 / 900.0);
        olia_flows[0].since_loss = 900.0;
        close(olia(&olia_flows, 0), 20.0 / 900.0 + 1.0 / (2.0 * 20.0));
        close(olia(&olia_flows, 1), 10.0 / 3.0 / 900.0 - 1.0 / (2.0 * 30.0));
    }

    /// The first loss: all of them grow by one packet in a cycle from 10 on, and none is larger than another.
    #[test]
    fn a_loss_takes_its_part_of_the_window_and_is_shared_in_proportion() {
        let falls = |text: &str| -> Vec<[f64; 3]> {
            let pairs = trace(text);
            let ratio = |pair: &[[f64; 3]]| [0, 1, 2].map(|at| pair[1][at] / pair[0][at]);
            pairs.windows(2).map(ratio).filter(|ratio| ratio.iter().any(|part| *part < 0.99)).collect()
        };
        // Two equal subflows of BALIA on separate links give up half, and so does the TCP.
        let balia = falls("balia balia=equation-7");
        assert!(
            balia.len() > 5 && balia.iter().flatten().all(|part| *part > 1.0 || (part - 0.5).abs() < 1e-9)
        );
        // A subflow that shares its link with a TCP has a smaller rate than the other one, and gives up more than half: at
        // most three quarters.
        let uneven = falls("balia compete balia=equation-7");
        let first: Vec<f64> = uneven.iter().map(|fall| fall[0]).filter(|part| *part < 0.99).collect();
        assert!(
            first.len() > 5 && first[3..].iter().all(|part| (0.25 - 1e-9..0.5).contains(part)),
            "{first:?}"
        );
    }

    /// Packets are lost in proportion to the packets of a flow: a flow that sends a small part of a packet's worth of the
    /// losses keeps its window in that cycle.
    #[test]
    fn a_small_flow_loses_less_often_than_a_large_one() {
        let trace = trace("lia compete rtt=1");
        let falls =
            |place: usize| trace.windows(2).filter(|pair| pair[1][place] < 0.99 * pair[0][place]).count();
        let (subflow, tcp) = (falls(0), falls(2));
        assert!(subflow > 0 && subflow < tcp, "{subflow} {tcp}");
    }

    /// A FIFO of 80 that is full drops whole packets, first the subflow's: they arrive last.
    #[test]
    fn drops_at_the_tail_meet_the_subflow_before_the_tcp() {
        let share = mean(&trace("lia compete rate=20"), 0) / mean(&trace("lia compete rate=20"), 2);
        let tail = trace("lia compete rate=20 drops=tail");
        assert!(mean(&tail, 0) / mean(&tail, 2) < share);
        let all = trace("uncoupled compete rate=20 drops=all");
        assert!((mean(&all, 0) / mean(&all, 2) - 1.0).abs() < 0.05);
    }

    #[test]
    fn balia_halves_its_window_unless_equation_7_is_set() {
        let own = |rest: &str| mean(&trace(&format!("balia compete {rest}")), 0);
        assert!(own("balia=half") > own("balia=equation-7"));
        assert_eq!(own("balia=half"), own(""));
    }

    #[test]
    fn an_unknown_parameter_is_an_error() {
        for wrong in ["lia", "rtt=0", "rate=x", "queue=80"] {
            assert!(Setting::parse(wrong).is_err_and(|error| error.contains(wrong)), "{wrong}");
        }
    }
}
