//! Applies the steps of the timeline to a link.

use anabranch_units::Time;

use super::Link;
use crate::error::LinkConfigError;
use crate::impairments::Impairments;
use crate::server::{self, Server};
use crate::timeline::Change;
use crate::{Capacity, DropReason, Dropped, WhenDown};

/// Changes take effect at their own times, even if they are processed late.
impl<P> Link<P> {
    /// Applies a change at `now`, after the steps of the timeline up to `now`, as if the timeline contained
    /// it. [`next_event`](Link::next_event) may be earlier or later afterwards.
    ///
    /// # Errors
    /// A [`LinkConfigError`] if the change is invalid; the link is unchanged then.
    pub fn apply(&mut self, now: Time, change: &Change) -> Result<(), LinkConfigError> {
        change.check()?;
        self.run_timeline(now);
        self.settle_any(now);
        self.change(now, change);
        self.update_wake();
        Ok(())
    }

    #[cold]
    pub(super) fn run_timeline(&mut self, now: Time) {
        while let Some(step) = self.timeline.pop(now) {
            self.settle_any(step.at);
            self.change(step.at, &step.change);
        }
        self.next_step = self.timeline.next_at();
        self.update_wake();
    }

    /// Applies a change at `at`, up to which the queue has been settled.
    fn change(&mut self, at: Time, change: &Change) {
        match change {
            Change::Loss(loss) => {
                let (offered, bare) = (self.counters.offered.packets, self.bare_offered);
                let draws = self.loss_draws;
                self.impairments
                    .get_or_insert_with(|| Impairments::none(draws, offered, bare))
                    .change_loss(at, *loss, self.seed, &self.name);
            }
            Change::Delay(delay) => {
                self.delay = *delay;
                self.reschedule_arrivals();
            }
            Change::Rate(rate) => self.change_capacity(at, &Capacity::Rate(*rate)),
            Change::Trace { trace, start } => {
                self.change_capacity(at, &Capacity::Trace { trace: trace.clone(), start: *start });
            }
            Change::Down if self.up => {
                self.stopped_work = self.work_left(at);
                self.up = false;
                self.busy_before += self.busy_until.min(at).since(self.busy_from);
                (self.busy_from, self.busy_until) = (at, at);
                self.managed_goes_down(at);
                match self.when_down {
                    WhenDown::Drop => self.drop_waiting(at),
                    WhenDown::Keep => {
                        for slot in self.slots.range_mut(self.departed()..) {
                            (slot.departure, slot.arrival) = (Time::NEVER, Time::NEVER);
                        }
                    }
                }
                self.reschedule_arrivals();
            }
            Change::Up if !self.up => {
                self.up = true;
                self.busy_from = at;
                self.reschedule(at, self.stopped_work);
            }
            Change::Down | Change::Up => {}
        }
    }

    fn change_capacity(&mut self, at: Time, capacity: &Capacity) {
        // While the link is down the remaining work is known already, and nothing is sent.
        let work = if self.up { self.work_left(at) } else { 0 };
        self.server = Server::new(capacity, at);
        if self.up {
            self.reschedule(at, work);
        }
    }

    /// Returns the remaining work at `at` of the packet in service.
    fn work_left(&self, at: Time) -> u64 {
        if self.managed.is_some() {
            return self.managed_work_left(at);
        }
        let mut waiting = self.slots.range(self.departed()..);
        let Some(first) = waiting.next() else { return 0 };
        let behind: u128 = waiting.map(|slot| u128::from(server::work(slot.wire_bytes))).sum();
        let left = self.server.backlog(at).saturating_sub(behind);
        left.min(u128::from(server::work(first.wire_bytes))) as u64
    }

    /// Recomputes the departures and arrivals of the queued packets, as if the first had been offered at `at`
    /// with `first_work` and the others immediately after it.
    fn reschedule(&mut self, at: Time, first_work: u64) {
        if self.managed.is_some() {
            return self.reschedule_managed(at, first_work);
        }
        let mut idle = true;
        let mut until = at;
        for slot in self.slots.range_mut(self.departed()..) {
            let work = if idle { first_work } else { server::work(slot.wire_bytes) };
            slot.departure = self.server.serve_work(at, idle, work);
            until = slot.departure;
            idle = false;
        }
        self.busy_until = until;
        self.reschedule_arrivals();
    }

    /// Recomputes the arrivals of the queued packets.
    fn reschedule_arrivals(&mut self) {
        // Polled packets have arrived by now, so they delay no other packet.
        let in_propagation = self.slots.range(..self.departed()).filter(|slot| !slot.extra.is_free());
        self.last_arrival = in_propagation.map(|slot| slot.arrival).max().unwrap_or(Time::ZERO);
        let (delay, mut last) = (self.delay, self.last_arrival);
        for slot in self.slots.range_mut(self.departed()..) {
            slot.set_arrival(delay, &mut last);
        }
        self.last_arrival = last;
        self.next_departure = self.slots.get(self.departed()).map_or(Time::NEVER, |slot| slot.departure);
    }

    fn drop_waiting(&mut self, at: Time) {
        for slot in self.slots.drain(self.departed()..) {
            self.counters.dropped_down.add(slot.wire_bytes);
            self.dropped.push_back(Dropped {
                at,
                reason: DropReason::Down,
                wire_bytes: slot.wire_bytes,
                packet: slot.packet,
            });
        }
        if self.managed.is_none() {
            self.queue_bytes = 0;
        }
    }
}
