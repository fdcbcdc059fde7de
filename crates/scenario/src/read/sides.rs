//! Settings of a path that differ between its two directions.
//!
//! Any setting may be a table `{ down = ..., up = ... }` or `{ data = ..., acks = ... }`. *Down* leads to the client and
//! *up* from it, as on an access line; *data* and *acks* are the roles of the directions in the scenario. In a download
//! the data goes down.

use crate::model::Direction;
use crate::text::source::Problem;
use crate::text::tree::{Entry, Node, Table, Value};

/// The keys of a table with a value for each direction.
pub(crate) const SIDES: [&str; 4] = ["down", "up", "data", "acks"];

/// The keys of such a table for a link between two nodes: from `from` to `to`, and back.
pub(crate) const WAYS: [&str; 2] = ["forth", "back"];

/// Settings that belong to the direction of the data unless they have a value for each direction.
const DATA_ONLY: &[&str] =
    &["loss", "gilbert-elliott", "jitter", "reorder", "duplicate", "corrupt", "drop", "cross-traffic"];

/// Settings that both directions of a path need: a single value applies to the other direction too.
const NEEDED: &[&str] = &["rate", "trace", "delay"];

/// Keys of the path as a whole.
pub(crate) const WHOLE: &[&str] = &[
    "name",
    "preset",
    "backup",
    "endpoint",
    "rtt",
    "trace-start",
    "strip",
    "mss-clamp",
    "nat-timeout",
    "nat-resets",
    "overhead",
    "proxy",
    "over-quota",
    "budget",
    "at",
    "change",
    "change-every",
    "notify-after",
];

/// Keys of a link between two nodes, as a whole.
pub(crate) const LINK_WHOLE: &[&str] = &[
    "name",
    "from",
    "to",
    "duplex",
    "backup",
    "trace-start",
    "at",
    "change",
    "change-every",
    "notify-after",
];

/// The settings of a path in the direction of the data, and in the direction of the acknowledgements.
pub(super) struct Sides {
    pub data: Table,
    pub acks: Table,
}

/// True if `table` has a value for each direction.
pub(super) fn is_split(table: &Table) -> bool {
    table.entries.first().is_some_and(|entry| SIDES.contains(&entry.key.as_str()))
}

/// Separates the settings of the two directions of a path.
pub(super) fn split(table: &Table, direction: Direction) -> Result<Sides, Problem> {
    separate(table, direction, NEEDED)
}

/// Separates the settings of a change: a direction without a value does not change.
pub(super) fn split_change(table: &Table, direction: Direction) -> Result<Sides, Problem> {
    separate(table, direction, &[])
}

/// Separates the settings of the two directions of a link between nodes, or with `change` of a change: `data` is
/// the direction from `from` to `to`, and `acks` the opposite one. A single value applies to both.
pub(super) fn split_link(table: &Table, change: bool) -> Result<Sides, Problem> {
    let mut sides = Sides { data: Table::default(), acks: Table::default() };
    for entry in &table.entries {
        let key = entry.key.as_str();
        let (forth, back) = match &entry.node.value {
            Value::Table(ways) if has_ways(ways) => {
                if LINK_WHOLE.contains(&key) {
                    let what = format!("`{key}` has one value for both directions");
                    return Err(Problem::at(&entry.node.span, what));
                }
                if let Some(other) = ways.entries.iter().find(|way| !WAYS.contains(&way.key.as_str())) {
                    let what = format!("a link has no direction `{}`", other.key);
                    return Err(Problem::at(&other.key_span, what).help(
                        "give `{ forth = ..., back = ... }`: `forth` leads from `from` to `to`; \
                         data may go either way, so that a link has neither `up` nor `data`",
                    ));
                }
                let [forth, back] = WAYS.map(|way| ways.get(way).map(|entry| entry.node.clone()));
                match NEEDED.contains(&key) && !change {
                    true => (forth.clone().or(back.clone()), back.or(forth)),
                    false => (forth, back),
                }
            }
            _ => (Some(entry.node.clone()), Some(entry.node.clone())),
        };
        let with = |node: Node| Entry { node, ..entry.clone() };
        sides.data.entries.extend(forth.map(with));
        sides.acks.entries.extend(back.map(with));
    }
    Ok(sides)
}

/// True if `table` has values by direction, whether or not a link has these directions.
fn has_ways(table: &Table) -> bool {
    is_split(table) || table.entries.first().is_some_and(|entry| WAYS.contains(&entry.key.as_str()))
}

/// Returns a value in a table by direction that belongs to the direction back, if there is one.
pub(super) fn given_back(table: &Table) -> Option<&Entry> {
    table.entries.iter().find_map(|entry| match &entry.node.value {
        Value::Table(ways) if has_ways(ways) => ways.get(WAYS[1]),
        _ => None,
    })
}

fn separate(table: &Table, direction: Direction, needed: &[&str]) -> Result<Sides, Problem> {
    let mut sides = Sides { data: Table::default(), acks: Table::default() };
    for entry in &table.entries {
        let (data, acks) = values(entry, direction, needed)?;
        let with = |node: Node| Entry { node, ..entry.clone() };
        sides.data.entries.extend(data.map(with));
        sides.acks.entries.extend(acks.map(with));
    }
    if let Some(loss_up) = sides.acks.remove("loss-up") {
        if let Some(loss) = sides.acks.get("loss").or(sides.acks.get("gilbert-elliott")) {
            return Err(Problem::at(&loss.key_span, "the loss of acknowledgements is given twice")
                .help("remove `loss-up`, or the value here"));
        }
        sides.acks.entries.push(Entry { key: "loss".to_owned(), ..loss_up });
    }
    Ok(sides)
}

/// Returns the values of a setting for the data and for the acknowledgements.
fn values(
    entry: &Entry,
    direction: Direction,
    needed: &[&str],
) -> Result<(Option<Node>, Option<Node>), Problem> {
    let key = entry.key.as_str();
    let node = || Some(entry.node.clone());
    match &entry.node.value {
        Value::Table(table) if is_split(table) => {
            if WHOLE.contains(&key) || key == "loss-up" {
                let problem =
                    Problem::at(&entry.node.span, format!("`{key}` has one value for both directions"));
                return Err(match key {
                    "rtt" => problem.help("give `delay = { down = \"10 ms\", up = \"30 ms\" }` in its place"),
                    "loss-up" => problem.help("write `loss = { data = \"1%\", acks = \"1%\" }`"),
                    _ => problem,
                });
            }
            let pair = |one: &str, other: &str| -> Option<(Option<Node>, Option<Node>)> {
                let get = |side: &str| table.get(side).map(|entry| entry.node.clone());
                table
                    .entries
                    .iter()
                    .all(|entry| [one, other].contains(&entry.key.as_str()))
                    .then(|| (get(one), get(other)))
            };
            let (data, acks) = match (pair("data", "acks"), pair("down", "up"), direction) {
                (Some(pair), ..) | (None, Some(pair), Direction::Download) => pair,
                (None, Some((down, up)), Direction::Upload) => (up, down),
                (None, None, _) => {
                    return Err(Problem::at(&entry.node.span, format!("the two values of `{key}` are unclear"))
                        .help("give `{ down = ..., up = ... }` (to and from the client) or `{ data = ..., acks = ... }`"));
                }
            };
            match needed.contains(&key) {
                true => Ok((data.clone().or(acks.clone()), acks.or(data))),
                false => Ok((data, acks)),
            }
        }
        _ if key == "loss-up" => Ok((None, node())),
        _ if DATA_ONLY.contains(&key) => Ok((node(), None)),
        _ => Ok((node(), node())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides(text: &str, direction: Direction) -> (Vec<String>, Vec<String>) {
        let sides = split(&Table::parse(text, 0).unwrap(), direction).unwrap();
        let show = |table: &Table| {
            let of = |entry: &Entry| match &entry.node.value {
                Value::String(value) => format!("{} {value}", entry.key),
                other => format!("{} {}", entry.key, other.kind()),
            };
            table.entries.iter().map(of).collect::<Vec<_>>()
        };
        (show(&sides.data), show(&sides.acks))
    }

    #[test]
    fn down_leads_to_the_client_and_data_is_a_role() {
        let text = "rate = { down = 'a', up = 'b' }\nqueue = { data = 'c', acks = 'd' }";
        let both = |rate: &str, queue: &str| vec![format!("rate {rate}"), format!("queue {queue}")];
        assert_eq!(sides(text, Direction::Download), (both("a", "c"), both("b", "d")));
        assert_eq!(sides(text, Direction::Upload), (both("b", "c"), both("a", "d")));
    }

    #[test]
    fn one_value_is_for_both_or_for_the_data() {
        let text = "rate = 'a'\nloss = 'b'\nloss-up = 'c'\naqm = { up = 'd' }\ndelay = { up = 'e' }";
        let (data, acks) = sides(text, Direction::Download);
        assert_eq!(data, ["rate a", "loss b", "delay e"]);
        assert_eq!(acks, ["rate a", "aqm d", "delay e", "loss c"]);
        let change = Table::parse("rate = { up = 'a' }", 0).unwrap();
        let sides = split_change(&change, Direction::Download).unwrap();
        assert!(sides.data.entries.is_empty() && sides.acks.entries.len() == 1);
    }
}
