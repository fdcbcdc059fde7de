//! Changes of a rate, found in captures of simulated runs in which they are known.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn anabranch(args: &[&str], directory: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .arg("-q")
        .args(args)
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The rates of a path in Mbit/s, each with the time from which it holds in seconds.
type Rates = &'static [(f64, f64)];

/// Writes the scenario `case.toml` of two paths, and the capture of its run at `end`.
fn capture(paths: [Rates; 2], loss: &str, direction: &str, end: &str, directory: &Path) {
    let mut toml = "schedulers = ['linux']\ncongestion = 'cubic_linux'\nruns = 1\n".to_owned();
    for (rates, rtt) in paths.iter().zip([20, 40]) {
        let first = rates[0].1;
        toml.push_str(&format!(
            "[[path]]\nrate = '{first} Mbit/s'\nrtt = '{rtt} ms'\nqueue = '60 KB'\nloss = {{ data = '{loss}', acks = '0%' }}\n"
        ));
        for (at, rate) in &rates[1..] {
            toml.push_str(&format!("[[path.change]]\nat = '{at} s'\nrate = '{rate} Mbit/s'\n"));
        }
    }
    toml.push_str(&format!("[traffic]\nsize = '12 MB'\ndirection = '{direction}'\n"));
    std::fs::write(directory.join("case.toml"), toml).unwrap();
    let words = ["--pcap", "case.pcapng", "--pcap-at", end, "--pcap-snaplen", "120", "-o", "out.txt"];
    anabranch(&[&["run", "case.toml"], &words[..]].concat(), directory);
}

/// Returns the estimates of the two paths.
fn estimates(direction: usize, directory: &Path) -> [Value; 2] {
    let found: Value =
        serde_json::from_str(&anabranch(&["inspect", "case.pcapng", "--json"], directory)).unwrap();
    let subflows = &found["connections"][0]["subflows"];
    [0, 1].map(|at| subflows[at]["directions"][direction]["path"].clone())
}

#[test]
fn known_changes_are_found_with_their_times_and_rates() {
    let place = tempfile::tempdir().unwrap();
    let cases: [([Rates; 2], &str, &str); 3] = [
        ([&[(0.0, 20.0), (2.0, 5.0)], &[(0.0, 8.0)]], "download", "sender"),
        ([&[(0.0, 12.0)], &[(0.0, 6.0), (2.5, 14.0)]], "upload", "receiver"),
        ([&[(0.0, 16.0), (1.5, 4.0), (4.0, 12.0)], &[(0.0, 8.0), (3.0, 3.0)]], "download", "receiver"),
    ];
    for (number, (paths, direction, end)) in cases.into_iter().enumerate() {
        capture(paths, "0%", direction, end, place.path());
        let found = estimates(usize::from(direction == "download"), place.path());
        for (path, (rates, estimate)) in paths.iter().zip(&found).enumerate() {
            let phases = estimate["rate_phases"].as_array().unwrap();
            let case = format!("case {number}, path {path}: {phases:?}");
            if rates.len() == 1 {
                assert!(phases.is_empty(), "{case}");
                continue;
            }
            assert_eq!(phases.len(), rates.len(), "{case}");
            for (phase, (at, rate)) in phases.iter().zip(*rates) {
                let seconds = |key: &str| phase[key].as_f64().unwrap();
                assert!(seconds("from_low_s") <= *at && *at <= seconds("from_high_s"), "{case}");
                assert!((seconds("from_s") - at).abs() < 0.1, "{case}");
                let value = phase["rate_bps"]["value"].as_f64().unwrap() / 1e6;
                assert!((value / rate - 1.0).abs() < 0.02, "{case}");
            }
        }
    }
}

#[test]
fn a_scenario_has_the_changes_and_its_simulation_takes_as_long() {
    let place = tempfile::tempdir().unwrap();
    capture([&[(0.0, 20.0), (2.0, 5.0)], &[(0.0, 8.0)]], "0%", "download", "sender", place.path());
    // The queue is as large after the change as before it, so its drops are no random losses.
    let [first, _] = estimates(1, place.path());
    assert_eq!(
        (&first["queue_was_full"], &first["random_losses"]),
        (&Value::Bool(true), &Value::from(0)),
        "{first}"
    );
    anabranch(&["inspect", "case.pcapng", "--scenario", "again.toml"], place.path());
    let toml = std::fs::read_to_string(place.path().join("again.toml")).unwrap();
    assert_eq!(toml.matches("[[path.change]]\nat = \"").count(), 1, "{toml}");
    assert!(
        toml.contains("\nrate = \"20000 kbit/s\" #") && toml.contains("\nrate = \"5000 kbit/s\" #"),
        "{toml}"
    );
    let page = anabranch(&["inspect", "case.pcapng"], place.path());
    assert!(page.contains("its rate changed: 20 Mbit/s, from 2.0"), "{page}");
    let words = ["inspect", "case.pcapng", "--simulate", "--json"];
    let simulated: Value = serde_json::from_str(&anabranch(&words, place.path())).unwrap();
    let completion = &simulated["matches"][0];
    let ratio = completion["simulated"].as_f64().unwrap() / completion["captured"].as_f64().unwrap();
    assert!((ratio - 1.0).abs() < 0.03, "{completion}");
}

#[test]
fn a_steady_path_has_no_change() {
    let place = tempfile::tempdir().unwrap();
    for (number, loss) in ["0%", "0.2%", "0.5%"].into_iter().enumerate() {
        let end = ["sender", "receiver"][number % 2];
        capture([&[(0.0, 15.0)], &[(0.0, 6.0)]], loss, "download", end, place.path());
        for estimate in estimates(1, place.path()) {
            assert_eq!(estimate["rate_phases"], Value::Array(Vec::new()), "{loss}: {estimate}");
        }
    }
}
