//! Runs for tests: simulated once, and then given the values of the test. So a new field of a report needs no change here.

use core::sync::atomic::AtomicBool;
use std::sync::OnceLock;

use anabranch_sim::application::Exchange;
use anabranch_sim::{AppReport, Outcome};
use anabranch_units::{Bytes, Duration, Time};

use crate::compare::{Comparison, compare};
use crate::options::Options;
use crate::run::{Class, FlowResult, Prepared, RunResult};
use crate::scenario::{Document, Scenario};

pub(crate) fn scenario(text: &str) -> Scenario {
    Document::parse("test.toml", text, ".").unwrap().scenario().unwrap()
}

/// Two paths, one flow of 1 KB, and three contenders.
pub(crate) const TWO_PATHS: &str = "
    path = [{ rate = '10 Mbit/s', rtt = '10 ms' }, { rate = '5 Mbit/s', rtt = '30 ms' }]
    traffic = { size = '1 KB' }
    schedulers = ['tcp', 'min_rtt', 'blest']
    runs = 2
";

/// Returns the first run of the contender at `position`.
pub(crate) fn run(scenario: &Scenario, position: usize) -> RunResult {
    let prepared = Prepared::new(scenario, 0).unwrap();
    prepared.run(position, 0, &AtomicBool::new(false)).unwrap()
}

pub(crate) fn compared(scenario: &Scenario) -> Comparison {
    let cancelled = AtomicBool::new(false);
    compare(scenario, &Options::new(1, &cancelled, &|_, _| {})).unwrap()
}

fn template() -> &'static RunResult {
    static RUN: OnceLock<RunResult> = OnceLock::new();
    RUN.get_or_init(|| run(&scenario(TWO_PATHS), 1))
}

/// Returns a flow of 1000 bytes that took `millis` milliseconds; one that was not delivered had a minute.
pub(crate) fn flow(class: Class, millis: Option<f64>) -> FlowResult {
    let mut flow = template().flows[0].clone();
    let fct = millis.map(|millis| Duration::from_secs_f64(millis / 1e3));
    flow.report.size = Some(Bytes(1000));
    (flow.report.fct, flow.report.acked) = (fct, fct);
    flow.report.outcome = if fct.is_some() { Outcome::Completed } else { Outcome::Running };
    flow.report.delivered = if fct.is_some() { 1000 } else { 0 };
    flow.time = fct.unwrap_or(Duration::from_secs(60));
    flow.class = class;
    flow
}

/// Returns the report of requests of 100 bytes, with responses of 1000, that took these milliseconds; none: it was not answered.
pub(crate) fn requests(millis: impl IntoIterator<Item = Option<u64>>) -> AppReport {
    let one = |millis: Option<u64>| Exchange {
        at: Time::ZERO,
        request: 100,
        response: 1000,
        time: millis.map(Duration::from_millis),
    };
    AppReport::Requests(millis.into_iter().map(one).collect())
}

/// Returns a run with `flows`.
pub(crate) fn run_of(flows: Vec<FlowResult>) -> RunResult {
    RunResult { flows, ..template().clone() }
}

/// Returns runs of one flow of the contender each, which took these milliseconds.
pub(crate) fn runs(millis: impl IntoIterator<Item = f64>) -> Vec<RunResult> {
    millis.into_iter().map(|millis| run_of(vec![flow(Class::Contender, Some(millis))])).collect()
}
