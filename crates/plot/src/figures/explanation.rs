//! The figure of an explanation, from the object of `anabranch explain --json`.

use anabranch_lab::explain::Row;
use anabranch_lab::output::report::ShownExplanation;

use super::recording::{path_name, stack};
use super::{Contenders, conditions};
use crate::chart::{Axis, Chart, Key, Panel, Sample, Unit};
use crate::{PlotError, Selection, style};

pub(super) fn chart(shown: &ShownExplanation, selection: &Selection) -> Result<Chart, PlotError> {
    let rows = &shown.explanation.rows;
    let contenders = Contenders::new(rows.iter().map(|row| row.of.scheduler.as_str()), selection)?;
    let conditions = conditions(rows.iter().map(|row| row.of.condition.as_str()), selection)?;
    let mut used = [false; 16];
    let mut panels = Vec::new();
    for condition in &conditions {
        let own = |row: &&Row| row.of.condition == *condition && row.mean_s.is_some();
        let mut shown: Vec<&Row> = rows.iter().filter(own).collect();
        shown.retain(|row| contenders.place(&row.of.scheduler).is_some());
        shown.sort_by_key(|row| contenders.place(&row.of.scheduler));
        let mut marks = Vec::new();
        for (at, row) in shown.iter().enumerate() {
            for (cause, _) in row.parts.iter().enumerate().filter(|(_, part)| part.mean_s > 0.0) {
                used[cause.min(15)] = true;
            }
            marks.extend(stack(
                at,
                row.parts.iter().enumerate().map(|(at, part)| (style::cause(at), part.mean_s)),
            ));
        }
        let x = Axis::up_to("Mean time of a flow", Unit::Seconds, shown.iter().filter_map(|row| row.mean_s));
        let label = |row: &&Row| {
            let path = row.of.path.as_ref().map(|path| path_name(path));
            path.map_or(row.of.scheduler.clone(), |path| format!("{} ({path})", row.of.scheduler))
        };
        let y = Axis::names(shown.iter().map(label).collect());
        let title = if conditions.len() > 1 { condition.clone() } else { String::new() };
        if !shown.is_empty() {
            panels.push(Panel { title, x, y, marks });
        }
    }
    let causes = rows.first().map_or(&[][..], |row| &row.parts);
    let keys = causes.iter().enumerate().filter(|(at, _)| used[(*at).min(15)]).map(|(at, part)| Key {
        text: part.cause.name().to_owned(),
        sample: Sample::Area(style::cause(at).to_owned()),
    });
    Ok(Chart { panels, keys: keys.collect(), warning: None })
}
