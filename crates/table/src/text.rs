//! CSV and JSON lines.

use std::io::{self, Write};

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::{Cell, Column};

pub(crate) struct CsvTable<W: Write>(csv::Writer<W>);

impl<W: Write> CsvTable<W> {
    pub(crate) fn new(out: W, columns: &[Column]) -> io::Result<CsvTable<W>> {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(columns.iter().map(|column| &column.name)).map_err(failed)?;
        Ok(CsvTable(writer))
    }

    pub(crate) fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        for cell in cells {
            let written = match cell {
                Cell::Missing => self.0.write_field(""),
                Cell::Text(text) if is_formula(text) => self.0.write_field(format!("'{text}")),
                Cell::Text(text) => self.0.write_field(text),
                Cell::Integer(number) => self.0.write_field(number.to_string()),
                Cell::Number(number) => self.0.write_field(number.to_string()),
                Cell::Flag(flag) => self.0.write_field(flag.to_string()),
            };
            written.map_err(failed)?;
        }
        self.0.write_record(None::<&[u8]>).map_err(failed)
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        // The error of `into_inner` does not have the system's number and text.
        self.0.flush()?;
        self.0.into_inner().map_err(|error| io::Error::from(error.error().kind()))
    }
}

/// True if a spreadsheet would take the text of a cell as a formula and run it: a name such as `=cmd|...` comes from a
/// scenario that somebody else may have written. A number is not one. An apostrophe before such a text makes it a text, and
/// so one more stands before a text that begins with apostrophes and such a character.
fn is_formula(text: &str) -> bool {
    let after = text.trim_start_matches('\'');
    after.starts_with(['=', '+', '-', '@', '\t', '\r'])
        && !(after.len() == text.len() && text.parse::<f64>().is_ok())
}

/// Returns the text of a cell that [`CsvTable`] has written.
pub(crate) fn cell_text(text: &str) -> &str {
    text.strip_prefix('\'').filter(|rest| is_formula(rest)).unwrap_or(text)
}

pub(crate) struct NdjsonTable<W>(W);

impl<W: Write> NdjsonTable<W> {
    pub(crate) fn new(out: W) -> NdjsonTable<W> {
        NdjsonTable(out)
    }

    pub(crate) fn row(&mut self, columns: &[Column], cells: &[Cell<'_>]) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Row { columns, cells })?;
        line.push(b'\n');
        self.0.write_all(&line)
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.0.flush()?;
        Ok(self.0)
    }
}

/// Returns the system's error, if there is one, because a user can act on it.
fn failed(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        kind => io::Error::other(format!("{kind:?}")),
    }
}

/// A row as a JSON object.
struct Row<'a> {
    columns: &'a [Column],
    cells: &'a [Cell<'a>],
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.cells.len()))?;
        for (column, cell) in self.columns.iter().zip(self.cells) {
            let name = column.name.as_str();
            match *cell {
                Cell::Missing => map.serialize_entry(name, &())?,
                Cell::Text(text) => map.serialize_entry(name, text)?,
                Cell::Integer(number) => map.serialize_entry(name, &number)?,
                Cell::Number(number) => map.serialize_entry(name, &number)?,
                Cell::Flag(flag) => map.serialize_entry(name, &flag)?,
            }
        }
        map.end()
    }
}
