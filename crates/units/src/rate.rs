//! Data rates.

use core::fmt;

use crate::Duration;

/// A data rate in bits per second; 1 Mbit/s is 10^6 bit/s.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

impl Rate {
    /// Returns a rate of `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Rate {
        Rate(bps)
    }

    /// Returns a rate of `mbps` times 10^6 bits per second.
    pub const fn from_mbps(mbps: u64) -> Rate {
        Rate(mbps * 1_000_000)
    }

    /// Returns the rate at which `bytes` pass in `span`; zero for an empty span.
    pub fn from_bytes_over(bytes: u64, span: Duration) -> Rate {
        if span.is_zero() {
            return Rate(0);
        }
        Rate((bytes as f64 * 8e9 / span.0 as f64) as u64)
    }

    /// Returns the rate in bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Returns the rate in bits per second as a float.
    pub fn as_bps_f64(self) -> f64 {
        self.0 as f64
    }

    /// Returns the rate in bytes per second.
    pub fn bytes_per_sec(self) -> f64 {
        self.0 as f64 / 8.0
    }

    /// Returns the time that `bytes` take at this rate, rounded to the nearest nanosecond; [`Duration::MAX`]
    /// at rate zero.
    pub const fn transmission_time(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        match bytes.checked_mul(8_000_000_000) {
            Some(bit_nanos) => Duration(bit_nanos.saturating_add(self.0 / 2) / self.0),
            None => {
                let exact = (bytes as u128 * 8_000_000_000 + self.0 as u128 / 2) / self.0 as u128;
                Duration(if exact > u64::MAX as u128 { u64::MAX } else { exact as u64 })
            }
        }
    }

    /// Returns the number of bytes that pass in `span`, rounded down.
    pub fn bytes_in(self, span: Duration) -> u64 {
        (u128::from(self.0) * u128::from(span.0) / 8_000_000_000).min(u128::from(u64::MAX)) as u64
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000_000 => write!(f, "{} Gbit/s", n as f64 / 1e9),
            n if n >= 1_000_000 => write!(f, "{} Mbit/s", n as f64 / 1e6),
            n if n >= 1_000 => write!(f, "{} kbit/s", n as f64 / 1e3),
            n => write!(f, "{n} bit/s"),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmission_time_is_exact_where_it_can_be() {
        assert_eq!(Rate::from_mbps(100).transmission_time(1440), Duration::from_nanos(115_200));
        assert_eq!(Rate::from_bps(0).transmission_time(1), Duration::MAX);
        assert_eq!(Rate::from_bps(8).transmission_time(u64::MAX / 4), Duration::MAX);
    }

    #[test]
    fn bytes_in_is_the_inverse() {
        assert_eq!(Rate::from_mbps(100).bytes_in(Duration::from_millis(20)), 250_000);
        assert_eq!(Rate::from_bytes_over(250_000, Duration::from_millis(20)), Rate::from_mbps(100));
    }
}
