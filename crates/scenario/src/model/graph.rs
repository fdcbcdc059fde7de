//! The network of an experiment: hosts and routers, links between them, and the paths of each client and server.

use anabranch_link::{Capacity, Change, LinkConfig, LossDraws, MiddleboxConfig, Redrawn};
use anabranch_stack::path_manager::EndpointRole;
use anabranch_units::{Duration, Rate, Time};

use super::tariff::Tariff;

/// Hosts, routers and links.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// The form of its description in the scenario.
    pub form: Form,
    /// The hosts and routers.
    pub nodes: Vec<GraphNode>,
    /// The links, each in one direction.
    pub links: Vec<Link>,
}

/// The form in which a scenario describes its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As paths between one client and one server.
    Paths {
        /// True if all of them also cross one common link.
        shared: bool,
    },
    /// As nodes and links, or as a kind that is expanded to them.
    Graph,
}

/// A host or a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphNode {
    /// The name by which links refer to it.
    pub name: String,
    /// True if it only forwards packets.
    pub is_router: bool,
}

/// A link in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name, which seeds its random streams.
    pub name: String,
    /// The position of the node at its start.
    pub from: usize,
    /// The position of the node at its end.
    pub to: usize,
    /// Its settings, without the random draws of a run.
    pub config: LinkConfig,
    /// Its part of a round-trip time over it and its counterpart: twice its delay, or for a path the value in
    /// the scenario.
    pub rtt: Duration,
    /// The position in its trace at which a run begins.
    pub trace_start: TraceStart,
    /// The random stream of that position; equal for both directions.
    pub trace_stream: String,
    /// The random stream of its [phase](crate::Phases); none if it has no phase.
    pub phase_stream: Option<String>,
    /// The times at which the host at its start notices that its interface is down or up again.
    pub signals: Vec<Signal>,
}

/// A change of an interface that its host notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// The time.
    pub at: Time,
    /// True if the interface is up again.
    pub up: bool,
}

/// Where in a trace a run begins.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum TraceStart {
    /// The beginning, or with [`Phases`](crate::Phases) a random position.
    #[default]
    Beginning,
    /// At this offset.
    At(Duration),
    /// A random position drawn from the run's seed, the same for all contenders.
    Random,
    /// A random position that all links with this start share, because their traces were recorded together.
    Together,
}

/// A client, a server and the paths between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The position of the host that connects.
    pub client: usize,
    /// The position of the host that listens.
    pub server: usize,
    /// The paths, one for each interface of the client.
    pub paths: Vec<Path>,
}

/// A path: an interface of the client, and the routes between it and the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// The name in results, such as `wifi`.
    pub name: String,
    /// True if subflows over it ask to be backups.
    pub backup: bool,
    /// The key `endpoint`: the role of the client's address.
    pub endpoint: Option<EndpointRole>,
    /// The middlebox at the client's end.
    pub middlebox: MiddleboxConfig,
    /// Its price and its quotas.
    pub tariff: Tariff,
    /// The routes of the data, each a list of positions of links in order; several if they have equal cost.
    pub data: Vec<Vec<usize>>,
    /// The routes of the acknowledgements.
    pub acks: Vec<Vec<usize>>,
}

impl Link {
    /// Returns the greatest rate that the link ever has; none for a trace.
    pub fn greatest_rate(&self) -> Option<Rate> {
        let Capacity::Rate(rate) = self.config.capacity else { return None };
        let drawn = self.config.redraws.iter().flat_map(|redraw| match &redraw.value {
            Redrawn::Rate(rates) => rates.as_slice(),
            Redrawn::Delay { .. } => &[],
        });
        let rate = drawn.copied().fold(rate, Rate::max);
        let later = self.config.timeline.iter().filter_map(|step| match step.change {
            Change::Rate(rate) => Some(rate),
            _ => None,
        });
        Some(later.fold(rate, Rate::max))
    }

    /// True if it goes down at some time.
    pub fn goes_down(&self) -> bool {
        self.config.timeline.iter().any(|step| matches!(step.change, Change::Down))
    }

    /// Returns the least part of a round-trip time that the link ever has.
    pub fn least_rtt(&self) -> Duration {
        let later = self.config.timeline.iter().filter_map(|step| match step.change {
            Change::Delay(delay) => Some(delay * 2),
            _ => None,
        });
        // A delay that is redrawn may be as short as 0.
        let drawn = self.config.redraws.iter().filter_map(|redraw| match redraw.value {
            Redrawn::Delay { mean, std_dev } if std_dev.is_zero() => Some(mean * 2),
            Redrawn::Delay { .. } => Some(Duration::ZERO),
            Redrawn::Rate(_) => None,
        });
        later.chain(drawn).fold(self.rtt, Duration::min)
    }

    /// Returns the mean rate at the beginning of a run: the mean of the rates from which it is drawn, and no more
    /// than its token buckets sustain.
    pub fn mean_rate(&self) -> Rate {
        let config = &self.config;
        let drawn = config.redraws.iter().rev().find_map(|redraw| match &redraw.value {
            Redrawn::Rate(rates) if redraw.from == Time::ZERO => {
                let sum: u128 = rates.iter().map(|rate| u128::from(rate.0)).sum();
                Some(Rate((sum / rates.len() as u128) as u64))
            }
            _ => None,
        });
        let capacity = drawn.unwrap_or(config.capacity.mean_rate());
        let buckets = [&config.policer, &config.shaper].into_iter().flatten();
        buckets.map(|bucket| bucket.rate).fold(capacity, Rate::min)
    }
}

impl Graph {
    /// Makes every link number packets with data separately, for losses and drops ([`LossDraws::Separate`]).
    pub fn number_data_apart(&mut self) {
        self.links.iter_mut().for_each(|link| link.config.loss_draws = LossDraws::Separate);
    }

    /// True if every link does so.
    pub fn numbers_data_apart(&self) -> bool {
        self.links.iter().all(|link| link.config.loss_draws == LossDraws::Separate)
    }

    /// Returns the round-trip time over these links without load, including their counterparts.
    pub fn rtt(&self, route: &[usize]) -> Duration {
        route.iter().fold(Duration::ZERO, |sum, &link| sum + self.links[link].rtt)
    }

    /// Returns the mean rate of the slowest of these links.
    pub fn mean_rate(&self, route: &[usize]) -> Rate {
        route.iter().map(|&link| self.links[link].mean_rate()).min().unwrap_or(Rate(0))
    }

    /// Returns the round-trip time of a path without load; with several routes the least.
    pub fn path_rtt(&self, path: &Path) -> Duration {
        let least =
            |routes: &[Vec<usize>]| routes.iter().map(|route| self.rtt(route)).min().unwrap_or_default();
        (least(&path.data) + least(&path.acks)) / 2
    }

    /// Returns the mean rate of a path in the data direction; with several routes, of the fastest one.
    pub fn path_rate(&self, path: &Path) -> Rate {
        path.data.iter().map(|route| self.mean_rate(route)).max().unwrap_or(Rate(0))
    }

    /// True if a path, and no other part of the network, chooses among several routes.
    pub fn has_equal_cost_routes(&self, path: &Path) -> bool {
        path.data.len() > 1 || path.acks.len() > 1
    }

    /// Returns the maximum flow of data from client to server, or back, over the routes of a pair, in bit/s;
    /// `of` gives the rate of each link (none: unlimited).
    pub fn max_flow(&self, pair: &Pair, of: impl Fn(&Link) -> Option<Rate>) -> u64 {
        let mut used: Vec<usize> =
            pair.paths.iter().flat_map(|path| path.data.iter().flatten().copied()).collect();
        used.sort_unstable();
        used.dedup();
        let Some(first) = pair.paths.first().and_then(|path| path.data.first()) else { return 0 };
        let (Some(&first), Some(&last)) = (first.first(), first.last()) else { return 0 };
        let edges = used.iter().map(|&link| {
            let link = &self.links[link];
            (link.from, link.to, of(link).map_or(u64::MAX, |rate| rate.0))
        });
        max_flow(self.nodes.len(), edges.collect(), self.links[first].from, self.links[last].to)
    }
}

/// Returns the maximum flow from `source` to `sink` over edges `(from, to, capacity)`, by shortest augmenting
/// paths (Edmonds and Karp 1972). A capacity of `u64::MAX` is no limit.
fn max_flow(nodes: usize, edges: Vec<(usize, usize, u64)>, source: usize, sink: usize) -> u64 {
    // Each edge is followed by its reverse, by which flow is taken back.
    let mut residual: Vec<(usize, usize, u64)> =
        edges.into_iter().flat_map(|(from, to, capacity)| [(from, to, capacity), (to, from, 0)]).collect();
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for (edge, &(from, ..)) in residual.iter().enumerate() {
        out[from].push(edge);
    }
    let mut total = 0_u64;
    loop {
        let mut by: Vec<Option<usize>> = vec![None; nodes];
        let mut queue = std::collections::VecDeque::from([source]);
        while let Some(node) = queue.pop_front() {
            for &edge in &out[node] {
                let (_, to, left) = residual[edge];
                if left > 0 && to != source && by[to].is_none() {
                    by[to] = Some(edge);
                    queue.push_back(to);
                }
            }
        }
        let mut route = Vec::new();
        let mut node = sink;
        while let Some(edge) = by[node] {
            route.push(edge);
            node = residual[edge].0;
        }
        let Some(least) = route.iter().map(|&edge| residual[edge].2).min() else { return total };
        if least == u64::MAX {
            return u64::MAX;
        }
        for edge in route {
            let (forth, back) = (edge, edge ^ 1);
            if residual[forth].2 < u64::MAX {
                residual[forth].2 -= least;
            }
            residual[back].2 = residual[back].2.saturating_add(least);
        }
        total = total.saturating_add(least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_flow_is_that_of_the_least_cut() {
        // Two branches of 3 and 2 that meet in a link of 4.
        let edges = vec![(0, 1, 3), (0, 2, 2), (1, 3, 9), (2, 3, 9), (3, 4, 4)];
        assert_eq!(max_flow(5, edges.clone(), 0, 4), 4);
        assert_eq!(max_flow(5, edges[..4].to_vec(), 0, 3), 5);
        assert_eq!(max_flow(5, edges, 4, 0), 0);
        // Flow that has to be taken back: 0-1-2-3 is found first.
        let crossed = vec![(0, 1, 1), (1, 2, 1), (2, 3, 1), (0, 2, 1), (1, 3, 1)];
        assert_eq!(max_flow(4, crossed, 0, 3), 2);
        assert_eq!(max_flow(2, vec![(0, 1, u64::MAX)], 0, 1), u64::MAX);
        assert_eq!(max_flow(3, vec![(0, 1, u64::MAX), (1, 2, 7)], 0, 2), 7);
    }
}
