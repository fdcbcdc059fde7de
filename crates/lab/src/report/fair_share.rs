//! Fair shares: the max-min fair rates of flows; some flows use only one path.
//!
//! The rates of all flows rise together until a path or the common link is full. Flows limited by a full path
//! keep their rate; the others continue to rise. A TCP on a slow path thus has a fair share of that path, and
//! a Multipath TCP compensates on the others (resource pooling, as in RFC 6356 section 1).

use anabranch_units::Time;

use crate::scenario::Experiment;

/// The fair rates of flows, in bit/s.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FairRates {
    /// The rate of a flow on each single path.
    pub single: Vec<f64>,
    /// The rate of a flow that uses all paths.
    pub pooled: f64,
}

impl FairRates {
    /// Returns the rates if `single[p]` flows use only path p and `pooled` flows use all paths. None unless
    /// all flows have the same two hosts, each path has one route, and a link belongs to one path or to all. None if
    /// a flow can have nothing, because its paths are down all the time.
    pub(crate) fn new(experiment: &Experiment, single: &[usize], pooled: usize) -> Option<FairRates> {
        let [pair] = experiment.pairs.as_slice() else { return None };
        let routes: Vec<&[usize]> =
            pair.paths.iter().flat_map(|path| &path.data).map(Vec::as_slice).collect();
        if routes.len() != pair.paths.len() {
            return None;
        }
        let rate = |link: &usize| experiment.graph.links[*link].mean_rate().as_bps_f64();
        let users = |link: &usize| routes.iter().filter(|route| route.contains(link)).count();
        let all = |link: &usize| routes.len() > 1 && users(link) == routes.len();
        if routes.iter().copied().flatten().any(|link| users(link) > 1 && !all(link)) {
            return None;
        }
        let slowest = |links: &mut dyn Iterator<Item = &usize>| links.map(rate).reduce(f64::min);
        let common = slowest(&mut routes.first()?.iter().filter(|link| all(link)));
        let own = |(path, route): (usize, &&[usize])| match experiment.is_up_after(Time::ZERO, Some(path)) {
            true => slowest(&mut route.iter().filter(|link| !all(link))).or(common),
            // The path is down all the time, and carries nothing.
            false => Some(0.0),
        };
        let capacities: Vec<f64> = routes.iter().enumerate().map(own).collect::<Option<_>>()?;
        let rates = fill(&capacities, common, single, pooled);
        let has_none = rates.single.iter().zip(single).any(|(rate, flows)| *flows > 0 && *rate == 0.0);
        (!has_none && (pooled == 0 || rates.pooled > 0.0)).then_some(rates)
    }
}

fn fill(capacities: &[f64], common: Option<f64>, single: &[usize], pooled: usize) -> FairRates {
    let mut rates = FairRates { single: vec![0.0; capacities.len()], pooled: 0.0 };
    // The paths that do not limit their flows yet, with capacity left.
    let mut open: Vec<usize> = (0..capacities.len()).collect();
    let mut taken = 0.0;
    loop {
        let rising: usize = pooled + open.iter().map(|path| single[*path]).sum::<usize>();
        if rising == 0 {
            return rates;
        }
        let rising = rising as f64;
        let mut level = common.map_or(f64::INFINITY, |common| (common - taken).max(0.0) / rising);
        if pooled > 0 {
            // A full path has nothing left for those that use all.
            level = level.min(open.iter().map(|path| capacities[*path]).sum::<f64>() / rising);
        }
        let full = |path: &usize| capacities[*path] / single[*path] as f64;
        let first = open.iter().copied().filter(|path| single[*path] > 0 && full(path) < level);
        match first.min_by(|a, b| full(a).total_cmp(&full(b))) {
            Some(path) => {
                rates.single[path] = full(&path);
                taken += capacities[path];
                open.retain(|other| *other != path);
            }
            None => {
                open.iter().filter(|path| single[**path] > 0).for_each(|path| rates.single[*path] = level);
                rates.pooled = if pooled > 0 { level } else { 0.0 };
                return rates;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(capacities: &[f64], common: Option<f64>, single: &[usize], pooled: usize) -> (Vec<f64>, f64) {
        let FairRates { single, pooled } = fill(capacities, common, single, pooled);
        (single, pooled)
    }

    #[test]
    fn equal_flows_of_one_link_share_it_evenly() {
        assert_eq!(rates(&[100.0, 100.0], Some(12.0), &[1, 0], 1), (vec![6.0, 0.0], 6.0));
        assert_eq!(rates(&[12.0], None, &[3], 0), (vec![4.0], 0.0));
        assert_eq!(rates(&[12.0], None, &[1], 2), (vec![4.0], 4.0));
    }

    #[test]
    fn multipath_leaves_a_shared_path_to_the_tcp_on_it() {
        // Half of the two links each: the whole first one for the TCP.
        assert_eq!(rates(&[12.0, 12.0], None, &[1, 0], 1), (vec![12.0, 0.0], 12.0));
        // The TCP cannot have half of both, only its whole path.
        assert_eq!(rates(&[20.0, 100.0], None, &[1, 0], 1), (vec![20.0, 0.0], 100.0));
        // Here both have half.
        assert_eq!(rates(&[100.0, 20.0], None, &[1, 0], 1), (vec![60.0, 0.0], 60.0));
    }

    #[test]
    fn flows_that_a_slow_path_binds_leave_more_to_the_others() {
        assert_eq!(rates(&[6.0, 30.0], None, &[2, 1], 1), (vec![3.0, 15.0], 15.0));
        assert_eq!(rates(&[6.0, 30.0, 9.0], None, &[2, 1, 3], 0), (vec![3.0, 30.0, 3.0], 0.0));
        assert_eq!(rates(&[2.0, 50.0], Some(12.0), &[1, 0], 1), (vec![2.0, 0.0], 10.0));
    }
}
