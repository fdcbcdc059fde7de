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
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Burst {
    /// The first packet, and the last one with new data.
    pub begun: Time,
    pub last: Time,
    /// The time at which all of it was acknowledged, or at the receiver delivered.
    pub done: Time,
    pub bytes: u64,
    /// The bytes that the application wrote at its begin: its first packet, or more if it was sent evenly.
    pub first_bytes: u64,
    /// The rate in bit/s at which the application wrote it, if it was sent evenly from its begin to its end.
    pub even_bps: Option<f64>,
}

impl Burst {
    /// Returns the time after its begin at which an application with the rate `bps` wrote its last byte.
    pub(crate) fn written_after(&self, bps: f64) -> f64 {
        self.bytes.saturating_sub(self.first_bytes) as f64 * 8.0 / bps
    }

    fn set_course(&mut self, profile: &Profile) {
        if let Some((rate, more)) = profile.even_rate(self.last.since(self.begun)) {
            self.first_bytes += more;
            self.even_bps = Some(rate);
        }
    }
}

/// The intervals of a profile, and the shortest one.
const PARTS: usize = 16;
const WIDTH: Duration = Duration::from_millis(1);

/// The course of a burst, in intervals of `width`.
#[derive(Clone, Copy, Debug)]
struct Profile {
    /// The last packet of each interval: its time after the begin, and the bytes up to it without the first packet.
    points: [Option<(Duration, u64)>; PARTS],
    width: Duration,
}

impl Default for Profile {
    fn default() -> Profile {
        Profile { points: [None; PARTS], width: WIDTH }
    }
}

impl Profile {
    /// Takes a packet that is sent `after` the begin; `bytes` were sent since the first packet, with this one.
    fn add(&mut self, after: Duration, bytes: u64) {
        while after.0 / self.width.0 >= PARTS as u64 {
            for part in 0..PARTS {
                let later = self.points.get(2 * part + 1).copied().flatten();
                self.points[part] = later.or(self.points.get(2 * part).copied().flatten());
            }
            self.width = Duration(self.width.0.saturating_mul(2));
        }
        self.points[(after.0 / self.width.0) as usize] = Some((after, bytes));
    }

    /// Returns the rate of data that was sent at one rate from its begin to its end, which is `after` the begin: the median slope between
    /// the points of both halves. A host may hold back a short packet until its data in flight is acknowledged (RFC 1122, section 4.2.3.4), so
    /// that packets, and most of all the last ones, are sent later than they were written; slopes hardly depend on that. Returns also the
    /// bytes beyond the first packet that were written at the begin: most that a point has beyond the rate.
    fn even_rate(&self, after: Duration) -> Option<(f64, u64)> {
        let full = (after.0 / self.width.0) as usize;
        let parts = self.points.get(..full.checked_sub(1)?).filter(|parts| parts.len() >= 4)?;
        let mut before = 0;
        let bytes = parts.iter().map(|point| {
            let sent = point.map_or(0, |(_, bytes)| bytes.saturating_sub(before));
            before += sent;
            sent as f64
        });
        let bytes: Vec<f64> = bytes.collect();
        let mean = bytes.iter().sum::<f64>() / bytes.len() as f64;
        if !bytes.iter().all(|bytes| (0.5 * mean..=1.6 * mean).contains(bytes)) {
            return None;
        }
        let (early, late) = parts.split_at(parts.len() / 2);
        let slope = |a: (Duration, u64), b: (Duration, u64)| {
            b.1.saturating_sub(a.1) as f64 * 8.0 / b.0.saturating_sub(a.0).as_secs_f64()
        };
        let pairs = early.iter().flatten().flat_map(|a| late.iter().flatten().map(move |b| (*a, *b)));
        let mut slopes: Vec<f64> =
            pairs.map(|(a, b)| slope(a, b)).filter(|slope| slope.is_finite()).collect();
        slopes.sort_by(f64::total_cmp);
        let rate = slopes.get(slopes.len() / 2).copied().filter(|slope| *slope > 0.0)?;
        let beyond = |(after, bytes): &(Duration, u64)| *bytes as f64 - rate / 8.0 * after.as_secs_f64();
        let most = parts.iter().flatten().map(beyond).fold(0.0, f64::max);
        Some((rate, most as u64))
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
    list: Vec<Burst>,
    /// The profile of the last one.
    profile: Profile,
    /// True if there are more bursts than the list has.
    pub is_full: bool,
}

impl Bursts {
    /// Takes new data. Returns true if it begins a burst; if no other may begin, the list is full.
    pub(crate) fn on_data(&mut self, sent: &Sent, may_begin: bool) -> bool {
        let Sent { now, bytes, is_idle, at_sender, rtt, other } = *sent;
        if self.is_full {
            return false;
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
                (last.last, last.done) = (now, now);
                last.bytes += bytes;
                self.profile.add(now.since(last.begun), last.bytes - last.first_bytes);
                return false;
            }
        }
        self.close();
        if self.list.len() >= MOST || !may_begin {
            self.is_full = true;
            return false;
        }
        self.list.push(Burst { begun: now, last: now, done: now, bytes, first_bytes: bytes, even_bps: None });
        self.profile.add(Duration::ZERO, 0);
        true
    }

    /// Takes the profile of the last burst.
    fn close(&mut self) {
        let profile = core::mem::take(&mut self.profile);
        if let Some(last) = self.list.last_mut() {
            last.set_course(&profile);
        }
    }

    /// Returns the bursts.
    pub(crate) fn list(&self) -> Vec<Burst> {
        let mut list = self.list.clone();
        if let Some(last) = list.last_mut().filter(|_| !self.is_full) {
            last.set_course(&self.profile);
        }
        list
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
        bursts.on_data(&sent(0, true, true), true);
        bursts.on_data(&sent(5, false, true), true);
        bursts.on_done(Time::from_millis(45));
        // A program writes again at once.
        bursts.on_data(&sent(50, true, true), true);
        bursts.on_done(Time::from_millis(90));
        bursts.on_data(&sent(200, true, true), true);
        assert_eq!(found(&bursts), [(0, 90, 3000), (200, 200, 1000)]);
        // The other host has answered.
        bursts.on_done(Time::from_millis(240));
        bursts.on_data(&Sent { other: Some(Time::from_millis(240)), ..sent(241, true, true) }, true);
        assert_eq!(found(&bursts)[1..], [(200, 240, 1000), (241, 241, 1000)]);
    }

    #[test]
    fn a_burst_at_the_receiver_begins_after_more_than_a_round_trip() {
        let mut bursts = Bursts::default();
        bursts.on_data(&sent(0, true, false), true);
        // The window was empty for a round trip.
        bursts.on_data(&sent(42, true, false), true);
        // A segment is missing.
        bursts.on_data(&sent(400, false, false), true);
        bursts.on_data(&sent(470, true, false), true);
        // A request that was sent too late to be the reason.
        bursts.on_data(&Sent { other: Some(Time::from_millis(475)), ..sent(480, true, false) }, true);
        bursts.on_data(&Sent { other: Some(Time::from_millis(481)), ..sent(521, true, false) }, true);
        assert_eq!(found(&bursts), [(0, 400, 3000), (470, 480, 2000), (521, 521, 1000)]);
    }

    /// Returns the only burst of packets with these times in milliseconds and sizes.
    fn burst(packets: impl IntoIterator<Item = (u64, u64)>) -> Burst {
        let mut bursts = Bursts::default();
        for (millis, bytes) in packets {
            bursts.on_data(&Sent { bytes, ..sent(millis, false, true) }, true);
        }
        let list = bursts.list();
        assert_eq!(list.len(), 1);
        list[0]
    }

    #[test]
    fn a_burst_is_even_if_its_rate_does_not_change() {
        let even = burst((0..100).map(|n| (7 + 6 * n, 1400)));
        let rate = even.even_bps.unwrap();
        assert!((rate - 1400.0 * 8.0 / 0.006).abs() < 1.0, "{rate}");
        // Slow start.
        assert_eq!(burst((0..6).map(|round| (7 + 30 * round, 14_000 << round))).even_bps, None);
        assert_eq!(burst([(7, 1400)]).even_bps, None);
    }

    #[test]
    fn data_that_was_held_back_at_the_end_makes_no_slower_application() {
        // A block each 6 ms; the host sends two of three in time, and the last three 60 ms late.
        let sent =
            (0..97).filter(|n| n % 3 != 2).map(|n| (6 * n, if n % 3 == 0 && n > 0 { 2800 } else { 1400 }));
        let found = burst(sent.chain([(99 * 6 + 60, 3 * 1400)]));
        let rate = found.even_bps.unwrap();
        assert!((rate - 1400.0 * 8.0 / 0.006).abs() < 0.01 * rate, "{rate}");
        let written = found.written_after(rate);
        assert!((written - 99.0 * 0.006).abs() < 0.006, "{written}");
        // An application that has written five blocks before the first one can be sent.
        let sent = [(0, 1400); 5].into_iter().chain((1..100).map(|n| (6 * n, 1400)));
        let found = burst(sent);
        assert!(found.first_bytes.abs_diff(5 * 1400) < 700, "{found:?}");
    }

    #[test]
    fn times_of_hostile_captures_do_no_harm() {
        let mut bursts = Bursts::default();
        for millis in [7, u64::MAX / 1_000_000, 0, 5] {
            let bytes = 1 << 47;
            bursts.on_data(&Sent { bytes, ..sent(millis, false, true) }, true);
            bursts.on_done(Time(u64::MAX));
        }
        bursts.on_data(&sent(9, false, true), true);
        assert_eq!(bursts.list().len(), 1);
    }

    #[test]
    fn no_burst_begins_once_all_connections_have_too_many() {
        let mut bursts = Bursts::default();
        assert!(bursts.on_data(&sent(0, true, true), true));
        assert!(!bursts.on_data(&sent(200, true, true), false));
        assert_eq!((bursts.list().len(), bursts.is_full), (1, true));
    }

    #[test]
    fn the_list_is_bounded() {
        let mut bursts = Bursts::default();
        for n in 0..1000 {
            bursts.on_data(&sent(200 * n, true, true), true);
        }
        assert_eq!((bursts.list.len(), bursts.is_full), (MOST, true));
    }
}
