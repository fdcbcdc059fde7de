//! The field's acceptance matrix, as far as views show it: the behaviour of each scheduler in a few thousand
//! of them. The rows that need a network are in `crates/sim/tests/schedulers`.

use crate::scheduler_common;

use anabranch_stack::event::SubflowSet;
use anabranch_stack::parameter::{Parameterised, Value};
use anabranch_stack::scheduler::{
    AssignKind, Decision, Dmptcp, DmptcpOptions, Scheduler, SchedulerKind, SubflowView, View,
};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use scheduler_common::{Connection, Licence, MSS, any_connection};

/// True always, never, or sometimes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Is {
    Always,
    Never,
    Sometimes,
}

use Is::{Always, Never, Sometimes};

/// A column of the matrix: a scheduler with a parameter set, and its cells.
struct Column {
    name: &'static str,
    set: Option<(&'static str, Value)>,
    /// True if no free window is left unused while there is data for it.
    conserves: Is,
    /// True if data is sent out of order.
    reorders: Is,
    /// True if the loss rate has an effect.
    loss: Is,
    /// True if the size of the flow has an effect.
    size: Is,
    /// True if data is queued beyond the congestion window.
    queues: Is,
}

const fn column(name: &'static str, conserves: Is) -> Column {
    Column { name, set: None, conserves, reorders: Never, loss: Never, size: Never, queues: Never }
}

fn matrix() -> Vec<Column> {
    vec![
        column("min_rtt", Always),
        column("round_robin", Always),
        Column { set: Some(("cwnd-limited", Value::Bool(false))), ..column("round_robin", Sometimes) },
        column("ll_rp", Always),
        column("blest", Sometimes),
        column("ecf", Sometimes),
        Column { queues: Sometimes, ..column("daps", Sometimes) },
        Column {
            queues: Sometimes,
            reorders: Sometimes,
            set: Some(("reorder", Value::Bool(true))),
            ..column("daps", Sometimes)
        },
        Column { queues: Sometimes, ..column("otias", Sometimes) },
        Column { queues: Sometimes, ..column("sttf", Sometimes) },
        Column { loss: Sometimes, size: Sometimes, ..column("dmptcp", Sometimes) },
        column("cp_radical", Sometimes),
        column("cp_conservative", Sometimes),
        Column { reorders: Sometimes, ..column("stms_c", Sometimes) },
        Column { reorders: Sometimes, ..column("stms_a", Sometimes) },
        Column { reorders: Sometimes, loss: Sometimes, size: Sometimes, ..column("anabranch", Sometimes) },
        column("redundant", Always),
    ]
}

impl Column {
    fn kind(&self) -> SchedulerKind {
        let mut kind = SchedulerKind::from_name(self.name).expect("a built-in scheduler");
        if let Some((parameter, value)) = self.set {
            assert!(kind.set_parameter(parameter, value), "{} {parameter}", self.name);
        }
        kind
    }

    fn check(&self, what: &str, expected: Is, seen: usize, of: usize) {
        let is = match seen {
            0 => Never,
            _ if seen == of => Always,
            _ => Sometimes,
        };
        println!("{} {:?}: {what} in {seen} of {of} views", self.name, self.set.map(|(name, _)| name));
        assert_eq!(is, expected, "{} {:?}: {what} in {seen} of {of} views", self.name, self.set);
    }
}

/// Returns views without data of failed subflows, for which all have a common rule, and without queued data.
fn views() -> Vec<Connection> {
    let mut runner = TestRunner::deterministic();
    let strategy = any_connection().prop_map(|mut connection| {
        connection.reinject.clear();
        for subflow in &mut connection.subflows {
            subflow.queued = 0;
        }
        connection.licence = Licence { queues: true, reorders: true, failed: false };
        connection
    });
    (0..3000).map(|_| strategy.new_tree(&mut runner).expect("a view").current()).collect()
}

/// Returns the active subflows that may carry data, or the backups if no active one works.
fn candidates(connection: &Connection) -> impl Iterator<Item = &SubflowView> {
    let active = connection.subflows.iter().any(|s| s.usable && !s.potentially_failed && !s.backup);
    connection.subflows.iter().filter(move |s| s.may_carry() && s.backup != active)
}

/// Returns the candidates with free window for a segment although there is one for them, unassigned or queued
/// elsewhere.
fn idle(connection: &Connection) -> SubflowSet {
    let first = connection.unassigned.first();
    let whole =
        |s: &SubflowView| first.is_some_and(|f| f.len() >= s.mss && connection.window_end >= f.start + s.mss);
    let waits = |s: &SubflowView| {
        connection.subflows.iter().any(|o| o.id != s.id && o.inflight + o.queued > o.cwnd && o.queued > 0)
    };
    candidates(connection)
        .filter(|s| s.room() >= s.mss && (whole(s) || waits(s)))
        .fold(SubflowSet::EMPTY, |set, s| set.with(s.id))
}

/// Runs a scheduler until it waits; returns whether it ever queued beyond a congestion window.
fn run(connection: &mut Connection, kind: &SchedulerKind) -> bool {
    let mut scheduler = kind.build();
    let mut queues = false;
    for _ in 0..100_000 {
        let decision = scheduler.decide(&connection.view());
        if let Decision::Assign { subflow, range, .. } = decision {
            let s = connection.subflows.iter().find(|s| s.id == subflow).expect("an existing subflow");
            queues |= s.inflight + s.queued + range.len() > s.cwnd;
        }
        connection.apply(&decision).unwrap_or_else(|what| panic!("{what}"));
        if matches!(decision, Decision::Wait { .. }) {
            return queues;
        }
    }
    panic!("it never waits");
}

#[test]
fn who_uses_all_room_and_who_queues_beyond_it() {
    let views = views();
    for column in matrix() {
        let (mut used, mut queued, mut of) = (0, 0, 0);
        for view in &views {
            let mut connection = view.clone();
            queued += usize::from(run(&mut connection, &column.kind()));
            // Views without a choice are not counted.
            if candidates(view).count() > 1 && !connection.log.is_empty() {
                used += usize::from(idle(&connection) == SubflowSet::EMPTY);
                of += 1;
            }
        }
        column.check("uses all room", column.conserves, used, of);
        column.check("queues beyond the window", column.queues, queued, views.len());
    }
}

#[test]
fn dmptcp_uses_all_room_of_those_that_it_has_chosen() {
    let (mut with_idle, mut chosen_idle) = (0, 0);
    for mut connection in views() {
        let mut scheduler = Dmptcp::new(DmptcpOptions::DEFAULT);
        connection.run(&mut scheduler);
        let idle = idle(&connection);
        let Some(choice) = scheduler.choice() else { continue };
        with_idle += usize::from(idle != SubflowSet::EMPTY);
        chosen_idle +=
            usize::from(connection.subflows.iter().any(|s| idle.has(s.id) && choice.chosen.has(s.id)));
    }
    assert!(with_idle > 50, "{with_idle}");
    assert_eq!(chosen_idle, 0);
}

#[test]
fn who_takes_data_out_of_its_order() {
    let views = views();
    for column in matrix() {
        let mut reordered = 0;
        for view in &views {
            let mut connection = view.clone();
            let mut scheduler = column.kind().build();
            let mut out_of_order = false;
            for _ in 0..100_000 {
                let first = connection.unassigned.first().map(|range| range.start);
                let decision = scheduler.decide(&connection.view());
                if let Decision::Assign { range, kind: AssignKind::New, .. } = decision {
                    out_of_order |= Some(range.start) != first;
                }
                connection.apply(&decision).unwrap_or_else(|what| panic!("{what}"));
                if matches!(decision, Decision::Wait { .. }) {
                    break;
                }
            }
            reordered += usize::from(out_of_order);
        }
        column.check("takes data out of order", column.reorders, reordered, views.len());
    }
}

/// Returns the number of views in which a change of the view changes the first decision.
fn changed(column: &Column, views: &[Connection], change: impl Fn(&View<'_>) -> Decision) -> usize {
    let differs = |connection: &&Connection| {
        let view = connection.view();
        // NaN differs from itself, so the printed forms are compared, without the reasons.
        shown(&column.kind().build().decide(&view)) != shown(&change(&view))
    };
    views.iter().filter(differs).count()
}

/// Returns a decision without its reason.
fn shown(decision: &Decision) -> String {
    match decision {
        Decision::Assign { subflow, range, kind, .. } => format!("{subflow:?} {range:?} {kind:?}"),
        Decision::Recall { subflow, range, .. } => format!("{subflow:?} {range:?}"),
        Decision::Wait { until, .. } => format!("{until:?}"),
    }
}

#[test]
fn who_asks_for_the_loss_rate() {
    let views = views();
    for column in matrix() {
        let lossy = changed(&column, &views, |view| {
            let subflows: Vec<_> =
                view.subflows.iter().map(|s| SubflowView { loss_rate: 0.4, ..*s }).collect();
            column.kind().build().decide(&View { subflows: &subflows, ..*view })
        });
        column.check("asks for the loss rate", column.loss, lossy, views.len());
    }
}

#[test]
fn who_asks_for_the_size_of_the_flow() {
    let views = views();
    for column in matrix() {
        let of_size = changed(&column, &views, |view| {
            let size = View { remaining: view.remaining + 40_000 * MSS, size_known: true, ..*view };
            column.kind().build().decide(&size)
        });
        column.check("asks for the size of the flow", column.size, of_size, views.len());
    }
}

/// ECF knows the size only as far as the send buffer holds it.
#[test]
fn ecf_asks_for_the_send_buffer() {
    let longer = |name: &str| {
        let carrier = |connection: &Connection| {
            let kind = SchedulerKind::from_name(name).expect("a built-in scheduler");
            match kind.build().decide(&connection.view()) {
                Decision::Assign { subflow, .. } => Some(subflow),
                _ => None,
            }
        };
        let views = views();
        let with_data =
            views.iter().filter(|view| view.unassigned.first().is_some_and(|range| range.len() > 20 * MSS));
        let differs = |view: &&Connection| {
            let mut more = (*view).clone();
            more.unassigned.last_mut().expect("unassigned data").end += 40_000 * MSS;
            carrier(view) != carrier(&more)
        };
        with_data.filter(differs).count()
    };
    assert!(longer("ecf") > 0, "{}", longer("ecf"));
    for name in ["min_rtt", "round_robin", "blest", "redundant", "ll_rp", "cp_radical"] {
        assert_eq!(longer(name), 0, "{name}");
    }
}
