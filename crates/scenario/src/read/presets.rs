//! Presets of paths: figures of typical access networks, each with its source.
//!
//! A preset is a set of keys of a `[[path]]`, which other keys of the same path replace.

use crate::text::source::{Problem, Span, did_you_mean};
use crate::text::tree::{Entry, Node, Table, Value};

use super::sides;

/// A path that a name stands for, such as `lte`.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The word in place of a path's values, such as `lte`.
    pub name: &'static str,
    /// A description in a few words.
    pub what: &'static str,
    /// The values, each with the place where it was published; see [`Figure`].
    pub figures: &'static [Figure],
}

/// A value of a preset.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// The key of a `[[path]]`.
    pub key: &'static str,
    /// The value, as in a scenario.
    pub value: &'static str,
    /// The publication; none for an assumption.
    pub source: Option<&'static str>,
}

const fn from(key: &'static str, value: &'static str, source: &'static str) -> Figure {
    Figure { key, value, source: Some(source) }
}

const fn assumed(key: &'static str, value: &'static str) -> Figure {
    Figure { key, value, source: None }
}

const OH_LEE: &str = "Oh and Lee, Computer Networks 91, 2015, Table 3 (downloads over a campus WiFi)";
const STMS: &str = "Shi et al. (STMS), USENIX ATC 2018, section 2 (settings of its testbed)";
const OPENSIGNAL: &str = "Opensignal, State of Mobile: USA, May 2019 (means of Q1 2019)";
const OOKLA_5G: &str = "Ookla, Growing and Slowing: The State of 5G Worldwide in 2021 (medians of Q3 2021)";
const OOKLA_US: &str = "Ookla, United States, Q3 2023 (median of the fastest operator's 5G)";
const OOKLA_FIXED: &str = "Ookla, United States, Q3 2023 (medians of all fixed broadband)";
const OOKLA_SATELLITE: &str = "Ookla, satellite Internet in the United States, Q3 2021 (medians of Viasat)";
const OOKLA_STARLINK: &str = "Ookla, satellite Internet in the United States, Q3 2021 (medians of Starlink)";

/// All presets.
pub const ALL: &[Preset] = &[
    Preset {
        name: "wifi",
        what: "a wireless network in a building",
        figures: &[
            from("rate", "\"18 Mbit/s\"", OH_LEE),
            from("rtt", "\"16 ms\"", OH_LEE),
            from("queue", "\"50 ms\"", STMS),
            from("loss", "\"0.01%\"", STMS),
        ],
    },
    Preset {
        name: "lte",
        what: "a mobile network of the fourth generation",
        figures: &[
            from("rate", "{ down = \"21.3 Mbit/s\", up = \"6.3 Mbit/s\" }", OPENSIGNAL),
            from(
                "rtt",
                "\"55 ms\"",
                "Opensignal, State of Mobile: USA, May 2019 (the middle of 44.1 to 66.4 ms)",
            ),
            from("queue", "\"500 ms\"", STMS),
            from("loss", "\"0.01%\"", STMS),
        ],
    },
    Preset {
        name: "5g",
        what: "a mobile network of the fifth generation",
        figures: &[
            from("rate", "{ down = \"166.13 Mbit/s\", up = \"21.08 Mbit/s\" }", OOKLA_5G),
            from("rtt", "\"50 ms\"", OOKLA_US),
            assumed("queue", "\"500 ms\""),
            assumed("loss", "\"0.01%\""),
        ],
    },
    Preset {
        name: "dsl",
        what: "a telephone line",
        figures: &[
            Figure {
                key: "rate",
                value: "{ down = \"12 Mbit/s\", up = \"1 Mbit/s\" }",
                source: Some(
                    "down: FCC, Measuring Broadband America, fifth report, 2015 (most DSL offers of September 2014); up: assumption",
                ),
            },
            assumed("rtt", "\"40 ms\""),
            assumed("queue", "\"100 ms\""),
        ],
    },
    Preset {
        name: "cable",
        what: "a television cable",
        figures: &[
            Figure {
                key: "rate",
                value: "{ down = \"260 Mbit/s\", up = \"23.7 Mbit/s\" }",
                source: Some(
                    "Ookla, United States, Q3 2023 (down: median of Cox, a cable operator; up: median of all fixed broadband)",
                ),
            },
            from("rtt", "\"13 ms\"", OOKLA_FIXED),
            assumed("queue", "\"100 ms\""),
        ],
    },
    Preset {
        name: "satellite-geo",
        what: "a geostationary satellite",
        figures: &[
            from("rate", "{ down = \"18.75 Mbit/s\", up = \"2.96 Mbit/s\" }", OOKLA_SATELLITE),
            from("rtt", "\"629 ms\"", OOKLA_SATELLITE),
            assumed("queue", "\"1 BDP\""),
        ],
    },
    Preset {
        name: "satellite-leo",
        what: "satellites in low orbits",
        figures: &[
            from("rate", "{ down = \"87.25 Mbit/s\", up = \"13.54 Mbit/s\" }", OOKLA_STARLINK),
            from("rtt", "\"44 ms\"", OOKLA_STARLINK),
            assumed("queue", "\"100 ms\""),
        ],
    },
];

/// Returns the preset of this name.
pub fn find(name: &str) -> Option<&'static Preset> {
    ALL.iter().find(|preset| preset.name == name.trim())
}

/// Keys that replace one another: a path that has one of them takes none from its preset.
const EXCLUSIVE: [&[&str]; 3] = [&["rate", "trace"], &["rtt", "delay"], &["loss", "gilbert-elliott"]];

/// Replaces the key `preset` of each path by the keys of the preset that the path does not have itself. A path without a
/// name is called like its preset, and a second one `lte-2`.
pub(super) fn expand(table: &mut Table) -> Result<(), Problem> {
    let Some(Entry { node: Node { value: Value::Array(items), .. }, .. }) = table.get_mut("path") else {
        return Ok(());
    };
    let name_of = |item: &Node| match &item.value {
        Value::Table(path) => path.get("name").and_then(|entry| entry.node.name().ok()),
        _ => None,
    };
    let mut taken: Vec<String> = items.iter().filter_map(name_of).collect();
    for item in items {
        let Value::Table(path) = &mut item.value else { continue };
        let Some(entry) = path.remove("preset") else { continue };
        let (name, span) = (entry.node.string()?.trim().to_owned(), entry.node.span.clone());
        let Some(preset) = find(&name) else {
            let names = ALL.iter().map(|preset| preset.name);
            let problem = Problem::at(&span, format!("there is no preset `{name}`"));
            return Err(match did_you_mean(&name, names) {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.help("`anabranch list presets` shows them"),
            });
        };
        for figure in preset.figures {
            add(path, figure, &span)?;
        }
        if path.get("name").is_none() {
            let free = (2..).map(|n| format!("{name}-{n}"));
            let free = core::iter::once(name.clone()).chain(free).find(|name| !taken.contains(name));
            let own = free.unwrap_or(name);
            taken.push(own.clone());
            let node = Node { span: span.clone(), value: Value::String(own) };
            path.entries.push(Entry { key: "name".to_owned(), key_span: span, node });
        }
    }
    Ok(())
}

/// Adds a value of a preset to a path that does not have it.
fn add(path: &mut Table, figure: &Figure, span: &Span) -> Result<(), Problem> {
    let keys = EXCLUSIVE.iter().find(|keys| keys.contains(&figure.key)).copied();
    let keys = keys.unwrap_or(core::slice::from_ref(&figure.key));
    let value = crate::text::tree::parse_value(figure.value, span)?;
    let Some(own) = keys.iter().find(|key| path.get(key).is_some()) else {
        path.entries.push(Entry { key: figure.key.to_owned(), key_span: span.clone(), node: value });
        return Ok(());
    };
    // A path may replace the value of one direction.
    if let (Some(entry), Value::Table(preset)) = (path.get_mut(own), value.value)
        && *own == figure.key
        && let Value::Table(table) = &mut entry.node.value
        && sides::is_split(table)
        && table.entries.iter().all(|entry| preset.get(&entry.key).is_some())
    {
        for side in preset.entries {
            if table.get(&side.key).is_none() {
                table.entries.push(side);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, Scenario};

    fn scenario(text: &str) -> Scenario {
        Document::parse("test", text, ".").unwrap().scenario().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn every_preset_is_a_path_in_both_directions() {
        for preset in ALL {
            for direction in ["download", "upload"] {
                let text =
                    format!("path = [{{ preset = '{}' }}]\ntraffic.direction = '{direction}'", preset.name);
                let scenario = scenario(&text);
                let experiment = &scenario.conditions[0].experiment;
                let path = &experiment.paths()[0];
                assert_eq!(path.name, preset.name);
                let (data, acks) = (experiment.own_link(path), experiment.own_ack_link(path));
                let is_fast_down = data.mean_rate() >= acks.mean_rate();
                assert!(is_fast_down == (direction == "download") || data.mean_rate() == acks.mean_rate());
            }
        }
    }

    #[test]
    fn keys_of_the_path_replace_those_of_the_preset() {
        let text = "path = [{ preset = 'lte', rate = { up = '1 Mbit/s' }, loss = '3%' }, { preset = 'lte', delay = '9 ms' }]";
        let scenario = scenario(text);
        let experiment = &scenario.conditions[0].experiment;
        let [first, second] = experiment.paths() else { panic!() };
        assert_eq!((first.name.as_str(), second.name.as_str()), ("lte", "lte-2"));
        let (data, acks) = (experiment.own_link(first), experiment.own_ack_link(first));
        assert_eq!((data.mean_rate().0, acks.mean_rate().0), (21_300_000, 1_000_000));
        assert!((data.config.loss.mean_loss() - 0.03).abs() < 1e-12);
        assert_eq!(experiment.rtt(1), anabranch_units::Duration::from_millis(18));
    }
}
