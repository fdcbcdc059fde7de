//! The bursts of a stream: the data that an application sends without a pause.
//!
//! At the sender a burst begins when nothing is in flight. At the receiver it begins when everything in order has been delivered,
//! and either the other host has sent data of its own since, or a longer time has passed than a sender waits for acknowledgements.

use anabranch_units::{Duration, Time};

/// The bursts of a stream that are remembered.
const MOST: usize = 512;
/// The least pause between two bursts, unless the other host has sent something between them.
const LEAST: Duration = Duration::from_millis(10);

/// Data without a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Burst {
    /// The first packet, and the last one with new data.
    pub begun: Time,
    pub last: Time,
    /// The time at which all of it was acknowledged, or at the receiver delivered.
    pub done: Time,
    pub bytes: u64,
    /// Its bytes by time, in intervals of `width`.
    profile: [u32; PARTS],
    width: Duration,
}

/// The intervals of a profile, and the shortest one.
const PARTS: usize = 16;
const WIDTH: Duration = Duration::from_millis(1);

impl Burst {
    pub(crate) fn new(begun: Time, bytes: u64) -> Burst {
        let mut new = Burst { begun, last: begun, done: begun, bytes: 0, profile: [0; PARTS], width: WIDTH };
        new.add(begun, bytes);
        new
    }

    /// Takes more data.
    pub(crate) fn add(&mut self, now: Time, bytes: u64) {
        (self.last, self.done) = (now, now);
        self.bytes += bytes;
        let mut at = now.since(self.begun).0 / self.width.0;
        while at >= PARTS as u64 {
            for part in 0..PARTS {
                let two = self.profile.get(2 * part..2 * part + 2).unwrap_or_default();
                self.profile[part] = two.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes));
            }
            self.width = Duration(self.width.0.saturating_mul(2));
            at = now.since(self.begun).0 / self.width.0;
        }
        let part = &mut self.profile[at as usize];
        *part = part.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// True if its data was sent at one rate from its begin to its end.
    pub(crate) fn is_even(&self) -> bool {
        let full = self.last.since(self.begun).0 / self.width.0;
        let parts = self.profile.get(..full as usize).unwrap_or_default();
        let mean = parts.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / parts.len().max(1) as f64;
        let is_near = |bytes: &u32| (0.5 * mean..=1.6 * mean).contains(&f64::from(*bytes));
        parts.len() >= 4 && parts.iter().all(is_near)
    }
}

/// A packet with new data of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub now: Time,
    pub bytes: u64,
    /// True if nothing was in flight, or at the receiver nothing was missing.
    pub is_idle: bool,
    pub at_sender: bool,
    /// The round trip of the connection.
    pub rtt: Duration,
    /// The begin of the last burst of the other host.
    pub other: Option<Time>,
}

#[derive(Debug, Default)]
pub(crate) struct Bursts {
    pub list: Vec<Burst>,
    /// True if there are more bursts than the list has.
    pub is_full: bool,
}

impl Bursts {
    /// Takes new data.
    pub(crate) fn on_data(&mut self, sent: &Sent) {
        let Sent { now, bytes, is_idle, at_sender, rtt, other } = *sent;
        if self.is_full {
            return;
        }
        if let Some(last) = self.list.last_mut() {
            let answered = other.is_some_and(|other| {
                other >= last.last && (at_sender || now.since(other).0 >= rtt.0 / 10 * 8)
            });
            let pause = match at_sender {
                true => now.since(last.done),
                // A window is empty for a round trip until its acknowledgements have arrived.
                false => Duration(now.since(last.last).0.saturating_sub(rtt.0 + rtt.0 / 4)),
            };
            if !(is_idle && (answered || pause >= LEAST)) {
                last.add(now, bytes);
                return;
            }
        }
        if self.list.len() >= MOST {
            self.is_full = true;
        } else {
            self.list.push(Burst::new(now, bytes));
        }
    }

    /// Everything that was sent is acknowledged, or at the receiver delivered, since `now`.
    pub(crate) fn on_done(&mut self, now: Time) {
        if let Some(last) = self.list.last_mut().filter(|_| !self.is_full) {
            last.done = last.done.max(now);
        }
    }

    /// Returns the begin of the last burst.
    pub(crate) fn last_begin(&self) -> Option<Time> {
        self.list.last().map(|last| last.begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    fn sent(millis: u64, is_idle: bool, at_sender: bool) -> Sent {
        Sent { now: Time::from_millis(millis), bytes: 1000, is_idle, at_sender, rtt: RTT, other: None }
    }

    fn found(bursts: &Bursts) -> Vec<(u64, u64, u64)> {
        let millis = |time: Time| time.0 / 1_000_000;
        bursts.list.iter().map(|one| (millis(one.begun), millis(one.done), one.bytes)).collect()
    }

    #[test]
    fn a_burst_at_the_sender_begins_when_nothing_was_in_flight() {
        let mut bursts = Bursts::default();
        bursts.on_data(&sent(0, true, true));
        bursts.on_data(&sent(5, false, true));
        bursts.on_done(Time::from_millis(45));
        // A program writes again at once.
        bursts.on_data(&sent(50, true, true));
        bursts.on_done(Time::from_millis(90));
        bursts.on_data(&sent(200, true, true));
        assert_eq!(found(&bursts), [(0, 90, 3000), (200, 200, 1000)]);
        // The other host has answered.
        bursts.on_done(Time::from_millis(240));
        bursts.on_data(&Sent { other: Some(Time::from_millis(240)), ..sent(241, true, true) });
        assert_eq!(found(&bursts)[1..], [(200, 240, 1000), (241, 241, 1000)]);
    }

    #[test]
    fn a_burst_at_the_receiver_begins_after_more_than_a_round_trip() {
        let mut bursts = Bursts::default();
        bursts.on_data(&sent(0, true, false));
        // The window was empty for a round trip.
        bursts.on_data(&sent(42, true, false));
        // A segment is missing.
        bursts.on_data(&sent(400, false, false));
        bursts.on_data(&sent(470, true, false));
        // A request that was sent too late to be the reason.
        bursts.on_data(&Sent { other: Some(Time::from_millis(475)), ..sent(480, true, false) });
        bursts.on_data(&Sent { other: Some(Time::from_millis(481)), ..sent(521, true, false) });
        assert_eq!(found(&bursts), [(0, 400, 3000), (470, 480, 2000), (521, 521, 1000)]);
    }

    #[test]
    fn a_burst_is_even_if_its_rate_does_not_change() {
        let at = Time::from_millis;
        let mut even = Burst::new(at(7), 1400);
        (1..100).for_each(|n| even.add(at(7 + 6 * n), 1400));
        assert!(even.is_even() && even.bytes == 140_000, "{even:?}");
        // Slow start.
        let mut growing = Burst::new(at(7), 14_000);
        (1..6).for_each(|round| growing.add(at(7 + 30 * round), 14_000 << round));
        assert!(!growing.is_even(), "{growing:?}");
        let short = Burst::new(at(7), 1400);
        assert!(!short.is_even());
        // A hostile capture has any time.
        growing.add(Time(u64::MAX), u64::from(u32::MAX));
    }

    #[test]
    fn the_list_is_bounded() {
        let mut bursts = Bursts::default();
        (0..1000).for_each(|n| bursts.on_data(&sent(200 * n, true, true)));
        assert_eq!((bursts.list.len(), bursts.is_full), (MOST, true));
    }
}
