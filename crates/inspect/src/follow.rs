//! One connection of a capture, packet by packet: its data, its acknowledgements, and the data in flight.

use anabranch_stack::observer::SendKind;
use anabranch_units::{Duration, Time};

use crate::capture::Merged;
use crate::error::CaptureFault;
use crate::inspector::Inspector;
use crate::result::ConnectionReport;
use crate::track::{Note, Place, Table};

/// How often the progress is told, in packets.
const TELL_EVERY: u64 = 65_536;

/// One thing that a packet shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seen {
    /// A segment passed the place of the capture.
    Segment {
        /// Whether its data is sent for the first time.
        kind: SendKind,
        /// The first offset of its data in the stream, and the one after the last.
        range: (u64, u64),
    },
    /// The receiver has bytes for the first time: at the receiver by their packet, at the sender by the acknowledgement.
    Received {
        /// The first offset, and the one after the last.
        range: (u64, u64),
    },
    /// All bytes before an offset are acknowledged at the data level.
    DataAcked {
        /// The offset of the acknowledgement before, and this one.
        range: (u64, u64),
        /// The right edge of the receiver's window; none if the window is not known.
        edge: Option<u64>,
    },
    /// The data in flight on the subflow has changed. Only in a capture at the sender.
    Flight {
        /// Bytes that are sent and not acknowledged.
        bytes: u64,
        /// The smoothed round trip (RFC 6298).
        srtt: Option<Duration>,
        /// The receiver's window, in bytes; zero if it is not known.
        window: u64,
    },
}

/// What a packet of a connection shows, with its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// The time since the first packet of the connection.
    pub time: Time,
    /// The stream: 0 is sent by the client of the connection, 1 by its server.
    pub direction: usize,
    /// The subflow, as a place in [`ConnectionReport::subflows`].
    pub subflow: usize,
    /// The thing that was seen.
    pub seen: Seen,
}

/// The last values of a subflow's sender.
#[derive(Clone, Copy, Default)]
struct Last {
    flight: Option<(u64, u64)>,
    sample: Option<Time>,
    srtt: Option<Duration>,
}

/// Reads the captures of an [`Inspection`](crate::Inspection) again, and calls `on` with all that the packets of
/// `connection` show, in the order of time. `progress` is called with the number of packets from time to time; reading
/// ends when it returns false.
///
/// # Errors
/// If a file is damaged.
pub fn follow(
    captures: &mut Merged,
    connection: &ConnectionReport,
    mut progress: impl FnMut(u64) -> bool,
    mut on: impl FnMut(&Event),
) -> Result<(), CaptureFault> {
    let place = &connection.place;
    let mut inspector = Inspector::noting(place.subflows.clone());
    let mut last = vec![[Last::default(); 2]; place.subflows.len()];
    let mut acked = [None; 2];
    let mut packets = 0;
    while captures.advance()? {
        if let Some((file, frame)) = captures.frame() {
            inspector.on_frame(file, &frame);
            let table = &inspector.table;
            if let Some(subflow) = table.notes.subflow {
                let time = Time(frame.time.0.saturating_sub(place.begun.0));
                let mut told = |direction: usize, seen| on(&Event { time, direction, subflow, seen });
                for note in &table.notes.list {
                    tell(place, note, &mut told);
                }
                for direction in 0..2 {
                    tell_acknowledged(table, place, direction, &mut acked[direction], &mut told);
                    if let Some(last) = last.get_mut(subflow).filter(|_| place.at_sender[direction]) {
                        tell_flight(table, place, (subflow, direction), &mut last[direction], &mut told);
                    }
                }
            }
            inspector.table.notes.forget();
        }
        packets += 1;
        if packets % TELL_EVERY == 0 && !progress(packets) {
            break;
        }
    }
    Ok(())
}

fn tell(place: &Place, note: &Note, told: &mut impl FnMut(usize, Seen)) {
    let direction = note.direction & 1;
    let start = place.start[direction];
    let range = (note.range.start.saturating_sub(start), note.range.end.saturating_sub(start));
    if range.0 >= range.1 {
        return;
    }
    match note.kind {
        Some(kind) => told(direction, Seen::Segment { kind, range }),
        None if note.by_ack == place.at_sender[direction] => told(direction, Seen::Received { range }),
        None => {}
    }
}

fn tell_acknowledged(
    table: &Table,
    place: &Place,
    direction: usize,
    last: &mut Option<(u64, Option<u64>)>,
    told: &mut impl FnMut(usize, Seen),
) {
    let Some(stream) = stream(table, place, direction) else { return };
    let Some(until) = stream.data_ack.map(|until| until.saturating_sub(place.start[direction])) else {
        return;
    };
    // An acknowledgement that was overtaken says less than an earlier one; the edge moves forward only (RFC 8684, 3.3.1).
    let edge = (stream.window > 0).then(|| until.saturating_add(stream.window));
    let edge = edge.max(last.and_then(|last| last.1));
    if *last == Some((until, edge)) || stream.data_segments == 0 {
        return;
    }
    let before = last.replace((until, edge)).map_or(0, |last| last.0);
    told(direction, Seen::DataAcked { range: (before, until), edge });
}

fn tell_flight(
    table: &Table,
    place: &Place,
    (at, direction): (usize, usize),
    last: &mut Last,
    told: &mut impl FnMut(usize, Seen),
) {
    let Some(subflow) = place.subflows.get(at).and_then(|at| table.subflows.get(*at)) else { return };
    let half = subflow.half(direction);
    if half.first_data.is_none() {
        return;
    }
    if let Some((sent, rtt)) = half.last_rtt()
        && last.sample != Some(sent)
    {
        last.sample = Some(sent);
        last.srtt = Some(last.srtt.map_or(rtt, |srtt| Duration(srtt.0 - srtt.0 / 8 + rtt.0 / 8)));
    }
    let window = stream(table, place, direction).map_or(0, |stream| stream.window);
    let bytes = half.in_flight();
    if last.flight != Some((bytes, window)) {
        last.flight = Some((bytes, window));
        told(direction, Seen::Flight { bytes, srtt: last.srtt, window });
    }
}

/// Returns a stream of the connection.
fn stream<'a>(table: &'a Table, place: &Place, direction: usize) -> Option<&'a crate::track::Stream> {
    let first = table.subflows.get(*place.subflows.first()?)?;
    Some(&table.connections.get(first.connection)?.streams[direction & 1])
}
