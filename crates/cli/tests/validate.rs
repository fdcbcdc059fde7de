//! `anabranch validate` and `compare --check` with obstacles. Their measurements are tested in
//! `crates/validate`.
#![cfg(all(target_os = "linux", feature = "network"))]

#[path = "../../../tests/skipped.rs"]
mod skipped;

use std::process::{Command, Output};

const BINARY: &str = env!("CARGO_BIN_EXE_anabranch");

fn anabranch(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).output().unwrap()
}

/// Runs a line of bash with `$ANABRANCH` in its own mount namespace, as root. None if emulation is
/// impossible.
fn as_root(line: &str) -> Option<Output> {
    if let Some(obstacle) = anabranch_emulate::obstacle() {
        skipped::skipped(obstacle);
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "bash", "-euc", line]).env("ANABRANCH", BINARY);
    Some(command.output().unwrap())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_device_that_cannot_be_used_is_an_error_and_not_a_machine_that_is_late() {
    let line = "mount --bind /dev/null /dev/net/tun; $ANABRANCH validate --quick";
    let Some(output) = as_root(line) else { return };
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{}{err}", text(&output.stdout));
    assert!(err.contains("error: ") && err.contains("/dev/net/tun"), "{err}");
}

#[test]
fn a_knob_that_the_kernel_does_not_have_is_refused_by_its_name() {
    let point = ["validate", "two-paths", "--set", "schedulers=[\"linux\"]"];
    for (set, told) in [
        ("prr=false", "`prr = false`"),
        ("rto.backoff=false", "`rto.backoff = false`"),
        ("path-manager=n_diff_ports:2", "`path-manager = n_diff_ports:2`"),
    ] {
        let output = anabranch(&[&point[..], &["--set", set]].concat());
        let err = text(&output.stderr);
        assert!(output.status.code() == Some(2) && err.contains(told) && err.contains("kernel"), "{err}");
    }
}

#[test]
fn a_check_that_cannot_be_made_is_refused_before_the_comparison() {
    // A comparison with that number of runs would take minutes.
    let compare = "compare two-paths --runs 100000 --check";
    let line = format!(
        "d=$(mktemp -d); trap 'rm -r $d' EXIT; chmod 755 $d; cp $ANABRANCH $d/anabranch
         setpriv --reuid=65534 --regid=65534 --clear-groups $d/anabranch {compare}"
    );
    let output = match rustix::process::geteuid().is_root() {
        true => match as_root(&line) {
            Some(output) => output,
            None => return,
        },
        false => anabranch(&compare.split(' ').collect::<Vec<_>>()),
    };
    let err = text(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{err}");
    assert!(err.contains("--check cannot emulate here: it needs root"), "{err}");
    let Some(output) = as_root("$ANABRANCH compare dmptcp-eight-paths --runs 100000 --check") else { return };
    let err = text(&output.stderr);
    assert!(output.status.code() == Some(2) && err.contains("only in the simulator"), "{err}");
}

#[test]
fn a_check_reports_whether_the_prediction_held() {
    let compare = "$ANABRANCH compare --path 20Mbit/s,20ms --path 10Mbit/s,40ms --size 100KB --runs 3 \
                   --schedulers tcp,linux --check --check-runs 1 --json";
    let Some(output) = as_root(&format!("{compare} || test $? = 1")) else { return };
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    let check = &json["check"][0];
    // The amounts of the differences do not matter here, nor whether the machine was punctual.
    assert_eq!(check["stacks"][0]["stack"], "anabranch", "{check}");
    assert_eq!(check["stacks"][1]["stack"], "kernel", "{check}");
    assert_eq!(
        (&check["compared"]["scheduler"], &check["reference"]["scheduler"]),
        (&"linux".into(), &"tcp".into())
    );
    assert!(json["check_verdict"].as_str().is_some_and(|text| text.starts_with("The prediction")), "{json}");
    assert!(json["rows"].is_array() && json["verdict"].is_string());
}
