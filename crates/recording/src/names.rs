//! The texts in the tables, by their places in lists.

use anabranch_sim::End;
use anabranch_stack::observer::{LossReason, SendKind};
use anabranch_stack::scheduler::{AssignKind, Rule};

/// Declares a list of texts, and the type of their places in it.
macro_rules! texts {
    ($(#[$about:meta])* $name:ident { $($variant:ident $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub(crate) enum $name { $($variant,)* }

        impl $name {
            /// The texts by their places.
            pub(crate) const TEXTS: &[&str] = &[$($text,)*];

            /// Returns the place of the text.
            pub(crate) const fn place(self) -> u32 {
                self as u32
            }
        }
    };
}

/// Declares the texts of the variants of another type, and the function that returns their places.
macro_rules! texts_of {
    ($name:ident of $other:ident { $($variant:ident $(($inner:tt))? $text:literal,)* }) => {
        texts!($name { $($variant $text,)* });

        impl From<$other> for $name {
            fn from(value: $other) -> $name {
                match value {
                    $($other::$variant $(($inner))? => $name::$variant,)*
                }
            }
        }
    };
}

texts! {
    /// The stream of a flow.
    Stream {
        Up "up",
        Down "down",
    }
}

impl Stream {
    /// Returns the stream that `end` sends.
    pub(crate) const fn sent_by(end: End) -> Stream {
        match end {
            End::Client => Stream::Up,
            End::Server => Stream::Down,
        }
    }

    /// Returns the stream that `end` receives.
    pub(crate) const fn received_by(end: End) -> Stream {
        match end {
            End::Client => Stream::Down,
            End::Server => Stream::Up,
        }
    }

    pub(crate) const fn text(self) -> &'static str {
        Stream::TEXTS[self as usize]
    }
}

texts! {
    /// An event of a flow's data.
    EventName {
        Sent "sent",
        Retransmitted "retransmitted",
        Reinjected "reinjected",
        Probe "probe",
        Received "received",
        Lost "lost",
        Undone "undone",
        DataAcked "data_acked",
    }
}

impl EventName {
    /// Returns the event that sends data; none if it carries no data.
    pub(crate) const fn sent(kind: SendKind) -> Option<EventName> {
        match kind {
            SendKind::Control => None,
            SendKind::New => Some(EventName::Sent),
            SendKind::Retransmission => Some(EventName::Retransmitted),
            SendKind::Reinjection => Some(EventName::Reinjected),
            SendKind::Probe => Some(EventName::Probe),
        }
    }
}

texts! {
    /// A decision of the scheduler.
    DecisionName {
        Assign "assign",
        Recall "recall",
        Wait "wait",
    }
}

texts_of! {
    LossName of LossReason {
        Rack "rack",
        DuplicateAcks "duplicate_acks",
        Timeout "timeout",
        TooLarge "too_large",
    }
}

texts_of! {
    AssignName of AssignKind {
        New "new",
        Copy "copy",
        Reinject "reinject",
    }
}

texts_of! {
    RuleName of Rule {
        NothingToSend "nothing_to_send",
        WindowFull "window_full",
        NoRoom "no_room",
        NoSubflow "no_subflow",
        LowestRtt "lowest_rtt",
        Turn "turn",
        EverySubflow "every_subflow",
        NotSelected "not_selected",
        Linger "linger",
        Weight "weight",
        HighestRate "highest_rate",
        LargestSpace "largest_space",
        LeastTimePerSpace "least_time_per_space",
        EarliestArrival "earliest_arrival",
        Schedule "schedule",
        WouldBlock "would_block",
        FasterToWait "faster_to_wait",
        NoBuffer "no_buffer",
        PathProbe "path_probe",
        TooSlow "too_slow",
        Gap "gap",
        Priority "priority",
        Frozen "frozen",
        Stranded "stranded",
        Rebalance "rebalance",
        Reinjection "reinjection",
        Opportunistic "opportunistic",
        Tail "tail",
        Custom(_) "custom",
    }
}
