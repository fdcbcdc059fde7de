//! Packets in flight, in reusable buffers.

/// Buffers by number. Copies of a packet may share a buffer.
#[derive(Debug)]
pub(super) struct Pool {
    stride: usize,
    buffers: Vec<Buffer>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Buffer {
    bytes: Box<[u8]>,
    len: u32,
    holders: u32,
}

impl Pool {
    /// Returns a pool of `ready` buffers for packets of up to `stride` bytes; it grows if all are in use.
    pub(super) fn new(stride: usize, ready: usize) -> Pool {
        let mut pool = Pool { stride, buffers: Vec::new(), free: Vec::new() };
        for _ in 0..ready {
            pool.grow();
        }
        pool
    }

    fn grow(&mut self) {
        self.free.push(self.buffers.len() as u32);
        // Written now, so that the first packet in it causes no page fault.
        self.buffers.push(Buffer { bytes: vec![1; self.stride].into(), len: 0, holders: 0 });
    }

    /// Returns a free buffer.
    pub(super) fn take(&mut self) -> u32 {
        if self.free.is_empty() {
            self.grow();
        }
        let number = self.free.pop().unwrap_or_default();
        self.buffers[number as usize].holders = 1;
        number
    }

    /// Returns the whole buffer for writing.
    pub(super) fn buffer(&mut self, number: u32) -> &mut [u8] {
        &mut self.buffers[number as usize].bytes
    }

    /// Sets the length of the packet in the buffer.
    pub(super) fn set_len(&mut self, number: u32, len: usize) {
        self.buffers[number as usize].len = len as u32;
    }

    pub(super) fn packet(&self, number: u32) -> &[u8] {
        let buffer = &self.buffers[number as usize];
        &buffer.bytes[..buffer.len as usize]
    }

    /// Adds a holder.
    pub(super) fn share(&mut self, number: u32) {
        self.buffers[number as usize].holders += 1;
    }

    /// Removes a holder.
    pub(super) fn release(&mut self, number: u32) {
        let buffer = &mut self.buffers[number as usize];
        buffer.holders -= 1;
        if buffer.holders == 0 {
            self.free.push(number);
        }
    }

    /// Returns a buffer with the packet that has no other holder, for modification: the number may be a new
    /// one.
    pub(super) fn own(&mut self, number: u32) -> u32 {
        if self.buffers[number as usize].holders == 1 {
            return number;
        }
        let copy = self.take();
        let (at, from) = (copy as usize, number as usize);
        let len = self.buffers[from].len;
        let [from_buffer, to_buffer] = match self.buffers.get_disjoint_mut([from, at]) {
            Ok(both) => both,
            Err(_) => return number,
        };
        to_buffer.bytes[..len as usize].copy_from_slice(&from_buffer.bytes[..len as usize]);
        to_buffer.len = len;
        self.release(number);
        copy
    }

    /// Returns the number of buffers.
    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        self.buffers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_when_their_last_holder_has_gone() {
        let mut pool = Pool::new(8, 1);
        let a = pool.take();
        pool.buffer(a)[..3].copy_from_slice(b"abc");
        pool.set_len(a, 3);
        pool.share(a);
        let b = pool.own(a);
        assert_ne!(a, b);
        pool.buffer(b)[0] = b'x';
        assert_eq!((pool.packet(a), pool.packet(b)), (&b"abc"[..], &b"xbc"[..]));
        assert_eq!(pool.own(a), a);
        pool.release(a);
        pool.release(b);
        pool.take();
        pool.take();
        assert_eq!(pool.size(), 2);
    }
}
