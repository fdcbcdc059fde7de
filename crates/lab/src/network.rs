//! Builds the simulator's network of an experiment, with the random draws of each run.

use core::net::{IpAddr, Ipv4Addr};
use std::collections::{BTreeMap, BTreeSet};

use anabranch_link::{Capacity, Change, Jitter, JitterShape, LinkConfig, MiddleboxConfig, QueueLimit};
use anabranch_sim::topology::{HostPair, PathLinks, Topology};
use anabranch_sim::{HostId, LinkId, Network, NetworkError, Quota};
use anabranch_stack::segment::PathId;
use anabranch_units::{Duration, RandomStream, Rate};

use crate::scenario::{Direction, Endpoints, Experiment, Link, Path, Phases, TraceStart};

/// The microseconds of a millisecond, in which the timestamps of a host tick once.
const MILLISECOND: u64 = 1000;

/// The random draws of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Draws {
    /// The seed of the run.
    pub seed: u64,
    /// The seed of the series to which the run belongs.
    pub series: u64,
    /// The number of the run in its series.
    pub run: u32,
}

impl Draws {
    /// Returns the draws of a run that belongs to no series.
    pub(crate) fn single(seed: u64) -> Draws {
        Draws { seed, series: seed, run: 0 }
    }

    /// Returns a part of 1, from 0 on, of the random stream `name`. The parts of the runs of a series are stratified: n of
    /// them cover the span from 0 to 1 far more evenly than n independent draws, and each of them is uniform
    /// (a Sobol sequence with Owen's scrambling).
    fn stratified(&self, name: &str) -> f64 {
        /// The number of points of the sequence.
        const POINTS: u32 = 1 << 16;
        let mut scramble = RandomStream::new(self.series, name);
        let seed = scramble.next_u32().wrapping_add(self.run / POINTS);
        // The point has 24 bits; the run's own draw is its place within the last one.
        let within = RandomStream::new(self.seed, name).next_f64() / f64::from(1 << 24);
        f64::from(sobol_burley::sample(self.run % POINTS, 0, seed)) + within
    }
}

/// The random stream of the traces that start together.
const TOGETHER: &str = "trace.together.start";

/// Returns the network of an experiment in a run with these `draws`: only random starts of traces and phases
/// depend on them. It has the pairs of the experiment, with their paths in order.
///
/// # Errors
/// If no network can be made of it.
pub(crate) fn build(
    experiment: &Experiment,
    draws: Draws,
    phases: Option<&Phases>,
) -> Result<Topology, NetworkError> {
    let graph = &experiment.graph;
    let seed = draws.seed;
    // The same moment of a recording, in which the shorter traces begin again.
    let longest = graph.links.iter().filter(|link| link.trace_start == TraceStart::Together);
    let longest = longest.filter_map(period).max().unwrap_or_default();
    let together = Duration((draws.stratified(TOGETHER) * longest.0 as f64) as u64);
    let mut network = Network::new();
    let links: Vec<LinkId> = graph
        .links
        .iter()
        .map(|link| network.add_link(link.name.clone(), config(link, draws, together, phases)))
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
    // Hosts that connect have an address for each path, and those that only listen have one, unless the scenario gives
    // them more.
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
            for signal in experiment.interface(path) {
                network.add_address_change(signal.at, hosts[&pair.client], PathId(number), signal.up)?;
            }
        }
        addresses.insert(pair.client, own);
    }
    let mut servers = 0;
    for pair in &experiment.pairs {
        if let std::collections::btree_map::Entry::Vacant(entry) = addresses.entry(pair.server) {
            let host = hosts[&pair.server];
            let mut own = Vec::new();
            for backup in server_backups(experiment) {
                servers += 1;
                let ip = IpAddr::V4(Ipv4Addr::from_bits(0xac10_0000 + servers));
                network.add_address(host, ip, backup)?;
                own.push(ip);
            }
            for (at, signal) in experiment.endpoints.iter().flat_map(Endpoints::signals) {
                network.add_address_change(signal.at, host, PathId(at as u16), signal.up)?;
            }
            entry.insert(own);
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
    let mut proxied = BTreeSet::new();
    for pair in &experiment.pairs {
        let (client, server) = (hosts[&pair.client], hosts[&pair.server]);
        let (client_addresses, server_addresses) =
            (addresses[&pair.client].clone(), addresses[&pair.server].clone());
        let chains = |routes: &[Vec<usize>]| -> Vec<Vec<LinkId>> {
            routes.iter().map(|route| route.iter().map(|&link| links[link]).collect()).collect()
        };
        let mut paths = Vec::with_capacity(pair.paths.len());
        for ((number, path), client_ip) in pair.paths.iter().enumerate().zip(&client_addresses) {
            let (up, down) = experiment.routes(path, Direction::Upload);
            let (up, down) = (chains(up), chains(down));
            let proxy = match path.middlebox.proxy.filter(|_| proxied.insert((client, number))) {
                Some(proxy) => Some(Proxied::new(
                    &mut network,
                    [graph.nodes[pair.client].name.as_str(), &path.name],
                    proxy,
                )?),
                None => None,
            };
            for (place, server_ip) in server_addresses.iter().enumerate() {
                if experiment.endpoints.as_ref().is_some_and(|endpoints| !endpoints.leads(number, place)) {
                    continue;
                }
                let ends =
                    [(client, PathId(number as u16), *client_ip), (server, PathId(place as u16), *server_ip)];
                if let Some(proxy) = &proxy {
                    proxy.join(&mut network, ends, [&up, &down])?;
                } else if path.middlebox.proxy.is_none() {
                    add(&mut network, client, ends[0].1, *server_ip, &up)?;
                    add(&mut network, server, ends[1].1, *client_ip, &down)?;
                }
            }
            let first = |routes: Vec<Vec<LinkId>>| routes.into_iter().next().unwrap_or_default();
            let path_links = PathLinks { up: first(up), down: first(down) };
            // Two classes of traffic may share a path.
            let middlebox = MiddleboxConfig { proxy: None, ..path.middlebox };
            if !middlebox.is_none()
                && let (Some(&up), Some(&down)) = (path_links.up.first(), path_links.down.last())
                && !network.middleboxes().iter().any(|other| other.up == up)
            {
                network.add_middlebox(path.name.clone(), middlebox, up, down)?;
            }
            if path.tariff.becomes_backup
                && let (Some(&up), Some(&down)) = (path_links.up.first(), path_links.down.last())
            {
                let own = PathId(number as u16);
                network.add_quota(Quota { host: client, path: own, up, down, most: path.tariff.quotas })?;
            }
            paths.push(path_links);
        }
        pairs.push(HostPair { client, server, client_addresses, server_addresses, paths });
    }
    let topology = Topology { network, pairs };
    Ok(if experiment.ipv6 { topology.over_ipv6() } else { topology })
}

/// A TCP proxy on a path, and the links between it and the client.
struct Proxied {
    host: HostId,
    /// From the client and to the client.
    links: [LinkId; 2],
}

impl Proxied {
    /// The rate between the client and the proxy.
    const RATE: Rate = Rate::from_mbps(1000);

    /// Adds the proxy of a path, by the names of its client and of the path.
    fn new(
        network: &mut Network,
        [client, path]: [&str; 2],
        proxy: anabranch_link::Proxy,
    ) -> Result<Proxied, NetworkError> {
        // Other clients may use the path too.
        let is_first = network.link(&format!("{path}.proxy.up")).is_none();
        let name = if is_first { path.to_owned() } else { format!("{client}.{path}") };
        let config = LinkConfig {
            capacity: Capacity::Rate(Proxied::RATE),
            delay: proxy.rtt / 2,
            queue: QueueLimit::Unlimited,
            ..LinkConfig::default()
        };
        let up = network.add_link(format!("{name}.proxy.up"), config.clone())?;
        let down = network.add_link(format!("{name}.proxy.down"), config)?;
        Ok(Proxied { host: network.add_proxy(format!("{name}.proxy"))?, links: [up, down] })
    }

    /// Adds the routes between a client and a server, each a host with its interface and its address; the links of the path lie
    /// between the proxy and the server.
    fn join(
        &self,
        network: &mut Network,
        [client, server]: [(HostId, PathId, IpAddr); 2],
        [up, down]: [&[Vec<LinkId>]; 2],
    ) -> Result<(), NetworkError> {
        network.add_route(client.0, client.1, server.2, &self.links[..1])?;
        let near = network.intercept(client.0, client.1, server.2, self.host)?;
        network.add_route(self.host, near, client.2, &self.links[1..])?;
        network.add_equal_cost_routes(server.0, server.1, client.2, down)?;
        let far = network.intercept(server.0, server.1, client.2, self.host)?;
        network.add_equal_cost_routes(self.host, far, server.2, up)
    }
}

/// Returns the addresses of the hosts that connect, with the name of the path that each belongs to: it decides the path in
/// both directions.
pub fn path_names(experiment: &Experiment) -> Vec<(IpAddr, String)> {
    let topology = build(experiment, Draws::single(0), None);
    let pairs = topology.map(|topology| topology.pairs).unwrap_or_default();
    let of = |(sim, pair): (HostPair, &crate::scenario::Pair)| {
        let names = pair.paths.iter().map(|path| path.name.clone());
        sim.client_addresses.into_iter().zip(names).collect::<Vec<_>>()
    };
    pairs.into_iter().zip(&experiment.pairs).flat_map(of).collect()
}

/// Returns for each address of a host that only listens whether it asks for backups.
fn server_backups(experiment: &Experiment) -> Vec<bool> {
    match &experiment.endpoints {
        Some(endpoints) => endpoints.servers.iter().map(|address| address.backup).collect(),
        None => vec![false],
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

/// Returns the length of the trace of a link.
fn period(link: &Link) -> Option<Duration> {
    match &link.config.capacity {
        Capacity::Trace { trace, .. } => Some(trace.period()),
        Capacity::Rate(_) => None,
    }
}

/// Returns the settings of a link in a run with these `draws`, in which the traces recorded together start at
/// `together`.
fn config(link: &Link, draws: Draws, together: Duration, phases: Option<&Phases>) -> LinkConfig {
    let mut config = link.config.clone();
    let seed = draws.seed;
    let anywhere = link.trace_start == TraceStart::Random
        || link.trace_start == TraceStart::Beginning && phases.is_some_and(|phases| phases.traces);
    if let Capacity::Trace { trace, start } = &mut config.capacity {
        let period = trace.period().0;
        if anywhere {
            *start =
                Duration(((draws.stratified(&link.trace_stream) * period as f64) as u64).min(period - 1));
        } else if link.trace_start == TraceStart::Together {
            *start = Duration(together.0 % period);
        }
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
    let is_constant = |link: &Link| {
        !matches!(link.trace_start, TraceStart::Random | TraceStart::Together)
            && link.config.redraws.is_empty()
    };
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
            let network =
                build(&scenario.conditions[0].experiment, Draws::single(seed), phases).unwrap().network;
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

    /// Returns the parts of `runs` runs, ascending.
    fn parts(series: u64, runs: u32, name: &str) -> Vec<f64> {
        let part = |run| {
            let seed = RandomStream::new(series, &format!("run.{run}")).next_u64();
            Draws { seed, series, run }.stratified(name)
        };
        let mut all: Vec<f64> = (0..runs).map(part).collect();
        all.sort_unstable_by(f64::total_cmp);
        all
    }

    /// Of n independent draws the widest gap is about ln(n)/n, and 30 of them miss a place of 3 % in 40 % of all cases.
    #[test]
    fn the_runs_of_a_series_cover_a_trace_evenly() {
        for series in 0..50 {
            for runs in [30, 120, 1000] {
                let all = parts(series, runs, "trace.lte.start");
                assert!(all.iter().all(|part| (0.0..1.0).contains(part)));
                let gap = all.windows(2).map(|pair| pair[1] - pair[0]).fold(all[0], f64::max);
                let widest = 4.0 / f64::from(runs);
                assert!(gap < widest, "series {series}, {runs} runs: {gap} of {widest}");
            }
        }
    }

    #[test]
    fn each_start_is_uniform_over_the_series_and_another_stream_has_others() {
        let first: Vec<f64> = (0..2000).map(|series| parts(series, 1, "a")[0]).collect();
        let mean = first.iter().sum::<f64>() / 2000.0;
        let early = first.iter().filter(|part| **part < 0.1).count();
        assert!((mean - 0.5).abs() < 0.03 && (150..250).contains(&early), "{mean} {early}");
        assert_ne!(parts(1, 30, "a"), parts(1, 30, "b"));
        assert_ne!(parts(1, 30, "a"), parts(2, 30, "a"));
        // Beyond the length of the sequence it goes on with another scrambling.
        let far = |run| Draws { seed: 1, series: 1, run }.stratified("a");
        assert!(far(1 << 16) != far(0) && (0.0..1.0).contains(&far(u32::MAX)));
    }
}
