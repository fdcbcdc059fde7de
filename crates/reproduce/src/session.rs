//! A reproduction from a request to verdicts: the choice of claims, the journal and the files of its directory, and the
//! verdicts that differ from the recorded ones.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anabranch_lab::whole_file;
use serde::Serialize;

use crate::claims::{Claim, Paper};
use crate::figure::Drawn;
use crate::finding::{self, Finding};
use crate::journal::Journal;
use crate::measure::Measurement;
use crate::parts::Part;
use crate::recorded::{self, Recorded};
use crate::reproduce::{self, Options, ReproduceError, Results, Task};
use crate::{Status, html, library};

/// The claims that are judged, and how. With the feature `clap` these are the options of a command.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct Request {
    /// The paper: dmptcp, cp, stms or coupled; all of them unless given
    pub paper: Option<String>,
    /// Judge the paper in DIR (claims.toml, figures.toml and scenarios) instead of the built-in ones
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIR", conflicts_with_all = ["paper", "list"]))]
    pub from: Option<PathBuf>,
    /// Only claims on this figure, such as 14a
    #[cfg_attr(feature = "clap", arg(long, value_name = "ID"))]
    pub figure: Option<String>,
    /// Only claims on this table
    #[cfg_attr(feature = "clap", arg(long, value_name = "ID", conflicts_with = "figure"))]
    pub table: Option<String>,
    /// Only this claim, such as D18
    #[cfg_attr(feature = "clap", arg(long, value_name = "ID", value_delimiter = ','))]
    pub claim: Vec<String>,
    /// Fewer runs of the claims that are most likely to change with the stack; exit code 1 if a verdict changes
    #[cfg_attr(feature = "clap", arg(long))]
    pub quick: bool,
    /// Every claim with all of its runs and variants
    #[cfg_attr(feature = "clap", arg(long, conflicts_with = "quick"))]
    pub full: bool,
    /// Every claim that is recorded as holding, plainly or as a variant, such as with another --seed; exit code 1 if
    /// a verdict changes
    #[cfg_attr(feature = "clap", arg(long, conflicts_with_all = ["quick", "full", "list", "from"]))]
    pub holding: bool,
    /// Try no variants of claims that do not hold
    #[cfg_attr(feature = "clap", arg(long))]
    pub plain: bool,
    /// The directory of the journal, the results and the report; an interrupted reproduction continues there
    #[cfg_attr(feature = "clap", arg(long, short = 'o', value_name = "DIR"))]
    pub out: Option<PathBuf>,
    /// Use measurements in DIR that another build of this program has made
    #[cfg_attr(feature = "clap", arg(long, requires = "out"))]
    pub any_build: bool,
    /// Simulate nothing: show the verdicts in DIR, or those recorded with this version
    #[cfg_attr(feature = "clap", arg(long, conflicts_with_all = ["quick", "full", "seed"]))]
    pub list: bool,
    /// The seed of all scenarios; a command reads it itself
    #[cfg_attr(feature = "clap", arg(skip))]
    pub seed: Option<u64>,
    /// The number of threads; a command reads it itself
    #[cfg_attr(feature = "clap", arg(skip))]
    pub jobs: usize,
}

/// The reason that there are no verdicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// The request fits no claim.
    Usage(String),
    /// A measurement or a file failed.
    Failed(String),
    /// The caller has stopped it.
    Interrupted,
}

impl core::fmt::Display for SessionError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            SessionError::Usage(text) | SessionError::Failed(text) => f.write_str(text),
            SessionError::Interrupted => f.write_str("interrupted; there is no result"),
        }
    }
}

impl std::error::Error for SessionError {}

/// A claim as `--json` prints it.
#[derive(Serialize)]
pub struct Row<'a> {
    id: &'a str,
    paper: &'a str,
    figure: &'a str,
    kind: &'a str,
    claim: &'a str,
    status: Status,
    evidence: &'a str,
    #[serde(skip_serializing_if = "<[Part]>::is_empty")]
    parts: &'a [Part],
}

impl<'a> From<&'a Finding> for Row<'a> {
    fn from(finding: &'a Finding) -> Row<'a> {
        let Finding { id, paper, figure, kind, claim, status, evidence, parts, .. } = finding;
        Row { id, paper, figure, kind, claim, status: *status, evidence, parts }
    }
}

/// The observer of a reproduction.
pub struct Watch<'a> {
    /// Set to stop.
    pub cancelled: &'a AtomicBool,
    /// Called after each measurement.
    pub progress: &'a dyn Fn(reproduce::Progress),
    /// Called with remarks on the directory.
    pub remark: &'a dyn Fn(core::fmt::Arguments<'_>),
}

/// The verdicts.
pub struct Judged {
    /// The papers that were read.
    pub papers: Vec<Paper>,
    /// The results of the chosen claims.
    pub findings: Vec<Finding>,
    /// With `quick` and `holding`: the verdicts that differ from the recorded ones, in words.
    pub changed: Option<String>,
}

/// A reproduction with measurements that may be made elsewhere.
pub struct Reproducing {
    request: Request,
    papers: Vec<Paper>,
    before: Recorded,
    build: String,
    /// None if the verdicts are only looked up.
    journal: Option<Journal>,
}

impl Reproducing {
    /// Reads the papers, and opens the journal of the program that was built from `commit`, if that is known.
    ///
    /// # Errors
    /// If the request fits no claim, or a file cannot be read or written.
    pub fn open(
        request: Request,
        commit: Option<&str>,
        remark: &dyn Fn(core::fmt::Arguments<'_>),
    ) -> Result<Reproducing, SessionError> {
        let failed = |error: &dyn core::fmt::Display| SessionError::Failed(error.to_string());
        let papers = papers(&request)?;
        check(&request, &papers)?;
        let before = match request.from {
            Some(_) => Recorded::default(),
            None => recorded::recorded().map_err(|error| failed(&error))?,
        };
        let build = built_from(commit);
        let chosen = request.figure.is_some() || request.table.is_some() || !request.claim.is_empty();
        let all = request.quick || request.full || request.holding || request.from.is_some();
        if request.list || !(chosen || all) {
            return Ok(Reproducing { request, papers, before, build, journal: None });
        }
        let is_any =
            |paper: &Paper| paper.claims.iter().any(|claim| is_judged(&request, &before, paper, claim));
        if request.holding && !papers.iter().any(is_any) {
            return Err(SessionError::Usage(
                "none of these claims is recorded as holding by its runs".to_owned(),
            ));
        }
        let journal = match &request.out {
            None => Journal::in_memory(),
            Some(directory) => {
                std::fs::create_dir_all(directory).map_err(|error| {
                    SessionError::Failed(format!("cannot make {}: {error}", directory.display()))
                })?;
                Journal::open(&directory.join("journal.ndjson"), &build, request.any_build)
                    .map_err(|error| failed(&error))?
            }
        };
        if journal.foreign() > 0 {
            remark(format_args!(
                "{} measurements of another build are repeated; --any-build uses them",
                journal.foreign()
            ));
        }
        Ok(Reproducing { request, papers, before, build, journal: Some(journal) })
    }

    /// Returns the measurements that the journal lacks for the next pass over the claims; none if it has all.
    ///
    /// # Errors
    /// If a claim cannot be read.
    pub fn needed(&mut self) -> Result<Vec<Task>, SessionError> {
        let Reproducing { request, papers, before, journal, .. } = self;
        let Some(journal) = journal else { return Ok(Vec::new()) };
        let go = AtomicBool::new(false);
        let options = options(request, before, &go, &|_| ());
        reproduce::needed(papers, &|paper, claim| is_judged(request, before, paper, claim), journal, &options)
            .map_err(|error| SessionError::Failed(error.to_string()))
    }

    /// Adds a measurement to the journal.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, measurement: Measurement) -> Result<(), SessionError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.add(measurement).map_err(|error| SessionError::Failed(error.to_string()))
    }

    /// Makes the measurements that the journal lacks, and judges the claims.
    ///
    /// # Errors
    /// If a measurement fails or is interrupted, or a file cannot be read or written.
    pub fn finish(self, watch: &Watch<'_>) -> Result<Judged, SessionError> {
        let Reproducing { request, papers, before, build, journal } = self;
        let selected = |paper: &Paper, claim: &Claim| is_selected(&request, paper, claim);
        let Some(mut journal) = journal else {
            let recorded = match (&request.out, request.list) {
                (Some(directory), true) => read(&directory.join("results.json"))?,
                _ => before,
            };
            let findings = listed(&papers, &selected, &recorded.findings);
            return Ok(Judged { papers, findings, changed: None });
        };
        let options = options(&request, &before, watch.cancelled, watch.progress);
        let wanted = |paper: &Paper, claim: &Claim| is_judged(&request, &before, paper, claim);
        let result = reproduce::reproduce(&papers, &wanted, &mut journal, &options);
        let Results { findings, figures } = result.map_err(|error| match error {
            ReproduceError::Cancelled => {
                if let Some(directory) = &request.out {
                    (watch.remark)(format_args!("the same command goes on from {}", directory.display()));
                }
                SessionError::Interrupted
            }
            error => SessionError::Failed(error.to_string()),
        })?;
        if let Some(directory) = &request.out {
            let others = others(directory, &build, request.seed, &findings)?;
            let all = [findings.clone(), others.findings].concat();
            let figures = ordered(&papers, [figures, others.figures].concat());
            let all = listed(&papers, &|_, _| true, &all);
            write(directory, &papers, &Recorded { build, seed: request.seed, findings: all, figures })?;
            (watch.remark)(format_args!("results and report.html in {}", directory.display()));
        }
        let changed = match (request.quick, request.holding && !request.plain) {
            (false, false) => None,
            (_, true) => changed(&findings, &before.findings, whole_verdict),
            (_, false) => changed(&findings, &before.findings, plain_verdict),
        };
        Ok(Judged { papers, findings, changed })
    }
}

/// Returns the options of a reproduction; `before` has the recorded verdicts.
fn options<'a>(
    request: &Request,
    before: &'a Recorded,
    cancelled: &'a AtomicBool,
    progress: &'a dyn Fn(reproduce::Progress),
) -> Options<'a> {
    Options {
        quick: request.quick,
        variants: !(request.quick || request.plain),
        seed: request.seed,
        jobs: request.jobs,
        cancelled,
        figures: request.out.is_some() && !request.quick && !request.holding,
        expected: &before.findings,
        progress,
    }
}

/// True if a claim is to be judged; `before` has the recorded verdicts.
fn is_judged(request: &Request, before: &Recorded, paper: &Paper, claim: &Claim) -> bool {
    is_selected(request, paper, claim)
        && (!request.quick || claim.quick)
        && (!request.holding || holds(claim, &before.findings))
}

/// Reads the built-in papers, or the paper of [`Request::from`].
///
/// # Errors
/// If it cannot be read.
pub fn papers(request: &Request) -> Result<Vec<Paper>, SessionError> {
    let papers = match &request.from {
        Some(directory) => library::open(directory).map(|paper| vec![paper]),
        None => library::papers(),
    };
    papers.map_err(|error| SessionError::Failed(error.to_string()))
}

/// Checks that a claim fits the request.
///
/// # Errors
/// If none does.
pub fn check(request: &Request, papers: &[Paper]) -> Result<(), SessionError> {
    if let Some(name) = &request.paper
        && !papers.iter().any(|paper| paper.id == *name)
    {
        let names: Vec<&str> = library::names().collect();
        return Err(SessionError::Usage(format!(
            "there is no paper `{name}`; there are {}",
            names.join(", ")
        )));
    }
    let fits = |paper: &Paper| paper.claims.iter().any(|claim| is_selected(request, paper, claim));
    for id in &request.claim {
        if !papers.iter().any(|paper| paper.claim(id).is_some()) {
            return Err(SessionError::Usage(format!(
                "there is no claim `{id}`; `anabranch reproduce --list` shows them"
            )));
        }
    }
    if !papers.iter().any(fits) {
        return Err(SessionError::Usage(
            "no claim fits; `anabranch reproduce --list` shows them all".to_owned(),
        ));
    }
    Ok(())
}

/// True if the request chooses this claim, before any record is read.
pub fn is_selected(request: &Request, paper: &Paper, claim: &Claim) -> bool {
    let paper_fits = request.paper.as_ref().is_none_or(|name| *name == paper.id);
    let id_fits =
        request.claim.is_empty() || request.claim.iter().any(|id| id.eq_ignore_ascii_case(&claim.id));
    let of = |kind: &str, number: &Option<String>| {
        number.as_ref().is_none_or(|number| names(&claim.figure, kind, number))
    };
    paper_fits && id_fits && of("Figure", &request.figure) && of("Table", &request.table)
}

/// True if `figure`, such as `Figures 12a and 12b` or `Table 5, Figure 31`, names this figure or table.
fn names(figure: &str, kind: &str, number: &str) -> bool {
    let number = number.to_ascii_lowercase();
    let mut current = "";
    figure.split([' ', ',', ';']).filter(|word| !word.is_empty()).any(|word| {
        if word.starts_with(char::is_alphabetic) && word != "and" {
            current = word.trim_end_matches('s');
            return false;
        }
        let word = word.to_ascii_lowercase();
        current == kind && (word == number || word.trim_end_matches(char::is_alphabetic) == number)
    })
}

/// Returns the findings of the selected claims, of those without one that there is none.
fn listed(papers: &[Paper], selected: &dyn Fn(&Paper, &Claim) -> bool, recorded: &[Finding]) -> Vec<Finding> {
    let all = papers.iter().flat_map(|paper| paper.claims.iter().map(move |claim| (paper, claim)));
    all.filter(|(paper, claim)| selected(paper, claim))
        .map(|(paper, claim)| {
            let now = Finding::of(paper, claim);
            let known = recorded.iter().find(|finding| finding.id == claim.id);
            match known.filter(|_| now.status == Status::NotRun) {
                // The words come from the claims as they are now.
                Some(known) => Finding {
                    status: known.status,
                    evidence: known.evidence.clone(),
                    checks: known.checks.clone(),
                    variants: known.variants.clone(),
                    parts: known.parts.clone(),
                    build: known.build.clone(),
                    ..now
                },
                None => now,
            }
        })
        .collect()
}

/// True if runs decide a claim, and it is recorded as holding, plainly or as a variant.
fn holds(claim: &Claim, recorded: &[Finding]) -> bool {
    let is_held = |finding: &Finding| matches!(finding.status, Status::Holds | Status::Variant);
    !claim.checks.is_empty() && recorded.iter().any(|known| known.id == claim.id && is_held(known))
}

/// Returns the verdict of a claim without its variants.
fn plain_verdict(finding: &Finding) -> Status {
    finding::status(&finding.checks)
}

/// Returns the verdict of a claim.
fn whole_verdict(finding: &Finding) -> Status {
    finding.status
}

/// Returns the verdicts that differ from the recorded ones, in words.
fn changed(findings: &[Finding], recorded: &[Finding], verdict: fn(&Finding) -> Status) -> Option<String> {
    let change = |now: &&Finding| {
        let known = recorded.iter().find(|known| known.id == now.id && !known.checks.is_empty())?;
        (verdict(known) != verdict(now))
            .then(|| format!("{} {}, recorded: {}", now.id, verdict(now).name(), verdict(known).name()))
    };
    let changes: Vec<String> =
        findings.iter().filter(|finding| !finding.checks.is_empty()).filter_map(|now| change(&now)).collect();
    (!changes.is_empty()).then(|| format!("verdicts have changed: {}", changes.join("; ")))
}

/// Returns the name of a build in a journal.
fn built_from(commit: Option<&str>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    commit.map_or_else(|| version.to_owned(), |commit| format!("{version} {commit}"))
}

/// Returns the results in `directory` of claims that are not among `findings`, with the same seed.
fn others(
    directory: &Path,
    build: &str,
    seed: Option<u64>,
    findings: &[Finding],
) -> Result<Recorded, SessionError> {
    let path = directory.join("results.json");
    if !path.exists() {
        return Ok(Recorded::default());
    }
    let mut before = read(&path)?;
    let recorded_by = if before.build == build { String::new() } else { before.build.clone() };
    let is_other = |id: &str| before.seed == seed && findings.iter().all(|now| now.id != id);
    before.findings.retain(|other| is_other(&other.id));
    before.figures.retain(|other| is_other(&other.claim));
    // The new record has the build of this program, and these rows are of theirs.
    for other in before.findings.iter_mut().filter(|other| other.build.is_empty() && !other.checks.is_empty())
    {
        other.build.clone_from(&recorded_by);
    }
    Ok(before)
}

/// Sorts figures in the order of the papers; those that are no longer there are dropped.
fn ordered(papers: &[Paper], mut figures: Vec<Drawn>) -> Vec<Drawn> {
    let mut sorted = Vec::with_capacity(figures.len());
    for figure in papers.iter().flat_map(|paper| &paper.figures) {
        let same = |drawn: &Drawn| drawn.claim == figure.claim && drawn.figure.panel == figure.panel;
        if let Some(at) = figures.iter().position(same) {
            sorted.push(figures.remove(at));
        }
    }
    sorted
}

fn read(path: &Path) -> Result<Recorded, SessionError> {
    let failed =
        |error: &dyn core::fmt::Display| SessionError::Failed(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    serde_json::from_str(&text).map_err(|error| failed(&error))
}

fn write(directory: &Path, papers: &[Paper], results: &Recorded) -> Result<(), SessionError> {
    let put = |name: &str, text: String| {
        let path = directory.join(name);
        whole_file::write(&path, text)
            .map_err(|error| SessionError::Failed(format!("cannot write {}: {error}", path.display())))
    };
    let json =
        results.to_json().map_err(|error| SessionError::Failed(format!("cannot write JSON: {error}")))?;
    put("results.json", json)?;
    put("report.html", html::report(papers, results))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_that_of_the_whole_verdict_or_of_the_plain_one() {
        let all = recorded::recorded().unwrap().findings;
        let known = all.into_iter().find(|finding| finding.status == Status::Variant).unwrap();
        let now = [Finding { status: Status::Fails, ..known.clone() }];
        let known = [known];
        assert_eq!(changed(&known, &known, whole_verdict), None);
        let words = changed(&now, &known, whole_verdict).unwrap();
        assert!(words.contains(&format!("{} fails, recorded: variant", known[0].id)), "{words}");
        // Its checks are the same.
        assert_eq!(changed(&now, &known, plain_verdict), None);
    }

    /// A directory with a record of another build: rows that are judged again are of this one, the others keep theirs.
    #[test]
    fn rows_of_an_earlier_record_keep_the_build_that_judged_them() {
        let mut record = recorded::recorded().unwrap();
        "0.0.1 earlier".clone_into(&mut record.build);
        let simulated = |finding: &&Finding| !finding.checks.is_empty();
        let has_figure = |finding: &&Finding| record.figures.iter().any(|figure| figure.claim == finding.id);
        let again = record.findings.iter().filter(simulated).find(has_figure).unwrap().clone();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("results.json"), record.to_json().unwrap()).unwrap();
        let others = others(directory.path(), "0.1.0", record.seed, core::slice::from_ref(&again)).unwrap();
        // The figures of a row are drawn again with it.
        assert!(others.figures.iter().all(|figure| figure.claim != again.id) && !others.figures.is_empty());
        let kept = others.findings;
        assert!(kept.iter().all(|finding| finding.id != again.id));
        let own = kept.iter().filter(simulated).filter(|finding| finding.build.is_empty()).count();
        assert_eq!(own, 0, "rows without the build that judged them");
        assert!(kept.iter().filter(simulated).any(|finding| finding.build == "0.0.1 earlier"));
        // Another seed has other rows.
        assert!(super::others(directory.path(), "0.1.0", Some(9), &[again]).unwrap().findings.is_empty());
    }

    #[test]
    fn rows_that_runs_decide_and_that_hold_are_repeated() {
        let recorded = recorded::recorded().unwrap().findings;
        let mut count = 0;
        for claim in library::papers().unwrap().iter().flat_map(|paper| &paper.claims) {
            let known = recorded.iter().find(|known| known.id == claim.id).unwrap();
            let is_held = matches!(known.status, Status::Holds | Status::Variant) && known.kind == "scenario";
            assert_eq!(holds(claim, &recorded), is_held, "{}", claim.id);
            count += usize::from(is_held);
        }
        assert!(count > 0);
    }

    #[test]
    fn a_figure_is_found_with_and_without_its_letter() {
        assert!(names("Figure 14a", "Figure", "14a"));
        assert!(names("Figure 14a", "Figure", "14A"));
        assert!(names("Figure 14a", "Figure", "14"));
        assert!(!names("Figure 14a", "Figure", "14b"));
        assert!(!names("Figure 14a", "Figure", "4"));
        assert!(names("Figures 12a and 12b", "Figure", "12b"));
        assert!(names("Table 5, Figure 31", "Figure", "31") && names("Table 5, Figure 31", "Table", "5"));
        assert!(!names("Table 5, Figure 31", "Figure", "5"));
    }
}
