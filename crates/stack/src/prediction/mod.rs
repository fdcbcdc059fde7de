//! A prediction of what a subflow delivers, and when: the basis of the scheduler
//! [`Anabranch`](crate::scheduler::Anabranch).
//!
//! It follows the data that a subflow sends from now on, round trip by round trip, as the congestion window admits it, through
//! a link of a known or unknown rate. Everything is a pure function of [`PathState`]: no connection, no clock, no allocation.
//!
//! | part | how it is predicted |
//! |---|---|
//! | the free window | is sent now, and its acknowledgements arrive a round trip later |
//! | data in flight | is acknowledged evenly, from a round trip after its first segment was sent to one after its last |
//! | the window | doubles in a round trip of slow start, up to the threshold; then it stays, or is the congestion control's window a round trip later |
//! | the link | carries one byte after another at its rate, so that a queue forms where windows are sent faster than that |
//! | the rate | [`Meter`]: the spacing of acknowledgements, and at least the delivery rate |
//! | the round trip without a queue | [`Meter`]: the least one of the connection, or what it has grown to |
//! | loss | ends slow start after the expected number of segments; the loss of one of the last segments costs a round trip |
//!
//! The transfer model of DMPTCP ([`crate::transfer_model`]) is the special case without a rate: whole windows, one in each round trip. With
//! all of the window free and no rate, both deliver the same number of bytes in a whole number of round trips without loss.
//!
//! Times are in seconds from now, amounts in bytes, both as `f64`: a prediction is not exact to the nanosecond.

mod floor;
mod meter;

use anabranch_units::Duration;

pub use meter::Meter;

/// The maximum number of rounds that are followed one by one; later ones have the rate of the last.
const MAX_ROUNDS: u32 = 40;

/// The state of a subflow from which its deliveries are predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathState {
    /// The round trip without a queue, in seconds.
    pub base_rtt: f64,
    /// The round trip now, in seconds.
    pub rtt: f64,
    /// Bytes that the window admits now.
    pub free: f64,
    /// Bytes in flight or queued on the subflow.
    pub flight: f64,
    /// The seconds until the first and until the last acknowledgement of the data in flight; from 0 to `rtt`.
    pub acks: (f64, f64),
    /// The bytes in flight that the bottleneck has not sent, as the sender counts them.
    pub backlog: f64,
    /// The rate of the bottleneck in bytes per second; infinite if it is not known.
    pub rate: f64,
    /// The window at which slow start ends, in bytes; infinite before the first loss.
    pub ssthresh: f64,
    /// The factor by which the window grows in a round trip after slow start.
    pub growth: f64,
    /// The most that can be in flight, in bytes: the receive buffer.
    pub limit: f64,
    /// The probability that a segment is lost.
    pub loss: f64,
    /// The payload of a segment, in bytes.
    pub mss: f64,
}

/// Returns the seconds after which `bytes` are delivered, to a millionth; `delivered` returns the bytes of all subflows at a time, and never falls.
pub fn completion(bytes: f64, delivered: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e-3);
    while delivered(high) < bytes && high < 1e6 {
        high *= 2.0;
    }
    for _ in 0..20 {
        let middle = (low + high) / 2.0;
        if delivered(middle) < bytes { low = middle } else { high = middle }
    }
    high
}

/// A position in the rounds of a subflow.
#[derive(Clone, Copy)]
struct Rounds {
    /// Bytes sent at the start of the round.
    burst: f64,
    /// Bytes sent evenly while the data in flight is acknowledged, and in the same part of later rounds.
    spread: f64,
    /// The number of the round, from 0.
    round: u32,
    /// The time at which the link has sent everything before, without propagation.
    link: f64,
    /// The bytes sent since the start, for the expected loss.
    sent: f64,
}

impl PathState {
    /// Returns the one-way delay without a queue.
    fn delay(&self) -> f64 {
        self.base_rtt / 2.0
    }

    /// Returns the time that the link needs for `bytes`.
    pub(crate) fn serial(&self, bytes: f64) -> f64 {
        if self.rate.is_finite() { bytes / self.rate.max(1.0) } else { 0.0 }
    }

    /// Returns the seconds that the last data in flight wait in a queue, as the round trip shows it, and not more than those data explain.
    pub(crate) fn wait(&self) -> f64 {
        (self.rtt - self.base_rtt).min(self.serial(self.flight))
    }

    fn start(&self) -> Rounds {
        // Data before it in the queue of the bottleneck, as the round trip or the sender's count shows it; at most the data in flight, and at least
        // the part of it that the path does not hold.
        let flight = self.serial(self.flight);
        let link = self.wait().max(self.serial(self.backlog).min(flight)).max(flight - self.base_rtt);
        let slow_start = self.free + self.flight < self.ssthresh;
        let factor = if slow_start { 2.0 } else { 1.0 };
        Rounds { burst: self.free, spread: factor * self.flight, round: 0, link, sent: 0.0 }
    }

    /// Moves to the next round. Returns false if the rest is sent at the rate of the last one.
    fn advance(&self, at: &mut Rounds) -> bool {
        let window = at.burst + at.spread;
        at.sent += window;
        at.round += 1;
        // The expected number of bytes before a loss.
        let clean = if self.loss > 0.0 { self.mss / self.loss } else { f64::INFINITY };
        let slow_start = window < self.ssthresh && at.sent < clean;
        let next =
            if slow_start { (2.0 * window).min(self.ssthresh.max(window)) } else { window * self.growth };
        let next = next.min(self.limit.max(self.mss));
        let factor = next / window.max(1.0);
        at.burst *= factor;
        at.spread *= factor;
        at.round < MAX_ROUNDS && (factor > 1.0 + 1e-9 || at.round < 2)
    }

    /// Returns the seconds until `bytes` of further data are delivered on this subflow, beyond the data in flight.
    pub fn arrival(&self, bytes: f64) -> f64 {
        let mut left = bytes;
        let mut at = self.start();
        if self.free + self.flight <= 0.0 || !self.rtt.is_finite() {
            return f64::INFINITY;
        }
        loop {
            let begin = f64::from(at.round) * self.rtt;
            at.link = at.link.max(begin);
            if left <= at.burst {
                return self.delay() + at.link + self.serial(left);
            }
            left -= at.burst;
            at.link += self.serial(at.burst);
            let (first, last) = self.acks;
            at.link = at.link.max(begin + first);
            if left <= at.spread {
                let sent = begin + first + (last - first) * left / at.spread;
                return self.delay() + sent.max(at.link + self.serial(left));
            }
            left -= at.spread;
            at.link = (begin + last).max(at.link + self.serial(at.spread));
            if !self.advance(&mut at) {
                let window = at.burst + at.spread;
                let begin = f64::from(at.round) * self.rtt;
                let by_window = begin + self.rtt * (left - at.burst).max(0.0) / window;
                return self.delay() + by_window.max(at.link + self.serial(left));
            }
        }
    }

    /// Returns the bytes of further data that this subflow delivers within `seconds`, beyond the data in flight.
    pub fn delivered(&self, seconds: f64) -> f64 {
        if self.free + self.flight <= 0.0 || !self.rtt.is_finite() {
            return 0.0;
        }
        let until = seconds - self.delay();
        let mut at = self.start();
        let mut total = 0.0;
        loop {
            let begin = f64::from(at.round) * self.rtt;
            if until <= begin || until <= at.link {
                return total;
            }
            at.link = at.link.max(begin);
            let carried = |link: f64| {
                if self.rate.is_finite() { (until - link).max(0.0) * self.rate } else { f64::INFINITY }
            };
            if carried(at.link) < at.burst {
                return total + carried(at.link);
            }
            total += at.burst;
            at.link += self.serial(at.burst);
            let (first, last) = self.acks;
            if until <= begin + first {
                return total;
            }
            at.link = at.link.max(begin + first);
            let sent = at.spread * ((until - begin - first) / (last - first).max(1e-9)).min(1.0);
            let by_link = carried(at.link);
            if until <= begin + last || by_link < at.spread {
                return total + sent.min(by_link);
            }
            total += at.spread;
            at.link = (begin + last).max(at.link + self.serial(at.spread));
            if !self.advance(&mut at) {
                let window = at.burst + at.spread;
                let begin = f64::from(at.round) * self.rtt;
                if until <= begin {
                    return total;
                }
                let by_window = at.burst + window * (until - begin) / self.rtt.max(1e-9);
                return total + by_window.min(carried(at.link));
            }
        }
    }

    /// Returns the expected seconds that the repair of a loss adds to the last of `bytes` of data.
    pub fn repair(&self, bytes: f64) -> f64 {
        let segments = (bytes / self.mss.max(1.0)).clamp(1.0, 64.0);
        (self.loss * segments).min(1.0) * self.rtt
    }
}

/// Returns `span` in seconds.
pub(crate) fn seconds(span: Duration) -> f64 {
    span.0 as f64 / 1e9
}
