//! The forms of quantities, from the units that [`units`](crate::units) reads.

use serde_json::{Value, json};

use crate::text::units::{PACKETS, RATES, SIZES, SPANS};

/// A number that is not negative, as `units` splits it from its unit.
const NUMBER: &str = r"\+?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][-+]?_*\d[\d_]*)?";
/// The same with an exponent: the value is not bounded by a pattern.
const SCIENTIFIC: &str = r"\+?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)[eE][-+]?_*\d[\d_]*";
const WHOLE: &str = r"\+?\d[\d_]*(\.[0_]*)?";
/// Zero with any unit or none.
const ZERO: &str = r"^\s*\+?[0_.]+([eE][-+]?[\d_]+)?\s*[^\d_.]*$";

/// Returns `text` for a regular expression.
pub(super) fn escaped(text: &str) -> String {
    text.chars()
        .flat_map(|c| if matches!(c, '.' | '/' | '+' | '|') { vec!['\\', c] } else { vec![c] })
        .collect()
}

/// Returns an expression for a number without an exponent, from 0 to 10 to the power of `digits`.
fn up_to_power(digits: u32) -> String {
    let below = match digits {
        0 => "0_*".to_owned(),
        digits => format!(r"(\d_*){{1,{digits}}}"),
    };
    format!(r"\+?((0[0_]*)?(1_*(0_*){{{digits}}}(\.[0_]*)?|{below}(\.[\d_]*)?)|\.\d[\d_]*)")
}

/// Returns an expression for `text` in which case does not matter.
fn any_case(text: &str) -> String {
    let each = |c: char| match c.is_ascii_alphabetic() {
        true => format!("[{}{}]", c.to_ascii_uppercase(), c.to_ascii_lowercase()),
        false => escaped(&c.to_string()),
    };
    text.chars().map(each).collect()
}

/// Returns an expression for the unit of a rate: where `B` is followed by `ps`, as in `MBps`, it counts bytes.
fn rate_unit(name: &str) -> String {
    match name.strip_suffix("bps") {
        Some(prefix) => format!("{}(b[Pp][Ss]|BP[Ss]|BpS)", any_case(prefix)),
        None => any_case(name),
    }
}

fn units<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(any_case).collect::<Vec<_>>().join("|")
}

/// Returns an expression for the units of a size: the `B` of bytes is a capital.
fn size_units() -> String {
    let unit = |name: &str| match name.strip_suffix('B') {
        Some(prefix) => format!("{}B", any_case(prefix)),
        None => any_case(name),
    };
    SIZES.iter().map(|(name, _)| unit(name)).collect::<Vec<_>>().join("|")
}

fn pattern(units: &str) -> String {
    format!(r"^\s*{NUMBER}\s*({units})\s*$")
}

pub(super) fn rate() -> Value {
    json!({
        "type": "string",
        "pattern": pattern(&RATES.iter().map(|(name, _)| rate_unit(name)).collect::<Vec<_>>().join("|")),
        "not": { "pattern": ZERO },
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
        "pattern": pattern(&size_units()),
        "description": "a size in B, KB, MB, GB, TB (of 1000), KiB, MiB or GiB (of 1024), kbit, Mbit, Gbit or Tbit",
        "examples": ["57 KB"],
    })
}

pub(super) fn queue() -> Value {
    let measures = units(["BDP"].into_iter().chain(SPANS.iter().map(|(name, _)| *name)));
    let measures = format!("{measures}|{}", size_units());
    let packets = units(PACKETS.into_iter());
    let pattern = format!(r"^\s*({NUMBER}\s*({measures})|({WHOLE}|{SCIENTIFIC})\s*({packets}))\s*$");
    let text = json!({ "type": "string", "pattern": pattern, "not": { "pattern": ZERO } });
    let none = json!({ "type": "string", "pattern": format!(r"^\s*{}\s*$", any_case("unlimited")) });
    json!({
        "anyOf": [text, none],
        "description": "a queue in BDP, packets, a size, a time, or `unlimited`",
        "examples": ["1 BDP", "100 packets", "250 KB", "50 ms"],
    })
}

/// A fraction from 0 to 1, or a percentage.
pub(super) fn probability() -> Value {
    json!({
        "anyOf": [share(0), { "type": "number", "minimum": 0, "maximum": 1 }],
        "description": "a percentage, or a fraction from 0 to 1",
        "examples": ["0.05%", 0.0005],
    })
}

/// A fraction above 0 and up to 10, or a percentage.
pub(super) fn load() -> Value {
    let mut text = share(1);
    text["not"] = json!({ "pattern": ZERO });
    json!({
        "anyOf": [text, { "type": "number", "exclusiveMinimum": 0, "maximum": 10 }],
        "description": "a percentage, or a fraction up to 10",
        "examples": ["50%", 0.5],
    })
}

/// A text with a fraction up to 10 to the power of `digits`, or that as a percentage.
fn share(digits: u32) -> Value {
    let (fraction, percentage) = (up_to_power(digits), up_to_power(digits + 2));
    json!({ "type": "string", "pattern": format!(r"^\s*({fraction}|({percentage})\s*%|{SCIENTIFIC}\s*%?)\s*$") })
}
