//! The chain of waits that ends with the last byte's delivery, followed backwards.
//!
//! The walk begins at the in-order delivery of a byte and goes back in time. At each point something had to happen first:
//!
//! * the byte waited for an earlier byte: a retransmission, or head-of-line blocking;
//! * its segment propagated, and was transmitted by a link: propagation, serialisation;
//! * the link was busy with an earlier segment of the stream: the walk goes on with that segment, since it was transmitted
//!   at the same rate, and the time until the link turned to this one, if it served others, is queueing;
//! * the link was idle before: then the sender had not sent the segment earlier. The time since the link last had one of
//!   its segments is divided by the reason that the sender had at that time, and the walk goes on with that segment. On
//!   a way with several links, the slowest one counts;
//! * the sender had sent another segment meanwhile, by another way: the walk goes on with that one.
//!
//! Every step moves to an earlier time and accounts for the time between, so the parts add up exactly. The walk ends at the start
//! of the stream, or of the part of it that is explained, such as a response.

use anabranch_units::{Duration, Time};

use super::cause::{Cause, Parts};
use super::outage::Outage;
use super::story::{Hop, Repeat, Service, Story, Transmission, Waits, for_reasons};

/// A part of the chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Charge {
    pub cause: Cause,
    pub span: Duration,
    /// The subflow, if one is concerned.
    pub subflow: Option<usize>,
    /// The position of the subflow's path, once that is known.
    pub path: Option<usize>,
    /// True if the lost segment was dropped by a full queue.
    pub overflow: bool,
    /// The outage that has caused it.
    pub outage: Option<Outage>,
}

impl Charge {
    /// Returns the charge of a wait that no full queue and no outage has caused, as far as is known.
    pub(super) fn new(cause: Cause, span: Duration, subflow: Option<usize>) -> Charge {
        Charge { cause, span, subflow, path: None, overflow: false, outage: None }
    }
}

/// A point of the walk, at the present time.
#[derive(Clone, Copy, Debug)]
enum Point {
    /// The transmission is at the far end of this hop.
    Arrived {
        number: usize,
        hop: usize,
    },
    /// The link of this hop is transmitting it, or has just done so.
    InService {
        number: usize,
        hop: usize,
    },
    /// It is offered to the link of this hop, which drops it.
    Dropped {
        number: usize,
        hop: usize,
    },
    Sent {
        number: usize,
    },
}

/// A hop of the present transmission that the walk has passed.
struct Passed {
    link: usize,
    /// The time at which the transmission entered the link, which was idle.
    entered: Time,
    /// The number of charges at that point.
    charges: usize,
}

struct Walk<'a> {
    story: &'a Story,
    /// The byte that is explained.
    byte: u64,
    charges: Vec<Charge>,
    now: Time,
    /// The time at which the walk came to the present transmission.
    since: Time,
    passed: Vec<Passed>,
    /// The time at which the walk ends.
    begin: Time,
}

/// Returns the parts of the time from `begin`, or from the start of the stream if that is later, until `byte` was delivered
/// in order, from the last to the first, and the time of the delivery. None if it was not delivered. `byte` was not
/// offered before `begin`.
pub(crate) fn chain(story: &Story, byte: u64, waits: &Waits, begin: Time) -> Option<(Vec<Charge>, Time)> {
    let (number, _) = waits.carrier(byte)?;
    let arrived = story.transmissions[number].arrived()?;
    let end = waits.delivered(byte);
    let mut walk = Walk { story, byte, charges: Vec::new(), now: end, since: end, passed: Vec::new(), begin };
    let mut blocked = Vec::new();
    waits.each(byte, arrived, end, |cause, span, carrier| {
        let one = &story.transmissions[carrier];
        let overflow = story
            .earlier(carrier, one.data.start)
            .and_then(|(_, lost)| lost.dropped)
            .is_some_and(|dropped| dropped.1);
        blocked.push(Charge { overflow, ..Charge::new(cause, span, Some(one.subflow)) });
    });
    walk.charges.extend(blocked.into_iter().rev());
    walk.now = arrived;
    let point = walk.before_repeats(number, byte);
    walk.run(point);
    // A wait for earlier bytes, which were under way at `begin`, goes beyond it.
    let mut left = end.since(begin);
    walk.charges.retain_mut(|charge| {
        charge.span = charge.span.min(left);
        left = left.saturating_sub(charge.span);
        !charge.span.is_zero()
    });
    Some((walk.charges, end))
}

/// Returns the time of each cause in a chain.
pub(crate) fn sums(charges: &[Charge]) -> Parts {
    let mut parts = Parts::default();
    charges.iter().for_each(|charge| parts.add(charge.cause, charge.span, 1));
    parts
}

impl Walk<'_> {
    fn charge(&mut self, cause: Cause, to: Time, subflow: usize, overflow: bool) {
        let span = self.now.since(to);
        if !span.is_zero() {
            self.charges.push(Charge { overflow, ..Charge::new(cause, span, Some(subflow)) });
        }
        self.now = self.now.min(to);
    }

    /// Goes back from the arrival of the transmission that delivered `byte` over its earlier, lost transmissions; returns the
    /// point at which the first one ended.
    fn before_repeats(&mut self, mut number: usize, byte: u64) -> Point {
        let mut hops = self.story.transmissions[number].hops.len();
        while let Some((earlier, lost)) = self.story.lost_before(number, byte) {
            let again = &self.story.transmissions[number];
            for hop in (0..hops).rev() {
                let hop = again.hops[hop];
                let departed = hop.departed.unwrap_or(self.now);
                let place = self.story.place(hop.link, departed, number);
                let start =
                    place.map_or(departed, |place| self.story.service_start(hop.link, place, hop.entered));
                self.charge(Cause::Propagation, departed, again.subflow, false);
                self.charge(Cause::Serialisation, start, again.subflow, false);
                self.charge(Cause::Queueing, hop.entered, again.subflow, false);
            }
            number = earlier;
            let is_first = self.story.lost_before(number, byte).is_none();
            match lost.dropped.filter(|(at, _)| *at <= again.sent) {
                Some((at, overflow)) => {
                    self.charge(Cause::Retransmission, at, lost.subflow, overflow);
                    // A damaged packet was rejected on arrival.
                    let arrived = lost.hops.last().is_some_and(|hop| hop.left.is_some());
                    hops = lost.hops.len().saturating_sub(usize::from(!arrived));
                    if is_first && !arrived {
                        return Point::Dropped { number, hop: hops };
                    }
                }
                None => {
                    self.charge(Cause::Retransmission, lost.sent, lost.subflow, false);
                    hops = 0;
                    if is_first {
                        return Point::Sent { number };
                    }
                }
            }
        }
        match hops {
            0 => Point::Sent { number },
            hops => Point::Arrived { number, hop: hops - 1 },
        }
    }

    fn run(&mut self, mut point: Point) {
        let mut visited = None;
        // The time on the way of a transmission is decided at its sending.
        while self.now > self.begin || !self.passed.is_empty() {
            let Some(next) = self.step(point) else { return };
            point = next;
            let (Point::Arrived { number, .. }
            | Point::InService { number, .. }
            | Point::Dropped { number, .. }
            | Point::Sent { number }) = point;
            if visited != Some(number) {
                (visited, self.since) = (Some(number), self.now);
            }
        }
    }

    /// Goes back from `point` to an earlier one; none at the start.
    fn step(&mut self, point: Point) -> Option<Point> {
        let story = self.story;
        match point {
            Point::Arrived { number, hop } => {
                let one = &story.transmissions[number];
                let departed = one.hops[hop].departed?;
                self.charge(Cause::Propagation, departed, one.subflow, false);
                Some(Point::InService { number, hop })
            }
            Point::InService { number, hop } => Some(self.leave_service(number, hop)),
            Point::Dropped { number, hop } => {
                let one = &story.transmissions[number];
                let Hop { link, entered, .. } = *one.hops.get(hop)?;
                // A link that goes down drops its queue.
                self.charge(Cause::Queueing, entered, one.subflow, false);
                if let Some((number, hop)) = self.serving(link) {
                    return Some(Point::InService { number, hop });
                }
                Some(match hop {
                    0 => Point::Sent { number },
                    hop => Point::Arrived { number, hop: hop - 1 },
                })
            }
            Point::Sent { number } => self.before_sending(number),
        }
    }

    /// Goes back from the service of a transmission by a link to the time before it.
    fn leave_service(&mut self, number: usize, hop: usize) -> Point {
        let story = self.story;
        let one = &story.transmissions[number];
        let Hop { link, entered, departed, .. } = one.hops[hop];
        let place = departed.and_then(|departed| story.place(link, departed, number)).unwrap_or(0);
        let start = story.service_start(link, place, entered);
        self.charge(Cause::Serialisation, start, one.subflow, false);
        let previous = self.own_before(link, place);
        if let Some((earlier, at)) = previous
            && at.departed >= entered
        {
            // The link was busy with this one when ours came.
            self.charge(Cause::Queueing, at.departed, one.subflow, false);
            self.passed.clear();
            return self.in_service(earlier, link);
        }
        self.charge(Cause::Queueing, entered, one.subflow, false);
        let charges = self.charges.len();
        self.passed.push(Passed { link, entered, charges });
        match hop {
            0 => Point::Sent { number },
            hop => Point::Arrived { number, hop: hop - 1 },
        }
    }

    /// Goes back from the sending of a transmission to the last time at which its way was busy, or another way.
    fn before_sending(&mut self, number: usize) -> Option<Point> {
        let story = self.story;
        let one = &story.transmissions[number];
        // The slowest link determines when a segment could be useful.
        let slowest = (0..one.hops.len()).max_by_key(|hop| self.service_time(number, *hop));
        let slowest = slowest.map(|hop| one.hops[hop].link);
        if !self.passed.iter().any(|passed| Some(passed.link) == slowest) {
            // The walk has not followed its whole way: the links are in their state at this time.
            let busy = one.hops.iter().filter_map(|hop| self.serving(hop.link));
            if let Some((number, hop)) = busy.max_by_key(|busy| self.service_time(busy.0, busy.1)) {
                self.passed.clear();
                return Some(Point::InService { number, hop });
            }
            let (entered, charges) = (self.now, self.charges.len());
            self.passed = one.hops.iter().map(|hop| Passed { link: hop.link, entered, charges }).collect();
        }
        let idle = self.passed.iter().filter_map(|passed| {
            let place =
                story.services.get(passed.link)?.partition_point(|one| one.departed <= passed.entered);
            let (earlier, service) = self.own_before(passed.link, place)?;
            // Every transmission is met at an earlier time than the one before, so that the walk ends.
            (service.departed < self.since).then_some((
                passed.entered.since(service.departed),
                passed,
                earlier,
            ))
        });
        let idle = idle.min_by_key(|(idle, passed, _)| (Some(passed.link) != slowest, *idle));
        // A copy made by a link has a greater number than later transmissions.
        let is_previous = |earlier: &Transmission| earlier.repeat == Repeat::No && earlier.sent <= one.sent;
        let previous = (0..number).rev().find(|earlier| is_previous(&story.transmissions[*earlier]));
        if let Some((idle, &Passed { link, entered, charges }, earlier)) = idle {
            let since = Time(one.sent.0.saturating_sub(idle.0));
            let is_last = previous.is_none_or(|previous| story.transmissions[previous].sent <= since);
            if is_last && since >= self.begin {
                // The way up to that link is not on the chain: it was idle as well.
                self.charges.truncate(charges);
                self.reasons(number, since, one.sent);
                self.now = Time(entered.0.saturating_sub(idle.0));
                self.passed.clear();
                return Some(self.in_service(earlier, link));
            }
        }
        self.charge(Cause::Queueing, one.sent, one.subflow, false);
        let since = previous.map_or(story.start, |previous| story.transmissions[previous].sent);
        let since = since.max(self.begin);
        self.reasons(number, since, one.sent);
        self.now = self.now.min(since);
        self.passed.clear();
        previous.map(|number| Point::Sent { number })
    }

    /// Divides the time in which the sender did not send a transmission by its reasons, from the last to the first.
    fn reasons(&mut self, number: usize, from: Time, to: Time) {
        let one = &self.story.transmissions[number];
        let mut found = Vec::new();
        for_reasons(
            (from, to),
            |now| self.reason(one, now),
            |cause, now, until| {
                let overflow = cause == Cause::Retransmission && self.overflowed(number, until);
                found.push(Charge { overflow, ..Charge::new(cause, until.since(now), Some(one.subflow)) });
            },
        );
        self.charges.extend(found.into_iter().rev());
    }

    /// Returns why `one` was not sent at `now`, and the time until which the reason holds. Data after the byte that is
    /// explained may have been sent before it: until that data was offered, the byte had its own reason.
    fn reason(&self, one: &Transmission, now: Time) -> (Cause, Time) {
        let (cause, until) = self.story.reason(one, now);
        if cause != Cause::Application || one.data.start <= self.byte {
            return (cause, until);
        }
        let has_byte = |one: &&Transmission| one.data.start <= self.byte && self.byte < one.data.end;
        match self.story.transmissions.iter().find(has_byte) {
            Some(own) if now < own.sent => {
                let (cause, own_until) = self.story.reason(own, now);
                (cause, own_until.min(own.sent).min(until))
            }
            _ => (Cause::Retransmission, until),
        }
    }

    /// True if a full queue dropped the last transmission of the same subflow before `number` that was lost by `until`.
    fn overflowed(&self, number: usize, until: Time) -> bool {
        let subflow = self.story.transmissions[number].subflow;
        let earlier = self.story.transmissions[..number].iter().rev().filter(|one| one.subflow == subflow);
        let lost = earlier.filter_map(|one| one.dropped).find(|(at, _)| *at <= until);
        lost.is_some_and(|(_, overflow)| overflow)
    }

    /// Returns the transmission of the stream that `link` is transmitting at the present time, and was before, with its hop.
    fn serving(&self, link: usize) -> Option<(usize, usize)> {
        let services = self.story.services.get(link)?;
        let place = services.partition_point(|service| service.departed < self.now);
        let number = services.get(place)?.of(self.story.stream)?;
        let hop = self.hop(number, link);
        let start = self.story.service_start(link, place, self.story.transmissions[number].hops[hop].entered);
        (start < self.now).then_some((number, hop))
    }

    /// Returns the time that a link took to transmit a transmission.
    fn service_time(&self, number: usize, hop: usize) -> Duration {
        let Hop { link, entered, departed, .. } = self.story.transmissions[number].hops[hop];
        let Some(departed) = departed else { return Duration::ZERO };
        let place = self.story.place(link, departed, number).unwrap_or(0);
        departed.since(self.story.service_start(link, place, entered))
    }

    /// Returns the last transmission of the stream before `place` among the packets of a link.
    fn own_before(&self, link: usize, place: usize) -> Option<(usize, Service)> {
        let own = self.story.own.get(&link)?;
        let last = own.partition_point(|own| *own < place).checked_sub(1)?;
        let service = *self.story.services.get(link)?.get(own[last])?;
        Some((service.of(self.story.stream)?, service))
    }

    fn in_service(&self, number: usize, link: usize) -> Point {
        Point::InService { number, hop: self.hop(number, link) }
    }

    /// Returns the hop of a transmission that is `link`.
    fn hop(&self, number: usize, link: usize) -> usize {
        self.story.transmissions[number].hops.iter().position(|hop| hop.link == link).unwrap_or(0)
    }
}
