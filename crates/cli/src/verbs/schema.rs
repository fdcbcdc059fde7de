//! `anabranch schema`

use anabranch_lab::scenario::schema;

use crate::failure::Failure;
use crate::output;

/// Prints the JSON Schema of scenarios or sweep plans, for editors
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The kind of file
    #[arg(value_enum, default_value_t)]
    of: Of,
    #[command(flatten)]
    pub(crate) to: output::Destination,
}

#[derive(Clone, Copy, Default, clap::ValueEnum)]
enum Of {
    /// A scenario
    #[default]
    Scenario,
    /// A sweep plan
    Plan,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    output::print_json(&match args.of {
        Of::Scenario => schema::scenario(),
        Of::Plan => schema::plan(),
    })
}
