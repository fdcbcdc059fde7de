//! Algorithms with parameters: a scheduler or a congestion control, by name.
//!
//! Reads `"blest"`, `"blest:lambda=1.2:opportunistic=off"` and `{ name = "blest", lambda = 1.2 }`, by the
//! algorithm's own table of parameters.

use anabranch_stack::parameter::{Domain, Numbers, Parameterised, Spec, Value as Setting};
use anabranch_units::Bytes;

use crate::text::reader::{Reader, unknown_key, unknown_name};
use crate::text::source::{Problem, ScenarioError, Span};
use crate::text::tree::{Entry, Node, Table, Value};

/// Reads the algorithm that `node` names, with its parameters. `defaults` may have a table of parameters for
/// each name.
pub(crate) fn read<K: Parameterised>(node: &Node, defaults: Option<&Table>) -> Result<K, Problem> {
    match &node.value {
        Value::Table(table) => {
            let Some(name) = table.get("name") else {
                return Err(Problem::at(&node.span, format!("this {} has no `name`", K::WHAT))
                    .help(format!("add for example `name = \"{}\"`", K::names()[0])));
            };
            let mut kind = of_name::<K>(&name.node, defaults)?;
            apply(&mut kind, table.entries.iter().filter(|entry| entry.key != "name"))?;
            Ok(kind)
        }
        Value::String(text) if text.contains(':') => {
            let mut parts = parts(text, &node.span).into_iter();
            let mut kind = of_name::<K>(&parts.next().unwrap_or_else(|| node.clone()), defaults)?;
            let example = example(&kind);
            let entries = parts.map(|part| assignment(&part, &example)).collect::<Result<Vec<_>, _>>()?;
            apply(&mut kind, &entries)?;
            Ok(kind)
        }
        _ => of_name(node, defaults),
    }
}

fn of_name<K: Parameterised>(node: &Node, defaults: Option<&Table>) -> Result<K, Problem> {
    let name = node.name()?;
    let Some(mut kind) = K::from_name(&name) else {
        return Err(unknown_name(node, &name, K::WHAT, &K::names()));
    };
    let own = defaults.and_then(|table| table.entries.iter().find(|entry| entry.key == as_key(&name)));
    if let Some(entry) = own {
        apply(&mut kind, &entry.node.table("the parameters")?.entries)?;
    }
    Ok(kind)
}

/// Returns a name in the form of a table's key.
fn as_key(name: &str) -> String {
    name.replace('_', "-")
}

/// Sets the parameters given by the entries.
pub(super) fn apply<'a, K: Parameterised>(
    kind: &mut K,
    entries: impl IntoIterator<Item = &'a Entry>,
) -> Result<(), Problem> {
    let mut seen: Vec<&Entry> = Vec::new();
    for entry in entries {
        if seen.iter().any(|other| other.key == entry.key) {
            return Err(
                Problem::at(&entry.key_span, format!("`{}` is given twice", entry.key)).help("give it once")
            );
        }
        seen.push(entry);
        let known = kind.parameters();
        let Some((spec, old)) = known.iter().find(|(spec, _)| spec.name == entry.key) else {
            let names: Vec<&str> = known.iter().map(|(spec, _)| spec.name).collect();
            if names.is_empty() {
                let what = format!("this {} has no parameters", K::WHAT);
                return Err(Problem::at(&entry.key_span, what).help(format!(
                    "leave `{}` out; `anabranch list parameters` shows which there are",
                    entry.key
                )));
            }
            return Err(unknown_key(entry, &format!("this {}", K::WHAT), &names));
        };
        let value = setting(spec, &entry.node, old)?;
        if !kind.set_parameter(spec.name, value) {
            return Err(out_of_range(spec, &entry.node, &value));
        }
    }
    let Some([less, more]) = kind.contradiction() else { return Ok(()) };
    let Some(entry) = seen.into_iter().rfind(|entry| entry.key == less || entry.key == more) else {
        return Ok(());
    };
    let value = |name| {
        let all = kind.parameters();
        let found = all.iter().find(|(spec, _)| spec.name == name);
        found.map_or(String::new(), |(spec, value)| spec.domain.show(value))
    };
    let (low, high) = (value(less), value(more));
    let what = format!("`{less}` is {low} and more than `{more}`, which is {high}");
    Err(Problem::at(&entry.node.span, what).help(format!("set both, with `{less}` at most `{more}`")))
}

/// The problem with a value of the right kind.
pub(super) fn out_of_range(spec: &Spec, node: &Node, value: &Setting) -> Problem {
    let shown = spec.domain.show(value);
    Problem::at(&node.span, format!("{shown} is out of range")).help(what_is_right(spec))
}

fn what_is_right(spec: &Spec) -> String {
    format!("`{}` ({}): give {}", spec.name, spec.what, spec.domain)
}

/// Returns the names of the parameters of `kind`.
pub(super) fn names<K: Parameterised>(kind: &K) -> Vec<&'static str> {
    kind.parameters().iter().map(|(spec, _)| spec.name).collect()
}

/// Checks a table of parameters by name, even for unused algorithms.
pub(super) fn check_defaults<K: Parameterised>(table: &Table) -> Result<(), Problem> {
    for entry in &table.entries {
        let names = K::names();
        let Some(name) = names.iter().find(|name| as_key(name) == entry.key) else {
            return Err(unknown_key(entry, &format!("the parameters of each {}", K::WHAT), &names));
        };
        if let Some(mut kind) = K::from_name(name) {
            apply(&mut kind, &entry.node.table("the parameters")?.entries)?;
        }
    }
    Ok(())
}

/// Reads the value that `node` gives to a parameter with the value `old`. The caller checks its range.
pub(super) fn setting(spec: &Spec, node: &Node, old: &Setting) -> Result<Setting, Problem> {
    let help = |problem: Problem| problem.help(what_is_right(spec));
    if matches!(&node.value, Value::String(text) if text.trim().is_empty()) {
        return Err(help(Problem::at(&node.span, format!("`{}` has no value", spec.name))));
    }
    if let (Some(word), Value::String(text)) = (spec.domain.open_word(), &node.value)
        && text.trim() == word
    {
        return Ok(Setting::Open);
    }
    match spec.domain {
        Domain::Bool => node.boolean().map(Setting::Bool).map_err(help),
        Domain::Integer(..) | Domain::OpenInteger(..) => {
            node.integer(0, i64::MAX).map(|n| Setting::Integer(n as u64)).map_err(help)
        }
        Domain::Number(..) | Domain::OpenNumber(..) => node.number().map(Setting::Number).map_err(help),
        Domain::Time(..) | Domain::OpenTime(..) => node.delay().map(Setting::Time).map_err(help),
        Domain::Choice(words) => node.choice(spec.name, words).map(Setting::Choice),
        Domain::Numbers(..) => numbers(node).map(Setting::Numbers).map_err(help),
        Domain::Buffer(..) | Domain::OpenBuffer(..) => buffer(spec, node, old),
    }
}

/// Reads a buffer: a size, or a table of two; a missing one keeps its value in `old`.
fn buffer(spec: &Spec, node: &Node, old: &Setting) -> Result<Setting, Problem> {
    let Value::Table(_) = &node.value else {
        return node.size().map(Setting::Size);
    };
    let table = Reader::of(node, spec.name, &["initial", "max"])?;
    let size = |node: &Node| {
        let size = node.size()?;
        match spec.domain.admits(&Setting::Size(size)) {
            true => Ok(size),
            false => Err(out_of_range(spec, node, &Setting::Size(size))),
        }
    };
    let (initial, max) = match *old {
        Setting::Growing(initial, max) => (initial, max),
        Setting::Size(size) => (size, size),
        _ => TCP_WMEM,
    };
    let initial = table.optional("initial", size)?.unwrap_or(initial);
    let max = table.optional("max", size)?.unwrap_or(max.max(initial));
    if initial > max {
        let text = format!("the {} starts at {initial} and ends at {max}", spec.name.replace('-', " "));
        return Err(Problem::at(&node.span, text).help("give a `max` that is not below `initial`"));
    }
    Ok(Setting::Growing(initial, max))
}

/// The sizes of a buffer that had none: Linux's `tcp_wmem`.
const TCP_WMEM: (Bytes, Bytes) = (Bytes::from_kib(16), Bytes::from_kib(4 << 10));

/// Reads a list of numbers; as a text they are separated by `/`.
fn numbers(node: &Node) -> Result<Numbers, Problem> {
    let wrong = || Problem::at(&node.span, "this is not a list of at most 32 numbers");
    let all: Vec<f64> = match &node.value {
        Value::String(text) => {
            let number = |part: &str| part.trim().parse().ok().filter(|n: &f64| n.is_finite());
            text.split('/').map(number).collect::<Option<_>>().ok_or_else(wrong)?
        }
        Value::Array(items) => items.iter().map(Node::number).collect::<Result<_, _>>()?,
        _ => vec![node.number().map_err(|_| wrong())?],
    };
    Numbers::new(&all).ok_or_else(wrong)
}

/// Returns the parts of a text between its colons, each with its place.
fn parts(text: &str, span: &Span) -> Vec<Node> {
    // A quoted text without escapes is as long as its place without the quotes.
    let lead = match span.range.len() {
        len if len == text.len() => 0,
        len if len == text.len() + 2 => 1,
        _ => {
            let part = |part: &str| Node { span: span.clone(), value: Value::String(part.to_owned()) };
            return text.split(':').map(part).collect();
        }
    };
    let mut at = span.range.start + lead;
    text.split(':')
        .map(|part| {
            let span = Span { source: span.source, range: at..at + part.len() };
            at += part.len() + 1;
            Node { span, value: Value::String(part.to_owned()) }
        })
        .collect()
}

/// Returns an example of a parameter of `kind` after its name, for a help text.
fn example<K: Parameterised>(kind: &K) -> String {
    let Some((spec, default)) = kind.parameters().into_iter().next() else {
        return format!("this {} has no parameters: write its name alone", K::WHAT);
    };
    let value = match spec.domain {
        Domain::Numbers(..) => "1/2".to_owned(),
        domain => domain.show(&default).replace(' ', ""),
    };
    format!("write NAME:KEY=VALUE, here for example `{}={value}`", spec.name)
}

/// Parses `KEY=VALUE`.
fn assignment(part: &Node, help: &str) -> Result<Entry, Problem> {
    let text = part.string()?;
    let (key, value) = match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => (key, value),
        Some(_) => return Err(Problem::at(&part.span, "this value has no parameter before it").help(help)),
        None if text.trim().is_empty() => {
            return Err(Problem::at(&part.span, "there is nothing behind the `:`").help(help));
        }
        None => return Err(Problem::at(&part.span, format!("`{text}` gives no value")).help(help)),
    };
    let span = |from: usize, len: usize| match part.span.range.len() == text.len() {
        true => {
            let start = part.span.range.start + from;
            Span { source: part.span.source, range: start..start + len }
        }
        false => part.span.clone(),
    };
    Ok(Entry {
        key: key.trim().replace('_', "-"),
        key_span: span(0, key.len()),
        node: Node { span: span(key.len() + 1, value.len()), value: Value::String(value.trim().to_owned()) },
    })
}

/// Reads the value of an option: `NAME` or `NAME:KEY=VALUE:...`.
pub fn from_option<K: Parameterised>(option: &str, text: &str) -> Result<K, ScenarioError> {
    let span = Span { source: 0, range: 0..text.len() };
    let node = Node { span, value: Value::String(text.to_owned()) };
    let sources = [crate::text::source::Source { name: option.to_owned(), text: text.to_owned() }];
    read(&node, None).map_err(|problem| problem.locate(&sources))
}

/// Formats the parameters of `kind` with their values: `lambda=1.2, ...`.
pub fn describe<K: Parameterised>(kind: &K) -> String {
    let shown: Vec<String> = kind
        .parameters()
        .iter()
        .map(|(spec, value)| format!("{}={}", spec.name, spec.domain.show(value)))
        .collect();
    shown.join(", ")
}
