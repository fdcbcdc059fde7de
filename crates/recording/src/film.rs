//! The events of one flow of a run in memory, for an animation: packets on the paths, windows, the data at the receiver,
//! data acknowledgements and the scheduler's decisions.

use core::sync::atomic::AtomicBool;

use anabranch_lab::job::Job;
use anabranch_lab::run::{Class, Prepared, RunError};
use anabranch_lab::samples::outcome;
use anabranch_lab::scenario::{Direction, Scenario};
use anabranch_link::DropReason;
use anabranch_sim::{End, FlowEvent, FlowId, LinkEvent, LinkId, Recorder, Scope, Trace, Wants, What};
use anabranch_stack::event::SubflowId;
use anabranch_stack::observer::{SendKind, StackEvent, StackEvents, Windows};
use anabranch_stack::scheduler::{Decision, Rule, Why};
use anabranch_stack::segment::{Address, Segment};
use anabranch_units::Time;
use serde::Serialize;

use crate::names::{AssignName, DecisionName, LossName, RuleName};
use crate::view::{Acks, Column};

/// The number of packets that a film has at most; a longer run is filmed up to there.
const MOST_PACKETS: usize = 60_000;

/// The kinds of [`Packets::kind`]: the kinds of a recording, and packets without data.
pub const KINDS: [&str; 5] = ["sent", "retransmitted", "reinjected", "probe", "control"];

/// The ends of packets in [`Packets::fate`].
pub const FATES: [&str; 4] = ["arrived", "on_its_way", "dropped_by_queue", "lost"];

/// One flow of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Film {
    /// The condition; empty if there is only one.
    pub condition: String,
    /// The contender.
    pub scheduler: String,
    /// The run, from 0.
    pub run: u32,
    /// The names of the paths, in the order of the scenario.
    pub paths: Vec<String>,
    /// The sender of the data: `client` or `server`.
    pub sender: &'static str,
    /// The start of the flow.
    pub start_ns: u64,
    /// Its size; missing for bulk.
    pub size_bytes: Option<u64>,
    /// The end of the flow: `completed`, or the reason why it did not complete.
    pub outcome: String,
    /// The time from its start to the delivery of its last byte.
    pub fct_ns: Option<u64>,
    /// The time of the last event.
    pub end_ns: u64,
    /// False if the film ends before the run, which has too many packets.
    pub whole: bool,
    /// The path of each subflow of the sender, by number, as far as it has sent.
    pub subflows: Vec<Option<usize>>,
    /// [`KINDS`].
    pub kinds: [&'static str; 5],
    /// [`FATES`].
    pub fates: [&'static str; 4],
    /// The packets of the flow, in the order of their entry into the first link.
    pub packets: Packets,
    /// The data that arrives for the first time.
    pub arrived: Arrived,
    /// The data acknowledgements that the sender receives.
    pub acks: Acks,
    /// Data marked lost.
    pub lost: Lost,
    /// The scheduler's decisions; waits for the same reason are one.
    pub decisions: Decisions,
    /// The windows of the sender's subflows.
    pub windows: WindowColumns,
}

/// Packets, by column.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Packets {
    /// Entry into the queue of the first link.
    pub t_ns: Column,
    /// The end of its transmission by the first link; -1 if there was none.
    pub departed_ns: Column,
    /// Its arrival, or the time at which it was dropped; -1 if it is on its way at the end.
    pub end_ns: Column,
    /// The place of its path.
    pub path: Column,
    /// 0 in the direction of the data, 1 in the other one.
    pub way: Column,
    /// The place in [`KINDS`].
    pub kind: Column,
    /// The place in [`FATES`].
    pub fate: Column,
    /// The first offset of its data.
    pub from: Column,
    /// The offset after its data.
    pub to: Column,
}

/// Arrivals, by column.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Arrived {
    /// Times.
    pub t_ns: Column,
    /// The first offset.
    pub from: Column,
    /// The offset after the data.
    pub to: Column,
}

/// Losses as the sender infers them, by column.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lost {
    /// Times.
    pub t_ns: Column,
    /// The place in the list of subflows.
    pub subflow: Column,
    /// The first offset.
    pub from: Column,
    /// The offset after the data.
    pub to: Column,
    /// The place of the reason in `reasons`.
    pub reason: Column,
    /// The reasons to which `reason` refers, by position.
    pub reasons: &'static [&'static str],
}

/// Decisions, by column.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Decisions {
    /// Times.
    pub t_ns: Column,
    /// The place of the decision in `decisions`.
    pub decision: Column,
    /// The subflow; -1 for none.
    pub subflow: Column,
    /// The place of the kind of an assignment in `kinds`; -1 for none.
    pub kind: Column,
    /// The first offset; -1 for none.
    pub from: Column,
    /// The offset after the data; -1 for none.
    pub to: Column,
    /// The place of the reason in `rules`.
    pub rule: Column,
    /// The score of the chosen subflow in the rule's measure.
    pub score: Vec<Option<f64>>,
    /// The best score of the others.
    pub other: Vec<Option<f64>>,
    /// The texts.
    pub decisions: &'static [&'static str],
    /// The texts.
    pub kinds: &'static [&'static str],
    /// The texts.
    pub rules: &'static [&'static str],
}

/// The windows of subflows over time, by column.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WindowColumns {
    /// Times.
    pub t_ns: Column,
    /// The place in the list of subflows.
    pub subflow: Column,
    /// The congestion window.
    pub cwnd_bytes: Column,
    /// The slow-start threshold; -1 while it is infinite.
    pub ssthresh_bytes: Column,
    /// Bytes in flight.
    pub inflight_bytes: Column,
    /// The smoothed round-trip time; -1 before the first sample.
    pub srtt_us: Column,
}

impl Film {
    /// Simulates `job` of a comparison, and films its first flow.
    ///
    /// # Errors
    /// If the run cannot be made, or it was cancelled.
    pub fn new(
        scenario: &Scenario,
        prepared: &Prepared<'_>,
        job: &Job,
        cancelled: &AtomicBool,
    ) -> Result<Film, RunError> {
        let condition = &scenario.conditions[job.condition];
        let experiment = &condition.experiment;
        let sender = match experiment.traffic.direction {
            Direction::Upload => End::Client,
            Direction::Download => End::Server,
        };
        let mut routes = vec![None; experiment.graph.links.len()];
        for (place, path) in experiment.paths().iter().enumerate() {
            let mut set = |ways: &[Vec<usize>], way| {
                for link in ways.iter().flatten() {
                    if let Some(route) = routes.get_mut(*link) {
                        *route = Some(Way { path: place as u64, way });
                    }
                }
            };
            set(&path.data, 0);
            set(&path.acks, 1);
        }
        let (result, camera) = prepared.run_with(job, cancelled, Camera::new(routes, sender))?;
        let flow = result.flows.iter().find(|flow| flow.class == Class::Contender);
        let report = flow.map(|flow| &flow.report);
        Ok(Film {
            condition: condition.name.clone(),
            scheduler: job.name(scenario),
            run: job.run,
            paths: experiment.paths().iter().map(|path| path.name.clone()).collect(),
            sender: match sender {
                End::Client => "client",
                End::Server => "server",
            },
            start_ns: report.map_or(0, |report| report.start.0),
            size_bytes: report.and_then(|report| report.size).map(|size| size.0),
            outcome: report.map(|report| outcome(&report.outcome).to_string()).unwrap_or_default(),
            fct_ns: report.and_then(|report| report.fct).map(|fct| fct.0),
            ..camera.developed()
        })
    }
}

/// The place of a link.
#[derive(Clone, Copy, Debug)]
struct Way {
    path: u64,
    way: u64,
}

/// Identifies a packet between its sending and its first link.
type Key = (Address, Address, u32, u32);

/// A packet that a stack has just sent.
#[derive(Clone, Copy, Debug)]
struct AtHand {
    key: Key,
    kind: u64,
    range: (u64, u64),
    /// The subflow of the data's sender.
    subflow: Option<SubflowId>,
}

/// A packet in the network or after it.
#[derive(Clone, Copy, Debug)]
struct Shot {
    at: Time,
    departed: Option<Time>,
    end: Option<Time>,
    way: Way,
    kind: u64,
    fate: u64,
    range: (u64, u64),
}

/// The recorder of the first flow.
struct Camera {
    routes: Vec<Option<Way>>,
    sender: End,
    ends: [Option<Scope>; 2],
    at_hand: Option<AtHand>,
    /// By number of a packet in the network: its place in `shots`.
    live: Vec<Option<usize>>,
    shots: Vec<Shot>,
    end: Time,
    /// The reason of the last decision, if it was to wait.
    waits: Option<Rule>,
    film: Film,
}

impl Camera {
    fn new(routes: Vec<Option<Way>>, sender: End) -> Camera {
        let film = Film {
            condition: String::new(),
            scheduler: String::new(),
            run: 0,
            paths: Vec::new(),
            sender: "",
            start_ns: 0,
            size_bytes: None,
            outcome: String::new(),
            fct_ns: None,
            end_ns: 0,
            whole: true,
            subflows: Vec::new(),
            kinds: KINDS,
            fates: FATES,
            packets: Packets::default(),
            arrived: Arrived::default(),
            acks: Acks::default(),
            lost: Lost { reasons: LossName::TEXTS, ..Lost::default() },
            decisions: Decisions {
                decisions: DecisionName::TEXTS,
                kinds: AssignName::TEXTS,
                rules: RuleName::TEXTS,
                ..Decisions::default()
            },
            windows: WindowColumns::default(),
        };
        Camera {
            routes,
            sender,
            ends: [None; 2],
            at_hand: None,
            live: Vec::new(),
            shots: Vec::new(),
            end: Time::default(),
            waits: None,
            film,
        }
    }

    /// Returns the film, without the fields that only the report of the run has.
    fn developed(self) -> Film {
        let Camera { shots, end, mut film, .. } = self;
        let packets = &mut film.packets;
        for shot in shots {
            packets.t_ns.push(shot.at.0);
            packets.departed_ns.push_or_none(shot.departed.map(|time| time.0));
            packets.end_ns.push_or_none(shot.end.map(|time| time.0));
            packets.path.push(shot.way.path);
            packets.way.push(shot.way.way);
            packets.kind.push(shot.kind);
            packets.fate.push(shot.fate);
            packets.from.push(shot.range.0);
            packets.to.push(shot.range.1);
        }
        film.end_ns = end.0;
        film
    }

    /// Returns the end of the flow to which a connection belongs.
    fn end_of(&self, scope: Scope) -> Option<End> {
        let of = |end: End| (self.ends[end as usize] == Some(scope)).then_some(end);
        of(End::Client).or(of(End::Server))
    }

    fn on_stack(&mut self, now: Time, scope: Scope, event: &StackEvent<'_>) {
        let Some(end) = self.end_of(scope) else { return };
        let is_sender = end == self.sender;
        match *event {
            StackEvent::Sent { subflow, segment, kind, data } => {
                let kind = match kind {
                    SendKind::New => 0,
                    SendKind::Retransmission => 1,
                    SendKind::Reinjection => 2,
                    SendKind::Probe => 3,
                    SendKind::Control => 4,
                };
                let range = if is_sender { (data.start, data.end) } else { (0, 0) };
                let subflow = is_sender.then_some(subflow);
                self.at_hand = Some(AtHand { key: key(segment), kind, range, subflow });
            }
            StackEvent::Arrived { range, .. } if !is_sender => {
                self.film.arrived.t_ns.push(now.0);
                self.film.arrived.from.push(range.start);
                self.film.arrived.to.push(range.end);
            }
            StackEvent::Lost { subflow, range, reason } if is_sender => {
                let lost = &mut self.film.lost;
                lost.t_ns.push(now.0);
                lost.subflow.push(u64::from(subflow.0));
                lost.from.push(range.start);
                lost.to.push(range.end);
                lost.reason.push(LossName::from(reason).place().into());
            }
            StackEvent::DataAcked { una, window_edge, .. } if is_sender => {
                self.film.acks.t_ns.push(now.0);
                self.film.acks.ack.push(una);
                self.film.acks.edge.push(window_edge);
            }
            StackEvent::Decision(decision) if is_sender => self.on_decision(now, decision),
            StackEvent::Windows { subflow, windows } if is_sender => self.on_windows(now, subflow, windows),
            _ => {}
        }
    }

    fn on_decision(&mut self, now: Time, decision: &Decision) {
        let (name, subflow, kind, range, why): (_, _, _, _, &Why) = match decision {
            Decision::Assign { subflow, range, kind, why } => {
                (DecisionName::Assign, Some(subflow), Some(*kind), Some(range), why)
            }
            Decision::Recall { subflow, range, why } => {
                (DecisionName::Recall, Some(subflow), None, Some(range), why)
            }
            Decision::Wait { why, .. } => (DecisionName::Wait, None, None, None, why),
        };
        let waits = (name == DecisionName::Wait).then_some(why.rule);
        if waits.is_some() && waits == self.waits {
            return;
        }
        self.waits = waits;
        let rows = &mut self.film.decisions;
        rows.t_ns.push(now.0);
        rows.decision.push(name.place().into());
        rows.subflow.push_or_none(subflow.map(|subflow| u64::from(subflow.0)));
        rows.kind.push_or_none(kind.map(|kind| AssignName::from(kind).place().into()));
        rows.from.push_or_none(range.map(|range| range.start));
        rows.to.push_or_none(range.map(|range| range.end));
        rows.rule.push(RuleName::from(why.rule).place().into());
        let known = |score: f64| score.is_finite().then_some(score);
        rows.score.push(known(why.score));
        rows.other.push(known(why.other));
    }

    fn on_windows(&mut self, now: Time, subflow: SubflowId, windows: &Windows) {
        let rows = &mut self.film.windows;
        rows.t_ns.push(now.0);
        rows.subflow.push(u64::from(subflow.0));
        rows.cwnd_bytes.push(windows.cwnd_bytes);
        rows.ssthresh_bytes.push_or_none(windows.ssthresh_bytes);
        rows.inflight_bytes.push(windows.inflight_bytes);
        rows.srtt_us.push_or_none(windows.srtt.map(|srtt| srtt.0 / 1000));
    }

    fn on_link(&mut self, now: Time, link: LinkId, event: &LinkEvent<'_>) {
        match *event {
            LinkEvent::Enter { segment, packet, .. } => {
                let at_hand = self.at_hand.take();
                let Some(way) = self.routes.get(link.index()).copied().flatten() else { return };
                let place = packet as usize;
                if self.live.len() <= place {
                    self.live.resize(place + 1, None);
                }
                let Some(at_hand) = at_hand.filter(|at_hand| at_hand.key == key(segment)) else { return };
                if self.shots.len() >= MOST_PACKETS {
                    self.film.whole = false;
                    self.live[place] = None;
                    return;
                }
                self.live[place] = Some(self.shots.len());
                let AtHand { kind, range, subflow, .. } = at_hand;
                self.shots.push(Shot { at: now, departed: None, end: None, way, kind, fate: 1, range });
                if let Some(subflow) = subflow {
                    let subflow = subflow.0 as usize;
                    if self.film.subflows.len() <= subflow {
                        self.film.subflows.resize(subflow + 1, None);
                    }
                    self.film.subflows[subflow].get_or_insert(way.path as usize);
                }
            }
            LinkEvent::Leave { packet, departed, .. } => {
                if let Some(shot) = self.shot(packet) {
                    shot.departed.get_or_insert(departed);
                    (shot.end, shot.fate) = (Some(now), 0);
                    self.end = now;
                }
            }
            LinkEvent::Drop { packet, reason, .. } => {
                let fate = match reason {
                    DropReason::Queue | DropReason::Aqm => 2,
                    _ => 3,
                };
                if let Some(shot) = self.shot(packet) {
                    (shot.end, shot.fate) = (Some(now), fate);
                }
            }
            LinkEvent::Queue { .. } | LinkEvent::State { .. } => {}
        }
    }

    fn shot(&mut self, packet: u32) -> Option<&mut Shot> {
        let place = self.live.get(packet as usize).copied().flatten()?;
        self.shots.get_mut(place)
    }
}

fn key(segment: &Segment) -> Key {
    (segment.source, segment.destination, segment.seq.0, segment.payload_len)
}

/// The first flow of a run.
const FLOW: FlowId = FlowId(0);

impl Recorder for Camera {
    const WANTS: Wants = Wants {
        packets: true,
        ..Wants::stack(
            StackEvents::SENT
                .and(StackEvents::ARRIVED)
                .and(StackEvents::LOST)
                .and(StackEvents::DATA_ACKED)
                .and(StackEvents::DECISION)
                .and(StackEvents::WINDOWS),
        )
    };

    fn on_trace(&mut self, trace: &Trace<'_>) {
        match &trace.what {
            What::Stack { scope, event } => self.on_stack(trace.time, *scope, event),
            What::Link { link, event } => self.on_link(trace.time, *link, event),
            What::Flow { flow: FLOW, event: FlowEvent::Start { client } } => {
                self.ends[End::Client as usize] = Some(*client);
            }
            What::Flow { flow: FLOW, event: FlowEvent::Accept { server } } => {
                self.ends[End::Server as usize] = Some(*server);
            }
            What::Flow { .. } | What::Host { .. } => {}
        }
    }
}
