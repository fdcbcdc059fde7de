//! `--set`, `--size` and `--flows` win over conditions, or name the condition in which they cannot apply.

use anabranch_link::QueueLimit;
use anabranch_scenario::{Document, FlowSize, Scenario};

const PATHS: &str = "
    schedulers = ['tcp', 'min_rtt']
    path = [{ rate = '8 Mbit/s', rtt = '20 ms' }, { rate = '8 Mbit/s', rtt = '100 ms' }]
";

fn document(conditions: &str) -> Document {
    Document::parse("test", format!("{PATHS}{conditions}"), ".").unwrap()
}

fn with(conditions: &str, set: &[&str]) -> Scenario {
    let mut document = document(conditions);
    set.iter().for_each(|assignment| document.set(assignment).unwrap());
    let scenario = document.scenario().unwrap();
    // The text needs no override.
    let again = Document::parse("again", scenario.text.as_str(), ".").unwrap().scenario().unwrap();
    assert_eq!(again.hash(), scenario.hash(), "{}", scenario.text);
    scenario
}

#[test]
fn paths_that_are_set_may_have_presets() {
    let scenario =
        with("", &["path=[{ preset = 'wifi' }, { preset = 'lte', rtt = '31 ms' }]", "path.wifi.loss=3%"]);
    let paths = scenario.conditions[0].experiment.paths();
    assert_eq!(paths.iter().map(|path| path.name.as_str()).collect::<Vec<_>>(), ["wifi", "lte"]);
    assert_eq!(scenario.conditions[0].experiment.shortest_rtt(), anabranch_units::Duration::from_millis(16));
}

#[test]
fn a_set_value_wins_over_a_condition_that_sets_the_same_key() {
    let own =
        "[[condition]]\nname = 'a'\ntraffic.size = '16 KB'\n[[condition]]\nname = 'b'\npath.2.rtt = '1 s'";
    let scenario = with(own, &["traffic.size=57KB", "path.rtt=30ms"]);
    for condition in &scenario.conditions {
        let FlowSize::Fixed(size) = condition.experiment.traffic.size else { panic!() };
        assert_eq!(size.0, 57_000);
        let rtts = condition.experiment.paths().iter();
        assert!(rtts.clone().count() == 2);
        assert_eq!(condition.experiment.shortest_rtt(), anabranch_units::Duration::from_millis(30));
    }
    // The path of the condition is the later line of both.
    let scenario =
        with("[[condition]]\nname = 'a'\npath.2.rtt = '1 s'\npath.rate = '1 Mbit/s'", &["path.2.rtt=50ms"]);
    let condition = &scenario.conditions[0].experiment;
    let path = &condition.paths()[1];
    assert_eq!(condition.own_link(path).mean_rate().as_bps_f64(), 1e6);
    assert_eq!(
        scenario.hash(),
        with("[[condition]]\nname = 'a'\npath.2.rtt = '50 ms'\npath.rate = '1 Mbit/s'", &[]).hash()
    );
}

#[test]
fn a_set_value_reaches_a_condition_that_replaces_all_paths() {
    let own = "[[condition]]\nname = 'a'\npath = [{ rate = '1 Mbit/s', rtt = '5 ms', queue = '9 packets' }]";
    let scenario = with(own, &["path.queue=7 packets"]);
    let condition = &scenario.conditions[0].experiment;
    let path = &condition.paths()[0];
    assert_eq!(condition.own_link(path).config.queue, QueueLimit::Packets(7));
}

#[test]
fn a_condition_without_the_path_is_named() {
    let mut one = document("[[condition]]\nname = 'lonely'\npath = [{ rate = '1 Mbit/s', rtt = '5 ms' }]");
    one.set("path.2.rate=3Mbit/s").unwrap();
    let error = one.scenario().unwrap_err().to_string();
    assert!(error.contains("condition `lonely`") && error.contains("--set"), "{error}");
}

#[test]
fn a_size_wins_over_a_condition_and_what_does_not_fit_is_removed_there_too() {
    let own = "[[condition]]\nname = 'long'\ntraffic.size = 'bulk'\ntraffic.duration = '5 s'\ntraffic.starts = ['0 s']";
    let mut document = document(own);
    document.set_size("--size", "57KB");
    document.set_flows("--flows", "3");
    let scenario = document.scenario().unwrap();
    let traffic = &scenario.conditions[0].experiment.traffic;
    assert!(matches!(traffic.size, FlowSize::Fixed(size) if size.0 == 57_000));
    assert_eq!(traffic.flows, 3);
}

#[test]
fn a_path_on_the_command_line_has_the_keys_of_a_file() {
    let traffic = "traffic = { size = '1 MB' }";
    let written = format!(
        "path = [{{ name = \"Bob's\", rate = '8 Mbit/s', rtt = '20 ms', queue = '9 packets',
         change = [{{ at = '1 s', down = true }}, {{ at = '4 s', up = true }}] }}]\n{traffic}"
    );
    let written = Document::parse("file", written, ".").unwrap().scenario().unwrap();
    let option = "8Mbit/s,20ms, change= [{at='1 s',down=true},{at='4 s', up=true}],name=Bob's,queue=9packets";
    let mut given = Document::parse("option", traffic, ".").unwrap();
    given.set_paths(&[option.to_owned()]).unwrap();
    assert_eq!(given.scenario().unwrap().canonical(), written.canonical());
}
