//! Colours that all eyes tell apart (Okabe and Ito's), each with its own symbol and dash.

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

/// Lengths of strokes and gaps in points, which differ in black and white. Only the first is solid.
const DASHES: [&[f64]; 10] = [
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
const SYMBOLS: [Symbol; 4] = [Symbol::Circle, Symbol::Square, Symbol::Triangle, Symbol::Diamond];

/// Contenders that look the same in every figure, on the page of the report (web/report/src/theme.ts) and in figures of
/// Python (python/anabranch/style.py).
const KNOWN: [(&str, Style); 6] = [
    ("tcp", Style { colour: "#000000", symbol: Symbol::Circle, dash: DASHES[1] }),
    ("min_rtt", Style { colour: "#0072B2", symbol: Symbol::Square, dash: DASHES[0] }),
    ("dmptcp", Style { colour: "#D55E00", symbol: Symbol::Diamond, dash: DASHES[4] }),
    ("linux", Style { colour: "#C98500", symbol: Symbol::Triangle, dash: DASHES[3] }),
    ("round_robin", Style { colour: "#009E73", symbol: Symbol::Triangle, dash: DASHES[5] }),
    ("redundant", Style { colour: "#B8578F", symbol: Symbol::Circle, dash: DASHES[2] }),
];
const COLOURS: [&str; 7] = ["#009E73", "#B8578F", "#2E93CC", "#8A7A00", "#0072B2", "#D55E00", "#6b6b6b"];

/// Returns the style of each of `names`. Other contenders first get the colours, symbols and dashes that the known ones
/// among `names` do not use.
pub(crate) fn contenders(names: &[String]) -> Vec<Style> {
    let known = |name: &str| KNOWN.iter().find(|(known, _)| *known == name).map(|(_, style)| *style);
    let taken: Vec<Style> = names.iter().filter_map(|name| known(name)).collect();
    let colours = free_first(&COLOURS, |colour| taken.iter().any(|style| style.colour == *colour));
    let symbols = free_first(&SYMBOLS, |symbol| taken.iter().any(|style| style.symbol == *symbol));
    let dashes = free_first(&DASHES, |dash| taken.iter().any(|style| style.dash == *dash));
    let mut next = 0;
    let mut style = |name: &String| {
        known(name).unwrap_or_else(|| {
            let at = next;
            next += 1;
            Style {
                colour: colours[at % colours.len()],
                symbol: symbols[at % symbols.len()],
                dash: dashes[at % dashes.len()],
            }
        })
    };
    names.iter().map(&mut style).collect()
}

/// Returns the colour of each of `names` in all figures. Names without a fixed colour get different ones
/// while there are enough.
pub fn colours(names: &[String]) -> Vec<&'static str> {
    contenders(names).iter().map(|style| style.colour).collect()
}

/// Returns the free items in their order, then the others.
fn free_first<T: Copy>(all: &[T], is_taken: impl Fn(&T) -> bool) -> Vec<T> {
    let (taken, mut free): (Vec<T>, Vec<T>) = all.iter().copied().partition(is_taken);
    free.extend(taken);
    free
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

/// The shade of the times in which a path is down.
pub(crate) fn outage(at: usize) -> &'static str {
    const SHADES: [&str; 4] = ["#e3e6ee", "#e2f3e4", "#f6f0d2", "#e6dfe9"];
    SHADES[at % SHADES.len()]
}

/// The colour of a cause, in the order of `anabranch explain`.
pub(crate) fn cause(at: usize) -> &'static str {
    const CAUSES: [&str; 13] = [
        "#7f7f7f", "#c7c7c7", "#aec7e8", "#5f3c99", "#0072B2", "#8fd0ff", "#1b2a6b", "#8A7A00", "#009E73",
        "#b6e3a1", "#7a1f00", "#E69F00", "#2b2b2b",
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

#[cfg(test)]
mod tests {
    use super::*;

    fn styles(names: &[&str]) -> Vec<Style> {
        contenders(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn contenders_differ_in_black_and_white_and_one_at_most_is_solid() {
        let known: Vec<&str> = KNOWN.iter().map(|(name, _)| *name).collect();
        let with_others = [&known[..], &["blest", "ecf", "otias", "peekaboo"]].concat();
        let of_others = ["tcp", "blest", "ecf", "otias", "a", "b", "c", "d", "e"];
        for names in [&known[..], &with_others, &of_others, &["tcp", "min_rtt", "blest"]] {
            let styles = styles(names);
            for (at, style) in styles.iter().enumerate() {
                assert!(!styles[..at].iter().any(|other| other.dash == style.dash), "{names:?}: {at}");
            }
            assert!(styles.iter().filter(|style| style.dash.is_empty()).count() <= 1);
        }
    }

    #[test]
    fn an_unknown_contender_has_first_what_is_free() {
        let styles = styles(&["tcp", "min_rtt", "blest"]);
        assert_eq!(styles[2], Style { colour: "#009E73", symbol: Symbol::Triangle, dash: DASHES[2] });
    }

    /// The text between `begin` and the next `end`, without space.
    fn part(text: &str, begin: &str, end: &str) -> String {
        let from = text.find(begin).unwrap_or_else(|| panic!("no {begin}")) + begin.len();
        let to = text[from..].find(end).unwrap_or_else(|| panic!("no {end} after {begin}"));
        text[from..from + to].split_whitespace().collect()
    }

    #[test]
    fn the_report_and_python_have_the_same_styles() {
        let page = include_str!("../../../web/report/src/theme.ts");
        let python = include_str!("../../../python/anabranch/style.py");
        let numbers = |one: &[f64], open: &str, close: &str, always: bool| {
            let mut text: Vec<String> =
                one.iter().map(|part| if always { format!("{part:?}") } else { format!("{part}") }).collect();
            text.iter_mut().for_each(|part| part.push(','));
            format!("{open}{}{close}", text.concat().trim_end_matches(','))
        };
        let of_page: String = DASHES.iter().map(|dash| numbers(dash, "[", "],", false)).collect();
        assert_eq!(part(page, "const DASHES: number[][] = [\n", "\n];"), of_page);
        let of_python: String = DASHES.iter().map(|dash| numbers(dash, "(", "),", true)).collect();
        assert_eq!(part(python, "_DASHES: Final = (\n", "\n)"), of_python);
        let mut page_known = String::new();
        let mut python_known = String::new();
        for (name, style) in KNOWN {
            let (shape, marker) = match style.symbol {
                Symbol::Circle => ("circle", "o"),
                Symbol::Square => ("rect", "s"),
                Symbol::Triangle => ("triangle", "^"),
                _ => ("diamond", "D"),
            };
            let dash = DASHES.iter().position(|dash| *dash == style.dash).unwrap();
            let colour = style.colour;
            let dark = part(page, &format!("{name}: {{ light: \"{colour}\", dark: "), ",");
            page_known.push_str(&format!(
                "{name}:{{light:\"{colour}\",dark:{dark},symbol:\"{shape}\",dash:{dash}}},"
            ));
            python_known.push_str(&format!("\"{name}\":Look(\"{colour}\",\"{marker}\",_DASHES[{dash}]),"));
        }
        assert_eq!(part(page, "dash: number }> = {\n", "\n};"), page_known);
        assert_eq!(part(python, "_KNOWN: Final = {\n", "\n}"), python_known);
        let quoted: Vec<String> = COLOURS.iter().map(|colour| format!("\"{colour}\"")).collect();
        assert_eq!(part(python, "_COLORS: Final = (", ")"), quoted.join(","));
        let places: Vec<usize> =
            quoted.iter().map(|colour| page.find(&format!("  [{colour}")).unwrap()).collect();
        assert!(places.is_sorted(), "{places:?}");
    }

    #[test]
    fn better_is_blue_and_worse_is_orange_and_more_is_darker() {
        assert_eq!(
            (diverging(true, 1.0), diverging(false, 1.0)),
            ("#005c9e".to_owned(), "#c44e00".to_owned())
        );
        let red = |better, strength| u8::from_str_radix(&diverging(better, strength)[1..3], 16).unwrap();
        assert!(red(true, 0.2) > red(true, 0.8), "a small difference is pale");
        assert_eq!(diverging(true, 0.0), "#dde6ee");
    }
}
