//! An estimate of the work that is left.

use std::collections::BTreeMap;

use crate::claims::{Claim, Paper};
use crate::comparison::comparisons;
use crate::figure::Figure;
use crate::journal::Journal;
use crate::judge::Status;
use crate::measure::{Unit, Work};
use crate::reproduce::{Needs, Options, Progress, ReproduceError};

/// Estimates the work that is left.
pub(crate) struct Meter {
    progress: Progress,
    /// The work of each unit that is not done.
    expected: BTreeMap<Unit, f64>,
}

impl Meter {
    /// Returns the meter of a reproduction in which verdicts are as in `options.expected`.
    pub(crate) fn new(
        claims: &[(&Paper, &Claim)],
        simulated: &[usize],
        figures: &[(&Paper, &Figure)],
        journal: &Journal,
        options: &Options<'_>,
    ) -> Result<Meter, ReproduceError> {
        let mut needs = Needs::default();
        for (paper, figure) in figures {
            needs.draw(paper, figure, options);
        }
        for at in simulated {
            let (paper, claim) = claims[*at];
            let failed = |error| ReproduceError::Measure(claim.id.clone(), Box::new(error));
            needs.add(claim, &comparisons(paper, claim, None, options).map_err(failed)?);
            let known = options.expected.iter().find(|finding| finding.id == claim.id);
            let holds = known.is_some_and(|finding| finding.status == Status::Holds);
            for name in claim.variants.iter().filter(|_| options.variants && !holds) {
                needs.add(claim, &comparisons(paper, claim, paper.variant(name), options).map_err(failed)?);
                let tried = known.iter().flat_map(|finding| &finding.variants);
                if tried.filter(|tried| tried.name == *name).any(|tried| tried.status == Status::Holds) {
                    break;
                }
            }
        }
        let mut meter = Meter { progress: Progress::default(), expected: BTreeMap::new() };
        for (unit, claim) in &needs.order {
            let failed = |error| ReproduceError::Measure(claim.clone(), Box::new(error));
            let work = Work::new(unit, &needs.wanted[unit]).map_err(failed)?;
            let known = journal.get(&work.key).map(|known| known.missing(&needs.wanted[unit]));
            let missing = known.is_none_or(|missing| !missing.contenders.is_empty());
            let packets = if missing { work.packets() } else { 0.0 };
            meter.expected.insert(unit.clone(), packets);
            meter.progress.left += packets;
        }
        meter.progress.total = meter.expected.len();
        Ok(meter)
    }

    /// Notes that `unit` is measured.
    pub(crate) fn done(&mut self, unit: &Unit) -> Progress {
        let progress = &mut self.progress;
        match self.expected.remove(unit) {
            Some(packets) => {
                progress.work += packets;
                progress.left = (progress.left - packets).max(0.0);
            }
            // A verdict that differs from the expected one needs more.
            None => progress.total += 1,
        }
        progress.done += 1;
        *progress
    }
}
