//! The data level of one direction: which bytes have arrived, in which order, and what they waited for.

use std::collections::BTreeMap;

use anabranch_units::{Duration, Time};

use super::half::Arrived;

/// The most ranges out of order that are remembered.
const MAX_RANGES: usize = 1 << 16;

/// A range that has arrived before an earlier one.
#[derive(Clone, Copy, Debug)]
struct Early {
    end: u64,
    time: Time,
}

/// The delivery of one stream, by the arrivals that the capture shows: at the receiver the packets, elsewhere their
/// acknowledgements.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    /// The bytes before it have been delivered; none before the first arrival.
    pub prefix: Option<u64>,
    pub begun: u64,
    early: BTreeMap<u64, Early>,
    early_bytes: u64,
    pub most_early_bytes: u64,
    /// The first and the last advance.
    pub first_advance: Option<Time>,
    pub last_advance: Option<Time>,
    pub longest_gap: Duration,
    pub longest_gap_at: Option<Time>,
    /// The time in which bytes waited for an earlier one, and its product with the bytes.
    pub blocked: Duration,
    blocked_since: Option<Time>,
    /// A hole that is acknowledged at the data level, and since when.
    missing: Option<(u64, Time)>,
    pub waited_byte_s: f64,
    /// The blocked time by the subflow that ended it.
    pub blocked_by: Vec<Duration>,
    pub holes: u64,
    pub duplicate_bytes: u64,
    pub delivered: u64,
    pub overflowed: bool,
    /// Bytes by the subflow of their first arrival.
    pub by_subflow: Vec<u64>,
}

fn grow<T: Default + Clone>(list: &mut Vec<T>, at: usize) -> Option<&mut T> {
    // Subflows of a connection are bounded by the table.
    if list.len() <= at {
        list.resize(at + 1, T::default());
    }
    list.get_mut(at)
}

impl Delivery {
    /// Sets the first byte of the stream.
    pub(crate) fn begin(&mut self, start: u64) {
        if self.prefix.is_none() {
            (self.prefix, self.begun) = (Some(start), start);
        }
    }

    /// True if bytes wait for an earlier one.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.early.is_empty()
    }

    /// Takes the arrival of a range on `subflow`. Calls `new` with the parts that had not arrived before.
    pub(crate) fn on_arrival(
        &mut self,
        now: Time,
        range: Arrived,
        subflow: usize,
        mut new: impl FnMut(Arrived),
    ) {
        let prefix = *self.prefix.get_or_insert(range.start);
        if self.first_advance.is_none() && self.begun == 0 {
            self.begun = prefix;
        }
        let Arrived { mut start, end } = range;
        if start < prefix {
            self.duplicate_bytes = self.duplicate_bytes.saturating_add(end.min(prefix) - start);
            start = prefix;
        }
        // The parts that have not arrived before.
        let before = self.early.range(..=start).next_back().map(|(_, early)| early.end);
        if let Some(known) = before.filter(|known| *known > start) {
            self.duplicate_bytes = self.duplicate_bytes.saturating_add(known.min(end) - start);
            start = known;
        }
        let mut fresh = 0;
        while start < end {
            let next = self.early.range(start..end).next().map(|(at, early)| (*at, early.end));
            let stop = next.map_or(end, |(at, _)| at);
            if stop > start {
                fresh += stop - start;
                new(Arrived { start, end: stop });
                if self.early.len() >= MAX_RANGES {
                    self.overflowed = true;
                } else {
                    self.insert(start, stop, now);
                }
            }
            let Some((at, known)) = next else { break };
            self.duplicate_bytes = self.duplicate_bytes.saturating_add(known.min(end) - at);
            start = known;
        }
        if let Some(bytes) = grow(&mut self.by_subflow, subflow) {
            *bytes = bytes.saturating_add(fresh);
        }
        self.advance(now, subflow);
    }

    /// Takes a data acknowledgement: bytes before `until` have been delivered. Where the capture has missed some of
    /// them, the delivery continues a second later; the arrival of others is only not captured yet.
    pub(crate) fn settle(&mut self, now: Time, until: u64) {
        let first = self.early.first_key_value().map(|(at, _)| *at);
        let Some((prefix, first)) =
            self.prefix.zip(first).filter(|(prefix, first)| prefix < first && *first <= until)
        else {
            self.missing = None;
            return;
        };
        match self.missing {
            Some((at, since)) if at == prefix => {
                if now.since(since) > Duration::from_secs(1) {
                    self.missing = None;
                    self.delivered = self.delivered.saturating_add(first - prefix);
                    self.prefix = Some(first);
                    self.advance(now, usize::MAX);
                }
            }
            _ => self.missing = Some((prefix, now)),
        }
    }

    fn insert(&mut self, start: u64, end: u64, now: Time) {
        self.early_bytes = self.early_bytes.saturating_add(end - start);
        // Ranges that arrive at once one after the other are one.
        if let Some((_, last)) = self.early.range_mut(..start).next_back()
            && last.end == start
            && now.since(last.time) < Duration::from_micros(500)
        {
            last.end = end;
            return;
        }
        self.early.insert(start, Early { end, time: now });
    }

    /// Delivers what is in order.
    fn advance(&mut self, now: Time, subflow: usize) {
        let Some(mut prefix) = self.prefix else { return };
        let before = prefix;
        while let Some(entry) = self.early.first_entry().filter(|entry| *entry.key() <= prefix) {
            let early = entry.remove();
            let bytes = early.end.saturating_sub(prefix);
            self.waited_byte_s += now.since(early.time).as_secs_f64() * bytes as f64;
            self.early_bytes = self.early_bytes.saturating_sub(bytes);
            prefix = prefix.max(early.end);
        }
        self.prefix = Some(prefix);
        self.most_early_bytes = self.most_early_bytes.max(self.early_bytes);
        if prefix > before {
            self.delivered = self.delivered.saturating_add(prefix - before);
            if let Some(last) = self.last_advance
                && now.since(last) > self.longest_gap
            {
                self.longest_gap = now.since(last);
                self.longest_gap_at = Some(last);
            }
            self.first_advance = self.first_advance.or(Some(now));
            self.last_advance = Some(now);
            if let Some(since) = self.blocked_since.take() {
                let waited = now.since(since);
                self.blocked += waited;
                if subflow != usize::MAX
                    && let Some(sum) = grow(&mut self.blocked_by, subflow)
                {
                    *sum += waited;
                }
            }
        }
        if self.early.is_empty() {
            self.blocked_since = None;
        } else if self.blocked_since.is_none() {
            self.blocked_since = Some(now);
            self.holes += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_wait_for_the_hole_before_them() {
        let mut delivery = Delivery::default();
        let at = Time::from_millis;
        let range = |start, end| Arrived { start, end };
        delivery.begin(0);
        delivery.on_arrival(at(0), range(0, 100), 0, |_| {});
        delivery.on_arrival(at(10), range(200, 300), 0, |_| {});
        delivery.on_arrival(at(20), range(300, 400), 0, |_| {});
        assert!(delivery.is_blocked());
        delivery.on_arrival(at(60), range(100, 200), 1, |_| {});
        assert_eq!((delivery.prefix, delivery.delivered), (Some(400), 400));
        assert_eq!(delivery.longest_gap, Duration::from_millis(60));
        assert_eq!(delivery.blocked, Duration::from_millis(50));
        assert_eq!(delivery.blocked_by, [Duration::ZERO, Duration::from_millis(50)]);
        assert!((delivery.waited_byte_s - (0.05 * 100.0 + 0.04 * 100.0)).abs() < 1e-9);
        assert_eq!(delivery.by_subflow, [300, 100]);
        delivery.on_arrival(at(70), range(150, 450), 1, |_| {});
        assert_eq!((delivery.duplicate_bytes, delivery.delivered), (250, 450));
    }

    #[test]
    fn data_that_the_capture_has_missed_is_delivered_a_second_after_its_acknowledgement() {
        let mut delivery = Delivery::default();
        let at = Time::from_millis;
        let range = |start, end| Arrived { start, end };
        delivery.begin(0);
        delivery.on_arrival(at(0), range(0, 100), 0, |_| {});
        delivery.on_arrival(at(10), range(200, 300), 0, |_| {});
        // 100 to 200 may still come, on another interface.
        delivery.settle(at(20), 300);
        delivery.settle(at(1020), 300);
        assert_eq!((delivery.prefix, delivery.is_blocked()), (Some(100), true));
        delivery.settle(at(1021), 300);
        assert_eq!((delivery.prefix, delivery.delivered, delivery.is_blocked()), (Some(300), 300, false));
        // No subflow has ended the wait.
        assert_eq!((delivery.blocked, &delivery.blocked_by[..]), (Duration::from_millis(1011), &[][..]));
        // An acknowledgement before the hole says nothing about it.
        delivery.on_arrival(at(1030), range(400, 500), 0, |_| {});
        delivery.settle(at(1040), 300);
        delivery.settle(at(3000), 300);
        assert_eq!(delivery.prefix, Some(300));
    }
}
