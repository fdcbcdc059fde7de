//! The width and the colours of the terminal.

use std::io::{IsTerminal, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};

/// The width in a pipe and in a file, so that a script gets the same output everywhere.
pub const PLAIN_WIDTH: usize = 100;
/// The least width of lines, for narrow terminals.
const LEAST_WIDTH: usize = 40;

/// Successes, and the best contender.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Warnings, and values that need attention.
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// Failures.
pub const BAD: Style = AnsiColor::Red.on_default().bold();

/// The headings of the help.
pub const HEADING: Style = Style::new().bold().underline();
/// The names of verbs in the help.
pub const NAME: Style = Style::new().bold();

/// Returns `text` in `style`. The codes are removed later if there is no colour.
pub fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Returns the width of `text` in columns, without the codes of its colours.
pub fn columns(text: &str) -> usize {
    if !text.contains('\x1b') {
        return text.chars().count();
    }
    anstream::adapter::strip_str(text).map(|part| part.chars().count()).sum()
}

/// True while the result is written to a file, and not to standard output.
static TO_FILE: AtomicBool = AtomicBool::new(false);

/// Sets whether the result is written to a file, so that its tables have the width of a pipe.
pub fn set_to_file(is_to_file: bool) {
    TO_FILE.store(is_to_file, Ordering::Relaxed);
}

/// True if the result is shown on a terminal.
pub fn is_there() -> bool {
    stdout().is_terminal() && !TO_FILE.load(Ordering::Relaxed)
}

/// Returns the width of tables on standard output.
pub fn width() -> usize {
    of(if is_there() { terminal_size::terminal_size_of(stdout()) } else { None })
}

/// Returns the width of texts on standard output: longer lines than [`PLAIN_WIDTH`] are hard to read.
pub fn text_width() -> usize {
    width().min(PLAIN_WIDTH)
}

/// Returns the width of tables on standard error.
pub fn error_width() -> usize {
    use std::io::stderr;
    of(if stderr().is_terminal() { terminal_size::terminal_size_of(stderr()) } else { None })
}

fn of(size: Option<(terminal_size::Width, terminal_size::Height)>) -> usize {
    match size {
        // A terminal that does not know its size reports 0.
        Some((terminal_size::Width(width), _)) if width > 0 => usize::from(width).max(LEAST_WIDTH),
        _ => PLAIN_WIDTH,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_take_no_columns() {
        assert_eq!(columns("grün"), 4);
        assert_eq!(columns(&paint(GOOD, "grün")), 4);
    }

    #[test]
    fn a_terminal_without_a_size_has_the_width_of_a_pipe() {
        let size = |width| Some((terminal_size::Width(width), terminal_size::Height(24)));
        assert_eq!([of(None), of(size(0)), of(size(80)), of(size(3))], [100, 100, 80, 40]);
    }
}
