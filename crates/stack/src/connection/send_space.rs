//! The space in the send buffer: its size, the bytes that occupy it, and the notification of a waiting
//! writer.

use anabranch_units::Duration;

use super::{Connection, Mode};
use crate::config::{ConnectionConfig, SendBuffers};
use crate::congestion::CongestionKind;
use crate::event::Event;
use crate::pieces;
use crate::scheduler::{SchedulerKind, SubflowView};
use crate::seq::DataRange;
use crate::subflow::defer::Deferral;
use crate::subflow::{Subflow, TcpState, send_buffer};

/// Returns the size to which the send buffer of a connection with this number of subflows can grow, in bytes.
#[inline]
pub(super) fn largest(config: &ConnectionConfig, subflows: usize) -> u64 {
    match config.send_buffers {
        Some(buffers) if config.kernel_buffers || matches!(config.scheduler, SchedulerKind::Linux(_)) => {
            match buffers {
                SendBuffers::Fixed(size) => size.get(),
                SendBuffers::Auto { max, .. } => max.get().saturating_mul(subflows.max(1) as u64),
            }
        }
        _ => config.send_buffer.get(),
    }
}

impl Connection {
    /// Returns the number of bytes that the application may write now.
    pub(super) fn room_to_write(&self) -> u64 {
        let limit = self.send_limit();
        if self.has_kernel_buffers() {
            if self.mode == Mode::Plain {
                return self.plain_room(limit);
            }
            // The kernel accepts a piece as long as the buffer is not full, and then all of it.
            let end = pieces::end_of_piece(self.send.una + limit - 1);
            return end.saturating_sub(self.send.written);
        }
        limit.saturating_sub(self.buffered())
    }

    /// Returns the number of bytes that a plain TCP accepts with a send buffer for `limit` bytes: whole packets as long as
    /// it is not full. Once it accepts some, the window counts too: what is split off the last packet and sent makes space
    /// in that packet, which is filled without a look at the memory (`tcp_sendmsg_locked` in net/ipv4/tcp.c of Linux 6.18;
    /// captures show 12 MB in flight with a buffer of 4 MB).
    fn plain_room(&self, limit: u64) -> u64 {
        let (Some(subflow), buffered) = (self.subflows.first(), self.buffered()) else { return 0 };
        if buffered >= limit {
            return 0;
        }
        let window = subflow.window_for_more(&self.congestion);
        let free = (limit - buffered).max(window.saturating_sub(self.send.unassigned.total()));
        let packet = subflow.largest_packet();
        free.div_ceil(packet).saturating_mul(packet)
    }

    /// Grows the send buffers of subflows with their windows (`tcp_check_space`), if a subflow has received
    /// an acknowledgement and cannot fill its window while the application waits.
    pub(super) fn expand_buffers(&mut self) {
        let Some(buffers) = self.config.send_buffers else { return };
        // `bbr_sndbuf_expand`.
        let windows = if matches!(self.config.congestion, CongestionKind::Bbr(_)) { 3 } else { 2 };
        let sent = self.deferral() != Deferral::Nothing;
        let Connection { subflows, congestion, send, .. } = self;
        let expand = |subflow: &mut Subflow| {
            subflow.expand_send_buffer(buffers, windows, send.blocked, sent, congestion)
        };
        if subflows.check_each(expand) {
            self.tell_writable();
        }
    }

    /// True if the send buffers have the sizes of the kernel's.
    #[inline]
    pub(super) fn has_kernel_buffers(&self) -> bool {
        self.rules.kernel_buffers || self.models_buffers()
    }

    /// True if the send buffer of some usable subflow has no space for a segment that its window admits.
    pub(super) fn is_space_short(&self) -> bool {
        self.subflows.iter().any(Subflow::is_space_short)
    }

    /// Returns the size of the send buffer, in bytes.
    pub(super) fn send_limit(&self) -> u64 {
        if self.has_kernel_buffers() {
            if self.mode == Mode::Plain {
                return self.subflows.first().map_or(1, |subflow| u64::from(subflow.send_space()));
            }
            if let Some(SendBuffers::Fixed(size)) = self.config.send_buffers {
                return size.get();
            }
            // Linux counts the buffer of a subflow that it has opened from the SYN/ACK on (`mptcp_finish_join`).
            let counts = |subflow: &&Subflow| {
                subflow.state().is_usable() || subflow.state().tcp() == TcpState::PreEstablished
            };
            let subflows = self.subflows.iter().filter(counts);
            let sum = subflows.map(|subflow| u64::from(subflow.send_buffer())).fold(0, u64::saturating_add);
            return send_buffer::CONNECTION + sum.max(1);
        }
        let most = self.config.send_buffer.get();
        let Some(start) = self.config.send_buffer_start else { return most };
        let start = start.get().min(most);
        if self.send.grows { start.max(self.wanted_send_buffer()).min(most) } else { start }
    }

    /// Returns twice the data that the windows allow in flight until all of it is acknowledged in order: data
    /// on a fast subflow waits for data on the slowest (RFC 6182 section 5.3).
    pub(super) fn wanted_send_buffer(&self) -> u64 {
        let usable = || self.subflows.iter().map(|subflow| subflow.view(None)).filter(|view| view.usable);
        let round_trip = |view: &SubflowView| view.srtt.unwrap_or(Duration::ZERO).as_micros();
        let longest = usable().map(|view| round_trip(&view)).max().unwrap_or(0);
        let under_way = |view: SubflowView| match round_trip(&view) {
            0 => view.cwnd,
            own => view.cwnd.saturating_mul(longest) / own,
        };
        usable().map(under_way).fold(0, u64::saturating_add).saturating_mul(2)
    }

    /// Returns the bytes in the send buffer: not acknowledged at the data level, or not on every subflow that
    /// carries them (RFC 8684 section 3.3.6), except failed subflows
    /// ([`Subflow::spare_in_flight`](crate::subflow::Subflow::spare_in_flight)).
    pub(super) fn buffered(&self) -> u64 {
        self.send.written - self.freed()
    }

    /// Returns the data before [`Connection::freed`] that subflows carry, which have potentially failed: each run once
    /// for each of them, in no order.
    pub(crate) fn still_carried(&self) -> Vec<DataRange> {
        let freed = self.freed();
        let mut runs: Vec<DataRange> = Vec::new();
        for subflow in self.subflows.iter().filter(|subflow| !subflow.state().is_closed()) {
            subflow.spared_before(freed, |range| match runs.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => runs.push(range),
            });
        }
        runs
    }

    /// Returns the offset below which a driver may discard the bytes it stores, except [`Connection::still_carried`].
    pub(crate) fn freed(&self) -> u64 {
        if self.mode == Mode::Plain {
            return self.send.una;
        }
        let mut held = self.subflows.iter().filter_map(Subflow::lowest_data).min();
        if self.models_buffers() {
            held = self.subflows.iter().filter_map(Subflow::lowest_queued).chain(held).min();
        }
        held.map_or(self.send.una, |lowest| lowest.min(self.send.una))
    }

    /// Does the work of [`Connection::freed`], with the answers that the subflows have given.
    #[inline]
    pub(super) fn freed_now(&mut self) -> u64 {
        if self.mode == Mode::Plain || self.models_buffers() {
            return self.freed();
        }
        let held = self.subflows.lowest_data();
        held.map_or(self.send.una, |lowest| lowest.min(self.send.una))
    }

    /// Notifies a writer that waits for space in the send buffer, whichever level has freed it. A third must be free, as in
    /// Linux, so that the writer is not woken for every segment.
    #[inline(always)]
    pub(super) fn tell_writable(&mut self) {
        if self.send.blocked {
            let enough = (self.send_limit() / 3 * 2).min(self.send.enough);
            // Data not acknowledged at the data level is a lower bound, and all that Linux counts.
            if self.send.buffered() <= enough
                && (self.has_kernel_buffers() || self.send.written - self.freed_now() <= enough)
            {
                self.send.blocked = false;
                self.events.push(Event::Writable);
            }
        }
    }

    /// Notifies a waiting writer of the send buffer of a subflow that has joined.
    pub(super) fn tell_of_join(&mut self) {
        if self.has_kernel_buffers() {
            self.tell_writable();
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Bytes;

    use super::*;

    #[test]
    fn a_send_buffer_grows_to_the_sum_of_its_subflows_or_to_the_size_of_the_connection() {
        let kernel = ConnectionConfig { kernel_buffers: true, ..ConnectionConfig::linux() };
        let auto = |max| Some(SendBuffers::Auto { initial: Bytes(16_384), max: Bytes(max) });
        let grown = ConnectionConfig { send_buffers: auto(4 << 20), ..kernel.clone() };
        assert_eq!(largest(&grown, 2), 8 << 20);
        let fixed =
            ConnectionConfig { send_buffers: Some(SendBuffers::Fixed(Bytes(1 << 20))), ..kernel.clone() };
        assert_eq!(largest(&fixed, 2), 1 << 20);
        let own = ConnectionConfig { send_buffer: Bytes(5 << 20), send_buffers: None, ..kernel };
        assert_eq!(largest(&own, 2), 5 << 20);
    }
}
