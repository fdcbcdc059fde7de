//! The `anabranch` command: which multipath scheduler serves your paths and your traffic best.
//!
//! Exit codes: 0 for success, 1 for a failure, 2 for a mistake in the options or the scenario, 130
//! after Ctrl-C; `emulate` has those of the program it runs.

mod args;
mod failure;
mod fairness;
mod interrupt;
#[cfg(target_os = "linux")]
mod online;
mod output;
mod progress;
mod provenance;
mod samples;
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
    #[cfg(target_os = "linux")]
    Tun(verbs::tun::Args),
    #[cfg(target_os = "linux")]
    Doctor(verbs::doctor::Args),
    #[cfg(target_os = "linux")]
    Emulate(verbs::emulate::Args),
    #[cfg(target_os = "linux")]
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
        #[cfg(target_os = "linux")]
        Verb::Tun(args) => verbs::tun::run(&args),
        #[cfg(target_os = "linux")]
        Verb::Doctor(args) => verbs::doctor::run(&args),
        #[cfg(target_os = "linux")]
        Verb::Emulate(args) => {
            return verbs::emulate::run(&args).unwrap_or_else(|failure| failure.report());
        }
        #[cfg(target_os = "linux")]
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
