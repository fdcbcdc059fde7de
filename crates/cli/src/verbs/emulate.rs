//! `anabranch emulate`

use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anabranch_emulate::{
    Addresses, Bounds, Counters, EmulateError, Emulation, Options, Outcome, Report, Role, Tally,
};
use anabranch_lab::scenario::{Document, Scenario};
use anabranch_setup::namespace;
use serde::Serialize;

use crate::args::{Common, read, whole};
use crate::failure::Failure;
use crate::table::{Align, Table};
use crate::terminal::{BAD, paint};
use crate::{interrupt, output, terminal};

/// Runs programs over the paths of a scenario, in real time
#[derive(clap::Args)]
#[command(long_about = LONG, after_help = "Examples:\n    \
    sudo anabranch emulate wifi-lte --server-command 'iperf3 -s' -- mptcpize run iperf3 -c 10.1.1.1\n    \
    sudo anabranch emulate --path 50Mbit/s,20ms --path 10Mbit/s,60ms,loss=0.1% --interactive\n    \
    anabranch emulate --user-namespace --path 8Mbit/s,100ms -- ping -c 5 10.1.1.1")]
pub(crate) struct Args {
    /// A scenario file, or a name of `anabranch list scenarios`
    scenario: Option<String>,
    /// Paths that replace the scenario's
    #[arg(
        long = "path",
        value_name = "PATH",
        help = "A path: RATE,RTT[,loss=P][,loss-up=P][,queue=Q], trace=DOWN[:UP],RTT[,trace-start=random] \
                or a preset such as lte, and [,...]; replaces the scenario's paths"
    )]
    paths: Vec<String>,
    #[command(flatten)]
    common: Common,
    /// The server sends: loss and jitter apply to that direction
    #[arg(long)]
    download: bool,
    /// The client sends
    #[arg(long, conflicts_with = "download")]
    upload: bool,
    /// The condition of the scenario; the first by default
    #[arg(long, value_name = "NAME")]
    condition: Option<String>,
    /// The run of the scenario: the links have the same random streams as in that run of the simulator
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u32>(0..=u32::MAX.into()))]
    run: u32,
    /// Run CMD, by the shell, on the server's host while the client's command runs
    #[arg(long, value_name = "CMD")]
    server_command: Option<String>,
    /// The time limit for the server to listen, in seconds
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = seconds)]
    server_wait: f64,
    /// Open a shell on the client's host
    #[arg(long, conflicts_with = "command")]
    interactive: bool,
    /// Run without root, in a user namespace where this user is root
    #[arg(long)]
    user_namespace: bool,
    /// The kernel's congestion control on both hosts; the system's by default
    #[arg(long = "kernel-cc", value_name = "NAME")]
    congestion: Option<String>,
    /// Set a value under /proc/sys on both hosts, such as net.ipv4.tcp_sack=0
    #[arg(long = "sysctl", value_name = "KEY=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// The lateness in milliseconds of more than 1 % of the packets that makes a run unreliable
    #[arg(long, value_name = "MS", default_value_t = 3.0, value_parser = seconds)]
    late: f64,
    /// Exit with 3 if the run was unreliable
    #[arg(long)]
    strict: bool,
    /// Print the report as JSON; the client's output goes to standard error, unless the report goes to a file
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub to: crate::output::Destination,
    /// Write the report to FILE as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The command to run on the client's host
    #[arg(last = true, value_name = "CLIENT-COMMAND")]
    command: Vec<String>,
}

const LONG: &str = "\
Runs programs over the paths of a scenario, in real time.

Client and server are two network namespaces; each has a TUN device for each path, and the packets
between them pass the same links as in the simulator. On path N the client is 10.0.N.1 and the
server 10.1.N.1; commands find these addresses in ANABRANCH_SERVER and other variables. The kernel's
Multipath TCP uses all paths. Standard input, standard output and the exit code are the client's.
When the client has ended, the server is terminated, and everything is removed.

Standard error reports the data that each path has carried, queued and dropped, and the lateness of
packets; an unreliable run is marked.";

/// The exit code after Ctrl-C.
const INTERRUPTED: u8 = 130;
/// The exit code of an unreliable run, with --strict.
const UNRELIABLE: u8 = 3;

fn seconds(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if (0.0..=1e6).contains(&number) {
        Ok(number)
    } else {
        Err("give a number from 0 to a million".to_owned())
    }
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) =
        text.split_once('=').ok_or("write KEY=VALUE, for example net.ipv4.tcp_sack=0".to_owned())?;
    let key = key.trim().replace('.', "/");
    if key.starts_with('/') || key.split('/').any(|part| part.is_empty() || part == "..") {
        return Err(format!("`{key}` is not a key"));
    }
    if !key.starts_with("net/") {
        return Err("only keys that begin with net. belong to a network namespace".to_owned());
    }
    Ok((key, value.trim().to_owned()))
}

impl From<EmulateError> for Failure {
    fn from(error: EmulateError) -> Failure {
        match error {
            EmulateError::Usage(text) => Failure::Usage(text),
            EmulateError::Interrupted => Failure::Interrupted,
            other => Failure::Failed(other.to_string()),
        }
    }
}

/// The object that `--json` prints.
#[derive(Serialize)]
struct Output<'a> {
    version: &'static str,
    scenario: &'a str,
    scenario_hash: String,
    condition: &'a str,
    run: u32,
    seed: u64,
    exit_code: u8,
    notes: Vec<String>,
    /// The congestion control of the kernel's sockets, which is the system's default without --kernel-cc.
    kernel_congestion: Option<String>,
    #[serde(flatten)]
    report: &'a Report,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let scenario = scenario(args)?;
    let options = options(args, &scenario)?;
    let client = client(args)?;
    if args.user_namespace {
        // Before a second thread is started.
        namespace::enter()?;
    }
    let cancelled = interrupt::watch();
    let emulation = Emulation::build(&scenario, &options).map_err(|error| explain(error, &options))?;
    let notes = emulation.notes().iter().chain(emulation.left_out());
    notes.for_each(|note| output::remark(format_args!("note: {note}")));
    if args.interactive {
        output::print_error(&welcome(emulation.addresses(), &scenario, &options));
    }
    let congestion = emulation.congestion();
    if let Some(name) = &congestion {
        output::remark(format_args!("the kernel's congestion control is {name} (--kernel-cc)"));
    }
    let outcome = emulation.run(server(args)?, client, cancelled)?;
    drop(emulation);
    let interrupted = cancelled.load(Ordering::Relaxed);
    let code = if interrupted { INTERRUPTED } else { outcome.client.map_or(1, exit_code) };
    tell(args, &scenario, &options, (&outcome, congestion), code)?;
    let unreliable = args.strict && code == 0 && !outcome.report.reliable;
    Ok(ExitCode::from(if unreliable { UNRELIABLE } else { code }))
}

fn scenario(args: &Args) -> Result<Scenario, Failure> {
    let mut document = match &args.scenario {
        Some(name) => Document::open(name)?,
        None if args.paths.is_empty() => {
            let text = "give the network between client and server: a scenario, or --path RATE,RTT";
            return Err(Failure::Usage(text.to_owned()));
        }
        None => Document::bare(),
    };
    document.set_paths(&args.paths)?;
    if args.download {
        document.set_option("--download", "traffic.direction", "download");
    }
    if args.upload {
        document.set_option("--upload", "traffic.direction", "upload");
    }
    args.common.apply(&mut document)?;
    read(&document)
}

fn options(args: &Args, scenario: &Scenario) -> Result<Options, Failure> {
    let condition = match &args.condition {
        None => 0,
        Some(name) => {
            let names: Vec<&str> = scenario.conditions.iter().map(|own| own.name.as_str()).collect();
            names.iter().position(|own| own == name).ok_or_else(|| {
                Failure::Usage(match names.as_slice() {
                    [""] => format!("there is no condition `{name}`: the scenario has no conditions"),
                    names => format!("there is no condition `{name}`; there are: {}", names.join(", ")),
                })
            })?
        }
    };
    Ok(Options {
        condition,
        run: args.run,
        // The kernel's name.
        congestion: args
            .congestion
            .clone()
            .map(|name| if name == "newreno" { "reno".to_owned() } else { name }),
        settings: args.settings.clone(),
        server_patience: Duration::from_secs_f64(args.server_wait),
        bounds: Bounds {
            p99: anabranch_units::Duration::from_secs_f64(args.late / 1e3),
            ..Bounds::default()
        },
        ..Options::default()
    })
}

/// Adds the name of the congestion control to the kernel's error, which does not contain it.
fn explain(error: EmulateError, options: &Options) -> Failure {
    let text = error.to_string();
    match &options.congestion {
        Some(name) if text.contains("congestion algorithm") => {
            let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
            Failure::Usage(format!(
                "this kernel has no congestion control `{name}`; it has {}, and others perhaps as modules: \
                 modprobe tcp_{name}",
                known.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(", ")
            ))
        }
        _ => error.into(),
    }
}

/// Returns standard error, for the standard output of another process.
fn standard_error() -> Result<Stdio, Failure> {
    let fd = std::io::stderr().as_fd().try_clone_to_owned();
    fd.map(Stdio::from).map_err(|error| Failure::Failed(format!("standard error: {error}")))
}

fn client(args: &Args) -> Result<Command, Failure> {
    let mut command = match args.command.as_slice() {
        [program, rest @ ..] => {
            let mut command = Command::new(program);
            command.args(rest);
            command
        }
        [] if args.interactive => Command::new(std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())),
        [] => return Err(Failure::Usage("give a command after `--`, or --interactive".to_owned())),
    };
    if args.json && !output::is_to_file() {
        command.stdout(standard_error()?);
    }
    Ok(command)
}

fn server(args: &Args) -> Result<Option<Command>, Failure> {
    let Some(text) = &args.server_command else { return Ok(None) };
    let mut command = Command::new("/bin/sh");
    // In its own process group, so that Ctrl-C does not reach it and this process ends the commands in order.
    command.args(["-c", text]).stdin(Stdio::null()).stdout(standard_error()?).process_group(0);
    Ok(Some(command))
}

/// Returns the exit code in the shell's convention.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn welcome(addresses: &Addresses, scenario: &Scenario, options: &Options) -> String {
    let experiment = &scenario.conditions[options.condition].experiment;
    let mut text = String::from("a shell on the client's host; `exit` ends it\n");
    for (at, path) in experiment.paths().iter().enumerate() {
        text.push_str(&format!(
            "path {}: {} there, {} here, device path{}\n",
            path.name,
            addresses.of(Role::Server, at),
            addresses.of(Role::Client, at),
            at + 1
        ));
    }
    text
}

fn tell(
    args: &Args,
    scenario: &Scenario,
    options: &Options,
    (outcome, kernel_congestion): (&Outcome, Option<String>),
    code: u8,
) -> Result<(), Failure> {
    let object = Output {
        version: env!("CARGO_PKG_VERSION"),
        scenario: &scenario.name,
        scenario_hash: scenario.hash(),
        condition: &scenario.conditions[options.condition].name,
        run: options.run,
        seed: scenario.run_seed(options.run),
        exit_code: code,
        notes: outcome.notes.clone(),
        kernel_congestion,
        report: &outcome.report,
    };
    if let Some(file) = &args.report {
        let written = serde_json::to_string_pretty(&object)
            .map_err(std::io::Error::from)
            .and_then(|text| anabranch_lab::whole_file::write(file, text + "\n"));
        written.map_err(|error| Failure::Failed(format!("{}: {error}", file.display())))?;
    }
    if args.json {
        return output::print_json(&object);
    }
    if output::is_to_file() {
        return output::print(
            &(table(&outcome.report, terminal::PLAIN_WIDTH) + &unreliable(&outcome.report)),
        );
    }
    outcome.notes.iter().for_each(|note| output::remark(format_args!("note: {note}")));
    output::remark(format_args!("\n{}", table(&outcome.report, terminal::error_width()).trim_end()));
    // With --quiet, too.
    output::print_error(&unreliable(&outcome.report));
    Ok(())
}

fn unreliable(report: &Report) -> String {
    let line = |reason: &String| format!("{} {reason}\n", paint(BAD, "NOT RELIABLE:"));
    report.unreliable_because.iter().map(line).collect()
}

fn table(report: &Report, width: usize) -> String {
    let mut table = Table::new()
        .column("link", Align::Left)
        .column("packets", Align::Right)
        .column("MB", Align::Decimal)
        .column("Mbit/s", Align::Decimal)
        .column("dropped", Align::Left)
        .optional("queue max", Align::Right, 1)
        .optional("mean", Align::Decimal, 2);
    let paths = report.paths.iter().flat_map(|path| path.up.links.iter().chain(&path.down.links));
    for link in paths.chain(&report.shared) {
        let Tally { packets, bytes } = link.counters.delivered;
        let longest = link.counters.max_queue;
        table.row(vec![
            link.link.clone(),
            packets.to_string(),
            output::about(bytes as f64 / 1e6),
            output::about(bytes as f64 * 8.0 / report.elapsed_s.max(1e-9) / 1e6),
            dropped(&link.counters),
            format!("{} ({})", longest.packets, output::size(longest.bytes)),
            output::about(link.mean_queue_packets),
        ]);
    }
    let mut text = table.render(width);
    for one in &report.middleboxes {
        let acts = anabranch_show::run::acts([one.stripped, one.clamped, one.dropped, one.resets]);
        let acts = if acts.is_empty() { "changed nothing".to_owned() } else { acts };
        text.push_str(&format!("middlebox of {}: {acts}\n", one.path));
    }
    for path in &report.paths {
        let cost = path.cost.map(|cost| format!("cost {}", output::digits(cost)));
        let quota = path.over_quota.map(|over| if over { "quota exceeded" } else { "quota kept" }.to_owned());
        let parts: Vec<String> = cost.into_iter().chain(quota).collect();
        if !parts.is_empty() {
            text.push_str(&format!("tariff of {}: {}\n", path.path, parts.join(", ")));
        }
    }
    for (name, lateness) in [("up", &report.lateness_up), ("down", &report.lateness_down)] {
        text.push_str(&format!(
            "lateness {name}: p50 {} us, p99 {} us, p99.9 {} us, max {} us\n",
            output::digits(lateness.p50_us),
            output::digits(lateness.p99_us),
            output::digits(lateness.p999_us),
            output::digits(lateness.max_us),
        ));
    }
    text
}

fn dropped(counters: &Counters) -> String {
    let reasons = [
        ("queue", counters.dropped_queue),
        ("random", counters.dropped_random),
        ("bursts", counters.dropped_gilbert_elliott),
        ("listed", counters.dropped_listed),
        ("down", counters.dropped_down),
        ("too large", counters.dropped_too_large),
        ("AQM", counters.dropped_aqm),
        ("policer", counters.dropped_policer),
    ];
    let named =
        reasons.iter().filter(|(_, n)| n.packets > 0).map(|(name, n)| format!("{} {name}", n.packets));
    let text = named.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "0".to_owned() } else { text }
}
