//! Compares a scheduler of your own with minRTT: `cargo run --release -p anabranch-example-own-scheduler`.

mod scheduler;

use std::error::Error;
use std::sync::atomic::AtomicBool;

use anabranch_lab::compare::compare;
use anabranch_lab::options::Options;
use anabranch_lab::scenario::{Document, Scenario};
use anabranch_stack::scheduler::{CustomSchedulerKind, SchedulerKind};
use anabranch_units::Duration;
use scheduler::Thrifty;

const SCENARIO: &str = "
    schedulers = ['tcp@free', 'min_rtt', { scheduler = 'min_rtt', name = 'thrifty' }]
    runs = 10
    path = [
        { name = 'free', rate = '20 Mbit/s', rtt = '30 ms' },
        { name = 'metered', rate = '50 Mbit/s', rtt = '50 ms', loss = '0.1%' },
    ]
    traffic = { size = '1 MB' }
";

/// The scenario, with the scheduler in the place of the one that stands for it.
fn scenario() -> Result<Scenario, Box<dyn Error>> {
    let mut scenario = Document::parse("example", SCENARIO, ".")?.scenario()?;
    let build = || Box::new(Thrifty { patience: Duration::from_millis(300) }) as _;
    let thrifty = SchedulerKind::Custom(CustomSchedulerKind::new("thrifty", build));
    for condition in &mut scenario.conditions {
        condition.configs[2].scheduler = thrifty.clone();
    }
    Ok(scenario)
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options {
        jobs: 0,
        cancelled: &AtomicBool::new(false),
        progress: &|_, _| (),
        captures: None,
        every_path: false,
        in_rounds: true,
    };
    let comparison = compare(&scenario()?, &options)?;
    for row in &comparison.rows {
        let mean = row.fct_s.mean.unwrap_or(f64::NAN) * 1e3;
        println!("{:<10} {mean:>7.1} ms  bytes by path {:?}", row.scheduler, row.bytes_by_path);
    }
    println!("{}", comparison.verdict);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_spends_less_than_min_rtt_on_the_metered_path() {
        let options = Options {
            jobs: 1,
            cancelled: &AtomicBool::new(false),
            progress: &|_, _| (),
            captures: None,
            every_path: false,
            in_rounds: true,
        };
        let comparison = compare(&scenario().unwrap(), &options).unwrap();
        let metered = |at: usize| comparison.rows[at].bytes_by_path[1];
        assert!(comparison.rows.iter().all(|row| row.completed == row.n));
        assert!(metered(2) < metered(1) && metered(1) > metered(0));
    }
}
