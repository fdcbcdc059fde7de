//! The settings that nearly every segment reads, from everywhere in the configuration: together they take a
//! part of one cache line of the connection, and not five lines of the configuration.

use anabranch_units::Duration;

use super::data_timer::DATA_TIMER_FLOOR;
use crate::config::SimConfig;
use crate::scheduler::SchedulerKind;

/// Copies of the settings of [`SimConfig`] with these names, and what follows from them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The time by which the probe for a single segment in flight is later than for several.
    pub probe_slack: Duration,
    pub mss: u32,
    pub late_probes: bool,
    pub ack_growth: bool,
    pub ack_push: bool,
    pub ack_drain: bool,
    pub rto_backoff: bool,
    pub tso_defer: bool,
    pub pacing: bool,
    /// True if there is a `keepalive`.
    pub keeps_alive: bool,
    pub consume_at_once: bool,
    /// True with `send_buffers` and Linux's scheduler.
    pub linux_buffers: bool,
    /// True with `send_buffers` for every scheduler.
    pub kernel_buffers: bool,
}

impl Rules {
    pub(super) fn of(config: &SimConfig) -> Rules {
        let linux = matches!(config.scheduler, SchedulerKind::Linux(_));
        Rules {
            // The peer's delay of acknowledgements is not known; its own is assumed.
            probe_slack: match config.late_probes {
                true => config.rto.min,
                false => DATA_TIMER_FLOOR.min(config.ack.delay * 2),
            },
            mss: config.mss,
            late_probes: config.late_probes,
            ack_growth: config.ack.growth,
            ack_push: config.ack.push,
            ack_drain: config.ack.drain,
            rto_backoff: config.rto.backoff,
            tso_defer: config.tso_defer,
            pacing: config.pacing,
            keeps_alive: config.keepalive.is_some(),
            consume_at_once: config.only.consume_at_once,
            linux_buffers: config.send_buffers.is_some() && linux,
            kernel_buffers: config.send_buffers.is_some() && config.kernel_buffers,
        }
    }
}

// With a connection of 4 KB, each line counts (`crates/net/tests/memory.rs`).
const _: () = assert!(size_of::<Rules>() == 24);
