//! The `anabranch` command: finds the best multipath scheduler for given paths and traffic.
//!
//! It is a library for the Python package, which has the same command and shows results as the same text.
//!
//! Exit codes: 0 for success, 1 for a failure, 2 for an error in the options or the scenario, 130 after
//! Ctrl-C; `emulate` returns the exit code of the program that it runs.

#![warn(unreachable_pub)]

mod args;
mod failure;
#[doc(hidden)]
pub mod files;
mod help;
mod interrupt;
#[cfg(all(target_os = "linux", feature = "network"))]
mod online;
mod output;
mod progress;
mod provenance;
mod record;
mod samples;
mod verbs;

use std::ffi::OsString;
use std::process::ExitCode;

pub(crate) use anabranch_show::{table, terminal, visible};
use clap::{FromArgMatches, Parser};

pub use crate::failure::Failure;

/// Multipath TCP, simulated: which scheduler serves your paths and your traffic best?
#[derive(Parser)]
#[command(
    name = "anabranch",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Try `anabranch compare` for a phone with Wi-Fi and LTE, or for your own paths\n    \
                  anabranch compare --path 50Mbit/s,20ms --path 10Mbit/s,60ms,loss=0.1% --size 300KB"
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    common: output::Common,
}

#[derive(clap::Subcommand)]
enum Verb {
    Compare(verbs::compare::Args),
    Advise(verbs::advise::Args),
    Explain(verbs::explain::Args),
    Explore(verbs::explore::Args),
    Inspect(verbs::inspect::Args),
    #[cfg(all(target_os = "linux", feature = "network"))]
    Record(verbs::record::Args),
    Run(verbs::run::Args),
    Sweep(verbs::sweep::Args),
    Report(verbs::report::Args),
    Plot(verbs::plot::Args),
    Reproduce(verbs::reproduce::Args),
    Check(verbs::check::Args),
    List(verbs::list::Args),
    Model(verbs::model::Args),
    Select(verbs::select::Args),
    Schema(verbs::schema::Args),
    Generate(verbs::generate::Args),
    Serve(verbs::serve::Args),
    Get(verbs::get::Args),
    Bench(verbs::bench::Args),
    #[cfg(all(target_os = "linux", feature = "network"))]
    Tun(verbs::tun::Args),
    #[cfg(all(target_os = "linux", feature = "network"))]
    Doctor(verbs::doctor::Args),
    #[cfg(all(target_os = "linux", feature = "network"))]
    Kernel(verbs::kernel::Args),
    #[cfg(all(target_os = "linux", feature = "network"))]
    Proxy(Box<verbs::proxy::Args>),
    #[cfg(all(target_os = "linux", feature = "network"))]
    Emulate(verbs::emulate::Args),
    #[cfg(all(target_os = "linux", feature = "network"))]
    Validate(verbs::validate::Args),
}

impl Verb {
    /// Returns the destination of the result, for verbs that have one.
    fn destination(&self) -> Option<&output::Destination> {
        match self {
            Verb::Compare(args) => Some(&args.show.to),
            Verb::Advise(args) => Some(&args.show.to),
            Verb::Explain(args) => Some(&args.to),
            Verb::Inspect(args) => Some(&args.reading.to),
            #[cfg(all(target_os = "linux", feature = "network"))]
            Verb::Record(args) => Some(&args.reading.to),
            Verb::Run(args) => Some(&args.show.to),
            Verb::Check(args) => Some(&args.show.to),
            Verb::List(args) => Some(&args.show.to),
            Verb::Model(args) => Some(&args.show.to),
            Verb::Select(args) => Some(&args.show.to),
            Verb::Bench(args) => Some(&args.to),
            Verb::Schema(args) => Some(&args.to),
            // Its result is the connections.
            #[cfg(all(target_os = "linux", feature = "network"))]
            Verb::Proxy(_) => None,
            // The result of `get` is the downloaded file.
            Verb::Serve(_) | Verb::Get(_) => None,
            // It has a directory for them.
            Verb::Sweep(_) | Verb::Generate(_) | Verb::Reproduce(_) => None,
            // It is always a file.
            Verb::Report(_) | Verb::Plot(_) | Verb::Explore(_) => None,
            #[cfg(all(target_os = "linux", feature = "network"))]
            Verb::Tun(args) => args.destination(),
            #[cfg(all(target_os = "linux", feature = "network"))]
            Verb::Doctor(args) => Some(&args.show.to),
            #[cfg(all(target_os = "linux", feature = "network"))]
            Verb::Kernel(args) => args.destination(),
            #[cfg(all(target_os = "linux", feature = "network"))]
            Verb::Emulate(args) => Some(&args.to),
            #[cfg(all(target_os = "linux", feature = "network"))]
            Verb::Validate(args) => Some(&args.show.to),
        }
    }

    fn run(&self) -> Result<ExitCode, Failure> {
        match self {
            Verb::Compare(args) => verbs::compare::run(args),
            Verb::Advise(args) => verbs::advise::run(args),
            Verb::Explain(args) => verbs::explain::run(args),
            Verb::Explore(args) => verbs::explore::run(args),
            Verb::Inspect(args) => verbs::inspect::run(args),
            #[cfg(all(target_os = "linux", feature = "network"))]
            Verb::Record(args) => return verbs::record::run(args),
            Verb::Run(args) => verbs::run::run(args),
            Verb::Sweep(args) => verbs::sweep::run(args),
            Verb::Report(args) => verbs::report::run(args),
            Verb::Plot(args) => verbs::plot::run(args),
            Verb::Reproduce(args) => verbs::reproduce::run(args),
            Verb::Check(args) => verbs::check::run(args),
            Verb::List(args) => verbs::list::run(args),
            Verb::Model(args) => verbs::model::run(args),
            Verb::Select(args) => verbs::select::run(args),
            Verb::Schema(args) => verbs::schema::run(args),
            Verb::Generate(args) => verbs::generate::run(args),
            Verb::Serve(args) => verbs::serve::run(args),
            Verb::Get(args) => verbs::get::run(args),
            Verb::Bench(args) => verbs::bench::run(args),
            #[cfg(all(target_os = "linux", feature = "network"))]
            Verb::Tun(args) => verbs::tun::run(args),
            #[cfg(all(target_os = "linux", feature = "network"))]
            Verb::Doctor(args) => verbs::doctor::run(args),
            #[cfg(all(target_os = "linux", feature = "network"))]
            Verb::Proxy(args) => verbs::proxy::run(args),
            #[cfg(all(target_os = "linux", feature = "network"))]
            Verb::Kernel(args) => return verbs::kernel::run(args),
            #[cfg(all(target_os = "linux", feature = "network"))]
            Verb::Emulate(args) => return verbs::emulate::run(args),
            #[cfg(all(target_os = "linux", feature = "network"))]
            Verb::Validate(args) => return verbs::validate::run(args),
        }
        .map(|()| ExitCode::SUCCESS)
    }
}

/// Returns the version, and the commit from which this was built if it is known.
pub fn build_name() -> String {
    match provenance::commit() {
        Some(commit) => format!("{} ({commit})", provenance::VERSION),
        None => provenance::VERSION.to_owned(),
    }
}

/// Prints help, or an error of clap, which quotes the words of the command line.
fn report_usage(error: &clap::Error) -> ExitCode {
    let text = error.render();
    if !error.use_stderr() {
        error.exit();
    }
    // Its colours are clap's own, so only the plain text can be checked.
    let plain = text.to_string();
    match visible::lines(&plain) {
        std::borrow::Cow::Borrowed(_) => error.exit(),
        std::borrow::Cow::Owned(text) => output::print_error(&text),
    }
    ExitCode::from(2)
}

/// Runs the command line `words`. The first word is the name of the program.
///
/// Help, and errors in the options, end the process.
pub fn main(words: Vec<OsString>) -> ExitCode {
    provenance::set_command(&words);
    let command = help::command();
    let words = args::join_negative_numbers(&command, words.into_iter());
    let command = command.color(help::color(&words).for_clap());
    let matches = command.try_get_matches_from(words);
    let parsed = matches.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return report_usage(&error),
    };
    cli.common.color.choose();
    if cli.common.quiet {
        output::be_quiet();
    }
    let begun = files::begin(&matches);
    let opened = begun.and_then(|()| cli.verb.destination().map_or(Ok(()), output::open));
    let code = opened.and_then(|()| cli.verb.run()).unwrap_or_else(Failure::report);
    output::abandon();
    code
}
