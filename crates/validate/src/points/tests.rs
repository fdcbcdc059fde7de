//! Points of scenarios: names, keys, refusals and the draws that they share with simulations.

use super::*;
use crate::grid::{Which, grid, quick};

#[test]
fn points_have_their_own_names_and_keys_and_the_same_draws_for_data() {
    let points = grid(Which::All).unwrap();
    for (at, point) in points.iter().enumerate() {
        assert!(
            points[..at]
                .iter()
                .all(|other| other.name != point.name && other.key(Kind::Kernel) != point.key(Kind::Kernel))
        );
        assert!(point.experiment().graph.numbers_data_apart());
    }
    assert_eq!(points[0].name, "reno 5M/10ms/4 16KB");
    assert_eq!(points[16].name, "mptcp 25M/10ms/1/1% + 25M/10ms/1/1% 1MB");
    assert_eq!((points[0].congestion, points[0].config().mss), ("reno", 1448));
    assert_eq!((points[12].sender, points[12].config().mss), (Sender::Multipath, 1420));
    for point in quick().unwrap() {
        let [FlowPlan { size: Some(size), .. }] = point.plan(0).unwrap()[..] else {
            panic!("{} is not one transfer", point.name)
        };
        assert!(size <= 8_000_000 && point.is_sized() && !point.is_download());
    }
}

/// `compare` with profile `linux` simulates the same as `validate`: nothing is set only for the latter.
#[test]
fn a_comparison_simulates_what_is_validated() {
    let paths = ["25Mbit/s,10ms,loss=1%", "5Mbit/s,40ms,loss=2%"].map(str::to_owned);
    let never = std::sync::atomic::AtomicBool::new(false);
    for direction in ["upload", "download"] {
        let mut document = Document::bare();
        document.set_paths(&paths).unwrap();
        document.set_size("--size", "300KB");
        document.set_option("--set", "traffic.direction", direction);
        document.set_schedulers("--schedulers", &["tcp@2".to_owned(), "linux".to_owned()]);
        let scenario = document.scenario().unwrap();
        let points = Point::of(scenario.clone()).unwrap();
        for (point, config) in points.iter().zip(&scenario.conditions[0].configs) {
            assert_eq!(config.for_real_hosts(), Ok(point.config()));
            assert_eq!((config.congestion.name(), point.congestion), ("cubic_linux", "cubic"));
            // Hash and canonical form contain paths, loss draws, traffic and all knobs.
            assert_eq!(point.scenario.canonical(), scenario.canonical());
            let run = |scenario| {
                let prepared = anabranch_lab::run::Prepared::new(scenario, 0).unwrap();
                prepared.run(point.contender, 1, &never).unwrap()
            };
            assert_eq!(run(&point.scenario), run(&scenario));
        }
        // Segments fill packets of 1500 bytes: a plain TCP's segments have 1448 of payload.
        let most = |point| crate::simulated::run(point, 0, &never, None).unwrap().mss.into_iter().max();
        assert_eq!((most(&points[0]), most(&points[1])), (Some(1448), Some(1420)));
    }
}

#[test]
fn flows_that_start_together_have_the_sizes_that_are_simulated() {
    let point = grid(Which::Chosen).unwrap().pop().unwrap();
    assert_eq!(point.name, "mptcp 100M/10ms/1 + 100M/10ms/1 30 web down");
    assert!(point.is_download() && point.is_sized());
    let never = std::sync::atomic::AtomicBool::new(false);
    let prepared = anabranch_lab::run::Prepared::new(&point.scenario, point.condition).unwrap();
    let flows = prepared.run(point.contender, 3, &never).unwrap().flows;
    let simulated: Vec<_> = flows.iter().map(|flow| flow.report.size.map(|size| size.0)).collect();
    let sizes = |run| point.plan(run).unwrap().iter().map(|flow| flow.size).collect::<Vec<_>>();
    assert_eq!(simulated, sizes(3));
    assert_eq!(simulated.len(), point.flows());
    assert_ne!(simulated, sizes(4));
}

fn refused(path: &[&str], sets: &[&str]) -> String {
    let mut document = Document::bare();
    document.set_paths(&path.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>()).unwrap();
    for set in sets {
        document.set(set).unwrap();
    }
    Point::of(document.scenario().unwrap()).unwrap_err().to_string()
}

#[test]
fn what_the_kernel_does_not_have_is_refused_with_a_reason() {
    let one = ["8Mbit/s,10ms"];
    let (two, size) = (["8Mbit/s,10ms", "4Mbit/s,10ms"], "traffic.size=\"1 MB\"");
    let linux = "schedulers=[\"linux\"]";
    assert!(refused(&one, &[size, linux, "traffic.flows=101"]).contains("101 flows"));
    assert!(refused(&one, &[size, linux, "prr=false"]).contains("`prr = false` cannot be applied"));
    assert!(refused(&one, &[size, linux, "profile=ns3"]).contains("profile"));
    let short = "traffic=[{name='a',size='1MB'},{name='b',kind='udp',rate='1 Mbit/s',size='3 B'}]";
    assert!(refused(&one, &[linux, short]).contains("shorter than 4 bytes"));
    let noticed = "path.change=[{at='1 s',down=true,notify-after='1 ms'}]";
    assert!(refused(&one, &[size, "schedulers=[\"tcp\"]", noticed]).contains("keeps a connection"));
    assert!(refused(&two, &[size, "schedulers=[\"dmptcp\"]"]).contains("no scheduler `dmptcp`"));
    assert!(refused(&two, &[size, linux, "congestion=sbd"]).contains("congestion control `sbd`"));
}

fn point(sets: &[&str]) -> Point {
    let mut document = Document::bare();
    document.set_paths(&["8Mbit/s,10ms".to_owned(), "4Mbit/s,10ms".to_owned()]).unwrap();
    for set in sets.iter().chain(&["schedulers=[\"linux\"]"]) {
        document.set(set).unwrap();
    }
    Point::of(document.scenario().unwrap()).unwrap().remove(0)
}

/// The built-in scenarios that `validate` refuses, with a part of the reason for each.
const REFUSED: &[(&str, &str)] = &[("beside-tcp", "`send-buffer"), ("every-scheduler", "cannot be applied")];

#[test]
fn every_built_in_scenario_with_fixed_paths_is_accepted() {
    let mut refused = Vec::new();
    for built_in in anabranch_lab::scenario::library::ALL {
        let mut document = Document::open(built_in.name).unwrap();
        let scenario = document.scenario().unwrap();
        // As `emulate` does.
        let fixed = scenario.conditions.iter().all(|own| own.experiment.has_fixed_paths().is_ok());
        match Point::of_document(&mut document) {
            Ok(_) => assert!(fixed, "{}", built_in.name),
            Err(error) if fixed => refused.push((built_in.name, error.0)),
            Err(_) => {}
        }
    }
    assert_eq!(refused.len(), REFUSED.len(), "{refused:#?}");
    for (name, reason) in REFUSED {
        assert!(refused.iter().any(|own| own.0 == *name && own.1.contains(reason)), "{name}: {refused:#?}");
    }
}

#[test]
fn all_kinds_of_traffic_and_changes_are_accepted() {
    let accepted = |sets: &[&str]| point(sets);
    for traffic in [
        "traffic={kind='on-off',on='1 s',off='1 s',rate='1 Mbit/s',direction='upload'}",
        "traffic={kind='video',bitrate='1 Mbit/s'}",
        "traffic={kind='requests',size='20 KB',think='1 s',requests=3}",
        "traffic=[{name='a',size='1 MB'},{name='b',kind='udp',rate='1 Mbit/s',path='2'}]",
        "traffic=[{name='a',size='1 MB'},{name='b',size='1 MB',via='tcp',path='1',direction='upload'}]",
    ] {
        assert!(!accepted(&[traffic]).is_plain(), "{traffic}");
    }
    assert!(!accepted(&["traffic.size=bulk", "traffic.start=\"1 s\""]).is_plain());
    assert!(!accepted(&["traffic.size=1MB", "traffic.beside.flows=2"]).is_plain());
    for path in [
        "path.change=[{at='1 s',down=true},{at='9 s',up=true}]",
        "path.change=[{at='1 s',down=true,notify-after='20 ms'}]",
        "path.gilbert-elliott={mean-good='1 s',mean-bad='10 ms',loss-bad=0.5}",
        "path.jitter={max='4 ms',reorder=true}",
        "path.rate={down='9 Mbit/s',up='1 Mbit/s'}",
        "path.rtt='2 s'",
        "path.2.backup=true",
        "congestion=bbr",
    ] {
        assert!(accepted(&[path]).is_plain(), "{path}");
    }
}

#[test]
fn contenders_that_the_kernel_does_not_have_are_left_out() {
    let mut document = Document::bare();
    document.set_paths(&["8Mbit/s,10ms".to_owned(), "20Mbit/s,10ms".to_owned()]).unwrap();
    document.set("schedulers=[\"tcp\", \"dmptcp\", \"linux\"]").unwrap();
    let (points, left_out) = Point::and_left_out(document.scenario().unwrap()).unwrap();
    let senders: Vec<_> = points.iter().map(|point| point.sender).collect();
    // The best path is the second.
    assert_eq!(senders, [Sender::Tcp { path: 1 }, Sender::Multipath]);
    assert!(left_out.len() == 1 && left_out[0].contains("no scheduler `dmptcp`"), "{left_out:?}");
}

#[test]
fn the_kernels_runs_stay_when_only_the_stack_changes() {
    let (plain, mut other) = (point(&[]), point(&[]));
    other.scenario.conditions[0].configs[0].prr = false;
    assert_eq!(plain.key(Kind::Kernel), other.key(Kind::Kernel));
    assert_ne!(plain.key(Kind::Emulated), other.key(Kind::Emulated));
    for set in ["receive-buffer=20KB", "path.rtt=11ms", "traffic.size=1MB", "traffic.background=[{path=1}]"] {
        assert_ne!(plain.key(Kind::Kernel), point(&[set]).key(Kind::Kernel), "{set}");
    }
}

#[test]
fn flows_in_the_background_and_starts_of_their_own_are_taken() {
    let point = point(&["traffic.starts=[0, \"1 s\"]", "traffic.size=16KB", "traffic.background=[{path=2}]"]);
    let plan = point.plan(0).unwrap();
    let starts: Vec<_> = plan.iter().map(|flow| flow.start.as_millis()).collect();
    assert_eq!((starts, point.background), (vec![0, 1000], "cubic"));
}

#[test]
fn segments_fill_the_packets_of_either_family_unless_a_knob_says_otherwise() {
    let mss = |sets: &[&str]| point(sets).config().mss;
    assert_eq!((mss(&[]), mss(&["ipv6=true"]), mss(&["mss=1000"])), (1420, 1400, 1000));
    assert_eq!(mss(&["mtu=1400", "mss=1300"]), 1300);
}
