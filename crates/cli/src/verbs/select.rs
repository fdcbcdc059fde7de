//! `anabranch select`

use anabranch_lab::output::{Candidate, Selection};
use anabranch_lab::scenario::units;
use anabranch_units::{Bytes, Duration};

use crate::args::{Show, whole};
use crate::failure::Failure;
use crate::table::{Align, Table, wrap};
use crate::terminal::{GOOD, paint};
use crate::{output, terminal};

/// Shows the subflows that DMPTCP selects, and the reasons
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The paths, in order.
    #[arg(
        long = "path",
        value_name = "PATH",
        required = true,
        value_parser = parse_path,
        help = "A path: RATE,RTT[,loss=P][,cwnd=W][,ssthresh=S][,full][,backup]. The window is 10 segments unless \
                given, the threshold infinite. The rate is not used: the choice goes by windows and RTTs"
    )]
    paths: Vec<Candidate>,
    /// The bytes of the flow that were never assigned to any subflow, such as 40KB, or `unknown`
    #[arg(long, value_name = "SIZE", value_parser = parse_remaining)]
    remaining: Bytes,
    /// The payload of a segment, in bytes
    #[arg(long, value_name = "B", default_value_t = 1400, value_parser = whole::<u32>(1..=65_535))]
    mss: u32,
    #[command(flatten)]
    pub show: Show,
}

fn parse_remaining(text: &str) -> Result<Bytes, String> {
    match text {
        "unknown" => Ok(Bytes::MAX),
        text => units::parse_size(text).map_err(|error| error.to_string()),
    }
}

fn parse_path(text: &str) -> Result<Candidate, String> {
    let mut path = Candidate {
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

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let output = Selection::new(&args.paths, args.mss, args.remaining)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    if args.show.json { output::print_json(&output) } else { output::print(&text(args, &output)) }
}

fn text(args: &Args, output: &Selection) -> String {
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
