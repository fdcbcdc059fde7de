//! A TOML document as a tree of keys and values with their places, and overrides of parts of it by conditions
//! and by `--set`.

use toml::de::{DeTable, DeValue};

use crate::text::source::{Problem, Span};

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub span: Span,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    String(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    Datetime,
    Array(Vec<Node>),
    Table(Table),
}

impl Value {
    /// Returns its type, for an error.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::String(_) => "a text",
            Value::Integer(_) => "a whole number",
            Value::Float(_) => "a number",
            Value::Bool(_) => "true or false",
            Value::Datetime => "a date",
            Value::Array(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

/// A table in its written order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The key, with `-` for `_`.
    pub key: String,
    pub key_span: Span,
    pub node: Node,
}

/// The nesting limit of arrays and tables.
const DEPTH: usize = 32;

impl Table {
    /// Parses the document `text`, which is source number `source`.
    pub(crate) fn parse(text: &str, source: usize) -> Result<Table, Problem> {
        let document = DeTable::parse(text).map_err(|error| {
            let range = error.span().unwrap_or(0..0);
            // The parser's message may have several lines; the place is added separately.
            let message = error.message().lines().collect::<Vec<_>>().join(", ");
            Problem::at(&Span { source, range }, format!("this is not TOML: {message}"))
        })?;
        convert_table(document.get_ref(), source, 0)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.key == key)
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(at))
    }

    /// Replaces the entry with the same key by `entry`; tables are merged.
    pub(crate) fn merge(&mut self, entry: Entry) {
        match self.get_mut(&entry.key) {
            Some(old) => match (&mut old.node.value, entry.node.value) {
                (Value::Table(old), Value::Table(new)) if !names_other_sides(old, &new) => {
                    new.entries.into_iter().for_each(|e| old.merge(e));
                }
                (_, value) => {
                    *old = Entry {
                        key: entry.key,
                        key_span: entry.key_span,
                        node: Node { span: entry.node.span, value },
                    };
                }
            },
            None => self.entries.push(entry),
        }
    }
}

/// True if both tables have a value for each of two sides and name these differently, so that one replaces the other.
fn names_other_sides(old: &Table, new: &Table) -> bool {
    const SIDES: [[&str; 2]; 3] = [["data", "acks"], ["down", "up"], ["forth", "back"]];
    let sides = |table: &Table| {
        let first = table.entries.first()?.key.as_str();
        let pair = SIDES.iter().position(|pair| pair.contains(&first))?;
        table.entries.iter().all(|entry| SIDES[pair].contains(&entry.key.as_str())).then_some(pair)
    };
    matches!((sides(old), sides(new)), (Some(old), Some(new)) if old != new)
}

fn convert_table(table: &DeTable<'_>, source: usize, depth: usize) -> Result<Table, Problem> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        let key_span = Span { source, range: key.span() };
        let node = convert(value, source, depth + 1)?;
        entries.push(Entry { key: key.get_ref().replace('_', "-"), key_span, node });
    }
    entries.sort_by_key(|entry| entry.key_span.range.start);
    for (index, entry) in entries.iter().enumerate() {
        if entries[..index].iter().any(|other| other.key == entry.key) {
            return Err(Problem::at(&entry.key_span, format!("`{}` is given twice", entry.key))
                .help("`-` and `_` are the same in a key"));
        }
    }
    Ok(Table { entries })
}

fn convert(value: &toml::Spanned<DeValue<'_>>, source: usize, depth: usize) -> Result<Node, Problem> {
    let span = Span { source, range: value.span() };
    if depth > DEPTH {
        return Err(Problem::at(&span, "tables and lists are nested too deeply here"));
    }
    let value = match value.get_ref() {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => return Err(Problem::at(&span, "this number is too large")),
        },
        DeValue::Float(number) => match number.as_str().parse() {
            Ok(number) => Value::Float(number),
            Err(_) => return Err(Problem::at(&span, "this is not a number")),
        },
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(_) => Value::Datetime,
        DeValue::Array(items) => {
            Value::Array(items.iter().map(|item| convert(item, source, depth + 1)).collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => Value::Table(convert_table(table, source, depth)?),
    };
    Ok(Node { span, value })
}

/// Parses `KEY=VALUE` (source number `source`, as a whole) into the path of keys and the value.
///
/// The value may be written as in TOML, or as a plain text without quotes.
pub(crate) fn parse_assignment(text: &str, source: usize) -> Result<(Vec<(String, Span)>, Node), Problem> {
    let whole = Span { source, range: 0..text.len() };
    let Some((left, right)) = text.split_once('=') else {
        return Err(Problem::at(&whole, "there is no `=`").help("write KEY=VALUE, for example `runs=10`"));
    };
    let mut keys = Vec::new();
    let mut at = 0;
    for part in left.split('.') {
        let start = at + (part.len() - part.trim_start().len());
        let span = Span { source, range: start..start + part.trim().len() };
        let key = part.trim().trim_matches('"');
        if key.is_empty() {
            return Err(
                Problem::at(&whole, "a key is empty").help("write KEY=VALUE, for example `rto.min=300ms`")
            );
        }
        keys.push((key.replace('_', "-"), span));
        at += part.len() + 1;
    }
    let offset = left.len() + 1 + (right.len() - right.trim_start().len());
    let right = right.trim();
    let value = match parse_value_at(right, source, offset) {
        Ok(node) => return Ok((keys, node)),
        // No plain text begins like this.
        Err(problem) if right.starts_with('{') => return Err(problem),
        Err(_) => Value::String(right.to_owned()),
    };
    Ok((keys, Node { span: Span { source, range: offset..offset + right.len() }, value }))
}

/// Parses a value as in TOML that begins at the byte `offset` of source number `source`.
pub(crate) fn parse_value_at(text: &str, source: usize, offset: usize) -> Result<Node, Problem> {
    let lead = "x = ";
    let place = |there: &Span| {
        let at = |byte: usize| (byte + offset).saturating_sub(lead.len()).min(offset + text.len());
        Span { source, range: at(there.range.start)..at(there.range.end) }
    };
    let whole = Span { source, range: offset..offset + text.len() };
    match Table::parse(&format!("{lead}{text}\n"), source) {
        Ok(mut table) if table.entries.len() == 1 => {
            Ok(Node { span: whole, value: placed(table.entries.remove(0).node, &place).value })
        }
        Ok(_) => Err(Problem::at(&whole, "this is not one value")),
        Err(problem) => Err(Problem { span: problem.span.as_ref().map(place), ..problem }),
    }
}

/// Returns the parts of `text` between commas, each with its first byte. A comma within brackets or braces divides nothing.
pub(crate) fn parts(text: &str) -> Vec<(usize, &str)> {
    let (mut parts, mut start, mut depth, mut quote) = (Vec::new(), 0, 0_usize, None);
    for (at, sign) in text.char_indices() {
        match (quote, sign) {
            (Some(open), _) if sign == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') if depth > 0 => quote = Some(sign),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push((start, &text[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push((start, &text[start..]));
    parts
}

/// Parses a value as in TOML; all its parts have the place `span`.
pub(crate) fn parse_value(text: &str, span: &Span) -> Result<Node, Problem> {
    let mut table = Table::parse(&format!("x = {text}\n"), span.source)?;
    Ok(placed(table.entries.remove(0).node, &|_| span.clone()))
}

/// Replaces the places in a tree by `place`.
fn placed(node: Node, place: &impl Fn(&Span) -> Span) -> Node {
    let value = match node.value {
        Value::Array(items) => Value::Array(items.into_iter().map(|item| placed(item, place)).collect()),
        Value::Table(table) => Value::Table(Table {
            entries: table
                .entries
                .into_iter()
                .map(|e| Entry { key: e.key, key_span: place(&e.key_span), node: placed(e.node, place) })
                .collect(),
        }),
        value => value,
    };
    Node { span: place(&node.span), value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assignment(text: &str) -> (Vec<String>, Value) {
        let (keys, node) = parse_assignment(text, 0).unwrap();
        (keys.into_iter().map(|(key, _)| key).collect(), node.value)
    }

    #[test]
    fn each_part_of_a_value_on_the_command_line_has_its_place() {
        let text = "congestion = { name = \"bbr\", beta = 2 }";
        let (_, node) = parse_assignment(text, 0).unwrap();
        let beta = node.table("").unwrap().get("beta").unwrap();
        assert_eq!((&text[beta.key_span.range.clone()], &text[beta.node.span.range.clone()]), ("beta", "2"));
        assert_eq!(&text[node.span.range], "{ name = \"bbr\", beta = 2 }");
        let text = "congestion={name=\"bbr\", beta=1, beta=2}";
        let problem = parse_assignment(text, 0).unwrap_err();
        assert_eq!(
            (&text[problem.span.unwrap().range], problem.message.as_str()),
            ("beta", "this is not TOML: duplicate key")
        );
    }

    #[test]
    fn a_comma_within_a_value_divides_nothing() {
        let divided = |text| parts(text).into_iter().map(|(_, part)| part).collect::<Vec<_>>();
        assert_eq!(divided("1Mbit/s,2ms, a=3"), ["1Mbit/s", "2ms", " a=3"]);
        let text = "1Mbit/s,change=[{at=\"1s\",down=true},{at=\"2s, or \",up=true}],name=Bob's,b=2";
        let all = divided(text);
        assert_eq!((all.len(), all[2]), (4, "name=Bob's"));
        assert!(parts(text).iter().all(|(start, part)| text[*start..].starts_with(part)));
        // A list without its end is one value, and an error of that value.
        assert_eq!(divided("a=[1,2"), ["a=[1,2"]);
        assert_eq!(divided("a=1],b=2"), ["a=1]", "b=2"]);
        assert_eq!(divided(""), [""]);
    }

    #[test]
    fn a_value_on_the_command_line_needs_no_quotes() {
        assert!(
            matches!(assignment("rto.min=300ms"), (keys, Value::String(v)) if keys == ["rto", "min"] && v == "300ms")
        );
        assert!(matches!(assignment("traffic.size = 57 KB"), (_, Value::String(v)) if v == "57 KB"));
        assert!(matches!(assignment("a_b=true"), (keys, Value::Bool(true)) if keys == ["a-b"]));
        assert!(matches!(assignment("a=10"), (_, Value::Integer(10))));
        assert!(matches!(assignment("a=[\"x\", \"y\"]"), (_, Value::Array(v)) if v.len() == 2));
        assert!(matches!(assignment("a=0.05%"), (_, Value::String(v)) if v == "0.05%"));
        assert!(matches!(assignment("a="), (_, Value::String(v)) if v.is_empty()));
        assert!(parse_assignment("abc", 0).is_err());
        assert!(parse_assignment("a..b=1", 0).is_err());
    }

    #[test]
    fn tables_merge_and_values_replace() {
        let mut table = Table::parse("a = 1\n[t]\nx = 1\ny = 2\n", 0).unwrap();
        let new = Table::parse("a = 3\nt.y = 4\nt.z = 5\n", 1).unwrap();
        new.entries.into_iter().for_each(|entry| table.merge(entry));
        assert!(matches!(table.get("a").unwrap().node.value, Value::Integer(3)));
        let Value::Table(t) = &table.get("t").unwrap().node.value else { panic!() };
        let ints: Vec<_> = t.entries.iter().map(|e| (e.key.as_str(), e.key_span.source)).collect();
        assert_eq!(ints, [("x", 0), ("y", 1), ("z", 1)]);
    }

    #[test]
    fn deep_nesting_is_an_error_and_no_overflow() {
        let text = format!("a = {}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(Table::parse(&text, 0).is_err());
        let text = format!("{}x = 1", "a.".repeat(10_000));
        assert!(Table::parse(&text, 0).is_err());
    }
}
