//! The report of a run.

use anabranch_lab::scenario::Tariff;
use anabranch_link::{Counters, Tally};
use anabranch_units::Duration;
use serde::Serialize;

use crate::engine::{EngineReport, LaneTotals, LinkTotals, MiddleboxTotals};
use crate::lateness::Lateness;
use crate::wiring::Lane;

/// The bounds beyond which a run is unreliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The largest 99th percentile of lateness, in either direction.
    pub p99: Duration,
    /// The largest fraction, in millionths, of packets that were lost outside of the links.
    pub lost_ppm: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { p99: Duration::from_millis(3), lost_ppm: 0 }
    }
}

/// The report of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The duration of the run, in seconds.
    pub elapsed_s: f64,
    /// True if the thread of the engine had real-time priority.
    pub realtime: bool,
    /// True if the processors were kept from sleeping.
    pub awake: bool,
    /// True if packets were punctual, and only links lost packets.
    pub reliable: bool,
    /// The reasons why it is not reliable.
    pub unreliable_because: Vec<String>,
    /// The lateness of packets from the client.
    pub lateness_up: LatenessReport,
    /// The lateness of packets from the server.
    pub lateness_down: LatenessReport,
    /// The paths, in the order of the scenario.
    pub paths: Vec<PathReport>,
    /// Links that several paths share.
    pub shared: Vec<LinkReport>,
    /// The middleboxes of paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub middleboxes: Vec<MiddleboxReport>,
}

/// The report of the middlebox of a path.
#[derive(Clone, Debug, Serialize)]
pub struct MiddleboxReport {
    /// The path that the middlebox is on.
    pub path: String,
    /// Segments that lost their options of Multipath TCP.
    pub stripped: u64,
    /// SYNs with a lowered MSS.
    pub clamped: u64,
    /// Segments dropped because the NAT had no entry for their connection.
    pub dropped: u64,
    /// Dropped packets that were answered by a reset.
    pub resets: u64,
}

impl From<&MiddleboxTotals> for MiddleboxReport {
    fn from(totals: &MiddleboxTotals) -> MiddleboxReport {
        let counters = &totals.counters;
        MiddleboxReport {
            path: totals.path.clone(),
            stripped: counters.stripped,
            clamped: counters.clamped,
            dropped: counters.dropped,
            resets: counters.resets,
        }
    }
}

/// The packets of one path in both directions.
#[derive(Clone, Debug, Serialize)]
pub struct PathReport {
    /// The name of the path in the scenario.
    pub path: String,
    /// From the client to the server.
    pub up: DirectionReport,
    /// From the server to the client.
    pub down: DirectionReport,
    /// The cost of the data that the client sent and received; none without a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// True if that data exceeds a quota; none without a quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_quota: Option<bool>,
}

/// A path of the scenario: its name, and its price and quotas.
pub(crate) type Named = (String, Tariff);

/// The report of one direction of a path.
#[derive(Clone, Debug, Serialize)]
pub struct DirectionReport {
    /// Packets delivered to the host at its end.
    pub carried_packets: u64,
    /// Their bytes, with IP headers.
    pub carried_bytes: u64,
    /// Packets lost in the queue of the sender's device, before any link, because the machine was too slow.
    pub lost_in_device: u64,
    /// Packets that the receiver's device did not accept.
    pub refused: u64,
    /// The lateness of forwarded packets.
    pub lateness: LatenessReport,
    /// The path's own links.
    pub links: Vec<LinkReport>,
}

/// The packets of one link in one direction.
#[derive(Clone, Debug, Serialize)]
pub struct LinkReport {
    /// Its name, as in the simulator.
    pub link: String,
    /// Its counters, as in the JSON of `anabranch run`.
    #[serde(flatten, serialize_with = "anabranch_lab::output::counters")]
    pub counters: Counters,
    /// The mean queue on arrival, in packets.
    pub mean_queue_packets: f64,
    /// The mean queue on arrival, in bytes.
    pub mean_queue_bytes: f64,
}

/// The lateness of forwarded packets, relative to the times computed by the links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatenessReport {
    /// Packets that were forwarded.
    pub packets: u64,
    /// The median, in microseconds.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
    /// The maximum.
    pub max_us: f64,
}

impl From<&Lateness> for LatenessReport {
    fn from(lateness: &Lateness) -> LatenessReport {
        let micros = |span: Duration| span.as_nanos() as f64 / 1e3;
        LatenessReport {
            packets: lateness.count(),
            p50_us: micros(lateness.quantile(0.5)),
            p99_us: micros(lateness.quantile(0.99)),
            p999_us: micros(lateness.quantile(0.999)),
            max_us: micros(lateness.max()),
        }
    }
}

impl From<&LinkTotals> for LinkReport {
    fn from(totals: &LinkTotals) -> LinkReport {
        let (mean_queue_packets, mean_queue_bytes) = totals.mean_queue();
        LinkReport {
            link: totals.name.clone(),
            counters: totals.counters,
            mean_queue_packets,
            mean_queue_bytes,
        }
    }
}

impl Report {
    /// Returns the report on these `paths` and the directions `lanes` (up and down of each in turn); `lost` is the number of packets lost by the devices at their starts.
    pub(crate) fn new(
        paths: &[Named],
        lanes: &[Lane],
        lost: &[u64],
        engine: &EngineReport,
        bounds: &Bounds,
    ) -> Report {
        let users = |link: usize| lanes.iter().filter(|lane| lane.links.contains(&link)).count();
        let direction = |number: usize| {
            let (totals, lane): (&LaneTotals, &Lane) = (&engine.lanes[number], &lanes[number]);
            let own = lane.links.iter().filter(|link| users(**link) == 1 || paths.len() == 1);
            DirectionReport {
                carried_packets: totals.delivered.packets,
                carried_bytes: totals.delivered.bytes,
                lost_in_device: lost.get(number).copied().unwrap_or(0),
                refused: totals.refused,
                lateness: LatenessReport::from(&totals.lateness),
                links: own.map(|link| LinkReport::from(&engine.links[*link])).collect(),
            }
        };
        // What the client sends counts at its interface, before the first link.
        let sent = |number: usize| {
            let first = lanes[number].links.first().map(|link| &engine.links[*link]);
            first.map_or(0, |link| link.counters.offered.bytes)
        };
        let count = paths.len();
        let paths: Vec<PathReport> = paths
            .iter()
            .enumerate()
            .map(|(n, (name, tariff))| {
                let (up, down) = (direction(2 * n), direction(2 * n + 1));
                // A common link counts the packets of all paths.
                let is_own = lanes[2 * n].links.first().is_some_and(|link| users(*link) == 1);
                let bytes = (if is_own { sent(2 * n) } else { up.carried_bytes }, down.carried_bytes);
                let has_price = tariff.price_up > 0.0 || tariff.price_down > 0.0;
                PathReport {
                    path: name.clone(),
                    cost: has_price.then(|| tariff.cost(bytes.0, bytes.1)),
                    over_quota: (!tariff.quotas.is_none())
                        .then(|| tariff.quotas.is_exceeded(bytes.0, bytes.1)),
                    up,
                    down,
                }
            })
            .collect();
        let merged = |first: usize| {
            let mut all = Lateness::default();
            engine.lanes.iter().skip(first).step_by(2).for_each(|lane| all.merge(&lane.lateness));
            LatenessReport::from(&all)
        };
        let shared = (0..engine.links.len()).filter(|link| count > 1 && users(*link) > 1);
        let mut report = Report {
            elapsed_s: engine.elapsed.as_secs_f64(),
            realtime: engine.realtime,
            awake: engine.awake,
            reliable: true,
            unreliable_because: Vec::new(),
            lateness_up: merged(0),
            lateness_down: merged(1),
            shared: shared.map(|link| LinkReport::from(&engine.links[link])).collect(),
            paths,
            middleboxes: engine.middleboxes.iter().map(MiddleboxReport::from).collect(),
        };
        report.judge(bounds);
        report
    }

    fn judge(&mut self, bounds: &Bounds) {
        let mut because = Vec::new();
        let bound = bounds.p99.as_nanos() as f64 / 1e3;
        for (name, lateness) in [("up", &self.lateness_up), ("down", &self.lateness_down)] {
            if lateness.p99_us > bound {
                because.push(format!(
                    "1 % of the packets {name} were more than {:.1} ms late; the limit is {}",
                    lateness.p99_us / 1e3,
                    bounds.p99
                ));
            }
        }
        for path in &self.paths {
            for (name, direction) in [("up", &path.up), ("down", &path.down)] {
                let lost = direction.lost_in_device + direction.refused;
                if lost * 1_000_000 > bounds.lost_ppm * (direction.carried_packets + lost) {
                    because.push(format!(
                        "{} packets {name} path {} were lost before a link and {} after one",
                        direction.lost_in_device, path.path, direction.refused
                    ));
                }
            }
        }
        self.reliable = because.is_empty();
        self.unreliable_because = because;
    }

    /// Returns the packets and bytes that one direction has carried, over all paths.
    pub fn carried(&self, up: bool) -> Tally {
        let directions = self.paths.iter().map(|path| if up { &path.up } else { &path.down });
        directions.fold(Tally::default(), |sum, direction| {
            sum + Tally { packets: direction.carried_packets, bytes: direction.carried_bytes }
        })
    }
}
