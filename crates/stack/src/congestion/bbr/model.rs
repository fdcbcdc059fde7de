//! The windowed maxima of BBR's model of a path.

/// The maximum number of rounds in a filter.
const ROUNDS: usize = 10;

/// The maximum delivery rate of the current and the previous probing cycle: `max_bw_filter`.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct MaxBandwidth {
    last: f64,
    present: f64,
}

impl MaxBandwidth {
    /// Returns the bandwidth in bytes per second; 0 before the first sample.
    pub(super) fn get(&self) -> f64 {
        self.last.max(self.present)
    }

    pub(super) fn update(&mut self, rate: f64) {
        self.present = self.present.max(rate);
    }

    /// `AdvanceMaxBwFilter`: starts the next cycle. A cycle without a sample does not count.
    pub(super) fn advance(&mut self) {
        if self.present > 0.0 {
            *self = MaxBandwidth { last: self.present, present: 0.0 };
        }
    }
}

/// The maximum of data acknowledged beyond the expected, over the last rounds: `extra_acked_filter`.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct MaxExtra {
    rounds: [f64; ROUNDS],
    round: u64,
}

impl MaxExtra {
    /// Adds a sample of round `round`, and returns the maximum of the last `len` rounds, including the
    /// current one.
    pub(super) fn update(&mut self, extra: f64, round: u64, len: usize) -> f64 {
        let passed = (round - self.round.min(round)).min(ROUNDS as u64);
        for n in 0..passed {
            self.rounds[((round - n) % ROUNDS as u64) as usize] = 0.0;
        }
        self.round = round;
        let present = &mut self.rounds[(round % ROUNDS as u64) as usize];
        *present = present.max(extra);
        let recent = (0..len.min(ROUNDS) as u64).filter(|n| *n <= round);
        recent.map(|n| self.rounds[((round - n) % ROUNDS as u64) as usize]).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bandwidth_is_that_of_two_cycles() {
        let mut filter = MaxBandwidth::default();
        filter.update(5.0);
        filter.update(3.0);
        assert_eq!(filter.get(), 5.0);
        filter.advance();
        filter.update(4.0);
        assert_eq!(filter.get(), 5.0);
        filter.advance();
        assert_eq!(filter.get(), 4.0);
        // A cycle without a sample keeps the filter's contents.
        filter.advance();
        filter.advance();
        assert_eq!(filter.get(), 4.0);
    }

    #[test]
    fn the_extra_is_that_of_ten_rounds_or_of_one() {
        let mut filter = MaxExtra::default();
        assert_eq!(filter.update(9.0, 0, 10), 9.0);
        assert_eq!(filter.update(2.0, 1, 10), 9.0);
        assert_eq!(filter.update(2.0, 1, 1), 2.0);
        assert_eq!(filter.update(1.0, 9, 10), 9.0);
        assert_eq!(filter.update(1.0, 10, 10), 2.0);
        assert_eq!(filter.update(0.5, 40, 10), 0.5);
    }
}
