//! Settings of packet scatter that depend on the network: the number of duplicate acknowledgements that signal a loss, and
//! the rate at which a flow switches.

use anabranch_sim::FlowSpec;
use anabranch_stack::config::ScatterSwitch;

use crate::scenario::{Graph, Path};

/// The part of the link's rate at which a flow switches: `IsCwndExceedThresh` in MMPTCP's code.
const PART: u64 = 50;

/// Sets what the configuration leaves open, for data over `path`.
///
/// The threshold of duplicate acknowledgements is three, and one for each route of equal cost where there are several. For
/// a fat tree of K ports this is MMPTCP's: 3 below one switch, 3 + K/2 in a pod, and 3 + K²/4 between pods. The rate of the
/// switch is 1/50 of the rate of the path's first link at its start (of a trace, its mean rate), as in
/// MMPTCP's code.
pub(super) fn adapt(spec: &mut FlowSpec, graph: &Graph, path: &Path) {
    let routes = path.data.len();
    for config in [&mut spec.client_config, &mut spec.server_config] {
        let only = &mut config.only;
        if only.scatter_switch == ScatterSwitch::Off {
            continue;
        }
        if only.scatter_dup_acks.is_none() {
            let extra = if routes > 1 { routes as u32 } else { 0 };
            only.scatter_dup_acks = Some(3 + extra);
        }
        if only.scatter_rate.is_none()
            && let Some(link) = path.data.first().and_then(|route| route.first())
        {
            let rate = graph.links[*link].config.capacity.mean_rate();
            only.scatter_rate = Some(rate.as_bps() / PART);
        }
    }
}
