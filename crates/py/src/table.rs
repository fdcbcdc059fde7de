//! Tables in Arrow's memory format, which other libraries read without a copy (the PyCapsule interface).

use std::path::PathBuf;
use std::sync::Arc;

use anabranch_lab::whole_file;
use anabranch_table::{Cell, Column, Format, Kind};
use arrow_array::builder::{ArrayBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringViewBuilder};
use arrow_array::cast::AsArray as _;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array as _, ArrayRef, RecordBatch, RecordBatchIterator};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

use crate::errors;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList, PyModule};

/// A table of results.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Table {
        Table { schema, batches }
    }
}

/// The rows of the text of a table, and its width.
const PREVIEW: usize = 10;
const PREVIEW_WIDTH: usize = 100;

/// Imports a library that only some users have.
fn library<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    py.import(name).map_err(|error| match error.is_instance_of::<PyImportError>(py) {
        true => errors::failed(py, &format!("{name} is not installed: pip install {name}")),
        false => error,
    })
}

/// The rows of a table one after another.
#[pyclass(module = "anabranch._anabranch")]
pub(crate) struct RowIter {
    table: Py<Table>,
    next: usize,
}

#[pymethods]
impl RowIter {
    fn __iter__(slf: Bound<'_, RowIter>) -> Bound<'_, RowIter> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let table = self.table.get();
        let Some((batch, row)) = table.place(self.next) else { return Ok(None) };
        self.next += 1;
        let dict = PyDict::new(py);
        for (field, column) in table.schema.fields().iter().zip(batch.columns()) {
            dict.set_item(field.name(), value(py, column, row)?)?;
        }
        Ok(Some(dict))
    }
}

impl Table {
    /// Returns the batch of row number `row` of the table, and its number there.
    fn place(&self, mut row: usize) -> Option<(&RecordBatch, usize)> {
        for batch in &self.batches {
            if row < batch.num_rows() {
                return Some((batch, row));
            }
            row -= batch.num_rows();
        }
        None
    }

    /// Returns the cells of a row as text.
    fn texts(&self, row: usize) -> Vec<String> {
        let Some((batch, row)) = self.place(row) else { return Vec::new() };
        let text = |column: &ArrayRef| match cell(column, row) {
            Cell::Missing => "None".to_owned(),
            Cell::Text(text) => text
                .chars()
                .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
                .collect(),
            Cell::Integer(number) => number.to_string(),
            Cell::Number(number) => number.to_string(),
            Cell::Flag(flag) => flag.to_string(),
        };
        batch.columns().iter().map(text).collect()
    }

    /// Returns the bytes of a Parquet file with the rows.
    fn parquet(&self) -> std::io::Result<Vec<u8>> {
        let column = |field: &Arc<Field>| {
            let kind = match field.data_type() {
                DataType::Utf8View => Kind::Text,
                DataType::Int64 => Kind::Integer,
                DataType::Float64 => Kind::Number,
                _ => Kind::Flag,
            };
            Column::new(field.name(), kind)
        };
        let columns: Vec<Column> = self.schema.fields().iter().map(column).collect();
        let mut table = anabranch_table::Table::new(Vec::new(), Format::Parquet, &columns)?;
        for batch in &self.batches {
            for row in 0..batch.num_rows() {
                let cells: Vec<Cell<'_>> = batch.columns().iter().map(|column| cell(column, row)).collect();
                table.row(&cells)?;
            }
        }
        table.finish()
    }
}

/// Returns a value of a column.
fn cell(column: &ArrayRef, row: usize) -> Cell<'_> {
    match column.data_type() {
        _ if column.is_null(row) => Cell::Missing,
        DataType::Utf8View => Cell::Text(column.as_string_view().value(row)),
        DataType::Int64 => Cell::Integer(column.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => Cell::Number(column.as_primitive::<Float64Type>().value(row)),
        _ => Cell::Flag(column.as_boolean().value(row)),
    }
}

#[pymethods]
impl Table {
    /// The stream of the Arrow PyCapsule interface. The schema is always the table's own.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = self.batches.clone().into_iter().map(Ok);
        let stream =
            FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new(batches, self.schema.clone())));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The first rows as text.
    fn __repr__(&self) -> String {
        let rows = self.__len__();
        let names = self.columns();
        let cells: Vec<Vec<String>> = (0..rows.min(PREVIEW)).map(|row| self.texts(row)).collect();
        let mut text = format!("<Table of {rows} rows: {}>", names.join(", "));
        if cells.is_empty() {
            return text;
        }
        let of = |row: &Vec<String>, at: usize| row[at].chars().count();
        let widths: Vec<usize> = (0..names.len())
            .map(|at| cells.iter().map(|row| of(row, at)).max().unwrap_or(0).max(of(&names, at)))
            .collect();
        // As many columns as fit, the first ones.
        let mut total = 0;
        let shown = widths.iter().take_while(|width| {
            total += *width + 2;
            total <= PREVIEW_WIDTH
        });
        let shown = shown.count().max(1);
        for row in core::iter::once(&names).chain(&cells) {
            let cells = row.iter().zip(&widths).take(shown).map(|(cell, width)| format!("{cell:>width$}"));
            text.push('\n');
            text.push_str(&cells.collect::<Vec<_>>().join("  "));
        }
        let hidden = names.len() - shown;
        if hidden > 0 || rows > PREVIEW {
            text.push_str(&format!("\n({} more rows, {hidden} more columns)", rows.saturating_sub(PREVIEW)));
        }
        text
    }

    /// The first rows as a table of HTML.
    fn _repr_html_(&self) -> String {
        let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let rows = self.__len__();
        let line = |tag: &str, cells: &[String]| {
            let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
            format!("<tr>{}</tr>", cells.collect::<String>())
        };
        let body: String = (0..rows.min(PREVIEW)).map(|row| line("td", &self.texts(row))).collect();
        let head = line("th", &self.columns());
        format!("<div><p>{rows} rows</p><table><thead>{head}</thead><tbody>{body}</tbody></table></div>")
    }

    /// An iterator over the rows, each a dictionary by column.
    fn __iter__(slf: Bound<'_, Table>) -> RowIter {
        RowIter { table: slf.unbind(), next: 0 }
    }

    /// The rows as a data frame of Polars.
    fn to_polars<'py>(slf: &Bound<'py, Table>) -> PyResult<Bound<'py, PyAny>> {
        library(slf.py(), "polars")?.call_method1("DataFrame", (slf,))
    }

    /// The rows as a data frame of pandas.
    fn to_pandas<'py>(slf: &Bound<'py, Table>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let pandas = library(py, "pandas")?;
        let columns = PyDict::new(py);
        for field in slf.get().schema.fields() {
            let list = slf.get().column(py, field.name())?;
            let is_missing = |batch: &RecordBatch| {
                batch.column_by_name(field.name()).is_some_and(|column| column.null_count() > 0)
            };
            // The type of a column does not depend on its values, except for whole numbers and flags with a
            // missing value: the plain types of pandas cannot express that.
            let missing = slf.get().batches.iter().any(is_missing);
            let kind = match field.data_type() {
                DataType::Float64 => "float64",
                DataType::Int64 if missing => "Int64",
                DataType::Int64 => "int64",
                DataType::Boolean if missing => "boolean",
                DataType::Boolean => "bool",
                _ => {
                    columns.set_item(field.name(), list)?;
                    continue;
                }
            };
            let keys = PyDict::new(py);
            keys.set_item("dtype", kind)?;
            columns.set_item(field.name(), pandas.call_method("Series", (list,), Some(&keys))?)?;
        }
        pandas.call_method1("DataFrame", (columns,))
    }

    /// Writes the rows to a Parquet file, which is complete or as it was.
    fn write_parquet(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let written = self.parquet().and_then(|bytes| whole_file::write(&path, bytes));
        written.map_err(|error| errors::failed(py, &format!("cannot write {}: {error}", path.display())))
    }

    /// For pickle: the rows of a Parquet file.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = self.parquet().map_err(|error| errors::failed(py, &error.to_string()))?;
        Ok((py.get_type::<Table>().getattr("_of_parquet")?, (PyBytes::new(py, &bytes),)))
    }

    #[staticmethod]
    fn _of_parquet(bytes: &[u8]) -> PyResult<Table> {
        crate::recording::read_parquet(bytes::Bytes::copy_from_slice(bytes))
            .map_err(|error| errors::argument(error.to_string()))
    }

    /// The names of the columns, from left to right.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The bytes of the values.
    #[getter]
    fn nbytes(&self) -> usize {
        self.batches.iter().map(RecordBatch::get_array_memory_size).sum()
    }

    /// The values of a column, one for each row; None where a row has no value.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let Ok(at) = self.schema.index_of(name) else {
            let names = self.columns().join(", ");
            return Err(errors::missing(format!("there is no column `{name}`; there are {names}")));
        };
        let list = PyList::empty(py);
        for batch in &self.batches {
            let column = batch.column(at);
            for row in 0..batch.num_rows() {
                list.append(value(py, column, row)?)?;
            }
        }
        Ok(list)
    }

    /// Returns the rows of `tables` one after another, without a copy.
    #[staticmethod]
    fn concat(tables: Vec<Bound<'_, Table>>) -> PyResult<Table> {
        let Some(first) = tables.first() else {
            return Err(errors::argument("there is no table to concatenate"));
        };
        let schema = first.get().schema.clone();
        if let Some(other) = tables.iter().position(|table| table.get().schema != schema) {
            return Err(errors::argument(format!("table {other} has other columns than the first")));
        }
        let batches = tables.iter().flat_map(|table| table.get().batches.iter().cloned()).collect();
        Ok(Table { schema, batches })
    }
}

/// Returns a value of a column; none if it is missing.
fn value<'py>(py: Python<'py>, column: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
    Ok(match column.data_type() {
        _ if column.is_null(row) => py.None().into_bound(py),
        DataType::Utf8View => column.as_string_view().value(row).into_pyobject(py)?.into_any(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into_pyobject(py)?.into_any(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).into_pyobject(py)?.into_any(),
        _ => column.as_boolean().value(row).into_pyobject(py)?.to_owned().into_any(),
    })
}

/// The values of a column that is being filled.
enum Values {
    Text(StringViewBuilder),
    Integer(Int64Builder),
    Number(Float64Builder),
    Flag(BooleanBuilder),
}

impl Values {
    fn new(kind: Kind) -> Values {
        match kind {
            // Most texts are one of a few names.
            Kind::Text => Values::Text(StringViewBuilder::new().with_deduplicate_strings()),
            Kind::Integer => Values::Integer(Int64Builder::new()),
            Kind::Number => Values::Number(Float64Builder::new()),
            Kind::Flag => Values::Flag(BooleanBuilder::new()),
        }
    }

    /// Adds a value. It has the type of the column; a value of another type would be missing.
    fn push(&mut self, cell: Cell<'_>) {
        match (self, cell) {
            (Values::Text(values), Cell::Text(text)) => values.append_value(text),
            (Values::Integer(values), Cell::Integer(number)) => values.append_value(number),
            (Values::Number(values), Cell::Number(number)) => values.append_value(number),
            (Values::Flag(values), Cell::Flag(flag)) => values.append_value(flag),
            (Values::Text(values), _) => values.append_null(),
            (Values::Integer(values), _) => values.append_null(),
            (Values::Number(values), _) => values.append_null(),
            (Values::Flag(values), _) => values.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Values::Text(values) => ArrayBuilder::finish(values),
            Values::Integer(values) => ArrayBuilder::finish(values),
            Values::Number(values) => ArrayBuilder::finish(values),
            Values::Flag(values) => ArrayBuilder::finish(values),
        }
    }
}

/// A table to which rows are added.
pub(crate) struct Rows {
    schema: SchemaRef,
    values: Vec<Values>,
}

impl Rows {
    /// Returns a table without rows.
    pub(crate) fn new(columns: &[Column]) -> Rows {
        let field = |column: &Column| {
            let kind = match column.kind {
                Kind::Text => DataType::Utf8View,
                Kind::Integer => DataType::Int64,
                Kind::Number => DataType::Float64,
                Kind::Flag => DataType::Boolean,
            };
            Field::new(&column.name, kind, true)
        };
        Rows {
            schema: Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>())),
            values: columns.iter().map(|column| Values::new(column.kind)).collect(),
        }
    }

    /// Adds a row.
    pub(crate) fn push<'a>(&mut self, cells: impl IntoIterator<Item = Cell<'a>>) {
        for (values, cell) in self.values.iter_mut().zip(cells) {
            values.push(cell);
        }
    }

    /// Returns the table.
    pub(crate) fn finish(mut self) -> PyResult<Table> {
        let columns = self.values.iter_mut().map(Values::finish).collect();
        let batch = RecordBatch::try_new(self.schema.clone(), columns)
            .map_err(|error| errors::argument(error.to_string()))?;
        Ok(Table { schema: self.schema, batches: vec![batch] })
    }
}
