//! Reads distributions of sizes and times.

use std::sync::Arc;

use anabranch_sim::distribution::{Distribution, PUBLISHED};
use anabranch_sim::traffic::Sizes;

use super::files::Files;
use crate::text::keys::{Keys, Kinds, Shape, rows};
use crate::text::reader::{Reader, list};
use crate::text::source::Problem;
use crate::text::tree::{Node, Value};

/// The kinds of a distribution, with their parameters and descriptions.
const KINDS: &[(&str, &[&str], &str)] = &[
    ("constant", &["value"], "always the same; `size = \"50 KB\"` is the short form"),
    ("uniform", &["min", "max"], "uniform between two values"),
    ("exponential", &["mean"], "exponential; gaps between starts are then a Poisson process"),
    ("pareto", &["shape", "min", "max"], "Pareto, bounded if there is a `max`"),
    (
        "log-normal",
        &["median", "mean", "sigma"],
        "log-normal: a median or a mean, and the standard deviation of the natural logarithm",
    ),
    (
        "cdf",
        &["file"],
        "points of a distribution function in a file: a value in base units and a probability a line",
    ),
    ("sequence", &["values"], "these values in turn for each flow, and again from the first"),
];

/// The most values of a sequence.
const MOST_VALUES: usize = 10_000;

rows! {
    ROWS, KEYS {
        "distribution": Named(kinds), "the kind of distribution (`anabranch list distributions`)";
        "value": QUANTITY, "the value";
        "min": QUANTITY, "the least value";
        "max": QUANTITY, "the greatest value";
        "mean": QUANTITY, "the mean";
        "median": QUANTITY, "the median";
        "shape": Number, "the shape of a Pareto distribution";
        "sigma": Number, "the standard deviation of the natural logarithm";
        "file": Text, "a file with points of the distribution function";
        "values": List(&QUANTITY), "the values of a sequence, at most 10 000";
    }
}
const QUANTITY: Shape = Shape::AnyOf(&[Shape::Size, Shape::Time]);

/// A distribution of sizes or times.
pub(crate) const TABLE: Keys = Keys {
    kinds: Some(Kinds {
        key: "distribution",
        default: None,
        common: &["distribution"],
        own: || KINDS.iter().map(|(name, keys, _)| (*name, *keys)).collect(),
    }),
    ..Keys::new("distribution", &[ROWS]).requires(&["distribution"])
};

/// Returns the kinds of distributions that a scenario can name: name, parameters and description.
pub fn distributions() -> &'static [(&'static str, &'static [&'static str], &'static str)] {
    KINDS
}

fn kinds() -> Vec<&'static str> {
    KINDS.iter().map(|(name, ..)| *name).collect()
}

/// Returns the names of the published distributions of sizes.
pub(super) fn published() -> Vec<&'static str> {
    PUBLISHED.iter().map(|published| published.name).collect()
}

/// The quantity of a distribution.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Size,
    Time,
}

/// True if `node` is a table, or the name of a published distribution.
pub(super) fn is_named(node: &Node) -> bool {
    match &node.value {
        Value::Table(_) => true,
        Value::String(text) => PUBLISHED.iter().any(|published| published.name == text.trim()),
        _ => false,
    }
}

/// Reads a distribution: a value, the name of a published one (sizes), or a table with the key `distribution`.
pub(super) fn read(node: &Node, of: Of, files: &Files<'_>) -> Result<Distribution, Problem> {
    let value = |node: &Node| -> Result<f64, Problem> {
        Ok(match of {
            Of::Size => node.positive_size()?.0 as f64,
            Of::Time => node.positive_time()?.0 as f64,
        })
    };
    if let (Of::Size, Value::String(text)) = (of, &node.value) {
        let text = text.trim();
        if let Some(published) = PUBLISHED.iter().find(|published| published.name == text) {
            return Ok(published.distribution());
        }
        if let (true, Sizes::Pareto { shape, scale, .. }) = (text.eq_ignore_ascii_case("web"), Sizes::WEB) {
            return Ok(Distribution::Pareto { shape, min: scale.0 as f64, max: None });
        }
    }
    let Value::Table(_) = &node.value else {
        return Ok(Distribution::Constant(value(node).map_err(|problem| {
            let help = problem.help.clone().unwrap_or_default();
            problem.help(format!(
                "{help}; or for example `{{ distribution = \"exponential\", mean = {} }}`",
                match of {
                    Of::Size => "\"50 KB\"",
                    Of::Time => "\"1 s\"",
                }
            ))
        })?));
    };
    let table = Reader::of(node, "a distribution", KEYS)?;
    let kind =
        table.required("distribution", "\"exponential\"", |node| node.choice("distribution", &kinds()))?;
    let (name, own, _) = KINDS[kind];
    let stray =
        KEYS[1..].iter().filter(|key| !own.contains(key)).find_map(|key| Some((key, table.get(key)?)));
    if let Some((key, node)) = stray {
        return Err(Problem::at(&node.span, format!("the distribution `{name}` has no `{key}`"))
            .help(format!("its parameters are {}", list(own))));
    }
    let example = if of == Of::Size { "\"50 KB\"" } else { "\"1 s\"" };
    let required = |key: &str| table.required(key, example, value);
    let positive =
        |key: &str, example: &str| {
            table.required(key, example, |node| match node.number()? {
                number if number > 0.0 => Ok(number),
                number => Err(Problem::at(&node.span, format!("{number} is not positive"))
                    .help("give a number above 0")),
            })
        };
    let distribution = match name {
        "constant" => Distribution::Constant(required("value")?),
        "uniform" => {
            // The lower end of times may be 0.
            let low = |node: &Node| match of {
                Of::Size => value(node),
                Of::Time => Ok(node.delay()?.0 as f64),
            };
            Distribution::Uniform { min: table.required("min", example, low)?, max: required("max")? }
        }
        "exponential" => Distribution::Exponential { mean: required("mean")? },
        "pareto" => {
            let (shape, max) = (positive("shape", "1.5")?, table.optional("max", value)?);
            if shape <= 1.0 && max.is_none() {
                return Err(Problem::at(
                    &node.span,
                    format!("a Pareto distribution of shape {shape} has no mean"),
                )
                .help("give a `max`, or a shape above 1"));
            }
            Distribution::Pareto { shape, min: required("min")?, max }
        }
        "log-normal" => {
            let sigma = positive("sigma", "1.0")?;
            let median = match (table.get("median"), table.get("mean")) {
                (Some(_), Some(mean)) => {
                    return Err(
                        Problem::at(&mean.span, "a median determines the mean").help("remove one of them")
                    );
                }
                (None, Some(mean)) => value(mean)? / Distribution::LogNormal { median: 1.0, sigma }.mean(),
                _ => required("median")?,
            };
            Distribution::LogNormal { median, sigma }
        }
        "sequence" => {
            let example = format!("[{example}, {example}]");
            Distribution::Sequence(table.required("values", &example, |node| sequence(node, of))?.into())
        }
        _ => Distribution::Empirical(Arc::new(
            table.required("file", "\"sizes.txt\"", |node| files.cdf(node))?,
        )),
    };
    match distribution.is_valid() {
        true => Ok(distribution),
        false if name == "sequence" => {
            Err(Problem::at(&node.span, "all values of this sequence are 0").help("give a value above 0"))
        }
        false => {
            Err(Problem::at(&node.span, "these parameters are no distribution")
                .help("give a `max` above `min`"))
        }
    }
}

/// Reads the values of a sequence; times may be 0.
fn sequence(node: &Node, of: Of) -> Result<Vec<f64>, Problem> {
    let nodes = node.array()?;
    if nodes.is_empty() || nodes.len() > MOST_VALUES {
        return Err(Problem::at(&node.span, format!("a sequence of {} values", nodes.len()))
            .help(format!("give 1 to {MOST_VALUES} values")));
    }
    let value = |node: &Node| {
        Ok(match of {
            Of::Size => node.positive_size()?.0 as f64,
            Of::Time => node.delay()?.0 as f64,
        })
    };
    nodes.iter().map(value).collect()
}
