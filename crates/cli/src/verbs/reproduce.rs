//! `anabranch reproduce`

use anabranch_reproduce::session::{Judged, Reproducing, Request, Row, SessionError, Watch};
use anabranch_show::verdicts;

use crate::args::{Jobs, whole};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{interrupt, output, provenance};

#[cfg(feature = "network")]
mod emulated;

/// Judges the claims of published papers by simulation
#[derive(clap::Args)]
#[command(long_about = LONG)]
pub(crate) struct Args {
    #[command(flatten)]
    request: Request,
    /// The seed of all scenarios
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0..=i64::MAX as u64))]
    seed: Option<u64>,
    /// The number of threads
    #[command(flatten)]
    jobs: Jobs,
    #[cfg(feature = "network")]
    #[command(flatten)]
    emulated: emulated::Emulated,
    /// Print the verdicts as JSON
    #[arg(long)]
    json: bool,
}

const LONG: &str = "\
Judges the claims of published papers by simulation.

Each figure and table of four papers has its claims: DMPTCP (dmptcp), CP scheduling (cp), STMS
(stms), and a survey of coupled congestion controls (coupled). A claim states beforehand which
runs are compared, in which measure, and which result counts. It holds if the 95 % interval of
the paired runs lies within that range, fails if it lies outside, and is undecided otherwise. A
claim that does not hold is tried again with its variants: what the paper leaves open, and
quirks of its tools.

Without a choice of claims, --quick or --full, the recorded verdicts are shown.

With --out the directory has journal.ndjson (every measurement), results.json (the verdicts with
all values) and report.html.";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let json = args.json;
    let request = Request { seed: args.seed, jobs: args.jobs.jobs, ..args.request.clone() };
    let names = request.paper.is_some() || request.list;
    #[cfg(feature = "network")]
    if args.emulated.emulated {
        return emulated::run(&request, &args.emulated, json);
    }
    let progress = Progress::of("measurements");
    let watch = Watch {
        cancelled: interrupt::watch(),
        progress: &|now| progress.update_part(now.done, now.total, now.part()),
        remark: &|words| output::remark(words),
    };
    let judged = Reproducing::open(request, provenance::commit(), watch.remark)
        .and_then(|opened| opened.finish(&watch));
    progress.finish();
    let Judged { papers, findings, changed } = judged?;
    match json {
        true => output::print_json(&findings.iter().map(Row::from).collect::<Vec<_>>())?,
        false => output::print(&verdicts::text(&papers, &findings, names))?,
    }
    changed.map_or(Ok(()), |changes| Err(Failure::Failed(changes)))
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Failure {
        match error {
            SessionError::Usage(text) => Failure::Usage(text),
            SessionError::Failed(text) => Failure::Failed(text),
            SessionError::Interrupted => Failure::Interrupted,
        }
    }
}
