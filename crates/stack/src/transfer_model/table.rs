//! The outcomes of each small window, computed by recurrence and only as far as needed.

use super::rules::{Rules, few_kept};

/// Windows below this have a cell each in the walk.
pub(super) const CELLS: usize = 256;

/// Probability below which a timeout is not distinguished from fast recovery.
const RARE: f64 = 1e-15;

/// Probabilities by window, as computed by [`Rules::outcome`].
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Probability of no loss.
    pub none: [f64; CELLS],
    /// Probability of fast recovery.
    pub fast: [f64; CELLS],
    /// Probability of a timeout.
    pub timeout: [f64; CELLS],
    /// Window from which on timeouts are so rare that `timeout` is 0.
    pub timeouts: usize,
    /// Windows below this are computed.
    known: usize,
    /// `loss^(known - 3)`.
    power: f64,
}

impl Table {
    /// Returns a table with window 0 only, which has no outcome.
    pub(super) fn new() -> Table {
        let mut none = [0.0; CELLS];
        none[0] = 1.0;
        Table { none, fast: [0.0; CELLS], timeout: [0.0; CELLS], timeouts: 0, known: 1, power: 1.0 }
    }

    /// Computes the windows below `end`.
    pub(super) fn extend(&mut self, rules: &Rules, end: usize) {
        for cwnd in self.known..end.min(CELLS) {
            let none = self.none[cwnd - 1] * rules.kept;
            let lossy = 1.0 - none;
            let timeout = if cwnd <= rules.survivors as usize {
                lossy
            } else {
                few_kept(cwnd as f64, self.power, rules).min(lossy)
            };
            if cwnd >= 3 {
                self.power *= rules.loss;
            }
            self.none[cwnd] = none;
            if timeout > RARE {
                self.timeout[cwnd] = timeout;
                self.timeouts = cwnd + 1;
            }
            self.fast[cwnd] = lossy - self.timeout[cwnd];
        }
        self.known = self.known.max(end.min(CELLS));
    }
}
