//! The committed objects were made from the committed sources.

use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::skipped::skipped;

const OBJECTS: [&str; 4] = ["lia.o", "olia.o", "balia.o", "wvegas.o"];

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

fn built() -> (String, Vec<(String, String)>) {
    let text = std::fs::read_to_string(programs().join("built.txt")).unwrap();
    let mut lines = text.lines().map(str::to_owned);
    let compiler = lines.next().unwrap();
    let sums = lines.map(|line| {
        let (sum, name) = line.split_once("  ").unwrap();
        (name.trim_start_matches("./").to_owned(), sum.to_owned())
    });
    (compiler, sums.collect())
}

#[test]
fn the_objects_were_built_from_these_sources() {
    let (_, sums) = built();
    let mut sources: Vec<String> = std::fs::read_dir(programs())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".o") && name != "built.txt")
        .collect();
    sources.sort();
    let mut names: Vec<String> = sums.iter().map(|(name, _)| name.clone()).collect();
    names.sort();
    assert_eq!(sources, names, "run crates/bpf/programs/build");
    for (name, sum) in sums {
        let bytes = std::fs::read(programs().join(&name)).unwrap();
        let now: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(now, sum, "{name} has changed: run crates/bpf/programs/build");
    }
}

/// Other versions of the compiler give other instructions, so only the same one is compared.
#[test]
fn the_same_compiler_gives_the_same_objects() {
    let clang = Command::new("clang").arg("--version").output();
    let Ok(version) = clang.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()) else {
        return skipped("there is no clang (Debian: apt install clang llvm)");
    };
    let (compiler, _) = built();
    if version.lines().next() != Some(&compiler) {
        return skipped(format_args!("the objects were built by {compiler}, and this is another compiler"));
    }
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("objects");
    std::fs::create_dir_all(&out).unwrap();
    let status = Command::new(programs().join("build")).arg(&out).status().unwrap();
    assert!(status.success());
    for name in OBJECTS {
        let [committed, compiled] =
            [programs(), out.clone()].map(|place| std::fs::read(place.join(name)).unwrap());
        assert!(committed == compiled, "{name} is not what its source gives: run crates/bpf/programs/build");
    }
}
