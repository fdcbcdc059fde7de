//! The memory of paths: the RTT, rate and loss of each interface towards each network of destinations.
//!
//! An entry is a mean over time: a new value counts at least an eighth, and more the older the entry is. Entries that
//! were not renewed for a week are forgotten, and the oldest ones if there are too many. It is plain data: times are
//! arguments, and a file has it as JSON.

mod month;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use anabranch_units::{Bytes, Duration, Time};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::diag::Connection;
use crate::interfaces::Interfaces;

pub use month::Month;

/// The greatest number of entries.
const MOST: usize = 4096;
/// The age at which an entry is forgotten.
const OLDEST: Duration = Duration::from_secs(7 * 86_400);
const LEAST_WEIGHT: f64 = 0.125;
/// The age at which an entry's value counts 1/e.
const FADING: Duration = Duration::from_secs(600);
/// The time between two values of one entry.
const EVERY: Duration = Duration::from_secs(1);
/// The payload of a segment, for the number of rounds.
const SEGMENT: f64 = 1400.0;
/// The initial window in segments. // RFC 6928
const INITIAL_WINDOW: f64 = 10.0;

/// An interface, and the network of a destination: 24 bits of an IPv4 address, 48 bits of an IPv6 address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Key {
    interface: String,
    network: IpAddr,
}

impl Key {
    fn new(interface: &str, destination: IpAddr) -> Key {
        let network = match destination.to_canonical() {
            IpAddr::V4(ip) => IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & 0xffff_ff00)),
            IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & u128::MAX << 80)),
        };
        Key { interface: interface.to_owned(), network }
    }

    fn net(&self) -> Option<IpNet> {
        IpNet::new(self.network, if self.network.is_ipv4() { 24 } else { 48 }).ok()
    }
}

/// The memory of one path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    /// The mean of the smoothed RTT, in seconds.
    pub rtt_s: f64,
    /// The mean of its absolute deviation.
    pub variation_s: f64,
    /// The mean rate of delivery while the application did not limit it, in bit/s; none without such a time.
    pub rate_bps: Option<f64>,
    /// The part of the payload that was retransmitted.
    pub loss: f64,
    /// The time of the last value, in nanoseconds since 1970.
    updated_ns: u64,
}

/// The memory of all paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    entries: BTreeMap<Key, Remembered>,
    /// The bytes of metered paths by month.
    used: BTreeMap<(String, Month), u64>,
}

/// The form of the memory in a file.
#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    paths: Vec<StoredPath>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    used: Vec<StoredUse>,
}

#[derive(Serialize, Deserialize)]
struct StoredUse {
    path: String,
    month: Month,
    bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct StoredPath {
    #[serde(flatten)]
    key: Key,
    #[serde(flatten)]
    remembered: Remembered,
}

/// The version of the file.
const VERSION: u32 = 1;

impl Memory {
    /// Reads the text of a file. A text of another version, or none, gives an empty memory.
    pub fn parse(text: &str) -> Memory {
        let stored: Option<Stored> = serde_json::from_str(text).ok();
        let Some(stored) = stored.filter(|stored| stored.version == VERSION) else {
            return Memory::default();
        };
        let is_valid = |one: &StoredPath| {
            let seen = one.remembered;
            let positive = |value: f64| value.is_finite() && value >= 0.0;
            positive(seen.rtt_s) && positive(seen.variation_s) && positive(seen.loss)
        };
        let entries = stored.paths.into_iter().filter(is_valid).take(MOST);
        let used = stored.used.into_iter().take(MOST);
        Memory {
            entries: entries.map(|one| (one.key, one.remembered)).collect(),
            used: used.map(|one| ((one.path, one.month), one.bytes)).collect(),
        }
    }

    /// True if a text is a memory of this version, which may have no path.
    pub fn is_memory(text: &str) -> bool {
        serde_json::from_str::<Stored>(text).is_ok_and(|stored| stored.version == VERSION)
    }

    /// Returns the text of a file.
    pub fn text(&self) -> String {
        let paths = self
            .entries
            .iter()
            .map(|(key, remembered)| StoredPath { key: key.clone(), remembered: *remembered });
        let use_of = |((path, month), bytes): (&(String, Month), &u64)| StoredUse {
            path: path.clone(),
            month: *month,
            bytes: *bytes,
        };
        let used = self.used.iter().map(use_of).collect();
        let stored = Stored { version: VERSION, paths: paths.collect(), used };
        serde_json::to_string_pretty(&stored).unwrap_or_default() + "\n"
    }

    /// Replaces the file in one step.
    ///
    /// # Errors
    /// If it cannot be written; then the old one stays.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        crate::files::replace(file, &self.text())
    }

    /// Returns the number of paths.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if no path is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the memory of the path from this interface to this destination.
    pub fn path(&self, interface: &str, destination: IpAddr) -> Option<&Remembered> {
        self.entries.get(&Key::new(interface, destination))
    }

    /// Returns the remembered RTT of the path from this interface to this destination.
    pub fn rtt(&self, interface: &str, destination: IpAddr) -> Option<Duration> {
        self.path(interface, destination).map(|path| Duration::from_secs_f64(path.rtt_s))
    }

    /// Returns all paths: the interface, the network and the memory.
    pub fn iter(&self) -> impl Iterator<Item = (&str, IpNet, &Remembered)> {
        self.entries.iter().filter_map(|(key, seen)| Some((key.interface.as_str(), key.net()?, seen)))
    }

    /// Adds bytes of a metered path. Bytes of earlier months are forgotten.
    pub fn spend(&mut self, path: &str, month: Month, bytes: u64) {
        self.used.retain(|(_, of), _| *of >= month);
        if self.used.len() < MOST {
            let used = self.used.entry((path.to_owned(), month)).or_default();
            *used = used.saturating_add(bytes);
        }
    }

    /// Returns the bytes of metered paths in a month.
    pub fn used(&self, month: Month) -> impl Iterator<Item = (&str, u64)> {
        self.used
            .iter()
            .filter(move |((_, of), _)| *of == month)
            .map(|((path, _), bytes)| (path.as_str(), *bytes))
    }

    /// Notes values of the path from this interface to this destination. They are left out if the last ones are less than a
    /// second older.
    pub fn note(&mut self, interface: &str, destination: IpAddr, sample: Remembered) {
        let key = Key::new(interface, destination);
        let old = self.entries.get(&key).copied();
        if old.is_some_and(|old| sample.updated_ns.saturating_sub(old.updated_ns) < EVERY.0) {
            return;
        }
        self.entries.insert(key, old.map_or(sample, |old| old.mean_with(&sample)));
        if self.entries.len() > MOST {
            self.forget(Time(sample.updated_ns));
        }
    }

    /// Removes the memory of the path from this interface to this destination, as it does not work now.
    pub fn remove(&mut self, interface: &str, destination: IpAddr) {
        self.entries.remove(&Key::new(interface, destination));
    }

    /// Notes the paths of a connection at `now`, since 1970.
    pub(crate) fn learn(&mut self, now: Time, connection: &Connection, interfaces: &Interfaces) {
        for subflow in &connection.subflows {
            let info = &subflow.info;
            let interface = interfaces.of(subflow.interface, subflow.addresses.local.ip());
            let Some(interface) = interface.filter(|one| !one.loopback && info.rtt_us > 0) else { continue };
            let sample = Remembered {
                rtt_s: f64::from(info.rtt_us) / 1e6,
                variation_s: f64::from(info.rttvar_us) / 1e6,
                rate_bps: info.rate_bps(),
                loss: if info.bytes_sent > 0 {
                    info.bytes_retrans as f64 / info.bytes_sent as f64
                } else {
                    0.0
                },
                updated_ns: now.0,
            };
            self.note(&interface.name, subflow.addresses.remote.ip(), sample);
        }
    }

    /// Removes old entries.
    pub fn forget(&mut self, now: Time) {
        self.entries.retain(|_, seen| now.0.saturating_sub(seen.updated_ns) <= OLDEST.0);
        while self.entries.len() > MOST {
            let oldest =
                self.entries.iter().min_by_key(|(_, seen)| seen.updated_ns).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { return };
            self.entries.remove(&oldest);
        }
    }

    /// Returns the position of the best of `interfaces` for a transfer of `size` to `destination`: the one with the
    /// shortest expected time. None if no interface is known; unknown ones are not compared.
    pub fn best<'a>(
        &self,
        interfaces: impl Iterator<Item = &'a str>,
        destination: IpAddr,
        size: Bytes,
    ) -> Option<usize> {
        let known = interfaces.enumerate().filter_map(|(at, name)| Some((at, self.path(name, destination)?)));
        let timed = known.map(|(at, path)| (at, path.expected(size)));
        timed.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
    }
}

impl Remembered {
    /// Returns the values of a path at `now`, since 1970.
    pub fn new(rtt_s: f64, variation_s: f64, rate_bps: Option<f64>, loss: f64, now: Time) -> Remembered {
        Remembered { rtt_s, variation_s, rate_bps, loss, updated_ns: now.0 }
    }

    /// Returns the time of the last value, since 1970.
    pub fn updated(&self) -> Time {
        Time(self.updated_ns)
    }

    /// Returns the mean with a newer value.
    fn mean_with(&self, new: &Remembered) -> Remembered {
        let age = Duration(new.updated_ns.saturating_sub(self.updated_ns));
        let weight = (1.0 - (-age.as_secs_f64() / FADING.as_secs_f64()).exp()).max(LEAST_WEIGHT);
        let mean = |old: f64, new: f64| old + weight * (new - old);
        Remembered {
            rtt_s: mean(self.rtt_s, new.rtt_s),
            variation_s: mean(self.variation_s, new.variation_s),
            rate_bps: match (self.rate_bps, new.rate_bps) {
                (Some(old), Some(new)) => Some(mean(old, new)),
                (old, new) => new.or(old),
            },
            loss: mean(self.loss, new.loss),
            updated_ns: new.updated_ns,
        }
    }

    /// Returns the expected time of a transfer in seconds: the rounds of slow start, and the transmission at the rate
    /// of the path; losses cost a round trip each.
    pub fn expected(&self, size: Bytes) -> f64 {
        let segments = (size.0 as f64 / SEGMENT).max(1.0);
        let rounds = (segments / INITIAL_WINDOW + 1.0).log2().ceil().max(1.0);
        let transmission =
            self.rate_bps.filter(|rate| *rate > 0.0).map_or(0.0, |rate| size.0 as f64 * 8.0 / rate);
        (rounds + 1.0) * self.rtt_s + transmission + segments * self.loss * self.rtt_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(rtt_s: f64, rate_bps: f64, updated: Time) -> Remembered {
        Remembered { rtt_s, variation_s: 0.0, rate_bps: Some(rate_bps), loss: 0.0, updated_ns: updated.0 }
    }

    #[test]
    fn an_old_value_counts_less_than_a_new_one() {
        let old = entry(0.1, 1e6, Time::from_secs(0));
        let soon = old.mean_with(&entry(0.2, 1e6, Time::from_secs(1)));
        let late = old.mean_with(&entry(0.2, 1e6, Time::from_secs(6000)));
        assert!((soon.rtt_s - 0.1125).abs() < 1e-9, "{soon:?}");
        assert!(late.rtt_s > 0.199, "{late:?}");
    }

    #[test]
    fn the_best_path_depends_on_the_size() {
        let mut memory = Memory::default();
        let there: IpAddr = "192.0.2.77".parse().unwrap();
        memory.entries.insert(Key::new("slow", there), entry(0.010, 1e6, Time::ZERO));
        memory.entries.insert(Key::new("far", there), entry(0.100, 100e6, Time::ZERO));
        let best = |kb| memory.best(["none", "slow", "far"].into_iter(), there, Bytes::from_kb(kb));
        assert_eq!((best(1), best(1000)), (Some(1), Some(2)));
        // Another host of the same network, and another network.
        assert!(memory.path("far", "192.0.2.1".parse().unwrap()).is_some());
        assert!(memory.path("far", "192.0.3.1".parse().unwrap()).is_none());
        assert_eq!(memory.best(["none"].into_iter(), there, Bytes(1)), None);
    }

    #[test]
    fn a_file_gives_the_same_memory_and_a_damaged_one_an_empty_one() {
        let mut memory = Memory::default();
        memory
            .entries
            .insert(Key::new("wlan0", "2001:db8:1:2::3".parse().unwrap()), entry(0.02, 3e7, Time(5)));
        memory.entries.insert(Key::new("wwan0", "10.1.2.3".parse().unwrap()), entry(0.06, 1e7, Time(6)));
        let text = memory.text();
        assert_eq!(Memory::parse(&text), memory);
        for end in 0..text.len() - 2 {
            assert!(Memory::parse(&text[..end]).is_empty());
        }
    }

    #[test]
    fn it_is_bounded() {
        let mut memory = Memory::default();
        for number in 0..MOST as u32 + 500 {
            let there = IpAddr::V4(Ipv4Addr::from_bits(number << 8));
            memory.entries.insert(Key::new("a", there), entry(0.02, 1e6, Time(u64::from(number))));
        }
        memory.forget(Time(10_000));
        assert_eq!(memory.len(), MOST);
        assert!(memory.path("a", "0.0.1.0".parse().unwrap()).is_none());
        memory.forget(Time::from_secs(8 * 86_400));
        assert!(memory.is_empty());
    }
}
