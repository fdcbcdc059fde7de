//! The work that a step leaves for the next poll, and for the endpoint.

/// What is wanted next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The scheduler may decide otherwise than when it was last asked.
    schedule: bool,
    /// The third ACK with both keys is to be sent.
    third_ack: bool,
    /// Something may be due sooner than when the endpoint last asked.
    timers: bool,
    /// The addresses of a subflow that has closed may still be in the endpoint's tables.
    cleanup: bool,
}

impl Wanted {
    /// Of a new connection, whose timers are not known yet.
    pub(super) const NEW: Wanted = Wanted { schedule: false, third_ack: false, timers: true, cleanup: false };

    /// The scheduler is asked with the next poll.
    #[inline]
    pub(super) fn schedule(&mut self) {
        self.schedule = true;
    }

    /// True if the scheduler is to be asked.
    #[inline]
    pub(super) fn wants_schedule(&self) -> bool {
        self.schedule
    }

    /// The scheduler is asked now.
    #[inline]
    pub(super) fn on_schedule(&mut self) {
        self.schedule = false;
    }

    /// The third ACK is sent with the next poll.
    pub(super) fn third_ack(&mut self) {
        self.third_ack = true;
    }

    /// True if the third ACK is to be sent.
    #[inline]
    pub(super) fn wants_third_ack(&self) -> bool {
        self.third_ack
    }

    /// The third ACK is sent, or has become superfluous.
    pub(super) fn cancel_third_ack(&mut self) {
        self.third_ack = false;
    }

    /// The endpoint asks for the next timeout again.
    #[inline]
    pub(crate) fn timers(&mut self) {
        self.timers = true;
    }

    /// True if the endpoint is to ask for the next timeout.
    #[inline]
    pub(crate) fn wants_timers(&self) -> bool {
        self.timers
    }

    /// True if the endpoint is to ask for the next timeout; it does so now.
    #[inline]
    pub(crate) fn take_timers(&mut self) -> bool {
        core::mem::take(&mut self.timers)
    }

    /// The endpoint forgets the addresses of subflows that have closed.
    pub(super) fn cleanup(&mut self) {
        self.cleanup = true;
    }

    /// True if subflows have closed whose addresses the endpoint may still know; it forgets them now.
    #[inline]
    pub(crate) fn take_cleanup(&mut self) -> bool {
        core::mem::take(&mut self.cleanup)
    }
}
