//! Packets under way, in buffers that are used again and again.

/// Buffers by number. A buffer may be shared by copies of a packet.
#[derive(Debug)]
pub struct Pool {
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
    /// A pool of `ready` buffers for packets of up to `stride` bytes; it grows when they are all in use.
    pub fn new(stride: usize, ready: usize) -> Pool {
        let mut pool = Pool { stride, buffers: Vec::new(), free: Vec::new() };
        for _ in 0..ready {
            pool.grow();
        }
        pool
    }

    fn grow(&mut self) {
        self.free.push(self.buffers.len() as u32);
        // Written to now, so that the first packet in it does not wait for a page.
        self.buffers.push(Buffer { bytes: vec![1; self.stride].into(), len: 0, holders: 0 });
    }

    /// A buffer that nobody has.
    pub fn take(&mut self) -> u32 {
        if self.free.is_empty() {
            self.grow();
        }
        let number = self.free.pop().unwrap_or_default();
        self.buffers[number as usize].holders = 1;
        number
    }

    /// The whole buffer, to be written to.
    pub fn room(&mut self, number: u32) -> &mut [u8] {
        &mut self.buffers[number as usize].bytes
    }

    /// The first `len` bytes are a packet.
    pub fn set_len(&mut self, number: u32, len: usize) {
        self.buffers[number as usize].len = len as u32;
    }

    /// The packet.
    pub fn packet(&self, number: u32) -> &[u8] {
        let buffer = &self.buffers[number as usize];
        &buffer.bytes[..buffer.len as usize]
    }

    /// One more holds it.
    pub fn share(&mut self, number: u32) {
        self.buffers[number as usize].holders += 1;
    }

    /// One less holds it.
    pub fn release(&mut self, number: u32) {
        let buffer = &mut self.buffers[number as usize];
        buffer.holders -= 1;
        if buffer.holders == 0 {
            self.free.push(number);
        }
    }

    /// The packet of a holder that changes it, which becomes the only one: the number may be a new one.
    pub fn own(&mut self, number: u32) -> u32 {
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

    /// How many buffers there are.
    #[cfg(test)]
    pub fn size(&self) -> usize {
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
        pool.room(a)[..3].copy_from_slice(b"abc");
        pool.set_len(a, 3);
        pool.share(a);
        let b = pool.own(a);
        assert_ne!(a, b);
        pool.room(b)[0] = b'x';
        assert_eq!((pool.packet(a), pool.packet(b)), (&b"abc"[..], &b"xbc"[..]));
        assert_eq!(pool.own(a), a);
        pool.release(a);
        pool.release(b);
        pool.take();
        pool.take();
        assert_eq!(pool.size(), 2);
    }
}
