//! Values with few different ones among them, as numbers of a dictionary.
//!
//! The library hashes every value that it writes. Here a text is a number from the beginning, which takes a tenth of the time
//! in tables of many rows.

use rustc_hash::FxHashMap;

/// The values of a dictionary as Parquet stores them, and their number.
pub(crate) type Dictionary = (Vec<u8>, usize);

/// Texts that are not yet written, as their places in a dictionary.
#[derive(Default)]
pub(crate) struct Names {
    /// A group of rows has at most 2^16 values, so that there are no more texts.
    codes: Vec<u16>,
    texts: Vec<Box<str>>,
    by_text: FxHashMap<Box<str>, u16>,
    /// For each text in the list of a batch its code, or [`UNKNOWN`].
    by_place: Vec<u32>,
}

const UNKNOWN: u32 = u32::MAX;

impl Names {
    /// Adds a text.
    pub(crate) fn push(&mut self, text: &str) {
        let code = self.code(text);
        self.codes.push(code);
    }

    /// Adds texts by their places in `list`; places after its end are skipped.
    pub(crate) fn extend(&mut self, list: &[Box<str>], places: &[u32]) {
        self.by_place.clear();
        self.by_place.resize(list.len(), UNKNOWN);
        for place in places {
            let place = *place as usize;
            let code = match self.by_place.get(place) {
                Some(&UNKNOWN) => {
                    let code = self.code(&list[place]);
                    self.by_place[place] = u32::from(code);
                    code
                }
                Some(code) => *code as u16,
                None => continue,
            };
            self.codes.push(code);
        }
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

    /// Appends the encoded texts to `data`, removes them, and returns their dictionary.
    pub(crate) fn write(&mut self, data: &mut Vec<u8>) -> Dictionary {
        let mut plain = Vec::new();
        for text in &self.texts {
            plain.extend((text.len() as u32).to_le_bytes());
            plain.extend(text.as_bytes());
        }
        let entries = self.texts.len();
        write_codes(&self.codes, entries, data);
        *self = Names { codes: core::mem::take(&mut self.codes), ..Names::default() };
        self.codes.clear();
        (plain, entries)
    }
}

/// A dictionary has at most one number for this many values of its column, and [`ENTRIES`] more: else the numbers
/// themselves take less space, or too little more.
const VALUES_PER_ENTRY: usize = 4;
const ENTRIES: usize = 64;

/// Appends the numbers to `data`, and returns their dictionary. None if too many are different; then nothing is appended.
pub(crate) fn write_numbers(numbers: &[f64], data: &mut Vec<u8>) -> Option<Dictionary> {
    let mut codes = Vec::with_capacity(numbers.len());
    let mut by_bits = FxHashMap::default();
    let mut plain = Vec::new();
    for (at, number) in numbers.iter().enumerate() {
        let next = by_bits.len() as u16;
        let code = *by_bits.entry(number.to_bits()).or_insert(next);
        if code == next {
            plain.extend(number.to_le_bytes());
            if by_bits.len() > ENTRIES + at / VALUES_PER_ENTRY {
                return None;
            }
        }
        codes.push(code);
    }
    write_codes(&codes, by_bits.len(), data);
    Some((plain, by_bits.len()))
}

/// Appends the places of values in a dictionary of this size: their width in bits, and the numbers.
fn write_codes(codes: &[u16], entries: usize, data: &mut Vec<u8>) {
    let most = entries.max(2) - 1;
    let width = (usize::BITS - most.leading_zeros()) as u8;
    data.push(width);
    hybrid(codes, width, data);
}

/// Appends numbers of `width` bits, 16 at the most, in the hybrid of runs and bit packing (Parquet, Encodings.md, RLE = 3).
fn hybrid(values: &[u16], width: u8, out: &mut Vec<u8>) {
    let mut rest = values;
    // Groups of eight that are no run, packed.
    let mut packed: Vec<u8> = Vec::new();
    while let Some((group, later)) = rest.split_first_chunk::<8>() {
        let first = group[0];
        if *group == [first; 8] {
            let run = 8 + later.iter().take_while(|value| **value == first).count();
            flush(&mut packed, width, out);
            varint((run as u64) << 1, out);
            out.extend(&first.to_le_bytes()[..usize::from(width).div_ceil(8)]);
            rest = &rest[run..];
            continue;
        }
        pack(*group, width, &mut packed);
        rest = later;
    }
    if !rest.is_empty() {
        // The last group is filled up; readers know the number of values.
        let mut group = [0; 8];
        group[..rest.len()].copy_from_slice(rest);
        pack(group, width, &mut packed);
    }
    flush(&mut packed, width, out);
}

/// Appends eight numbers of `width` bits.
fn pack(group: [u16; 8], width: u8, packed: &mut Vec<u8>) {
    if width <= 8 {
        let bits = group.iter().rev().fold(0_u64, |bits, value| bits << width | u64::from(*value));
        packed.extend(&bits.to_le_bytes()[..usize::from(width)]);
    } else {
        let bits = group.iter().rev().fold(0_u128, |bits, value| bits << width | u128::from(*value));
        packed.extend(&bits.to_le_bytes()[..usize::from(width)]);
    }
}

/// Appends the packed groups as one sequence.
fn flush(packed: &mut Vec<u8>, width: u8, out: &mut Vec<u8>) {
    if !packed.is_empty() {
        varint(((packed.len() / usize::from(width)) as u64) << 1 | 1, out);
        out.append(packed);
    }
}

/// Appends a number in groups of seven bits (ULEB128).
pub(crate) fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
