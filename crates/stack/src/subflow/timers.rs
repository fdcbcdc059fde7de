//! The timers of a subflow: when they expire, and what loss detection then does.

use anabranch_units::Time;

use super::Subflow;
use super::path_mtu::ProbeLoss;
use crate::congestion::CongestionEvent;
use crate::observer::LossReason;
use crate::seq::DataRange;

impl Subflow {
    /// The reordering timer has expired: marks segments lost. Returns the congestion event if that is one.
    #[cold]
    pub(crate) fn on_reordering_timer(
        &mut self,
        now: Time,
        mut lost: impl FnMut(DataRange, LossReason),
    ) -> Option<CongestionEvent> {
        let Subflow { rate, rtt, recovery, board, .. } = self;
        let flight_bytes = board.nxt() - board.una();
        let recover_bytes = flight_bytes.saturating_sub(board.sacked_bytes());
        let mut segments = 0;
        let mut first = u64::MAX;
        let entered = recovery.on_reordering_timer(now, board, rtt, |record| {
            segments += 1;
            first = first.min(record.seq);
            rate.on_lost(record.seq, record.space(), &record.stamp);
            lost(record.range(), LossReason::Rack);
        });
        self.counters.segments_lost += u64::from(segments);
        self.round_lost += u64::from(segments);
        if self.excuses_loss(now, first, segments, entered) || !entered {
            return None;
        }
        self.counters.recoveries += 1;
        let reduced = self.ecn.has_reduced(self.board.una());
        self.ecn.on_reduced(self.board.nxt());
        Some(CongestionEvent { now, flight_bytes, recover_bytes, ecn: false, reduced })
    }

    /// The retransmission timer has expired: marks everything in flight lost. Returns the bytes that were in flight, and
    /// true if it is the first time for this data.
    #[cold]
    pub(crate) fn on_retransmission_timeout(
        &mut self,
        now: Time,
        mut lost: impl FnMut(DataRange, LossReason),
    ) -> (u64, bool) {
        self.counters.timeouts += 1;
        let flight = self.board.nxt() - self.board.una();
        let mut segments = 0;
        let Subflow { rate, recovery, board, .. } = self;
        let first = recovery.on_timeout(board, |record| {
            segments += 1;
            rate.on_lost(record.seq, record.space(), &record.stamp);
            lost(record.range(), LossReason::Timeout);
        });
        self.known_blocks = [(0, 0); 4];
        self.counters.segments_lost += segments;
        self.round_lost += segments;
        self.timer_base = now;
        self.tail_probe_wanted = false;
        self.ecn.on_reduced(self.board.nxt());
        self.suspect_path_mtu(now);
        (flight, first)
    }

    /// Notes that segments were marked lost, the lowest from offset `first` on; `entered` is true if a reduction of the
    /// window would follow. Returns true if the loss is excused: it was a probe of the path's MTU.
    #[cold]
    pub(super) fn excuses_loss(&mut self, now: Time, first: u64, segments: u32, entered: bool) -> bool {
        match self.path_mtu.on_lost(now, first, segments, entered, self.mss) {
            ProbeLoss::TooLarge => {
                self.recovery.excuse();
                true
            }
            ProbeLoss::None | ProbeLoss::Unclear => false,
        }
    }

    /// Considers whether the timeout shows that packets of this size do not pass.
    fn suspect_path_mtu(&mut self, now: Time) {
        let first = self.board.records().front().map_or(0, |record| record.len);
        let timeouts = self.recovery.timeouts();
        if let Some(mss) = self.path_mtu.on_timeout(now, timeouts, first, self.mss) {
            self.mss = mss;
        }
    }
}
