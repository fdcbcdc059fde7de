//! The run of a cell in its network namespace.

mod anabranch;
mod apps;
mod director;
mod handshakes;
mod kernel;
mod namespace;
mod verdict;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anabranch_stack::event::CloseReason;
use anabranch_stack::stats::SubflowStats;
use anabranch_units::Time;
use serde::{Deserialize, Serialize};

use crate::cell::{Cell, Joins, Side, Situation};
use crate::counters::Counters;

/// The outcome of a cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The failures; empty if the cell has passed.
    pub failures: Vec<String>,
    /// The observation, in one line.
    pub seen: String,
    /// Further details, for diagnosis.
    pub details: BTreeMap<String, String>,
}

/// The state shared by both sides and the director.
#[derive(Debug, Default)]
pub struct Meter {
    by_kernel: AtomicU64,
    by_anabranch: AtomicU64,
    gate: AtomicBool,
    stop: AtomicBool,
    failures: Mutex<Vec<String>>,
}

impl Meter {
    /// Counts `n` more bytes received by `side`.
    fn count(&self, side: Side, n: usize) {
        let counter = if side == Side::Kernel { &self.by_kernel } else { &self.by_anabranch };
        counter.fetch_add(n as u64, Ordering::Relaxed);
    }

    /// Returns the progress of the direction that is farthest.
    fn progress(&self) -> u64 {
        self.by_kernel.load(Ordering::Relaxed).max(self.by_anabranch.load(Ordering::Relaxed))
    }

    /// Permits both sides to send all their data.
    fn open_gate(&self) {
        self.gate.store(true, Ordering::Release);
    }

    fn gate_is_open(&self) -> bool {
        self.gate.load(Ordering::Acquire)
    }

    /// Makes the kernel's side abort.
    fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn fail(&self, failure: impl Into<String>) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure.into());
    }

    fn take_failures(&self) -> Vec<String> {
        core::mem::take(&mut self.failures.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The end of a side's reading or writing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Ended {
    /// The end of the stream.
    #[default]
    Eof,
    /// It has aborted by itself.
    Stopped,
    /// An error, by its kind.
    Error(std::io::ErrorKind, String),
}

/// A side's report of a transfer.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The number of bytes received, and their digest.
    pub received: u64,
    pub digest: String,
    /// The end of its reading.
    pub read: Ended,
    /// The end of its writing; `Eof` if everything was written.
    pub written: Ended,
}

/// All facts about a cell that has ended.
#[derive(Debug)]
pub struct Evidence {
    pub kernel: Report,
    pub anabranch: Report,
    /// The reason that anabranch's connection ended; none if it has not.
    pub reason: Option<CloseReason>,
    pub subflows: Vec<SubflowStats>,
    /// The number of times that anabranch's data level has waited for data that no subflow carried any
    /// longer.
    pub head_timeouts: u64,
    /// Bytes that the kernel has sent beyond the window that anabranch has advertised.
    pub refused: u64,
    /// The time when the streams of both directions were complete.
    pub complete: Time,
    pub counters: Counters,
    /// The number of segments changed by a middlebox.
    pub changed: u64,
    pub elapsed: Duration,
}

impl Evidence {
    /// Returns the payload by anabranch's address, or by the kernel's if the cell is about those: sent by
    /// anabranch, and delivered to it.
    pub fn carried(&self, cell: &Cell) -> BTreeMap<IpAddr, (u64, u64)> {
        carried(cell, &self.subflows)
    }
}

/// Computes the result of [`Evidence::carried`].
pub fn carried(cell: &Cell, subflows: &[SubflowStats]) -> BTreeMap<IpAddr, (u64, u64)> {
    use Situation as S;
    let by_kernel = cell.joins == Joins::KernelOwn
        || matches!(cell.situation, S::KernelRemoves | S::KernelBackup | S::KernelPrio);
    let mut carried = BTreeMap::new();
    for subflow in subflows {
        let key = if by_kernel { subflow.remote.ip } else { subflow.local.ip };
        let bytes: &mut (u64, u64) = carried.entry(key).or_default();
        bytes.0 += subflow.counters.bytes_sent;
        bytes.1 += subflow.counters.bytes_delivered + subflow.counters.bytes_duplicate;
    }
    carried
}

/// Runs `cell` in this namespace.
pub fn run(cell: &Cell) -> Outcome {
    match attempt(cell) {
        Ok(outcome) => outcome,
        Err(failure) => Outcome { failures: vec![failure], ..Outcome::default() },
    }
}

fn attempt(cell: &Cell) -> Result<Outcome, String> {
    namespace::configure(cell)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    match cell.situation {
        Situation::Wget | Situation::Curl => apps::fetch(cell),
        Situation::Iperf3 => runtime.block_on(apps::iperf3(cell)),
        Situation::LostHandshakes => runtime.block_on(handshakes::run(cell)),
        _ => {
            let meter = Arc::new(Meter::default());
            let evidence = runtime.block_on(transfer(cell, &meter))?;
            Ok(verdict::judge(cell, &evidence, meter.take_failures()))
        }
    }
}

/// Transfers the data, with the events of the situation.
async fn transfer(cell: &Cell, meter: &Arc<Meter>) -> Result<Evidence, String> {
    let begun = Instant::now();
    let mut ours = anabranch::start(cell)?;
    let listener = match cell.client {
        Side::Kernel => None,
        Side::Anabranch => Some(kernel::listen(cell)?),
    };
    let mut acceptor = match cell.client {
        Side::Kernel => Some(ours.listen(cell)?),
        Side::Anabranch => None,
    };
    let theirs = {
        let (cell, meter) = (*cell, Arc::clone(meter));
        tokio::task::spawn_blocking(move || kernel::run(&cell, listener, &meter))
    };
    let patience = crate::shape::patience(cell);
    let stream = match &mut acceptor {
        Some(acceptor) => {
            let accepted = tokio::time::timeout(patience, acceptor.accept()).await;
            accepted
                .map_err(|_| "no connection came".to_owned())?
                .map_err(|error| format!("accept: {error}"))?
                .0
        }
        None => ours.connect(cell).await.map_err(|error| format!("connect: {error}"))?,
    };
    let control = stream.control();
    let director = director::direct(cell, &ours, &control, meter);
    let transfer = anabranch::transfer(cell, stream, meter);
    let (report, ()) = tokio::join!(transfer, director);
    let kernel = theirs.await.map_err(|error| format!("the kernel's side: {error}"))?;
    // A subflow on a path that loses everything does not end before its last retransmission.
    let wait = if cell.situation == Situation::Blackhole { 2 } else { 10 };
    let ending = ours.ending(Duration::from_secs(wait)).await;
    let (reason, stats, subflows) = match ending {
        Some((reason, stats, subflows)) => (Some(reason), stats, subflows),
        None => (None, control.stats(), control.subflow_stats()),
    };
    let counters = settled(cell).await;
    Ok(Evidence {
        kernel,
        anabranch: report,
        reason,
        subflows,
        head_timeouts: stats.head_timeouts,
        refused: stats.refused,
        complete: stats.last_in_order.max(stats.last_data_ack),
        counters,
        changed: ours.changed(),
        elapsed: begun.elapsed(),
    })
}

/// Returns the counters, once the kernel has no connection left, or after a time limit.
async fn settled(cell: &Cell) -> Counters {
    let rounds = if cell.situation == Situation::Blackhole { 1 } else { 60 };
    for _ in 0..rounds {
        let counters = Counters::read();
        if counters.mptcp("MPCurrEstab") == 0 {
            return counters;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Counters::read()
}
