//! The offset between the clocks of two captures of one connection, made at its two ends.
//!
//! A packet that goes from the place of the first capture to the place of the second one takes no negative time. So the second
//! clock is ahead by the difference of the packet's two times at most; and by the difference of a packet in the other direction at
//! least. The least delays of all packets on all subflows give the narrowest range, which is as wide as the least round trip.
//! The value is its middle: the offset if both directions of the shortest path take equally long.

use std::collections::BTreeMap;

use anabranch_units::Time;
use serde::Serialize;

use crate::estimate::Estimate;
use crate::track::Table;

/// The clock of a capture, compared with the clock of another one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClockReport {
    /// The other capture, as a place in `files`.
    pub than: usize,
    /// The seconds by which this clock is ahead, with the range that the packets allow. All times of this file are corrected by
    /// it.
    pub ahead_s: Estimate,
    /// The packets that both captures have, among the first ones of each subflow.
    pub packets: u64,
}

/// A range of offsets in nanoseconds.
#[derive(Clone, Copy)]
struct Bounds {
    low: i64,
    high: i64,
    packets: u64,
}

/// Returns the clock of each of `files` captures; none for the first one, and for those without a common connection.
pub(crate) fn clocks(table: &Table, files: usize) -> Vec<Option<ClockReport>> {
    let mut known: BTreeMap<(usize, usize), Bounds> = BTreeMap::new();
    for ((first, second, half), differences) in &table.sightings.pairs {
        let (Some(a), Some(b)) = (table.subflows.get(*first), table.subflows.get(*second)) else { continue };
        // The captures have to be at different ends.
        if a.is_at_sender(*half) == b.is_at_sender(*half) {
            continue;
        }
        let new = Bounds { low: i64::MIN, high: i64::MAX, packets: 0 };
        let bounds = known.entry((a.file, b.file)).or_insert(new);
        bounds.packets += differences.packets;
        match a.is_at_sender(*half) {
            true => bounds.high = bounds.high.min(differences.least),
            false => bounds.low = bounds.low.max(differences.greatest),
        }
    }
    let mut clocks: Vec<Option<ClockReport>> = vec![None; files];
    for ((first, second), bounds) in known {
        // A range that is empty belongs to clocks that jump.
        let is_known = bounds.low > i64::MIN && bounds.high < i64::MAX && bounds.low <= bounds.high;
        let Some(clock) = clocks.get_mut(second).filter(|clock| clock.is_none() && is_known) else {
            continue;
        };
        let seconds = |nanos: i64| nanos as f64 / 1e9;
        let (low, high) = (seconds(bounds.low), seconds(bounds.high));
        let ahead_s = Estimate { value: (low + high) / 2.0, low, high };
        *clock = Some(ClockReport { than: first, ahead_s, packets: bounds.packets });
    }
    clocks
}

/// Returns the nanoseconds by which the clock of a file is ahead of the clock of the first file to which it is compared.
pub(crate) fn ahead(clocks: &[Option<ClockReport>], file: usize) -> i64 {
    // Each clock is compared with one of an earlier file.
    let clock = clocks.get(file).and_then(Option::as_ref).filter(|clock| clock.than < file);
    clock.map_or(0, |clock| (clock.ahead_s.value * 1e9).round() as i64 + ahead(clocks, clock.than))
}

/// Returns a time of a clock that is ahead by these nanoseconds.
pub(crate) fn corrected(time: Time, ahead: i64) -> Time {
    Time(time.0.saturating_add_signed(ahead.saturating_neg()))
}

/// Returns the offset of a clock in words.
pub(crate) fn remark(clock: &ClockReport, name: &str, other: &str) -> String {
    let Estimate { value, low, high } = clock.ahead_s;
    let (words, value) = if value < 0.0 { ("behind", -value) } else { ("ahead of", value) };
    format!(
        "the clock of {name} is {value:.6} s {words} the clock of {other}, within {:.3} ms, by {} packets that both have; \
         its times are corrected",
        (high - low) * 500.0,
        clock.packets
    )
}
