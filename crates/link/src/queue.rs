//! The drop-tail queue: its limit, and the admission of packets.

use core::fmt;

use anabranch_units::{Bytes, Duration, Rate};

use crate::error::LinkConfigError;

/// The limit of a link's queue. The queue counts whole packets with their headers, including the packet in
/// service (and the part of it that has been sent already).
///
/// [`QueueLimit::Time`] and [`QueueLimit::Bdp`] resolve to **bytes** once, when the link is made: duration or
/// round-trip time times the initial rate (of a trace, its mean rate), but at least
/// [`QueueLimit::MIN_RESOLVED_BYTES`], ten full packets. A later change of rate does not change the limit, as
/// it would not change a router's memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QueueLimit {
    /// No limit: nothing is dropped for lack of space.
    Unlimited,
    /// At most this number of packets, the one in service included.
    Packets(u32),
    /// At most this number of bytes, the packet in service included.
    Bytes(u64),
    /// The bytes that the link sends in this time.
    Time(Duration),
    /// A multiple of the bandwidth-delay product: the rate times the round-trip time of the configuration.
    Bdp(f64),
}

impl QueueLimit {
    /// The least value to which a limit in time or in BDP resolves: an initial window of 10 packets of 1500 bytes, and an
    /// acknowledgement or a request that is still in the queue when the window arrives. With 15,000 bytes the tenth
    /// packet of a window was always dropped.
    pub const MIN_RESOLVED_BYTES: u64 = 16_000;

    pub(crate) fn check(self) -> Result<(), LinkConfigError> {
        match self {
            QueueLimit::Packets(0) | QueueLimit::Bytes(0) => Err(LinkConfigError::EmptyQueue),
            QueueLimit::Bdp(n) if !(n.is_finite() && n >= 0.0) => Err(LinkConfigError::BdpMultiple(n)),
            _ => Ok(()),
        }
    }

    /// Returns the limit in packets or bytes, for this rate and round-trip time.
    pub fn resolve(self, rate: Rate, rtt: Duration) -> ResolvedLimit {
        let by_time = |span| ResolvedLimit {
            packets: usize::MAX,
            bytes: rate.bytes_in(span).max(Self::MIN_RESOLVED_BYTES),
        };
        match self {
            QueueLimit::Unlimited => ResolvedLimit { packets: usize::MAX, bytes: u64::MAX },
            QueueLimit::Packets(n) => ResolvedLimit { packets: n as usize, bytes: u64::MAX },
            QueueLimit::Bytes(n) => ResolvedLimit { packets: usize::MAX, bytes: n },
            QueueLimit::Time(span) => by_time(span),
            QueueLimit::Bdp(multiple) => by_time(rtt.mul_f64(multiple)),
        }
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueLimit::Bdp(n) => write!(f, "{n} BDP"),
            QueueLimit::Packets(n) => write!(f, "{n} packets"),
            QueueLimit::Bytes(n) => write!(f, "{}", Bytes(*n)),
            QueueLimit::Time(span) => write!(f, "{span}"),
            QueueLimit::Unlimited => f.write_str("unlimited"),
        }
    }
}

/// A queue limit in packets and in bytes; both must hold. The one that was not configured is the maximum of
/// its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolvedLimit {
    /// The largest number of queued packets.
    pub packets: usize,
    /// The largest number of queued bytes.
    pub bytes: u64,
}

/// The decision of the queue on a packet that is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The packet joins the tail.
    Enter,
    /// The packet does not fit.
    Refuse,
}

impl ResolvedLimit {
    /// Decides on a packet of `wire_bytes`, given the present queue.
    #[inline]
    pub(crate) fn admit(&self, queue_packets: usize, queue_bytes: u64, wire_bytes: u32) -> Admission {
        if queue_packets < self.packets && queue_bytes + u64::from(wire_bytes) <= self.bytes {
            Admission::Enter
        } else {
            Admission::Refuse
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate::from_mbps(100);
    const RTT: Duration = Duration::from_millis(20);

    #[test]
    fn time_and_bdp_resolve_to_bytes_and_at_least_ten_packets() {
        let bytes = |limit: QueueLimit| limit.resolve(RATE, RTT).bytes;
        assert_eq!(bytes(QueueLimit::Time(Duration::from_millis(10))), 125_000);
        assert_eq!(bytes(QueueLimit::Bdp(1.0)), 250_000);
        assert_eq!(bytes(QueueLimit::Bdp(0.5)), 125_000);
        assert_eq!(bytes(QueueLimit::Bdp(0.0)), 16_000);
        assert_eq!(bytes(QueueLimit::Time(Duration::from_micros(1))), 16_000);
    }

    #[test]
    fn the_last_packet_that_fits_enters_and_the_next_does_not() {
        let by_packets = QueueLimit::Packets(2).resolve(RATE, RTT);
        assert_eq!(by_packets.admit(1, 1_000_000, 1500), Admission::Enter);
        assert_eq!(by_packets.admit(2, 0, 1), Admission::Refuse);
        let by_bytes = QueueLimit::Bytes(3000).resolve(RATE, RTT);
        assert_eq!(by_bytes.admit(1, 1500, 1500), Admission::Enter);
        assert_eq!(by_bytes.admit(1, 1500, 1501), Admission::Refuse);
    }
}
