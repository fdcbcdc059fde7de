//! The candidates that are screened, and the reading of a judgement.

use core::sync::atomic::AtomicBool;

use super::*;
use crate::made;
use crate::report::Difference;

const PATHS: &str = "
    path = [
        { rate = '10 Mbit/s', rtt = '10 ms', backup = true },
        { rate = '5 Mbit/s', rtt = '60 ms' },
        { rate = '5 Mbit/s', rtt = '30 ms' },
    ]
    traffic = { size = '20 KB' }
    initial = 'best'
";

fn with_setting<T>(text: &str, test: impl FnOnce(&Setting<'_>) -> T) -> T {
    let document = Document::parse("test.toml", text, ".").unwrap();
    let cancelled = AtomicBool::new(false);
    let options =
        Options { jobs: 1, cancelled: &cancelled, progress: &|_| {}, condition: None, margins: false };
    test(&Setting::new(&document, &options).unwrap_or_else(|error| panic!("{error:?}")))
}

#[test]
fn a_connection_starts_on_no_backup_unless_there_are_only_backups() {
    assert_eq!(with_setting(PATHS, |setting| setting.starts()), [2, 1], "the nearer one first");
    let all = PATHS.replace("60 ms'", "60 ms', backup = true").replace("30 ms'", "30 ms', backup = true");
    assert_eq!(with_setting(&all, |setting| setting.starts()), [0, 2, 1]);
    let given = PATHS.replace("initial = 'best'", "initial = 1");
    assert_eq!(with_setting(&given, |setting| setting.starts()), [0]);
}

#[test]
fn an_answer_is_the_reading_of_the_difference_by_the_measure() {
    let candidate = plain(&"min_rtt");
    let answers = |size: &str| -> Vec<Answer> {
        let text = made::TWO_PATHS.replace("'1 KB'", size);
        let mut judgement = made::compared(&made::scenario(&text));
        judgement.min_effect_pct = 1.0;
        with_setting(&text, |setting| {
            let mut answer = |difference: Option<Difference>| {
                let row = judgement.rows.iter_mut().find(|row| row.scheduler == "min_rtt").unwrap();
                row.vs_reference_pct = difference;
                setting.answer(&judgement, &candidate)
            };
            let of = |mean, low, high| Some(Difference { mean, ci95: Some(Interval(low, high)) });
            [of(5.0, 4.0, 6.0), of(-5.0, -6.0, -4.0), of(0.5, 0.4, 0.6), of(5.0, -1.0, 11.0), None]
                .into_iter()
                .map(&mut answer)
                .collect()
        })
    };
    use Answer::{Costs, Equal, Pays, Undecided};
    assert_eq!(answers("'1 KB'"), [Costs, Pays, Equal, Undecided, Undecided]);
    assert_eq!(answers("'bulk', duration = '100 ms'"), [Pays, Costs, Equal, Undecided, Undecided]);
}

/// BBR is faster over a lossy path; it is named only if that is more than the least difference that counts.
#[test]
fn tcp_has_another_congestion_control_only_if_that_matters() {
    let lossy = |min_effect: &str| {
        let text = format!(
            "path = [{{ rate = '10 Mbit/s', rtt = '40 ms', loss = '3%' }}, {{ rate = '1 Mbit/s', rtt = '300 ms' }}]
             traffic = {{ size = '200 KB' }}\nmin-effect = {min_effect}\nschedulers = ['tcp', 'min_rtt']"
        );
        with_setting(&text, |setting| {
            let before = setting.compare(&Plan::screening(&[], 0, None), &[]).unwrap();
            setting.single_congestion(&before, 0).unwrap()
        })
    };
    assert_eq!(lossy("0.01").as_deref(), Some("bbr"));
    assert_eq!(lossy("0.99"), None);
}

#[test]
fn the_nearest_to_a_stock_host_is_advised_among_candidates_that_are_practically_equal() {
    let candidate = |scheduler: &str, congestion: Option<&str>| Candidate {
        name: scheduler.to_owned(),
        scheduler: scheduler.to_owned(),
        congestion: congestion.map(str::to_owned),
    };
    let all = [candidate("dmptcp", Some("lia")), candidate("blest", None), candidate(KERNEL, None)];
    assert_eq!(nearest(&all, &[1.0, 1.005, 1.009], 0.01), 2);
    assert_eq!(nearest(&all, &[1.0, 1.005, 1.02], 0.01), 1);
    assert_eq!(nearest(&all, &[1.0, 1.02, 1.03], 0.01), 0);
    // Values of bulk are negative.
    assert_eq!(nearest(&all, &[-2.0, -1.99, -1.9], 0.01), 1);
    assert_eq!(nearest(&all[..1], &[f64::INFINITY], 0.01), 0);
}
