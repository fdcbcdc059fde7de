//! The pages of the connections of captures as text.

mod kernel;
pub mod simulation;

use anabranch_inspect::{
    ConnectionReport, DirectionReport, Inspection, PathEstimate, ProtocolName, RateSource, SubflowReport,
};
use anabranch_lab::figures::{about, rate, size, span};
use anabranch_lab::spoken;

use crate::table::{Align, Table, wrap, wrap_behind};
use crate::terminal::{self, BAD, paint};

/// Connections beyond this number have a line and no page, unless one is chosen.
const MOST_PAGES: usize = 20;

/// Returns the files, the notes and the pages.
pub fn text(inspection: &Inspection) -> String {
    let width = terminal::text_width();
    let mut text = String::new();
    for file in &inspection.files {
        let name = if file.name == "-" { "standard input" } else { &file.name };
        let interfaces = match file.interfaces.len() {
            0 | 1 => String::new(),
            n => format!(", {n} interfaces"),
        };
        text.push_str(&wrap(
            &format!(
                "{name}: {} packets, {} of them TCP ({}{interfaces})",
                file.packets, file.tcp_packets, file.format
            ),
            width,
        ));
    }
    let count = |wanted: ProtocolName| {
        inspection.connections.iter().filter(|connection| connection.protocol == wanted).count()
    };
    let parts = [
        (count(ProtocolName::Mptcp), "of Multipath TCP"),
        (count(ProtocolName::Fallback), "that fell back to TCP"),
        (count(ProtocolName::Tcp), "of TCP"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|part| part.0 > 0).map(|(count, what)| format!("{count} {what}")).collect();
    text.push_str(&wrap(
        &format!(
            "{} in {}: {}",
            spoken::counted(inspection.connections.len() as u64, "connection"),
            span(inspection.duration_s),
            parts.join(", ")
        ),
        width,
    ));
    for note in &inspection.notes {
        text.push_str(&wrap_behind("note: ", note, width));
    }
    // Connections of Multipath TCP first, if there are many.
    let many = inspection.connections.len() > MOST_PAGES;
    let mut shown: Vec<&ConnectionReport> = inspection.connections.iter().collect();
    if many {
        shown.sort_by_key(|connection| {
            let bytes: u64 = connection.streams.iter().map(|stream| stream.delivered_bytes).sum();
            (connection.protocol == ProtocolName::Tcp, core::cmp::Reverse(bytes), connection.number)
        });
    }
    for connection in shown.iter().take(MOST_PAGES) {
        text.push('\n');
        text.push_str(&page(connection, width));
    }
    if many {
        let rest = shown.len() - MOST_PAGES;
        text.push_str(&format!(
            "\n{rest} more connections; `--connection N` shows one, and `--json` has all\n"
        ));
    }
    text
}

/// The page of a connection.
fn page(connection: &ConnectionReport, width: usize) -> String {
    let what = match (connection.protocol, connection.standard) {
        (ProtocolName::Mptcp, Some(standard)) => format!("Multipath TCP ({standard})"),
        (ProtocolName::Mptcp, None) => "Multipath TCP".to_owned(),
        (ProtocolName::Fallback, _) => "TCP after Multipath TCP was asked for".to_owned(),
        (ProtocolName::Tcp, _) => "TCP".to_owned(),
    };
    let mut text = wrap(
        &format!(
            "Connection {}: {what}, {} -> {}, captured {}",
            connection.number,
            connection.client,
            connection.server,
            connection.captured.name()
        ),
        width,
    );
    let connected = match connection.connected_s {
        Some(seconds) => format!("established in {}", span(seconds)),
        None => "the handshake is not complete in the capture".to_owned(),
    };
    text.push_str(&wrap_behind(
        "  ",
        &format!(
            "from {:.3} s for {}; {connected}; {}",
            connection.start_s,
            span(connection.duration_s),
            connection.outcome
        ),
        width,
    ));
    for (direction, stream) in connection.streams.iter().enumerate() {
        if stream.data_segments == 0 {
            continue;
        }
        let from = if direction == 0 { "client" } else { "server" };
        let mut line =
            format!("from the {from}: {} in {}", size(stream.delivered_bytes), span(stream.time_s));
        if let Some(goodput) = stream.goodput_bps {
            line.push_str(&format!(" ({})", rate(goodput)));
        }
        line.push_str(&format!(", {:.2} % retransmitted", stream.retransmitted_ratio * 100.0));
        if connection.subflows.len() > 1 {
            line.push_str(&format!(", {:.2} % reinjected", stream.reinjected_ratio * 100.0));
        }
        line.push_str(&format!("; longest gap {}", span(stream.longest_gap_s)));
        text.push_str(&wrap_behind("  ", &line, width));
    }
    text.push_str(&subflows(connection, width));
    text.push_str(&kernel::table(connection, width));
    for fault in &connection.faults {
        let times = if fault.count == 1 { String::new() } else { format!(" ({} times)", fault.count) };
        let line = format!("{}: {}{times}, first at {:.3} s", fault.rule, fault.text, fault.time_s);
        text.push_str(&wrap_behind(&format!("{} ", paint(BAD, "fault:")), &line, width));
    }
    for sentence in &connection.sentences {
        text.push_str(&wrap_behind("* ", sentence, width));
    }
    text
}

/// The directions that have data, or the first one.
fn directions(connection: &ConnectionReport) -> Vec<usize> {
    let with_data: Vec<usize> =
        (0..2).filter(|direction| connection.streams[*direction].data_segments > 0).collect();
    if with_data.is_empty() { vec![0] } else { with_data }
}

/// The table of subflows, with a row for each direction that has data.
fn subflows(connection: &ConnectionReport, width: usize) -> String {
    let mut table = Table::new()
        .column("subflow", Align::Left)
        .column("data", Align::Left)
        .optional("start s", Align::Decimal, 3)
        .optional("connect ms", Align::Decimal, 6)
        .column("MB", Align::Decimal)
        .column("share %", Align::Decimal)
        .column("Mbit/s", Align::Decimal)
        .optional("RTT ms", Align::Decimal, 1)
        .optional("median", Align::Decimal, 2)
        .optional("p95", Align::Decimal, 4)
        .optional("retx", Align::Right, 1)
        .optional("spurious", Align::Right, 5)
        .optional("rate Mbit/s", Align::Decimal, 2)
        .optional("queue ms", Align::Decimal, 3);
    let mut endings = String::new();
    for subflow in &connection.subflows {
        for direction in directions(connection) {
            table.row(row(subflow, direction));
        }
        let mut remarks: Vec<String> =
            directions(connection).into_iter().filter_map(|at| changes(&subflow.directions[at])).collect();
        remarks.extend(directions(connection).into_iter().flat_map(|at| outages(&subflow.directions[at])));
        if subflow.backup {
            remarks.push("backup".to_owned());
        }
        if subflow.opened_by_server {
            remarks.push("opened by the server".to_owned());
        }
        if subflow.syn_count > 1 {
            remarks.push(format!("{} SYNs", subflow.syn_count));
        }
        if subflow.hmac == Some(false) {
            remarks.push("wrong HMAC".to_owned());
        }
        if let Some(ended) = subflow.ended.as_ref().filter(|ended| ended.starts_with("reset")) {
            remarks.push(ended.clone());
        }
        if !remarks.is_empty() {
            endings.push_str(&wrap_behind("  ", &format!("{}: {}", subflow.from, remarks.join("; ")), width));
        }
    }
    table.render(width) + &endings
}

/// Returns the changes of the rate in words; none if it did not change.
fn changes(own: &DirectionReport) -> Option<String> {
    let path = own.path.as_ref()?;
    let (first, others) = path.rate_phases.as_slice().split_first()?;
    if let Some(mean) = path.rate_bps.filter(|_| path.rate_varies) {
        let (low, high) = (rate(mean.low), rate(mean.high));
        return Some(format!(
            "its rate varied: {} on average, {low} to {high} for 80 % of the time",
            rate(mean.value)
        ));
    }
    let changed = others.iter().map(|phase| format!("{:.2} s {}", phase.from_s, rate(phase.rate_bps.value)));
    let changed: Vec<String> = changed.collect();
    Some(format!("its rate changed: {}, from {}", rate(first.rate_bps.value), changed.join(", from ")))
}

/// Returns the outages in words.
fn outages(own: &DirectionReport) -> Vec<String> {
    let outages = own.path.iter().flat_map(|path| &path.outages);
    let words = outages.map(|outage| {
        let packets = outage.packets.map_or(String::new(), |packets| format!(", {packets} packets in vain"));
        let down = format!("down from {:.2} s", outage.down_s.value);
        match outage.up_s {
            Some(up) if up.high - up.low < 0.01 => format!("{down} to {:.2} s{packets}", up.value),
            Some(up) => format!("{down} to a time between {:.2} and {:.2} s{packets}", up.low, up.high),
            None => format!("{down} to the end{packets}"),
        }
    });
    words.collect()
}

fn row(subflow: &SubflowReport, direction: usize) -> Vec<String> {
    let own: &DirectionReport = &subflow.directions[direction];
    let millis = |seconds: Option<f64>| seconds.map_or("-".to_owned(), |seconds| about(seconds * 1e3));
    let mega = |bps: Option<f64>| bps.map_or("-".to_owned(), |bps| about(bps / 1e6));
    let path: Option<&PathEstimate> = own.path.as_ref();
    let known = path.filter(|path| path.rate_source != RateSource::LowerBound);
    let to_server = (direction == 0) != subflow.opened_by_server;
    vec![
        subflow.from.clone(),
        if to_server { "->".to_owned() } else { "<-".to_owned() } + " " + &subflow.to,
        format!("{:.3}", subflow.start_s),
        millis(subflow.connected_s),
        about(own.delivered_bytes as f64 / 1e6),
        about(own.share_pct),
        mega(own.goodput_bps),
        millis(own.rtt.map(|rtt| rtt.min_s)),
        millis(own.rtt.map(|rtt| rtt.p50_s)),
        millis(own.rtt.map(|rtt| rtt.p95_s)),
        own.retransmitted_segments.to_string(),
        own.spurious_segments.to_string(),
        mega(known.and_then(|path| path.rate_bps).map(|rate| rate.value)),
        millis(known.map(|path| path.queue_s)),
    ]
}
