//! One transfer of one contender: simulated, and emulated in real time with anabranch at both ends.

use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_lab::scenario::Scenario;

use crate::measure::{Measured, Quality};
use crate::points::{Point, PointError};
use crate::prediction::single;
use crate::results::Trouble;
use crate::{anabranch, simulated};

/// A contender of a scenario under its first condition.
#[derive(Clone, Debug)]
pub struct Transfer(Point);

/// A run of a transfer.
#[derive(Clone, Debug)]
pub struct Pair {
    /// In virtual time.
    pub simulated: Measured,
    /// In real time; none if the machine was too slow in every attempt.
    pub emulated: Option<Measured>,
    /// The punctuality of the last attempt.
    pub quality: Quality,
    /// The number of attempts that do not count.
    pub discarded: u32,
}

impl Transfer {
    /// Returns the contender at this position.
    ///
    /// # Errors
    /// The reason that it exists only in the simulator.
    pub fn new(scenario: &Scenario, contender: usize) -> Result<Transfer, PointError> {
        Point::emulated(single(scenario, 0, contender, None)).map(Transfer)
    }

    /// True if it ends when everything is delivered.
    pub fn is_sized(&self) -> bool {
        self.0.is_sized()
    }

    /// Makes run number `run` in both ways, with at most `attempts` in real time.
    ///
    /// # Errors
    /// If it cannot be made, or `cancelled` is set.
    pub fn run(&self, run: u32, attempts: u32, cancelled: &AtomicBool) -> Result<Pair, Trouble> {
        let point = &self.0;
        let simulated = simulated::run(point, run, cancelled, None).map_err(Trouble::failed)?;
        let mut pair = Pair { simulated, emulated: None, quality: Quality::default(), discarded: 0 };
        while pair.emulated.is_none() && pair.discarded < attempts {
            let (measured, quality) = anabranch::run(point, run, cancelled, None)?;
            if cancelled.load(Ordering::Relaxed) {
                return Err(Trouble::Interrupted);
            }
            match quality.objection(point.shortest_rtt()) {
                None => pair.emulated = Some(measured),
                Some(_) => pair.discarded += 1,
            }
            pair.quality = quality;
        }
        Ok(pair)
    }
}
