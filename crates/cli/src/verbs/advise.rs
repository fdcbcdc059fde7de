//! `anabranch advise`

#[cfg(all(target_os = "linux", feature = "network"))]
mod measured;

use anabranch_lab::advise::{Advice, AdviceError, Answer, Application, Options, advise};
use anabranch_lab::scenario::{Document, units};

use crate::args::{Experiment, Show};
use crate::failure::Failure;
use crate::{interrupt, output, provenance, visible};

/// Advises whether Multipath TCP pays, with what, and on which path to start
#[derive(clap::Args)]
#[command(long_about = LONG)]
pub(crate) struct Args {
    #[command(flatten)]
    experiment: Experiment,
    #[cfg(all(target_os = "linux", feature = "network"))]
    #[command(flatten)]
    measured: measured::Measured,
    /// One condition of a scenario that has several; without it there is advice for each, without margins
    #[arg(long, value_name = "NAME")]
    condition: Option<String>,
    /// The least advantage over TCP that you would call a gain
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = units::parse_probability)]
    min_gain: f64,
    /// The senders that your application can have; no other is advised
    #[arg(long, value_name = "KIND", default_value = "kernel")]
    application: Kind,
    /// Does not measure how far the paths may change, which takes most of the time
    #[arg(long)]
    no_margins: bool,
    #[command(flatten)]
    pub show: Show,
}

/// The senders that an application can have.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// Sockets of a stock Linux kernel: its scheduler, with CUBIC or BBR
    Kernel,
    /// A program on this stack, such as `anabranch serve`: every scheduler and congestion control
    Anabranch,
}

const LONG: &str = "\
Advises whether Multipath TCP pays for these paths and this traffic, with which scheduler and
congestion control, and on which path a connection should start.

Seven schedulers on each promising first path, and four congestion controls with the best of them,
are screened in 10 runs each. The best three and the kernel's own scheduler are then judged against
TCP on the best single path, with BBR if that is better, in other runs with other seeds. Each gets a
reason: where its time went, as `explain` finds it. Multipath TCP pays if the best candidate that the
application can have gains more than --min-effect, which is certain, and than --min-gain. Margins
show how far each rate, round-trip time, loss and the size may change, up to eight times, before the
answer for this candidate becomes another one: within 9 %, or from the last value at which it clearly
holds to the first one at which another one clearly does; where few runs cannot tell up to the end of
the range, it says so.

Without a scenario it advises for `phone`, as `compare` does: for each of its two conditions. With
--from-proxy or --from-kernel it advises for paths as the proxy or `kernel steer` has measured them.";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let cancelled = interrupt::watch();
    let document = document(args)?;
    crate::args::read(&document)?;
    for option in args.experiment.contenders() {
        output::warn(format_args!("{option} has no effect: advice has candidates of its own"));
    }
    let names: Vec<String> = match &args.condition {
        Some(name) => vec![name.clone()],
        None => document.scenario()?.conditions.into_iter().map(|condition| condition.name).collect(),
    };
    let several = names.len() > 1;
    let mut all = Vec::new();
    for name in names {
        let options = Options {
            jobs: args.experiment.jobs.jobs,
            cancelled,
            progress: &|step| match several {
                true => output::remark(visible::line(&format!("{name}: {step}"))),
                false => output::remark(visible::line(step)),
            },
            condition: (several || args.condition.is_some()).then_some(&name),
            margins: !args.no_margins && !several,
            min_gain: args.min_gain,
            application: match args.application {
                Kind::Kernel => Application::Kernel,
                Kind::Anabranch => Application::Anabranch,
            },
        };
        all.push(advised(&document, &options)?);
    }
    print(&all, args.show.json)
}

#[cfg(all(target_os = "linux", feature = "network"))]
fn document(args: &Args) -> Result<Document, Failure> {
    match args.measured.paths()? {
        Some(paths) => args.experiment.document_with(&paths),
        None => args.experiment.document(),
    }
}

#[cfg(not(all(target_os = "linux", feature = "network")))]
fn document(args: &Args) -> Result<Document, Failure> {
    args.experiment.document()
}

/// Prints the advice for each condition.
fn print(all: &[Advice], json: bool) -> Result<(), Failure> {
    match (json, all) {
        (true, [advice]) => output::print_json(advice),
        (true, several) => output::print_json(&several),
        (false, all) => {
            output::print(&all.iter().map(anabranch_show::advise::text).collect::<Vec<String>>().join("\n"))
        }
    }?;
    match all.iter().any(|advice| advice.answer == Answer::Incomplete) {
        true => Err(Failure::Failed("flows did not finish, so there is no advice".to_owned())),
        false => Ok(()),
    }
}

/// Prints advice for the only condition of `document`, with the defaults of `anabranch advise`.
pub(super) fn on(document: &Document, jobs: usize, json: bool) -> Result<(), Failure> {
    let options = Options {
        jobs,
        cancelled: interrupt::watch(),
        progress: &|step| output::remark(visible::line(step)),
        condition: None,
        margins: true,
        min_gain: anabranch_lab::advise::MIN_GAIN,
        application: Application::Kernel,
    };
    print(&[advised(document, &options)?], json)
}

fn advised(document: &Document, options: &Options<'_>) -> Result<Advice, Failure> {
    let mut advice = advise(document, options).map_err(|error| match error {
        AdviceError::Scenario(error) => Failure::Usage(error.to_string()),
        AdviceError::Run(error) => (*error).into(),
    })?;
    advice.judgement.head.set_origin(provenance::origin());
    Ok(advice)
}
