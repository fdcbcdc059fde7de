//! The causes of a connection's time that a capture shows.

use serde::Serialize;

/// A cause of the time of a connection. `anabranch explain` has the same names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The connection was being established.
    Handshake,
    /// The application had sent nothing that was not acknowledged.
    Application,
    /// The peer's receive window was full.
    ReceiveWindow,
    /// The congestion windows were full, or data was on its way over paths without a queue.
    CongestionWindow,
    /// Packets waited at the bottleneck: the rates of the paths.
    Serialisation,
    /// A lost segment was not replaced yet.
    Retransmission,
    /// The peer's receive window was full of bytes after a missing one.
    HeadOfLine,
}

impl Cause {
    /// All causes, in the order of tables.
    pub const ALL: [Cause; 7] = [
        Cause::Handshake,
        Cause::Application,
        Cause::ReceiveWindow,
        Cause::CongestionWindow,
        Cause::Serialisation,
        Cause::Retransmission,
        Cause::HeadOfLine,
    ];

    /// Returns its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Handshake => "handshake",
            Cause::Application => "application",
            Cause::ReceiveWindow => "receive window",
            Cause::CongestionWindow => "congestion window",
            Cause::Serialisation => "serialisation",
            Cause::Retransmission => "retransmission",
            Cause::HeadOfLine => "head-of-line",
        }
    }
}
