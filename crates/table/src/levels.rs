//! For each row whether it has a value: the definition levels of Parquet.

use crate::dictionary::varint;

/// The definition levels of a column without nesting, a bit for each row.
#[derive(Default)]
pub(crate) struct Levels {
    /// Eight rows in each byte, the first in its lowest bit. Bits after the last row are 0.
    bits: Vec<u8>,
    rows: usize,
    present: usize,
}

/// Bytes of equal bits from which a run takes less space than the bits themselves.
const RUN: usize = 4;

impl Levels {
    /// Adds a row.
    pub(crate) fn push(&mut self, present: bool) {
        if self.rows.is_multiple_of(8) {
            self.bits.push(0);
        }
        if let Some(last) = self.bits.last_mut() {
            *last |= u8::from(present) << (self.rows % 8);
        }
        self.rows += 1;
        self.present += usize::from(present);
    }

    /// Adds rows: the elements of `values` for which `present` is true.
    #[inline]
    pub(crate) fn extend<T: Copy>(&mut self, mut values: &[T], present: impl Fn(T) -> bool) {
        while !self.rows.is_multiple_of(8)
            && let Some((first, rest)) = values.split_first()
        {
            self.push(present(*first));
            values = rest;
        }
        let (eights, rest) = values.as_chunks::<8>();
        for eight in eights {
            let byte = (0..8).fold(0, |byte, at| byte | u8::from(present(eight[at])) << at);
            self.bits.push(byte);
            self.present += byte.count_ones() as usize;
        }
        self.rows += 8 * eights.len();
        rest.iter().for_each(|value| self.push(present(*value)));
    }

    /// Returns the number of rows without a value.
    pub(crate) fn missing(&self) -> usize {
        self.rows - self.present
    }

    /// Removes all rows.
    pub(crate) fn clear(&mut self) {
        (self.rows, self.present) = (0, 0);
        self.bits.clear();
    }

    /// Appends the levels as a data page begins with them: their length, then the hybrid of runs and bit packing of
    /// numbers of one bit (Parquet, Encodings.md, RLE = 3).
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0; 4]);
        if self.present == self.rows || self.present == 0 {
            run(self.rows, self.present > 0, out);
        } else {
            // The last byte is packed, as it may have fewer rows.
            let whole = self.rows / 8;
            let mut packed = 0;
            let mut at = 0;
            while at < whole {
                let byte = self.bits[at];
                let same = self.bits[at..whole].iter().take_while(|other| **other == byte).count();
                if matches!(byte, 0 | 0xff) && same >= RUN {
                    pack(&self.bits[packed..at], out);
                    run(8 * same, byte > 0, out);
                    packed = at + same;
                }
                at += same;
            }
            pack(&self.bits[packed..], out);
        }
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }
}

fn run(rows: usize, present: bool, out: &mut Vec<u8>) {
    varint((rows as u64) << 1, out);
    out.push(u8::from(present));
}

fn pack(bits: &[u8], out: &mut Vec<u8>) {
    if !bits.is_empty() {
        varint((bits.len() as u64) << 1 | 1, out);
        out.extend(bits);
    }
}
