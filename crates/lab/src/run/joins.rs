//! Gives hosts the state of their paths and the expected size of a flow beforehand, as `initial = "best"` knows them.

use anabranch_sim::topology::HostPair;
use anabranch_sim::{Direction, FlowSpec};
use anabranch_stack::config::SimConfig;
use anabranch_stack::known::KnownPath;
use anabranch_stack::path_manager::{JoinRules, PathManagerKind};
use anabranch_stack::scheduler::SchedulerKind;

use crate::scenario::estimate::known_paths;
use crate::scenario::{Experiment, InitialChoice, Pair, Path};

/// Gives the path manager `anabranch` of a flow between the hosts of `pair` the state of its paths and the `expected` bytes, and
/// the scheduler `anabranch` of both hosts the state of the paths, if the first one was chosen by it.
pub(super) fn adapt(
    spec: &mut FlowSpec,
    experiment: &Experiment,
    pair: &Pair,
    hosts: &HostPair,
    expected: Option<f64>,
) {
    let from_peer = spec.direction == Direction::Download;
    let config: &mut SimConfig = &mut spec.client_config;
    let is_managed = matches!(config.path_manager, PathManagerKind::Anabranch(_));
    let is_scheduled = matches!(config.scheduler, SchedulerKind::Anabranch(_))
        && experiment.initial_choice == InitialChoice::Best;
    if !is_managed && !is_scheduled {
        return;
    }
    let known = known_paths(experiment, config, pair);
    if is_managed {
        let rules = JoinRules {
            paths: known.iter().copied().map(Some).collect(),
            expected: expected.map(|bytes| bytes as u64),
            from_peer,
            initial_window: config.initial_window * config.mss,
            mss: config.mss,
        };
        config.path_manager = PathManagerKind::Anabranch(Box::new(rules));
    }
    if is_scheduled {
        let graph = &experiment.graph;
        let slowest = |path: &Path| {
            path.data.first()?.iter().copied().min_by_key(|&link| graph.links[link].mean_rate())
        };
        // Earlier connections have used paths with a common link together, and each had its share.
        let sharing = |path: &Path| pair.paths.iter().filter(|other| slowest(other) == slowest(path)).count();
        let shared = pair
            .paths
            .iter()
            .zip(&known)
            .map(|(path, known)| KnownPath { rate: known.rate / sharing(path).max(1) as f64, ..*known });
        let shared: Vec<KnownPath> = shared.collect();
        let of_client = || hosts.client_addresses.iter().copied().zip(shared.iter().copied());
        spec.client_config.known_paths = of_client().collect();
        spec.server_config.known_paths = of_client().collect();
    }
}
