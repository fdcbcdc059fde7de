//! Options that several verbs share.

use std::path::{Path, PathBuf};

use anabranch_lab::capture::{Captures, Settings, Viewpoint};
use anabranch_lab::scenario::{Document, Scenario, library};

use crate::failure::Failure;

/// Changes of a scenario.
#[derive(clap::Args)]
pub struct Changes {
    /// Paths in the place of the scenario's.
    #[arg(
        long = "path",
        value_name = "PATH",
        help = "A path: RATE,RTT[,loss=P][,loss-up=P][,queue=Q] or trace=DOWN[:UP],RTT[,trace-start=random]\
                [,...]; replaces the scenario's paths (without a scenario: profile linux, one web-like flow \
                in each run)"
    )]
    paths: Vec<String>,
    /// What each flow sends: a size such as 57KB, `web` or `bulk`
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Flows in each run
    #[arg(long, value_name = "N")]
    flows: Option<String>,
    /// Who is compared: schedulers, `tcp` (on the best path as measured) and `tcp@N` (on path N)
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    schedulers: Vec<String>,
    /// The congestion control (see `anabranch list congestion`)
    #[arg(long = "cc", value_name = "NAME")]
    congestion: Option<String>,
    /// The sender and receiver: linux or ns3
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// How often each contender meets each condition
    #[arg(long, value_name = "N")]
    runs: Option<String>,
    /// With whom the others are compared
    #[arg(long, value_name = "NAME")]
    reference: Option<String>,
    /// A difference below this is practically equal, such as 1%, which is the default
    #[arg(long, value_name = "PERCENT")]
    min_effect: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Changes that every verb with a scenario knows.
#[derive(clap::Args)]
pub struct Common {
    /// Sets a value of the scenario, such as traffic.direction=download, path.loss=1%,
    /// path.wifi.rtt=5ms, or a knob of the connection, such as rto.min=300ms
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The seed: the same seed gives the same result
    #[arg(long, value_name = "N")]
    seed: Option<String>,
}

impl Common {
    /// Makes the changes.
    pub fn apply(&self, document: &mut Document) -> Result<(), Failure> {
        if let Some(seed) = &self.seed {
            document.set_option("--seed", "seed", seed);
        }
        for assignment in &self.set {
            document.set(assignment)?;
        }
        Ok(())
    }
}

impl Changes {
    /// The scenario `name` with these changes. Without a name it is the built-in one, or with paths
    /// an empty one.
    pub fn scenario(&self, name: Option<&str>) -> Result<Scenario, Failure> {
        let mut document = match name {
            Some(name) => Document::open(name)?,
            None if self.paths.is_empty() => Document::open(library::DEFAULT)?,
            None => Document::bare(),
        };
        document.set_paths(&self.paths)?;
        if let Some(size) = &self.size {
            document.set_size("--size", size);
        }
        if let Some(flows) = &self.flows {
            document.set_flows("--flows", flows);
        }
        if !self.schedulers.is_empty() {
            document.set_schedulers("--schedulers", &self.schedulers);
        }
        let options = [
            ("--cc", "congestion", &self.congestion),
            ("--profile", "profile", &self.profile),
            ("--runs", "runs", &self.runs),
            ("--reference", "reference", &self.reference),
            ("--min-effect", "min-effect", &self.min_effect),
        ];
        for (option, key, value) in options {
            if let Some(value) = value {
                document.set_option(option, key, value);
            }
        }
        self.common.apply(&mut document)?;
        Ok(document.scenario()?)
    }
}

/// Whether and how packets are captured.
#[derive(clap::Args)]
pub struct Capture {
    /// Writes the packets of run 0 to FILE for Wireshark (pcapng); with several schedulers or
    /// conditions to a file for each, such as FILE with `.min_rtt` before its extension
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// The host at whose interfaces the packets are captured
    #[arg(long, value_name = "HOST", default_value = "sender", requires = "pcap")]
    pcap_at: Host,
    /// Keeps at most so many bytes of each packet, as they stand behind the link layer
    #[arg(long, value_name = "BYTES", requires = "pcap", value_parser = clap::value_parser!(u32).range(1..))]
    pcap_snaplen: Option<u32>,
}

/// One end of the flows.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Host {
    /// The one that sends the data
    Sender,
    /// The one that receives it
    Receiver,
}

impl Capture {
    /// Opens the files for the captures of `scenario`, if they are wanted.
    pub fn open(&self, scenario: &Scenario) -> Result<Option<Captures>, Failure> {
        let Some((path, settings)) = self.settings() else { return Ok(None) };
        Ok(Some(Captures::create(path, scenario, settings)?))
    }

    /// The name of the file, and what is captured, if that is wanted.
    pub fn settings(&self) -> Option<(&Path, Settings)> {
        let path = self.pcap.as_deref()?;
        let viewpoint = match self.pcap_at {
            Host::Sender => Viewpoint::Sender,
            Host::Receiver => Viewpoint::Receiver,
        };
        Some((path, Settings { viewpoint, snap_len: self.pcap_snaplen }))
    }
}

/// Gives the files of captures their names, and tells a person which they are.
pub fn finish_captures(captures: Option<Captures>) -> Result<(), Failure> {
    for path in captures.map(Captures::commit).transpose()?.unwrap_or_default() {
        eprintln!("captured {}", path.display());
    }
    Ok(())
}

/// How many threads.
#[derive(clap::Args)]
pub struct Jobs {
    /// Threads; 0 is one for each core. The result does not depend on it
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub jobs: usize,
}

/// A span of time as an option's value; `0` needs no unit.
pub fn parse_span(text: &str) -> Result<std::time::Duration, String> {
    if text == "0" {
        return Ok(std::time::Duration::ZERO);
    }
    let span = anabranch_lab::units::parse_span(text).map_err(|error| error.to_string())?;
    Ok(std::time::Duration::from_nanos(span.0))
}

/// A size in bytes as an option's value.
pub fn parse_size(text: &str) -> Result<u64, String> {
    anabranch_lab::units::parse_size(text).map(|size| size.0).map_err(|error| error.to_string())
}
