//! Delivers bytes to the stream, and notifies the application.

use anabranch_units::{Duration, Time};

use super::events::ReadNotice;
use super::{Connection, RecvState};
use crate::event::{ConnectionId, Placement, SubflowId};
use crate::segment::Segment;
use crate::seq::DataRange;
use crate::subflow::{Subflow, TcpState};

/// The delivery of payload of one subflow to the stream, and to the driver.
pub(super) struct Delivery<'a> {
    recv: &'a mut RecvState,
    placed: &'a mut Vec<Placement>,
    connection: ConnectionId,
    subflow: SubflowId,
    /// True once the stream has grown in order.
    pub advanced: bool,
}

impl<'a> Delivery<'a> {
    #[inline]
    pub(super) fn new(
        recv: &'a mut RecvState,
        placed: &'a mut Vec<Placement>,
        connection: ConnectionId,
        subflow: &Subflow,
    ) -> Delivery<'a> {
        Delivery { recv, placed, connection, subflow: subflow.id(), advanced: false }
    }

    /// Admits the stream up to `end`, which is negative before it.
    pub(super) fn admit(&mut self, end: i64) {
        self.recv.extend_edge(end.max(0) as u64);
    }

    /// Delivers `len` bytes of the segment, from `payload_offset` on, as far as they are new in the stream, where they
    /// begin at `data`. Returns the number of those.
    #[inline(always)]
    pub(super) fn deliver(&mut self, data: i64, len: u64, payload_offset: u64) -> u64 {
        let Delivery { recv, placed, connection, subflow, advanced } = self;
        let end = data + len as i64;
        if end <= 0 {
            return 0;
        }
        let mut delivered = 0;
        *advanced |= recv.arrive(DataRange::new(data.max(0) as u64, end as u64), |new| {
            delivered += new.len();
            placed.push(Placement::Deliver {
                connection: *connection,
                subflow: *subflow,
                payload_offset: (payload_offset as i64 + (new.start as i64 - data)) as u32,
                stream: new,
            });
        });
        delivered
    }

    /// Delivers the held `part` of the subflow, as far as it is new in the stream, where it begins at `data`. Returns
    /// the number of bytes that are new.
    pub(super) fn release(&mut self, part: DataRange, data: i64) -> u64 {
        let Delivery { recv, placed, advanced, .. } = self;
        let (connection, subflow) = (self.connection, self.subflow);
        let (mut cursor, mut delivered) = (part.start, 0);
        let end = data + part.len() as i64;
        if end > 0 {
            *advanced |= recv.arrive(DataRange::new(data.max(0) as u64, end as u64), |new| {
                let start = (part.start as i64 + (new.start as i64 - data)) as u64;
                if start > cursor {
                    let held = DataRange::new(cursor, start);
                    placed.push(Placement::Drop { connection, subflow, held });
                }
                let held = DataRange::new(start, start + new.len());
                placed.push(Placement::Release { connection, subflow, held, stream: new });
                delivered += new.len();
                cursor = held.end;
            });
        }
        if cursor < part.end {
            let held = DataRange::new(cursor, part.end);
            placed.push(Placement::Drop { connection, subflow, held });
        }
        delivered
    }
}

impl Connection {
    /// Notifies the application of new data in order, and lets the receive buffer grow.
    #[inline]
    pub(super) fn after_arrival(&mut self, now: Time) {
        let before = if self.stats.received > 0 { self.stats.last_in_order } else { now };
        self.stats.longest_gap = self.stats.longest_gap.max(now.since(before));
        self.stats.last_in_order = now;
        self.stats.received = self.recv.nxt();
        let at_once = self.rules.consume_at_once;
        if at_once {
            self.recv.consume(u64::MAX);
        }
        if self.recv.counts_memory() {
            if at_once {
                self.evaluate_memory(now);
            }
        } else if self.recv.autotuned_up_to().is_some() {
            self.autotune(now);
        }
        if at_once {
            self.on_read();
        }
        if self.recv.nxt() >= self.config.only.readable_from.get() {
            self.events.push_readable(if at_once { ReadNotice::Always } else { ReadNotice::OncePerRead });
        }
        self.after_remote_fin();
    }

    pub(super) fn autotune(&mut self, now: Time) {
        if self.rules.ack_growth {
            self.right_size(now);
            return;
        }
        let mut rtt = Duration::ZERO;
        for subflow in &self.subflows {
            if subflow.state().is_synchronised() {
                rtt = rtt.max(subflow.view(None).srtt.unwrap_or(Duration::ZERO));
            }
        }
        self.recv.autotune(now, rtt, u64::from(self.config.mss));
    }

    /// Lets the connection's buffer follow the rate at which the application reads (dynamic right-sizing),
    /// and with it the windows that its subflows advertise.
    #[inline]
    pub(super) fn right_size(&mut self, now: Time) {
        let mut rtt = Duration::ZERO;
        for subflow in &self.subflows {
            rtt = rtt.max(subflow.recv().growth.rtt());
        }
        if let Some(read) = self.recv.right_size(now, rtt) {
            let most = self.config.receive_buffer.max().get();
            for subflow in &mut self.subflows {
                subflow.recv_mut().growth.widen(read, most);
            }
        }
    }

    /// Evaluates the memory of the receive buffer once per round trip. A subflow counts as soon as it is
    /// opened here, or accepted with a third ACK; before its first data it has measured nothing.
    #[inline]
    pub(super) fn evaluate_memory(&mut self, now: Time) {
        if !self.recv.is_evaluation_due(now) {
            return;
        }
        let (mut rtt, mut measured) = (Duration::ZERO, true);
        for subflow in &self.subflows {
            let state = subflow.state().tcp();
            if !matches!(state, TcpState::SynReceived | TcpState::TimeWait | TcpState::Closed) {
                rtt = rtt.max(subflow.recv().growth.rtt());
                measured &= subflow.recv().growth.is_measured();
            }
        }
        if let Some(read) = self.recv.evaluate_memory(now, rtt, measured) {
            let most = self.config.receive_buffer.max().get();
            for subflow in &mut self.subflows {
                subflow.recv_mut().growth.widen(read, most);
            }
        }
    }

    /// Lets the subflows acknowledge the ends of bursts once the application has read everything, and no hole of
    /// the stream is left that another subflow has to fill.
    #[inline]
    pub(super) fn on_read(&mut self) {
        if !self.rules.ack_drain || self.recv.readable() > 0 {
            return;
        }
        if self.recv.out_of_order() <= self.subflows.out_of_order() {
            self.subflows.on_drained();
        }
    }

    /// Processes PSH. A segment that was `next` in the stream is acknowledged at once, if the application has read
    /// it.
    pub(super) fn on_pushed(&mut self, at: usize, next: bool) {
        let at_once = self.rules.consume_at_once;
        let receiver = self.subflows[at].recv_mut();
        receiver.note_push();
        if next && (self.recv.readable() == 0 || !at_once) {
            receiver.on_pushed();
        }
        if next && at_once {
            self.on_read();
        }
    }

    /// Samples the receiver's round trip from a data segment: the time since the transmission of the
    /// acknowledgement that it echoes.
    #[inline]
    pub(super) fn sample_arrival(&mut self, now: Time, at: usize, segment: &Segment) {
        if let Some(timestamps) = segment.options.timestamps
            && self.rules.ack_growth
        {
            let elapsed = self.tick.span(self.tick.value(now).wrapping_sub(timestamps.echo));
            self.subflows[at].recv_mut().growth.sample(timestamps.echo, elapsed);
        }
    }

    /// Notifies the application once the peer's stream has arrived completely.
    pub(super) fn after_remote_fin(&mut self) {
        if self.recv.finished() && self.events.push_peer_closed() {
            // One acknowledgement suffices, but the subflow that ends the stream may not be the one that
            // carried the DATA_FIN.
            if let Some(best) =
                (0..self.subflows.len()).find(|&at| self.subflows[at].state().is_synchronised())
            {
                self.subflows[best].recv_mut().want_ack();
            }
        }
    }

    /// Records that the peer's stream ends at `end`, and acknowledges it.
    #[cold]
    pub(super) fn on_data_fin(&mut self, at: usize, end: i64) {
        // A DATA_FIN outside the window is ignored (RFC 8684 section 3.8).
        if end >= 0 && end as u64 <= self.recv.edge() && self.recv.set_fin(end as u64) {
            self.after_remote_fin();
        }
        // A retransmitted one is acknowledged again (RFC 8684 section 3.3.3).
        self.subflows[at].recv_mut().want_ack();
    }
}
