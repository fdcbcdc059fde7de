//! Estimates the best path to start on, from information that a host can have beforehand.
//!
//! `initial = "best"` selects the path with the least *estimate*: the expected completion time of a flow of
//! the mean size that uses only this path. A host can know the necessary values from earlier connections:
//! round-trip time, rate and loss of each path. Nothing is measured in runs of the comparison.
//!
//! Up to its first loss the flow follows the ideal TCP of the lower bound: the handshake, slow start, the
//! rate of the link. From then on each 1/p segments reduce its window, until that is the one that the
//! congestion control sustains under this loss: sqrt(3/2p) segments per round trip (Mathis et al. 1997), for
//! CUBIC at least 1.054 (RTT/p)^(3/4) (RFC 9438 section 5.1, C = 0.4, beta = 0.7). It is carried at the rate of
//! this window, or of the link if that is less.
//!
//! The receive buffer admits no more than its size in a round trip. Flows that start together share the links.
//!
//! A bulk flow ends with its duration. Its size is the amount that the best single path carries in that time.

use std::collections::BTreeSet;
use std::iter;

use anabranch_link::{Capacity, Change, Jitter, JitterShape};
use anabranch_stack::config::SimConfig;
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::known::KnownPath;
use anabranch_units::{Duration, Rate, Time};

use super::lower_bound::{Limits, LowerBound};
use crate::model::{Experiment, Graph, Link, Outage, Pair, Path, Start};

/// Returns the estimate of each path for connections of this configuration.
pub fn estimates(experiment: &Experiment, config: &SimConfig) -> Vec<Duration> {
    let remembered = Experiment { graph: remembered_graph(experiment, |_| 1), ..experiment.clone() };
    let pair = remembered.flow_pairs().iter().position(|pair| pair.paths.len() == remembered.paths().len());
    let mut limits = Limits::new(&remembered, pair.unwrap_or(0));
    limits.lengthen(remembered.paths().iter().map(|path| lateness(experiment, path) / 2));
    let known = of_graph(&remembered.graph, experiment, config, remembered.paths());
    let of_path = |(position, known): (usize, KnownPath)| Estimate {
        alone: limits.one_path(config, position),
        passes: 1.0 - known.loss,
        mss: f64::from(config.mss),
        rtt: known.rtt.max(1e-6),
        rate: known.rate,
        sustained: window(&config.congestion, known.loss, known.rtt),
        reduction: reduction(&config.congestion),
        first_window: f64::from(config.initial_window.max(1)),
        buffer: config.receive_buffer.max().get() as f64,
    };
    let mut paths: Vec<Estimate> = known.into_iter().enumerate().map(of_path).collect();
    let size = remembered.traffic.size.mean().unwrap_or_else(|| {
        // A bulk flow ends with its duration: the path is best that carries most in it.
        let duration = remembered.traffic.duration;
        paths.iter_mut().map(|path| path.carried(duration)).fold(0.0, f64::max)
    });
    paths.iter_mut().map(|path| path.time(size.max(1.0))).collect()
}

/// Returns what the hosts of a pair know of each of its paths from earlier connections, which used all of them: paths with a common link know their
/// shares of its rate.
pub fn known_paths(experiment: &Experiment, config: &SimConfig, pair: &Pair) -> Vec<KnownPath> {
    let mut paths = vec![0; experiment.graph.links.len()];
    for path in &pair.paths {
        needed(iter::once(&path.data)).into_iter().for_each(|link| paths[link] += 1);
    }
    of_graph(&remembered_graph(experiment, |link| paths[link].max(1)), experiment, config, &pair.paths)
}

fn of_graph(graph: &Graph, experiment: &Experiment, config: &SimConfig, paths: &[Path]) -> Vec<KnownPath> {
    let mss = f64::from(config.mss);
    let payload = mss / (mss + f64::from(Limits::headers(config)));
    let of_path = |path: &Path| {
        // A path of several equal routes is the first of them.
        let losses =
            path.data.first().into_iter().flatten().map(|&link| graph.links[link].config.loss.mean_loss());
        KnownPath {
            rtt: (graph.path_rtt(path) + lateness(experiment, path)).as_secs_f64(),
            rate: graph.path_rate(path).as_bps_f64() * payload / 8.0,
            loss: 1.0 - losses.fold(1.0, |passes, loss| passes * (1.0 - loss)),
        }
    };
    paths.iter().map(of_path).collect()
}

/// Returns the mean delay that jitter adds to a round trip.
fn lateness(experiment: &Experiment, path: &Path) -> Duration {
    let there_and_back = path.data.first().into_iter().chain(path.acks.first()).flatten();
    there_and_back.fold(Duration::ZERO, |sum, &link| sum + mean_jitter(&experiment.graph.links[link]))
}

/// The estimate of one path.
struct Estimate {
    /// A flow on this path without loss.
    alone: LowerBound,
    /// The probability that a packet is not lost.
    passes: f64,
    /// Payload of a segment.
    mss: f64,
    /// In seconds.
    rtt: f64,
    /// Payload that the links carry, in bytes a second.
    rate: f64,
    /// The window that the congestion control sustains under the loss, in segments.
    sustained: f64,
    /// The factor of the window at a loss.
    reduction: f64,
    /// The initial window in segments.
    first_window: f64,
    /// The largest receive buffer, in bytes.
    buffer: f64,
}

impl Estimate {
    /// Returns the time that a flow of `size` bytes takes.
    fn time(&mut self, size: f64) -> Duration {
        let loss = 1.0 - self.passes;
        if loss >= 1.0 {
            return Duration(u64::MAX);
        }
        let segments = (size / self.mss).ceil();
        // The expected number of segments up to the first loss.
        let clean = if loss > 0.0 { (1.0 - libm::pow(self.passes, segments)) / loss } else { segments };
        let begin = size.min((clean * self.mss).ceil());
        let (mut rest, mut time) = (size - begin, 0.0);
        // In slow start about half of what was sent is one window.
        let mut window = (self.first_window + clean / 2.0).min(self.rate * self.rtt / self.mss);
        while rest > 0.0 {
            window = (window * self.reduction).max(self.sustained);
            let rate = (window * self.mss / self.rtt).min(self.rate);
            // The next loss is expected after 1 / p segments; from the sustained window on nothing changes.
            let part = if window > self.sustained { rest.min(self.mss / loss) } else { rest };
            time += part / rate;
            rest -= part;
        }
        let sent = self.alone.completion(begin as u64) + Duration::from_secs_f64(time.min(1e9));
        sent.max(Duration::from_secs_f64((size / self.buffer * self.rtt).min(1e9)))
    }

    /// Returns the bytes that a flow moves in `span`.
    fn carried(&mut self, span: Duration) -> f64 {
        let (mut low, mut high) = (0.0, self.rate * span.as_secs_f64());
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            if self.time(middle) > span { high = middle } else { low = middle }
        }
        low
    }
}

/// True if the path is down when the first flow starts.
fn is_down(outages: &[Outage], path: usize, start: Time) -> bool {
    outages.iter().any(|outage| outage.path == path && outage.from <= start && start < outage.until)
}

/// Returns the path with the least estimate, the first of several; a backup, or a path that is down at the start, only if
/// there is no other.
pub fn best(experiment: &Experiment, config: &SimConfig) -> usize {
    let estimates = estimates(experiment, config);
    let (paths, outages) = (experiment.paths(), experiment.outages());
    let start = experiment.traffic.start.first();
    let key = |&path: &usize| (is_down(&outages, path, start), paths[path].backup, estimates[path]);
    (0..paths.len()).min_by_key(key).unwrap_or(0)
}

/// Returns the links as earlier connections have measured them, as many at once as flows start together, each with `subflows` on a link.
fn remembered_graph(experiment: &Experiment, subflows: impl Fn(usize) -> u64) -> Graph {
    let start = experiment.traffic.start.first();
    let links = experiment.graph.links.iter().zip(flows_together(experiment)).enumerate();
    let links = links.map(|(at, (link, flows))| remembered(link, start, flows * subflows(at)));
    Graph { links: links.collect(), ..experiment.graph.clone() }
}

/// Returns for each link the number of flows that start together and send their data over it, at least 1. The flows of classes start apart.
fn flows_together(experiment: &Experiment) -> Vec<u64> {
    let Experiment { traffic, graph, classes, .. } = experiment;
    let (mut data, mut acks) = (vec![0; graph.links.len()], vec![0; graph.links.len()]);
    if classes.is_empty() && matches!(traffic.start, Start::Together(_)) {
        let pairs = experiment.flow_pairs();
        for (at, pair) in pairs.iter().enumerate() {
            // The flows take the pairs in turn.
            let flows = (at..traffic.flows as usize).step_by(pairs.len()).len() as u64;
            needed(pair.paths.iter().map(|path| &path.data)).into_iter().for_each(|link| data[link] += flows);
            needed(pair.paths.iter().map(|path| &path.acks)).into_iter().for_each(|link| acks[link] += flows);
        }
    }
    // A link with data is shared by those who send data there.
    let counts = data.into_iter().zip(acks);
    counts.map(|(data, acks)| if data > 0 { data } else { acks.max(1) }).collect()
}

/// Returns the links that all routes of some path contain.
fn needed<'a>(paths: impl Iterator<Item = &'a Vec<Vec<usize>>>) -> BTreeSet<usize> {
    let of_path = |routes: &'a Vec<Vec<usize>>| {
        let first = routes.first().into_iter().flatten().copied();
        first.filter(move |link| routes.iter().all(|route| route.contains(link)))
    };
    paths.flat_map(of_path).collect()
}

/// Returns the link as this number of `flows` at once have measured it before the time `start`: their share of its mean rate. Changes up to
/// that time count, and later ones do not.
fn remembered(link: &Link, start: Time, flows: u64) -> Link {
    let mut link = link.clone();
    for step in link.config.timeline.iter().take_while(|step| step.at <= start) {
        match &step.change {
            Change::Rate(rate) => link.config.capacity = Capacity::Rate(*rate),
            Change::Trace { trace, start } => {
                link.config.capacity = Capacity::Trace { trace: trace.clone(), start: *start };
            }
            Change::Delay(delay) => (link.config.delay, link.rtt) = (*delay, *delay * 2),
            Change::Loss(loss) => link.config.loss = *loss,
            // `best` asks for outages.
            Change::Down | Change::Up => {}
        }
    }
    let share = Rate((link.mean_rate().0 / flows).max(1));
    let config = &mut link.config;
    config.capacity = Capacity::Rate(share);
    (config.policer, config.shaper) = (None, None);
    config.redraws.clear();
    (config.jitter, config.reordering, config.duplicate) = (None, None, 0.0);
    config.timeline.clear();
    link
}

fn mean_jitter(link: &Link) -> Duration {
    match link.config.jitter {
        None => Duration::ZERO,
        Some(Jitter { shape: JitterShape::Uniform { max }, .. }) => max / 2,
        Some(Jitter { shape: JitterShape::Normal { mean, .. }, .. }) => mean,
    }
}

/// Returns the factor of the window at a loss; 1 for BBR, which is not affected by it.
pub fn reduction(congestion: &CongestionKind) -> f64 {
    match congestion {
        CongestionKind::Bbr(_) => 1.0,
        other if other.name().starts_with("cubic") => 0.7,
        _ => 0.5,
    }
}

/// Returns the mean window in segments that the congestion control sustains under this loss; BBR is not
/// affected by it.
fn window(congestion: &CongestionKind, loss: f64, rtt: f64) -> f64 {
    if loss <= 0.0 || matches!(congestion, CongestionKind::Bbr(_)) {
        return f64::INFINITY;
    }
    let reno = (1.5 / loss).sqrt().max(1.0);
    match congestion.name().starts_with("cubic") {
        true => reno.max(1.054 * libm::pow(rtt / loss, 0.75)),
        false => reno,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    /// Returns the estimates in milliseconds, and the best path.
    fn of(text: &str) -> (Vec<f64>, usize) {
        let scenario = Document::parse("test", text, ".").unwrap().scenario().unwrap();
        let condition = &scenario.conditions[0];
        let estimates = estimates(&condition.experiment, &condition.base);
        let millis = estimates.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        (millis, best(&condition.experiment, &condition.base))
    }

    #[test]
    fn short_flows_start_on_the_near_path_and_long_ones_on_the_fast_one() {
        let paths = "path = [{ rate = '10 Mbit/s', rtt = '10 ms' }, { rate = '100 Mbit/s', rtt = '60 ms' }]";
        assert_eq!(of(&format!("{paths}\ntraffic.size = '10 KB'")).1, 0);
        assert_eq!(of(&format!("{paths}\ntraffic.size = '10 MB'")).1, 1);
        assert_eq!(of(&format!("{paths}\ntraffic.size = 'bulk'")).1, 1);
    }

    /// Without loss it is the lower bound of a single TCP: 1 MB at 10 Mbit/s takes 0.85 s, and three round
    /// trips.
    #[test]
    fn without_loss_it_is_the_lower_bound() {
        let (clean, _) = of("path = [{ rate = '10 Mbit/s', rtt = '20 ms' }]\ntraffic.size = '1 MB'");
        assert!((clean[0] - 880.0).abs() < 20.0, "{clean:?}");
    }

    /// 33 KB in 51 ms are 5.2 Mbit/s.
    #[test]
    fn a_small_receive_buffer_limits_a_long_path() {
        let of = |connection: &str| {
            of(&format!(
                "path = [{{ rate = '25 Mbit/s', rtt = '6 ms' }}, {{ rate = '140 Mbit/s', rtt = '51 ms' }}]
                 traffic.size = '5 MB'\n{connection}"
            ))
        };
        assert_eq!(of("").1, 1);
        let (times, best) = of("connection.receive-buffer = '33 KB'");
        assert!(best == 0 && (times[1] - 7727.0).abs() < 10.0, "{times:?}");
    }

    /// With a loss of 3 % at 100 ms, windows have 7 segments: 0.8 Mbit/s of 50.
    #[test]
    fn loss_slows_down_what_follows_the_first() {
        let (times, best) = of("path = [{ rate = '50 Mbit/s', rtt = '100 ms', loss = '3%' }, { rate = '2 Mbit/s', rtt = '100 ms' }]
             traffic.size = '2 MB'");
        assert!(times[0] > 15_000.0 && times[0] < 25_000.0 && best == 1, "{times:?}");
        // Bursts count as their mean.
        let (bursts, _) = of("path = [{ rate = '50 Mbit/s', rtt = '100 ms',
                gilbert-elliott = { mean-good = '970 ms', mean-bad = '30 ms', loss-bad = 1 } }]\ntraffic.size = '2 MB'");
        assert!((bursts[0] - times[0]).abs() < 1.0, "{bursts:?} {times:?}");
    }

    /// Each of nine flows has a ninth of the rate, so that it takes at least as long as 747 KB at the whole rate.
    #[test]
    fn flows_that_start_together_share_the_path() {
        let paths = "path = [{ rate = '10 Mbit/s', rtt = '90 ms' }, { rate = '45 Mbit/s', rtt = '130 ms' }]";
        let of = |traffic: &str| of(&format!("{paths}\ntraffic = {{ size = '83 KB', {traffic} }}"));
        let (alone, first) = of("flows = 1");
        let (together, best) = of("flows = 9");
        assert_eq!((first, best), (0, 1));
        assert!(together[0] > 9.0 * 8.0 * 83.0 / 10.0 && together[0] > 1.5 * alone[0], "{together:?}");
        // One after the other they do not.
        assert_eq!(of("flows = 2, starts = ['0 s', '9 s']").0, alone);
    }

    #[test]
    fn hosts_with_a_common_link_share_it() {
        let of = |flows: u32| {
            of(&format!(
                "topology = {{ kind = 'dumbbell', hosts = 2, rate = '10 Mbit/s', access-rate = '100 Mbit/s', delay = '10 ms' }}
                 traffic = {{ size = '1 MB', flows = {flows} }}"
            ))
            .0[0]
        };
        assert!((of(2) - of(1) - 800.0).abs() < 60.0, "{} {}", of(2), of(1));
    }

    #[test]
    fn paths_with_a_common_link_remember_their_shares() {
        let rates = |common: &str| -> Vec<f64> {
            let text = format!(
                "path = [{{ rate = '100 Mbit/s', rtt = '30 ms' }}, {{ rate = '8 Mbit/s', rtt = '60 ms' }}]
                 topology = {{ kind = 'shared', rate = '{common}', rtt = '5 ms' }}\ntraffic.size = '1 MB'"
            );
            let scenario = Document::parse("test", &text, ".").unwrap().scenario().unwrap();
            let condition = &scenario.conditions[0];
            let pair = &condition.experiment.pairs[0];
            let known = known_paths(&condition.experiment, &condition.base, pair);
            known.iter().map(|path| path.rate).collect()
        };
        let (narrow, wide) = (rates("20 Mbit/s"), rates("1 Gbit/s"));
        assert!((narrow[0] / wide[0] - 0.1).abs() < 1e-3, "{narrow:?} {wide:?}");
        assert!(
            (narrow[1] - wide[1]).abs() < 1.0,
            "its own link is less than its share: {narrow:?} {wide:?}"
        );
    }

    #[test]
    fn flows_of_classes_share_nothing() {
        let of = |flows: u32| {
            let class = |name: &str| format!("[[traffic]]\nname = '{name}'\nsize = '1 MB'\nflows = {flows}");
            let path = "path = [{ rate = '10 Mbit/s', rtt = '20 ms' }]";
            of(&format!("{path}\n{}\n{}", class("a"), class("b"))).0
        };
        assert_eq!(of(4), of(1));
    }

    /// Two servers send to one host: their data meets on its link, and the acknowledgements there do not count.
    #[test]
    fn a_link_is_shared_by_the_flows_that_need_it() {
        let of = |flows: u32| {
            let text = format!(
                "[[node]]
                 name = 'a'
                 [[node]]
                 name = 'b'
                 [[node]]
                 name = 'c'
                 [[node]]
                 name = 'r'
                 kind = 'router'
                 [[link]]
                 from = 'a'
                 to = 'r'
                 rate = '100 Mbit/s'
                 delay = '5 ms'
                 [[link]]
                 from = 'b'
                 to = 'r'
                 rate = '100 Mbit/s'
                 delay = '5 ms'
                 [[link]]
                 from = 'r'
                 to = 'c'
                 rate = '10 Mbit/s'
                 delay = '5 ms'
                 [traffic]
                 from = ['a', 'b']
                 to = ['c', 'c']
                 flows = {flows}
                 size = '1 MB'"
            );
            let scenario = Document::parse("test", &text, ".").unwrap().scenario().unwrap();
            let experiment = &scenario.conditions[0].experiment;
            let mut counts = flows_together(experiment);
            counts.sort_unstable();
            counts
        };
        // The links and the ways back of the acknowledgements.
        assert_eq!(of(2), [1, 1, 1, 1, 2, 2]);
        assert_eq!(of(5), [2, 2, 3, 3, 5, 5]);
    }

    #[test]
    fn a_path_that_is_down_at_the_start_comes_after_those_that_are_up() {
        let paths = |change: &str| {
            format!(
                "path = [{{ rate = '50 Mbit/s', rtt = '10 ms', change = [{change}] }}, {{ rate = '5 Mbit/s', rtt = '50 ms' }}]"
            )
        };
        let down = "{ at = '0 s', down = true }";
        for (change, start, chosen) in [
            ("{ at = '1 s', down = true }", 0, 0),
            (down, 0, 1),
            ("{ at = '0 s', down = true }, { at = '3 s', up = true }", 2, 1),
            ("{ at = '0 s', down = true }, { at = '3 s', up = true }", 3, 0),
        ] {
            let text = format!("{}\ntraffic = {{ size = '1 MB', start = '{start} s' }}", paths(change));
            assert_eq!(of(&text).1, chosen, "{change} {start}");
        }
        // No path is up.
        let both = format!(
            "path = [{{ rate = '5 Mbit/s', rtt = '50 ms', change = [{down}] }}, {{ rate = '50 Mbit/s', rtt = '10 ms', change = [{down}] }}]"
        );
        assert_eq!(of(&format!("{both}\ntraffic.size = '1 MB'")).1, 1);
    }

    #[test]
    fn changes_up_to_the_start_of_the_first_flow_count_and_later_ones_do_not() {
        let of = |change: &str, start: &str| {
            let path = format!("rate = '10 Mbit/s', rtt = '20 ms', change = [{change}]");
            of(&format!("path = [{{ {path} }}]\ntraffic = {{ size = '1 MB', start = '{start}' }}")).0[0]
        };
        let plain = of("", "0 s");
        for (change, factor) in
            [("rate = '1 Mbit/s'", 9.0..10.0), ("rtt = '200 ms'", 1.5..2.5), ("loss = '5 %'", 1.5..9.0)]
        {
            let at = |at: &str| format!("{{ at = '{at}', {change} }}");
            let changed = of(&at("0 s"), "0 s");
            assert!(factor.contains(&(changed / plain)), "{change}: {changed} and {plain}");
            assert_eq!((of(&at("2 s"), "3 s"), of(&at("2 s"), "1 s")), (changed, plain), "{change}");
        }
    }

    #[test]
    fn a_path_that_is_down_at_the_start_is_chosen_only_if_all_are() {
        let best = |first: &str, second: &str, start: &str| {
            let fast = format!("rate = '100 Mbit/s', rtt = '10 ms', change = [{first}]");
            let slow = format!("rate = '10 Mbit/s', rtt = '50 ms', change = [{second}]");
            of(&format!(
                "path = [{{ {fast} }}, {{ {slow} }}]\ntraffic = {{ size = '1 MB', start = '{start}' }}"
            ))
            .1
        };
        let down = "{ at = '0 s', down = true }, { at = '5 s', up = true }";
        assert_eq!(best(down, "", "0 s"), 1);
        assert_eq!((best(down, "", "5 s"), best(down, "", "4 s")), (0, 1));
        assert_eq!(best(down, down, "0 s"), 0);
        assert_eq!(best("{ at = '1 s', down = true }", "", "0 s"), 0);
        assert_eq!(best("{ at = '1 s', down = true }", "", "2 s"), 1);
    }

    #[test]
    fn a_trace_counts_with_its_mean_rate_and_a_backup_comes_last() {
        let trace = "trace = '../../scenarios/traces/synthetic-lte.down', rtt = '20 ms'";
        let (times, best) = of(&format!(
            "path = [{{ {trace}, backup = true }}, {{ rate = '1 Mbit/s', rtt = '90 ms' }}]\ntraffic.size = '1 MB'"
        ));
        assert!(times[0] < times[1] && best == 1, "{times:?}");
    }

    /// The window under loss, in segments: sqrt(3/2p), or what CUBIC sustains if that is more (RFC 9438 section 5.1).
    #[test]
    fn windows_under_loss_are_those_of_the_formulas() {
        let named = |name: &str| CongestionKind::from_name(name).unwrap();
        let close =
            |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 1e-3, "{value} {expected}");
        close(window(&named("newreno"), 0.015, 0.1), 10.0);
        close(window(&named("cubic"), 0.015, 0.1), 10.0);
        // 1.054 * 1000^(3/4) on a long path with little loss.
        close(window(&named("cubic"), 1e-4, 0.1), 187.43);
        close(window(&named("newreno"), 1e-4, 0.1), 122.47);
        assert_eq!(window(&named("newreno"), 1.0, 0.1), 1.5_f64.sqrt());
        for (name, loss) in [("bbr", 0.015), ("newreno", 0.0), ("cubic", 0.0)] {
            assert_eq!(window(&named(name), loss, 0.1), f64::INFINITY, "{name}");
        }
        assert_eq!(
            ["newreno", "lia", "cubic", "cubic_linux"].map(|name| reduction(&named(name))),
            [0.5, 0.5, 0.7, 0.7]
        );
    }

    #[test]
    fn jitter_counts_with_its_mean() {
        let mean = |jitter: &str| {
            let text = format!("path = [{{ rate = '10 Mbit/s', rtt = '20 ms', jitter = {jitter} }}]");
            let scenario = Document::parse("test", text, ".").unwrap().scenario().unwrap();
            let experiment = &scenario.conditions[0].experiment;
            mean_jitter(experiment.own_link(&experiment.paths()[0]))
        };
        assert_eq!(mean("'8 ms'"), Duration::from_millis(4));
        assert_eq!(mean("{ mean = '3 ms', deviation = '1 ms' }"), Duration::from_millis(3));
    }

    /// Slow start ends at the first loss, after 1/p segments; about half of them are one window. Then each further 1/p segments
    /// halve the window, until it is the one that Reno sustains.
    #[test]
    fn each_loss_halves_the_window_down_to_the_sustained_one() {
        let text = "congestion = 'newreno'
            path = [{ rate = '1 Gbit/s', rtt = '100 ms', loss = '0.2%' }]
            traffic = { size = '6 MB', direction = 'upload' }
            connection = { initial-window = 10 }";
        let scenario = Document::parse("test", text, ".").unwrap().scenario().unwrap();
        let condition = &scenario.conditions[0];
        let time = estimates(&condition.experiment, &condition.base)[0].as_secs_f64();
        let mss = f64::from(condition.base.mss);
        let mut alone = Limits::new(&condition.experiment, 0).one_path(&condition.base, 0);
        let first = alone.completion((500.0 * mss) as u64).as_secs_f64();
        let sustained = (1.5_f64 / 0.002).sqrt();
        // 260 segments at the loss: 130, 65 and 32.5 for 500 segments each.
        let falling = 500.0 * (1.0 / 130.0 + 1.0 / 65.0 + 1.0 / 32.5) + (6e6 / mss - 2000.0) / sustained;
        assert!((time - first - 0.1 * falling).abs() < 0.02 * time, "{time} {first} {falling}");
    }
}
