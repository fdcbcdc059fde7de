//! `anabranch explain`

use anabranch_lab::explain::{Explicable, Question, check_flow, explain};
use anabranch_lab::options::Options;

use crate::args::{Changes, Jobs, whole};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{interrupt, output, provenance};

/// Shows where the time of a flow went, and what would change it
#[derive(clap::Args)]
#[command(long_about = LONG)]
pub(crate) struct Args {
    /// A scenario file, or a name of `anabranch list scenarios`
    scenario: Option<String>,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    jobs: Jobs,
    /// Explain only flow N of each run, from 1
    #[arg(long, value_name = "N", value_parser = whole::<usize>(1..=1_000_000))]
    flow: Option<usize>,
    /// Show the time of a byte from its offer to its in-order delivery, instead of the time of a flow
    #[arg(long)]
    bytes: bool,
    /// Do not run changes that remove the largest cause
    #[arg(long)]
    no_changes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub to: crate::output::Destination,
}

const LONG: &str = "\
Shows where the time of a flow went, and what would change it.

Every nanosecond between the start of a flow and the in-order delivery of its last byte has one
cause: establishing the connection, the application, the send buffer, the receive window, the
congestion window, pacing, the scheduler, queueing, transmission by a link (serialisation),
propagation, a retransmission, an earlier byte that is missing (head-of-line), or the outage of a
path. The parts follow the chain of waits that ends with the last byte, and add up exactly. Times are
means over the flows of all runs, which are those of `compare`.

The largest cause is then removed: the same runs are simulated with a larger buffer, without loss,
with another scheduler, ... The last sentences give the effect with its 95 % interval, by a paired
bootstrap over runs.";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let cancelled = interrupt::watch();
    let scenario = args.changes.scenario(args.scenario.as_deref())?;
    let explicable = Explicable::new(&scenario)?;
    check_flow(args.flow, &scenario).map_err(Failure::Usage)?;
    let progress = Progress::new();
    let update = |done, total| progress.update(done, total);
    let question = Question { flow: args.flow, changes: !args.no_changes };
    let result = explain(explicable, question, &Options::new(args.jobs.jobs, cancelled, &update));
    progress.finish();
    let mut explanation = result?;
    explanation.head.set_origin(provenance::origin());
    match args.json {
        true => output::print_json(&explanation),
        false => output::print(&anabranch_show::explain::text(&scenario, &explanation, args.bytes)),
    }?;
    match explanation.explains_something() {
        true => Ok(()),
        false => Err(Failure::Failed("nothing was delivered, so there is nothing to explain".to_owned())),
    }
}
