//! The reasons that there is no connection for an application.

use std::fmt;
use std::io;

use crate::convert::ErrorCode;

/// The reason that a destination is not connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The policy, or the server side, refuses it.
    Refused(String),
    /// The destination cannot be reached, or its name is unknown.
    Unreachable(String),
    /// The destination refuses connections.
    ConnectionRefused(String),
    /// The server side has not answered as it has to.
    Server(String),
    /// There are too many connections.
    Busy(String),
}

impl Failure {
    /// Returns the failure of a connection to the destination itself.
    pub(crate) fn of_destination(error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => {
                Failure::ConnectionRefused("the destination refuses connections".to_owned())
            }
            _ => Failure::Unreachable(format!("the destination cannot be reached: {error}")),
        }
    }

    /// Returns the failure that the server side has reported.
    pub(crate) fn of_code(code: ErrorCode) -> Failure {
        let text = format!("the server side reports: {code}");
        match code {
            ErrorCode::NotAuthorized => Failure::Refused(text),
            ErrorCode::ResourceExceeded => Failure::Busy(text),
            ErrorCode::ConnectionReset => Failure::ConnectionRefused(text),
            ErrorCode::Unreachable | ErrorCode::NetworkFailure => Failure::Unreachable(text),
            _ => Failure::Server(text),
        }
    }

    /// Returns its kind, for counters.
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::Refused(_) => "refused",
            Failure::Unreachable(_) => "unreachable",
            Failure::ConnectionRefused(_) => "connection_refused",
            Failure::Server(_) => "server",
            Failure::Busy(_) => "busy",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(text)
            | Failure::Unreachable(text)
            | Failure::ConnectionRefused(text)
            | Failure::Server(text)
            | Failure::Busy(text) => f.write_str(text),
        }
    }
}
