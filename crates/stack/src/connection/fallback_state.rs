//! The state of fallback to TCP (RFC 8684 section 3.7): the position of the stream in the subflow, an
//! unanswered MP_FAIL, and the infinite mapping.

use anabranch_units::Time;

use crate::segment::{Dss, Mapping, MptcpOption, OPTION_SPACE, SackBlocks, Segment};
use crate::seq::Dsn;

/// The state of fallback.
#[derive(Clone, Debug)]
pub(super) struct Fallback {
    /// In plain TCP: the offset of a byte in the sent stream minus its offset in the subflow.
    send_shift: i64,
    /// The same for the received stream.
    recv_shift: i64,
    /// True if another subflow was opened far enough for its peer to use it: the third ACK was sent or
    /// received.
    joined: bool,
    /// True if a join was answered: its peer may have used it, and only the peer can show that it has not.
    answered: bool,
    /// Set if payload was changed: the peer is notified, and its answer awaited.
    failing: Option<Failing>,
    /// The infinite mapping to be sent, or already sent.
    infinite: Option<Infinite>,
}

/// An MP_FAIL that is not answered.
#[derive(Clone, Copy, Debug)]
struct Failing {
    /// The stream offset of the start of the damage.
    data: i64,
    resend_at: Time,
    /// The time at which the subflow is given up.
    deadline: Time,
}

#[derive(Clone, Copy, Debug)]
struct Infinite {
    /// The mapping: it applies retroactively, from the data that the peer is known to have.
    mapping: Mapping,
    /// The subflow offset of the segment that carries it, in each transmission.
    seq: Option<u64>,
    /// True if the segments after it are known to have no option of MPTCP.
    noted: bool,
}

/// The action when the timer of an MP_FAIL expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FailTimeout {
    /// It is repeated.
    Resend,
    /// The subflow is given up, because of damage at this stream offset.
    GiveUp(i64),
}

impl Default for Fallback {
    fn default() -> Fallback {
        Fallback {
            send_shift: -1,
            recv_shift: -1,
            joined: false,
            answered: false,
            failing: None,
            infinite: None,
        }
    }
}

impl Fallback {
    /// Returns the offset in the sent stream of `offset` of the subflow, in plain TCP.
    #[inline]
    pub(super) fn in_sent_stream(&self, offset: i64) -> i64 {
        offset + self.send_shift
    }

    /// Returns the offset in the received stream of `offset` of the subflow, in plain TCP.
    #[inline]
    pub(super) fn in_received_stream(&self, offset: i64) -> i64 {
        offset + self.recv_shift
    }

    /// Returns the offset in the subflow of a byte of the sent stream.
    pub(super) fn in_sent_subflow(&self, data: i64) -> i64 {
        data - self.send_shift
    }

    /// Returns the offset in the subflow of a byte of the received stream.
    pub(super) fn in_received_subflow(&self, data: i64) -> i64 {
        data - self.recv_shift
    }

    /// Records that the peer's stream continues with its byte `data` at `offset` of the subflow.
    pub(super) fn set_received(&mut self, offset: i64, data: i64) {
        self.recv_shift = data - offset;
    }

    /// Records that the peer may use another subflow from now on.
    pub(super) fn note_joined(&mut self) {
        self.joined = true;
    }

    /// True if the peer may have used another subflow.
    pub(super) fn was_joined(&self) -> bool {
        self.joined
    }

    /// Records that a join is answered.
    pub(super) fn note_answered(&mut self) {
        self.answered = true;
    }

    /// True if a join was answered.
    pub(super) fn was_answered(&self) -> bool {
        self.answered
    }

    /// True if an MP_FAIL is unanswered.
    #[inline]
    pub(super) fn is_failing(&self) -> bool {
        self.failing.is_some()
    }

    /// Records that the payload from `data` on was changed: every acknowledgement carries an MP_FAIL until it
    /// is answered.
    pub(super) fn begin_failing(&mut self, data: i64, resend_at: Time, deadline: Time) {
        self.failing = Some(Failing { data, resend_at, deadline });
    }

    /// Ends the MP_FAIL, which is answered or no longer needed.
    pub(super) fn end_failing(&mut self) {
        self.failing = None;
    }

    /// Returns the time at which [`Fallback::on_fail_timer`] is due.
    #[inline]
    pub(super) fn fail_timer(&self) -> Time {
        self.failing.map_or(Time::NEVER, |failing| failing.resend_at.min(failing.deadline))
    }

    /// Returns the action if the MP_FAIL is due again; the next is due at `resend_at`.
    #[cold]
    pub(super) fn on_fail_timer(&mut self, now: Time, resend_at: Time) -> Option<FailTimeout> {
        let failing = self.failing.as_mut()?;
        if failing.deadline > now {
            failing.resend_at = resend_at;
            return Some(FailTimeout::Resend);
        }
        let data = failing.data;
        self.failing = None;
        Some(FailTimeout::GiveUp(data))
    }

    /// Adds the MP_FAIL to an acknowledgement, until it is answered. The peer's stream starts at `origin`.
    #[cold]
    pub(super) fn write_fail(&self, origin: Dsn, out: &mut Segment) {
        let Some(failing) = self.failing else { return };
        out.options.push(MptcpOption::Fail(failed_dsn(origin, failing.data)));
        if out.options.wire_len() > OPTION_SPACE {
            out.options.sack = SackBlocks::EMPTY;
        }
    }

    /// Records that `mapping` is to be sent with the next new data.
    pub(super) fn begin_infinite(&mut self, mapping: Mapping) {
        self.infinite = Some(Infinite { mapping, seq: None, noted: false });
    }

    /// True if the infinite mapping may be due.
    #[inline]
    pub(super) fn is_infinite(&self) -> bool {
        self.infinite.is_some()
    }

    /// Returns true once, after the first transmission of the infinite mapping: later segments have no option of MPTCP.
    #[cold]
    pub(super) fn note_last_option(&mut self) -> bool {
        let sent = self.infinite.as_mut().filter(|infinite| infinite.seq.is_some());
        sent.is_some_and(|infinite| !core::mem::replace(&mut infinite.noted, true))
    }

    /// Adds the infinite mapping to each transmission of the first data after the fallback (sections 3.3.1
    /// and 3.7).
    #[cold]
    pub(super) fn write_infinite(&mut self, seq: u64, out: &mut Segment) {
        let Some(infinite) = &mut self.infinite else { return };
        if *infinite.seq.get_or_insert(seq) == seq {
            out.options.dss = Some(Dss { data_ack: None, mapping: Some(infinite.mapping), data_fin: false });
            if out.options.wire_len() > OPTION_SPACE {
                out.options.sack = SackBlocks::EMPTY;
            }
        }
    }
}

/// Returns the number named by an MP_FAIL for damage at `data` of a stream that starts at `origin`.
pub(super) fn failed_dsn(origin: Dsn, data: i64) -> Dsn {
    Dsn(origin.0.wrapping_add(data as u64))
}
