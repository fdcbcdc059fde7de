//! The flows of a run with classes of traffic.

use anabranch_measure::Part;
use anabranch_sim::{AppReport, FlowReport, application};

use crate::scenario::{Condition, TrafficClass, Via};

/// Returns the requests or the periods of sending of a flow; none if it has none.
pub(super) fn parts(report: &FlowReport) -> Option<Vec<Part>> {
    let seconds = |span: anabranch_units::Duration| span.as_secs_f64();
    match &report.app {
        AppReport::Requests(all) => {
            let part = |one: &application::Exchange| Part {
                start_s: one.at.as_secs_f64(),
                size_bytes: one.response,
                time_s: one.time.map(seconds),
            };
            Some(all.iter().map(part).collect())
        }
        AppReport::OnOff(all) => {
            let part = |one: &application::Burst| Part {
                start_s: one.at.as_secs_f64(),
                size_bytes: one.bytes,
                time_s: one.delay.map(seconds),
            };
            Some(all.iter().map(part).collect())
        }
        AppReport::Transfer | AppReport::Datagrams(_) | AppReport::Video(_) => None,
    }
}

/// Returns the congestion control of a class that does not use the contender.
pub(super) fn congestion<'a>(condition: &'a Condition, class: Option<&TrafficClass>) -> &'a str {
    match class.map(|class| class.via) {
        Some(Via::Udp(_)) => "none",
        _ => condition.plain.congestion.name(),
    }
}
