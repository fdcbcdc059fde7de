//! The looks of contenders, paths and causes in a figure, from the [palette](crate::palette).

use crate::chart::{Stroke, Symbol};
use crate::palette::{self, BETTER, CAUSES, COLOURS, DASHES, KNOWN, NO_DIFFERENCE, PATHS, SYMBOLS, WORSE};

pub(crate) const TEXT: &str = palette::TEXT.light;
pub(crate) const DIM: &str = palette::DIM.light;
pub(crate) const LINE: &str = palette::LINE.light;
pub(crate) const WARN: &str = palette::WARN.light;
pub(crate) const NOTE: &str = palette::NOTE.light;

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

/// Returns the style of each of `names`. Other contenders first get the colours, symbols and dashes that the known ones
/// among `names` do not use.
pub(crate) fn contenders(names: &[String]) -> Vec<Style> {
    let known = |name: &str| {
        KNOWN.iter().find(|known| known.name == name).map(|known| Style {
            colour: known.colour.light,
            symbol: known.symbol,
            dash: DASHES[known.dash],
        })
    };
    let taken: Vec<Style> = names.iter().filter_map(|name| known(name)).collect();
    let colours = free_first(&COLOURS.map(|pair| pair.light), |colour| {
        taken.iter().any(|style| style.colour == *colour)
    });
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

/// Returns the free items in their order, then the others.
fn free_first<T: Copy>(all: &[T], is_taken: impl Fn(&T) -> bool) -> Vec<T> {
    let (taken, mut free): (Vec<T>, Vec<T>) = all.iter().copied().partition(is_taken);
    free.extend(taken);
    free
}

/// Returns the colour of a subflow, a path or a link by its number.
pub(crate) fn path(at: usize) -> &'static str {
    PATHS[at % PATHS.len()].light
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
    CAUSES[at % CAUSES.len()].1.light
}

/// Blue for better, orange for worse; `strength` from 0 to 1.
pub(crate) fn diverging(better: bool, strength: f64) -> String {
    let (begin, end) = (NO_DIFFERENCE.light, if better { BETTER } else { WORSE });
    let share = 0.08 + 0.92 * strength.clamp(0.0, 1.0);
    let part = |at: usize| {
        let of =
            |colour: &str| f64::from(u8::from_str_radix(&colour[1 + 2 * at..3 + 2 * at], 16).unwrap_or(0));
        (of(begin) + (of(end) - of(begin)) * share).round() as u8
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
        let known: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
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
