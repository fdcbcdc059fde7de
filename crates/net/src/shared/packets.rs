//! Exchanges segments and their payload between the driver and the stack.

use std::task::Waker;

use anabranch_stack::checksum::PayloadSums;
use anabranch_stack::event::{ConnectionId, Departure, Placement};
use anabranch_stack::segment::{PathId, Segment};
use anabranch_stack::seq::DataRange;
use anabranch_units::Time;
use anabranch_wire::checksum;
use rustc_hash::FxHashMap;

use super::Core;
use crate::flow::Flow;

impl Core {
    /// Processes a received segment with its payload.
    pub(crate) fn handle_segment(&mut self, now: Time, path: PathId, segment: &Segment, payload: &[u8]) {
        let mut placed = core::mem::take(&mut self.placed);
        self.endpoint.handle_segment(now, path, segment, &mut placed);
        for placement in placed.drain(..) {
            self.place(now, placement, payload);
        }
        self.placed = placed;
    }

    /// Stores payload as the stack directs.
    fn place(&mut self, now: Time, placement: Placement, payload: &[u8]) {
        let part = |offset: u32, len: u64| {
            payload.get(offset as usize..(offset as usize).saturating_add(len as usize)).unwrap_or(&[])
        };
        match placement {
            Placement::Deliver { connection, payload_offset, stream, .. } => {
                if let Some((flow, pool)) = self.flow_and_pool(now, connection) {
                    let held = flow.receive.held();
                    let in_order = flow.receive.end() == stream.start;
                    flow.receive.store(pool, stream.start, part(payload_offset, stream.len()));
                    // The stack signals this as well when it is polled next.
                    let reader = if in_order { flow.reader.take() } else { None };
                    if flow.receive.held() != held {
                        self.settle(connection);
                    }
                    self.woken.extend(reader);
                    self.urgent |= !in_order;
                }
            }
            Placement::Hold { connection, subflow, payload_offset, held } => {
                self.urgent = true;
                if let Some((flow, _)) = self.flow_and_pool(now, connection) {
                    let bytes = part(payload_offset, held.len());
                    flow.held.get_or_insert_default().hold(subflow, held.start, bytes);
                }
            }
            Placement::Release { connection, subflow, held, stream } => {
                if let Some((flow, pool)) = self.flow_and_pool(now, connection) {
                    let Flow { held: apart, receive, .. } = flow;
                    if let Some(apart) = apart {
                        apart.take(subflow, held, |at, bytes| {
                            receive.store(pool, stream.start + (at - held.start), bytes);
                        });
                    }
                    flow.held.take_if(|apart| apart.is_empty());
                }
            }
            Placement::Drop { connection, subflow, held } => {
                if let Some((flow, _)) = self.flow_and_pool(now, connection) {
                    if let Some(apart) = &mut flow.held {
                        apart.take(subflow, held, |_, _| {});
                    }
                    flow.held.take_if(|apart| apart.is_empty());
                }
            }
            Placement::Discard { .. } => self.urgent = true,
        }
    }

    /// Records that bytes of a connection up to `end` are sent. Tasks to be woken are appended to `woken`.
    pub(crate) fn has_left(&mut self, id: ConnectionId, end: u64, woken: &mut Vec<Waker>) {
        if let Some(flow) = self.flows.get_mut(&id) {
            woken.extend(flow.has_left(end, self.endpoint.freed(id)));
        }
    }

    /// Returns the next segment to send.
    pub(crate) fn poll_transmit(&mut self, now: Time, segment: &mut Segment) -> Option<Departure> {
        self.endpoint.observer_mut().turn();
        self.endpoint.poll_transmit_into(now, segment, &Sums(&self.flows))
    }
}

/// Sums stored payload, for DSS checksums.
struct Sums<'a>(&'a FxHashMap<ConnectionId, Box<Flow>>);

impl PayloadSums for Sums<'_> {
    fn sum(&self, connection: ConnectionId, range: DataRange) -> u16 {
        let flow = self.0.get(&connection);
        let parts = flow.and_then(|flow| flow.send.parts(range.start, range.len() as usize));
        let (mut total, mut len) = (0, 0);
        for part in parts.into_iter().flatten() {
            total = checksum::concat(total, len, checksum::sum(part));
            len += part.len() as u64;
        }
        total
    }
}
