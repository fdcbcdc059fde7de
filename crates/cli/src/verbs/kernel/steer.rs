//! `anabranch kernel steer`

use std::path::PathBuf;

use anabranch_kernel::KernelError;
use anabranch_kernel::steer::advice::{self, Advice};
use anabranch_kernel::steer::daemon::{self, Options, Report};

use super::failed;
use crate::failure::Failure;
use crate::table::{Align, Table, wrap};
use crate::terminal::{GOOD, WARNING, paint};
use crate::{output, terminal};

/// Opens subflows where they help, and keeps the others as backups, by DMPTCP's selection
#[derive(clap::Args)]
#[command(
    long_about = LONG,
    after_help = "Examples:\n    \
    sudo anabranch kernel steer --once\n    \
    sudo anabranch kernel steer --dry-run\n    \
    sudo anabranch kernel steer --policy /etc/anabranch/policy.toml"
)]
pub(crate) struct Args {
    /// The policy: which paths connections use, by destination, port and interface; read again on SIGHUP
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Print the decisions and their reasons, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Advise on the connections of this moment, change nothing, and end
    #[arg(long, conflicts_with = "dry_run")]
    once: bool,
    /// With --once: print JSON
    #[arg(long, requires = "once")]
    json: bool,
    /// The directory of the state that survives a kill
    #[arg(long, value_name = "DIR", default_value = RUN_DIRECTORY)]
    run_directory: PathBuf,
    /// The directory of the memory of paths
    #[arg(long, value_name = "DIR", default_value = STATE_DIRECTORY)]
    state_directory: PathBuf,
    #[command(flatten)]
    pub to: output::Destination,
}

pub(super) const RUN_DIRECTORY: &str = "/run/anabranch";
pub(super) const STATE_DIRECTORY: &str = "/var/lib/anabranch";
/// The memory of paths in it.
pub(super) const MEMORY: &str = "paths.json";

const LONG: &str = "\
Opens subflows where they help, and keeps the others as backups, by DMPTCP's selection.

It becomes the path manager of new connections of the kernel's Multipath TCP in this network
namespace. About once a round trip it reads the kernel's RTT, window, threshold, losses and unsent
data of each subflow, and selects subflows as `anabranch select` does: a path is used if the faster
ones cannot send the rest within its round trip. Other paths stay open as backups. Decisions and
reasons are printed. SIGHUP reads the policy again; Ctrl-C or SIGTERM ends it, and restores the
kernel's own path manager.";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let policy = daemon::policy(args.policy.as_deref()).map_err(Failure::Usage)?;
    if args.once {
        let advice = advice::now(&policy).map_err(failed)?;
        return if args.json { output::print_json(&advice) } else { output::print(&table(&advice)) };
    }
    let options = Options {
        policy: args.policy.clone(),
        run_directory: args.run_directory.clone(),
        memory: args.state_directory.join(MEMORY),
        dry_run: args.dry_run,
    };
    let mut signals = daemon::Signals::block().map_err(failed)?;
    let mut written = Ok(());
    daemon::run(&options, policy, &mut signals, &mut |report| {
        if let Some(text) = line(&report, args.dry_run)
            && written.is_ok()
        {
            written = output::print_part(&text);
        }
    })
    .map_err(failed)?;
    written.and_then(|()| output::print(""))
}

/// Returns the line of a report; none if it is not shown.
fn line(report: &Report<'_>, dry_run: bool) -> Option<String> {
    Some(match report {
        Report::Ready { setting: Some((key, before)), connections } => {
            format!("steering new connections ({key} was {before}); {connections} exist already\n")
        }
        Report::Ready { setting: None, connections } => {
            format!("watching {connections} connections; nothing is changed\n")
        }
        Report::Decided(decision) if dry_run => format!("would {decision}\n"),
        Report::Decided(decision) => format!("{decision}\n"),
        // The connection is closing.
        Report::Refused(_, KernelError::Refused { errno: 107, .. }) => return None,
        Report::Refused(decision, error) => format!("{decision}: {}: {error}\n", paint(WARNING, "refused")),
        Report::Reloaded(Ok(())) => "the policy was read again\n".to_owned(),
        Report::Reloaded(Err(error)) => {
            format!("{}: the policy stays as it was: {error}\n", paint(WARNING, "error"))
        }
        Report::Resynchronised => "events were lost; all connections were read again\n".to_owned(),
    })
}

fn table(advice: &[Advice]) -> String {
    if advice.is_empty() {
        return "The kernel has no connections of Multipath TCP in this network namespace.\n".to_owned();
    }
    let mut text = String::new();
    for connection in advice {
        let mut table = Table::new()
            .column("path", Align::Left)
            .column("local", Align::Left)
            .column("RTT", Align::Right)
            .optional("window", Align::Right, 1)
            .optional("threshold", Align::Right, 3)
            .optional("loss", Align::Right, 2)
            .column("now", Align::Left)
            .column("better", Align::Left)
            .wrapped("because");
        for subflow in &connection.subflows {
            let word = |backup: bool| if backup { "backup" } else { "used" };
            let better = word(!subflow.selected);
            table.row(vec![
                subflow.interface.clone(),
                subflow.local.to_string(),
                subflow.srtt_us.map_or("-".to_owned(), |us| output::span(f64::from(us) / 1e6)),
                subflow.cwnd_segments.to_string(),
                subflow.ssthresh_segments.map_or("inf".to_owned(), |segments| segments.to_string()),
                output::percent(subflow.loss * 100.0) + "%",
                word(subflow.backup).to_owned(),
                if subflow.selected == subflow.backup { paint(GOOD, better) } else { better.to_owned() },
                subflow.why.clone(),
            ]);
        }
        let size = connection.remaining_bytes.map_or("an unknown size".to_owned(), output::size);
        let title = format!("{} to {}, {} remaining:", connection.token, connection.remote, size);
        text.push_str(&wrap(&title, terminal::text_width()));
        text.push_str(&table.render(terminal::width()));
        text.push('\n');
    }
    text
}
