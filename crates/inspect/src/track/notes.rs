//! The place of a connection in the table, and notes on the packets of one connection.

use anabranch_stack::observer::SendKind;
use anabranch_units::Time;

use super::half::Arrived;

/// The place of a connection in the table of its captures.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Place {
    /// Its subflows in the table.
    pub subflows: Vec<usize>,
    /// The time of its first packet.
    pub begun: Time,
    /// The first offset of each stream, if that is not 0 because the handshake is missing.
    pub start: [u64; 2],
    /// True for each stream if the capture was made at its sender.
    pub at_sender: [bool; 2],
}

/// Data that the last packet has shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    /// The stream: 0 from the connection's client.
    pub direction: usize,
    pub range: Arrived,
    /// The kind of a segment; none for bytes that have arrived.
    pub kind: Option<SendKind>,
    /// True if an acknowledgement has shown it.
    pub by_ack: bool,
}

/// The notes on the packets of some subflows.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// The subflows, as places in the table.
    pub of: Vec<usize>,
    /// The subflow of the last packet, as a place in that list.
    pub subflow: Option<usize>,
    pub list: Vec<Note>,
}

impl Notes {
    /// Begins with a packet of the subflow `at`.
    pub(super) fn begin(&mut self, at: usize) {
        self.subflow = self.of.iter().position(|one| *one == at);
    }

    pub(super) fn add(&mut self, direction: usize, range: Arrived, kind: Option<SendKind>, by_ack: bool) {
        if self.subflow.is_some() {
            self.list.push(Note { direction: direction & 1, range, kind, by_ack });
        }
    }

    pub(crate) fn forget(&mut self) {
        self.subflow = None;
        self.list.clear();
    }
}
