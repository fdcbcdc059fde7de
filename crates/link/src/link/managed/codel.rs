//! Controlled delay: drops packets at the head of the queue while even the shortest time in it stays above a target.
//!
//! Source: RFC 8289 section 5, with ECN as in its deployed implementations: a packet that would be dropped is marked
//! instead, and sent.
//!
//! Reading: the largest packet is the link's MTU, or 1500 bytes if it has none. The backlog that is compared with it
//! does not include the packet just taken, nor the one before it: its last bit has departed.

use std::collections::VecDeque;

use anabranch_units::{Duration, Time};

use super::Waiting;
use crate::Codel;

/// The state of one queue (RFC 8289 section 5.2).
#[derive(Clone, Debug, Default)]
pub(crate) struct CodelState {
    /// The time from which on a packet may be dropped; none while the time in the queue is below the target.
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    dropping: bool,
}

/// A packet taken from a queue.
#[derive(Clone, Debug)]
pub(crate) struct Taken<P> {
    pub(crate) waiting: Waiting<P>,
    pub(crate) marked: bool,
}

/// The packets of one queue, and the bytes of all queues of the link.
pub(crate) struct Backlog<'a, P> {
    pub(crate) queue: &'a mut VecDeque<Waiting<P>>,
    pub(crate) bytes: &'a mut u64,
    pub(crate) dropped: &'a mut Vec<Waiting<P>>,
}

impl<P> Backlog<'_, P> {
    fn take(&mut self) -> Option<Waiting<P>> {
        let waiting = self.queue.pop_front()?;
        *self.bytes -= u64::from(waiting.wire_bytes);
        Some(waiting)
    }
}

/// Returns the time of the next drop after `count` of them: the spacing falls with the square root (section 5.6).
fn control_law(interval: Duration, after: Time, count: u32) -> Time {
    let spacing = interval.0 as f64 / libm::sqrt(f64::from(count.max(1)));
    after + Duration(spacing as u64)
}

impl CodelState {
    /// Takes a packet and says whether it may be dropped (`dodequeue`).
    fn take<P>(
        &mut self,
        now: Time,
        settings: &Codel,
        mtu: u32,
        backlog: &mut Backlog<'_, P>,
    ) -> Option<(Waiting<P>, bool)> {
        let Some(waiting) = backlog.take() else {
            self.first_above = None;
            return None;
        };
        let sojourn = now.since(waiting.at);
        if sojourn < settings.target || *backlog.bytes <= u64::from(mtu) {
            self.first_above = None;
            return Some((waiting, false));
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + settings.interval);
                Some((waiting, false))
            }
            Some(at) => Some((waiting, now >= at)),
        }
    }

    /// Returns the next packet to send at `now`; adds those dropped before it to the backlog's list.
    pub(crate) fn dequeue<P>(
        &mut self,
        now: Time,
        settings: &Codel,
        mtu: u32,
        backlog: &mut Backlog<'_, P>,
    ) -> Option<Taken<P>> {
        let (mut waiting, mut ok_to_drop) = self.take(now, settings, mtu, backlog).or_else(|| {
            self.dropping = false;
            None
        })?;
        let interval = settings.interval;
        let mut marked = false;
        if self.dropping {
            self.dropping = ok_to_drop;
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                if settings.ecn && waiting.ect {
                    marked = true;
                    self.drop_next = control_law(interval, self.drop_next, self.count);
                    break;
                }
                backlog.dropped.push(waiting);
                let next = self.take(now, settings, mtu, backlog);
                self.dropping = next.as_ref().is_some_and(|(_, ok)| *ok);
                (waiting, ok_to_drop) = next?;
                if ok_to_drop {
                    self.drop_next = control_law(interval, self.drop_next, self.count);
                }
            }
        } else if ok_to_drop {
            let next = if settings.ecn && waiting.ect {
                marked = true;
                Some(waiting)
            } else {
                backlog.dropped.push(waiting);
                self.take(now, settings, mtu, backlog).map(|(next, _)| next)
            };
            self.dropping = true;
            // A queue that was controlled recently starts with the drop rate that controlled it.
            let delta = self.count.wrapping_sub(self.last_count);
            let recently = now.since(self.drop_next) < interval * 16;
            self.count = if delta > 1 && recently { delta } else { 1 };
            self.drop_next = control_law(interval, now, self.count);
            self.last_count = self.count;
            waiting = next?;
        }
        Some(Taken { waiting, marked })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::slot::Extra;

    const SETTINGS: Codel =
        Codel { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: true };

    /// A queue that is never short: every packet has waited 50 ms. Dequeues every `step`; returns the times of drops and
    /// marks.
    fn signals(ect: bool, step: Duration, until: Time) -> Vec<Time> {
        let mut state = CodelState::default();
        let (mut queue, mut dropped, mut signals) = (VecDeque::new(), Vec::new(), Vec::new());
        let mut now = Time::from_millis(50);
        while now < until {
            while queue.len() < 50 {
                queue.push_back(waiting(now, ect));
            }
            queue.iter_mut().for_each(|waiting: &mut Waiting<u32>| waiting.at = Time(now.0 - 50_000_000));
            let mut bytes = queue.len() as u64 * 1500;
            let mut backlog = Backlog { queue: &mut queue, bytes: &mut bytes, dropped: &mut dropped };
            let taken = state.dequeue(now, &SETTINGS, 1500, &mut backlog).unwrap();
            signals.extend(dropped.drain(..).map(|_| now));
            signals.extend(taken.marked.then_some(now));
            now += step;
        }
        signals
    }

    fn waiting(at: Time, ect: bool) -> Waiting<u32> {
        Waiting { at, wire_bytes: 1500, ect, flow: 0, marked: false, extra: Extra::NOTHING, packet: Some(1) }
    }

    /// The first signal one interval after the first packet above the target, and then n signals by the time
    /// interval * (1 + 1/sqrt(1) + ... + 1/sqrt(n)): the control law of section 5.6.
    #[test]
    fn signals_are_spaced_by_the_inverse_square_root() {
        for ect in [false, true] {
            let step = Duration::from_micros(10);
            let all = signals(ect, step, Time::from_secs(4));
            let mut due = Time::from_millis(150);
            assert!(all.len() > 300, "{}", all.len());
            for (n, at) in (1_u32..).zip(&all) {
                // Dequeues are 10 us apart.
                assert!(*at >= due && *at <= due + step, "signal {n} at {at} and not {due}");
                due += Duration((100e6 / f64::from(n).sqrt()) as u64);
            }
        }
    }

    #[test]
    fn a_short_delay_or_a_single_packet_ends_the_dropping() {
        let mut state = CodelState { first_above: Some(Time(1)), dropping: true, ..CodelState::default() };
        let mut dropped = Vec::new();
        // One packet that has waited very long: the link would be idle without it.
        let mut queue = VecDeque::from([waiting(Time::ZERO, false)]);
        let mut bytes = 1500;
        let mut backlog = Backlog { queue: &mut queue, bytes: &mut bytes, dropped: &mut dropped };
        let now = Time::from_secs(1);
        assert!(state.dequeue(now, &SETTINGS, 1500, &mut backlog).is_some());
        assert!(!state.dropping && state.first_above.is_none() && dropped.is_empty());
        // Many packets that have waited less than the target.
        state = CodelState { first_above: Some(Time(1)), dropping: true, ..CodelState::default() };
        let mut queue: VecDeque<_> = (0..50).map(|_| waiting(Time(now.0 - 4_999_999), false)).collect();
        let mut bytes = 75_000;
        let mut backlog = Backlog { queue: &mut queue, bytes: &mut bytes, dropped: &mut dropped };
        assert!(state.dequeue(now, &SETTINGS, 1500, &mut backlog).is_some());
        assert!(!state.dropping && dropped.is_empty());
    }

    #[test]
    fn a_queue_that_was_controlled_recently_resumes_its_drop_rate() {
        for (pause, expected) in [(Duration::from_millis(300), 7), (Duration::from_secs(2), 1)] {
            let drop_next = Time::from_secs(1);
            let mut state = CodelState { count: 9, last_count: 2, drop_next, ..CodelState::default() };
            let now = drop_next + pause;
            state.first_above = Some(now);
            let mut queue: VecDeque<_> = (0..50).map(|_| waiting(Time::ZERO, false)).collect();
            let (mut bytes, mut dropped) = (75_000, Vec::new());
            let mut backlog = Backlog { queue: &mut queue, bytes: &mut bytes, dropped: &mut dropped };
            state.dequeue(now, &SETTINGS, 1500, &mut backlog);
            assert_eq!((state.count, dropped.len()), (expected, 1));
        }
    }
}
