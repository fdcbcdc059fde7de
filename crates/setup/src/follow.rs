//! Adapts the routes of a setup to interfaces that have come back, or that have another address or gateway.

use std::path::Path;

use super::SetupError;
use super::execute::{boot_id, identify, make_one};
use super::host::Host;
use super::layout::{Leg, leg};
use super::plan::routes;
use super::state::{Phase, Record, State, Store};
use super::step::Step;
use super::system::System;

/// The changes of one call.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// The routes and switches that were made.
    pub made: Vec<Step>,
    /// The routes that were removed.
    pub undone: Vec<Step>,
    /// The changes that the system has refused, with the reason.
    pub failed: Vec<String>,
}

/// Gives the paths of `device` the routes that their interfaces have now, as a new setup would. The device, its addresses, and the paths
/// whose interface is down stay as they are.
///
/// # Errors
///
/// There is no setup of the device, or the privilege is missing. A change that the system refuses is no error.
pub fn follow(device: &str, system: &mut dyn System, root: &Path) -> Result<Followed, SetupError> {
    if let Some(text) = super::privileges::missing(system) {
        return Err(SetupError::NotPermitted(text));
    }
    let store = Store::open(root)?;
    let boot_id = boot_id(system);
    let Some(mut state) = store.load(device)?.filter(|state| state.boot_id == boot_id) else {
        return Err(SetupError::Refused(format!(
            "{device} is not set up in this network namespace; first: anabranch tun setup --name {device} --path IFACE"
        )));
    };
    let host = Host::read(system).map_err(SetupError::Failed)?;
    let before = state.clone();
    let mut followed = Followed::default();
    let usable = adapt(&mut state, &host);
    for at in 0..state.layout.paths.len() {
        for family in 0..state.layout.paths[at].legs.len() {
            if usable.contains(&(at, family)) {
                follow_leg((at, family), &mut state, &host, system, &store, &mut followed)?;
            }
        }
    }
    follow_switches(&mut state, &host, system, &store, &mut followed)?;
    if !followed.made.is_empty() {
        identify(&mut state, system)?;
    }
    if state != before {
        store.save(&state)?;
    }
    Ok(followed)
}

/// Adapts the layout to the host. Returns the legs with an interface that is up and has an address, by path and leg.
fn adapt(state: &mut State, host: &Host) -> Vec<(usize, usize)> {
    let mut usable = Vec::new();
    for (at, path) in state.layout.paths.iter_mut().enumerate() {
        let Some(link) = host.link(&path.interface).filter(|link| link.is("UP")) else { continue };
        path.ifindex = link.ifindex;
        for (family, old) in path.legs.iter_mut().enumerate() {
            if let Some(masquerade) = link.global(old.address.is_ipv6()).next() {
                let others = std::mem::take(&mut old.others);
                let via = old.gateway.filter(|_| old.fixed);
                *old = Leg { others, ..leg(host, link, old.address, masquerade, via) };
                usable.push((at, family));
            }
        }
    }
    usable
}

fn follow_leg(
    (at, family): (usize, usize),
    state: &mut State,
    host: &Host,
    system: &mut dyn System,
    store: &Store,
    followed: &mut Followed,
) -> Result<(), SetupError> {
    let path = &state.layout.paths[at];
    let (interface, leg) = (path.interface.clone(), path.legs[family].clone());
    let table = state.records.iter().find_map(|record| match record.step {
        Step::Rule { from, table, .. } if from == leg.address => Some(table),
        _ => None,
    });
    let Some(number) = table else { return Ok(()) };
    let ipv6 = leg.address.is_ipv6();
    let wanted = routes(&interface, &leg, number);
    // The old routes first: two default routes of one table would be in each other's way.
    let is_old = |step: &Step| match step {
        Step::Route { dev: Some(_), table, ipv6: six, .. } => {
            *table == number && *six == ipv6 && !wanted.contains(step)
        }
        _ => false,
    };
    let mut kept = Vec::new();
    for record in std::mem::take(&mut state.records) {
        let undo = record.step.undo(None).filter(|_| is_old(&record.step));
        match undo {
            Some(action) if record.step.present(host) => match system.act(&action) {
                Ok(_) => followed.undone.push(record.step),
                Err(error) => {
                    followed.failed.push(error);
                    kept.push(record);
                }
            },
            // It has gone with its interface.
            Some(_) => {}
            None => kept.push(record),
        }
    }
    state.records = kept;
    for step in wanted {
        let place = state.records.iter().position(|record| record.step == step);
        let place = place.unwrap_or_else(|| {
            // Before the route that makes the rest unreachable, as in a plan.
            let last = |record: &Record| match record.step {
                Step::Route { dev: None, table, ipv6: six, .. } => table == number && six == ipv6,
                _ => false,
            };
            let place = state.records.iter().position(last).unwrap_or(state.records.len());
            let record = Record { step: step.clone(), phase: Phase::Planned, before: None, identity: None };
            state.records.insert(place, record);
            place
        });
        if !step.present(host) {
            attempt(place, state, system, store, followed)?;
        }
    }
    Ok(())
}

/// Sets the switches of interfaces that have come back as new ones.
fn follow_switches(
    state: &mut State,
    host: &Host,
    system: &mut dyn System,
    store: &Store,
    followed: &mut Followed,
) -> Result<(), SetupError> {
    for at in 0..state.records.len() {
        let record = &state.records[at];
        let is_new = record.step.identity(host).is_some_and(|now| record.identity != Some(now));
        if matches!(record.step, Step::Sysctl { .. }) && is_new && !record.step.present(host) {
            // The value of the old interface is gone with it.
            state.records[at].before = None;
            attempt(at, state, system, store, followed)?;
        }
    }
    Ok(())
}

fn attempt(
    at: usize,
    state: &mut State,
    system: &mut dyn System,
    store: &Store,
    followed: &mut Followed,
) -> Result<(), SetupError> {
    match make_one(state, at, system, store) {
        Ok(_) => followed.made.push(state.records[at].step.clone()),
        Err(SetupError::Failed(error)) => {
            // It is tried again at the next change.
            state.records[at].phase = Phase::Planned;
            followed.failed.push(error);
        }
        Err(error) => return Err(error),
    }
    Ok(())
}
