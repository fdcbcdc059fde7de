//! The sentences of a page: the largest cause of a connection's time first.

use crate::application::{Application, Pattern};
use crate::cause::Cause;
use crate::result::{ConnectionReport, ProtocolName};
use crate::track::Vantage;

/// Formats a rate with three digits.
fn rate(bps: f64) -> String {
    match bps {
        r if r >= 999.5e6 => format!("{:.2} Gbit/s", r / 1e9),
        r if r >= 99.95e6 => format!("{:.0} Mbit/s", r / 1e6),
        r if r >= 9.995e6 => format!("{:.1} Mbit/s", r / 1e6),
        r if r >= 0.9995e6 => format!("{:.2} Mbit/s", r / 1e6),
        r => format!("{:.0} kbit/s", r / 1e3),
    }
}

fn span(seconds: f64) -> String {
    match seconds {
        s if s >= 0.9995 => format!("{s:.2} s"),
        s if s >= 0.009_95 => format!("{:.0} ms", s * 1e3),
        s => format!("{:.1} ms", s * 1e3),
    }
}

/// Returns the sentences of a connection.
pub(crate) fn sentences(report: &ConnectionReport) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(reason) = &report.fallback {
        sentences.push(format!("It is a plain TCP: {reason}."));
    }
    if report.protocol == ProtocolName::Mptcp && report.connected_s.is_none() {
        sentences.push(match report.by_continuity {
            true => "Its handshake is not in the capture; subflows were tied together by their data sequence numbers.",
            false => "Its handshake is not in the capture, so keys and tokens are not known.",
        }
        .to_owned());
    } else if report.by_continuity {
        sentences.push(
            "Some subflows have no handshake; they were tied to it by their data sequence numbers."
                .to_owned(),
        );
    }
    if let Some(text) = largest(report) {
        sentences.insert(0, text);
    }
    sentences.extend(turns(report));
    sentences.extend(waits(report));
    for address in report.addresses.iter().filter(|address| !address.used) {
        let state = match (address.echoed, address.removed) {
            (_, true) => "was removed again",
            (true, false) => "was echoed, and no subflow uses it",
            (false, false) => "had no echo, and no subflow uses it",
        };
        sentences.push(format!("The {} announced {}, which {state}.", address.by, address.address));
    }
    sentences
}

/// The largest cause, and the figures that show it.
fn largest(report: &ConnectionReport) -> Option<String> {
    let direction = report.main_direction();
    let stream = &report.streams[direction];
    let part = stream.parts.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
    let from = if direction == 0 { "client" } else { "server" };
    let (sends, receives) = if direction == 0 { ("client", "server") } else { ("server", "client") };
    let why = match part.cause {
        Cause::Handshake => "the connection was being established".to_owned(),
        Cause::Application => format!("the {sends} had sent nothing that was not acknowledged"),
        Cause::ReceiveWindow => format!("the receive window of the {receives} was full"),
        Cause::CongestionWindow => {
            "data was on its way and no queue was waiting: the congestion windows were too small, or still growing"
                .to_owned()
        }
        Cause::Serialisation => {
            let busy = report.subflows.iter().filter_map(|subflow| {
                let path = subflow.directions[direction].path.as_ref()?;
                let share = subflow.directions[direction].share_pct;
                Some((share, subflow.from.clone(), path.rate_bps?.value, path.busy_s))
            });
            let mut busy: Vec<_> = busy.filter(|one| one.3 > 0.0).collect();
            busy.sort_by(|a, b| b.0.total_cmp(&a.0));
            let paths: Vec<String> =
                busy.iter().take(3).map(|one| format!("{} over {}", rate(one.2), one.1)).collect();
            match paths.is_empty() {
                true => "packets waited at a bottleneck".to_owned(),
                false => format!("packets waited at the bottleneck, which delivers {}", paths.join(", ")),
            }
        }
        Cause::Retransmission => "a lost segment had not been replaced yet".to_owned(),
        Cause::HeadOfLine => {
            format!("the receive window of the {receives} was full of bytes after a missing one")
        }
    };
    Some(format!(
        "The largest part of the time of the data from the {from}, {} of {} ({:.0} %), is {}: {why}.",
        span(part.seconds),
        span(report.duration_s),
        part.share_pct,
        part.cause.name(),
    ))
}

/// The pattern of the application, if it is no plain transfer.
fn turns(report: &ConnectionReport) -> Option<String> {
    let Application { pattern, turns, is_cut, idle_s, .. } = &report.application;
    let more = if *is_cut { " at first" } else { "" };
    let count = turns.len();
    let from = if report.main_direction() == 0 { "client" } else { "server" };
    let mean = report.application.mean_time_s().map(span)?;
    match pattern {
        Pattern::Requests => Some(format!(
            "The client made {count} requests{more}, each after the last response; a response took {mean} on average, and between them the \
             applications were idle for {}.",
            span(*idle_s)
        )),
        Pattern::Bursts => Some(format!(
            "The {from} sent {count} bursts{more}, and nothing for {} between them.",
            span(*idle_s)
        )),
        Pattern::Transfer | Pattern::BothWays => None,
    }
}

/// The waits of the receiver, if they are a part of the time worth a sentence.
fn waits(report: &ConnectionReport) -> Vec<String> {
    let stream = &report.streams[report.main_direction()];
    let mut sentences = Vec::new();
    if stream.blocked_s > 0.05 * stream.time_s && stream.blocked_s > 0.001 {
        sentences.push(format!(
            "Bytes waited for an earlier one in {} of {} ({} times, up to {} bytes at once).",
            span(stream.blocked_s),
            span(stream.time_s),
            stream.holes,
            stream.most_waiting_bytes
        ));
    }
    if let Some(at) = stream.longest_gap_at_s
        && stream.longest_gap_s > 0.2
        && stream.longest_gap_s > 0.1 * stream.time_s
    {
        sentences
            .push(format!("Nothing was delivered for {} from {at:.3} s on.", span(stream.longest_gap_s)));
    }
    if report.captured == Vantage::Unknown && report.protocol != ProtocolName::Fallback {
        sentences.push("The place of the capture is not known, since the handshake is missing.".to_owned());
    }
    sentences
}

#[cfg(test)]
#[path = "sentence_tests.rs"]
mod tests;
