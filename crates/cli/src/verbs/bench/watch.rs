//! Observes the data of a running measurement.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anabranch_net::StreamControl;
use anabranch_stack::stats::SubflowStats;
use serde::Serialize;
use tokio::time::Instant;

use crate::online::bench::Progress;
use crate::online::fallback::Fallback;
use crate::online::table;

/// The data moved in an interval.
#[derive(Serialize)]
pub(super) struct Interval {
    pub start_s: f64,
    pub end_s: f64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// The data of each subflow of all connections in this interval; RTT and window are those at its end.
    pub subflows: Vec<SubflowPart>,
}

#[derive(Serialize)]
pub(super) struct SubflowPart {
    pub connection: usize,
    #[serde(flatten)]
    pub subflow: table::Subflow,
}

/// The counters of all connections at the last check.
pub(super) struct Watch {
    begun: Instant,
    controls: Vec<StreamControl>,
    progress: Arc<Progress>,
    /// At the last check, by connection.
    pub seen: Vec<Vec<SubflowStats>>,
    /// Connections that use plain TCP, at the last check.
    pub fallbacks: Vec<Fallback>,
    /// At the end of the last interval.
    told: Vec<Vec<SubflowStats>>,
    told_at: f64,
    told_moved: (u64, u64),
}

impl Watch {
    pub(super) fn new(begun: Instant, controls: Vec<StreamControl>, progress: Arc<Progress>) -> Watch {
        let none = vec![Vec::new(); controls.len()];
        Watch {
            begun,
            controls,
            progress,
            seen: none.clone(),
            fallbacks: Vec::new(),
            told: none,
            told_at: 0.0,
            told_moved: (0, 0),
        }
    }

    /// Reads the counters of a connection.
    pub(super) fn look(&mut self, connection: usize) {
        let Some(control) = self.controls.get(connection) else { return };
        let stats = control.subflow_stats();
        if !stats.is_empty() {
            self.seen[connection] = stats;
            self.fallbacks.retain(|other| other.connection != connection);
            self.fallbacks.extend(Fallback::of(connection, &control.stats(), false));
        }
    }

    pub(super) fn interval(&mut self) -> Interval {
        (0..self.controls.len()).for_each(|connection| self.look(connection));
        let end = self.begun.elapsed().as_secs_f64();
        let moved =
            (self.progress.sent.load(Ordering::Relaxed), self.progress.received.load(Ordering::Relaxed));
        let mut subflows = Vec::new();
        for (connection, (seen, told)) in self.seen.iter().zip(&self.told).enumerate() {
            for stats in seen {
                let before = told.iter().find(|old| (old.id, old.started) == (stats.id, stats.started));
                let subflow = table::Subflow::since(stats, before);
                subflows.push(SubflowPart { connection, subflow });
            }
        }
        let interval = Interval {
            start_s: self.told_at,
            end_s: end,
            sent_bytes: moved.0 - self.told_moved.0,
            received_bytes: moved.1.saturating_sub(self.told_moved.1),
            subflows,
        };
        self.told = self.seen.clone();
        (self.told_at, self.told_moved) = (end, moved);
        interval
    }
}
