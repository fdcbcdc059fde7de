//! Cross traffic: packets that a link makes itself and that take a part of it.

use anabranch_units::{Rate, Time};

use crate::error::LinkConfigError;
use crate::server::work;

/// Packets of one size at a constant rate during an interval. They share the queue and the capacity of the link with
/// the packets offered to it, may be dropped as these are, and are discarded where they would depart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossTraffic {
    /// Their rate on the wire.
    pub rate: Rate,
    /// The length of each packet in bytes, with all headers.
    pub packet: u32,
    /// The time of the first packet.
    pub from: Time,
    /// No packet is sent at or after this time; [`Time::NEVER`] if it never ends.
    pub until: Time,
}

impl CrossTraffic {
    pub(crate) fn check(&self) -> Result<(), LinkConfigError> {
        if self.rate.as_bps() == 0 || self.rate > LinkConfigError::MAX_RATE {
            return Err(LinkConfigError::Rate(self.rate));
        }
        if !(40..=65_535).contains(&self.packet) {
            return Err(LinkConfigError::CrossPacket(self.packet));
        }
        if self.until <= self.from {
            return Err(LinkConfigError::CrossInterval { from: self.from, until: self.until });
        }
        Ok(())
    }
}

/// The remaining cross traffic of a link.
#[derive(Clone, Debug)]
pub(crate) struct CrossState {
    sources: Vec<Source>,
}

#[derive(Clone, Debug)]
struct Source {
    settings: CrossTraffic,
    next: Time,
    /// The exact time is `fraction / rate` nanoseconds later.
    fraction: u64,
}

impl CrossState {
    pub(crate) fn new(sources: &[CrossTraffic]) -> CrossState {
        let source =
            |settings: &CrossTraffic| Source { settings: *settings, next: settings.from, fraction: 0 };
        CrossState { sources: sources.iter().map(source).collect() }
    }

    /// Returns the time of the next packet.
    pub(crate) fn next_at(&self) -> Time {
        self.sources.iter().map(|source| source.next).min().unwrap_or(Time::NEVER)
    }

    /// Removes the next packet; returns its length.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let source = self.sources.iter_mut().min_by_key(|source| source.next)?;
        let CrossTraffic { rate, packet, until, .. } = source.settings;
        let (work, rate) = (work(packet), rate.as_bps());
        let fraction = source.fraction + work % rate;
        let next = source.next.0.saturating_add(work / rate + fraction / rate);
        source.fraction = fraction % rate;
        source.next = if Time(next) < until { Time(next) } else { Time::NEVER };
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_evenly_spaced_and_end_in_time() {
        let settings =
            CrossTraffic { rate: Rate(7_000_000), packet: 1500, from: Time(5), until: Time::from_secs(1) };
        let mut state = CrossState::new(&[settings]);
        let mut times = Vec::new();
        while state.next_at().is_armed() {
            times.push(state.next_at());
            assert_eq!(state.pop(), Some(1500));
        }
        // One every 12000 bit / 7 Mbit/s.
        assert_eq!(times.len(), 584);
        for (n, at) in times.iter().enumerate() {
            let exact = 5 + n as u128 * 12_000_000_000_000 / 7_000_000;
            assert_eq!(u128::from(at.0), exact);
        }
    }

    #[test]
    fn several_sources_are_merged_in_order_of_time() {
        let at = |from, packet| CrossTraffic {
            rate: Rate(8_000_000),
            packet,
            from: Time(from),
            until: Time::NEVER,
        };
        let mut state = CrossState::new(&[at(0, 100), at(50_000, 300)]);
        let packets: Vec<u32> = (0..6).filter_map(|_| state.pop()).collect();
        assert_eq!(packets, [100, 300, 100, 100, 100, 300]);
    }
}
