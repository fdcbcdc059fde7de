//! The flows of a run whose traffic consists of classes.

use anabranch_lab::run::{AppReport, FlowResult, application};
use anabranch_lab::scenario::{Condition, TrafficClass, Via};

use serde::Serialize;

use super::Flow;
use crate::table::{Align, Table, wrap};
use crate::{output, terminal};

/// The keys of a flow of a class.
#[derive(Serialize)]
pub(super) struct OfClass {
    traffic: String,
    kind: &'static str,
    transport: &'static str,
    /// The requests, or the periods of sending.
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<Vec<Part>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    video: Option<Video>,
    #[serde(skip_serializing_if = "Option::is_none")]
    datagrams: Option<Datagrams>,
}

#[derive(Serialize)]
struct Part {
    start_s: f64,
    size_bytes: u64,
    time_s: Option<f64>,
}

#[derive(Serialize)]
struct Video {
    segments: u32,
    startup_s: Option<f64>,
    stalls: u32,
    stalled_s: f64,
    bitrate_bps: Option<f64>,
    switches: u32,
}

#[derive(Serialize)]
struct Datagrams {
    sent: u64,
    received: u64,
    delay_mean_s: Option<f64>,
    delay_p50_s: Option<f64>,
    delay_p95_s: Option<f64>,
    delay_p99_s: Option<f64>,
    delay_max_s: Option<f64>,
    jitter_s: Option<f64>,
}

impl OfClass {
    pub(super) fn new(class: &TrafficClass, result: &FlowResult) -> OfClass {
        let seconds = |span: anabranch_units::Duration| span.as_secs_f64();
        let (mut parts, mut video, mut datagrams) = (None, None, None);
        match &result.report.app {
            AppReport::Transfer => {}
            AppReport::Requests(all) => {
                let part = |one: &application::Exchange| Part {
                    start_s: one.at.as_secs_f64(),
                    size_bytes: one.response,
                    time_s: one.time.map(seconds),
                };
                parts = Some(all.iter().map(part).collect());
            }
            AppReport::OnOff(all) => {
                let part = |one: &application::Burst| Part {
                    start_s: one.at.as_secs_f64(),
                    size_bytes: one.bytes,
                    time_s: one.delay.map(seconds),
                };
                parts = Some(all.iter().map(part).collect());
            }
            AppReport::Video(own) => {
                video = Some(Video {
                    segments: own.segments,
                    startup_s: own.startup.map(seconds),
                    stalls: own.stalls,
                    stalled_s: seconds(own.stalled),
                    bitrate_bps: own.bitrate_bps,
                    switches: own.switches,
                });
            }
            AppReport::Datagrams(own) => {
                datagrams = Some(Datagrams {
                    sent: own.sent,
                    received: own.received,
                    delay_mean_s: own.delay_mean_s,
                    delay_p50_s: own.delay_p50.map(seconds),
                    delay_p95_s: own.delay_p95.map(seconds),
                    delay_p99_s: own.delay_p99.map(seconds),
                    delay_max_s: own.delay_max.map(seconds),
                    jitter_s: own.jitter_s,
                });
            }
        }
        OfClass {
            traffic: class.name.clone(),
            kind: class.kind.name(),
            transport: class.via.name(),
            parts,
            video,
            datagrams,
        }
    }

    /// Returns the result in a few words; none for a transfer.
    fn words(&self) -> Option<String> {
        let millis =
            |seconds: Option<f64>| seconds.map_or("-".to_owned(), |value| output::digits(value * 1e3));
        if let Some(video) = &self.video {
            return Some(format!(
                "{} segments, startup {} s, {} stalls of {} s, {} Mbit/s",
                video.segments,
                video.startup_s.map_or("-".to_owned(), output::digits),
                video.stalls,
                output::about(video.stalled_s),
                video.bitrate_bps.map_or("-".to_owned(), |rate| output::digits(rate / 1e6)),
            ));
        }
        if let Some(own) = &self.datagrams {
            let lost = own.sent - own.received;
            return Some(format!(
                "{lost} of {} lost, delay {} ms, p95 {} ms, jitter {} ms",
                own.sent,
                millis(own.delay_mean_s),
                millis(own.delay_p95_s),
                millis(own.jitter_s),
            ));
        }
        let parts = self.parts.as_ref()?;
        let mut times: Vec<f64> = parts.iter().filter_map(|part| part.time_s).collect();
        times.sort_by(f64::total_cmp);
        let what = if self.kind == "requests" { "responses" } else { "bursts" };
        Some(format!(
            "{}/{} {what}, mean {} ms, p95 {} ms",
            times.len(),
            parts.len(),
            millis(anabranch_lab::stats::mean(&times)),
            millis(anabranch_lab::stats::percentile(&times, 95.0)),
        ))
    }
}

/// Returns the congestion control of a class that does not use the contender.
pub(super) fn congestion<'a>(condition: &'a Condition, class: Option<&TrafficClass>) -> &'a str {
    match class.map(|class| class.via) {
        Some(Via::Udp(_)) => "none",
        _ => condition.plain.congestion.name(),
    }
}

/// Returns the table of a condition's flows, with what they are.
pub(super) fn table<'a>(condition: &Condition, flows: impl Iterator<Item = &'a Flow>) -> String {
    let mut text = String::new();
    for class in &condition.experiment.classes {
        text.push_str(&wrap(&format!("{}: {}", class.name, class.describe()), terminal::text_width()));
    }
    text.push('\n');
    let mut table = Table::new()
        .column("scheduler", Align::Left)
        .column("flow", Align::Left)
        .column("start s", Align::Decimal)
        .wrapped("result")
        .optional("Mbit/s", Align::Decimal, 1)
        .optional("retx %", Align::Decimal, 2)
        .optional("RTOs", Align::Right, 3)
        .optional("KB by path", Align::Right, 4);
    for flow in flows {
        let kilobytes = |bytes: &u64| format!("{:.0}", *bytes as f64 / 1e3);
        let transfer = || match (flow.fct_s, flow.size_bytes) {
            (Some(time), Some(size)) => {
                format!("{} in {} ms", output::size(size), output::digits(time * 1e3))
            }
            (None, Some(size)) => format!("{}: {}", output::size(size), flow.outcome),
            (_, None) => format!("bulk: {}", flow.outcome),
        };
        table.row(vec![
            flow.scheduler.clone(),
            flow.flow.clone(),
            format!("{:.3}", flow.start_s),
            flow.class.as_ref().and_then(OfClass::words).unwrap_or_else(transfer),
            output::digits(flow.goodput_bps as f64 / 1e6),
            output::about(flow.retransmitted_ratio * 100.0),
            flow.rto_count.to_string(),
            flow.bytes_by_path.iter().map(kilobytes).collect::<Vec<_>>().join("/"),
        ]);
    }
    text.push_str(&table.render(terminal::width()));
    text
}
