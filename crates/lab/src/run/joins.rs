//! What the path manager `anabranch` knows of a flow and its paths: as much as `initial = "best"` does.

use anabranch_sim::{Direction, FlowSpec};
use anabranch_stack::config::SimConfig;
use anabranch_stack::path_manager::{JoinRules, PathManagerKind};

use crate::scenario::estimate::known_paths;
use crate::scenario::{Experiment, Pair};

/// Gives the client of a flow between the hosts of `pair` the state of its paths and the `expected` bytes.
pub(super) fn adapt(spec: &mut FlowSpec, experiment: &Experiment, pair: &Pair, expected: Option<f64>) {
    let from_peer = spec.direction == Direction::Download;
    let config: &mut SimConfig = &mut spec.client_config;
    if !matches!(config.path_manager, PathManagerKind::Anabranch(_)) {
        return;
    }
    let rules = JoinRules {
        paths: known_paths(experiment, config, pair).into_iter().map(Some).collect(),
        expected: expected.map(|bytes| bytes as u64),
        from_peer,
        initial_window: config.initial_window * config.mss,
        mss: config.mss,
    };
    config.path_manager = PathManagerKind::Anabranch(Box::new(rules));
}
