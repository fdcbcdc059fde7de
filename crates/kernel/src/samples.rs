//! Samples of the sockets of TCP in a network namespace, taken while something else happens.
//!
//! [`record`](crate::record) makes a run directory of such samples; here they are kept for a caller that has packets too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anabranch_recording::measured::MeasuredWindow;
use anabranch_units::Time;

use crate::diag::{Diagnostics, SubflowState, TcpInfo};
use crate::error::KernelError;
use crate::pm::Subflow;
use crate::record::{Pace, differs, window};

/// The most sockets that are kept; later ones are left out.
const MAX_SOCKETS: usize = 1024;
/// The most rows of a socket; then each second one is dropped.
const MAX_ROWS: usize = 1 << 13;

/// The samples of one socket.
#[derive(Clone, Debug)]
pub struct SampledSocket {
    /// Its addresses.
    pub addresses: Subflow,
    /// The name of its congestion control.
    pub congestion: String,
    /// Its windows whenever a sample differed from the one before. Times count from 1970; flow, direction and subflow are
    /// for the caller to fill in.
    pub windows: Vec<MeasuredWindow>,
    /// The time of its last sample.
    pub ended: Time,
    /// The last sample.
    pub info: TcpInfo,
    /// The number of samples.
    pub samples: u64,
    /// Samples with data in flight.
    pub active: u64,
    /// Samples with data in flight in which the congestion window had no space for a segment.
    pub full: u64,
    /// A row is kept for each `stride` changes.
    stride: u64,
    skipped: u64,
}

/// A thread that takes samples.
pub struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<SampledSocket>, KernelError>>,
}

impl Sampler {
    /// Begins to take samples of the sockets that are opened from now on, in the network namespace of this thread.
    ///
    /// # Errors
    /// If the kernel does not show its sockets.
    pub fn start(every: Duration) -> Result<Sampler, KernelError> {
        let mut diagnostics = Diagnostics::open()?;
        let before: BTreeSet<Subflow> = diagnostics.sockets()?.iter().map(|one| one.addresses).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut samples = Samples { before, ..Samples::default() };
            let mut pace = Pace::new(every);
            while !stopped.load(Ordering::Relaxed) {
                let seen = diagnostics.sockets()?;
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                samples.add(Time(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)), &seen);
                pace.wait();
            }
            Ok(samples.sockets)
        });
        Ok(Sampler { stop, thread })
    }

    /// Ends, and returns the sockets in the order in which they were first seen.
    ///
    /// # Errors
    /// If the kernel refused a sample.
    pub fn end(self) -> Result<Vec<SampledSocket>, KernelError> {
        self.stop.store(true, Ordering::Relaxed);
        let panicked =
            || KernelError::System("cannot take samples".to_owned(), std::io::ErrorKind::Other.into());
        self.thread.join().unwrap_or_else(|_| Err(panicked()))
    }
}

#[derive(Default)]
struct Samples {
    sockets: Vec<SampledSocket>,
    /// The places of the sockets of the last sample: the addresses of one that is gone may be used again.
    present: BTreeMap<Subflow, usize>,
    /// Sockets that were there before the first sample.
    before: BTreeSet<Subflow>,
}

impl Samples {
    fn add(&mut self, now: Time, seen: &[SubflowState]) {
        let there: BTreeSet<Subflow> = seen.iter().map(|one| one.addresses).collect();
        self.present.retain(|addresses, _| there.contains(addresses));
        self.before.retain(|addresses| there.contains(addresses));
        for one in seen.iter().filter(|one| one.can_send() && !self.before.contains(&one.addresses)) {
            let sockets = &mut self.sockets;
            let known = self.present.get(&one.addresses).copied();
            let at = match known {
                Some(at) => at,
                None if sockets.len() >= MAX_SOCKETS => continue,
                None => {
                    sockets.push(SampledSocket::new(one));
                    self.present.insert(one.addresses, sockets.len() - 1);
                    sockets.len() - 1
                }
            };
            if let Some(socket) = sockets.get_mut(at) {
                socket.add(now, &one.info);
            }
        }
    }
}

impl SampledSocket {
    fn new(one: &SubflowState) -> SampledSocket {
        SampledSocket {
            addresses: one.addresses,
            congestion: one.congestion.clone(),
            windows: Vec::new(),
            ended: Time::ZERO,
            info: one.info,
            samples: 0,
            active: 0,
            full: 0,
            stride: 1,
            skipped: 0,
        }
    }

    fn add(&mut self, now: Time, info: &TcpInfo) {
        (self.ended, self.info) = (now, *info);
        self.samples += 1;
        let flight = info.in_flight();
        self.active += u64::from(flight > 0);
        self.full += u64::from(flight > 0 && flight >= info.cwnd);
        let row = window(now, info);
        if self.windows.last().is_some_and(|last| !differs(last, &row)) {
            return;
        }
        self.skipped += 1;
        if self.skipped < self.stride {
            return;
        }
        self.skipped = 0;
        if self.windows.len() >= MAX_ROWS {
            let mut keep = false;
            self.windows.retain(|_| {
                keep = !keep;
                keep
            });
            self.stride *= 2;
        }
        self.windows.push(row);
    }

    /// Returns the median over time of a value of the windows, while data was in flight.
    pub fn median(&self, value: impl Fn(&MeasuredWindow) -> Option<u64>) -> Option<u64> {
        let next = self.windows.iter().skip(1).map(|row| row.time).chain([self.ended]);
        let spans = self.windows.iter().zip(next).filter(|(row, _)| row.inflight_bytes > 0);
        let mut values: Vec<(u64, u64)> = spans
            // The last row is there for a moment at least.
            .filter_map(|(row, next)| Some((value(row)?, next.since(row.time).0.max(1))))
            .collect();
        values.sort_unstable();
        let all: u64 = values.iter().map(|(_, span)| span).sum();
        let mut before = 0;
        let found = values.iter().find(|(_, span)| {
            before += span;
            2 * before >= all
        });
        found.map(|(value, _)| *value)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::diag::SubflowFlags;

    fn socket(port: u16, cwnd: u32, unacked: u32) -> SubflowState {
        let local = SocketAddr::from(([10, 0, 0, 1], port));
        let remote = SocketAddr::from(([10, 0, 0, 2], 80));
        SubflowState {
            addresses: Subflow { local, remote },
            state: 1,
            interface: 0,
            local_id: 0,
            remote_id: 0,
            flags: SubflowFlags::default(),
            congestion: "cubic".to_owned(),
            info: TcpInfo { cwnd, unacked, snd_mss: 1000, ..TcpInfo::default() },
        }
    }

    #[test]
    fn a_socket_whose_addresses_are_used_again_is_another_one() {
        let old = socket(9, 10, 0);
        let mut samples = Samples { before: [old.addresses].into(), ..Samples::default() };
        samples.add(Time(0), &[old.clone(), socket(1, 10, 10)]);
        // Equal values have one row.
        samples.add(Time(10), &[old, socket(1, 10, 10)]);
        samples.add(Time(20), &[]);
        samples.add(Time(30), &[socket(1, 20, 0), socket(9, 10, 0)]);
        let found: Vec<_> =
            samples.sockets.iter().map(|one| (one.samples, one.windows.len(), one.full)).collect();
        assert_eq!(found, [(2, 1, 2), (1, 1, 0), (1, 1, 0)]);
    }

    #[test]
    fn the_median_is_over_the_time_with_data_in_flight() {
        let mut samples = Samples::default();
        for (at, cwnd, unacked) in [(0, 10, 5), (10, 20, 20), (30, 40, 5), (40, 90, 0), (900, 90, 0)] {
            samples.add(Time(at), &[socket(1, cwnd, unacked)]);
        }
        let one = &samples.sockets[0];
        assert_eq!(one.median(|row| row.cwnd_bytes), Some(20_000));
        assert_eq!((one.samples, one.active, one.full), (5, 3, 1));
    }

    #[test]
    fn a_long_connection_has_a_bounded_number_of_rows() {
        let mut samples = Samples::default();
        for at in 0..5 * MAX_ROWS as u64 {
            samples.add(Time(at), &[socket(1, at as u32 + 1, 1)]);
        }
        let rows = &samples.sockets[0].windows;
        assert!(rows.len() <= MAX_ROWS && rows.len() > MAX_ROWS / 4, "{}", rows.len());
        assert!(rows.is_sorted_by_key(|row| row.time) && rows.last().unwrap().time.0 > 4 * MAX_ROWS as u64);
    }
}
