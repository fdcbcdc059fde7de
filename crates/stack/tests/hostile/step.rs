//! The steps of an attack.

use anabranch_stack::segment::Flags;

/// A number that is often near the correct one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// The correct number plus this difference.
    Near(i32),
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
    /// The difference to the correct checksum.
    pub checksum: Option<u16>,
}

/// A segment.
#[derive(Clone, Debug, PartialEq)]
pub struct Lie {
    /// The index of one of the peer's subflows, or of its unused ports.
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
    /// The MPTCP options, by the table of `Target::option`.
    pub options: Vec<u8>,
    /// The content of those options: keys, tokens, nonces, addresses, and whether their codes are correct.
    pub number: u64,
}

impl Lie {
    /// A plain acknowledgement.
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

/// A segment, or another event in between.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Segment(Lie),
    /// This many microseconds pass.
    Wait(u32),
    Write(u32),
    Read(u32),
    Close,
    Abort,
    /// A local address disappears or appears.
    Address(u8, bool),
    /// The priority of a subflow changes.
    Backup(u8, bool),
    /// A router reports the maximum packet size; the port whose last segment it dropped.
    TooBig(u8, Number, u32),
    /// A further subflow from a local address.
    Open(u8),
}
