//! The figures by name, each made from one kind of result.

mod classes;
mod comparison;
mod explanation;
mod recording;
mod sweep;

use anabranch_recording::report::Input;

use crate::chart::{Chart, Key, Sample};
use crate::style::{self, Style};
use crate::{PlotError, Selection};

/// A kind of result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A run directory.
    Recording,
    /// The JSON of a comparison.
    Comparison,
    /// The JSON of an explanation.
    Explanation,
    /// The directory of a sweep.
    Sweep,
}

impl Kind {
    /// Returns the kind of a result.
    pub fn of(input: &Input) -> Kind {
        match input {
            Input::Recording(_) => Kind::Recording,
            Input::Comparison(_) => Kind::Comparison,
            Input::Explanation(_) => Kind::Explanation,
            Input::Sweep(_) => Kind::Sweep,
        }
    }

    /// Returns the words for it, with an article.
    pub const fn words(self) -> &'static str {
        match self {
            Kind::Recording => "a recording",
            Kind::Comparison => "a comparison",
            Kind::Explanation => "an explanation",
            Kind::Sweep => "a sweep",
        }
    }
}

/// A figure that can be drawn.
#[derive(Clone, Copy, Debug)]
pub struct FigureInfo {
    /// The word for the command line and in Python.
    pub name: &'static str,
    /// The kind of result from which it is made.
    pub kind: Kind,
    /// Its content.
    pub about: &'static str,
}

const fn info(name: &'static str, kind: Kind, about: &'static str) -> FigureInfo {
    FigureInfo { name, kind, about }
}

/// Every figure that can be drawn, by the kind of result.
pub const FIGURES: [FigureInfo; 18] = [
    info(
        "sequence",
        Kind::Recording,
        "data sent by each subflow over time, with DATA_ACK, window edge, retransmissions and reinjections",
    ),
    info("cwnd", Kind::Recording, "congestion window and bytes in flight of each subflow over time"),
    info("rtt", Kind::Recording, "smoothed round-trip time of each subflow over time"),
    info("queue", Kind::Recording, "queues of the links over time"),
    info("reordering", Kind::Recording, "distribution of the time that segments waited for earlier data"),
    info("paths", Kind::Recording, "share of each path in the bytes"),
    info("goodput", Kind::Recording, "goodput over time"),
    info("completion", Kind::Recording, "distribution of completion times of the flows"),
    info("jain", Kind::Recording, "Jain's fairness index of the flows"),
    info("difference", Kind::Comparison, "differences from the reference, with intervals"),
    info("completion", Kind::Comparison, "completion times: points, boxes, means with intervals"),
    info("cdf", Kind::Comparison, "distribution of completion times"),
    info("paths", Kind::Comparison, "share of each path in the bytes"),
    info("goodput", Kind::Comparison, "mean goodput with intervals"),
    info("jain", Kind::Comparison, "Jain's fairness index, with intervals"),
    info("causes", Kind::Explanation, "the time of a flow, divided by the causes of its waits"),
    info("map", Kind::Sweep, "difference from the reference over two keys"),
    info("lines", Kind::Sweep, "mean completion time or goodput over one key, with intervals"),
];

/// Returns a figure of a result.
pub(crate) fn chart(input: &Input, name: &str, selection: &Selection) -> Result<Chart, PlotError> {
    let kind = Kind::of(input);
    if !FIGURES.iter().any(|figure| figure.name == name && figure.kind == kind) {
        let names = |kind| -> Vec<&str> {
            FIGURES.iter().filter(|figure| figure.kind == kind).map(|figure| figure.name).collect()
        };
        let others: Vec<&str> =
            FIGURES.iter().filter(|figure| figure.name == name).map(|figure| figure.kind.words()).collect();
        let other =
            if others.is_empty() { String::new() } else { format!(", only of {}", others.join(" and ")) };
        return Err(PlotError::new(format!(
            "there is no figure `{name}` of {}{other}; it has {}",
            kind.words(),
            names(kind).join(", ")
        )));
    }
    let chart = chart_of(input, name, selection)?;
    if chart.panels.is_empty() {
        return Err(PlotError::new(nothing(input, name, selection)));
    }
    Ok(chart)
}

fn chart_of(input: &Input, name: &str, selection: &Selection) -> Result<Chart, PlotError> {
    match input {
        Input::Recording(view) => recording::chart(view, name, selection),
        Input::Comparison(shown) => comparison::chart(shown, name, selection),
        Input::Explanation(shown) => explanation::chart(shown, selection),
        Input::Sweep(sweep) => sweep::chart(sweep, name, selection),
    }
}

/// Returns the reason why a figure has nothing to show, and the figures and the classes of traffic that have something.
fn nothing(input: &Input, name: &str, selection: &Selection) -> String {
    let why = match input {
        Input::Recording(view) => recording::nothing(view, name, selection),
        Input::Comparison(shown) => comparison::nothing(shown, name, selection),
        Input::Explanation(_) => "no flow was delivered".to_owned(),
        Input::Sweep(sweep) => sweep::nothing(sweep, name, selection),
    };
    let has_any =
        |name: &str, of: &Selection| chart_of(input, name, of).is_ok_and(|chart| !chart.panels.is_empty());
    let mut text = format!("there is nothing to show in the figure `{name}`: {why}");
    let others = FIGURES.iter().filter(|figure| figure.kind == Kind::of(input)).map(|figure| figure.name);
    let others: Vec<&str> = others.filter(|other| has_any(other, selection)).collect();
    if !others.is_empty() {
        text.push_str(&format!("\n   = help: figures with something to show: {}", others.join(", ")));
    }
    if selection.traffic.is_some() {
        let with = |class: &String| Selection { traffic: Some(class.clone()), ..selection.clone() };
        let classes = match input {
            Input::Comparison(shown) => comparison::traffic(shown),
            Input::Sweep(sweep) => sweep::traffic(sweep),
            _ => Vec::new(),
        };
        let classes: Vec<String> = classes.into_iter().filter(|class| has_any(name, &with(class))).collect();
        if !classes.is_empty() {
            text.push_str(&format!("\n   = help: classes with this figure: {}", classes.join(", ")));
        }
    }
    text
}

/// The contenders that are shown, in their order, with their styles.
pub(crate) struct Contenders {
    pub(crate) names: Vec<String>,
    styles: Vec<Style>,
}

impl Contenders {
    /// Returns the selected contenders of `all`. A contender has one style, however many are selected.
    pub(crate) fn new<'a>(
        all: impl IntoIterator<Item = &'a str>,
        selection: &Selection,
    ) -> Result<Contenders, PlotError> {
        let mut names: Vec<String> = Vec::new();
        for name in all {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        let styles = style::contenders(&names);
        if selection.schedulers.is_empty() {
            return Ok(Contenders { names, styles });
        }
        let mut kept = Contenders { names: Vec::new(), styles: Vec::new() };
        for wanted in &selection.schedulers {
            let Some(at) = names.iter().position(|name| name == wanted) else {
                let all = names.join(", ");
                return Err(PlotError::new(format!("there is no contender `{wanted}`; there are {all}")));
            };
            kept.names.push(wanted.clone());
            kept.styles.push(styles[at]);
        }
        Ok(kept)
    }

    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    pub(crate) fn style(&self, name: &str) -> Option<Style> {
        self.place(name).map(|at| self.styles[at])
    }

    /// Returns the legend of lines.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let key = |(name, style): (&String, &Style)| Key {
            text: name.clone(),
            sample: Sample::Line(style.stroke(1.4), None),
        };
        self.names.iter().zip(&self.styles).map(key).collect()
    }
}

/// Returns the conditions that are shown.
pub(crate) fn conditions<'a>(
    all: impl IntoIterator<Item = &'a str>,
    selection: &Selection,
) -> Result<Vec<String>, PlotError> {
    let mut names: Vec<String> = Vec::new();
    for name in all {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    match &selection.condition {
        None => Ok(names),
        Some(wanted) if names.contains(wanted) => Ok(vec![wanted.clone()]),
        Some(wanted) => {
            let all = names.iter().filter(|name| !name.is_empty()).cloned().collect::<Vec<_>>().join(", ");
            let all = if all.is_empty() {
                "there is only one, without a name".to_owned()
            } else {
                format!("there are {all}")
            };
            Err(PlotError::new(format!("there is no condition `{wanted}`; {all}")))
        }
    }
}

/// Returns the steps of the distribution of `ordered` times among `all` flows, in percent.
pub(crate) fn distribution(ordered: &[f64], all: usize) -> Vec<(f64, f64)> {
    let first = ordered.first().map(|first| (*first, 0.0));
    let steps =
        ordered.iter().enumerate().map(|(at, value)| (*value, 100.0 * (at + 1) as f64 / all.max(1) as f64));
    first.into_iter().chain(steps).collect()
}
