//! Boxes on a path that change what passes: they take MPTCP options off, drop what has some, and change
//! payload.

use anabranch_stack::segment::{Flags, Segment};
use anabranch_units::RandomStream;

/// A box on a path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Middlebox {
    /// It takes option 30 off a SYN.
    pub strips_syn: bool,
    /// It takes option 30 off a SYN/ACK.
    pub strips_syn_ack: bool,
    /// It takes option 30 off every later segment of the client's, of the server's.
    pub strips_later: [bool; 2],
    /// It drops a SYN with option 30.
    pub drops_syn: bool,
    /// The probability that it changes the payload of a segment.
    pub damages: f64,
}

impl Middlebox {
    /// What becomes of a segment of the client's (direction 0) or of the server's (1): whether it passes.
    pub fn pass(&self, direction: usize, segment: &mut Segment, random: &mut RandomStream) -> bool {
        let speaks = segment.options.dss.is_some() || segment.options.mptcp[0].is_some();
        let syn = segment.flags.has(Flags::SYN);
        let answer = syn && segment.flags.has(Flags::ACK);
        if speaks && syn && !answer && self.drops_syn {
            return false;
        }
        let strips = match (syn, answer) {
            (true, false) => self.strips_syn,
            (true, true) => self.strips_syn_ack,
            _ => self.strips_later[direction],
        };
        if strips {
            segment.options.dss = None;
            segment.options.mptcp = [None, None];
        }
        if segment.payload_len > 0 && self.damages > 0.0 && random.chance(self.damages) {
            // The payload of the tests is all zeros.
            segment.payload_sum = 0x0100;
        }
        true
    }
}
