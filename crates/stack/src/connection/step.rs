//! The outcome of a step in the processing of a segment.

use core::ops::ControlFlow;

/// Whether a segment is processed further after a step.
pub(super) type Step = ControlFlow<()>;

/// The segment is processed further.
pub(super) const NEXT: Step = ControlFlow::Continue(());

/// The segment is not processed further.
pub(super) const STOP: Step = ControlFlow::Break(());
