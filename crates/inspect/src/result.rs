//! The result: what `anabranch inspect --json` prints.

use std::collections::BTreeMap;

use anabranch_stack::segment::ResetReason;
use anabranch_units::{Duration, Time};
use serde::Serialize;

use crate::application::Application;
use crate::cause::Cause;
use crate::clocks::{self, ClockReport};
use crate::estimate::{PathEstimate, RateSource};
use crate::histogram::Histogram;
use crate::kernel::KernelReport;
use crate::outages;
use crate::sentence;
use crate::track::{Connection, Place, Protocol, Stream, Subflow, Table, Vantage, is_at_sender};

/// The version of the keys.
pub const SCHEMA: u32 = 1;

/// The result for one or more captures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Inspection {
    /// The version of this program.
    pub version: &'static str,
    /// The commit from which this program was built, if known; filled in by the caller.
    pub commit: Option<&'static str>,
    /// The version of this format: [`SCHEMA`].
    pub schema: u32,
    /// The command line; filled in by the caller.
    pub command: Vec<String>,
    /// The captures, in the order of the command line.
    pub files: Vec<FileReport>,
    /// The time of the first packet, in seconds since 1970. All other times are relative to it.
    pub begun_unix_s: f64,
    /// The time from the first packet to the last one.
    pub duration_s: f64,
    /// Packets that were not followed, by reason.
    pub skipped: Skipped,
    /// Remarks on the captures.
    pub notes: Vec<String>,
    /// The connections, in the order of their first packets.
    pub connections: Vec<ConnectionReport>,
}

/// A capture as it was read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileReport {
    /// The name as it was given.
    pub name: String,
    /// `pcap` or `pcapng`, and `gzip` if it is compressed.
    pub format: &'static str,
    /// Packets in the file, also those that were skipped.
    pub packets: u64,
    /// Packets with a TCP header; the others are not inspected.
    pub tcp_packets: u64,
    /// The captured bytes of the packets.
    pub captured_bytes: u64,
    /// The names of the interfaces, of pcapng.
    pub interfaces: Vec<String>,
    /// Packets with TCP that lost payload in the capture.
    pub snapped_packets: u64,
    /// Its clock, if another capture shows the other end of one of its connections.
    pub clock: Option<ClockReport>,
    /// A remark, such as that the file ends within a packet.
    pub remark: Option<String>,
}

/// Packets that were not followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Frames without IP, such as ARP.
    pub not_ip: u64,
    /// Frames of a link type that is not known.
    pub unknown_link_type: u64,
    /// IP packets without TCP.
    pub not_tcp: u64,
    /// Fragments of IP packets, which are not joined.
    pub fragments: u64,
    /// Packets with an impossible header.
    pub damaged: u64,
    /// Packets that are cut off within their headers.
    pub cut: u64,
    /// Packets of connections beyond the number that are followed.
    pub table_full: u64,
}

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProtocolName {
    /// Multipath TCP.
    Mptcp,
    /// TCP that was never asked to be Multipath TCP.
    Tcp,
    /// TCP after an attempt at Multipath TCP.
    Fallback,
}

/// A connection with all of its subflows, or a plain TCP connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConnectionReport {
    /// Its number in this result, from 1.
    pub number: usize,
    /// The protocol of the connection after its handshakes.
    pub protocol: ProtocolName,
    /// The standard of its version: `RFC 8684` or `RFC 6824`; null for TCP.
    pub standard: Option<&'static str>,
    /// The client's first address.
    pub client: String,
    /// The server's first address.
    pub server: String,
    /// The place of the capture.
    pub captured: Vantage,
    /// The place of its capture in `files`.
    pub file: usize,
    /// The first packet.
    pub start_s: f64,
    /// From the first SYN to the third packet of the handshake; null without the handshake.
    pub connected_s: Option<f64>,
    /// From the first packet to the last one.
    pub duration_s: f64,
    /// The tokens of client and server, in hexadecimal.
    pub tokens: [Option<String>; 2],
    /// The reason that it continued as TCP.
    pub fallback: Option<String>,
    /// True if subflows were tied to it by their data sequence numbers, since their handshakes are missing.
    pub by_continuity: bool,
    /// The subflows, in the order of their first packets.
    pub subflows: Vec<SubflowReport>,
    /// The data from the client and from the server.
    pub streams: [StreamReport; 2],
    /// The pattern of the application, and its turns.
    pub application: Application,
    /// Announced addresses.
    pub addresses: Vec<AddressReport>,
    /// MP_PRIO options.
    pub priority_changes: u32,
    /// The end in words.
    pub outcome: String,
    /// Faults against rules.
    pub faults: Vec<FaultReport>,
    /// The largest cause of its time, and remarks, in sentences.
    pub sentences: Vec<String>,
    /// The place in the table of the captures, from which it can be followed again.
    #[serde(skip)]
    pub(crate) place: Place,
}

/// A TCP connection that carries the data of the connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SubflowReport {
    /// The address that opened it.
    pub from: String,
    /// The address that accepted it.
    pub to: String,
    /// True if the connection's server opened it.
    pub opened_by_server: bool,
    /// The place of the capture.
    pub captured: Vantage,
    /// Its first packet.
    pub start_s: f64,
    /// From its SYN to the third packet.
    pub connected_s: Option<f64>,
    /// SYNs.
    pub syn_count: u32,
    /// True if a host asked for it to be a backup.
    pub backup: bool,
    /// Whether the codes of its join are right; null if they could not be verified.
    pub hmac: Option<bool>,
    /// The data from the connection's client and from its server.
    pub directions: [DirectionReport; 2],
    /// The end in words; null if the capture does not have it.
    pub ended: Option<String>,
    /// Packets that were captured on a second interface too.
    pub copies: u64,
}

/// A round trip as the capture shows it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RttReport {
    /// `ack`: from data to its acknowledgement, at the sender. `timestamps`: from a timestamp to its echo.
    pub from: &'static str,
    /// Round trips that were measured.
    pub samples: u64,
    /// The least one.
    pub min_s: f64,
    /// The median.
    pub p50_s: f64,
    /// The 95th percentile.
    pub p95_s: f64,
}

/// One direction of a subflow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DirectionReport {
    /// Packets in this direction, also without payload.
    pub packets: u64,
    /// Payload, retransmissions included.
    pub bytes: u64,
    /// Unique bytes of the stream that arrived on this subflow first.
    pub delivered_bytes: u64,
    /// Its share of the stream, in percent.
    pub share_pct: f64,
    /// Those bytes over the time from its first data to its last one.
    pub goodput_bps: Option<f64>,
    /// Segments with payload, as on the wire, retransmissions included.
    pub data_segments: u64,
    /// Retransmissions.
    pub retransmitted_segments: u64,
    /// The packets of the capture with them, which segmentation offload may have joined.
    pub retransmitted_packets: u64,
    /// Retransmissions that were not needed: the receiver reported the data twice (DSACK).
    pub spurious_segments: u64,
    /// Segments that were overtaken.
    pub reordered_segments: u64,
    /// Packets with a data sequence signal.
    pub dss_packets: u64,
    /// Packets with a mark of congestion.
    pub ce_packets: u64,
    /// Acknowledgements without progress while data was in flight.
    pub duplicate_acks: u64,
    /// The round trip of its data.
    pub rtt: Option<RttReport>,
    /// The path; null if it carried less than 10 segments.
    pub path: Option<PathEstimate>,
    /// The values of the sender's kernel; null unless they were sampled meanwhile (`anabranch record`).
    pub kernel: Option<KernelReport>,
}

/// The data of one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamReport {
    /// Unique bytes that were delivered in order, as far as the capture shows it.
    pub delivered_bytes: u64,
    /// From the first data to the last acknowledgement, at the receiver to the last delivery.
    pub time_s: f64,
    /// The completion time: from the client's first SYN until the receiver had the last byte that was delivered, without
    /// the time in which the sender had nothing to send. In a capture at the server half a round trip is added, for the
    /// SYN; in a capture at the sender half a round trip is subtracted, for the acknowledgement. Null without the handshake.
    pub fct_s: Option<f64>,
    /// Those bytes over that time.
    pub goodput_bps: Option<f64>,
    /// Segments with payload.
    pub data_segments: u64,
    /// Retransmissions on the same subflow, of all data segments.
    pub retransmitted_ratio: f64,
    /// Segments with bytes that another subflow had carried, of all data segments.
    pub reinjected_ratio: f64,
    /// Bytes that another subflow had carried.
    pub reinjected_bytes: u64,
    /// Bytes that arrived after they had been delivered.
    pub duplicate_bytes: u64,
    /// Times at which bytes began to wait for an earlier one.
    pub holes: u64,
    /// The time in which bytes waited for an earlier one.
    pub blocked_s: f64,
    /// The mean wait of a byte for earlier ones.
    pub wait_mean_s: f64,
    /// The most bytes that waited.
    pub most_waiting_bytes: u64,
    /// The longest time between two advances of in-order delivery.
    pub longest_gap_s: f64,
    /// The time at which that gap began.
    pub longest_gap_at_s: Option<f64>,
    /// Periods of sending, each after a pause with nothing in flight; null in a capture at the receiver.
    pub bursts: Option<u64>,
    /// True if the end of the stream (DATA_FIN or FIN) is in the capture.
    pub ended: bool,
    /// The time by its cause, from the connection's first packet to its last one.
    pub parts: Vec<PartReport>,
}

/// A part of a connection's time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PartReport {
    /// The cause, as in the accounts of `explain`.
    pub cause: Cause,
    /// Its time.
    pub seconds: f64,
    /// The share of the whole time, in percent.
    pub share_pct: f64,
}

/// An announced address.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AddressReport {
    /// `client` or `server`.
    pub by: &'static str,
    /// The address ID of ADD_ADDR or REMOVE_ADDR.
    pub id: u8,
    /// The address, with its port if it has one.
    pub address: String,
    /// The time of the signal, from the connection's first packet.
    pub time_s: f64,
    /// True if the peer has echoed it.
    pub echoed: bool,
    /// True if it was removed later.
    pub removed: bool,
    /// True if a subflow uses it.
    pub used: bool,
}

/// A fault against a rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultReport {
    /// The standard and its section.
    pub rule: &'static str,
    /// The fault.
    pub text: String,
    /// The first time.
    pub time_s: f64,
    /// Packets.
    pub count: u64,
}

/// The begin of the captures, against which times are reported.
#[derive(Clone, Copy)]
struct Origin(Time);

impl Origin {
    fn seconds(self, time: Time) -> f64 {
        time.since(self.0).as_secs_f64()
    }
}

impl Inspection {
    pub(crate) fn new(
        table: &Table,
        files: Vec<FileReport>,
        skipped: Skipped,
        (begun, ended): (Time, Time),
    ) -> Inspection {
        let (twins, mut notes) = twins(table, &files);
        let clocks: Vec<Option<ClockReport>> = files.iter().map(|file| file.clock.clone()).collect();
        for (file, clock) in files.iter().filter_map(|file| Some((file, file.clock.as_ref()?))) {
            let other = files.get(clock.than).map_or("-", |other| other.name.as_str());
            notes.push(clocks::remark(clock, &file.name, other));
        }
        notes.extend(files.iter().filter_map(|file| file.remark.clone()));
        if skipped.table_full > 0 {
            notes.push(format!(
                "{} packets belong to connections beyond the first {} and were not followed; select some with \
                 `tcpdump -r FILE -w NEW FILTER`",
                skipped.table_full,
                crate::track::MAX_SUBFLOWS
            ));
        }
        if skipped.fragments > 0 {
            notes.push(format!("{} fragments of IP packets were not read", skipped.fragments));
        }
        let mut connections = Vec::new();
        for (at, connection) in table.connections.iter().enumerate() {
            if connection.subflows.is_empty() || connection.merged || twins.contains_key(&at) {
                continue;
            }
            let number = connections.len() + 1;
            let file =
                connection.subflows.first().and_then(|at| table.subflows.get(*at)).map_or(0, |one| one.file);
            let origin = Origin(clocks::corrected(begun, -clocks::ahead(&clocks, file)));
            connections.push(ConnectionReport::new(table, connection, number, origin));
        }
        Inspection {
            version: env!("CARGO_PKG_VERSION"),
            commit: None,
            schema: SCHEMA,
            command: Vec::new(),
            files,
            begun_unix_s: begun.as_secs_f64(),
            duration_s: ended.since(begun).as_secs_f64(),
            skipped,
            notes,
            connections,
        }
    }
}

/// Returns the connections that another file shows better, and a remark on each.
fn twins(table: &Table, files: &[FileReport]) -> (BTreeMap<usize, usize>, Vec<String>) {
    let mut seen: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    let (mut twins, mut notes) = (BTreeMap::new(), Vec::new());
    let name = |file: usize| files.get(file).map_or("-", |file| file.name.as_str());
    for (at, connection) in table.connections.iter().enumerate() {
        let Some(subflow) = connection.subflows.first().and_then(|at| table.subflows.get(*at)) else {
            continue;
        };
        let numbers = subflow.halves[0].number().zip(subflow.halves[1].number());
        // The initial sequence numbers of both hosts survive a NAT.
        let Some(numbers) = numbers.filter(|_| subflow.syn_seq.is_some()) else { continue };
        let Some(before) = seen.insert(numbers, at) else { continue };
        let first = table.connections.get(before).and_then(|one| table.subflows.get(*one.subflows.first()?));
        let Some(other) = first.filter(|other| other.file != subflow.file) else { continue };
        // The capture nearer to the sender of most data shows more.
        let sends = usize::from(subflow.halves[1].counts.bytes > subflow.halves[0].counts.bytes);
        let keep_new = subflow.is_at_sender(sends) && !other.is_at_sender(sends);
        let (drop, kept, dropped) = if keep_new { (before, subflow, other) } else { (at, other, subflow) };
        if !keep_new {
            seen.insert(numbers, before);
        }
        twins.insert(drop, if keep_new { at } else { before });
        let (sent, got) = (kept.halves[sends].counts, dropped.halves[sends].counts);
        let nat = if kept.client != dropped.client { ", behind a NAT" } else { "" };
        notes.push(format!(
            "{} and {} have the same connection from {}{nat}: {} shows {} data segments and {} shows {}; the page is by \
             the former, {}",
            name(kept.file),
            name(dropped.file),
            kept.client,
            name(kept.file),
            sent.segments,
            name(dropped.file),
            got.segments,
            kept.vantage().name(),
        ));
    }
    (twins, notes)
}

impl ConnectionReport {
    fn new(table: &Table, connection: &Connection, number: usize, origin: Origin) -> ConnectionReport {
        let subflows: Vec<&Subflow> =
            connection.subflows.iter().filter_map(|at| table.subflows.get(*at)).collect();
        let first = subflows.first();
        let ends = first.map_or((String::new(), String::new()), |first| {
            let (client, server) = (first.client.to_string(), first.server.to_string());
            if first.flipped { (server, client) } else { (client, server) }
        });
        let begun = subflows.iter().map(|subflow| subflow.first).min().unwrap_or_default();
        let ended = subflows.iter().map(|subflow| subflow.last).max().unwrap_or_default();
        let protocol = match connection.protocol {
            Protocol::Multipath => ProtocolName::Mptcp,
            Protocol::Asked => ProtocolName::Mptcp,
            Protocol::Fallback => ProtocolName::Fallback,
            Protocol::Unknown | Protocol::Plain => ProtocolName::Tcp,
        };
        let standard = connection.version.map(|version| if version == 0 { "RFC 6824" } else { "RFC 8684" });
        // At the server the SYN arrives half a round trip after the client has sent it.
        let late =
            first.filter(|first| first.vantage() == Vantage::Server).and_then(|first| first.handshake_rtt());
        let sent = Time(begun.0.saturating_sub(late.map_or(0, |rtt| rtt.0 / 2)));
        let report = |subflow: &&Subflow| SubflowReport::new(subflow, connection, origin, sent);
        let reports: Vec<SubflowReport> = subflows.iter().map(report).collect();
        let streams = [0, 1].map(|direction| {
            let mut report = stream(connection, &subflows, direction, origin);
            outages::charge(&mut report, &connection.streams[direction].silences, &reports, direction);
            report
        });
        let addresses = connection.addresses.iter().map(|address| AddressReport {
            by: if address.by == 0 { "client" } else { "server" },
            id: address.id,
            address: match address.port {
                Some(port) => std::net::SocketAddr::new(address.ip, port).to_string(),
                None => address.ip.to_string(),
            },
            time_s: origin.seconds(address.time),
            echoed: address.echoed.is_some(),
            removed: address.removed.is_some(),
            used: subflows.iter().any(|one| one.client.ip == address.ip || one.server.ip == address.ip),
        });
        let faults = connection.faults.iter().map(|fault| FaultReport {
            rule: fault.rule,
            text: fault.text.clone(),
            time_s: origin.seconds(fault.time),
            count: fault.count,
        });
        let token = |token: Option<u32>| token.map(|token| format!("{token:08x}"));
        let mut report = ConnectionReport {
            number,
            protocol,
            standard: standard.filter(|_| protocol != ProtocolName::Tcp),
            client: ends.0,
            server: ends.1,
            captured: first.map_or(Vantage::Unknown, |first| first.vantage()),
            file: first.map_or(0, |first| first.file),
            start_s: origin.seconds(begun),
            connected_s: first.and_then(|first| Some(first.ack?.since(first.syn?).as_secs_f64())),
            duration_s: ended.since(begun).as_secs_f64(),
            tokens: connection.tokens.map(token),
            fallback: connection.fallback.as_ref().map(|fallback| fallback.1.clone()),
            by_continuity: connection.by_continuity,
            addresses: addresses.collect(),
            priority_changes: connection.priority_changes,
            outcome: outcome(connection, &subflows, origin),
            faults: faults.collect(),
            subflows: reports,
            streams,
            application: Application::default(),
            sentences: Vec::new(),
            place: Place {
                subflows: connection.subflows.clone(),
                begun,
                start: [0, 1].map(|direction| connection.streams[direction].unknown_start()),
                at_sender: [0, 1].map(|direction| is_at_sender(&subflows, direction)),
            },
        };
        let main = report.main_direction();
        report.application = Application::new(connection, &subflows, main, report.rates(main));
        report.sentences = sentence::sentences(&report);
        report
    }

    /// Returns the sum of the rates of the paths in a direction; none if one of them is not known.
    fn rates(&self, direction: usize) -> Option<f64> {
        let own = self.subflows.iter().map(|subflow| &subflow.directions[direction]);
        let used = own.filter(|own| own.share_pct > 1.0);
        let rate = |own: &DirectionReport| {
            let path = own.path.as_ref().filter(|path| path.rate_source != RateSource::LowerBound)?;
            path.rate_bps.map(|rate| rate.value)
        };
        used.map(rate).sum()
    }

    /// The direction with more data: 0 from the client.
    pub fn main_direction(&self) -> usize {
        usize::from(self.streams[1].delivered_bytes > self.streams[0].delivered_bytes)
    }
}

fn outcome(connection: &Connection, subflows: &[&Subflow], origin: Origin) -> String {
    let end = |number: usize| if number == 0 { "the client" } else { "the server" };
    if let Some((time, by)) = connection.fast_close {
        return format!("aborted by {} with MP_FASTCLOSE at {:.3} s", end(by), origin.seconds(time));
    }
    let reset = subflows.iter().filter_map(|subflow| subflow.reset.as_ref().map(|reset| (subflow, reset)));
    let all_reset = subflows.iter().all(|subflow| subflow.reset.is_some());
    if let Some((subflow, reset)) = reset.max_by_key(|(_, reset)| reset.time)
        && all_reset
    {
        let by = end(subflow.direction(reset.by));
        return format!("reset by {by} at {:.3} s", origin.seconds(reset.time));
    }
    let fins = connection.streams.iter().filter(|stream| stream.data_fin.is_some()).count();
    let tcp_fins = subflows.iter().all(|subflow| subflow.halves.iter().all(|half| half.fin.is_some()));
    match (fins, tcp_fins) {
        (2, _) | (_, true) => "closed by both hosts".to_owned(),
        (1, _) => "closed by one host when the capture ends".to_owned(),
        _ if subflows.iter().all(|subflow| subflow.ack.is_none() && subflow.syn_count > 0) => {
            "never established".to_owned()
        }
        _ => "open when the capture ends".to_owned(),
    }
}

fn reason(reason: ResetReason) -> &'static str {
    match reason {
        ResetReason::Unspecified => "unspecified",
        ResetReason::MptcpError => "an MPTCP-specific error",
        ResetReason::LackOfResources => "lack of resources",
        ResetReason::Prohibited => "administratively prohibited",
        ResetReason::TooMuchOutstanding => "too much outstanding data",
        ResetReason::BadPerformance => "unacceptable performance",
        ResetReason::Middlebox => "middlebox interference",
    }
}

impl SubflowReport {
    fn new(subflow: &Subflow, connection: &Connection, origin: Origin, begun: Time) -> SubflowReport {
        let end = |half: usize| if subflow.direction(half) == 0 { "the client" } else { "the server" };
        let ended = match (&subflow.reset, subflow.halves[0].fin, subflow.halves[1].fin) {
            (Some(reset), ..) => {
                let why = match reset.reason {
                    Some(code) if reset.transient => format!(" (MP_TCPRST: {}, transient)", reason(code)),
                    Some(code) => format!(" (MP_TCPRST: {})", reason(code)),
                    None if reset.fast_close => " (MP_FASTCLOSE)".to_owned(),
                    None => String::new(),
                };
                Some(format!("reset by {} at {:.3} s{why}", end(reset.by), origin.seconds(reset.time)))
            }
            (None, Some(_), Some(_)) => Some("closed by both".to_owned()),
            (None, Some(_), None) => Some(format!("closed by {}", end(0))),
            (None, None, Some(_)) => Some(format!("closed by {}", end(1))),
            (None, None, None) => None,
        };
        let hmac = subflow.joining.and_then(|joining| match joining.hmac {
            [Some(a), Some(b)] => Some(a && b),
            [a, b] => a.or(b),
        });
        SubflowReport {
            from: subflow.client.to_string(),
            to: subflow.server.to_string(),
            opened_by_server: subflow.flipped,
            captured: subflow.vantage(),
            start_s: origin.seconds(subflow.first),
            connected_s: subflow.ack.zip(subflow.syn).map(|(ack, syn)| ack.since(syn).as_secs_f64()),
            syn_count: subflow.syn_count,
            backup: subflow.backup != [false; 2],
            hmac,
            directions: [0, 1].map(|direction| DirectionReport::new(subflow, connection, direction, begun)),
            ended,
            copies: subflow.copies,
        }
    }
}

fn rtt(histogram: &Histogram, from: &'static str) -> Option<RttReport> {
    let seconds = |span: Option<Duration>| span.map(|span| span.as_secs_f64());
    Some(RttReport {
        from,
        samples: histogram.count(),
        min_s: seconds(histogram.min())?,
        p50_s: seconds(histogram.quantile(0.5))?,
        p95_s: seconds(histogram.quantile(0.95))?,
    })
}

impl DirectionReport {
    fn new(subflow: &Subflow, connection: &Connection, direction: usize, begun: Time) -> DirectionReport {
        let half = direction ^ usize::from(subflow.flipped);
        let (own, other) = (&subflow.halves[half & 1], &subflow.halves[(half & 1) ^ 1]);
        let at_sender = subflow.is_at_sender(half);
        let stream = &connection.streams[direction & 1];
        let delivery = if at_sender { &stream.by_ack } else { &stream.by_arrival };
        let delivered = delivery.by_subflow.get(subflow.number).copied().unwrap_or(0);
        let all = delivery.by_subflow.iter().fold(0_u64, |sum, part| sum.saturating_add(*part));
        let span = own.first_data.zip(own.last_data).map(|(first, last)| last.since(first).as_secs_f64());
        let counts = own.counts;
        let own_rtt = if at_sender { rtt(&own.rtt, "ack") } else { rtt(&other.echo_rtt, "timestamps") };
        DirectionReport {
            packets: counts.packets,
            bytes: counts.bytes,
            delivered_bytes: delivered,
            share_pct: if all > 0 { 100.0 * delivered as f64 / all as f64 } else { 0.0 },
            goodput_bps: span.filter(|span| *span > 0.0).map(|span| delivered as f64 * 8.0 / span),
            data_segments: counts.segments,
            retransmitted_segments: counts.retransmitted,
            retransmitted_packets: counts.retransmitted_packets,
            spurious_segments: counts.spurious.min(counts.retransmitted),
            reordered_segments: counts.reordered,
            dss_packets: counts.dss,
            ce_packets: counts.ce,
            duplicate_acks: counts.duplicate_acks,
            rtt: own_rtt,
            path: (counts.segments >= 10).then(|| PathEstimate::new(subflow, half, begun, delivered == all)),
            kernel: None,
        }
    }
}

fn stream(connection: &Connection, subflows: &[&Subflow], direction: usize, origin: Origin) -> StreamReport {
    let stream: &Stream = &connection.streams[direction];
    let at_sender = is_at_sender(subflows, direction);
    let delivery = if at_sender { &stream.by_ack } else { &stream.by_arrival };
    let last = if at_sender { stream.last_acked } else { delivery.last_advance };
    let time = stream.first_sent.zip(last).map_or(0.0, |(first, last)| last.since(first).as_secs_f64());
    let first = subflows.first();
    let rtt = first.and_then(|first| first.handshake_rtt()).map_or(0.0, |rtt| rtt.as_secs_f64());
    let at_server = first.is_some_and(|first| first.vantage() == Vantage::Server);
    let idle = stream.account.get(Cause::Application as usize).copied().unwrap_or(0) as f64 / 1e9;
    let fct = first.and_then(|first| first.syn).zip(last).map(|(syn, last)| {
        let late = if at_server { rtt / 2.0 } else { 0.0 } - if at_sender { rtt / 2.0 } else { 0.0 };
        (last.since(syn).as_secs_f64() - idle + late).max(0.0)
    });
    let sum = |count: fn(&crate::track::Half) -> u64| -> u64 {
        subflows.iter().map(|subflow| count(subflow.half(direction))).sum()
    };
    let segments = sum(|half| half.counts.segments);
    let ratio = |count: u64| if segments > 0 { count as f64 / segments as f64 } else { 0.0 };
    // Damaged times make long spans.
    let spent = stream.account.iter().fold(0_u64, |sum, part| sum.saturating_add(*part));
    let part = |cause: &Cause| {
        let nanos = stream.account.get(*cause as usize).copied().unwrap_or(0);
        PartReport {
            cause: *cause,
            seconds: nanos as f64 / 1e9,
            share_pct: if spent > 0 { 100.0 * nanos as f64 / spent as f64 } else { 0.0 },
        }
    };
    let has_data = segments > 0;
    StreamReport {
        delivered_bytes: delivery.delivered,
        time_s: time,
        fct_s: fct,
        goodput_bps: (time > 0.0).then(|| delivery.delivered as f64 * 8.0 / time),
        data_segments: segments,
        retransmitted_ratio: ratio(sum(|half| half.counts.retransmitted)),
        reinjected_ratio: ratio(stream.reinjected_segments),
        reinjected_bytes: stream.reinjected_bytes,
        duplicate_bytes: delivery.duplicate_bytes,
        holes: delivery.holes,
        blocked_s: delivery.blocked.as_secs_f64(),
        wait_mean_s: delivery.waited_byte_s / (delivery.delivered.max(1) as f64),
        most_waiting_bytes: delivery.most_early_bytes,
        longest_gap_s: delivery.longest_gap.as_secs_f64(),
        longest_gap_at_s: delivery.longest_gap_at.map(|at| origin.seconds(at)),
        bursts: at_sender.then_some(stream.bursts),
        ended: stream.data_fin.is_some() || subflows.iter().any(|one| one.half(direction).fin.is_some()),
        parts: Cause::ALL.iter().filter(|_| has_data).map(part).filter(|part| part.seconds > 0.0).collect(),
    }
}
