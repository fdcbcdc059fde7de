//! The dimensions of a plan: keys of the scenario, and the values that they take together.

use super::{Design, MOST_POINTS};
use crate::text::keys::{Keys, rows};
use crate::text::reader::{Reader, list};
use crate::text::source::{Problem, Span};
use crate::text::tree::{Node, Table, Value};

rows! {
    RANGE_ROWS, RANGE_KEYS {
        "from": AnyOf(&[Number, Text]), "the least value: a number, with its unit in quotes";
        "to": AnyOf(&[Number, Text]), "the greatest value, in the same unit";
        "steps": Whole(2, MOST_POINTS as i64), "number of values in a grid";
        "scale": Choice(&SCALES), "whether equal steps are equal differences or equal factors; default `linear`";
    }
}
pub(crate) const RANGE: Keys = Keys::new("range", &[RANGE_ROWS]).requires(&["from", "to"]);

const SCALES: [&str; 2] = ["linear", "log"];

/// One or several keys of the scenario, and the values that they take together.
#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    /// The keys, such as `path.1.rate`.
    pub keys: Vec<String>,
    /// The values that the keys take together.
    pub values: Values,
}

/// The values of a dimension.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// A list of values, as they are written in TOML.
    List(Vec<String>),
    /// Numbers between two ends.
    Range {
        /// The least value.
        from: f64,
        /// The greatest value.
        to: f64,
        /// The unit of both, such as `Mbit/s`; empty for plain numbers.
        unit: String,
        /// True if values are rounded to whole numbers.
        whole: bool,
        /// True if equal steps are equal factors.
        logarithmic: bool,
        /// The number of values in a grid.
        steps: Option<usize>,
    },
}

impl Dimension {
    /// Returns the name of its column: its keys, and the unit of its values where all have the same one.
    pub fn column(&self) -> String {
        let keys = self.keys.join(", ");
        match self.values.unit() {
            Some(unit) if !unit.is_empty() => format!("{keys} ({unit})"),
            _ => keys,
        }
    }
}

impl Values {
    /// Returns the unit that all values have; none where one of them is not a number. Plain numbers have the
    /// unit "".
    pub fn unit(&self) -> Option<&str> {
        match self {
            Values::Range { unit, .. } => Some(unit),
            Values::List(values) => {
                let mut units = values.iter().map(|value| quantity(plain(value)).map(|(_, unit)| unit));
                let first = units.next()??;
                units.all(|unit| unit == Some(first)).then_some(first)
            }
        }
    }

    /// True if equal steps are equal factors.
    pub fn is_logarithmic(&self) -> bool {
        matches!(self, Values::Range { logarithmic: true, .. })
    }

    /// Returns the number in `value`, in [`Values::unit`].
    pub fn number(&self, value: &str) -> Option<f64> {
        self.unit()?;
        quantity(plain(value)).map(|(number, _)| number)
    }

    /// Returns the number of values in a grid.
    pub(super) fn steps(&self) -> usize {
        match self {
            Values::List(values) => values.len(),
            Values::Range { steps, .. } => steps.unwrap_or(1),
        }
    }

    /// Returns the values of a list, or the first and the last one of a range.
    pub(super) fn ends(&self) -> Vec<String> {
        match self {
            Values::List(values) => values.clone(),
            Values::Range { .. } => vec![self.between(0.0), self.between(1.0)],
        }
    }

    /// Value number `step` of `steps` in a grid.
    pub(super) fn step(&self, step: usize, steps: usize) -> String {
        match self {
            Values::List(values) => values[step].clone(),
            Values::Range { .. } if steps == 1 => self.between(0.0),
            Values::Range { .. } => self.between(step as f64 / (steps - 1) as f64),
        }
    }

    /// Returns the value at a coordinate from 0 to 1.
    pub(super) fn at(&self, coordinate: f64) -> String {
        match self {
            Values::List(values) => {
                let at = (coordinate * values.len() as f64) as usize;
                values[at.min(values.len() - 1)].clone()
            }
            Values::Range { .. } => self.between(coordinate),
        }
    }

    /// Returns the value of a range at a share of its way, as TOML.
    fn between(&self, share: f64) -> String {
        let Values::Range { from, to, unit, whole, logarithmic, .. } = self else { return String::new() };
        // The ends are exact.
        let value = match share {
            0.0 => *from,
            1.0 => *to,
            _ if *logarithmic => libm::exp(libm::log(*from) + share * (libm::log(*to) - libm::log(*from))),
            _ => from + share * (to - from),
        };
        match (whole, unit.as_str()) {
            (true, _) => format!("{}", value.round() as i64),
            (false, "") => significant(value),
            (false, unit) => format!("\"{} {unit}\"", significant(value)),
        }
    }
}

/// Returns a number with six significant digits, without an exponent.
fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = libm::floor(libm::log10(value.abs())) as i32;
    let decimals = (5 - magnitude).clamp(0, 20) as usize;
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Returns a text without its quotes.
fn plain(value: &str) -> &str {
    let unquoted = |quote| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    unquoted('"').or_else(|| unquoted('\'')).unwrap_or(value)
}

/// Returns the number and the unit of `20 ms`.
fn quantity(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(text.len());
    let number = text[..end].parse().ok().filter(|number: &f64| number.is_finite())?;
    Some((number, text[end..].trim()))
}

/// Returns the dimensions of `vary`.
pub(super) fn flatten(
    table: &Table,
    prefix: &str,
    text: &str,
    design: Design,
    dimensions: &mut Vec<Dimension>,
) -> Result<(), Problem> {
    leaves(table, prefix, &mut |key, span, node| {
        let keys: Vec<String> = key.split(',').map(|key| key.trim().to_owned()).collect();
        for key in &keys {
            if key.is_empty() {
                return Err(Problem::at(span, "a key is empty"));
            }
            if dimensions.iter().any(|dimension| dimension.keys.contains(key)) {
                return Err(Problem::at(span, format!("`{key}` varies twice")));
            }
            if matches!(key.as_str(), "runs" | "seed" | "condition") {
                return Err(Problem::at(span, format!("`{key}` cannot vary")));
            }
        }
        let values = match &node.value {
            Value::Array(items) if items.is_empty() => {
                return Err(Problem::at(&node.span, "this list is empty"));
            }
            Value::Array(items) => Values::List(items.iter().map(|item| toml(item, text)).collect()),
            Value::Table(_) => range(node, design)?,
            _ => {
                return Err(Problem::at(&node.span, format!("`{key}` has one value"))
                    .help("write a list, or a range such as `{ from = \"1 ms\", to = \"75 ms\", steps = 5 }`; a fixed value belongs into `[set]`"));
            }
        };
        dimensions.push(Dimension { keys, values });
        Ok(true)
    })
}

/// Gives each value of nested tables to `take` with its dotted key; tables that `take` declines are entered.
pub(super) fn leaves(
    table: &Table,
    prefix: &str,
    take: &mut impl FnMut(String, &Span, &Node) -> Result<bool, Problem>,
) -> Result<(), Problem> {
    for entry in &table.entries {
        let key = format!("{prefix}{}", entry.key);
        match &entry.node.value {
            Value::Table(inner) if inner.get("from").is_none() => leaves(inner, &format!("{key}."), take)?,
            _ => {
                if !take(key, &entry.key_span, &entry.node)? {
                    return Err(Problem::at(&entry.node.span, "this is neither a list nor a range"));
                }
            }
        }
    }
    Ok(())
}

/// Returns the value of `node` as it was written, a list on one line.
pub(super) fn toml(node: &Node, text: &str) -> String {
    if let Value::Array(items) = &node.value {
        let items: Vec<String> = items.iter().map(|item| toml(item, text)).collect();
        return format!("[{}]", items.join(", "));
    }
    text.get(node.span.range.clone()).unwrap_or_default().to_owned()
}

/// Returns a number and its unit.
fn number(node: &Node) -> Result<(f64, String, bool), Problem> {
    match &node.value {
        Value::Integer(value) => Ok((*value as f64, String::new(), true)),
        Value::Float(value) if value.is_finite() => Ok((*value, String::new(), false)),
        Value::String(text) => quantity(text)
            .map(|(number, unit)| (number, unit.to_owned(), false))
            .ok_or_else(|| Problem::at(&node.span, format!("`{text}` is not a number with a unit"))),
        _ => {
            Err(Problem::at(&node.span, "a range has numbers at its ends")
                .help("write for example `\"5 ms\"`"))
        }
    }
}

fn range(node: &Node, design: Design) -> Result<Values, Problem> {
    let reader = Reader::of(node, "a range", RANGE_KEYS)?;
    let (from, unit, from_whole) = reader.required("from", "\"1 ms\"", number)?;
    let (to, to_unit, to_whole) = reader.required("to", "\"75 ms\"", number)?;
    if unit != to_unit {
        return Err(Problem::at(
            &node.span,
            format!("the ends have different units, `{unit}` and `{to_unit}`"),
        )
        .help("write both in the same unit"));
    }
    if from > to {
        return Err(Problem::at(&node.span, "`from` is greater than `to`"));
    }
    let logarithmic = reader.optional("scale", |node| node.choice("scale", &SCALES))? == Some(1);
    if logarithmic && from <= 0.0 {
        return Err(Problem::at(&node.span, "a logarithmic range begins above 0"));
    }
    let steps = reader.optional("steps", |node| node.integer(2, MOST_POINTS as i64))?;
    match (design, steps) {
        (Design::Grid, None) => {
            Err(Problem::at(&node.span, "a range in a grid has no `steps`")
                .help("add for example `steps = 5`"))
        }
        (_, Some(_)) if design != Design::Grid => Err(Problem::at(
            &node.span,
            format!("`steps` belong to a grid; this design is `{}`", design.name()),
        )
        .help(format!("the keys of this range are {}", list(&["from", "to", "scale"])))),
        _ => Ok(Values::Range {
            from,
            to,
            unit,
            whole: from_whole && to_whole,
            logarithmic,
            steps: steps.map(|steps| steps as usize),
        }),
    }
}
