//! Routes in a graph of hosts and routers, and the graph of a fat tree.
//!
//! Nodes and links are identified by their positions, so that callers use their own types.

use std::collections::VecDeque;

/// The largest number of routes of equal cost between two nodes: more than a fat tree of 16 ports has.
pub const MOST_ROUTES: usize = 256;

/// Returns all routes with the fewest links from node `from` to node `to`, each a list of positions in
/// `links` (pairs of nodes, from the first to the second); none if `to` cannot be reached. Only nodes for
/// which `forwards` is true are passed. With `first` the routes begin with that link. At most [`MOST_ROUTES`]
/// are returned, in the order of `links`.
pub fn shortest_routes(
    forwards: &[bool],
    links: &[(usize, usize)],
    from: usize,
    first: Option<usize>,
    to: usize,
) -> Vec<Vec<usize>> {
    let mut into: Vec<Vec<usize>> = vec![Vec::new(); forwards.len()];
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); forwards.len()];
    for (link, &(begin, end)) in links.iter().enumerate() {
        into[end].push(link);
        out[begin].push(link);
    }
    // The number of links between each node and `to`.
    let mut distance = vec![usize::MAX; forwards.len()];
    distance[to] = 0;
    let mut queue = VecDeque::from([to]);
    while let Some(node) = queue.pop_front() {
        for &link in &into[node] {
            let before = links[link].0;
            if distance[before] == usize::MAX && before != from {
                distance[before] = distance[node] + 1;
                if forwards[before] {
                    queue.push_back(before);
                }
            }
        }
    }
    let begins: Vec<usize> = match first {
        Some(link) => vec![link],
        None => out[from].clone(),
    };
    let reach = |link: &usize| {
        let end = links[*link].1;
        if end == to || forwards[end] { distance[end] } else { usize::MAX }
    };
    let Some(least) = begins.iter().map(reach).min().filter(|least| *least < usize::MAX) else {
        return Vec::new();
    };
    let mut routes: Vec<Vec<usize>> =
        begins.into_iter().filter(|link| reach(link) == least).map(|link| vec![link]).collect();
    for left in (0..least).rev() {
        let mut longer = Vec::new();
        for route in routes {
            let end = route.last().map_or(from, |&link| links[link].1);
            let next = out[end].iter().filter(|link| {
                let node = links[**link].1;
                distance[node] == left && (left == 0 || forwards[node])
            });
            longer.extend(next.map(|&link| [route.as_slice(), &[link]].concat()));
        }
        longer.truncate(MOST_ROUTES);
        routes = longer;
    }
    routes
}

/// The nodes of a network, and the connections between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The name of each node, and whether it is a router.
    pub nodes: Vec<(String, bool)>,
    /// Pairs of nodes with a link in each direction.
    pub joins: Vec<(usize, usize)>,
}

impl Layout {
    fn add(&mut self, name: String, is_router: bool) -> usize {
        self.nodes.push((name, is_router));
        self.nodes.len() - 1
    }
}

/// Returns a fat tree of switches with `ports` ports each, an even number of at least 2 (Al-Fares et al., "A
/// Scalable, Commodity Data Center Network Architecture", SIGCOMM 2008): `ports` pods of `ports / 2` edge and
/// as many aggregation switches, `(ports / 2)^2` core switches and `ports^3 / 4` hosts, `h1` and so on. Edge
/// switch `edge1.2` is the second of pod 1.
pub fn fat_tree(ports: usize) -> Layout {
    let half = ports / 2;
    let mut layout = Layout::default();
    let hosts: Vec<usize> = (1..=ports * half * half).map(|n| layout.add(format!("h{n}"), false)).collect();
    let cores: Vec<usize> = (1..=half * half).map(|n| layout.add(format!("core{n}"), true)).collect();
    for pod in 0..ports {
        let name = |kind: &str, n: usize| format!("{kind}{}.{}", pod + 1, n + 1);
        let edges: Vec<usize> = (0..half).map(|n| layout.add(name("edge", n), true)).collect();
        let aggregation: Vec<usize> = (0..half).map(|n| layout.add(name("agg", n), true)).collect();
        for (n, &edge) in edges.iter().enumerate() {
            let own = &hosts[(pod * half + n) * half..][..half];
            layout.joins.extend(own.iter().map(|&host| (host, edge)));
            layout.joins.extend(aggregation.iter().map(|&above| (edge, above)));
        }
        for (n, &above) in aggregation.iter().enumerate() {
            layout.joins.extend(cores[n * half..][..half].iter().map(|&core| (above, core)));
        }
    }
    layout
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns both directions of each connection.
    fn links(layout: &Layout) -> Vec<(usize, usize)> {
        layout.joins.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect()
    }

    #[test]
    fn a_fat_tree_has_a_route_over_each_core_switch() {
        for (ports, hosts, joins) in [(2, 2, 6), (4, 16, 48), (8, 128, 384)] {
            let layout = fat_tree(ports);
            let forwards: Vec<bool> = layout.nodes.iter().map(|node| node.1).collect();
            assert_eq!(forwards.iter().filter(|router| !**router).count(), hosts);
            assert_eq!(layout.joins.len(), joins);
            let routes = |to: usize| shortest_routes(&forwards, &links(&layout), 0, None, to);
            let half = ports / 2;
            // Another pod, the same pod, the same switch.
            assert_eq!(routes(hosts - 1).len(), half * half);
            assert!(routes(hosts - 1).iter().all(|route| route.len() == 6));
            if ports > 2 {
                assert_eq!((routes(half).len(), routes(half)[0].len()), (half, 4));
                assert_eq!((routes(1).len(), routes(1)[0].len()), (1, 2));
            }
        }
    }

    #[test]
    fn hosts_are_not_passed_and_the_first_link_is_kept() {
        // 0 - 1 - 3 and 0 - 2 - 4 - 3, where 1 is a host.
        let links = [(0, 1), (1, 3), (0, 2), (2, 4), (4, 3)];
        let forwards = [false, false, true, false, true];
        assert_eq!(shortest_routes(&forwards, &links, 0, None, 3), [vec![2, 3, 4]]);
        assert_eq!(shortest_routes(&forwards, &links, 0, Some(2), 3), [vec![2, 3, 4]]);
        assert!(shortest_routes(&forwards, &links, 0, Some(0), 3).is_empty());
        assert_eq!(shortest_routes(&forwards, &links, 0, Some(0), 1), [vec![0]]);
        assert!(shortest_routes(&forwards, &links, 3, None, 0).is_empty());
        // A route never returns to its start.
        let back = [(0, 1), (1, 0), (0, 2)];
        assert!(shortest_routes(&[true, true, false], &back, 0, Some(0), 2).is_empty());
    }
}
