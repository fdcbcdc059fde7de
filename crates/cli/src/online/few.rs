//! A bound of the lines that others can cause, such as the users of a socket: the log cannot be filled.

use std::time::{Duration, Instant};

/// The lines that can be written at once.
const AT_ONCE: u32 = 20;
/// The time after which one more can be written.
const EVERY: Duration = Duration::from_secs(3);

/// A token bucket of lines. The others are counted.
#[derive(Debug)]
pub(crate) struct Few {
    /// The time at which the bucket was or will be full.
    full: Instant,
    left_out: u64,
}

impl Few {
    /// Returns a full bucket.
    pub(crate) fn new(now: Instant) -> Few {
        Few { full: now, left_out: 0 }
    }

    /// Returns the number of lines that were left out before this one; none if this one is left out too.
    pub(crate) fn admit(&mut self, now: Instant) -> Option<u64> {
        let full = self.full.max(now) + EVERY;
        if full.duration_since(now) > EVERY * AT_ONCE {
            self.left_out += 1;
            return None;
        }
        self.full = full;
        Some(std::mem::take(&mut self.left_out))
    }

    /// Returns the number of lines that were left out since the last one.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_counted_and_a_few_are_written() {
        let start = Instant::now();
        let mut few = Few::new(start);
        let mut written = Vec::new();
        for ms in 0..60_000 {
            written.extend(few.admit(start + Duration::from_millis(ms)));
        }
        // 20 at once, and one every 3 s for a minute.
        assert!((39..=40).contains(&written.len()), "{written:?}");
        assert_eq!(written.iter().sum::<u64>() + written.len() as u64 + few.left_out(), 60_000);
        let later = start + Duration::from_secs(1000);
        assert!(few.admit(later).is_some_and(|left_out| left_out > 1000));
        assert_eq!((few.admit(later), few.left_out()), (Some(0), 0));
    }
}
