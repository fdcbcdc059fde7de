//! The meaning of scenarios, their overrides from the command line, and that no text causes a panic.

use anabranch_lab::compare::compare;
use anabranch_lab::options::Options;
use anabranch_lab::run::RunError;
use anabranch_lab::scenario::{Direction, Document, FlowSize, Scenario, Transport, library};
use anabranch_link::{Loss, LossDraws, QueueLimit};
use anabranch_stack::config::{LossDetection, Profile, ReceiveBuffer};
use anabranch_stack::scheduler::{RoundRobinOptions, SchedulerKind};
use anabranch_units::{Bytes, Duration, Rate, Time};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const TWO: &str = "
    schedulers = ['tcp', 'min_rtt']
    [[path]]
    name = 'wifi'
    rate = '50 Mbit/s'
    rtt = '20 ms'
    [[path]]
    rate = '10 Mbit/s'
    rtt = '60 ms'
    loss = '0.1%'
";

fn read(text: &str) -> Scenario {
    Document::parse("test", text, ".").unwrap().scenario().unwrap_or_else(|error| panic!("{error}"))
}

fn changed(change: impl FnOnce(&mut Document)) -> Scenario {
    let mut document = Document::parse("test", TWO, ".").unwrap();
    change(&mut document);
    document.scenario().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn what_is_not_said_is_as_defined() {
    let scenario = read(TWO);
    assert_eq!((scenario.runs, scenario.seed, scenario.reference), (30, 1, Some(0)));
    assert_eq!(scenario.conditions.len(), 1);
    let experiment = &scenario.conditions[0].experiment;
    assert_eq!(experiment.profile, Profile::Linux);
    assert_eq!(experiment.paths()[1].name, "2");
    assert_eq!(experiment.traffic.size, FlowSize::Web { max: None });
    assert_eq!(experiment.deadline, Duration::from_secs(60));
    assert_eq!(experiment.traffic.direction, Direction::Download);
    assert!(!scenario.conditions[0].configs[0].mptcp && scenario.conditions[0].configs[1].mptcp);
}

#[test]
fn the_later_override_of_a_key_counts() {
    let apart = |set: &[&str]| {
        let scenario = changed(|document| {
            document.set("profile=ns3").unwrap();
            set.iter().for_each(|assignment| document.set(assignment).unwrap());
        });
        let experiment = &scenario.conditions[0].experiment;
        let is_apart = |path| experiment.own_link(path).config.loss_draws == LossDraws::Separate;
        experiment.paths().iter().map(is_apart).collect::<Vec<bool>>()
    };
    assert_eq!(apart(&["path.loss-draws=separate"]), [true, true]);
    // A key may be written with `_`.
    assert_eq!(apart(&["path.loss-draws=separate", "path.loss_draws=shared"]), [false, false]);
    assert_eq!(apart(&["path.loss-draws=shared", "path.wifi.loss-draws=separate"]), [true, false]);
    let both = Document::parse("test", "[[path]]\nloss_draws = 'separate'\nloss-draws = 'shared'\n", ".");
    assert!(both.is_err_and(|error| error.to_string().contains("`loss-draws` is given twice")));
}

#[test]
fn the_default_is_a_phone_with_wifi_and_lte() {
    let scenario = Document::open(library::DEFAULT).unwrap().scenario().unwrap();
    let names: Vec<&str> = scenario.contenders.iter().map(|contender| contender.name.as_str()).collect();
    assert_eq!(
        (scenario.name.as_str(), names),
        ("phone", vec!["tcp", "linux", "min_rtt", "dmptcp", "anabranch"])
    );
    for condition in &scenario.conditions {
        let experiment = &condition.experiment;
        assert_eq!((experiment.profile, experiment.traffic.direction), (Profile::Linux, Direction::Download));
        assert!(condition.configs.iter().all(|config| config.congestion.name() == "cubic_linux"));
    }
}

/// The DMPTCP paper's delays are one-way, so its round-trip times are twice the numbers that it prints.
#[test]
fn the_papers_comparison_has_its_true_round_trips() {
    let scenario = Document::open("dmptcp-eight-paths").unwrap().scenario().unwrap();
    let names: Vec<&str> = scenario.contenders.iter().map(|contender| contender.name.as_str()).collect();
    assert_eq!(names, ["tcp", "min_rtt", "dmptcp"]);
    assert_eq!(scenario.runs, 30);
    let conditions: Vec<&str> = scenario.conditions.iter().map(|condition| condition.name.as_str()).collect();
    assert_eq!(conditions, ["loss=0", "loss=0.05%"]);
    for (condition, loss) in scenario.conditions.iter().zip([0.0, 0.0005]) {
        let experiment = &condition.experiment;
        let rtts: Vec<u64> =
            (0..experiment.paths().len()).map(|path| experiment.rtt(path).as_micros() / 1000).collect();
        assert_eq!(rtts, [20, 40, 60, 80, 120, 160, 180, 200]);
        assert_eq!(experiment.traffic.direction, Direction::Upload);
        let links = &experiment.graph.links;
        assert!(links.iter().all(|link| link.greatest_rate() == Some(Rate::from_mbps(100))));
        let data = experiment.paths().iter().map(|path| experiment.own_link(path));
        assert!(data.into_iter().all(|link| link.config.loss == Loss::bernoulli(loss)));
        assert_eq!((experiment.traffic.flows, experiment.profile), (30, Profile::Ns3));
        assert_eq!(
            experiment.traffic.start,
            anabranch_lab::scenario::Start::Together(Time::from_millis(100))
        );
    }
}

#[test]
fn the_default_comparison_has_the_kernels_scheduler() {
    let scenario = read(&TWO.replace("schedulers = ['tcp', 'min_rtt']", ""));
    let names: Vec<&str> = scenario.contenders.iter().map(|contender| contender.name.as_str()).collect();
    assert_eq!(names, ["tcp", "linux", "min_rtt", "dmptcp", "anabranch"]);
}

/// By default, profile `linux` has the kernel's segments and congestion control, and its losses are numbered
/// by data packet; `ns3` has the paper's.
#[test]
fn profile_linux_is_the_kernel_where_nothing_else_is_given() {
    let facts = |more: &[&str]| {
        let scenario = changed(|document| more.iter().for_each(|set| document.set(set).unwrap()));
        let condition = &scenario.conditions[0];
        let [tcp, multipath] = &condition.configs[..] else { panic!() };
        assert_eq!(condition.beside_config(0).mss, tcp.mss);
        let experiment = &condition.experiment;
        let apart: Vec<bool> = experiment
            .paths()
            .iter()
            .map(|path| experiment.own_link(path).config.loss_draws == LossDraws::Separate)
            .collect();
        let names = [tcp, multipath].map(|config| config.congestion.name().to_owned());
        (tcp.mss, multipath.mss, names, apart)
    };
    let linux = ["cubic_linux", "cubic_linux"].map(str::to_owned);
    let apart = vec![true; 2];
    assert_eq!(facts(&[]), (1448, 1420, linux.clone(), apart.clone()));
    // Given values take precedence, and others follow from them.
    assert_eq!(facts(&["mss=1400"]), (1400, 1400, linux.clone(), apart.clone()));
    assert_eq!(facts(&["mtu=1400"]), (1348, 1320, linux.clone(), apart.clone()));
    assert_eq!(facts(&["timestamps=false"]), (1460, 1432, linux.clone(), apart.clone()));
    let cubic = ["cubic", "cubic"].map(str::to_owned);
    assert_eq!(facts(&["congestion=cubic"]), (1448, 1420, cubic, apart));
    assert_eq!(facts(&["path.wifi.loss-draws=shared"]), (1448, 1420, linux, vec![false, true]));
    let ns3 = ["newreno", "lia"].map(str::to_owned);
    assert_eq!(facts(&["profile=ns3"]), (1400, 1400, ns3, vec![false; 2]));
    let own = read(&TWO.replace("'min_rtt'", "{ scheduler = 'min_rtt', mss = 536 }"));
    let sizes: Vec<u32> = own.conditions[0].configs.iter().map(|config| config.mss).collect();
    assert_eq!(sizes, [1448, 536]);
}

#[test]
fn set_reaches_every_part() {
    let scenario = changed(|document| {
        for assignment in [
            "runs=3",
            "profile=ns3",
            "traffic.size=1MB",
            "path.queue=20 packets",
            "path.wifi.loss=1%",
            "path.2.rtt=5ms",
            "rto.min=300ms",
            "connection.mss=536",
            "receive_buffer={ initial = \"10 KB\", max = \"1 MB\" }",
            "schedulers=dmptcp",
        ] {
            document.set(assignment).unwrap();
        }
    });
    let condition = &scenario.conditions[0];
    assert_eq!((scenario.runs, scenario.contenders.len()), (3, 1));
    assert_eq!(condition.experiment.traffic.size, FlowSize::Fixed(Bytes(1_000_000)));
    let experiment = &condition.experiment;
    assert!(experiment.graph.links.iter().all(|link| link.config.queue == QueueLimit::Packets(20)));
    assert_eq!(experiment.own_link(&experiment.paths()[0]).config.loss, Loss::Bernoulli(0.01));
    assert_eq!(experiment.rtt(1), Duration::from_millis(5));
    let config = &condition.configs[0];
    assert_eq!((config.rto.min, config.mss), (Duration::from_millis(300), 536));
    assert_eq!(config.loss_detection, LossDetection::DuplicateAcks);
    let buffer = ReceiveBuffer::Auto { initial: Bytes(10_000), max: Bytes(1_000_000) };
    assert_eq!(config.receive_buffer, buffer);
}

#[test]
fn a_path_of_the_command_line_is_a_path() {
    let scenario = changed(|document| {
        let paths = ["8Mbit/s,50ms,loss=1%,queue=100packets".to_owned(), "rate=1Gbit/s, rtt=2ms".to_owned()];
        document.set_paths(&paths).unwrap();
    });
    let experiment = &scenario.conditions[0].experiment;
    let links: Vec<_> = experiment.paths().iter().map(|path| experiment.own_link(path)).collect();
    assert_eq!(links.len(), 2);
    assert_eq!(links[0].config.loss, Loss::Bernoulli(0.01));
    assert_eq!((links[1].mean_rate(), links[1].rtt), (Rate::from_mbps(1000), Duration::from_millis(2)));
    let traced = changed(|document| {
        let down = "../../scenarios/traces/synthetic-lte.down";
        let up = "../../scenarios/traces/synthetic-lte.up";
        document.set_paths(&[format!("trace={down}:{up},40ms")]).unwrap();
    });
    let experiment = &traced.conditions[0].experiment;
    let path = &experiment.paths()[0];
    assert!(experiment.own_link(path).mean_rate() > experiment.own_ack_link(path).mean_rate());
}

#[test]
fn contenders_have_parameters_and_knobs_of_their_own() {
    let scenario = read(&TWO.replace(
        "['tcp', 'min_rtt']",
        "['tcp@wifi', { scheduler = 'round_robin', segments = 3 },
          { scheduler = 'dmptcp', name = 'clipped', clip-at-ssthresh = true, congestion = 'lia', mss = 536 }]",
    ));
    assert_eq!(scenario.contenders[0].transport, Transport::Tcp { path: Some(0) });
    let kind = SchedulerKind::RoundRobin(RoundRobinOptions { segments: 3, cwnd_limited: true });
    assert_eq!(scenario.contenders[1].transport, Transport::Multipath(kind));
    let Transport::Multipath(SchedulerKind::Dmptcp(options)) = &scenario.contenders[2].transport else {
        panic!()
    };
    assert!(options.model.clip_at_ssthresh);
    let configs = &scenario.conditions[0].configs;
    assert_eq!((configs[2].mss, configs[1].mss), (536, 1420));
    assert_eq!((configs[2].congestion.name(), configs[1].congestion.name()), ("lia", "cubic_linux"));
}

#[test]
fn parameters_are_given_with_the_name_in_a_table_or_for_all() {
    let kind = |segments| {
        Transport::Multipath(SchedulerKind::RoundRobin(RoundRobinOptions { segments, cwnd_limited: false }))
    };
    let scenario = read(&TWO.replace(
        "['tcp', 'min_rtt']",
        "['round_robin:segments=3:cwnd_limited=false',
          { scheduler = { name = 'round_robin', segments = 4, cwnd-limited = false }, name = 'four' },
          { scheduler = 'round_robin:cwnd-limited=false', name = 'five', segments = 5 }]",
    ));
    let got: Vec<_> = scenario.contenders.iter().map(|c| (c.name.as_str(), c.transport.clone())).collect();
    let named = "round_robin:segments=3:cwnd_limited=false";
    assert_eq!(got, [(named, kind(3)), ("four", kind(4)), ("five", kind(5))]);
    let scenario = changed(|document| {
        document.set_schedulers("--schedulers", &["round_robin:cwnd-limited=false".to_owned()]);
        document.set("scheduler.round_robin.segments=7").unwrap();
    });
    assert_eq!(scenario.contenders[0].transport, kind(7));
}

#[test]
fn a_condition_may_give_a_scheduler_another_parameter() {
    let text = TWO.replace("['tcp', 'min_rtt']", "['round_robin']");
    let conditions = "
        [[condition]]
        name = 'one'
        [[condition]]
        name = 'nine'
        scheduler.round_robin.segments = 9
    ";
    let scenario = read(&format!("{text}{conditions}"));
    let segments = |at: usize| match &scenario.conditions[at].configs[0].scheduler {
        SchedulerKind::RoundRobin(options) => options.segments,
        other => panic!("{other:?}"),
    };
    assert_eq!((segments(0), segments(1)), (1, 9));
}

#[test]
fn tcp_beside_a_coupled_control_is_newreno() {
    let congestion = |name: &str| {
        let scenario = changed(|document| document.set_option("--cc", "congestion", name));
        scenario.conditions[0].configs.iter().map(|c| c.congestion.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(congestion("lia"), ["newreno", "lia"]);
    assert_eq!(congestion("cubic"), ["cubic", "cubic"]);
}

#[test]
fn the_hash_knows_what_matters() {
    let hash = |change: &dyn Fn(&mut Document)| changed(|document| change(document)).hash();
    let plain = hash(&|_| {});
    for same in [
        "name=other",
        "description=other",
        "runs=3",
        "seed=9",
        "path.wifi.rate=50000kbps",
        "traffic.direction=download",
    ] {
        assert_eq!(hash(&|document| document.set(same).unwrap()), plain, "{same}");
    }
    let mut seen = vec![plain];
    for other in [
        "path.wifi.name=lan",
        "path.wifi.rate=51Mbit/s",
        "path.2.loss=0.2%",
        "traffic.flows=2",
        "traffic.direction=upload",
        "profile=ns3",
        "mss=1399",
        "schedulers=min_rtt,tcp",
        "deadline=61s",
        "initial=2",
    ] {
        let hash = hash(&|document| document.set(other).unwrap());
        assert!(!seen.contains(&hash), "{other}");
        seen.push(hash);
    }
}

#[test]
fn size_and_flows_of_the_command_line_replace_what_does_not_fit() {
    let bulk = "traffic = { size = 'bulk', duration = '5 s' }";
    let timed = "traffic = { max = '1 MB', starts = ['0 s', '1 s'] }";
    for (traffic, size) in [(bulk, "57KB"), (bulk, "web"), (timed, "bulk"), (timed, "57KB")] {
        // A table on one line has to precede the paths.
        let mut document = Document::parse("test", format!("{traffic}\n{TWO}"), ".").unwrap();
        document.set_size("--size", size);
        document.set_flows("--flows", "7");
        assert_eq!(document.scenario().unwrap().conditions[0].experiment.traffic.flows, 7);
    }
}

#[test]
fn a_cancelled_comparison_has_no_result() {
    let cancelled = AtomicBool::new(false);
    let told = AtomicUsize::new(0);
    let progress = |done, _| {
        told.store(done, Ordering::Relaxed);
        cancelled.store(true, Ordering::Relaxed);
    };
    for jobs in [1, 3] {
        cancelled.store(false, Ordering::Relaxed);
        let options = Options::new(jobs, &cancelled, &progress);
        assert_eq!(compare(&read(TWO), &options), Err(RunError::Cancelled));
        assert!(told.load(Ordering::Relaxed) < 60);
    }
}

fn read_anything(text: &str) {
    if let Ok(document) = Document::parse("test", text, ".") {
        match document.scenario() {
            Ok(scenario) => {
                let _ = scenario.hash();
                for condition in 0..scenario.conditions.len() {
                    let _ = anabranch_lab::run::Prepared::new(&scenario, condition);
                }
            }
            Err(error) => drop(error.to_string()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_a_scenario_panic(text in "\\PC{0,200}") {
        read_anything(&text);
    }

    /// Returns a built-in scenario with a piece removed, doubled, or overwritten.
    #[test]
    fn no_damage_makes_a_scenario_panic(
        which in 0..library::ALL.len(),
        from in 0.0..1.0_f64,
        length in 0..12_usize,
        kind in 0..3,
        patch in "[-0-9a-zµ\"'.=\\[\\]{}#% \n]{0,6}",
    ) {
        let text: Vec<char> = library::ALL[which].text.chars().collect();
        let at = (from * text.len() as f64) as usize;
        let end = (at + length).min(text.len());
        let middle: String = match kind {
            0 => patch,
            1 => text[at..end].iter().chain(&text[at..end]).collect(),
            _ => text[at..end].iter().rev().collect(),
        };
        let damaged: String =
            text[..at].iter().collect::<String>() + &middle + &text[end..].iter().collect::<String>();
        read_anything(&damaged);
    }

    #[test]
    fn no_option_makes_a_scenario_panic(set in "[a-z0-9.\\-_]{0,20}=?\\PC{0,20}", path in "\\PC{0,40}") {
        let mut document = Document::parse("test", TWO, ".").unwrap();
        let _ = document.set_paths(&[path]);
        let _ = document.set(&set);
        let _ = document.scenario();
    }
}

#[test]
fn the_papers_shared_links_have_twice_its_delays() {
    for name in ["shared-bottleneck", "beside-tcp"] {
        let scenario = Document::open(name).unwrap().scenario().unwrap();
        let experiment = &scenario.conditions[0].experiment;
        let rtts: Vec<u64> =
            (0..experiment.paths().len()).map(|path| experiment.rtt(path).as_micros() / 1000).collect();
        assert_eq!(rtts, [40, 60, 80, 100, 120, 140, 160, 180], "{name}");
    }
}

#[test]
fn a_path_is_set_by_its_name_or_its_number_and_the_name_comes_first() {
    let rates = |assignment: &str| {
        let text = "path = [{ name = '2', rate = '1 Mbit/s', rtt = '1 ms' }, { name = 'lte', rate = '2 Mbit/s', rtt = '1 ms' }]";
        let mut document = Document::parse("a.toml", text, ".").unwrap();
        document.set(assignment).unwrap();
        let scenario = document.scenario().unwrap();
        let experiment = &scenario.conditions[0].experiment;
        let paths = experiment.paths().iter();
        paths.map(|path| experiment.own_link(path).mean_rate().as_bps_f64()).collect::<Vec<_>>()
    };
    let (by_name, by_number) = (rates("path.2.rate=9Mbit/s"), rates("path.1.rate=9Mbit/s"));
    assert_eq!(by_name, by_number, "the path called `2` is the first one");
    assert_ne!(rates("path.lte.rate=9Mbit/s"), by_name);
}
