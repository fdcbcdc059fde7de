//! Column chunks of dense columns, which are encoded here: one data page, after a dictionary page if there is one.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use crate::dictionary::Dictionary;

/// The encoded values of a chunk.
pub(crate) struct Chunk {
    /// The data page: its definition levels, unless no value may be missing, and its values.
    pub(crate) data: Vec<u8>,
    pub(crate) rows: usize,
    pub(crate) encoding: Encoding,
    pub(crate) dictionary: Option<Dictionary>,
    pub(crate) statistics: Option<Statistics>,
}

impl Chunk {
    /// Returns the bytes of the chunk, and its metadata. A page without a dictionary is compressed, if that makes it
    /// smaller; places in a dictionary are packed well enough.
    pub(crate) fn write(
        self,
        column: ColumnDescPtr,
        encoder: &mut snap::raw::Encoder,
    ) -> Result<(Bytes, ColumnCloseResult)> {
        let Chunk { data, rows, encoding, dictionary, statistics } = self;
        let mut sink = TrackedWrite::new(Vec::with_capacity(data.len() + 64));
        let mut pages = SerializedPageWriter::new(&mut sink);
        let mut write = |page: Page, size: usize| pages.write_page(CompressedPage::new(page, size));
        let mut parts: Vec<PageWriteSpec> = Vec::new();
        let mut encodings = vec![encoding, Encoding::RLE];
        let has_dictionary = dictionary.is_some();
        if let Some((values, number)) = dictionary {
            let size = values.len();
            let page = Page::DictionaryPage {
                buf: values.into(),
                num_values: number as u32,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            };
            parts.push(write(page, size)?);
            encodings.push(Encoding::PLAIN);
        }
        let size = data.len();
        let mut compressed = None;
        if !has_dictionary {
            let snappy = encoder.compress_vec(&data).map_err(|error| ParquetError::External(error.into()))?;
            compressed = Some(snappy).filter(|snappy| snappy.len() < size);
        }
        let codec = if compressed.is_some() { Compression::SNAPPY } else { Compression::UNCOMPRESSED };
        let page = Page::DataPage {
            buf: compressed.unwrap_or(data).into(),
            num_values: rows as u32,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let values = write(page, size)?;
        let offset = values.offset;
        parts.push(values);
        let mut metadata = ColumnChunkMetaData::builder(column)
            .set_compression(codec)
            .set_encodings(encodings)
            .set_total_compressed_size(parts.iter().map(|part| part.compressed_size as i64).sum())
            .set_total_uncompressed_size(parts.iter().map(|part| part.uncompressed_size as i64).sum())
            .set_num_values(rows as i64)
            .set_dictionary_page_offset(has_dictionary.then(|| parts[0].offset as i64))
            .set_data_page_offset(offset as i64);
        if let Some(statistics) = statistics {
            metadata = metadata.set_statistics(statistics);
        }
        let bytes = Bytes::from(sink.into_inner()?);
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: rows as u64,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((bytes, close))
    }
}
