//! `anabranch kernel`

mod cc;

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
    Cc(cc::Args),
}

impl Args {
    /// Returns the destination of the result, for verbs that have one.
    pub(crate) fn destination(&self) -> Option<&output::Destination> {
        match &self.verb {
            Verb::Cc(args) => args.destination(),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.verb {
        Verb::Cc(args) => cc::run(args),
    }
}
