//! Budgets of metered paths: the payload of each path in this month, and the paths that have no budget left.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anabranch_kernel::memory::{Memory, Month};
use anabranch_scenario::policy::proxy::{Budget, Spent};
use serde::Serialize;

use crate::status::Snapshot;

/// A budget, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BudgetRow {
    /// The path, as the policy has it.
    pub path: String,
    /// The budget of a month.
    pub monthly_bytes: u64,
    /// The payload of this month.
    pub used_bytes: u64,
    /// True if it is spent.
    pub spent: bool,
}

/// The budgets, and the bytes that are counted in the memory.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    budgets: Vec<Budget>,
    /// The bytes of each address since the start.
    counted: BTreeMap<IpAddr, u64>,
    /// The last path of each address: an interface that has failed has none, and its last bytes count too.
    names: BTreeMap<IpAddr, String>,
}

impl Budgets {
    pub(crate) fn set(&mut self, budgets: &[Budget]) {
        self.budgets = budgets.to_vec();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.budgets.is_empty()
    }

    /// Notes the bytes of a proxy in the memory, as far as paths have a budget. `name` is the name of the path from an address.
    pub(crate) fn count(
        &mut self,
        look: &Snapshot,
        month: Month,
        memory: &mut Memory,
        name: impl Fn(IpAddr) -> Option<String>,
    ) {
        let mut now: BTreeMap<IpAddr, u64> = BTreeMap::new();
        for (ip, totals) in &look.totals.paths {
            *now.entry(*ip).or_default() += totals.sent_bytes + totals.received_bytes;
        }
        for subflow in look.connections.iter().flat_map(|row| &row.report.subflows) {
            *now.entry(subflow.local.ip()).or_default() += subflow.sent_bytes + subflow.received_bytes;
        }
        for (ip, bytes) in now {
            let counted = self.counted.entry(ip).or_default();
            // A connection that ends at this moment may be counted twice; then later bytes are not counted until they are more.
            let new = bytes.saturating_sub(*counted);
            *counted = bytes.max(*counted);
            if let Some(name) = name(ip) {
                self.names.insert(ip, name);
            }
            let name =
                self.names.get(&ip).filter(|name| self.budgets.iter().any(|budget| budget.covers(name)));
            if let Some(name) = name.filter(|_| new > 0) {
                memory.spend(name, month, new);
            }
        }
    }

    /// Returns the use of a path whose budget is spent; none if it has a budget left, or none at all.
    pub(crate) fn spent(&self, path: &str, month: Month, memory: &Memory) -> Option<Spent> {
        let spent = self.budgets.iter().filter(|budget| budget.covers(path));
        spent
            .filter(|budget| used(budget, month, memory) >= budget.monthly.0)
            .map(|budget| budget.spent)
            .max()
    }

    pub(crate) fn rows(&self, month: Month, memory: &Memory) -> Vec<BudgetRow> {
        let row = |budget: &Budget| {
            let used_bytes = used(budget, month, memory);
            BudgetRow {
                path: budget.path.clone(),
                monthly_bytes: budget.monthly.0,
                used_bytes,
                spent: used_bytes >= budget.monthly.0,
            }
        };
        self.budgets.iter().map(row).collect()
    }
}

fn used(budget: &Budget, month: Month, memory: &Memory) -> u64 {
    let used = memory.used(month).filter(|(path, _)| budget.covers(path));
    used.fold(0, |sum, (_, bytes)| sum.saturating_add(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{ConnectionRow, PathTotals, Status};
    use crate::transport::{LinkReport, SubflowReport};
    use anabranch_units::{Bytes, Time};

    fn budget(path: &str, monthly: u64, spent: Spent) -> Budget {
        Budget { path: path.to_owned(), monthly: Bytes(monthly), spent }
    }

    #[test]
    fn a_budget_is_spent_by_its_paths_for_the_rest_of_the_month() {
        let mut budgets = Budgets::default();
        budgets.set(&[budget("10.0.1.*", 100, Spent::Backup), budget("10.0.1.2", 150, Spent::Off)]);
        let mut memory = Memory::default();
        let month = Month::of(Time::from_secs(1_000_000_000));
        let mut look = Status::new("client", "anabranch").snapshot();
        let mut count = |sent: [u64; 3], memory: &mut Memory| {
            for (ip, sent) in ["10.0.0.1", "10.0.1.1", "10.0.1.2"].into_iter().zip(sent) {
                let totals = PathTotals { sent_bytes: sent, received_bytes: 10, ..PathTotals::default() };
                look.totals.paths.insert(ip.parse().unwrap(), totals);
            }
            budgets.count(&look, month, memory, |ip| Some(ip.to_string()));
            let later = Month::of(Time::from_secs(1_003_000_000));
            ["10.0.0.1", "10.0.1.1", "10.0.1.2"]
                .map(|path| (budgets.spent(path, month, memory), budgets.spent(path, later, memory)))
        };
        let spent = |use_of| (Some(use_of), None);
        assert_eq!(count([1000, 40, 39], &mut memory), [(None, None); 3]);
        // The same bytes count once, and a total that falls does not count again.
        assert_eq!(count([1000, 40, 39], &mut memory), [(None, None); 3]);
        assert_eq!(count([1000, 20, 39], &mut memory), [(None, None); 3]);
        assert_eq!(
            count([1000, 40, 40], &mut memory),
            [(None, None), spent(Spent::Backup), spent(Spent::Backup)]
        );
        assert_eq!(
            count([1000, 40, 140], &mut memory),
            [(None, None), spent(Spent::Backup), spent(Spent::Off)]
        );
        assert_eq!(memory.used(month).count(), 2, "paths without a budget are not counted");
        let rows = budgets.rows(month, &memory);
        assert_eq!((rows[0].used_bytes, rows[0].spent, rows[1].used_bytes), (200, true, 150));
        assert!(rows[1].spent, "exactly its bytes are used");
        assert_eq!(Memory::parse(&memory.text()), memory);
    }

    #[test]
    fn the_bytes_of_open_connections_count() {
        let mut budgets = Budgets::default();
        budgets.set(&[budget("192.0.2.5", 100, Spent::Off)]);
        let (mut memory, month) = (Memory::default(), Month::of(Time::from_secs(1_000_000_000)));
        let mut look = Status::new("client", "anabranch").snapshot();
        let subflow = |sent_bytes, received_bytes| SubflowReport {
            local: "192.0.2.5:4000".parse().unwrap(),
            remote: "198.51.100.1:80".parse().unwrap(),
            srtt_us: None,
            variation_us: None,
            rate_bps: None,
            sent_bytes,
            received_bytes,
            retransmitted_bytes: 0,
        };
        for number in 0..2 {
            let report = LinkReport { mptcp: true, subflows: vec![subflow(20, 10), subflow(5, 5)] };
            look.connections.push(ConnectionRow {
                number,
                age_s: 1.0,
                who: String::new(),
                to: String::new(),
                via: "server",
                up_bytes: 0,
                down_bytes: 0,
                report,
            });
        }
        budgets.count(&look, month, &mut memory, |ip| Some(ip.to_string()));
        assert_eq!(budgets.rows(month, &memory)[0].used_bytes, 80);
    }

    #[test]
    fn the_last_bytes_of_an_interface_that_has_failed_count() {
        let mut budgets = Budgets::default();
        budgets.set(&[budget("wwan0", 100, Spent::Off)]);
        let (mut memory, month) = (Memory::default(), Month::of(Time::from_secs(1_000_000_000)));
        let mut look = Status::new("client", "kernel").snapshot();
        let mut count = |sent_bytes, name: Option<&str>, memory: &mut Memory| {
            let totals = PathTotals { sent_bytes, ..PathTotals::default() };
            look.totals.paths.insert("192.0.2.5".parse().unwrap(), totals);
            budgets.count(&look, month, memory, |_| name.map(str::to_owned));
            budgets.spent("wwan0", month, memory)
        };
        assert_eq!(count(99, None, &mut memory), None, "an address of no interface has no budget");
        assert_eq!(count(159, Some("wwan0"), &mut memory), None);
        assert_eq!(count(199, None, &mut memory), Some(Spent::Off));
    }
}
