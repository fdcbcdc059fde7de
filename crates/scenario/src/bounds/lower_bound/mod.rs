//! The lower bound on a flow's completion time under any schedule.
//!
//! On each path the bound follows an ideal TCP: its handshake; segments sent as soon as the window permits; a
//! window that starts at its initial value and grows by the acknowledged data (so that it at most doubles in
//! a round trip); immediate acknowledgements; transmission at the rate of the link, headers and options
//! included; and the propagation delay. The data that all paths together could have delivered by a given time
//! bounds the flow. Loss, queues of other flows, the receive window, and a threshold that ends slow start
//! only delay a real flow further.
//!
//! A duplicated packet causes a second acknowledgement, which may release one more segment (RFC 3042). On a
//! path that duplicates, each segment is therefore assumed to release three, and the packets of the handshake
//! three more. The same holds if packets may be reordered: a late packet is retransmitted, and the copy
//! causes its own acknowledgement.
//!
//! A path may have several links, and several routes of equal cost. It is then at most as fast as the slowest
//! link of its fastest route, and at least as long as the propagation delays of its nearest route. All paths
//! of a pair of hosts together carry at most the maximum flow from one to the other, so that links that paths
//! share are counted once, wherever they are.
//!
//! For a link that changes, its greatest rate and shortest round-trip time are used throughout; for a trace,
//! the maximum that it carries in any span as long as the one since the flow began to send; for a policer or a
//! shaper, its burst and its rate. Queue management and cross traffic only delay a flow.

mod service;

use std::sync::Arc;

use anabranch_link::{LinkConfigError, Trace};
use anabranch_stack::config::{DsnWidth, SimConfig};
use anabranch_stack::path_manager::PathManagerKind;
use anabranch_units::{Duration, Rate};

use crate::model::{Direction, Experiment, Link};
use service::{Envelope, Service};

/// IPv4 and TCP headers without options.
const HEADERS: u64 = 40;
/// The number of segments that are followed one by one. After them a path is assumed to be limited only by
/// its link.
const FOLLOWED: usize = 1 << 20;
/// The length of a download's request.
const REQUEST: u64 = 100;

/// The limits of the paths of a pair of hosts, computed once for all contenders.
#[derive(Clone, Debug)]
pub struct Limits {
    paths: Vec<PathLimit>,
    /// The rate of all paths together, if it is less than the sum of their rates; in bit/s.
    common: Option<Rate>,
    /// The maximum flow, if it is known.
    flow: Option<Rate>,
    initial: usize,
    direction: Direction,
    /// The number of the server's addresses.
    addresses: usize,
}

#[derive(Clone, Debug)]
struct PathLimit {
    data: Service,
    /// None for a trace: its acknowledgements may be sent immediately.
    acks: Option<Rate>,
    /// The propagation delay of the data, in nanoseconds.
    delay: u64,
    /// The propagation delay of the acknowledgements.
    back: u64,
    /// The number of segments that the arrival of one may release.
    released: u64,
}

/// A route without a known rate limit.
const UNBOUNDED: Service = Service::Rate(LinkConfigError::MAX_RATE);

/// Returns the time of `bytes`, rounded down to a nanosecond so that it remains a bound.
fn at_least(rate: Rate, bytes: u64) -> u64 {
    u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(rate.0.max(1))).unwrap_or(u64::MAX)
}

/// Returns the least time of one packet.
fn packet(rate: Option<Rate>, bytes: u64) -> u64 {
    rate.map_or(0, |rate| at_least(rate, bytes))
}

/// True if a segment may arrive twice although it was not lost.
fn has_copies(link: &Link) -> bool {
    let config = &link.config;
    config.duplicate > 0.0
        || config.reordering.is_some()
        || config.jitter.is_some_and(|jitter| jitter.reorder)
}

impl Limits {
    /// Returns the limits of the pair at the position `pair` of this experiment.
    pub fn new(experiment: &Experiment, pair: usize) -> Limits {
        let (graph, pair) = (&experiment.graph, &experiment.pairs[pair]);
        let mut envelopes: Vec<(Arc<Trace>, Arc<Envelope>)> = Vec::new();
        let mut envelope = |trace: &Arc<Trace>| {
            let known = envelopes.iter().find(|(other, _)| Arc::ptr_eq(other, trace));
            known.map(|(_, envelope)| envelope.clone()).unwrap_or_else(|| {
                let envelope = Arc::new(Envelope::new(trace));
                envelopes.push((trace.clone(), envelope.clone()));
                envelope
            })
        };
        // The rate of the slowest link on the fastest route; none if a link has a trace.
        let rate = |routes: &[Vec<usize>]| {
            let slowest = |route: &Vec<usize>| {
                let rates = route.iter().map(|&link| graph.links[link].greatest_rate());
                rates.collect::<Option<Vec<Rate>>>()?.into_iter().min()
            };
            routes.iter().map(slowest).collect::<Option<Vec<Rate>>>()?.into_iter().max()
        };
        let delay = |routes: &[Vec<usize>]| {
            let of = |route: &Vec<usize>| {
                route.iter().map(|&link| graph.links[link].least_rtt().0).sum::<u64>() / 2
            };
            routes.iter().map(of).min().unwrap_or(0)
        };
        let paths: Vec<PathLimit> = pair
            .paths
            .iter()
            .map(|path| {
                let mut traced = |route: &Vec<usize>| {
                    let mut links = route.iter().map(|&link| &graph.links[link].config);
                    links.find_map(|config| Service::traced(config, &mut envelope))
                };
                let data = match (rate(&path.data), path.data.as_slice()) {
                    (Some(rate), [only]) => {
                        Service::limited(rate, only.iter().map(|&link| &graph.links[link].config))
                    }
                    (Some(rate), _) => Service::Rate(rate),
                    (None, [only]) => traced(only).unwrap_or(UNBOUNDED),
                    (None, _) => UNBOUNDED,
                };
                let copies =
                    path.data.iter().chain(&path.acks).flatten().any(|&link| has_copies(&graph.links[link]));
                PathLimit {
                    data,
                    acks: rate(&path.acks),
                    delay: delay(&path.data),
                    back: delay(&path.acks),
                    released: if copies { 3 } else { 2 },
                }
            })
            .collect();
        let flow = Some(graph.max_flow(pair, Link::greatest_rate)).filter(|flow| *flow < u64::MAX).map(Rate);
        let apart = paths.iter().map(|path| path.data.rate().map_or(u64::MAX, |rate| rate.0));
        let apart = apart.fold(0, u64::saturating_add);
        Limits {
            paths,
            common: flow.filter(|flow| flow.0 < apart),
            flow,
            initial: experiment.initial.min(pair.paths.len().saturating_sub(1)),
            direction: experiment.traffic.direction,
            // A host that only listens has one address, unless the scenario gives it more.
            addresses: experiment
                .pairs
                .iter()
                .find(|other| other.client == pair.server)
                .map_or(1, |other| other.paths.len())
                .max(experiment.endpoints.as_ref().map_or(1, |endpoints| endpoints.servers.len())),
        }
    }

    /// Shortens each path's delay by its own duration, which some run may have.
    pub fn shorten(&mut self, by: impl Iterator<Item = Duration>) {
        for (path, by) in self.paths.iter_mut().zip(by) {
            path.delay = path.delay.saturating_sub(by.0);
            path.back = path.back.saturating_sub(by.0);
        }
    }

    /// Lengthens each path's delay by its own duration.
    pub(crate) fn lengthen(&mut self, by: impl Iterator<Item = Duration>) {
        for (path, by) in self.paths.iter_mut().zip(by) {
            path.delay = path.delay.saturating_add(by.0);
            path.back = path.back.saturating_add(by.0);
        }
    }

    /// Returns the rate at which all paths together carry payload in full segments of this configuration, in
    /// bit/s: the sum of their greatest rates, or the mean rates of traces, without the headers.
    pub fn ideal_goodput_bps(&self, config: &SimConfig) -> f64 {
        let wire = Wire::new(config);
        let sum: f64 = self.paths.iter().map(|path| path.data.mean_bps()).sum();
        let sum = self.common.map_or(sum, |common| sum.min(common.as_bps_f64()));
        sum * wire.mss as f64 / (wire.mss + wire.data) as f64
    }

    /// Returns the bound for connections of this configuration over all paths, with the initial subflow on
    /// the experiment's initial path.
    pub fn all_paths(&self, config: &SimConfig) -> LowerBound {
        let everything = 0..self.paths.len();
        // The number of subflows that one interface may have: to each address of the server, or between two
        // addresses.
        let subflows = match config.path_manager {
            PathManagerKind::NDiffPorts(count) => usize::from(count.max(1)),
            _ => self.addresses,
        };
        let mut bound = self.bound(config, everything, None);
        if subflows > 1 {
            let wire = Wire::new(config);
            for (path, limit) in self.paths.iter().enumerate() {
                let start = self.earliest(config, |initial| self.join_start(config, &wire, path, initial));
                let further = (1..subflows).map(|_| Curve::new(limit, start, config, &wire));
                bound.curves.extend(further);
            }
            bound.common = self.flow;
        }
        bound
    }

    /// Returns the length of the headers and options of a data segment with a mapping, in bytes.
    pub(crate) fn headers(config: &SimConfig) -> u32 {
        Wire::new(config).data as u32
    }

    /// Returns the bound for connections of this configuration over a single path.
    pub fn one_path(&self, config: &SimConfig, path: usize) -> LowerBound {
        self.bound(config, path..path + 1, Some(path))
    }

    /// Returns the bound over some paths, with the initial subflow on `initial` or on the path of the experiment.
    fn bound(
        &self,
        config: &SimConfig,
        which: core::ops::Range<usize>,
        initial: Option<usize>,
    ) -> LowerBound {
        let wire = Wire::new(config);
        let curves: Vec<Curve> = which
            .map(|path| {
                let limit = &self.paths[path];
                let start = |initial| self.start(config, &wire, path, initial);
                let start = initial.map_or_else(|| self.earliest(config, start), start);
                Curve::new(limit, start, config, &wire)
            })
            .collect();
        LowerBound { curves, common: self.common, wire }
    }

    /// Returns the time that `start` returns for the initial path, in nanoseconds; in a race, the least for any path that
    /// may win, which begins later than the first one.
    fn earliest(&self, config: &SimConfig, start: impl Fn(usize) -> u64) -> u64 {
        let first = start(self.initial);
        let Some(delay) = config.race.filter(|_| config.mptcp) else { return first };
        let others = (0..self.paths.len()).filter(|path| *path != self.initial);
        others.map(|path| start(path).saturating_add(delay.0)).fold(first, u64::min)
    }

    /// Returns the time that packets of these lengths take over `path`, from the client and back.
    fn trip(&self, path: usize, forth: u64, back: u64) -> u64 {
        let limit = &self.paths[path];
        // Upload: the SYN has the direction of the data. Download: the direction of the acknowledgements.
        let (there, here) = match self.direction {
            Direction::Upload => (limit.data.rate(), limit.acks),
            Direction::Download => (limit.acks, limit.data.rate()),
        };
        limit.delay + limit.back + packet(there, forth) + packet(here, back)
    }

    /// Returns the time when data can first be sent on `path`, in nanoseconds from the flow's start.
    fn start(&self, config: &SimConfig, wire: &Wire, path: usize, initial: usize) -> u64 {
        if path != initial {
            return self.join_start(config, wire, path, initial);
        }
        match self.direction {
            Direction::Upload => self.trip(path, wire.syn, wire.syn_ack),
            Direction::Download => self.request(config, wire, initial),
        }
    }

    /// Returns the time when data can first be sent on an additional subflow over `path`.
    fn join_start(&self, config: &SimConfig, wire: &Wire, path: usize, initial: usize) -> u64 {
        let connected = self.trip(initial, wire.syn, wire.syn_ack);
        let limit = &self.paths[path];
        match (self.direction, config.only.simultaneous) {
            (Direction::Upload, true) => self.trip(path, wire.syn, wire.syn_ack),
            // RFC 8684 section 3.2: the client may send after the fourth ACK.
            (Direction::Upload, false) => {
                let joined = self.trip(path, wire.join_syn, wire.join_syn_ack);
                connected + joined + self.trip(path, wire.join_ack, wire.ack)
            }
            // The server sends once it has the request, and the third ACK of the join has arrived.
            (Direction::Download, true) => self.request(config, wire, initial).max(limit.back),
            (Direction::Download, false) => {
                let ready = connected + self.trip(path, wire.join_syn, wire.join_syn_ack) + limit.back;
                self.request(config, wire, initial).max(ready)
            }
        }
    }

    /// Returns the time when the server has the request of a download.
    fn request(&self, config: &SimConfig, wire: &Wire, initial: usize) -> u64 {
        let over = |path: usize| {
            let limit = &self.paths[path];
            let sent = self.trip(path, wire.syn, wire.syn_ack);
            sent + limit.back + packet(limit.acks, wire.data + REQUEST)
        };
        match config.only.simultaneous {
            true => (0..self.paths.len()).map(over).min().unwrap_or(0),
            false => over(initial),
        }
    }
}

/// The lengths of packets on the wire, in bytes.
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
    fn new(config: &SimConfig) -> Wire {
        let timestamps = if config.timestamps { 12 } else { 0 };
        // MSS and window scale; SACK-permitted shares its padding with the timestamps.
        let syn = HEADERS + 8 + timestamps + if config.sack && !config.timestamps { 4 } else { 0 };
        let plain = HEADERS + timestamps;
        // RFC 8684 section 3.3: four bytes, a data ACK or a DSN of 4 or 8, and 6 for the mapping; the whole
        // padded to a multiple of four. The bound counts only a mapping.
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
    /// Returns the least completion time of a flow of `size` bytes.
    pub fn completion(&mut self, size: u64) -> Duration {
        if size == 0 {
            return Duration::ZERO;
        }
        for curve in &mut self.curves {
            curve.extend(size);
        }
        // Delivered data grows with time, so the least time is found by bisection.
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

    /// Returns the maximum payload that all paths can have delivered `at` nanoseconds after the start.
    fn delivered(&self, at: u64) -> u64 {
        let sum = self.curves.iter().map(|curve| curve.delivered(at)).fold(0, u64::saturating_add);
        let Some(rate) = self.common else { return sum };
        // The shared link starts with the first path that may send.
        let first = self.curves.iter().map(|curve| curve.start + curve.delay).min().unwrap_or(0);
        let bytes = rate.bytes_in(Duration(at.saturating_sub(first)));
        let full = self.wire.mss + self.wire.data;
        let rest = (bytes % full).saturating_sub(self.wire.data);
        sum.min(bytes / full * self.wire.mss + rest)
    }
}

/// The maximum delivery of one path.
#[derive(Clone, Debug)]
struct Curve {
    service: Service,
    start: u64,
    delay: u64,
    /// The time from the arrival of a segment to the arrival of its acknowledgement.
    ack: u64,
    initial_window: u64,
    released: u64,
    mss: u64,
    headers: u64,
    /// The earliest start of each segment's transmission: the window permits it, and the one before it has
    /// been sent.
    begins: Vec<u64>,
    /// The end of each segment's transmission.
    leaves: Vec<u64>,
    /// True once all further segments are sent without a gap.
    steady: bool,
    /// The first segment since which there is no gap.
    busy_since: usize,
}

impl Curve {
    fn new(limit: &PathLimit, start: u64, config: &SimConfig, wire: &Wire) -> Curve {
        Curve {
            service: limit.data.clone(),
            start,
            delay: limit.delay,
            ack: packet(limit.acks, wire.ack) + limit.back,
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
                    // Acknowledgements now arrive at the rate of the link, and each releases two segments.
                    self.steady = clock.is_some_and(|acked| acked > self.busy_since);
                }
                limited => {
                    let served = self.start.saturating_add(limited.least_span((index as u64 + 1) * full));
                    self.leaves.push(begins.max(served));
                }
            }
            self.steady |= self.leaves.len() >= FOLLOWED;
        }
    }

    /// Returns the maximum payload that can have arrived by `at`.
    fn delivered(&self, at: u64) -> u64 {
        let Some(left) = at.checked_sub(self.delay) else { return 0 };
        let whole = self.leaves.partition_point(|leaves| *leaves <= left);
        let full = self.mss + self.headers;
        if whole < self.leaves.len() {
            if self.begins[whole] > left {
                return whole as u64 * self.mss;
            }
            // The remaining data of the flow may be a part of a segment.
            let bytes = match &self.service {
                Service::Rate(rate) => rate.bytes_in(Duration(left - self.begins[whole])),
                limited => {
                    limited.most_service(left.saturating_sub(self.start)).saturating_sub(whole as u64 * full)
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
            (Service::Rate(_), None) => 0,
            (limited, _) => {
                limited.most_service(left.saturating_sub(self.start)).saturating_sub(whole as u64 * full)
            }
        };
        base + bytes / full * self.mss + (bytes % full).saturating_sub(self.headers)
    }
}

#[cfg(test)]
mod tests;
