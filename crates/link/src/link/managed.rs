//! Links on which a packet's departure is not known when the packet is offered: with CoDel or FQ-CoDel, with
//! a shaper, or with cross traffic.
//!
//! Such a link takes the next packet from its queue when the one before it has departed. All of that happens at the
//! link's own times, even if it is processed late. A packet is among the slots of the link only once it has departed.

mod codel;
mod fq_codel;

use std::collections::VecDeque;

use anabranch_units::Time;

use self::codel::{Backlog, CodelState, Taken};
use self::fq_codel::FqState;
use super::Link;
use super::slot::{Extra, Slot};
use crate::bucket::Bucket;
use crate::cross::CrossState;
use crate::queue::Admission;
use crate::red::Verdict;
use crate::server;
use crate::{Aqm, Codel, DropReason, Dropped, Effect, LinkConfig, WhenDown};

/// A packet in the queue.
#[derive(Clone, Debug)]
pub(super) struct Waiting<P> {
    /// The time when it was offered.
    at: Time,
    wire_bytes: u32,
    /// True if its sender supports ECN.
    ect: bool,
    flow: u64,
    /// True if it was marked when it was offered.
    marked: bool,
    extra: Extra,
    /// None for cross traffic.
    packet: Option<P>,
}

impl<P> Waiting<P> {
    pub(super) fn new(
        at: Time,
        wire_bytes: u32,
        label: super::Label,
        extra: Extra,
        packet: Option<P>,
    ) -> Waiting<P> {
        let super::Label { data: _, ect, flow } = label;
        Waiting { at, wire_bytes, ect, flow, marked: false, extra, packet }
    }

    pub(super) fn marked_if(mut self, marked: bool) -> Waiting<P> {
        self.marked |= marked;
        self
    }
}

/// The packet in service: its transmission has begun, or it waits for tokens.
#[derive(Clone, Debug)]
struct Serving<P> {
    waiting: Waiting<P>,
    /// The start of its transmission.
    starts: Time,
    /// Never while the link is down.
    departure: Time,
}

/// The order in which packets leave the queue.
#[derive(Clone, Debug)]
enum Discipline<P> {
    Fifo(VecDeque<Waiting<P>>),
    Codel(Codel, VecDeque<Waiting<P>>, CodelState),
    FqCodel(Box<FqState<P>>),
}

/// The queue of a managed link.
#[derive(Clone, Debug)]
pub(super) struct Managed<P> {
    discipline: Discipline<P>,
    serving: Option<Serving<P>>,
    /// The packets and bytes in the queue, without the one in service.
    packets: usize,
    bytes: u64,
    /// The packets of the caller among them, and in service.
    real: usize,
    mtu: u32,
    shaper: Option<Bucket>,
    cross: CrossState,
    /// An empty list that keeps its memory.
    dropped: Vec<Waiting<P>>,
}

/// The largest packet that CoDel assumes on a link without an MTU.
const USUAL_MTU: u32 = 1500;

/// The flow of all cross traffic.
const CROSS_FLOW: u64 = u64::MAX;

impl<P> Managed<P> {
    /// Returns the queue; none if a packet's departure is known when it is offered.
    pub(super) fn new(seed: u64, name: &str, config: &LinkConfig) -> Option<Box<Managed<P>>> {
        let discipline = match config.aqm {
            Aqm::Codel(codel) => Discipline::Codel(codel, VecDeque::new(), CodelState::default()),
            Aqm::FqCodel(fq) => Discipline::FqCodel(Box::new(FqState::new(fq, seed, name))),
            Aqm::DropTail | Aqm::Red(_) if config.shaper.is_none() && config.cross_traffic.is_empty() => {
                return None;
            }
            Aqm::DropTail | Aqm::Red(_) => Discipline::Fifo(VecDeque::new()),
        };
        Some(Box::new(Managed {
            discipline,
            serving: None,
            packets: 0,
            bytes: 0,
            real: 0,
            mtu: config.mtu.unwrap_or(USUAL_MTU),
            shaper: config.shaper.as_ref().map(Bucket::new),
            cross: CrossState::new(&config.cross_traffic),
            dropped: Vec::new(),
        }))
    }

    /// Returns the packets of the caller in the queue and in service.
    pub(super) fn real(&self) -> usize {
        self.real
    }

    /// Returns the number of packets in the queue and in service, including cross traffic.
    pub(super) fn queued(&self) -> usize {
        self.packets + usize::from(self.serving.is_some())
    }

    /// True if it decides by itself which packet is dropped when the queue is full.
    pub(super) fn sheds(&self) -> bool {
        matches!(self.discipline, Discipline::FqCodel(_))
    }

    /// Returns the next time at which a packet may be dropped or begin to propagate.
    pub(super) fn next_event(&self) -> Time {
        if self.real == 0 {
            return Time::NEVER;
        }
        let departure = self.serving.as_ref().map_or(Time::NEVER, |serving| serving.departure);
        // A packet of the cross traffic may take the place of another one.
        if self.sheds() { departure.min(self.cross.next_at()) } else { departure }
    }

    fn push(&mut self, waiting: Waiting<P>) {
        self.packets += 1;
        self.bytes += u64::from(waiting.wire_bytes);
        self.real += usize::from(waiting.packet.is_some());
        match &mut self.discipline {
            Discipline::Fifo(queue) | Discipline::Codel(_, queue, _) => queue.push_back(waiting),
            Discipline::FqCodel(fq) => fq.enqueue(waiting),
        }
    }

    /// Takes the next packet from the queue; those dropped before it are added to `self.dropped`.
    fn take(&mut self, now: Time) -> Option<Taken<P>> {
        let (mtu, dropped) = (self.mtu, &mut self.dropped);
        let taken = match &mut self.discipline {
            Discipline::Fifo(queue) => {
                let waiting = queue.pop_front();
                self.bytes -= waiting.as_ref().map_or(0, |waiting| u64::from(waiting.wire_bytes));
                waiting.map(|waiting| Taken { waiting, marked: false })
            }
            Discipline::Codel(settings, queue, state) => {
                let mut backlog = Backlog { queue, bytes: &mut self.bytes, dropped };
                state.dequeue(now, settings, mtu, &mut backlog)
            }
            Discipline::FqCodel(fq) => fq.dequeue(now, mtu, &mut self.bytes, dropped),
        };
        self.packets -= dropped.len() + usize::from(taken.is_some());
        taken
    }

    /// Moves packets that exceed the limit to `self.dropped`.
    fn shed(&mut self) {
        let before = self.dropped.len();
        if let Discipline::FqCodel(fq) = &mut self.discipline {
            fq.shed(&mut self.dropped);
        }
        let shed = &self.dropped[before..];
        self.packets -= shed.len();
        self.bytes -= shed.iter().map(|waiting| u64::from(waiting.wire_bytes)).sum::<u64>();
    }
}

impl<P> Link<P> {
    /// Brings a managed link to `now`: departures and cross traffic in order of time, departures first.
    pub(super) fn settle_managed(&mut self, now: Time) {
        while let Some(managed) = &self.managed {
            let departure = managed.serving.as_ref().map_or(Time::NEVER, |serving| serving.departure);
            let cross = managed.cross.next_at();
            if departure <= now && departure <= cross {
                self.depart_managed(departure);
            } else if cross <= now {
                self.enter_cross(cross);
            } else {
                break;
            }
        }
    }

    /// Adds a packet that was admitted to the queue of a managed link.
    pub(super) fn enter_managed(&mut self, now: Time, waiting: Waiting<P>) {
        let Some(managed) = &mut self.managed else { return };
        let idle = managed.serving.is_none();
        self.queue_bytes += u64::from(waiting.wire_bytes);
        managed.push(waiting);
        if idle {
            self.end_busy_period(now);
            self.serve_next(now, true);
        } else {
            self.shed_excess(now);
        }
        let Some(managed) = &self.managed else { return };
        let max = &mut self.counters.max_queue;
        max.packets = max.packets.max(managed.queued() as u64);
        max.bytes = max.bytes.max(self.queue_bytes);
    }

    /// Drops what exceeds the limit of a queue that chooses by itself.
    fn shed_excess(&mut self, now: Time) {
        while let Some(managed) =
            self.managed.as_mut().filter(|managed| managed.sheds() && managed.packets > 0)
        {
            if managed.queued() <= self.limit.packets && self.queue_bytes <= self.limit.bytes {
                break;
            }
            managed.shed();
            self.discard(now, DropReason::Queue);
        }
    }

    /// A packet of the cross traffic is offered.
    fn enter_cross(&mut self, now: Time) {
        let Some(wire_bytes) = self.managed.as_mut().and_then(|managed| managed.cross.pop()) else { return };
        let label = super::Label { flow: CROSS_FLOW, ..super::Label::default() };
        let admitted = self.up && {
            let draw = self.red.as_mut().map_or(0.0, |red| red.draw(true));
            self.decide(now, wire_bytes, label, draw) != Verdict::Drop
                && self.admit(wire_bytes) == Admission::Enter
        };
        match admitted {
            true => self.enter_managed(now, Waiting::new(now, wire_bytes, label, Extra::NOTHING, None)),
            false => self.counters.cross_dropped.add(wire_bytes),
        }
    }

    /// The packet in service has departed.
    fn depart_managed(&mut self, at: Time) {
        let Some(serving) = self.managed.as_mut().and_then(|managed| managed.serving.take()) else { return };
        let Waiting { wire_bytes, marked, extra, packet, .. } = serving.waiting;
        self.queue_bytes -= u64::from(wire_bytes);
        match packet {
            None => self.counters.cross.add(wire_bytes),
            Some(packet) => {
                let extra = extra.with_effect_if(Effect::Marked, marked);
                if !extra.effects().is_none() {
                    self.counters.add_effects(extra.effects(), wire_bytes);
                }
                let mut slot = Slot { arrival: Time::ZERO, departure: at, extra, wire_bytes, packet };
                slot.set_arrival(self.delay, &mut self.last_arrival);
                self.slots.push_back(slot);
                self.departed += 1;
                if let Some(managed) = &mut self.managed {
                    managed.real -= 1;
                }
                if !self.ordered {
                    self.sort_last_departed();
                }
            }
        }
        self.serve_next(at, false);
    }

    /// Takes the next packet from the queue into service. `idle` is true if none departs at this very instant.
    fn serve_next(&mut self, at: Time, idle: bool) {
        let Some(managed) = &mut self.managed else { return };
        let taken = managed.take(at);
        if let Some(Taken { waiting, marked }) = taken {
            let starts = managed.shaper.as_mut().map_or(at, |bucket| bucket.wait(at, waiting.wire_bytes));
            let (now, idle) = if starts > at { (starts, true) } else { (at, idle) };
            let departure = self.server.serve_work(now, idle, server::work(waiting.wire_bytes));
            self.busy_until = departure;
            let waiting = waiting.marked_if(marked);
            managed.serving = Some(Serving { waiting, starts, departure });
        }
        self.discard(at, DropReason::Aqm);
    }

    /// Counts and returns the packets that were dropped from the queue.
    fn discard(&mut self, at: Time, reason: DropReason) {
        let Some(managed) = &mut self.managed else { return };
        if managed.dropped.is_empty() {
            return;
        }
        let mut dropped = std::mem::take(&mut managed.dropped);
        for Waiting { wire_bytes, packet, .. } in dropped.drain(..) {
            self.queue_bytes -= u64::from(wire_bytes);
            match packet {
                None => self.counters.cross_dropped.add(wire_bytes),
                Some(packet) => {
                    self.count_drop(wire_bytes, reason);
                    if let Some(managed) = &mut self.managed {
                        managed.real -= 1;
                    }
                    self.dropped.push_back(Dropped { at, reason, wire_bytes, packet });
                }
            }
        }
        if let Some(managed) = &mut self.managed {
            managed.dropped = dropped;
        }
    }

    /// Returns the remaining work at `at` of the packet in service of a managed link.
    pub(super) fn managed_work_left(&self, at: Time) -> u64 {
        let Some(serving) = self.managed.as_ref().and_then(|managed| managed.serving.as_ref()) else {
            return 0;
        };
        let whole = server::work(serving.waiting.wire_bytes);
        if serving.departure <= at {
            return 0;
        }
        self.server.backlog(at).min(u128::from(whole)) as u64
    }

    /// Recomputes the departure of the packet in service; `work` is the rest of its transmission.
    pub(super) fn reschedule_managed(&mut self, at: Time, work: u64) {
        self.busy_until = at;
        let Some(serving) = self.managed.as_mut().and_then(|managed| managed.serving.as_mut()) else {
            return;
        };
        serving.departure = self.server.serve_work(at.max(serving.starts), true, work);
        self.busy_until = serving.departure;
    }

    /// Applies `when_down` to the queue of a managed link.
    pub(super) fn managed_goes_down(&mut self, at: Time) {
        let Some(managed) = &mut self.managed else { return };
        if self.when_down == WhenDown::Keep {
            if let Some(serving) = &mut managed.serving {
                serving.departure = Time::NEVER;
            }
            return;
        }
        let in_service = managed.serving.take().map(|serving| serving.waiting);
        managed.dropped.extend(in_service);
        match &mut managed.discipline {
            Discipline::Fifo(queue) | Discipline::Codel(_, queue, _) => {
                managed.dropped.extend(queue.drain(..))
            }
            Discipline::FqCodel(fq) => fq.clear(&mut managed.dropped),
        }
        (managed.packets, managed.bytes) = (0, 0);
        self.discard(at, DropReason::Down);
    }
}
