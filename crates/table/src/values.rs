//! Rows by columns.

use std::ops::Range;

use crate::{Cell, Column, Kind};

/// The values of a column in several rows, for [`Table::rows`](crate::Table::rows).
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// Whole numbers; [`Values::MISSING`] is no value.
    Integers(&'a [i64]),
    /// Numbers; NaN is no value.
    Numbers(&'a [f64]),
    /// Texts, each by its place in a list; a place after the end of the list is no value.
    Texts(&'a [Box<str>], &'a [u32]),
}

impl<'a> Values<'a> {
    /// The whole number that stands for no value.
    pub const MISSING: i64 = i64::MIN;

    /// Returns the number of rows.
    pub(crate) fn len(self) -> usize {
        match self {
            Values::Integers(values) => values.len(),
            Values::Numbers(values) => values.len(),
            Values::Texts(_, places) => places.len(),
        }
    }

    /// Returns the values of some rows.
    pub(crate) fn part(self, rows: Range<usize>) -> Values<'a> {
        match self {
            Values::Integers(values) => Values::Integers(&values[rows]),
            Values::Numbers(values) => Values::Numbers(&values[rows]),
            Values::Texts(list, places) => Values::Texts(list, &places[rows]),
        }
    }

    /// Returns the value of a row.
    pub(crate) fn cell(self, row: usize) -> Cell<'a> {
        match self {
            Values::Integers(values) if values[row] == Values::MISSING => Cell::Missing,
            Values::Integers(values) => Cell::Integer(values[row]),
            Values::Numbers(values) if values[row].is_nan() => Cell::Missing,
            Values::Numbers(values) => Cell::Number(values[row]),
            Values::Texts(list, places) => list.get(places[row] as usize).map(|text| &**text).into(),
        }
    }

    /// True if all fit a column.
    pub(crate) fn fit(self, column: &Column) -> bool {
        // Without an early end, so that several are compared at once.
        match self {
            Values::Integers(values) => {
                let missing = || values.iter().fold(false, |any, value| any | (*value == Values::MISSING));
                column.kind == Kind::Integer && !(column.required && missing())
            }
            Values::Numbers(values) => {
                let missing = || values.iter().fold(false, |any, value| any | value.is_nan());
                column.kind == Kind::Number && !(column.required && missing())
            }
            Values::Texts(list, places) => {
                let last = || places.iter().fold(0, |last, place| last.max(*place)) as usize;
                column.kind == Kind::Text && !(column.required && !places.is_empty() && last() >= list.len())
            }
        }
    }
}
