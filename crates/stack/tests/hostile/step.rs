//! What happens to the endpoint, one thing after the other.

use anabranch_stack::segment::Flags;

/// A number that is often near the one that would be right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// The right one and so many more (or fewer).
    Near(i32),
    /// Anything.
    Any(u64),
}

impl Number {
    pub fn from(self, right: u64) -> u64 {
        match self {
            Number::Near(delta) => right.wrapping_add_signed(i64::from(delta)),
            Number::Any(number) => number,
        }
    }
}

/// A data sequence signal.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LieDss {
    pub ack: Option<Number>,
    /// Data, subflow, length.
    pub mapping: Option<(Number, Number, u16)>,
    pub fin: bool,
    /// Numbers have 32 bits.
    pub narrow: bool,
    /// The checksum, as the difference to the right one.
    pub checksum: Option<u16>,
}

/// A segment.
#[derive(Clone, Debug, PartialEq)]
pub struct Lie {
    /// Which of the peer's subflows, or of its ports that are still unused.
    pub port: u8,
    pub flags: u8,
    pub seq: Number,
    pub ack: Number,
    pub window: u16,
    pub len: u32,
    pub timestamps: Option<(u32, u32)>,
    pub sack: Vec<(Number, Number)>,
    /// MSS, window scale, SACK-permitted.
    pub syn: Option<(u16, Option<u8>, bool)>,
    pub dss: Option<LieDss>,
    /// Which MPTCP options, by the table of `Target::option`.
    pub options: Vec<u8>,
    /// What those options say: keys, tokens, nonces, addresses, and whether their codes are right.
    pub number: u64,
}

impl Lie {
    /// Nothing but an acknowledgement.
    pub const TRUTH: Lie = Lie {
        port: 0,
        flags: Flags::ACK.0,
        seq: Number::Near(0),
        ack: Number::Near(0),
        window: 0,
        len: 0,
        timestamps: None,
        sack: Vec::new(),
        syn: None,
        dss: None,
        options: Vec::new(),
        number: 0,
    };
}

/// A segment, or something else that happens in between.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Segment(Lie),
    /// So many microseconds pass.
    Wait(u32),
    Write(u32),
    Read(u32),
    Close,
    Abort,
    /// A local address goes, or comes.
    Address(u8, bool),
    /// The priority of a subflow changes.
    Backup(u8, bool),
    /// A router says that no more than so many bytes pass; of which port's last segment.
    TooBig(u8, Number, u32),
    /// A further subflow from an own address.
    Open(u8),
}
