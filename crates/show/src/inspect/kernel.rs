//! The values of the sender's kernel on the page of a connection.

use anabranch_inspect::{ConnectionReport, KernelReport, RttReport};
use anabranch_lab::figures::about;

use crate::table::{Align, Table, wrap_behind};

/// The least share of the time of sending that has a sentence.
const WORTH: f64 = 0.05;

/// Returns the table of the kernel's values; empty for a capture without samples.
pub(super) fn table(connection: &ConnectionReport, width: usize) -> String {
    let mut table = Table::new()
        .column("kernel", Align::Left)
        .column("data", Align::Left)
        .column("control", Align::Left)
        .column("window KB", Align::Decimal)
        .column("most", Align::Decimal)
        .optional("threshold", Align::Decimal, 3)
        .column("full %", Align::Decimal)
        .column("RTT ms", Align::Decimal)
        .optional("captured", Align::Decimal, 1)
        .optional("RTOs", Align::Right, 2);
    let mut remarks = String::new();
    let mut any = false;
    for subflow in &connection.subflows {
        for (direction, own) in subflow.directions.iter().enumerate() {
            let Some(kernel) = own.kernel.as_ref().filter(|_| own.data_segments > 0) else { continue };
            any = true;
            let to_server = (direction == 0) != subflow.opened_by_server;
            let arrow = if to_server { "->" } else { "<-" };
            table.row(row(&subflow.from, &format!("{arrow} {}", subflow.to), kernel, own.rtt));
            let limits = [
                (kernel.receive_window_s, "the receive window of the peer was full"),
                (kernel.send_buffer_s, "the send buffer was too small"),
            ];
            for (seconds, why) in limits {
                let share = seconds / kernel.busy_s.max(1e-9);
                if share >= WORTH {
                    let line =
                        format!("{}: in {:.0} % of its time of sending {why}", subflow.from, share * 100.0);
                    remarks.push_str(&wrap_behind("  ", &line, width));
                }
            }
        }
    }
    if any { table.render(width) + &remarks } else { String::new() }
}

fn row(from: &str, data: &str, kernel: &KernelReport, captured: Option<RttReport>) -> Vec<String> {
    let kilo = |bytes: Option<u64>| bytes.map_or("-".to_owned(), |bytes| about(bytes as f64 / 1e3));
    let millis = |seconds: Option<f64>| seconds.map_or("-".to_owned(), |seconds| about(seconds * 1e3));
    vec![
        from.to_owned(),
        data.to_owned(),
        kernel.congestion.clone(),
        kilo(kernel.cwnd_p50_bytes),
        kilo(kernel.cwnd_max_bytes),
        kilo(kernel.ssthresh_bytes),
        kernel.window_full_pct.map_or("-".to_owned(), |share| format!("{share:.0}")),
        millis(kernel.srtt_p50_s),
        millis(captured.map(|rtt| rtt.p50_s)),
        kernel.rto_count.map_or("-".to_owned(), |count| count.to_string()),
    ]
}
