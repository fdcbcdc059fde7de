//! Serves the packets of a queue, at a constant rate or at the opportunities of a trace.
//!
//! The departure of a packet is known when it is offered, because packets are served first in, first out, and
//! the future is known until the next step of the timeline.
//!
//! Work is counted in billionths of a bit, so that a rate in bit/s does `rate` units of work in a nanosecond.
//! Only the departure times are rounded, always up.

use core::num::NonZeroU64;
use std::sync::Arc;

use anabranch_units::{Duration, Rate, Time};

use crate::{Capacity, Trace};

/// Units of work in a byte.
const WORK_PER_BYTE: u64 = 8_000_000_000;

/// The work in one opportunity of a trace.
const WORK_PER_OPPORTUNITY: u64 = Trace::OPPORTUNITY_BYTES * WORK_PER_BYTE;

/// Returns the work in a packet; packets of more than 2.3 GB count as 2.3 GB.
#[inline]
pub(crate) fn work(wire_bytes: u32) -> u64 {
    u64::from(wire_bytes).saturating_mul(WORK_PER_BYTE)
}

/// The sending end of a link.
#[derive(Clone, Debug)]
pub(crate) enum Server {
    Rate(RateServer),
    Trace(TraceServer),
}

impl Server {
    /// Returns an idle server of this capacity that begins at `origin`.
    pub(crate) fn new(capacity: &Capacity, origin: Time) -> Server {
        match capacity {
            Capacity::Rate(rate) => Server::Rate(RateServer::new(*rate)),
            Capacity::Trace { trace, start } => {
                Server::Trace(TraceServer::new(trace.clone(), *start, origin))
            }
        }
    }

    /// True if it has a constant rate.
    pub(crate) fn is_rate(&self) -> bool {
        matches!(self, Server::Rate(_))
    }

    /// Adds a packet after all others, and returns the departure of its last bit. `idle` says that the last
    /// packet has departed by `now`.
    #[inline]
    pub(crate) fn serve(&mut self, now: Time, idle: bool, wire_bytes: u32) -> Time {
        match self {
            Server::Rate(server) => server.serve(now, idle, wire_bytes),
            Server::Trace(server) => server.serve(now, idle, work(wire_bytes)),
        }
    }

    /// Adds this amount of work, as [`serve`](Server::serve) does.
    pub(crate) fn serve_work(&mut self, now: Time, idle: bool, work: u64) -> Time {
        match self {
            Server::Rate(server) => server.serve_work(now, idle, work),
            Server::Trace(server) => server.serve(now, idle, work),
        }
    }

    /// Returns the work that remains after `now` until the last packet has departed, which must be later.
    pub(crate) fn backlog(&self, now: Time) -> u128 {
        match self {
            Server::Rate(server) => server.backlog(now),
            Server::Trace(server) => server.backlog(now),
        }
    }
}

/// A constant rate.
#[derive(Clone, Debug)]
pub(crate) struct RateServer {
    /// Bits per second, and so units of work per nanosecond. Never zero.
    rate: NonZeroU64,
    /// The last packet departs exactly `fraction / rate` nanoseconds after this time.
    whole: u64,
    fraction: u64,
    memo: Memo,
}

/// The last two sizes served, each with its time as nanoseconds and remainder: most packets of a link have one of two
/// sizes, and a division would dominate the cost.
#[derive(Clone, Debug, Default)]
struct Memo {
    sizes: [u32; 2],
    times: [(u64, u64); 2],
}

impl RateServer {
    fn new(rate: Rate) -> RateServer {
        let rate = NonZeroU64::new(rate.as_bps()).unwrap_or(NonZeroU64::MIN);
        RateServer { rate, whole: 0, fraction: 0, memo: Memo::default() }
    }

    #[inline]
    fn serve(&mut self, now: Time, idle: bool, wire_bytes: u32) -> Time {
        let (span, rest) = if self.memo.sizes[0] == wire_bytes {
            self.memo.times[0]
        } else if self.memo.sizes[1] == wire_bytes {
            self.memo.times[1]
        } else {
            self.divide(wire_bytes)
        };
        self.append(now, idle, span, rest)
    }

    #[inline(never)]
    fn divide(&mut self, wire_bytes: u32) -> (u64, u64) {
        let work = work(wire_bytes);
        let time = (work / self.rate, work % self.rate);
        self.memo = Memo { sizes: [wire_bytes, self.memo.sizes[0]], times: [time, self.memo.times[0]] };
        time
    }

    fn serve_work(&mut self, now: Time, idle: bool, work: u64) -> Time {
        self.append(now, idle, work / self.rate, work % self.rate)
    }

    #[inline]
    fn append(&mut self, now: Time, idle: bool, span: u64, rest: u64) -> Time {
        if idle {
            (self.whole, self.fraction) = (now.0, 0);
        }
        self.whole = self.whole.saturating_add(span);
        self.fraction += rest;
        if self.fraction >= self.rate.get() {
            self.fraction -= self.rate.get();
            self.whole = self.whole.saturating_add(1);
        }
        Time(self.whole.saturating_add(u64::from(self.fraction > 0)))
    }

    fn backlog(&self, now: Time) -> u128 {
        u128::from(self.whole.saturating_sub(now.0)) * u128::from(self.rate.get()) + u128::from(self.fraction)
    }
}

/// The opportunities of a trace.
#[derive(Clone, Debug)]
pub(crate) struct TraceServer {
    trace: Arc<Trace>,
    /// The time of the position `start` of the trace.
    origin: Time,
    start: u64,
    /// The start of the cycle in which the last packet departs: a position in nanoseconds.
    cycle: u64,
    /// The opportunity of that cycle at which it departs, and the capacity left of that opportunity.
    index: usize,
    left: u64,
}

impl TraceServer {
    fn new(trace: Arc<Trace>, start: Duration, origin: Time) -> TraceServer {
        TraceServer { trace, origin, start: start.0, cycle: 0, index: 0, left: 0 }
    }

    fn position(&self, now: Time) -> u64 {
        now.since(self.origin).0.saturating_add(self.start)
    }

    #[inline(never)]
    fn serve(&mut self, now: Time, idle: bool, mut work: u64) -> Time {
        if idle {
            self.seek(self.position(now));
        }
        while work > self.left {
            work -= self.left;
            self.left = WORK_PER_OPPORTUNITY;
            self.index += 1;
            if self.index == self.trace.opportunities() {
                self.index = 0;
                self.cycle = self.cycle.saturating_add(self.trace.period_ns());
            }
        }
        self.left -= work;
        let position = self.cycle.saturating_add(self.trace.offset_ns(self.index));
        self.origin + Duration(position.saturating_sub(self.start))
    }

    /// Moves to the first opportunity after `position`. An opportunity at that very instant is not usable for
    /// a packet that arrives with it.
    fn seek(&mut self, position: u64) {
        let period = self.trace.period_ns();
        // Usually the last packet departed recently. But it may also have been dropped while it waited for a
        // later opportunity than the one to be found.
        match position.checked_sub(self.cycle) {
            Some(offset) if offset < period && self.trace.offset_ns(self.index) <= offset => {
                self.index = self.trace.first_after_from(self.index, offset);
            }
            _ => {
                self.index = self.trace.first_after(position % period);
                self.cycle = position - position % period;
            }
        }
        self.left = WORK_PER_OPPORTUNITY;
    }

    fn backlog(&self, now: Time) -> u128 {
        let cycles = self.cycle / self.trace.period_ns();
        let until_last = cycles * self.trace.opportunities() as u64 + self.index as u64 + 1;
        // While packets are queued no opportunity is unused, so all from now to the last packet's serve the
        // backlog, and only the last has capacity left.
        let opportunities = until_last.saturating_sub(self.trace.count_until(self.position(now)));
        (u128::from(opportunities) * u128::from(WORK_PER_OPPORTUNITY)).saturating_sub(u128::from(self.left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(bps: u64) -> Server {
        Server::new(&Capacity::Rate(Rate(bps)), Time::ZERO)
    }

    fn trace(at_ms: &[u32], start_ms: u64, origin: Time) -> Server {
        let trace = Arc::new(Trace::from_millis(at_ms.to_vec()).unwrap());
        Server::new(&Capacity::Trace { trace, start: Duration::from_millis(start_ms) }, origin)
    }

    fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    #[test]
    fn fractions_of_a_nanosecond_carry_over_to_the_next_packet() {
        // 1 byte at 3 Gbit/s takes 8/3 ns.
        let mut server = rate(3_000_000_000);
        let departures: Vec<u64> = (0..6).map(|i| server.serve(Time(0), i == 0, 1).0).collect();
        assert_eq!(departures, [3, 6, 8, 11, 14, 16]);
        // Starts at a whole nanosecond after an idle time.
        assert_eq!(server.serve(Time(20), true, 1).0, 23);
    }

    #[test]
    fn the_memo_of_sizes_does_not_mix_them_up() {
        let mut server = rate(8_000_000_000);
        let mut sum = 0;
        for (i, size) in [5, 5, 7, 5, 9, 7, 5, 0, 3].into_iter().enumerate() {
            sum += u64::from(size);
            assert_eq!(server.serve(Time(0), i == 0, size).0, sum);
        }
    }

    #[test]
    fn a_backlog_served_anew_departs_when_it_would_have() {
        let mut server = rate(3_000_000_000);
        server.serve(Time(0), true, 100);
        let last = server.serve(Time(0), false, 50);
        for now in [1, 2, 100, 399] {
            let backlog = server.backlog(Time(now)) as u64;
            assert_eq!(rate(3_000_000_000).serve_work(Time(now), true, backlog), last);
        }
        let mut server = trace(&[1, 1, 4, 6], 0, Time::ZERO);
        let last = server.serve(ms(3), true, 4000);
        assert_eq!(last, ms(7));
        for now in 3..7 {
            let backlog = server.backlog(ms(now)) as u64;
            assert_eq!(trace(&[1, 1, 4, 6], 0, Time::ZERO).serve_work(ms(now), true, backlog), last);
        }
    }

    #[test]
    fn an_opportunity_with_bytes_left_serves_the_next_one_waiting() {
        let mut server = trace(&[1, 2, 5], 0, Time::ZERO);
        assert_eq!(server.serve(ms(0), true, 1000), ms(1));
        assert_eq!(server.serve(ms(0), false, 400), ms(1));
        // 100 bytes of it at 1 ms, the rest at 2 ms.
        assert_eq!(server.serve(ms(0), false, 200), ms(2));
        assert_eq!(server.serve(ms(0), false, 1400), ms(2));
        assert_eq!(server.serve(ms(0), false, 1), ms(5));
    }

    #[test]
    fn what_was_left_of_an_opportunity_is_lost_when_nobody_waits() {
        let mut server = trace(&[1, 2, 5], 0, Time::ZERO);
        assert_eq!(server.serve(ms(0), true, 100), ms(1));
        assert_eq!(server.serve(ms(1), true, 100), ms(2));
        assert_eq!(server.serve(ms(2), true, 100), ms(5));
        // The trace starts over: 5 is also its 0.
        assert_eq!(server.serve(ms(5), true, 1501), ms(7));
    }

    #[test]
    fn equal_lines_are_several_opportunities_and_one_packet_may_need_several() {
        let mut server = trace(&[3, 3, 10], 0, Time::ZERO);
        assert_eq!(server.serve(ms(0), true, 1500), ms(3));
        assert_eq!(server.serve(ms(0), false, 1500), ms(3));
        assert_eq!(server.serve(ms(0), false, 3001), ms(13));
        assert_eq!(server.serve(ms(0), false, 1499), ms(13));
        assert_eq!(server.serve(ms(0), false, 1), ms(20));
    }

    #[test]
    fn a_trace_finds_back_from_a_packet_that_never_departed() {
        let mut server = trace(&[1, 2, 5], 0, Time::ZERO);
        for far in [ms(5), ms(20)] {
            while server.serve(ms(0), false, 1500) < far {}
            assert_eq!(server.serve(ms(0), true, 1500), ms(1));
        }
    }

    #[test]
    fn a_trace_may_start_anywhere_and_at_any_time() {
        let mut server = trace(&[1, 2, 5], 4, Time(7));
        assert_eq!(server.serve(Time(7), true, 1500), ms(1) + Duration(7));
        assert_eq!(server.serve(Time(7), false, 1500), ms(2) + Duration(7));
        // After a long time, and many cycles.
        assert_eq!(server.serve(ms(5_000_000), true, 1500), ms(5_000_001) + Duration(7));
    }
}
