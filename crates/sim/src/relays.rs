//! The connections of a TCP proxy, in pairs.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_stack::config::{Profile, SimConfig};
use anabranch_stack::event::ConnectionId;

/// One end of a relay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relay {
    /// The connection that takes its data.
    pub(crate) other: ConnectionId,
    /// True if the connection is established.
    pub(crate) is_open: bool,
    /// True if its peer has ended its stream.
    pub(crate) has_ended: bool,
}

/// The connections of a proxy.
#[derive(Clone, Debug)]
pub(crate) struct Relays {
    pub(crate) config: SimConfig,
    /// The ports on which it listens: each to which a client has connected.
    pub(crate) ports: BTreeSet<u16>,
    pub(crate) ends: BTreeMap<ConnectionId, Relay>,
}

impl Default for Relays {
    fn default() -> Relays {
        let mut config = SimConfig::new(Profile::Linux);
        config.mptcp = false;
        Relays { config, ports: BTreeSet::new(), ends: BTreeMap::new() }
    }
}
