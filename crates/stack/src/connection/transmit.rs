//! Chooses the next segment to send, and its subflow.

use anabranch_units::Time;

use super::context::Context;
use super::fast::FastPoll;
use super::timer_table::Timer;
use super::{Connection, Mode};
use crate::checksum::PayloadSums;
use crate::event::Departure;
use crate::observer::{Observer, SendKind, StackEvent, StackEvents, report};
use crate::scheduler::SchedulerEvent;
use crate::segment::Segment;
use crate::subflow::queue::Dropped;
use crate::subflow::scoreboard::SentMapping;
use crate::subflow::transmit::{Content, Control, NewData, Next, SendContext, Turn};

/// A call for the next segment.
pub(super) struct Poll<'a, S, O> {
    pub now: Time,
    /// The segment to write.
    pub out: &'a mut Segment,
    /// The sums of payload, for DSS checksums.
    pub sums: &'a S,
    /// The maximum payload of a departure of several segments, in bytes.
    pub burst: u32,
    pub observer: &'a mut O,
}

/// Whether a timer may be due earlier than before a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timers {
    Unmoved,
    Moved,
}

/// The answer to a poll.
pub(crate) struct Polled {
    pub departure: Option<Departure>,
    pub timers: Timers,
}

impl Connection {
    /// True if a poll may find something to send. False for a receiver that delays its acknowledgement, as
    /// for every second segment.
    #[inline]
    pub(crate) fn wants_to_send(&mut self) -> bool {
        self.wants_schedule()
            || self.wanted.wants_third_ack()
            || self.closing.wants_fin()
            || (self.send.closed && !self.send.fin_sent)
            || self.subflows.any_wants_to_send()
    }

    /// True if the scheduler is to be asked before the next segment is chosen.
    #[inline]
    fn wants_schedule(&self) -> bool {
        self.wanted.wants_schedule() || self.send.has_news()
    }

    /// Returns the next segment to send.
    pub(crate) fn poll_transmit<S: PayloadSums, O: Observer>(
        &mut self,
        now: Time,
        out: &mut Segment,
        sums: &S,
        burst: u32,
        observer: &mut O,
    ) -> Polled {
        if self.scatter.is_undecided() {
            self.decide_switch();
        }
        let mut poll = Poll { now, out, sums, burst, observer };
        let mut timers = Timers::Unmoved;
        if self.wants_schedule() {
            self.schedule(now, poll.observer);
            timers = Timers::Moved;
        }
        let ending = self.send.closed && !self.send.fin_sent;
        if ending {
            self.progress_close(now);
        }
        match self.fast_poll_subflows(&mut poll) {
            FastPoll::Ack(departure) => return Polled { departure: Some(departure), timers },
            FastPoll::Data(departure) => {
                return Polled { departure: Some(departure), timers: Timers::Moved };
            }
            FastPoll::Other => {}
        }
        let mut next = self.poll_subflows(&mut poll);
        if next.is_none() && self.wants_schedule() {
            self.schedule(now, poll.observer);
            next = self.poll_subflows(&mut poll);
        }
        if next.is_none() && ending {
            // Queued data may have become superfluous, and then nothing carries the DATA_FIN along.
            self.progress_close(now);
            next = self.poll_subflows(&mut poll);
        }
        if next.is_none() && self.send.blocked && self.has_kernel_buffers() {
            // `tcp_data_snd_check` sends first, and then asks whether the buffer has to grow.
            self.expand_buffers();
        }
        if next.is_none() && O::EVENTS.has(StackEvents::HELD) {
            self.report_holds(now, poll.observer);
        }
        Polled { departure: next, timers: Timers::Moved }
    }

    /// Reports why subflows do not send the data assigned to them.
    #[inline(never)]
    fn report_holds<O: Observer>(&self, now: Time, observer: &mut O) {
        let context = self.send_context(now, 0);
        for subflow in &self.subflows {
            if let Some(hold) = subflow.hold(&context) {
                report(observer, now, self.id, &StackEvent::Held { subflow: subflow.id(), hold });
            }
        }
    }

    #[inline(never)]
    pub(super) fn poll_subflows<S: PayloadSums, O: Observer>(
        &mut self,
        poll: &mut Poll<'_, S, O>,
    ) -> Option<Departure> {
        let count = self.subflows.len();
        for _ in 0..count {
            let at = self.rotation.current(count);
            if self.fast_has_nothing(at) {
                self.rotation.skip();
                continue;
            }
            if let Some(transmit) = self.poll_subflow(at, poll) {
                self.rotation.on_sent(self.turns_of(poll.out));
                return Some(transmit);
            }
            self.rotation.skip();
        }
        None
    }

    /// Returns the state that a transmission depends on.
    #[inline(always)]
    fn send_context(&self, now: Time, burst: u32) -> SendContext {
        let ends = self.mode == Mode::Plain && self.send.closed;
        // A DSS checksum over a mapping of several segments makes the receiver hold all of them until the
        // last has arrived (RFC 8684 section 3.3.1). An infinite mapping is sent on one segment.
        let single = self.checksummed || self.fallback.is_infinite();
        SendContext {
            now,
            paces: self.paces(),
            nagle: self.config.nagle,
            deferral: self.deferral(),
            push: self.config.ack.push,
            fin_with_data: self.config.fin_with_data,
            idle_restart: self.config.idle_restart,
            blocked: self.send.blocked,
            burst: if single { 0 } else { burst },
            // Linux cannot take data back from the send buffer of a subflow.
            unneeded: if self.models_buffers() { 0 } else { self.send.una },
            unassigned: self.send.written - self.send.nxt,
            end: ends.then_some(self.send.written),
        }
    }

    fn poll_subflow<S: PayloadSums, O: Observer>(
        &mut self,
        at: usize,
        poll: &mut Poll<'_, S, O>,
    ) -> Option<Departure> {
        let now = poll.now;
        if self.subflows[at].lacks_probe_data() {
            self.feed_probe(now, at, poll.observer);
        }
        let context = self.send_context(now, poll.burst);
        let keys = self.keys_pending(at);
        let Connection { subflows, congestion, wanted, closing, send, .. } = self;
        let id = subflows[at].id();
        let Turn { next, dropped } = subflows[at].next(&context, congestion, |control| match control {
            Control::ThirdAck => wanted.take_third_ack(),
            Control::Keys => closing.take_keys(id) && keys,
            Control::DataFin => closing.take_fin(id) && !send.fin_acked,
        });
        if dropped == Dropped::Some {
            self.wanted.schedule();
        }
        let mut kind = SendKind::Control;
        match next {
            Next::Nothing => return None,
            Next::New(new) => return Some(self.send_new(at, &new, &context, poll)),
            Next::Again { record, kind } => {
                self.make_again(now, at, &record, poll.out);
                return Some(self.depart(at, Content::Again, kind, record.data, poll));
            }
            Next::Signal(signal) => {
                self.make_signal(now, at, signal, poll.out);
                return Some(self.depart(at, Content::Signal, kind, 0, poll));
            }
            Next::Reset(cause) => {
                self.make_reset(now, at, cause, poll.out);
                self.set_closed(at);
                self.subflow_ended(now, at);
                self.check_ended(now);
            }
            Next::WindowProbe(before) => {
                kind = SendKind::Probe;
                self.make_window_probe(now, at, before, poll.out);
            }
            Next::Handshake => *poll.out = self.make_handshake(now, at),
            Next::Control(Control::DataFin) => self.make_data_fin(now, at, poll.out),
            Next::Fin(seq) => self.make_fin(now, at, seq, poll.out),
            Next::Control(Control::ThirdAck | Control::Keys) | Next::Ack => {
                self.make_ack(now, at, poll.out);
            }
        }
        Some(self.depart(at, Content::Control, kind, 0, poll))
    }

    /// Sends new data of the subflow at `at`, with its mapping.
    fn send_new<S: PayloadSums, O: Observer>(
        &mut self,
        at: usize,
        new: &NewData,
        context: &SendContext,
        poll: &mut Poll<'_, S, O>,
    ) -> Departure {
        let now = poll.now;
        let range = new.range;
        let first = self.first_mapping(at, new.seq, range);
        // The last bytes carry the DATA_FIN (RFC 8684 section 3.3.3), except with an MP_CAPABLE, which has no
        // flag for it.
        let data_fin =
            self.mode == Mode::Mptcp && self.send.closed && range.end == self.send.written && first.is_none();
        if data_fin {
            let Connection { closing, send, subflows, timers, config, .. } = self;
            closing.note_fin_sent(send, &mut Context { now, config, subflows, timers });
        }
        let len = range.len() as u16;
        let mut mapping = first.unwrap_or(SentMapping { back: 0, len, data_fin, checksum: 0 });
        if self.checksummed {
            mapping.checksum = self.checksum_of(range, new.seq, &mapping, poll.sums);
        }
        let subflow = &mut self.subflows[at];
        let id = subflow.id();
        let (record, train) = subflow.send_new(context, new, mapping, &mut self.congestion);
        self.make_new_data(now, at, &record, train, poll.out);
        self.fill_segments(at);
        if !self.timers.is_armed(Timer::Data) {
            self.arm_data_timer(now);
        }
        self.notify_scheduler(now, &SchedulerEvent::Sent { subflow: id, range });
        let departure = self.depart(at, Content::NewData, new.kind(), range.start, poll);
        Departure { segment_size: new.segment_size, ..departure }
    }
}
