//! The cells of rows, by the names of their columns.

use std::collections::BTreeMap;

use super::*;
use crate::job::Purpose;
use crate::made;

/// Returns the rows of a run, as texts by column.
fn rows(scenario: &Scenario, job: &Job, result: &RunResult) -> Vec<BTreeMap<String, String>> {
    let layout = Layout::new(scenario);
    let mut rows = Vec::new();
    let written = layout.rows(scenario, job, result, |cells| -> Result<(), core::convert::Infallible> {
        assert_eq!(cells.len(), layout.columns().len());
        let text = |cell: &Cell<'_>| match cell {
            Cell::Missing => String::new(),
            Cell::Text(text) => (*text).to_owned(),
            Cell::Integer(number) => number.to_string(),
            Cell::Number(number) => number.to_string(),
            Cell::Flag(flag) => flag.to_string(),
        };
        let named = layout.columns().iter().zip(cells);
        rows.push(named.map(|(column, cell)| (column.name.to_string(), text(cell))).collect());
        Ok(())
    });
    written.unwrap();
    rows
}

fn column<'a>(rows: &'a [BTreeMap<String, String>], name: &str) -> Vec<&'a str> {
    rows.iter().map(|row| row[name].as_str()).collect()
}

#[test]
fn competing_flows_have_numbers_of_their_own() {
    let scenario = made::scenario(made::TWO_PATHS);
    let of = |class| made::flow(class, Some(10.0));
    let (own, beside, other) = (Class::Contender, Class::Beside, Class::Other);
    let run = made::run_of([own, own, beside, own, beside].map(of).to_vec());
    let rows_of = |run| rows(&scenario, &Job { contender: 1, ..Job::default() }, run);
    let found = rows_of(&run);
    assert_eq!(column(&found, "flow"), ["1", "2", "1", "3", "2"]);
    assert_eq!(column(&found, "class"), ["contender", "contender", "beside", "contender", "beside"]);
    assert_eq!(column(&found, "scheduler")[1..3], ["min_rtt", "tcp beside min_rtt"]);
    // Each class of traffic too, whoever carries it.
    let mut run = made::run_of([own, other, own, other].map(of).to_vec());
    run.flows.iter_mut().zip([0, 1, 0, 1]).for_each(|(flow, group)| flow.group = group);
    assert_eq!(column(&rows_of(&run), "flow"), ["1", "1", "2", "2"]);
    // Plain TCP of other classes has the scenario's congestion control, and datagrams have none.
    let mut run = run.clone();
    run.flows[3].report.app = anabranch_sim::AppReport::Datagrams(Default::default());
    assert_eq!(column(&rows_of(&run), "congestion")[1..], ["cubic_linux", "cubic_linux", "none"]);
}

#[test]
fn a_row_has_the_values_of_its_flow_in_its_columns() {
    let scenario = made::scenario(made::TWO_PATHS);
    let mut flow = made::flow(Class::Contender, Some(20.0));
    let ms = |millis| Some(Duration::from_millis(millis));
    (flow.path, flow.lower_bound, flow.reinjected_segments) = (1, ms(8), 4);
    let report = &mut flow.report;
    (report.start, report.connected, report.acked) = (Time::from_millis(7), ms(11), ms(23));
    (report.data_segments, report.retransmitted_segments) = (9, 3);
    (report.duplicate_bytes, report.rto_count, report.subflows_used) = (77, 5, 2);
    report.longest_gap = ms(13);
    report.bytes_by_path = vec![600, 400];
    let job = Job { contender: 1, run: 6, purpose: Purpose::Compare, ..Job::default() };
    let run = made::run_of(vec![flow, made::flow(Class::Contender, None)]);
    let found = rows(&scenario, &job, &run);
    let expected = [
        ("schema", "1"),
        ("condition", ""),
        ("scheduler", "min_rtt"),
        ("class", "contender"),
        ("congestion", "cubic_linux"),
        ("path", ""),
        ("first_path", "2"),
        ("run", "6"),
        ("run_seed", &scenario.run_seed(6).to_string()),
        ("flow", "1"),
        ("size_bytes", "1000"),
        ("start_s", "0.007"),
        ("finished", "true"),
        ("outcome", "completed"),
        ("connected_s", "0.011"),
        ("fct_s", "0.02"),
        ("acked_s", "0.023"),
        ("time_s", "0.02"),
        ("lower_bound_s", "0.008"),
        ("delivered_bytes", "1000"),
        // 8000 bits in 20 ms.
        ("goodput_bps", "400000"),
        ("data_segments", "9"),
        ("retransmitted_segments", "3"),
        ("reinjected_segments", "4"),
        ("duplicate_bytes", "77"),
        ("rto_count", "5"),
        ("longest_gap_s", "0.013"),
        ("subflows_used", "2"),
        ("bytes_path_1", "600"),
        ("bytes_path_2", "400"),
    ];
    for (name, value) in expected {
        assert_eq!(found[0][name], value, "{name}");
    }
    assert_eq!(found[0].len(), expected.len(), "a column without an expectation");
    for (name, value) in [("finished", "false"), ("outcome", "running"), ("fct_s", ""), ("time_s", "60")] {
        assert_eq!(found[1][name], value, "{name}");
    }
}

#[test]
fn a_plain_tcp_names_its_path_and_one_on_another_path_its_row() {
    let scenario = made::scenario(made::TWO_PATHS);
    let run = made::run_of(vec![made::flow(Class::Contender, Some(10.0))]);
    let of = |path, purpose| rows(&scenario, &Job { path: Some(path), purpose, ..Job::default() }, &run);
    let (chosen, other) = (of(0, Purpose::Compare), of(1, Purpose::Alone));
    assert_eq!((chosen[0]["scheduler"].as_str(), chosen[0]["path"].as_str()), ("tcp", "1"));
    assert_eq!(other[0]["scheduler"], "tcp@2");
}
