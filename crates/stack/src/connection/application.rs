//! The calls of the application: writing, reading, and statistics. (`close.rs` has the two that end things.)

use core::net::IpAddr;

use anabranch_units::Time;

use super::{Connection, Mode, Phase};
use crate::event::SubflowId;
use crate::path_manager::PathEvent;
use crate::segment::{MptcpOption, ResetReason};
use crate::stats::{ConnectionStats, SubflowStats};
use crate::subflow::Subflow;

impl Connection {
    /// Writes `n` bytes for the application, and returns the number that fits. The send buffer may grow if
    /// `grows`.
    pub(crate) fn write(&mut self, now: Time, n: u64, grows: bool) -> u64 {
        if self.phase == Phase::Ended || self.send.closed {
            return 0;
        }
        self.send.grows = grows;
        let room = self.room_to_write();
        let accepted = n.min(room);
        if accepted > 0 {
            if self.send.buffered() == 0 {
                self.persist.on_progress(now);
            }
            self.send.write(accepted);
            self.stats.written += accepted;
            self.notify_scheduler(now, &crate::scheduler::SchedulerEvent::Written);
        }
        self.send.blocked = accepted < n;
        self.send.has_more = self.send.blocked;
        self.send.enough = u64::MAX;
        accepted
    }

    /// Emits `Writable` once the send buffer holds at most `enough` bytes.
    pub(crate) fn await_room(&mut self, enough: u64) {
        self.send.blocked = true;
        self.send.has_more = true;
        self.send.enough = enough;
    }

    /// Consumes `n` bytes that the application has read, and sends a window update if it is large enough.
    pub(crate) fn consume(&mut self, now: Time, n: u64) {
        self.recv.consume(n);
        if self.recv.counts_memory() {
            self.evaluate_memory(now);
        }
        self.on_read();
        self.events.on_consumed();
        let mss = u64::from(self.config.mss);
        let most = self.subflows.iter().map(Subflow::offered).max().unwrap_or(u64::MAX);
        if self.recv.should_update(mss, most) {
            // On every subflow, as in Linux: the window is the connection's window, but a sender that also
            // respects the edge of each subflow (RFC 8684 section 3.3.5) could not use the others.
            for subflow in self.subflows.iter_mut().filter(|subflow| subflow.state().is_usable()) {
                subflow.recv_mut().want_update();
            }
        }
    }

    /// Returns the number of bytes that can be read in order.
    pub(crate) fn readable(&self) -> u64 {
        self.recv.readable()
    }

    /// Returns the number of bytes received in order.
    pub(crate) fn received(&self) -> u64 {
        self.recv.nxt()
    }

    /// Sets the priority of a subflow, and requests the same from the peer.
    pub(crate) fn set_backup(&mut self, id: SubflowId, backup: bool) {
        if let Some(at) = self.subflow_index(id).filter(|&at| self.subflows[at].state().is_usable()) {
            self.subflows[at].route_mut().ask_backup(backup);
            self.subflows[at].signals_mut().push(MptcpOption::Priority { backup });
            self.wanted.schedule();
        }
    }

    /// Returns the current counters.
    pub(crate) fn current_stats(&self) -> ConnectionStats {
        ConnectionStats {
            out_of_order: self.recv.out_of_order(),
            refused: self.recv.refused(),
            mptcp: self.mode == Mode::Mptcp,
            ..self.stats
        }
    }

    /// Returns the statistics of all subflows, including past ones, in the order of their creation.
    pub(crate) fn subflow_stats(&self) -> Vec<SubflowStats> {
        let mut all = self.past.clone();
        all.extend(self.subflows.iter().map(Subflow::stats).filter(|stats| stats.ended.is_none()));
        all.sort_by_key(|stats| (stats.started, stats.id));
        all
    }

    /// Handles the loss of a local address, resetting its subflows, or its return. A plain TCP, which has no other
    /// address, goes on when the address is back, as on Linux. So does the only subflow of a connection to which no other one may be added
    /// yet (RFC 8684 section 3.1), and a race of first subflows has an attempt more.
    #[cold]
    pub(crate) fn set_address_up(&mut self, now: Time, ip: IpAddr, up: bool) {
        if self.mode == Mode::Plain {
            return;
        }
        if up {
            self.paths.notify(&PathEvent::LocalUp(ip));
            self.retry_attempt(now, ip);
            // The peer may have given up a subflow that has survived here: it then answers with a reset.
            for subflow in &mut self.subflows {
                if subflow.route().local().ip == ip && subflow.state().is_usable() {
                    subflow.probe();
                }
            }
        } else {
            self.paths.on_local_down(ip);
            for at in 0..self.subflows.len() {
                let is_there =
                    self.subflows[at].route().local().ip == ip && !self.subflows[at].state().is_closed();
                if is_there && (self.confirmed || self.has_rivals(at)) {
                    self.kill_subflow(now, at, ResetReason::Unspecified);
                }
            }
        }
        self.run_path_manager();
    }
}
