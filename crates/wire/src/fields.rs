//! Infallible reading and writing of fields in network byte order.

/// Reads fields off the front; every read returns an option, so nothing can be read past the end.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    #[inline]
    pub(crate) fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.bytes::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_be_bytes)
    }
}

/// Writes fields one after another into a buffer; an overflow is remembered, and its bytes are not written.
pub(crate) struct Writer<'a> {
    space: &'a mut [u8],
    at: usize,
    overflow: bool,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(space: &'a mut [u8]) -> Writer<'a> {
        Writer { space, at: 0, overflow: false }
    }

    #[inline]
    pub(crate) fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        match self.space.get_mut(self.at..self.at + N) {
            Some(place) => {
                place.copy_from_slice(&bytes);
                self.at += N;
            }
            None => self.overflow = true,
        }
    }

    #[inline]
    pub(crate) fn u8(&mut self, value: u8) {
        self.put([value]);
    }

    #[inline]
    pub(crate) fn u16(&mut self, value: u16) {
        self.put(value.to_be_bytes());
    }

    #[inline]
    pub(crate) fn u32(&mut self, value: u32) {
        self.put(value.to_be_bytes());
    }

    #[inline]
    pub(crate) fn u64(&mut self, value: u64) {
        self.put(value.to_be_bytes());
    }

    /// Pads with `filler` to a multiple of four.
    pub(crate) fn pad(&mut self, filler: u8) {
        while !self.at.is_multiple_of(4) && !self.overflow {
            self.u8(filler);
        }
    }

    /// Returns the number of bytes written; none if they did not fit.
    pub(crate) fn finish(self) -> Option<usize> {
        (!self.overflow).then_some(self.at)
    }
}
