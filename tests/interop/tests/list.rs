//! The command line of the matrix. The cells themselves need root and take minutes: `./test` runs them.

use std::collections::BTreeSet;
use std::process::Command;

fn list(arguments: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_anabranch-interop"))
        .arg("--list")
        .args(arguments)
        .output()
        .expect("the command runs");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

#[test]
fn the_covering_set_is_a_part_of_the_full_product_and_the_same_every_time() {
    let (covering, full) = (list(&[]), list(&["--full"]));
    assert!(covering.is_subset(&full) && covering.len() < full.len());
    assert!((40..=80).contains(&covering.len()), "{}", covering.len());
    assert_eq!(covering, list(&[]));
}

#[test]
fn a_cell_is_found_by_a_part_of_its_name() {
    let some = list(&["--cell", "blackhole"]);
    assert!(some.len() == 2 && some.iter().all(|name| name.starts_with("blackhole.")), "{some:?}");
}

#[test]
fn a_name_that_no_cell_has_is_an_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_anabranch-interop"))
        .args(["--cell", "no-such-cell"])
        .output()
        .expect("the command runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--list --full"));
}
