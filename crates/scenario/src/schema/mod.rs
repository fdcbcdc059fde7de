//! JSON Schema (2020-12) of scenarios and sweep plans, for editors.
//!
//! It is generated from the declarations that the readers use: the rows of tables (`shape`), the tables of units, and
//! the parameters of schedulers, congestion controls and connections. It describes the forms that
//! `docs/scenario.md` documents. Relations between values, such as a range of a size in bytes, are checked only
//! by the reader.

mod algorithms;
mod quantity;

use crate::text::keys::{Derived, Keys, Kinds, Row, Shape, Sides};
use serde_json::{Map, Value, json};

use crate::plan;
use crate::read::{classes, contender, knobs, network, path, scenario};

/// Returns the schema of a scenario.
pub fn scenario() -> Value {
    document(&scenario::TABLE, "A scenario of anabranch")
}

/// Returns the schema of a sweep plan.
pub fn plan() -> Value {
    document(&plan::TABLE, "A sweep plan of anabranch")
}

fn document(keys: &'static Keys, title: &str) -> Value {
    let mut schema = Schema::default();
    let Value::Object(mut root) = schema.table(keys, Mode::Whole) else { return Value::Null };
    // A comment in a TOML file names the schema; as data, editors accept it as a key.
    root.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    root.insert("title".to_owned(), json!(title));
    root.insert("$defs".to_owned(), Value::Object(schema.definitions));
    Value::Object(root)
}

/// The use of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A complete table.
    Whole,
    /// Changes of a table; no key is required.
    Partial,
}

/// The definitions that are made so far.
#[derive(Default)]
struct Schema {
    definitions: Map<String, Value>,
}

/// Returns a schema that admits what one of `all` admits.
fn any_of(mut all: Vec<Value>) -> Value {
    match all.len() {
        1 => all.remove(0),
        _ => json!({ "anyOf": all }),
    }
}

/// Returns the schema of a table with these properties only. In names, `_` is the same as `-`.
fn object(properties: Map<String, Value>) -> Value {
    let mut patterns = Map::new();
    for (name, schema) in properties.iter().filter(|(name, _)| name.contains('-')) {
        let pattern = format!("^{}$", quantity::escaped(name).replace('-', "[-_]"));
        patterns.insert(pattern, schema.clone());
    }
    let mut table = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !patterns.is_empty() {
        table["patternProperties"] = Value::Object(patterns);
    }
    table
}

/// Returns the ways to write a key.
fn spellings(key: &str) -> Vec<String> {
    let mut all = vec![key.to_owned()];
    if key.contains('-') {
        all.push(key.replace('-', "_"));
    }
    all
}

/// Returns the condition that one of `keys` is present.
fn one_present(keys: &[&str]) -> Value {
    let keys = keys.iter().flat_map(|key| spellings(key));
    any_of(keys.map(|key| json!({ "required": [key] })).collect())
}

fn described(mut schema: Value, what: &str) -> Value {
    schema["description"] = json!(what);
    schema
}

impl Schema {
    /// Returns a reference to the definition `name`, which `make` makes if it is not there.
    fn defined(&mut self, name: &str, make: impl FnOnce(&mut Schema) -> Value) -> Value {
        if !self.definitions.contains_key(name) {
            // The place is taken first, as a definition may refer to itself.
            self.definitions.insert(name.to_owned(), Value::Null);
            let made = make(self);
            self.definitions.insert(name.to_owned(), made);
        }
        json!({ "$ref": format!("#/$defs/{name}") })
    }

    fn shape(&mut self, shape: &'static Shape, mode: Mode) -> Value {
        match shape {
            Shape::Bool => json!({ "type": "boolean" }),
            Shape::Whole(low, high) => whole(*low, *high),
            Shape::Number => json!({ "type": "number" }),
            Shape::Text => json!({ "type": "string" }),
            Shape::Name => {
                self.defined("name", |_| json!({ "type": ["string", "integer"], "pattern": "\\S" }))
            }
            Shape::Rate => self.defined("rate", |_| quantity::rate()),
            Shape::Time => self.defined("time", |_| quantity::time()),
            Shape::Size => self.defined("size", |_| quantity::size()),
            Shape::Probability => self.defined("probability", |_| quantity::probability()),
            Shape::Load => self.defined("load", |_| quantity::load()),
            Shape::Queue => self.defined("queue", |_| quantity::queue()),
            Shape::Choice(names) => json!({ "enum": names }),
            Shape::Named(names) => json!({ "enum": names() }),
            Shape::List(item) => {
                // A list replaces the whole value, so that its items are complete.
                let item = self.shape(item, Mode::Whole);
                json!({ "type": "array", "items": item })
            }
            Shape::OneOrMore(item) => {
                let (one, items) = (self.shape(item, mode), self.shape(item, Mode::Whole));
                any_of(vec![one, json!({ "type": "array", "items": items })])
            }
            Shape::AnyOf(shapes) => any_of(shapes.iter().map(|shape| self.shape(shape, mode)).collect()),
            Shape::Table(keys) => self.table_definition(keys, mode),
            Shape::Derived(derived) => self.derived(*derived, mode),
        }
    }

    fn table_definition(&mut self, keys: &'static Keys, mode: Mode) -> Value {
        let name = match mode {
            Mode::Whole => keys.name.to_owned(),
            Mode::Partial => format!("{}-changes", keys.name),
        };
        self.defined(&name, |schema| schema.table(keys, mode))
    }

    fn table(&mut self, keys: &'static Keys, mode: Mode) -> Value {
        let mut properties = Map::new();
        for row in keys.rows.iter().copied().flatten() {
            properties.insert(row.name.to_owned(), self.row(row, keys.sides, mode));
        }
        let mut table = object(properties);
        let mut rules: Vec<Value> = Vec::new();
        if mode == Mode::Whole {
            rules.extend(keys.required.iter().map(|key| one_present(&[key])));
            rules.extend(keys.one_of.iter().map(|keys| one_present(keys)));
        }
        if let (Some(kinds), Mode::Whole) = (&keys.kinds, mode) {
            rules.extend(kind_rules(kinds));
        }
        if !rules.is_empty() {
            table["allOf"] = Value::Array(rules);
        }
        table
    }

    fn row(&mut self, row: &'static Row, sides: Option<Sides>, mode: Mode) -> Value {
        let one = self.shape(&row.shape, mode);
        let split = sides.filter(|sides| !sides.whole.contains(&row.name) && row.name != "loss-up");
        let Some(sides) = split else { return described(one, row.what) };
        let pair = |pair: &[&str; 2]| {
            let mut both = object(pair.map(|side| (side.to_owned(), one.clone())).into_iter().collect());
            both["minProperties"] = json!(1);
            both
        };
        let mut forms = vec![one.clone()];
        forms.extend(sides.pairs.iter().map(pair));
        described(any_of(forms), row.what)
    }

    fn derived(&mut self, derived: Derived, mode: Mode) -> Value {
        match derived {
            Derived::Scheduler => self.defined("scheduler", |_| algorithms::contender_scheduler()),
            Derived::SchedulerDefaults => {
                self.defined("scheduler-parameters", |_| algorithms::scheduler_defaults())
            }
            Derived::Congestion => {
                self.defined("congestion", |_| algorithms::congestion(mode == Mode::Partial))
            }
            Derived::Connection => self.defined("connection", |_| object(algorithms::knobs())),
            Derived::Contender => self.defined("contender", |schema| {
                let mut own = schema.rows(contender::OWN_ROWS);
                own.extend(algorithms::knobs());
                algorithms::contender(own)
            }),
            Derived::Condition => self.defined("condition", Schema::condition),
            Derived::Settings => {
                self.defined("settings", |_| json!({ "type": "object", "propertyNames": dotted_key() }))
            }
            Derived::Varied => self.defined("varied", |schema| {
                let values = schema.varied();
                json!({ "type": "object", "minProperties": 1, "propertyNames": dotted_key(),
                    "additionalProperties": values })
            }),
        }
    }

    fn rows(&mut self, rows: &'static [Row]) -> Map<String, Value> {
        rows.iter().map(|row| (row.name.to_owned(), self.row(row, None, Mode::Whole))).collect()
    }

    /// The values of a varied key: a list, a range, or a table of further keys.
    fn varied(&mut self) -> Value {
        self.defined("varied-values", |schema| {
            let range = schema.table_definition(&plan::RANGE, Mode::Whole);
            any_of(vec![
                json!({ "type": "array", "minItems": 1 }),
                range,
                json!({ "type": "object", "not": { "required": ["from"] },
                    "additionalProperties": { "$ref": "#/$defs/varied-values" } }),
            ])
        })
    }

    /// The keys of a condition: changes of paths, links and classes by name, and other values of the scenario's keys.
    fn condition(&mut self) -> Value {
        let mut properties = Map::new();
        for row in scenario::ROWS.iter().filter(|row| !scenario::FIXED.contains(&row.name)) {
            let changed: Option<&'static Keys> = match row.name {
                "path" => Some(&path::TABLE),
                "link" => Some(&network::LINK),
                "traffic" => Some(&classes::TABLE),
                _ => None,
            };
            let mut forms = vec![self.shape(&row.shape, Mode::Partial)];
            if let Some(keys) = changed {
                // Keys of all items, and tables of keys by the name or the number of an item.
                let changes = self.table_definition(keys, Mode::Partial);
                let Value::Object(mut all) = self.table(keys, Mode::Partial) else { continue };
                all.insert("additionalProperties".to_owned(), changes);
                forms.push(Value::Object(all));
            }
            properties.insert(row.name.to_owned(), described(any_of(forms), row.what));
        }
        let mut table = object(properties);
        table["required"] = json!(["name"]);
        table
    }
}

fn whole(low: i64, high: i64) -> Value {
    let mut number = json!({ "type": "integer", "minimum": low });
    if high < i64::MAX {
        number["maximum"] = json!(high);
    }
    number
}

/// Returns the rules for the keys of each kind.
fn kind_rules(kinds: &Kinds) -> Vec<Value> {
    let rule = |(name, own): (&'static str, &'static [&'static str])| {
        let of_kind =
            json!({ "properties": { kinds.key: { "enum": spellings(name) } }, "required": [kinds.key] });
        let condition = match kinds.default {
            Some(default) if default == name => {
                any_of(vec![of_kind, json!({ "not": { "required": [kinds.key] } })])
            }
            _ => of_kind,
        };
        let allowed: Vec<String> = kinds.common.iter().chain(own).flat_map(|key| spellings(key)).collect();
        json!({ "if": condition, "then": { "propertyNames": { "enum": allowed } } })
    };
    (kinds.own)().into_iter().map(rule).collect()
}

/// Returns the schema of the keys of a scenario with their tables: `path.wifi.rate`, or several with commas.
fn dotted_key() -> Value {
    let tops = scenario::KEYS.iter().copied().chain(knobs::ALL.iter().map(|knob| knob.name));
    // A knob of a table may begin with the name of the table.
    let mut names: Vec<String> = tops
        .flat_map(|name| [name, name.split('.').next().unwrap_or(name)])
        .map(|name| quantity::escaped(name).replace('-', "[-_]"))
        .collect();
    names.sort();
    names.dedup();
    let one = format!("\\s*({})(\\.[^,]*)?", names.join("|"));
    json!({ "pattern": format!("^{one}(,{one})*$") })
}
