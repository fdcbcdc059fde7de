//! The names of the stack's reasons in the tables.

use anabranch_stack::observer::{LossReason, SendKind};
use anabranch_stack::scheduler::{AssignKind, Rule};

/// Returns the name of the event that sends data; none if it carries no data.
pub(crate) const fn sent(kind: SendKind) -> Option<&'static str> {
    match kind {
        SendKind::Control => None,
        SendKind::New => Some("sent"),
        SendKind::Retransmission => Some("retransmitted"),
        SendKind::Reinjection => Some("reinjected"),
        SendKind::Probe => Some("probe"),
    }
}

pub(crate) const fn loss(reason: LossReason) -> &'static str {
    match reason {
        LossReason::Rack => "rack",
        LossReason::DuplicateAcks => "duplicate_acks",
        LossReason::Timeout => "timeout",
        LossReason::TooLarge => "too_large",
    }
}

pub(crate) const fn assignment(kind: AssignKind) -> &'static str {
    match kind {
        AssignKind::New => "new",
        AssignKind::Copy => "copy",
        AssignKind::Reinject => "reinject",
    }
}

pub(crate) const fn rule(rule: Rule) -> &'static str {
    match rule {
        Rule::NothingToSend => "nothing_to_send",
        Rule::WindowFull => "window_full",
        Rule::NoRoom => "no_room",
        Rule::NoSubflow => "no_subflow",
        Rule::LowestRtt => "lowest_rtt",
        Rule::Turn => "turn",
        Rule::EverySubflow => "every_subflow",
        Rule::NotSelected => "not_selected",
        Rule::Linger => "linger",
        Rule::Weight => "weight",
        Rule::HighestRate => "highest_rate",
        Rule::LargestSpace => "largest_space",
        Rule::LeastTimePerSpace => "least_time_per_space",
        Rule::EarliestArrival => "earliest_arrival",
        Rule::Schedule => "schedule",
        Rule::WouldBlock => "would_block",
        Rule::FasterToWait => "faster_to_wait",
        Rule::NoBuffer => "no_buffer",
        Rule::PathProbe => "path_probe",
        Rule::TooSlow => "too_slow",
        Rule::Gap => "gap",
        Rule::Priority => "priority",
        Rule::Frozen => "frozen",
        Rule::Stranded => "stranded",
        Rule::Rebalance => "rebalance",
        Rule::Reinjection => "reinjection",
        Rule::Opportunistic => "opportunistic",
        Rule::Custom(_) => "custom",
    }
}
