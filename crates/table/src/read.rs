//! Reading tables that [`Table`](crate::Table) wrote, row by row.
//!
//! Memory holds a row group of Parquet, or a line of text, at a time.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use parquet::basic::Type as Physical;
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};

use crate::{Cell, Format, Kind};

/// A table could not be read.
#[derive(Debug)]
pub struct ReadError {
    path: PathBuf,
    why: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for ReadError {}

/// Calls `row` with the cells of `columns`, in their order, for each row of the table in `path`. The extension of `path` is
/// the format. Other columns of the table are skipped.
///
/// # Errors
/// If the table cannot be read, a column is missing, or a value has another type.
pub fn read(
    path: &Path,
    columns: &[(&str, Kind)],
    mut row: impl FnMut(&[Cell<'_>]),
) -> Result<(), ReadError> {
    let failed = |why: String| ReadError { path: path.to_owned(), why };
    let format = Format::of(path)
        .ok_or_else(|| failed("its name does not end in `.parquet`, `.csv` or `.ndjson`".to_owned()))?;
    let file = File::open(path).map_err(|error| failed(format!("cannot read it: {error}")))?;
    match format {
        Format::Parquet => parquet_rows(file, columns, &mut row),
        Format::Csv => csv_rows(file, columns, &mut row),
        Format::Ndjson => ndjson_rows(file, columns, &mut row),
    }
    .map_err(failed)
}

fn missing(name: &str) -> String {
    format!("it has no column `{name}`")
}

fn mistyped(name: &str, kind: Kind) -> String {
    let kind = match kind {
        Kind::Text => "text",
        Kind::Integer => "a whole number",
        Kind::Number => "a number",
        Kind::Flag => "true or false",
    };
    format!("column `{name}` is not {kind}")
}

/// The values of a column in a row group, with a definition level for each row unless all have a value.
struct Group {
    levels: Option<Vec<i16>>,
    values: Typed,
    next: usize,
}

enum Typed {
    Text(Vec<ByteArray>),
    Integer(Vec<i64>),
    Number(Vec<f64>),
    Flag(Vec<bool>),
}

fn parquet_rows(
    file: File,
    columns: &[(&str, Kind)],
    row: &mut impl FnMut(&[Cell<'_>]),
) -> Result<(), String> {
    let damaged = |error: parquet::errors::ParquetError| format!("it is no whole Parquet file: {error}");
    let reader = SerializedFileReader::new(file).map_err(damaged)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let mut places = Vec::with_capacity(columns.len());
    for (name, kind) in columns {
        let place = (0..schema.num_columns()).find(|at| schema.column(*at).name() == *name);
        let place = place.ok_or_else(|| missing(name))?;
        let wanted = match kind {
            Kind::Text => Physical::BYTE_ARRAY,
            Kind::Integer => Physical::INT64,
            Kind::Number => Physical::DOUBLE,
            Kind::Flag => Physical::BOOLEAN,
        };
        let column = schema.column(place);
        if column.physical_type() != wanted || column.max_rep_level() > 0 || column.max_def_level() > 1 {
            return Err(mistyped(name, *kind));
        }
        places.push((place, column.max_def_level() == 1));
    }
    for at in 0..reader.num_row_groups() {
        let group = reader.get_row_group(at).map_err(damaged)?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or_default();
        let mut read = Vec::with_capacity(places.len());
        for (place, nullable) in &places {
            read.push(column(&*group, *place, *nullable, rows).map_err(damaged)?);
        }
        for at in 0..rows {
            let mut cells = Vec::with_capacity(read.len());
            for (column, (name, _)) in read.iter_mut().zip(columns) {
                cells.push(column.cell(at).ok_or_else(|| format!("column `{name}` is damaged"))?);
            }
            row(&cells);
        }
    }
    Ok(())
}

fn column(
    group: &dyn RowGroupReader,
    place: usize,
    nullable: bool,
    rows: usize,
) -> Result<Group, parquet::errors::ParquetError> {
    let mut levels = nullable.then(Vec::new);
    macro_rules! all {
        ($reader:expr, $kind:ident) => {{
            let mut reader = $reader;
            let mut values = Vec::new();
            let mut done = 0;
            while done < rows {
                let (records, _, _) = reader.read_records(rows - done, levels.as_mut(), None, &mut values)?;
                if records == 0 {
                    break;
                }
                done += records;
            }
            Typed::$kind(values)
        }};
    }
    let values = match group.get_column_reader(place)? {
        ColumnReader::ByteArrayColumnReader(reader) => all!(reader, Text),
        ColumnReader::Int64ColumnReader(reader) => all!(reader, Integer),
        ColumnReader::DoubleColumnReader(reader) => all!(reader, Number),
        ColumnReader::BoolColumnReader(reader) => all!(reader, Flag),
        // The types were checked before.
        _ => Typed::Flag(Vec::new()),
    };
    Ok(Group { levels, values, next: 0 })
}

impl Group {
    /// Returns the cell of row `at`, which is the one after the last call's; none if the column is too short.
    fn cell(&mut self, at: usize) -> Option<Cell<'_>> {
        if let Some(levels) = &self.levels
            && *levels.get(at)? == 0
        {
            return Some(Cell::Missing);
        }
        let next = self.next;
        self.next += 1;
        Some(match &self.values {
            Typed::Text(values) => Cell::Text(std::str::from_utf8(values.get(next)?.data()).ok()?),
            Typed::Integer(values) => Cell::Integer(*values.get(next)?),
            Typed::Number(values) => Cell::Number(*values.get(next)?),
            Typed::Flag(values) => Cell::Flag(*values.get(next)?),
        })
    }
}

fn csv_rows(file: File, columns: &[(&str, Kind)], row: &mut impl FnMut(&[Cell<'_>])) -> Result<(), String> {
    let mut reader = csv::Reader::from_reader(BufReader::new(file));
    let header = reader.headers().map_err(|error| error.to_string())?;
    let place = |name: &str| header.iter().position(|other| other == name);
    let places = columns.iter().map(|(name, _)| place(name).ok_or_else(|| missing(name)));
    let places: Vec<usize> = places.collect::<Result<_, _>>()?;
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| error.to_string())? {
        let mut cells = Vec::with_capacity(places.len());
        for (place, (name, kind)) in places.iter().zip(columns) {
            let line = || record.position().map_or(0, csv::Position::line);
            let text = record.get(*place).unwrap_or_default();
            let cell = if text.is_empty() { Some(Cell::Missing) } else { parsed(text, *kind) };
            cells.push(cell.ok_or_else(|| format!("line {}: {}", line(), mistyped(name, *kind)))?);
        }
        row(&cells);
    }
    Ok(())
}

fn parsed(text: &str, kind: Kind) -> Option<Cell<'_>> {
    Some(match kind {
        Kind::Text => Cell::Text(crate::text::cell_text(text)),
        Kind::Integer => Cell::Integer(text.parse().ok()?),
        Kind::Number => Cell::Number(text.parse().ok()?),
        Kind::Flag => Cell::Flag(text.parse().ok()?),
    })
}

fn ndjson_rows(
    file: File,
    columns: &[(&str, Kind)],
    row: &mut impl FnMut(&[Cell<'_>]),
) -> Result<(), String> {
    for (at, line) in BufReader::new(file).lines().enumerate() {
        let wrong = |why: String| format!("line {}: {why}", at + 1);
        let line = line.map_err(|error: io::Error| wrong(error.to_string()))?;
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&line).map_err(|error| wrong(format!("it is no JSON object: {error}")))?;
        let mut cells = Vec::with_capacity(columns.len());
        for (name, kind) in columns {
            let value = object.get(*name).ok_or_else(|| wrong(missing(name)))?;
            let cell = match kind {
                _ if value.is_null() => Some(Cell::Missing),
                Kind::Text => value.as_str().map(Cell::Text),
                Kind::Integer => value.as_i64().map(Cell::Integer),
                Kind::Number => value.as_f64().map(Cell::Number),
                Kind::Flag => value.as_bool().map(Cell::Flag),
            };
            cells.push(cell.ok_or_else(|| wrong(mistyped(name, *kind)))?);
        }
        row(&cells);
    }
    Ok(())
}
