//! The work that a step leaves for the next poll, and for the endpoint.

/// The pending work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// True if the scheduler may decide differently than when it was last asked.
    schedule: bool,
    /// True if the third ACK with both keys is to be sent.
    third_ack: bool,
    /// True if the addresses of an ended subflow may still be in the endpoint's tables.
    cleanup: bool,
}

impl Wanted {
    /// No work.
    pub(super) const NOTHING: Wanted = Wanted { schedule: false, third_ack: false, cleanup: false };

    /// Requests that the scheduler is asked with the next poll.
    #[inline]
    pub(super) fn schedule(&mut self) {
        self.schedule = true;
    }

    /// True if the scheduler is to be asked.
    #[inline]
    pub(super) fn wants_schedule(&self) -> bool {
        self.schedule
    }

    /// Records that the scheduler is asked now.
    #[inline]
    pub(super) fn on_schedule(&mut self) {
        self.schedule = false;
    }

    /// Requests the third ACK with the next poll.
    pub(super) fn request_third_ack(&mut self) {
        self.third_ack = true;
    }

    /// True if the third ACK is to be sent.
    #[inline]
    pub(super) fn wants_third_ack(&self) -> bool {
        self.third_ack
    }

    /// True if the third ACK was to be sent; cancels the request.
    pub(super) fn take_third_ack(&mut self) -> bool {
        core::mem::take(&mut self.third_ack)
    }

    /// Cancels the third ACK, which was sent or has become superfluous.
    pub(super) fn cancel_third_ack(&mut self) {
        self.third_ack = false;
    }

    /// Requests that the endpoint forgets the addresses of ended subflows.
    pub(super) fn cleanup(&mut self) {
        self.cleanup = true;
    }

    /// True if the endpoint may still know addresses of ended subflows; resets the request.
    #[inline]
    pub(crate) fn take_cleanup(&mut self) -> bool {
        core::mem::take(&mut self.cleanup)
    }
}
