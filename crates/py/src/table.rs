//! Tables in Arrow's memory format, which other libraries read without a copy (the PyCapsule interface).

use std::sync::Arc;

use anabranch_table::{Cell, Column, Kind};
use arrow_array::builder::{ArrayBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringViewBuilder};
use arrow_array::cast::AsArray as _;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array as _, ArrayRef, RecordBatch, RecordBatchIterator};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

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

    fn __repr__(&self) -> String {
        format!("<Table of {} rows: {}>", self.__len__(), self.columns().join(", "))
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The bytes of the values.
    #[getter]
    fn nbytes(&self) -> usize {
        self.batches.iter().map(RecordBatch::get_array_memory_size).sum()
    }

    /// The values of a column.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let Ok(at) = self.schema.index_of(name) else {
            let names = self.columns().join(", ");
            return Err(PyKeyError::new_err(format!("there is no column `{name}`; there are {names}")));
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
            return Err(PyValueError::new_err("there is no table to concatenate"));
        };
        let schema = first.get().schema.clone();
        if let Some(other) = tables.iter().position(|table| table.get().schema != schema) {
            return Err(PyValueError::new_err(format!("table {other} has other columns than the first")));
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

    /// Adds a value. One of another type would be missing; the types are those of the columns.
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
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Table { schema: self.schema, batches: vec![batch] })
    }
}
