//! Several addresses of the server, and the rules by which hosts open subflows to them. `crates/emulate/tests/endpoints.rs`
//! compares them with the kernel.

use std::net::IpAddr;
use std::sync::atomic::AtomicBool;

use anabranch_lab::explain::{Explicable, Question, explain};
use anabranch_lab::options::Options;
use anabranch_lab::run::{FlowResult, Prepared};
use anabranch_lab::scenario::{Document, Scenario};

fn scenario(more: &str) -> Scenario {
    let text = format!(
        "runs = 2
         schedulers = ['min_rtt', 'tcp@2']
         path = [{{ rate = '10 Mbit/s', rtt = '20 ms' }}, {{ rate = '10 Mbit/s', rtt = '20 ms' }}]
         {more}
         [traffic]
         size = '6 MB'
         direction = 'upload'"
    );
    Document::built_in("test", text.clone())
        .unwrap()
        .scenario()
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn flow(scenario: &Scenario, contender: usize) -> FlowResult {
    Prepared::new(scenario, 0).unwrap().run(contender, 0, &AtomicBool::new(false)).unwrap().flows.remove(0)
}

/// The paths and addresses of the subflows that were established, by number from 1, in the order in which they began.
fn subflows(flow: &FlowResult) -> Vec<(u8, u8)> {
    let last = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets()[3],
        IpAddr::V6(ip) => ip.octets()[15],
    };
    let all = flow.report.sender.subflows.iter().filter(|subflow| subflow.established.is_some());
    all.map(|subflow| (last(subflow.local.ip), last(subflow.remote.ip))).collect()
}

#[test]
fn an_announced_address_is_taken_up_over_its_path() {
    let apart = "server.address = [{ paths = [1] }, { paths = [2] }]";
    assert_eq!(subflows(&flow(&scenario(apart), 0)), [(1, 1), (2, 2)]);
    // A plain TCP connects to the address of its path, and so does a connection that begins there.
    let other = scenario(&format!("initial = 2\n{apart}"));
    assert_eq!(subflows(&flow(&other, 0)), [(2, 2), (1, 1)]);
    assert!(flow(&other, 1).report.fct.is_some());
    let six = scenario(&format!("ipv6 = true\n{apart}"));
    assert_eq!(subflows(&flow(&six, 0)), [(1, 1), (2, 2)]);
    // It costs nothing: one address would give the same rate.
    let one = flow(&scenario("client = {}"), 0).report.fct.unwrap().as_secs_f64();
    let two = flow(&scenario(apart), 0).report.fct.unwrap().as_secs_f64();
    assert!((two / one - 1.0).abs() < 0.02, "{one} {two}");
}

#[test]
fn an_address_that_nobody_reaches_ends_nothing() {
    let dead = scenario("server.address = [{}, { paths = [] }]\nclient.limits.subflows = 2");
    let flow = flow(&dead, 0);
    assert_eq!(subflows(&flow), [(1, 1), (2, 1)]);
    assert_eq!(flow.report.sender.subflows.len(), 3, "the attempt that is not answered");
    assert!(flow.report.fct.is_some());
}

#[test]
fn limits_of_0_leave_the_first_subflow() {
    for limits in ["client.limits.subflows = 0", "server.limits.subflows = 0"] {
        assert_eq!(
            subflows(&flow(&scenario(&format!("server.address = [{{}}, {{}}]\n{limits}")), 0)),
            [(1, 1)]
        );
    }
    let none = "client.limits.add-addr-accepted = 0\nserver.address = [{}, {}]";
    assert_eq!(subflows(&flow(&scenario(none), 0)), [(1, 1), (2, 1)]);
}

#[test]
fn an_address_that_is_removed_loses_its_subflow_and_gets_another_when_it_is_back() {
    let removed = "server.address = [{}, { paths = [2], removed-at = '1 s' }]\nclient.limits.subflows = 1";
    let flow_of = |text: &str| flow(&scenario(text), 0);
    let removed = flow_of(removed);
    assert_eq!(subflows(&removed), [(1, 1), (2, 2), (2, 1)], "the next endpoint takes the place");
    let ended = removed.report.sender.subflows[1].ended.unwrap().as_secs_f64();
    assert!((1.0..1.1).contains(&ended), "{ended}");
    assert!(removed.report.fct.is_some());
    let mut document = Document::built_in("test", scenario("").text).unwrap();
    document.set("path.2.endpoint=none").unwrap();
    document.set("server.address=[{}, { paths = [2], removed-at = '1 s', added-at = '2 s' }]").unwrap();
    let back = flow(&document.scenario().unwrap(), 0);
    assert_eq!(subflows(&back), [(1, 1), (2, 2), (2, 2)]);
    let again = back.report.sender.subflows.iter().rfind(|subflow| subflow.established.is_some()).unwrap();
    let begun = again.started.as_secs_f64();
    assert!((2.0..2.1).contains(&begun), "{begun}");
}

#[test]
fn an_address_may_ask_for_backups() {
    let flow = flow(
        &scenario("server.address = [{}, { paths = [2], backup = true }]\nclient.limits.subflows = 1"),
        0,
    );
    assert_eq!(subflows(&flow), [(1, 1), (2, 2)]);
    assert_eq!(flow.report.bytes_by_path[1], 0, "{:?}", flow.report.bytes_by_path);
}

/// Other verbs take such a scenario: changes of `explain` remove a path, and with it addresses.
#[test]
fn it_is_explained() {
    let scenario = scenario("server.address = [{ paths = [1] }, { paths = [2] }]");
    let cancelled = AtomicBool::new(false);
    let options = Options::new(1, &cancelled, &|_, _| {});
    let explanation =
        explain(Explicable::new(&scenario).unwrap(), Question { flow: None, changes: true }, &options)
            .unwrap();
    assert!(!explanation.rows.is_empty());
}
