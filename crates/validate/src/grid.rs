//! The fixed set of points: some that were chosen, and more that were drawn at random once.
//!
//! A line of `drawn.txt` has the sender (`tcp` or `reno` over the first path, `mptcp` over all), the paths,
//! the size of a flow, and options: `down` (the server sends), `flows=N`, `ipv6`, `cross=PATH` (an infinite
//! TCP flow over that path), `shared=RATE` (a link of that rate that all paths share), `window=SIZE` (the
//! receive buffer), `first=PATH` (of the initial subflow). A path is `RATE,RTT[,queue=Q][,loss=P]`; `lte`
//! instead of the rate is the built-in trace, from a random position in each run.
//!
//! A later line begins with its kind, one of [`KINDS`], and has more. A path also has `up=RATE` (of uploads, where that
//! differs), `down=FROM[-TO]` (an outage), `noticed=FROM-TO` (one that the host notices), `then=RATE@TIME` (another rate
//! from then on), `bursts=GOOD-BAD-LOSS` (mean lengths of the states, and the loss of the bad one), `jitter=MAX` (packets
//! may overtake others), `late=SHARE-TIME` (packets that are later) and `backup`. Instead of a size there are the classes
//! of traffic, with ` & ` between them: a size, `onoff:RATE,ON,OFF,DURATION`, `video:BITRATE,SEGMENT,DURATION`,
//! `requests:SIZE,THINK,NUMBER` or `udp:RATE,DURATION`, with ` @PATH` of a plain TCP or of datagrams, and ` up`
//! against ` down` of the line. `crates/validate/tests/draw.rs` has drawn all lines.

use anabranch_lab::scenario::{Document, Scenario};

use crate::points::{Point, PointError, Sender, Set};

/// One line of the grid: its sender, its paths and its sizes.
struct Line(&'static str, &'static [&'static str], &'static str);

/// The grid: every sender with every rate, round-trip time, queue, size, and loss.
const GRID: &[Line] = &[
    Line("reno", &["5Mbit/s,10ms,queue=4bdp"], "16KB"),
    Line("reno", &["25Mbit/s,50ms,queue=1bdp"], "1MB"),
    Line("reno", &["100Mbit/s,10ms,queue=0.5bdp"], "8MB"),
    Line("reno", &["25Mbit/s,10ms,queue=1bdp,loss=1%"], "1MB"),
    Line("reno", &["100Mbit/s,50ms,queue=4bdp,loss=0.1%"], "bulk"),
    Line("reno", &["5Mbit/s,200ms,queue=0.5bdp,loss=2%"], "128KB"),
    Line("cubic", &["100Mbit/s,200ms,queue=1bdp"], "16KB"),
    Line("cubic", &["25Mbit/s,200ms,queue=4bdp"], "128KB"),
    Line("cubic", &["5Mbit/s,50ms,queue=0.5bdp"], "1MB"),
    Line("cubic", &["100Mbit/s,50ms,queue=1bdp"], "8MB"),
    Line("cubic", &["25Mbit/s,10ms,queue=4bdp,loss=0.1%"], "bulk"),
    Line("cubic", &["25Mbit/s,10ms,queue=1bdp,loss=2%"], "1MB"),
    Line("mptcp", &["5Mbit/s,50ms,queue=1bdp", "5Mbit/s,50ms,queue=1bdp"], "128KB"),
    Line("mptcp", &["25Mbit/s,10ms,queue=0.5bdp", "25Mbit/s,10ms,queue=0.5bdp"], "1MB"),
    Line("mptcp", &["25Mbit/s,50ms,queue=1bdp", "25Mbit/s,50ms,queue=1bdp"], "8MB"),
    Line("mptcp", &["50Mbit/s,50ms,queue=1bdp", "50Mbit/s,50ms,queue=1bdp"], "bulk"),
    Line("mptcp", &["25Mbit/s,10ms,queue=1bdp,loss=1%", "25Mbit/s,10ms,queue=1bdp,loss=1%"], "1MB"),
    Line("mptcp", &["5Mbit/s,200ms,queue=4bdp", "5Mbit/s,200ms,queue=4bdp"], "16KB"),
    Line("mptcp", &["25Mbit/s,20ms,queue=1bdp", "100Mbit/s,40ms,queue=1bdp"], "bulk"),
    Line("mptcp", &["25Mbit/s,10ms,queue=1bdp", "5Mbit/s,200ms,queue=1bdp"], "1MB"),
    Line("mptcp", &["100Mbit/s,10ms,queue=4bdp", "25Mbit/s,50ms,queue=4bdp"], "8MB"),
    Line("mptcp", &["25Mbit/s,50ms,queue=0.5bdp,loss=0.1%", "5Mbit/s,10ms,queue=0.5bdp,loss=0.1%"], "bulk"),
    Line("mptcp", &["5Mbit/s,10ms,queue=1bdp,loss=2%", "25Mbit/s,200ms,queue=1bdp,loss=2%"], "128KB"),
    Line("mptcp", &["100Mbit/s,50ms,queue=0.5bdp", "5Mbit/s,10ms,queue=0.5bdp"], "16KB"),
];

/// Thirty web-like downloads that start together: the ends of short flows coincide with full queues.
const TOGETHER: &[Line] = &[
    Line("cubic", &["100Mbit/s,10ms,queue=1bdp"], "web"),
    Line("mptcp", &["100Mbit/s,10ms,queue=1bdp", "100Mbit/s,10ms,queue=1bdp"], "web"),
];

/// The number of those flows.
const TOGETHER_FLOWS: &str = "30";

/// The lines of the grid, from 0, of `--quick`: transfers of less than 2 s that do not depend on one packet for
/// their end.
const QUICK: &[usize] = &[1, 6, 11, 14, 19];

/// The contents of `drawn.txt`.
pub const DRAWN: &str = include_str!("../drawn.txt");
/// The duration of an infinite flow in the drawn points.
const BULK: &str = "5 s";

/// The time limit of the later points: a transfer that a stack does not resume must not take a minute.
const DEADLINE: &str = "20 s";

/// The delay of the flows after a background flow.
const CROSS_FIRST: &str = "2 s";

/// A subset of the points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All points.
    All,
    /// The points drawn at random.
    Drawn,
    /// The chosen points.
    Chosen,
}

/// Returns the points of the grid, the chosen ones first.
///
/// # Errors
/// None, unless there is a bug.
pub fn grid(which: Which) -> Result<Vec<Point>, PointError> {
    let mut points = Vec::new();
    if which != Which::Drawn {
        let lines = GRID.iter().map(|line| (line, false)).chain(TOGETHER.iter().map(|line| (line, true)));
        for (line, together) in lines {
            points.extend(Point::of(chosen(line, together)?)?);
        }
    }
    if which != Which::Chosen {
        for line in DRAWN.lines().filter(|line| !line.starts_with('#')) {
            let (kind, scenario) = match line.split_once(": ") {
                Some((kind, line)) => (kind.to_owned(), with_classes(kind, line)?),
                None => (String::new(), drawn(line)?),
            };
            let drawn = Point::of(scenario)?.into_iter();
            points.extend(drawn.map(|point| Point { set: Set::Drawn, group: kind.clone(), ..point }));
        }
    }
    for point in points.iter_mut().filter(|point| point.group.is_empty()) {
        let plain = if matches!(point.sender, Sender::Tcp { .. }) { 0 } else { 1 };
        point.group = KINDS[plain].0.to_owned();
    }
    Ok(points)
}

/// The kinds of points, each with its description in summaries.
pub const KINDS: [(&str, &str); 8] = [
    ("tcp", "plain transfers, TCP"),
    ("mptcp", "plain transfers, Multipath TCP"),
    ("losses", "bursts of losses and reordering"),
    ("fat", "rate x RTT above 4 MB"),
    ("failures", "outages, returns and changes of rates"),
    ("backups", "backups"),
    ("streams", "streams, video and requests"),
    ("classes", "several classes, and UDP beside"),
];

/// Returns the points of the grid for `--quick`.
///
/// # Errors
/// None, unless there is a bug.
pub fn quick() -> Result<Vec<Point>, PointError> {
    let grid = grid(Which::Chosen)?;
    Ok(QUICK.iter().filter_map(|at| grid.get(*at).cloned()).collect())
}

fn wrong(error: anabranch_lab::ScenarioError) -> PointError {
    PointError(error.to_string())
}

/// Returns the scheduler and the congestion control of a sender.
fn sender(name: &str) -> (&'static str, &'static str) {
    match name {
        "reno" => ("tcp@1", "newreno"),
        "cubic" | "tcp" => ("tcp@1", "cubic_linux"),
        _ => ("linux", "cubic_linux"),
    }
}

fn chosen(Line(name, paths, size): &Line, together: bool) -> Result<Scenario, PointError> {
    let mut document = Document::bare();
    let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
    document.set_paths(&paths).map_err(wrong)?;
    document.set_size("--size", size);
    let (scheduler, congestion) = sender(name);
    document.set_schedulers("--schedulers", &[scheduler.to_owned()]);
    document.set_option("--cc", "congestion", congestion);
    document.set_option("--set", "traffic.direction", if together { "download" } else { "upload" });
    let mut size = (*size).to_owned();
    if together {
        document.set_flows("--flows", TOGETHER_FLOWS);
        size = format!("{TOGETHER_FLOWS} {size} down");
    }
    let mut scenario = document.scenario().map_err(wrong)?;
    scenario.name = point_name(name, &paths, &size);
    Ok(scenario)
}

/// Returns the scenario of a line of `drawn.txt`.
fn drawn(line: &str) -> Result<Scenario, PointError> {
    let odd = |what: &str| PointError(format!("`{line}`: {what}"));
    let parts: Vec<&str> = line.split('|').map(str::trim).collect();
    let [name, paths, size, more] = parts[..] else { return Err(odd("four parts are needed")) };
    let (scheduler, congestion) = sender(name);
    let mut text = format!("schedulers = ['{scheduler}']\ncongestion = '{congestion}'\n");
    let mut traffic = format!("size = '{size}'\n");
    let mut direction = "upload";
    for item in more.split_whitespace() {
        match item.split_once('=').unwrap_or((item, "")) {
            ("down", "") => direction = "download",
            ("ipv6", "") => text.push_str("ipv6 = true\n"),
            ("flows", flows) => traffic.push_str(&format!("flows = {flows}\n")),
            // It has left its slow start by then.
            ("cross", path) => {
                traffic.push_str(&format!("background = [{{ path = '{path}' }}]\nstart = '{CROSS_FIRST}'\n"))
            }
            ("shared", rate) => {
                text.push_str(&format!("topology = {{ kind = 'shared', rate = '{rate}' }}\n"));
            }
            ("window", size) => text.push_str(&format!("connection = {{ receive-buffer = '{size}' }}\n")),
            ("first", path) => text.push_str(&format!("initial = '{path}'\n")),
            _ => return Err(odd(item)),
        }
    }
    if size == "bulk" {
        traffic.push_str(&format!("duration = '{BULK}'\n"));
    }
    let paths: Vec<String> = paths.split(" + ").map(str::to_owned).collect();
    for path in &paths {
        text.push_str(&format!("[[path]]\n{}", path_table(path).ok_or_else(|| odd(path))?));
    }
    text.push_str(&format!("[traffic]\ndirection = '{direction}'\n{traffic}"));
    let document = Document::built_in(line, text).map_err(wrong)?;
    let mut scenario = document.scenario().map_err(wrong)?;
    scenario.name = format!("{} {more}", point_name(name, &paths, size)).trim_end().to_owned();
    Ok(scenario)
}

/// Returns the scenario of a line of `drawn.txt` that has a kind.
fn with_classes(kind: &str, line: &str) -> Result<Scenario, PointError> {
    let odd = |what: &str| PointError(format!("`{line}`: {what}"));
    if !KINDS.iter().any(|(name, _)| *name == kind) {
        return Err(odd(kind));
    }
    let parts: Vec<&str> = line.split('|').map(str::trim).collect();
    let [name, paths, classes, more] = parts[..] else { return Err(odd("four parts are needed")) };
    let (scheduler, congestion) = sender(name);
    let mut text =
        format!("schedulers = ['{scheduler}']\ncongestion = '{congestion}'\ndeadline = '{DEADLINE}'\n");
    let mut direction = "upload";
    for item in more.split_whitespace() {
        match item.split_once('=').unwrap_or((item, "")) {
            ("down", "") => direction = "download",
            ("first", path) => text.push_str(&format!("initial = '{path}'\n")),
            _ => return Err(odd(item)),
        }
    }
    for path in paths.split(" + ") {
        text.push_str(&format!("[[path]]\n{}", changing_path(path).ok_or_else(|| odd(path))?));
    }
    let classes: Vec<&str> = classes.split(" & ").collect();
    for (number, class) in classes.iter().enumerate() {
        let own = class_table(class, direction).ok_or_else(|| odd(class))?;
        match classes.len() {
            // A transfer by itself is no class.
            1 => text.push_str(&format!("[traffic]\n{own}")),
            _ => text.push_str(&format!("[[traffic]]\nname = '{}'\n{own}", number + 1)),
        }
    }
    let document = Document::built_in(line, text).map_err(wrong)?;
    let mut scenario = document.scenario().map_err(wrong)?;
    let short = |text: &str| text.replace("Mbit/s", "M").replace("queue=", "").replace("bdp", "");
    let name = format!("{name} {} {} {more}", short(paths).replace(',', "/"), short(&classes.join(" & ")));
    scenario.name = name.replace(',', "/").trim_end().to_owned();
    Ok(scenario)
}

/// Returns the keys of a path with impairments and changes.
fn changing_path(path: &str) -> Option<String> {
    let mut parts = path.split(',');
    let (rate, rtt) = (parts.next()?, parts.next()?);
    let (mut text, mut rates, mut changes) =
        (format!("rtt = '{rtt}'\n"), format!("rate = '{rate}'\n"), Vec::new());
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let mut ends = value.split('-');
        let mut end = || ends.next().unwrap_or_default();
        match key {
            "up" => rates = format!("rate = {{ down = '{rate}', up = '{value}' }}\n"),
            "down" | "noticed" => {
                let notice = if key == "noticed" { ", notify-after = '20 ms'" } else { "" };
                changes.push(format!("{{ at = '{}', down = true{notice} }}", end()));
                if let Some(to) = value.split('-').nth(1) {
                    changes.push(format!("{{ at = '{to}', up = true{notice} }}"));
                }
            }
            "then" => {
                let (rate, at) = value.split_once('@')?;
                changes.push(format!("{{ at = '{at}', rate = '{rate}' }}"));
            }
            "bursts" => text.push_str(&format!(
                "gilbert-elliott = {{ mean-good = '{}', mean-bad = '{}', loss-bad = '{}' }}\n",
                end(),
                end(),
                end()
            )),
            "jitter" => text.push_str(&format!("jitter = {{ max = '{value}', reorder = true }}\n")),
            "late" => {
                text.push_str(&format!("reorder = {{ probability = '{}', extra = '{}' }}\n", end(), end()));
            }
            "backup" => text.push_str("backup = true\n"),
            "queue" | "loss" => text.push_str(&format!("{key} = '{value}'\n")),
            _ => return None,
        }
    }
    if !changes.is_empty() {
        text.push_str(&format!("change = [{}]\n", changes.join(", ")));
    }
    Some(rates + &text)
}

/// Returns the keys of a class of traffic.
fn class_table(class: &str, direction: &str) -> Option<String> {
    let mut words = class.split(' ');
    let what = words.next()?;
    let (kind, values) = what.split_once(':').unwrap_or(("transfer", what));
    let values: Vec<&str> = values.split(',').collect();
    let (mut direction, mut path) = (direction, String::new());
    for word in words {
        match word.strip_prefix('@') {
            Some(number) if kind == "udp" => path = format!("path = '{number}'\n"),
            Some(number) => path = format!("via = 'tcp'\npath = '{number}'\n"),
            None if word == "up" => direction = "upload",
            None => return None,
        }
    }
    let own = match (kind, values.as_slice()) {
        ("transfer", [size]) => format!("size = '{size}'\ndirection = '{direction}'\n"),
        ("onoff", [rate, on, off, duration]) => format!(
            "kind = 'on-off'\nrate = '{rate}'\non = '{on}'\noff = '{off}'\nduration = '{duration}'\n\
             direction = '{direction}'\n"
        ),
        ("video", [bitrate, segment, duration]) => format!(
            "kind = 'video'\nbitrate = '{bitrate}'\nsegment = '{segment}'\nduration = '{duration}'\n\
             buffer = '2 s'\n"
        ),
        ("requests", [size, think, number]) => {
            format!("kind = 'requests'\nsize = '{size}'\nthink = '{think}'\nrequests = {number}\n")
        }
        ("udp", [rate, duration]) => {
            format!("kind = 'udp'\nrate = '{rate}'\nduration = '{duration}'\ndirection = '{direction}'\n")
        }
        _ => return None,
    };
    Some(own + &path)
}

/// Returns the keys of a path.
fn path_table(path: &str) -> Option<String> {
    let mut parts = path.split(',');
    let (rate, rtt) = (parts.next()?, parts.next()?);
    let mut text = match rate {
        "lte" => "trace = { down = 'traces/synthetic-lte.down', up = 'traces/synthetic-lte.up' }\n\
                  trace-start = 'random'\n"
            .to_owned(),
        rate => format!("rate = '{rate}'\n"),
    };
    text.push_str(&format!("rtt = '{rtt}'\n"));
    for part in parts {
        let (key, value) = part.split_once('=')?;
        text.push_str(&format!("{key} = '{value}'\n"));
    }
    Some(text)
}

/// Returns a name such as `mptcp 25M/10ms/0.5 + 25M/10ms/0.5 1MB`.
fn point_name(sender: &str, paths: &[String], size: &str) -> String {
    let path = |text: &String| {
        let short = text.replace("Mbit/s,", "M/").replace("lte,", "lte/").replace(",queue=", "/");
        short.replace("bdp", "").replace("packets", "p").replace(",loss=", "/")
    };
    format!("{sender} {} {size}", paths.iter().map(path).collect::<Vec<_>>().join(" + "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_lab::scenario::Form;

    #[test]
    fn a_line_is_read_as_it_says() {
        let line = "mptcp | 12Mbit/s,40ms,queue=1bdp + lte,60ms,queue=100packets,loss=1% | web | \
                    down flows=20 cross=2 shared=30Mbit/s window=64KB first=2 ipv6";
        let mut points = Point::of(drawn(line).unwrap()).unwrap();
        let point = points.remove(0);
        let name = "mptcp 12M/40ms/1 + lte/60ms/100p/1% web down flows=20 cross=2 shared=30Mbit/s window=64KB first=2 ipv6";
        assert_eq!(point.name, name);
        let experiment = point.experiment();
        assert!(experiment.ipv6 && point.is_download() && point.flows() == 20 && point.initial() == 1);
        assert!(
            experiment.graph.form == Form::Paths { shared: true }
                && experiment.traffic.background[0].path == 1
        );
        assert_eq!(point.kernel.receive_buffer, Some(64_000));
        assert!(drawn("mptcp | 12Mbit/s,40ms | web | up").is_err());
    }

    #[test]
    fn a_line_with_a_kind_is_read_as_it_says() {
        let line = "mptcp | 12Mbit/s,40ms,queue=1bdp,up=2Mbit/s,down=0.5s-1.5s,jitter=4ms + \
                    5Mbit/s,20ms,noticed=1s-2s,bursts=2s-50ms-30%,backup + 9Mbit/s,9ms,then=3Mbit/s@0.4s,late=2%-10ms | \
                    onoff:2Mbit/s,300ms,200ms,2s & 100KB @2 & udp:1Mbit/s,1s @1 & 50KB up | down first=3";
        let point = Point::of(with_classes("failures", line).unwrap()).unwrap().remove(0);
        let experiment = point.experiment();
        assert!(point.initial() == 2 && experiment.paths()[1].backup && !point.is_plain());
        let names: Vec<_> = experiment.classes.iter().map(|class| class.kind.name()).collect();
        assert_eq!(names, ["on-off", "transfer", "udp", "transfer"]);
        let signals: Vec<_> = experiment.signals().iter().map(|(path, own)| (*path, own.up)).collect();
        assert_eq!(signals, [(1, false), (1, true)]);
        let rates = |at: usize| {
            let path = &experiment.paths()[at];
            [&path.data, &path.acks].map(|routes| experiment.graph.links[routes[0][0]].mean_rate().0)
        };
        assert_eq!((rates(0), rates(1)), ([12_000_000, 2_000_000], [5_000_000, 5_000_000]));
        assert!(!point.name.contains(','), "{}", point.name);
        let plain = Point::of(with_classes("tcp", "tcp | 5Mbit/s,20ms | 100KB | down").unwrap()).unwrap();
        assert!(plain[0].is_plain() && plain[0].is_download());
        assert!(with_classes("other", "tcp | 5Mbit/s,20ms | 100KB |").is_err());
        assert!(with_classes("tcp", "tcp | 5Mbit/s,20ms,odd=1 | 100KB |").is_err());
    }

    #[test]
    fn every_kind_has_points_and_most_of_the_drawn_ones_are_new() {
        let points = grid(Which::Drawn).unwrap();
        assert!(points.len() >= 124, "{}", points.len());
        for (kind, _) in KINDS {
            let count = points.iter().filter(|point| point.group == kind).count();
            assert!(count >= 6, "{kind}: {count}");
        }
    }

    #[test]
    fn every_sender_meets_every_rate_round_trip_queue_and_size_and_loss() {
        assert!(GRID.len() <= 24);
        for sender in ["reno", "cubic", "mptcp"] {
            let lines: Vec<&Line> = GRID.iter().filter(|line| line.0 == sender).collect();
            let path = |part: &str| lines.iter().any(|line| line.1.iter().any(|path| path.contains(part)));
            for part in ["5Mbit/s,", "25Mbit/s,", "100Mbit/s,", ",10ms", ",50ms", ",200ms"] {
                assert!(path(part), "{sender} {part}");
            }
            for part in ["queue=0.5bdp", "queue=1bdp", "queue=4bdp", "loss=0.1%", "loss=2%"] {
                assert!(path(part), "{sender} {part}");
            }
            for size in ["16KB", "128KB", "1MB", "8MB", "bulk"] {
                assert!(lines.iter().any(|line| line.2 == size), "{sender} {size}");
            }
        }
        let equal = |line: &Line| line.1.len() == 2 && line.1[0] == line.1[1];
        assert!(GRID.iter().filter(|line| equal(line)).count() >= 6);
        assert!(GRID.iter().filter(|line| line.1.len() == 2 && !equal(line)).count() >= 6);
    }
}
