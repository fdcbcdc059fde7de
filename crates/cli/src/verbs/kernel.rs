//! `anabranch kernel`

mod cc;
mod record;
mod run;
mod steer;
mod top;

use std::process::ExitCode;

use anabranch_kernel::KernelError;

use crate::failure::Failure;
use crate::output;

/// Changes how the kernel's own Multipath TCP works
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Top(top::Args),
    Steer(steer::Args),
    Run(run::Args),
    Record(record::Args),
    Cc(cc::Args),
}

impl Args {
    /// Returns the destination of the result, for verbs that have one.
    pub(crate) fn destination(&self) -> Option<&output::Destination> {
        match &self.verb {
            Verb::Top(args) => Some(&args.show.to),
            Verb::Steer(args) => Some(&args.to),
            // The result is the program's own.
            Verb::Run(_) | Verb::Record(_) => None,
            Verb::Cc(args) => args.destination(),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    match &args.verb {
        Verb::Top(args) => top::run(args),
        Verb::Steer(args) => steer::run(args),
        Verb::Run(args) => return run::run(args),
        Verb::Record(args) => return record::run(args),
        Verb::Cc(args) => cc::run(args),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// Returns the exit code of a program that has ended with `code` or by `signal`.
pub(super) fn exit_code(code: Option<i32>, signal: Option<i32>) -> ExitCode {
    let code = code.or_else(|| signal.map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Returns the failure for an error of the kernel's interfaces.
fn failed(error: KernelError) -> Failure {
    Failure::Failed(error.to_string())
}
