//! The colours, symbols and dashes of all figures, in their order: Okabe and Ito's colours, which people with colour blindness can
//! tell apart, each with its own symbol and dash.
//!
//! They are declared here once. [`typescript`] and [`python`] write them for the page of the report
//! (`web/report/src/palette.ts`) and for the Python package (`python/anabranch/_palette.py`); a test compares both files, and
//! `ANABRANCH_BLESS=1 cargo test -p anabranch-plot --lib palette` rewrites them.

use core::fmt::Write as _;

pub use crate::chart::Symbol;

/// A colour on white paper, and on a dark page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// On white, for figures in files too.
    pub light: &'static str,
    /// On a dark page.
    pub dark: &'static str,
}

const fn pair(light: &'static str, dark: &'static str) -> Pair {
    Pair { light, dark }
}

/// The fixed look of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The name of the contender.
    pub name: &'static str,
    /// The colour of lines and symbols.
    pub colour: Pair,
    /// The symbol of points.
    pub symbol: Symbol,
    /// The position of the dash in [`DASHES`].
    pub dash: usize,
}

const fn known(name: &'static str, colour: Pair, symbol: Symbol, dash: usize) -> Known {
    Known { name, colour, symbol, dash }
}

/// Lengths of strokes and gaps in points, which differ in black and white. Only the first is solid.
pub const DASHES: [&[f64]; 10] = [
    &[],
    &[5.0, 2.2],
    &[1.5, 2.0],
    &[6.5, 2.0, 1.5, 2.0],
    &[10.0, 3.0],
    &[6.5, 2.0, 1.5, 2.0, 1.5, 2.0],
    &[3.0, 1.8],
    &[10.0, 2.2, 3.0, 2.2],
    &[5.0, 2.2, 5.0, 2.2, 1.5, 2.2],
    &[1.5, 1.5, 1.5, 3.5],
];

/// The symbols of contenders.
pub const SYMBOLS: [Symbol; 4] = [Symbol::Circle, Symbol::Square, Symbol::Triangle, Symbol::Diamond];

/// Contenders that look the same in every figure.
pub const KNOWN: [Known; 6] = [
    known("tcp", pair("#000000", "#ffffff"), Symbol::Circle, 1),
    known("min_rtt", pair("#0072B2", "#4aa8e0"), Symbol::Square, 0),
    known("dmptcp", pair("#D55E00", "#f58a3c"), Symbol::Diamond, 4),
    known("linux", pair("#C98500", "#E69F00"), Symbol::Triangle, 3),
    known("round_robin", pair("#009E73", "#2cc79a"), Symbol::Triangle, 5),
    known("redundant", pair("#B8578F", "#CC79A7"), Symbol::Circle, 2),
];

/// The colours of other contenders.
pub const COLOURS: [Pair; 7] = [
    pair("#009E73", "#2cc79a"),
    pair("#B8578F", "#CC79A7"),
    pair("#2E93CC", "#7cc8f2"),
    pair("#8A7A00", "#F0E442"),
    pair("#0072B2", "#4aa8e0"),
    pair("#D55E00", "#f58a3c"),
    pair("#6b6b6b", "#bdbdbd"),
];

/// Subflows, paths and links, which differ in lightness too.
pub const PATHS: [Pair; 8] = [
    pair("#3b528b", "#8fa6e8"),
    pair("#5ec962", "#4fae55"),
    pair("#c9b400", "#fde725"),
    pair("#21918c", "#35b5ae"),
    pair("#440154", "#b36bc9"),
    pair("#9ad6a0", "#c9efc9"),
    pair("#7a5c00", "#a58a3c"),
    pair("#9a9a9a", "#d0d0d0"),
];

/// The causes of an explanation, in its order: waits of hosts in blues and purples, the network in greens and yellows, losses
/// and order in reds, each lighter or darker than its neighbours.
pub const CAUSES: [(&str, Pair); 13] = [
    ("handshake", pair("#7f7f7f", "#9a9a9a")),
    ("application", pair("#c7c7c7", "#5a5a5a")),
    ("send_buffer", pair("#aec7e8", "#7f9cc4")),
    ("receive_window", pair("#5f3c99", "#a987e0")),
    ("congestion_window", pair("#0072B2", "#4aa8e0")),
    ("pacing", pair("#8fd0ff", "#bfe4ff")),
    ("scheduler", pair("#1b2a6b", "#6f80d8")),
    ("queueing", pair("#8A7A00", "#b8a93a")),
    ("serialisation", pair("#009E73", "#2cc79a")),
    ("propagation", pair("#b6e3a1", "#d3f0c6")),
    ("retransmission", pair("#7a1f00", "#c4552d")),
    ("head_of_line", pair("#E69F00", "#ffc14d")),
    ("outage", pair("#2b2b2b", "#e8e8e8")),
];

/// Claims of papers by their verdict.
pub const VERDICTS: [(&str, Pair); 4] =
    [("holds", HOLDS), ("variant", UNDECIDED), ("undecided", UNDECIDED), ("fails", FAILS)];

/// A claim that holds.
pub const HOLDS: Pair = pair("#1a7f37", "#4ac26b");
/// A claim that does not.
pub const FAILS: Pair = pair("#cf222e", "#ff7b72");
/// A claim that holds as a variant, or is undecided.
pub const UNDECIDED: Pair = pair("#9a6700", "#d4a72c");

/// Words, axes and the data that is not of a contender.
pub const INK: [(&str, Pair); 5] =
    [("text", TEXT), ("dim", DIM), ("line", LINE), ("warn", WARN), ("note", NOTE)];

/// Words.
pub const TEXT: Pair = pair("#16202b", "#e6ebf0");
/// Words of less weight, and axes.
pub const DIM: Pair = pair("#55616e", "#a3afbb");
/// Lines of the grid.
pub const LINE: Pair = pair("#d5dae0", "#37424e");
/// Retransmissions and warnings.
pub const WARN: Pair = pair("#d1290c", "#ff7a5c");
/// Reinjections.
pub const NOTE: Pair = pair("#a0218f", "#f08ae0");

/// The end of the scale of differences for a contender that is better.
pub const BETTER: &str = "#005c9e";
/// The end of that scale for a contender that is worse.
pub const WORSE: &str = "#c44e00";
/// The beginning of that scale.
pub const NO_DIFFERENCE: Pair = pair("#f0f2f5", "#2c3642");

const ORIGIN: &str = "Generated from crates/plot/src/palette.rs; a test there compares this file, and rewrites it with ANABRANCH_BLESS=1.";

/// Returns the palette as a module of TypeScript for the page of the report, with the symbols of ECharts.
pub fn typescript() -> String {
    let mut text = format!("// {ORIGIN}\n\n");
    text += "export type Symbol = \"circle\" | \"rect\" | \"triangle\" | \"diamond\";\n\n";
    text += "/** Lengths of strokes and gaps in points. Only the first is solid. */\n";
    text += "export const DASHES: number[][] = [\n";
    for dash in DASHES {
        let _ = writeln!(text, "  [{}],", list(dash.iter().map(f64::to_string)));
    }
    let symbols = list(SYMBOLS.iter().map(|symbol| format!("\"{}\"", shape(*symbol))));
    let _ = write!(text, "];\nexport const SYMBOLS: Symbol[] = [{symbols}];\n\n");
    text += "/** Contenders that look the same in every figure. */\n";
    text += "export const KNOWN: Record<string, { light: string; dark: string; symbol: Symbol; dash: number }> = {\n";
    for Known { name, colour: Pair { light, dark }, symbol, dash } in KNOWN {
        let shape = shape(symbol);
        let _ = writeln!(
            text,
            "  {name}: {{ light: \"{light}\", dark: \"{dark}\", symbol: \"{shape}\", dash: {dash} }},"
        );
    }
    text += "};\n\n";
    let mut pairs = |what: &str, name: &str, rows: &[(&str, Pair)]| {
        let _ = write!(
            text,
            "/** {what}, on white and on a dark page. */\nexport const {name}: [string, string][] = [\n"
        );
        for (name, Pair { light, dark }) in rows {
            let note =
                if name.is_empty() { String::new() } else { format!(" // {}", name.replace('_', " ")) };
            let _ = writeln!(text, "  [\"{light}\", \"{dark}\"],{note}");
        }
        text += "];\n\n";
    };
    let unnamed = |pairs: &[Pair]| pairs.iter().map(|pair| ("", *pair)).collect::<Vec<_>>();
    pairs("The colours of other contenders", "COLOURS", &unnamed(&COLOURS));
    pairs("Subflows, paths and links", "PATHS", &unnamed(&PATHS));
    pairs("The causes of an explanation, in its order", "CAUSES", &CAUSES);
    text += "/** Words, axes, retransmissions and reinjections, on white and on a dark page. */\n";
    for (name, of) in [("LIGHT_INK", false), ("DARK_INK", true)] {
        let colours =
            INK.iter().map(|(name, pair)| format!("{name}: \"{}\"", if of { pair.dark } else { pair.light }));
        let _ = writeln!(text, "export const {name} = {{ {} }};", list(colours));
    }
    text += "\n/** The ends of the scale of differences, and its beginning on white and on a dark page. */\n";
    let _ = write!(
        text,
        "export const BETTER = \"{BETTER}\";\nexport const WORSE = \"{WORSE}\";\n\
         export const NO_DIFFERENCE: [string, string] = [\"{}\", \"{}\"];\n",
        NO_DIFFERENCE.light, NO_DIFFERENCE.dark
    );
    text
}

/// Returns the palette as a module of Python, on white, with the markers of matplotlib.
pub fn python() -> String {
    let mut text =
        format!("\"\"\"The colours, markers and dashes of all figures.\n\n{}\n\"\"\"\n\n", wrapped(ORIGIN));
    text += "from __future__ import annotations\n\nfrom typing import Final\n\n";
    text += "DASHES: Final[tuple[tuple[float, ...], ...]] = (\n";
    for dash in DASHES {
        let _ = writeln!(text, "    ({}),", list(dash.iter().map(|part| format!("{part:?}"))));
    }
    text += ")\n\"\"\"Lengths of strokes and gaps in points. Only the first is solid.\"\"\"\n\n";
    let markers = list(SYMBOLS.iter().map(|symbol| format!("\"{}\"", marker(*symbol))));
    let _ = write!(text, "MARKERS: Final = ({markers})\n\"\"\"Markers of matplotlib.\"\"\"\n\n");
    text += "KNOWN: Final = {\n";
    for Known { name, colour, symbol, dash } in KNOWN {
        let _ =
            writeln!(text, "    \"{name}\": (\"{}\", \"{}\", DASHES[{dash}]),", colour.light, marker(symbol));
    }
    text += "}\n\"\"\"Contenders that look the same in every figure: colour, marker and dash.\"\"\"\n\n";
    let mut colours = |name: &str, what: &str, pairs: &[Pair]| {
        let _ = writeln!(text, "{name}: Final = (");
        for pair in pairs {
            let _ = writeln!(text, "    \"{}\",", pair.light);
        }
        let _ = write!(text, ")\n\"\"\"{what}.\"\"\"\n\n");
    };
    colours("COLORS", "The colours of other contenders", &COLOURS);
    colours("PATHS", "Subflows, paths and links", &PATHS);
    let mut named = |name: &str, what: &str, rows: &[(&str, Pair)]| {
        let _ = writeln!(text, "{name}: Final = {{");
        for (name, pair) in rows {
            let _ = writeln!(text, "    \"{name}\": \"{}\",", pair.light);
        }
        let _ = write!(text, "}}\n\"\"\"{what}.\"\"\"\n\n");
    };
    named("CAUSES", "The causes of an explanation, in its order", &CAUSES);
    named("VERDICTS", "Claims of papers by their verdict", &VERDICTS);
    named("INK", "Words, axes, retransmissions and reinjections", &INK);
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<String>>().join(", ")
}

/// Returns `text` in two lines, which a file of Python has.
fn wrapped(text: &str) -> String {
    text.replacen("; ", ";\n", 1)
}

/// The name of a symbol in ECharts.
fn shape(symbol: Symbol) -> &'static str {
    match symbol {
        Symbol::Circle => "circle",
        Symbol::Square => "rect",
        Symbol::Triangle => "triangle",
        Symbol::Diamond | Symbol::Cross => "diamond",
    }
}

/// The marker of a symbol in matplotlib.
fn marker(symbol: Symbol) -> &'static str {
    match symbol {
        Symbol::Circle => "o",
        Symbol::Square => "s",
        Symbol::Triangle => "^",
        Symbol::Diamond | Symbol::Cross => "D",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use anabranch_lab::explain::Cause;

    use super::*;

    #[test]
    fn the_report_and_python_have_this_palette() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (file, text) in
            [("web/report/src/palette.ts", typescript()), ("python/anabranch/_palette.py", python())]
        {
            let path = root.join(file);
            if std::env::var_os("ANABRANCH_BLESS").is_some() {
                std::fs::write(&path, &text).unwrap();
            }
            assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text, "{file}");
        }
        let css = std::fs::read_to_string(root.join("web/report/src/style.css")).unwrap();
        let (light, dark) = css.split_once("dark").unwrap();
        for (name, pair) in [("text", TEXT), ("dim", DIM), ("line", LINE)] {
            assert!(light.contains(&format!("--{name}: {};", pair.light)), "{name}");
            assert!(dark.contains(&format!("--{name}: {};", pair.dark)), "{name}");
        }
    }

    #[test]
    fn the_causes_are_those_of_an_explanation() {
        let names = serde_json::to_value(Cause::ALL).unwrap();
        assert_eq!(serde_json::to_value(CAUSES.map(|(name, _)| name)).unwrap(), names);
    }
}
