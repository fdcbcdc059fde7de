//! A scenario with the paths, the queues, the losses and the flow of a connection, as TOML for `anabranch run`.

use std::fmt::Write as _;

use crate::application::{Application, Pattern, Turn};
use crate::estimate::{Estimate, Outage, PathEstimate, RatePhase, RateSource};
use crate::result::{ConnectionReport, ProtocolName, StreamReport, SubflowReport};

/// The reason that a connection has no scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoScenario(String);

impl std::fmt::Display for NoScenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoScenario {}

/// The least queue of a path: a burst of an initial window fits.
const LEAST_QUEUE: u64 = 15_000;
/// The least time between the handshake and a subflow that began late, in seconds.
const LEAST_DELAY_S: f64 = 0.1;
/// The least bytes of a connection that can be simulated.
const LEAST_BYTES: u64 = 1_000;
/// The last time of a scenario, in seconds: a scenario has no times beyond a day.
const MOST_S: f64 = 80_000.0;
/// The longest round trip of a path, in seconds.
const MOST_RTT_S: f64 = 3_600.0;
/// The most bytes of bursts; the simulator limits their blocks.
const MOST_BURST_BYTES: u64 = 7_000_000_000;
/// The range of the rates and the largest queue.
const RATES: (f64, f64) = (1.0, 1e12);
const MOST_QUEUE: u64 = 1 << 40;

/// A path of the scenario, from the subflows between the same addresses.
struct Path<'a> {
    subflow: &'a SubflowReport,
    estimate: &'a PathEstimate,
    rate: Estimate,
    rtt: Estimate,
}

/// The scenario of a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The file.
    pub toml: String,
    /// The same with the first contender only, and with the packets that were lost at random listed by their numbers.
    pub replay: String,
    /// The subflow of each path, as a place in [`ConnectionReport::subflows`].
    pub paths: Vec<usize>,
    /// The direction of the data: 0 from the client.
    pub direction: usize,
    /// The bytes of the flow.
    pub bytes: u64,
    /// The turns of the application that the scenario has, from the first one.
    pub turns: usize,
}

/// Writes the scenario of `report`, captured in `file`. The first contender has `scheduler` and `congestion`.
///
/// # Errors
/// If too little was sent to know a path.
pub fn scenario(
    report: &ConnectionReport,
    file: &str,
    scheduler: &str,
    congestion: &str,
) -> Result<Draft, NoScenario> {
    let direction = report.main_direction();
    let stream = &report.streams[direction];
    let number = report.number;
    if stream.delivered_bytes < LEAST_BYTES {
        return Err(NoScenario(format!(
            "connection {number} delivered {} bytes in its larger direction, too few to know its paths; choose another \
             one with --connection, or capture a transfer of at least 100 KB",
            stream.delivered_bytes
        )));
    }
    let known = |(at, subflow): (usize, &'_ _)| {
        let subflow: &SubflowReport = subflow;
        let estimate = subflow.directions[direction].path.as_ref()?;
        let (rate, rtt) = (estimate.rate_bps?, estimate.rtt_s?);
        (rate.value > 0.0 && rtt.value <= MOST_RTT_S).then_some((at, rate, rtt))
    };
    let places: Vec<(usize, Estimate, Estimate)> =
        report.subflows.iter().enumerate().filter_map(|(at, subflow)| known((at, subflow))).collect();
    let paths: Vec<(usize, Path<'_>)> = places
        .into_iter()
        .filter_map(|(at, mut rate, rtt)| {
            let subflow = report.subflows.get(at)?;
            let estimate = subflow.directions[direction].path.as_ref()?;
            // A path that was never full has space for more than an application that wrote slowly: its packets are no pairs.
            if let Some(written) = report.application.rate_bps
                && estimate.rate_source != RateSource::BusyPeriods
            {
                rate.value = rate.value.max(4.0 * written);
            }
            Some((at, Path { subflow, estimate, rate, rtt }))
        })
        .take(8)
        .collect();
    if paths.is_empty() {
        return Err(NoScenario(format!(
            "no subflow of connection {number} carried enough data to know its rate and its round trip; capture a \
             transfer of at least 100 KB from its beginning"
        )));
    }
    let traffic = traffic(report, direction, &paths);
    let text =
        |replay: bool| write(report, file, (scheduler, congestion), direction, &paths, (&traffic, replay));
    let places = paths.iter().map(|(at, _)| *at).collect();
    Ok(Draft {
        toml: text(false),
        replay: text(true),
        paths: places,
        direction,
        bytes: stream.delivered_bytes,
        turns: traffic.turns,
    })
}

/// The traffic of a scenario.
struct Traffic {
    toml: String,
    pattern: Pattern,
    turns: usize,
}

/// Writes the file with this traffic; with `replay` for the first contender and the losses of the capture.
fn write(
    report: &ConnectionReport,
    file: &str,
    (scheduler, congestion): (&str, &str),
    direction: usize,
    paths: &[(usize, Path<'_>)],
    (traffic, replay): (&Traffic, bool),
) -> String {
    let number = report.number;
    let mut toml = String::new();
    // Text of a file name must not end the comment.
    let name: String = file.chars().filter(|c| !c.is_control()).collect();
    line(&mut toml, &format!("# Connection {number} of {name}, as `anabranch inspect` read it."));
    line(&mut toml, "# Each value has the range in which it probably is, and the figure from which it came.");
    line(&mut toml, "");
    let names: Vec<String> = paths.iter().map(|(at, _)| format!("path{}", at + 1)).collect();
    let others: &[&str] = match report.protocol {
        _ if replay => &[],
        ProtocolName::Mptcp if paths.len() > 1 => &["tcp", "linux", "min_rtt", "blest", "ecf", "dmptcp"],
        ProtocolName::Mptcp => &["tcp", "linux"],
        _ => &["tcp"],
    };
    let mut schedulers: Vec<String> = vec![format!("\"{scheduler}\"")];
    schedulers.extend(others.iter().filter(|other| **other != scheduler).map(|other| format!("\"{other}\"")));
    line(&mut toml, &format!("schedulers = [{}]", schedulers.join(", ")));
    line(&mut toml, &format!("reference = \"{scheduler}\""));
    line(&mut toml, &format!("congestion = \"{congestion}\""));
    let deadline = (3.0 * report.duration_s).clamp(60.0, 86_400.0);
    if traffic.pattern != Pattern::Transfer || deadline > 60.0 {
        line(&mut toml, &format!("deadline = \"{:.0} s\"", deadline.ceil()));
    }
    if paths.len() > 1 {
        line(&mut toml, &format!("initial = \"{}\" # the subflow of the handshake", names[0]));
    }
    for ((_, path), name) in paths.iter().zip(&names) {
        toml.push('\n');
        let sides = match (traffic.pattern, direction) {
            // Its responses are downloads, which decide what the data of a path is.
            (Pattern::Requests, 0) => ["up", "down"],
            _ => ["data", "acks"],
        };
        write_path(&mut toml, path, (name, sides), join_delay(report, path), replay);
    }
    toml.push('\n');
    toml.push_str(&traffic.toml);
    toml
}

/// Returns the traffic of a connection over these paths.
fn traffic(report: &ConnectionReport, direction: usize, paths: &[(usize, Path<'_>)]) -> Traffic {
    let application = &report.application;
    let network: f64 = paths.iter().map(|(_, path)| path.rate.value).sum();
    let turns = match application.pattern {
        Pattern::Requests => requests(application),
        Pattern::Bursts => bursts(application, direction, network),
        Pattern::Transfer | Pattern::BothWays => None,
    };
    if let Some((toml, turns)) = turns {
        return Traffic { toml, pattern: application.pattern, turns };
    }
    let mut toml = String::new();
    let stream = &report.streams[direction & 1];
    if application.pattern == Pattern::BothWays {
        line(
            &mut toml,
            "# Both hosts sent at the same time. In a simulation each direction has a connection.",
        );
        for direction in [direction, direction ^ 1] {
            let words = WORDS[direction & 1];
            line(&mut toml, "[[traffic]]");
            line(&mut toml, &format!("name = \"{words}\""));
            write_transfer(&mut toml, &report.streams[direction & 1], words);
        }
        return Traffic { toml, pattern: Pattern::BothWays, turns: 0 };
    }
    line(&mut toml, "[traffic]");
    write_transfer(&mut toml, stream, WORDS[direction & 1]);
    if let Some(bursts) = stream.bursts.filter(|bursts| *bursts > 3) {
        let pauses = bursts - 1;
        let text = format!(
            "# The sender paused {pauses} times with nothing in flight, but not for long; the scenario sends without pauses."
        );
        line(&mut toml, &text);
    }
    Traffic { toml, pattern: Pattern::Transfer, turns: 0 }
}

const WORDS: [&str; 2] = ["upload", "download"];

fn write_transfer(toml: &mut String, stream: &StreamReport, words: &str) {
    line(
        toml,
        &format!("size = \"{} B\" # delivered in {:.3} s", stream.delivered_bytes.max(1), stream.time_s),
    );
    line(toml, &format!("direction = \"{words}\""));
}

/// Returns the turns within the limits of a scenario, and a phrase for them; none if that is less than two.
fn within(application: &Application, most_bytes: u64) -> Option<(&[Turn], String)> {
    let mut bytes = 0_u64;
    let fits = |turn: &&Turn| {
        bytes = bytes.saturating_add(turn.up_bytes).saturating_add(turn.down_bytes);
        bytes <= most_bytes && turn.at_s + turn.wait_s + turn.time_s < MOST_S
    };
    let count = application.turns.iter().take_while(fits).count();
    let turns = application.turns.get(..count).filter(|turns| turns.len() >= 2)?;
    let is_all = count == application.turns.len() && !application.is_cut;
    Some((
        turns,
        format!(
            "{count}, {}",
            if is_all { "in the order of the capture" } else { "the first of the connection" }
        ),
    ))
}

/// Returns a class of requests, with the sizes and pauses of the capture, and their number; none if it is not within the limits.
fn requests(application: &Application) -> Option<(String, usize)> {
    let (turns, phrase) = within(application, u64::MAX)?;
    let sizes = |of: &dyn Fn(&Turn) -> u64| -> Vec<String> {
        turns.iter().map(|turn| format!("{} B", of(turn).max(1))).collect()
    };
    let think: Vec<f64> = turns.iter().skip(1).map(|turn| turn.pause_s + turn.wait_s).collect();
    let mut toml = String::new();
    line(&mut toml, "[traffic]");
    line(&mut toml, "kind = \"requests\"");
    line(&mut toml, &format!("request = {} # {phrase}", sequence(sizes(&|turn| turn.up_bytes))));
    line(&mut toml, &format!("size = {} # of the responses", sequence(sizes(&|turn| turn.down_bytes))));
    line(
        &mut toml,
        &format!(
            "think = {} # {:.3} s in all: from a response to the next request, and until the server answered it",
            times(&think, MICROSECONDS),
            think.iter().sum::<f64>()
        ),
    );
    line(&mut toml, &format!("requests = {}", turns.len()));
    Some((toml, turns.len()))
}

/// Returns a class that sends and pauses as in the capture, over paths with the rate `network` together, and the number of its bursts;
/// none if it is not within the limits.
fn bursts(application: &Application, direction: usize, network: f64) -> Option<(String, usize)> {
    let (turns, phrase) = within(application, MOST_BURST_BYTES)?;
    let bytes = |turn: &Turn| (if direction == 0 { turn.up_bytes } else { turn.down_bytes }) as f64;
    let rate = application.rate_bps.unwrap_or((4.0 * network).max(1e9)).clamp(1e3, RATES.1);
    let rate = (rate / 1e3).round() * 1e3;
    // The sender writes a block at the begin and after each interval, so its last one in the middle of an interval is in any case written.
    let blocks = |turn: &Turn| (bytes(turn) / BLOCK).round().max(1.0);
    let on: Vec<f64> = turns.iter().map(|turn| (blocks(turn) - 0.5) * BLOCK * 8.0 / rate).collect();
    let mut off: Vec<f64> =
        turns.windows(2).zip(&on).map(|(two, on)| (two[1].at_s - two[0].at_s - on).max(1e-3)).collect();
    let idle: f64 = turns.iter().map(|turn| turn.pause_s).sum();
    let span: f64 = on.iter().chain(&off).sum();
    off.push(1.0);
    let source = match application.rate_bps {
        Some(_) => "as the application wrote; the network had space for more",
        None => "more than the network had space for",
    };
    let mut toml = String::new();
    line(&mut toml, "[traffic]");
    line(&mut toml, "kind = \"on-off\"");
    line(&mut toml, &format!("direction = \"{}\"", WORDS[direction & 1]));
    line(&mut toml, &format!("rate = \"{} kbit/s\" # {source}", rate / 1e3));
    line(&mut toml, &format!("on = {} # {phrase}", times(&on, NANOSECONDS)));
    line(&mut toml, &format!("off = {} # {idle:.3} s without data in flight", times(&off, NANOSECONDS)));
    line(&mut toml, &format!("duration = \"{:.3} s\"", span + 0.5));
    (span < MOST_S).then_some((toml, turns.len()))
}

/// The bytes of a block that an on-off sender writes.
const BLOCK: f64 = 1400.0;

/// The resolution of times, as their number in a second.
const MICROSECONDS: f64 = 1e6;
const NANOSECONDS: f64 = 1e9;

/// Returns times in seconds as TOML.
fn times(seconds: &[f64], resolution: f64) -> String {
    let whole: Vec<f64> = seconds.iter().map(|seconds| (seconds * resolution).round()).collect();
    if whole.iter().all(|time| *time <= 0.0) {
        return "\"0 s\"".to_owned();
    }
    sequence(whole.iter().map(|time| format!("{} ms", time / (resolution / 1e3))).collect())
}

/// Returns values as TOML: one, or a sequence.
fn sequence(values: Vec<String>) -> String {
    match values.first() {
        Some(first) if values.iter().all(|value| value == first) => format!("\"{first}\""),
        _ => format!("{{ distribution = \"sequence\", values = [\"{}\"] }}", values.join("\", \"")),
    }
}

fn line(toml: &mut String, text: &str) {
    toml.push_str(text);
    toml.push('\n');
}

/// Returns the times since the begin of the connection at which an interface goes down and comes up so that a subflow begins as late as
/// in the capture; none if it began within three round trips and 0.1 s of the handshake. Lost SYNs are a part of the delay.
fn join_delay(report: &ConnectionReport, path: &Path<'_>) -> Option<(f64, f64)> {
    let connected = report.connected_s?;
    let lost = path.subflow.connected_s.map_or(0.0, |own| (own - path.rtt.value).max(0.0));
    let began = path.subflow.start_s - report.start_s + if path.subflow.syn_count > 1 { lost } else { 0.0 };
    let usual = connected + LEAST_DELAY_S.max(3.0 * path.rtt.value);
    // The client knows of the connection and has not joined yet.
    (began > usual && began < MOST_S).then_some((connected / 2.0, began))
}

/// Writes a path with its name; `sides` are the keys of its two directions, the direction of the estimate first.
fn write_path(
    toml: &mut String,
    path: &Path<'_>,
    (name, sides): (&str, [&str; 2]),
    delay: Option<(f64, f64)>,
    replay: bool,
) {
    let Path { subflow, estimate, rate, rtt } = path;
    line(toml, "[[path]]");
    line(toml, &format!("name = \"{name}\" # {} -> {}", subflow.from, subflow.to));
    let source = match estimate.rate_source {
        RateSource::BusyPeriods => format!("packets waited for {:.2} s in all", estimate.busy_s),
        source => source.name().to_owned(),
    };
    let first = estimate.rate_phases.first();
    match first {
        Some(first) if estimate.rate_varies => {
            let steps = estimate.rate_phases.len() - 1;
            line(
                toml,
                &rate_line(&first.rate_bps, &format!("at first; it varied, in {steps} changes below")),
            );
        }
        Some(first) => {
            line(toml, &rate_line(&first.rate_bps, &format!("until it changed, {}", waited(first))))
        }
        None => line(toml, &rate_line(rate, &source)),
    }
    line(
        toml,
        &format!(
            "rtt = \"{:.3} ms\" # {:.2} to {:.2} ms: the handshake and the least round trip of data, less their transmission",
            rtt.value * 1e3,
            rtt.low * 1e3,
            rtt.high * 1e3
        ),
    );
    let seen = estimate.queue_bytes.unwrap_or(0);
    let queue = if estimate.queue_was_full {
        (
            seen.clamp(3_000, MOST_QUEUE),
            format!(
                "full at {:.1} ms, where {} packets were lost",
                estimate.queue_s * 1e3,
                estimate.queue_losses
            ),
        )
    } else {
        // The queue was never full, so a larger one makes no difference.
        let queue = seen.saturating_mul(2).max(LEAST_QUEUE).max((rate.value * rtt.value / 4.0) as u64);
        (queue.min(MOST_QUEUE), format!("at least {:.1} ms: it was never full", estimate.queue_s * 1e3))
    };
    line(toml, &format!("queue = \"{} B\" # {}", queue.0, queue.1));
    let loss = estimate.random_loss;
    let percent = |share: f64| format!("{:.3}", share * 100.0);
    let text = format!(
        "{} to {} %: {} of {} packets were lost while the queue was not full",
        percent(loss.low),
        percent(loss.high),
        estimate.random_losses,
        estimate.packets
    );
    if replay && !estimate.random_drops.is_empty() {
        let numbers: Vec<String> = estimate.random_drops.iter().map(u64::to_string).collect();
        match sides {
            ["data", _] => line(toml, &format!("drop = [{}]", numbers.join(", "))),
            [side, _] => line(toml, &format!("drop = {{ {side} = [{}] }}", numbers.join(", "))),
        }
    } else if estimate.random_losses > 0 {
        let [data, acks] = sides;
        line(toml, &format!("loss = {{ {data} = \"{}%\", {acks} = \"0%\" }} # {text}", percent(loss.value)));
    } else {
        line(toml, &format!("# loss: {text}"));
    }
    if subflow.backup {
        line(toml, "backup = true # a host asked for it");
    }
    if let Some((down, up)) = delay {
        line(toml, "# Its subflow began late, so its interface comes up then.");
        for (at, state) in [(down, "down"), (up, "up")] {
            let _ =
                writeln!(toml, "[[path.change]]\nat = \"{at:.3} s\"\n{state} = true\nnotify-after = \"0 s\"");
        }
    }
    let of_phase = |phase: &RatePhase| match estimate.rate_varies {
        true => rate_step(phase),
        false => rate_change(phase),
    };
    let mut changes: Vec<(f64, [String; 2])> = estimate.rate_phases.iter().skip(1).map(of_phase).collect();
    changes.extend(estimate.outages.iter().flat_map(outage_changes));
    changes.retain(|(at, _)| *at < MOST_S);
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    for text in changes.iter().flat_map(|(_, lines)| lines) {
        line(toml, text);
    }
    if subflow.start_s > 0.0 && delay.is_none() {
        let _ = writeln!(toml, "# Its subflow began at {:.3} s.", subflow.start_s);
    }
}

/// Returns the change that begins a phase of the rate, with its time.
fn rate_change(phase: &RatePhase) -> (f64, [String; 2]) {
    let range = Estimate { value: phase.from_s, low: phase.from_low_s, high: phase.from_high_s };
    (phase.from_s, [at_line(&range, ""), rate_line(&phase.rate_bps, &waited(phase))])
}

/// Returns a change of a rate that varies.
fn rate_step(phase: &RatePhase) -> (f64, [String; 2]) {
    let at = format!("[[path.change]]\nat = \"{:.3} s\"", phase.from_s);
    (phase.from_s, [at, format!("rate = \"{}\"", rate_text(phase.rate_bps.value))])
}

/// Returns the changes that make an outage.
fn outage_changes(outage: &Outage) -> Vec<(f64, [String; 2])> {
    let source = match outage.packets {
        Some(packets) => format!(": {packets} packets in vain"),
        None => ": no data arrived until it was back".to_owned(),
    };
    let mut changes =
        vec![(outage.down_s.value, [at_line(&outage.down_s, &source), "down = true".to_owned()])];
    changes.extend(outage.up_s.map(|up| (up.value, [at_line(&up, ""), "up = true".to_owned()])));
    changes
}

/// Returns the lines that begin a change.
fn at_line(at: &Estimate, source: &str) -> String {
    format!("[[path.change]]\nat = \"{:.3} s\" # {:.2} to {:.2} s{source}", at.value, at.low, at.high)
}

/// Returns the line of a rate.
fn rate_line(rate: &Estimate, source: &str) -> String {
    let mega = |bps: f64| format!("{:.2}", bps / 1e6);
    let range = if rate.high.is_finite() {
        format!("{} to {}", mega(rate.low), mega(rate.high))
    } else {
        format!("{} or more", mega(rate.low))
    };
    format!("rate = \"{}\" # {range} Mbit/s: {source}", rate_text(rate.value))
}

/// Returns a rate with its unit; a scenario has no rate of 0.
fn rate_text(bps: f64) -> String {
    let bps = bps.clamp(RATES.0, RATES.1);
    if bps < 1e5 { format!("{} bit/s", bps.round()) } else { format!("{} kbit/s", (bps / 1e3).round()) }
}

/// Returns the source of the rate of a phase.
fn waited(phase: &RatePhase) -> String {
    format!("packets waited for {:.2} s", phase.busy_s)
}
