//! Packet scatter (MMPTCP; Kheirkhah, Wakeman and Parisis 2013 and 2016): the first subflow's data packets are spread over
//! routes of equal cost, under one window, until the connection switches to several subflows.
//!
//! The side that connects decides on the switch, as it opens the subflows: by the volume of the stream in
//! either direction, or by the first congestion event or the rate of the data that it sends. Scattering of
//! new data ends, on both sides, when the first further subflow is established: the scattered subflow is a
//! backup from then on, without a signal to the peer.
//!
//! A simulated network spreads the packets: [`Departure::scattered`](crate::event::Departure) marks them. The source's
//! packets have a random source port each, which a receiver on a real network would not accept.

use anabranch_units::Duration;

use super::{Connection, Mode};
use crate::config::{ScatterSwitch, ScatterWindow, SimOnly};
use crate::subflow::Tolerance;

/// The stage of a connection that begins with packet scatter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Scatter {
    /// The connection does not scatter packets.
    #[default]
    Off,
    /// There is only the first subflow, and further ones are not to be opened yet. `ready` is true once they
    /// could be.
    Alone { ready: bool },
    /// The path manager opens subflows, and none is established yet.
    Switching,
    /// New data takes the other subflows.
    Switched,
}

impl Scatter {
    pub(super) fn new(switch: ScatterSwitch, mode: Mode) -> Scatter {
        match switch {
            ScatterSwitch::Off => Scatter::Off,
            _ if mode == Mode::Plain => Scatter::Off,
            _ => Scatter::Alone { ready: false },
        }
    }

    /// True if data of the first subflow is scattered, which its retransmissions are to the end.
    #[inline]
    pub(super) fn is_on(self) -> bool {
        self != Scatter::Off
    }

    /// True if the switch is to be decided now and then.
    #[inline]
    pub(super) fn is_undecided(self) -> bool {
        self == Scatter::Alone { ready: true }
    }

    /// Handles that subflows could be opened; returns true if the path manager is not to be notified yet.
    pub(super) fn holds(&mut self) -> bool {
        match self {
            Scatter::Alone { ready } => {
                *ready = true;
                true
            }
            _ => false,
        }
    }
}

/// Returns the reordering that a scattered subflow expects.
// MMPTCP raises the threshold of duplicate acknowledgements. RACK waits for a time instead, by default a quarter of the
// least round trip: less than a queue of a few packets on one of the routes.
pub(super) fn tolerance(only: &SimOnly) -> Tolerance {
    let plain = Tolerance::default();
    Tolerance {
        dup_thresh: only.scatter_dup_acks.unwrap_or(plain.dup_thresh),
        whole_round_trip: only.scatter_window == ScatterWindow::RoundTrip,
    }
}

impl Connection {
    /// Starts the path manager if the connection has reached its switch.
    #[cold]
    pub(super) fn decide_switch(&mut self) {
        let reached = match self.config.only.scatter_switch {
            ScatterSwitch::Off | ScatterSwitch::Never => false,
            ScatterSwitch::Volume => self.has_scattered_volume(),
            ScatterSwitch::Congestion => self.has_scattered_into_congestion(),
            ScatterSwitch::Rate => self.has_scattered_at_rate(),
            ScatterSwitch::Either => self.has_scattered_volume() || self.has_scattered_into_congestion(),
        };
        if reached {
            self.scatter = Scatter::Switching;
            self.start_path_manager();
        }
    }

    fn has_scattered_volume(&self) -> bool {
        self.send.nxt.max(self.recv.nxt()) > u64::from(self.config.only.scatter_volume.0)
    }

    fn has_scattered_into_congestion(&self) -> bool {
        self.subflows.first().is_some_and(|first| {
            let counters = first.stats().counters;
            counters.recoveries + counters.timeouts > 0
        })
    }

    /// True if the first subflow's window, sent once in a smoothed round-trip time, is the configured rate or more.
    // MMPTCP's code (`IsCwndExceedThresh`) compares before it processes the acknowledgement, so one acknowledgement later.
    fn has_scattered_at_rate(&self) -> bool {
        let (Some(rate), Some(first)) = (self.config.only.scatter_rate, self.subflows.first()) else {
            return false;
        };
        let view = first.view(None);
        // Bits in a second, both sides multiplied by the round-trip time in ns.
        let reaches = |srtt: Duration| {
            u128::from(view.cwnd) * 8 * 1_000_000_000 >= u128::from(rate) * u128::from(srtt.0)
        };
        view.srtt.is_some_and(reaches)
    }

    /// Handles that the subflow at `at` is established: new data takes it, and not the scattered one.
    pub(super) fn on_scatter_join(&mut self, at: usize) {
        if !self.scatter.is_on() || at == 0 || self.scatter == Scatter::Switched {
            return;
        }
        let held = self.scatter.is_undecided();
        self.scatter = Scatter::Switched;
        self.subflows[0].route_mut().ask_backup(true);
        if held {
            // The peer has decided.
            self.start_path_manager();
        }
    }
}
