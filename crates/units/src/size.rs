//! Sizes in bytes.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A number of bytes; 1 KB is 1000 bytes, 1 KiB is 1024. Arithmetic saturates.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Bytes = Bytes(0);
    /// The largest size.
    pub const MAX: Bytes = Bytes(u64::MAX);

    /// Returns `n` kilobytes of 1000 bytes.
    pub const fn from_kb(n: u64) -> Bytes {
        Bytes(n * 1000)
    }

    /// Returns `n` KiB of 1024 bytes.
    pub const fn from_kib(n: u64) -> Bytes {
        Bytes(n * 1024)
    }

    /// Returns the number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
}

impl From<u64> for Bytes {
    fn from(n: u64) -> Bytes {
        Bytes(n)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000 => write!(f, "{} MB", n as f64 / 1e6),
            n if n >= 1_000 => write!(f, "{} KB", n as f64 / 1e3),
            n => write!(f, "{n} B"),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
