//! The link.

mod changes;
mod managed;
mod slot;
#[cfg(test)]
mod tests;

use core::slice;
use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_units::{Duration, Time};
use prefetch_index::prefetch_index;

use self::managed::{Managed, Waiting};
use self::slot::{Extra, Slot};
use crate::bucket::Bucket;
use crate::error::LinkConfigError;
use crate::impairments::{Fate, Impairments};
use crate::queue::{Admission, ResolvedLimit};
use crate::red::{Found, RedState, Verdict};
use crate::server::{Server, work};
use crate::timeline::Timeline;
use crate::{
    Aqm, Arrival, Counters, DropReason, Dropped, Effect, LinkConfig, LossCause, LossDraws, Polled, Pushed,
    Tally, WhenDown,
};

/// From this number of packets inside on, a packet has left the fast caches by the time it arrives.
const DEEP: usize = 2048;
/// For such links, the slot that is needed after this number of others is prefetched.
const AHEAD: usize = 12;

/// The properties of a packet that a link may use, in addition to its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// True if it carries data; matters only with [`LossDraws::Separate`].
    pub data: bool,
    /// True if its sender supports ECN (RFC 3168).
    pub ect: bool,
    /// A number that all packets with the same addresses and ports share; matters only with FQ-CoDel.
    pub flow: u64,
}

impl Default for Label {
    /// Data of a sender without ECN.
    fn default() -> Label {
        Label { data: true, ect: false, flow: 0 }
    }
}

/// One network link in one direction, which carries packets `P`.
///
/// The caller pushes packets, polls for arrivals, and learns from [`next_event`](Link::next_event) when to
/// poll next. Time must not go back from call to call. The arrivals and their times do not depend on how
/// often, or how late, the link is polled.
// In this order the fields used for each packet are together, in four cache lines: with hundreds of links,
// the number of cache lines touched determines the cost of a packet.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Link<P> {
    // Used by every poll: one line.
    /// The time of the next poll, updated by every change.
    wake: Time,
    /// The packets inside: first the packets in propagation, in order of arrival; then, from `departed` on,
    /// the queued packets, in order of departure.
    slots: VecDeque<Slot<P>>,
    departed: u32,
    /// True if no step is pending, nothing overtakes and no dropped packet waits to be returned: `wake` is
    /// the arrival of the first slot.
    plain: bool,
    /// True if plain, up, and with nothing but a rate, a delay and a queue: an offered packet is queued, or
    /// dropped because the queue is full.
    easy: bool,
    up: bool,
    /// True if no packet may overtake.
    ordered: bool,
    delivered: Tally,

    // Used for every packet offered: three lines more.
    /// The next departure of a queued packet; never if none is queued.
    next_departure: Time,
    /// The bytes of the queued slots.
    queue_bytes: u64,
    /// The latest arrival of the packets that keep the order.
    last_arrival: Time,
    delay: Duration,
    limit: ResolvedLimit,
    /// The end of the current busy period, which may be in the future.
    busy_until: Time,
    /// The packets without data among those offered.
    bare_offered: u64,
    server: Server,
    /// The start of the current busy period.
    busy_from: Time,
    /// The busy time before that period.
    busy_before: Duration,
    /// All but those delivered.
    counters: Counters,

    marks: bool,
    jitter_reorders: bool,
    loss_draws: LossDraws,
    reports_mtu: bool,
    /// `plain` and `easy` may hold.
    fast_paths: bool,
    /// The time of the next step of the timeline.
    next_step: Time,
    /// Packets that exceed this limit are ECN-marked.
    threshold: ResolvedLimit,
    /// The time after which lost packets are delivered.
    repeat_after: Option<Duration>,
    impairments: Option<Box<Impairments>>,
    policer: Option<Bucket>,
    red: Option<Box<RedState>>,
    /// The queue, if the departures of its packets are not known in advance.
    managed: Option<Box<Managed<P>>>,
    reads_flows: bool,
    reads_ect: bool,
    when_down: WhenDown,
    mtu: u32,
    /// The remaining work of the packet in service when the link went down.
    stopped_work: u64,
    /// Packets dropped from the queue, and not returned yet.
    dropped: VecDeque<Dropped<P>>,
    timeline: Timeline,
    seed: u64,
    name: Arc<str>,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::offset_of!(Link<u64>, next_departure) == 64);
    assert!(core::mem::offset_of!(Link<u64>, server) == 128);
    // The first two counters are used for every packet offered.
    assert!(core::mem::offset_of!(Link<u64>, counters) + 2 * size_of::<Tally>() <= 256);
};

impl<P> Link<P> {
    /// Returns the link `name` (as in `wifi.down`) of a run with `seed`. Its random streams are
    /// `link.<name>.loss`, `.loss.state`, `.jitter`, `.reorder` and `.duplicate`; with
    /// [`LossDraws::Separate`] packets without data have `link.<name>.bare.loss` and so on, and share the
    /// state of the channel.
    ///
    /// # Errors
    /// A [`LinkConfigError`] if the configuration is invalid.
    pub fn new(name: &str, seed: u64, config: LinkConfig) -> Result<Link<P>, LinkConfigError> {
        config.check()?;
        let limit = config.resolved_queue();
        let threshold = config.resolved_ecn_threshold();
        let jitter_reorders = config.jitter.is_some_and(|jitter| jitter.reorder);
        let ordered = !jitter_reorders && config.reordering.is_none();
        let timeline = Timeline::new(config.timeline.clone(), &config.redraws, seed);
        let red = match config.aqm {
            Aqm::Red(red) => {
                let rtt = config.rtt.unwrap_or(config.delay * 2);
                Some(Box::new(RedState::new(red, config.capacity.mean_rate(), rtt, seed, name)))
            }
            Aqm::DropTail | Aqm::Codel(_) | Aqm::FqCodel(_) => None,
        };
        let mut link = Link {
            wake: Time::NEVER,
            plain: false,
            easy: false,
            up: true,
            next_step: timeline.next_at(),
            slots: VecDeque::new(),
            departed: 0,
            next_departure: Time::NEVER,
            queue_bytes: 0,
            last_arrival: Time::ZERO,
            server: Server::new(&config.capacity, Time::ZERO),
            delay: config.delay,
            limit,
            threshold,
            marks: config.ecn_threshold.is_some(),
            repeat_after: config.repeat_after,
            bare_offered: 0,
            counters: Counters::default(),
            delivered: Tally::default(),
            busy_from: Time::ZERO,
            busy_until: Time::ZERO,
            busy_before: Duration::ZERO,
            impairments: Impairments::new(seed, name, &config),
            policer: config.policer.as_ref().map(Bucket::new),
            red,
            managed: Managed::new(seed, name, &config),
            reads_flows: matches!(config.aqm, Aqm::FqCodel(_)),
            reads_ect: config.aqm.marks(),
            jitter_reorders,
            ordered,
            when_down: config.when_down,
            mtu: config.mtu.unwrap_or(u32::MAX),
            reports_mtu: config.reports_mtu,
            fast_paths: true,
            loss_draws: config.loss_draws,
            stopped_work: 0,
            dropped: VecDeque::new(),
            timeline,
            seed,
            name: name.into(),
        };
        link.update_wake();
        Ok(link)
    }

    /// Offers a packet of `wire_bytes` (its length on the wire, with all headers) to the link.
    ///
    /// [`next_event`](Link::next_event) may have changed afterwards; comparing it with the time of a poll
    /// that is already scheduled is cheap.
    #[inline(always)]
    pub fn push(&mut self, now: Time, packet: P, wire_bytes: u32) -> Pushed<P>
    where
        P: Clone,
    {
        self.push_as(now, packet, wire_bytes, Label::default())
    }

    /// Offers a packet with a label as [`push`](Link::push) does. The fields of the label that the link
    /// [does not read](Link::reads_labels) have no effect.
    #[inline(always)]
    pub fn push_as(&mut self, now: Time, packet: P, wire_bytes: u32, label: Label) -> Pushed<P>
    where
        P: Clone,
    {
        if !self.easy {
            return self.push_any(now, packet, wire_bytes, label);
        }
        self.bare_offered += u64::from(!label.data);
        self.settle(now);
        self.counters.offered.add(wire_bytes);
        let waiting = self.slots.len() - self.departed();
        if self.limit.admit(waiting, self.queue_bytes, wire_bytes) == Admission::Refuse {
            self.counters.dropped_queue.add(wire_bytes);
            return Pushed::Dropped(packet, DropReason::Queue);
        }
        // The same as `enter`, reduced to the cases that are possible here.
        let idle = self.busy_until <= now;
        if idle {
            self.end_busy_period(now);
        }
        let departure = self.server.serve(now, idle, wire_bytes);
        self.busy_until = departure;
        let arrival = (departure + self.delay).max(self.last_arrival);
        self.last_arrival = arrival;
        if waiting == 0 {
            self.next_departure = departure;
            if self.departed == 0 {
                self.wake = arrival;
            }
        }
        self.slots.push_back(Slot { arrival, departure, extra: Extra::NOTHING, wire_bytes, packet });
        self.queue_bytes += u64::from(wire_bytes);
        let max = &mut self.counters.max_queue;
        max.packets = max.packets.max(waiting as u64 + 1);
        max.bytes = max.bytes.max(self.queue_bytes);
        Pushed::Queued
    }

    /// True if only its rate, its delay and its queue determine the fate of a packet offered now.
    #[inline]
    pub fn is_easy(&self) -> bool {
        self.easy
    }

    /// Switches off the functions for links that are [easy](Link::is_easy), and the memory of service times,
    /// or on again; for the tests that compare them with the functions for every link.
    #[doc(hidden)]
    pub fn set_fast_paths(&mut self, on: bool) {
        self.fast_paths = on;
        self.update_wake();
    }

    /// True if this link reads a field of a packet's [`Label`].
    #[inline]
    pub fn reads_labels(&self) -> bool {
        self.loss_draws == LossDraws::Separate || self.reads_more_than_data()
    }

    /// True if it reads another field than `data`.
    #[inline]
    pub fn reads_more_than_data(&self) -> bool {
        self.reads_ect || self.reads_flows
    }

    /// True if it reads the [flow](Label::flow) of a packet.
    #[inline]
    pub fn reads_flows(&self) -> bool {
        self.reads_flows
    }

    /// Offers a packet as [`push_as`](Link::push_as) does, to a link that is not easy.
    #[inline(never)]
    fn push_any(&mut self, now: Time, packet: P, wire_bytes: u32, label: Label) -> Pushed<P>
    where
        P: Clone,
    {
        if now >= self.next_step {
            self.run_timeline(now);
        }
        self.settle_any(now);
        self.bare_offered += u64::from(!label.data);
        self.counters.offered.add(wire_bytes);
        let fate = match &mut self.impairments {
            None => Fate::NOTHING,
            Some(impairments) => impairments.draw(now, label.data).repeated(self.repeat_after),
        };
        let was_empty = self.slots.is_empty();
        // Every packet offered takes a draw of RED, whatever happens to it.
        let draw = self.red.as_mut().map_or(0.0, |red| red.draw(false));
        let pushed = if !self.up {
            self.refuse(packet, wire_bytes, DropReason::Down)
        } else if wire_bytes > self.mtu {
            self.refuse(packet, wire_bytes, DropReason::TooLarge)
        } else if let Some(cause) = fate.loss {
            self.refuse(packet, wire_bytes, DropReason::Loss(cause))
        } else if self.policer.as_mut().is_some_and(|policer| !policer.take(now, wire_bytes)) {
            self.refuse(packet, wire_bytes, DropReason::Policer)
        } else {
            let verdict = self.decide(now, wire_bytes, label, draw);
            if verdict == Verdict::Drop {
                self.refuse(packet, wire_bytes, DropReason::Aqm)
            } else if self.admit(wire_bytes) == Admission::Refuse {
                self.refuse(packet, wire_bytes, DropReason::Queue)
            } else {
                self.accept(now, packet, wire_bytes, fate, label, verdict == Verdict::Mark);
                Pushed::Queued
            }
        };
        if was_empty || !self.plain {
            self.update_wake();
        }
        pushed
    }

    /// Adds a packet, and its copy if it is duplicated, to the queue.
    fn accept(&mut self, now: Time, packet: P, wire_bytes: u32, fate: Fate, label: Label, marked: bool)
    where
        P: Clone,
    {
        let copy = fate.duplicate.then(|| packet.clone());
        self.enter(now, packet, wire_bytes, fate, label, marked);
        if let Some(copy) = copy
            && self.admit(wire_bytes) == Admission::Enter
        {
            self.counters.duplicated.add(wire_bytes);
            self.enter(now, copy, wire_bytes, fate, label, marked);
        }
    }

    /// Returns the next arrival or drop up to `now`, in order of time; call it again until it returns none.
    /// At the same time, arrivals come before drops.
    #[inline]
    pub fn poll(&mut self, now: Time) -> Option<Polled<P>> {
        if now < self.wake {
            return None;
        }
        if !self.plain {
            return self.poll_any(now);
        }
        if self.departed == 0 {
            // Otherwise the first has departed, and the queue matters only to the next packet offered.
            self.settle_apart(now);
        }
        let slot = self.slots.pop_front()?;
        self.departed -= 1;
        self.wake = match self.slots.front() {
            Some(next) => next.arrival,
            None => {
                // The next packet finds the first slots in the cache, rather than others that have left it.
                self.slots.clear();
                Time::NEVER
            }
        };
        Some(self.deliver(slot))
    }

    /// Returns the time before which nothing will be returned by [`poll`](Link::poll); [`Time::NEVER`] if the
    /// link is empty. Costs nothing; changes only in `push`, `poll` and [`advance`](Link::advance).
    #[inline]
    pub fn next_event(&self) -> Time {
        self.wake
    }

    /// Returns the packet that follows `before` others, for prefetching, if the link contains so many packets
    /// that it has left the caches meanwhile. None for other links.
    #[inline]
    pub fn peek_deep(&self, before: usize) -> Option<&P> {
        if self.slots.len() < DEEP {
            return None;
        }
        self.fetch_slot(before + AHEAD);
        self.slots.get(before).map(|slot| &slot.packet)
    }

    /// Prefetches the state that the next packet offered will use, or with `poll` the part that the next poll will use.
    #[inline]
    pub fn fetch(&self, poll: bool) {
        prefetch_index(slice::from_ref(&self.wake), 0);
        prefetch_index(slice::from_ref(&self.next_departure), 0);
        if !poll {
            prefetch_index(slice::from_ref(&self.server), 0);
            prefetch_index(slice::from_ref(&self.counters), 0);
        }
    }

    /// Prefetches the slot of the packet that arrives first, and the one after it.
    #[inline]
    pub fn fetch_first(&self) {
        let (front, _) = self.slots.as_slices();
        prefetch_index(front, 0);
        prefetch_index(front, 1);
    }

    /// Prefetches the slots of the next packet offered and of the next packet to depart.
    #[inline]
    pub fn fetch_last(&self) {
        let (front, back) = self.slots.as_slices();
        let last = if back.is_empty() { front } else { back };
        prefetch_index(last, last.len());
        self.fetch_slot(self.departed());
    }

    /// Returns the packet that arrives first.
    #[inline]
    pub fn peek(&self) -> Option<&P> {
        self.slots.front().map(|slot| &slot.packet)
    }

    /// Prefetches the slot at `at`.
    #[inline(never)]
    fn fetch_slot(&self, at: usize) {
        let (front, back) = self.slots.as_slices();
        match at.checked_sub(front.len()) {
            None => prefetch_index(front, at),
            Some(at) => prefetch_index(back, at),
        }
    }

    /// Advances the link to `now`, so that [`counters`](Link::counters), [`queue_bytes`](Link::queue_bytes)
    /// and so on return its state at this time. Has no effect on arrivals.
    pub fn advance(&mut self, now: Time) {
        if now >= self.next_step {
            self.run_timeline(now);
        }
        self.settle_any(now);
        if !self.plain {
            self.update_wake();
        }
    }

    /// Returns the queued bytes at `now`, the whole packet in service included.
    pub fn queue_bytes(&mut self, now: Time) -> u64 {
        self.advance(now);
        self.queue_bytes
    }

    /// Returns the queued packets at `now`, the one in service included.
    pub fn queue_packets(&mut self, now: Time) -> usize {
        self.advance(now);
        self.queued()
    }

    /// True if the link is up at `now`.
    pub fn is_up(&mut self, now: Time) -> bool {
        self.advance(now);
        self.up
    }

    /// Returns the time, until `now`, that the link was up and had something to send.
    pub fn busy_time(&mut self, now: Time) -> Duration {
        self.advance(now);
        self.busy_before + self.busy_until.min(now).since(self.busy_from)
    }

    /// Returns the counters. Drops caused by a step of the timeline are counted when the step is processed,
    /// so call [`advance`](Link::advance) first.
    #[inline]
    pub fn counters(&self) -> Counters {
        Counters { delivered: self.delivered, ..self.counters }
    }

    /// Returns the number of packets inside: queued, in propagation, or arrived or dropped and not polled.
    pub fn inside(&self) -> usize {
        self.slots.len() + self.dropped.len() + self.managed.as_ref().map_or(0, |managed| managed.real())
    }

    /// Returns the queue limit in packets or bytes.
    pub fn queue_limit(&self) -> ResolvedLimit {
        self.limit
    }

    /// Returns the MTU to report to the sender of a packet that was [`DropReason::TooLarge`]; none if the
    /// link does not report it.
    pub fn reported_mtu(&self) -> Option<u32> {
        (self.reports_mtu && self.mtu < u32::MAX).then_some(self.mtu)
    }

    /// Returns the propagation delay since the last step that was processed.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// Returns the number of packets in propagation, which is the index of the first queued slot.
    #[inline]
    fn departed(&self) -> usize {
        self.departed as usize
    }

    /// Returns the queued packets, the one in service included.
    #[inline]
    fn queued(&self) -> usize {
        self.slots.len() - self.departed() + self.managed.as_ref().map_or(0, |managed| managed.queued())
    }

    #[inline]
    fn admit(&self, wire_bytes: u32) -> Admission {
        match &self.managed {
            // It makes space for whatever fits into an empty queue.
            Some(managed) if managed.sheds() => self.limit.admit(0, 0, wire_bytes),
            _ => self.limit.admit(self.queued(), self.queue_bytes, wire_bytes),
        }
    }

    /// Returns RED's decision on a packet.
    fn decide(&mut self, now: Time, wire_bytes: u32, label: Label, draw: f64) -> Verdict {
        let (packets, bytes, idle_since) = (self.queued(), self.queue_bytes, self.busy_until);
        match &mut self.red {
            None => Verdict::Pass,
            Some(red) => red.decide(now, Found { packets, bytes, idle_since }, wire_bytes, label.ect, draw),
        }
    }

    fn refuse(&mut self, packet: P, wire_bytes: u32, reason: DropReason) -> Pushed<P> {
        self.count_drop(wire_bytes, reason);
        Pushed::Dropped(packet, reason)
    }

    fn count_drop(&mut self, wire_bytes: u32, reason: DropReason) {
        let counters = &mut self.counters;
        match reason {
            DropReason::Queue => counters.dropped_queue.add(wire_bytes),
            DropReason::Down => counters.dropped_down.add(wire_bytes),
            // The receiver does so, after the packet was delivered, or a middlebox, before or after the link.
            DropReason::Effect(_) | DropReason::Middlebox => {}
            DropReason::Aqm => counters.dropped_aqm.add(wire_bytes),
            DropReason::Policer => counters.dropped_policer.add(wire_bytes),
            DropReason::TooLarge => counters.dropped_too_large.add(wire_bytes),
            DropReason::Loss(LossCause::Random) => counters.dropped_random.add(wire_bytes),
            DropReason::Loss(LossCause::GilbertElliott) => counters.dropped_gilbert_elliott.add(wire_bytes),
            DropReason::Loss(LossCause::Listed) => counters.dropped_listed.add(wire_bytes),
        }
    }

    /// Ends the busy period of a link that was idle, and begins a new one at `now`.
    #[inline]
    fn end_busy_period(&mut self, now: Time) {
        self.busy_before += self.busy_until.since(self.busy_from);
        self.busy_from = now;
    }

    /// Adds a packet to the queue.
    fn enter(&mut self, now: Time, packet: P, wire_bytes: u32, fate: Fate, label: Label, marked: bool) {
        let waiting = self.queued();
        let marked = marked
            || self.marks && self.threshold.admit(waiting, self.queue_bytes, wire_bytes) == Admission::Refuse;
        if fate.overtaken {
            self.counters.reordered.add(wire_bytes);
        }
        if self.managed.is_some() {
            let extra = Extra::new(fate.extra, fate.overtaken || self.jitter_reorders, fate.effects);
            let waiting = Waiting::new(now, wire_bytes, label, extra, Some(packet));
            return self.enter_managed(now, waiting.marked_if(marked));
        }
        let idle = self.busy_until <= now;
        if idle {
            self.end_busy_period(now);
        }
        let departure = if self.fast_paths {
            self.server.serve(now, idle, wire_bytes)
        } else {
            self.server.serve_work(now, idle, work(wire_bytes))
        };
        self.busy_until = departure;
        let effects = fate.effects.with_if(Effect::Marked, marked);
        let extra = Extra::new(fate.extra, fate.overtaken || self.jitter_reorders, effects);
        let mut slot = Slot { arrival: Time::ZERO, departure, extra, wire_bytes, packet };
        slot.set_arrival(self.delay, &mut self.last_arrival);
        self.next_departure = self.next_departure.min(departure);
        if !effects.is_none() {
            self.counters.add_effects(effects, wire_bytes);
        }
        self.slots.push_back(slot);
        self.queue_bytes += u64::from(wire_bytes);
        let waiting = (self.slots.len() - self.departed()) as u64;
        let max = &mut self.counters.max_queue;
        max.packets = max.packets.max(waiting);
        max.bytes = max.bytes.max(self.queue_bytes);
    }

    /// Moves the packets that have departed by `now` from the queue to the propagation.
    #[inline(always)]
    fn settle(&mut self, now: Time) {
        while self.next_departure <= now {
            let Some(slot) = self.slots.get(self.departed()) else { break };
            self.queue_bytes -= u64::from(slot.wire_bytes);
            self.departed += 1;
            if self.slots.len() >= DEEP {
                self.fetch_slot(self.departed() + AHEAD);
            }
            if !self.ordered {
                self.sort_last_departed();
            }
            self.next_departure = self.slots.get(self.departed()).map_or(Time::NEVER, |slot| slot.departure);
        }
    }

    /// Brings any link to `now`.
    #[inline]
    fn settle_any(&mut self, now: Time) {
        if self.managed.is_some() {
            self.settle_managed(now);
        } else {
            self.settle(now);
        }
    }

    /// Does the same as [`settle`](Link::settle), out of line, for rare calls.
    #[inline(never)]
    fn settle_apart(&mut self, now: Time) {
        self.settle(now);
    }

    /// Moves the packet that departed last to its place in the order of arrival.
    #[cold]
    fn sort_last_departed(&mut self) {
        let mut at = self.departed() - 1;
        while at > 0 && self.slots[at - 1].arrival > self.slots[at].arrival {
            self.slots.swap(at - 1, at);
            at -= 1;
        }
    }

    fn deliver(&mut self, slot: Slot<P>) -> Polled<P> {
        self.delivered.add(slot.wire_bytes);
        Polled::Arrived(Arrival {
            at: slot.arrival,
            departed: slot.departure,
            wire_bytes: slot.wire_bytes,
            effects: slot.extra.effects(),
            packet: slot.packet,
        })
    }

    /// Polls as [`poll`](Link::poll) does, for a link that is not plain.
    #[inline(never)]
    fn poll_any(&mut self, now: Time) -> Option<Polled<P>> {
        if now >= self.next_step {
            self.run_timeline(now);
        }
        self.settle_any(now);
        let arrival = match self.slots.front() {
            Some(slot) if self.departed > 0 => slot.arrival,
            _ => Time::NEVER,
        };
        let polled = if self.dropped.front().is_some_and(|dropped| dropped.at < arrival) {
            self.dropped.pop_front().map(Polled::Dropped)
        } else if arrival <= now {
            self.slots.pop_front().map(|slot| {
                self.departed -= 1;
                self.deliver(slot)
            })
        } else {
            None
        };
        self.update_wake();
        polled
    }

    fn update_wake(&mut self) {
        self.plain = self.fast_paths
            && self.ordered
            && !self.next_step.is_armed()
            && self.dropped.is_empty()
            && self.managed.is_none();
        self.easy = self.plain
            && self.up
            && self.impairments.is_none()
            && self.mtu == u32::MAX
            && !self.marks
            && self.policer.is_none()
            && self.red.is_none()
            && self.server.is_rate();
        self.wake = match self.slots.front() {
            None => Time::NEVER,
            Some(first) if self.ordered => first.arrival,
            Some(first) => {
                let arrival = if self.departed > 0 { first.arrival } else { Time::NEVER };
                // A queued packet may overtake, but cannot arrive before it departs.
                let departure = self.slots.get(self.departed()).map_or(Time::NEVER, |slot| slot.departure);
                arrival.min(departure)
            }
        };
        // A step changes the packets that have not departed by then.
        if self.next_step < self.busy_until || !self.up && self.queued() > 0 {
            self.wake = self.wake.min(self.next_step);
        }
        if let Some(managed) = &self.managed {
            self.wake = self.wake.min(managed.next_event());
        }
        if let Some(dropped) = self.dropped.front() {
            self.wake = self.wake.min(dropped.at);
        }
    }
}
