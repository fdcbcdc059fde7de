//! The data of a connection without a network, to which a scheduler's decisions are applied.
#![allow(dead_code)]

use anabranch_stack::event::{SubflowId, SubflowSet};
use anabranch_stack::known::{KnownPath, KnownPaths};
use anabranch_stack::scheduler::{
    Anabranch, AnabranchOptions, AssignKind, Decision, Pending, RecoveryState, Scheduler, SubflowView, View,
};
use anabranch_stack::segment::Address;
use anabranch_stack::seq::DataRange;
use anabranch_units::{Duration, Time};
use proptest::prelude::*;

pub const MSS: u64 = 1400;

/// Returns a usable, idle subflow with a window of `cwnd` segments.
pub fn subflow(id: u8, srtt_ms: u64, cwnd: u64) -> SubflowView {
    SubflowView {
        rttvar: Duration::from_millis(1),
        ..SubflowView::idle(SubflowId(id), Duration::from_millis(srtt_ms), cwnd, MSS)
    }
}

/// Returns the subflow with all of its window in flight.
pub fn full(mut subflow: SubflowView) -> SubflowView {
    subflow.inflight = subflow.cwnd;
    subflow.unacked = subflow.cwnd;
    subflow
}

/// Returns the subflow with its window beyond slow start, and an acknowledgement just now.
pub fn steady(subflow: SubflowView) -> SubflowView {
    SubflowView { ssthresh: Some(MSS), last_received: Time::from_secs(1), ..subflow }
}

pub fn set(ids: &[u8]) -> SubflowSet {
    ids.iter().fold(SubflowSet::EMPTY, |set, id| set.with(SubflowId(*id)))
}

/// Returns `anabranch` with these options on, and no other part.
pub fn only(set: impl FnOnce(&mut AnabranchOptions)) -> Anabranch {
    let mut options = AnabranchOptions {
        abstain: false,
        margin: 0.0,
        least: 0,
        gap: false,
        block: false,
        tail: 0.0,
        rate: false,
        unknown: 0.0,
        memory: 0.0,
    };
    set(&mut options);
    Anabranch::new(options)
}

/// Returns what a host remembers of the paths with these rates in bytes per second.
pub fn remembered(rates: &[(u8, f64)]) -> KnownPaths {
    let path = |&(last, rate): &(u8, f64)| (local(last).ip, KnownPath { rtt: 0.02, rate, loss: 0.0 });
    rates.iter().map(path).collect()
}

/// Returns the local address of a path.
pub fn local(last: u8) -> Address {
    Address::new([10, 0, 0, last].into(), 4000)
}

/// Permissions that some schedulers have and others lack.
#[derive(Clone, Copy, Default, Debug)]
pub struct Licence {
    /// True to queue beyond the congestion window.
    pub queues: bool,
    /// True to take an unassigned piece other than the first.
    pub reorders: bool,
    /// True to use a subflow that has failed or repairs a timeout.
    pub failed: bool,
}

impl Licence {
    /// Returns the permissions of the named scheduler.
    pub fn of(name: &str) -> Licence {
        Licence {
            queues: matches!(name, "linux" | "daps" | "otias" | "sttf"),
            reorders: matches!(name, "stms_c" | "stms_a" | "anabranch" | "redundant"),
            failed: matches!(name, "linux" | "ll_bm"),
        }
    }
}

/// The sending side of a connection, as a scheduler sees it.
#[derive(Clone, Debug)]
pub struct Connection {
    pub now: Time,
    pub subflows: Vec<SubflowView>,
    pub unassigned: Vec<DataRange>,
    pub reinject: Vec<Pending>,
    pub outstanding: Vec<Pending>,
    pub data_una: u64,
    pub data_nxt: u64,
    pub window_end: u64,
    pub size_known: bool,
    /// The scheduler's permissions beyond the common rules.
    pub licence: Licence,
    /// The assignments, in order.
    pub log: Vec<(SubflowId, DataRange, AssignKind)>,
}

impl Connection {
    /// Returns a connection with `bytes` written and nothing sent.
    pub fn new(subflows: Vec<SubflowView>, bytes: u64) -> Connection {
        Connection {
            now: Time::from_secs(1),
            subflows,
            unassigned: if bytes > 0 { vec![DataRange::new(0, bytes)] } else { vec![] },
            reinject: vec![],
            outstanding: vec![],
            data_una: 0,
            data_nxt: 0,
            window_end: u64::MAX / 2,
            size_known: true,
            licence: Licence::default(),
            log: vec![],
        }
    }

    pub fn remaining(&self) -> u64 {
        self.unassigned.iter().map(|range| range.len()).sum()
    }

    pub fn view(&self) -> View<'_> {
        View {
            reinject: &self.reinject,
            outstanding: &self.outstanding,
            data_una: self.data_una,
            data_nxt: self.data_nxt,
            window_end: self.window_end,
            peer_window: self.window_end.saturating_sub(self.data_una),
            size_known: self.size_known,
            ..View::fresh(self.now, &self.subflows, &self.unassigned)
        }
    }

    /// Applies a decision, or returns the rule of the view that it violates.
    pub fn apply(&mut self, decision: &Decision) -> Result<(), String> {
        let (id, range, kind) = match *decision {
            Decision::Assign { subflow, range, kind, .. } => (subflow, range, kind),
            Decision::Recall { subflow, .. } if self.licence.queues => return self.recall(subflow),
            Decision::Recall { .. } => return Err("this scheduler may not recall".into()),
            Decision::Wait { .. } => return Ok(()),
        };
        let fail = |what: &str| Err(format!("{what}: {decision:?} in {self:#?}"));
        let Some(at) = self.subflows.iter().position(|subflow| subflow.id == id) else {
            return fail("no such subflow");
        };
        let subflow = self.subflows[at];
        let len = range.len();
        if range.is_empty() || range.start < self.data_una || range.end > self.window_end {
            return fail("outside the window");
        }
        if !(subflow.may_carry() || self.licence.failed && subflow.usable) {
            return fail("the subflow may carry nothing");
        }
        if subflow.backup
            && !self.licence.failed
            && self.subflows.iter().any(|s| s.usable && !s.potentially_failed && !s.backup)
        {
            return fail("a backup, although an active subflow works");
        }
        let beyond = subflow.inflight + subflow.queued + len > subflow.cwnd;
        if beyond && !self.licence.queues || len > subflow.window_room {
            return fail("more than the windows of the subflow admit");
        }
        let inside = |entry: &DataRange| entry.start <= range.start && range.end <= entry.end;
        match kind {
            AssignKind::New => {
                let first = self.unassigned.first().map_or(0, |first| first.start);
                if range.start != first && !self.licence.reorders {
                    return fail("not the next in order");
                }
                let Some(entry) = self.unassigned.iter().position(inside) else {
                    return fail("the data is not unassigned");
                };
                let old = self.unassigned.remove(entry);
                insert_rest(&mut self.unassigned, entry, old, range);
                let place = self.outstanding.partition_point(|p| p.range.start < range.start);
                self.outstanding.insert(place, Pending { range, tried: SubflowSet::one(id) });
                self.data_nxt = self.data_nxt.max(range.end);
            }
            AssignKind::Copy => {
                let Some(entry) = self.outstanding.iter().position(|p| inside(&p.range)) else {
                    return fail("the data is not outstanding");
                };
                if self.outstanding[entry].tried.has(id) {
                    return fail("a copy for a subflow that carries it");
                }
                self.mark_tried(id, range);
            }
            AssignKind::Reinject => {
                let Some(entry) = self.reinject.iter().position(|p| inside(&p.range)) else {
                    return fail("the data is not to be reinjected");
                };
                let old = self.reinject.remove(entry);
                for (place, rest) in rests(old.range, range).into_iter().enumerate() {
                    self.reinject.insert(entry + place, Pending { range: rest, tried: old.tried });
                }
                self.mark_tried(id, range);
            }
        }
        self.subflows[at].queued += len;
        self.subflows[at].window_room -= len;
        self.log.push((id, range, kind));
        Ok(())
    }

    /// Unassigns the queue of a subflow: the last assignments in the log, or data queued from the beginning,
    /// which is unknown.
    fn recall(&mut self, id: SubflowId) -> Result<(), String> {
        let Some(subflow) = self.subflows.iter_mut().find(|subflow| subflow.id == id) else {
            return Err(format!("recall from {id:?}, which does not exist"));
        };
        if subflow.queued == 0 {
            return Err(format!("recall from {id:?}, whose queue is empty"));
        }
        let mut waiting = subflow.queued;
        subflow.queued = 0;
        subflow.window_room += waiting;
        while waiting > 0 {
            let Some(at) = self.log.iter().rposition(|(on, _, kind)| *on == id && *kind == AssignKind::New)
            else {
                break;
            };
            let (_, range, _) = self.log.remove(at);
            waiting = waiting.saturating_sub(range.len());
            self.outstanding.retain(|pending| pending.range != range);
            let place = self.unassigned.partition_point(|other| other.start < range.start);
            self.unassigned.insert(place, range);
            let next = self.unassigned.get(place + 1).copied();
            if let Some(next) = next.filter(|next| next.start == range.end) {
                self.unassigned[place].end = next.end;
                self.unassigned.remove(place + 1);
            }
            if place > 0 && self.unassigned[place - 1].end == self.unassigned[place].start {
                self.unassigned[place - 1].end = self.unassigned[place].end;
                self.unassigned.remove(place);
            }
        }
        Ok(())
    }

    /// Splits outstanding data at the ends of `range`, and marks the inside as carried by `id`.
    fn mark_tried(&mut self, id: SubflowId, range: DataRange) {
        let mut split = Vec::new();
        for entry in &self.outstanding {
            let inside = entry.range.intersection(range);
            if inside.is_empty() {
                split.push(*entry);
                continue;
            }
            let rest = rests(entry.range, inside);
            split.extend(
                rest.iter().filter(|r| r.end <= inside.start).map(|r| Pending { range: *r, ..*entry }),
            );
            split.push(Pending { range: inside, tried: entry.tried.with(id) });
            split.extend(
                rest.iter().filter(|r| r.start >= inside.end).map(|r| Pending { range: *r, ..*entry }),
            );
        }
        self.outstanding = split;
    }

    /// Asks until the scheduler waits; all its decisions must be allowed.
    pub fn run(&mut self, scheduler: &mut impl Scheduler) -> Decision {
        let bytes: u64 = self.unassigned.iter().map(|r| r.len()).sum::<u64>()
            + self.outstanding.iter().map(|p| p.range.len()).sum::<u64>();
        let steps = (bytes + 1) * (self.subflows.len() as u64 + 1) + 20;
        for _ in 0..steps {
            let decision = scheduler.decide(&self.view());
            if let Err(what) = self.apply(&decision) {
                panic!("{what}");
            }
            if matches!(decision, Decision::Wait { .. }) {
                // NaN differs from itself, so the printed forms are compared.
                let again = scheduler.decide(&self.view());
                assert_eq!(format!("{again:?}"), format!("{decision:?}"), "asked again");
                return decision;
            }
        }
        panic!("it never waits: {self:#?}");
    }

    /// Sends everything queued, and acknowledges everything in flight on `id`.
    pub fn acknowledge(&mut self, id: u8) {
        for subflow in &mut self.subflows {
            subflow.bytes_sent += subflow.queued;
            subflow.inflight += subflow.queued;
            subflow.unacked += subflow.queued;
            subflow.queued = 0;
            if subflow.id == SubflowId(id) {
                subflow.window_room += subflow.inflight;
                subflow.inflight = 0;
                subflow.unacked = 0;
            }
        }
    }

    /// Acknowledges the data level up to `to`.
    pub fn data_acknowledge(&mut self, to: u64) {
        self.data_una = to;
        let cut = |range: DataRange| DataRange::new(range.start.max(to), range.end);
        for pending in [&mut self.outstanding, &mut self.reinject] {
            pending.iter_mut().for_each(|entry| entry.range = cut(entry.range));
            pending.retain(|entry| !entry.range.is_empty());
        }
    }

    pub fn bytes_on(&self, id: u8) -> u64 {
        self.log
            .iter()
            .filter(|(subflow, ..)| *subflow == SubflowId(id))
            .map(|(_, range, _)| range.len())
            .sum()
    }
}

fn rests(whole: DataRange, taken: DataRange) -> Vec<DataRange> {
    let all = [DataRange::new(whole.start, taken.start), DataRange::new(taken.end, whole.end)];
    all.into_iter().filter(|range| !range.is_empty()).collect()
}

fn insert_rest(ranges: &mut Vec<DataRange>, at: usize, whole: DataRange, taken: DataRange) {
    for (place, rest) in rests(whole, taken).into_iter().enumerate() {
        ranges.insert(at + place, rest);
    }
}

fn any_subflow(id: u8) -> impl Strategy<Value = SubflowView> {
    let state = (prop::bool::weighted(0.85), prop::bool::weighted(0.15), prop::bool::weighted(0.25), 0..8_u8);
    let windows = (1..20_u64, 0..25_u64, 0..5_u64, prop::option::weighted(0.3, 0..4000_u64), 0..MSS);
    // Few RTTs, so that ties occur.
    let rtt = prop::option::weighted(0.9, prop::sample::select(vec![10_u64, 20, 20, 45, 100]));
    let rest = (prop::option::of(2..30_u64), 0..4_u32, prop::sample::select(vec![MSS, MSS, 1000]));
    (state, windows, rtt, rest).prop_map(
        move |((usable, failed, backup, recovery), (cwnd, inflight, queued, room, odd), srtt, rest)| {
            let (ssthresh, loss, mss) = rest;
            SubflowView {
                usable,
                potentially_failed: failed,
                timeouts: if failed { 1 + u32::from(recovery % 2) } else { 0 },
                backup,
                recovery: match recovery {
                    0 => RecoveryState::Loss,
                    1 => RecoveryState::Recovery,
                    _ => RecoveryState::Open,
                },
                cwnd: cwnd * mss,
                ssthresh: ssthresh.map(|n| n * mss),
                inflight: (inflight * mss / 2).saturating_sub(if odd < 700 { odd } else { 0 }),
                queued: if queued == 4 { mss } else { 0 },
                window_room: room.unwrap_or(1 << 30),
                srtt: srtt.map(Duration::from_millis),
                mss,
                loss_rate: f64::from(loss) * 0.01,
                unacked: inflight * mss / 2,
                bytes_sent: 10 * MSS,
                srtt_min: srtt.map(|ms| Duration::from_millis(ms / 2)),
                srtt_max: srtt.map(|ms| Duration::from_millis(2 * ms)),
                min_rtt: Duration::from_millis(srtt.unwrap_or(0) / 2),
                ..subflow(id, 0, 0)
            }
        },
    )
}

/// Generates a connection in any state that the rules of a view allow.
pub fn any_connection() -> impl Strategy<Value = Connection> {
    let subflows = (0..6_u8).prop_flat_map(|n| (0..n).map(any_subflow).collect::<Vec<_>>());
    // Pieces of the stream in order: their length and their subflow (none: unassigned).
    let piece =
        (prop_oneof![1..200_u64, (1..12_u64).prop_map(|n| n * MSS), 1..30_000_u64], 0..96_u32, 0..4_u8);
    let pieces = prop::collection::vec(piece, 0..8);
    let tail = prop_oneof![Just(0), 1..5_u64, (1..60_u64).prop_map(|n| n * MSS), 1..100_000_u64];
    (subflows, pieces, tail, prop::option::of(0..40_000_u64), any::<bool>()).prop_map(
        |(subflows, pieces, tail, window, size_known)| {
            let mut connection = Connection { size_known, ..Connection::new(subflows, 0) };
            let start = 5_000;
            let mut at = start;
            for (len, tried, reinject) in pieces {
                let range = DataRange::new(at, at + len);
                at += len;
                if tried >= 64 {
                    connection.unassigned.push(range);
                    continue;
                }
                let entry = Pending { range, tried: SubflowSet(tried.max(1)) };
                connection.outstanding.push(entry);
                connection.data_nxt = at;
                if reinject == 0 {
                    connection.reinject.push(entry);
                }
            }
            connection.data_nxt = connection.data_nxt.max(start);
            connection.data_una = connection.outstanding.first().map_or(start, |p| p.range.start.min(start));
            if tail > 0 {
                connection.unassigned.push(DataRange::new(at, at + tail));
            }
            connection.window_end = window.map_or(u64::MAX / 2, |window| connection.data_nxt + window);
            connection
        },
    )
}
