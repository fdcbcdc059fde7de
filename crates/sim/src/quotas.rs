//! Quotas of paths: an interface that has used its data up becomes a backup.
//!
//! The host counts whole packets on its interface, as a system with a data plan does: those that it offers to the first link, and those
//! that the last link delivers. Beyond the quota it asks for all subflows from that interface to be backups (MP_PRIO), those that begin later
//! included. Nothing is dropped, and a plain TCP goes on.

use crate::flow::End;
use crate::network::Quota;
use crate::recorder::Recorder;
use crate::sim::{Sim, lend};

impl<R: Recorder> Sim<R> {
    /// Makes backups of the subflows beyond a quota of `host`. Returns true if there are new ones.
    #[cold]
    pub(crate) fn check_quotas(&mut self, host: u32) -> bool {
        let mut changed = false;
        let is_new = core::mem::take(&mut self.hosts[host as usize].has_new_subflows);
        for watched in self.quotas.iter_mut().filter(|watched| watched.quota.host.0 == host) {
            let Quota { up, down, most, .. } = watched.quota;
            let was_used = watched.is_used;
            let (sent, received) = (self.fabric.counters(up).offered, self.fabric.counters(down).delivered);
            watched.is_used |= most.is_exceeded(sent.bytes, received.bytes);
            if !watched.is_used || (was_used && !is_new) {
                continue;
            }
            let Ok(interface) = self.network.interface(watched.quota.host, watched.quota.path) else {
                continue;
            };
            let stack = &mut self.hosts[host as usize].stack;
            for (flow, spec) in self.flows.iter().zip(&self.specs) {
                let own = [End::Client, End::Server].into_iter().find(|end| spec.host(*end).0 == host);
                let own = own.map(|end| flow.end(end));
                let Some(id) = own.filter(|own| own.closed.is_none()).and_then(|own| own.connection) else {
                    continue;
                };
                for subflow in stack.subflow_stats(id) {
                    let is_own = subflow.local.ip == interface.ip && subflow.ended.is_none();
                    let key = (id, subflow.id, subflow.started);
                    let is_known = watched.backups.contains(&key);
                    if is_own && !is_known && subflow.established.is_some() {
                        watched.backups.push(key);
                        lend(&mut self.fabric.recorder, stack, |stack| {
                            stack.set_backup(id, subflow.id, true)
                        });
                        changed = true;
                    }
                }
            }
        }
        changed
    }
}
