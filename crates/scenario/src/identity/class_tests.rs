//! Tests that every key of a class of traffic is in the canonical form.

use std::collections::BTreeMap;

use crate::Document;
use crate::read::classes::KEYS;

const PATHS: &str = "schedulers = ['min_rtt']
    path = [{ rate = '50 Mbit/s', rtt = '20 ms' }, { rate = '10 Mbit/s', rtt = '60 ms' }]";

fn hash(class: &str) -> String {
    hash_of(&format!("{PATHS}\n[[traffic]]\nname = 'main'\n[[traffic]]\n{class}"))
}

fn hash_of(text: &str) -> String {
    let scenario = Document::built_in("test", text).unwrap().scenario();
    scenario.unwrap_or_else(|error| panic!("{error}\n{text}")).hash()
}

/// Classes that all differ, each from the first of its kind in one key.
const CLASSES: &[(&str, &[&str])] = &[
    (
        "name = 'a'\nsize = '1 MB'",
        &[
            "kind = 'requests'\nthink = '1 s'",
            "flows = 2",
            "start = '1 s'",
            "starts = ['1 s', '2 s']",
            "every = '1 s'",
            "load = '50%'",
            "direction = 'upload'",
            "via = 'tcp'",
            "via = 'tcp'\npath = 2",
            "size-known = false",
        ],
    ),
    ("name = 'b'\nsize = '1 MB'", &[]),
    ("name = 'a'", &["max = '1 MB'"]),
    ("name = 'a'\nsize = 'bulk'", &["duration = '9 s'"]),
    (
        "name = 'a'\nkind = 'requests'\nsize = '2 MB'",
        &[
            "think = '1 s'",
            "think = 0",
            "gap = '1 s'",
            "think = '1 s'\nrequest = '9 KB'",
            "think = '1 s'\nrequests = 7",
            "think = '1 s'\nduration = '9 s'",
        ],
    ),
    ("name = 'a'\nkind = 'on-off'\non = '1 s'\noff = '2 s'\nrate = '1 Mbit/s'", &["duration = '9 s'"]),
    ("name = 'a'\nkind = 'on-off'\non = '2 s'\noff = '2 s'\nrate = '1 Mbit/s'", &[]),
    ("name = 'a'\nkind = 'on-off'\non = '1 s'\noff = '1 s'\nrate = '1 Mbit/s'", &[]),
    ("name = 'a'\nkind = 'on-off'\non = '1 s'\noff = '2 s'\nrate = '2 Mbit/s'", &[]),
    (
        "name = 'a'\nkind = 'udp'",
        &["rate = '1 Mbit/s'", "gap = '1 ms'", "gap = '1 ms'\nsize = '100 B'", "gap = '1 ms'\npath = 2"],
    ),
    (
        "name = 'a'\nkind = 'video'\nbitrate = '1 Mbit/s'",
        &["segment = '2 s'", "startup = '8 s'", "resume = '8 s'", "buffer = '40 s'", "duration = '40 s'"],
    ),
    ("name = 'a'\nkind = 'video'\nbitrate = ['1 Mbit/s', '2 Mbit/s']", &[]),
];

#[test]
fn every_key_of_a_class_changes_the_hash() {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut used: Vec<&str> = vec!["from", "to", "pattern"]; // These are of graphs.
    for (base, changes) in CLASSES {
        // These need one of the changes.
        let incomplete = base.ends_with("kind = 'udp'") || base.contains("kind = 'requests'");
        let alone = (!incomplete).then(|| (*base).to_owned());
        let texts = alone.into_iter().chain(changes.iter().map(|change| format!("{base}\n{change}")));
        for text in texts {
            used.extend(
                KEYS.iter().filter(|key| text.lines().any(|line| line.starts_with(&format!("{key} =")))),
            );
            let before = seen.insert(hash(&text), text.clone());
            assert_eq!(before, None, "{text}");
        }
    }
    let missing: Vec<&&str> = KEYS.iter().filter(|key| !used.contains(key)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_direction_of_the_network_is_that_of_the_first_class() {
    let class =
        |name: &str, direction: &str| format!("[[traffic]]\nname = '{name}'\ndirection = '{direction}'\n");
    let [a, b] = [class("a", "upload"), class("b", "download")];
    assert_ne!(hash_of(&format!("{PATHS}\n{a}{b}")), hash_of(&format!("{PATHS}\n{b}{a}")));
}

#[test]
fn one_class_in_the_short_form_is_the_same_as_in_a_list() {
    let keys = "kind = 'requests'\nsize = '1 KB'\nthink = '1 s'";
    let short = hash_of(&format!("{PATHS}\n[traffic]\n{keys}"));
    assert_eq!(short, hash_of(&format!("{PATHS}\n[[traffic]]\nname = 'requests'\n{keys}")));
}
