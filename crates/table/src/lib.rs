//! Tables of results: typed columns, rows written one after another, as Parquet, CSV or JSON lines, and read again.
//!
//! Memory does not grow with the number of rows: CSV and JSON lines are written immediately, Parquet in
//! groups of [`ROWS_PER_GROUP`] rows. The same rows give the same bytes. A value may be missing: null in
//! Parquet and JSON, an empty field in CSV.
//!
//! ```
//! use anabranch_table::{Cell, Column, Format, Kind, Table};
//!
//! let columns = [Column::new("scheduler", Kind::Text), Column::new("fct_mean_s", Kind::Number)];
//! let mut table = Table::new(Vec::new(), Format::Csv, &columns)?;
//! table.row(&[Cell::Text("dmptcp"), Cell::Number(0.302)])?;
//! assert_eq!(table.finish()?, b"scheduler,fct_mean_s\ndmptcp,0.302\n");
//! # Ok::<(), std::io::Error>(())
//! ```

#![warn(unreachable_pub)]

mod chunk;
mod delta;
mod dictionary;
mod levels;
mod parquet_file;
mod read;
mod text;
mod values;

use std::io::{self, Write};
use std::path::Path;

use parquet_file::ParquetTable;
pub use read::{ReadError, read};
use text::{CsvTable, NdjsonTable};
pub use values::Values;

/// The rows of a row group of Parquet, which are kept in memory until the group is written.
pub const ROWS_PER_GROUP: usize = 1 << 16;

/// The format of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Apache Parquet, compressed with Snappy.
    #[default]
    Parquet,
    /// Comma-separated values (RFC 4180) with a header.
    Csv,
    /// A JSON object on each line.
    Ndjson,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 3] = [Format::Parquet, Format::Csv, Format::Ndjson];

    /// Returns the name, which is the extension of its files.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Csv => "csv",
            Format::Ndjson => "ndjson",
        }
    }

    /// Returns the format that the extension of `path` names; `jsonl` is a second name of JSON lines.
    pub fn of(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        let format = Format::ALL.into_iter().find(|format| format.name() == extension);
        format.or_else(|| (extension == "jsonl").then_some(Format::Ndjson))
    }
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text in UTF-8.
    Text,
    /// A whole number of 64 bits with a sign.
    Integer,
    /// A floating-point number of 64 bits. Those that are not finite are missing in JSON.
    Number,
    /// True or false.
    Flag,
}

/// The name and the kind of a column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name, with the unit at its end where there is one: `fct_mean_s`.
    pub name: String,
    /// The type of its values.
    pub kind: Kind,
    /// True in tables of many rows ([`Column::dense`]).
    pub dense: bool,
    /// True if every row has a value ([`Column::required`]).
    pub required: bool,
}

impl Column {
    /// Returns a column of this name and type.
    pub fn new(name: impl Into<String>, kind: Kind) -> Column {
        Column { name: name.into(), kind, dense: false, required: false }
    }

    /// Returns the column for a table of many rows, such as a time series, which takes less time: Parquet stores the
    /// differences of successive whole numbers instead of a dictionary, texts always by a dictionary, and no statistics of
    /// other types than whole numbers.
    #[must_use]
    pub fn dense(self) -> Column {
        Column { dense: true, ..self }
    }

    /// Returns the column for values without missing ones, which Parquet stores in less time.
    #[must_use]
    pub fn required(self) -> Column {
        Column { required: true, ..self }
    }
}

/// The value of a row in a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// No value, which fits every type.
    Missing,
    /// UTF-8 text of any length.
    Text(&'a str),
    /// A whole number.
    Integer(i64),
    /// A number with decimals.
    Number(f64),
    /// True or false.
    Flag(bool),
}

impl Cell<'_> {
    fn fits(&self, Column { kind, required, .. }: &Column) -> bool {
        let kind = *kind;
        match self {
            Cell::Missing => !required,
            Cell::Text(_) => kind == Kind::Text,
            Cell::Integer(_) => kind == Kind::Integer,
            Cell::Number(_) => kind == Kind::Number,
            Cell::Flag(_) => kind == Kind::Flag,
        }
    }
}

impl<'a> From<Option<&'a str>> for Cell<'a> {
    fn from(value: Option<&'a str>) -> Cell<'a> {
        value.map_or(Cell::Missing, Cell::Text)
    }
}

impl From<Option<f64>> for Cell<'_> {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Cell::Missing, Cell::Number)
    }
}

/// A table that is written to `W`.
pub struct Table<W: Write + Send> {
    columns: Vec<Column>,
    writer: Writer<W>,
}

enum Writer<W: Write + Send> {
    Parquet(ParquetTable<W>),
    Csv(CsvTable<W>),
    Ndjson(NdjsonTable<W>),
}

impl<W: Write + Send> Table<W> {
    /// Returns a table without rows.
    ///
    /// # Errors
    /// If `out` cannot be written to, there is no column, or two columns have the same name.
    pub fn new(out: W, format: Format, columns: &[Column]) -> io::Result<Table<W>> {
        let duplicate = columns
            .iter()
            .enumerate()
            .find(|(at, column)| columns[..*at].iter().any(|other| other.name == column.name));
        if let Some((_, column)) = duplicate {
            return Err(invalid(format!("two columns are called `{}`", column.name)));
        }
        if columns.is_empty() {
            return Err(invalid("a table needs a column".to_owned()));
        }
        let writer = match format {
            Format::Parquet => Writer::Parquet(ParquetTable::new(out, columns)?),
            Format::Csv => Writer::Csv(CsvTable::new(out, columns)?),
            Format::Ndjson => Writer::Ndjson(NdjsonTable::new(out)),
        };
        Ok(Table { columns: columns.to_vec(), writer })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If the row cannot be written, or does not have one cell of the right type for each column.
    pub fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        if cells.len() != self.columns.len() {
            return Err(invalid(format!("{} cells for {} columns", cells.len(), self.columns.len())));
        }
        let unfit = self.columns.iter().zip(cells).find(|(column, cell)| !cell.fits(column));
        match (unfit, &mut self.writer) {
            (Some((column, _)), _) => Err(unfit_value(column)),
            (None, Writer::Parquet(table)) => table.row(cells),
            (None, Writer::Csv(table)) => table.row(cells),
            (None, Writer::Ndjson(table)) => table.row(&self.columns, cells),
        }
    }

    /// Adds rows by columns, which takes Parquet a fraction of the time of [`Table::row`] for dense
    /// columns. Some hundred rows at a time are best.
    ///
    /// ```
    /// use anabranch_table::{Column, Format, Kind, Table, Values};
    ///
    /// let columns = [Column::new("t_ns", Kind::Integer), Column::new("event", Kind::Text)];
    /// let mut table = Table::new(Vec::new(), Format::Csv, &columns)?;
    /// let events = ["sent".into(), "lost".into()];
    /// table.rows(&[Values::Integers(&[5, Values::MISSING]), Values::Texts(&events, &[0, 1])])?;
    /// assert_eq!(table.finish()?, b"t_ns,event\n5,sent\n,lost\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a column does not have values of its type in the number of the others, and then no row is added; or if the rows
    /// cannot be written.
    pub fn rows(&mut self, columns: &[Values<'_>]) -> io::Result<()> {
        if columns.len() != self.columns.len() {
            return Err(invalid(format!("values of {} columns for {}", columns.len(), self.columns.len())));
        }
        let rows = columns[0].len();
        for (column, values) in self.columns.iter().zip(columns) {
            if values.len() != rows {
                let name = &column.name;
                return Err(invalid(format!("{} values of column `{name}` for {rows} rows", values.len())));
            }
            if !values.fit(column) {
                return Err(unfit_value(column));
            }
        }
        if let Writer::Parquet(table) = &mut self.writer {
            return table.rows(columns, rows);
        }
        let mut cells = Vec::with_capacity(columns.len());
        for row in 0..rows {
            cells.clear();
            cells.extend(columns.iter().map(|values| values.cell(row)));
            match &mut self.writer {
                Writer::Parquet(_) => {}
                Writer::Csv(table) => table.row(&cells)?,
                Writer::Ndjson(table) => table.row(&self.columns, &cells)?,
            }
        }
        Ok(())
    }

    /// Writes the remaining rows and returns the writer. An unfinished table is incomplete.
    ///
    /// # Errors
    /// If the rest cannot be written.
    pub fn finish(self) -> io::Result<W> {
        match self.writer {
            Writer::Parquet(table) => table.finish(),
            Writer::Csv(table) => table.finish(),
            Writer::Ndjson(table) => table.finish(),
        }
    }
}

fn unfit_value(column: &Column) -> io::Error {
    let fault = if column.required { "is missing or has another type" } else { "has another type" };
    invalid(format!("a value of column `{}` {fault}", column.name))
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
