//! A path manager of a user's own, in a simulation.

use crate::common;

use anabranch_sim::{End, FlowId, Outcome, Sim};
use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::path_manager::{
    CustomPathManager, CustomPathManagerKind, HostAddress, PathCommand, PathEvent, PathManager,
    PathManagerKind,
};
use anabranch_units::{Bytes, Time};
use common::two_paths;

/// Joins from the host's last address alone: as a backup, or to close that subflow when it is established.
#[derive(Clone)]
struct LastAddress {
    addresses: Vec<HostAddress>,
    closes: bool,
    commands: Vec<PathCommand>,
}

impl PathManager for LastAddress {
    fn on_event(&mut self, event: &PathEvent) {
        match *event {
            PathEvent::Established { initiator: true, remote, local, .. } => {
                let last = self.addresses.iter().rfind(|own| own.ip != local.ip);
                self.commands.extend(last.map(|own| PathCommand::SubflowCreate {
                    after: anabranch_units::Duration::ZERO,
                    local: own.ip,
                    local_id: own.id,
                    remote,
                    backup: !self.closes,
                }));
            }
            // The server, which has one address, has such a path manager too.
            PathEvent::SubflowEstablished { id, local, .. }
                if self.closes && self.addresses[1..].iter().any(|own| own.ip == local.ip) =>
            {
                self.commands.push(PathCommand::SubflowDestroy(id));
            }
            _ => {}
        }
    }

    fn poll(&mut self) -> Option<PathCommand> {
        self.commands.pop()
    }
}

impl CustomPathManager for LastAddress {
    fn clone_box(&self) -> Box<dyn CustomPathManager> {
        Box::new(self.clone())
    }
}

fn own(closes: bool) -> ConnectionConfig {
    let kind = CustomPathManagerKind::new("last_address", move |addresses| {
        Box::new(LastAddress { addresses: addresses.to_vec(), closes, commands: Vec::new() })
    });
    ConnectionConfig { path_manager: PathManagerKind::Custom(kind), ..ConnectionConfig::linux() }
}

/// The subflows of the client in the middle of a transfer: what each has carried, in bytes.
fn subflows(config: ConnectionConfig) -> Vec<u64> {
    let (topology, flow) = two_paths(Some(Bytes(4_000_000)), config);
    let mut sim = Sim::new(topology.network, vec![flow], 1, ()).unwrap();
    sim.run(Time::from_secs(1));
    let client = sim.flows()[0].host(End::Client);
    let id = sim.connection(FlowId(0), End::Client).expect("it is under way");
    let carried = sim.stack(client).subflow_stats(id).iter().map(|one| one.counters.bytes_acked).collect();
    assert_eq!(sim.run(Time::from_secs(60)).flows[0].outcome, Outcome::Completed);
    carried
}

#[test]
fn a_path_manager_of_a_users_own_decides_which_subflows_there_are() {
    let full_mesh = subflows(ConnectionConfig::linux());
    assert!(matches!(full_mesh[..], [(1..), (1..)]), "{full_mesh:?}");
    let none =
        subflows(ConnectionConfig { path_manager: PathManagerKind::None, ..ConnectionConfig::linux() });
    assert!(matches!(none[..], [(1..)]), "{none:?}");
    // Opened, as a backup that has nothing to carry.
    let backup = subflows(own(false));
    assert!(matches!(backup[..], [(1..), 0]), "{backup:?}");
}

#[test]
fn a_path_manager_of_a_users_own_closes_a_subflow() {
    // In a second a path of 10 Mbit/s carries more than 1 MB.
    let both = subflows(ConnectionConfig::linux());
    assert!(both.iter().all(|bytes| *bytes > 400_000), "{both:?}");
    // The second subflow is closed as soon as it is established.
    let closed = subflows(own(true));
    assert!(matches!(closed[..], [(500_000..), (0..100_000)]), "{closed:?}");
}
