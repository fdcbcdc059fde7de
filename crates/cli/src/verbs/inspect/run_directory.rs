//! `--record`: a connection of a capture as a run directory.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use anabranch_inspect::capture::Merged;
use anabranch_inspect::{ConnectionReport, Event, Seen, follow};
use anabranch_recording::measured::{
    Delivery, Measured, MeasuredFlow, MeasuredSegment, MeasuredSubflow, MeasuredWindow, Progress, Way,
};
use anabranch_units::{Duration, Time};

use super::{Sampled, damaged};
use crate::failure::Failure;
use crate::record::Record;
use crate::{interrupt, output, progress};

/// The name of the only run.
const RUN: &str = "capture";

/// Writes `connection` as a run directory, if that is asked for; `again` are its captures once more, and `sampled` has the
/// windows of this host and the time in seconds since 1970 at which the connection began.
pub(super) fn record(
    args: &Record,
    connection: &ConnectionReport,
    (sampled, begun): (&Sampled, f64),
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
    let mut windows = Windows::new(connection.number, sampled, begun);
    let read = follow(
        &mut captures,
        connection,
        |_| !cancelled.load(Ordering::Relaxed),
        |event| add(&mut measured, &mut windows, event),
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

/// The place of a series of windows: the subflow and the direction.
type Series = (usize, usize);

/// The windows of the capture and of the kernel, which become one series for each subflow and direction: bytes in flight and the
/// receiver's window are the capture's, and the other values are the kernel's, as long as it has some.
struct Windows<'a> {
    /// The samples that are still to come.
    sampled: BTreeMap<Series, &'a [MeasuredWindow]>,
    begun: f64,
    /// The last row of the capture, and the last sample.
    last: BTreeMap<Series, (Option<MeasuredWindow>, Option<MeasuredWindow>)>,
}

impl<'a> Windows<'a> {
    fn new(connection: usize, sampled: &'a Sampled, begun: f64) -> Windows<'a> {
        let own = sampled.iter().filter(|(place, _)| place.0 == connection);
        let sampled = own.map(|(place, rows)| ((place.1, place.2), rows.as_slice())).collect();
        Windows { sampled, begun, last: BTreeMap::new() }
    }

    /// Adds the samples until `now`.
    fn advance(&mut self, now: Time, measured: &mut Measured) {
        let begun = Duration::from_secs_f64(self.begun);
        for (place, rows) in &mut self.sampled {
            while let Some((row, rest)) = rows.split_first()
                && row.time.0.saturating_sub(begun.0) <= now.0
            {
                *rows = rest;
                let time = Time(row.time.0.saturating_sub(begun.0));
                let (direction, subflow) = (place.1, u8::try_from(place.0).unwrap_or(u8::MAX));
                let row = MeasuredWindow { time, flow: 0, way: way(direction), subflow, ..*row };
                let last = self.last.entry(*place).or_default();
                last.1 = Some(row);
                measured.change(&joined(time, *last));
            }
        }
    }

    /// Adds a row of the capture.
    fn add(&mut self, place: Series, row: MeasuredWindow, measured: &mut Measured) {
        let last = self.last.entry(place).or_default();
        last.0 = Some(row);
        measured.change(&joined(row.time, *last));
    }
}

/// Returns the row of a capture with the values of a kernel.
fn joined(time: Time, last: (Option<MeasuredWindow>, Option<MeasuredWindow>)) -> MeasuredWindow {
    match last {
        (Some(captured), Some(kernel)) => MeasuredWindow {
            time,
            inflight_bytes: captured.inflight_bytes,
            peer_window_bytes: captured.peer_window_bytes,
            srtt_us: kernel.srtt_us.or(captured.srtt_us),
            ..kernel
        },
        (captured, kernel) => MeasuredWindow { time, ..captured.or(kernel).unwrap_or(NONE) },
    }
}

/// A row without values.
const NONE: MeasuredWindow = MeasuredWindow {
    time: Time::ZERO,
    flow: 0,
    way: Way::Up,
    subflow: 0,
    cwnd_bytes: None,
    ssthresh_bytes: None,
    inflight_bytes: 0,
    srtt_us: None,
    pacing_bps: None,
    peer_window_bytes: 0,
};

fn way(direction: usize) -> Way {
    [Way::Up, Way::Down][direction & 1]
}

/// Adds the row of an event.
fn add(measured: &mut Measured, windows: &mut Windows<'_>, event: &Event) {
    if measured.is_broken() {
        return;
    }
    windows.advance(event.time, measured);
    let (time, flow) = (event.time, 0);
    let way = way(event.direction);
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
        Seen::Flight { bytes, srtt, window } => {
            let row = MeasuredWindow {
                time,
                flow,
                way,
                subflow,
                inflight_bytes: bytes,
                srtt_us: srtt.map(|srtt| srtt.0 / 1000),
                peer_window_bytes: window,
                ..NONE
            };
            windows.add((event.subflow, event.direction), row, measured);
        }
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
                rto_count: own.kernel.as_ref().and_then(|kernel| kernel.rto_count),
                min_rtt_us: own.rtt.map(|rtt| (rtt.min_s * 1e6) as u64),
            }
        })
    };
    end("client").chain(end("server")).collect()
}
