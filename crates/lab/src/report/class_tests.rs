//! The rows of classes of traffic, from reports made by hand.

use anabranch_sim::AppReport;
use anabranch_sim::application::{Burst, DatagramReport, VideoReport};
use anabranch_units::{Duration, Time};

use anabranch_measure::gather::Of;

use super::*;
use crate::made;
use crate::report::measured::Measure;
use crate::run::{Class, FlowResult, RunResult};

const PATHS: &str = "
    path = [{ rate = '20 Mbit/s', rtt = '20 ms' }, { rate = '10 Mbit/s', rtt = '60 ms' }]
    schedulers = ['tcp', 'min_rtt']
    runs = 2
";

fn ms(millis: u64) -> Option<Duration> {
    Some(Duration::from_millis(millis))
}

/// Returns the rows of both contenders, which have the same runs: one flow with this report in each.
fn rows_of(class: &str, reports: [AppReport; 2]) -> Vec<Record> {
    // Some class has to be the contender's.
    let web = "[[traffic]]\nname = 'web'\nsize = '1 KB'";
    let scenario = made::scenario(&format!("{PATHS}[[traffic]]\nname = 'c'\n{class}\n{web}"));
    let condition = &scenario.conditions[0];
    let runs: Vec<RunResult> = reports
        .into_iter()
        .map(|app| {
            let mut flow = made::flow(Class::Contender, None);
            (flow.report.app, flow.report.outcome) = (app, anabranch_sim::Outcome::Completed);
            made::run_of(vec![flow])
        })
        .collect();
    let entrant = |at| Entrant::new(&scenario, condition, at, Some(0), true, &runs);
    rows(&scenario, condition, &[entrant(0), entrant(1)])
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found} {expected}");
}

#[test]
fn a_row_of_datagrams_sums_counts_and_averages_the_streams() {
    let stream = |sent, received, p50, p95, p99, most, jitter_s| {
        AppReport::Datagrams(DatagramReport {
            sent,
            received,
            delay_mean_s: Some(jitter_s),
            delay_p50: ms(p50),
            delay_p95: ms(p95),
            delay_p99: ms(p99),
            delay_max: ms(most),
            jitter_s: Some(jitter_s),
        })
    };
    let two = [stream(100, 90, 10, 20, 30, 90, 0.002), stream(300, 290, 20, 40, 50, 60, 0.004)];
    let row = &rows_of("kind = 'udp'\nsize = '100 B'\ngap = '20 ms'\nduration = '1 s'", two)[1];
    let found = row.datagrams.as_ref().unwrap();
    assert_eq!((found.sent, found.received), (400, 380));
    near(found.lost_ratio, 20.0 / 400.0);
    near(found.delay_p50_s.unwrap(), 0.015);
    near(found.delay_p95_s.unwrap(), 0.030);
    near(found.delay_p99_s.unwrap(), 0.040);
    near(found.delay_max_s.unwrap(), 0.090);
    near(found.jitter_s.unwrap(), 0.003);
    near(row.fct_s.mean.unwrap(), 0.003);
    assert_eq!(
        (row.n, row.completed, row.transport.as_deref(), row.kind.as_deref()),
        (2, 2, Some("udp"), Some("udp"))
    );
}

/// A viewer waits for the beginning and in stalls.
#[test]
fn a_row_of_videos_adds_stalls_to_the_startup() {
    let video = |startup, stalls, stalled, bitrate, switches| {
        AppReport::Video(VideoReport {
            segments: 6,
            startup: ms(startup),
            stalls,
            stalled: Duration::from_millis(stalled),
            bitrate_bps: Some(bitrate),
            switches,
        })
    };
    let class = "kind = 'video'\nbitrate = ['1 Mbit/s', '4 Mbit/s']\nsegment = '1 s'\nbuffer = '4 s'\nduration = '6 s'";
    let row = &rows_of(class, [video(100, 1, 400, 2e6, 3), video(300, 0, 0, 4e6, 0)])[1];
    let found = row.video.as_ref().unwrap();
    // 500 and 300 ms.
    near(row.fct_s.mean.unwrap(), 0.4);
    near(found.startup_s.mean.unwrap(), 0.2);
    near(found.stalls, 0.5);
    near(found.stalled_s, 0.2);
    near(found.bitrate_bps.unwrap(), 3e6);
    near(found.switches, 1.5);
}

/// Contenders make different numbers of requests: the places that others fill do not count.
#[test]
fn a_row_of_requests_counts_its_own_requests() {
    let runs = [made::requests([Some(10), Some(20), None]), made::requests([Some(30)])];
    let class = "kind = 'requests'\nsize = '30 KB'\nthink = '300 ms'\nduration = '4 s'";
    let row = &rows_of(class, runs)[1];
    // Three requests in the first run and one in the second; one of the four was not answered.
    assert_eq!((row.n, row.completed), (4, 3));
    assert_eq!(row.by_run.completed, [2, 1]);
    near(row.fct_s.mean.unwrap(), 0.02);
    near(row.by_run.fct_s[0].unwrap(), 0.015);
}

/// Of 20 requests that were asked for, only those of the first 30 s were made.
#[test]
fn requests_that_the_deadline_prevents_are_missing() {
    let text = |more: &str| {
        let traffic = "name = 'web', kind = 'requests', size = '1 KB', think = '10 s', requests = 20";
        format!("{PATHS}deadline = '30 s'\ntraffic = [{{ {traffic}{more} }}]")
    };
    let found = made::compared(&made::scenario(&text("")));
    let row = found.row_of_class("min_rtt", Some("web")).unwrap();
    assert_eq!((row.n, row.completed, row.failed), (40, 6, 0));
    assert!(
        found.verdict.starts_with(
            "web: there is no winner, because 34 of tcp's 40 requests and 34 of min_rtt's 40 requests did not end within the \
             deadline of 30 s; a later one may help"
        ),
        "{}",
        found.verdict
    );
    // Those of a duration are as many as fit into it.
    let found = made::compared(&made::scenario(&text(", duration = '25 s'")));
    let row = found.row_of_class("min_rtt", Some("web")).unwrap();
    assert_eq!((row.n, row.completed), (6, 6));
}

/// Two users make different numbers of requests with two contenders.
#[test]
fn requests_are_compared_by_user_and_number() {
    let user = |times: &[u64]| {
        let mut flow = made::flow(Class::Contender, Some(1.0));
        flow.report.app = made::requests(times.iter().copied().map(Some));
        flow
    };
    let run = |users: [&[u64]; 2]| users.map(user).to_vec();
    let runs = [run([&[10, 20, 30], &[40, 50]]), run([&[11, 21], &[41, 51, 61]])];
    let flows: Vec<Vec<Vec<&FlowResult>>> = runs.iter().map(|run| vec![run.iter().collect()]).collect();
    let values = measured::of_class(&flows, Measure::ResponseTime);
    let pairs: Vec<(Option<f64>, Option<f64>)> =
        values[0][0].iter().zip(&values[1][0]).map(|(one, other)| (one.value, other.value)).collect();
    let both = |one: f64, other: f64| (Some(one), Some(other));
    assert_eq!(
        pairs,
        [
            both(0.01, 0.011),
            both(0.02, 0.021),
            (Some(0.03), None),
            both(0.04, 0.041),
            both(0.05, 0.051),
            (None, Some(0.061))
        ]
    );
    let exists = |at: usize| values[at][0].iter().map(|value| value.parts).sum::<usize>();
    assert_eq!([exists(0), exists(1)], [5, 5]);
    // A place that another one fills is not a request that is missing.
    assert!(values.iter().flatten().flatten().all(|value| value.complete));
}

/// A viewer who did not see the whole video has no time of waiting.
#[test]
fn a_video_that_did_not_end_is_not_measured() {
    let mut flow = made::flow(Class::Contender, None);
    flow.report.app = AppReport::Video(VideoReport {
        segments: 6,
        startup: ms(100),
        stalls: 0,
        stalled: Duration::ZERO,
        bitrate_bps: Some(1e6),
        switches: 0,
    });
    let of = |flow: &FlowResult| measured::of_flow(flow, Measure::Waiting)[0];
    assert_eq!((of(&flow).value, of(&flow).complete), (None, false));
    flow.report.outcome = anabranch_sim::Outcome::Completed;
    assert_eq!((of(&flow).value, of(&flow).complete), (Some(0.1), true));
}

/// A sender whose connection was never opened has no bursts, and yet has delivered nothing of what it should.
#[test]
fn a_stream_that_failed_lacks_a_burst() {
    let burst = Burst { at: Time::ZERO, bytes: 1000, delay: ms(5) };
    for (bursts, failed, expected) in [
        (vec![burst], false, vec![(Some(0.005), true)]),
        (vec![burst], true, vec![(Some(0.005), true), (None, false)]),
        (vec![], true, vec![(None, false)]),
        (vec![], false, vec![(None, false)]),
    ] {
        let mut flow = made::flow(Class::Contender, None);
        flow.report.app = AppReport::OnOff(bursts);
        if failed {
            flow.report.outcome = anabranch_sim::Outcome::Failed(anabranch_sim::Failure::Connect);
        }
        let found = measured::of_flow(&flow, Measure::BurstDelay);
        let values: Vec<_> = found.iter().map(|one| (one.value, one.complete)).collect();
        assert_eq!(values, expected);
        assert_eq!(found.last().unwrap().failed.is_some(), failed);
    }
}

#[test]
fn a_bulk_flow_that_was_aborted_is_not_complete() {
    let mut flow = made::flow(Class::Contender, None);
    assert!(flow.is_complete(true) && !flow.is_complete(false), "it is running");
    flow.report.outcome = anabranch_sim::Outcome::Failed(anabranch_sim::Failure::Connect);
    assert!(!flow.is_complete(true));
}

#[test]
fn no_interval_of_a_goodput_is_below_zero() {
    let runs = made::runs([10_000.0, 10_000.0, 10_000.0, 10.0]);
    let flows: Vec<Vec<&FlowResult>> = runs.iter().map(|run| run.flows.iter().collect()).collect();
    assert_eq!(Record::gather(&flows, Of { bulk: true, paths: 2, seed: 1 }).goodput_ci95_bps.unwrap().0, 0.0);
}

/// `tcp` on the path that was chosen is the plain TCP on that path.
#[test]
fn a_plain_tcp_on_the_path_of_the_reference_is_no_rival() {
    let text = PATHS.replace("['tcp', 'min_rtt']", "['tcp', 'tcp@1', 'tcp@2', 'min_rtt']");
    let scenario = made::scenario(&format!("{text}traffic = {{ size = '1 MB' }}"));
    let condition = &scenario.conditions[0];
    let runs: Vec<RunResult> = (0..2)
        .map(|_| made::run_of((0..50).map(|_| made::flow(Class::Contender, Some(10.0))).collect()))
        .collect();
    let entrant = |at| Entrant::new(&scenario, condition, at, Some(0), true, &runs);
    let findings = verdict::findings(&scenario, condition, &[entrant(0), entrant(1), entrant(2), entrant(3)]);
    let others: Vec<&str> = findings[0].others.iter().map(|other| other.name.as_str()).collect();
    assert_eq!(others, ["tcp@2", "min_rtt"]);
    // Flows of a megabyte are still short, so that there is a verdict on their tail.
    assert_eq!(findings.len(), 2);
}

#[test]
fn a_plain_tcp_with_another_congestion_control_is_a_rival_and_longer_flows_have_no_verdict_on_their_tail() {
    let other = "['tcp', { scheduler = 'tcp@1', name = 'bbr', congestion = 'bbr' }]";
    let text = PATHS.replace("['tcp', 'min_rtt']", other);
    let scenario = made::scenario(&format!("{text}traffic = {{ size = '1001 KB' }}"));
    let condition = &scenario.conditions[0];
    let runs: Vec<RunResult> = (0..2)
        .map(|_| made::run_of((0..50).map(|_| made::flow(Class::Contender, Some(10.0))).collect()))
        .collect();
    let entrant = |at| Entrant::new(&scenario, condition, at, Some(0), true, &runs);
    let findings = verdict::findings(&scenario, condition, &[entrant(0), entrant(1)]);
    assert_eq!((findings.len(), findings[0].others[0].name.as_str()), (1, "bbr"));
}

/// Three background flows on the first path take three of the shares there.
#[test]
fn background_flows_count_one_by_one_in_a_fair_share() {
    let scenario = made::scenario(
        "path = [{ rate = '20 Mbit/s', rtt = '20 ms' }, { rate = '20 Mbit/s', rtt = '20 ms' }]
         traffic = { size = 'bulk', beside = { flows = 1, path = 1 }, background = { path = 1, flows = 3 } }
         schedulers = ['min_rtt']
         runs = 2",
    );
    let bulk = |class| made::flow(class, Some(10.0));
    let runs: Vec<RunResult> =
        (0..2).map(|_| made::run_of(vec![bulk(Class::Contender), bulk(Class::Beside)])).collect();
    let condition = &scenario.conditions[0];
    let entrant = Entrant::new(&scenario, condition, 0, None, true, &runs);
    let found = fairness::fairness(&scenario, condition, &[entrant]);
    // Four plain TCPs have 5 Mbit/s each of the first path, and the contender the second: 20 of 25.
    let parties = &found[0].parties;
    near(parties[0].fair_share_pct, 80.0);
    near(parties[1].fair_share_pct, 20.0);
}

/// Returns the clauses on the path of the reference, by class: `own` are the paths of the first contender for the two
/// classes, and `best` are the paths of the second one, which has the measured paths.
fn detours(reference: &str, own: [usize; 2], best: [usize; 2]) -> Vec<Option<String>> {
    detours_of("size = '1 MB'", reference, own, best)
}

/// The same where the film is of this kind.
fn detours_of(film: &str, reference: &str, own: [usize; 2], best: [usize; 2]) -> Vec<Option<String>> {
    let text = PATHS.replace("['tcp', 'min_rtt']", &format!("['{reference}', 'tcp', 'min_rtt']"));
    let scenario = made::scenario(&format!(
        "{text}reference = '{reference}'
         [[traffic]]\nname = 'film'\n{film}
         [[traffic]]\nname = 'call'\nsize = '1 KB'
         [[traffic]]\nname = 'voice'\nkind = 'udp'\nsize = '100 B'\ngap = '20 ms'\nduration = '1 s'\npath = 2"
    ));
    let runs = |paths: [usize; 2]| -> Vec<RunResult> {
        let flow = |group: usize, path: usize| {
            let mut flow = made::flow(Class::Contender, Some(10.0));
            (flow.group, flow.path) = (group, path);
            flow
        };
        (0..2).map(|_| made::run_of(vec![flow(0, paths[0]), flow(1, paths[1]), flow(2, 1)])).collect()
    };
    let (own, best, multipath) = (runs(own), runs(best), runs([0, 0]));
    let condition = &scenario.conditions[0];
    let entrant = |at, path, runs| Entrant::new(&scenario, condition, at, path, true, runs);
    let all = [entrant(0, Some(0), &own), entrant(1, Some(0), &best), entrant(2, None, &multipath)];
    let findings = verdict::findings(&scenario, condition, &all);
    findings.into_iter().filter(|one| one.measure != verdict::Measure::P95).map(|one| one.detour).collect()
}

/// Without Multipath TCP no connection starts on the first path because of it.
#[test]
fn plain_tcps_have_no_sentence_on_the_path_of_multipath_connections() {
    let text = PATHS.replace("['tcp', 'min_rtt']", "['tcp@2', 'tcp']");
    let scenario =
        made::scenario(&format!("{text}reference = 'tcp@2'\ntraffic = [{{ name = 'film', size = '9 MB' }}]"));
    let mut flow = made::flow(Class::Contender, Some(10.0));
    flow.path = 1;
    let runs: Vec<RunResult> = (0..2).map(|_| made::run_of(vec![flow.clone()])).collect();
    let condition = &scenario.conditions[0];
    let entrant = |at| Entrant::new(&scenario, condition, at, Some(1), true, &runs);
    let findings = verdict::findings(&scenario, condition, &[entrant(0), entrant(1)]);
    assert_eq!(findings.iter().map(|one| one.detour.clone()).collect::<Vec<_>>(), [None]);
}

/// Where all slow flows are those of one run, 100 flows say no more than a few.
#[test]
fn too_few_independent_flows_have_no_verdict_on_their_tail() {
    let scenario = made::scenario(&format!("{PATHS}traffic = {{ size = '1 KB' }}"));
    let condition = &scenario.conditions[0];
    let findings = |starts: [f64; 2]| {
        let of = |more: f64| -> Vec<RunResult> {
            let flow = |millis: f64| made::flow(Class::Contender, Some(millis));
            let run =
                |start: f64| made::run_of((0..50).map(|at| flow(start + more + f64::from(at))).collect());
            starts.into_iter().map(run).collect()
        };
        let runs = [of(0.0), of(0.25)];
        let entrant = |at: usize| Entrant::new(&scenario, condition, at, Some(0), true, &runs[at]);
        verdict::findings(&scenario, condition, &[entrant(0), entrant(1)]).len()
    };
    assert_eq!((findings([10.0, 1000.0]), findings([10.0, 10.5])), (1, 2));
}

/// The TCPs that compete with the reference are compared with themselves nowhere.
#[test]
fn competing_tcps_are_compared_with_those_that_compete_with_the_reference() {
    let scenario =
        made::scenario(&format!("{PATHS}traffic = {{ size = '1 KB', beside = {{ flows = 1, path = 1 }} }}"));
    let condition = &scenario.conditions[0];
    let of = |own: f64, beside: f64| -> Vec<RunResult> {
        let flows = || vec![made::flow(Class::Contender, Some(own)), made::flow(Class::Beside, Some(beside))];
        (0..2).map(|_| made::run_of(flows())).collect()
    };
    let (tcp, multipath) = (of(100.0, 100.0), of(50.0, 200.0));
    let entrant = |at, runs| Entrant::new(&scenario, condition, at, (at == 0).then_some(0), true, runs);
    let rows = super::rows::rows(&scenario, condition, &[entrant(0, &tcp), entrant(1, &multipath)]);
    let found: Vec<(&str, Option<f64>)> = rows
        .iter()
        .map(|row| (row.scheduler.as_str(), row.vs_reference_pct.map(|difference| difference.mean.round())))
        .collect();
    let expected = [
        ("tcp", Some(0.0)),
        ("tcp beside tcp", None),
        ("min_rtt", Some(-50.0)),
        ("tcp beside min_rtt", Some(100.0)),
    ];
    assert_eq!(found, expected);
}

/// All runs have the same goodput, and each handshake is lost with 5 %.
#[test]
fn the_interval_of_a_goodput_reaches_down_to_an_event_that_no_run_has_shown() {
    let lower = |loss: &str| {
        let paths = PATHS.replace("rtt = '20 ms'", &format!("rtt = '20 ms', loss = '{loss}'"));
        let scenario = made::scenario(&format!("{paths}traffic = {{ size = 'bulk', duration = '2 s' }}"));
        let condition = &scenario.conditions[0];
        let runs = made::runs([10.0; 30]);
        let entrant = |at| Entrant::new(&scenario, condition, at, Some(0), true, &runs);
        let row = super::rows::rows(&scenario, condition, &[entrant(0), entrant(1)]).remove(0);
        let interval = row.goodput_ci95_bps.unwrap();
        near(interval.1, row.goodput_bps.unwrap());
        interval.0 / row.goodput_bps.unwrap()
    };
    near(lower("0"), 1.0);
    // A lost SYN takes half of two seconds; a second one in a row takes all of them.
    let found = lower("5%");
    assert!((0.9..0.98).contains(&found), "{found}");
}

#[test]
fn a_reference_that_a_class_would_have_on_another_path_says_so() {
    // The reference is on the first path with everything; a call has the second one as its best.
    let found = detours("tcp@1", [0, 0], [0, 1]);
    assert_eq!(found[0], None);
    assert_eq!(found[1].as_deref(), Some("tcp@1 uses path 1, and the best single path for call is path 2"));
    // On the best path of both, which is not the one on which connections start.
    let found = detours("tcp@2", [1, 1], [1, 1]);
    let sentence = "tcp@2 uses path 2, and multipath connections start on path 1";
    assert!(found[..2].iter().all(|one| one.as_deref() == Some(sentence)), "{found:?}");
    // Datagrams have the path of their class with every contender.
    assert_eq!(found[2], None);
    assert_eq!(detours("tcp@1", [0, 0], [0, 0]), [None, None, None]);
    // A film with several bitrates has two measures, and the sentence once.
    let video = "kind = 'video'\nbitrate = ['1 Mbit/s', '2 Mbit/s']\nduration = '10 s'";
    let found = detours_of(video, "tcp@2", [1, 1], [1, 1]);
    assert_eq!((found[0].as_deref(), found[1].as_deref()), (Some(sentence), None), "{found:?}");
}
