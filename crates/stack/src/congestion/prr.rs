//! Proportional rate reduction (RFC 9937).

use super::Ack;

/// The state of proportional rate reduction (RFC 9937), in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reducing {
    /// `RecoverFS`: the bytes in flight at the start of recovery; at least 1.
    pub(super) recover: u64,
    /// `prr_delivered`: the bytes delivered during recovery.
    pub(super) delivered: u64,
    /// `prr_out`: the bytes sent during recovery.
    pub(super) out: u64,
    /// The window currently allowed.
    pub(super) cwnd: u64,
    /// True if a timer detected the loss and no acknowledgement or transmission has followed.
    pub(super) entering: bool,
}

impl Reducing {
    /// Handles an acknowledgement (RFC 9937 section 6.2).
    pub(super) fn on_ack(&mut self, ack: &Ack, ssthresh: u64, mss: u64) {
        if ack.acked_bytes == 0 {
            return;
        }
        self.delivered = self.delivered.saturating_add(ack.acked_bytes);
        let inflight = ack.inflight_bytes;
        let mut send = if inflight > ssthresh {
            let allowed = u128::from(self.delivered) * u128::from(ssthresh);
            let allowed = allowed.div_ceil(u128::from(self.recover)).min(u128::from(u64::MAX / 2)) as u64;
            allowed.next_multiple_of(mss).saturating_sub(self.out)
        } else {
            let conservative = self.delivered.saturating_sub(self.out).max(ack.acked_bytes);
            // SafeACK: the repair makes progress, so slow start towards the threshold is allowed.
            let safe = ack.una_advanced && ack.lost_bytes == 0;
            conservative.saturating_add(if safe { mss } else { 0 }).min(ssthresh - inflight)
        };
        if self.out == 0 && send < mss {
            // The fast retransmit is sent at once. RFC 9937 requires it when SndCnt is 0; here only whole
            // segments are sent, so a SndCnt below one segment would also delay it.
            send = mss;
        }
        self.cwnd = inflight.saturating_add(send);
        self.entering = false;
    }

    /// Handles a transmission (RFC 9937 section 6.3).
    pub(super) fn on_sent(&mut self, bytes: u64, ssthresh: u64) {
        self.out = self.out.saturating_add(bytes);
        if core::mem::take(&mut self.entering) {
            self.cwnd = ssthresh;
        }
    }
}
