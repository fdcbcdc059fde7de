//! The fast version of the model: the same rounds, with states kept separate only where they differ later.
//!
//! In congestion avoidance the threshold does not affect the next state, so states of equal window are
//! merged: an array with one cell per window, which a round shifts by one. Below the threshold there is the
//! unbroken doubling from the start (one state), and the slow start after a timeout: its window has only a
//! few values. Windows of [`CELLS`] and more share buckets.
//!
//! All memory is in fixed arrays. A round costs a few hundred additions, regardless of the number of rounds
//! before it.

use super::buckets::Buckets;
use super::rules::Rules;
use super::table::{CELLS, Table};
use super::{MAX_ROUNDS, PathState, TransferModel};

/// Upper bound (exclusive) of half of a window that has a cell.
const HALVES: usize = CELLS / 2;
/// Number of doublings of the window after a timeout that stay below every threshold under [`HALVES`].
const LEVELS: usize = HALVES.ilog2() as usize;
/// Probability below which a state at the upper end loses its cell, or, as a contribution to the mean window
/// in segments, its bucket: it is merged into the next lower one.
const NEGLIGIBLE: f64 = 1e-9;

/// The distribution of one subflow's window over the rounds, and the segments delivered so far.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    rules: Rules,
    /// Completed rounds.
    round: u32,
    /// Segments delivered in them.
    delivered: f64,
    /// Mean window of the next round.
    expected: f64,
    /// Slow start from the beginning without a loss: its window and its probability.
    unbroken_cwnd: u32,
    unbroken: f64,
    /// Congestion avoidance: probability of each window, zero outside of `low..high`.
    cells: [f64; CELLS],
    low: usize,
    high: usize,
    /// Slow start after a timeout: `slow[level][ssthresh]` has the window `timeout_window << level`.
    slow: [[f64; HALVES]; LEVELS],
    /// Index from which on `slow[level]` is zero.
    slow_high: [usize; LEVELS],
    /// Congestion avoidance, windows without a cell.
    large: Buckets,
    spare: Buckets,
    table: Table,
}

/// The new states after the losses of a round.
struct Losses {
    /// Fast recovery, by the new window; zero outside of `fast_low..fast_high`.
    fast: [f64; HALVES],
    fast_low: usize,
    fast_high: usize,
    /// Timeouts, by the new threshold; zero from `timeout_high` on.
    timeout: [f64; HALVES],
    timeout_high: usize,
}

impl Losses {
    fn new() -> Losses {
        Losses {
            fast: [0.0; HALVES],
            fast_low: HALVES,
            fast_high: 0,
            timeout: [0.0; HALVES],
            timeout_high: 0,
        }
    }

    /// Returns the part of `fast` for the new windows `low..high`, to be added to.
    fn fast_mut(&mut self, low: usize, high: usize) -> &mut [f64] {
        self.fast_low = self.fast_low.min(low);
        self.fast_high = self.fast_high.max(high);
        &mut self.fast[low..high]
    }

    fn add_timeout(&mut self, rules: &Rules, cwnd: u32, mass: f64) {
        // A window of 256 or more times out only if nearly everything is lost, and then slow start does not
        // come near its threshold, whether that is 127 or more.
        let ssthresh = (rules.ssthresh_after_loss(cwnd) as usize).min(HALVES - 1);
        self.timeout[ssthresh] += mass;
        self.timeout_high = self.timeout_high.max(ssthresh + 1);
    }
}

impl Walk {
    pub(crate) fn new(model: &TransferModel, start: &PathState) -> Walk {
        let rules = Rules::new(&model.options, start);
        let mut walk = Walk {
            round: 0,
            delivered: 0.0,
            expected: f64::from(rules.cwnd),
            unbroken_cwnd: rules.cwnd,
            unbroken: 0.0,
            cells: [0.0; CELLS],
            low: CELLS,
            high: 0,
            slow: [[0.0; HALVES]; LEVELS],
            slow_high: [0; LEVELS],
            large: Buckets::new(),
            spare: Buckets::new(),
            table: Table::new(),
            rules,
        };
        if rules.cwnd < rules.ssthresh && rules.cwnd < rules.limit {
            walk.unbroken = 1.0;
        } else {
            walk.put(f64::from(rules.cwnd), 1.0);
        }
        walk
    }

    /// Returns a walk that begins with the round after this one: the window of `start` is already in flight
    /// and counts as delivered before.
    pub(crate) fn after_a_round(model: &TransferModel, start: &PathState) -> Walk {
        let mut walk = Walk::new(model, start);
        walk.step();
        walk.round = 0;
        walk.delivered = 0.0;
        walk
    }

    /// Returns the segments delivered within `rounds`, or at least `enough` if that many are delivered; see
    /// [`TransferModel::delivered`]. No later call may request fewer rounds.
    pub(crate) fn reach(&mut self, rounds: f64, enough: f64) -> f64 {
        let kept = self.rules.kept;
        let rounds = rounds.max(0.0);
        let enough = if enough.is_nan() { f64::INFINITY } else { enough };
        if rounds == f64::INFINITY {
            return if kept > 0.0 { f64::INFINITY } else { 0.0 };
        }
        // A float-to-integer cast saturates.
        let whole = (rounds as u32).min(MAX_ROUNDS);
        while self.round < whole && self.delivered < enough {
            self.step();
        }
        if self.delivered >= enough {
            return self.delivered;
        }
        let rounds = if self.rules.whole_rounds_only { libm::floor(rounds) } else { rounds };
        self.delivered + (rounds - f64::from(whole)) * (self.expected * kept)
    }

    /// Ends a round and computes the states of the next.
    fn step(&mut self) {
        self.delivered += self.expected * self.rules.kept; // DMPTCP eq. 3
        let increase = self.rules.increase_after(self.round);
        self.round += 1;
        let mut losses = Losses::new();
        self.table.extend(&self.rules, self.high);
        core::mem::swap(&mut self.large, &mut self.spare);
        self.step_cells(increase, &mut losses);
        self.step_large(increase, &mut losses);
        self.step_slow_start(&mut losses);
        self.step_unbroken(&mut losses);
        self.settle(&losses);
        self.expected = self.mean();
    }

    /// Adds a state of congestion avoidance to the next round. A window between two cells is divided between
    /// them so that the mean is preserved.
    fn put(&mut self, cwnd: f64, mass: f64) {
        if mass <= 0.0 {
            return;
        }
        let cell = cwnd as usize;
        if cell >= CELLS {
            self.large.add(cwnd, mass);
            return;
        }
        let above = mass * (cwnd - cell as f64);
        self.cells[cell] += mass - above;
        self.low = self.low.min(cell);
        self.high = self.high.max(cell + 1);
        if above > 0.0 {
            self.put((cell + 1) as f64, above);
        }
    }

    /// Steps congestion avoidance for windows with a cell.
    fn step_cells(&mut self, increase: u32, losses: &mut Losses) {
        let (low, high) = (self.low, self.high);
        if low >= high {
            return;
        }
        let table = &self.table;
        for cwnd in low..high.min(table.timeouts) {
            losses.add_timeout(&self.rules, cwnd as u32, self.cells[cwnd] * table.timeout[cwnd]);
        }
        let (half_low, half_high) = (low / 2, high.div_ceil(2));
        let pairs = 2 * half_low..2 * half_high;
        let pairs = self.cells[pairs.clone()].chunks_exact(2).zip(table.fast[pairs].chunks_exact(2));
        for (sum, (cells, fast)) in losses.fast_mut(half_low, half_high).iter_mut().zip(pairs) {
            *sum += cells[0] * fast[0] + cells[1] * fast[1];
        }
        for (cell, none) in self.cells[low..high].iter_mut().zip(&table.none[low..high]) {
            *cell *= none;
        }
        if increase == 0 {
            return;
        }
        // All move up by one; a window at the limit stays, and the last cell moves to a bucket.
        let top = high - 1;
        let leaving = self.cells[top];
        self.cells.copy_within(low..top, low + 1);
        self.cells[low] = 0.0;
        if top == low {
            (self.low, self.high) = (CELLS, 0);
        } else {
            self.low = low + 1;
        }
        self.put(f64::from((high as u32).min(self.rules.limit)), leaving);
    }

    /// Steps congestion avoidance for windows without a cell, moving them from `spare` to `large`.
    fn step_large(&mut self, increase: u32, losses: &mut Losses) {
        while let Some((cwnd, mass)) = self.spare.take_lowest() {
            // Each bucket costs two exponentials per round: without this, a walk takes up to twice the time.
            if cwnd * mass < NEGLIGIBLE {
                self.put((CELLS - 1) as f64, mass);
                continue;
            }
            let outcome = self.rules.outcome(cwnd);
            let grown = (cwnd + f64::from(increase)).min(f64::from(self.rules.limit));
            self.put(grown, mass * outcome.none);
            self.put(half(cwnd), mass * outcome.fast);
            losses.add_timeout(&self.rules, cwnd as u32, mass * outcome.timeout);
        }
    }

    /// Steps slow start after a timeout.
    fn step_slow_start(&mut self, losses: &mut Losses) {
        for level in (0..LEVELS).rev() {
            let high = core::mem::take(&mut self.slow_high[level]);
            if high == 0 {
                continue;
            }
            // The window is below a threshold that is below 128.
            let cwnd = self.rules.timeout_window << level;
            self.table.extend(&self.rules, cwnd as usize + 1);
            let none = self.table.none[cwnd as usize];
            let mut sum = 0.0;
            for ssthresh in 0..high {
                let mass = core::mem::take(&mut self.slow[level][ssthresh]);
                sum += mass;
                self.put_slow(level + 1, self.rules.doubled(cwnd, ssthresh as u32), ssthresh, mass * none);
            }
            let cwnd = cwnd as usize;
            self.put((cwnd / 2) as f64, sum * self.table.fast[cwnd]);
            losses.add_timeout(&self.rules, cwnd as u32, sum * self.table.timeout[cwnd]);
        }
    }

    /// Adds a state after a timeout to the next round.
    fn put_slow(&mut self, level: usize, cwnd: u32, ssthresh: usize, mass: f64) {
        if mass <= 0.0 {
            return;
        }
        if (cwnd as usize) < ssthresh && cwnd < self.rules.limit {
            self.slow[level][ssthresh] += mass;
            self.slow_high[level] = self.slow_high[level].max(ssthresh + 1);
        } else {
            self.put(f64::from(cwnd), mass);
        }
    }

    /// Steps slow start from the beginning.
    fn step_unbroken(&mut self, losses: &mut Losses) {
        let (cwnd, mass) = (self.unbroken_cwnd, self.unbroken);
        if mass <= 0.0 {
            return;
        }
        let outcome = self.rules.outcome(f64::from(cwnd));
        self.put(f64::from(cwnd / 2), mass * outcome.fast);
        losses.add_timeout(&self.rules, cwnd, mass * outcome.timeout);
        self.unbroken = mass * outcome.none;
        self.unbroken_cwnd = self.rules.doubled(cwnd, self.rules.ssthresh);
        let ended = self.unbroken_cwnd >= self.rules.ssthresh || self.unbroken_cwnd >= self.rules.limit;
        if ended || self.unbroken * f64::from(self.unbroken_cwnd) < NEGLIGIBLE {
            self.put(f64::from(self.unbroken_cwnd), self.unbroken);
            self.unbroken = 0.0;
        }
    }

    /// Adds the states after losses, and trims the upper end of the cells.
    fn settle(&mut self, losses: &Losses) {
        let (low, high) = (losses.fast_low, losses.fast_high);
        if low < high {
            for (cell, mass) in self.cells[low..high].iter_mut().zip(&losses.fast[low..high]) {
                *cell += mass; // DMPTCP eq. 12
            }
            self.low = self.low.min(low);
            self.high = self.high.max(high);
        }
        for (ssthresh, &mass) in losses.timeout[..losses.timeout_high].iter().enumerate() {
            self.put_slow(0, self.rules.timeout_window, ssthresh, mass); // DMPTCP eq. 9, 10
        }
        while self.high > self.low + 1 && self.cells[self.high - 1] < NEGLIGIBLE {
            self.high -= 1;
            let mass = core::mem::take(&mut self.cells[self.high]);
            self.cells[self.high - 1] += mass;
        }
    }

    /// Returns the mean window of the next round. // DMPTCP eq. 14
    fn mean(&self) -> f64 {
        let mut sum = f64::from(self.unbroken_cwnd) * self.unbroken + self.large.mean();
        // Four independent sums avoid waiting for each addition.
        let (low, high) = (self.low & !3, self.high);
        let mut sums = [0.0; 4];
        if low < high {
            for (index, cells) in self.cells[low..high.next_multiple_of(4)].chunks_exact(4).enumerate() {
                let first = (low + 4 * index) as f64;
                for (lane, cell) in cells.iter().enumerate() {
                    sums[lane] += (first + lane as f64) * cell;
                }
            }
        }
        sum += (sums[0] + sums[1]) + (sums[2] + sums[3]);
        for (level, &high) in self.slow_high.iter().enumerate() {
            if high > 0 {
                let mass = self.slow[level][..high].iter().sum::<f64>();
                sum += f64::from(self.rules.timeout_window << level) * mass;
            }
        }
        sum
    }
}

/// Returns the window after fast recovery. The mean of several windows, each halved and rounded down, is on
/// average a quarter below half of their mean.
fn half(cwnd: f64) -> f64 {
    let whole = libm::floor(cwnd);
    if whole == cwnd { libm::floor(cwnd / 2.0) } else { cwnd / 2.0 - 0.25 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(start: &PathState, rounds: u32) -> Walk {
        let mut walk = Walk::new(&TransferModel::default(), start);
        walk.reach(f64::from(rounds), f64::INFINITY);
        walk
    }

    /// Returns the sum of all probabilities.
    fn mass(walk: &Walk) -> f64 {
        let mut large = walk.large.clone();
        let buckets: f64 = core::iter::from_fn(|| large.take_lowest()).map(|(_, mass)| mass).sum();
        let slow: f64 = walk.slow.iter().flatten().sum();
        walk.unbroken + walk.cells.iter().sum::<f64>() + slow + buckets
    }

    #[test]
    fn no_probability_is_lost_or_made() {
        for loss in [0.0, 1e-4, 1e-3, 1e-2, 0.1, 0.5] {
            for (cwnd, ssthresh) in [(1, None), (10, Some(64)), (200, Some(0)), (5000, Some(0))] {
                for rounds in [1, 2, 5, 20, 60] {
                    let mass = mass(&walked(&PathState { cwnd, ssthresh, loss }, rounds));
                    assert!((mass - 1.0).abs() < 1e-9, "{mass} for {cwnd} {ssthresh:?} {loss} {rounds}");
                }
            }
        }
    }

    #[test]
    fn large_windows_that_have_become_unlikely_cost_no_more_time() {
        // One in a hundred is lost: nothing remains of a window of 20,000 after a round.
        let mut walk = walked(&PathState { cwnd: 20_000, ssthresh: Some(0), loss: 0.01 }, 1);
        assert!(walk.large.take_lowest().is_some());
        for loss in [0.01, 0.05] {
            let mut walk = walked(&PathState { cwnd: 20_000, ssthresh: Some(0), loss }, 60);
            assert_eq!(walk.large.take_lowest(), None, "loss {loss}");
        }
    }

    #[test]
    fn a_window_between_two_cells_is_shared_so_that_the_mean_stays() {
        let mut walk = walked(&PathState { cwnd: 2, ssthresh: Some(64), loss: 0.0 }, 0);
        walk.put(10.25, 0.5);
        assert_eq!((walk.cells[10], walk.cells[11], walk.low, walk.high), (0.375, 0.125, 10, 12));
        // The first bucket follows the last cell.
        walk.put(255.5, 0.25);
        assert_eq!((walk.cells[255], walk.large.take_lowest()), (0.125, Some((256.0, 0.125))));
    }

    #[test]
    fn half_of_a_mean_of_windows_is_a_quarter_below_its_half() {
        assert_eq!([9.0, 10.0, 300.5, 300.75].map(half), [4.0, 5.0, 150.0, 150.125]);
    }

    #[test]
    fn a_slow_start_after_a_timeout_doubles_halves_or_begins_anew() {
        let mut walk = walked(&PathState { cwnd: 2, ssthresh: Some(64), loss: 0.1 }, 0);
        walk.slow[4][100] = 1.0; // The window 16 below the threshold 100.
        walk.slow_high[4] = 101;
        let mut losses = Losses::new();
        walk.step_slow_start(&mut losses);
        let outcome = walk.rules.outcome(16.0);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12 && b > 1e-12;
        assert!(near(walk.slow[5][100], outcome.none) && walk.slow[4][100] == 0.0);
        assert!(near(walk.cells[8], outcome.fast) && near(losses.timeout[8], outcome.timeout));
    }

    #[test]
    fn an_unbroken_slow_start_is_given_up_when_it_is_negligible() {
        // Half is lost: all of 31 segments arrive with a probability of 5e-10, all of 63 with 1e-19.
        let start = PathState { cwnd: 1, ssthresh: None, loss: 0.5 };
        let five = walked(&start, 5);
        let left = 0.5_f64.powi(31);
        assert!(five.unbroken_cwnd == 32 && (five.unbroken - left).abs() < 1e-9 * left);
        assert_eq!(walked(&start, 6).unbroken, 0.0);
    }

    #[test]
    fn cells_outside_of_their_range_are_empty() {
        for loss in [1e-4, 1e-2, 0.1] {
            for rounds in 1..60 {
                let walk = walked(&PathState { cwnd: 10, ssthresh: Some(64), loss }, rounds);
                let outside = walk.cells[..walk.low].iter().chain(&walk.cells[walk.high..]);
                assert!(walk.low >= walk.high || outside.sum::<f64>() == 0.0, "{loss} {rounds}");
            }
        }
    }
}
