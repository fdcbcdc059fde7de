//! The files that the options of a verb name: which are read, and which are written.

use std::any::TypeId;
use std::path::{Path, PathBuf};

use anabranch_lab::guard::{self, Identity};
use anabranch_lab::scenario::{Scenario, library, plan};
use clap::ArgMatches;

use crate::failure::Failure;

/// The use of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// An input: no output may be this file, or a file in this directory.
    Read,
    /// A file that is written, which may exist.
    Written,
    /// A directory in which only files of known names are written.
    Directory,
}

/// The options and arguments that name files: the verb, the name for clap, and the role. A test compares the list with
/// clap's own.
pub const FILES: &[(&str, &str, Role)] = &[
    ("advise", "from_kernel", Role::Read),
    ("advise", "from_proxy", Role::Read),
    ("advise", "output", Role::Written),
    ("advise", "scenario", Role::Read),
    ("bench", "output", Role::Written),
    ("bench", "pcap", Role::Written),
    ("check", "output", Role::Written),
    ("check", "scenario", Role::Read),
    ("compare", "output", Role::Written),
    ("compare", "pcap", Role::Written),
    ("compare", "samples", Role::Written),
    ("compare", "scenario", Role::Read),
    ("doctor", "output", Role::Written),
    ("doctor", "state_dir", Role::Directory),
    ("emulate", "output", Role::Written),
    ("emulate", "report", Role::Written),
    ("emulate", "scenario", Role::Read),
    ("explain", "output", Role::Written),
    ("explain", "scenario", Role::Read),
    ("explore", "output", Role::Written),
    ("generate man", "directory", Role::Directory),
    ("get", "output", Role::Written),
    ("get", "pcap", Role::Written),
    ("inspect", "anonymise", Role::Written),
    ("inspect", "captures", Role::Read),
    ("inspect", "output", Role::Written),
    ("inspect", "record", Role::Directory),
    ("inspect", "scenario", Role::Written),
    ("kernel cc list", "output", Role::Written),
    ("kernel cc load", "state_dir", Role::Directory),
    ("kernel cc stats", "output", Role::Written),
    ("kernel cc unload", "state_dir", Role::Directory),
    ("kernel record", "directory", Role::Directory),
    ("kernel run", "state_directory", Role::Directory),
    ("kernel steer", "output", Role::Written),
    ("kernel steer", "policy", Role::Read),
    ("kernel steer", "run_directory", Role::Directory),
    ("kernel steer", "state_directory", Role::Directory),
    ("kernel top", "output", Role::Written),
    ("kernel top", "run_directory", Role::Directory),
    ("list", "output", Role::Written),
    ("model", "output", Role::Written),
    ("plot", "curves", Role::Read),
    ("plot", "inputs", Role::Read),
    ("plot", "output", Role::Written),
    ("proxy", "certificate", Role::Read),
    ("proxy", "key", Role::Read),
    ("proxy", "memory", Role::Written),
    ("proxy", "pcap", Role::Written),
    ("proxy", "policy", Role::Read),
    ("proxy", "private_key", Role::Read),
    ("proxy", "status", Role::Written),
    ("proxy", "top", Role::Read),
    ("record", "keep", Role::Written),
    ("record", "output", Role::Written),
    ("record", "record", Role::Directory),
    ("record", "scenario", Role::Written),
    ("report", "inputs", Role::Read),
    ("report", "output", Role::Written),
    ("reproduce", "from", Role::Directory),
    ("reproduce", "out", Role::Directory),
    ("run", "output", Role::Written),
    ("run", "pcap", Role::Written),
    ("run", "record", Role::Directory),
    ("run", "samples", Role::Written),
    ("run", "scenario", Role::Read),
    ("schema", "output", Role::Written),
    ("select", "output", Role::Written),
    ("serve", "directory", Role::Read),
    ("serve", "pcap", Role::Written),
    ("sweep", "merge", Role::Directory),
    ("sweep", "output", Role::Directory),
    ("sweep", "plan", Role::Read),
    ("tun follow", "state_dir", Role::Directory),
    ("tun setup", "state_dir", Role::Directory),
    ("tun share", "socket", Role::Written),
    ("tun share", "state_dir", Role::Directory),
    ("tun show", "output", Role::Written),
    ("tun show", "state_dir", Role::Directory),
    ("tun teardown", "state_dir", Role::Directory),
    ("validate", "csv", Role::Written),
    ("validate", "output", Role::Written),
    ("validate", "pcap", Role::Written),
    ("validate", "results", Role::Written),
    ("validate", "scenarios", Role::Read),
];

/// The names of arguments of scenarios and plans, which are texts because they may also be built-in ones.
const NAMED: &[&str] = &["scenario", "scenarios", "plan"];

/// Returns the verb of `matches`, such as `generate man`, and its own matches.
fn verb(mut matches: &ArgMatches) -> (String, &ArgMatches) {
    let mut verb = String::new();
    while let Some((name, inner)) = matches.subcommand() {
        verb = if verb.is_empty() { name.to_owned() } else { format!("{verb} {name}") };
        matches = inner;
    }
    (verb, matches)
}

/// The named files of one role.
fn named(verb: &str, matches: &ArgMatches, role: Role) -> Vec<(&'static str, PathBuf)> {
    let of_verb = FILES.iter().filter(|file| file.0 == verb && file.2 == role);
    let values = of_verb.flat_map(|(_, id, _)| {
        let paths = matches.try_get_many::<PathBuf>(id).ok().flatten().into_iter().flatten().cloned();
        let texts = matches.try_get_many::<String>(id).ok().flatten().into_iter().flatten();
        let texts = texts.filter(|name| library::find(name).is_none()).map(PathBuf::from);
        paths.chain(texts).map(|path| (*id, path)).collect::<Vec<_>>()
    });
    // Standard output.
    values.filter(|(_, path)| path != Path::new("-")).collect()
}

/// Declares the files of a command before it begins.
///
/// # Errors
/// If two options write one file, one writes an input, or a directory is a file.
pub(crate) fn begin(matches: &ArgMatches) -> Result<(), Failure> {
    let (verb, matches) = verb(matches);
    let directories = named(&verb, matches, Role::Directory);
    if let Some((_, path)) = directories.iter().find(|(_, path)| path.is_file()) {
        return Err(Failure::Usage(format!("{} is a file; give a directory", path.display())));
    }
    let outputs = named(&verb, matches, Role::Written);
    for (at, (id, path)) in outputs.iter().enumerate() {
        let own = Identity::of(path);
        let other = outputs[..at].iter().find(|(_, other)| own.is_some() && Identity::of(other) == own);
        if let Some((other, _)) = other {
            return Err(Failure::Usage(format!("--{other} and --{id} name the same file")));
        }
    }
    // No result is TOML. A scenario may have any name.
    let is_toml = |path: &&PathBuf| {
        let has_name = path.extension().is_some_and(|extension| extension == "toml");
        path.is_file() && (has_name || plan::is_scenario_or_plan(path))
    };
    if let Some(path) = outputs.iter().map(|(_, path)| path).find(is_toml) {
        let reads =
            named(&verb, matches, Role::Read).iter().any(|read| Identity::of(&read.1) == Identity::of(path));
        let why = if reads {
            "is an input of this command"
        } else {
            "is a file of TOML, and no option writes over one"
        };
        return Err(Failure::Usage(format!("{} {why}; choose another file for the result", path.display())));
    }
    guard::begin(&outputs.iter().map(|(_, path)| path.as_path()).collect::<Vec<_>>());
    named(&verb, matches, Role::Read).iter().try_for_each(|(_, path)| protect(path))
}

/// Declares `path` as an input of the command.
///
/// # Errors
/// If it is an output.
pub(crate) fn protect(path: &Path) -> Result<(), Failure> {
    guard::protect(path).map_err(|error| Failure::Usage(error.to_string()))
}

/// Declares the files of `scenario` as inputs of the command: its own, and those that it names.
///
/// # Errors
/// If one is an output.
pub(crate) fn protect_scenario(scenario: &Scenario) -> Result<(), Failure> {
    scenario.files.iter().try_for_each(|path| protect(path))
}

/// Returns the options of `command` and its verbs that take the name of a file, as `(verb, name for clap)`.
#[doc(hidden)]
pub fn of_clap(command: &clap::Command) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for verb in command.get_subcommands() {
        let own = verb.get_arguments().filter(|argument| {
            argument.get_value_parser().type_id() == TypeId::of::<PathBuf>()
                || NAMED.contains(&argument.get_id().as_str())
        });
        let own = own.map(|argument| (verb.get_name().to_owned(), argument.get_id().to_string()));
        found.extend(own);
        let inner = of_clap(verb).into_iter();
        found.extend(inner.map(|(name, id)| (format!("{} {name}", verb.get_name()), id)));
    }
    found
}

#[cfg(all(test, target_os = "linux", feature = "network"))]
mod tests {
    use super::*;

    #[test]
    fn every_option_that_names_a_file_has_a_role() {
        let mut found = of_clap(&crate::help::command());
        found.sort();
        let known: Vec<(String, String)> =
            FILES.iter().map(|(verb, id, _)| ((*verb).to_owned(), (*id).to_owned())).collect();
        assert_eq!(found, known, "give a new option a line of FILES");
    }
}
