//! The send buffer of a subflow, as Linux grows it.
//!
//! The kernel charges the data of a subflow, with its memory overhead, to the subflow's own buffer
//! (`sk_sndbuf`). It charges data written by a program but not acknowledged by the peer's data level to the
//! buffer of the connection, which is the sum of its subflows' buffers. A subflow's buffer begins with space
//! for ten segments and becomes twice its congestion window (three times with BBR) when it has run dry while
//! the program waits for space (`tcp_new_space`), up to a maximum (`tcp_wmem`). A program that sets
//! `SO_SNDBUF` has that size from then on, for the connection and for each subflow. Plain TCP has the buffer
//! of its only subflow.
//!
//! The memory admits less payload than its size, as each packet that a subflow hands to the device has an
//! overhead: its *space* is the payload that fits if all packets have the present size. Scheduler `linux`
//! counts the memory itself (`memory`), since it queues data there. For the others, which assign data when
//! the window admits it, the space limits the data in flight while the program waits for space, for then the buffer
//! grows. With everything written it would never grow, and the kernel asks for it in its own scheduler only.
//!
//! **Source**: `tcp_sndbuf_expand` in net/ipv4/tcp_input.c, `tcp_tso_autosize` in net/ipv4/tcp_output.c,
//! `tcp_xmit_size_goal` and `tcp_sendmsg_locked` in net/ipv4/tcp.c, `__mptcp_sync_sndbuf` in net/mptcp/protocol.h and
//! `mptcp_sendmsg` in net/mptcp/protocol.c of Linux 6.18; `ss -tiMm`.
//!
//! **Constants**: 2304 bytes of memory for a segment, 1024 of overhead per packet of at least two segments, which has the
//! payload of a millisecond, and at round trips of a few milliseconds a part of 64 KiB more;
//! 4096 for the connection; pieces of 32,728 bytes, which is a page of 32 KiB less its header.

use anabranch_units::{Duration, Rate};

use super::Subflow;
use crate::config::{ConnectionConfig, SendBuffers};
use crate::congestion::CongestionControl;
use crate::pieces::HEAD;
use crate::scheduler::SchedulerKind;

/// The memory for a segment of Ethernet's size, as rounded up by the kernel.
const SEGMENT: u64 = 2304;
/// The minimum number of segments for which a buffer has space.
const LEAST_SEGMENTS: u64 = 10;
/// The largest packet that a segmenting sender hands to a device: 64 KiB with all headers (`sk_gso_max_size`).
const LARGEST_PACKET: u64 = (1 << 16) - 321;
/// The memory of a connection in addition to its subflows' buffers, in bytes: the minimum of `tcp_wmem`.
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

/// Returns the buffer for `windows` windows of `cwnd` bytes in segments of `mss`, if the kernel updates it now.
pub(crate) fn expanded(buffers: SendBuffers, now: u32, windows: u64, cwnd: u64, mss: u64) -> u32 {
    match buffers {
        SendBuffers::Fixed(_) => now,
        SendBuffers::Auto { max, .. } => {
            let segments = (cwnd / mss.max(1)).max(LEAST_SEGMENTS);
            now.max(short((windows * segments * SEGMENT).min(max.get())))
        }
    }
}

/// Returns the payload of a packet that a sender at `rate` hands to the device, for a minimum round trip of `min_rtt`
/// (`tcp_tso_autosize`).
pub(super) fn packet(rate: Rate, min_rtt: Duration, mss: u64) -> u64 {
    let paced = rate.0 / 8 / 1024;
    let near =
        u32::try_from(min_rtt.as_micros() >> 9).ok().and_then(|shift| LARGEST_PACKET.checked_shr(shift));
    let size = paced.saturating_add(near.unwrap_or(0)).min(LARGEST_PACKET);
    (size - size % mss).max(2 * mss)
}

/// Returns the payload that fits into `buffer` bytes of memory in packets of `packet` bytes.
fn payload(buffer: u32, packet: u64) -> u32 {
    match buffer {
        u32::MAX => u32::MAX,
        // At least a segment, in a buffer however small.
        _ => short((u64::from(buffer) * packet / (packet + HEAD)).max(packet / 2)),
    }
}

impl Subflow {
    /// Returns its send buffer, in bytes of memory.
    #[inline]
    pub(crate) fn send_buffer(&self) -> u32 {
        self.send_buffer
    }

    /// Returns the payload that fits into its send buffer.
    #[inline]
    pub(crate) fn send_space(&self) -> u32 {
        self.send_space
    }

    /// Returns the payload for which its send buffer has no space yet, if that limits what may be assigned.
    #[inline]
    pub(super) fn free_space(&self) -> u64 {
        if !self.space_bounds || !self.awaits_space {
            return u64::MAX;
        }
        let held = self.board.nxt() - self.board.una() + self.queue.bytes();
        u64::from(self.send_space).saturating_sub(held)
    }

    /// Notes whether the application waits for space. Returns true if that changes what may be assigned.
    #[inline]
    pub(crate) fn set_awaits_space(&mut self, awaits: bool) -> bool {
        let before = core::mem::replace(&mut self.awaits_space, awaits);
        self.space_bounds && before != awaits
    }

    /// True if its send buffer has no space for a segment that its window admits.
    pub(crate) fn is_space_short(&self) -> bool {
        let mss = u64::from(self.mss);
        self.space_bounds
            && self.state.is_usable()
            && self.free_space() < mss
            && self.in_flight() + self.queue.bytes() + mss <= self.cwnd
    }

    /// Sets its send buffer as configured; `multipath` is false in a plain TCP, which keeps all that is written.
    pub(super) fn set_send_buffer(&mut self, config: &ConnectionConfig, multipath: bool) {
        let buffers = config.send_buffers;
        self.send_buffer = buffers.map_or(u32::MAX, initial);
        self.send_space = payload(self.send_buffer, 2 * u64::from(self.mss));
        let counts_memory = matches!(config.scheduler, SchedulerKind::Linux(_));
        self.space_bounds = buffers.is_some() && config.kernel_buffers && multipath && !counts_memory;
        self.packets.freeze = buffers.is_some() && multipath && counts_memory;
    }

    /// Returns the payload of the largest packet that the application's data is stored in: 64 KiB, or half of the
    /// largest window of the peer (`tcp_xmit_size_goal`).
    pub(crate) fn largest_packet(&self) -> u64 {
        let mss = u64::from(self.mss.max(1));
        let window = self.max_window.max(self.window_edge.saturating_sub(self.board.una()));
        let most = LARGEST_PACKET.min(window / 2);
        (most - most % mss).max(mss)
    }

    /// Returns the bytes that its windows admit beyond its queue, if the packets that it sends are smaller
    /// than the packets in which data is stored; 0 otherwise.
    pub(crate) fn window_for_more<C: CongestionControl>(&self, congestion: &C) -> u64 {
        let min_rtt = self.rtt.min().unwrap_or(Duration::ZERO);
        if packet(self.pacing_rate(congestion), min_rtt, u64::from(self.mss)) >= self.largest_packet() {
            return 0;
        }
        let window = self.window_edge.saturating_sub(self.board.nxt());
        self.cwnd.saturating_sub(self.in_flight()).min(window).saturating_sub(self.queue.bytes())
    }

    /// Expands the send buffer to this number of `windows` if an acknowledgement was received, the subflow cannot fill
    /// its window and the application is `blocked` (`tcp_check_space`). If everything that may be is already `sent`, its
    /// queue does not count (`tcp_should_expand_sndbuf`). Returns true if it has changed.
    pub(crate) fn expand_send_buffer<C: CongestionControl>(
        &mut self,
        buffers: SendBuffers,
        windows: u64,
        blocked: bool,
        sent: bool,
        congestion: &C,
    ) -> bool {
        if core::mem::replace(&mut self.buffer_checked, true) || !blocked {
            return false;
        }
        let mss = u64::from(self.mss);
        let queued = if sent { 0 } else { self.queue.bytes() };
        if self.in_flight() + queued + mss > self.cwnd {
            return false;
        }
        let size = expanded(buffers, self.send_buffer, windows, self.cwnd, mss);
        let min_rtt = self.rtt.min().unwrap_or(Duration::ZERO);
        let space = payload(size, packet(self.pacing_rate(congestion), min_rtt, mss));
        let before = (self.send_buffer, self.send_space);
        (self.send_buffer, self.send_space) = (size, space);
        before != (size, space)
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
        assert_eq!(expanded(AUTO, 46_080, 2, 66 * 1424, 1424), 304_128);
        assert_eq!(expanded(AUTO, 304_128, 2, 59 * 1424, 1424), 304_128, "it does not become smaller");
        assert_eq!(expanded(AUTO, 304_128, 2, 5000 * 1424, 1424), 4 << 20);
        assert_eq!(expanded(AUTO, 46_080, 3, 66 * 1424, 1424), 456_192, "with BBR");
    }

    #[test]
    fn a_size_that_a_program_sets_stays() {
        let fixed = SendBuffers::Fixed(Bytes(1 << 20));
        assert_eq!(initial(fixed), 1 << 20);
        assert_eq!(expanded(fixed, 1 << 20, 2, 9000 * 1424, 1424), 1 << 20);
        let large = SendBuffers::Auto { initial: Bytes(8 << 20), max: Bytes(4 << 20) };
        assert_eq!(initial(large), 8 << 20);
    }

    #[test]
    fn a_fast_or_near_sender_has_large_packets_and_so_more_space_in_its_memory() {
        let (mss, far) = (1448, Duration::from_millis(700));
        assert_eq!(packet(Rate::from_mbps(10), far, mss), 2 * mss, "1.2 KB in a millisecond");
        assert_eq!(packet(Rate::from_mbps(100), far, mss), 8 * mss, "12.2 KB");
        assert_eq!(packet(Rate::from_mbps(1000), far, mss), 45 * mss, "64 KiB");
        // 5120 >> 9 is 10: 64 bytes more; 512 us: half of 64 KiB more.
        assert_eq!(packet(Rate::from_mbps(10), Duration::from_micros(512), mss), 23 * mss);
        assert_eq!(packet(Rate::from_mbps(10), Duration::ZERO, mss), 45 * mss);
        assert_eq!(payload(4 << 20, 2 * mss), 3_098_649);
        assert_eq!(payload(u32::MAX, 2 * mss), u32::MAX);
        assert_eq!(payload(100, 2 * mss), 1448, "never less than a segment");
    }
}
