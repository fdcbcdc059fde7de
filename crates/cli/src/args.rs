//! Options that several verbs share.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anabranch_lab::capture::{Captures, Settings, Viewpoint};
use anabranch_lab::scenario::{Document, Scenario, library};

use crate::failure::Failure;
use crate::{files, output};

/// The experiment of a verb that simulates one, and the threads for it.
#[derive(clap::Args)]
pub(crate) struct Experiment {
    /// A scenario file, or a name of `anabranch list scenarios`
    scenario: Option<String>,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    pub jobs: Jobs,
}

impl Experiment {
    /// Returns the scenario with its overrides.
    pub(crate) fn scenario(&self) -> Result<Scenario, Failure> {
        self.changes.scenario(self.scenario.as_deref())
    }

    /// Returns the scenario with its overrides, and `value` of an option that only this verb has.
    pub(crate) fn scenario_with(
        &self,
        option: &'static str,
        key: &'static str,
        value: Option<&String>,
    ) -> Result<Scenario, Failure> {
        let Some(value) = value else { return self.scenario() };
        self.changes.common.contradiction([(option, key, true)].into_iter())?;
        let mut document = self.document()?;
        document.set_option(option, key, value);
        read(&document)
    }

    /// Returns the same scenario before it is read.
    pub(crate) fn document(&self) -> Result<Document, Failure> {
        self.changes.document(self.scenario.as_deref())
    }

    /// Returns the same with these values of `--path`, which cannot be given too.
    #[cfg(all(target_os = "linux", feature = "network"))]
    pub(crate) fn document_with(&self, paths: &[String]) -> Result<Document, Failure> {
        self.changes.document_with(self.scenario.as_deref(), paths)
    }

    /// Returns the given options that choose contenders and the one with which others are compared.
    pub(crate) fn contenders(&self) -> impl Iterator<Item = &'static str> {
        let schedulers = (!self.changes.schedulers.is_empty()).then_some("--schedulers");
        schedulers.into_iter().chain(self.reference())
    }

    /// Returns the option that chooses the contender with which others are compared, if it is given.
    pub(crate) fn reference(&self) -> Option<&'static str> {
        self.changes.reference.is_some().then_some("--reference")
    }
}

/// The form and the destination of a result.
#[derive(clap::Args)]
pub(crate) struct Show {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub to: output::Destination,
}

/// Overrides of a scenario.
#[derive(clap::Args)]
pub(crate) struct Changes {
    /// Paths that replace the scenario's.
    #[arg(
        long = "path",
        value_name = "PATH",
        help = "A path: RATE,RTT[,loss=P][,loss-up=P][,queue=Q], trace=DOWN[:UP],RTT[,trace-start=random] \
                or a preset such as lte, and [,...]; replaces the scenario's paths (without a scenario: profile linux, one web-like flow \
                in each run)"
    )]
    paths: Vec<String>,
    /// The size of each flow: a size such as 57KB, `web` or `bulk`
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// The number of flows in each run
    #[arg(long, value_name = "N")]
    flows: Option<String>,
    /// The contenders: schedulers, `tcp` (on the best path by measurement) and `tcp@N` (on path N)
    #[arg(long, alias = "scheduler", value_name = "A,B,...", value_delimiter = ',')]
    schedulers: Vec<String>,
    /// The congestion control (see `anabranch list congestion`)
    #[arg(long = "cc", value_name = "NAME")]
    congestion: Option<String>,
    /// The sender and receiver: linux or ns3
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// The number of runs of each contender under each condition; `compare` finds one without it
    #[arg(long, value_name = "N")]
    runs: Option<String>,
    /// The contender with which the others are compared
    #[arg(long, value_name = "NAME")]
    reference: Option<String>,
    /// The difference below which two values are practically equal; the default is 1%
    #[arg(long, value_name = "PERCENT")]
    min_effect: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Overrides that every verb with a scenario has.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// Sets a value of the scenario, such as traffic.direction=download, path.loss=1%,
    /// path.wifi.rtt=5ms, or a knob of the connection, such as rto.min=300ms
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The path of the initial subflow: a number, a name, `best`, which has the least estimated time, or `race`
    #[arg(long, value_name = "PATH")]
    initial: Option<String>,
    /// The seed: the same seed gives the same result
    #[arg(long, value_name = "N")]
    seed: Option<String>,
}

impl Common {
    /// Fails if `--set` sets a key that one of these options, or of its own, sets too.
    fn contradiction(
        &self,
        options: impl Iterator<Item = (&'static str, &'static str, bool)>,
    ) -> Result<(), Failure> {
        let own = [("--initial", "initial", self.initial.is_some()), ("--seed", "seed", self.seed.is_some())];
        contradiction(&self.set, options.chain(own))
    }

    /// Applies the overrides.
    pub(crate) fn apply(&self, document: &mut Document) -> Result<(), Failure> {
        self.contradiction(core::iter::empty())?;
        if let Some(initial) = &self.initial {
            document.set_option("--initial", "initial", initial);
        }
        if let Some(seed) = &self.seed {
            document.set_option("--seed", "seed", seed);
        }
        for assignment in &self.set {
            document.set(assignment)?;
        }
        Ok(())
    }
}

/// Fails if an assignment of `--set` sets the key of one of `options` that is given.
pub(crate) fn contradiction(
    set: &[String],
    options: impl Iterator<Item = (&'static str, &'static str, bool)>,
) -> Result<(), Failure> {
    for (option, key, given) in options {
        let sets = |assignment: &&String| {
            let set = assignment.split('=').next().unwrap_or_default().trim();
            set.replace('_', "-") == key
        };
        if let Some(assignment) = set.iter().find(sets).filter(|_| given) {
            return Err(Failure::Usage(format!(
                "{option} and `--set {assignment}` set the same value; give one of them"
            )));
        }
    }
    Ok(())
}

impl Changes {
    /// Returns the scenario `name` with these overrides. The default is the built-in one, or with paths an
    /// empty one.
    pub(crate) fn scenario(&self, name: Option<&str>) -> Result<Scenario, Failure> {
        read(&self.document(name)?)
    }

    /// Returns the same scenario before it is read.
    pub(crate) fn document(&self, name: Option<&str>) -> Result<Document, Failure> {
        self.document_with(name, &self.paths)
    }

    fn document_with(&self, name: Option<&str>, paths: &[String]) -> Result<Document, Failure> {
        let mut document = match name {
            Some(name) => Document::open(name)?,
            None if paths.is_empty() => Document::open(library::DEFAULT)?,
            None => Document::bare(),
        };
        document.set_paths(paths)?;
        if let Some(size) = &self.size {
            document.set_size("--size", size);
        }
        if let Some(flows) = &self.flows {
            document.set_flows("--flows", flows);
        }
        if !self.schedulers.is_empty() {
            document.set_schedulers("--schedulers", &self.schedulers);
        }
        let options = [
            ("--cc", "congestion", &self.congestion),
            ("--profile", "profile", &self.profile),
            ("--runs", "runs", &self.runs),
            ("--reference", "reference", &self.reference),
            ("--min-effect", "min-effect", &self.min_effect),
        ];
        let given = [
            ("--size", "traffic.size", self.size.is_some()),
            ("--flows", "traffic.flows", self.flows.is_some()),
            ("--schedulers", "schedulers", !self.schedulers.is_empty()),
        ];
        let given =
            given.into_iter().chain(options.map(|(option, key, value)| (option, key, value.is_some())));
        self.common.contradiction(given)?;
        for (option, key, value) in options {
            if let Some(value) = value {
                document.set_option(option, key, value);
            }
        }
        self.common.apply(&mut document)?;
        Ok(document)
    }
}

/// Returns the scenario of `document`; prints warnings about values that are probably not intended.
pub(crate) fn read(document: &Document) -> Result<Scenario, Failure> {
    let scenario = document.scenario()?;
    files::protect_scenario(&scenario)?;
    scenario.warnings().iter().for_each(output::warn);
    Ok(scenario)
}

/// The options for captures of simulated packets.
#[derive(clap::Args)]
pub(crate) struct Capture {
    /// Writes the packets of run 0 (or `--run`) to FILE for Wireshark (pcapng); with several schedulers
    /// or conditions to a file for each, such as FILE with `.min_rtt` before its extension
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// The host to capture packets at
    #[arg(long, value_name = "HOST", default_value = "sender", requires = "pcap")]
    pcap_at: Host,
    /// Keep at most this many bytes of each packet, counted from the IP header
    #[arg(long, value_name = "BYTES", requires = "pcap", value_parser = whole::<u32>(1..=u32::MAX.into()))]
    pcap_snaplen: Option<u32>,
}

/// One end of the flows.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Host {
    /// The sender of the data
    Sender,
    /// The receiver
    Receiver,
}

impl Capture {
    /// Creates the capture files of `scenario`, if requested.
    pub(crate) fn open(&self, scenario: &Scenario) -> Result<Option<Captures>, Failure> {
        let Some((path, settings)) = self.settings() else { return Ok(None) };
        Ok(Some(Captures::create(path, scenario, settings)?))
    }

    /// Returns the name of the file and the settings, if requested.
    pub(crate) fn settings(&self) -> Option<(&Path, Settings)> {
        let path = self.pcap.as_deref()?;
        let viewpoint = match self.pcap_at {
            Host::Sender => Viewpoint::Sender,
            Host::Receiver => Viewpoint::Receiver,
        };
        Some((path, Settings { viewpoint, snap_len: self.pcap_snaplen }))
    }
}

/// Renames complete captures, and prints their names.
pub(crate) fn finish_captures(captures: Option<Captures>) -> Result<(), Failure> {
    for path in captures.map(Captures::commit).transpose()?.unwrap_or_default() {
        output::remark(format_args!("captured {}", path.display()));
    }
    Ok(())
}

/// The number of threads.
#[derive(Clone, clap::Args)]
pub(crate) struct Jobs {
    /// The number of threads; 0 is one for each core. The result does not depend on it
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<usize>(0..=1_000_000))]
    pub jobs: usize,
}

/// Parses a duration as an option's value; `0` needs no unit.
pub(crate) fn parse_span(text: &str) -> Result<std::time::Duration, String> {
    if text == "0" {
        return Ok(std::time::Duration::ZERO);
    }
    let span = anabranch_lab::scenario::units::parse_span(text).map_err(|error| error.to_string())?;
    Ok(std::time::Duration::from_nanos(span.0))
}

/// Parses a size in bytes as an option's value.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    anabranch_lab::scenario::units::parse_size(text).map(|size| size.0).map_err(|error| error.to_string())
}

/// True if `text` is a number of more than 32 bits. Its error names the upper bound too.
fn is_large(text: &str) -> bool {
    text.strip_prefix('+').unwrap_or(text).parse::<u64>().map_or_else(
        |error| *error.kind() == std::num::IntErrorKind::PosOverflow,
        |number| number > u64::from(u32::MAX),
    )
}

/// Returns a parser of whole numbers in `range`, for an option's value.
pub(crate) fn whole<T>(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync
where
    T: TryFrom<u64> + Clone + Send + Sync + 'static,
{
    move |text| {
        let (low, high) = (range.start(), range.end());
        let help = match *high {
            high if high >= u64::from(u32::MAX) && !is_large(text) => {
                format!("give a whole number, at least {low}")
            }
            high => format!("give a whole number from {low} to {high}"),
        };
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("`{text}` is not a whole number; {help}"));
        }
        let number = text.parse::<u64>().ok().filter(|number| range.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("{text} is out of range; {help}"))
    }
}

/// Joins an option with a negative number after it (`--runs -3` becomes `--runs=-3`), because clap would
/// interpret the number as an option. The parser of the value then reports the permitted range.
pub(crate) fn join_negative_numbers(
    command: &clap::Command,
    words: impl Iterator<Item = OsString>,
) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    let mut rest = false;
    for word in words {
        let negative = word.to_str().is_some_and(|word| {
            let mut chars = word.chars();
            chars.next() == Some('-') && chars.next().is_some_and(|c| c.is_ascii_digit() || c == '.')
        });
        match joined.last_mut() {
            Some(option) if negative && !rest && option.to_str().is_some_and(|o| takes_value(command, o)) => {
                option.push("=");
                option.push(word);
            }
            _ => {
                rest |= word == "--";
                joined.push(word);
            }
        }
    }
    joined
}

/// True if `option`, such as `--runs` or `-n`, takes a value in `command` or in one of its verbs.
fn takes_value(command: &clap::Command, option: &str) -> bool {
    let own = command.get_arguments().filter(|argument| argument.get_action().takes_values());
    let named = |argument: &clap::Arg| match option.strip_prefix("--") {
        Some(long) => argument.get_long() == Some(long),
        None => argument.get_short().is_some_and(|short| option == format!("-{short}")),
    };
    own.into_iter().any(named) || command.get_subcommands().any(|verb| takes_value(verb, option))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_number_belongs_to_the_option_before_it() {
        let join = |words: &[&str]| {
            let words = words.iter().map(OsString::from);
            let joined = join_negative_numbers(&crate::help::command(), words);
            joined.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(join(&["compare", "--runs", "-3"]), ["compare", "--runs=-3"]);
        assert_eq!(join(&["compare", "--path", "-5Mbit/s,1ms"]), ["compare", "--path=-5Mbit/s,1ms"]);
        assert_eq!(join(&["bench", "-n", "-5KB"]), ["bench", "-n=-5KB"]);
        // Flags without a value, and arguments for another program.
        for words in [&["setup", "--user-namespace", "-4"][..], &["--", "--runs", "-3"], &["--json", "-3"]] {
            assert_eq!(join(words), words);
        }
    }

    #[test]
    fn a_number_above_a_large_bound_names_it() {
        let parse = whole::<u32>(1..=u32::MAX.into());
        for (text, words) in [
            ("0", "give a whole number, at least 1"),
            ("4294967296", "4294967296 is out of range; give a whole number from 1 to 4294967295"),
            ("99999999999999999999999", "is out of range; give a whole number from 1 to 4294967295"),
        ] {
            assert!(parse(text).unwrap_err().ends_with(words), "{text}");
        }
    }

    #[test]
    fn whole_numbers_are_in_their_range() {
        let parse = whole::<u16>(1..=65_535);
        assert_eq!(parse("80"), Ok(80));
        for (text, words) in [
            ("0", "0 is out of range; give a whole number from 1 to 65535"),
            ("-1", "-1 is out of range"),
            ("99999999999999999999999", "is out of range"),
            ("nan", "`nan` is not a whole number"),
            ("", "`` is not a whole number"),
            ("1.5", "`1.5` is not a whole number"),
        ] {
            assert!(parse(text).unwrap_err().contains(words), "{text}");
        }
    }
}
