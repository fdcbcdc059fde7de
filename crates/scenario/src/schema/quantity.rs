//! The forms of quantities, from the units that [`units`](crate::units) reads.

use serde_json::{Value, json};

use crate::units::{PACKETS, RATES, SIZES, SPANS};

/// A number that is not negative, as `units` splits it from its unit.
const NUMBER: &str = r"\+?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][-+]?[\d_]+)?";

/// Returns `text` for a regular expression.
pub(super) fn escaped(text: &str) -> String {
    text.chars()
        .flat_map(|c| if matches!(c, '.' | '/' | '+' | '|') { vec!['\\', c] } else { vec![c] })
        .collect()
}

/// Returns an expression for `text` in which case does not matter.
fn any_case(text: &str) -> String {
    let each = |c: char| match c.is_ascii_alphabetic() {
        true => format!("[{}{}]", c.to_ascii_uppercase(), c.to_ascii_lowercase()),
        false => escaped(&c.to_string()),
    };
    text.chars().map(each).collect()
}

fn units<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(any_case).collect::<Vec<_>>().join("|")
}

fn pattern(units: &str) -> String {
    format!(r"^\s*{NUMBER}\s*({units})\s*$")
}

pub(super) fn rate() -> Value {
    json!({
        "type": "string",
        "pattern": pattern(&units(RATES.iter().map(|(name, _)| *name))),
        "description": "a rate in bit/s, kbit/s, Mbit/s, Gbit/s or Tbit/s",
        "examples": ["100 Mbit/s"],
    })
}

pub(super) fn time() -> Value {
    let text = json!({ "type": "string", "pattern": pattern(&units(SPANS.iter().map(|(name, _)| *name))) });
    json!({
        "anyOf": [text, { "const": 0 }],
        "description": "a time in ns, us, ms, s, min or h; 0 needs no unit",
        "examples": ["20 ms"],
    })
}

pub(super) fn size() -> Value {
    json!({
        "type": "string",
        "pattern": pattern(&units(SIZES.iter().map(|(name, _)| *name))),
        "description": "a size in B, KB, MB, GB, TB (of 1000), KiB, MiB or GiB (of 1024)",
        "examples": ["57 KB"],
    })
}

pub(super) fn queue() -> Value {
    let units =
        units(["BDP"].into_iter().chain(PACKETS).chain(SPANS.iter().chain(SIZES).map(|(name, _)| *name)));
    let text = json!({ "type": "string", "pattern": pattern(&units) });
    let none = json!({ "type": "string", "pattern": format!(r"^\s*{}\s*$", any_case("unlimited")) });
    json!({
        "anyOf": [text, none],
        "description": "a queue in BDP, packets, a size, a time, or `unlimited`",
        "examples": ["1 BDP", "100 packets", "250 KB", "50 ms"],
    })
}

/// A fraction up to `most`, or a percentage.
pub(super) fn share(most: u32) -> Value {
    let text = json!({ "type": "string", "pattern": format!(r"^\s*{NUMBER}\s*%?\s*$") });
    json!({
        "anyOf": [text, { "type": "number", "minimum": 0, "maximum": most }],
        "description": format!("a percentage, or a fraction from 0 to {most}"),
        "examples": ["0.05%", 0.0005],
    })
}
