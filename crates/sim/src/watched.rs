//! A quota of a path during a run.

use anabranch_stack::event::{ConnectionId, SubflowId};
use anabranch_units::Time;

use crate::network::Quota;

/// A quota in a run.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) quota: Quota,
    /// True once it is exceeded.
    pub(crate) is_used: bool,
    /// The subflows that are backups because of it, with their start, as an ID may be used again.
    pub(crate) backups: Vec<(ConnectionId, SubflowId, Time)>,
}

impl Watched {
    pub(crate) fn new(quota: Quota) -> Watched {
        Watched { quota, is_used: false, backups: Vec::new() }
    }
}
