//! A run directory of connections that were not simulated: the rows come from a kernel's counters, or from a capture.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anabranch_sim::FlowId;
use anabranch_stack::event::SubflowId;
use anabranch_stack::observer::SendKind;
use anabranch_stack::seq::DataRange;
use anabranch_table::Cell;
use anabranch_units::{Duration, Time};

use crate::batch::{WindowRow, whole};
use crate::data::Data;
use crate::directory::{DirectoryError, Origin, Settings, Single};
use crate::names::{EventName, Stream};
use crate::schema::{Name, TABLES};
use crate::series::Series;
use crate::tables::{TableError, Tables};
use crate::xpl::Xpl;

/// The direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

impl From<Way> for Stream {
    fn from(way: Way) -> Stream {
        match way {
            Way::Up => Stream::Up,
            Way::Down => Stream::Down,
        }
    }
}

/// A row of `windows`.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredWindow {
    /// The time since the start of the run.
    pub time: Time,
    /// The flow, from 0.
    pub flow: u32,
    /// The stream that this host sends.
    pub way: Way,
    /// The subflow, from 0.
    pub subflow: u8,
    /// The congestion window, if it is known.
    pub cwnd_bytes: Option<u64>,
    /// The slow-start threshold; none while it is infinite.
    pub ssthresh_bytes: Option<u64>,
    /// The bytes in flight.
    pub inflight_bytes: u64,
    /// The smoothed RTT.
    pub srtt_us: Option<u64>,
    /// The pacing rate.
    pub pacing_bps: Option<u64>,
    /// The peer's receive window.
    pub peer_window_bytes: u64,
}

impl From<MeasuredWindow> for WindowRow {
    fn from(row: MeasuredWindow) -> WindowRow {
        WindowRow {
            time: row.time,
            flow: row.flow,
            stream: row.way.into(),
            subflow: row.subflow,
            cwnd_bytes: row.cwnd_bytes,
            ssthresh_bytes: row.ssthresh_bytes,
            inflight_bytes: row.inflight_bytes,
            srtt_us: row.srtt_us,
            pacing_bps: row.pacing_bps,
            peer_window_bytes: row.peer_window_bytes,
        }
    }
}

/// Progress of a stream by one subflow.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The time since the start of the run.
    pub time: Time,
    /// The flow, from 0.
    pub flow: u32,
    /// The stream.
    pub way: Way,
    /// The subflow, from 0.
    pub subflow: u8,
    /// The first offset of the data, and the offset after it.
    pub range: (u64, u64),
    /// True if the receiver has the data for the first time; false if it has acknowledged the data up to the end of `range`.
    pub received: bool,
    /// The right edge of the receiver's window, if an acknowledgement says it.
    pub window_edge: Option<u64>,
}

/// A segment with data.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredSegment {
    /// The time since the start of the run.
    pub time: Time,
    /// The flow, from 0.
    pub flow: u32,
    /// The stream.
    pub way: Way,
    /// The subflow, from 0.
    pub subflow: u8,
    /// Its kind; a segment without data has no row.
    pub kind: SendKind,
    /// The first offset of the data, and the offset after it.
    pub range: (u64, u64),
}

/// A row of `flows`.
#[derive(Clone, Debug)]
pub struct MeasuredFlow {
    /// The name that tables have for it.
    pub name: String,
    /// The stream with most of its data.
    pub way: Way,
    /// The time at which it was first seen.
    pub start: Time,
    /// The time at which it was last seen.
    pub end: Time,
    /// True if it was still there at the end of the run.
    pub running: bool,
    /// The bytes of that stream that were delivered.
    pub delivered_bytes: u64,
    /// Data segments sent by this host.
    pub data_segments: u64,
    /// Data segments that this host sent once more on the same subflow.
    pub retransmitted_segments: u64,
    /// Reinjected payload.
    pub reinjected_bytes: Option<u64>,
    /// Retransmission timeouts.
    pub rto_count: Option<u64>,
    /// The delivery, if its packets were seen.
    pub delivery: Option<Delivery>,
}

/// The delivery of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// The time from the start until the connection was established, if the handshake was seen.
    pub connected: Option<Duration>,
    /// Bytes that arrived more than once.
    pub duplicate_bytes: u64,
    /// The longest time between two advances of in-order delivery while data was outstanding.
    pub longest_gap: Duration,
}

/// A row of `subflows`.
#[derive(Clone, Debug)]
pub struct MeasuredSubflow {
    /// The flow, from 0.
    pub flow: u32,
    /// `client` or `server`: this host.
    pub end: &'static str,
    /// The subflow, from 0.
    pub subflow: u8,
    /// Its own address and port.
    pub local: String,
    /// The peer's address and port.
    pub remote: String,
    /// The position of its interface among the paths.
    pub interface: Option<usize>,
    /// The time at which it was first seen, and first could send.
    pub started: Time,
    /// The time at which it could carry data.
    pub established: Option<Time>,
    /// The time at which it was gone.
    pub ended: Option<Time>,
    /// Payload sent.
    pub bytes_sent: u64,
    /// Payload acknowledged, if it is known.
    pub bytes_acked: Option<u64>,
    /// Payload that arrived here first, if it is known.
    pub bytes_delivered: Option<u64>,
    /// Data segments sent.
    pub segments_sent: u64,
    /// Data segments that were sent once more on this subflow.
    pub segments_retransmitted: u64,
    /// Retransmission timeouts.
    pub rto_count: Option<u64>,
    /// The minimum RTT.
    pub min_rtt_us: Option<u64>,
}

/// A run directory with one run, which was measured.
pub struct Measured {
    directory: Single,
    tables: Tables,
    xpl: Option<Xpl>,
    scheduler: String,
    /// The least time between two rows of [`Measured::change`].
    interval: Duration,
    /// By flow, stream and subflow.
    series: BTreeMap<(u32, Stream, u8), Series<MeasuredWindow>>,
}

fn failed(error: TableError) -> DirectoryError {
    DirectoryError::new(&error.path, error.error)
}

/// Returns a row: a cell for each column of the table, by name; other columns are missing.
fn cells<'a>(table: Name, values: &[(&str, Cell<'a>)]) -> Vec<Cell<'a>> {
    let columns = TABLES[table as usize].columns.iter();
    let of =
        |name: &str| values.iter().find(|(other, _)| *other == name).map_or(Cell::Missing, |(_, cell)| *cell);
    columns.map(|column| of(column.name)).collect()
}

fn number(value: u64) -> Cell<'static> {
    Cell::Integer(whole(value))
}

fn optional(value: Option<u64>) -> Cell<'static> {
    value.map_or(Cell::Missing, number)
}

impl Measured {
    /// Creates the directory, which must not exist or be empty. `scheduler` is the name of its only run, and `paths` are
    /// the names of its interfaces.
    ///
    /// # Errors
    /// If it cannot be written to.
    pub fn create(
        path: &Path,
        scheduler: &str,
        paths: &[String],
        origin: Origin,
        settings: Settings,
    ) -> Result<Measured, DirectoryError> {
        let directory = Single::create(path, scheduler, paths, origin, settings)?;
        let inside: PathBuf = path.join(scheduler);
        let tables = Tables::create(&inside, settings.format, core::iter::empty()).map_err(failed)?;
        let xpl = settings.xpl.then(|| Xpl::new(&inside));
        let (scheduler, interval) = (scheduler.to_owned(), settings.interval);
        Ok(Measured { directory, tables, xpl, scheduler, interval, series: BTreeMap::new() })
    }

    /// Adds a row to `windows`.
    pub fn window(&mut self, row: &MeasuredWindow) {
        self.tables.window(&(*row).into());
    }

    /// Adds the windows of a change: with an interval between rows, a row has the values at its time, and the last values before
    /// a pause have a row.
    pub fn change(&mut self, row: &MeasuredWindow) {
        let key = (row.flow, Stream::from(row.way), row.subflow);
        let series = self.series.entry(key).or_insert_with(|| Series::new(self.interval));
        series.add(row.time, *row, false, |_, row| self.tables.window(&row.into()));
    }

    /// Adds a segment to `events`.
    pub fn segment(&mut self, row: &MeasuredSegment) {
        if let Some(event) = EventName::sent(row.kind) {
            let range = DataRange::new(row.range.0, row.range.1);
            self.data(row.time, row.flow, row.way).event(SubflowId(row.subflow), event, range);
        }
    }

    /// Adds a row to `events`.
    pub fn progress(&mut self, row: &Progress) {
        let (subflow, range) = (SubflowId(row.subflow), DataRange::new(row.range.0, row.range.1));
        let mut data = self.data(row.time, row.flow, row.way);
        match row.received {
            true => data.event(subflow, EventName::Received, range),
            false => data.acked(subflow, range, row.window_edge),
        }
    }

    fn data(&mut self, now: Time, flow: u32, way: Way) -> Data<'_> {
        Data { tables: &mut self.tables, xpl: self.xpl.as_mut(), now, flow: FlowId(flow), stream: way.into() }
    }

    /// True if a table or a file could not be written: more rows are in vain, and [`Measured::finish`] has the error.
    pub fn is_broken(&self) -> bool {
        self.tables.is_broken() || self.xpl.as_ref().is_some_and(Xpl::is_broken)
    }

    /// Adds the rows of `flows` and `subflows`, and ends the recording; `paths` are the names of all interfaces that were
    /// seen.
    ///
    /// # Errors
    /// If a table cannot be written.
    pub fn finish(
        mut self,
        paths: &[String],
        flows: &[MeasuredFlow],
        subflows: &[MeasuredSubflow],
    ) -> Result<(), DirectoryError> {
        for series in self.series.values_mut() {
            series.finish(|_, row| self.tables.window(&row.into()));
        }
        for (at, flow) in flows.iter().enumerate() {
            let span = flow.end.since(flow.start).0;
            let rate = (span > 0).then(|| (flow.delivered_bytes as f64 * 8e9 / span as f64) as u64);
            let row = cells(
                Name::Flows,
                &[
                    ("flow", number(at as u64)),
                    ("name", Cell::Text(&flow.name)),
                    ("condition", Cell::Text("")),
                    ("scheduler", Cell::Text(&self.scheduler)),
                    ("direction", Cell::Text(Stream::from(flow.way).text())),
                    ("start_ns", number(flow.start.0)),
                    ("size_bytes", if flow.running { Cell::Missing } else { number(flow.delivered_bytes) }),
                    ("outcome", Cell::Text(if flow.running { "running" } else { "completed" })),
                    ("fct_ns", if flow.running { Cell::Missing } else { number(span) }),
                    ("delivered_bytes", number(flow.delivered_bytes)),
                    ("goodput_bps", optional(rate)),
                    ("data_segments", number(flow.data_segments)),
                    ("retransmitted_segments", number(flow.retransmitted_segments)),
                    ("reinjected_bytes", optional(flow.reinjected_bytes)),
                    ("rto_count", optional(flow.rto_count)),
                    (
                        "connected_ns",
                        optional(flow.delivery.and_then(|all| all.connected).map(|span| span.0)),
                    ),
                    ("duplicate_bytes", optional(flow.delivery.map(|all| all.duplicate_bytes))),
                    ("longest_gap_ns", optional(flow.delivery.map(|all| all.longest_gap.0))),
                ],
            );
            self.tables.row(Name::Flows, &row);
        }
        for subflow in subflows {
            let row = cells(
                Name::Subflows,
                &[
                    ("flow", number(subflow.flow.into())),
                    ("end", Cell::Text(subflow.end)),
                    ("subflow", number(subflow.subflow.into())),
                    ("local", Cell::Text(&subflow.local)),
                    ("remote", Cell::Text(&subflow.remote)),
                    ("interface", optional(subflow.interface.map(|at| at as u64))),
                    ("started_ns", number(subflow.started.0)),
                    ("established_ns", optional(subflow.established.map(|at| at.0))),
                    ("ended_ns", optional(subflow.ended.map(|at| at.0))),
                    ("bytes_sent", number(subflow.bytes_sent)),
                    ("bytes_acked", optional(subflow.bytes_acked)),
                    ("bytes_delivered", optional(subflow.bytes_delivered)),
                    ("segments_sent", number(subflow.segments_sent)),
                    ("segments_retransmitted", number(subflow.segments_retransmitted)),
                    ("rto_count", optional(subflow.rto_count)),
                    ("min_rtt_us", optional(subflow.min_rtt_us)),
                ],
            );
            self.tables.row(Name::Subflows, &row);
        }
        self.tables.finish().map_err(failed)?;
        if let Some(xpl) = self.xpl {
            xpl.finish().map_err(failed)?;
        }
        self.directory.finish(paths)
    }
}
