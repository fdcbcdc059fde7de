//! Checks the prediction of a comparison on this machine: its best contender and its reference are emulated
//! for a few runs with anabranch's stack, and with the kernel's if it has the same sender.

use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_lab::compare::Comparison;
use anabranch_lab::report::verdict::{Measure, Verdict};
use anabranch_lab::scenario::{Contender, Scenario, Transport};
use serde::Serialize;

use crate::measure::{Kind, Measured, Metric, Quality};
use crate::one_run::one_run;
use crate::points::{Point, PointError};
use crate::results::Trouble;
use crate::simulated;

/// A measured difference within this many points of the simulated one confirms it.
pub const TOLERANCE: f64 = 5.0;
/// The number of attempts for a run until the machine is punctual.
const ATTEMPTS: u32 = 3;

/// The result of checking a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The measured difference is within [`TOLERANCE`] of the simulated one.
    Held,
    /// The same contender is better, but by another amount.
    OrderHeld,
    /// The other contender is better.
    Failed,
    /// The machine was too slow, or the transfers were not delivered.
    Unknown,
}

/// A contender in the check: means of the measure over its runs, in seconds or bit/s.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// The name of the contender.
    pub scheduler: String,
    /// The simulated value in these runs.
    pub simulated: Option<f64>,
    /// The emulated value with anabranch at both ends.
    pub anabranch: Option<f64>,
    /// The emulated value with the kernel at both ends; none if the kernel has no such sender.
    pub kernel: Option<f64>,
}

/// A difference measured with one stack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StackCheck {
    /// `anabranch` or `kernel`.
    pub stack: &'static str,
    /// The simulated difference in the runs that count, in per cent.
    pub simulated_pct: Option<f64>,
    /// The measured difference.
    pub measured_pct: Option<f64>,
    /// The number of runs that count.
    pub runs: usize,
    /// The result.
    pub outcome: Outcome,
}

/// The check of a condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// The condition; empty if there is only one.
    pub condition: String,
    /// The class of traffic, if the scenario has classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<String>,
    /// The measure of the verdict.
    pub measure: Measure,
    /// The best contender other than the reference.
    pub compared: Side,
    /// The contender with which the best one is compared, such as TCP.
    pub reference: Side,
    /// The difference predicted by the comparison, in per cent.
    pub predicted_pct: f64,
    /// The checks by stack.
    pub stacks: Vec<StackCheck>,
}

impl Check {
    /// True if the prediction held with every stack.
    pub fn held(&self) -> bool {
        self.stacks.iter().all(|stack| matches!(stack.outcome, Outcome::Held | Outcome::OrderHeld))
    }
}

/// Checks that every contender of `scenario` can be emulated.
///
/// # Errors
/// The reason that one cannot.
pub fn ready(scenario: &Scenario) -> Result<(), PointError> {
    for condition in 0..scenario.conditions.len() {
        for contender in 0..scenario.contenders.len() {
            Point::emulated(single(scenario, condition, contender, None))?;
        }
    }
    Ok(())
}

/// Checks the verdicts of `comparison` in `runs` runs of each: not those about percentiles, for which a few runs
/// are too few, and about the bitrates of videos, which are not measured in real time. `progress` receives the number
/// of completed runs, and the total.
///
/// # Errors
/// If nothing can be emulated, or `cancelled` is set.
pub fn check(
    scenario: &Scenario,
    comparison: &Comparison,
    runs: u32,
    cancelled: &AtomicBool,
    progress: &dyn Fn(usize, usize),
) -> Result<Vec<Check>, Trouble> {
    let verdicts = of_means(&comparison.verdicts);
    let (mut done, total) = (0, verdicts.len() * 4 * runs as usize);
    let mut checks = Vec::new();
    for (verdict, metric) in verdicts {
        let names = verdict.compared.as_ref().zip(verdict.reference.as_ref());
        let Some(((compared, reference), predicted)) = names.zip(verdict.difference_pct) else { continue };
        let side = |name: &str| Entrant::find(scenario, comparison, verdict, name);
        let (Some(compared), Some(reference)) = (side(compared), side(reference)) else { continue };
        let mut measure = |entrant: &Entrant| {
            entrant.measure(metric, runs, cancelled, &mut || {
                done += 1;
                progress(done, total);
            })
        };
        let (first, second) = (measure(&compared)?, measure(&reference)?);
        let mut stacks =
            vec![judge("anabranch", predicted.mean, &first, &second, |values| &values.anabranch)];
        if compared.kernel.is_some() && reference.kernel.is_some() {
            stacks.push(judge("kernel", predicted.mean, &first, &second, |values| &values.kernel));
        }
        checks.push(Check {
            condition: verdict.condition.clone(),
            traffic: verdict.traffic.clone(),
            measure: verdict.measure,
            compared: first.side(&compared.name),
            reference: second.side(&reference.name),
            predicted_pct: predicted.mean,
            stacks,
        });
    }
    Ok(checks)
}

/// Returns the verdicts that can be checked, which are on means, each with its metric.
pub(crate) fn of_means(verdicts: &[Verdict]) -> Vec<(&Verdict, Metric)> {
    verdicts.iter().filter_map(|verdict| Some((verdict, metric(verdict.measure)?))).collect()
}

/// Returns the metric of a run in real time for a measure; none if it has none.
const fn metric(measure: Measure) -> Option<Metric> {
    match measure {
        Measure::MeanTime => Some(Metric::CompletionTime),
        Measure::Goodput => Some(Metric::Goodput),
        Measure::ResponseTime => Some(Metric::ResponseTime),
        Measure::Waiting => Some(Metric::Waiting),
        Measure::Delay => Some(Metric::DatagramDelay),
        Measure::BurstDelay => Some(Metric::Lateness),
        Measure::P95 | Measure::Bitrate => None,
    }
}

/// A contender to check: its flows for anabranch's stack, and for the kernel's if that has an equivalent.
struct Entrant {
    name: String,
    /// The position of the class of traffic.
    class: usize,
    emulated: Point,
    kernel: Option<Point>,
}

/// The results of one contender, by run.
#[derive(Default)]
struct Values {
    simulated: Vec<Option<f64>>,
    anabranch: Vec<Option<f64>>,
    kernel: Vec<Option<f64>>,
}

/// Returns the scenario with one condition and one contender. A plain TCP without a path gets the path
/// `path`.
pub(crate) fn single(
    scenario: &Scenario,
    condition: usize,
    contender: usize,
    path: Option<usize>,
) -> Scenario {
    let mut one = scenario.clone();
    let mut own: Contender = one.contenders.swap_remove(contender);
    if let Transport::Tcp { path: at @ None } = &mut own.transport {
        *at = Some(path.unwrap_or(0));
    }
    let mut kept = one.conditions.swap_remove(condition);
    kept.configs = vec![kept.configs.swap_remove(contender)];
    (one.contenders, one.conditions, one.reference) = (vec![own], vec![kept], None);
    one
}

impl Entrant {
    /// Returns the contender `name` under the condition of a verdict, or a plain TCP on the best path of the
    /// comparison for the verdict's traffic.
    fn find(scenario: &Scenario, comparison: &Comparison, verdict: &Verdict, name: &str) -> Option<Entrant> {
        let at = scenario.conditions.iter().position(|own| own.name == verdict.condition)?;
        let experiment = &scenario.conditions[at].experiment;
        let class = match &verdict.traffic {
            None => 0,
            Some(traffic) => experiment.classes.iter().position(|own| own.name == *traffic)?,
        };
        let contender = scenario.contenders.iter().position(|own| own.name == name)?;
        let row = comparison.rows.iter().find(|row| {
            row.condition == verdict.condition && row.traffic == verdict.traffic && row.scheduler == name
        });
        let path = row.and_then(|row| row.path.as_ref());
        let paths = experiment.paths();
        let path = path.and_then(|path| paths.iter().position(|own| own.name == *path));
        let one = single(scenario, at, contender, path);
        let kernel = Point::of(one.clone()).ok().and_then(|points| points.into_iter().next());
        Some(Entrant { name: name.to_owned(), class, emulated: Point::emulated(one).ok()?, kernel })
    }

    fn measure(
        &self,
        metric: Metric,
        runs: u32,
        cancelled: &AtomicBool,
        done: &mut dyn FnMut(),
    ) -> Result<Values, Trouble> {
        let of = |point: &Point, run: &Measured| metric.of(point, run.of_class(self.class)?);
        let mut values = Values::default();
        for run in 0..runs {
            let measured = simulated::run(&self.emulated, run, cancelled, None).map_err(Trouble::failed)?;
            values.simulated.push(of(&self.emulated, &measured));
            for kind in [Kind::Emulated, Kind::Kernel] {
                let (point, list) = match kind {
                    Kind::Kernel => (self.kernel.as_ref(), &mut values.kernel),
                    _ => (Some(&self.emulated), &mut values.anabranch),
                };
                list.push(match point {
                    Some(point) => in_real_time(point, kind, run, cancelled)?.and_then(|own| of(point, &own)),
                    None => None,
                });
                done();
            }
        }
        Ok(values)
    }
}

/// Makes a run in real time; none if the machine was too slow in every attempt.
fn in_real_time(
    point: &Point,
    kind: Kind,
    run: u32,
    cancelled: &AtomicBool,
) -> Result<Option<Measured>, Trouble> {
    punctual(point, cancelled, || one_run(point, kind, run, cancelled, None))
}

/// Returns the first run of `make` that is punctual; none if no attempt is.
fn punctual(
    point: &Point,
    cancelled: &AtomicBool,
    mut make: impl FnMut() -> Result<(Measured, Quality), Trouble>,
) -> Result<Option<Measured>, Trouble> {
    for _ in 0..ATTEMPTS {
        let made = make();
        if cancelled.load(Ordering::Relaxed) {
            return Err(Trouble::Interrupted);
        }
        let (measured, quality) = made?;
        if quality.objection(point.shortest_rtt()).is_none() {
            return Ok(Some(measured));
        }
    }
    Ok(None)
}

impl Values {
    fn side(&self, name: &str) -> Side {
        Side {
            scheduler: name.to_owned(),
            simulated: mean(&self.simulated),
            anabranch: mean(&self.anabranch),
            kernel: mean(&self.kernel),
        }
    }
}

fn mean(values: &[Option<f64>]) -> Option<f64> {
    anabranch_lab::stats::mean(&values.iter().flatten().copied().collect::<Vec<_>>())
}

/// Returns the difference between two contenders, in per cent of the second, over their common runs, as
/// `measured` and as simulated.
fn judge(
    stack: &'static str,
    predicted: f64,
    first: &Values,
    second: &Values,
    measured: fn(&Values) -> &Vec<Option<f64>>,
) -> StackCheck {
    let (mut simulated_sums, mut measured_sums, mut runs) = ((0.0, 0.0), (0.0, 0.0), 0);
    let simulated = first.simulated.iter().zip(&second.simulated);
    for (simulated, measured) in simulated.zip(measured(first).iter().zip(measured(second))) {
        if let ((Some(a), Some(b)), (Some(c), Some(d))) = (simulated, measured) {
            simulated_sums = (simulated_sums.0 + a, simulated_sums.1 + b);
            measured_sums = (measured_sums.0 + c, measured_sums.1 + d);
            runs += 1;
        }
    }
    let percent = |(a, b): (f64, f64)| (runs > 0 && b > 0.0).then(|| 100.0 * (a - b) / b);
    let (simulated_pct, measured_pct) = (percent(simulated_sums), percent(measured_sums));
    let outcome = match simulated_pct.zip(measured_pct) {
        None => Outcome::Unknown,
        Some((simulated, measured)) if (measured - simulated).abs() <= TOLERANCE => Outcome::Held,
        Some((_, measured)) if measured * predicted > 0.0 => Outcome::OrderHeld,
        Some(_) => Outcome::Failed,
    };
    StackCheck { stack, simulated_pct, measured_pct, runs, outcome }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_lab::scenario::Document;

    fn values(simulated: &[f64], anabranch: &[Option<f64>]) -> Values {
        Values {
            simulated: simulated.iter().copied().map(Some).collect(),
            anabranch: anabranch.to_vec(),
            kernel: vec![None; simulated.len()],
        }
    }

    #[test]
    fn a_prediction_holds_if_the_difference_is_about_the_same_or_the_order() {
        let reference = values(&[1.0, 1.0], &[Some(1.0), Some(1.0)]);
        let outcome = |predicted: f64, simulated: f64, measured: f64| {
            let first = values(&[simulated, simulated], &[Some(measured), Some(measured)]);
            judge("anabranch", predicted, &first, &reference, |values| &values.anabranch).outcome
        };
        assert_eq!(outcome(-10.0, 0.9, 0.94), Outcome::Held);
        // A different sign within the tolerance is not another prediction.
        assert_eq!(outcome(-2.0, 0.98, 1.02), Outcome::Held);
        assert_eq!(outcome(-30.0, 0.7, 0.9), Outcome::OrderHeld);
        assert_eq!(outcome(-10.0, 0.9, 1.06), Outcome::Failed);
        assert_eq!(outcome(10.0, 1.1, 0.9), Outcome::Failed);
        // The order comes from the prediction, which is of all runs: these have the other sign, as simulated.
        assert_eq!(outcome(-3.0, 1.02, 0.9), Outcome::OrderHeld);
        assert_eq!(outcome(-3.0, 1.02, 1.2), Outcome::Failed);
    }

    #[test]
    fn runs_count_that_both_have() {
        let first = values(&[1.0, 9.0, 9.0], &[Some(2.0), None, Some(9.0)]);
        let second = values(&[2.0, 1.0, 1.0], &[Some(4.0), Some(1.0), None]);
        let check = judge("anabranch", -50.0, &first, &second, |values| &values.anabranch);
        assert_eq!((check.runs, check.simulated_pct, check.measured_pct), (1, Some(-50.0), Some(-50.0)));
        let kernel = judge("kernel", -50.0, &first, &second, |values| &values.kernel);
        assert_eq!((kernel.runs, kernel.outcome), (0, Outcome::Unknown));
    }

    #[test]
    fn percentiles_are_not_checked_by_the_means_of_a_few_runs() {
        let verdict = |measure| Verdict {
            condition: String::new(),
            traffic: None,
            measure,
            outcome: anabranch_lab::report::verdict::Outcome::Best,
            best: Vec::new(),
            tied: Vec::new(),
            compared: None,
            reference: None,
            difference_pct: None,
            runs_needed: None,
        };
        let verdicts = [Measure::MeanTime, Measure::P95, Measure::Goodput].map(verdict);
        let measures: Vec<Measure> = of_means(&verdicts).iter().map(|(verdict, _)| verdict.measure).collect();
        assert_eq!(measures, [Measure::MeanTime, Measure::Goodput]);
    }

    #[test]
    fn a_contender_is_taken_out_with_its_path() {
        let mut document = Document::bare();
        document.set_paths(&["8Mbit/s,10ms".to_owned(), "4Mbit/s,10ms".to_owned()]).unwrap();
        let names = ["min_rtt", "tcp", "linux"].map(str::to_owned);
        document.set_schedulers("--schedulers", &names);
        let scenario = document.scenario().unwrap();
        ready(&scenario).unwrap();
        let tcp = single(&scenario, 0, 1, Some(1));
        assert_eq!(tcp.contenders[0].transport, Transport::Tcp { path: Some(1) });
        assert!(!tcp.conditions[0].configs[0].mptcp && tcp.conditions[0].configs.len() == 1);
        assert!(Point::of(tcp).is_ok());
        // The kernel has only its own scheduler, and anabranch all.
        assert!(Point::of(single(&scenario, 0, 2, None)).is_ok());
        let min_rtt = single(&scenario, 0, 0, None);
        assert!(Point::of(min_rtt.clone()).is_err() && Point::emulated(min_rtt).is_ok());
    }

    #[test]
    fn a_class_is_checked_by_its_own_measure_with_the_tcp_of_its_own_best_path() {
        let mut document = Document::bare();
        // Photos are soonest over the path with the shorter RTT, and the film over the path with the higher rate.
        document.set_paths(&["2Mbit/s,10ms".to_owned(), "40Mbit/s,100ms".to_owned()]).unwrap();
        document.set_schedulers("--schedulers", &["linux", "tcp"].map(str::to_owned));
        let photos = "{name='photos',kind='requests',size='4 KB',requests=4,think='50 ms'}";
        let film = "{name='film',size='4 MB',start='2 s'}";
        let call = "{name='call',path='2',kind='udp',rate='100 kbit/s',duration='1 s'}";
        document.set(&format!("traffic=[{photos},{film},{call}]")).unwrap();
        document.set("runs=3").unwrap();
        let scenario = document.scenario().unwrap();
        ready(&scenario).unwrap();
        let never = AtomicBool::new(false);
        let options = anabranch_lab::options::Options::new(1, &never, &|_, _| ());
        let comparison = anabranch_lab::compare::compare(&scenario, &options).unwrap();
        let of = |name: &str, measure: Measure| {
            let verdict =
                comparison.verdicts.iter().find(|own| own.traffic.as_deref() == Some(name)).unwrap();
            assert_eq!(verdict.measure, measure);
            Entrant::find(&scenario, &comparison, verdict, "tcp").unwrap()
        };
        let path = |entrant: &Entrant| match entrant.emulated.scenario.contenders[0].transport {
            Transport::Tcp { path } => path,
            Transport::Multipath(_) => None,
        };
        let (photos, film) = (of("photos", Measure::ResponseTime), of("film", Measure::MeanTime));
        assert_eq!((path(&photos), path(&film)), (Some(0), Some(1)));
        assert_eq!((photos.class, film.class), (0, 1));
        assert!(photos.kernel.is_some() && film.kernel.is_some());
    }

    #[test]
    fn a_run_counts_once_the_machine_is_punctual() {
        let mut document = Document::bare();
        document.set_paths(&["8Mbit/s,10ms".to_owned()]).unwrap();
        document.set_schedulers("--schedulers", &["min_rtt".to_owned()]);
        let point = Point::emulated(document.scenario().unwrap()).unwrap();
        let never = AtomicBool::new(false);
        // The number of late runs before a punctual one.
        let first = |late: u32| {
            let mut made = 0;
            let run = punctual(&point, &never, || {
                made += 1;
                let lost = u64::from(made <= late);
                let measured = Measured { delivered: made.into(), ..Measured::default() };
                Ok((measured, Quality { lost, ..Quality::default() }))
            });
            run.unwrap().map(|run| run.delivered)
        };
        assert_eq!((first(0), first(2), first(ATTEMPTS)), (Some(1), Some(3), None));
    }

    #[test]
    fn a_profile_that_exists_only_in_the_simulator_is_refused() {
        let scenario = Document::open("dmptcp-eight-paths").unwrap().scenario().unwrap();
        let why = ready(&scenario).unwrap_err().to_string();
        assert!(why.contains("only in the simulator"), "{why}");
    }

    #[test]
    fn a_check_holds_if_every_stack_was_measured_and_kept_the_order() {
        let side = || values(&[], &[]).side("linux");
        let with = |outcomes: &[Outcome]| {
            let stack = |outcome: &Outcome| StackCheck {
                stack: "anabranch",
                simulated_pct: None,
                measured_pct: None,
                runs: 1,
                outcome: *outcome,
            };
            Check {
                condition: String::new(),
                traffic: None,
                measure: Measure::MeanTime,
                compared: side(),
                reference: side(),
                predicted_pct: -10.0,
                stacks: outcomes.iter().map(stack).collect(),
            }
            .held()
        };
        assert!(with(&[Outcome::Held, Outcome::OrderHeld]));
        assert!(!with(&[Outcome::Held, Outcome::Failed]) && !with(&[Outcome::Held, Outcome::Unknown]));
    }
}
