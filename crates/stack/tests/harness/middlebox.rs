//! Middleboxes on a path that change segments: they remove MPTCP options, drop segments with such options,
//! and change payload.

use anabranch_stack::segment::{Flags, Segment};
use anabranch_units::RandomStream;

/// A middlebox on a path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Middlebox {
    /// True to remove option 30 from a SYN.
    pub strips_syn: bool,
    /// True to remove option 30 from a SYN/ACK.
    pub strips_syn_ack: bool,
    /// True to remove option 30 from every later segment of the client, of the server.
    pub strips_later: [bool; 2],
    /// True to drop a SYN with option 30.
    pub drops_syn: bool,
    /// The probability of a change of a segment's payload.
    pub damages: f64,
}

impl Middlebox {
    /// Processes a segment of the client (direction 0) or the server (1); returns true if it passes.
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
