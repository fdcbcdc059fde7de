//! What is set up, and what of it is still there.

use std::path::Path;

use serde::Serialize;

use super::SetupError;
use super::execute::boot_id;
use super::host::Host;
use super::layout::Layout;
use super::state::{Phase, Record, Store};
use super::step::Step;
use super::system::System;

/// One device.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// Which address goes which way.
    pub layout: Layout,
    /// What was made, in order.
    pub parts: Vec<Part>,
    /// Whether nothing is missing; none if it cannot be told without CAP_NET_ADMIN.
    pub whole: Option<bool>,
    /// It was made before the machine was started anew, and so is gone.
    pub before_reboot: bool,
}

/// One thing that was made.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// What it is.
    pub name: String,
    /// Whether it is there as it was made; none if it cannot be told without CAP_NET_ADMIN.
    pub present: Option<bool>,
}

/// All setups of this network namespace.
///
/// # Errors
///
/// A file is not understood, or `ip` is not there.
pub fn show(system: &mut dyn System, root: &Path) -> Result<Vec<Shown>, SetupError> {
    let store = Store::read_only(root)?;
    let mut shown = Vec::new();
    for device in store.devices() {
        let Some(state) = store.load(&device)? else { continue };
        let host = Host::read(system).map_err(SetupError::Failed)?;
        let parts: Vec<Part> = state
            .records
            .iter()
            .map(|record| Part { name: record.step.name(), present: present(record, &host) })
            .collect();
        let whole = if parts.iter().any(|part| part.present == Some(false)) {
            Some(false)
        } else {
            parts.iter().all(|part| part.present.is_some()).then_some(true)
        };
        let before_reboot = state.boot_id != boot_id(system);
        shown.push(Shown { layout: state.layout, parts, whole, before_reboot });
    }
    Ok(shown)
}

fn present(record: &Record, host: &Host) -> Option<bool> {
    if matches!(record.step, Step::Nft { .. }) && host.nft_tables.is_none() {
        return None;
    }
    let same = record.identity.is_none() || record.identity == record.step.identity(host);
    Some(record.phase != Phase::Planned && record.step.present(host) && same)
}
