//! Colours that all eyes tell apart (Okabe and Ito's), each with a symbol and a dash of its own.

use crate::chart::{Stroke, Symbol};

pub(crate) const TEXT: &str = "#16202b";
pub(crate) const DIM: &str = "#55616e";
pub(crate) const LINE: &str = "#d5dae0";
pub(crate) const WARN: &str = "#d1290c";
pub(crate) const NOTE: &str = "#a0218f";

/// The look of a contender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Style {
    pub(crate) colour: &'static str,
    pub(crate) symbol: Symbol,
    pub(crate) dash: &'static [f64],
}

impl Style {
    pub(crate) fn stroke(&self, width: f64) -> Stroke {
        Stroke { colour: self.colour, width, dash: self.dash }
    }
}

const DASHES: [&[f64]; 4] = [&[], &[5.0, 2.5], &[1.5, 1.5], &[6.0, 2.0, 1.5, 2.0]];
const SYMBOLS: [Symbol; 4] = [Symbol::Circle, Symbol::Square, Symbol::Triangle, Symbol::Diamond];

/// Contenders that look the same in every figure, as on the page of the report.
const KNOWN: [(&str, Style); 6] = [
    ("tcp", Style { colour: "#000000", symbol: Symbol::Circle, dash: DASHES[1] }),
    ("min_rtt", Style { colour: "#0072B2", symbol: Symbol::Square, dash: DASHES[0] }),
    ("dmptcp", Style { colour: "#D55E00", symbol: Symbol::Diamond, dash: DASHES[0] }),
    ("linux", Style { colour: "#C98500", symbol: Symbol::Triangle, dash: DASHES[3] }),
    ("round_robin", Style { colour: "#009E73", symbol: Symbol::Triangle, dash: DASHES[0] }),
    ("redundant", Style { colour: "#B8578F", symbol: Symbol::Circle, dash: DASHES[2] }),
];
const COLOURS: [&str; 7] = ["#009E73", "#B8578F", "#2E93CC", "#8A7A00", "#0072B2", "#D55E00", "#6b6b6b"];

/// Returns the style of each of `names`.
pub(crate) fn contenders(names: &[String]) -> Vec<Style> {
    let known = |name: &str| KNOWN.iter().find(|(known, _)| *known == name).map(|(_, style)| *style);
    let taken: Vec<&str> = names.iter().filter_map(|name| known(name)).map(|style| style.colour).collect();
    let (used, free): (Vec<&str>, Vec<&str>) = COLOURS.iter().partition(|colour| taken.contains(colour));
    let all: Vec<&'static str> = free.into_iter().chain(used).collect();
    let mut next = 0;
    let mut style = |name: &String| {
        known(name).unwrap_or_else(|| {
            let turn = next + next / all.len();
            next += 1;
            Style {
                colour: all[(next - 1) % all.len()],
                symbol: SYMBOLS[turn % SYMBOLS.len()],
                dash: DASHES[turn % DASHES.len()],
            }
        })
    };
    names.iter().map(&mut style).collect()
}

/// Subflows, paths and links: told apart by lightness and dash too.
const PATHS: [&str; 8] =
    ["#3b528b", "#5ec962", "#c9b400", "#21918c", "#440154", "#9ad6a0", "#7a5c00", "#9a9a9a"];

pub(crate) fn path(at: usize) -> &'static str {
    PATHS[at % PATHS.len()]
}

pub(crate) fn path_stroke(at: usize, width: f64) -> Stroke {
    Stroke { colour: path(at), width, dash: DASHES[at % DASHES.len()] }
}

/// The colour of a cause, in the order of `anabranch explain`.
pub(crate) fn cause(at: usize) -> &'static str {
    const CAUSES: [&str; 12] = [
        "#7f7f7f", "#c7c7c7", "#aec7e8", "#5f3c99", "#0072B2", "#8fd0ff", "#1b2a6b", "#8A7A00", "#009E73",
        "#b6e3a1", "#7a1f00", "#E69F00",
    ];
    CAUSES[at % CAUSES.len()]
}

/// Blue for better, orange for worse; `strength` from 0 to 1.
pub(crate) fn diverging(better: bool, strength: f64) -> String {
    let end = if better { [0.0, 92.0, 158.0] } else { [196.0, 78.0, 0.0] };
    let share = 0.08 + 0.92 * strength.clamp(0.0, 1.0);
    let part = |at: usize| {
        let begin = [240.0, 242.0, 245.0][at];
        (begin + (end[at] - begin) * share).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", part(0), part(1), part(2))
}
