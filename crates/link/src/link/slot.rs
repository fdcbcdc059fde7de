//! A packet inside a link.

use anabranch_units::{Duration, Time};

use crate::{Effect, Effects};

/// A packet inside a link.
#[derive(Clone, Debug)]
pub(super) struct Slot<P> {
    pub(super) arrival: Time,
    pub(super) departure: Time,
    pub(super) extra: Extra,
    pub(super) wire_bytes: u32,
    pub(super) packet: P,
}

/// The delay added to the propagation delay, whether the packet may arrive out of order, and the effects on it. In
/// one word, so that the slot of a small packet has the size of a power of two; no delay needs the eight highest bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extra(u64);

impl Extra {
    const FREE: u64 = 1 << 63;
    const EFFECTS: u32 = 63 - Effects::BITS;
    const FLAGS: u64 = u64::MAX << Self::EFFECTS;
    pub(super) const NOTHING: Extra = Extra(0);

    #[inline]
    pub(super) fn new(delay: Duration, free: bool, effects: Effects) -> Extra {
        let flags = u64::from(free) << 63 | u64::from(effects.bits()) << Self::EFFECTS;
        Extra(delay.0 & !Self::FLAGS | flags)
    }

    #[inline]
    pub(super) fn delay(self) -> Duration {
        Duration(self.0 & !Self::FLAGS)
    }

    #[inline]
    pub(super) fn effects(self) -> Effects {
        Effects::from_bits(((self.0 & !Self::FREE) >> Self::EFFECTS) as u8)
    }

    /// The same with an effect, if it `applies`.
    pub(super) fn with_effect_if(self, effect: Effect, applies: bool) -> Extra {
        Extra::new(self.delay(), self.is_free(), self.effects().with_if(effect, applies))
    }

    #[inline]
    pub(super) fn is_free(self) -> bool {
        self.0 & Self::FREE != 0
    }
}

impl<P> Slot<P> {
    /// Sets the arrival that follows from the departure. `last` is the latest arrival so far of the packets
    /// that keep the order; slots must be passed in order of departure.
    #[inline]
    pub(super) fn set_arrival(&mut self, delay: Duration, last: &mut Time) {
        self.arrival = self.departure + delay + self.extra.delay();
        if !self.extra.is_free() {
            self.arrival = self.arrival.max(*last);
            *last = self.arrival;
        }
    }
}
