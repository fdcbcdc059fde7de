//! The fast path of acknowledgements, which must equal [`Subflow::apply_ack`]; `Connection::fast_paths` switches it off.

use anabranch_units::Time;

use super::Subflow;
use super::acknowledge::{Acked, one_way_delay_us};
use crate::observer::LossReason;
use crate::segment::Segment;
use crate::seq::DataRange;
use crate::timestamp::TimestampTick;

impl Subflow {
    /// True if a segment acknowledges whole segments that were sent once, up to `ack`, and reports nothing else, on a
    /// subflow where nothing is lost, missing or suspected.
    #[inline]
    pub(super) fn is_expected_ack(&self, segment: &Segment, ack: u64) -> bool {
        segment.options.sack.is_empty()
            && !self.ecn.is_agreed()
            && self.recovery.is_quiet()
            && self.board.una() < ack
            && self.board.is_plain_up_to(ack)
    }

    /// Does what [`Subflow::apply_ack`] does, where [`Subflow::is_expected_ack`].
    #[inline]
    pub(super) fn fast_apply_ack(
        &mut self,
        now: Time,
        tick: TimestampTick,
        segment: &Segment,
        ack: u64,
        on_lost: impl FnMut(DataRange, LossReason),
    ) -> Acked {
        let una = self.board.una();
        let unacked = self.board.nxt() - una;
        let mut acked = Acked {
            advanced: ack - una,
            acked_bytes: ack - una,
            flight_before: unacked.max(self.board.in_flight()),
            recover_bytes: unacked.saturating_sub(self.board.sacked_bytes()),
            first_lost: u64::MAX,
            ..Acked::default()
        };
        let Subflow { board, rate, recovery, .. } = self;
        let (mut oldest, mut newest) = (now, now);
        board.acknowledge_plain(ack, |record| {
            if acked.acked_segments == 0 {
                oldest = record.sent;
            }
            newest = record.sent;
            acked.acked_segments += 1;
            rate.on_delivered(now, record.space(), record.sent, &record.stamp);
            recovery.on_delivered_once(now, record);
        });
        let latest = now.since(newest);
        if acked.acked_segments > 1
            && let Some(timestamps) = segment.options.timestamps.filter(|_| self.timestamps)
        {
            acked.one_way_delay_us = Some(one_way_delay_us(tick, timestamps.value, now - latest));
            self.one_way_delay_us = acked.one_way_delay_us;
        }
        self.rtt.sample(now.since(oldest));
        self.recovery.on_rtt_sample();
        acked.rtt = Some(latest);
        self.recovery.on_progress();
        if !self.recovery.none_overtaken(&self.board) {
            self.judge(now, &mut acked, false, false, |_| false, on_lost);
        }
        self.note_round(&mut acked);
        acked
    }
}
