//! `anabranch doctor`

use std::path::PathBuf;

use anabranch_setup::doctor::{Check, Facts, Level, judge, probe};
use anabranch_setup::{DEFAULT_DIRECTORY, RealSystem};
use serde::Serialize;

use crate::args::Show;
use crate::failure::Failure;
use crate::table::wrap_behind;
use crate::terminal::{BAD, GOOD, WARNING, paint};
use crate::{output, terminal};

/// Checks whether this host is ready for real packets, and suggests remedies
#[derive(clap::Args)]
#[command(after_help = "The exit code is 1 if any check fails; warnings do not count. Nothing is changed.")]
pub(crate) struct Args {
    /// Also connect to this host with the kernel's Multipath TCP, to test whether option 30 passes; the
    /// default port is 80
    #[arg(long, value_name = "HOST[:PORT]")]
    probe: Option<String>,
    /// The state directory of `anabranch tun setup`
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIRECTORY)]
    state_dir: PathBuf,
    #[command(flatten)]
    pub show: Show,
}

/// The object that `doctor --json` prints.
#[derive(Serialize)]
struct Output {
    version: &'static str,
    level: Level,
    checks: Vec<Check>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut facts = Facts::read(&mut RealSystem, &args.state_dir);
    facts.probe = args.probe.as_ref().map(|target| probe(target, &mut RealSystem));
    let checks = judge(&facts);
    let level = checks.iter().map(|check| check.level).max().unwrap_or(Level::Ok);
    let output = Output { version: env!("CARGO_PKG_VERSION"), level, checks };
    if args.show.json {
        output::print_json(&output)?
    } else {
        output::print(&text(&output.checks))?
    }
    match output.checks.iter().filter(|check| check.level == Level::Fail).count() {
        0 => Ok(()),
        1 => Err(Failure::Failed("1 check failed".to_owned())),
        n => Err(Failure::Failed(format!("{n} checks failed"))),
    }
}

fn text(checks: &[Check]) -> String {
    let widest = checks.iter().map(|check| check.id.len()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let level = match check.level {
            Level::Ok => paint(GOOD, "ok  "),
            Level::Warn => paint(WARNING, "warn"),
            Level::Fail => paint(BAD, "fail"),
        };
        let width = terminal::text_width();
        text.push_str(&wrap_behind(&format!("{level}  {:<widest$}  ", check.id), &check.what, width));
        if let Some(remedy) = &check.remedy {
            text.push_str(&wrap_behind(&format!("{:indent$}-> ", "", indent = widest + 8), remedy, width));
        }
    }
    text
}
