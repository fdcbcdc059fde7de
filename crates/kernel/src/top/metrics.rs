//! Metrics in the text format of Prometheus, version 0.0.4.

use std::fmt::Write as _;

use super::{ConnectionRow, Sample, SubflowRow};

/// A metric of each subflow.
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: fn(&SubflowRow) -> Option<f64>,
}

fn seconds(us: Option<u32>) -> Option<f64> {
    us.map(|us| f64::from(us) / 1e6)
}

const METRICS: [Metric; 11] = [
    Metric {
        name: "sent_bytes_total",
        kind: "counter",
        help: "Payload sent, retransmissions included",
        value: |row| Some(row.sent_bytes as f64),
    },
    Metric {
        name: "received_bytes_total",
        kind: "counter",
        help: "Payload received",
        value: |row| Some(row.received_bytes as f64),
    },
    Metric {
        name: "retransmitted_bytes_total",
        kind: "counter",
        help: "Payload retransmitted",
        value: |row| Some(row.retransmitted_bytes as f64),
    },
    Metric {
        name: "timeouts_total",
        kind: "counter",
        help: "Retransmission timeouts",
        value: |row| row.rto_count.map(f64::from),
    },
    Metric {
        name: "srtt_seconds",
        kind: "gauge",
        help: "Smoothed round-trip time",
        value: |row| seconds(row.srtt_us),
    },
    Metric {
        name: "min_rtt_seconds",
        kind: "gauge",
        help: "Minimum round-trip time",
        value: |row| seconds(row.min_rtt_us),
    },
    Metric {
        name: "cwnd_bytes",
        kind: "gauge",
        help: "Congestion window",
        value: |row| Some(row.cwnd_bytes as f64),
    },
    Metric {
        name: "inflight_bytes",
        kind: "gauge",
        help: "Bytes in flight",
        value: |row| Some(row.inflight_bytes as f64),
    },
    Metric {
        name: "notsent_bytes",
        kind: "gauge",
        help: "Bytes in the queue of the subflow",
        value: |row| Some(f64::from(row.notsent_bytes)),
    },
    Metric {
        name: "delivery_bits_per_second",
        kind: "gauge",
        help: "The kernel's rate of delivery",
        value: |row| Some(row.delivery_bps as f64),
    },
    Metric {
        name: "backup",
        kind: "gauge",
        help: "1 if the scheduler uses the subflow as a backup",
        value: |row| Some(f64::from(u8::from(row.backup))),
    },
];

/// Returns a text as the value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl Sample {
    /// Returns the sample as the text that Prometheus reads.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let fallbacks = self.connections.iter().filter(|connection| connection.fallback).count();
        writeln!(text, "# HELP anabranch_connections Connections of Multipath TCP")?;
        writeln!(text, "# TYPE anabranch_connections gauge")?;
        writeln!(text, "anabranch_connections{{fallback=\"no\"}} {}", self.connections.len() - fallbacks)?;
        writeln!(text, "anabranch_connections{{fallback=\"yes\"}} {fallbacks}")?;
        writeln!(text, "# HELP anabranch_unsent_bytes Bytes written that no subflow has got")?;
        writeln!(text, "# TYPE anabranch_unsent_bytes gauge")?;
        for connection in &self.connections {
            writeln!(text, "anabranch_unsent_bytes{{{}}} {}", of(connection), connection.unsent_bytes)?;
        }
        for metric in &METRICS {
            writeln!(text, "# HELP anabranch_subflow_{} {}", metric.name, metric.help)?;
            writeln!(text, "# TYPE anabranch_subflow_{} {}", metric.name, metric.kind)?;
            for connection in &self.connections {
                for subflow in &connection.subflows {
                    let Some(value) = (metric.value)(subflow) else { continue };
                    let interface = label(subflow.interface.as_deref().unwrap_or(""));
                    writeln!(
                        text,
                        "anabranch_subflow_{}{{{},interface=\"{interface}\",local=\"{}\",remote=\"{}\",\
                         congestion=\"{}\"}} {value}",
                        metric.name,
                        of(connection),
                        subflow.local,
                        subflow.remote,
                        label(&subflow.congestion),
                    )?;
                }
            }
        }
        Ok(())
    }
}

fn of(connection: &ConnectionRow) -> String {
    format!("token=\"{}\"", connection.token)
}
