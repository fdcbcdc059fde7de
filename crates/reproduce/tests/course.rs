//! Values that figures take from within runs: courses, and distributions over packets or seconds.

use core::sync::atomic::AtomicBool;
use std::path::Path;

use anabranch_plot::Shape;
use anabranch_reproduce::claims::{Claim, Paper};
use anabranch_reproduce::journal::Journal;
use anabranch_reproduce::measure::{Measurement, RunsPart, Source, Unit, Wanted, Work};
use anabranch_reproduce::reproduce::{Options, ReproduceError, Results, reproduce};
use anabranch_reproduce::take::{Form, Take};
use anabranch_reproduce::{Metric, library};

const CLAIMS: &str = "
id = 'own'
title = 'A paper'
[[claim]]
id = 'X1'
figure = 'Figure 1'
kind = 'scenario'
claim = 'c'
reason = 'r'
check = [{ scenario = 'one', metric = 'done', of = 'tcp', is = 'within', from = 0 }]
";

/// One path of 100 ms, on which a flow begins with ten segments.
const ONE: &str = "
schedulers = ['tcp']
runs = 3
phases = false
[[path]]
rate = '1 Gbit/s'
rtt = '100 ms'
[traffic]
size = '1 MB'
start = '1 s'
direction = 'upload'
[connection]
receive-buffer = '20 MB'
send-buffer = '20 MB'
initial-window = 10
";

fn paper(directory: &Path, figures: &str) -> Result<Paper, String> {
    for (file, text) in [("claims.toml", CLAIMS), ("one.toml", ONE), ("figures.toml", figures)] {
        std::fs::write(directory.join(file), text).unwrap();
    }
    library::open(directory).map_err(|error| error.to_string())
}

fn run(paper: &Paper, journal: &mut Journal, cancelled: &AtomicBool) -> Result<Results, ReproduceError> {
    let options = Options { figures: true, ..Options::new(cancelled) };
    reproduce(std::slice::from_ref(paper), &|_: &Paper, _: &Claim| true, journal, &options)
}

const FIGURES: &str = "
[[figure]]
claim = 'X1'
panel = 'window'
scenario = 'one'
course = { upto = 0.5 }
x = 'time, s'
y = 'window, segments'
metric = 'window.1'
curves = ['tcp']

[[figure]]
claim = 'X1'
panel = 'data'
scenario = 'one'
course = { upto = 0.5 }
x = 'time, s'
y = 'data, KB'
curves = [{ of = 'tcp', name = 'sent', metric = 'data' }, { of = 'tcp', name = 'acknowledged', metric = 'data-acked' }]

[[figure]]
claim = 'X1'
panel = 'waits'
scenario = 'one'
samples = 'cdf'
x = 'wait, ms'
y = 'fraction'
metric = 'wait'
curves = ['tcp']

[[figure]]
claim = 'X1'
panel = 'seconds'
scenario = 'one'
samples = 'box'
contenders = ['tcp']
x = 'contender'
y = 'goodput, Mbit/s'
curves = [{ name = 'all', metric = 'goodput' }]
";

/// Slow start doubles the window in each round trip: the handshake ends after one, and the first acknowledgements
/// arrive after two.
#[test]
fn the_course_of_slow_start_is_that_of_the_textbook() {
    let directory = tempfile::tempdir().unwrap();
    let paper = paper(directory.path(), FIGURES).unwrap();
    let results = run(&paper, &mut Journal::in_memory(), &AtomicBool::new(false)).unwrap();
    let window = &results.figures[0];
    assert_eq!((window.figure.shape, window.figure.span), (Shape::Steps, Some((0.0, 0.5))));
    assert_eq!(window.note, "one run: number 0 of seed 1");
    let last_before =
        |time: f64| window.figure.curves[0].dots.iter().rev().find(|dot| dot.0 < time).unwrap().1;
    assert_eq!([0.199, 0.299, 0.399, 0.499].map(last_before), [10.0, 20.0, 40.0, 80.0]);
    // The first ten segments are sent in the first round, and 20 in the second.
    let [sent, acked] = &results.figures[1].figure.curves[..] else { panic!("two curves") };
    assert_eq!(results.figures[1].figure.shape, Shape::Dots);
    let segment = sent.dots[1].1;
    let segments = |from: f64, to: f64| {
        let own = sent.dots.iter().filter(|dot| (from..to).contains(&dot.0));
        (own.fold(0.0, |most: f64, dot| most.max(dot.1)) / segment).round()
    };
    assert_eq!([segments(0.0, 0.19), segments(0.19, 0.29), segments(0.29, 0.39)], [9.0, 29.0, 69.0]);
    // Nothing is acknowledged before it was sent.
    assert!(acked.dots.iter().all(|dot| dot.0 >= 0.2 || dot.1 == 0.0));
    // One path delivers in order, and a second of 1 MB has 8 Mbit.
    let waits = &results.figures[2];
    assert_eq!((waits.figure.curves[0].dots.len(), waits.figure.curves[0].dots[0].0), (1, 0.0));
    assert_eq!(waits.note, "each packet of 3 runs of seed 1");
}

#[test]
fn a_panel_from_the_journal_is_the_measured_one() {
    let directory = tempfile::tempdir().unwrap();
    let paper = paper(directory.path(), FIGURES).unwrap();
    let path = directory.path().join("journal.ndjson");
    let open = |build| Journal::open(&path, build, build == "2").unwrap();
    let (go, stop) = (AtomicBool::new(false), AtomicBool::new(true));
    let fresh = run(&paper, &mut Journal::in_memory(), &go).unwrap();
    run(&paper, &mut open("1"), &go).unwrap();
    // A cancelled run cannot simulate: it succeeds by the journal alone, here of another build.
    let again = run(&paper, &mut open("2"), &stop).unwrap();
    assert_eq!((&again.findings, &again.figures), (&fresh.findings, &fresh.figures));
    // The record of them is read as it was written.
    let text = serde_json::to_string(&fresh.figures).unwrap();
    let read: Vec<anabranch_reproduce::figure::Drawn> = serde_json::from_str(&text).unwrap();
    assert_eq!(read, fresh.figures);
    // A journal that was made without them has their key, and lacks nothing else.
    let unit = unit("21685 B", &[]);
    let mut wanted = Wanted::default();
    wanted.add("dmptcp", Metric::parse("segments").unwrap());
    let measured = Work::new(&unit, &wanted).unwrap().measure(&wanted, 1, &go).unwrap();
    let mut more = wanted.clone();
    more.take("dmptcp", course("sequence.1", 1.0));
    assert_eq!(Work::new(&unit, &more).unwrap().key, measured.key);
    assert!(measured.missing(&wanted).contenders.is_empty());
    assert_eq!(measured.missing(&more), more);
    let both = Work::new(&unit, &more).unwrap().measure(&more, 1, &go).unwrap();
    assert_eq!(both.values["dmptcp"]["segments"], measured.values["dmptcp"]["segments"]);
}

fn unit(condition: &str, set: &[&str]) -> Unit {
    Unit {
        paper: "dmptcp".to_owned(),
        source: Source::Scenario("one".to_owned()),
        condition: condition.to_owned(),
        set: set.iter().map(|text| (*text).to_owned()).collect(),
        runs: Some(2),
        seed: None,
    }
}

fn course(metric: &str, upto: f64) -> Take {
    Take { metric: Metric::parse(metric).unwrap(), form: Form::Course { from: 0.0, upto } }
}

/// Parts of the runs, as processes exchange them, in reverse.
fn in_parts(work: &Work, wanted: &Wanted) -> Measurement {
    let go = AtomicBool::new(false);
    let parts = (0..work.runs()).rev().map(|run| {
        let part = work.part(wanted, run..run + 1, 1, &go).unwrap();
        serde_json::from_str::<RunsPart>(&serde_json::to_string(&part).unwrap()).unwrap()
    });
    work.joined(wanted, parts.collect()).unwrap()
}

/// The counts of courses and distributions are those of the measures of whole runs.
#[test]
fn what_is_taken_from_a_run_agrees_with_its_measures() {
    let loss = "path.loss=3%";
    let all = unit("50 KB", &[loss, "withhold-acks=true", "traffic.flows=5"]);
    let mut wanted = Wanted::default();
    for metric in ["timeouts", "wait-most", "segments.1", "goodput"] {
        wanted.add("min_rtt", Metric::parse(metric).unwrap());
    }
    let timeouts = course("timeouts", 20.0);
    let waits = Take { metric: Metric::parse("wait").unwrap(), form: Form::Samples };
    let seconds = Take { metric: Metric::parse("goodput").unwrap(), form: Form::Samples };
    [timeouts, waits, seconds].into_iter().for_each(|take| wanted.take("min_rtt", take));
    let one = Unit { runs: Some(1), ..all.clone() };
    let first = Work::new(&one, &wanted).unwrap().measure(&wanted, 1, &AtomicBool::new(false)).unwrap();
    let whole = |name: &str| first.get("min_rtt", Metric::parse(name).unwrap()).unwrap()[0];
    let points = first.taken("min_rtt", &timeouts).unwrap();
    assert!(whole("timeouts") > 0.0);
    assert_eq!(points.len() as f64 / 2.0, 5.0 * whole("timeouts"), "one for each timeout of five flows");
    assert!(points.chunks(2).all(|point| (1.0..=8.0).contains(&point[1])));
    let pairs: Vec<&[f64]> = first.taken("min_rtt", &waits).unwrap().chunks(2).collect();
    let longest = pairs.iter().map(|pair| pair[0]).fold(0.0, f64::max);
    assert!((longest / whole("wait-most") - 1.0).abs() < 0.005, "{longest} {}", whole("wait-most"));
    // 50 KB are 36 segments or a few more.
    let packets: f64 = pairs.iter().map(|pair| pair[1]).sum();
    assert!((180.0..=200.0).contains(&packets), "{packets}");
    // In parts it is the same.
    let work = Work::new(&all, &wanted).unwrap();
    let together = work.measure(&wanted, 1, &AtomicBool::new(false)).unwrap();
    assert_eq!(in_parts(&work, &wanted), together);
    let both: f64 = together.taken("min_rtt", &waits).unwrap().chunks(2).map(|pair| pair[1]).sum();
    assert!(both > packets);
}

#[test]
fn a_figure_that_takes_what_is_not_there_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let fault = |text: &str| {
        let text = format!("[[figure]]\nclaim = 'X1'\nx = 'x'\ny = 'y'\ncurves = ['tcp']\n{text}");
        paper(directory.path(), &text).err().unwrap_or_default()
    };
    let one = |rest: &str| fault(&format!("scenario = 'one'\n{rest}"));
    assert!(one("metric = 'data'").contains("only a figure with `course` has it"));
    assert!(
        one("metric = 'done'\ncourse = { upto = 1 }").contains("`done` has no course; there are timeouts")
    );
    assert!(one("metric = 'window'\ncourse = { upto = 1 }").contains("such as `window.1`"));
    assert!(one("metric = 'window.1'\ncourse = { from = 1, upto = 1 }").contains("ends after it begins"));
    assert!(one("metric = 'window.1'\ncourse = { upto = 1, step = 2 }").contains("unknown field `step`"));
    assert!(one("metric = 'window.1'\ncourse = { upto = 1 }\nruns = 2").contains("has no `runs`"));
    assert!(one("metric = 'window.1'\ncourse = { upto = 1 }\nat = [1]").contains("has no `at`"));
    assert!(one("metric = 'window.1'\ncourse = { upto = 1 }\nin = ['a', 'b']").contains("one condition"));
    assert!(one("metric = 'wait'\nsamples = 'pie'").contains("unknown variant `pie`"));
    assert!(one("metric = 'done'\nsamples = 'cdf'").contains("no distribution over packets or seconds"));
    assert!(one("metric = 'wait'\nsamples = 'cdf'\ncourse = { upto = 1 }").contains("one of `course` and"));
    assert!(
        fault("metric = 'window.1'\nwindow = 'rtt=1'\ncourse = { upto = 1 }").contains("needs a `scenario`")
    );
    let checked = CLAIMS.replace("'done'", "'sequence.1'");
    let error = Paper::parse("x/claims.toml", &checked).unwrap_err().to_string();
    assert!(error.contains("a run has no value of `sequence`"), "{error}");
    assert_eq!(one("metric = 'window.1'\ncourse = { upto = 1 }"), "");
}

/// Without a queue the smoothed round trip is the path's, in milliseconds.
#[test]
fn a_course_of_round_trips_is_in_milliseconds() {
    let directory = tempfile::tempdir().unwrap();
    let figures = "[[figure]]\nclaim = 'X1'\nscenario = 'one'\ncourse = { upto = 0.5 }\nx = 'x'\ny = 'y'
        curves = [{ of = 'tcp', name = 'srtt', metric = 'srtt.1' }, { of = 'tcp', name = 'flight', metric = 'flight.1' }]";
    let paper = paper(directory.path(), figures).unwrap();
    let results = run(&paper, &mut Journal::in_memory(), &AtomicBool::new(false)).unwrap();
    let [srtt, flight] = &results.figures[0].figure.curves[..] else { panic!("two curves") };
    assert!(srtt.dots.len() > 3 && srtt.dots.iter().all(|dot| (100.0..102.0).contains(&dot.1)), "{srtt:?}");
    // It changes with the first acknowledgement, and at most 20 segments are in flight in the second round trip.
    let second = flight.dots.iter().filter(|dot| (0.2..0.29).contains(&dot.0)).map(|dot| dot.1);
    let most = second.fold(0.0, f64::max);
    assert!((10.0..=20.0).contains(&most), "{most}");
}
