//! A subflow in TIME-WAIT after the end of its connection: what a late segment of the peer may still need of it.
//!
//! A host remembers the subflows that it closed first for a minute (RFC 9293 section 3.6.1), so a host with a thousand
//! connections a second has sixty thousand of them. They keep some numbers and not the connection.

use anabranch_units::{Duration, Time};

use super::{Connection, Phase};
use crate::segment::{Address, DataAck, Dss, Flags, PathId, Segment, Timestamps};
use crate::seq::Seq;
use crate::subflow::{Late, Subflow, TcpState};
use crate::timestamp::TimestampTick;

/// The time from the last FIN of the peer on after which this host may use the four-tuple again, as in Linux
/// (`tcp_twsk_unique` in net/ipv4/tcp_ipv4.c): the timestamps of a new subflow are greater by then.
const AGAIN: Duration = Duration::from_secs(1);

/// A subflow in TIME-WAIT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeWait {
    /// The time at which it is forgotten.
    until: Time,
    /// The time for which it is remembered after a FIN.
    lasts: Duration,
    /// The interface on which it sends.
    path: PathId,
    window: u16,
    /// The next sequence number.
    seq: Seq,
    /// The next sequence number of the peer.
    ack: Seq,
    data_ack: Option<DataAck>,
    /// The last timestamp of the peer, if timestamps are used.
    recent: Option<u32>,
    tick: TimestampTick,
}

impl TimeWait {
    #[cfg(test)]
    pub(crate) fn example(until: Time, lasts: Duration) -> TimeWait {
        let (seq, path, tick) = (Seq(0), PathId(0), TimestampTick::MILLISECOND);
        TimeWait { until, lasts, path, window: 0, seq, ack: seq, data_ack: None, recent: None, tick }
    }

    /// Returns the time at which it is forgotten.
    pub(crate) fn until(&self) -> Time {
        self.until
    }

    /// Returns the interface on which it sends.
    pub(crate) fn path(&self) -> PathId {
        self.path
    }

    /// Returns the answer to a segment of the peer; `None` if the segment may open a new subflow with its four-tuple.
    pub(crate) fn receive(&mut self, now: Time, segment: &Segment) -> Option<Late> {
        let Segment { flags, seq, .. } = *segment;
        let syn = flags.has(Flags::SYN) && !flags.has(Flags::ACK) && !flags.has(Flags::RST);
        if syn && self.is_newer(segment) {
            return None;
        }
        let late = Late::of(segment, seq == self.ack);
        if late == Late::Restarts {
            self.until = now + self.lasts;
        }
        Some(late)
    }

    /// True if a SYN cannot be an old one: by its timestamp (RFC 6191), else by its sequence number (RFC 9293 section
    /// 3.10.7.4).
    fn is_newer(&self, syn: &Segment) -> bool {
        let later_by = |recent: u32, timestamps: Timestamps| timestamps.value.wrapping_sub(recent) as i32;
        let later_by = self.recent.zip(syn.options.timestamps).map(|(recent, now)| later_by(recent, now));
        let beyond = syn.seq.0.wrapping_sub(self.ack.0) as i32 > 0;
        later_by.is_none_or(|by| by > 0 || by == 0 && beyond) && (beyond || later_by.is_some())
    }

    /// True if this host may open a subflow with its four-tuple.
    pub(crate) fn admits_new(&self, now: Time) -> bool {
        self.recent.is_some() && now.since((self.until - self.lasts).min(now)) > AGAIN
    }

    /// Returns the first sequence number of a new subflow with its four-tuple that would have begun at `seq`: it is beyond all
    /// of this one, and of a window that is under way.
    pub(crate) fn first_after(&self, seq: Seq) -> Seq {
        let least = self.seq.add(1 << 16);
        if (seq.0.wrapping_sub(least.0) as i32) < 0 { least } else { seq }
    }

    /// Returns the acknowledgement of a segment from `remote` to `local`.
    pub(crate) fn answer(&self, now: Time, local: Address, remote: Address) -> Segment {
        let mut answer = Segment::new(local, remote, self.seq, Flags::ACK);
        answer.ack = self.ack;
        answer.window = self.window;
        answer.options.dss =
            self.data_ack.map(|data_ack| Dss { data_ack: Some(data_ack), mapping: None, data_fin: false });
        answer.options.timestamps = self.recent.map(|echo| Timestamps { value: self.tick.value(now), echo });
        answer
    }
}

impl Connection {
    /// True if it has ended, and nothing of it is left but subflows in TIME-WAIT that have answered everything.
    pub(crate) fn only_waits(&mut self) -> bool {
        let waits = |subflow: &Subflow| subflow.state().tcp() == TcpState::TimeWait;
        self.phase == Phase::Ended
            && self.live_subflows().all(waits)
            && (self.is_dead() || !self.subflows.any_wants_to_send())
    }

    /// Returns what is to be remembered of the subflow at `at`, if it is in TIME-WAIT.
    pub(crate) fn time_wait(&mut self, at: usize) -> Option<TimeWait> {
        let until = self.subflows[at].time_wait_until()?;
        let (local, remote) = (self.subflows[at].route().local(), self.subflows[at].route().remote());
        let mut ack = Segment::new(local, remote, Seq(0), Flags::ACK);
        // An answer gets its timestamp when it is sent.
        self.make_ack(until, at, &mut ack);
        Some(TimeWait {
            until,
            lasts: self.config.time_wait,
            path: self.subflows[at].route().path(),
            window: ack.window,
            seq: ack.seq,
            ack: ack.ack,
            data_ack: ack.options.dss.and_then(|dss| dss.data_ack),
            recent: ack.options.timestamps.map(|timestamps| timestamps.echo),
            tick: self.tick,
        })
    }
}
