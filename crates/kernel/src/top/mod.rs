//! The connections of this moment for people and programs: rows with rates, JSON, and metrics for Prometheus.

mod metrics;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anabranch_units::{Duration, Time};
use serde::Serialize;

use crate::diag::{Connection, Diagnostics, SubflowState};
use crate::error::KernelError;
use crate::interfaces::{Interfaces, Links};
use crate::pm::Token;
use crate::steer::daemon;

/// Reads the connections, again and again.
pub struct Observer {
    diagnostics: Diagnostics,
    links: Links,
    /// The directory of the state of the daemon.
    run_directory: PathBuf,
    before: Option<(Time, BTreeMap<Token, Connection>)>,
}

/// The connections at one time.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// The connections, by token.
    pub connections: Vec<ConnectionRow>,
}

/// A line of the table: one connection with its rates since the sample before.
#[derive(Clone, Debug, Serialize)]
pub struct ConnectionRow {
    /// Its local token, in hexadecimal digits.
    pub token: String,
    /// The local address of its initial subflow.
    pub local: SocketAddr,
    /// The remote address of its initial subflow.
    pub remote: SocketAddr,
    /// `client` or `server`; none if unknown.
    pub role: Option<&'static str>,
    /// True after a fallback to TCP.
    pub fallback: bool,
    /// The inode of its socket, by which a process can be found.
    pub inode: u32,
    /// The user that owns it.
    pub uid: u32,
    /// Bytes written and not acknowledged.
    pub outstanding_bytes: u64,
    /// Bytes written that no subflow has got.
    pub unsent_bytes: u64,
    /// True if the send buffer is full, so that the size of the rest is unknown.
    pub send_buffer_full: bool,
    /// The rate of new data sent since the sample before; none in the first.
    pub sent_bps: Option<u64>,
    /// The rate of data received in order.
    pub received_bps: Option<u64>,
    /// The subflows that exist now; closed ones are not in the kernel's answer.
    pub subflows: Vec<SubflowRow>,
}

/// A line of the table below its connection.
#[derive(Clone, Debug, Serialize)]
pub struct SubflowRow {
    /// The name of its interface; none if no interface has its address.
    pub interface: Option<String>,
    /// Its local address.
    pub local: SocketAddr,
    /// Its remote address.
    pub remote: SocketAddr,
    /// The identifier of its local address.
    pub local_id: u8,
    /// The identifier of its remote address.
    pub remote_id: u8,
    /// The state of TCP.
    pub state: &'static str,
    /// True if this host's scheduler uses it as a backup.
    pub backup: bool,
    /// True if this host asked for that.
    pub backup_by_host: bool,
    /// True if the peer asked for that.
    pub backup_by_peer: bool,
    /// The name of its congestion control.
    pub congestion: String,
    /// The smoothed RTT; none without a sample.
    pub srtt_us: Option<u32>,
    /// The minimum RTT; none without a sample.
    pub min_rtt_us: Option<u32>,
    /// The congestion window.
    pub cwnd_bytes: u64,
    /// The slow-start threshold; none if it is infinite.
    pub ssthresh_bytes: Option<u64>,
    /// Bytes in flight by the kernel's estimate.
    pub inflight_bytes: u64,
    /// Bytes in its queue.
    pub notsent_bytes: u32,
    /// The rate of payload sent since the sample before, retransmissions included; none in the first.
    pub sent_bps: Option<u64>,
    /// The rate of payload received.
    pub received_bps: Option<u64>,
    /// The kernel's rate of delivery.
    pub delivery_bps: u64,
    /// The pacing rate; none without pacing.
    pub pacing_bps: Option<u64>,
    /// Payload sent, retransmissions included.
    pub sent_bytes: u64,
    /// Payload received.
    pub received_bytes: u64,
    /// Payload retransmitted.
    pub retransmitted_bytes: u64,
    /// Retransmission timeouts; none before Linux 6.7.
    pub rto_count: Option<u16>,
    /// The last decision of the daemon, if one runs and has made one.
    pub decision: Option<String>,
}

/// The names of the states of TCP by the kernel's numbers.
const STATES: [&str; 13] = [
    "",
    "established",
    "syn-sent",
    "syn-received",
    "fin-wait-1",
    "fin-wait-2",
    "time-wait",
    "closed",
    "close-wait",
    "last-ack",
    "listen",
    "closing",
    "new-syn-received",
];

impl Observer {
    /// Opens the kernel's diagnostics. `run_directory` is the one of the daemon, for its decisions.
    ///
    /// # Errors
    /// If the kernel lacks them.
    pub fn open(run_directory: &Path) -> Result<Observer, KernelError> {
        let run_directory = run_directory.to_owned();
        Ok(Observer { diagnostics: Diagnostics::open()?, links: Links::open()?, run_directory, before: None })
    }

    /// Returns the connections at `now`. Rates are those since the call before.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn look(&mut self, now: Time) -> Result<Sample, KernelError> {
        let interfaces = self.links.read()?;
        let connections = self.diagnostics.connections()?;
        let mut sample = compare(now, &connections, self.before.as_ref(), &interfaces);
        let status = daemon::status(&self.run_directory);
        for connection in &mut sample.connections {
            let Some(of) = status.get(&connection.token) else { continue };
            for subflow in &mut connection.subflows {
                // A subflow that was just opened is known by its address.
                let local = [subflow.local.to_string(), subflow.local.ip().to_string()];
                subflow.decision = local.iter().find_map(|local| of.get(local)).cloned();
            }
        }
        self.before = Some((now, connections));
        Ok(sample)
    }
}

/// Returns the rows of `connections`, with rates since `before`.
fn compare(
    now: Time,
    connections: &BTreeMap<Token, Connection>,
    before: Option<&(Time, BTreeMap<Token, Connection>)>,
    interfaces: &Interfaces,
) -> Sample {
    let row = |connection: &Connection| {
        let old = before.and_then(|(then, all)| Some((now.since(*then), all.get(&connection.token)?)));
        connection_row(connection, old, interfaces)
    };
    Sample { connections: connections.values().map(row).collect() }
}

/// Returns the rate of a counter that has grown from `old` to `new` in `span`; none if it has fallen.
fn bps(new: u64, old: u64, span: Duration) -> Option<u64> {
    let bytes = new.checked_sub(old)?;
    (!span.is_zero()).then(|| (bytes as f64 * 8.0 / span.as_secs_f64()) as u64)
}

fn connection_row(
    connection: &Connection,
    old: Option<(Duration, &Connection)>,
    interfaces: &Interfaces,
) -> ConnectionRow {
    let rate = |count: fn(&Connection) -> Option<u64>| {
        let (span, old) = old?;
        bps(count(connection)?, count(old)?, span)
    };
    let subflow = |subflow: &SubflowState| {
        let same = |other: &&SubflowState| other.addresses == subflow.addresses;
        let old = old.and_then(|(span, old)| Some((span, old.subflows.iter().find(same)?)));
        subflow_row(subflow, old, interfaces)
    };
    ConnectionRow {
        token: connection.token.to_string(),
        local: connection.addresses.local,
        remote: connection.addresses.remote,
        role: connection.is_client().map(|client| if client { "client" } else { "server" }),
        fallback: connection.info.fallback,
        inode: connection.inode,
        uid: connection.uid,
        outstanding_bytes: connection.info.outstanding(),
        unsent_bytes: connection.unsent(),
        send_buffer_full: connection.send_buffer.is_full(),
        sent_bps: rate(|c| c.info.counters.map(|counters| counters.bytes_sent)),
        received_bps: rate(|c| c.info.counters.map(|counters| counters.bytes_received)),
        subflows: connection.subflows.iter().map(subflow).collect(),
    }
}

fn subflow_row(
    subflow: &SubflowState,
    old: Option<(Duration, &SubflowState)>,
    interfaces: &Interfaces,
) -> SubflowRow {
    let info = &subflow.info;
    let sample = |us: u32| (us > 0).then_some(us);
    let segments = |count: u32| u64::from(count) * u64::from(info.snd_mss);
    SubflowRow {
        interface: interfaces.of(subflow.interface, subflow.addresses.local.ip()).map(|one| one.name.clone()),
        local: subflow.addresses.local,
        remote: subflow.addresses.remote,
        local_id: subflow.local_id,
        remote_id: subflow.remote_id,
        state: STATES.get(usize::from(subflow.state)).copied().unwrap_or(""),
        backup: subflow.flags.is_backup(),
        backup_by_host: subflow.flags.own_backup(),
        backup_by_peer: subflow.flags.peer_backup(),
        congestion: subflow.congestion.clone(),
        srtt_us: sample(info.rtt_us),
        min_rtt_us: sample(info.min_rtt_us),
        cwnd_bytes: segments(info.cwnd),
        ssthresh_bytes: info.ssthresh.map(segments),
        inflight_bytes: segments(info.in_flight()),
        notsent_bytes: info.notsent_bytes,
        sent_bps: old.and_then(|(span, old)| bps(info.bytes_sent, old.info.bytes_sent, span)),
        received_bps: old.and_then(|(span, old)| bps(info.bytes_received, old.info.bytes_received, span)),
        delivery_bps: info.delivery_rate.saturating_mul(8),
        pacing_bps: info.pacing_rate.map(|rate| rate.saturating_mul(8)),
        sent_bytes: info.bytes_sent,
        received_bytes: info.bytes_received,
        retransmitted_bytes: info.bytes_retrans,
        rto_count: info.total_rto,
        decision: None,
    }
}

impl SubflowRow {
    /// Returns the part of the sent payload that was retransmitted; none before any was sent.
    pub fn retransmitted(&self) -> Option<f64> {
        (self.sent_bytes > 0).then(|| self.retransmitted_bytes as f64 / self.sent_bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_a_counter_that_has_grown() {
        let second = Duration::from_secs(1);
        assert_eq!(bps(3_000, 1_000, second), Some(16_000));
        assert_eq!(bps(3_000, 1_000, Duration::from_millis(500)), Some(32_000));
        assert_eq!(bps(1_000, 1_000, second), Some(0));
        // Another connection has got the token; and there is no rate of no time.
        assert_eq!(bps(1_000, 3_000, second), None);
        assert_eq!(bps(3_000, 1_000, Duration::ZERO), None);
    }
}
