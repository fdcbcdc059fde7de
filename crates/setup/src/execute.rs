//! Executes the steps of a plan, and undoes them.

use std::path::Path;

use super::host::Host;
use super::layout::Layout;
use super::options::Options;
use super::plan::Plan;
use super::state::{Phase, State, Store};
use super::step::Step;
use super::system::System;
use super::{Outcome, SetupError, Teardown};

/// Returns the plan of `setup` on this host, without changing anything.
///
/// # Errors
///
/// Any [`SetupError`].
pub fn plan(options: &Options, system: &mut dyn System) -> Result<Plan, SetupError> {
    options.check()?;
    let host = Host::read(system).map_err(SetupError::Failed)?;
    Plan::new(Layout::new(options, &host, false)?, &host)
}

/// Sets up a device as `options` describe.
///
/// A repeated call makes only the missing parts. A step that fails undoes all steps of this call.
///
/// # Errors
///
/// Any [`SetupError`].
pub fn setup(options: &Options, system: &mut dyn System, root: &Path) -> Result<Outcome, SetupError> {
    options.check()?;
    if let Some(text) = super::privileges::missing(system) {
        return Err(SetupError::NotPermitted(text));
    }
    let host = Host::read(system).map_err(SetupError::Failed)?;
    if host.nft_tables.is_none() {
        let error = system.act(&super::Action::run("nft --json list tables")).err().unwrap_or_default();
        return Err(SetupError::Failed(format!("nftables cannot be queried: {error}")));
    }
    let store = Store::open(root)?;
    let boot_id = boot_id(system);
    let mut earlier = store.load(&options.device)?;
    if earlier.as_ref().is_some_and(|state| state.boot_id != boot_id) {
        // A reboot has removed the setup that the state describes.
        store.forget(&options.device)?;
        earlier = None;
    }
    let Some(mut state) = earlier else {
        let plan = Plan::new(Layout::new(options, &host, false)?, &without_others(&host, &store)?)?;
        let mut state = State::new(&plan, boot_id);
        let made = make(&mut state, &host, system, &store)?;
        return Ok(Outcome { layout: state.layout, made, repaired: false });
    };
    let device = &options.device;
    let layout = Layout::new(options, &host, true)?;
    if layout != state.layout {
        return Err(SetupError::Refused(format!(
            "{device} is set up already with other options, or the interfaces have changed since; first: \
             anabranch tun teardown --name {device}"
        )));
    }
    for record in &state.records {
        if let Step::Device { .. } | Step::Nft { .. } = record.step
            && record.step.present(&host)
            && record.phase == Phase::Made
            && record.step.identity(&host) != record.identity
        {
            return Err(SetupError::Refused(format!(
                "the {} was replaced by another one since the setup. Remove that, and then: anabranch tun \
                 teardown --name {device}",
                record.step.name()
            )));
        }
    }
    let made = make(&mut state, &host, system, &store)?;
    Ok(Outcome { layout: state.layout, made, repaired: true })
}

/// Returns the host as it was before other setups: forwarding that only they have enabled must stay blocked
/// here too.
fn without_others(host: &Host, store: &Store) -> Result<Host, SetupError> {
    let mut host = host.clone();
    for device in store.devices() {
        for record in store.load(&device)?.into_iter().flat_map(|state| state.records) {
            if let (Step::Sysctl { key, .. }, Some(before)) = (record.step, record.before) {
                host.sysctls.insert(key, before);
            }
        }
    }
    Ok(host)
}

pub(super) fn boot_id(system: &mut dyn System) -> String {
    system.read("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Makes the missing parts of `state`. If that fails, undoes the steps of this call.
fn make(
    state: &mut State,
    host: &Host,
    system: &mut dyn System,
    store: &Store,
) -> Result<Vec<Step>, SetupError> {
    let earlier = state.clone();
    // The steps made by this call, each with the previous value of a sysctl.
    let mut made: Vec<(usize, Option<String>)> = Vec::new();
    for n in 0..state.records.len() {
        let record = &mut state.records[n];
        if record.phase != Phase::Planned && record.step.present(host) {
            // The interrupted step was completed.
            record.phase = Phase::Made;
            record.identity = record.identity.or(record.step.identity(host));
            continue;
        }
        match make_one(state, n, system, store) {
            Ok(before) => made.push((n, before)),
            Err(failure) => return Err(roll_back(failure, state, &earlier, &made, system, store)),
        }
    }
    identify(state, system)?;
    store.save(state)?;
    Ok(made.into_iter().map(|(n, _)| state.records[n].step.clone()).collect())
}

/// Makes one step; returns the previous value of a sysctl.
pub(super) fn make_one(
    state: &mut State,
    n: usize,
    system: &mut dyn System,
    store: &Store,
) -> Result<Option<String>, SetupError> {
    let record = &mut state.records[n];
    let mut before = None;
    if let Step::Sysctl { key, .. } = &record.step {
        let path = format!("/proc/sys/{key}");
        before = system.read(&path);
        if before.is_none() {
            return Err(SetupError::Failed(format!("there is no {path}")));
        }
        record.before = record.before.take().or_else(|| before.clone());
    }
    record.phase = Phase::Begun;
    record.identity = None;
    let action = record.step.action();
    store.save(state)?;
    system.act(&action).map_err(SetupError::Failed)?;
    state.records[n].phase = Phase::Made;
    Ok(before)
}

/// Undoes the steps of one call of [`make`], and returns the resulting error. The failed step has changed
/// nothing: the kernel applies each step completely or not at all, or the step belongs to the device.
fn roll_back(
    failure: SetupError,
    state: &State,
    earlier: &State,
    made: &[(usize, Option<String>)],
    system: &mut dyn System,
    store: &Store,
) -> SetupError {
    let mut partial = state.clone();
    for (n, record) in partial.records.iter_mut().enumerate() {
        let own = made.iter().find(|(own, _)| *own == n);
        record.phase = if own.is_some() { Phase::Made } else { Phase::Planned };
        record.identity = None;
        record.before = own.and_then(|(_, before)| before.clone());
    }
    let first_time = earlier.records.iter().all(|record| record.phase == Phase::Planned);
    let device = &state.layout.device;
    let undone = undo(&mut partial, system, store, false);
    let end = match undone {
        Ok(report) if report.failed.is_empty() && first_time => {
            store.forget(device).map(|()| "undone".to_owned())
        }
        Ok(report) if report.failed.is_empty() => {
            store.save(earlier).map(|()| "undone, and the previous state is restored".to_owned())
        }
        Ok(report) => Ok(format!(
            "not completely undone ({}); try: anabranch tun teardown --name {device}",
            report.failed.join("; ")
        )),
        Err(error) => Err(error),
    };
    SetupError::Failed(match end {
        Ok(end) => format!("{failure}; the completed steps are {end}"),
        Err(error) => format!("{failure}; then: {error}"),
    })
}

/// Records the kernel's identifiers of the new objects.
pub(super) fn identify(state: &mut State, system: &mut dyn System) -> Result<(), SetupError> {
    let host = Host::read(system).map_err(SetupError::Failed)?;
    for record in state.records.iter_mut().filter(|record| record.phase != Phase::Planned) {
        if record.identity.is_none() {
            record.identity = record.step.identity(&host);
        }
    }
    Ok(())
}

/// Undoes the setup of `device`: the existing parts that the setup made, and nothing else.
///
/// # Errors
///
/// Any [`SetupError`].
pub fn teardown(device: &str, system: &mut dyn System, root: &Path) -> Result<Teardown, SetupError> {
    let store = Store::read_only(root)?;
    if store.load(device)?.is_none() {
        let known = store.devices();
        let known =
            if known.is_empty() { String::new() } else { format!("; set up here: {}", known.join(", ")) };
        return Err(SetupError::Refused(format!(
            "there is no recorded setup of {device} in this network namespace{known}"
        )));
    }
    if let Some(text) = super::privileges::missing(system) {
        return Err(SetupError::NotPermitted(text));
    }
    let store = Store::open(root)?;
    let Some(mut state) = store.load(device)? else { return Ok(Teardown::default()) };
    if state.boot_id != boot_id(system) {
        store.forget(device)?;
        return Ok(Teardown { rebooted: true, ..Teardown::default() });
    }
    let report = undo(&mut state, system, &store, true)?;
    if report.failed.is_empty() {
        store.forget(device)?;
        return Ok(report);
    }
    store.save(&state)?;
    Err(SetupError::Failed(format!(
        "not everything could be undone: {}; the rest is still recorded, try again",
        report.failed.join("; ")
    )))
}

/// Undoes the steps in `state`, in reverse order. Parts that are missing, or that have changed since,
/// are left as they are.
fn undo(
    state: &mut State,
    system: &mut dyn System,
    store: &Store,
    hand_over: bool,
) -> Result<Teardown, SetupError> {
    let host = Host::read(system).map_err(SetupError::Failed)?;
    let device = state.layout.device.clone();
    let device_is_ours = state.records.iter().any(|record| {
        matches!(record.step, Step::Device { .. })
            && record.phase != Phase::Planned
            && record.step.present(&host)
            && same(record.identity, record.step.identity(&host))
    });
    let mut report = Teardown::default();
    for record in state.records.iter_mut().rev().filter(|record| record.phase != Phase::Planned) {
        let step = &record.step;
        let name = step.name();
        let of_device = match step {
            Step::Sysctl { interface, .. } => interface.as_deref() == Some(device.as_str()),
            _ => false,
        };
        if of_device {
            // Removed together with the device.
            record.phase = Phase::Planned;
            continue;
        }
        let Some(action) = step.undo(record.before.as_deref()) else {
            record.phase = Phase::Planned;
            continue;
        };
        if matches!(step, Step::Sysctl { value, .. } if record.before.as_ref() == Some(value)) {
            // The sysctl had this value before.
            record.phase = Phase::Planned;
            continue;
        }
        if let Step::Sysctl { key, value, .. } = step
            && hand_over
            && give(store, &device, key, value, record.before.as_deref())?
        {
            report.left.push(format!("{name}: another setup needs it, and will restore it"));
            record.phase = Phase::Planned;
            continue;
        }
        if matches!(step, Step::Device { .. }) && step.present(&host) && !device_is_ours
            || matches!(step, Step::Nft { .. })
                && step.present(&host)
                && !same(record.identity, step.identity(&host))
            || matches!(step, Step::Sysctl { .. }) && !same(record.identity, step.identity(&host))
        {
            report.left.push(format!("{name}: it is not the one that the setup made"));
            record.phase = Phase::Planned;
            continue;
        }
        if !step.present(&host) {
            let changed = matches!(step, Step::Sysctl { .. }) && record.phase == Phase::Made;
            let word = if changed { "it was changed since" } else { "it was gone already" };
            if record.phase == Phase::Made {
                report.left.push(format!("{name}: {word}"));
            }
            record.phase = Phase::Planned;
            continue;
        }
        match system.act(&action) {
            Ok(_) => {
                report.undone.push(step.clone());
                record.phase = Phase::Planned;
            }
            Err(error) => report.failed.push(error),
        }
    }
    Ok(report)
}

/// True if the identifiers agree. A part that was never identified, because a setup was interrupted, is
/// matched by its name.
fn same(recorded: Option<u64>, now: Option<u64>) -> bool {
    recorded.is_none() || recorded == now
}

/// If another setup of this namespace set the same sysctl, hands it the value to restore.
fn give(
    store: &Store,
    device: &str,
    key: &str,
    value: &str,
    before: Option<&str>,
) -> Result<bool, SetupError> {
    for other in store.devices().into_iter().filter(|other| other != device) {
        let Some(mut state) = store.load(&other)? else { continue };
        let needed = |record: &&mut super::Record| {
            record.phase != Phase::Planned
                && matches!(&record.step, Step::Sysctl { key: k, value: v, .. } if k == key && v == value)
        };
        if let Some(record) = state.records.iter_mut().find(needed) {
            // Unless that setup was the first.
            if record.before.as_deref() == Some(value) {
                record.before = before.map(str::to_owned);
            }
            store.save(&state)?;
            return Ok(true);
        }
    }
    Ok(false)
}
