//! Texts of few values, as a column chunk of Parquet with a dictionary.
//!
//! The library hashes every value that it writes. Here a value is a number from the beginning, which takes a tenth of the time
//! in tables of many rows. One dictionary page and one data page make a chunk, without compression: the numbers are packed.

use std::collections::HashMap;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

/// Values of a column that are not yet written, as numbers of texts.
#[derive(Default)]
pub(crate) struct Names {
    /// A group of rows has at most 2^16 values, so that there are no more texts.
    codes: Vec<u16>,
    texts: Vec<Box<str>>,
    by_text: HashMap<Box<str>, u16>,
    /// By address and length of static texts.
    by_address: Vec<((usize, usize), u16)>,
}

impl Names {
    /// Adds a static text.
    #[inline]
    pub(crate) fn push_name(&mut self, name: &'static str) {
        let address = (name.as_ptr() as usize, name.len());
        let code = match self.by_address.iter().find(|known| known.0 == address) {
            Some(known) => known.1,
            None => {
                let code = self.code(name);
                self.by_address.push((address, code));
                code
            }
        };
        self.codes.push(code);
    }

    /// Adds a text.
    pub(crate) fn push(&mut self, text: &str) {
        let code = self.code(text);
        self.codes.push(code);
    }

    fn code(&mut self, text: &str) -> u16 {
        if let Some(code) = self.by_text.get(text) {
            return *code;
        }
        let code = self.texts.len() as u16;
        self.texts.push(text.into());
        self.by_text.insert(text.into(), code);
        code
    }

    /// Removes the last value.
    pub(crate) fn pop(&mut self) {
        self.codes.pop();
    }

    /// Returns the chunk with the values, its bytes first, and clears them. `present` has a one for each row with a value; none
    /// if all have one.
    pub(crate) fn chunk(
        &mut self,
        column: ColumnDescPtr,
        present: Option<&[i16]>,
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        let rows = present.map_or(self.codes.len(), <[i16]>::len);
        let mut sink = TrackedWrite::new(Vec::new());
        let mut pages = SerializedPageWriter::new(&mut sink);
        let mut plain = Vec::new();
        for text in &self.texts {
            plain.extend((text.len() as u32).to_le_bytes());
            plain.extend(text.as_bytes());
        }
        let size = plain.len();
        let page = Page::DictionaryPage {
            buf: plain.into(),
            num_values: self.texts.len() as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        let dictionary = pages.write_page(CompressedPage::new(page, size))?;
        let mut data = Vec::new();
        if let Some(present) = present {
            data.extend([0; 4]);
            hybrid(present.iter().map(|level| *level as u16), 1, &mut data);
            let length = (data.len() - 4) as u32;
            data[..4].copy_from_slice(&length.to_le_bytes());
        }
        let most = self.texts.len().max(2) - 1;
        let width = (usize::BITS - most.leading_zeros()) as u8;
        data.push(width);
        hybrid(self.codes.iter().copied(), width, &mut data);
        let size = data.len();
        let page = Page::DataPage {
            buf: data.into(),
            num_values: rows as u32,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let values = pages.write_page(CompressedPage::new(page, size))?;
        let metadata = ColumnChunkMetaData::builder(column)
            .set_compression(Compression::UNCOMPRESSED)
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
            .set_total_compressed_size((dictionary.compressed_size + values.compressed_size) as i64)
            .set_total_uncompressed_size((dictionary.uncompressed_size + values.uncompressed_size) as i64)
            .set_num_values(rows as i64)
            .set_dictionary_page_offset(Some(dictionary.offset as i64))
            .set_data_page_offset(values.offset as i64)
            .build()?;
        *self = Names { codes: core::mem::take(&mut self.codes), ..Names::default() };
        self.codes.clear();
        let bytes = Bytes::from(sink.into_inner()?);
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((bytes, close))
    }
}

/// Appends numbers of `width` bits, 16 at the most, in the hybrid of runs and bit packing (Parquet, Encodings.md, RLE = 3).
fn hybrid(values: impl ExactSizeIterator<Item = u16> + Clone, width: u8, out: &mut Vec<u8>) {
    let mut values = values.peekable();
    // Groups of eight that are no run, packed.
    let mut packed: Vec<u8> = Vec::new();
    let mut group = [0_u16; 8];
    while values.len() > 0 {
        let mut n = 0;
        while n < 8
            && let Some(value) = values.next()
        {
            group[n] = value;
            n += 1;
        }
        let first = group[0];
        if n == 8 && group == [first; 8] {
            let mut run = 8_u64;
            while values.next_if_eq(&first).is_some() {
                run += 1;
            }
            flush(&mut packed, width, out);
            varint(run << 1, out);
            out.extend(&first.to_le_bytes()[..usize::from(width).div_ceil(8)]);
            continue;
        }
        // The last group is filled up; readers know the number of values.
        group[n..].fill(0);
        let bits = group.iter().rev().fold(0_u128, |bits, value| bits << width | u128::from(*value));
        packed.extend(&bits.to_le_bytes()[..usize::from(width)]);
    }
    flush(&mut packed, width, out);
}

/// Appends the packed groups as one sequence.
fn flush(packed: &mut Vec<u8>, width: u8, out: &mut Vec<u8>) {
    if !packed.is_empty() {
        varint(((packed.len() / usize::from(width)) as u64) << 1 | 1, out);
        out.append(packed);
    }
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
