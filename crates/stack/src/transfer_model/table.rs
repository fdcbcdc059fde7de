//! What can come of each small window, worked out by recurrence and only as far as it is asked for.

use super::rules::{Rules, few_kept};

/// Windows below this have a cell of the walk each.
pub(super) const CELLS: usize = 256;

/// Probability of a timeout that is not worth telling from fast recovery.
const RARE: f64 = 1e-15;

/// Probabilities by window, as [`Rules::outcome`] has them.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Nothing lost.
    pub none: [f64; CELLS],
    /// Fast recovery.
    pub fast: [f64; CELLS],
    /// Timeout.
    pub timeout: [f64; CELLS],
    /// From this window on, timeouts are so rare that `timeout` is 0.
    pub timeouts: usize,
    /// Windows below this are filled in.
    known: usize,
    /// `loss^(known - 3)`.
    power: f64,
}

impl Table {
    /// Window 0 only, of which nothing comes.
    pub fn new() -> Table {
        let mut none = [0.0; CELLS];
        none[0] = 1.0;
        Table { none, fast: [0.0; CELLS], timeout: [0.0; CELLS], timeouts: 0, known: 1, power: 1.0 }
    }

    /// Fills in the windows below `end`.
    pub fn extend(&mut self, rules: &Rules, end: usize) {
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
