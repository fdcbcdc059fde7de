//! Rows of the tables of many rows, kept by column until there are enough to be written at once.

use anabranch_table::{Kind, Values};
use anabranch_units::Time;

use crate::names::{AssignName, DecisionName, EventName, LossName, RuleName, Stream};
use crate::schema::{Name, TABLES};

/// The rows of a batch: few enough for the caches of a processor.
const ROWS: usize = 256;

/// The place of a text that is missing.
const NO_TEXT: u32 = u32::MAX;

/// Returns a value for a table; those that are too large are the greatest that it can have.
pub(crate) fn whole(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

fn or_missing<T: TryInto<i64>>(value: Option<T>) -> i64 {
    value.map_or(Values::MISSING, whole)
}

/// A row of a table of many rows: its values by type, each type in the order of its columns.
pub(crate) trait Row<const INTEGERS: usize, const TEXTS: usize, const NUMBERS: usize> {
    fn values(&self) -> ([i64; INTEGERS], [u32; TEXTS], [f64; NUMBERS]);
}

/// A row of `windows`.
pub(crate) struct WindowRow {
    pub(crate) time: Time,
    pub(crate) flow: u32,
    pub(crate) stream: Stream,
    pub(crate) subflow: u8,
    pub(crate) cwnd_bytes: Option<u64>,
    pub(crate) ssthresh_bytes: Option<u64>,
    pub(crate) inflight_bytes: u64,
    pub(crate) srtt_us: Option<u64>,
    pub(crate) pacing_bps: Option<u64>,
    pub(crate) peer_window_bytes: u64,
}

impl Row<9, 1, 0> for WindowRow {
    #[inline]
    fn values(&self) -> ([i64; 9], [u32; 1], [f64; 0]) {
        let integers = [
            whole(self.time.0),
            i64::from(self.flow),
            i64::from(self.subflow),
            or_missing(self.cwnd_bytes),
            or_missing(self.ssthresh_bytes),
            whole(self.inflight_bytes),
            or_missing(self.srtt_us),
            or_missing(self.pacing_bps),
            whole(self.peer_window_bytes),
        ];
        (integers, [self.stream.place()], [])
    }
}

/// A row of `queues`.
pub(crate) struct QueueRow {
    pub(crate) time: Time,
    /// The place of the link.
    pub(crate) link: u32,
    pub(crate) queue_bytes: u64,
    pub(crate) queue_packets: usize,
    pub(crate) max_bytes: u64,
    pub(crate) dropped_packets: u64,
}

impl Row<5, 1, 0> for QueueRow {
    #[inline]
    fn values(&self) -> ([i64; 5], [u32; 1], [f64; 0]) {
        let integers = [
            whole(self.time.0),
            whole(self.queue_bytes),
            whole(self.queue_packets),
            whole(self.max_bytes),
            whole(self.dropped_packets),
        ];
        (integers, [self.link], [])
    }
}

/// A row of `events`.
pub(crate) struct EventRow {
    pub(crate) time: Time,
    pub(crate) flow: u32,
    pub(crate) stream: Stream,
    pub(crate) subflow: u8,
    pub(crate) event: EventName,
    pub(crate) from_bytes: Option<u64>,
    pub(crate) to_bytes: Option<u64>,
    pub(crate) window_edge_bytes: Option<u64>,
    pub(crate) reason: Option<LossName>,
}

impl Row<6, 3, 0> for EventRow {
    #[inline]
    fn values(&self) -> ([i64; 6], [u32; 3], [f64; 0]) {
        let integers = [
            whole(self.time.0),
            i64::from(self.flow),
            i64::from(self.subflow),
            or_missing(self.from_bytes),
            or_missing(self.to_bytes),
            or_missing(self.window_edge_bytes),
        ];
        let reason = self.reason.map_or(NO_TEXT, LossName::place);
        (integers, [self.stream.place(), self.event.place(), reason], [])
    }
}

/// A row of `decisions`.
pub(crate) struct DecisionRow {
    pub(crate) time: Time,
    pub(crate) flow: u32,
    pub(crate) stream: Stream,
    pub(crate) decision: DecisionName,
    pub(crate) subflow: Option<u8>,
    pub(crate) kind: Option<AssignName>,
    pub(crate) from_bytes: Option<u64>,
    pub(crate) to_bytes: Option<u64>,
    pub(crate) rule: RuleName,
    /// Missing if it is not finite.
    pub(crate) score: f64,
    /// Missing if it is not finite.
    pub(crate) other_score: f64,
    pub(crate) until: Option<Time>,
}

impl Row<6, 4, 2> for DecisionRow {
    #[inline]
    fn values(&self) -> ([i64; 6], [u32; 4], [f64; 2]) {
        let integers = [
            whole(self.time.0),
            i64::from(self.flow),
            or_missing(self.subflow),
            or_missing(self.from_bytes),
            or_missing(self.to_bytes),
            or_missing(self.until.map(|until| until.0)),
        ];
        let kind = self.kind.map_or(NO_TEXT, AssignName::place);
        let texts = [self.stream.place(), self.decision.place(), kind, self.rule.place()];
        let finite = |score: f64| if score.is_finite() { score } else { f64::NAN };
        (integers, texts, [finite(self.score), finite(self.other_score)])
    }
}

/// The values of the rows that are not yet written, by type and column.
pub(crate) struct Batch<const INTEGERS: usize, const TEXTS: usize, const NUMBERS: usize> {
    rows: usize,
    integers: Box<[[i64; ROWS]; INTEGERS]>,
    texts: Box<[[u32; ROWS]; TEXTS]>,
    numbers: Box<[[f64; ROWS]; NUMBERS]>,
    /// The texts of each column.
    lists: [Box<[Box<str>]>; TEXTS],
}

/// Returns a list of texts.
pub(crate) fn list<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Box<[Box<str>]> {
    texts.into_iter().map(|text| text.as_ref().into()).collect()
}

impl<const INTEGERS: usize, const TEXTS: usize, const NUMBERS: usize> Batch<INTEGERS, TEXTS, NUMBERS> {
    /// Returns an empty batch. `lists` has the texts of each column of texts.
    pub(crate) fn new(lists: [Box<[Box<str>]>; TEXTS]) -> Self {
        Batch {
            rows: 0,
            integers: Box::new([[0; ROWS]; INTEGERS]),
            texts: Box::new([[0; ROWS]; TEXTS]),
            numbers: Box::new([[0.0; ROWS]; NUMBERS]),
            lists,
        }
    }

    /// Adds a row. True if the batch is full and must be written before the next row.
    #[inline]
    pub(crate) fn push(&mut self, row: &impl Row<INTEGERS, TEXTS, NUMBERS>) -> bool {
        let (integers, texts, numbers) = row.values();
        let at = self.rows % ROWS;
        for (column, value) in self.integers.iter_mut().zip(integers) {
            column[at] = value;
        }
        for (column, value) in self.texts.iter_mut().zip(texts) {
            column[at] = value;
        }
        for (column, value) in self.numbers.iter_mut().zip(numbers) {
            column[at] = value;
        }
        self.rows = at + 1;
        self.rows == ROWS
    }

    /// Passes the values of the columns of `table` to `write`, and removes them.
    pub(crate) fn write<T>(&mut self, table: Name, write: impl FnOnce(&[Values<'_>]) -> T) -> T {
        let rows = self.rows;
        let (mut integers, mut numbers) = (self.integers.iter(), self.numbers.iter());
        let mut texts = self.texts.iter().zip(&self.lists);
        let columns = TABLES[table as usize].columns.iter().filter_map(|column| match column.kind {
            Kind::Integer => integers.next().map(|values| Values::Integers(&values[..rows])),
            Kind::Number => numbers.next().map(|values| Values::Numbers(&values[..rows])),
            Kind::Text => texts.next().map(|(places, list)| Values::Texts(list, &places[..rows])),
            Kind::Flag => None,
        });
        let columns: Vec<Values<'_>> = columns.collect();
        let written = write(&columns);
        self.rows = 0;
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_run_and_scores_that_are_not_finite_are_missing() {
        let row = DecisionRow {
            time: Time(5_000),
            flow: 1,
            stream: Stream::Down,
            decision: DecisionName::Wait,
            subflow: None,
            kind: None,
            from_bytes: None,
            to_bytes: Some(u64::MAX),
            rule: RuleName::from(anabranch_stack::scheduler::Rule::Gap),
            score: f64::INFINITY,
            other_score: 2.5,
            until: Some(Time(7_000)),
        };
        let (integers, texts, [score, other]) = row.values();
        assert_eq!(integers, [5_000, 1, Values::MISSING, Values::MISSING, i64::MAX, 7_000]);
        assert_eq!((texts[0], texts[2]), (Stream::Down.place(), NO_TEXT));
        assert!(score.is_nan() && other == 2.5);
    }
}
