//! The options of [`Anabranch`](super::Anabranch).

use crate::parameter;
use crate::parameter::{Options, Parameter};

/// The options. Each part can be switched off.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AnabranchOptions {
    /// True if a subflow stays idle where it brings the end no nearer.
    pub abstain: bool,
    /// The share of the gap that must remain after it for a subflow to be used.
    pub margin: f64,
    /// The bytes below which the rest of a flow uses one subflow.
    pub least: u32,
    /// True if a subflow gets the data that arrives in order, and not the next.
    pub gap: bool,
    /// True if a subflow of much lower rate stays idle where the others would fill the receive window first.
    pub block: bool,
    /// The share of a flow that may be copied.
    pub tail: f64,
    /// True if measured rates limit the prediction.
    pub rate: bool,
    /// The divisor of the best rate for a path of unknown rate; 0: its rate has no limit.
    pub unknown: f64,
    /// The factor of a remembered rate, until the rate is measured, since a rate may be less by now; 0: no memory.
    pub memory: f64,
}

impl AnabranchOptions {
    /// All parts.
    pub const DEFAULT: AnabranchOptions = AnabranchOptions {
        abstain: true,
        margin: 0.25,
        least: 30_000,
        gap: true,
        block: true,
        tail: 0.05,
        rate: true,
        unknown: 4.0,
        memory: 0.5,
    };
}

impl Options for AnabranchOptions {
    const PARAMETERS: &'static [Parameter<AnabranchOptions>] = &[
        parameter!(
            AnabranchOptions,
            "abstain",
            "a subflow that brings the predicted end no nearer stays idle",
            bool,
            abstain
        ),
        parameter!(
            AnabranchOptions,
            "margin",
            "share of the gap that must remain after it for a subflow to be used",
            number 0.0, 100.0,
            margin
        ),
        parameter!(
            AnabranchOptions,
            "least",
            "bytes below which the rest of a flow uses one subflow",
            integer 0, 1 << 30,
            least
        ),
        parameter!(
            AnabranchOptions,
            "gap",
            "a subflow gets the data that is predicted to arrive in order, and not the next",
            bool,
            gap
        ),
        parameter!(
            AnabranchOptions,
            "block",
            "a subflow of much lower rate stays idle if the others would fill the receive window first",
            bool,
            block
        ),
        parameter!(AnabranchOptions, "tail", "share of a flow that may be copied", number 0.0, 1.0, tail),
        parameter!(AnabranchOptions, "rate", "measured rates limit the prediction", bool, rate),
        parameter!(
            AnabranchOptions,
            "unknown",
            "divisor of the best rate for a path of unknown rate; 0: no limit",
            number 0.0, 1000.0,
            unknown
        ),
        parameter!(
            AnabranchOptions,
            "memory",
            "factor of a remembered rate, until the rate is measured; 0: no memory",
            number 0.0, 1000.0,
            memory
        ),
    ];
}
