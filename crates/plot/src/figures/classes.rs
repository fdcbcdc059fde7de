//! The classes of traffic of a result, and the measure of each.

use crate::{PlotError, Selection};

/// A class of traffic. A result without classes has one without a name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Class {
    pub(crate) name: Option<String>,
    kind: Option<String>,
}

impl Class {
    /// Returns the measure in words, of a time.
    pub(crate) fn time(&self) -> &'static str {
        match self.kind.as_deref() {
            Some("requests") => "Response time",
            Some("on-off") => "Delay of bursts",
            Some("udp") => "One-way delay",
            Some("video") => "Waiting time",
            _ if self.name.is_some() && self.kind.is_none() => "Time of the measure",
            _ => "Completion time",
        }
    }

    /// Returns the subject of one value: a flow, or a part of it.
    pub(crate) fn subject(&self) -> &'static str {
        match self.kind.as_deref() {
            Some("requests") => "Requests",
            Some("on-off") => "Bursts",
            Some("udp") => "Streams",
            Some("video") => "Videos",
            _ => "Flows",
        }
    }

    /// True for transfers: the goodput of other kinds depends on when their application sends.
    pub(crate) fn is_transfer(&self) -> bool {
        self.kind.as_deref().is_none_or(|kind| kind == "transfer")
    }

    /// Returns the class in words, with its kind.
    pub(crate) fn words(&self) -> String {
        let kind = self.kind.as_deref().unwrap_or("transfer");
        self.name.as_ref().map_or(format!("`{kind}`"), |name| format!("`{name}` ({kind})"))
    }

    pub(crate) fn has(&self, traffic: Option<&str>) -> bool {
        self.name.as_deref() == traffic
    }
}

/// Returns the classes that are shown. `all` has the class and the kind of each row.
pub(crate) fn classes<'a>(
    all: impl IntoIterator<Item = (Option<&'a str>, Option<&'a str>)>,
    selection: &Selection,
) -> Result<Vec<Class>, PlotError> {
    let mut found: Vec<Class> = Vec::new();
    for (name, kind) in all {
        if !found.iter().any(|class| class.has(name)) {
            found.push(Class { name: name.map(str::to_owned), kind: kind.map(str::to_owned) });
        }
    }
    let Some(wanted) = selection.traffic.as_deref() else { return Ok(found) };
    if let Some(class) = found.iter().find(|class| class.has(Some(wanted))) {
        return Ok(vec![class.clone()]);
    }
    let names: Vec<&str> = found.iter().filter_map(|class| class.name.as_deref()).collect();
    let names = match names.as_slice() {
        [] => "the traffic of this result has no classes".to_owned(),
        names => format!("there are {}", names.join(", ")),
    };
    Err(PlotError::new(format!("there is no class of traffic `{wanted}`; {names}")))
}

/// Returns the names of all classes.
pub(crate) fn class_names<'a>(all: impl IntoIterator<Item = Option<&'a str>>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in all.into_iter().flatten() {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Returns the parts of a title that say something.
pub(crate) fn title<const N: usize>(parts: [&str; N]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
}
