//! Attributes of netlink messages, read and written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::{DecodeError, NLA_F_NESTED, NlasIterator};

use crate::error::KernelError;

/// The length of the header of an attribute.
const HEADER: usize = 4;

impl From<DecodeError> for KernelError {
    fn from(error: DecodeError) -> KernelError {
        KernelError::Malformed(error.to_string())
    }
}

/// Calls `each` with the kind and the value of every attribute in `bytes`.
///
/// # Errors
/// If the attributes are malformed, and the errors of `each`.
pub(crate) fn each<'a>(
    bytes: &'a [u8],
    mut each: impl FnMut(u16, &'a [u8]) -> Result<(), KernelError>,
) -> Result<(), KernelError> {
    let mut at = 0;
    for attribute in NlasIterator::new(bytes) {
        let attribute = attribute?;
        let length = usize::from(attribute.length());
        // The value is taken from `bytes`, as the one of the iterator's item lives shorter.
        let value = bytes.get(at + HEADER..at + length).unwrap_or_default();
        each(attribute.kind(), value)?;
        at += length.next_multiple_of(HEADER);
    }
    Ok(())
}

/// Returns the error for a value of a wrong length.
fn wrong(expected: usize, value: &[u8]) -> KernelError {
    KernelError::Malformed(format!("an attribute has {} bytes in place of {expected}", value.len()))
}

/// Returns the value as that many bytes.
fn exactly<const N: usize>(value: &[u8]) -> Result<[u8; N], KernelError> {
    value.try_into().map_err(|_| wrong(N, value))
}

pub(crate) fn u8_of(value: &[u8]) -> Result<u8, KernelError> {
    exactly(value).map(|[byte]: [u8; 1]| byte)
}

pub(crate) fn u16_of(value: &[u8]) -> Result<u16, KernelError> {
    exactly(value).map(u16::from_ne_bytes)
}

pub(crate) fn be16_of(value: &[u8]) -> Result<u16, KernelError> {
    exactly(value).map(u16::from_be_bytes)
}

pub(crate) fn u32_of(value: &[u8]) -> Result<u32, KernelError> {
    exactly(value).map(u32::from_ne_bytes)
}

pub(crate) fn ipv4_of(value: &[u8]) -> Result<IpAddr, KernelError> {
    exactly::<4>(value).map(|octets| IpAddr::V4(Ipv4Addr::from(octets)))
}

pub(crate) fn ipv6_of(value: &[u8]) -> Result<IpAddr, KernelError> {
    exactly::<16>(value).map(|octets| IpAddr::V6(Ipv6Addr::from(octets)))
}

/// Returns a text, which ends before its first zero byte.
pub(crate) fn text_of(value: &[u8]) -> String {
    let text = value.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// Attributes that are written one after the other.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// Adds an attribute. Values are a few bytes long.
    pub(crate) fn put(&mut self, kind: u16, value: &[u8]) -> &mut Writer {
        let length = (HEADER + value.len()) as u16;
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(HEADER), 0);
        self
    }

    /// Adds an attribute with attributes in it.
    pub(crate) fn nest(&mut self, kind: u16, write: impl FnOnce(&mut Writer)) -> &mut Writer {
        let mut inner = Writer::default();
        write(&mut inner);
        self.put(kind | NLA_F_NESTED, &inner.0)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_were_written_are_read_with_their_padding() {
        let mut writer = Writer::default();
        writer.put(1, &[9]).nest(2, |inner| {
            inner.put(3, &7_u32.to_ne_bytes()).put(4, b"abc");
        });
        let mut seen = Vec::new();
        each(writer.bytes(), |kind, value| {
            seen.push((kind, value.to_vec()));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen[0], (1, vec![9]));
        let mut inner = Vec::new();
        each(&seen[1].1, |kind, value| {
            inner.push((kind, value.len()));
            Ok(())
        })
        .unwrap();
        assert_eq!((seen[1].0, inner), (2, vec![(3, 4), (4, 3)]));
        let cut = &writer.bytes()[..writer.bytes().len() - 4];
        assert!(each(cut, |_, _| Ok(())).is_err());
    }
}
