//! The runtime's state of one connection: its bytes, and the tasks that wait for it.

use std::io;
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use anabranch_stack::event::CloseReason;
use anabranch_stack::segment::Address;
use anabranch_stack::stats::{ConnectionStats, SubflowStats};
use anabranch_units::Time;

use crate::buffer::BLOCK;
use crate::buffer::Buffer;
use crate::held::Held;

/// The number of unsent bytes that may be in a send buffer while little data is in flight: more than one
/// round of the driver sends, and few enough to be still in a processor cache when they are sent.
const UNSENT: u64 = 384 << 10;

/// One connection.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Its number among all connections of this host, from 1.
    pub number: u64,
    /// Written data that may have to be retransmitted.
    pub send: Buffer,
    /// Received data that was not read.
    pub receive: Buffer,
    /// Received data with a place in the stream that is not known yet.
    pub held: Option<Box<Held>>,
    /// The number of bytes written.
    pub written: u64,
    /// The number of bytes sent at least once.
    pub sent: u64,
    /// The number of bytes read.
    pub read: u64,
    /// The number of bytes received in order at the last update.
    pub received: u64,
    /// The index of its client in the memory accounting.
    pub client: u32,
    /// The bytes that it held when last counted.
    pub counted: u64,
    /// Bytes held for it outside of its buffers.
    pub charged: u64,
    /// The number of written bytes that the peer has acknowledged.
    pub acknowledged: u64,
    /// Set if it has a send timeout and queued data.
    pub progress: Option<Progress>,
    /// True if a writer waits for written data to be sent.
    pub unsent_awaited: bool,
    /// The queues of writers waiting for memory that contain it.
    pub memory_awaited: [bool; 2],
    /// True once the handshake is complete.
    pub established: bool,
    /// True once the application has ended its direction.
    pub shut: bool,
    /// True once the peer has ended its direction, and all its data is counted in `received`.
    pub peer_closed: bool,
    /// True once all written data and the end of the stream have been acknowledged.
    pub drained: bool,
    /// True once the stream was dropped.
    pub orphan: bool,
    /// The time at which an orphan is aborted.
    pub deadline: Time,
    /// The time for which a dropped stream lingers.
    pub linger: Option<anabranch_units::Duration>,
    /// The task that waits for data.
    pub reader: Option<Waker>,
    /// The task that waits for buffer space or for the handshake.
    pub writer: Option<Waker>,
    /// The task that waits for the end.
    pub closer: Option<Waker>,
    /// The result; none while the connection exists.
    pub ended: Option<Arc<Ending>>,
    /// What a [`StreamControl`](crate::StreamControl) reads once this is gone; none before the first one.
    pub observed: Option<Observed>,
    /// Both ends of the first subflow.
    pub local: Address,
    pub remote: Address,
    pub opened: Time,
}

/// The progress of a connection with a send timeout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// The time of its next check.
    pub due: Time,
    /// The number of bytes acknowledged when it last made progress.
    pub acked: u64,
    /// The number of consecutive checks without progress.
    pub idle: u8,
}

/// The record of a connection, once it has ended.
pub(crate) type Observed = Arc<OnceLock<Arc<Ending>>>;

/// The record of a connection that has ended.
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
            observed: None,
            local,
            remote,
            opened: now,
        }
    }

    /// Returns the number of bytes it holds, in its buffers and elsewhere.
    pub(crate) fn holds(&self) -> u64 {
        u64::from(self.send.held() + self.receive.held()) * BLOCK as u64 + self.send.kept() + self.charged
    }

    /// Returns the number of bytes it may hold, given what its peer has acknowledged so far: twice as much,
    /// for a window that doubles in each round trip, plus two blocks at the start.
    pub(crate) fn earned(&self) -> u64 {
        self.acknowledged.saturating_add(BLOCK as u64).saturating_mul(2)
    }

    /// Returns the number of bytes that may be written now, if those before `freed` are no longer held.
    ///
    /// Unsent data is limited to the amount of data in flight, which is a round trip's worth. The stack itself
    /// would accept twice the windows, which is far more if the receiver is on the same machine.
    pub(crate) fn unsent_space(&self, freed: u64) -> u64 {
        let in_flight = self.sent.saturating_sub(freed);
        in_flight.max(UNSENT).saturating_sub(self.written - self.sent)
    }

    /// Records that bytes up to `end` of the stream were sent. Returns the writer to wake, once half of the
    /// permitted unsent data has been sent.
    pub(crate) fn has_left(&mut self, end: u64, freed: u64) -> Option<Waker> {
        self.sent = self.sent.max(end.min(self.written));
        if !self.unsent_awaited || self.unsent_space(freed) < self.written - self.sent {
            return None;
        }
        self.unsent_awaited = false;
        self.writer.take()
    }

    /// Moves all waiting tasks to `woken`.
    pub(crate) fn wake_all(&mut self, woken: &mut Vec<Waker>) {
        woken.extend([self.reader.take(), self.writer.take(), self.closer.take()].into_iter().flatten());
    }

    /// Returns the error of an operation that can no longer succeed; none after an orderly end.
    pub(crate) fn error(&self) -> Option<io::Error> {
        error_of(self.ended.as_ref()?.reason)
    }
}

/// Returns the error that an application sees at the end of a connection; none after an orderly end.
pub(crate) fn error_of(reason: CloseReason) -> Option<io::Error> {
    let (kind, text) = match reason {
        CloseReason::Finished => return None,
        CloseReason::Aborted => (io::ErrorKind::ConnectionAborted, "the connection was aborted locally"),
        CloseReason::Reset => (io::ErrorKind::ConnectionReset, "the connection was reset by the peer"),
        CloseReason::Refused => (io::ErrorKind::ConnectionRefused, "the peer has refused the connection"),
        CloseReason::TimedOut => (io::ErrorKind::TimedOut, "the peer has not answered in time"),
        CloseReason::NoSubflow => {
            (io::ErrorKind::NetworkUnreachable, "all subflows have ended and no other was opened in time")
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
        assert_eq!(flow.unsent_space(0), UNSENT);
        flow.written = UNSENT;
        assert_eq!(flow.unsent_space(0), 0);
        (flow.unsent_awaited, flow.writer) = (true, Some(Waker::noop().clone()));
        // Half of it has to be sent.
        assert!(flow.has_left(UNSENT / 2 - 1, 0).is_none());
        assert!(flow.has_left(UNSENT / 2, 0).is_some());
        assert!(flow.has_left(UNSENT, 0).is_none(), "nobody waits any more");
        assert_eq!(flow.unsent_space(0), UNSENT);
        // Five times as much is in flight, so that much may be unsent.
        (flow.written, flow.sent) = (20 * UNSENT, 10 * UNSENT);
        assert_eq!(flow.unsent_space(5 * UNSENT), 0);
        flow.sent = 16 * UNSENT;
        assert_eq!(flow.unsent_space(11 * UNSENT), UNSENT);
        // Retransmissions, and ranges beyond the written data, change nothing.
        flow.has_left(12 * UNSENT, 0);
        assert_eq!(flow.sent, 16 * UNSENT);
        flow.has_left(21 * UNSENT, 0);
        assert_eq!(flow.sent, 20 * UNSENT);
    }
}
