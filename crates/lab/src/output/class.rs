//! The flows of a run whose traffic consists of classes.

use anabranch_sim::{AppReport, application};
use serde::Serialize;

use crate::run::FlowResult;
use crate::scenario::{Condition, TrafficClass, Via};

/// The keys of a flow of a class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassResult {
    /// The name of the class.
    pub traffic: String,
    /// The kind of the class.
    pub kind: &'static str,
    /// The transport protocol.
    pub transport: &'static str,
    /// The requests, or the periods of sending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<ClassPart>>,
    /// The result of a video.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub video: Option<ClassVideo>,
    /// The result of a stream of datagrams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<ClassDatagrams>,
}

/// A request or a period of sending.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassPart {
    /// Its start, in seconds from that of the run.
    pub start_s: f64,
    /// The size of the response or burst.
    pub size_bytes: u64,
    /// The time until everything was delivered.
    pub time_s: Option<f64>,
}

/// The playback of a video.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassVideo {
    /// The number of segments played.
    pub segments: u32,
    /// The time until playback started.
    pub startup_s: Option<f64>,
    /// The number of stalls.
    pub stalls: u32,
    /// The duration of all stalls.
    pub stalled_s: f64,
    /// The mean bit rate.
    pub bitrate_bps: Option<f64>,
    /// The number of changes of the bit rate.
    pub switches: u32,
}

/// A stream of datagrams.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassDatagrams {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received.
    pub received: u64,
    /// The mean one-way delay.
    pub delay_mean_s: Option<f64>,
    /// Its median.
    pub delay_p50_s: Option<f64>,
    /// Its 95th percentile.
    pub delay_p95_s: Option<f64>,
    /// Its 99th percentile.
    pub delay_p99_s: Option<f64>,
    /// The largest.
    pub delay_max_s: Option<f64>,
    /// The interarrival jitter (RFC 3550).
    pub jitter_s: Option<f64>,
}

impl ClassResult {
    pub(super) fn new(class: &TrafficClass, result: &FlowResult) -> ClassResult {
        let seconds = |span: anabranch_units::Duration| span.as_secs_f64();
        let (mut parts, mut video, mut datagrams) = (None, None, None);
        match &result.report.app {
            AppReport::Transfer => {}
            AppReport::Requests(all) => {
                let part = |one: &application::Exchange| ClassPart {
                    start_s: one.at.as_secs_f64(),
                    size_bytes: one.response,
                    time_s: one.time.map(seconds),
                };
                parts = Some(all.iter().map(part).collect());
            }
            AppReport::OnOff(all) => {
                let part = |one: &application::Burst| ClassPart {
                    start_s: one.at.as_secs_f64(),
                    size_bytes: one.bytes,
                    time_s: one.delay.map(seconds),
                };
                parts = Some(all.iter().map(part).collect());
            }
            AppReport::Video(own) => {
                video = Some(ClassVideo {
                    segments: own.segments,
                    startup_s: own.startup.map(seconds),
                    stalls: own.stalls,
                    stalled_s: seconds(own.stalled),
                    bitrate_bps: own.bitrate_bps,
                    switches: own.switches,
                });
            }
            AppReport::Datagrams(own) => {
                datagrams = Some(ClassDatagrams {
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
        ClassResult {
            traffic: class.name.clone(),
            kind: class.kind.name(),
            transport: class.via.name(),
            parts,
            video,
            datagrams,
        }
    }
}

/// Returns the congestion control of a class that does not use the contender.
pub(super) fn congestion<'a>(condition: &'a Condition, class: Option<&TrafficClass>) -> &'a str {
    match class.map(|class| class.via) {
        Some(Via::Udp(_)) => "none",
        _ => condition.plain.congestion.name(),
    }
}
