//! Apache Parquet.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnDescPtr, ColumnPath, Type};

use crate::dictionary::Names;
use crate::{Cell, Column, Kind, ROWS_PER_GROUP};

/// A table in Parquet. The library writes to memory, whose bytes go to `out` after each row group: so its code is
/// compiled once, here, and not again for each `W`.
pub(crate) struct ParquetTable<W> {
    out: W,
    writer: SerializedFileWriter<Vec<u8>>,
    columns: Vec<Values>,
    rows: usize,
}

/// The values of a column that are not yet written, and for each row whether there is one (a definition level
/// of 1).
struct Values {
    present: Vec<i16>,
    required: bool,
    values: Typed,
}

enum Typed {
    Text(Vec<ByteArray>),
    Names(Names),
    Integer(Vec<i64>),
    Number(Vec<f64>),
    Flag(Vec<bool>),
}

impl Values {
    fn new(column: &Column) -> Values {
        let values = match column.kind {
            Kind::Text if column.dense => Typed::Names(Names::default()),
            Kind::Text => Typed::Text(Vec::new()),
            Kind::Integer => Typed::Integer(Vec::new()),
            Kind::Number => Typed::Number(Vec::new()),
            Kind::Flag => Typed::Flag(Vec::new()),
        };
        Values { present: Vec::new(), required: column.required, values }
    }

    /// Adds a value. False if it does not fit, and was not added.
    #[inline]
    fn push(&mut self, cell: Cell<'_>) -> bool {
        match (&mut self.values, cell) {
            (Typed::Integer(values), Cell::Integer(number)) => values.push(number),
            (Typed::Names(values), Cell::Name(name)) => values.push_name(name),
            (Typed::Names(values), Cell::Text(text)) => values.push(text),
            (Typed::Text(values), Cell::Text(text)) => values.push(text.into()),
            (Typed::Text(values), Cell::Name(name)) => {
                values.push(bytes::Bytes::from_static(name.as_bytes()).into());
            }
            (Typed::Number(values), Cell::Number(number)) => values.push(number),
            (Typed::Flag(values), Cell::Flag(flag)) => values.push(flag),
            (_, Cell::Missing) if !self.required => {
                self.present.push(0);
                return true;
            }
            _ => return false,
        }
        if !self.required {
            self.present.push(1);
        }
        true
    }

    /// Removes the last value.
    fn pop(&mut self) {
        if !self.required && self.present.pop() == Some(0) {
            return;
        }
        match &mut self.values {
            Typed::Text(values) => drop(values.pop()),
            Typed::Names(values) => values.pop(),
            Typed::Integer(values) => drop(values.pop()),
            Typed::Number(values) => drop(values.pop()),
            Typed::Flag(values) => drop(values.pop()),
        }
    }

    /// Writes the values as the next column of `group`, and clears them.
    fn write(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
        description: ColumnDescPtr,
    ) -> parquet::errors::Result<()> {
        fn write<T: DataType>(
            group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
            values: &mut Vec<T::T>,
            present: Option<&[i16]>,
        ) -> parquet::errors::Result<()> {
            if let Some(mut column) = group.next_column()? {
                column.typed::<T>().write_batch(values, present, None)?;
                column.close()?;
            }
            values.clear();
            Ok(())
        }
        let present = (!self.required).then_some(self.present.as_slice());
        match &mut self.values {
            Typed::Text(values) => write::<ByteArrayType>(group, values, present),
            Typed::Names(values) => {
                let (bytes, close) = values.chunk(description, present)?;
                group.append_column(&bytes, close)
            }
            Typed::Integer(values) => write::<Int64Type>(group, values, present),
            Typed::Number(values) => write::<DoubleType>(group, values, present),
            Typed::Flag(values) => write::<BoolType>(group, values, present),
        }?;
        self.present.clear();
        Ok(())
    }
}

impl<W: Write> ParquetTable<W> {
    pub(crate) fn new(out: W, columns: &[Column]) -> io::Result<ParquetTable<W>> {
        let fields = columns.iter().map(|column| {
            let physical = match column.kind {
                Kind::Text => Physical::BYTE_ARRAY,
                Kind::Integer => Physical::INT64,
                Kind::Number => Physical::DOUBLE,
                Kind::Flag => Physical::BOOLEAN,
            };
            Type::primitive_type_builder(&column.name, physical)
                .with_repetition(if column.required { Repetition::REQUIRED } else { Repetition::OPTIONAL })
                .with_logical_type((column.kind == Kind::Text).then_some(LogicalType::String))
                .build()
                .map(Arc::new)
        });
        let fields = fields.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
        let schema =
            Type::group_type_builder("anabranch").with_fields(fields).build().map_err(io::Error::other)?;
        // The version of the library is not written, so that the bytes depend on the rows alone.
        let mut properties = WriterProperties::builder()
            .set_created_by("anabranch".to_owned())
            .set_compression(Compression::SNAPPY);
        for column in columns.iter().filter(|column| column.dense) {
            let path = ColumnPath::from(column.name.as_str());
            if column.kind != Kind::Integer {
                properties = properties.set_column_statistics_enabled(path, EnabledStatistics::None);
                continue;
            }
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED)
                .set_column_statistics_enabled(path, EnabledStatistics::Chunk);
        }
        let writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties.build()))
            .map_err(io::Error::other)?;
        let columns = columns.iter().map(Values::new).collect();
        let mut table = ParquetTable { out, writer, columns, rows: 0 };
        // The first bytes of the file, so that an output that cannot be written to is noticed here.
        table.hand_over()?;
        Ok(table)
    }

    /// Adds a row. False if a cell does not fit; then nothing is added.
    pub(crate) fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<bool> {
        for (place, (column, cell)) in self.columns.iter_mut().zip(cells).enumerate() {
            if !column.push(*cell) {
                self.columns[..place].iter_mut().for_each(Values::pop);
                return Ok(false);
            }
        }
        self.rows += 1;
        if self.rows == ROWS_PER_GROUP {
            self.write_group()?;
        }
        Ok(true)
    }

    fn write_group(&mut self) -> io::Result<()> {
        self.rows = 0;
        let descriptions = self.writer.schema_descr().columns().to_vec();
        let mut group = self.writer.next_row_group().map_err(io::Error::other)?;
        for (column, description) in self.columns.iter_mut().zip(descriptions) {
            column.write(&mut group, description).map_err(io::Error::other)?;
        }
        group.close().map_err(io::Error::other)?;
        self.hand_over()
    }

    /// Moves the bytes that the library has written to `out`.
    fn hand_over(&mut self) -> io::Result<()> {
        self.writer.flush()?;
        self.out.write_all(self.writer.inner())?;
        self.writer.inner_mut().clear();
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        if self.rows > 0 {
            self.write_group()?;
        }
        let last = self.writer.into_inner().map_err(io::Error::other)?;
        self.out.write_all(&last)?;
        self.out.flush()?;
        Ok(self.out)
    }
}
