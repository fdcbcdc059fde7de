//! Times in which a path delivers nothing although its sender tries.
//!
//! At the sender, packets with data remain without any answer from the other host. At the receiver, no data arrives for a
//! time, and then data that the sender must have tried to deliver meanwhile. Both are only noted here; the report judges them.

use anabranch_units::{Duration, Time};

/// The least silence.
pub(crate) const LEAST: Duration = Duration::from_secs(1);
/// The most silences of a direction that are remembered.
const MOST: usize = 64;
/// The transmissions that are remembered, to know the last one before the path was back.
const TRIES: usize = 8;

/// A time without an answer, at the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered {
    /// The last packet of the other host before it, and the first one after it.
    pub heard: Time,
    pub ended: Option<Time>,
    /// The oldest packet in flight at that time, or else the first packet that was sent then; and the round trip of the last answer.
    pub oldest: Time,
    pub rtt: Duration,
    /// The first packets that were sent after the last answer; the last one again if there are fewer.
    pub first: [Time; TRIES],
    /// The last two packets that were sent in vain, and the one that was answered.
    pub failed: [Time; 2],
    pub answered: Time,
    /// Packets that were sent in vain: those in flight at the last answer, and those after it.
    pub in_flight: u64,
    pub tries: u64,
}

/// The transmissions of a sender since it has last heard of the other host.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    heard: Option<Time>,
    oldest: Option<Time>,
    first: [Time; TRIES],
    in_flight: u64,
    count: u64,
    last: [Time; TRIES],
    /// Round trips of packets sent before it include a silence.
    pub trusted: Time,
    pub found: Vec<Unanswered>,
}

impl Tries {
    /// Takes a packet with data, while `in_flight` packets before it are not acknowledged, and the oldest of them was sent at `oldest`.
    pub(crate) fn on_sent(&mut self, now: Time, in_flight: u64, oldest: Option<Time>) {
        if self.count == 0 {
            (self.oldest, self.in_flight) = (Some(oldest.unwrap_or(now)), in_flight);
        }
        let at = (self.count as usize).min(TRIES);
        self.first[at..].fill(now);
        self.last[(self.count % TRIES as u64) as usize] = now;
        self.count += 1;
    }

    /// Takes any packet of the other host; `rtt` is the least round trip, and `last` the last one.
    pub(crate) fn on_heard(&mut self, now: Time, rtt: Duration, last: Duration) {
        self.end(Some(now), rtt, last);
        self.heard = Some(now);
        (self.oldest, self.count) = (None, 0);
    }

    /// Ends the silence at the end of the capture, if there is one.
    pub(crate) fn finish(&mut self, last: Duration) {
        self.end(None, Duration::ZERO, last);
        (self.oldest, self.count) = (None, 0);
    }

    fn end(&mut self, ended: Option<Time>, rtt: Duration, last_rtt: Duration) {
        let (Some(heard), Some(oldest)) = (self.heard, self.oldest) else { return };
        let first = self.first[0];
        let newest = (0..TRIES.min(self.count as usize) as u64)
            .map(|back| self.last[((self.count - 1 - back) % TRIES as u64) as usize]);
        // The answer comes a round trip after its packet at the earliest.
        let latest = ended.map_or(Time(u64::MAX), |ended| Time(ended.0.saturating_sub(rtt.0 / 10 * 9)));
        let mut before = newest.skip_while(|sent| *sent > latest);
        let last = before.next().unwrap_or(first);
        let (failed, answered) = match ended {
            Some(_) => {
                let failed = before.next().unwrap_or(heard.max(first).min(last));
                ([failed, before.next().unwrap_or(heard.max(first).min(failed))], last)
            }
            None => ([last; 2], last),
        };
        let silent = ended.unwrap_or(last).since(heard.max(first));
        if silent < LEAST {
            return;
        }
        self.trusted = answered;
        if self.found.len() < MOST {
            let (in_flight, tries, first, rtt) = (self.in_flight, self.count, self.first, last_rtt);
            self.found.push(Unanswered {
                heard,
                ended,
                oldest,
                rtt,
                first,
                failed,
                answered,
                in_flight,
                tries,
            });
        }
    }
}

/// A time without data, at the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    /// The last data before it, and the first data after it.
    pub begun: Time,
    pub ended: Time,
    /// True if that data had arrived before: the sender did not know it.
    pub repeats: bool,
    /// True if that was a packet of full length.
    pub is_full: bool,
    /// From it to the next packet with data.
    pub next: Option<Duration>,
}

/// The arrivals of data.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    last: Option<Time>,
    pub found: Vec<Pause>,
}

impl Arrivals {
    /// Takes a packet with data.
    pub(crate) fn on_arrival(&mut self, now: Time, is_full: bool, repeats: bool) {
        let Some(last) = self.last.replace(now) else { return };
        if let Some(pause) = self.found.last_mut().filter(|pause| pause.ended == last && pause.next.is_none())
        {
            pause.next = Some(now.since(last));
        }
        if now.since(last) >= LEAST && self.found.len() < MOST {
            self.found.push(Pause { begun: last, ended: now, repeats, is_full, next: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    #[test]
    fn a_path_is_silent_while_the_sender_tries_and_hears_nothing() {
        let at = Time::from_millis;
        let mut tries = Tries::default();
        tries.on_heard(at(1000), RTT, RTT);
        // In time: 10 ms after the packets before.
        tries.on_sent(at(1005), 12, Some(at(950)));
        tries.on_heard(at(1010), RTT, RTT);
        for (millis, in_flight) in [(1015, 12), (1215, 13), (1615, 13), (2415, 13), (2470, 13)] {
            tries.on_sent(at(millis), in_flight, Some(at(960)));
        }
        tries.on_heard(at(2480), RTT, Duration::from_millis(55));
        let mut first = [at(2470); TRIES];
        first[..4].copy_from_slice(&[1015, 1215, 1615, 2415].map(at));
        let found = Unanswered {
            heard: at(1010),
            ended: Some(at(2480)),
            oldest: at(960),
            rtt: Duration::from_millis(55),
            first,
            failed: [at(1615), at(1215)],
            answered: at(2415),
            in_flight: 12,
            tries: 5,
        };
        assert_eq!(tries.found, [found]);
        // The application has sent nothing.
        tries.on_heard(at(9000), RTT, RTT);
        tries.on_sent(at(12_000), 0, None);
        tries.on_heard(at(12_050), RTT, RTT);
        // It never comes back.
        tries.on_sent(at(13_000), 0, None);
        tries.on_sent(at(14_500), 1, Some(at(13_000)));
        tries.finish(RTT);
        assert_eq!(tries.found.len(), 2);
        assert_eq!((tries.found[1].heard, tries.found[1].ended), (at(12_050), None));
        assert_eq!((tries.found[1].oldest, tries.found[1].failed[0]), (at(13_000), at(14_500)));
    }

    #[test]
    fn a_pause_knows_what_came_after_it() {
        let at = Time::from_millis;
        let mut arrivals = Arrivals::default();
        for (millis, repeats) in
            [(0, false), (10, false), (1009, true), (2009, true), (2059, false), (2060, false)]
        {
            arrivals.on_arrival(at(millis), true, repeats);
        }
        let next = Some(Duration::from_millis(50));
        let pause = Pause { begun: at(1009), ended: at(2009), repeats: true, is_full: true, next };
        assert_eq!(arrivals.found, [pause]);
    }
}
