//! The outcome of a step in the processing of a segment.

use core::ops::ControlFlow;

/// Whether a segment is processed further after a step.
pub(super) type Step = ControlFlow<()>;

/// It is.
pub(super) const NEXT: Step = ControlFlow::Continue(());

/// It is not.
pub(super) const STOP: Step = ControlFlow::Break(());
