//! The send buffer of a subflow, as Linux grows it.
//!
//! The kernel charges the data of a subflow, with its memory overhead, to the subflow's own buffer
//! (`sk_sndbuf`), and data written by a program but not acknowledged by the peer's data level to that of the
//! connection, which is the sum of its subflows' buffers. A subflow's buffer begins with space for ten
//! segments and becomes twice its congestion window when it has run dry while the program waits for space
//! (`tcp_new_space`), up to a maximum (`tcp_wmem`). A program that sets `SO_SNDBUF` has that size from then
//! on, for the connection and for each subflow.
//!
//! **Source**: `tcp_sndbuf_expand` in net/ipv4/tcp_input.c, `__mptcp_sync_sndbuf` in net/mptcp/protocol.h and
//! `mptcp_sendmsg` in net/mptcp/protocol.c of Linux 6.18; `ss -tiMm`.
//!
//! **Constants**: 2304 bytes of memory for a segment, 1024 of overhead per packet of at most two segments,
//! 4096 for the connection; pieces of 32,728 bytes, which is a page of 32 KiB less its header.

use super::Subflow;
use crate::config::SendBuffers;

/// The memory for a segment of Ethernet's size, as rounded up by the kernel.
const SEGMENT: u64 = 2304;
/// The minimum number of segments for which a buffer has space.
const LEAST_SEGMENTS: u64 = 10;
/// The overhead of a packet.
const HEAD: u64 = 1024;
/// The length of the pieces in which written data is stored, and assigned to subflows.
pub(crate) const PIECE: u64 = 32_728;
/// The memory of a connection beside its subflows' buffers: the minimum of `tcp_wmem`.
pub(crate) const CONNECTION: u64 = 4096;

/// Returns the buffer of a new subflow, in bytes of memory.
pub(crate) fn initial(buffers: SendBuffers) -> u32 {
    short(match buffers {
        SendBuffers::Fixed(size) => size.get(),
        SendBuffers::Auto { initial, max } => {
            initial.get().max(2 * LEAST_SEGMENTS * SEGMENT).min(max.get().max(initial.get()))
        }
    })
}

/// Converts a size; the maximum value means no buffer.
fn short(size: u64) -> u32 {
    size.min(u64::from(u32::MAX - 1)) as u32
}

/// Returns the buffer for a window of `cwnd` bytes in segments of `mss`, if the kernel updates it now.
pub(crate) fn expanded(buffers: SendBuffers, now: u32, cwnd: u64, mss: u64) -> u32 {
    match buffers {
        SendBuffers::Fixed(_) => now,
        SendBuffers::Auto { max, .. } => {
            let segments = (cwnd / mss.max(1)).max(LEAST_SEGMENTS);
            now.max(short((2 * segments * SEGMENT).min(max.get())))
        }
    }
}

/// Returns the memory of a subflow with `unacked` bytes sent and unacknowledged and `queued` bytes to send.
pub(crate) fn memory(unacked: u64, queued: u64, mss: u64) -> u64 {
    let packets = unacked.div_ceil(2 * mss.max(1)) + queued.div_ceil(1 << 16);
    unacked + queued + HEAD * packets
}

/// Returns the end of the piece that contains `offset` of the stream.
pub(crate) fn end_of_piece(offset: u64) -> u64 {
    (offset / PIECE + 1) * PIECE
}

impl Subflow {
    /// Returns its send buffer, in bytes of memory.
    #[inline]
    pub(crate) fn send_buffer(&self) -> u32 {
        self.send_buffer
    }

    /// Expands the send buffer if an acknowledgement was received, the subflow cannot fill its window and the
    /// application is `blocked` (`tcp_check_space`). Returns true if it has grown.
    pub(crate) fn expand_send_buffer(&mut self, buffers: SendBuffers, blocked: bool) -> bool {
        if core::mem::replace(&mut self.buffer_checked, true) || !blocked {
            return false;
        }
        let mss = u64::from(self.mss);
        if self.in_flight() + self.queue.bytes() + mss > self.cwnd {
            return false;
        }
        let size = expanded(buffers, self.send_buffer, self.cwnd, mss);
        let grown = size > self.send_buffer;
        self.send_buffer = size;
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_units::Bytes;

    const AUTO: SendBuffers = SendBuffers::Auto { initial: Bytes(16_384), max: Bytes(4 << 20) };

    #[test]
    fn a_buffer_follows_the_window_as_seen_in_a_kernel() {
        assert_eq!(initial(AUTO), 46_080);
        assert_eq!(expanded(AUTO, 46_080, 66 * 1424, 1424), 304_128);
        assert_eq!(expanded(AUTO, 304_128, 59 * 1424, 1424), 304_128, "it does not become smaller");
        assert_eq!(expanded(AUTO, 304_128, 5000 * 1424, 1424), 4 << 20);
        // The kernel reports 60,904 and 194,720 for these.
        assert_eq!(memory(20 * 1424, 22_440, 1424), 50_920 + 11 * 1024);
        assert_eq!(memory(60 * 1424, 70_936, 1424), 156_376 + 32 * 1024);
    }

    #[test]
    fn a_size_that_a_program_sets_stays() {
        let fixed = SendBuffers::Fixed(Bytes(1 << 20));
        assert_eq!(initial(fixed), 1 << 20);
        assert_eq!(expanded(fixed, 1 << 20, 9000 * 1424, 1424), 1 << 20);
        let large = SendBuffers::Auto { initial: Bytes(8 << 20), max: Bytes(4 << 20) };
        assert_eq!(initial(large), 8 << 20);
    }

    #[test]
    fn pieces_follow_each_other_without_a_gap() {
        assert_eq!((end_of_piece(0), end_of_piece(PIECE - 1)), (PIECE, PIECE));
        assert_eq!(end_of_piece(PIECE), 2 * PIECE);
    }
}
