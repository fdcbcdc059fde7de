//! Processes the stack's events and timers, and wakes tasks.

use std::io;
use std::sync::Arc;
use std::task::Waker;

use anabranch_stack::event::{ConnectionId, Event, SubflowId};
use anabranch_units::{Duration, Time};

use super::Core;
use crate::flow::Ending;
use crate::notice::{ConnectionReport, Notice};

/// The time for which a dropped stream waits for the peer to close after all data has been acknowledged, as
/// Linux does (`tcp_fin_timeout`).
pub(super) const ORPHAN_WAIT: Duration = Duration::from_secs(60);

impl Core {
    /// Processes the timers that expire at `now`.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.endpoint.poll_timeout().is_some_and(|due| due <= now) {
            self.endpoint.handle_timeout(now);
        }
        self.check_progress(now);
        while let Some(&(at, id)) = self.deadlines.first().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, id));
            if self.flows.get(&id).is_some_and(|flow| flow.orphan && flow.ended.is_none()) {
                self.endpoint.abort(now, id);
            }
        }
    }

    /// Processes the stack's events. Tasks to be woken are appended to `woken`.
    pub(crate) fn handle_events(&mut self, now: Time, woken: &mut Vec<Waker>) {
        while let Some((id, event)) = self.endpoint.poll_event() {
            self.handle_event(now, id, event, woken);
        }
    }

    fn handle_event(&mut self, now: Time, id: ConnectionId, event: Event, woken: &mut Vec<Waker>) {
        let received = self.endpoint.received(id);
        // Only these events release memory.
        let (freed, needed) = match event {
            Event::Writable | Event::AllAcked => (self.endpoint.freed(id), self.endpoint.still_carried(id)),
            _ => (0, Vec::new()),
        };
        let mptcp = matches!(event, Event::Connected | Event::Accepted)
            && self.endpoint.stats(id).is_some_and(|stats| stats.mptcp);
        // A race of first subflows may have been won by another local address.
        let ends = if event == Event::Connected { self.ends(id) } else { None };
        let Some((flow, pool)) = self.flow_and_pool(now, id) else { return };
        if let Some(ends) = ends {
            (flow.local, flow.remote) = ends;
        }
        let (number, local, remote) = (flow.number, flow.local, flow.remote);
        match event {
            Event::Connected => {
                flow.established = true;
                woken.extend(flow.writer.take());
                self.notify(|| Notice::Opened { number, local, remote, accepted: false, mptcp });
            }
            Event::Accepted => {
                flow.established = true;
                self.accept(now, id, local.port, woken);
                self.notify(|| Notice::Opened { number, local, remote, accepted: true, mptcp });
            }
            Event::Readable => {
                flow.received = flow.received.max(received);
                if flow.orphan && flow.received > flow.read {
                    // RFC 9293 section 3.9.1.4 and RFC 2525 section 2.17: the data will never be read.
                    self.endpoint.abort(now, id);
                } else {
                    woken.extend(flow.reader.take());
                }
            }
            Event::Writable => {
                flow.send.advance_to(pool, freed, needed);
                woken.extend(flow.writer.take());
                self.settle(id);
            }
            Event::PeerClosed => {
                flow.received = flow.received.max(received);
                flow.peer_closed = true;
                woken.extend(flow.reader.take());
                woken.extend(flow.closer.take());
            }
            Event::AllAcked => {
                flow.drained = flow.shut;
                flow.send.advance_to(pool, freed, needed);
                woken.extend(flow.closer.take());
                let orphan = flow.orphan;
                self.settle(id);
                if orphan {
                    self.abort_at(now + ORPHAN_WAIT, id);
                }
            }
            Event::SubflowUp(subflow) => {
                self.notify_subflow(id, number, subflow, true);
            }
            Event::SubflowDown(subflow) => {
                if let Some(held) = &mut flow.held {
                    held.forget(subflow);
                }
                self.notify_subflow(id, number, subflow, false);
            }
            Event::Closed(reason) => {
                flow.received = flow.received.max(received);
                let stats = self.endpoint.stats(id).unwrap_or_default();
                let subflows = self.endpoint.subflow_stats(id);
                self.end(now, id, Ending { reason, stats, subflows }, woken);
            }
        }
    }

    fn end(&mut self, now: Time, id: ConnectionId, ending: Ending, woken: &mut Vec<Waker>) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        flow.wake_all(woken);
        flow.send.release(&mut self.pool);
        flow.held = None;
        self.memory.settle(flow);
        if flow.deadline.is_armed() {
            self.deadlines.remove(&(flow.deadline, id));
            flow.deadline = Time::NEVER;
        }
        let orphan = flow.orphan;
        let report = ConnectionReport {
            number: flow.number,
            local: flow.local,
            remote: flow.remote,
            opened: flow.opened,
            closed: now,
            reason: ending.reason,
            stats: ending.stats,
            subflows: ending.subflows.clone(),
        };
        let ending = Arc::new(ending);
        if let Some(observed) = &flow.observed {
            // It ends once.
            let _ = observed.set(Arc::clone(&ending));
        }
        flow.ended = Some(ending);
        self.expect_nothing(id);
        self.endpoint.observer_mut().forget(id);
        if orphan {
            self.forget(id, woken);
        }
        self.notify(|| Notice::Closed(Box::new(report)));
    }

    pub(super) fn forget(&mut self, id: ConnectionId, woken: &mut Vec<Waker>) {
        self.expect_nothing(id);
        if let Some(mut flow) = self.flows.remove(&id) {
            flow.send.release(&mut self.pool);
            flow.receive.release(&mut self.pool);
            self.memory.leave(&mut flow);
            if flow.deadline.is_armed() {
                self.deadlines.remove(&(flow.deadline, id));
            }
        }
        if self.flows.is_empty() {
            woken.append(&mut self.finishers);
        }
    }

    /// Updates the memory accounting of a flow after a change.
    pub(super) fn settle(&mut self, id: ConnectionId) {
        if let Some(flow) = self.flows.get_mut(&id) {
            self.memory.settle(flow);
        }
    }

    pub(super) fn abort_at(&mut self, at: Time, id: ConnectionId) {
        if let Some(flow) = self.flows.get_mut(&id)
            && at < flow.deadline
        {
            if flow.deadline.is_armed() {
                self.deadlines.remove(&(flow.deadline, id));
            }
            flow.deadline = at;
            self.deadlines.insert((at, id));
        }
    }

    fn accept(&mut self, now: Time, id: ConnectionId, port: u16, woken: &mut Vec<Waker>) {
        match self.listeners.get_mut(&port) {
            Some(listening) if listening.waiting.len() < listening.backlog => {
                listening.waiting.push_back(id);
                woken.extend(listening.accepter.take());
            }
            _ => {
                // No listener will ever accept it.
                if let Some(flow) = self.flows.get_mut(&id) {
                    flow.orphan = true;
                }
                self.counters.backlog_overflows += 1;
                self.endpoint.abort(now, id);
            }
        }
    }

    fn notify(&mut self, notice: impl FnOnce() -> Notice) {
        if let Some(notices) = &self.notices {
            // Fails only if the receiver was dropped.
            let _ = notices.send(notice());
        }
    }

    fn notify_subflow(&mut self, id: ConnectionId, number: u64, subflow: SubflowId, up: bool) {
        if self.notices.is_none() {
            return;
        }
        let all = self.endpoint.subflow_stats(id);
        if let Some(stats) = all.into_iter().rev().find(|stats| stats.id == subflow) {
            self.notify(|| {
                if up { Notice::SubflowUp { number, stats } } else { Notice::SubflowDown { number, stats } }
            });
        }
    }

    /// Fails all operations: waiting tasks get this error.
    pub(crate) fn fail(&mut self, kind: io::ErrorKind, text: &str, woken: &mut Vec<Waker>) {
        if self.failure.is_none() {
            self.failure = Some((kind, text.into()));
        }
        for id in self.connections() {
            let Some(flow) = self.flows.get_mut(&id) else { continue };
            flow.wake_all(woken);
            if flow.orphan {
                flow.send.release(&mut self.pool);
                flow.receive.release(&mut self.pool);
                self.memory.leave(flow);
                self.flows.remove(&id);
            }
        }
        self.deadlines.clear();
        self.progress_due.clear();
        for listening in self.listeners.values_mut() {
            woken.extend(listening.accepter.take());
        }
        woken.append(&mut self.finishers);
    }
}
