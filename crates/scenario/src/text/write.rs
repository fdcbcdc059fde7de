//! Writes a tree as a TOML document, so that a scenario with its overrides can be read again.

use std::path::PathBuf;

use crate::text::tree::{Node, Table, Value};

/// The keys with names of files as values: of traces, of distribution functions.
const FILE_KEYS: [&str; 2] = ["trace", "file"];

/// Returns `table` as a TOML document: values first, then a section for each table.
pub(crate) fn document(table: &Table) -> String {
    let mut text = String::new();
    for entry in &table.entries {
        if sections(&entry.node.value).is_none() {
            line(&mut text, &entry.key, &entry.node.value);
        }
    }
    for entry in &table.entries {
        let Some((tables, is_list)) = sections(&entry.node.value) else { continue };
        for table in tables {
            let (open, close) = if is_list { ("\n[[", "]]\n") } else { ("\n[", "]\n") };
            text.push_str(open);
            push_key(&mut text, &entry.key);
            text.push_str(close);
            table.entries.iter().for_each(|entry| line(&mut text, &entry.key, &entry.node.value));
        }
    }
    text
}

fn as_table(node: &Node) -> Option<&Table> {
    match &node.value {
        Value::Table(table) => Some(table),
        _ => None,
    }
}

/// Returns the tables of a value that is a table, or a list of tables only, and whether it is a list.
fn sections(value: &Value) -> Option<(Vec<&Table>, bool)> {
    match value {
        Value::Table(table) => Some((vec![table], false)),
        Value::Array(items) if !items.is_empty() => {
            let tables: Option<Vec<&Table>> = items.iter().map(as_table).collect();
            Some((tables?, true))
        }
        _ => None,
    }
}

fn line(text: &mut String, key: &str, value: &Value) {
    push_key(text, key);
    text.push_str(" = ");
    push(text, value);
    text.push('\n');
}

fn push_key(text: &mut String, key: &str) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !key.is_empty() && key.chars().all(is_plain) {
        text.push_str(key)
    } else {
        text.push_str(&quoted(key))
    }
}

fn push(text: &mut String, value: &Value) {
    match value {
        Value::String(value) => text.push_str(&quoted(value)),
        Value::Integer(value) => text.push_str(&value.to_string()),
        // `{:?}` keeps the point of a whole number, and every digit.
        Value::Float(value) => text.push_str(&format!("{value:?}").to_ascii_lowercase()),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        // No key accepts a date, whatever it is.
        Value::Datetime => text.push_str("1970-01-01"),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                push(text, &item.value);
            }
            text.push(']');
        }
        Value::Table(table) if table.entries.is_empty() => text.push_str("{}"),
        Value::Table(table) => {
            for (index, entry) in table.entries.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "{ " });
                push_key(text, &entry.key);
                text.push_str(" = ");
                push(text, &entry.node.value);
            }
            text.push_str(" }");
        }
    }
}

/// Returns `text` as a basic string of TOML.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Makes the names of files in `table` absolute. `place` returns the place of the file that a source names; none for a
/// built-in one. Names of built-in files stay. So do names that are not UTF-8: the text is then valid only in the same
/// directory.
pub(crate) fn make_absolute(table: &mut Table, place: &impl Fn(usize, &str) -> Option<PathBuf>) {
    for entry in &mut table.entries {
        let is_file = FILE_KEYS.contains(&entry.key.as_str());
        walk(&mut entry.node, is_file, place);
    }
}

fn walk(node: &mut Node, is_file: bool, place: &impl Fn(usize, &str) -> Option<PathBuf>) {
    match &mut node.value {
        Value::String(name) if is_file => {
            let absolute = place(node.span.source, name).and_then(|place| std::path::absolute(place).ok());
            if let Some(absolute) = absolute.as_deref().and_then(|place| place.to_str()) {
                *name = absolute.to_owned();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, is_file, place)),
        Value::Table(table) => {
            for entry in &mut table.entries {
                walk(&mut entry.node, is_file || FILE_KEYS.contains(&entry.key.as_str()), place);
            }
        }
        _ => {}
    }
}
