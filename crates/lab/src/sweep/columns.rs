//! The columns of a sweep's table.

use anabranch_measure::{Record, sweep_columns};
use anabranch_table::{Cell, Column, Kind};

use super::{Plan, PointResult};

/// The columns of the table: the point and its values, and then the results of a contender.
pub struct Columns {
    all: Vec<Column>,
    varied: usize,
}

/// The columns after the values of the point and before the measures.
const FIRST: &[(&str, Kind)] = &[
    ("scenario_hash", Kind::Text),
    ("runs", Kind::Integer),
    ("condition", Kind::Text),
    ("scheduler", Kind::Text),
    ("congestion", Kind::Text),
    ("path", Kind::Text),
    ("flows", Kind::Integer),
    ("completed", Kind::Integer),
];

/// Returns the columns after the values of the point.
pub fn result_columns() -> Vec<Column> {
    let first = FIRST.iter().map(|(name, kind)| Column::new(*name, *kind));
    let measured = |of_classes| sweep_columns(of_classes).map(|column| Column::new(column.name, column.kind));
    let traffic = Column::new("traffic", Kind::Text);
    first.chain(measured(false)).chain([traffic]).chain(measured(true)).collect()
}

impl Columns {
    /// Returns the columns of the table of `plan`.
    pub fn new(plan: &Plan) -> Columns {
        let mut all = vec![Column::new("point", Kind::Integer)];
        let results = result_columns();
        let is_result = |name: &str| results.iter().any(|column| column.name == name);
        all.extend(plan.dimensions().iter().map(|dimension| {
            let kind = if dimension.values.unit().is_some() { Kind::Number } else { Kind::Text };
            // Some keys are called as a result: `congestion` is also the control of each contender.
            let name = match dimension.column() {
                name if is_result(&name) => format!("{name} (varied)"),
                name => name,
            };
            Column::new(name, kind)
        }));
        all.extend(results);
        Columns { all, varied: plan.dimensions().len() }
    }

    /// Returns the columns of the varied values.
    pub fn varied(&self) -> &[Column] {
        &self.all[1..=self.varied]
    }

    /// Returns all columns.
    pub fn all(&self) -> &[Column] {
        &self.all
    }

    /// Passes the rows of a point to `each`, with a cell for each column.
    ///
    /// # Errors
    /// That of `each`.
    pub fn rows<E>(
        &self,
        plan: &Plan,
        result: &PointResult,
        mut each: impl FnMut(&[Cell<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let point = plan.point(result.point);
        let values: Vec<Cell<'_>> = plan
            .dimensions()
            .iter()
            .zip(&point.values)
            .map(|(dimension, value)| match dimension.values.number(value) {
                Some(number) => Cell::Number(number),
                None => Cell::Text(value.trim_matches(['"', '\''])),
            })
            .collect();
        for row in &result.rows {
            let mut cells = vec![Cell::Integer(result.point as i64)];
            cells.extend(&values);
            cells.extend(self::result_cells(result, row));
            each(&cells)?;
        }
        Ok(())
    }
}

/// Returns the cells of [`result_columns`].
pub fn result_cells<'a>(result: &'a PointResult, row: &'a Record) -> Vec<Cell<'a>> {
    let measured = |of_classes| sweep_columns(of_classes).map(|column| (column.value)(row));
    let mut cells = vec![
        Cell::Text(&result.scenario_hash),
        Cell::Integer(result.runs.into()),
        Cell::Text(&row.condition),
        Cell::Text(&row.scheduler),
        Cell::Text(&row.congestion),
        row.path.as_deref().into(),
        Cell::Integer(row.n as i64),
        Cell::Integer(row.completed as i64),
    ];
    cells.extend(measured(false));
    cells.push(row.traffic.as_deref().into());
    cells.extend(measured(true));
    cells
}
