//! Recordings: run directories, and their tables in Arrow's memory format.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anabranch_lab::scenario::Scenario;
use anabranch_lab::scenario::units;
use anabranch_recording::schema::{TABLES, TableSchema};
use anabranch_recording::{Origin, RunDirectory, Settings};
use anabranch_table::{Cell, Column, Format, Kind};
use anabranch_units::Duration;
use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringViewBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use parquet::basic::Type as Physical;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType as ParquetType;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::errors;
use crate::table::{Rows, Table};

/// The options of a recording: the directory, the format, the least time between rows, and whether to write files for
/// xplot.
pub(crate) type Options = (PathBuf, String, String, bool);

/// Creates the run directory of `options`.
pub(crate) fn create(
    py: Python<'_>,
    (path, format, every, xpl): &Options,
    scenario: &Scenario,
    run: Option<u32>,
) -> PyResult<RunDirectory> {
    let Some(format) = Format::ALL.into_iter().find(|one| one.name() == format) else {
        let names = Format::ALL.map(Format::name).join(", ");
        return Err(errors::argument(format!("`{format}` is not a format; there are {names}")));
    };
    let interval = match every.trim() {
        "0" => Duration::ZERO,
        every => units::parse_span(every).map_err(|error| errors::usage(py, &error.to_string()))?,
    };
    let origin = Origin { version: env!("CARGO_PKG_VERSION"), commit: None, command: Vec::new(), run };
    RunDirectory::create(path, scenario, origin, Settings { format, interval, xpl: *xpl })
        .map_err(|error| errors::failed(py, &error.to_string()))
}

/// Reads the table `name` of a recording from a file; its extension is its format.
#[pyfunction]
pub(crate) fn read_table(py: Python<'_>, name: &str, path: PathBuf) -> PyResult<Table> {
    let shown = path.display().to_string();
    let failed = |error: String| PyOSError::new_err(format!("cannot read {shown}: {error}"));
    if Format::of(&path) == Some(Format::Parquet) {
        return py.detach(|| read(path)).map_err(|error| failed(error.to_string()));
    }
    let Some(schema) = TABLES.iter().find(|table| table.name == name) else {
        return Err(errors::argument(format!("a recording has no table `{name}`")));
    };
    let rows = py.detach(|| read_text(schema, &path));
    rows.map_err(|error| PyOSError::new_err(format!("cannot read {error}")))?.finish()
}

/// Reads a table of CSV or of JSON lines. Its columns have the types of the schema.
fn read_text(schema: &TableSchema, path: &Path) -> Result<Rows, anabranch_table::ReadError> {
    let columns: Vec<Column> =
        schema.columns.iter().map(|column| Column::new(column.name, column.kind)).collect();
    let names: Vec<(&str, Kind)> = schema.columns.iter().map(|column| (column.name, column.kind)).collect();
    // An empty field of CSV is a missing value. A condition is never missing, and empty if the scenario has none.
    let condition = schema.columns.iter().position(|column| column.name == "condition");
    let mut rows = Rows::new(&columns);
    anabranch_table::read(path, &names, |cells| {
        rows.push(cells.iter().enumerate().map(|(at, cell)| match cell {
            Cell::Missing if Some(at) == condition => Cell::Text(""),
            cell => *cell,
        }));
    })?;
    Ok(rows)
}

fn read(path: PathBuf) -> Result<Table, ParquetError> {
    read_parquet(std::fs::File::open(path)?)
}

/// Reads a table of the types of results.
pub(crate) fn read_parquet(from: impl ChunkReader + 'static) -> Result<Table, ParquetError> {
    let reader = SerializedFileReader::new(from)?;
    let columns = reader.metadata().file_metadata().schema_descr().columns();
    let field = |column: &Arc<parquet::schema::types::ColumnDescriptor>| {
        let kind = match column.physical_type() {
            Physical::BYTE_ARRAY => DataType::Utf8View,
            Physical::INT64 => DataType::Int64,
            Physical::DOUBLE => DataType::Float64,
            Physical::BOOLEAN => DataType::Boolean,
            other => return Err(ParquetError::General(format!("{other} is no type of a recording"))),
        };
        Ok(Field::new(column.name(), kind, true))
    };
    let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    let schema = Arc::new(Schema::new(fields));
    let mut batches = Vec::with_capacity(reader.num_row_groups());
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group)?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let arrays = (0..columns.len())
            .map(|at| array(group.get_column_reader(at)?, columns[at].max_def_level() > 0, rows))
            .collect::<Result<Vec<_>, _>>()?;
        let batch = RecordBatch::try_new(schema.clone(), arrays);
        batches.push(batch.map_err(|error| ParquetError::General(error.to_string()))?);
    }
    Ok(Table::new(schema, batches))
}

/// Calls `push` with each value of a column, or with none where it is missing.
fn values<T: ParquetType>(
    mut reader: ColumnReaderImpl<T>,
    optional: bool,
    rows: usize,
    mut push: impl FnMut(Option<T::T>) -> Result<(), ParquetError>,
) -> Result<(), ParquetError> {
    let (mut levels, mut values) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    let mut read = 0;
    while read < rows {
        let some = optional.then_some(&mut levels);
        let (records, _, _) = reader.read_records(rows - read, some, None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::General(format!("a column has {read} rows in place of {rows}")));
        }
        read += records;
    }
    let mut values = values.into_iter();
    match optional {
        true => levels.into_iter().try_for_each(|level| push(if level > 0 { values.next() } else { None })),
        false => values.try_for_each(|value| push(Some(value))),
    }
}

fn array(reader: ColumnReader, optional: bool, rows: usize) -> Result<ArrayRef, ParquetError> {
    Ok(match reader {
        ColumnReader::ByteArrayColumnReader(reader) => {
            let mut array = StringViewBuilder::with_capacity(rows).with_deduplicate_strings();
            values(reader, optional, rows, |value| {
                match &value {
                    Some(text) => array.append_value(text.as_utf8()?),
                    None => array.append_null(),
                }
                Ok(())
            })?;
            Arc::new(array.finish())
        }
        ColumnReader::Int64ColumnReader(reader) => {
            let mut array = Int64Builder::with_capacity(rows);
            values(reader, optional, rows, |value| {
                array.append_option(value);
                Ok(())
            })?;
            Arc::new(array.finish())
        }
        ColumnReader::DoubleColumnReader(reader) => {
            let mut array = Float64Builder::with_capacity(rows);
            values(reader, optional, rows, |value| {
                array.append_option(value);
                Ok(())
            })?;
            Arc::new(array.finish())
        }
        ColumnReader::BoolColumnReader(reader) => {
            let mut array = BooleanBuilder::with_capacity(rows);
            values(reader, optional, rows, |value| {
                array.append_option(value);
                Ok(())
            })?;
            Arc::new(array.finish())
        }
        _ => return Err(ParquetError::General("a column has no type of a recording".to_owned())),
    })
}
