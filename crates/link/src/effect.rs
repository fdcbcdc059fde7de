//! The changes of packets on their way over a link.

/// A change of a packet on its way over a link. The link only reports it; the caller of the link changes the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Effect {
    /// It found a queue beyond the marking threshold: it is marked if its sender supports ECN (RFC 3168).
    Marked,
    /// A bit of it is damaged.
    Corrupted,
}

impl Effect {
    /// All effects.
    pub const ALL: [Effect; 2] = [Effect::Marked, Effect::Corrupted];

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Effect::Marked => "marked",
            Effect::Corrupted => "corrupted",
        }
    }
}

/// The effects of a link on one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects(u8);

impl Effects {
    /// No effect.
    pub const NONE: Effects = Effects(0);
    /// The number of bits that effects take.
    pub(crate) const BITS: u32 = 7;

    /// True if there is none.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// True if `effect` is among them.
    #[inline]
    pub const fn has(self, effect: Effect) -> bool {
        self.0 & 1 << effect as u8 != 0
    }

    /// These and `effect`, if `applies`.
    #[must_use]
    pub const fn with_if(self, effect: Effect, applies: bool) -> Effects {
        Effects(self.0 | (applies as u8) << effect as u8)
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u8) -> Effects {
        Effects(bits)
    }
}

const _: () = assert!(Effect::ALL.len() <= Effects::BITS as usize);
