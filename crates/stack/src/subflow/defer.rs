//! Deferral: a packet of several segments waits for acknowledgements that let it grow, as Linux does.
//!
//! Linux hands packets of several segments to the device, which cuts them (TSO). If the windows admit only a part of
//! the data that the pacing rate sends in a millisecond, and the next acknowledgement is near, it waits for that. This decides more
//! than the lengths of bursts: a subflow that defers has not filled its congestion window, so that its send buffer grows
//! (`send_buffer.rs`), and the rest of a packet waits for the program's next data and does not become a short
//! segment, for which the end of the data waits (`nagle`).
//!
//! **Source**: `tcp_tso_should_defer` and `tcp_write_xmit` in net/ipv4/tcp_output.c of Linux 6.18.
//!
//! **Constants**: one third of the window is sent at once (`tcp_tso_win_divisor`). Nothing is deferred more than a
//! millisecond after the last segment, or with an acknowledgement expected later than in a millisecond.
//!
//! **Departures from the source**: the stream of a plain TCP counts as one packet, and the packets of a subflow have the
//! size of the latest one.

use anabranch_units::{Duration, Time};

use super::Subflow;
use super::queue::Packet;
use super::send_buffer::packet;
use crate::congestion::CongestionControl;
use crate::scheduler::RecoveryState;

/// The part of the window that is sent at once.
const WINDOW_DIVISOR: u64 = 3;
/// The time after the last segment, and before the next acknowledgement, during which packets are deferred.
const NEAR: Duration = Duration::from_millis(1);

/// The data that may be deferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deferral {
    Nothing,
    /// The packets in the queue.
    Packets,
    /// The rest of a plain TCP's stream.
    Stream {
        /// The bytes that are not in the queue.
        unassigned: u64,
        /// True if the last byte is written, and the FIN follows it.
        ends: bool,
    },
}

impl Subflow {
    /// True if the first packet of the queue waits for acknowledgements, although the windows admit a segment.
    #[inline]
    pub(super) fn should_defer<C: CongestionControl>(
        &mut self,
        now: Time,
        deferral: Deferral,
        congestion: &C,
    ) -> bool {
        // A packet that is being sent, or follows a longer pause.
        if deferral == Deferral::Nothing
            || (self.train > 0 && self.last_sent == now)
            || now.since(self.last_sent) > NEAR
        {
            return false;
        }
        self.defers_packet(now, deferral, congestion)
    }

    fn defers_packet<C: CongestionControl>(&mut self, now: Time, deferral: Deferral, congestion: &C) -> bool {
        let (first, ends) = match deferral {
            Deferral::Nothing => return false,
            Deferral::Packets => (self.queue.first_packet(self.packets.from, self.largest_packet()), false),
            Deferral::Stream { unassigned, ends } => {
                let front = self.queue.first_packet(self.packets.from, u64::MAX);
                (front.map(|front| Packet { len: front.len + unassigned, ..front }), ends)
            }
        };
        let Some(first) = first else { return false };
        let mss = u64::from(self.mss.max(1));
        if first.len <= mss || self.recovery.state() != RecoveryState::Open {
            return false;
        }
        let free = self.cwnd.saturating_sub(self.in_flight()) / mss * mss;
        let window = self.window();
        let limit = free.min(window);
        let whole_window = self.window_edge.saturating_sub(self.board.una()).min(self.cwnd);
        if (!first.last && limit >= first.len) || limit >= whole_window / WINDOW_DIVISOR {
            return false;
        }
        let Some(oldest) = self.board.records().front() else { return false };
        let srtt = self.rtt.srtt().unwrap_or(Duration::ZERO);
        if oldest.sent + srtt > now + NEAR.min(srtt / 2) {
            return false;
        }
        let min_rtt = self.rtt.min().unwrap_or(Duration::ZERO);
        if limit >= packet(self.pacing_rate(congestion), min_rtt, mss) {
            return false;
        }
        if free < window && free <= first.len {
            // The congestion window is what limits.
            (self.cwnd_limited, self.max_in_flight) = (true, self.in_flight());
            self.usage_seq = self.board.nxt();
            (self.window_used, self.window_filled, self.underused) = (0, now, false);
            return true;
        }
        !(ends && first.last)
    }
}
