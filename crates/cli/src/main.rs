//! The `anabranch` command: which multipath scheduler serves your paths and your traffic best.
//!
//! Exit codes: 0 for success, 1 for a failure, 2 for a mistake in the options or the scenario, 130
//! after Ctrl-C; `emulate` has those of the program it runs.

mod args;
mod failure;
mod interrupt;
#[cfg(all(target_os = "linux", feature = "network"))]
mod online;
mod output;
mod progress;
mod table;
mod verbs;

use std::process::ExitCode;

use clap::Parser;

/// Multipath TCP, simulated: which scheduler serves your paths and your traffic best?
#[derive(Parser)]
#[command(
    name = "anabranch",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Try `anabranch compare` for the DMPTCP paper's eight paths, or\n    \
                  anabranch compare --path 50Mbit/s,20ms --path 10Mbit/s,60ms,loss=0.1% --size 300KB"
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Compare(verbs::compare::Args),
    Run(verbs::run::Args),
    Model(verbs::model::Args),
    Select(verbs::select::Args),
    List(verbs::list::Args),
    Check(verbs::check::Args),
    Serve(verbs::serve::Args),
    #[cfg(all(target_os = "linux", feature = "network"))]
    Tun(verbs::tun::Args),
    #[cfg(all(target_os = "linux", feature = "network"))]
    Doctor(verbs::doctor::Args),
    #[cfg(all(target_os = "linux", feature = "network"))]
    Emulate(verbs::emulate::Args),
    #[cfg(all(target_os = "linux", feature = "network"))]
    Validate(verbs::validate::Args),
    Get(verbs::get::Args),
    Bench(verbs::bench::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().verb {
        Verb::Compare(args) => verbs::compare::run(&args),
        Verb::Run(args) => verbs::run::run(&args),
        Verb::Model(args) => verbs::model::run(&args),
        Verb::Select(args) => verbs::select::run(&args),
        Verb::List(args) => verbs::list::run(&args),
        Verb::Check(args) => verbs::check::run(&args),
        Verb::Serve(args) => verbs::serve::run(&args),
        #[cfg(all(target_os = "linux", feature = "network"))]
        Verb::Tun(args) => verbs::tun::run(&args),
        #[cfg(all(target_os = "linux", feature = "network"))]
        Verb::Doctor(args) => verbs::doctor::run(&args),
        #[cfg(all(target_os = "linux", feature = "network"))]
        Verb::Emulate(args) => {
            return verbs::emulate::run(&args).unwrap_or_else(|failure| failure.report());
        }
        #[cfg(all(target_os = "linux", feature = "network"))]
        Verb::Validate(args) => {
            return verbs::validate::run(&args).unwrap_or_else(|failure| failure.report());
        }
        Verb::Get(args) => verbs::get::run(&args),
        Verb::Bench(args) => verbs::bench::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
