//! Records the kernel's connections while a command runs, as a run directory.
//!
//! Rows come from `tcp_info` and `mptcp_info` at an interval. Values between two samples, the offsets of single segments,
//! queues of links and the kernel's scheduling decisions are not known; a connection that is shorter than an interval
//! may be missed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anabranch_recording::measured::{Measured, MeasuredFlow, MeasuredSubflow, MeasuredWindow, Progress, Way};
use anabranch_recording::{DirectoryError, Origin, Settings};
use anabranch_units::Time;

use crate::diag::{Connection, Diagnostics, SubflowState, TcpInfo};
use crate::error::KernelError;
use crate::interfaces::{Interfaces, Links};
use crate::pm::{Subflow, Token};

/// The name of the only run of a recording.
const RUN: &str = "kernel";

/// A recording could not be made.
#[derive(Debug)]
pub enum RecordError {
    /// The kernel does not show its connections, or the command cannot be run.
    Kernel(KernelError),
    /// The directory cannot be written.
    Directory(DirectoryError),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Kernel(error) => error.fmt(f),
            RecordError::Directory(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RecordError {}

impl From<KernelError> for RecordError {
    fn from(error: KernelError) -> RecordError {
        RecordError::Kernel(error)
    }
}

impl From<DirectoryError> for RecordError {
    fn from(error: DirectoryError) -> RecordError {
        RecordError::Directory(error)
    }
}

/// A recorded subflow.
struct Seen {
    addresses: Subflow,
    row: MeasuredSubflow,
    /// Payload acknowledged and received at the last sample.
    acked: u64,
    received: u64,
    window: Option<MeasuredWindow>,
    there: bool,
}

/// A recorded connection.
struct Flow {
    index: u32,
    name: String,
    is_client: bool,
    start: Time,
    last: Time,
    there: bool,
    /// Offsets of the streams that this host sends and receives.
    acked: u64,
    received: u64,
    retransmitted: Option<u64>,
    subflows: Vec<Seen>,
}

struct Recorder {
    measured: Measured,
    paths: Vec<String>,
    flows: BTreeMap<Token, Flow>,
    /// Flows that have ended: their tokens may be used again.
    ended: Vec<Flow>,
}

/// Runs `command`, and records all connections of this network namespace that begin meanwhile. Returns the exit status
/// and the number of connections.
///
/// # Errors
/// If the kernel or the directory refuses, or the command cannot be run.
pub fn record(
    mut command: Command,
    directory: &std::path::Path,
    origin: Origin,
    settings: Settings,
) -> Result<(ExitStatus, usize), RecordError> {
    let (mut diagnostics, mut links) = (Diagnostics::open()?, Links::open()?);
    let interfaces = links.read()?;
    let usable = interfaces.0.values().filter(|one| !one.loopback && !one.addresses.is_empty());
    let paths: Vec<String> = usable.map(|one| one.name.clone()).collect();
    let before = diagnostics.connections()?;
    let every = Duration::from_nanos(settings.interval.0);
    let measured = Measured::create(directory, RUN, &paths, origin, settings)?;
    let mut recorder = Recorder { measured, paths, flows: BTreeMap::new(), ended: Vec::new() };
    let name = PathBuf::from(command.get_program()).display().to_string();
    let failed = |error| KernelError::System(format!("cannot run `{name}`"), error);
    let begun = Instant::now();
    let mut child = command.spawn().map_err(failed)?;
    let mut interfaces = interfaces;
    let mut pace = Pace::new(every);
    let status = loop {
        let status = child.try_wait().map_err(failed)?;
        let mut seen = diagnostics.connections()?;
        seen.retain(|token, _| !before.contains_key(token));
        let now = Time(begun.elapsed().as_nanos() as u64);
        if seen
            .values()
            .flat_map(|one| &one.subflows)
            .any(|one| interfaces.of(one.interface, one.addresses.local.ip()).is_none())
        {
            interfaces = links.read()?;
        }
        recorder.sample(now, &seen, &interfaces);
        if let Some(status) = status {
            break status;
        }
        pace.wait();
    };
    let count = recorder.finish()?;
    Ok((status, count))
}

impl Recorder {
    fn sample(&mut self, now: Time, seen: &BTreeMap<Token, Connection>, interfaces: &Interfaces) {
        let gone: Vec<Token> = self.flows.keys().filter(|token| !seen.contains_key(token)).copied().collect();
        for token in gone {
            if let Some(mut flow) = self.flows.remove(&token) {
                flow.there = false;
                flow.subflows.iter_mut().for_each(|one| one.end(now));
                self.ended.push(flow);
            }
        }
        let mut next = (self.flows.len() + self.ended.len()) as u32;
        for (token, connection) in seen {
            let flow = self.flows.entry(*token).or_insert_with(|| {
                next += 1;
                Flow {
                    index: next - 1,
                    name: format!("{} to {}", connection.addresses.local, connection.addresses.remote),
                    is_client: connection.is_client().unwrap_or(true),
                    start: now,
                    last: now,
                    there: true,
                    acked: 0,
                    received: 0,
                    retransmitted: None,
                    subflows: Vec::new(),
                }
            });
            flow.sample(now, connection, interfaces, &mut self.paths, &mut self.measured);
        }
    }

    fn finish(mut self) -> Result<usize, DirectoryError> {
        self.ended.extend(std::mem::take(&mut self.flows).into_values());
        self.ended.sort_by_key(|flow| flow.index);
        let flows: Vec<MeasuredFlow> = self.ended.iter().map(Flow::row).collect();
        let subflows: Vec<MeasuredSubflow> =
            self.ended.iter().flat_map(|flow| flow.subflows.iter().map(|one| one.row.clone())).collect();
        self.measured.finish(&self.paths, &flows, &subflows)?;
        Ok(flows.len())
    }
}

impl Seen {
    fn end(&mut self, now: Time) {
        if self.there {
            self.there = false;
            self.row.ended = Some(now);
        }
    }
}

impl Flow {
    /// Returns the stream that this host sends, and the one that it receives.
    fn ways(&self) -> (Way, Way) {
        if self.is_client { (Way::Up, Way::Down) } else { (Way::Down, Way::Up) }
    }

    fn sample(
        &mut self,
        now: Time,
        connection: &Connection,
        interfaces: &Interfaces,
        paths: &mut Vec<String>,
        measured: &mut Measured,
    ) {
        self.last = now;
        self.is_client = connection.is_client().unwrap_or(self.is_client);
        let (sends, receives) = self.ways();
        for seen in &mut self.subflows {
            if connection.subflows.iter().all(|one| one.addresses != seen.addresses) {
                seen.end(now);
            }
        }
        let (mut acked, mut received) = (Vec::new(), Vec::new());
        for one in &connection.subflows {
            let at = self.place(now, one, interfaces, paths);
            let seen = &mut self.subflows[at];
            let info = &one.info;
            let row = &mut seen.row;
            if row.established.is_none() && one.can_send() {
                row.established = Some(now);
            }
            row.bytes_sent = info.bytes_sent;
            row.bytes_acked = Some(info.bytes_acked);
            row.segments_sent = info.data_segs_out.into();
            row.segments_retransmitted = info.total_retrans.into();
            row.rto_count = info.total_rto.map(u64::from);
            row.min_rtt_us = Some(u64::from(info.min_rtt_us)).filter(|rtt| *rtt > 0);
            acked.push((at, info.bytes_acked.saturating_sub(seen.acked)));
            received.push((at, info.bytes_received.saturating_sub(seen.received)));
            (seen.acked, seen.received) = (info.bytes_acked, info.bytes_received);
            let window = window(now, info);
            let window = MeasuredWindow { flow: self.index, way: sends, subflow: at as u8, ..window };
            if one.can_send() && seen.window.is_none_or(|before| differs(&before, &window)) {
                seen.window = Some(window);
                measured.window(&window);
            }
        }
        let Some(counters) = connection.info.counters else { return };
        self.retransmitted = Some(counters.bytes_retrans);
        let parts = [
            (sends, false, self.acked, counters.payload_acked(), acked),
            (receives, true, self.received, counters.bytes_received, received),
        ];
        for (way, received, from, to, parts) in parts {
            for (subflow, range) in shares(from, to, &parts) {
                let subflow = subflow as u8;
                measured.progress(&Progress {
                    time: now,
                    flow: self.index,
                    way,
                    subflow,
                    range,
                    received,
                    window_edge: None,
                });
            }
        }
        self.acked = self.acked.max(counters.payload_acked());
        self.received = self.received.max(counters.bytes_received);
    }

    /// Returns the place of a subflow in the list.
    fn place(
        &mut self,
        now: Time,
        one: &SubflowState,
        interfaces: &Interfaces,
        paths: &mut Vec<String>,
    ) -> usize {
        if let Some(at) = self.subflows.iter().position(|seen| seen.addresses == one.addresses) {
            return at;
        }
        let interface = interfaces.of(one.interface, one.addresses.local.ip()).map(|interface| {
            paths.iter().position(|name| *name == interface.name).unwrap_or_else(|| {
                paths.push(interface.name.clone());
                paths.len() - 1
            })
        });
        let row = MeasuredSubflow {
            flow: self.index,
            end: if self.is_client { "client" } else { "server" },
            subflow: self.subflows.len() as u8,
            local: one.addresses.local.to_string(),
            remote: one.addresses.remote.to_string(),
            interface,
            started: now,
            established: None,
            ended: None,
            bytes_sent: 0,
            bytes_acked: None,
            bytes_delivered: None,
            segments_sent: 0,
            segments_retransmitted: 0,
            rto_count: None,
            min_rtt_us: None,
        };
        let addresses = one.addresses;
        self.subflows.push(Seen { addresses, row, acked: 0, received: 0, window: None, there: true });
        self.subflows.len() - 1
    }

    fn row(&self) -> MeasuredFlow {
        let (sends, receives) = self.ways();
        let sum = |count: fn(&MeasuredSubflow) -> u64| self.subflows.iter().map(|one| count(&one.row)).sum();
        let timeouts: Option<Vec<u64>> = self.subflows.iter().map(|one| one.row.rto_count).collect();
        MeasuredFlow {
            name: self.name.clone(),
            way: if self.received > self.acked { receives } else { sends },
            start: self.start,
            end: self.last,
            running: self.there,
            delivered_bytes: self.received.max(self.acked),
            data_segments: sum(|row| row.segments_sent),
            retransmitted_segments: sum(|row| row.segments_retransmitted),
            reinjected_bytes: self.retransmitted,
            rto_count: timeouts.map(|all| all.iter().sum()),
            delivery: None,
        }
    }
}

/// Returns the windows of a socket.
pub(crate) fn window(now: Time, info: &TcpInfo) -> MeasuredWindow {
    let segments = |count: u32| u64::from(count) * u64::from(info.snd_mss);
    MeasuredWindow {
        time: now,
        flow: 0,
        way: Way::Up,
        subflow: 0,
        cwnd_bytes: Some(segments(info.cwnd)),
        ssthresh_bytes: info.ssthresh.map(segments),
        inflight_bytes: segments(info.in_flight()),
        srtt_us: Some(u64::from(info.rtt_us)).filter(|rtt| *rtt > 0),
        pacing_bps: info.pacing_rate.map(|rate| rate.saturating_mul(8)),
        peer_window_bytes: info.snd_wnd.unwrap_or(0).into(),
    }
}

/// True if the windows differ, apart from their time.
pub(crate) fn differs(one: &MeasuredWindow, other: &MeasuredWindow) -> bool {
    let values = |row: &MeasuredWindow| {
        (
            [row.cwnd_bytes, row.ssthresh_bytes, row.srtt_us, row.pacing_bps],
            [row.inflight_bytes, row.peer_window_bytes],
        )
    };
    values(one) != values(other)
}

/// The times of samples at an interval.
pub(crate) struct Pace {
    next: Instant,
    every: Duration,
}

impl Pace {
    pub(crate) fn new(every: Duration) -> Pace {
        Pace { next: Instant::now(), every }
    }

    /// Sleeps until the next sample.
    pub(crate) fn wait(&mut self) {
        self.next += self.every;
        std::thread::sleep(self.next.saturating_duration_since(Instant::now()));
        // Samples that were missed are not made up for.
        self.next = self.next.max(Instant::now() - self.every);
    }
}

/// Divides the offsets from `from` to `to` among subflows in proportion to their own progress.
fn shares(from: u64, to: u64, parts: &[(usize, u64)]) -> Vec<(usize, (u64, u64))> {
    let all: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
    if to <= from {
        return Vec::new();
    }
    let mut ranges = Vec::new();
    let (mut at, mut sum) = (from, 0);
    for (subflow, bytes) in parts.iter().filter(|(_, bytes)| *bytes > 0) {
        sum += bytes;
        let end = from + (u128::from(to - from) * u128::from(sum) / u128::from(all)) as u64;
        if end > at {
            ranges.push((*subflow, (at, end)));
            at = end;
        }
    }
    if ranges.is_empty() {
        // Progress at the data level only, such as an acknowledgement that was delayed.
        ranges.extend(parts.first().map(|(subflow, _)| (*subflow, (from, to))));
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::Counters;

    /// The kernel counts the DATA_FIN as a byte once it is acknowledged.
    #[test]
    fn the_end_of_the_data_is_no_payload() {
        let acked = |bytes_acked| Counters { bytes_sent: 2000, bytes_acked, ..Counters::default() };
        assert_eq!([1400, 2000, 2001].map(|bytes| acked(bytes).payload_acked()), [1400, 2000, 2000]);
    }

    #[test]
    fn progress_is_divided_without_gaps() {
        let parts = [(0, 100), (1, 0), (2, 300)];
        assert_eq!(shares(1000, 1400, &parts), [(0, (1000, 1100)), (2, (1100, 1400))]);
        // The subflows have carried more, such as reinjected data.
        assert_eq!(shares(0, 3, &parts), [(2, (0, 3))]);
        assert_eq!(shares(0, 8, &[(0, 0), (1, 0)]), [(0, (0, 8))]);
        assert_eq!(shares(8, 8, &parts), []);
        assert_eq!(shares(u64::MAX - 1, u64::MAX, &parts), [(2, (u64::MAX - 1, u64::MAX))]);
    }
}
