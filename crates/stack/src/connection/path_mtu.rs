//! What a connection does about the MTU of a subflow's path: smaller segments, and probes.

use anabranch_units::Time;

use super::Connection;
use crate::observer::{LossReason, Observer};
use crate::seq::{Seq, offset_near};
use crate::subflow::TcpState;

impl Connection {
    /// A router has dropped the segment of subflow `at` that began at `seq`, because packets of more than
    /// `mtu` bytes do not pass. Whoever names a segment that is not under way has guessed (RFC 5927
    /// section 7.2), and is not believed.
    #[cold]
    pub(crate) fn on_too_big<O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        seq: Seq,
        mtu: u32,
        observer: &mut O,
    ) {
        let subflow = &mut self.subflows[at];
        if !subflow.is_synchronised() || subflow.state() == TcpState::PreEstablished {
            return;
        }
        let offset = offset_near(subflow.iss, subflow.board.una(), seq);
        if offset < subflow.board.una() as i64 || offset >= subflow.board.nxt() as i64 {
            return;
        }
        if let Some(mss) = subflow.path_mtu.on_too_big(now, mtu, subflow.mss) {
            subflow.mss = mss;
        }
        self.lose_larger_segments(now, at, observer);
    }

    /// What is under way and larger than a segment may be does not arrive: it is cut and sent again. That
    /// is no sign of congestion.
    fn lose_larger_segments<O: Observer>(&mut self, now: Time, at: usize, observer: &mut O) {
        let (connection, id) = (self.id, self.subflows[at].id);
        let subflow = &mut self.subflows[at];
        let most = subflow.mss;
        for index in 0..subflow.board.records().len() {
            if subflow.board.records()[index].len > most && subflow.board.mark_lost(index) {
                let range = subflow.board.records()[index].range();
                observer.on_lost(now, connection, id, range, LossReason::TooLarge);
                subflow.counters.segments_lost += 1;
            }
        }
        subflow.path_mtu.on_cut();
        if subflow.board.lost_segments() > 0 {
            subflow.recovery.force = true;
            subflow.timer_base = now;
            self.schedule_wanted = true;
        }
    }

    /// The size of the probe that subflow `at` sends in place of a segment; the first range of its queue
    /// has `front` bytes.
    #[inline]
    pub(crate) fn mtu_probe(&mut self, now: Time, at: usize, front: u64) -> Option<u32> {
        if !self.subflows[at].path_mtu.is_searching(now) {
            return None;
        }
        let unassigned = self.send.written - self.send.nxt;
        let subflow = &mut self.subflows[at];
        let calm = subflow.board.lost_segments() == 0 && subflow.board.sacked_segments() == 0;
        let available = subflow.queued + unassigned;
        let size = subflow.path_mtu.probe_size(now, subflow.mss, subflow.cwnd, available)?;
        (calm && front >= u64::from(size)).then_some(size)
    }
}
