//! Every kind of traffic has an answer from every verb that judges, by its own measure, or is refused before anything is computed.

use std::sync::atomic::AtomicBool;

use anabranch_lab::advise::{self, AdviceError, Answer, Application, advise};
use anabranch_lab::compare::compare;
use anabranch_lab::explain::{Explicable, Question, explain};
use anabranch_lab::options::Options;
use anabranch_lab::report::verdict::Measure;
use anabranch_lab::scenario::{Document, Kind};

use crate::points::Point;
use crate::prediction;

const PATHS: &str = "
    path = [{ rate = '4 Mbit/s', rtt = '20 ms' }, { rate = '2 Mbit/s', rtt = '30 ms' }]
    schedulers = ['tcp', 'linux']
    runs = 4
";

const CALL: &str = "{ name = 'call', kind = 'udp', rate = '64 kbit/s', size = '160 B', duration = '200 ms' }";

/// Each kind of traffic, its TOML, and the measure of its first verdict by the contender.
fn kinds() -> [(&'static str, String, Measure); 9] {
    let of = |text: &str| text.to_owned();
    let requests = "{ kind = 'requests', requests = 2, size = '8 KB', think = '20 ms' }";
    let sequence = "{ kind = 'requests', requests = 2, size = { distribution = 'sequence', values = ['4 KB', '9 KB'] }, think = '20 ms' }";
    let on_off = "{ kind = 'on-off', rate = '1 Mbit/s', on = '50 ms', off = '50 ms', duration = '200 ms' }";
    let video = "{ kind = 'video', bitrate = ['200 kbit/s', '1 Mbit/s'], segment = '1 s', duration = '3 s' }";
    [
        ("transfer", of("{ size = '20 KB' }"), Measure::MeanTime),
        ("several flows", of("{ size = '20 KB', flows = 2 }"), Measure::MeanTime),
        ("bulk", of("{ size = 'bulk', duration = '300 ms' }"), Measure::Goodput),
        ("requests", of(requests), Measure::ResponseTime),
        ("sequence", of(sequence), Measure::ResponseTime),
        ("on-off", of(on_off), Measure::BurstDelay),
        ("video", of(video), Measure::Waiting),
        (
            "classes",
            of(
                "[{ name = 'web', kind = 'requests', requests = 2, size = '8 KB', think = '20 ms' }, { name = 'file', size = '20 KB' }]",
            ),
            Measure::ResponseTime,
        ),
        ("a call beside", format!("[{CALL}, {{ name = 'file', size = '20 KB' }}]"), Measure::MeanTime),
    ]
}

fn document(traffic: &str) -> Document {
    Document::parse("kinds.toml", format!("{PATHS}traffic = {traffic}"), ".").unwrap()
}

fn advice(document: &Document) -> Result<advise::Advice, AdviceError> {
    let cancelled = AtomicBool::new(false);
    let options = advise::Options {
        jobs: 1,
        cancelled: &cancelled,
        progress: &|_| {},
        condition: None,
        margins: false,
        min_gain: advise::MIN_GAIN,
        application: Application::Kernel,
    };
    advise(document, &options)
}

#[test]
fn the_table_has_every_kind() {
    for name in Kind::NAMES {
        let found = kinds().iter().any(|(_, traffic, _)| {
            let scenario = document(traffic).scenario().unwrap();
            let experiment = &scenario.conditions[0].experiment;
            experiment.classes.iter().any(|class| class.kind.name() == name)
                || experiment.classes.is_empty() && name == "transfer"
        });
        assert!(found, "{name}");
    }
}

#[test]
fn every_verb_answers_for_every_kind_by_its_own_measure() {
    for (name, traffic, measure) in kinds() {
        let document = document(&traffic);
        let scenario = document.scenario().unwrap();
        let cancelled = AtomicBool::new(false);
        let options = Options::new(1, &cancelled, &|_, _| {});
        // compare, and compare --check before it emulates
        let comparison = compare(&scenario, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(comparison.is_complete(), "{name}");
        let main = scenario.conditions[0].experiment.main_class();
        let own = comparison.verdicts.iter().find(|verdict| verdict.traffic.as_deref() == main);
        let own = own.unwrap_or_else(|| panic!("{name}: no verdict"));
        assert_eq!(own.measure, measure, "{name}");
        assert!(
            own.difference_pct.is_some() && !prediction::of_means(core::slice::from_ref(own)).is_empty(),
            "{name}: {own:?}"
        );
        prediction::ready(&scenario).unwrap_or_else(|error| panic!("{name}: {error}"));
        // validate
        let (points, left_out) = Point::and_left_out(scenario.clone()).unwrap();
        assert_eq!((points.len(), left_out.len()), (2, 0), "{name}: {left_out:?}");
        // explain
        let question = Question { flow: None, changes: false };
        let explanation = explain(Explicable::new(&scenario).unwrap(), question, &options).unwrap();
        let rows = || explanation.rows.iter().filter(|row| row.of.traffic.as_deref() == main);
        assert!(rows().count() == 2 && rows().all(|row| row.largest.is_some()), "{name}");
        // advise
        let advice = advice(&document).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!(advice.measure, measure.noun(), "{name}");
        assert!(
            advice.difference_pct.is_some() && advice.answer != Answer::Incomplete,
            "{name}: {:?}",
            advice.answer
        );
    }
}

#[test]
fn traffic_that_no_contender_carries_is_refused_in_one_sentence() {
    let error = document(CALL).scenario().unwrap_err().to_string();
    assert!(error.contains("add a class of another kind than `udp`"), "{error}");
}
