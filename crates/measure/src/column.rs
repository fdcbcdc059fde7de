//! The name of a measure, and the tables and columns that show it.

use anabranch_table::{Cell, Kind};
use anabranch_units::Duration;

use crate::flow::FlowResult;
use crate::measures::Record;
use crate::stats::Interval;

/// The unit of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number without a unit.
    None,
    /// Seconds of network time.
    Seconds,
    /// Bits per second, of payload.
    BitsPerSecond,
    /// Per cent.
    Percent,
    /// A part of 1.
    Ratio,
    /// Bytes of payload.
    Bytes,
    /// Segments with payload.
    Segments,
    /// Datagrams of UDP.
    Datagrams,
}

impl Unit {
    /// Returns its symbol; empty for a number.
    pub const fn symbol(self) -> &'static str {
        match self {
            Unit::None | Unit::Ratio => "",
            Unit::Seconds => "s",
            Unit::BitsPerSecond => "bit/s",
            Unit::Percent => "%",
            Unit::Bytes => "byte",
            Unit::Segments => "segment",
            Unit::Datagrams => "datagram",
        }
    }
}

/// The better direction of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less is better.
    Less,
    /// More is better.
    More,
    /// Neither direction is better.
    Neither,
}

impl Better {
    /// Returns it in a word; empty for neither.
    pub const fn word(self) -> &'static str {
        match self {
            Better::Less => "less",
            Better::More => "more",
            Better::Neither => "",
        }
    }
}

/// The traffic that has a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Traffic of every kind.
    All,
    /// All but bulk.
    NotBulk,
    /// All but datagrams.
    Streams,
    /// Transfers only.
    Transfers,
    /// Classes of kind `video`.
    Videos,
    /// Classes of kind `udp`.
    Datagrams,
}

impl Traffic {
    /// Returns the words for it in the table of `docs/results.md`.
    pub const fn words(self) -> &'static str {
        match self {
            Traffic::All => "all",
            Traffic::NotBulk => "all but bulk",
            Traffic::Streams => "all but datagrams",
            Traffic::Transfers => "transfers",
            Traffic::Videos => "video",
            Traffic::Datagrams => "datagrams",
        }
    }
}

/// The form of a number in a printed table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Seconds with three digits.
    Seconds,
    /// Seconds as milliseconds.
    Millis,
    /// Bits per second as Mbit/s.
    Mega,
    /// A part of 1 in per cent.
    Percent,
    /// A number with three digits.
    Digits,
    /// A number with three digits, without trailing zeros.
    About,
}

/// The content of a column of a printed table.
#[derive(Clone, Copy)]
pub enum Shown {
    /// A number in the given format; nothing where a row has none.
    Number(Format, fn(&Record) -> Option<f64>),
    /// The ends of an interval in the given format.
    Interval(Format, fn(&Record) -> Option<Interval>),
    /// The difference from the reference, with its interval.
    Difference,
    /// The share of each path in the bytes.
    Shares,
}

/// A printed table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// Transfers with a size.
    Transfers,
    /// Bulk transfers.
    Bulk,
    /// Transfers that do not use the contender.
    Plain,
    /// Bulk transfers that do not use the contender.
    PlainBulk,
    /// Rows of classes of requests.
    Requests,
    /// Rows of on/off senders.
    Bursts,
    /// Rows of streams of datagrams.
    Datagrams,
    /// Rows of videos.
    Videos,
}

/// A column of printed tables.
#[derive(Clone, Copy)]
pub struct Heading {
    /// The text above the column.
    pub title: &'static str,
    /// Its place: columns are in the order of these numbers.
    pub place: u8,
    /// Its content.
    pub shown: Shown,
    /// The tables that have it, each with its rank: on a narrow terminal columns with a higher rank are omitted first, and
    /// those with 0 never.
    pub tables: &'static [(TableKind, u8)],
    /// True if it is shown on request only.
    pub on_request: bool,
}

impl Heading {
    /// Returns a column.
    pub const fn new(
        place: u8,
        title: &'static str,
        shown: Shown,
        tables: &'static [(TableKind, u8)],
    ) -> Heading {
        Heading { title, place, shown, tables, on_request: false }
    }

    /// Returns a column that is shown on request only.
    #[must_use]
    pub const fn on_request(self) -> Heading {
        Heading { on_request: true, ..self }
    }

    /// Returns its rank in a table; none if the table does not have it.
    pub fn rank(&self, table: TableKind) -> Option<u8> {
        self.tables.iter().find(|(kind, _)| *kind == table).map(|(_, rank)| *rank)
    }
}

/// A column of the table of a sweep.
#[derive(Clone, Copy)]
pub struct SweepColumn {
    /// The name of the column in every format.
    pub name: &'static str,
    /// The type of its values.
    pub kind: Kind,
    /// The value of a record.
    pub value: fn(&Record) -> Cell<'static>,
}

/// A column of the table with one row for each flow, request or burst.
#[derive(Clone, Copy)]
pub struct SampleColumn {
    /// The name of the column in every format.
    pub name: &'static str,
    /// The type of its values.
    pub kind: Kind,
    /// The value of a flow; of a request or a burst its time is given.
    pub value: fn(&FlowResult, Option<Duration>) -> Cell<'static>,
}

impl SampleColumn {
    /// Returns a column of whole numbers.
    pub const fn count(
        name: &'static str,
        value: fn(&FlowResult, Option<Duration>) -> Cell<'static>,
    ) -> SampleColumn {
        SampleColumn { name, kind: Kind::Integer, value }
    }

    /// Returns a column of numbers.
    pub const fn number(
        name: &'static str,
        value: fn(&FlowResult, Option<Duration>) -> Cell<'static>,
    ) -> SampleColumn {
        SampleColumn { name, kind: Kind::Number, value }
    }
}

/// A quantity of flows, as its row declares it.
#[derive(Clone, Copy)]
pub struct Measure {
    /// Its key in JSON.
    pub name: &'static str,
    /// Its meaning: the comment of its row.
    pub meaning: &'static str,
    /// The key of the object in which it is; empty for a key of the record itself.
    pub within: &'static str,
    /// True if a record of a contender has it.
    pub of_contenders: bool,
    /// True if a record of a flow has it.
    pub of_flows: bool,
    /// The unit of the stored value; tables may print a multiple.
    pub unit: Unit,
    /// The better direction.
    pub better: Better,
    /// The kinds of traffic that have a value.
    pub traffic: Traffic,
    /// Its columns in printed tables.
    pub headings: &'static [Heading],
    /// Its columns in the table of a sweep.
    pub sweep: &'static [SweepColumn],
    /// Its columns in samples.
    pub samples: &'static [SampleColumn],
}

impl Measure {
    /// Returns a measure without columns; its field gives it its name and its meaning.
    pub const fn new(traffic: Traffic, unit: Unit, better: Better) -> Measure {
        Measure {
            name: "",
            meaning: "",
            within: "",
            of_contenders: false,
            of_flows: false,
            unit,
            better,
            traffic,
            headings: &[],
            sweep: &[],
            samples: &[],
        }
    }

    /// Returns it with columns in printed tables.
    #[must_use]
    pub const fn shown(self, headings: &'static [Heading]) -> Measure {
        Measure { headings, ..self }
    }

    /// Returns it with columns in the table of a sweep.
    #[must_use]
    pub const fn swept(self, sweep: &'static [SweepColumn]) -> Measure {
        Measure { sweep, ..self }
    }

    /// Returns it with columns in samples.
    #[must_use]
    pub const fn sampled(self, samples: &'static [SampleColumn]) -> Measure {
        Measure { samples, ..self }
    }
}
