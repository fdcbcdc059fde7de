//! The story of one stream of bytes: the events from which its time is explained.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_stack::seq::DataRange;
use anabranch_units::{Duration, Time};

use super::cause::{Cause, Parts};

/// A packet that crosses one link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hop {
    /// The position of the link.
    pub link: usize,
    /// The time at which it was offered to the link.
    pub entered: Time,
    /// The time at which its last bit was transmitted; none if it was dropped.
    pub departed: Option<Time>,
    /// The time at which it was at the far end; none if it was dropped.
    pub left: Option<Time>,
}

/// How a segment repeats data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Repeat {
    /// No subflow has sent its data before.
    No,
    /// By the same subflow, or a probe.
    Retransmission,
    /// By another subflow.
    Reinjection,
    /// By another subflow, although its data is not lost: the data was sent before at this time, and is still in flight.
    Copy(Time),
}

impl Repeat {
    /// True if the segment waited for the loss of an earlier one.
    fn waits_for_loss(self) -> bool {
        matches!(self, Repeat::Retransmission | Repeat::Reinjection)
    }
}

/// A segment with data, sent once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Transmission {
    /// The number of its subflow, from 0.
    pub subflow: usize,
    /// Its payload, as a range of the stream.
    pub data: DataRange,
    /// The time at which a subflow was chosen for it; none if that was not observed.
    pub assigned: Option<Time>,
    /// The time at which it was sent.
    pub sent: Time,
    /// Whether it repeats data.
    pub repeat: Repeat,
    /// Its way, link after link.
    pub hops: Vec<Hop>,
    /// The time at which it was dropped, and whether because a queue was full.
    pub dropped: Option<(Time, bool)>,
}

impl Transmission {
    /// Returns the time at which the receiver had it.
    pub(super) fn arrived(&self) -> Option<Time> {
        if self.dropped.is_some() { None } else { self.hops.last()?.left }
    }
}

/// A number of bytes that grows with time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps(Vec<(Time, u64)>);

impl Steps {
    /// Adds a step: `bytes` in total from `at` on.
    pub(super) fn push(&mut self, at: Time, bytes: u64) {
        if self.0.last().is_none_or(|last| last.1 < bytes) {
            self.0.push((at, bytes));
        }
    }

    /// Returns the time at which the byte at `offset` was included; none if it never was.
    pub(super) fn reached(&self, offset: u64) -> Option<Time> {
        self.0.get(self.0.partition_point(|step| step.1 <= offset)).map(|step| step.0)
    }

    /// Returns the bytes at `now`, and the time of the next step.
    pub(super) fn at(&self, now: Time) -> (u64, Time) {
        let next = self.0.partition_point(|step| step.0 <= now);
        let bytes = if next == 0 { 0 } else { self.0[next - 1].1 };
        (bytes, self.0.get(next).map_or(Time::NEVER, |step| step.0))
    }

    /// Returns the bytes after each step.
    pub(super) fn sizes(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|step| step.1)
    }

    /// Returns the time of the last step; 0 if there is none.
    pub(super) fn last_time(&self) -> Time {
        self.0.last().map_or(Time::ZERO, |step| step.0)
    }

    /// Returns the greatest number of bytes.
    pub(super) fn last(&self) -> u64 {
        self.0.last().map_or(0, |step| step.1)
    }
}

/// A cause that changes with time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    changes: Vec<(Time, Cause)>,
    /// The time of each cause before each change.
    sums: Vec<Parts>,
}

impl Log {
    /// The cause before the first change is the congestion window.
    const BEFORE: Cause = Cause::CongestionWindow;

    /// Adds a change. Changes are added in order of time.
    pub(super) fn push(&mut self, at: Time, cause: Cause) {
        let (since, before) = self.changes.last().copied().unwrap_or((Time::ZERO, Log::BEFORE));
        if before == cause {
            return;
        }
        let mut sum = self.sums.last().copied().unwrap_or_default();
        sum.add(before, at.since(since), 1);
        self.changes.push((at, cause));
        self.sums.push(sum);
    }

    /// Returns the cause at `now`, and the time of the next change.
    pub(super) fn at(&self, now: Time) -> (Cause, Time) {
        let next = self.changes.partition_point(|change| change.0 <= now);
        let cause = if next == 0 { Log::BEFORE } else { self.changes[next - 1].1 };
        (cause, self.changes.get(next).map_or(Time::NEVER, |change| change.0))
    }

    /// Returns the time of each cause from the beginning until `now`.
    pub(super) fn sums(&self, now: Time) -> Parts {
        let next = self.changes.partition_point(|change| change.0 <= now);
        let (mut sum, since, cause) = match next.checked_sub(1) {
            None => (Parts::default(), Time::ZERO, Log::BEFORE),
            Some(last) => (self.sums[last], self.changes[last].0, self.changes[last].1),
        };
        sum.add(cause, now.since(since), 1);
        sum
    }
}

/// A packet that a link has transmitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service {
    /// The time at which its last bit was transmitted.
    pub departed: Time,
    /// The numbers of its stream and of the transmission in this stream; none for packets without data.
    pub carries: Option<(u32, u32)>,
}

impl Service {
    /// Returns the number of the transmission, if it is one of `stream`.
    pub(super) fn of(&self, stream: u32) -> Option<usize> {
        self.carries.filter(|carries| carries.0 == stream).map(|carries| carries.1 as usize)
    }
}

/// The parts of a stream that have not been seen.
struct Gaps(Vec<DataRange>);

impl Default for Gaps {
    fn default() -> Gaps {
        Gaps(vec![DataRange::new(0, u64::MAX)])
    }
}

impl Gaps {
    /// Removes `data`; returns the parts of it that were in gaps, in order.
    fn take(&mut self, data: DataRange) -> Vec<DataRange> {
        let Gaps(gaps) = self;
        let mut found = Vec::new();
        // The gaps that end after the segment's start; nearly always the last or one of a few.
        let mut at = gaps.partition_point(|gap| gap.end <= data.start);
        while let Some(gap) = gaps.get(at).copied().filter(|gap| gap.start < data.end) {
            let inside = gap.intersection(data);
            found.push(inside);
            let left = DataRange::new(gap.start, inside.start);
            let right = DataRange::new(inside.end, gap.end);
            gaps.splice(at..=at, [left, right].into_iter().filter(|part| !part.is_empty()));
            at += usize::from(!left.is_empty());
            if !right.is_empty() {
                break;
            }
        }
        found
    }
}

/// One stream of bytes: the data of a flow, or the request for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    /// The time from which its time counts.
    pub start: Time,
    /// The time at which the application could write.
    pub connected: Time,
    /// The bytes that the application wanted to write so far.
    pub offered: Steps,
    /// The bytes that the send buffer has accepted so far.
    pub written: Steps,
    /// The segments with data, in the order of sending, and the copies made by links.
    pub transmissions: Vec<Transmission>,
    /// The limit of the connection.
    pub limits: Log,
    /// By subflow: why assigned data was not sent.
    pub holds: Vec<Log>,
    /// By subflow: the retransmission timeouts.
    pub timeouts: Vec<Vec<Time>>,
    /// The number of this stream in the services of links.
    pub stream: u32,
    /// By link: what it has transmitted, in order of departure, for all streams of a run.
    pub services: Arc<Vec<Vec<Service>>>,
    /// By link: the places of this stream's packets in its services.
    pub own: BTreeMap<usize, Vec<usize>>,
}

impl Story {
    /// Returns the first transmission, in order of arrival, that delivered each byte: ranges of the stream with the
    /// number of the transmission, in order of arrival.
    pub(super) fn deliveries(&self) -> Vec<(DataRange, usize)> {
        let mut order: Vec<(Time, usize)> = Vec::with_capacity(self.transmissions.len());
        order.extend(
            self.transmissions.iter().enumerate().filter_map(|(number, one)| Some((one.arrived()?, number))),
        );
        order.sort();
        let mut gaps = Gaps::default();
        let mut found = Vec::with_capacity(order.len());
        for (_, number) in order {
            let parts = gaps.take(self.transmissions[number].data);
            found.extend(parts.into_iter().map(|part| (part, number)));
        }
        found
    }

    /// Marks segments as dropped that arrived and were not accepted, such as data before the handshake was complete: the
    /// stream grew in order as in `actual`, and would have grown sooner with them.
    pub(super) fn reject_unaccepted(&mut self, actual: &Steps) {
        loop {
            let waits = Waits::new(self, &self.deliveries());
            let early = waits.progress.0.iter().find(|(at, bytes)| actual.at(*at).0 < *bytes);
            let Some((at, _)) = early else { return };
            let Some((number, _)) = waits.carrier(actual.at(*at).0) else { return };
            let transmission = &mut self.transmissions[number];
            let Some(arrived) = transmission.arrived() else { return };
            transmission.dropped = Some((arrived, false));
        }
    }

    /// Finds the segments with data of other subflows that repair no loss: the other subflow has not sent the data yet, or
    /// its segment was not dropped and no retransmission timer has expired since.
    pub(super) fn find_copies(&mut self) {
        if self.transmissions.iter().all(|one| one.repeat != Repeat::Reinjection) {
            return;
        }
        let mut unsent = Gaps::default();
        for number in 0..self.transmissions.len() {
            let one = &self.transmissions[number];
            let is_new = unsent.take(one.data).first().is_some_and(|part| part.start == one.data.start);
            if one.repeat == Repeat::Retransmission {
                continue;
            }
            let earlier = if is_new { None } else { self.last_with(number, one.data.start) };
            let repeat = match earlier {
                None => Repeat::No,
                // A copy made by a link.
                Some((_, earlier)) if (earlier.subflow, earlier.sent) == (one.subflow, one.sent) => {
                    earlier.repeat
                }
                Some((_, earlier)) => {
                    let is_lost = earlier.dropped.is_some_and(|(at, _)| at <= one.sent);
                    let mut timeouts = self.timeouts.get(earlier.subflow).into_iter().flatten();
                    match is_lost || timeouts.any(|at| earlier.sent < *at && *at <= one.sent) {
                        true => Repeat::Reinjection,
                        false => Repeat::Copy(earlier.sent),
                    }
                }
            };
            self.transmissions[number].repeat = repeat;
        }
    }

    /// Returns why `transmission` was not sent at `now`, and the time until which the reason holds.
    pub(super) fn reason(&self, transmission: &Transmission, now: Time) -> (Cause, Time) {
        let byte = transmission.data.start;
        let offered = self.offered.reached(byte).unwrap_or(Time::NEVER);
        if now < self.connected {
            return (Cause::Handshake, self.connected);
        }
        if now < offered {
            return (Cause::Application, offered);
        }
        let written = self.written.reached(byte).unwrap_or(Time::NEVER);
        if now < written {
            return (Cause::SendBuffer, written);
        }
        if transmission.repeat.waits_for_loss() {
            return (Cause::Retransmission, Time::NEVER);
        }
        let assigned = transmission.assigned.unwrap_or(transmission.sent).min(transmission.sent);
        let (cause, until) = match self.holds.get(transmission.subflow) {
            Some(holds) if now >= assigned => holds.at(now),
            _ => {
                let (cause, until) = self.limits.at(now);
                let until = if now < assigned { until.min(assigned) } else { until };
                match transmission.repeat {
                    Repeat::Copy(since) if now < since => (cause, until.min(since)),
                    Repeat::Copy(_) => (of_copy(cause), until),
                    _ => (cause, until),
                }
            }
        };
        if cause == Cause::CongestionWindow
            && let Some(timeouts) = self.timeouts.get(transmission.subflow)
            && let Some(timeout) = timeouts.get(timeouts.partition_point(|timeout| *timeout <= now))
            && *timeout <= transmission.sent
        {
            // Nothing is sent until the retransmission timer expires.
            return (Cause::Retransmission, until.min(*timeout));
        }
        (cause, until)
    }

    /// Returns the start of service of the packet at `place` on `link`, which entered it at `entered`.
    pub(super) fn service_start(&self, link: usize, place: usize, entered: Time) -> Time {
        match place.checked_sub(1) {
            Some(before) => self.services[link][before].departed.max(entered),
            None => entered,
        }
    }

    /// Returns the place of a transmission among the packets that a link has transmitted.
    pub(super) fn place(&self, link: usize, departed: Time, number: usize) -> Option<usize> {
        let services = self.services.get(link)?;
        let first = services.partition_point(|service| service.departed < departed);
        let same = services[first..].iter().take_while(|service| service.departed == departed);
        Some(first + same.into_iter().position(|service| service.of(self.stream) == Some(number))?)
    }

    /// Returns the mean time of a byte between its offer and its in-order delivery, as sums over all delivered bytes: the
    /// time of each cause, and the number of bytes.
    pub(super) fn bytes(&self, size: u64) -> (Parts, u64) {
        let mut parts = Parts::default();
        let mut counted = 0;
        let deliveries = self.deliveries();
        let waits = Waits::new(self, &deliveries);
        let mut firsts: Vec<(DataRange, usize)> = Vec::new();
        for (number, one) in self.transmissions.iter().enumerate().filter(|(_, one)| one.repeat == Repeat::No)
        {
            firsts.push((one.data, number));
        }
        firsts.sort_by_key(|(data, number)| (data.start, *number));
        for (range, number) in &deliveries {
            let range = range.intersection(DataRange::new(0, size));
            if range.is_empty() {
                continue;
            }
            let mut cursor = range.start;
            while cursor < range.end {
                // The bytes from here on with the same times.
                let (Some(offered), Some(written)) =
                    (self.offered.reached(cursor), self.written.reached(cursor))
                else {
                    break;
                };
                let in_order = waits.delivered(cursor);
                let place = firsts.partition_point(|(data, _)| data.end <= cursor);
                let first = firsts.get(place).filter(|(data, _)| data.start <= cursor);
                let mut end = range.end;
                for limit in [
                    self.offered.end_at(offered),
                    self.written.end_at(written),
                    waits.end_of(cursor),
                    first.map_or(u64::MAX, |(data, _)| data.end),
                ] {
                    if limit > cursor {
                        end = end.min(limit);
                    }
                }
                let times = end - cursor;
                self.byte(
                    &mut parts,
                    times,
                    (offered, written, in_order),
                    first.map(|first| first.1).unwrap_or(*number),
                    *number,
                    &waits,
                );
                counted += times;
                cursor = end;
            }
        }
        (parts, counted)
    }

    /// Adds the time of `times` bytes that were first sent by `first` and delivered by `last`.
    fn byte(
        &self,
        parts: &mut Parts,
        times: u64,
        (offered, written, in_order): (Time, Time, Time),
        first: usize,
        last: usize,
        waits: &Waits,
    ) {
        let begin = parts.total();
        let (first, transmission) = (&self.transmissions[first], &self.transmissions[last]);
        let connected = self.connected.min(transmission.sent).max(offered);
        parts.add(Cause::Handshake, connected.since(offered), times);
        let written = written.max(connected);
        parts.add(Cause::SendBuffer, written.since(connected), times);
        let sent = first.sent.max(written).min(transmission.sent.max(written));
        let assigned = first.assigned.unwrap_or(sent).clamp(written, sent);
        parts.add_difference(&self.limits.sums(assigned), &self.limits.sums(written), times);
        match self.holds.get(first.subflow) {
            Some(holds) => parts.add_difference(&holds.sums(sent), &holds.sums(assigned), times),
            None => parts.add_difference(&self.limits.sums(sent), &self.limits.sums(assigned), times),
        }
        let again = match transmission.repeat {
            Repeat::Copy(since) => since.clamp(sent, transmission.sent.max(sent)),
            _ => transmission.sent.max(sent),
        };
        parts.add(Cause::Retransmission, again.since(sent), times);
        // The rest is until a copy of data in flight was sent.
        for_reasons(
            (again, transmission.sent),
            |now| self.reason(transmission, now),
            |cause, now, until| {
                parts.add(cause, until.since(now), times);
            },
        );
        let mut now = transmission.sent.max(sent);
        for hop in &transmission.hops {
            let (Some(departed), Some(left)) = (hop.departed, hop.left) else { continue };
            let place = self.place(hop.link, departed, last);
            let start = place.map_or(departed, |place| self.service_start(hop.link, place, hop.entered));
            parts.add(Cause::Queueing, start.since(now), times);
            parts.add(Cause::Serialisation, departed.since(start), times);
            parts.add(Cause::Propagation, left.since(departed), times);
            now = left;
        }
        parts.add_difference(&waits.missing.sums(in_order), &waits.missing.sums(now), times);
        let whole = u128::from(in_order.since(offered).0) * u128::from(times);
        debug_assert_eq!(parts.total() - begin, whole, "the parts add up");
    }
}

impl Steps {
    /// Returns the bytes from the step at `at` on.
    fn end_at(&self, at: Time) -> u64 {
        self.at(at).0
    }
}

/// The missing bytes that the receiver waited for.
pub(crate) struct Waits {
    /// The times at which the stream grew in order, with its new end.
    progress: Steps,
    /// The deliveries in order of the stream: the range, its transmission, and why bytes after it waited for it.
    sorted: Vec<(DataRange, usize, Cause)>,
    /// Why the next byte in order is missing.
    missing: Log,
}

impl Waits {
    pub(super) fn new(story: &Story, deliveries: &[(DataRange, usize)]) -> Waits {
        let cause = |data: DataRange, number: usize| match story.earlier(number, data.start) {
            Some((_, lost)) if lost.dropped.is_some() => Cause::Retransmission,
            _ => Cause::HeadOfLine,
        };
        let with_cause = |&(data, number): &(DataRange, usize)| (data, number, cause(data, number));
        let mut sorted: Vec<(DataRange, usize, Cause)> = deliveries.iter().map(with_cause).collect();
        sorted.sort_by_key(|(data, ..)| data.start);
        let mut progress = Steps::default();
        let (mut latest, mut end) = (Time::ZERO, 0);
        for (data, number, _) in &sorted {
            if data.start != end {
                break;
            }
            end = data.end;
            let arrived = story.transmissions[*number].arrived().unwrap_or(Time::NEVER);
            if arrived > latest {
                latest = arrived;
                progress.push_new(latest, end);
            } else {
                progress.extend(end);
            }
        }
        let mut waits = Waits { progress, sorted, missing: Log::default() };
        let mut missing = Log::default();
        for step in core::iter::once(&(Time::ZERO, 0)).chain(&waits.progress.0) {
            missing.push(step.0, waits.carrier(step.1).map_or(Cause::HeadOfLine, |carrier| carrier.1));
        }
        waits.missing = missing;
        waits
    }

    /// Returns the number of bytes delivered in order.
    pub(super) fn delivered_bytes(&self) -> u64 {
        self.progress.last()
    }

    /// Returns the number of bytes delivered in order by `time`.
    pub(super) fn delivered_until(&self, time: Time) -> u64 {
        self.progress.at(time).0
    }

    /// Returns the time at which `byte` was delivered in order.
    pub(super) fn delivered(&self, byte: u64) -> Time {
        self.progress.reached(byte).unwrap_or(Time::NEVER)
    }

    /// Returns the first byte that was missing at each time, with the time at which it was delivered in order.
    pub(super) fn missing_bytes(&self) -> impl Iterator<Item = (u64, Time)> {
        let before = core::iter::once(0).chain(self.progress.0.iter().map(|step| step.1));
        before.zip(self.progress.0.iter().map(|step| step.0))
    }

    /// Returns the transmission that delivered `byte`, and why bytes after it waited for it.
    pub(super) fn carrier(&self, byte: u64) -> Option<(usize, Cause)> {
        let place = self.sorted.partition_point(|(data, ..)| data.end <= byte);
        let (_, number, cause) = self.sorted.get(place).filter(|(data, ..)| data.start <= byte)?;
        Some((*number, *cause))
    }

    /// Returns the end of the bytes that were delivered in order together with `byte`.
    fn end_of(&self, byte: u64) -> u64 {
        self.progress.at(self.delivered(byte)).0
    }

    /// Divides the wait of a byte that arrived at `from` and was delivered in order at `to` by the bytes that were missing
    /// meanwhile; `found` receives the cause, the time and the transmission that brought the missing byte.
    pub(super) fn each(
        &self,
        byte: u64,
        from: Time,
        to: Time,
        mut found: impl FnMut(Cause, Duration, usize),
    ) {
        let mut now = from;
        while now < to {
            let (missing, next) = self.progress.at(now);
            let until = next.min(to);
            if let Some((carrier, cause)) = self.carrier(missing.min(byte)) {
                found(cause, until.since(now), carrier);
            }
            now = until;
        }
    }
}

impl Steps {
    fn push_new(&mut self, at: Time, bytes: u64) {
        self.0.push((at, bytes));
    }

    /// Raises the last step to `bytes`.
    fn extend(&mut self, bytes: u64) {
        if let Some(last) = self.0.last_mut() {
            last.1 = last.1.max(bytes);
        }
    }
}

impl Story {
    /// Returns the latest earlier transmission of `byte`, before the transmission `number`, which repeats it.
    pub(super) fn earlier(&self, number: usize, byte: u64) -> Option<(usize, &Transmission)> {
        let repeats = self.transmissions[number].repeat != Repeat::No;
        repeats.then(|| self.last_with(number, byte)).flatten()
    }

    /// Returns the latest transmission of `byte` before the transmission `number`.
    fn last_with(&self, number: usize, byte: u64) -> Option<(usize, &Transmission)> {
        let earlier = self.transmissions[..number].iter().enumerate().rev();
        earlier.into_iter().find(|(_, one)| one.data.start <= byte && byte < one.data.end)
    }

    /// Returns the same, if the transmission `number` waited for the loss of that one.
    pub(super) fn lost_before(&self, number: usize, byte: u64) -> Option<(usize, &Transmission)> {
        let waited = self.transmissions[number].repeat.waits_for_loss();
        waited.then(|| self.last_with(number, byte)).flatten()
    }
}

/// Calls `each` with the parts of a time that have one reason each, and with their begins and ends; `reason` returns it for a time, and
/// until when it holds.
pub(super) fn for_reasons(
    (from, to): (Time, Time),
    reason: impl Fn(Time) -> (Cause, Time),
    mut each: impl FnMut(Cause, Time, Time),
) {
    let mut now = from;
    while now < to {
        let (cause, until) = reason(now);
        let until = until.clamp(Time(now.0 + 1), to);
        each(cause, now, until);
        now = until;
    }
}

/// Returns why data in flight was not assigned to another subflow as well, for the limit of the connection.
fn of_copy(limit: Cause) -> Cause {
    match limit {
        // There is no other data.
        Cause::Pacing => Cause::Scheduler,
        limit => limit,
    }
}
