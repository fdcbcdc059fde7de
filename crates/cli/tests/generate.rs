//! `anabranch generate`: completions that shells accept, and a man page for each verb.

use std::io::Write as _;
use std::process::{Command, Stdio};

fn generate(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_anabranch")).arg("generate").args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the verbs of `anabranch --help`.
fn verbs() -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_anabranch")).arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let (verbs, _) = help.split_once("Options:").unwrap();
    // A verb is indented by two columns, the rest of its description by more.
    let rows = verbs.lines().filter_map(|line| line.strip_prefix("  ")).filter(|row| !row.starts_with(' '));
    let verbs: Vec<String> =
        rows.filter_map(|row| row.split_whitespace().next().map(str::to_owned)).collect();
    assert!(verbs.len() > 12, "{help}");
    verbs
}

#[test]
fn completions_know_every_verb_and_are_valid_for_bash() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = generate(&["completions", shell]);
        for word in verbs().iter().map(String::as_str).chain(["min-effect", "plan"]) {
            assert!(text.contains(word), "{shell}: {word}");
        }
    }
    let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
    bash.stdin.take().unwrap().write_all(generate(&["completions", "bash"]).as_bytes()).unwrap();
    assert!(bash.wait().unwrap().success());
}

#[test]
fn every_verb_has_a_man_page() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("man1");
    generate(&["man", directory.to_str().unwrap()]);
    let page = |name: &str| std::fs::read_to_string(directory.join(format!("{name}.1"))).unwrap();
    let whole = page("anabranch");
    for verb in verbs() {
        assert!(page(&format!("anabranch-{verb}")).contains(".SH SYNOPSIS"), "{verb}");
        assert!(whole.contains(&format!("anabranch\\-{verb}(1)")), "{verb}");
    }
    // The same command gives the same bytes.
    generate(&["man", directory.to_str().unwrap()]);
    assert_eq!(page("anabranch"), whole);
}
