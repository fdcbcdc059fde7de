//! The terminal: how wide it is, and colours in it.

use std::io::{IsTerminal, stdout};

use anstyle::{AnsiColor, Style};

/// The width in a pipe and in a file, so that a script gets the same everywhere.
pub const PLAIN_WIDTH: usize = 100;
/// A terminal narrower than this gets lines of this width.
const LEAST_WIDTH: usize = 40;

/// What is as it should be, and the best contender.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Something to look at.
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// What is wrong.
pub const BAD: Style = AnsiColor::Red.on_default().bold();

/// When there is colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Color {
    // Comments for the documentation would make the help of every verb twice as long.
    #[default]
    Auto,
    Always,
    Never,
}

impl Color {
    /// Makes this the choice for everything that is written from now on.
    pub fn choose(self) {
        let choice = match self {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }

    /// The same for the help and the errors of clap.
    pub const fn for_clap(self) -> clap::ColorChoice {
        match self {
            Color::Auto => clap::ColorChoice::Auto,
            Color::Always => clap::ColorChoice::Always,
            Color::Never => clap::ColorChoice::Never,
        }
    }
}

/// `text` in `style`. The codes are removed again where no colour is wanted.
pub fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// How many columns `text` takes, without the codes of its colours.
pub fn columns(text: &str) -> usize {
    if !text.contains('\x1b') {
        return text.chars().count();
    }
    anstream::adapter::strip_str(text).map(|part| part.chars().count()).sum()
}

/// True if a person looks at the result.
pub fn is_there() -> bool {
    stdout().is_terminal() && !crate::output::is_to_file()
}

/// The width of tables on standard output.
pub fn width() -> usize {
    of(if is_there() { terminal_size::terminal_size_of(stdout()) } else { None })
}

/// The width of texts on standard output: longer lines than [`PLAIN_WIDTH`] are hard to read.
pub fn text_width() -> usize {
    width().min(PLAIN_WIDTH)
}

/// The width of tables on standard error.
#[cfg(all(target_os = "linux", feature = "network"))]
pub fn error_width() -> usize {
    use std::io::stderr;
    of(if stderr().is_terminal() { terminal_size::terminal_size_of(stderr()) } else { None })
}

fn of(size: Option<(terminal_size::Width, terminal_size::Height)>) -> usize {
    match size {
        // A terminal that does not know its size says 0.
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
