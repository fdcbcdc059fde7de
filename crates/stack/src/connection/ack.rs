//! Processing of acknowledgements: of the subflow, and of the data level.

use core::ops::ControlFlow;

use anabranch_units::Time;

use super::{Connection, Mode};
use crate::event::SubflowSet;
use crate::observer::{Observer, StackEvent, report};
use crate::scheduler::SchedulerEvent;
use crate::segment::{Flags, Segment};
use crate::subflow::acknowledge::{AckOutcome, Acked};
use crate::subflow::{Ending, FastPaths};

/// Whether an acknowledgement has acknowledged more on its subflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    None,
    Some,
}

impl Connection {
    /// Processes the acknowledgement of the subflow; stops if it is not acceptable.
    #[inline(always)]
    pub(super) fn process_ack<O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        observer: &mut O,
    ) -> ControlFlow<(), Progress> {
        if self.fast_paths == FastPaths::On
            && let Some(acked) = self.subflows[at].fast_acknowledge(now, self.tick, segment)
        {
            self.inform(now, at, &acked, observer);
            return ControlFlow::Continue(Progress::Some);
        }
        self.process_any_ack(now, at, segment, observer)
    }

    /// [`Connection::process_ack`] without the fast path.
    #[inline(never)]
    fn process_any_ack<O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        observer: &mut O,
    ) -> ControlFlow<(), Progress> {
        let Connection { subflows, id: connection, tick, .. } = self;
        let subflow = &mut subflows[at];
        let id = subflow.id();
        let on_lost = |range, reason| {
            report(observer, now, *connection, &StackEvent::Lost { subflow: id, range, reason });
        };
        match subflow.acknowledge(now, *tick, segment, on_lost) {
            AckOutcome::Unacceptable => {
                self.challenge(now, at);
                return ControlFlow::Break(());
            }
            AckOutcome::WindowGrown => self.wanted.schedule(),
            AckOutcome::Idle => {}
            AckOutcome::Applied(acked) => {
                self.inform(now, at, &acked, observer);
                if acked.advanced > 0 {
                    return ControlFlow::Continue(Progress::Some);
                }
            }
        }
        ControlFlow::Continue(Progress::None)
    }

    /// Passes the results of an acknowledgement to the congestion control, the scheduler, the data level and the
    /// observer.
    #[inline(always)]
    fn inform<O: Observer>(&mut self, now: Time, at: usize, acked: &Acked, observer: &mut O) {
        let subflow = &mut self.subflows[at];
        let id = subflow.id();
        if acked.verdict.undone {
            report(observer, now, self.id, &StackEvent::Undone { subflow: id });
        }
        subflow.inform(now, acked, &mut self.congestion);
        self.wanted.schedule();
        if acked.advanced > 0 {
            self.after_advance(now, at, acked);
        }
        if acked.lost_segments > 0 {
            self.notify_scheduler(now, &SchedulerEvent::Lost { subflow: id, segments: acked.lost_segments });
        }
        self.refresh_window(at);
        self.report_windows_of(now, at, observer);
    }

    #[inline(always)]
    fn after_advance(&mut self, now: Time, at: usize, acked: &Acked) {
        let id = self.subflows[at].id();
        let &Acked { advanced, fin_acked, .. } = acked;
        if advanced > u64::from(fin_acked) {
            self.stats.last_data_ack = now;
        }
        if fin_acked {
            self.after_fin_acked(now, at);
        }
        self.notify_scheduler(now, &SchedulerEvent::Acked { subflow: id, bytes: advanced });
        self.tell_writable();
    }

    /// Handles the acknowledgement of the subflow's FIN.
    #[cold]
    fn after_fin_acked(&mut self, now: Time, at: usize) {
        if self.mode == Mode::Plain {
            // Here the subflow's FIN ends the stream: all of the stream is acknowledged with it, before the
            // subflow, and with it the connection, ends.
            let end = self.fallback.in_sent_stream(self.subflows[at].una() as i64);
            self.on_data_ack(now, end, 0);
        }
        match self.subflows[at].on_fin_acked(now + self.config.time_wait) {
            Ending::TimeWait => self.on_time_wait(now, at),
            Ending::Done => self.close_subflow(now, at),
            Ending::Continues => {}
        }
    }

    /// Processes an acknowledgement in plain TCP: the subflow's acknowledgement is the stream's too.
    #[inline(always)]
    pub(super) fn process_plain_ack(&mut self, now: Time, at: usize, segment: &Segment) {
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        let subflow = &self.subflows[at];
        let ack = subflow.ack_offset(segment);
        if ack < 1 {
            return;
        }
        // Offset 1 of the subflow is offset 0 of the stream; the FIN follows the last byte.
        let window = subflow.scaled_window(segment);
        self.on_data_ack(now, self.fallback.in_sent_stream(ack), window);
    }

    /// Handles a data acknowledgement up to `offset`, which admits `window` bytes after it.
    #[inline(always)]
    pub(super) fn on_data_ack(&mut self, now: Time, offset: i64, window: u64) {
        if offset == self.send.una as i64 && self.send.una + window <= self.send.window_end {
            // Nothing new, as in most segments that carry data.
            self.send.peer_window = window;
        } else {
            self.on_new_data_ack(now, offset, window);
        }
    }

    fn on_new_data_ack(&mut self, now: Time, offset: i64, window: u64) {
        // The end of the stream is sent after everything written, and has its own offset.
        let sent = if self.send.fin_sent { self.send.written + 1 } else { self.send.nxt };
        if offset < 0 || offset as u64 > sent {
            // Never sent, or before the stream (RFC 8684 section 3.3.2).
            return;
        }
        let offset = offset as u64;
        if offset > self.send.written {
            self.on_fin_acked(now);
        }
        let una = offset.min(self.send.written);
        self.send.widen(una + window);
        if offset >= self.send.una {
            self.send.peer_window = window;
        }
        let from = self.send.una;
        let carried_by =
            self.send.outstanding.as_slice().first().map_or(SubflowSet::EMPTY, |head| head.tried);
        if self.send.acknowledge(una) {
            self.persist.on_progress(now);
            self.persist.stop(&mut self.timers);
            self.stats.data_acked = una;
            self.stats.last_data_ack = now;
            self.repair_further();
            self.rearm_data_timer(now);
            self.notify_scheduler(now, &SchedulerEvent::DataAcked { from, to: una, carried_by });
            self.tell_writable();
        }
    }
}
