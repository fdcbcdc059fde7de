//! Recordings in detail: windows, decisions, graphs of xplot, outages, and the choice of flows in a view.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anabranch_lab::job::Job;
use anabranch_lab::options::Options;
use anabranch_lab::run::{Prepared, RunResult};
use anabranch_lab::scenario::{Document, Scenario};
use anabranch_recording::film::Film;
use anabranch_recording::measured::{Measured, MeasuredFlow, MeasuredWindow, Progress, Way};
use anabranch_recording::view::{Details, View};
use anabranch_recording::{Origin, Recorded, RunDirectory, Settings};
use anabranch_table::Format;
use anabranch_units::{Duration, Time};

const LOSSY: &str = "
    path = [{ name = 'wifi', rate = '20 Mbit/s', rtt = '20 ms', loss = '2%' }, { name = 'lte', rate = '10 Mbit/s', rtt = '60 ms' }]
    traffic = { size = '300 KB', flows = 2, direction = 'upload' }
    schedulers = ['redundant', 'min_rtt']
    connection = { receive-buffer = '64 KB' }
    phases = false
";

fn scenario(text: &str) -> Scenario {
    Document::parse("test.toml", text, ".").unwrap().scenario().unwrap()
}

fn directory(path: &Path, scenario: &Scenario, millis: u64) -> RunDirectory {
    let origin = Origin { version: "1", commit: None, command: Vec::new(), run: None };
    let settings = Settings { format: Format::Csv, interval: Duration::from_millis(millis), xpl: true };
    RunDirectory::create(path, scenario, origin, settings).unwrap()
}

fn run(scenario: &Scenario, directory: &RunDirectory, contender: usize) -> RunResult {
    let prepared = Prepared::new(scenario, 0).unwrap();
    let cancelled = AtomicBool::new(false);
    let options = Options::new(1, &cancelled, &|_, _| {});
    prepared.run_recorded(&Job { contender, ..Job::default() }, &options, directory).unwrap()
}

/// Records the first run of a contender.
fn recorded(path: &Path, text: &str, contender: usize, millis: u64) -> RunResult {
    let scenario = scenario(text);
    let directory = directory(path, &scenario, millis);
    let result = run(&scenario, &directory, contender);
    directory.finish().unwrap();
    result
}

/// Returns the cells of some columns of a table.
fn table(path: &Path, table: &str, columns: &[&str]) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(path.join(format!("{table}.csv"))).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let places: Vec<usize> =
        columns.iter().map(|name| head.iter().position(|own| own == name).unwrap()).collect();
    lines.map(|cells| places.iter().map(|at| cells[*at].clone()).collect()).collect()
}

fn view(path: &Path, flow: Option<usize>) -> View {
    View::read(path, &Details { flow, most_flows: 1, most_events: 1 << 20 }).unwrap()
}

#[test]
fn windows_have_microseconds_and_the_space_that_the_peer_has_left() {
    let place = tempfile::tempdir().unwrap();
    recorded(place.path(), LOSSY, 1, 0);
    let rows =
        table(&place.path().join("min_rtt"), "windows", &["srtt_us", "peer_window_bytes", "direction"]);
    let numbers = |column: usize| {
        rows.iter().filter(|row| row[2] == "up").filter_map(move |row| row[column].parse().ok())
    };
    let srtts: Vec<u64> = numbers(0).collect();
    assert!(srtts.len() > 50 && srtts.iter().all(|srtt| (20_000..200_000).contains(srtt)), "{srtts:?}");
    let windows: Vec<u64> = numbers(1).collect();
    let most = windows.iter().max().unwrap();
    assert!((30_000..=66_000).contains(most), "the receive buffer: {most}");
}

/// With a row in ten seconds at most, changes of the threshold and the last values of a subflow are still there.
#[test]
fn thinned_windows_have_every_threshold_and_the_last_row() {
    let place = tempfile::tempdir().unwrap();
    let columns = ["flow", "direction", "subflow", "ssthresh_bytes", "cwnd_bytes", "t_ns"];
    let rows = |name: &str, millis| {
        let path = place.path().join(name);
        recorded(&path, LOSSY, 1, millis);
        table(&path.join("min_rtt"), "windows", &columns)
    };
    let (all, thinned) = (rows("all", 0), rows("thinned", 10_000));
    assert!(thinned.len() * 4 < all.len(), "{} of {}", thinned.len(), all.len());
    let keys = |rows: &[Vec<String>], columns: usize| {
        rows.iter().map(|row| row[..columns].join(" ")).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(keys(&all, 4).len() > 8, "some losses");
    assert_eq!(keys(&thinned, 4), keys(&all, 4));
    for series in keys(&all, 3) {
        let last = |rows: &[Vec<String>]| rows.iter().rfind(|row| row[..3].join(" ") == series).cloned();
        assert_eq!(last(&thinned), last(&all), "{series}");
    }
}

#[test]
fn a_wait_is_recorded_when_it_begins_and_a_decision_has_both_scores() {
    let place = tempfile::tempdir().unwrap();
    recorded(place.path(), LOSSY, 1, 0);
    let columns = ["flow", "direction", "decision", "rule", "score", "other_score"];
    let rows = table(&place.path().join("min_rtt"), "decisions", &columns);
    let mut waits = 0;
    for flow in ["0", "1"] {
        let own: Vec<&Vec<String>> = rows.iter().filter(|row| row[0] == flow && row[1] == "up").collect();
        for pair in own.windows(2) {
            let again = pair.iter().all(|row| row[2] == "wait") && pair[0][3] == pair[1][3];
            assert!(!again, "{pair:?}");
        }
        waits += own.iter().filter(|row| row[2] == "wait").count();
    }
    assert!(waits > 2, "{waits}");
    // The shortest round trip is chosen: another one is longer.
    let scores =
        rows.iter().filter_map(|row| Some((row[4].parse::<f64>().ok()?, row[5].parse::<f64>().ok()?)));
    let scores: Vec<(f64, f64)> = scores.collect();
    assert!(scores.len() > 10 && scores.iter().all(|(own, other)| own <= other), "{scores:?}");
    assert!(scores.iter().filter(|(own, other)| own < other).count() > 10, "{scores:?}");
}

/// The third ACK is lost.
#[test]
fn all_data_is_recorded_from_its_first_byte_on() {
    let place = tempfile::tempdir().unwrap();
    let text = "path = [{ rate = '20 Mbit/s', rtt = '20 ms', drop = [2] }]
        traffic = { size = '20 KB', direction = 'upload' }
        schedulers = ['min_rtt']
        phases = false";
    let result = recorded(place.path(), text, 0, 0);
    assert_eq!(result.flows[0].report.delivered, 20_000);
    let rows = table(&place.path().join("min_rtt"), "events", &["event", "from_bytes", "to_bytes"]);
    let received: Vec<(u64, u64)> = rows
        .iter()
        .filter(|row| row[0] == "received")
        .map(|row| (row[1].parse().unwrap(), row[2].parse().unwrap()))
        .collect();
    assert_eq!(received.iter().map(|(from, to)| to - from).sum::<u64>(), 20_000);
    assert_eq!(received[0].0, 0);
}

/// Letters and colours of tcptrace: R in red for a retransmission, I for a reinjection; DATA_ACKs are green and below the
/// yellow edge of the window.
#[test]
fn graphs_of_xplot_have_a_line_for_each_segment() {
    let place = tempfile::tempdir().unwrap();
    let text = "path = [{ rate = '20 Mbit/s', rtt = '20 ms', loss = '2%' }, { rate = '10 Mbit/s', rtt = '60 ms', loss = '2%' }]
        traffic = { size = '2 MB', direction = 'upload' }
        schedulers = ['redundant']
        phases = false";
    let result = recorded(place.path(), text, 0, 0);
    let graph = std::fs::read_to_string(place.path().join("redundant/flow-1.up.xpl")).unwrap();
    let lines: Vec<&str> = graph.lines().collect();
    let letters = |letter: &str| {
        let places = (1..lines.len()).filter(|at| lines[*at] == letter && lines[at - 1].starts_with("atext"));
        places.map(|at| lines[at - 5]).collect::<Vec<&str>>()
    };
    let (retransmitted, probes, reinjected) = (letters("R"), letters("P"), letters("I"));
    let flow = &result.flows[0];
    assert!(flow.report.retransmitted_segments > 0 && flow.reinjected_segments > 0, "{flow:?}");
    assert_eq!((retransmitted.len() + probes.len()) as u64, flow.report.retransmitted_segments);
    assert_eq!(reinjected.len() as u64, flow.reinjected_segments);
    assert!(retransmitted.iter().all(|colour| *colour == "red"));
    assert!(reinjected.iter().all(|colour| ["white", "blue"].contains(colour)), "{reinjected:?}");
    // The lines of each colour: two places, each of a time and an offset.
    let points = |colour: &str| {
        let mut own: Vec<(f64, u64)> = Vec::new();
        let mut now = "";
        for line in &lines {
            match line.strip_prefix("line ") {
                None => now = line,
                Some(rest) if now == colour => {
                    let words: Vec<&str> = rest.split(' ').collect();
                    assert_eq!(words[0].split_once('.').unwrap().1.len(), 9, "nanoseconds: {line}");
                    own.push((words[2].parse().unwrap(), words[3].parse().unwrap()));
                }
                Some(_) => {}
            }
        }
        own
    };
    let (acked, edges) = (points("green"), points("yellow"));
    assert_eq!(acked.last().unwrap().1, 2_000_000);
    assert!(acked.len() > 20 && edges.last().unwrap().1 >= 2_000_000);
    assert!(acked.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1));
    assert!(edges[0].1 >= acked[0].1 + 20_000, "{edges:?}");
    // The last byte is acknowledged about when the report says so, which waits for its subflow too.
    let last = acked.iter().find(|(_, una)| *una == 2_000_000).unwrap().0;
    let reported = flow.report.acked.unwrap().as_secs_f64();
    assert!((last - reported).abs() < 0.1, "{last} {reported}");
}

#[test]
fn runs_are_in_the_order_of_the_contenders_and_outages_in_that_of_time() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path();
    let down = "change = [{ at = '0.05 s', down = true }, { at = '0.1 s', up = true }, { at = '500 s', down = true }]";
    let text = LOSSY
        .replace("loss = '2%'", down)
        .replace("rtt = '60 ms'", "rtt = '60 ms', change = [{ at = '0.2 s', down = true }]");
    let scenario = scenario(&text);
    let all = directory(path, &scenario, 0);
    // `min_rtt` is the second contender, whichever ends first, and whatever its name.
    run(&scenario, &all, 1);
    run(&scenario, &all, 0);
    all.finish().unwrap();
    let names: Vec<String> =
        Recorded::open(path).unwrap().stored.runs.iter().map(|run| run.scheduler.clone()).collect();
    assert_eq!(names, ["redundant", "min_rtt"]);
    for run in &view(path, None).runs {
        let outages: Vec<_> = run
            .outages
            .iter()
            .map(|outage| {
                (outage.path.as_str(), outage.from_ns / 1_000_000, outage.until_ns.map(|at| at / 1_000_000))
            })
            .collect();
        // The one after the end of the run is left out.
        let mut expected = vec![("wifi", 50, Some(100)), ("lte", 200, None)];
        expected.retain(|(_, from, _)| from * 1_000_000 < run.end_ns);
        assert_eq!(outages, expected);
    }
}

#[test]
fn a_view_shows_the_slowest_flow_and_the_queues_that_have_data() {
    let place = tempfile::tempdir().unwrap();
    let text = LOSSY
        .replace("flows = 2", "flows = 4, starts = ['0 s', '0.1 s', '3 s', '3.1 s']")
        .replace("loss = '2%'", "loss = '4%'");
    let result = recorded(place.path(), &text, 1, 0);
    let times: Vec<Duration> = result.flows.iter().map(|flow| flow.report.fct.unwrap()).collect();
    let slowest = (0..4).max_by_key(|flow| times[*flow]).unwrap();
    let seen = view(place.path(), None);
    let run = &seen.runs[0];
    assert_eq!(run.streams.iter().map(|stream| stream.flow).collect::<Vec<_>>(), [slowest], "{times:?}");
    assert_eq!(view(place.path(), Some(2)).runs[0].streams[0].flow, 2);
    // Two links carry acknowledgements only.
    let means: Vec<f64> = run
        .queues
        .iter()
        .map(|queue| queue.bytes.0.iter().sum::<i64>() as f64 / queue.bytes.len() as f64)
        .collect();
    assert_eq!((run.links, run.queues.len()), (4, 2), "{means:?}");
}

#[test]
fn the_bytes_of_a_download_are_those_that_the_client_received() {
    let place = tempfile::tempdir().unwrap();
    let result = recorded(place.path(), &LOSSY.replace("'upload'", "'download'"), 1, 0);
    let mut expected = [0; 2];
    for flow in &result.flows {
        expected.iter_mut().zip(&flow.report.bytes_by_path).for_each(|(sum, bytes)| *sum += bytes);
    }
    assert_eq!(view(place.path(), None).runs[0].bytes_by_path, expected);
}

/// The number of a subflow may be given to another one, on another path.
#[test]
fn a_subflow_on_two_paths_has_the_name_of_neither() {
    let place = tempfile::tempdir().unwrap();
    recorded(place.path(), LOSSY, 1, 0);
    let names = |path: &Path| {
        let run = &view(path, Some(0)).runs[0];
        run.streams[0].subflows.iter().map(|subflow| subflow.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(place.path()), ["wifi", "lte"]);
    let file = place.path().join("min_rtt/subflows.csv");
    let text = std::fs::read_to_string(&file).unwrap();
    let head: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    let at = |name: &str| head.iter().position(|own| *own == name).unwrap();
    let mut second: Vec<&str> = text
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>())
        .find(|cells| (cells[at("flow")], cells[at("end")], cells[at("subflow")]) == ("0", "client", "1"))
        .unwrap();
    second[at("interface")] = "0";
    std::fs::write(&file, format!("{text}{}\n", second.join(","))).unwrap();
    assert_eq!(names(place.path()), ["wifi", "subflow 2"]);
}

/// A flow of a kernel that still runs has no size and no completion time.
#[test]
fn a_measured_flow_that_still_runs_is_not_complete() {
    let place = tempfile::tempdir().unwrap();
    let origin = Origin { version: "1", commit: None, command: Vec::new(), run: None };
    let settings = Settings { format: Format::Csv, interval: Duration::from_millis(1), xpl: false };
    let paths = ["wifi".to_owned()];
    let mut measured = Measured::create(place.path(), "kernel", &paths, origin, settings).unwrap();
    let progress = |millis, received| Progress {
        time: Time::from_millis(millis),
        flow: 0,
        way: Way::Down,
        subflow: 0,
        range: (0, 1000),
        received,
        window_edge: None,
    };
    let change = |micros: u64, inflight_bytes| MeasuredWindow {
        time: Time(micros * 1000),
        flow: 0,
        way: Way::Down,
        subflow: 0,
        cwnd_bytes: None,
        ssthresh_bytes: None,
        inflight_bytes,
        srtt_us: None,
        pacing_bps: None,
        peer_window_bytes: 9000,
    };
    for (micros, inflight) in [(0, 1), (400, 2), (900, 3), (5000, 4), (5100, 5)] {
        measured.change(&change(micros, inflight));
    }
    measured.progress(&progress(1500, true));
    measured.progress(&progress(1600, false));
    let flow = |name: &str, running| MeasuredFlow {
        name: name.to_owned(),
        way: Way::Down,
        start: Time::from_secs(1),
        end: Time::from_secs(3),
        running,
        delivered_bytes: 50_000,
        data_segments: 40,
        retransmitted_segments: 1,
        reinjected_bytes: None,
        rto_count: Some(0),
        delivery: None,
    };
    let short = MeasuredFlow { end: Time::from_secs(1), ..flow("short", false) };
    measured.finish(&paths, &[flow("done", false), flow("there", true), short], &[]).unwrap();
    let inside = place.path().join("kernel");
    let columns = ["name", "size_bytes", "outcome", "fct_ns", "delivered_bytes", "goodput_bps"];
    let rows = table(&inside, "flows", &columns);
    assert_eq!(rows[0], ["done", "50000", "completed", "2000000000", "50000", "200000"]);
    assert_eq!(rows[1], ["there", "", "running", "", "50000", "200000"]);
    // There is no rate of no time.
    assert_eq!(rows[2][5], "");
    // With a millisecond between rows: the last value before a pause, and the last of all.
    let windows = table(&inside, "windows", &["t_ns", "inflight_bytes", "cwnd_bytes"]);
    assert_eq!(windows, [["0", "1", ""], ["900000", "3", ""], ["5000000", "4", ""], ["5100000", "5", ""]]);
    let events = table(&inside, "events", &["event", "direction", "to_bytes"]);
    assert_eq!(events, [["received", "down", "1000"], ["data_acked", "down", "1000"]]);
}

#[test]
fn a_film_has_the_data_in_one_direction_and_its_answers_in_the_other() {
    let scenario = scenario(LOSSY);
    let prepared = Prepared::new(&scenario, 0).unwrap();
    let job = Job { contender: 1, ..Job::default() };
    let film = Film::new(&scenario, &prepared, &job, &AtomicBool::new(false)).unwrap();
    assert_eq!(
        (film.scheduler.as_str(), film.sender, film.outcome.as_str()),
        ("min_rtt", "client", "completed")
    );
    let packets = &film.packets;
    let (mut answers, mut lost) = (0, 0);
    for at in 0..packets.t_ns.len() {
        let has_data = packets.to.0[at] > packets.from.0[at];
        assert!(!has_data || packets.way.0[at] == 0, "data goes up");
        answers += usize::from(packets.way.0[at] == 1);
        let (entered, departed, end) = (packets.t_ns.0[at], packets.departed_ns.0[at], packets.end_ns.0[at]);
        match film.fates[packets.fate.0[at] as usize] {
            "arrived" => assert!(entered < departed && departed < end, "{entered} {departed} {end}"),
            "lost" => {
                lost += 1;
                assert!(packets.path.0[at] == 0 && end >= entered, "only wifi loses packets");
            }
            _ => {}
        }
    }
    assert!(film.whole && answers > 50 && lost > 0, "{answers} answers, {lost} lost");
    assert_eq!(film.subflows, [Some(0), Some(1)]);
    // Each byte arrives for the first time once.
    let arrived = film.arrived.from.0.iter().zip(&film.arrived.to.0).map(|(from, to)| to - from);
    assert_eq!(arrived.sum::<i64>(), 300_000);
    // The first of several successive waits for the same reason is recorded.
    let waits = |at: usize| film.decisions.decision.0[at] == 2;
    let same = |at: &usize| {
        waits(*at) && waits(at - 1) && film.decisions.rule.0[*at] == film.decisions.rule.0[at - 1]
    };
    assert_eq!((1..film.decisions.t_ns.len()).filter(same).count(), 0);
}

fn film(text: &str) -> Film {
    let scenario = scenario(text);
    let prepared = Prepared::new(&scenario, 0).unwrap();
    Film::new(&scenario, &prepared, &Job::default(), &AtomicBool::new(false)).unwrap()
}

#[test]
fn packets_that_queue_management_drops_are_dropped_by_a_queue() {
    let film = film(
        "path = [{ rate = '5 Mbit/s', rtt = '20 ms', queue = '2 s', aqm = 'codel' }]
         traffic = { size = '2 MB', direction = 'upload' }
         schedulers = ['min_rtt']
         phases = false",
    );
    let fates = |fate: &str| {
        let is = |own: &&i64| film.fates[**own as usize] == fate;
        film.packets.fate.0.iter().filter(is).count()
    };
    assert!(fates("dropped_by_queue") > 0 && fates("lost") == 0, "{:?}", film.packets.fate.0);
}

#[test]
fn a_film_of_a_long_run_ends_early_and_says_so() {
    let film = film(
        "path = [{ rate = '1 Gbit/s', rtt = '1 ms', queue = '20 ms' }]
         traffic = { size = '80 MB', direction = 'upload' }
         schedulers = ['min_rtt']
         phases = false",
    );
    assert_eq!((film.whole, film.packets.t_ns.len()), (false, 60_000));
    assert!(film.fct_ns.is_some_and(|time| time > film.packets.t_ns.0[59_999] as u64));
}
