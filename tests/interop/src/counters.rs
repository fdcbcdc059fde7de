//! The counters of the kernel in this network namespace.

use std::collections::BTreeMap;
use std::fs;

/// Counters by name, such as `MPTcpExtMPJoinSynRx`.
#[derive(Clone, Debug, Default)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// Reads the current counters. A fresh namespace starts at 0.
    pub fn read() -> Counters {
        let mut counters = Counters::default();
        for file in ["/proc/net/netstat", "/proc/net/snmp"] {
            counters.take(&fs::read_to_string(file).unwrap_or_default());
        }
        counters
    }

    /// Parses pairs of lines: a group with its names, and the same group with their values.
    fn take(&mut self, text: &str) {
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.chunks(2) {
            let [names, values] = pair else { continue };
            let (Some((group, names)), Some((_, values))) = (names.split_once(':'), values.split_once(':'))
            else {
                continue;
            };
            for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
                self.0.insert(format!("{group}{name}"), value.parse().unwrap_or(0));
            }
        }
    }

    /// Returns the counter `MPTcpExt{name}`; 0 if this kernel does not have it.
    pub fn mptcp(&self, name: &str) -> u64 {
        self.get(&format!("MPTcpExt{name}"))
    }

    /// Returns the counter of that name.
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Returns the counters of Multipath TCP that are not 0, without their group.
    pub fn mptcp_nonzero(&self) -> impl Iterator<Item = (&str, u64)> {
        let all = self.0.iter().filter(|(_, value)| **value > 0);
        all.filter_map(|(name, value)| Some((name.strip_prefix("MPTcpExt")?, *value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_matched_by_place() {
        let mut counters = Counters::default();
        counters.take("TcpExt: A B\nTcpExt: 1 2\nMPTcpExt: MPJoinSynRx MPFailTx\nMPTcpExt: 3 0\n");
        assert_eq!(counters.get("TcpExtB"), 2);
        assert_eq!(counters.mptcp("MPJoinSynRx"), 3);
        assert_eq!(counters.mptcp_nonzero().collect::<Vec<_>>(), [("MPJoinSynRx", 3)]);
    }
}
