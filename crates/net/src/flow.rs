//! What the runtime keeps of one connection beside the stack: its bytes, and who waits for it.

use std::io;
use std::task::Waker;

use anabranch_stack::event::CloseReason;
use anabranch_stack::segment::Address;
use anabranch_stack::stats::{ConnectionStats, SubflowStats};
use anabranch_units::Time;

use crate::buffer::Buffer;
use crate::held::Held;

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
    /// How much was read.
    pub read: u64,
    /// How much had arrived in order when that was last noted.
    pub received: u64,
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
    pub fn new(now: Time, number: u64, local: Address, remote: Address) -> Flow {
        Flow {
            number,
            send: Buffer::default(),
            receive: Buffer::default(),
            held: None,
            written: 0,
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

    /// Moves everybody who waits to `woken`.
    pub fn wake_all(&mut self, woken: &mut Vec<Waker>) {
        woken.extend([self.reader.take(), self.writer.take(), self.closer.take()].into_iter().flatten());
    }

    /// What an operation that cannot succeed any more gives; none if the end was an orderly one.
    pub fn error(&self) -> Option<io::Error> {
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
