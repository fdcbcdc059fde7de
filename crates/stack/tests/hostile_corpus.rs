//! The corpus of the fuzz target `endpoint`, and random changes of it.

#![expect(clippy::disallowed_methods, reason = "the corpus is in files")]

mod harness;
mod hostile;
mod random;

use std::alloc::System;

use anabranch_units::RandomStream;
use hostile::{attack, bytes::decode};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn held() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Returns the strings in `fuzz/corpus/endpoint`, in the order of their names.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/endpoint");
    let mut strings: Vec<(String, Vec<u8>)> = std::fs::read_dir(directory)
        .expect("the corpus")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(entry.path()).expect("a string"))
        })
        .collect();
    strings.sort();
    strings
}

/// One test, as there is one allocator.
#[test]
fn the_corpus_and_two_thousand_changes_of_it() {
    let strings = corpus();
    let mut seen = [0; 8];
    for (name, string) in &strings {
        println!("{name}");
        let reached = attack(&decode(string), held);
        let what = [
            reached.opened,
            reached.subflows > 1,
            reached.delivered > 0,
            reached.held > 0,
            reached.closed > 0,
            reached.fell_back,
            reached.reset,
            reached.fast_closed,
        ];
        for (seen, what) in seen.iter_mut().zip(what) {
            *seen += u32::from(what);
        }
    }
    // Established, joined, delivered, held, closed, fallback, reset, fast close.
    assert!(seen.iter().all(|&seen| seen >= 3), "the corpus does not get there: {seen:?}");

    let mut stream = RandomStream::new(8684, "corpus");
    let mut below = |bound: usize| stream.below(bound.max(1) as u64) as usize;
    for _ in 0..2000 {
        let mut string = strings[below(strings.len())].1.clone();
        for _ in 0..=below(6) {
            let at = below(string.len());
            match below(5) {
                0 | 1 if at < string.len() => string[at] = below(256) as u8,
                2 => string.truncate(at + 1),
                3 => {
                    let other = &strings[below(strings.len())].1;
                    let from = below(other.len());
                    string.truncate(at + 1);
                    string.extend(&other[from..]);
                }
                _ => {
                    let end = (at + 1 + below(12)).min(string.len());
                    let part = string[at.min(end)..end].to_vec();
                    string.splice(at.min(end)..at.min(end), part);
                }
            }
        }
        attack(&decode(&string), held);
    }
}
