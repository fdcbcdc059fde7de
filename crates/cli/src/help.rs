//! The help of the whole command, with its verbs in groups.

use std::ffi::OsString;

use clap::{CommandFactory, ValueEnum};

use crate::Cli;
use crate::output::Color;
use crate::table::wrap_behind;
use crate::terminal::{self, HEADING, NAME, paint};

/// The verbs by their purpose, in the order of the help.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Simulate",
        &[
            "compare",
            "explore",
            "advise",
            "explain",
            "inspect",
            "run",
            "sweep",
            "report",
            "plot",
            "reproduce",
            "check",
            "list",
        ],
    ),
    ("Look inside DMPTCP", &["model", "select"]),
    ("Real packets", &["serve", "get", "bench", "proxy", "record", "tun", "doctor", "kernel"]),
    ("Emulate in real time", &["emulate", "validate"]),
    ("Set up", &["schema", "generate"]),
];

/// Returns the command for clap.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let groups = groups(&command, terminal::text_width());
    let options = paint(HEADING, "Options:");
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{groups}\n{options}\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

fn groups(command: &clap::Command, width: usize) -> String {
    let mut text = String::new();
    for (heading, verbs) in GROUPS {
        // Some verbs are missing on some systems.
        let found: Vec<&clap::Command> =
            verbs.iter().filter_map(|name| command.find_subcommand(name)).collect();
        if found.is_empty() {
            continue;
        }
        text.push_str(&format!("\n{}\n", paint(HEADING, &format!("{heading}:"))));
        for verb in found {
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            let name = format!("{:<8}", verb.get_name());
            text.push_str(&wrap_behind(&format!("  {}  ", paint(NAME, &name)), &about, width));
        }
    }
    text
}

/// Returns the value of `--color` among `words`, for the help and the errors of clap, which are printed
/// before the options are parsed.
pub(crate) fn color(words: &[OsString]) -> Color {
    let mut words = words.iter().filter_map(|word| word.to_str()).take_while(|word| *word != "--");
    let mut color = Color::Auto;
    while let Some(word) = words.next() {
        let value = match word.strip_prefix("--color") {
            Some("") => words.next(),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        };
        color = value.and_then(|value| Color::from_str(value, false).ok()).unwrap_or(color);
    }
    color
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_in_one_group() {
        let command = Cli::command();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        grouped.sort_unstable();
        let mut verbs: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        verbs.sort_unstable();
        assert_eq!(grouped, verbs);
        command.debug_assert();
    }

    #[test]
    fn the_choice_of_colour_is_found_before_the_options_are_read() {
        let of = |words: &[&str]| color(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(of(&["anabranch", "--color", "never", "compare"]), Color::Never);
        assert_eq!(of(&["anabranch", "compare", "--color=always"]), Color::Always);
        assert_eq!(of(&["anabranch", "emulate", "--", "--color=always"]), Color::Auto);
        assert_eq!(of(&["anabranch", "--color"]), Color::Auto);
    }

    #[test]
    fn groups_fit_the_terminal() {
        for width in [60, 80, 100] {
            let text = groups(&Cli::command(), width);
            assert!(text.lines().all(|line| terminal::columns(line) <= width), "{text}");
        }
    }
}
