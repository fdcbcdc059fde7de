//! `anabranch tun`

use std::path::PathBuf;

use anabranch_setup as setup;
use anabranch_setup::{
    DEFAULT_DEVICE, DEFAULT_DIRECTORY, DEFAULT_PREFIX, DEFAULT_PREFIX6, Families, Layout, Options, PathSpec,
    RealSystem, SetupError, Shown, namespace,
};
use ipnet::{Ipv4Net, Ipv6Net};

use crate::failure::Failure;
use crate::table::{Align, Table};
use crate::terminal::{BAD, GOOD, paint};
use crate::{output, terminal};

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
            Verb::Setup(_) | Verb::Teardown(_) => None,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.verb {
        Verb::Setup(args) if args.user_namespace => isolated(args),
        Verb::Setup(args) => set_up(args),
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
    output::print(&format!(
        "{head}\n{}\nundo it: anabranch tun teardown{}\n",
        paths(&outcome.layout),
        if name == DEFAULT_DEVICE { String::new() } else { format!(" --name {name}") }
    ))
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
