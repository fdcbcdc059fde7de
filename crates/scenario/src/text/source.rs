//! Source texts of scenarios, places in them, and errors that refer to a place.

use core::fmt;
use core::ops::Range;

/// A text from which a scenario, or a part of it, was read.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Its file name, or the option of the command line.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// A place in one of the sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub source: usize,
    /// The range of bytes in it.
    pub range: Range<usize>,
}

/// A problem at a place, before the place is looked up.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub span: Option<Span>,
    pub message: String,
    pub help: Option<String>,
}

impl Problem {
    pub(crate) fn at(span: &Span, message: impl Into<String>) -> Problem {
        Problem { span: Some(span.clone()), message: message.into(), help: None }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(help.into());
        self
    }

    /// Returns the error with its line and column.
    pub(crate) fn locate(self, sources: &[Source]) -> ScenarioError {
        let place =
            self.span.and_then(|span| sources.get(span.source).map(|source| Place::of(source, &span)));
        ScenarioError { message: self.message, help: self.help, place }
    }
}

/// The reason that a scenario cannot be used: the problem, its place, and a valid alternative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The problem.
    pub message: String,
    /// A valid alternative.
    pub help: Option<String>,
    /// The line and column; none for an error that belongs to no line.
    pub place: Option<Place>,
}

impl ScenarioError {
    /// Returns an error without a place in a text.
    pub fn new(message: impl Into<String>) -> ScenarioError {
        ScenarioError { message: message.into(), help: None, place: None }
    }
}

/// A place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, or the option of the command line.
    pub source: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The number of marked characters, at least 1.
    pub width: usize,
    /// The text of the line.
    pub text: String,
}

impl Place {
    fn of(source: &Source, span: &Span) -> Place {
        let text = &source.text;
        let start = floor_boundary(text, span.range.start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let end = floor_boundary(text, span.range.end.clamp(start, line_end));
        let line_text = text[line_start..line_end].trim_end_matches('\r');
        Place {
            source: source.name.clone(),
            line: text[..line_start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            width: text[start..end].chars().count().max(1),
            text: line_text.to_owned(),
        }
    }
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut gutter = 2;
        if let Some(place) = &self.place {
            let number = place.line.to_string();
            gutter = number.len();
            let blank = " ".repeat(gutter);
            // A tab keeps its width under the caret.
            let indent: String =
                place.text.chars().take(place.column - 1).map(|c| if c == '\t' { c } else { ' ' }).collect();
            write!(f, "\n{blank}--> {}:{}:{}", place.source, place.line, place.column)?;
            write!(f, "\n{blank} |\n{number} | {}", place.text)?;
            write!(f, "\n{blank} | {indent}{}", "^".repeat(place.width))?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n{} = help: {help}", " ".repeat(gutter))?;
        }
        Ok(())
    }
}

impl std::error::Error for ScenarioError {}

/// Returns the one of `known` that was probably meant by `word`.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&lower, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= (name.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_counted_in_characters_and_lines() {
        let source = Source { name: "a.toml".into(), text: "x = 1\nname = \"µµ\" # end\n".into() };
        let at = source.text.find("# end").unwrap();
        let place = Place::of(&source, &Span { source: 0, range: at..at + 5 });
        assert_eq!((place.line, place.column, place.width), (2, 13, 5));
        let past = Place::of(&source, &Span { source: 0, range: 900..990 });
        assert_eq!((past.line, past.column, past.width), (3, 1, 1));
    }

    #[test]
    fn near_words_are_offered_and_far_ones_are_not() {
        let known = ["rate", "rtt", "queue", "gilbert-elliott"];
        assert_eq!(did_you_mean("rat", known), Some("rate"));
        assert_eq!(did_you_mean("quue", known), Some("queue"));
        assert_eq!(did_you_mean("gilbert-eliot", known), Some("gilbert-elliott"));
        assert_eq!(did_you_mean("colour", known), None);
    }
}
