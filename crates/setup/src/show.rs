//! Lists setups and their remaining parts.

use std::path::Path;

use serde::Serialize;

use super::SetupError;
use super::execute::boot_id;
use super::host::Host;
use super::layout::Layout;
use super::state::{Phase, Record, Store};
use super::step::Step;
use super::system::System;

/// The setup of one device.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// The names, addresses and numbers of the setup, as its state file has them.
    pub layout: Layout,
    /// Its parts, in the order in which they were made.
    pub parts: Vec<Part>,
    /// Whether all parts are present; none if that cannot be determined without CAP_NET_ADMIN.
    pub whole: Option<bool>,
    /// True if it was made before the last reboot, and therefore no longer exists.
    pub before_reboot: bool,
}

/// One part of a setup.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// The part in words, for a table.
    pub name: String,
    /// Whether it is present as it was made; none if that cannot be determined without CAP_NET_ADMIN.
    pub present: Option<bool>,
}

/// Returns all setups of this network namespace.
///
/// # Errors
///
/// A file cannot be parsed, or `ip` is missing.
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

/// Returns the layout of the setup of `device`.
///
/// # Errors
///
/// There is none in this network namespace.
pub fn layout(device: &str, root: &Path) -> Result<Layout, SetupError> {
    let state = Store::read_only(root)?.load(device)?;
    state.map(|state| state.layout).ok_or_else(|| {
        SetupError::Refused(format!(
            "{device} is not set up in this network namespace; first: anabranch tun setup --name {device} --path IFACE --hosts 4"
        ))
    })
}

fn present(record: &Record, host: &Host) -> Option<bool> {
    if matches!(record.step, Step::Nft { .. }) && host.nft_tables.is_none() {
        return None;
    }
    let same = record.identity.is_none() || record.identity == record.step.identity(host);
    Some(record.phase != Phase::Planned && record.step.present(host) && same)
}
