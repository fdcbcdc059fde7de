//! `anabranch select`

use anabranch_lab::units;
use anabranch_stack::selection::{Explanation, PathEstimate, Reason, explain_selection};
use anabranch_stack::transfer_model::TransferModel;
use anabranch_units::{Bytes, Duration, Rate};
use serde::Serialize;

use crate::args::whole;
use crate::failure::Failure;
use crate::table::{Align, Table, wrap};
use crate::terminal::{GOOD, paint};
use crate::{output, terminal};

/// Shows the subflows that DMPTCP selects, and the reasons
#[derive(clap::Args)]
pub struct Args {
    /// The paths, in order.
    #[arg(
        long = "path",
        value_name = "PATH",
        required = true,
        value_parser = parse_path,
        help = "A path: RATE,RTT[,loss=P][,cwnd=W][,ssthresh=S][,full][,backup]. The window is 10 segments unless \
                given, the threshold infinite. The rate is not used: the choice goes by windows and RTTs"
    )]
    paths: Vec<Parsed>,
    /// The bytes of the flow that were never assigned to any subflow, such as 40KB, or `unknown`
    #[arg(long, value_name = "SIZE", value_parser = parse_remaining)]
    remaining: Bytes,
    /// The payload of a segment, in bytes
    #[arg(long, value_name = "B", default_value_t = 1400, value_parser = whole::<u32>(1..=65_535))]
    mss: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub to: crate::output::Destination,
}

/// A path of the command line.
#[derive(Clone, Copy)]
struct Parsed {
    rate: Option<Rate>,
    rtt: Duration,
    loss: f64,
    cwnd: u32,
    ssthresh: Option<u32>,
    full: bool,
    backup: bool,
}

fn parse_remaining(text: &str) -> Result<Bytes, String> {
    match text {
        "unknown" => Ok(Bytes::MAX),
        text => units::parse_size(text).map_err(|error| error.to_string()),
    }
}

fn parse_path(text: &str) -> Result<Parsed, String> {
    let mut path = Parsed {
        rate: None,
        rtt: Duration::ZERO,
        loss: 0.0,
        cwnd: 10,
        ssthresh: None,
        full: false,
        backup: false,
    };
    let segments = |name: &str, value: &str| {
        let number = value.trim().parse::<u32>().ok().filter(|n| (1..=1_000_000).contains(n));
        number.ok_or_else(|| format!("`{name}={value}`: give a whole number of segments, at least 1"))
    };
    let mut positional = 0;
    for part in text.split(',').map(str::trim) {
        match part.split_once('=') {
            Some(("loss", value)) => {
                path.loss = units::parse_probability(value).map_err(|e| e.to_string())?
            }
            Some(("cwnd", value)) => path.cwnd = segments("cwnd", value)?,
            Some(("ssthresh", value)) => path.ssthresh = Some(segments("ssthresh", value)?),
            Some(("rtt", value)) => path.rtt = units::parse_span(value).map_err(|e| e.to_string())?,
            Some((key, _)) => {
                return Err(format!("unknown key `{key}`; there are loss, cwnd, ssthresh, full and backup"));
            }
            None if part == "backup" => path.backup = true,
            None if part == "full" => path.full = true,
            None if positional == 0 => {
                path.rate = Some(units::parse_rate(part).map_err(|e| e.to_string())?);
                positional = 1;
            }
            None if positional == 1 => {
                path.rtt = units::parse_span(part).map_err(|e| e.to_string())?;
                positional = 2;
            }
            None => {
                return Err(format!("`{part}` cannot be parsed; write for example `100Mbit/s,20ms,cwnd=8`"));
            }
        }
    }
    if path.rtt.is_zero() {
        return Err("the path has no round-trip time; write for example `100Mbit/s,20ms,cwnd=8`".to_owned());
    }
    Ok(path)
}

/// The object that `select --json` prints.
#[derive(Serialize)]
struct Output {
    remaining_bytes: Option<u64>,
    /// Positions of the chosen paths from 1, fastest first.
    selected: Vec<usize>,
    paths: Vec<Path>,
}

#[derive(Serialize)]
struct Path {
    path: usize,
    rate_bps: Option<u64>,
    rtt_s: f64,
    loss: f64,
    cwnd: u32,
    ssthresh: Option<u32>,
    selected: bool,
    /// The bytes that the faster paths deliver within this path's RTT; none for a path that was not
    /// considered.
    faster_deliver_bytes: Option<u64>,
    why: String,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    if args.paths.len() > anabranch_stack::selection::MAX_PATHS {
        return Err(Failure::Usage("there are more than 32 paths".to_owned()));
    }
    let estimates: Vec<PathEstimate> = args
        .paths
        .iter()
        .map(|path| PathEstimate {
            srtt: path.rtt,
            cwnd: path.cwnd,
            ssthresh: path.ssthresh,
            loss: path.loss,
            mss: args.mss,
            full: path.full,
            usable: true,
            backup: path.backup,
        })
        .collect();
    let explanation = explain_selection(&estimates, args.remaining, &TransferModel::default());
    let known = args.remaining != Bytes::MAX;
    let output = Output {
        remaining_bytes: known.then_some(args.remaining.0),
        selected: explanation.selection.paths().map(|path| path + 1).collect(),
        paths: args
            .paths
            .iter()
            .enumerate()
            .map(|(index, path)| one(index, path, args, &explanation))
            .collect(),
    };
    if args.json { output::print_json(&output) } else { output::print(&text(args, &output)) }
}

fn one(index: usize, path: &Parsed, args: &Args, explanation: &Explanation) -> Path {
    let candidate = explanation.candidates.iter().find(|candidate| candidate.path == index);
    let known = args.remaining != Bytes::MAX;
    let why = match candidate {
        None => match explanation.not_weighed.iter().find(|(path, _)| *path == index) {
            Some((_, Reason::Backup)) => "a backup, and another path is usable".to_owned(),
            Some((_, Reason::Unusable)) => "not usable".to_owned(),
            _ => "not weighed".to_owned(),
        },
        Some(candidate) if candidate.contributions.is_empty() => "the fastest path".to_owned(),
        Some(_) if !known => "the size is unknown, so every path is selected".to_owned(),
        Some(candidate) => {
            let faster = candidate.contributions.iter().map(|part| {
                format!(
                    "path {} {} in {} round trips",
                    part.path + 1,
                    output::size(part.bytes.0),
                    output::digits(part.ratio)
                )
            });
            let faster = faster.collect::<Vec<_>>().join(", ");
            let relation = if candidate.enough { "enough for" } else { "less than" };
            let remaining = args.remaining;
            match (candidate.chosen, candidate.enough) {
                (false, false) => format!("slower than a path that is not needed ({faster})"),
                _ => format!(
                    "within its RTT the faster paths deliver {}, {relation} {remaining} ({faster})",
                    output::size(candidate.predicted.0)
                ),
            }
        }
    };
    Path {
        path: index + 1,
        rate_bps: path.rate.map(|rate| rate.0),
        rtt_s: path.rtt.as_secs_f64(),
        loss: path.loss,
        cwnd: path.cwnd,
        ssthresh: path.ssthresh,
        selected: explanation.selection.contains(index),
        faster_deliver_bytes: candidate.map(|candidate| candidate.predicted.0),
        why,
    }
}

fn text(args: &Args, output: &Output) -> String {
    let mut table = Table::new()
        .column("path", Align::Right)
        .column("RTT", Align::Right)
        .column("window", Align::Right)
        .column("threshold", Align::Right)
        .column("loss", Align::Right)
        .column("faster deliver", Align::Right)
        .column("taken", Align::Left);
    let mut reasons = String::new();
    for (path, parsed) in output.paths.iter().zip(&args.paths) {
        table.row(vec![
            path.path.to_string(),
            parsed.rtt.to_string(),
            path.cwnd.to_string(),
            path.ssthresh.map_or("inf".to_owned(), |segments| segments.to_string()),
            units::show_percent(path.loss),
            match path.faster_deliver_bytes {
                Some(bytes) if bytes > 0 => output::size(bytes),
                _ => "-".to_owned(),
            },
            if path.selected { paint(GOOD, "yes") } else { "no".to_owned() },
        ]);
        reasons.push_str(&wrap(&format!("path {}: {}", path.path, path.why), terminal::text_width()));
    }
    let names: Vec<String> = output.selected.iter().map(usize::to_string).collect();
    let remaining = match output.remaining_bytes {
        Some(bytes) => format!("the remaining {}", Bytes(bytes)),
        None => "a flow of unknown size".to_owned(),
    };
    let sentence = match names.as_slice() {
        [one] => format!("DMPTCP sends {remaining} on path {one} alone."),
        names => format!("DMPTCP sends {remaining} on paths {}.", names.join(", ")),
    };
    format!("{}\n{reasons}\n{}", table.render(terminal::width()), wrap(&sentence, terminal::text_width()))
}
