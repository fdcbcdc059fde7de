//! A column of whole numbers, compact in JSON.

use serde::{Serialize, Serializer};

/// A column of whole numbers.
///
/// Serialised, it is a text: the differences of successive numbers as LEB128 in zigzag form, in base 64. A million times or
/// offsets of a recording take a few bytes each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column(pub Vec<i64>);

impl Column {
    /// Adds a number; the largest one stands for all that are larger.
    pub fn push(&mut self, number: u64) {
        self.0.push(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// Adds a number, or -1 for none.
    pub fn push_or_none(&mut self, number: Option<u64>) {
        match number {
            Some(number) => self.push(number),
            None => self.0.push(-1),
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True without values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn packed(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(3 * self.0.len());
        let mut last = 0i64;
        for number in &self.0 {
            let difference = number.wrapping_sub(last);
            last = *number;
            let mut rest = ((difference << 1) ^ (difference >> 63)) as u64;
            while rest >= 0x80 {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
        }
        bytes
    }
}

impl Serialize for Column {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base64(&self.packed()))
    }
}

/// Returns `bytes` in base 64 (RFC 4648 section 4).
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at)) as usize & 63];
            text.push(if at > group.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_64_is_that_of_the_rfc() {
        let pairs = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (text, wanted) in pairs {
            assert_eq!(base64(text.as_bytes()), wanted);
        }
    }

    #[test]
    fn differences_take_one_byte_while_they_are_small_and_any_number_fits() {
        assert_eq!(Column(vec![0, 1, 0, -1, 63]).packed(), [0, 2, 1, 1, 0x80, 1]);
        assert_eq!(Column(vec![i64::MAX, i64::MIN, 0]).packed().len(), 10 + 1 + 10);
    }
}
