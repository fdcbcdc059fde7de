//! Reads values out of a [`Table`], with errors that suggest valid values.

use anabranch_link::QueueLimit;
use anabranch_units::{Bytes, Duration, Rate};

use crate::text::source::{Problem, Span, did_you_mean};
use crate::text::tree::{Entry, Node, Table, Value};
use crate::text::units::{self, UnitError};

/// A table without unknown keys.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    table: &'a Table,
    /// The place where the table begins, for errors about missing keys.
    pub span: &'a Span,
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Returns a reader of the table, called `what` in errors, if all its keys are among `keys`.
    pub(crate) fn new(
        table: &'a Table,
        span: &'a Span,
        what: &'static str,
        keys: &[&str],
    ) -> Result<Reader<'a>, Problem> {
        match table.entries.iter().find(|entry| !keys.contains(&entry.key.as_str())) {
            Some(entry) => Err(unknown_key(entry, what, keys)),
            None => Ok(Reader { table, span, what }),
        }
    }

    /// Returns a reader of `node`, which must be a table.
    pub(crate) fn of(node: &'a Node, what: &'static str, keys: &[&str]) -> Result<Reader<'a>, Problem> {
        Reader::new(node.table(what)?, &node.span, what, keys)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a Node> {
        self.table.get(key).map(|entry| &entry.node)
    }

    /// Returns the value at `key`, converted by `read`, if it is present.
    pub(crate) fn optional<T>(
        &self,
        key: &str,
        read: impl Fn(&Node) -> Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        self.get(key).map(read).transpose()
    }

    /// Returns the value at `key`, which must be present.
    pub(crate) fn required<T>(
        &self,
        key: &str,
        example: &str,
        read: impl Fn(&Node) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        match self.get(key) {
            Some(node) => read(node),
            None => Err(Problem::at(self.span, format!("{} has no `{key}`", self.what))
                .help(format!("add for example `{key} = {example}`"))),
        }
    }
}

/// Returns the error for an unknown key.
pub(crate) fn unknown_key(entry: &Entry, what: &str, keys: &[&str]) -> Problem {
    let problem = Problem::at(&entry.key_span, format!("unknown key `{}` in {what}", entry.key));
    problem.help(match did_you_mean(&entry.key, keys.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("the keys here are {}", list(keys)),
    })
}

/// Formats `a, b and c`.
pub fn list<S: AsRef<str>>(names: &[S]) -> String {
    match names {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [most @ .., last] => {
            let most: Vec<&str> = most.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", most.join(", "), last.as_ref())
        }
    }
}

impl Node {
    fn wrong_kind(&self, expected: &str) -> Problem {
        Problem::at(&self.span, format!("this is {}, not {expected}", self.value.kind()))
    }

    pub(crate) fn table(&self, what: &str) -> Result<&Table, Problem> {
        match &self.value {
            Value::Table(table) => Ok(table),
            _ => Err(self.wrong_kind(&format!("a table ({what})"))),
        }
    }

    pub(crate) fn array(&self) -> Result<&[Node], Problem> {
        match &self.value {
            Value::Array(items) => Ok(items),
            _ => Err(self.wrong_kind("a list").help("write `[...]`")),
        }
    }

    /// Reads a value, or a list of values.
    pub(crate) fn items(&self) -> &[Node] {
        match &self.value {
            Value::Array(items) => items,
            _ => core::slice::from_ref(self),
        }
    }

    pub(crate) fn string(&self) -> Result<&str, Problem> {
        match &self.value {
            Value::String(text) => Ok(text),
            _ => Err(self.wrong_kind("a text in quotes")),
        }
    }

    /// Reads a text; a number is taken literally, so that a name may be a number.
    pub(crate) fn name(&self) -> Result<String, Problem> {
        match &self.value {
            Value::String(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
            Value::String(_) => Err(Problem::at(&self.span, "a name is empty")),
            Value::Integer(number) => Ok(number.to_string()),
            _ => Err(self.wrong_kind("a name")),
        }
    }

    pub(crate) fn boolean(&self) -> Result<bool, Problem> {
        match &self.value {
            Value::Bool(value) => Ok(*value),
            Value::String(text) if text == "true" || text == "false" => Ok(text == "true"),
            _ => Err(self.wrong_kind("`true` or `false`")),
        }
    }

    /// Reads a whole number from `low` to `high`.
    pub(crate) fn integer(&self, low: i64, high: i64) -> Result<i64, Problem> {
        let out_of_range = |number: &str| {
            // A number that is too large has the largest one in its error, however large that is.
            let range =
                if number.starts_with('-') { range(low, high) } else { format!("from {low} to {high}") };
            Problem::at(&self.span, format!("{number} is out of range"))
                .help(format!("give a whole number {range}"))
        };
        let value = match &self.value {
            Value::Integer(value) => *value,
            Value::String(text) => {
                let text = text.trim();
                let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
                if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(Problem::at(&self.span, format!("`{text}` is not a whole number"))
                        .help(format!("give a whole number {}", range(low, high))));
                }
                text.parse().map_err(|_| out_of_range(text))?
            }
            _ => return Err(self.wrong_kind("a whole number")),
        };
        if value < low || value > high {
            return Err(out_of_range(&value.to_string()));
        }
        Ok(value)
    }

    /// Reads a number, whole or not.
    pub(crate) fn number(&self) -> Result<f64, Problem> {
        match &self.value {
            Value::Integer(value) => Ok(*value as f64),
            Value::Float(value) if value.is_finite() => Ok(*value),
            Value::Float(value) => Err(Problem::at(&self.span, format!("{value} is not a finite number"))),
            Value::String(text) => {
                let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
                number.ok_or_else(|| self.wrong_kind("a number"))
            }
            _ => Err(self.wrong_kind("a number")),
        }
    }

    fn quantity<T>(&self, read: fn(&str) -> Result<T, UnitError>) -> Result<T, Problem> {
        let text = match &self.value {
            Value::String(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            _ => return Err(self.wrong_kind("a quantity in quotes")),
        };
        read(&text).map_err(|error| Problem::at(&self.span, error.message).help(error.help))
    }

    pub(crate) fn rate(&self) -> Result<Rate, Problem> {
        self.quantity(units::parse_rate)
    }

    /// Reads a duration; 0 needs no unit.
    pub(crate) fn span_of_time(&self) -> Result<Duration, Problem> {
        if matches!(self.value, Value::Integer(0)) {
            return Ok(Duration::ZERO);
        }
        self.quantity(units::parse_span)
    }

    /// Reads a duration of at most a day, the limit of a link's delays.
    pub(crate) fn delay(&self) -> Result<Duration, Problem> {
        let span = self.span_of_time()?;
        if span > Duration::from_secs(86_400) {
            return Err(Problem::at(&self.span, format!("{span} is too long")).help("give at most a day"));
        }
        Ok(span)
    }

    /// Reads a positive duration.
    pub(crate) fn positive_time(&self) -> Result<Duration, Problem> {
        let span = self.delay()?;
        if span.is_zero() {
            return Err(Problem::at(&self.span, "this time must not be 0").help("give for example `10 s`"));
        }
        Ok(span)
    }

    pub(crate) fn size(&self) -> Result<Bytes, Problem> {
        self.quantity(units::parse_size)
    }

    /// Reads a positive size.
    pub(crate) fn positive_size(&self) -> Result<Bytes, Problem> {
        let size = self.size()?;
        if size.0 == 0 {
            return Err(Problem::at(&self.span, "a size of 0 bytes is no flow").help("give at least `1 B`"));
        }
        Ok(size)
    }

    pub(crate) fn load(&self) -> Result<f64, Problem> {
        self.quantity(units::parse_load)
    }

    pub(crate) fn probability(&self) -> Result<f64, Problem> {
        self.quantity(units::parse_probability)
    }

    pub(crate) fn queue(&self) -> Result<QueueLimit, Problem> {
        self.quantity(units::parse_queue)
    }

    /// Reads one of these names; returns its position.
    pub(crate) fn choice(&self, what: &str, names: &[&str]) -> Result<usize, Problem> {
        let text = self.string()?;
        names
            .iter()
            .position(|name| *name == text.trim())
            .ok_or_else(|| unknown_name(self, text, what, names))
    }
}

/// Describes the permitted whole numbers.
fn range(low: i64, high: i64) -> String {
    if high == i64::MAX { format!("of at least {low}") } else { format!("from {low} to {high}") }
}

/// Returns the error for a name that is none of `names`.
pub(crate) fn unknown_name(node: &Node, text: &str, what: &str, names: &[&str]) -> Problem {
    let problem = Problem::at(&node.span, format!("there is no {what} called `{text}`"));
    problem.help(match did_you_mean(text, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("there are {}", list(names)),
    })
}
