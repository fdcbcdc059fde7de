//! What is measured: one or more transfers over the paths of a scenario.

use anabranch_lab::run::sizes;
use anabranch_lab::scenario::Condition;
use anabranch_lab::scenario::{Direction, Document, Experiment, FlowSize, Scenario, Start, Transport};
use anabranch_stack::config::Profile;
use anabranch_units::{Duration, Time};

/// The kernel has no more subflows.
const MOST_PATHS: usize = 8;
/// Each flow takes two threads where the kernel is measured.
const MOST_FLOWS: u32 = 100;

/// Who sends in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A plain TCP over the path at this position.
    Tcp {
        /// The position, from 0.
        path: usize,
    },
    /// Multipath TCP over all paths.
    Multipath,
}

/// Transfers over the paths of a scenario that start together, often a single one.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its name in results.
    pub name: String,
    /// The scenario, made ready for this.
    pub scenario: Scenario,
    /// The position of the condition.
    pub condition: usize,
    /// The position of the contender.
    pub contender: usize,
    /// Who sends.
    pub sender: Sender,
    /// The kernel's congestion control.
    pub congestion: &'static str,
}

/// Why a scenario cannot be validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointError(pub String);

impl core::fmt::Display for PointError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PointError {}

impl Point {
    /// All points of `scenario`: every contender under every condition.
    ///
    /// # Errors
    /// If the kernel has nothing like it.
    pub fn of(mut scenario: Scenario) -> Result<Vec<Point>, PointError> {
        let name = scenario.name.clone();
        let wrong = |text: String| PointError(format!("scenario `{name}` cannot be validated: {text}"));
        let mut kinds = Vec::new();
        for condition in &scenario.conditions {
            check(&condition.experiment).map_err(wrong)?;
            for contender in 0..scenario.contenders.len() {
                let transport = &scenario.contenders[contender].transport;
                let sender = sender(transport, condition).map_err(wrong)?;
                let congestion = congestion(condition.configs[contender].congestion.name()).map_err(wrong)?;
                kinds.push((sender, congestion));
            }
        }
        let contenders = scenario.contenders.len();
        for condition in &mut scenario.conditions {
            for path in &mut condition.experiment.paths {
                // Senders whose handshakes and acknowledgements differ lose the same of their data.
                path.luck_apart = true;
            }
        }
        let all =
            (0..scenario.conditions.len()).flat_map(|condition| (0..contenders).map(move |c| (condition, c)));
        Ok(all
            .zip(&kinds)
            .map(|((condition, contender), (sender, congestion))| {
                let mut parts = vec![scenario.name.clone()];
                parts.push(scenario.conditions[condition].name.clone());
                if contenders > 1 {
                    parts.push(scenario.contenders[contender].name.clone());
                }
                parts.retain(|part| !part.is_empty());
                Point {
                    name: parts.join(" "),
                    scenario: scenario.clone(),
                    condition,
                    contender,
                    sender: *sender,
                    congestion,
                }
            })
            .collect())
    }

    /// What is simulated.
    pub fn experiment(&self) -> &Experiment {
        &self.scenario.conditions[self.condition].experiment
    }

    /// How anabranch's connection is configured.
    pub fn config(&self) -> &anabranch_stack::config::ConnectionConfig {
        &self.scenario.conditions[self.condition].configs[self.contender]
    }

    /// The size of each transfer of run number `run`, in bytes; none for one that goes on for [`Point::duration`].
    ///
    /// # Errors
    /// If no sizes can be drawn.
    pub fn sizes(&self, run: u32) -> Result<Vec<Option<u64>>, PointError> {
        let drawn = sizes(self.experiment(), self.scenario.run_seed(run));
        let drawn = drawn.map_err(|error| PointError(error.to_string()))?;
        Ok(drawn.into_iter().map(|size| size.map(|size| size.0)).collect())
    }

    /// Whether transfers end when all is delivered, and not after [`Point::duration`].
    pub fn is_sized(&self) -> bool {
        self.experiment().traffic.size != FlowSize::Bulk
    }

    /// How many transfers start together.
    pub fn flows(&self) -> usize {
        self.experiment().traffic.flows as usize
    }

    /// Whether the server sends.
    pub fn is_download(&self) -> bool {
        self.experiment().traffic.direction == Direction::Download
    }

    /// How long a transfer without a size goes on, and how long one with a size may take.
    pub fn duration(&self) -> Duration {
        match self.is_sized() {
            true => self.experiment().deadline,
            false => self.experiment().traffic.duration,
        }
    }

    /// The position of the path that the first subflow takes.
    pub fn initial(&self) -> usize {
        match self.sender {
            Sender::Tcp { path } => path,
            Sender::Multipath => self.experiment().initial,
        }
    }

    /// The shortest round trip of the paths in use, without load.
    pub fn shortest_rtt(&self) -> Duration {
        let paths = &self.experiment().paths;
        match self.sender {
            Sender::Tcp { path } => paths[path].rtt,
            Sender::Multipath => paths.iter().map(|path| path.rtt).min().unwrap_or_default(),
        }
    }

    /// A text that is another for every other transfer, whatever points are called.
    pub fn key(&self) -> String {
        let (condition, contender) =
            (&self.scenario.conditions[self.condition].name, &self.scenario.contenders[self.contender].name);
        let mss = self.config().mss;
        format!("{}/{condition}/{contender}/{}/{mss}", self.scenario.hash(), self.congestion)
    }
}

fn check(experiment: &Experiment) -> Result<(), String> {
    let traffic = &experiment.traffic;
    let no = |text: &str| Err(text.to_owned());
    if experiment.profile != Profile::Linux {
        return no("its profile is not `linux`, which is the kernel's");
    }
    if traffic.flows == 0 || traffic.flows > MOST_FLOWS {
        return Err(format!("it has {} flows; the kernel is measured with 1 to {MOST_FLOWS}", traffic.flows));
    }
    if !traffic.background.is_empty() || traffic.beside.is_some() {
        return no("it has flows in the background or beside");
    }
    if traffic.start != Start::Together(Time::ZERO) {
        return no("its flows do not start together at 0");
    }
    if experiment.paths.len() > MOST_PATHS {
        return Err(format!(
            "it has {} paths; the kernel has {MOST_PATHS} subflows at most",
            experiment.paths.len()
        ));
    }
    Ok(())
}

fn sender(transport: &Transport, condition: &Condition) -> Result<Sender, String> {
    match transport {
        Transport::Tcp { path: Some(path) } => Ok(Sender::Tcp { path: *path }),
        Transport::Tcp { path: None } if condition.experiment.paths.len() == 1 => Ok(Sender::Tcp { path: 0 }),
        Transport::Tcp { path: None } => {
            Err("`tcp` takes the best of several paths; name one with `tcp@PATH`".to_owned())
        }
        Transport::Multipath(kind) if kind.name() == "linux" => Ok(Sender::Multipath),
        Transport::Multipath(kind) => Err(format!(
            "the kernel has no scheduler `{}`; its own is `linux` (--set 'schedulers=[\"linux\"]')",
            kind.name()
        )),
    }
}

/// The kernel's name of a congestion control.
fn congestion(name: &str) -> Result<&'static str, String> {
    match name {
        "newreno" => Ok("reno"),
        "cubic" | "cubic_hystart" | "cubic_linux" => Ok("cubic"),
        other => Err(format!(
            "a stock kernel has no congestion control `{other}`; validated are newreno, cubic, cubic_hystart and cubic_linux"
        )),
    }
}

/// One line of the grid: its sender, its paths and what is sent.
struct Line(&'static str, &'static [&'static str], &'static str);

/// The grid: every sender meets every rate, round trip, queue and size, and loss.
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

/// Thirty web-like downloads that start together: the ends of short flows meet full queues.
const TOGETHER: &[Line] = &[
    Line("cubic", &["100Mbit/s,10ms,queue=1bdp"], "web"),
    Line("mptcp", &["100Mbit/s,10ms,queue=1bdp", "100Mbit/s,10ms,queue=1bdp"], "web"),
];

/// How many flows those are.
const TOGETHER_FLOWS: &str = "30";

/// The lines of the grid, from 0, that `--quick` looks at: transfers of less than 2 s whose end is no matter of one packet.
const QUICK: &[usize] = &[1, 6, 11, 14, 19];

/// The points of the grid.
///
/// # Errors
/// None, or there is a bug.
pub fn grid() -> Result<Vec<Point>, PointError> {
    let mut points = Vec::new();
    let lines = GRID.iter().map(|line| (line, false)).chain(TOGETHER.iter().map(|line| (line, true)));
    for (Line(sender, paths, size), together) in lines {
        let wrong = |error: anabranch_lab::ScenarioError| PointError(error.to_string());
        let mut document = Document::bare();
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        document.set_paths(&paths).map_err(wrong)?;
        document.set_size("--size", size);
        document.set_option("--set", "traffic.direction", "upload");
        let (scheduler, congestion) = match *sender {
            "reno" => ("tcp", "newreno"),
            "cubic" => ("tcp", "cubic_linux"),
            _ => ("linux", "cubic_linux"),
        };
        document.set_schedulers("--schedulers", &[scheduler.to_owned()]);
        document.set_option("--cc", "congestion", congestion);
        let mut size = (*size).to_owned();
        if together {
            document.set_flows("--flows", TOGETHER_FLOWS);
            document.set_option("--set", "traffic.direction", "download");
            size = format!("{TOGETHER_FLOWS} {size} down");
        }
        let mut scenario = document.scenario().map_err(wrong)?;
        scenario.name = name(sender, &paths, &size);
        points.extend(Point::of(scenario)?);
    }
    Ok(points)
}

/// The points of the grid that `--quick` looks at.
///
/// # Errors
/// None, or there is a bug.
pub fn quick() -> Result<Vec<Point>, PointError> {
    let grid = grid()?;
    Ok(QUICK.iter().filter_map(|at| grid.get(*at).cloned()).collect())
}

/// Such as `mptcp 25M/10ms/0.5 + 25M/10ms/0.5 1MB`.
fn name(sender: &str, paths: &[String], size: &str) -> String {
    let path = |text: &String| {
        let short =
            text.replace("Mbit/s,", "M/").replace(",queue=", "/").replace("bdp", "").replace(",loss=", "/");
        short.clone()
    };
    format!("{sender} {} {size}", paths.iter().map(path).collect::<Vec<_>>().join(" + "))
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn points_have_names_and_keys_of_their_own_and_the_same_luck_for_data() {
        let points = grid().unwrap();
        assert_eq!(points.len(), GRID.len() + TOGETHER.len());
        for (at, point) in points.iter().enumerate() {
            assert!(points[..at].iter().all(|other| other.name != point.name && other.key() != point.key()));
            assert!(point.experiment().paths.iter().all(|path| path.luck_apart));
        }
        assert_eq!(points[0].name, "reno 5M/10ms/4 16KB");
        assert_eq!(points[16].name, "mptcp 25M/10ms/1/1% + 25M/10ms/1/1% 1MB");
        assert_eq!((points[0].congestion, points[0].config().mss), ("reno", 1448));
        assert_eq!((points[12].sender, points[12].config().mss), (Sender::Multipath, 1420));
        for point in quick().unwrap() {
            let [Some(size)] = point.sizes(0).unwrap()[..] else {
                panic!("{} is not one transfer", point.name)
            };
            assert!(size <= 8_000_000 && point.is_sized() && !point.is_download());
        }
    }

    /// `compare` with profile `linux` simulates what `validate` simulates: nothing is set for the latter alone.
    #[test]
    fn a_comparison_simulates_what_is_validated() {
        let paths = ["25Mbit/s,10ms,loss=1%", "5Mbit/s,40ms,loss=2%"].map(str::to_owned);
        let never = std::sync::atomic::AtomicBool::new(false);
        for direction in ["upload", "download"] {
            let mut document = Document::bare();
            document.set_paths(&paths).unwrap();
            document.set_size("--size", "300KB");
            document.set_option("--set", "traffic.direction", direction);
            document.set_schedulers("--schedulers", &["tcp@2".to_owned(), "linux".to_owned()]);
            let scenario = document.scenario().unwrap();
            let points = Point::of(scenario.clone()).unwrap();
            for (point, config) in points.iter().zip(&scenario.conditions[0].configs) {
                assert_eq!(point.config(), config);
                assert_eq!((config.congestion.name(), point.congestion), ("cubic_linux", "cubic"));
                // Hash and canonical form hold paths, luck, traffic and all knobs.
                assert_eq!(point.scenario.canonical(), scenario.canonical());
                let run = |scenario| {
                    let prepared = anabranch_lab::run::Prepared::new(scenario, 0).unwrap();
                    prepared.run(point.contender, 1, &never).unwrap()
                };
                assert_eq!(run(&point.scenario), run(&scenario));
            }
            // Segments fill packets of 1500 bytes: those of a plain TCP have 1448 of payload.
            let most = |point| crate::simulated::run(point, 0, &never).unwrap().mss.into_iter().max();
            assert_eq!((most(&points[0]), most(&points[1])), (Some(1448), Some(1420)));
        }
    }

    #[test]
    fn flows_that_start_together_have_the_sizes_that_are_simulated() {
        let point = grid().unwrap().pop().unwrap();
        assert_eq!(point.name, "mptcp 100M/10ms/1 + 100M/10ms/1 30 web down");
        assert!(point.is_download() && point.is_sized());
        let never = std::sync::atomic::AtomicBool::new(false);
        let prepared = anabranch_lab::run::Prepared::new(&point.scenario, point.condition).unwrap();
        let flows = prepared.run(point.contender, 3, &never).unwrap().flows;
        let simulated: Vec<_> = flows.iter().map(|flow| flow.report.size.map(|size| size.0)).collect();
        assert_eq!(simulated, point.sizes(3).unwrap());
        assert_eq!(simulated.len(), point.flows());
        assert_ne!(simulated, point.sizes(4).unwrap());
    }

    fn refused(path: &[&str], sets: &[&str]) -> String {
        let mut document = Document::bare();
        document.set_paths(&path.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>()).unwrap();
        for set in sets {
            document.set(set).unwrap();
        }
        Point::of(document.scenario().unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn what_the_kernel_does_not_have_is_refused_with_a_reason() {
        let one = ["8Mbit/s,10ms"];
        let (two, size) = (["8Mbit/s,10ms", "4Mbit/s,10ms"], "traffic.size=\"1 MB\"");
        let linux = "schedulers=[\"linux\"]";
        assert!(refused(&one, &[size, linux, "traffic.flows=101"]).contains("101 flows"));
        let background = "traffic.background=[{ path = \"1\" }]";
        assert!(refused(&one, &[size, linux, background]).contains("background"));
        assert!(refused(&one, &[size, linux, "profile=ns3"]).contains("profile"));
        assert!(refused(&one, &[size, linux, "traffic.start=\"1 s\""]).contains("together at 0"));
        assert!(refused(&two, &[size, "schedulers=[\"dmptcp\"]"]).contains("no scheduler `dmptcp`"));
        assert!(refused(&two, &[size, "schedulers=[\"tcp\"]"]).contains("tcp@PATH"));
        assert!(refused(&two, &[size, linux, "congestion=lia"]).contains("congestion control `lia`"));
    }
}
