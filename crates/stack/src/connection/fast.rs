//! The fast paths of a connection: nearly all segments are received and sent by these functions.
//!
//! Each is named after its function of the slow path, and must have the same result; if it does not apply it
//! returns without any change. `Connection::fast_paths` disables all of them, for the tests that compare both
//! (`tests/random_operations.rs`).

use anabranch_units::Time;

use super::deliver::Delivery;
use super::mapping::mapped_offset;
use super::timer_table::Timer;
use super::transmit::Poll;
use super::{Connection, Mode};
use crate::event::{Departure, Placement, SubflowId};
use crate::observer::{Observer, SendKind, StackEvent, report};
use crate::scheduler::SchedulerEvent;
use crate::segment::{DataAck, Dss, Flags, MappedDsn, Segment};
use crate::seq::DataRange;
use crate::subflow::transmit::Content;
use crate::subflow::{Expected, FastPaths};

/// Of these bits, a segment for the fast path has only ACK.
const DECISIVE: Flags = Flags::FIN.with(Flags::SYN).with(Flags::RST).with(Flags::ACK);

/// Whether a fast path has done the work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FastPath {
    Taken,
    NotTaken,
}

/// The place of a segment's payload in the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    /// The next byte.
    Next,
    Other,
}

/// The departure found by [`Connection::fast_poll_subflows`].
pub(super) enum FastPoll {
    /// A pure acknowledgement, which moves no timer.
    Ack(Departure),
    /// A segment of new data.
    Data(Departure),
    /// None of these: nothing is changed.
    Other,
}

impl Connection {
    /// Does the work of [`Connection::handle_segment`] for a segment that carries the next data of an
    /// established subflow to a side that has nothing in flight there, and nothing else that is new (header
    /// prediction). Returns the time at which the subflow's acknowledgement is then due, if the segment was
    /// one; nothing else is due earlier than before.
    #[inline]
    pub(crate) fn fast_handle_segment<O: Observer>(
        &mut self,
        now: Time,
        id: SubflowId,
        segment: &Segment,
        placed: &mut Vec<Placement>,
        observer: &mut O,
    ) -> Option<Time> {
        if self.fast_paths == FastPaths::Off
            || segment.payload_len == 0
            || segment.flags.0 & DECISIVE.0 != Flags::ACK.0
            || !segment.options.are_usual()
        {
            return None;
        }
        let at = id.index();
        let Connection { subflows, recv, send, .. } = self;
        let subflow = subflows.get_mut(at)?;
        let next =
            subflow.fast_judge_segment(segment, self.mode == Mode::Mptcp).filter(|_| !self.checksummed)?;
        let (una, start, window) = (next.una, next.start, next.window);
        let all_announced =
            send.una < send.written || self.closing.is_notified(send.written + u64::from(send.closed));
        if send.una + window > send.window_end || !all_announced {
            return None;
        }
        let len = u64::from(segment.payload_len);
        let in_stream = if self.mode == Mode::Plain {
            let moved = self.fallback.in_sent_stream(una as i64) != send.una as i64;
            if moved || segment.options.dss.is_some() {
                return None;
            }
            self.fallback.in_received_stream(start as i64)
        } else {
            // A mapping of exactly this segment (RFC 8684 section 3.3.1), with none known before.
            let Some(Dss { data_ack: Some(data_ack), mapping: Some(mapping), data_fin: false }) =
                &segment.options.dss
            else {
                return None;
            };
            let acked = self.local_dsn.add(send.una);
            let nothing_acked = match *data_ack {
                DataAck::Wide(dsn) => dsn == acked,
                DataAck::Narrow(low) => low == acked.0 as u32,
            };
            if !nothing_acked
                || !self.confirmed
                || mapping.checksum.is_some()
                || u32::from(mapping.len) != segment.payload_len
                || mapping.ssn != start as u32
            {
                return None;
            }
            mapped_offset(mapping, self.remote_dsn, recv.nxt())
        };
        if in_stream < 0 {
            return None;
        }
        let stream = DataRange::new(in_stream as u64, in_stream as u64 + len);
        let order = if recv.expects(stream) { Order::Next } else { Order::Other };
        if order == Order::Other && self.mode == Mode::Plain {
            return None;
        }
        report(observer, now, self.id, &StackEvent::Received { subflow: id, segment });
        send.peer_window = window;
        let mptcp = self.mode == Mode::Mptcp;
        subflow.fast_on_received(now, segment, next, mptcp);
        if let Some(Dss { mapping: Some(mapping), .. }) = &segment.options.dss
            && mptcp
        {
            self.peer_wide |= matches!(mapping.dsn, MappedDsn::Wide(_));
        }
        self.sample_arrival(now, at, segment);
        self.take_next(now, at, stream, order, placed);
        if segment.flags.has(Flags::PSH) {
            self.on_pushed(at, order == Order::Next);
        }
        if order == Order::Other {
            self.check_closing(now, at);
        }
        Some(self.subflows[at].recv().ack_at())
    }

    /// Does the work of [`Connection::process_payload`] for the payload of a segment that is the next one on
    /// its subflow, and in plain TCP in the stream, with nothing missing before it, nothing held after it,
    /// and no known end.
    #[inline(never)]
    pub(super) fn fast_process_payload(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        placed: &mut Vec<Placement>,
    ) -> FastPath {
        if self.fast_paths == FastPaths::Off {
            return FastPath::NotTaken;
        }
        let Connection { recv, subflows, .. } = self;
        if self.checksummed {
            return FastPath::NotTaken;
        }
        let Some(Expected { start, mapped }) = subflows[at].fast_expects(segment) else {
            return FastPath::NotTaken;
        };
        let len = u64::from(segment.payload_len);
        let in_stream = if self.mode == Mode::Plain {
            if segment.options.dss.is_some() {
                return FastPath::NotTaken;
            }
            self.fallback.in_received_stream(start as i64)
        } else {
            match segment.options.dss {
                // A mapping of exactly this segment (RFC 8684 section 3.3.1), with none known before.
                Some(Dss { mapping: Some(mapping), data_fin: false, .. })
                    if u32::from(mapping.len) == segment.payload_len
                        && mapping.ssn == start as u32
                        && !mapped =>
                {
                    mapped_offset(&mapping, self.remote_dsn, recv.nxt())
                }
                _ => return FastPath::NotTaken,
            }
        };
        if in_stream < 0 {
            return FastPath::NotTaken;
        }
        let stream = DataRange::new(in_stream as u64, in_stream as u64 + len);
        let order = if recv.expects(stream) { Order::Next } else { Order::Other };
        // Other subflows may be further or less advanced in the stream; in plain TCP there are none.
        let placeable = order == Order::Next || self.mode == Mode::Mptcp;
        if !placeable {
            return FastPath::NotTaken;
        }
        self.take_next(now, at, stream, order, placed);
        if segment.flags.has(Flags::PSH) {
            self.on_pushed(at, order == Order::Next);
        }
        FastPath::Taken
    }

    /// Takes the payload of a segment that is the next one on its subflow and belongs at `stream`.
    #[inline]
    fn take_next(
        &mut self,
        now: Time,
        at: usize,
        stream: DataRange,
        order: Order,
        placed: &mut Vec<Placement>,
    ) {
        if order == Order::Other {
            self.place_next(now, at, stream, placed);
            return;
        }
        let Connection { recv, subflows, id: connection, .. } = self;
        let subflow = &mut subflows[at];
        subflow.fast_place(now, stream.len(), || {
            recv.take_expected(stream);
            stream.len()
        });
        let (connection, subflow) = (*connection, subflow.id());
        placed.push(Placement::Deliver { connection, subflow, payload_offset: 0, stream });
        self.after_arrival(now);
    }

    /// Takes the payload of a segment that is the next one on its subflow, and belongs at any other place of the stream
    /// than its end.
    #[inline(never)]
    fn place_next(&mut self, now: Time, at: usize, stream: DataRange, placed: &mut Vec<Placement>) {
        let Connection { recv, subflows, id: connection, .. } = self;
        let mut delivery = Delivery::new(recv, placed, *connection, &subflows[at]);
        let len = stream.len();
        let delivered = subflows[at].fast_place(now, len, || delivery.deliver(stream.start as i64, len, 0));
        let advanced = delivery.advanced;
        if delivered == 0 {
            let (connection, len) = (*connection, len as u32);
            placed.push(Placement::Discard { connection, payload_offset: 0, len });
        }
        if advanced {
            self.after_arrival(now);
        }
    }

    /// Returns the departure that [`Connection::poll_subflows`] finds, if that is a full segment of new data
    /// or a pure acknowledgement.
    #[inline]
    pub(super) fn fast_poll_subflows<S, O: Observer>(&mut self, poll: &mut Poll<'_, S, O>) -> FastPoll {
        if self.fast_paths == FastPaths::Off || self.has_control() {
            return FastPoll::Other;
        }
        let before = self.rotation;
        for _ in 0..self.subflows.len() {
            let at = self.rotation.current(self.subflows.len());
            if self.subflows.wants_to_send(at) {
                let found = if self.subflows[at].has_data_to_send() {
                    self.fast_send_new(at, poll).map(FastPoll::Data)
                } else {
                    self.fast_poll_subflow(at, poll).map(FastPoll::Ack)
                };
                let Some(found) = found else { break };
                self.rotation.on_sent(1);
                return found;
            }
            self.rotation.skip();
        }
        self.rotation = before;
        FastPoll::Other
    }

    /// True if the connection has a control segment that any subflow may send.
    #[inline]
    fn has_control(&self) -> bool {
        self.wanted.wants_third_ack() || self.send.closed || self.closing.wants_fin()
    }

    /// True if it is known that `Connection::poll_subflow` finds nothing on the subflow at `at`.
    #[inline]
    pub(super) fn fast_has_nothing(&mut self, at: usize) -> bool {
        self.fast_paths == FastPaths::On && !self.has_control() && !self.subflows.wants_to_send(at)
    }

    /// Returns the acknowledgement that `Connection::poll_subflow` finds to be due on a subflow that has no data and no
    /// option to send.
    #[inline]
    fn fast_poll_subflow<S, O: Observer>(
        &mut self,
        at: usize,
        poll: &mut Poll<'_, S, O>,
    ) -> Option<Departure> {
        if !self.subflows.get(at)?.fast_is_ack_due() {
            return None;
        }
        self.make_ack(poll.now, at, poll.out);
        Some(self.depart(at, Content::Control, SendKind::Control, 0, poll))
    }

    /// Returns the segment that `Connection::send_new` makes, if it is a full one sent for the first time, on
    /// a subflow that has data in flight, nothing to retransmit, no option to send, and free window.
    // With its callees one function: nothing of the record but its place in the scoreboard is written.
    #[inline(never)]
    fn fast_send_new<S, O: Observer>(&mut self, at: usize, poll: &mut Poll<'_, S, O>) -> Option<Departure> {
        let now = poll.now;
        if self.paces() || self.checksummed || self.keys_pending(at) {
            return None;
        }
        let (una, push) = (self.send.una, self.rules.ack_push);
        let deferral = self.deferral();
        let subflow = self.subflows.get_mut(at)?;
        let id = subflow.id();
        let (record, train) =
            subflow.fast_send_new(now, una, poll.burst, push, deferral, &mut self.congestion)?;
        self.make_new_data(now, at, &record, train, poll.out);
        self.fill_segments(at);
        if self.mode == Mode::Mptcp && !self.timers.is_armed(Timer::Data) {
            self.arm_data_timer(now);
        }
        let range = record.range();
        self.notify_scheduler(now, &SchedulerEvent::Sent { subflow: id, range });
        Some(self.depart(at, Content::NewData, SendKind::New, range.start, poll))
    }
}
