//! A scenario file and its overrides from the command line.

use std::collections::BTreeMap;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use super::files::{Directory, Files, MOST_BYTES, read_file};
use super::{knobs, path, presets, scenario};
use crate::library;
use crate::model::Scenario;
use crate::text::source::{Problem, ScenarioError, Source, Span, did_you_mean};
use crate::text::tree::{self, Entry, Node, Table, Value};
use crate::text::write;

/// A scenario file with the overrides of the command line, parsed but not yet validated.
#[derive(Clone, Debug)]
pub struct Document {
    sources: Vec<Source>,
    directories: Vec<Directory>,
    /// The file; none of a text and of a built-in scenario.
    file: Option<PathBuf>,
    table: Table,
    /// Overrides from the command line, applied in this order.
    overrides: Vec<Override>,
}

#[derive(Clone, Debug)]
struct Override {
    /// The key as it was given.
    name: String,
    keys: Vec<(String, Span)>,
    node: Node,
}

impl Document {
    /// Parses the document `text`, called `name` in errors; the files it names are in `directory`.
    pub fn parse(
        name: impl Into<String>,
        text: impl Into<String>,
        directory: impl Into<PathBuf>,
    ) -> Result<Document, ScenarioError> {
        Document::with_directory(name.into(), text.into(), Directory::Disk(directory.into()))
    }

    fn with_directory(name: String, text: String, directory: Directory) -> Result<Document, ScenarioError> {
        let sources = vec![Source { name, text }];
        let table = Table::parse(&sources[0].text, 0).map_err(|problem| problem.locate(&sources))?;
        Ok(Document { sources, directories: vec![directory], file: None, table, overrides: Vec::new() })
    }

    /// Opens the scenario `name`: a built-in one, or else the file of that name.
    pub fn open(name: &str) -> Result<Document, ScenarioError> {
        if let Some(scenario) = library::find(name) {
            return Document::with_directory(
                format!("{}.toml", scenario.name),
                scenario.text.to_owned(),
                Directory::Embedded,
            );
        }
        let file = FilePath::new(name);
        let unreadable = |reason: String| {
            let mut error = ScenarioError::new(format!("cannot read the scenario `{name}`: {reason}"));
            let names: Vec<&str> = library::ALL.iter().map(|scenario| scenario.name).collect();
            error.help = Some(match did_you_mean(name, names) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "give a file, or a name that `anabranch list scenarios` shows".to_owned(),
            });
            error
        };
        let text = read_file(file, MOST_BYTES).map_err(unreadable)?;
        let directory = file.parent().unwrap_or(FilePath::new("")).to_owned();
        let document = Document::with_directory(name.to_owned(), text, Directory::Disk(directory))?;
        Ok(Document { file: Some(file.to_owned()), ..document })
    }

    /// Parses the document `text`, called `name` in errors. Its traces are the built-in ones.
    ///
    /// # Errors
    /// If it is not TOML.
    pub fn built_in(name: impl Into<String>, text: impl Into<String>) -> Result<Document, ScenarioError> {
        Document::with_directory(name.into(), text.into(), Directory::Embedded)
    }

    /// Parses the document `text`, called `name` in errors. Its traces and distributions are in `files`, by name; other
    /// traces are the built-in ones.
    ///
    /// # Errors
    /// If it is not TOML.
    pub fn with_files(
        name: impl Into<String>,
        text: impl Into<String>,
        files: BTreeMap<String, String>,
    ) -> Result<Document, ScenarioError> {
        Document::with_directory(name.into(), text.into(), Directory::Given(Arc::new(files)))
    }

    /// Returns an empty document, for paths from the command line.
    pub fn bare() -> Document {
        Document {
            sources: vec![Source { name: "command line".to_owned(), text: String::new() }],
            directories: vec![Directory::Disk(PathBuf::new())],
            file: None,
            table: Table::default(),
            overrides: Vec::new(),
        }
    }

    fn add_source(&mut self, name: &str, text: &str) -> usize {
        self.sources.push(Source { name: name.to_owned(), text: text.to_owned() });
        self.directories.push(Directory::Disk(PathBuf::new()));
        self.sources.len() - 1
    }

    /// Applies `--set KEY=VALUE`: a key of the scenario with its tables (`traffic.size`, `path.loss` for all
    /// paths, `path.wifi.loss` for one), or a knob of `[connection]` by its own name (`rto.min`).
    pub fn set(&mut self, assignment: &str) -> Result<(), ScenarioError> {
        self.set_from("--set", assignment)
    }

    /// The same as [`set`](Self::set), for an assignment that errors locate in `source`.
    ///
    /// # Errors
    /// If `assignment` is not KEY=VALUE.
    pub fn set_from(&mut self, source: &str, assignment: &str) -> Result<(), ScenarioError> {
        let source = self.add_source(source, assignment);
        match tree::parse_assignment(assignment, source) {
            Ok((mut keys, node)) => {
                if !scenario::KEYS.contains(&keys[0].0.as_str()) && knobs::is_knob_or_group(&keys[0].0) {
                    keys.insert(0, ("connection".to_owned(), keys[0].1.clone()));
                }
                if keys.len() == 1 && keys[0].0 == "schedulers" {
                    let names = match &node.value {
                        Value::Array(items) => items.iter().filter_map(|item| item.name().ok()).collect(),
                        Value::String(text) => text.split(',').map(|name| name.trim().to_owned()).collect(),
                        _ => Vec::new(),
                    };
                    self.keep_reference_among(&names);
                }
                let name = assignment.split('=').next().unwrap_or_default().trim().to_owned();
                self.overrides.push(Override { name, keys, node });
                Ok(())
            }
            Err(problem) => Err(problem.locate(&self.sources)),
        }
    }

    /// Replaces the value at the dotted `key` by `value`, given by the option `option`.
    pub fn set_option(&mut self, option: &str, key: &str, value: &str) {
        let source = self.add_source(option, value);
        let span = Span { source, range: 0..value.len() };
        let node = Node { span: span.clone(), value: Value::String(value.to_owned()) };
        self.put(key, span, node);
    }

    /// Replaces the value at the dotted `key` by the list of `values`, given by the option `option`.
    pub fn set_list(&mut self, option: &str, key: &str, values: &[String]) {
        let text = values.join(",");
        let source = self.add_source(option, &text);
        let mut at = 0;
        let items = values
            .iter()
            .map(|value| {
                let span = Span { source, range: at..at + value.len() };
                at += value.len() + 1;
                Node { span, value: Value::String(value.clone()) }
            })
            .collect();
        let span = Span { source, range: 0..text.len() };
        self.put(key, span.clone(), Node { span, value: Value::Array(items) });
    }

    fn put(&mut self, key: &str, span: Span, node: Node) {
        let keys = key.split('.').map(|key| (key.to_owned(), span.clone())).collect();
        self.overrides.push(Override { name: key.to_owned(), keys, node });
    }

    pub(crate) fn overrides(&self) -> usize {
        self.overrides.len()
    }

    /// Returns the key of override number `at`, as it was given.
    pub(crate) fn override_name(&self, at: usize) -> &str {
        &self.overrides[at].name
    }

    /// Returns the document without override number `at`.
    pub(crate) fn without(&self, at: usize) -> Document {
        let mut document = self.clone();
        document.overrides.remove(at);
        document
    }

    /// Replaces the paths of the file by the paths of the command line, each `RATE,RTT[,...]`,
    /// `trace=DOWN[:UP],RTT[,...]` or `PRESET[,...]`.
    pub fn set_paths(&mut self, paths: &[String]) -> Result<(), ScenarioError> {
        let mut nodes = Vec::new();
        for text in paths {
            let source = self.add_source("--path", text);
            nodes.push(path::from_option(text, source).map_err(|problem| problem.locate(&self.sources))?);
        }
        let Some(first) = nodes.first() else { return Ok(()) };
        let span = first.span.clone();
        for key in ["path", "node", "link", "route"] {
            self.table.remove(key);
        }
        // Names of the file's paths do not apply to the new ones.
        self.table.remove("initial");
        self.table.entries.push(Entry {
            key: "path".to_owned(),
            key_span: span.clone(),
            node: Node { span, value: Value::Array(nodes) },
        });
        Ok(())
    }

    /// Replaces the scenario's size by the value of the option `option`, and removes keys that depend on the
    /// old size.
    pub fn set_size(&mut self, option: &str, size: &str) {
        let stale: &[&str] = match size.trim().to_ascii_lowercase().as_str() {
            "web" => &["duration"],
            "bulk" => &["max", "load"],
            _ => &["max", "duration"],
        };
        self.remove_from_traffic(stale);
        self.set_option(option, "traffic.size", size);
    }

    /// Replaces the scenario's number of flows by the value of the option `option`.
    pub fn set_flows(&mut self, option: &str, flows: &str) {
        self.remove_from_traffic(&["starts"]);
        self.set_option(option, "traffic.flows", flows);
    }

    /// Removes `keys` from the traffic of the scenario and of its conditions.
    fn remove_from_traffic(&mut self, keys: &[&str]) {
        let remove = |table: &mut Table| {
            if let Some(Entry { node: Node { value: Value::Table(traffic), .. }, .. }) =
                table.get_mut("traffic")
            {
                traffic.entries.retain(|entry| !keys.contains(&entry.key.as_str()));
            }
        };
        remove(&mut self.table);
        if let Some(Entry { node: Node { value: Value::Array(conditions), .. }, .. }) =
            self.table.get_mut("condition")
        {
            for condition in conditions {
                if let Value::Table(changes) = &mut condition.value {
                    remove(changes);
                }
            }
        }
    }

    /// Replaces the scenario's contenders by the value of the option `option`. Its reference is kept if it is one
    /// of them.
    pub fn set_schedulers(&mut self, option: &str, names: &[String]) {
        self.keep_reference_among(names);
        self.set_list(option, "schedulers", names);
    }

    fn keep_reference_among(&mut self, names: &[String]) {
        let kept = self.table.get("reference").and_then(|entry| entry.node.name().ok());
        if kept.is_none_or(|kept| !names.contains(&kept)) {
            self.table.remove("reference");
        }
    }

    /// Removes the conditions, so that the scenario is run once and as it is.
    pub fn clear_conditions(&mut self) {
        self.table.remove("condition");
    }

    /// Validates everything and returns the scenario.
    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        self.read().map_err(|problem| problem.locate(&self.sources))
    }

    fn read(&self) -> Result<Scenario, Problem> {
        let mut table = self.table.clone();
        presets::expand(&mut table)?;
        for Override { keys, node, .. } in &self.overrides {
            scenario::apply(&mut table, keys, node.clone())?;
            // New paths may have presets, as paths of the file have.
            if matches!(keys.as_slice(), [(key, _)] if key == "path") {
                presets::expand(&mut table)?;
            }
        }
        self.override_conditions(&mut table)?;
        let files = Files::new(&self.directories);
        let end = self.sources[0].text.len();
        let mut scenario = scenario::read(&table, &Span { source: 0, range: end..end }, &files)?;
        scenario.files = self.file.iter().cloned().chain(files.into_read()).collect();
        write::make_absolute(&mut table, &|source, name| self.directories[source].file(name));
        scenario.text = write::document(&table);
        Ok(scenario)
    }
}

impl Document {
    /// Applies the overrides to each condition that sets the same table, so that they win over the condition too. The
    /// text of the scenario then needs no override.
    fn override_conditions(&self, table: &mut Table) -> Result<(), Problem> {
        let base = table.clone();
        let Some(Entry { node: Node { value: Value::Array(conditions), .. }, .. }) =
            table.get_mut("condition")
        else {
            return Ok(());
        };
        for condition in conditions {
            let Value::Table(changes) = &mut condition.value else { continue };
            let is_set = |keys: &[(String, Span)]| changes.get(&keys[0].0).is_some();
            let touched: Vec<&Override> =
                self.overrides.iter().filter(|change| is_set(&change.keys)).collect();
            if touched.is_empty() {
                continue;
            }
            let mut varied = base.clone();
            scenario::vary(&mut varied, changes)?;
            for Override { keys, node, .. } in &touched {
                scenario::apply(&mut varied, keys, node.clone()).map_err(|problem| {
                    let name = changes.get("name").and_then(|entry| entry.node.name().ok());
                    let message = format!("{}, in condition `{}`", problem.message, name.unwrap_or_default());
                    Problem { message, ..problem }
                })?;
            }
            for Override { keys, .. } in touched {
                let resolved = varied.get(&keys[0].0).map(|entry| entry.node.clone());
                if let (Some(entry), Some(node)) = (changes.get_mut(&keys[0].0), resolved) {
                    entry.node = node;
                }
            }
        }
        Ok(())
    }
}
