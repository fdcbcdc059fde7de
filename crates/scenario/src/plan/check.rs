//! Checks of a plan before its first point is simulated.

use super::{MOST_CHECKED, Plan, Point};
use crate::read::Document;
use crate::text::source::ScenarioError;

impl Plan {
    /// Checks every point, or of a large plan the first one and one with each value of a list or an end of a range, so that a
    /// wrong value is an error before anything is made.
    ///
    /// # Errors
    /// If a point is not valid, the error of the first such point; or if a dimension or a setting of all points has no effect
    /// because a dimension sets the same value.
    pub fn check(&self) -> Result<(), ScenarioError> {
        self.check_points()?;
        self.check_effects()?;
        self.check_settings()
    }

    fn check_points(&self) -> Result<(), ScenarioError> {
        let first = self.point(0);
        // The files that a scenario names are read for each point.
        let is_quick = self.scenario(&first)?.files.len() <= 1;
        if is_quick && self.points() <= MOST_CHECKED {
            return (1..self.points()).try_for_each(|number| self.scenario(&self.point(number)).map(drop));
        }
        for (at, dimension) in self.space.dimensions.iter().enumerate() {
            for value in dimension.values.ends() {
                let mut values = first.values.clone();
                values[at] = value;
                self.scenario(&Point { number: 0, values })?;
            }
        }
        Ok(())
    }

    /// A path has a number and a name, so that two keys may set one value. Only the last of them would have an effect.
    fn check_effects(&self) -> Result<(), ScenarioError> {
        let dimensions = &self.space.dimensions;
        let values = self.point(0).values;
        // True if dimension number `at` changes the scenario without dimension number `other`.
        let changes = |at: usize, other: Option<usize>| -> Result<bool, ScenarioError> {
            let hash = |value: &str| {
                let mut values: Vec<Option<&str>> = values.iter().map(|value| Some(&**value)).collect();
                values[at] = Some(value);
                if let Some(other) = other {
                    values[other] = None;
                }
                Ok(self.scenario_of(0, values)?.hash())
            };
            let ends = dimensions[at].values.ends();
            match ends.as_slice() {
                [first, .., last] => Ok(hash(first)? != hash(last)?),
                _ => Ok(true),
            }
        };
        for at in 0..dimensions.len() {
            if changes(at, None)? {
                continue;
            }
            for other in (0..dimensions.len()).filter(|other| *other != at) {
                if changes(at, Some(other)).unwrap_or(false) {
                    let names = [at, other].map(|at| dimensions[at].keys.join(", "));
                    let text = format!("`{}` has no effect, as `{}` sets the same value", names[0], names[1]);
                    let mut error = ScenarioError::new(text);
                    error.help = Some("leave out one of the two".to_owned());
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// A dimension hides a setting of all points if the setting changes the scenario only without the dimension.
    fn check_settings(&self) -> Result<(), ScenarioError> {
        let first = self.point(0).values;
        let first: Vec<Option<&str>> = first.iter().map(|value| Some(&**value)).collect();
        for at in self.inherited..self.document.overrides() {
            let without = self.document.without(at);
            let changes = |values: &[Option<&str>]| {
                let hash = |document: &Document| {
                    let scenario = self.scenario_in(document.clone(), 0, values.iter().copied());
                    scenario.ok().map(|scenario| scenario.hash())
                };
                hash(&self.document) != hash(&without)
            };
            if changes(&first) {
                continue;
            }
            for (other, dimension) in self.space.dimensions.iter().enumerate() {
                let changes_at = |value: Option<&str>| {
                    let mut values = first.clone();
                    values[other] = value;
                    changes(&values)
                };
                if changes_at(None) && !dimension.values.ends().iter().any(|value| changes_at(Some(value))) {
                    let (setting, key) = (self.document.override_name(at), dimension.keys.join(", "));
                    let text = format!("`{setting}` has no effect, as `{key}` varies the same value");
                    let mut error = ScenarioError::new(text);
                    error.help = Some("leave out one of the two".to_owned());
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}
