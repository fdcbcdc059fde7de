//! `--scenario`, `--simulate` and `--advise`: a connection of a capture as a scenario.

use std::path::Path;

use anabranch_inspect::ConnectionReport;
use anabranch_inspect::scenario::Draft;
use anabranch_lab::inspected::{self, NAME, Simulation};
use anabranch_lab::options::Options;
use anabranch_lab::scenario::Document;
use anabranch_lab::whole_file;

use crate::failure::Failure;
use crate::progress::Progress;
use crate::{interrupt, output};

/// Writes the scenario, unless there is a file of that name.
pub(super) fn write(path: &Path, draft: &Draft) -> Result<(), Failure> {
    if path == Path::new("-") {
        return output::print(&draft.toml);
    }
    whole_file::write(path, &draft.toml).map_err(|error| Failure::unwritable(path, &error))?;
    output::remark(format!("wrote the scenario {}", path.display()));
    Ok(())
}

/// Advises on the scenario of a connection.
pub(super) fn advise(draft: Draft, jobs: usize, json: bool) -> Result<(), Failure> {
    let document = Document::built_in(NAME, draft.toml)?;
    if document.scenario()?.conditions[0].experiment.paths().len() < 2 {
        let text = "the connection has one path with data, and advice is about a second one; \
                    `--scenario FILE` writes it, and a `[[path]]` can be added there";
        return Err(Failure::Usage(text.to_owned()));
    }
    super::super::advise::on(&document, jobs, json)
}

/// Simulates the scenario of a connection; returns the comparison as text too.
pub(super) fn simulate(
    connection: &ConnectionReport,
    draft: Draft,
    jobs: usize,
) -> Result<(Simulation, String), Failure> {
    let cancelled = interrupt::watch();
    let progress = Progress::new();
    let update = |done, total| progress.update(done, total);
    let options = Options::new(jobs, cancelled, &update);
    let result = inspected::simulate(connection, &draft, &options);
    let wall = progress.finish();
    let (mut simulation, scenario) = result?;
    simulation.comparison.performance.wall_s = wall.as_secs_f64();
    let text = anabranch_show::compare::text(&scenario, &simulation.comparison, false);
    Ok((simulation, text))
}
