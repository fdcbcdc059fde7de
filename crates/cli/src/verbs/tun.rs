//! `anabranch tun`

use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anabranch_kernel::interfaces::LinkEvents;
use anabranch_net::device::share::{Event as ShareEvent, Share, ShareCounters};
use anabranch_net::device::tun::{TunDevice, TunOptions, watch};
use anabranch_setup as setup;
use anabranch_setup::{
    DEFAULT_DEVICE, DEFAULT_DIRECTORY, DEFAULT_PREFIX, DEFAULT_PREFIX6, Families, Layout, Options, PathSpec,
    RealSystem, SetupError, Shown, namespace,
};
use ipnet::{Ipv4Net, Ipv6Net};

use crate::failure::Failure;
use crate::online::few::Few;
use crate::table::{Align, Table};
use crate::terminal::{BAD, GOOD, paint};
use crate::{online, output, terminal};

/// Makes a TUN device with an address for each path, each of which leaves by a real interface, and removes it
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Setup(SetupArgs),
    Follow(FollowArgs),
    Share(ShareArgs),
    Teardown(TeardownArgs),
    Show(ShowArgs),
}

/// Makes the device, an address for each path, and the routes and the address translation that send each
/// path's packets through its own interface
#[derive(clap::Args)]
#[command(after_help = "Examples:\n    \
    sudo anabranch tun setup --path wlan0 --path wwan0 --user $USER\n    \
    anabranch tun setup --path wlan0 --path wwan0 --dry-run\n    \
    anabranch tun setup --user-namespace -- bash")]
struct SetupArgs {
    /// A real interface for a path, optionally with its gateway; once for each path
    #[arg(long = "path", value_name = "IFACE[,via=GATEWAY]")]
    paths: Vec<PathSpec>,
    /// The device's name
    #[arg(long, value_name = "NAME", default_value = DEFAULT_DEVICE)]
    name: String,
    /// The prefix of IPv4 addresses: the first is path 1
    #[arg(long, value_name = "NET", default_value = DEFAULT_PREFIX)]
    prefix: Ipv4Net,
    /// The prefix of IPv6 addresses
    #[arg(long, value_name = "NET", default_value = DEFAULT_PREFIX6)]
    prefix6: Ipv6Net,
    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,
    /// The device's MTU in bytes; by default the smallest of the interfaces'
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u32>,
    /// The number of hosts that share the device by `tun share`; each has an address for each path
    #[arg(long, value_name = "N", default_value = "1", value_parser = crate::args::whole::<u16>(1..=1000))]
    hosts: u16,
    /// The user who may open the device without being root
    #[arg(long, value_name = "USER", value_parser = setup::user_id)]
    user: Option<u32>,
    /// Print the commands, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Run COMMAND without root in a private network namespace, with the device and without connectivity
    #[arg(long, conflicts_with_all = ["user", "state_dir"])]
    user_namespace: bool,
    /// The directory of the recorded state
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIRECTORY)]
    state_dir: PathBuf,
    /// With --user-namespace: the command to run; a shell by default
    #[arg(last = true, value_name = "COMMAND", requires = "user_namespace")]
    command: Vec<String>,
}

/// Keeps the paths of a setup on their interfaces until Ctrl-C or SIGTERM: an interface that comes back, or that has another address or
/// gateway, gets the routes of its path
#[derive(clap::Args)]
struct FollowArgs {
    /// The device's name
    #[arg(long, value_name = "NAME", default_value = DEFAULT_DEVICE)]
    name: String,
    /// The directory of the recorded state
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIRECTORY)]
    state_dir: PathBuf,
}

/// Shares the device of a setup with --hosts among processes until Ctrl-C or SIGTERM: each gets a host's addresses over a socket of UNIX,
/// which they give to --tun
#[derive(clap::Args)]
#[command(after_help = "Examples:\n    \
    sudo anabranch tun setup --path wlan0 --path wwan0 --hosts 4\n    \
    sudo anabranch tun share --group netdev\n    \
    anabranch get --tun /run/anabranch/anabranch0.socket http://example.org/")]
struct ShareArgs {
    /// The device's name
    #[arg(long, value_name = "NAME", default_value = DEFAULT_DEVICE)]
    name: String,
    /// The socket; /run/anabranch/NAME.socket by default
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The user who may connect to the socket, besides root
    #[arg(long, value_name = "USER", value_parser = setup::user_id)]
    user: Option<u32>,
    /// The group that may connect to the socket
    #[arg(long, value_name = "GROUP", value_parser = setup::group_id)]
    group: Option<u32>,
    /// The directory of the recorded state
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIRECTORY)]
    state_dir: PathBuf,
}

/// Undoes the changes of setup, and nothing else
#[derive(clap::Args)]
struct TeardownArgs {
    /// The device's name
    #[arg(long, value_name = "NAME", default_value = DEFAULT_DEVICE)]
    name: String,
    /// The directory of the recorded state
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIRECTORY)]
    state_dir: PathBuf,
}

/// Shows the setups, and their missing parts
#[derive(clap::Args)]
struct ShowArgs {
    /// The directory of the recorded state
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIRECTORY)]
    state_dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    to: crate::output::Destination,
}

impl From<SetupError> for Failure {
    fn from(error: SetupError) -> Failure {
        match error {
            SetupError::Usage(text) => Failure::Usage(text),
            other => Failure::Failed(other.to_string()),
        }
    }
}

impl Args {
    /// Returns the destination of the result, for verbs that have one.
    pub(crate) fn destination(&self) -> Option<&output::Destination> {
        match &self.verb {
            Verb::Show(args) => Some(&args.to),
            Verb::Setup(_) | Verb::Follow(_) | Verb::Share(_) | Verb::Teardown(_) => None,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.verb {
        Verb::Setup(args) if args.user_namespace => isolated(args),
        Verb::Setup(args) => set_up(args),
        Verb::Follow(args) => follow(args),
        Verb::Share(args) => share(args),
        Verb::Teardown(args) => teardown(args),
        Verb::Show(args) => show(args),
    }
}

fn options(args: &SetupArgs) -> Options {
    let families = match (args.ipv4, args.ipv6) {
        (true, _) => Families::Ipv4,
        (_, true) => Families::Ipv6,
        _ => Families::Any,
    };
    Options {
        device: args.name.clone(),
        prefix: args.prefix,
        prefix6: args.prefix6,
        families,
        mtu: args.mtu,
        owner: args.user,
        hosts: args.hosts,
        ..Options::new(args.paths.clone())
    }
}

fn set_up(args: &SetupArgs) -> Result<(), Failure> {
    let options = options(args);
    let mut system = RealSystem;
    if args.dry_run {
        let plan = setup::plan(&options, &mut system)?;
        let lines: Vec<String> = plan.steps.iter().map(|step| format!("{}\n", step.action())).collect();
        warn(&plan.layout);
        return output::print(&lines.concat());
    }
    let outcome = setup::setup(&options, &mut system, &args.state_dir)?;
    let name = &args.name;
    let head = if !outcome.repaired {
        format!("{name} is set up.\n")
    } else if outcome.made.is_empty() {
        format!("{name} was set up already; nothing was missing.\n")
    } else {
        let made: Vec<String> = outcome.made.iter().map(setup::Step::name).collect();
        format!("{name} was set up already; restored the missing parts: {}.\n", made.join("; "))
    };
    warn(&outcome.layout);
    let mut undo = "anabranch tun teardown".to_owned();
    if name != DEFAULT_DEVICE {
        undo.push_str(&format!(" --name {}", setup::quote(name)));
    }
    if args.state_dir != Path::new(DEFAULT_DIRECTORY) {
        undo.push_str(&format!(" --state-dir {}", setup::quote(&args.state_dir.to_string_lossy())));
    }
    output::print(&format!("{head}\n{}\nundo it: {undo}\n", paths(&outcome.layout)))
}

/// Prints notes on standard error, as a program may read the output.
fn warn(layout: &Layout) {
    for note in layout.notes() {
        output::warn(note);
    }
}

fn paths(layout: &Layout) -> String {
    let mut table = Table::new()
        .column("path", Align::Right)
        .column("address", Align::Left)
        .column("leaves by", Align::Left)
        .optional("gateway", Align::Left, 1)
        .optional("as", Align::Left, 2);
    for (n, path) in layout.paths.iter().enumerate() {
        for leg in &path.legs {
            let gateway = match leg.gateway {
                Some(gateway) => gateway.to_string(),
                None => "-".to_owned(),
            };
            table.row(vec![
                (n + 1).to_string(),
                leg.address.to_string(),
                path.interface.clone(),
                gateway,
                leg.masquerade.to_string(),
            ]);
        }
    }
    table.render(terminal::width())
}

fn isolated(args: &SetupArgs) -> Result<(), Failure> {
    let mut options = options(args);
    if options.paths.is_empty() {
        // No interface is needed; two addresses make a multipath.
        options.paths =
            ["a", "b"].map(|name| PathSpec { interface: name.to_owned(), via: Vec::new() }).to_vec();
    }
    let plan = namespace::plan(&options)?;
    let mut command = args.command.clone();
    if command.is_empty() {
        command.push(std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned()));
    }
    if args.dry_run {
        return output::print(&namespace::describe(&plan, &command));
    }
    namespace::enter()?;
    namespace::prepare(&plan, &mut RealSystem)?;
    let addresses = plan.layout.paths.iter().flat_map(|path| &path.legs).map(|leg| leg.address.to_string());
    output::remark(format_args!(
        "{}, in a private network without connectivity: anabranch's addresses are {}; the kernel's {}",
        plan.layout.device,
        addresses.collect::<Vec<_>>().join(", "),
        plan.layout.kernel.iter().map(|net| net.addr().to_string()).collect::<Vec<_>>().join(", "),
    ));
    Err(namespace::run(&command).into())
}

/// The time in which all events of one change come.
const SETTLE: Duration = Duration::from_millis(3);
/// The time until the next attempt after the system could not be read, as while an interface vanishes.
const RETRY: Duration = Duration::from_secs(1);

fn follow(args: &FollowArgs) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::Failed(format!("changes of interfaces are not noticed: {error}"))
    };
    // Before the first look, so that no change is missed.
    let events = LinkEvents::with_routes().map_err(|error| failed(&error))?;
    let look = || {
        let followed = setup::follow(&args.name, &mut RealSystem, &args.state_dir)?;
        for (verb, steps) in [("made", &followed.made), ("removed", &followed.undone)] {
            for step in steps {
                output::remark(format_args!("{verb}: {}", step.name()));
            }
        }
        for error in &followed.failed {
            output::warn(error);
        }
        Ok::<(), SetupError>(())
    };
    look()?;
    output::remark(format_args!("the paths of {} follow their interfaces; end: Ctrl-C", args.name));
    online::block_on(async {
        let fd = events.as_fd().try_clone_to_owned().and_then(watch).map_err(|error| failed(&error))?;
        let mut events = events;
        let mut ended = Box::pin(online::interrupted());
        // The reason that the last look has failed.
        let mut trouble: Option<String> = None;
        loop {
            tokio::select! {
                ready = fd.readable() => {
                    let mut ready = ready.map_err(|error| failed(&error))?;
                    tokio::time::sleep(SETTLE).await;
                    ready.clear_ready();
                    if !events.has_changed().map_err(|error| failed(&error))? {
                        continue;
                    }
                }
                () = tokio::time::sleep(RETRY), if trouble.is_some() => {}
                () = &mut ended => return Ok(()),
            }
            trouble = match look() {
                Ok(()) => None,
                Err(SetupError::Failed(error)) => {
                    if trouble.as_ref() != Some(&error) {
                        output::warn(format_args!("the interfaces are looked at again in a second: {error}"));
                    }
                    Some(error)
                }
                Err(error) => return Err(error.into()),
            };
        }
    })
}

fn share(args: &ShareArgs) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt as _;
    let name = &args.name;
    let layout = setup::layout(name, &args.state_dir)?;
    let path =
        args.socket.clone().unwrap_or_else(|| PathBuf::from(format!("{DEFAULT_DIRECTORY}/{name}.socket")));
    let failed = |error: std::io::Error| {
        Failure::Failed(format!("cannot make the socket {}: {error}", path.display()))
    };
    online::raise_file_limit();
    online::block_on(async {
        let device = TunDevice::attach(name, TunOptions::default())
            .map_err(|error| Failure::Failed(error.to_string()))?;
        let hosts = layout.hosts();
        let count = hosts.len();
        let mut share = Share::new(device, hosts);
        if args.socket.is_none() {
            std::fs::create_dir_all(DEFAULT_DIRECTORY).map_err(failed)?;
        }
        share.listen(&path).map_err(failed)?;
        std::os::unix::fs::chown(&path, args.user, args.group).map_err(failed)?;
        if args.group.is_some() {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o660)).map_err(failed)?;
        }
        output::remark(format_args!("{name} is shared by up to {count} processes: --tun {}", path.display()));
        let mut few = Few::new(Instant::now());
        let result = tokio::select! {
            error = share.run(|event| report_share(&event, &mut few)) => Err(Failure::Failed(error.to_string())),
            () = online::interrupted() => Ok(()),
        };
        report_left_out(few.left_out());
        let ShareCounters { sent, received, unclaimed, dropped, foreign } = share.counters();
        output::remark(format_args!(
            "packets: {sent} sent, {received} received; not moved: {unclaimed} to addresses that no process has, {dropped} to slow \
             processes, {foreign} with another one's source"
        ));
        result
    })
}

/// Reports an event. A user of the socket can cause any number of them, so most of many are only counted.
fn report_share(event: &ShareEvent, few: &mut Few) {
    let Some(left_out) = few.admit(Instant::now()) else { return };
    report_left_out(left_out);
    let list =
        |addresses: &[IpAddr]| addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match event {
        ShareEvent::Joined { pid, uid, addresses } => {
            output::remark(format_args!("process {pid} of user {uid} has {}", list(addresses)));
        }
        ShareEvent::Left { pid, addresses } => {
            output::remark(format_args!("process {pid} has given back {}", list(addresses)));
        }
        ShareEvent::Refused { pid, uid } => {
            output::warn(format_args!(
                "process {pid} of user {uid} is refused: all hosts are taken; setup with more --hosts"
            ));
        }
    }
}

fn report_left_out(count: u64) {
    if count > 0 {
        output::remark(format_args!("{count} processes that came, went or were refused are not listed"));
    }
}

fn teardown(args: &TeardownArgs) -> Result<(), Failure> {
    let name = &args.name;
    let report = setup::teardown(name, &mut RealSystem, &args.state_dir)?;
    if report.rebooted {
        return output::print(&format!("a reboot had removed {name}; there was nothing to undo.\n"));
    }
    let mut text = format!("{name} is removed; {} things undone.\n", report.undone.len());
    for left in &report.left {
        text.push_str(&format!("left alone: {left}\n"));
    }
    output::print(&text)
}

fn show(args: &ShowArgs) -> Result<(), Failure> {
    let shown = setup::show(&mut RealSystem, &args.state_dir)?;
    if args.json {
        return output::print_json(&shown);
    }
    if shown.is_empty() {
        return output::print("nothing is set up in this network namespace.\n");
    }
    let texts: Vec<String> = shown.iter().map(text).collect();
    output::print(&texts.join("\n"))
}

fn text(shown: &Shown) -> String {
    let name = &shown.layout.device;
    if shown.before_reboot {
        return format!(
            "{name}: removed by a reboot; delete its record: anabranch tun teardown --name {name}\n"
        );
    }
    let mut text = match shown.whole {
        Some(true) => format!("{name}, {}, MTU {}\n\n", paint(GOOD, "whole"), shown.layout.mtu),
        Some(false) => format!("{name}, {}, MTU {}\n\n", paint(BAD, "parts missing"), shown.layout.mtu),
        None => {
            format!("{name}, MTU {}; run with sudo to check whether it is complete\n\n", shown.layout.mtu)
        }
    };
    text.push_str(&paths(&shown.layout));
    for part in shown.parts.iter().filter(|part| part.present == Some(false)) {
        text.push_str(&format!("missing: {}\n", part.name));
    }
    text
}
