//! The pieces in which Linux stores the data that a program writes, and their memory.
//!
//! **Source**: `mptcp_sendmsg` in net/mptcp/protocol.c and `tcp_sendmsg_locked` in net/ipv4/tcp.c of Linux 6.18.

/// The overhead of a packet.
pub(crate) const HEAD: u64 = 1024;
/// The length of the pieces in which written data is stored, and assigned to subflows.
const PIECE: u64 = 32_728;

/// Returns the memory of a subflow with `unacked` bytes sent and unacknowledged and `queued` bytes to send.
pub(crate) fn memory(unacked: u64, queued: u64, mss: u64) -> u64 {
    let packets = unacked.div_ceil(2 * mss.max(1)) + queued.div_ceil(1 << 16);
    unacked + queued + HEAD * packets
}

/// Returns the end of the piece that contains `offset` of the stream.
pub(crate) fn end_of_piece(offset: u64) -> u64 {
    (offset / PIECE + 1) * PIECE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_follow_each_other_without_a_gap() {
        assert_eq!((end_of_piece(0), end_of_piece(PIECE - 1)), (PIECE, PIECE));
        assert_eq!(end_of_piece(PIECE), 2 * PIECE);
    }

    #[test]
    fn the_memory_is_as_the_kernel_counts_it() {
        // The kernel reports 60,904 and 194,720 for these.
        assert_eq!(memory(20 * 1424, 22_440, 1424), 50_920 + 11 * 1024);
        assert_eq!(memory(60 * 1424, 70_936, 1424), 156_376 + 32 * 1024);
    }
}
