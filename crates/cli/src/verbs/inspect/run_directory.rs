//! `--record`: a connection of a capture as a run directory.

use std::sync::atomic::Ordering;

use anabranch_inspect::capture::Merged;
use anabranch_inspect::{ConnectionReport, Event, Seen, follow};
use anabranch_recording::measured::{
    Delivery, Measured, MeasuredFlow, MeasuredSegment, MeasuredSubflow, MeasuredWindow, Progress, Way,
};
use anabranch_units::{Duration, Time};

use super::damaged;
use crate::failure::Failure;
use crate::record::Record;
use crate::{interrupt, output, progress};

/// The name of the only run.
const RUN: &str = "capture";

/// Writes `connection` as a run directory, if that is asked for; `again` are its captures once more.
pub(super) fn record(
    args: &Record,
    connection: &ConnectionReport,
    again: impl FnOnce() -> Result<Merged, Failure>,
) -> Result<(), Failure> {
    let Some(directory) = args.directory() else { return Ok(()) };
    // The names that the scenario of the connection has for its paths.
    let paths: Vec<String> = (1..=connection.subflows.len()).map(|n| format!("path{n}")).collect();
    let mut captures = again()?;
    let failed = |error: anabranch_recording::DirectoryError| Failure::Failed(error.to_string());
    let mut measured =
        Measured::create(directory, RUN, &paths, Record::origin(None), args.settings()).map_err(failed)?;
    let cancelled = interrupt::watch();
    let progress = progress::Progress::of("packets");
    let read = follow(
        &mut captures,
        connection,
        |_| !cancelled.load(Ordering::Relaxed),
        |event| add(&mut measured, event),
    );
    progress.finish();
    read.map_err(damaged)?;
    if cancelled.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted);
    }
    measured.finish(&paths, &[flow(connection)], &subflows(connection)).map_err(failed)?;
    output::remark(format_args!("recorded in {}", directory.display()));
    Ok(())
}

/// Adds the row of an event.
fn add(measured: &mut Measured, event: &Event) {
    if measured.is_broken() {
        return;
    }
    let (time, flow) = (event.time, 0);
    let way = [Way::Up, Way::Down][event.direction & 1];
    // A host gives its subflows numbers of 8 bits.
    let subflow = u8::try_from(event.subflow).unwrap_or(u8::MAX);
    let progress =
        |range, received, window_edge| Progress { time, flow, way, subflow, range, received, window_edge };
    match event.seen {
        Seen::Segment { kind, range } => {
            measured.segment(&MeasuredSegment { time, flow, way, subflow, kind, range });
        }
        Seen::Received { range } => measured.progress(&progress(range, true, None)),
        Seen::DataAcked { range, edge } => measured.progress(&progress(range, false, edge)),
        Seen::Flight { bytes, srtt, window } => measured.change(&MeasuredWindow {
            time,
            flow,
            way,
            subflow,
            cwnd_bytes: None,
            ssthresh_bytes: None,
            inflight_bytes: bytes,
            srtt_us: srtt.map(|srtt| srtt.0 / 1000),
            pacing_bps: None,
            peer_window_bytes: window,
        }),
    }
}

/// Returns a time of the inspection, which is in seconds since the first packet of the captures, since that of the connection.
fn since(connection: &ConnectionReport, seconds: f64) -> Time {
    Time(Duration::from_secs_f64((seconds - connection.start_s).max(0.0)).0)
}

fn flow(connection: &ConnectionReport) -> MeasuredFlow {
    let direction = connection.main_direction();
    let stream = &connection.streams[direction];
    let segments = |count: fn(&anabranch_inspect::DirectionReport) -> u64| {
        connection.subflows.iter().map(|subflow| count(&subflow.directions[direction])).sum()
    };
    MeasuredFlow {
        name: format!("{} to {}", connection.client, connection.server),
        way: [Way::Up, Way::Down][direction],
        start: Time::ZERO,
        end: Time::ZERO + Duration::from_secs_f64(stream.fct_s.unwrap_or(connection.duration_s)),
        running: !stream.ended,
        delivered_bytes: stream.delivered_bytes,
        data_segments: stream.data_segments,
        retransmitted_segments: segments(|direction| direction.retransmitted_segments),
        reinjected_bytes: Some(stream.reinjected_bytes),
        rto_count: None,
        delivery: Some(Delivery {
            connected: connection.connected_s.map(Duration::from_secs_f64),
            duplicate_bytes: stream.duplicate_bytes,
            longest_gap: Duration::from_secs_f64(stream.longest_gap_s),
        }),
    }
}

/// Returns both ends of each subflow, the clients first.
fn subflows(connection: &ConnectionReport) -> Vec<MeasuredSubflow> {
    let end = |end: &'static str| {
        connection.subflows.iter().enumerate().map(move |(at, subflow)| {
            let sends = usize::from(end == "server");
            let (own, other) = (&subflow.directions[sends], &subflow.directions[sends ^ 1]);
            let opened = (end == "server") == subflow.opened_by_server;
            let (local, remote) =
                if opened { (&subflow.from, &subflow.to) } else { (&subflow.to, &subflow.from) };
            let started = since(connection, subflow.start_s);
            MeasuredSubflow {
                flow: 0,
                end,
                subflow: u8::try_from(at).unwrap_or(u8::MAX),
                local: local.clone(),
                remote: remote.clone(),
                interface: Some(if end == "client" { at } else { 0 }),
                started,
                established: subflow.connected_s.map(|span| started + Duration::from_secs_f64(span)),
                ended: None,
                bytes_sent: own.bytes,
                bytes_acked: None,
                bytes_delivered: Some(other.delivered_bytes),
                segments_sent: own.data_segments,
                segments_retransmitted: own.retransmitted_segments,
                rto_count: None,
                min_rtt_us: own.rtt.map(|rtt| (rtt.min_s * 1e6) as u64),
            }
        })
    };
    end("client").chain(end("server")).collect()
}
