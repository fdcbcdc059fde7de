//! The forms of schedulers, congestion controls and knobs, from their declared parameters.

use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::parameter::{Domain, Parameterised, Spec};
use anabranch_stack::scheduler::SchedulerKind;
use serde_json::{Map, Value, json};

use super::{any_of, described, object, quantity, spellings};
use crate::read::knobs;

/// Returns the form of a parameter's value.
fn domain(domain: &Domain) -> Value {
    let value = match *domain {
        Domain::Bool => json!({ "type": "boolean" }),
        Domain::Integer(low, high) | Domain::OpenInteger(low, high, _) => {
            json!({ "type": "integer", "minimum": low, "maximum": high })
        }
        Domain::Number(low, high) | Domain::OpenNumber(low, high, _) => {
            json!({ "type": "number", "minimum": low, "maximum": high })
        }
        Domain::Time(..) | Domain::OpenTime(..) => quantity::time(),
        Domain::Choice(words) => json!({ "enum": words }),
        Domain::Numbers(low, high) => {
            let number = json!({ "type": "number", "minimum": low, "maximum": high });
            any_of(vec![
                number.clone(),
                json!({ "type": "string", "pattern": r"^[-+.\deE/\s]+$" }),
                json!({ "type": "array", "items": number, "maxItems": 32 }),
            ])
        }
        Domain::Buffer(..) | Domain::OpenBuffer(..) => {
            let sizes = ["initial", "max"].map(|key| (key.to_owned(), quantity::size()));
            any_of(vec![quantity::size(), object(sizes.into_iter().collect())])
        }
    };
    match domain.open_word() {
        Some(word) => any_of(vec![value, json!({ "const": word })]),
        None => value,
    }
}

fn parameters(specs: &[Spec]) -> Map<String, Value> {
    let row = |spec: &Spec| {
        let what = format!("{}: {}", spec.what, spec.domain);
        (spec.name.to_owned(), described(domain(&spec.domain), &what))
    };
    specs.iter().map(row).collect()
}

fn specs<K: Parameterised>(name: &str) -> Vec<Spec> {
    let kind = K::from_name(name);
    kind.map(|kind| kind.parameters().into_iter().map(|(spec, _)| spec).collect()).unwrap_or_default()
}

/// Returns the forms of an algorithm: its name, its name with parameters, or a table.
fn algorithm<K: Parameterised>() -> Vec<Value> {
    let names = K::names();
    let mut forms = vec![json!({ "enum": names })];
    let with_parameters = names.iter().filter_map(|name| {
        let keys: Vec<String> = specs::<K>(name).iter().flat_map(|spec| spellings(spec.name)).collect();
        (!keys.is_empty()).then(|| format!("{name}(:\\s*({})\\s*=[^:]*)+", keys.join("|")))
    });
    let with_parameters: Vec<String> = with_parameters.collect();
    if !with_parameters.is_empty() {
        let pattern = format!("^\\s*({})$", with_parameters.join("|"));
        forms.push(json!({ "type": "string", "pattern": pattern }));
    }
    forms.extend(names.iter().map(|name| {
        let mut properties = parameters(&specs::<K>(name));
        properties.insert("name".to_owned(), json!({ "const": name }));
        let mut table = object(properties);
        table["required"] = json!(["name"]);
        table
    }));
    forms
}

/// Returns the form of a congestion control; with `changes` also parameters for one that is named elsewhere.
pub(super) fn congestion(changes: bool) -> Value {
    let mut forms = algorithm::<CongestionKind>();
    if changes {
        forms.push(object(all_parameters::<CongestionKind>()));
    }
    any_of(forms)
}

/// Returns the parameters of all algorithms; parameters of the same name may have different forms.
fn all_parameters<K: Parameterised>() -> Map<String, Value> {
    let mut all: Map<String, Value> = Map::new();
    for (name, form) in K::names().iter().flat_map(|name| parameters(&specs::<K>(name))) {
        match all.get_mut(&name) {
            Some(known) if *known == form => {}
            Some(known) => *known = any_of(vec![known.take(), form]),
            None => {
                all.insert(name, form);
            }
        }
    }
    all
}

/// Returns the forms of a scheduler or of a plain TCP.
pub(super) fn contender_scheduler() -> Value {
    let mut forms = vec![json!({ "type": "string", "pattern": "^tcp(@.+)?$" })];
    forms.extend(algorithm::<SchedulerKind>());
    any_of(forms)
}

/// Returns the forms of a contender with the keys `own`.
pub(super) fn contender(own: Map<String, Value>) -> Value {
    let mut properties = all_parameters::<SchedulerKind>();
    properties.extend(own);
    let mut table = object(properties);
    table["required"] = json!(["scheduler"]);
    any_of(vec![json!({ "$ref": "#/$defs/scheduler" }), table])
}

/// Returns the form of `[scheduler]`: a table of parameters for each.
pub(super) fn scheduler_defaults() -> Value {
    let row =
        |name: &'static str| (name.replace('_', "-"), object(parameters(&specs::<SchedulerKind>(name))));
    object(SchedulerKind::names().into_iter().map(row).collect())
}

/// Returns the knobs of a connection, those with a dot in tables.
pub(super) fn knobs() -> Map<String, Value> {
    let mut all: Map<String, Value> = Map::new();
    let mut groups: Vec<(&str, Map<String, Value>)> = Vec::new();
    for knob in knobs::ALL.iter() {
        let form = match knob.domain() {
            Some(of) => described(domain(of), &format!("{}: {of}", knob.what)),
            None => described(own(knob.name), knob.what),
        };
        match knob.name.split_once('.') {
            None => {
                all.insert(knob.name.to_owned(), form);
            }
            Some((group, name)) => {
                if !groups.iter().any(|(known, _)| *known == group) {
                    groups.push((group, Map::new()));
                }
                let table = groups.iter_mut().find(|(known, _)| *known == group);
                table.map(|(_, table)| table.insert(name.to_owned(), form));
            }
        }
    }
    all.extend(groups.into_iter().map(|(group, table)| (group.to_owned(), object(table))));
    all
}

/// Returns the form of a knob with its own syntax.
fn own(name: &str) -> Value {
    match name {
        "path-manager" => {
            let kinds =
                ["none", "full_mesh", "anabranch"].iter().flat_map(|name| spellings(&name.replace('_', "-")));
            any_of(vec![
                json!({ "enum": kinds.collect::<Vec<_>>() }),
                json!({ "type": "string", "pattern": r"^n[-_]diff[-_]ports:\s*\d+\s*$" }),
            ])
        }
        _ => {
            let number = json!({ "type": ["integer", "string"], "pattern": r"^\s*(0x[\da-fA-F]+|\d+)\s*$", "minimum": 0 });
            let properties = ["isn", "initiator", "listener"].map(|key| (key.to_owned(), number.clone()));
            let mut table = object(properties.into_iter().collect());
            table["required"] = json!(["isn", "initiator", "listener"]);
            any_of(vec![json!({ "const": "random" }), table])
        }
    }
}
