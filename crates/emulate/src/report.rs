//! What a run has come to.

use anabranch_link::Tally;
use anabranch_units::Duration;
use serde::Serialize;

use crate::engine::{EngineReport, LaneTotals, LinkTotals};
use crate::lateness::Lateness;
use crate::wiring::Lane;

/// Beyond these a run is not to be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The greatest 99th percentile of lateness, of either direction.
    pub p99: Duration,
    /// The greatest share, in millionths, of packets that were lost where no link has lost them.
    pub lost_ppm: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { p99: Duration::from_millis(3), lost_ppm: 0 }
    }
}

/// What a run has come to.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// For how long packets were moved, in seconds.
    pub elapsed_s: f64,
    /// Whether the thread that moved them had real-time priority.
    pub realtime: bool,
    /// Whether the processors were kept from sleeping.
    pub awake: bool,
    /// Whether everything was in time, and nothing lost but by the links.
    pub reliable: bool,
    /// Why not.
    pub unreliable_because: Vec<String>,
    /// How late packets from the client were.
    pub lateness_up: LatenessReport,
    /// How late packets from the server were.
    pub lateness_down: LatenessReport,
    /// The paths.
    pub paths: Vec<PathReport>,
    /// Links that several paths have in common.
    pub shared: Vec<LinkReport>,
}

/// What one path has done.
#[derive(Clone, Debug, Serialize)]
pub struct PathReport {
    /// Its name.
    pub path: String,
    /// From the client to the server.
    pub up: DirectionReport,
    /// From the server to the client.
    pub down: DirectionReport,
}

/// What one direction of a path has done.
#[derive(Clone, Debug, Serialize)]
pub struct DirectionReport {
    /// Packets handed to the host at its end.
    pub carried_packets: u64,
    /// Their bytes, with IP headers.
    pub carried_bytes: u64,
    /// Packets that were lost in the queue of the sender's device, before any link: the machine was too slow.
    pub lost_in_device: u64,
    /// Packets that the receiver's device did not take.
    pub refused: u64,
    /// How late packets were handed on.
    pub lateness: LatenessReport,
    /// The path's own links.
    pub links: Vec<LinkReport>,
}

/// What one link has done.
#[derive(Clone, Debug, Serialize)]
pub struct LinkReport {
    /// Its name, as in the simulator.
    pub link: String,
    /// Packets offered to it.
    pub offered_packets: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Packets that came out at its end.
    pub carried_packets: u64,
    /// Their bytes.
    pub carried_bytes: u64,
    /// Why packets did not.
    pub dropped: Drops,
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets held back to be overtaken.
    pub reordered: u64,
    /// Packets marked as having met congestion.
    pub marked: u64,
    /// The most packets that waited, the one in service included.
    pub max_queue_packets: u64,
    /// The most bytes that waited.
    pub max_queue_bytes: u64,
    /// How many packets an arriving packet has found waiting, on average.
    pub mean_queue_packets: f64,
    /// How many bytes an arriving packet has found waiting, on average.
    pub mean_queue_bytes: f64,
}

/// Packets dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drops {
    /// The queue was full.
    pub queue: u64,
    /// Lost at random, independently.
    pub random: u64,
    /// Lost by a channel that is good or bad for a time.
    pub gilbert_elliott: u64,
    /// Named by the scenario.
    pub listed: u64,
    /// The link was down.
    pub down: u64,
    /// Longer than the link's MTU.
    pub too_large: u64,
}

impl Drops {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.queue + self.random + self.gilbert_elliott + self.listed + self.down + self.too_large
    }
}

/// How late packets were handed on, against the times that the links gave them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatenessReport {
    /// How many packets.
    pub packets: u64,
    /// Half of them were no later, in microseconds.
    pub p50_us: f64,
    /// 99 % were no later.
    pub p99_us: f64,
    /// 99.9 % were no later.
    pub p999_us: f64,
    /// None was later.
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
        let counters = &totals.counters;
        let (mean_queue_packets, mean_queue_bytes) = totals.mean_queue();
        LinkReport {
            link: totals.name.clone(),
            offered_packets: counters.offered.packets,
            offered_bytes: counters.offered.bytes,
            carried_packets: counters.delivered.packets,
            carried_bytes: counters.delivered.bytes,
            dropped: Drops {
                queue: counters.dropped_queue.packets,
                random: counters.dropped_random.packets,
                gilbert_elliott: counters.dropped_gilbert_elliott.packets,
                listed: counters.dropped_listed.packets,
                down: counters.dropped_down.packets,
                too_large: counters.dropped_too_large.packets,
            },
            duplicated: counters.duplicated.packets,
            reordered: counters.reordered.packets,
            marked: counters.marked.packets,
            max_queue_packets: counters.max_queue.packets,
            max_queue_bytes: counters.max_queue.bytes,
            mean_queue_packets,
            mean_queue_bytes,
        }
    }
}

impl Report {
    /// The report on paths with these `names`, whose directions are `lanes` (up and down of each in turn); `lost` is
    /// what the devices at the beginning of these have lost.
    pub(crate) fn new(
        names: &[String],
        lanes: &[Lane],
        lost: &[u64],
        engine: &EngineReport,
        bounds: &Bounds,
    ) -> Report {
        let users = |link: usize| lanes.iter().filter(|lane| lane.links.contains(&link)).count();
        let direction = |number: usize| {
            let (totals, lane): (&LaneTotals, &Lane) = (&engine.lanes[number], &lanes[number]);
            let own = lane.links.iter().filter(|link| users(**link) == 1 || names.len() == 1);
            DirectionReport {
                carried_packets: totals.delivered.packets,
                carried_bytes: totals.delivered.bytes,
                lost_in_device: lost.get(number).copied().unwrap_or(0),
                refused: totals.refused,
                lateness: LatenessReport::from(&totals.lateness),
                links: own.map(|link| LinkReport::from(&engine.links[*link])).collect(),
            }
        };
        let paths: Vec<PathReport> = names
            .iter()
            .enumerate()
            .map(|(n, name)| PathReport {
                path: name.clone(),
                up: direction(2 * n),
                down: direction(2 * n + 1),
            })
            .collect();
        let merged = |first: usize| {
            let mut all = Lateness::default();
            engine.lanes.iter().skip(first).step_by(2).for_each(|lane| all.merge(&lane.lateness));
            LatenessReport::from(&all)
        };
        let shared = (0..engine.links.len()).filter(|link| names.len() > 1 && users(*link) > 1);
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
                    "1 % of the packets {name} were more than {:.1} ms late, and the bound is {}",
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
                        "{} packets {name} path {} were lost before a link and {} behind one",
                        direction.lost_in_device, path.path, direction.refused
                    ));
                }
            }
        }
        self.reliable = because.is_empty();
        self.unreliable_because = because;
    }

    /// All that a direction has carried, over all paths: packets, and bytes.
    pub fn carried(&self, up: bool) -> Tally {
        let directions = self.paths.iter().map(|path| if up { &path.up } else { &path.down });
        directions.fold(Tally::default(), |sum, direction| {
            sum + Tally { packets: direction.carried_packets, bytes: direction.carried_bytes }
        })
    }
}
