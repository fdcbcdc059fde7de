//! What the runtime keeps of one connection beside the stack: its bytes, and who waits for it.

use std::io;
use std::task::Waker;

use anabranch_stack::event::CloseReason;
use anabranch_stack::segment::Address;
use anabranch_stack::stats::{ConnectionStats, SubflowStats};
use anabranch_units::Time;

use crate::buffer::BLOCK;
use crate::buffer::Buffer;
use crate::held::Held;
use crate::shared::Progress;

/// How many bytes that have never left may wait in a send buffer, if so few are under way: more than leave in one
/// round of the driver, and few enough to be in a cache of the processor still when they do.
const UNSENT: u64 = 384 << 10;

/// One connection.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Its number among all of this host, from 1.
    pub number: u64,
    /// What was written and may have to be sent again.
    pub send: Buffer,
    /// What has arrived and was not read.
    pub receive: Buffer,
    /// What has arrived and nobody knows yet where it belongs.
    pub held: Option<Box<Held>>,
    /// How much was written.
    pub written: u64,
    /// How much of it has left, at least once.
    pub sent: u64,
    /// How much was read.
    pub read: u64,
    /// How much had arrived in order when that was last noted.
    pub received: u64,
    /// The place of its client among those whose memory is counted.
    pub client: u32,
    /// The bytes that it was last counted to hold.
    pub counted: u64,
    /// Bytes that are held for it outside of its buffers.
    pub charged: u64,
    /// How much of what was written the peer has taken.
    pub acknowledged: u64,
    /// It has a send timeout, and data is queued.
    pub progress: Option<Progress>,
    /// Whoever writes waits for what was written to leave.
    pub unsent_awaited: bool,
    /// The queues of writers without memory that it is in.
    pub memory_awaited: [bool; 2],
    /// The handshake is done.
    pub established: bool,
    /// The application writes no more.
    pub shut: bool,
    /// The peer sends no more, and all it sent is counted in `received`.
    pub peer_closed: bool,
    /// All that was written has been acknowledged, and so has the end.
    pub drained: bool,
    /// Nobody holds the stream any more.
    pub orphan: bool,
    /// An orphan is aborted then.
    pub deadline: Time,
    /// What happens when the stream is dropped.
    pub linger: Option<anabranch_units::Duration>,
    /// Whoever waits for bytes.
    pub reader: Option<Waker>,
    /// Whoever waits for room or for the handshake.
    pub writer: Option<Waker>,
    /// Whoever waits for the end.
    pub closer: Option<Waker>,
    /// How it ended; none while it lives.
    pub ended: Option<Box<Ending>>,
    /// Both ends of the first subflow.
    pub local: Address,
    pub remote: Address,
    pub opened: Time,
}

/// What is left of a connection that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub reason: CloseReason,
    pub stats: ConnectionStats,
    pub subflows: Vec<SubflowStats>,
}

impl Flow {
    pub(crate) fn new(now: Time, number: u64, local: Address, remote: Address) -> Flow {
        Flow {
            number,
            send: Buffer::default(),
            receive: Buffer::default(),
            held: None,
            written: 0,
            sent: 0,
            client: 0,
            counted: 0,
            charged: 0,
            acknowledged: 0,
            progress: None,
            unsent_awaited: false,
            memory_awaited: [false; 2],
            read: 0,
            received: 0,
            established: false,
            shut: false,
            peer_closed: false,
            drained: false,
            orphan: false,
            deadline: Time::NEVER,
            linger: None,
            reader: None,
            writer: None,
            closer: None,
            ended: None,
            local,
            remote,
            opened: now,
        }
    }

    /// How many bytes it holds, in its buffers and elsewhere.
    pub(crate) fn holds(&self) -> u64 {
        u64::from(self.send.held() + self.receive.held()) * BLOCK as u64 + self.charged
    }

    /// How many bytes it may hold by what its peer has taken so far: twice as much, for a window that doubles in each round
    /// trip, and two blocks to begin with.
    pub(crate) fn earned(&self) -> u64 {
        self.acknowledged.saturating_add(BLOCK as u64).saturating_mul(2)
    }

    /// How many bytes may be written now, where those before `freed` are not held any more.
    ///
    /// What waits is at most as much as is under way: a round trip's worth. The stack alone would take in twice
    /// what the windows allow, which is far more where the receiver is as near as the memory.
    pub(crate) fn unsent_room(&self, freed: u64) -> u64 {
        let under_way = self.sent.saturating_sub(freed);
        under_way.max(UNSENT).saturating_sub(self.written - self.sent)
    }

    /// Bytes up to `end` of the stream have left. Whoever waits for that is to be woken once half of what may wait
    /// is gone.
    pub(crate) fn has_left(&mut self, end: u64, freed: u64) -> Option<Waker> {
        self.sent = self.sent.max(end.min(self.written));
        if !self.unsent_awaited || self.unsent_room(freed) < self.written - self.sent {
            return None;
        }
        self.unsent_awaited = false;
        self.writer.take()
    }

    /// Moves everybody who waits to `woken`.
    pub(crate) fn wake_all(&mut self, woken: &mut Vec<Waker>) {
        woken.extend([self.reader.take(), self.writer.take(), self.closer.take()].into_iter().flatten());
    }

    /// What an operation that cannot succeed any more gives; none if the end was an orderly one.
    pub(crate) fn error(&self) -> Option<io::Error> {
        error_of(self.ended.as_ref()?.reason)
    }
}

/// The error that an application sees at the end of a connection; none if it ended as it should.
pub(crate) fn error_of(reason: CloseReason) -> Option<io::Error> {
    let (kind, text) = match reason {
        CloseReason::Finished => return None,
        CloseReason::Aborted => (io::ErrorKind::ConnectionAborted, "the connection was aborted by this side"),
        CloseReason::Reset => (io::ErrorKind::ConnectionReset, "the connection was reset by the other side"),
        CloseReason::Refused => {
            (io::ErrorKind::ConnectionRefused, "the other side has refused the connection")
        }
        CloseReason::TimedOut => (io::ErrorKind::TimedOut, "the other side has not answered in time"),
        CloseReason::NoSubflow => {
            (io::ErrorKind::NetworkUnreachable, "every subflow is gone and no other came in time")
        }
    };
    Some(io::Error::new(kind, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn as_much_may_wait_as_is_under_way_and_never_little() {
        let nobody = Address::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let mut flow = Flow::new(Time::ZERO, 1, nobody, nobody);
        assert_eq!(flow.unsent_room(0), UNSENT);
        flow.written = UNSENT;
        assert_eq!(flow.unsent_room(0), 0);
        (flow.unsent_awaited, flow.writer) = (true, Some(Waker::noop().clone()));
        // Half of it has to leave.
        assert!(flow.has_left(UNSENT / 2 - 1, 0).is_none());
        assert!(flow.has_left(UNSENT / 2, 0).is_some());
        assert!(flow.has_left(UNSENT, 0).is_none(), "nobody waits any more");
        assert_eq!(flow.unsent_room(0), UNSENT);
        // Five times as much is under way, and as much waits.
        (flow.written, flow.sent) = (20 * UNSENT, 10 * UNSENT);
        assert_eq!(flow.unsent_room(5 * UNSENT), 0);
        flow.sent = 16 * UNSENT;
        assert_eq!(flow.unsent_room(11 * UNSENT), UNSENT);
        // What is sent again, or stands behind all that was written, changes nothing.
        flow.has_left(12 * UNSENT, 0);
        assert_eq!(flow.sent, 16 * UNSENT);
        flow.has_left(21 * UNSENT, 0);
        assert_eq!(flow.sent, 20 * UNSENT);
    }
}
