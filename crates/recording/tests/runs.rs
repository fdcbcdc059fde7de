//! Runs that are recorded in this process: what is complete, and tables that agree with the run's report.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anabranch_lab::job::Job;
use anabranch_lab::options::Options;
use anabranch_lab::run::{Prepared, RunError, RunResult};
use anabranch_lab::scenario::{Document, Scenario};
use anabranch_recording::view::{Details, View};
use anabranch_recording::{Origin, Recorded, RunDirectory, Settings};
use anabranch_table::{Cell, Format, Kind};
use anabranch_units::Duration;

fn scenario(text: &str) -> Scenario {
    Document::parse("test.toml", text, ".").unwrap().scenario().unwrap()
}

const LOSSY: &str = "
    path = [{ name = 'wifi', rate = '20 Mbit/s', rtt = '20 ms', loss = '2%' }, { name = 'lte', rate = '10 Mbit/s', rtt = '60 ms' }]
    traffic = { size = '300 KB', flows = 2, direction = 'upload', beside = { flows = 1, path = 1 } }
    schedulers = ['min_rtt', 'redundant']
    phases = false
";

fn directory(path: &Path, scenario: &Scenario) -> RunDirectory {
    let origin = Origin { version: "1", commit: None, command: vec!["a".to_owned()], run: None };
    let settings = Settings { format: Format::Csv, interval: Duration::ZERO, xpl: false };
    RunDirectory::create(path, scenario, origin, settings).unwrap()
}

/// Records the first run of the contender at `contender`; one that is cancelled ends at once.
fn record(
    scenario: &Scenario,
    directory: &RunDirectory,
    contender: usize,
    cancelled: bool,
) -> Result<RunResult, RunError> {
    let prepared = Prepared::new(scenario, 0).unwrap();
    let cancelled = AtomicBool::new(cancelled);
    let options = Options::new(1, &cancelled, &|_, _| {});
    prepared.run_recorded(&Job { contender, ..Job::default() }, &options, directory)
}

fn completes(path: &Path) -> (bool, Vec<bool>) {
    let stored = Recorded::open(path).unwrap().stored;
    (stored.facts.complete, stored.runs.iter().map(|run| run.complete).collect())
}

#[test]
fn a_run_that_did_not_end_is_not_complete() {
    let place = tempfile::tempdir().unwrap();
    let scenario = scenario(LOSSY);
    let path = place.path().join("cancelled");
    let partial = directory(&path, &scenario);
    assert_eq!(completes(&path), (false, vec![]), "a directory without runs is not complete yet");
    record(&scenario, &partial, 0, false).unwrap();
    assert_eq!(completes(&path), (false, vec![true]), "others may follow");
    assert_eq!(record(&scenario, &partial, 1, true), Err(RunError::Cancelled));
    assert_eq!(completes(&path), (false, vec![true, false]));
    partial.finish().unwrap();
    assert_eq!(completes(&path), (false, vec![true, false]), "one of its runs did not end");
    let view = View::read(&path, &Details { flow: None, most_flows: 1, most_events: 10 }).unwrap();
    assert!(view.is_partial());
    assert_eq!(view.runs.iter().map(|run| run.complete).collect::<Vec<_>>(), [true, false]);

    let path = place.path().join("whole");
    let whole = directory(&path, &scenario);
    record(&scenario, &whole, 0, false).unwrap();
    record(&scenario, &whole, 1, false).unwrap();
    assert_eq!(completes(&path), (false, vec![true, true]));
    whole.finish().unwrap();
    assert_eq!(completes(&path), (true, vec![true, true]));
    whole.give_up("the disk is full");
    let stored = Recorded::open(&path).unwrap().stored;
    assert_eq!((stored.facts.complete, stored.facts.reason.as_deref()), (false, Some("the disk is full")));
}

/// Returns the cells of columns of whole numbers, a missing one as -1.
fn integers(path: &Path, table: &str, columns: &[&str]) -> Vec<Vec<i64>> {
    let columns: Vec<(&str, Kind)> = columns.iter().map(|name| (*name, Kind::Integer)).collect();
    let mut rows = Vec::new();
    anabranch_table::read(&path.join("min_rtt").join(format!("{table}.csv")), &columns, |cells| {
        let number = |cell: &Cell<'_>| match cell {
            Cell::Integer(number) => *number,
            _ => -1,
        };
        rows.push(cells.iter().map(number).collect());
    })
    .unwrap();
    rows
}

fn texts(path: &Path, table: &str, column: &str) -> Vec<String> {
    let mut rows = Vec::new();
    anabranch_table::read(
        &path.join("min_rtt").join(format!("{table}.csv")),
        &[(column, Kind::Text)],
        |cells| {
            rows.push(match cells[0] {
                Cell::Text(text) => text.to_owned(),
                _ => String::new(),
            });
        },
    )
    .unwrap();
    rows
}

#[test]
fn the_tables_have_the_numbers_of_the_report() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path();
    let scenario = scenario(LOSSY);
    let recorded = directory(path, &scenario);
    let result = record(&scenario, &recorded, 0, false).unwrap();
    recorded.finish().unwrap();
    let whole = |span: Option<Duration>| span.map_or(-1, |span| span.0 as i64);
    let columns = [
        "flow",
        "start_ns",
        "size_bytes",
        "fct_ns",
        "acked_ns",
        "connected_ns",
        "delivered_bytes",
        "goodput_bps",
        "data_segments",
        "retransmitted_segments",
        "reinjected_bytes",
        "duplicate_bytes",
        "rto_count",
    ];
    let flows = integers(path, "flows", &columns);
    assert_eq!(flows.len(), result.flows.len());
    assert!(result.flows.iter().any(|flow| flow.report.retransmitted_segments > 0));
    for (at, (row, flow)) in flows.iter().zip(&result.flows).enumerate() {
        let report = &flow.report;
        let expected = [
            at as i64,
            report.start.0 as i64,
            300_000,
            whole(report.fct),
            whole(report.acked),
            whole(report.connected),
            report.delivered as i64,
            flow.goodput().0 as i64,
            report.data_segments as i64,
            report.retransmitted_segments as i64,
            report.reinjected_bytes as i64,
            report.duplicate_bytes as i64,
            report.rto_count as i64,
        ];
        assert_eq!(row[..], expected, "{columns:?}");
    }
    assert_eq!(texts(path, "flows", "name"), ["1", "2", "beside 1"]);
    assert_eq!(texts(path, "flows", "direction"), ["up"; 3]);
    assert_eq!(texts(path, "flows", "outcome"), ["completed"; 3]);

    // Both ends of each flow, the client first.
    let ends = texts(path, "subflows", "end");
    let columns = [
        "flow",
        "subflow",
        "interface",
        "bytes_sent",
        "bytes_acked",
        "bytes_delivered",
        "segments_sent",
        "segments_retransmitted",
        "rto_count",
        "min_rtt_us",
    ];
    let rows = integers(path, "subflows", &columns);
    let mut place = 0;
    for (at, flow) in result.flows.iter().enumerate() {
        for (end, report) in [("client", &flow.report.sender), ("server", &flow.report.receiver)] {
            for subflow in &report.subflows {
                let counters = &subflow.counters;
                let expected = [
                    at as i64,
                    i64::from(subflow.id.0),
                    i64::from(subflow.path.0),
                    counters.bytes_sent as i64,
                    counters.bytes_acked as i64,
                    counters.bytes_delivered as i64,
                    counters.data_segments_sent as i64,
                    counters.segments_retransmitted as i64,
                    counters.timeouts as i64,
                    subflow.min_rtt.map_or(-1, |rtt| rtt.0 as i64 / 1000),
                ];
                assert_eq!((ends[place].as_str(), &rows[place][..]), (end, &expected[..]), "{columns:?}");
                place += 1;
            }
        }
    }
    assert_eq!(place, rows.len());
}

/// The events of the data add up to the data, and the view to the tables.
#[test]
fn the_events_of_a_flow_add_up_to_its_data() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path();
    let scenario = scenario(LOSSY);
    let recorded = directory(path, &scenario);
    let result = record(&scenario, &recorded, 0, false).unwrap();
    recorded.finish().unwrap();
    let (events, names) = (
        integers(path, "events", &["t_ns", "flow", "from_bytes", "to_bytes", "window_edge_bytes"]),
        texts(path, "events", "event"),
    );
    assert!(events.windows(2).all(|two| two[0][0] <= two[1][0]), "in the order of time");
    for (at, flow) in result.flows.iter().enumerate() {
        let count = |name: &str| {
            let own = events.iter().zip(&names).filter(|(row, event)| row[1] == at as i64 && *event == name);
            own.map(|(row, _)| (row[3] - row[2]) as u64).collect::<Vec<u64>>()
        };
        let sum = |name: &str| count(name).iter().sum::<u64>();
        assert_eq!(sum("sent"), 300_000, "each byte is sent once as new");
        // A probe for the loss of the tail repeats data too. One with new data would be missing above.
        let again = count("retransmitted").len() + count("probe").len();
        assert_eq!(again as u64, flow.report.retransmitted_segments);
        assert_eq!(sum("reinjected"), flow.report.reinjected_bytes);
        assert_eq!(count("reinjected").len() as u64, flow.reinjected_segments);
        assert_eq!(sum("data_acked"), 300_000);
        assert!(sum("received") >= 300_000);
    }
    let acked = events.iter().zip(&names).filter(|(_, event)| *event == "data_acked");
    acked.for_each(|(row, _)| assert!(row[4] >= row[3], "the window's edge is beyond the acknowledgement"));
    let view = View::read(path, &Details { flow: Some(0), most_flows: 1, most_events: 1 << 20 }).unwrap();
    let run = &view.runs[0];
    let own: Vec<bool> = run.flows.iter().map(|flow| flow.own).collect();
    assert_eq!(own, [true, true, false]);
    assert_eq!(run.goodput.bytes.iter().sum::<u64>(), 600_000, "of the contender's two flows");
    let mut by_path = [0; 2];
    for flow in &result.flows[..2] {
        by_path.iter_mut().zip(&flow.report.bytes_by_path).for_each(|(sum, bytes)| *sum += bytes);
    }
    assert_eq!(run.bytes_by_path, by_path);
    let rates: Vec<f64> = result.flows.iter().map(|flow| flow.goodput().0 as f64).collect();
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|rate| rate * rate).sum::<f64>());
    assert!((run.jain.unwrap() - sum * sum / (3.0 * squares)).abs() < 1e-9);
    assert_eq!((view.facts.complete, run.paths.join(" ").as_str(), run.streams.len()), (true, "wifi lte", 1));
    let names: Vec<&str> = run.streams[0].subflows.iter().map(|subflow| subflow.name.as_str()).collect();
    assert_eq!(names, ["wifi", "lte"]);
}

/// A queue of 10 packets that overflows: the greatest queue of the rows, and all of the drops, are in the table.
#[test]
fn a_row_of_a_queue_has_the_greatest_queue_and_the_drops_since_the_one_before() {
    let place = tempfile::tempdir().unwrap();
    let scenario = scenario(
        "path = [{ rate = '5 Mbit/s', rtt = '40 ms', queue = '10 packets' }]
         traffic = { size = '500 KB', direction = 'upload' }
         schedulers = ['min_rtt']
         phases = false",
    );
    let mut found = Vec::new();
    for (name, millis) in [("every", 0), ("thinned", 50)] {
        let path = place.path().join(name);
        let origin = Origin { version: "1", commit: None, command: Vec::new(), run: None };
        let settings = Settings { format: Format::Csv, interval: Duration::from_millis(millis), xpl: false };
        let recorded = RunDirectory::create(&path, &scenario, origin, settings).unwrap();
        let result = record(&scenario, &recorded, 0, false).unwrap();
        recorded.finish().unwrap();
        let rows =
            integers(&path, "queues", &["queue_bytes", "queue_packets", "max_bytes", "dropped_packets"]);
        assert!(rows.iter().all(|row| row[2] >= row[0] && row[1] <= 10), "{name}");
        let most = |column: usize| rows.iter().map(|row| row[column]).max().unwrap();
        let drops: i64 = rows.iter().map(|row| row[3]).sum();
        let counted: u64 = result.links.iter().map(|link| link.counters.dropped_queue.packets).sum();
        assert_eq!(drops as u64, counted, "{name}");
        assert!(drops > 0);
        found.push((most(2), rows.len()));
    }
    assert_eq!(found[0].0, found[1].0, "the greatest queue of all");
    assert!(found[1].1 * 4 < found[0].1, "{found:?}");
}

/// A bulk transfer that ends before the run has a goodput over the time that it had, and flows of different kinds have no
/// index of fairness.
#[test]
fn a_bulk_transfer_beside_a_longer_one_has_the_goodput_of_its_own_time() {
    let text = "
        path = [{ rate = '10 Mbit/s', rtt = '20 ms' }, { rate = '5 Mbit/s', rtt = '30 ms' }]
        traffic = [{ name = 'backup', size = 'bulk', duration = '400 ms' }, { name = 'photos', size = '2 MB' }]
        schedulers = ['min_rtt']
        phases = false
    ";
    let place = tempfile::tempdir().unwrap();
    let scenario = scenario(text);
    let recorded = directory(place.path(), &scenario);
    let result = record(&scenario, &recorded, 0, false).unwrap();
    recorded.finish().unwrap();
    let backup = &result.flows[0];
    assert!(backup.report.ended.is_some() && backup.report.fct.is_none());
    let rows = integers(place.path(), "flows", &["delivered_bytes", "goodput_bps"]);
    let (bytes, goodput) = (rows[0][0] as f64, rows[0][1] as f64);
    assert_eq!(rows[0][1], backup.goodput().0 as i64);
    assert!((8.0 * bytes / goodput - 0.4).abs() < 1e-3, "{bytes} bytes at {goodput} bit/s");
    let details = Details { flow: None, most_flows: 2, most_events: 1 << 20 };
    let view = View::read(place.path(), &details).unwrap();
    assert_eq!((view.runs[0].flows.len(), view.runs[0].jain), (2, None));
}
