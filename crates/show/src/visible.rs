//! Text for a terminal.
//!
//! A scenario, a result or a server may name things with control characters, which a terminal obeys: it changes its title,
//! moves the cursor, or answers as if a person had typed. Every text passes one of these functions before it is printed.
//! Control characters become visible escapes; the codes of this program's own colours stay.

use std::borrow::Cow;
use std::sync::LazyLock;

use anstyle::{Ansi256Color, Style};

use crate::terminal::{BAD, GOOD, HEADING, NAME, WARNING};

/// The codes that [`paint`](crate::terminal::paint) writes.
static OWN: LazyLock<Vec<String>> = LazyLock::new(|| {
    // The bars of `explain` have plain colours.
    let plain = (0..16).map(|colour| Style::new().fg_color(Ansi256Color(colour).into_ansi().map(Into::into)));
    let styles = [GOOD, WARNING, BAD, HEADING, NAME].into_iter().chain(plain);
    let mut codes: Vec<String> =
        styles.flat_map(|style| [format!("{style}"), format!("{style:#}")]).collect();
    codes.sort_by_key(|code| core::cmp::Reverse(code.len()));
    codes.dedup();
    codes
});

/// True for characters that do something to a terminal instead of being shown, or that reorder the text around them.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn replaced(text: &str, keeps: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|c| acts(c) && !keeps(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '\x1b'
            && let Some(code) = OWN.iter().find(|code| !code.is_empty() && rest.starts_with(code.as_str()))
        {
            out.push_str(code);
            rest = &rest[code.len()..];
            continue;
        }
        match acts(c) && !keeps(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    Cow::Owned(out)
}

/// Returns `text` of several lines for a terminal: line breaks and tabs stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| matches!(c, '\n' | '\t'))
}

/// Returns `text` for a terminal on one line, such as a name or a cell of a table.
pub fn line(text: &str) -> Cow<'_, str> {
    replaced(text, |_| false)
}

/// Returns `text`, which is JSON, with escapes of JSON for characters that a terminal would obey.
pub fn json(text: &str) -> Cow<'_, str> {
    let is_one = |c: char| acts(c) && c != '\n';
    if !text.contains(is_one) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_one(c) {
            true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_of_this_program_stay_and_other_codes_are_shown() {
        let bar = Style::new().fg_color(Some(anstyle::AnsiColor::BrightBlack.into()));
        let text = format!("{bar}XXX{bar:#} {NAME}name{NAME:#}");
        assert_eq!(lines(&text), text);
        assert_eq!(line("a\x1b]0;title\x07b\n"), "a\\u{1b}]0;title\\u{7}b\\n");
    }

    #[test]
    fn json_has_the_same_values() {
        let name = "a\u{9b}\u{7f}\x1b\u{202e}µ\n";
        let text = serde_json::to_string(name).unwrap();
        let shown = json(&text);
        assert!(!shown.chars().any(acts), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), name);
    }
    use crate::terminal::paint;

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        for (text, shown) in [
            ("plain µ", "plain µ"),
            ("\x1b]0;owned\x07", "\\u{1b}]0;owned\\u{7}"),
            ("\x1b[2J\x1b[41mred", "\\u{1b}[2J\\u{1b}[41mred"),
            ("a\rb\u{9b}c\u{7f}", "a\\rb\\u{9b}c\\u{7f}"),
            ("\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
        ] {
            assert_eq!(line(text), shown);
            assert_eq!(lines(text), shown);
        }
        assert_eq!((&*line("a\nb\tc"), &*lines("a\nb\tc")), ("a\\nb\\tc", "a\nb\tc"));
    }

    #[test]
    fn own_colours_stay() {
        for style in [GOOD, WARNING, BAD, HEADING, NAME] {
            let text = paint(style, "name");
            assert!(text.contains('\x1b'));
            assert_eq!(line(&text), text);
        }
        assert_eq!(line(&paint(GOOD, "a\x1b[5m")), paint(GOOD, "a\\u{1b}[5m"));
    }
}
