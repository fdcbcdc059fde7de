//! The parameters of schedulers, in the table of a contender.

use anabranch_stack::scheduler::{DmptcpOptions, SchedulerKind, UnknownSize};
use anabranch_stack::transfer_model::TimeoutWindow;

use crate::source::Problem;
use crate::tree::{Node, Table};

/// The keys that this scheduler knows.
pub(super) fn keys(kind: &SchedulerKind) -> &'static [&'static str] {
    match kind {
        SchedulerKind::RoundRobin { .. } => &["segments", "cwnd-limited"],
        SchedulerKind::Dmptcp(_) => &[
            "clip-at-ssthresh",
            "timeout-window",
            "whole-rounds-only",
            "increase",
            "window-limit",
            "unknown-size",
        ],
        _ => &[],
    }
}

/// The scheduler with the parameters of `table`.
pub(super) fn with_parameters(kind: SchedulerKind, table: &Table) -> Result<SchedulerKind, Problem> {
    let node = |key: &str| table.get(key).map(|entry| &entry.node);
    Ok(match kind {
        SchedulerKind::RoundRobin { mut segments, mut cwnd_limited } => {
            if let Some(node) = node("segments") {
                segments = node.integer(1, 255)? as u8;
            }
            if let Some(node) = node("cwnd-limited") {
                cwnd_limited = node.boolean()?;
            }
            SchedulerKind::RoundRobin { segments, cwnd_limited }
        }
        SchedulerKind::Dmptcp(mut options) => {
            dmptcp(&mut options, node)?;
            SchedulerKind::Dmptcp(options)
        }
        other => other,
    })
}

fn dmptcp<'a>(options: &mut DmptcpOptions, node: impl Fn(&str) -> Option<&'a Node>) -> Result<(), Problem> {
    if let Some(node) = node("clip-at-ssthresh") {
        options.model.clip_at_ssthresh = node.boolean()?;
    }
    if let Some(node) = node("timeout-window") {
        let windows = [TimeoutWindow::One, TimeoutWindow::Initial];
        options.model.timeout_window = windows[node.choice("window after a timeout", &["one", "initial"])?];
    }
    if let Some(node) = node("whole-rounds-only") {
        options.model.whole_rounds_only = node.boolean()?;
    }
    if let Some(node) = node("increase") {
        let increase = node.number()?;
        if !(0.0..=1.0).contains(&increase) {
            return Err(Problem::at(&node.span, format!("an increase of {increase} is out of range"))
                .help("give the segments per round of congestion avoidance, from 0 to 1"));
        }
        options.model.increase = increase;
    }
    if let Some(node) = node("window-limit") {
        options.model.window_limit = Some(node.integer(1, 1 << 30)? as u32);
    }
    if let Some(node) = node("unknown-size") {
        let sizes = [UnknownSize::Buffered, UnknownSize::Infinite];
        options.unknown_size = sizes[node.choice("reading of an unknown size", &["buffered", "infinite"])?];
    }
    Ok(())
}
