//! Plans: a scenario, and the values that its keys take.

mod check;
mod design;
mod values;

use core::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::design::Design;
pub(crate) use self::values::RANGE;
pub use self::values::{Dimension, Values};
use self::values::{flatten, leaves, toml};
use crate::library;
use crate::model::Scenario;
use crate::read::Document;
use crate::read::files::{MOST_BYTES, read_file, reason};
use crate::read::scenario;
use crate::text::keys::{Keys, rows};
use crate::text::reader::Reader;
use crate::text::source::{Problem, ScenarioError, Source, Span};
use crate::text::tree::{Node, Table};

rows! {
    ROWS, KEYS {
        "scenario": Text, "a built-in scenario, or a file relative to the plan";
        "description": Text, "the purpose";
        "design": Named(designs), "the choice of points; default `grid`";
        "points": Whole(1, MOST_POINTS as i64), "number of points; not of a grid";
        "seed": Whole(0, i64::MAX), "seed of the points; default 1";
        "runs": Whole(1, u32::MAX as i64), "runs of each contender at each point; default the scenario's";
        "set": Derived(Derived::Settings), "values of all points, by the keys of the scenario";
        "vary": Derived(Derived::Varied), "the keys that vary, each with a list or a range";
        "stop": Table(&STOP), "repeats a point until its intervals are narrow";
        "other-starts": Bool, "whether starts on other paths are measured; default false";
    }
}
/// A plan; its scenario may be given apart from it.
pub(crate) const TABLE: Keys = Keys::new("plan", &[ROWS]).requires(&["vary"]);

rows! {
    STOP_ROWS, STOP_KEYS {
        "half-width": Probability, "half width of the 95 % intervals of the differences, relative";
        "most-runs": Whole(2, u32::MAX as i64), "greatest number of runs; default 1000";
    }
}
const STOP: Keys = Keys::new("stop", &[STOP_ROWS]).requires(&["half-width"]);

fn designs() -> Vec<&'static str> {
    Design::ALL.map(Design::name).to_vec()
}

/// More points than this are a mistake.
const MOST_POINTS: usize = 10_000_000;
const DEFAULT_MOST_RUNS: u32 = 1000;

/// The number of points that are all checked when a plan is read: it takes a fraction of a millisecond for each.
const MOST_CHECKED: usize = 1000;

/// True if the file `path` is TOML with a key of a scenario or of a plan; its values need not be valid.
pub fn is_scenario_or_plan(path: &Path) -> bool {
    let table = read_file(path, MOST_BYTES).ok().and_then(|text| Table::parse(&text, 0).ok());
    let is_known = |key: &str| scenario::KEYS.contains(&key) || KEYS.contains(&key);
    table.is_some_and(|table| table.entries.iter().any(|entry| is_known(&entry.key)))
}

/// A valid plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The file, as errors name it.
    name: String,
    text: String,
    /// The scenario, with the values common to all points.
    document: Document,
    /// The number of overrides that the scenario had before the plan added its own.
    inherited: usize,
    space: Space,
    runs: Option<u32>,
    stop: Option<Stop>,
    other_starts: bool,
    amendment: Option<Amendment>,
}

/// A change of the scenario of every point that no key of a file expresses.
#[derive(Clone)]
struct Amendment(Arc<dyn Fn(&mut Scenario) + Send + Sync>);

impl fmt::Debug for Amendment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Amendment")
    }
}

/// The points of a plan, without its scenario.
#[derive(Clone, Debug)]
pub struct Space {
    dimensions: Vec<Dimension>,
    design: Design,
    points: usize,
    /// By dimension and point; none for a grid.
    coordinates: Vec<Vec<f64>>,
}

/// The stopping rule of a point: its runs are doubled until the intervals of the differences from the
/// reference are narrow enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stop {
    /// The half width of the 95 % intervals, in percent.
    pub half_width_pct: f64,
    /// The greatest number of runs.
    pub most_runs: u32,
}

/// A point of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its number, from 0.
    pub number: usize,
    /// The value of each dimension, as it is written in TOML.
    pub values: Vec<String>,
}

impl Plan {
    /// Reads the plan in the file `path`.
    ///
    /// # Errors
    /// If the file cannot be read, or the plan or its scenario is not valid.
    pub fn open(path: &Path) -> Result<Plan, ScenarioError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            ScenarioError::new(format!("cannot read the plan `{name}`: {}", reason(&error)))
        })?;
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        Plan::parse(name, text, directory)
    }

    /// Reads the plan `text`, called `name` in errors; the file of its scenario is relative to `directory`.
    ///
    /// # Errors
    /// If the plan or its scenario is not valid.
    pub fn parse(
        name: impl Into<String>,
        text: impl Into<String>,
        directory: impl Into<PathBuf>,
    ) -> Result<Plan, ScenarioError> {
        Plan::with_scenario(name.into(), text.into(), |reader, locate| {
            let scenario = reader
                .required("scenario", "\"two-paths\"", |node| node.string().map(str::to_owned))
                .map_err(locate)?;
            match library::find(&scenario) {
                Some(_) => Document::open(&scenario),
                None => {
                    let path = directory.into().join(&scenario);
                    Document::open(path.to_str().unwrap_or(&scenario))
                }
            }
        })
    }

    /// Reads the plan `text`, called `name` in errors, for the scenario of `document`; it names none itself.
    ///
    /// # Errors
    /// If the plan or its scenario is not valid.
    pub fn of_document(
        name: impl Into<String>,
        text: impl Into<String>,
        document: Document,
    ) -> Result<Plan, ScenarioError> {
        Plan::with_scenario(name.into(), text.into(), |reader, locate| match reader.get("scenario") {
            None => Ok(document),
            Some(node) => {
                let problem = Problem::at(&node.span, "the scenario of this plan is given apart from it");
                Err(locate(problem.help("leave out `scenario`")))
            }
        })
    }

    fn with_scenario(
        name: String,
        text: String,
        scenario: impl FnOnce(&Reader<'_>, &dyn Fn(Problem) -> ScenarioError) -> Result<Document, ScenarioError>,
    ) -> Result<Plan, ScenarioError> {
        let sources = [Source { name: name.clone(), text: text.clone() }];
        let locate = |problem: Problem| problem.locate(&sources);
        let table = Table::parse(&text, 0).map_err(locate)?;
        let end = Span { source: 0, range: text.len()..text.len() };
        let reader = Reader::new(&table, &end, "the plan", KEYS).map_err(locate)?;
        let mut document = scenario(&reader, &locate)?;
        let inherited = document.overrides();
        for (key, value) in settings(&reader, &text).map_err(locate)? {
            document.set_from(&name, &format!("{key}={value}"))?;
        }
        let mut plan = Plan::read(&reader, name, &text, document).map_err(locate)?;
        plan.inherited = inherited;
        // Reports an error in a key or a unit immediately.
        plan.scenario(&plan.point(0))?;
        Ok(plan)
    }

    fn read(reader: &Reader<'_>, name: String, text: &str, document: Document) -> Result<Plan, Problem> {
        let space = Space::read(reader, text)?;
        let runs = reader.optional("runs", |node| node.integer(1, u32::MAX.into()))?.map(|runs| runs as u32);
        let other_starts = reader.optional("other-starts", Node::boolean)?.unwrap_or(false);
        let stop = reader.optional("stop", stop)?;
        Ok(Plan {
            name,
            text: text.to_owned(),
            inherited: document.overrides(),
            document,
            space,
            runs,
            stop,
            other_starts,
            amendment: None,
        })
    }

    /// Returns the text of the plan.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the way in which points are chosen.
    pub fn design(&self) -> Design {
        self.space.design
    }

    /// Returns the number of points, at least 1.
    pub fn points(&self) -> usize {
        self.space.points
    }

    /// Returns the swept keys, in the order of the plan.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.space.dimensions
    }

    /// Returns the stopping rule; none if the number of runs is fixed.
    pub fn stop(&self) -> Option<Stop> {
        self.stop
    }

    /// Sets a value at every point, as `--set` of a comparison does.
    ///
    /// # Errors
    /// If `assignment` is not KEY=VALUE.
    pub fn set(&mut self, assignment: &str) -> Result<(), ScenarioError> {
        self.document.set(assignment)
    }

    /// Replaces the value at `key` of the scenario of every point by `value`, given by the option `option`.
    pub fn set_option(&mut self, option: &str, key: &str, value: &str) {
        self.document.set_option(option, key, value);
    }

    /// Sets the number of runs at each point, or of the first attempt, instead of the plan's.
    pub fn set_runs(&mut self, runs: u32) {
        self.runs = Some(runs);
    }

    /// Changes the scenario of every point by `amend`, for contenders that are not built in. The text and the identity of
    /// the plan stay the same.
    pub fn set_amendment(&mut self, amend: impl Fn(&mut Scenario) + Send + Sync + 'static) {
        self.amendment = Some(Amendment(Arc::new(amend)));
    }

    /// Returns point number `number`.
    ///
    /// # Panics
    /// If there is no such point.
    pub fn point(&self, number: usize) -> Point {
        self.space.point(number)
    }

    /// Returns the scenario at `point`.
    ///
    /// # Errors
    /// If the scenario is not valid with the values of this point.
    pub fn scenario(&self, point: &Point) -> Result<Scenario, ScenarioError> {
        self.scenario_of(point.number, point.values.iter().map(|value| Some(&**value)))
    }

    /// Returns the scenario with these values; a dimension without one has the scenario's value.
    fn scenario_of<'a>(
        &self,
        number: usize,
        values: impl IntoIterator<Item = Option<&'a str>>,
    ) -> Result<Scenario, ScenarioError> {
        self.scenario_in(self.document.clone(), number, values)
    }

    /// Returns the same for `document` in place of the plan's.
    fn scenario_in<'a>(
        &self,
        mut document: Document,
        number: usize,
        values: impl IntoIterator<Item = Option<&'a str>>,
    ) -> Result<Scenario, ScenarioError> {
        let source = format!("{}, point {number}", self.name);
        for (dimension, value) in self.space.dimensions.iter().zip(values) {
            let Some(value) = value else { continue };
            for key in &dimension.keys {
                document.set_from(&source, &format!("{key}={value}"))?;
            }
        }
        if let Some(runs) = self.runs {
            document.set_option("runs", "runs", &runs.to_string());
        }
        let mut scenario = document.scenario()?;
        scenario.other_starts &= self.other_starts;
        if let Some(Amendment(amend)) = &self.amendment {
            amend(&mut scenario);
        }
        Ok(scenario)
    }
}

impl Space {
    /// Reads the points of the plan `text`, called `name` in errors, without its scenario.
    ///
    /// # Errors
    /// If `text` is not a plan.
    pub fn parse(name: impl Into<String>, text: &str) -> Result<Space, ScenarioError> {
        let sources = [Source { name: name.into(), text: text.to_owned() }];
        let locate = |problem: Problem| problem.locate(&sources);
        let table = Table::parse(text, 0).map_err(locate)?;
        let end = Span { source: 0, range: text.len()..text.len() };
        let reader = Reader::new(&table, &end, "the plan", KEYS).map_err(locate)?;
        Space::read(&reader, text).map_err(locate)
    }

    fn read(reader: &Reader<'_>, text: &str) -> Result<Space, Problem> {
        let design = reader.optional("design", |node| node.choice("design", &designs()))?.unwrap_or(0);
        let design = Design::ALL[design];
        let seed = reader.optional("seed", |node| node.integer(0, i64::MAX))?.unwrap_or(1) as u64;
        let vary =
            reader.required("vary", "{ \"path.1.rate\" = [\"5 Mbit/s\", \"20 Mbit/s\"] }", |node| {
                let mut dimensions = Vec::new();
                flatten(node.table("`vary`")?, "", text, design, &mut dimensions)?;
                if dimensions.is_empty() {
                    return Err(Problem::at(&node.span, "`vary` has no key"));
                }
                Ok(dimensions)
            })?;
        let given = reader.optional("points", |node| node.integer(1, MOST_POINTS as i64))?;
        let points = match (design, given) {
            (Design::Grid, None) => vary.iter().try_fold(1_usize, |all, dimension| {
                all.checked_mul(dimension.values.steps()).filter(|all| *all <= MOST_POINTS)
            }),
            (Design::Grid, Some(_)) => {
                return Err(Problem::at(
                    &reader.get("points").map(|node| node.span.clone()).unwrap_or_default(),
                    "a grid has as many points as there are combinations",
                )
                .help("leave out `points`, or choose for example `design = \"sobol\"`"));
            }
            (_, Some(points)) => Some(points as usize),
            (_, None) => {
                return Err(Problem::at(reader.span, format!("design `{}` needs `points`", design.name()))
                    .help("add for example `points = 200`"));
            }
        };
        let Some(points) = points else {
            return Err(Problem::at(reader.span, format!("the grid has more than {MOST_POINTS} points"))
                .help("choose fewer values, or for example `design = \"sobol\"` with `points = 200`"));
        };
        if design == Design::Sobol
            && (points > Design::MOST_SOBOL || vary.len() > Design::MOST_SOBOL_DIMENSIONS)
        {
            return Err(Problem::at(
                reader.span,
                format!(
                    "a Sobol sequence has at most {} points in {} dimensions",
                    Design::MOST_SOBOL,
                    Design::MOST_SOBOL_DIMENSIONS
                ),
            )
            .help("choose `design = \"latin-hypercube\"`"));
        }
        let coordinates = match design {
            Design::Grid => Vec::new(),
            _ => (0..vary.len()).map(|dimension| design.coordinates(points, dimension, seed)).collect(),
        };
        Ok(Space { dimensions: vary, design, points, coordinates })
    }

    /// Returns the way in which points are chosen.
    pub fn design(&self) -> Design {
        self.design
    }

    /// Returns the number of points, at least 1.
    pub fn points(&self) -> usize {
        self.points
    }

    /// Returns the varied dimensions.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// Returns point number `number`.
    ///
    /// # Panics
    /// If there is no such point.
    pub fn point(&self, number: usize) -> Point {
        assert!(number < self.points, "point {number} of {}", self.points);
        let mut rest = number;
        let mut values: Vec<String> = Vec::with_capacity(self.dimensions.len());
        for (at, dimension) in self.dimensions.iter().enumerate().rev() {
            values.push(match self.coordinates.get(at) {
                Some(coordinates) => dimension.values.at(coordinates[number]),
                None => {
                    let steps = dimension.values.steps();
                    let step = rest % steps;
                    rest /= steps;
                    dimension.values.step(step, steps)
                }
            });
        }
        values.reverse();
        Point { number, values }
    }
}

/// Returns the keys of `set` with their values as TOML.
fn settings(reader: &Reader<'_>, text: &str) -> Result<Vec<(String, String)>, Problem> {
    let Some(node) = reader.get("set") else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    leaves(node.table("`set`")?, "", &mut |key, _, node| {
        all.push((key, toml(node, text)));
        Ok(true)
    })?;
    Ok(all)
}

fn stop(node: &Node) -> Result<Stop, Problem> {
    let reader = Reader::of(node, "`stop`", STOP_KEYS)?;
    let half_width = reader.required("half-width", "\"2%\"", |node| {
        let share = node.probability()?;
        if share == 0.0 {
            return Err(Problem::at(&node.span, "no number of runs gives a half width of 0"));
        }
        Ok(share)
    })?;
    let most = reader.optional("most-runs", |node| node.integer(2, u32::MAX.into()))?;
    Ok(Stop {
        half_width_pct: 100.0 * half_width,
        most_runs: most.map_or(DEFAULT_MOST_RUNS, |most| most as u32),
    })
}
