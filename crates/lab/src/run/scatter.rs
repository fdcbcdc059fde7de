//! The number of duplicate acknowledgements that a scattered flow takes for a loss, from the network's routes.

use anabranch_sim::FlowSpec;
use anabranch_stack::config::ScatterSwitch;

/// Sets the threshold of the data's sender, if the configuration leaves it open: three, and one for each route of equal
/// cost where there are several. For a fat tree of K ports this is MMPTCP's: 3 below one switch, 3 + K/2 in a pod, and
/// 3 + K²/4 between pods.
pub(super) fn adapt(spec: &mut FlowSpec, routes: usize) {
    for config in [&mut spec.client_config, &mut spec.server_config] {
        let only = &mut config.only;
        if only.scatter_switch != ScatterSwitch::Off && only.scatter_dup_acks.is_none() {
            let extra = if routes > 1 { routes as u32 } else { 0 };
            only.scatter_dup_acks = Some(3 + extra);
        }
    }
}
