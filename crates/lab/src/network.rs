//! Builds the simulator's network of an experiment, with the random draws of each run.

use core::net::{IpAddr, Ipv4Addr};
use std::collections::BTreeMap;

use anabranch_link::{Capacity, Change, Jitter, JitterShape, LinkConfig};
use anabranch_sim::topology::{Pair as SimPair, PathLinks, Topology};
use anabranch_sim::{HostId, LinkId, Network, NetworkError};
use anabranch_stack::segment::PathId;
use anabranch_units::{Duration, RandomStream};

use crate::scenario::{Direction, Experiment, Link, Path, Phases, TraceStart};

/// The microseconds of a millisecond, in which the timestamps of a host tick once.
const MILLISECOND: u64 = 1000;

/// Returns the network of an experiment in a run with `seed`, on which only random starts of traces and
/// phases depend. Its pairs are those of the experiment, with their paths in order.
///
/// # Errors
/// If no network can be made of it.
pub(crate) fn build(
    experiment: &Experiment,
    seed: u64,
    phases: Option<&Phases>,
) -> Result<Topology, NetworkError> {
    let graph = &experiment.graph;
    let mut network = Network::new();
    let links: Vec<LinkId> = graph
        .links
        .iter()
        .map(|link| network.add_link(link.name.clone(), config(link, seed, phases)))
        .collect::<Result<_, _>>()?;
    let mut hosts = BTreeMap::new();
    for (position, node) in graph.nodes.iter().enumerate().filter(|(_, node)| !node.is_router) {
        let host = network.add_host(node.name.clone())?;
        if phases.is_some() {
            let phase = RandomStream::new(seed, &format!("clock.{}", node.name)).below(MILLISECOND);
            network.set_clock_phase(host, phase as u16)?;
        }
        hosts.insert(position, host);
    }
    let mut addresses: BTreeMap<usize, Vec<IpAddr>> = BTreeMap::new();
    // Hosts that connect have an address for each path, and those that only listen have one.
    let mut clients = 0;
    for pair in &experiment.pairs {
        if addresses.contains_key(&pair.client) {
            continue;
        }
        let mut own = Vec::with_capacity(pair.paths.len());
        for path in &pair.paths {
            clients += 1;
            let ip = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + clients));
            network.add_address(hosts[&pair.client], ip, path.backup)?;
            own.push(ip);
        }
        for (number, path) in (0..).zip(&pair.paths) {
            // The link by which packets leave the interface.
            let first = directions(experiment, path).0.first().and_then(|route| route.first());
            for signal in first.iter().flat_map(|&&link| &graph.links[link].signals) {
                network.add_address_change(signal.at, hosts[&pair.client], PathId(number), signal.up)?;
            }
        }
        addresses.insert(pair.client, own);
    }
    let mut servers = 0;
    for pair in &experiment.pairs {
        if let std::collections::btree_map::Entry::Vacant(entry) = addresses.entry(pair.server) {
            servers += 1;
            let ip = IpAddr::V4(Ipv4Addr::from_bits(0xac10_0000 + servers));
            network.add_address(hosts[&pair.server], ip, false)?;
            entry.insert(vec![ip]);
        }
    }
    // Two hosts that connect to each other share the routes between them.
    let mut known: BTreeMap<(HostId, PathId, IpAddr), Vec<Vec<LinkId>>> = BTreeMap::new();
    let mut add = |network: &mut Network, host, path, ip, routes: &[Vec<LinkId>]| {
        if known.get(&(host, path, ip)).is_some_and(|other| other == routes) {
            return Ok(());
        }
        known.insert((host, path, ip), routes.to_vec());
        network.add_equal_cost_routes(host, path, ip, routes)
    };
    let mut pairs = Vec::with_capacity(experiment.pairs.len());
    for pair in &experiment.pairs {
        let (client, server) = (hosts[&pair.client], hosts[&pair.server]);
        let (client_addresses, server_addresses) =
            (addresses[&pair.client].clone(), addresses[&pair.server].clone());
        let chains = |routes: &[Vec<usize>]| -> Vec<Vec<LinkId>> {
            routes.iter().map(|route| route.iter().map(|&link| links[link]).collect()).collect()
        };
        let mut paths = Vec::with_capacity(pair.paths.len());
        for ((number, path), client_ip) in pair.paths.iter().enumerate().zip(&client_addresses) {
            let (up, down) = directions(experiment, path);
            let (up, down) = (chains(up), chains(down));
            for (place, server_ip) in server_addresses.iter().enumerate() {
                add(&mut network, client, PathId(number as u16), *server_ip, &up)?;
                add(&mut network, server, PathId(place as u16), *client_ip, &down)?;
            }
            let first = |routes: Vec<Vec<LinkId>>| routes.into_iter().next().unwrap_or_default();
            paths.push(PathLinks { up: first(up), down: first(down) });
        }
        pairs.push(SimPair { client, server, client_addresses, server_addresses, paths });
    }
    let topology = Topology { network, pairs };
    Ok(if experiment.ipv6 { topology.over_ipv6() } else { topology })
}

/// Returns the addresses of the hosts that connect, with the name of the path that each belongs to: it decides the path in
/// both directions.
pub fn path_names(experiment: &Experiment) -> Vec<(IpAddr, String)> {
    let topology = build(experiment, 0, None);
    let pairs = topology.map(|topology| topology.pairs).unwrap_or_default();
    let of = |(sim, pair): (SimPair, &crate::scenario::Pair)| {
        let names = pair.paths.iter().map(|path| path.name.clone());
        sim.client_addresses.into_iter().zip(names).collect::<Vec<_>>()
    };
    pairs.into_iter().zip(&experiment.pairs).flat_map(of).collect()
}

/// Returns the routes of a path from the client and those to it.
fn directions<'a>(experiment: &Experiment, path: &'a Path) -> (&'a [Vec<usize>], &'a [Vec<usize>]) {
    match experiment.traffic.direction {
        Direction::Upload => (&path.data, &path.acks),
        Direction::Download => (&path.acks, &path.data),
    }
}

/// Returns the most by which the phases of any run may shorten the path's delay, in one direction.
pub(crate) fn shortening(experiment: &Experiment, path: &Path, phases: &Phases) -> Duration {
    let of = |route: &Vec<usize>| {
        let links = route.iter().map(|&link| &experiment.graph.links[link]);
        links
            .filter(|link| link.phase_stream.is_some())
            .fold(Duration::ZERO, |sum, link| sum + phases.delay_limit(link.rtt))
    };
    path.data.iter().chain(&path.acks).map(of).max().unwrap_or_default()
}

/// Returns the settings of a link in a run with `seed`.
fn config(link: &Link, seed: u64, phases: Option<&Phases>) -> LinkConfig {
    let mut config = link.config.clone();
    let anywhere = link.trace_start == TraceStart::Random
        || link.trace_start == TraceStart::Beginning && phases.is_some_and(|phases| phases.traces);
    if let Capacity::Trace { trace, start } = &mut config.capacity
        && anywhere
    {
        *start = Duration(RandomStream::new(seed, &link.trace_stream).below(trace.period().0));
    }
    let (Some(phases), Some(stream)) = (phases, &link.phase_stream) else { return config };
    // The delay is up to `limit` longer or shorter.
    let limit = phases.delay_limit(link.rtt);
    let shift = match limit.is_zero() {
        true => Duration::ZERO,
        false => Duration(RandomStream::new(seed, stream).below(2 * limit.0 + 1)),
    };
    let shifted = |delay: Duration| delay.saturating_sub(limit) + shift;
    config.delay = shifted(config.delay);
    for step in &mut config.timeline {
        if let Change::Delay(delay) = &mut step.change {
            *delay = shifted(*delay);
        }
    }
    let max = phases.jitter_limit(link.rtt);
    if config.jitter.is_none() && !max.is_zero() {
        config.jitter = Some(Jitter { shape: JitterShape::Uniform { max }, reorder: false });
    }
    config
}

/// True if every run has the network of `experiment` without random changes.
pub(crate) fn is_constant(experiment: &Experiment) -> bool {
    let is_constant = |link: &Link| link.trace_start != TraceStart::Random && link.config.redraws.is_empty();
    experiment.graph.links.iter().all(is_constant)
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod phase_tests;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Document;

    #[test]
    fn each_run_with_phases_draws_the_clocks_of_its_hosts() {
        let mut document = Document::bare();
        document.set_paths(&["8Mbit/s,10ms".to_owned()]).unwrap();
        let scenario = document.scenario().unwrap();
        let clocks = |seed, phases| {
            let network = build(&scenario.conditions[0].experiment, seed, phases).unwrap().network;
            network.hosts().iter().map(|host| host.clock_phase).collect::<Vec<_>>()
        };
        let phases = Phases::default();
        assert_eq!(clocks(1, None), [0, 0]);
        let drawn: Vec<u16> = (0..200).flat_map(|seed| clocks(seed, Some(&phases))).collect();
        assert!(drawn.iter().all(|phase| *phase < 1000), "{drawn:?}");
        let early = drawn.iter().filter(|phase| **phase < 500).count();
        assert!((150..250).contains(&early), "{early}");
        assert_ne!(drawn[0], drawn[1]);
        assert_eq!(clocks(7, Some(&phases)), clocks(7, Some(&phases)));
    }
}
