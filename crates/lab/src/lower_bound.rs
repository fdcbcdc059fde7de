//! How soon a flow could have ended under any schedule.
//!
//! On each path the bound follows an ideal TCP: its handshake, then segments that leave as soon as
//! the window lets them, a window that starts at its initial value and grows by what is acknowledged
//! (so that it at most doubles in a round trip), every acknowledgement at once, one segment after
//! the other at the rate of the link, headers and options counted, and the propagation delay. What
//! all paths together could have delivered by a time bounds the flow. Loss, queues filled by others,
//! the receive window, and a threshold that ends slow start only delay a real flow further.
//!
//! A duplicated packet calls forth a second acknowledgement, and that may release one more segment
//! (RFC 3042); so on a path that duplicates, each segment is taken to release three, and the packets
//! of the handshake three more. The same holds where packets may overtake one another: what is late is sent
//! again for lost, and the copy calls forth an acknowledgement of its own.
//!
//! For a path that changes, its greatest rate and shortest round trip count all the time; for a
//! trace, the most that it carries in any span as long as the one since the flow began to send.

use std::sync::Arc;

use anabranch_link::Trace;
use anabranch_stack::config::{ConnectionConfig, DsnWidth};
use anabranch_units::{Duration, Rate};

use crate::scenario::{Capacity, Direction, Experiment, Jitter, Path};

/// IPv4 and TCP headers without options.
const HEADERS: u64 = 40;
/// So many segments are followed one by one; after them a path is taken to be limited by its link alone.
const FOLLOWED: usize = 1 << 20;
/// The request of a download.
const REQUEST: u64 = 100;

/// What the paths of an experiment can do at best; made once and used for all contenders.
#[derive(Clone, Debug)]
pub struct Limits {
    paths: Vec<PathLimit>,
    common: Option<Rate>,
    initial: usize,
    direction: Direction,
}

#[derive(Clone, Debug)]
struct PathLimit {
    data: Service,
    /// None for a trace, whose acknowledgements may leave at once.
    acks: Option<Rate>,
    /// Half the round trip.
    delay: u64,
    /// How many segments the arrival of one may release.
    released: u64,
}

#[derive(Clone, Debug)]
enum Service {
    Rate(Rate),
    Trace(Arc<Envelope>),
}

impl Service {
    fn rate(&self) -> Option<Rate> {
        match self {
            Service::Rate(rate) => Some(*rate),
            Service::Trace(_) => None,
        }
    }
}

/// The time of so many bytes, rounded down to a nanosecond, so that a bound stays one.
fn at_least(rate: Rate, bytes: u64) -> u64 {
    u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(rate.0.max(1))).unwrap_or(u64::MAX)
}

/// The time that one packet takes at least.
fn packet(rate: Option<Rate>, bytes: u64) -> u64 {
    rate.map_or(0, |rate| at_least(rate, bytes))
}

/// Whether a segment may arrive twice although it was not lost.
fn has_copies(path: &Path) -> bool {
    let overtakes = match path.jitter {
        Some(Jitter::Uniform { reorder, .. } | Jitter::Normal { reorder, .. }) => reorder,
        None => false,
    };
    path.duplicate > 0.0 || path.reorder.is_some() || overtakes
}

impl Limits {
    /// Of this experiment.
    pub fn new(experiment: &Experiment) -> Limits {
        let mut envelopes: Vec<(Arc<Trace>, Arc<Envelope>)> = Vec::new();
        let mut service = |capacity: &Capacity, path: &Path| match capacity {
            Capacity::Rate(_) => {
                let rate = path.greatest_rate();
                Service::Rate(experiment.common.as_ref().map_or(rate, |common| common.rate.min(rate)))
            }
            Capacity::Trace(file) => {
                let known = envelopes.iter().find(|(trace, _)| Arc::ptr_eq(trace, &file.trace));
                let envelope = known.map(|(_, envelope)| envelope.clone()).unwrap_or_else(|| {
                    let envelope = Arc::new(Envelope::new(&file.trace));
                    envelopes.push((file.trace.clone(), envelope.clone()));
                    envelope
                });
                Service::Trace(envelope)
            }
        };
        let common = experiment.common.as_ref();
        let paths = experiment.paths.iter().map(|path| {
            let rtt = path.changes.iter().filter_map(|change| change.rtt).fold(path.rtt, Duration::min);
            PathLimit {
                data: service(&path.down, path),
                acks: match path.up {
                    Capacity::Rate(_) => {
                        let rate = path.greatest_rate();
                        Some(common.map_or(rate, |common| common.rate.min(rate)))
                    }
                    Capacity::Trace(_) => None,
                },
                delay: (rtt + common.map_or(Duration::ZERO, |common| common.rtt)).0 / 2,
                released: if has_copies(path) { 3 } else { 2 },
            }
        });
        Limits {
            paths: paths.collect(),
            common: common.map(|common| common.rate),
            initial: experiment.initial,
            direction: experiment.traffic.direction,
        }
    }

    /// The same with each path's delay shorter by its own span, which some run may have.
    pub fn shorten(&mut self, by: impl Iterator<Item = Duration>) {
        for (path, by) in self.paths.iter_mut().zip(by) {
            path.delay = path.delay.saturating_sub(by.0);
        }
    }

    /// The rate at which all paths together carry payload in full segments of this configuration,
    /// in bit/s: their greatest rates, or the mean rates of traces, without the headers.
    pub fn ideal_goodput_bps(&self, config: &ConnectionConfig) -> f64 {
        let wire = Wire::new(config);
        let rate = |path: &PathLimit| match &path.data {
            Service::Rate(rate) => rate.as_bps_f64(),
            Service::Trace(envelope) => envelope.bytes_per_period as f64 * 8e9 / envelope.period as f64,
        };
        let sum: f64 = self.paths.iter().map(rate).sum();
        let sum = self.common.map_or(sum, |common| sum.min(common.as_bps_f64()));
        sum * wire.mss as f64 / (wire.mss + wire.data) as f64
    }

    /// The bound for connections of this configuration over all paths, the initial subflow on the
    /// experiment's initial path.
    pub fn all_paths(&self, config: &ConnectionConfig) -> LowerBound {
        let everything: Vec<usize> = (0..self.paths.len()).collect();
        self.bound(config, &everything, self.initial)
    }

    /// The headers and options of a data segment with a mapping, in bytes.
    pub(crate) fn headers(config: &ConnectionConfig) -> u32 {
        Wire::new(config).data as u32
    }

    /// The bound for connections of this configuration over one path alone.
    pub fn one_path(&self, config: &ConnectionConfig, path: usize) -> LowerBound {
        self.bound(config, &[path], path)
    }

    fn bound(&self, config: &ConnectionConfig, which: &[usize], initial: usize) -> LowerBound {
        let wire = Wire::new(config);
        let curves: Vec<Curve> = which
            .iter()
            .map(|&path| {
                let limit = &self.paths[path];
                let start = self.start(config, &wire, path, initial);
                Curve::new(limit, start, config, &wire)
            })
            .collect();
        LowerBound { curves, common: self.common, wire }
    }

    /// When data can first be sent on `path`, in nanoseconds from the flow's start.
    fn start(&self, config: &ConnectionConfig, wire: &Wire, path: usize, initial: usize) -> u64 {
        // Upload: the SYN goes with the data. Download: it goes with the acknowledgements.
        let trip = |path: usize, forth: u64, back: u64| {
            let limit = &self.paths[path];
            let (there, here) = match self.direction {
                Direction::Upload => (limit.data.rate(), limit.acks),
                Direction::Download => (limit.acks, limit.data.rate()),
            };
            2 * limit.delay + packet(there, forth) + packet(here, back)
        };
        let connected = trip(initial, wire.syn, wire.syn_ack);
        let own = if path == initial {
            connected
        } else if config.simultaneous {
            trip(path, wire.syn, wire.syn_ack)
        } else {
            // RFC 8684 section 3.2: the client may send after the fourth ACK.
            connected + trip(path, wire.join_syn, wire.join_syn_ack) + trip(path, wire.join_ack, wire.ack)
        };
        match self.direction {
            Direction::Upload => own,
            Direction::Download => {
                // The server sends when it has the request, and when the third ACK of the join has come.
                let request = |path: usize| {
                    let limit = &self.paths[path];
                    trip(path, wire.syn, wire.syn_ack) + limit.delay + packet(limit.acks, wire.data + REQUEST)
                };
                let request = match config.simultaneous {
                    true => (0..self.paths.len()).map(request).min().unwrap_or(0),
                    false => request(initial),
                };
                let limit = &self.paths[path];
                let ready = match (path == initial, config.simultaneous) {
                    (true, _) => 0,
                    (false, true) => limit.delay,
                    (false, false) => connected + trip(path, wire.join_syn, wire.join_syn_ack) + limit.delay,
                };
                request.max(ready)
            }
        }
    }
}

/// The lengths of packets, in bytes on the wire.
#[derive(Clone, Copy, Debug)]
struct Wire {
    syn: u64,
    syn_ack: u64,
    join_syn: u64,
    join_syn_ack: u64,
    join_ack: u64,
    ack: u64,
    /// Headers of a data segment.
    data: u64,
    /// Payload of a full segment.
    mss: u64,
}

impl Wire {
    fn new(config: &ConnectionConfig) -> Wire {
        let timestamps = if config.timestamps { 12 } else { 0 };
        // MSS and window scale; SACK-permitted shares its padding with the timestamps.
        let syn = HEADERS + 8 + timestamps + if config.sack && !config.timestamps { 4 } else { 0 };
        let plain = HEADERS + timestamps;
        // RFC 8684 section 3.3: four bytes, a data ACK or a DSN of 4 or 8, and 6 for the mapping; the
        // whole padded to a multiple of four. The bound counts a mapping alone.
        let (dss_ack, dss_map) = match (config.mptcp, config.dsn_width) {
            (false, _) => (0, 0),
            (true, DsnWidth::Wide) => (12, 20),
            (true, DsnWidth::Narrow) => (8, 16),
        };
        let option = |bytes: u64| if config.mptcp { bytes } else { 0 };
        let data = plain + dss_map;
        Wire {
            syn: syn + option(4),
            syn_ack: syn + option(12),
            join_syn: syn + option(12),
            join_syn_ack: syn + option(16),
            join_ack: plain + option(24),
            ack: plain + dss_ack,
            data,
            mss: u64::from(config.mss).min(u64::from(config.mtu).saturating_sub(data)).max(1),
        }
    }
}

/// A lower bound on the completion times of flows, by their size.
#[derive(Clone, Debug)]
pub struct LowerBound {
    curves: Vec<Curve>,
    common: Option<Rate>,
    wire: Wire,
}

impl LowerBound {
    /// No flow of `size` bytes ends sooner than this after its start.
    pub fn completion(&mut self, size: u64) -> Duration {
        if size == 0 {
            return Duration::ZERO;
        }
        for curve in &mut self.curves {
            curve.extend(size);
        }
        // What is delivered grows with time: the least time is found by halving.
        let (mut low, mut high) = (0, 1 << 20);
        while self.delivered(high) < size {
            low = high;
            high = match high.checked_mul(2) {
                Some(high) => high,
                None => return Duration::MAX,
            };
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.delivered(middle) < size { low = middle } else { high = middle }
        }
        Duration(high)
    }

    /// The most payload that all paths can have delivered `at` nanoseconds after the start.
    fn delivered(&self, at: u64) -> u64 {
        let sum = self.curves.iter().map(|curve| curve.delivered(at)).fold(0, u64::saturating_add);
        let Some(rate) = self.common else { return sum };
        // What all have in common begins when the first of them may send.
        let first = self.curves.iter().map(|curve| curve.start + curve.delay).min().unwrap_or(0);
        let bytes = rate.bytes_in(Duration(at.saturating_sub(first)));
        let full = self.wire.mss + self.wire.data;
        let rest = (bytes % full).saturating_sub(self.wire.data);
        sum.min(bytes / full * self.wire.mss + rest)
    }
}

/// What one path can deliver.
#[derive(Clone, Debug)]
struct Curve {
    service: Service,
    start: u64,
    delay: u64,
    /// From the arrival of a segment to that of its acknowledgement.
    ack: u64,
    initial_window: u64,
    released: u64,
    mss: u64,
    headers: u64,
    /// When each segment may begin to be sent: the window lets it, and the one before it has left.
    begins: Vec<u64>,
    /// When each segment has left, whole.
    leaves: Vec<u64>,
    /// From the last segment on they leave one behind the other for ever.
    steady: bool,
    /// The first segment since which they leave one behind the other.
    busy_since: usize,
}

impl Curve {
    fn new(limit: &PathLimit, start: u64, config: &ConnectionConfig, wire: &Wire) -> Curve {
        Curve {
            service: limit.data.clone(),
            start,
            delay: limit.delay,
            ack: packet(limit.acks, wire.ack) + limit.delay,
            initial_window: u64::from(config.initial_window.max(1)) + if limit.released > 2 { 3 } else { 0 },
            released: limit.released,
            mss: wire.mss,
            headers: wire.data,
            begins: Vec::new(),
            leaves: Vec::new(),
            steady: false,
            busy_since: 0,
        }
    }

    /// Computes segments until they have `size` bytes.
    fn extend(&mut self, size: u64) {
        let full = self.mss + self.headers;
        while !self.steady && (self.leaves.len() as u64) * self.mss < size {
            let index = self.leaves.len();
            // With j segments acknowledged the window is IW + j, so IW + 2 j may have been sent.
            let clock = (index as u64).checked_sub(self.initial_window).map(|n| (n / self.released) as usize);
            let allowed =
                clock.map_or(self.start, |acked| self.leaves[acked].saturating_add(self.delay + self.ack));
            let before = self.leaves.last().copied().unwrap_or(self.start);
            let begins = allowed.max(before);
            if allowed > before {
                self.busy_since = index;
            }
            self.begins.push(begins);
            match &self.service {
                Service::Rate(rate) => {
                    self.leaves.push(begins.saturating_add(at_least(*rate, full)));
                    // Acknowledgements now come at the rate of the link, and each releases two segments.
                    self.steady = clock.is_some_and(|acked| acked > self.busy_since);
                }
                Service::Trace(envelope) => {
                    let served = self.start.saturating_add(envelope.least_span((index as u64 + 1) * full));
                    self.leaves.push(begins.max(served));
                }
            }
            self.steady |= self.leaves.len() >= FOLLOWED;
        }
    }

    /// The most payload that can have arrived by `at`.
    fn delivered(&self, at: u64) -> u64 {
        let Some(left) = at.checked_sub(self.delay) else { return 0 };
        let whole = self.leaves.partition_point(|leaves| *leaves <= left);
        let full = self.mss + self.headers;
        if whole < self.leaves.len() {
            if self.begins[whole] > left {
                return whole as u64 * self.mss;
            }
            // A part of a segment may be all that the flow still has to send.
            let bytes = match &self.service {
                Service::Rate(rate) => rate.bytes_in(Duration(left - self.begins[whole])),
                Service::Trace(envelope) => {
                    envelope.most_service(left.saturating_sub(self.start)).saturating_sub(whole as u64 * full)
                }
            };
            return whole as u64 * self.mss + bytes.saturating_sub(self.headers).min(self.mss);
        }
        let base = whole as u64 * self.mss;
        if !self.steady {
            return base;
        }
        let bytes = match (&self.service, self.leaves.last()) {
            (Service::Rate(rate), Some(last)) => rate.bytes_in(Duration(left - last)),
            (Service::Trace(envelope), _) => {
                envelope.most_service(left.saturating_sub(self.start)).saturating_sub(whole as u64 * full)
            }
            (Service::Rate(_), None) => 0,
        };
        base + bytes / full * self.mss + (bytes % full).saturating_sub(self.headers)
    }
}

/// How much a trace carries at most in a span of each length.
#[derive(Clone, Debug)]
struct Envelope {
    /// Spans in nanoseconds, ascending, and the most bytes of any such span.
    points: Vec<(u64, u64)>,
    period: u64,
    bytes_per_period: u64,
}

impl Envelope {
    fn new(trace: &Trace) -> Envelope {
        let period = trace.period().0;
        // Every millisecond at first, then steps of 8 %: a lower bound may be a little too low.
        let mut points = Vec::new();
        let mut span = 0;
        while span < period {
            points.push((span, trace.max_service(Duration(span))));
            span += 1_000_000.max(span / 12 / 1_000_000 * 1_000_000);
        }
        Envelope { points, period, bytes_per_period: trace.opportunities() as u64 * Trace::OPPORTUNITY_BYTES }
    }

    /// At most so many bytes in any span of this length.
    fn most_service(&self, span: u64) -> u64 {
        let (periods, rest) = (span / self.period, span % self.period);
        // The next point up: never too little.
        let next = self.points.partition_point(|point| point.0 < rest);
        let bytes = self.points.get(next).map_or(self.bytes_per_period, |point| point.1);
        bytes.saturating_add(periods.saturating_mul(self.bytes_per_period))
    }

    /// Every span that carries `bytes` is at least so long.
    fn least_span(&self, bytes: u64) -> u64 {
        // A whole period carries the same wherever it starts.
        let periods = bytes.saturating_sub(1) / self.bytes_per_period;
        let rest = bytes - periods * self.bytes_per_period;
        let enough = self.points.partition_point(|point| point.1 < rest);
        let span = enough.checked_sub(1).map_or(0, |before| self.points[before].0);
        periods.saturating_mul(self.period).saturating_add(span)
    }
}

#[cfg(test)]
#[path = "lower_bound_tests.rs"]
mod tests;
