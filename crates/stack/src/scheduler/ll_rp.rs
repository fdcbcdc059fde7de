//! LL/RP: lowest latency with opportunistic retransmission and penalisation.
//!
//! **Decides** like [`MinRtt`]. The addition takes effect in the connection when the receive window or the
//! send buffer is full: the data at the left edge of the window is reinjected on a fast subflow with free
//! window, and the window of the slow subflow that blocks is halved. Every other scheduler can have the same
//! by the connection's option `opportunistic`; here it is part of the name.
//!
//! **Source**: Raiciu and others (NSDI 2012), as in the out-of-tree MPTCP kernel, with its rule that data is
//! reinjected only if the fast subflow is more than 4 times as fast.
//!
//! **Constants**: none. **Departures from the source**: see [`MinRtt`].

use super::OpportunisticRetransmission;
use super::{Decision, MinRtt, Scheduler, View};
use crate::parameter;
use crate::parameter::{Options, Parameter};

/// The action of LL/RP when the windows block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LlRpOptions {
    /// The action when the windows block.
    pub mode: OpportunisticRetransmission,
}

impl LlRpOptions {
    /// Retransmission and penalisation.
    pub const DEFAULT: LlRpOptions = LlRpOptions { mode: OpportunisticRetransmission::RetransmitAndPenalise };
}

impl Options for LlRpOptions {
    const PARAMETERS: &'static [Parameter<LlRpOptions>] = &[parameter!(
        LlRpOptions,
        "mode",
        "action when the windows block",
        choice [
            "off" => OpportunisticRetransmission::Off,
            "retransmit" => OpportunisticRetransmission::Retransmit,
            "retransmit-and-penalise" => OpportunisticRetransmission::RetransmitAndPenalise
        ],
        mode
    )];
}

/// minRTT with opportunistic retransmission and penalisation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LlRp(LlRpOptions);

impl LlRp {
    /// Returns a scheduler with the given options.
    pub fn new(options: LlRpOptions) -> LlRp {
        LlRp(options)
    }
}

impl Scheduler for LlRp {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        MinRtt.decide(view)
    }

    fn opportunistic(&self) -> Option<OpportunisticRetransmission> {
        Some(self.0.mode)
    }
}
