use super::*;
use crate::event::SubflowId;
use EndpointRole::{FullMesh, None as Nothing, Signal, Subflow};

fn client(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn server(last: u8) -> Address {
    Address::new(IpAddr::from([10, 1, 0, last]), 80)
}

/// A client with these endpoints, connected from the first one, and the limits of subflows and of accepted addresses.
fn connected(roles: &[EndpointRole], subflows: u8, add_addr_accepted: u8) -> Endpoints {
    let rules = EndpointRules { roles: roles.to_vec(), subflows, add_addr_accepted, routes: vec![0, 1, 0] };
    let addresses: Vec<HostAddress> =
        (1..).zip(roles).map(|(id, _)| HostAddress { id, ip: client(id), backup: false }).collect();
    let mut manager = Endpoints::new(rules, &addresses);
    manager.on_event(&PathEvent::Established {
        initiator: true,
        local: Address::new(client(1), 5000),
        remote: server(1),
        deny_join_initial: false,
    });
    manager
}

/// Returns the ends of the subflows that are to be opened: the last numbers of their addresses.
fn opened(manager: &mut Endpoints) -> Vec<(u8, u8)> {
    let last = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets()[3],
        IpAddr::V6(_) => 0,
    };
    core::iter::from_fn(|| manager.poll())
        .map(|command| match command {
            PathCommand::SubflowCreate { local, remote, .. } => (last(local), last(remote.ip)),
            other => panic!("{other:?}"),
        })
        .collect()
}

fn announced(manager: &mut Endpoints, id: u8) -> Vec<(u8, u8)> {
    manager.on_event(&PathEvent::Announced { id, address: server(id) });
    opened(manager)
}

fn closed(manager: &mut Endpoints, pair: (u8, u8)) -> Vec<(u8, u8)> {
    let (local, remote) = (Address::new(client(pair.0), 1), server(pair.1));
    manager.on_event(&PathEvent::SubflowClosed { id: SubflowId(1), local, remote, reset: None });
    opened(manager)
}

#[test]
fn a_subflow_endpoint_reaches_the_first_address_and_an_announced_one_is_reached_by_its_route() {
    let mut manager = connected(&[Subflow, Subflow, Nothing], 8, 8);
    assert_eq!(opened(&mut manager), [(2, 1)]);
    assert_eq!(announced(&mut manager, 2), [(2, 2)]);
    assert_eq!(announced(&mut manager, 2), [], "it has a subflow");
    assert_eq!(announced(&mut manager, 3), [(1, 3)]);
    // An address that no rule knows.
    assert_eq!(announced(&mut manager, 9), [(1, 9)]);
}

#[test]
fn fullmesh_endpoints_reach_every_address() {
    let mut manager = connected(&[FullMesh, FullMesh], 8, 8);
    assert_eq!(opened(&mut manager), [(2, 1)]);
    assert_eq!(announced(&mut manager, 2), [(1, 2), (2, 2)]);
    // One of several is enough to be the only source.
    let mut manager = connected(&[Subflow, FullMesh], 8, 8);
    opened(&mut manager);
    assert_eq!(announced(&mut manager, 2), [(2, 2)]);
}

#[test]
fn limits_hold_for_both_kinds() {
    assert_eq!(opened(&mut connected(&[Subflow, Subflow], 0, 8)), []);
    let mut manager = connected(&[Subflow, Subflow, Subflow], 1, 8);
    assert_eq!(opened(&mut manager), [(2, 1)]);
    assert_eq!(announced(&mut manager, 2), [], "two subflows are the limit");
    assert_eq!(closed(&mut manager, (2, 1)), [(3, 1)], "the next endpoint is used");
    let mut manager = connected(&[Subflow, Nothing], 8, 1);
    assert_eq!(announced(&mut manager, 2), [(2, 2)]);
    assert_eq!(announced(&mut manager, 3), [], "one address is the limit");
    manager.on_event(&PathEvent::Removed { id: 2 });
    assert_eq!(announced(&mut manager, 3), [(1, 3)]);
    assert_eq!(announced(&mut connected(&[Subflow, Nothing], 8, 0), 2), []);
}

#[test]
fn the_first_subflow_takes_no_place() {
    let mut manager = connected(&[Subflow, Subflow], 1, 8);
    let addresses = manager.local.clone();
    manager = Endpoints::new(manager.rules, &addresses);
    let (local, remote) = (Address::new(client(1), 5000), server(1));
    manager.on_event(&PathEvent::SubflowEstablished { id: SubflowId(0), local, remote });
    manager.on_event(&PathEvent::Established { initiator: true, local, remote, deny_join_initial: false });
    assert_eq!(opened(&mut manager), [(2, 1)]);
}

#[test]
fn an_announcement_that_is_first_is_taken_up_first() {
    let mut manager = connected(&[Subflow, Subflow], 1, 8);
    let established = PathEvent::Established {
        initiator: true,
        local: Address::new(client(1), 5000),
        remote: server(1),
        deny_join_initial: false,
    };
    let addresses = manager.local.clone();
    manager = Endpoints::new(manager.rules, &addresses);
    manager.on_event(&PathEvent::Announced { id: 2, address: server(2) });
    assert_eq!(manager.poll(), None);
    manager.on_event(&established);
    assert_eq!(opened(&mut manager), [(2, 2)]);
}

#[test]
fn a_listener_announces_its_signal_endpoints_but_the_address_of_the_first_subflow() {
    let rules = EndpointRules { roles: vec![Signal, Signal, Nothing, Subflow], ..EndpointRules::default() };
    let addresses: Vec<HostAddress> =
        (1..=4).map(|id| HostAddress { id, ip: client(id), backup: false }).collect();
    let mut manager = Endpoints::new(rules, &addresses);
    let established = PathEvent::Established {
        initiator: false,
        local: Address::new(client(1), 80),
        remote: server(1),
        deny_join_initial: false,
    };
    manager.on_event(&established);
    let announce = PathCommand::Announce { id: 2, ip: client(2) };
    assert_eq!((manager.poll(), manager.poll()), (Some(announce), None));
    manager.on_event(&PathEvent::LocalDown(client(2)));
    assert_eq!((manager.poll(), manager.poll()), (Some(PathCommand::Remove { id: 2 }), None));
    manager.on_event(&PathEvent::LocalUp(client(2)));
    assert_eq!((manager.poll(), manager.poll()), (Some(announce), None));
}

#[test]
fn an_endpoint_that_goes_down_is_withdrawn_and_used_again_when_it_is_back() {
    let mut manager = connected(&[Subflow, Subflow], 8, 8);
    opened(&mut manager);
    manager.on_event(&PathEvent::LocalDown(client(2)));
    assert_eq!((manager.poll(), manager.poll()), (Some(PathCommand::Remove { id: 2 }), None));
    manager.on_event(&PathEvent::RetryDue { local: client(2), remote: server(1) });
    assert_eq!(manager.poll(), None, "it is down");
    manager.on_event(&PathEvent::LocalUp(client(2)));
    assert_eq!(opened(&mut manager), [(2, 1)]);
    assert_eq!(closed(&mut manager, (2, 1)), []);
    manager.on_event(&PathEvent::RetryDue { local: client(2), remote: server(1) });
    assert_eq!(opened(&mut manager), [(2, 1)]);
}
