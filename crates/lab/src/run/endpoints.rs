//! The addresses of the server, and the path managers of both hosts, where the scenario gives them.

use anabranch_sim::FlowSpec;
use anabranch_sim::topology::HostPair;
use anabranch_stack::config::SimConfig;
use anabranch_stack::path_manager::{EndpointRules, PathManagerKind};

use crate::scenario::Experiment;

/// Connects the flow to the first address of the server to which the path at `path` leads, and sets the path managers
/// of both hosts.
pub(super) fn adapt(spec: &mut FlowSpec, experiment: &Experiment, pair: &HostPair, path: usize) {
    let Some(endpoints) = &experiment.endpoints else { return };
    spec.server_address = pair.server_addresses[endpoints.server_on(path)];
    manage(&mut spec.client_config, endpoints.client_rules());
    manage(&mut spec.server_config, endpoints.server_rules());
}

/// Sets the rules of a host, unless another path manager than the default is chosen.
fn manage(config: &mut SimConfig, rules: EndpointRules) {
    if config.path_manager == PathManagerKind::FullMesh {
        config.max_subflows = config.max_subflows.min(rules.subflows.saturating_add(1));
        config.path_manager = PathManagerKind::Endpoints(rules);
    }
}
