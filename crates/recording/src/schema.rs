//! The tables of a run and their columns.

use std::fmt::Write as _;

use anabranch_table::{Column, Kind};

/// The version of the tables and of `run.json`; it increases when a column or a key changes its name or meaning,
/// and not when one is added.
pub const SCHEMA: u32 = 1;

/// A column, with its meaning.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSchema {
    /// The name of the column in every format.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// True if every row has a value.
    pub required: bool,
    /// Its meaning.
    pub about: &'static str,
}

/// A table, with its meaning.
#[derive(Clone, Copy, Debug)]
pub struct TableSchema {
    /// Its name: the name of its file, without the extension.
    pub name: &'static str,
    /// Its rows.
    pub about: &'static str,
    /// The columns, in their order in the file.
    pub columns: &'static [ColumnSchema],
}

impl TableSchema {
    /// Returns the columns for a writer.
    pub(crate) fn columns(&self) -> Vec<Column> {
        // Whole numbers of one event are near the numbers of the event before.
        let column = |column: &ColumnSchema| Column {
            required: column.required,
            ..Column::new(column.name, column.kind).dense()
        };
        self.columns.iter().map(column).collect()
    }
}

const fn integer(name: &'static str, about: &'static str) -> ColumnSchema {
    ColumnSchema { name, kind: Kind::Integer, required: false, about }
}

const fn text(name: &'static str, about: &'static str) -> ColumnSchema {
    ColumnSchema { name, kind: Kind::Text, required: false, about }
}

const fn number(name: &'static str, about: &'static str) -> ColumnSchema {
    ColumnSchema { name, kind: Kind::Number, required: false, about }
}

/// Returns the column without missing values.
const fn always(column: ColumnSchema) -> ColumnSchema {
    ColumnSchema { required: true, ..column }
}

const T_NS: ColumnSchema = always(integer("t_ns", "time since the start of the run"));
const FLOW: ColumnSchema = always(integer("flow", "the flow, from 0: a row of `flows`"));
const SUBFLOW: ColumnSchema = always(integer(
    "subflow",
    "the subflow of that flow, from 0; an ended one may give its number to another",
));
const DIRECTION: ColumnSchema =
    always(text("direction", "the stream: `up` is sent by the client of the flow, `down` by its server"));

/// The position of each table in [`TABLES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Flows,
    Subflows,
    Windows,
    Queues,
    Events,
    Decisions,
}

/// The tables of a run.
pub const TABLES: [TableSchema; 6] = [
    TableSchema {
        name: "flows",
        about: "A row for each flow, also of competing and background traffic.",
        columns: &[
            FLOW,
            text(
                "name",
                "its name, as in `anabranch run`; competing flows are called `beside 1`, `background 1.1`",
            ),
            text("condition", "the condition; empty if the scenario has none"),
            text("scheduler", "the contender that is simulated"),
            text(
                "direction",
                "the stream that carries its data: `up` from the client, `down` from the server",
            ),
            integer("start_ns", "time of its start"),
            integer("size_bytes", "its size; missing for bulk"),
            text("outcome", "`completed`, `running`, `waiting`, or `failed: ` and the reason"),
            integer(
                "fct_ns",
                "time from the start to the delivery of the last byte; missing if there was none",
            ),
            integer("acked_ns", "time from the start to the acknowledgement of the last byte"),
            integer("connected_ns", "time from the start until the client's connection was established"),
            integer("delivered_bytes", "bytes delivered in order"),
            integer(
                "goodput_bps",
                "delivered bits over `fct_ns`, or over the time until the flow, or the run, ended",
            ),
            integer("data_segments", "data segments sent, retransmissions included"),
            integer("retransmitted_segments", "those retransmitted on the same subflow"),
            integer("reinjected_bytes", "bytes reinjected on another subflow"),
            integer("duplicate_bytes", "bytes that arrived more than once"),
            integer("rto_count", "retransmission timeouts of the sender's subflows"),
            integer(
                "longest_gap_ns",
                "longest time between two advances of in-order delivery while data was outstanding",
            ),
        ],
    },
    TableSchema {
        name: "subflows",
        about: "A row for each subflow at each end of a flow, with its counters at the end of the run.",
        columns: &[
            FLOW,
            text("end", "`client` or `server`"),
            SUBFLOW,
            text("local", "its own address and port"),
            text("remote", "the peer's address and port"),
            integer("interface", "the interface of that host, from 0"),
            integer("started_ns", "time of its first SYN"),
            integer("established_ns", "time at which it could carry data; missing if it never could"),
            integer("ended_ns", "time of its end; missing if there was none"),
            integer("bytes_sent", "payload sent, retransmissions included"),
            integer("bytes_acked", "payload acknowledged on the subflow"),
            integer("bytes_delivered", "payload received that arrived here first"),
            integer("bytes_duplicate", "payload received that had arrived before"),
            integer("bytes_reinjected", "payload sent that another subflow had carried"),
            integer("segments_sent", "data segments sent, retransmissions included"),
            integer("segments_retransmitted", "data segments retransmitted"),
            integer("segments_lost", "data segments marked lost"),
            integer("rto_count", "retransmission timeouts"),
            integer("min_rtt_us", "the minimum RTT sample"),
        ],
    },
    TableSchema {
        name: "windows",
        about: "The windows of each sending subflow. With an interval between rows, a row has the values at its \
                time; a change of the threshold, and the last value before a pause, always have a row.",
        columns: &[
            T_NS,
            FLOW,
            DIRECTION,
            SUBFLOW,
            integer(
                "cwnd_bytes",
                "congestion window; missing in the record of a capture without samples of the kernel",
            ),
            integer("ssthresh_bytes", "slow-start threshold; missing while it is infinite"),
            always(integer("inflight_bytes", "bytes in flight by the sender's estimate")),
            integer("srtt_us", "smoothed RTT"),
            integer("pacing_bps", "pacing rate; missing without pacing"),
            always(integer("peer_window_bytes", "the peer's receive window after its data acknowledgement")),
        ],
    },
    TableSchema {
        name: "queues",
        about: "The queue of each link whenever a packet has been queued (it is part of the queue then), was dropped, or has \
                crossed the link; a packet leaves the queue when it has been transmitted, and crosses the link after the \
                propagation delay. With an interval between rows, the last two columns cover the packets since the row before.",
        columns: &[
            T_NS,
            always(text("link", "the link, such as `wifi.up`")),
            always(integer("queue_bytes", "bytes in the queue, the packet in service included")),
            always(integer("queue_packets", "packets in the queue, the one in service included")),
            always(integer("max_bytes", "the maximum of `queue_bytes` since the row before")),
            always(integer(
                "dropped_packets",
                "packets of flows dropped by the link since the row before, for any reason; packets of cross traffic (`cross-traffic`) are not counted",
            )),
        ],
    },
    TableSchema {
        name: "events",
        about: "The events of the data of each flow, by offset in its stream. All of them are recorded.",
        columns: &[
            T_NS,
            FLOW,
            DIRECTION,
            SUBFLOW,
            always(text(
                "event",
                "`sent` for the first time, `retransmitted`, `reinjected` (another subflow has carried it), `probe`; \
                 `received` (the first copy); `lost`, `undone` (the losses of the subflow were none); `data_acked`",
            )),
            integer("from_bytes", "the first offset of the data"),
            integer("to_bytes", "the offset after the data; for `data_acked` the DATA_ACK"),
            integer("window_edge_bytes", "the right edge of the peer's window, for `data_acked`"),
            text("reason", "for `lost`: `rack`, `duplicate_acks`, `timeout` or `too_large`"),
        ],
    },
    TableSchema {
        name: "decisions",
        about: "The decisions of the scheduler. It is not called while a connection has one subflow, unless it chooses subflows itself. Repeated waits \
                for the same reason are one row.",
        columns: &[
            T_NS,
            FLOW,
            DIRECTION,
            always(text("decision", "`assign`, `recall` or `wait`")),
            integer("subflow", "the subflow of the data"),
            text("kind", "for `assign`: `new`, `copy` or `reinject`"),
            integer("from_bytes", "the first offset of the data"),
            integer("to_bytes", "the offset after the data"),
            always(text(
                "rule",
                "the reason, such as `lowest_rtt`; its page in docs/schedulers describes the scores",
            )),
            number("score", "the score of the chosen subflow in the rule's measure, if it has one"),
            number("other_score", "the best score of the other candidates"),
            integer("until_ns", "for `wait`: the time at which to ask again, if there is one"),
        ],
    },
];

/// Returns the reference of the tables for the documentation.
pub fn markdown() -> String {
    let mut page = String::new();
    for table in &TABLES {
        let _ = write!(
            page,
            "### {}\n\n{}\n\n| column | type | meaning |\n|---|---|---|\n",
            table.name, table.about
        );
        for column in table.columns {
            let kind = match column.kind {
                Kind::Text => "text",
                Kind::Integer => "integer",
                Kind::Number => "number",
                Kind::Flag => "flag",
            };
            let null = if column.required { "" } else { " or null" };
            let _ = writeln!(page, "| `{}` | {kind}{null} | {} |", column.name, column.about);
        }
        page.push('\n');
    }
    page
}
