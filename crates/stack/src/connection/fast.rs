//! The fast paths of a connection: nearly all segments come in and go out by these functions.
//!
//! Each is named after the function whose result it must equal, and returns without any change where it does not apply.
//! `Connection::fast_paths` switches all of them off, for the tests that compare both (`tests/fast_paths.rs`).

use anabranch_units::Time;

use super::mapping::mapped_offset;
use super::timer_table::Timer;
use super::{Connection, Mode, TURN};
use crate::event::{Departure, Placement, SubflowId};
use crate::observer::{Observer, SendKind};
use crate::scheduler::SchedulerEvent;
use crate::segment::{DataAck, Dss, Flags, MappedDsn, Segment};
use crate::seq::DataRange;

/// A segment for the fast path has, of these bits, ACK alone.
const DECISIVE: Flags = Flags::FIN.with(Flags::SYN).with(Flags::RST).with(Flags::ACK);

impl Connection {
    /// Does what [`Connection::handle_segment`] does with a segment that carries the next data of an established
    /// subflow to a side that has nothing in flight there, and nothing new besides (header prediction). Returns when the
    /// subflow's acknowledgement is due then, if it was one; nothing else is due earlier than before.
    #[inline]
    pub(crate) fn fast_handle_segment<O: Observer>(
        &mut self,
        now: Time,
        id: SubflowId,
        segment: &Segment,
        placed: &mut Vec<Placement>,
        observer: &mut O,
    ) -> Option<Time> {
        if !self.fast_paths
            || segment.payload_len == 0
            || segment.flags.0 & DECISIVE.0 != Flags::ACK.0
            || !segment.options.are_usual()
        {
            return None;
        }
        let at = id.index();
        let Connection { subflows, recv, send, .. } = self;
        let Some(subflow) = subflows.get_mut(at) else { return None };
        let Some(next) = subflow.fast_judge_segment(segment).filter(|_| !self.checksummed) else {
            return None;
        };
        let (una, start, window) = (next.una, next.start, next.window);
        let all_told =
            send.una < send.written || self.closing.is_all_told(send.written + u64::from(send.closed));
        if send.una + window > send.window_end || !all_told {
            return None;
        }
        let len = u64::from(segment.payload_len);
        let in_stream = if self.mode == Mode::Plain {
            let moved = una as i64 + self.fallback.send_shift != send.una as i64;
            if moved || segment.options.dss.is_some() {
                return None;
            }
            start as i64 + self.fallback.recv_shift
        } else {
            // A mapping of exactly this segment (RFC 8684 section 3.3.1), and none known before.
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
            // The first data acknowledgement on a subflow may shorten the wait for the head of the stream.
            if !nothing_acked
                || !self.confirmed
                || !subflow.has_seen_dss()
                || mapping.checksum.is_some()
                || u32::from(mapping.len) != segment.payload_len
                || mapping.ssn != start as u32
                || !subflow.mappings().is_empty()
            {
                return None;
            }
            mapped_offset(mapping, self.remote_dsn, recv.nxt())
        };
        if in_stream < 0 {
            return None;
        }
        let stream = DataRange::new(in_stream as u64, in_stream as u64 + len);
        let in_order = recv.expects(stream);
        if !in_order && self.mode == Mode::Plain {
            return None;
        }
        observer.on_received(now, self.id, id, segment);
        send.peer_window = window;
        let mptcp = self.mode == Mode::Mptcp;
        subflow.fast_on_received(now, segment, next, mptcp);
        if let Some(Dss { mapping: Some(mapping), .. }) = &segment.options.dss
            && mptcp
        {
            self.peer_wide |= matches!(mapping.dsn, MappedDsn::Wide(_));
        }
        self.sample_arrival(now, at, segment);
        self.take_next(now, at, stream, in_order, placed);
        if in_order && segment.flags.has(Flags::PSH) {
            self.on_pushed(at);
        }
        if !in_order {
            self.check_closing(now, at);
        }
        Some(self.subflows[at].ack_at())
    }

    /// Does what [`Connection::process_payload`] does with the payload of a segment that is the next one on its subflow,
    /// and in a plain TCP in the stream, with nothing missing before it, nothing held after it, and no end known.
    /// Returns whether it was one.
    #[inline(never)]
    pub(super) fn fast_process_payload(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        placed: &mut Vec<Placement>,
    ) -> bool {
        if !self.fast_paths {
            return false;
        }
        let Connection { recv, subflows, .. } = self;
        let subflow = &mut subflows[at];
        let len = u64::from(segment.payload_len);
        let start = subflow.recv().nxt();
        let in_stream = if self.mode == Mode::Plain {
            if segment.options.dss.is_some() {
                return false;
            }
            start as i64 + self.fallback.recv_shift
        } else {
            match segment.options.dss {
                // A mapping of exactly this segment (RFC 8684 section 3.3.1), and none known before.
                Some(Dss { mapping: Some(mapping), data_fin: false, .. })
                    if u32::from(mapping.len) == segment.payload_len
                        && mapping.ssn == start as u32
                        && subflow.mappings().is_empty() =>
                {
                    mapped_offset(&mapping, self.remote_dsn, recv.nxt())
                }
                _ => return false,
            }
        };
        if self.checksummed || subflow.held().is_some() || in_stream < 0 {
            return false;
        }
        let stream = DataRange::new(in_stream as u64, in_stream as u64 + len);
        let in_order = recv.expects(stream);
        // Other subflows may be ahead or behind in the stream, but in a plain TCP there are none.
        let placeable = in_order || self.mode == Mode::Mptcp;
        let expected = segment.seq == subflow.recv().ack() && !segment.flags.has(Flags::FIN) && len > 0;
        if !expected || !placeable || !subflow.recv().is_complete() {
            return false;
        }
        self.take_next(now, at, stream, in_order, placed);
        if in_order && segment.flags.has(Flags::PSH) {
            self.on_pushed(at);
        }
        true
    }

    /// Takes the payload of a segment that is the next one on its subflow and belongs at `stream`, which is the next of
    /// the stream too if it is `in_order`.
    #[inline]
    fn take_next(
        &mut self,
        now: Time,
        at: usize,
        stream: DataRange,
        in_order: bool,
        placed: &mut Vec<Placement>,
    ) {
        let subflow = &mut self.subflows[at];
        subflow.fast_arrive(now, stream.len());
        if in_order {
            self.recv.take_expected(stream);
            subflow.count_delivered(stream.len(), 0);
            let (connection, subflow) = (self.id, subflow.id());
            placed.push(Placement::Deliver { connection, subflow, payload_offset: 0, stream });
            self.after_arrival(now, true);
        } else {
            self.place(now, at, stream, placed);
        }
    }

    /// Returns the departure that [`Connection::poll_subflows`] finds, where that is a full segment of new data or a
    /// pure acknowledgement. None if it is anything else; nothing has changed then.
    #[inline]
    pub(super) fn fast_poll_subflows<O: Observer>(
        &mut self,
        now: Time,
        out: &mut Segment,
        burst: u32,
        observer: &mut O,
    ) -> Option<Departure> {
        if !self.fast_paths || self.wanted.wants_third_ack() || self.send.closed || self.closing.wants_fin() {
            return None;
        }
        let before = (self.cursor, self.turn);
        for _ in 0..self.subflows.len() {
            let at = if self.cursor < self.subflows.len() { self.cursor } else { 0 };
            self.cursor = at;
            if self.subflows[at].wants_to_send() {
                let departure = if self.subflows[at].has_data_to_send() {
                    self.fast_send_new(now, at, out, burst, observer)
                } else {
                    self.fast_poll_subflow(now, at, out, observer)
                };
                if departure.is_none() {
                    break;
                }
                self.turn += self.turns_of(out);
                if self.turn >= TURN {
                    self.turn = 0;
                    self.cursor += 1;
                }
                return departure;
            }
            self.turn = 0;
            self.cursor += 1;
        }
        (self.cursor, self.turn) = before;
        None
    }

    /// Returns the acknowledgement that `Connection::poll_subflow` finds to be due on a subflow that has no data and no
    /// option to send.
    #[inline]
    fn fast_poll_subflow<O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        out: &mut Segment,
        observer: &mut O,
    ) -> Option<Departure> {
        if !self.subflows.get(at)?.fast_is_ack_due() {
            return None;
        }
        self.make_ack(now, at, out);
        self.leave(now, at, out, SendKind::Control, observer)
    }

    /// Returns the segment that `Connection::send_new` makes, where it is a full one that was never sent before, on a
    /// subflow that has data in flight, nothing to retransmit, no option to send, and space in its windows.
    #[inline]
    fn fast_send_new<O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        out: &mut Segment,
        burst: u32,
        observer: &mut O,
    ) -> Option<Departure> {
        if self.paces() || self.checksummed || self.keys_pending(at) {
            return None;
        }
        let subflow = self.subflows.get_mut(at)?;
        let record = subflow.fast_next_segment(now, self.send.una, burst)?;
        let (id, len, start) = (subflow.id(), u64::from(record.len), record.data);
        let ends = self.ends_train(now, at, len);
        self.after_data(now, at, len);
        self.make_data(now, at, &record, out);
        if ends {
            out.flags = out.flags.with(Flags::PSH);
        }
        self.subflows[at].mark_new_data(out);
        if self.mode == Mode::Mptcp && !self.timers.is_armed(Timer::Data) {
            self.arm_data_timer(now);
        }
        let sent = DataRange::new(start, start + len);
        self.tell_scheduler(now, &SchedulerEvent::Sent { subflow: id, range: sent });
        self.wanted.timers();
        self.leave_data(now, at, out, SendKind::New, start, observer)
    }
}
