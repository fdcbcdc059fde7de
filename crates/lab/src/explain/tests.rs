//! Accounts of simulated flows whose causes are known.

use core::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::account::Account;
use super::cause::Cause;
use crate::compare::Job;
use crate::run::Prepared;
use crate::scenario::Document;

/// Returns the accounts of the flows of run 0, with each completion time.
fn accounts(text: &str, run: u32) -> Vec<(Account, Option<u64>)> {
    let scenario = Document::parse("test.toml", text, ".").unwrap().scenario().unwrap();
    let prepared = Prepared::for_comparison(&scenario, 0).unwrap();
    let job = Job { run, ..Job::default() };
    let (result, notes) = prepared.run_noted(&job, &AtomicBool::new(false)).unwrap();
    let mut stories = notes.into_stories();
    let direction = scenario.conditions[0].experiment.traffic.direction;
    let flows = result.flows.iter().enumerate();
    flows
        .filter_map(|(flow, result)| {
            Some((Account::new(&mut stories, flow, direction)?, result.report.fct.map(|fct| fct.0)))
        })
        .collect()
}

fn show(account: &Account) -> String {
    let parts = account.parts();
    let line = |cause: Cause| {
        format!(
            "{:>18} {:>12.3} {:>12.3}\n",
            cause.name(),
            parts[cause] as f64 / 1e6,
            account.bytes[cause] as f64 / 1e6 / account.count as f64
        )
    };
    Cause::ALL.into_iter().map(line).collect()
}

#[test]
fn probe() {
    let text = std::env::var("PROBE").unwrap();
    for (account, fct) in accounts(&text, 0) {
        println!("total {:?} fct {fct:?} sum {}", account.total, account.parts().total());
        println!("{}", show(&account));
        if std::env::var("CHARGES").is_ok() {
            for charge in account.charges.iter().rev() {
                println!("{charge:?}");
            }
        }
        assert_eq!(Some(account.total.0), fct);
        assert_eq!(account.parts().total(), u128::from(account.total.0));
    }
}
