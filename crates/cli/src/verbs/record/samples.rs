//! The kernel's sockets and the subflows of a capture are the same by their addresses and times.

use anabranch_inspect::{ConnectionReport, Inspection, KernelReport, SubflowReport};
use anabranch_kernel::samples::SampledSocket;

use crate::verbs::inspect::Sampled;

/// The clock of the capture and the samples may differ by this, in seconds.
const APART: f64 = 1.0;

/// Adds the kernel's values to the subflows that this host sent on, and returns its windows.
pub(super) fn attach(inspection: &mut Inspection, sockets: Vec<SampledSocket>) -> Sampled {
    let mut sampled = Sampled::new();
    let begun = inspection.begun_unix_s;
    for socket in sockets {
        let Some(first) = socket.windows.first().map(|row| row.time.as_secs_f64()) else { continue };
        let ends = (socket.addresses.local.to_string(), socket.addresses.remote.to_string());
        let found = inspection.connections.iter_mut().find_map(|connection| {
            let number = connection.number;
            let until = begun + connection.start_s + connection.duration_s + APART;
            let (at, direction) = connection.subflows.iter().enumerate().find_map(|(at, subflow)| {
                let there = (begun + subflow.start_s - APART..until).contains(&first);
                Some((at, sends(subflow, &ends)?)).filter(|_| there)
            })?;
            Some((number, connection, at, direction))
        });
        let Some((number, connection, at, direction)) = found else { continue };
        report(connection, at, direction, &socket);
        sampled.insert((number, at, direction), socket.windows);
    }
    sampled
}

/// Returns the direction of the data that the socket with these ends sends on a subflow; none if it is on another one.
fn sends(subflow: &SubflowReport, (local, remote): &(String, String)) -> Option<usize> {
    let opened = (&subflow.from, &subflow.to) == (local, remote);
    let accepted = (&subflow.to, &subflow.from) == (local, remote);
    (opened || accepted).then_some(usize::from(opened == subflow.opened_by_server))
}

fn report(connection: &mut ConnectionReport, at: usize, direction: usize, socket: &SampledSocket) {
    let Some(subflow) = connection.subflows.get_mut(at) else { return };
    let info = &socket.info;
    let seconds = |micros: u64| micros as f64 / 1e6;
    let last = socket.windows.last();
    subflow.directions[direction & 1].kernel = Some(KernelReport {
        congestion: socket.congestion.clone(),
        samples: socket.samples,
        cwnd_p50_bytes: socket.median(|row| row.cwnd_bytes),
        cwnd_max_bytes: socket.windows.iter().filter_map(|row| row.cwnd_bytes).max(),
        ssthresh_bytes: last.and_then(|row| row.ssthresh_bytes),
        srtt_p50_s: socket.median(|row| row.srtt_us).map(seconds),
        min_rtt_s: Some(u64::from(info.min_rtt_us)).filter(|rtt| *rtt > 0).map(seconds),
        window_full_pct: (socket.active > 0).then(|| 100.0 * socket.full as f64 / socket.active as f64),
        busy_s: seconds(info.busy_us),
        receive_window_s: seconds(info.receive_window_us),
        send_buffer_s: seconds(info.send_buffer_us),
        rto_count: info.total_rto.map(u64::from),
    });
}
