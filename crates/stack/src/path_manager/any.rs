//! The list of path managers, and one chosen at run time.

use core::fmt;

use super::{
    Anabranch, CustomPathManager, CustomPathManagerKind, EndpointRules, Endpoints, FullMesh, HostAddress,
    JoinRules, NDiffPorts, PathCommand, PathEvent, PathManager,
};

/// The path manager of a connection.
#[derive(Clone, Debug, PartialEq)]
pub enum PathManagerKind {
    /// No further subflows, no announcements.
    None,
    /// A subflow between every pair of addresses.
    FullMesh,
    /// Several subflows between the addresses of the first, from different ports; the total number.
    NDiffPorts(u8),
    /// The endpoints and limits of Linux's own path manager.
    Endpoints(EndpointRules),
    /// A subflow where it helps, by what is known of the paths and of the connection.
    Anabranch(Box<JoinRules>),
    /// A user-defined path manager.
    Custom(CustomPathManagerKind),
}

impl PathManagerKind {
    /// The names of the built-in path managers that need no list of addresses.
    pub const NAMES: [&'static str; 4] = ["none", "full_mesh", "n_diff_ports", "anabranch"];

    /// Returns the name used in scenarios and on the command line.
    pub fn name(&self) -> &str {
        match self {
            PathManagerKind::None => "none",
            PathManagerKind::FullMesh => "full_mesh",
            PathManagerKind::NDiffPorts(_) => "n_diff_ports",
            PathManagerKind::Endpoints(_) => "endpoints",
            PathManagerKind::Anabranch(_) => "anabranch",
            PathManagerKind::Custom(custom) => &custom.name,
        }
    }

    /// Builds a path manager of this kind for a new connection of a host with these addresses.
    pub fn build(&self, addresses: &[HostAddress]) -> AnyPathManager {
        match self {
            PathManagerKind::None => AnyPathManager::None,
            PathManagerKind::FullMesh => AnyPathManager::FullMesh(FullMesh::new(addresses)),
            PathManagerKind::NDiffPorts(count) => AnyPathManager::NDiffPorts(NDiffPorts::new(*count)),
            PathManagerKind::Endpoints(rules) => {
                AnyPathManager::Endpoints(Box::new(Endpoints::new(rules.clone(), addresses)))
            }
            PathManagerKind::Anabranch(rules) => {
                AnyPathManager::Anabranch(Box::new(Anabranch::new((**rules).clone(), addresses)))
            }
            PathManagerKind::Custom(custom) => AnyPathManager::Custom((custom.build)(addresses)),
        }
    }
}

/// The path manager of a connection.
#[derive(Clone)]
pub enum AnyPathManager {
    /// Does nothing.
    None,
    /// A subflow between every pair of addresses.
    FullMesh(FullMesh),
    /// Several subflows between one pair.
    NDiffPorts(NDiffPorts),
    /// Endpoints and limits: in a box, as it is rare and larger than the others.
    Endpoints(Box<Endpoints>),
    /// A subflow where it helps: in a box, as it is rare and larger than the others.
    Anabranch(Box<Anabranch>),
    /// A user-defined path manager.
    Custom(Box<dyn CustomPathManager>),
}

impl fmt::Debug for AnyPathManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnyPathManager::None => f.write_str("None"),
            AnyPathManager::FullMesh(inner) => inner.fmt(f),
            AnyPathManager::NDiffPorts(inner) => inner.fmt(f),
            AnyPathManager::Endpoints(inner) => inner.fmt(f),
            AnyPathManager::Anabranch(inner) => inner.fmt(f),
            AnyPathManager::Custom(_) => f.write_str("Custom"),
        }
    }
}

impl PathManager for AnyPathManager {
    fn on_event(&mut self, event: &PathEvent) {
        match self {
            AnyPathManager::None => {}
            AnyPathManager::FullMesh(inner) => inner.on_event(event),
            AnyPathManager::NDiffPorts(inner) => inner.on_event(event),
            AnyPathManager::Endpoints(inner) => inner.on_event(event),
            AnyPathManager::Anabranch(inner) => inner.on_event(event),
            AnyPathManager::Custom(inner) => inner.on_event(event),
        }
    }

    fn poll(&mut self) -> Option<PathCommand> {
        match self {
            AnyPathManager::None => None,
            AnyPathManager::FullMesh(inner) => inner.poll(),
            AnyPathManager::NDiffPorts(inner) => inner.poll(),
            AnyPathManager::Endpoints(inner) => inner.poll(),
            AnyPathManager::Anabranch(inner) => inner.poll(),
            AnyPathManager::Custom(inner) => inner.poll(),
        }
    }
}
