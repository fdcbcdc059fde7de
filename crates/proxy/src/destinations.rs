//! The memory of destinations: which have Multipath TCP. A destination is a name or an address, with its port.

use std::collections::BTreeMap;

/// The greatest number of destinations.
const MOST: usize = 4096;
/// The time after which one is asked again: a day.
const OLDEST_MS: u64 = 86_400_000;

/// The destinations, each with the time of the last report.
#[derive(Debug)]
pub(crate) struct Destinations<D> {
    known: BTreeMap<D, (bool, u64)>,
}

impl<D> Default for Destinations<D> {
    fn default() -> Destinations<D> {
        Destinations { known: BTreeMap::new() }
    }
}

impl<D: Ord + Clone> Destinations<D> {
    /// Notes whether a destination has Multipath TCP.
    pub(crate) fn note(&mut self, now_ms: u64, destination: &D, mptcp: bool) {
        if self.known.len() >= MOST && !self.known.contains_key(destination) {
            self.known.retain(|_, (_, at)| now_ms.saturating_sub(*at) < OLDEST_MS);
            let oldest = self.known.iter().min_by_key(|(_, (_, at))| *at).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest.filter(|_| self.known.len() >= MOST) {
                self.known.remove(&oldest);
            }
        }
        self.known.insert(destination.clone(), (mptcp, now_ms));
    }

    /// Returns whether a destination has Multipath TCP; none if it is unknown.
    pub(crate) fn has_mptcp(&self, now_ms: u64, destination: &D) -> Option<bool> {
        let (mptcp, at) = self.known.get(destination)?;
        (now_ms.saturating_sub(*at) < OLDEST_MS).then_some(*mptcp)
    }

    /// Returns the number of destinations with and without Multipath TCP.
    pub(crate) fn count(&self) -> (usize, usize) {
        let with = self.known.values().filter(|(mptcp, _)| *mptcp).count();
        (with, self.known.len() - with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::Destination;

    #[test]
    fn it_is_bounded_and_forgets() {
        let at = |port: u16| Destination::new("a.example", port).unwrap();
        let mut memory = Destinations::default();
        for port in 1..=5000 {
            memory.note(u64::from(port), &at(port), port % 2 == 0);
        }
        assert_eq!(memory.count().0 + memory.count().1, MOST);
        assert_eq!(memory.has_mptcp(5000, &at(904)), None);
        assert_eq!(memory.has_mptcp(5000, &at(905)), Some(false));
        assert_eq!(memory.has_mptcp(5000, &at(906)), Some(true));
        assert_eq!(memory.has_mptcp(906 + OLDEST_MS, &at(906)), None);
    }
}
