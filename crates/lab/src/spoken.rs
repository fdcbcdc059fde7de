//! Names and numbers in sentences.

use crate::stats::Interval;

/// Beyond this difference, in per cent, a sentence has the ratio.
const MOST_PERCENT: f64 = 1000.0;

/// Returns the name of a path in a sentence: a number has the noun before it.
pub(crate) fn spoken(name: &str) -> String {
    if name.parse::<u32>().is_ok() { format!("path {name}") } else { name.to_owned() }
}

/// Returns a number of things: "1 run", "2 runs".
pub fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns a statement without the control characters that names may have: a line break would begin another statement.
pub(crate) fn one_line(statement: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    statement.chars().map(shown).collect()
}

/// Returns the beginning of a statement about a class of traffic in some conditions, where either may be the only one.
pub fn place(class: Option<&str>, conditions: &[&str]) -> String {
    let conditions = crate::scenario::list(conditions);
    match (class, conditions.as_str()) {
        (None, "") => String::new(),
        (Some(class), "") => format!("{class}: "),
        (None, conditions) => format!("{conditions}: "),
        (Some(class), conditions) => format!("{class} with {conditions}: "),
    }
}

/// True if a sentence would have the number 0.0 for it.
pub fn is_zero(percent: f64) -> bool {
    percent.abs() < 0.05
}

/// Returns the size of a difference of `mean` per cent: "20.0 % above", or from 1000 % on "388 times"; and its interval in the same unit, empty
/// if it has none.
pub fn amount(mean: f64, ci95: Option<Interval>, below: &str, above: &str) -> (String, String) {
    if mean >= MOST_PERCENT {
        let times = |percent: f64| {
            let ratio = 1.0 + percent / 100.0;
            if ratio < 100.0 { format!("{ratio:.1}") } else { format!("{ratio:.0}") }
        };
        let range = ci95.map_or(String::new(), |Interval(low, high)| {
            format!("(95 % interval {} to {} times)", times(low), times(high))
        });
        return (format!("{} times", times(mean)), range);
    }
    let side = if mean < 0.0 { below } else { above };
    let range = ci95.map_or(String::new(), |Interval(low, high)| {
        format!("(95 % interval {} to {} %)", signed(low), signed(high))
    });
    (format!("{:.1} % {side}", mean.abs()), range)
}

/// Returns a number of per cent with its sign, as the ends of an interval have it in a sentence.
pub fn signed(percent: f64) -> String {
    match percent {
        _ if is_zero(percent) => "0.0".to_owned(),
        _ if percent < MOST_PERCENT => format!("{percent:+.1}"),
        _ => format!("{percent:+.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(mean: f64, low: f64, high: f64) -> String {
        let (amount, range) = amount(mean, Some(Interval(low, high)), "below", "above");
        format!("{amount} {range}")
    }

    #[test]
    fn large_differences_are_ratios() {
        assert_eq!(words(-20.0, -23.04, -17.0), "20.0 % below (95 % interval -23.0 to -17.0 %)");
        assert_eq!(words(999.0, 900.0, 1100.0), "999.0 % above (95 % interval +900.0 to +1100 %)");
        assert_eq!(words(1000.0, 900.0, 1100.0), "11.0 times (95 % interval 10.0 to 12.0 times)");
        assert_eq!(words(38_704.0, 38_000.0, 39_400.0), "388 times (95 % interval 381 to 395 times)");
        assert_eq!(amount(38_704.0, None, "below", "above"), ("388 times".to_owned(), String::new()));
    }

    #[test]
    fn a_name_with_a_line_break_begins_no_other_statement() {
        assert_eq!(one_line("a\n* b\r\u{1b}[2J\u{e9}: c."), "a\\n* b\\r\\u{1b}[2J\u{e9}: c.");
    }

    #[test]
    fn a_place_has_the_class_before_the_conditions() {
        assert_eq!(place(None, &[""]), "");
        assert_eq!(place(Some("film"), &[""]), "film: ");
        assert_eq!(place(None, &["good wifi", "edge of wifi"]), "good wifi and edge of wifi: ");
        assert_eq!(place(Some("film"), &["good wifi"]), "film with good wifi: ");
    }
}
