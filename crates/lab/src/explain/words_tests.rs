//! The effects of changes in words.

use super::super::row::{Excess, Largest, Subject};
use super::*;
use crate::stats::Interval;

/// Returns a row of 10 requests, some of which are completed.
fn row(completed: usize, changes: Vec<Change>) -> Row {
    let largest =
        Largest { cause: Cause::SendBuffer, path: Some("wifi".to_owned()), mean_s: 0.05, share_pct: 50.0 };
    Row {
        of: Subject {
            scheduler: "tcp".to_owned(),
            congestion: "cubic".to_owned(),
            condition: String::new(),
            traffic: None,
            path: None,
            n: 10,
            completed,
        },
        measure: "mean response time",
        noun: "request",
        explained: completed as u64,
        mean_s: Some(0.1),
        total_ns: 0,
        parts: Vec::new(),
        byte_mean_s: None,
        bytes: Vec::new(),
        outages: Vec::new(),
        longest_gap_s: None,
        fallbacks: 0,
        largest: Some(largest),
        excess: None,
        changes,
        sentence: String::new(),
    }
}

fn change(unfinished: usize, effect: Option<(f64, f64, f64)>, helps: Option<bool>) -> Change {
    Change {
        what: "more".to_owned(),
        mean_s: None,
        unfinished,
        effect_pct: effect.map(|(mean, low, high)| Difference { mean, ci95: Some(Interval(low, high)) }),
        helps,
        setting: true,
    }
}

#[test]
fn an_effect_on_times_is_of_those_that_finish_anyway_if_more_finish() {
    let of = |completed: usize, unfinished: usize, mean: f64| {
        let change = change(unfinished, Some((mean, mean - 1.0, mean + 1.0)), Some(true));
        row(completed, Vec::new()).effect(&change)
    };
    assert_eq!(
        of(10, 0, -20.0),
        "the mean response time changes by -20.0 % (95 % interval -21.0 to -19.0 %)"
    );
    assert_eq!(
        of(10, 0, 1900.0),
        "the mean response time is 20.0 times as high (95 % interval 20.0 to 20.0 times)"
    );
    let anyway = "the mean response time of those that finish anyway";
    let changes = format!("{anyway} changes by -20.0 % (95 % interval -21.0 to -19.0 %)");
    assert_eq!(of(7, 0, -20.0), format!("every request finishes, and {changes}"));
    assert_eq!(of(7, 1, -20.0), format!("2 more requests finish, and {changes}"));
    assert_eq!(of(7, 2, -20.0), format!("one more request finishes, and {changes}"));
    let times = format!("{anyway} is 20.0 times as high (95 % interval 20.0 to 20.0 times)");
    assert_eq!(of(7, 2, 1900.0), format!("one more request finishes, and {times}"));
}

#[test]
fn an_effect_of_nothing_has_no_sign() {
    let nothing = change(0, Some((-0.001, -0.01, 0.01)), Some(false));
    let row = row(10, Vec::new());
    assert_eq!(row.effect(&nothing), "the mean response time changes by 0.0 % (95 % interval 0.0 to 0.0 %)");
    assert_eq!(row.tried(&nothing), "more (0.0 %)");
}

#[test]
fn changes_that_the_runs_cannot_tell_are_not_said_to_be_useless() {
    let of = |changes: Vec<Change>| row(10, changes).words();
    let useless = || change(0, Some((0.1, -0.2, 0.4)), Some(false));
    let open = || change(0, Some((-4.0, -9.0, 1.0)), None);
    let words = of(vec![open(), useless()]);
    assert!(
        words.ends_with(
            " These runs cannot tell whether a change helps; tried: more (-4.0 %, undecided); more (+0.1 %)."
        ),
        "{words}"
    );
    let words = of(vec![useless()]);
    assert!(words.ends_with(" No change that was tried helps: more (+0.1 %)."), "{words}");
    let only = Change { effect_pct: Some(Difference { mean: -4.0, ci95: None }), ..open() };
    let words = of(vec![only]);
    assert!(words.ends_with(" One run cannot tell whether a change helps; tried: more (-4.0 %)."), "{words}");
}

/// The time of a flow that did not finish is a bound.
#[test]
fn an_excess_of_flows_that_are_not_delivered_is_at_least() {
    let of = |completed: usize, at_least: bool| {
        let excess = Excess {
            than: "blest".to_owned(),
            total_s: 0.142,
            at_least,
            cause: Cause::Queueing,
            path: None,
            cause_s: 0.155,
        };
        Row { excess: Some(excess), ..row(completed, Vec::new()) }.words()
    };
    let words = of(10, false);
    let complete =
        " It takes 142 ms more than blest, and spends 155 ms more on queueing behind other packets.";
    assert!(words.ends_with(complete), "{words}");
    let words = of(7, true);
    let bound = " It takes at least 142 ms more than blest; up to the last delivered byte, it spends 155 ms more on \
                 queueing behind other packets.";
    assert!(words.ends_with(bound), "{words}");
}

/// The application and the buffers are those of a host.
#[test]
fn only_a_cause_on_paths_names_a_path() {
    for (cause, words) in [
        (Cause::SendBuffer, "waiting for space in the send buffer"),
        (Cause::ReceiveWindow, "waiting for the receive window"),
        (Cause::Application, "waiting for the application to write"),
        (Cause::Scheduler, "waiting by decision of the scheduler"),
        (Cause::Queueing, "queueing behind other packets, mostly on wifi"),
        (Cause::Outage, "waiting because a path was down, mostly on wifi"),
    ] {
        assert_eq!(phrase(cause, Some("wifi")), words);
    }
    assert_eq!(phrase(Cause::Queueing, None), "queueing behind other packets");
    let words = row(10, Vec::new()).words();
    assert_eq!(words, "tcp: 50.0 ms of 100 ms (50 %) went into waiting for space in the send buffer.");
}
