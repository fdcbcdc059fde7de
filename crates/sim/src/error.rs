//! Errors of making a run.

use core::fmt;
use core::net::IpAddr;

use anabranch_link::LinkConfigError;
use anabranch_stack::segment::PathId;
use anabranch_units::{Bytes, Rate};

use crate::flow::{Direction, FlowSpec, Reading};
use crate::network::{HostId, Network, NetworkError};

/// The reason that a run cannot be made.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum SimError {
    /// The configuration of a link was changed into an invalid one.
    Link {
        /// The link.
        name: String,
        /// The problem.
        error: LinkConfigError,
    },
    /// A flow does not fit the network, or is invalid.
    Flow {
        /// The flow.
        name: String,
        /// The problem.
        error: FlowError,
    },
}

/// The problem of a flow.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum FlowError {
    /// The client or the server is not a host of the network.
    Host(NetworkError),
    /// The client and the server are the same host.
    SameHost,
    /// The host does not have the address.
    Address {
        /// The host's name.
        host: String,
        /// The address.
        ip: IpAddr,
    },
    /// There is no route between the ends.
    NoRoute {
        /// The source.
        from: IpAddr,
        /// The destination.
        to: IpAddr,
    },
    /// The size is 0.
    ZeroSize,
    /// The request has 0 bytes.
    ZeroRequest,
    /// The receiver reads at rate 0.
    ZeroReadingRate,
    /// The application is invalid.
    Application(&'static str),
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimError::Link { name, error } => write!(f, "link '{name}': {error}"),
            SimError::Flow { name, error } => write!(f, "flow '{name}': {error}"),
        }
    }
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowError::Host(error) => error.fmt(f),
            FlowError::SameHost => f.write_str("client and server are the same host; a flow needs two hosts"),
            FlowError::Address { host, ip } => {
                write!(f, "host '{host}' does not have the address {ip}; name one of its own")
            }
            FlowError::NoRoute { from, to } => {
                write!(f, "there is no route from {from} to {to}; add it with `add_route`")
            }
            FlowError::ZeroSize => {
                f.write_str("the size is 0; give at least 1 byte, or none for a bulk flow")
            }
            FlowError::ZeroRequest => f.write_str("the request has 0 bytes; give at least 1"),
            FlowError::Application(problem) => f.write_str(problem),
            FlowError::ZeroReadingRate => {
                f.write_str("the receiver reads at rate 0; give a positive rate, or a pause")
            }
        }
    }
}

impl core::error::Error for SimError {}
impl core::error::Error for FlowError {}

/// Checks a flow against the network.
pub(crate) fn check_flow(
    network: &Network,
    flow: &FlowSpec,
    has_route: impl Fn(HostId, PathId, IpAddr) -> bool,
) -> Result<(), SimError> {
    let fail = |error| Err(SimError::Flow { name: flow.name.clone(), error });
    let mut paths = [PathId(0); 2];
    let ends = [(flow.client, flow.client_address), (flow.server, flow.server_address)];
    for (path, (host, ip)) in paths.iter_mut().zip(ends) {
        let Some(spec) = network.hosts().get(host.index()) else {
            return fail(FlowError::Host(NetworkError::UnknownHost(host)));
        };
        match spec.interfaces.iter().position(|interface| interface.ip == ip) {
            Some(index) => *path = PathId(index as u16),
            None => return fail(FlowError::Address { host: spec.name.clone(), ip }),
        }
    }
    if flow.client == flow.server {
        return fail(FlowError::SameHost);
    }
    let [client, server] = ends;
    for ((host, from), path, to) in [(client, paths[0], server.1), (server, paths[1], client.1)] {
        if !has_route(host, path, to) {
            return fail(FlowError::NoRoute { from, to });
        }
    }
    if flow.size == Some(Bytes::ZERO) {
        return fail(FlowError::ZeroSize);
    }
    if flow.direction == Direction::Download && flow.request == Bytes::ZERO {
        return fail(FlowError::ZeroRequest);
    }
    if flow.reading == Reading::AtRate(Rate(0)) {
        return fail(FlowError::ZeroReadingRate);
    }
    match flow.check_application() {
        Some(problem) => fail(FlowError::Application(problem)),
        None => Ok(()),
    }
}
