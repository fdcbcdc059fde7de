//! The records as types of TypeScript, for the page of the report, and of Python.
//!
//! [`typescript`] and [`python`] write them from the rows of the [measures](crate::measures) to `web/report/src/records.ts` and
//! `python/anabranch/_records.py`; a test compares both files, and `ANABRANCH_BLESS=1 cargo test -p anabranch-measure --lib
//! types` rewrites them.

use core::fmt::Write as _;

use crate::difference::Difference;
use crate::field::{Field, Name, named};
use crate::measures::{Datagrams, Record, Video};
use crate::record::{ByRun, Reading};
use crate::stats::Interval;
use crate::summary::Summary;

named! {
    Interval: "Interval", "Interval";
    Summary: "Statistics", "Statistics";
    Difference: "Difference", "Difference";
    ByRun: "ByRun", "dict[str, Any]";
    Reading: "Reading", "str";
    Video: "Video", "dict[str, Any]";
    Datagrams: "Datagrams", "dict[str, Any]";
}

/// A record: its name, its meaning and its fields.
type Declared = (&'static str, &'static str, &'static [Field]);

const RECORDS: [Declared; 6] = [
    ("Statistics", "Mean, percentiles and interval of a time in seconds.", Summary::FIELDS),
    ("Difference", "A difference from the reference in per cent; negative is less.", Difference::FIELDS),
    ("ByRun", "The values of each run, in order from run 0.", ByRun::FIELDS),
    ("Video", "The measures of videos.", Video::FIELDS),
    ("Datagrams", "The measures of streams of datagrams.", Datagrams::FIELDS),
    ("Row", "The results of a contender in a condition, of all its traffic or of one class.", Record::FIELDS),
];

const ORIGIN: &str = "Generated from the rows of crates/measure/src/measures.rs; a test there compares this file, and rewrites it\n\
                      with ANABRANCH_BLESS=1.";

/// Returns the records of comparisons and sweeps as a module of TypeScript.
pub fn typescript() -> String {
    let mut text: String = ORIGIN.lines().map(|line| format!("// {line}\n")).collect();
    text += "\n/** The ends of a 95 % interval. */\nexport type Interval = [number, number];\n\n";
    let readings = Reading::ALL.map(|reading| format!("\"{}\"", reading.name()));
    let _ = writeln!(text, "export type Reading = {};", readings.join(" | "));
    for (name, meaning, fields) in RECORDS {
        let _ = write!(text, "\n/** {meaning} */\nexport interface {name} {{\n");
        for field in fields {
            let Name { text: of, nullable } = (field.typescript)();
            let key = if field.optional { "?" } else { "" };
            let null = if nullable && !field.optional { " | null" } else { "" };
            let _ =
                write!(text, "  /** {} */\n  {}{key}: {of}{null};\n", sentence(field.meaning), field.name);
        }
        text += "}\n";
    }
    text
}

/// Returns the records of comparisons as a module of Python.
pub fn python() -> String {
    let mut text = format!("\"\"\"The records of measures.\n\n{ORIGIN}\n\"\"\"\n\n");
    text += "from __future__ import annotations\n\nimport dataclasses\nfrom dataclasses import dataclass\n\
             from typing import Any, TypeAlias\n\n";
    text += "__all__ = [\"Difference\", \"Interval\", \"Row\", \"Statistics\"]\n\n";
    text += "Interval: TypeAlias = tuple[float, float]\n\"\"\"The ends of a 95 % interval.\"\"\"\n";
    for (name, meaning, fields) in
        RECORDS.iter().filter(|(name, ..)| ["Statistics", "Difference", "Row"].contains(name))
    {
        let _ = write!(
            text,
            "\n\n@dataclass(frozen=True, kw_only=True)\nclass {name}:\n    \"\"\"{meaning}\"\"\"\n\n"
        );
        for field in *fields {
            let Name { text: of, nullable } = (field.python)();
            let none = if nullable { " | None" } else { "" };
            let default = match (field.optional, nullable) {
                (true, true) => " = None",
                (true, false) => " = dataclasses.field(default_factory=dict)",
                (false, _) => "",
            };
            let meaning = wrapped(&sentence(field.meaning).replace("null ", "None "));
            let _ = write!(text, "    {}: {of}{none}{default}\n    \"\"\"{meaning}\"\"\"\n", field.name);
        }
    }
    text
}

/// Returns the meaning of a field as a sentence, without the addresses of links.
fn sentence(meaning: &str) -> String {
    let mut words = meaning.split_whitespace().collect::<Vec<_>>().join(" ");
    while let Some(middle) = words.find("](")
        && let Some(begin) = words[..middle].rfind('[')
        && let Some(end) = words[middle..].find(')')
    {
        words = format!("{}{}{}", &words[..begin], &words[begin + 1..middle], &words[middle + end + 1..]);
    }
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

/// Wraps a text of Python that is indented by four spaces and has quotes around it.
fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && line.len() + word.len() > 105 {
            lines.push(core::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.join("\n    ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde::Serialize;

    use super::*;

    #[test]
    fn the_report_and_python_have_these_records() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (file, text) in
            [("web/report/src/records.ts", typescript()), ("python/anabranch/_records.py", python())]
        {
            let path = root.join(file);
            if std::env::var_os("ANABRANCH_BLESS").is_some() {
                std::fs::write(&path, &text).unwrap();
            }
            assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text, "{file}");
        }
    }

    /// The keys of JSON are the names of the fields.
    #[test]
    fn every_key_has_a_field() {
        fn check(value: impl Serialize, fields: &[Field]) {
            let value = serde_json::to_value(value).unwrap();
            let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
            let mut names: Vec<&str> =
                fields.iter().filter(|field| !field.optional).map(|field| field.name).collect();
            names.sort_unstable();
            let mut sorted = keys.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, names);
        }
        check(Summary::default(), Summary::FIELDS);
        check(Difference { mean: 0.0, ci95: None }, Difference::FIELDS);
        check(ByRun::default(), ByRun::FIELDS);
        check(Record::default(), Record::FIELDS);
        check(Video::default(), Video::FIELDS);
    }
}
