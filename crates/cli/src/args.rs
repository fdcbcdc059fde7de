//! Options that several verbs share.

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
    /// Who is compared: schedulers, `tcp` (on the best path) and `tcp@N` (on path N)
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

/// How many threads.
#[derive(clap::Args)]
pub struct Jobs {
    /// Threads; 0 is one for each core. The result does not depend on it
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub jobs: usize,
}
