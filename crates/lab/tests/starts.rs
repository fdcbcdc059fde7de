//! `initial = "best"` against the simulated goodput of each path alone.

use core::sync::atomic::AtomicBool;

use anabranch_lab::run::Prepared;
use anabranch_lab::scenario::estimate::best;
use anabranch_lab::scenario::{Document, Scenario};
use anabranch_units::RandomStream;

fn scenario(paths: &str, duration: f64) -> Scenario {
    let text = format!(
        "path = [{paths}]\nschedulers = ['tcp@1', 'tcp@2']\ntraffic = {{ size = 'bulk', duration = '{duration} s' }}\nruns = 3"
    );
    Document::parse("test.toml", &text, ".").unwrap().scenario().unwrap()
}

/// Returns the goodput of each path alone, mean over runs, in Mbit/s.
fn goodputs(scenario: &Scenario) -> Vec<f64> {
    let prepared = Prepared::for_comparison(scenario, 0).unwrap();
    let mean = |contender: usize| {
        let runs = (0..scenario.runs).map(|run| {
            let result = prepared.run(contender, run, &AtomicBool::new(false)).unwrap();
            result.flows[0].goodput().as_bps_f64() / 1e6
        });
        runs.sum::<f64>() / f64::from(scenario.runs)
    };
    (0..scenario.contenders.len()).map(mean).collect()
}

/// Returns the goodput of the path that is chosen over that of the better one.
fn share(paths: &str, duration: f64) -> f64 {
    let scenario = scenario(paths, duration);
    let condition = &scenario.conditions[0];
    let chosen = best(&condition.experiment, &condition.base);
    let goodputs = goodputs(&scenario);
    goodputs[chosen] / goodputs.iter().copied().fold(0.0, f64::max)
}

/// Returns a random path: 2 to 200 Mbit/s, 5 to 200 ms, and with `lossy` a loss of 0.01 to 3 %, each uniform on a
/// logarithmic scale.
fn path(random: &mut RandomStream, lossy: bool) -> String {
    let mut log = |low: f64, high: f64| low * (high / low).powf(random.next_f64());
    let (rate, rtt, loss) = (log(2.0, 200.0), log(5.0, 200.0), log(0.01, 3.0));
    let loss = if lossy { format!(", loss = '{loss:.3} %'") } else { String::new() };
    format!("{{ rate = '{rate:.2} Mbit/s', rtt = '{rtt:.1} ms'{loss} }}")
}

#[test]
fn the_best_start_of_a_bulk_flow_carries_most_in_its_duration() {
    // Slow start counts: with the time for all that the fast link could carry, the slow path was chosen.
    let paths = "{ rate = '68.36 Mbit/s', rtt = '156.9 ms', loss = '0.096 %' },
                 { rate = '6.84 Mbit/s', rtt = '46.2 ms', loss = '0.615 %' }";
    let share = share(paths, 5.0);
    assert!(share > 0.99, "{share}");
}

#[test]
fn the_best_start_of_random_bulk_flows_is_seldom_worse() {
    let count: usize = std::env::var("ANABRANCH_PAIRS").map_or(60, |count| count.parse().unwrap());
    let mut random = RandomStream::new(29, "starts");
    let mut shares: Vec<(f64, String, f64)> = Vec::new();
    for index in 0..count {
        let paths = format!("{}, {}", path(&mut random, index % 4 > 0), path(&mut random, index % 4 > 1));
        let duration = [2.0, 5.0, 10.0][index % 3];
        shares.push((share(&paths, duration), paths, duration));
    }
    shares.sort_by(|a, b| a.0.total_cmp(&b.0));
    let within = |limit: f64| shares.iter().filter(|share| share.0 >= limit).count() as f64 / count as f64;
    println!("{count}: 0.99 {:.3}, 0.95 {:.3}, 0.9 {:.3}", within(0.99), within(0.95), within(0.9));
    shares.iter().take(12).for_each(|share| println!("{share:?}"));
    // Of 200 pairs the worst has 0.770, and 97.5 % have 0.95.
    assert!(shares[0].0 > 0.75, "{:?}", shares[0]);
    assert!(within(0.95) >= 0.95, "{:?}", &shares[..4]);
}

/// Returns a random path, with its rates, round trip, queue, losses, changes or trace, and true if a host can know the path
/// from earlier connections: it does not vary, and does not change after the start.
fn any_path(random: &mut RandomStream) -> (String, bool) {
    let mut log = |low: f64, high: f64| low * (high / low).powf(random.next_f64());
    let (rate, other, rtt, loss) = (log(2.0, 200.0), log(0.05, 1.0), log(5.0, 200.0), log(0.01, 3.0));
    let (queue, at, change) = (log(0.3, 4.0), log(0.1, 3.0), log(0.1, 4.0));
    let trace = "trace = { down = 'traces/synthetic-lte.down', up = 'traces/synthetic-lte.up' }";
    let mut path = match random.below(6) {
        0 => format!("rate = {{ down = '{rate:.2} Mbit/s', up = '{:.2} Mbit/s' }}", rate * other),
        1 => format!("rate = {{ up = '{rate:.2} Mbit/s', down = '{:.2} Mbit/s' }}", rate * other),
        2 => trace.to_owned(),
        _ => format!("rate = '{rate:.2} Mbit/s'"),
    };
    let steady = path != trace;
    path.push_str(&format!(", rtt = '{rtt:.1} ms', queue = '{queue:.2} BDP'"));
    match random.below(8) {
        0..3 => path.push_str(&format!(", loss = '{loss:.3} %'")),
        3 => path.push_str(&format!(", jitter = '{:.1} ms'", rtt / 5.0)),
        _ => {}
    }
    let (changes, known) = match random.below(10) {
        0 => ("{ at = '0 s', down = true }".to_owned(), true),
        1 if steady => (format!("{{ at = '0 s', rate = '{:.2} Mbit/s' }}", rate * change), true),
        2 => (format!("{{ at = '0 s', rtt = '{:.1} ms' }}", rtt * change), true),
        3 => (format!("{{ at = '{at:.2} s', rtt = '{:.1} ms' }}", rtt * change), false),
        4 => {
            let from = if random.chance(0.3) { 0.0 } else { at };
            (
                format!("{{ at = '{from:.2} s', down = true }}, {{ at = '{:.2} s', up = true }}", from + at),
                false,
            )
        }
        _ => (String::new(), true),
    };
    if !changes.is_empty() {
        path.push_str(&format!(", change = [{changes}]"));
    }
    (format!("{{ {path} }}"), known && steady)
}

/// Returns a random flow over `count` random paths, for a plain TCP on each of them, and true if a host can know them all.
fn any_flow(random: &mut RandomStream, count: usize) -> (String, bool) {
    let (paths, known): (Vec<String>, Vec<bool>) = (0..count).map(|_| any_path(random)).unzip();
    let schedulers: Vec<String> = (1..=count).map(|path| format!("'tcp@{path}'")).collect();
    let mut log = |low: f64, high: f64| low * (high / low).powf(random.next_f64());
    let (size, duration) = (log(10e3, 20e6), log(0.5, 10.0));
    let traffic = match random.below(3) {
        0 => format!("size = 'bulk', duration = '{duration:.1} s'"),
        _ => format!("size = '{size:.0} B'"),
    };
    let direction = if random.chance(0.5) { "upload" } else { "download" };
    let control = ["cubic_linux", "cubic", "newreno", "bbr"][random.below(4) as usize];
    let text = format!(
        "path = [{}]\nschedulers = [{}]\ntraffic = {{ {traffic}, direction = '{direction}' }}\nruns = 1\ncongestion = '{control}'",
        paths.join(", "),
        schedulers.join(", ")
    );
    (text, known.iter().all(|known| *known))
}

/// A host cannot know the position in a trace, outages to come, and later changes. Of 400 draws 132 have none of these: 98.5 % of
/// the choices are within 10 % of the best path, and one has 15 % of its goodput (jitter of 39 ms on a round trip of 56 ms ends
/// slow start). Of the other 268 choices 94.4 % are within 10 %.
#[test]
fn the_best_start_of_random_flows_over_any_paths_is_seldom_worse() {
    let count: usize = std::env::var("ANABRANCH_PAIRS").map_or(60, |count| count.parse().unwrap());
    let mut random = RandomStream::new(29, "starts of any kind");
    let mut shares: [Vec<(f64, String)>; 2] = Default::default();
    for index in 0..count {
        let (text, known) = any_flow(&mut random, 2 + index % 3);
        let scenario = Document::parse("test.toml", &text, ".").unwrap().scenario().unwrap();
        let condition = &scenario.conditions[0];
        let chosen = best(&condition.experiment, &condition.base);
        let goodputs = goodputs(&scenario);
        let greatest = goodputs.iter().copied().fold(0.0, f64::max);
        let share = if greatest > 0.0 { goodputs[chosen] / greatest } else { 1.0 };
        shares[usize::from(known)].push((share, format!("path {} of {goodputs:.2?}, {text}", chosen + 1)));
    }
    let [within_unknown, within_known] = shares.each_mut().map(|shares| {
        shares.sort_by(|a, b| a.0.total_cmp(&b.0));
        let within =
            |limit: f64| shares.iter().filter(|share| share.0 >= limit).count() as f64 / shares.len() as f64;
        println!(
            "{}: 0.99 {:.3}, 0.9 {:.3}, 0.75 {:.3}",
            shares.len(),
            within(0.99),
            within(0.9),
            within(0.75)
        );
        shares.iter().filter(|share| share.0 < 0.9).take(12).for_each(|share| println!("{share:?}"));
        within(0.9)
    });
    assert!(within_known >= 0.95 && shares[1][0].0 > 0.6, "{within_known} {:?}", &shares[1][..2]);
    assert!(within_unknown >= 0.75, "{within_unknown} {:?}", &shares[0][..2]);
}
