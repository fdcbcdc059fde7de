//! `anabranch reproduce`

use std::path::PathBuf;

use anabranch_reproduce::session::{self, Judged, Reproducing, Row, SessionError, Watch};
use anabranch_show::verdicts;

use crate::args::Jobs;
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
    #[cfg(feature = "network")]
    #[command(flatten)]
    emulated: emulated::Emulated,
    /// Print the verdicts as JSON
    #[arg(long)]
    json: bool,
}

/// The claims that are judged, and how.
#[derive(Clone, clap::Args)]
pub(crate) struct Request {
    /// The paper: dmptcp, cp, stms or coupled; all of them unless given
    pub paper: Option<String>,
    /// Judge the paper in DIR (claims.toml, figures.toml and scenarios) instead of the built-in ones
    #[arg(long, value_name = "DIR", conflicts_with_all = ["paper", "list"])]
    pub from: Option<PathBuf>,
    /// Only claims on this figure, such as 14a
    #[arg(long, value_name = "ID")]
    pub figure: Option<String>,
    /// Only claims on this table
    #[arg(long, value_name = "ID", conflicts_with = "figure")]
    pub table: Option<String>,
    /// Only this claim, such as D18
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub claim: Vec<String>,
    /// Fewer runs of the claims that are most likely to change with the stack; exit code 1 if a verdict changes
    #[arg(long)]
    pub quick: bool,
    /// Every claim with all of its runs and variants
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// Every claim that is recorded as holding, plainly or as a variant, such as with another --seed; exit code 1 if
    /// a verdict changes
    #[arg(long, conflicts_with_all = ["quick", "full", "list", "from"])]
    pub holding: bool,
    /// Try no variants of claims that do not hold
    #[arg(long)]
    pub plain: bool,
    /// The directory of the journal, the results and the report; an interrupted reproduction continues there
    #[arg(long, short = 'o', value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Use measurements in DIR that another build of this program has made
    #[arg(long, requires = "out")]
    pub any_build: bool,
    /// Simulate nothing: show the verdicts in DIR, or those recorded with this version
    #[arg(long, conflicts_with_all = ["quick", "full", "seed"])]
    pub list: bool,
    /// The seed of all scenarios
    #[arg(long, value_name = "N", value_parser = crate::args::whole::<u64>(0..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// The number of threads
    #[command(flatten)]
    pub jobs: Jobs,
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
    let Args { request, json, .. } = args;
    #[cfg(feature = "network")]
    if args.emulated.emulated {
        return emulated::run(request, &args.emulated, *json);
    }
    let progress = Progress::of("measurements");
    let watch = Watch {
        cancelled: interrupt::watch(),
        progress: &|now| progress.update_part(now.done, now.total, now.part()),
        remark: &|words| output::remark(words),
    };
    let judged = Reproducing::open(request.into(), provenance::commit(), watch.remark)
        .and_then(|opened| opened.finish(&watch));
    progress.finish();
    let Judged { papers, findings, changed } = judged?;
    match json {
        true => output::print_json(&findings.iter().map(Row::from).collect::<Vec<_>>())?,
        false => output::print(&verdicts::text(&papers, &findings, request.paper.is_some() || request.list))?,
    }
    changed.map_or(Ok(()), |changes| Err(Failure::Failed(changes)))
}

impl From<&Request> for session::Request {
    fn from(request: &Request) -> session::Request {
        let Request {
            paper,
            from,
            figure,
            table,
            claim,
            quick,
            full,
            holding,
            plain,
            out,
            any_build,
            list,
            seed,
            jobs,
        } = request.clone();
        session::Request {
            paper,
            from,
            figure,
            table,
            claim,
            quick,
            full,
            holding,
            plain,
            out,
            any_build,
            list,
            seed,
            jobs: jobs.jobs,
        }
    }
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
