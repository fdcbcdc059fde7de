//! Apache Parquet.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnDescPtr, Type};

use crate::chunk::Chunk;
use crate::delta::Delta;
use crate::dictionary::{Names, write_numbers};
use crate::levels::Levels;
use crate::{Cell, Column, Kind, ROWS_PER_GROUP, Values};

/// A table in Parquet. The library writes to memory, and the bytes go to `out` after each row group. So its code is
/// compiled once, here, and not again for each `W`.
pub(crate) struct ParquetTable<W> {
    out: W,
    writer: SerializedFileWriter<Vec<u8>>,
    columns: Vec<Pending>,
    rows: usize,
    encoder: Box<snap::raw::Encoder>,
}

/// The values of a column that are not yet written.
enum Pending {
    /// Values that the library encodes.
    Library { levels: Option<Vec<i16>>, values: Typed },
    /// Values of a dense column, which are encoded here.
    Dense { levels: Option<Levels>, values: Dense, rows: usize },
}

enum Typed {
    Text(Vec<ByteArray>),
    Integer(Vec<i64>),
    Number(Vec<f64>),
    Flag(Vec<bool>),
}

enum Dense {
    Text(Names),
    Integer(Delta),
    Number(Vec<f64>),
}

impl Pending {
    fn new(column: &Column) -> Pending {
        let dense = match column.kind {
            Kind::Text => Some(Dense::Text(Names::default())),
            Kind::Integer => Some(Dense::Integer(Delta::default())),
            Kind::Number => Some(Dense::Number(Vec::new())),
            Kind::Flag => None,
        };
        if let Some(values) = dense.filter(|_| column.dense) {
            return Pending::Dense { levels: (!column.required).then(Levels::default), values, rows: 0 };
        }
        let values = match column.kind {
            Kind::Text => Typed::Text(Vec::new()),
            Kind::Integer => Typed::Integer(Vec::new()),
            Kind::Number => Typed::Number(Vec::new()),
            Kind::Flag => Typed::Flag(Vec::new()),
        };
        Pending::Library { levels: (!column.required).then(Vec::new), values }
    }

    /// Adds a value, which fits the column.
    fn push(&mut self, cell: Cell<'_>) {
        match self {
            Pending::Library { levels, values } => {
                if let Some(levels) = levels {
                    levels.push(i16::from(cell != Cell::Missing));
                }
                values.push(cell);
            }
            Pending::Dense { levels, values, rows } => {
                *rows += 1;
                if let Some(levels) = levels {
                    levels.push(cell != Cell::Missing);
                }
                match (values, cell) {
                    (Dense::Text(values), Cell::Text(text)) => values.push(text),
                    (Dense::Integer(values), Cell::Integer(number)) => values.extend(&[number]),
                    (Dense::Number(values), Cell::Number(number)) => values.push(number),
                    _ => {}
                }
            }
        }
    }

    /// Adds values, which fit the column.
    fn extend(&mut self, more: Values<'_>) {
        let Pending::Dense { levels, values, rows } = self else {
            (0..more.len()).for_each(|at| self.push(more.cell(at)));
            return;
        };
        *rows += more.len();
        match (values, more, levels) {
            (Dense::Integer(values), Values::Integers(more), None) => values.extend(more),
            (Dense::Integer(values), Values::Integers(more), Some(levels)) => {
                levels.extend(more, |number| number != Values::MISSING);
                let mut present = [0; 64];
                for some in more.chunks(present.len()) {
                    let mut number = 0;
                    for value in some {
                        present[number] = *value;
                        number += usize::from(*value != Values::MISSING);
                    }
                    values.extend(&present[..number]);
                }
            }
            (Dense::Number(values), Values::Numbers(more), levels) => {
                if let Some(levels) = levels {
                    levels.extend(more, |number| !number.is_nan());
                }
                values.extend(more.iter().filter(|number| !number.is_nan()));
            }
            (Dense::Text(values), Values::Texts(list, more), levels) => {
                if let Some(levels) = levels {
                    levels.extend(more, |place| (place as usize) < list.len());
                }
                values.extend(list, more);
            }
            _ => {}
        }
    }

    /// Writes the values as the next column of `group`, and clears them.
    fn write(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
        description: ColumnDescPtr,
        encoder: &mut snap::raw::Encoder,
    ) -> parquet::errors::Result<()> {
        match self {
            Pending::Library { levels, values } => {
                values.write(group, levels.as_deref())?;
                if let Some(levels) = levels {
                    levels.clear();
                }
            }
            Pending::Dense { levels, values, rows } => {
                let mut data = Vec::new();
                let mut missing = 0;
                if let Some(levels) = levels {
                    levels.write(&mut data);
                    missing = levels.missing() as u64;
                    levels.clear();
                }
                let (bytes, close) = values.chunk(data, *rows, missing).write(description, encoder)?;
                group.append_column(&bytes, close)?;
                *rows = 0;
            }
        }
        Ok(())
    }
}

impl Typed {
    fn push(&mut self, cell: Cell<'_>) {
        match (self, cell) {
            (Typed::Text(values), Cell::Text(text)) => values.push(text.into()),
            (Typed::Integer(values), Cell::Integer(number)) => values.push(number),
            (Typed::Number(values), Cell::Number(number)) => values.push(number),
            (Typed::Flag(values), Cell::Flag(flag)) => values.push(flag),
            _ => {}
        }
    }

    fn write(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
        levels: Option<&[i16]>,
    ) -> parquet::errors::Result<()> {
        fn write<T: DataType>(
            group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
            values: &mut Vec<T::T>,
            levels: Option<&[i16]>,
        ) -> parquet::errors::Result<()> {
            if let Some(mut column) = group.next_column()? {
                column.typed::<T>().write_batch(values, levels, None)?;
                column.close()?;
            }
            values.clear();
            Ok(())
        }
        match self {
            Typed::Text(values) => write::<ByteArrayType>(group, values, levels),
            Typed::Integer(values) => write::<Int64Type>(group, values, levels),
            Typed::Number(values) => write::<DoubleType>(group, values, levels),
            Typed::Flag(values) => write::<BoolType>(group, values, levels),
        }
    }
}

impl Dense {
    /// Returns the chunk of all values, and clears them. `data` has the definition levels.
    fn chunk(&mut self, mut data: Vec<u8>, rows: usize, missing: u64) -> Chunk {
        let (mut encoding, mut dictionary, mut statistics) = (Encoding::RLE_DICTIONARY, None, None);
        match self {
            Dense::Text(names) => dictionary = Some(names.write(&mut data)),
            Dense::Integer(numbers) => {
                encoding = Encoding::DELTA_BINARY_PACKED;
                let (least, greatest) = numbers.bounds().unzip();
                statistics = Some(Statistics::int64(least, greatest, None, Some(missing), false));
                numbers.write(&mut data);
            }
            Dense::Number(numbers) => {
                dictionary = write_numbers(numbers, &mut data);
                if dictionary.is_none() {
                    encoding = Encoding::PLAIN;
                    data.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
                }
                numbers.clear();
            }
        }
        Chunk { data, rows, encoding, dictionary, statistics }
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
        // The version of the library is not written, so that the bytes depend only on the rows.
        let properties = WriterProperties::builder()
            .set_created_by("anabranch".to_owned())
            .set_compression(Compression::SNAPPY);
        let writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties.build()))
            .map_err(io::Error::other)?;
        let columns = columns.iter().map(Pending::new).collect();
        let encoder = Box::new(snap::raw::Encoder::new());
        let mut table = ParquetTable { out, writer, columns, rows: 0, encoder };
        // The first bytes of the file, so that an output that cannot be written to is noticed here.
        table.hand_over()?;
        Ok(table)
    }

    /// Adds a row; its cells fit the columns.
    pub(crate) fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.push(*cell);
        }
        self.rows += 1;
        if self.rows == ROWS_PER_GROUP { self.write_group() } else { Ok(()) }
    }

    /// Adds rows; their values fit the columns.
    pub(crate) fn rows(&mut self, columns: &[Values<'_>], rows: usize) -> io::Result<()> {
        let mut done = 0;
        while done < rows {
            let now = (rows - done).min(ROWS_PER_GROUP - self.rows);
            for (column, values) in self.columns.iter_mut().zip(columns) {
                column.extend(values.part(done..done + now));
            }
            done += now;
            self.rows += now;
            if self.rows == ROWS_PER_GROUP {
                self.write_group()?;
            }
        }
        Ok(())
    }

    fn write_group(&mut self) -> io::Result<()> {
        self.rows = 0;
        let descriptions = self.writer.schema_descr().columns().to_vec();
        let mut group = self.writer.next_row_group().map_err(io::Error::other)?;
        for (column, description) in self.columns.iter_mut().zip(descriptions) {
            column.write(&mut group, description, &mut self.encoder).map_err(io::Error::other)?;
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
