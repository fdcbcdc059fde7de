//! One transfer of one contender: simulated, and emulated in real time with anabranch at both ends, or with the
//! kernel at one of them.

use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_lab::scenario::{Scenario, Transport};

use crate::measure::{Kind, Measured, Quality};
use crate::one_run::one_run;
use crate::points::{KernelEnd, Point, PointError, is_the_kernels};
use crate::prediction::single;
use crate::results::Trouble;
use crate::{mixed, simulated};

/// A contender of a scenario under its first condition.
#[derive(Clone, Debug)]
pub struct Transfer {
    point: Point,
    /// The same with the kernel at one end.
    mixed: Option<(Point, KernelEnd)>,
}

/// A run of a transfer.
#[derive(Clone, Debug)]
pub struct Made {
    /// In virtual time.
    pub simulated: Measured,
    /// In real time, with anabranch at both ends; none if the machine was too slow in every attempt.
    pub emulated: Option<Measured>,
    /// In real time, with the kernel at one end; none if the machine was too slow in every attempt, or the
    /// transfer has no such runs.
    pub linux: Option<Measured>,
    /// The worst 99th percentile of lateness, in microseconds, of the last attempts.
    pub p99_us: f64,
    /// The number of attempts that do not count.
    pub discarded: u32,
    /// The reason for which the last of them does not.
    pub objection: Option<String>,
}

impl Transfer {
    /// Returns the contender at this position, with the kernel at the end `linux` in other runs, if given. The
    /// kernel sends only for a plain TCP and for its own scheduler; other contenders have no such runs.
    ///
    /// # Errors
    /// The setting that exists only in the simulator, or that the kernel does not have.
    pub fn new(
        scenario: &Scenario,
        contender: usize,
        linux: Option<KernelEnd>,
    ) -> Result<Transfer, PointError> {
        let one = single(scenario, 0, contender, None);
        let is_foreign = match &one.contenders[0].transport {
            Transport::Tcp { .. } => false,
            Transport::Multipath(kind) => !is_the_kernels(kind.name()),
        };
        let mixed = match linux {
            None => None,
            Some(KernelEnd::Sender) if is_foreign => None,
            Some(end) => Some((Point::mixed(one.clone(), end)?, end)),
        };
        Ok(Transfer { point: Point::plain(one)?, mixed })
    }

    /// True if it ends when everything is delivered.
    pub fn is_sized(&self) -> bool {
        self.point.is_sized()
    }

    /// True if it has runs with the kernel at one end.
    pub fn is_mixed(&self) -> bool {
        self.mixed.is_some()
    }

    /// Makes run number `run` in each way, with at most `attempts` each in real time.
    ///
    /// # Errors
    /// If it cannot be made, or `cancelled` is set.
    pub fn run(&self, run: u32, attempts: u32, cancelled: &AtomicBool) -> Result<Made, Trouble> {
        let simulated = simulated::run(&self.point, run, cancelled, None).map_err(Trouble::failed)?;
        let mut made =
            Made { simulated, emulated: None, linux: None, p99_us: 0.0, discarded: 0, objection: None };
        let emulate = || one_run(&self.point, Kind::Emulated, run, cancelled, None);
        made.emulated = self.punctual(attempts, cancelled, &mut made, &emulate)?;
        if made.emulated.is_some()
            && let Some(mixed) = &self.mixed
        {
            let mix = || mixed::run(&mixed.0, mixed.1, run, cancelled);
            made.linux = self.punctual(attempts, cancelled, &mut made, &mix)?;
        }
        Ok(made)
    }

    /// Makes one attempt of run number `run` with the kernel at one end; none if it has no such runs.
    ///
    /// # Errors
    /// If it cannot be made, or `cancelled` is set.
    pub fn attempt(&self, run: u32, cancelled: &AtomicBool) -> Result<Option<(Measured, Quality)>, Trouble> {
        let mixed = self.mixed.as_ref();
        mixed.map(|(point, end)| mixed::run(point, *end, run, cancelled)).transpose()
    }

    /// Repeats a run in real time until the machine was punctual.
    fn punctual(
        &self,
        attempts: u32,
        cancelled: &AtomicBool,
        made: &mut Made,
        once: &dyn Fn() -> Result<(Measured, Quality), Trouble>,
    ) -> Result<Option<Measured>, Trouble> {
        let mut last = 0.0;
        for _ in 0..attempts {
            let (measured, quality) = once()?;
            if cancelled.load(Ordering::Relaxed) {
                return Err(Trouble::Interrupted);
            }
            last = quality.p99_us;
            let Some(objection) = quality.objection(self.point.shortest_rtt()) else {
                made.p99_us = made.p99_us.max(last);
                return Ok(Some(measured));
            };
            made.discarded += 1;
            made.objection = Some(objection);
        }
        made.p99_us = made.p99_us.max(last);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_lab::scenario::Document;

    #[test]
    fn only_plain_transfers_are_made_and_other_traffic_is_refused() {
        let made = |set: &str| {
            let mut document = Document::bare();
            document.set_paths(&["8Mbit/s,10ms".to_owned(), "20Mbit/s,10ms".to_owned()]).unwrap();
            document.set_schedulers("--schedulers", &["linux".to_owned()]);
            document.set(set).unwrap();
            Transfer::new(&document.scenario().unwrap(), 0, None)
        };
        assert!(made("traffic.size=1MB").is_ok_and(|transfer| transfer.is_sized()));
        for set in [
            "traffic={kind='requests',size='20 KB',think='1 s',requests=3}",
            "traffic={size='1 MB',beside={flows=2}}",
            "traffic={size='bulk',start='1 s'}",
        ] {
            let error = made(set).unwrap_err();
            assert!(error.0.contains("not transfers of one class"), "{set}: {error}");
        }
    }
}
