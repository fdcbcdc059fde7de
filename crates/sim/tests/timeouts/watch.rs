//! Follows every subflow of a run on the wire, and determines the cause of each retransmission timeout.

use std::collections::{BTreeMap, HashMap, VecDeque};

use anabranch_sim::{LinkEvent, Recorder, Scope, Trace, What};
use anabranch_stack::event::SubflowId;
use anabranch_stack::observer::{Limit, LossReason, SendKind, StackEvent, Windows};
use anabranch_stack::segment::{Address, Flags, Segment};
use anabranch_stack::seq::DataRange;
use anabranch_units::{Duration, Time};

/// The reason that a subflow had to wait for its retransmission timer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cause {
    /// Outside recovery: the last flight and the tail loss probe were dropped.
    FlightAndProbeLost,
    /// The probe arrived, and its acknowledgement was dropped.
    ProbeAckLost,
    /// Outside recovery: the last flight was dropped while an earlier probe, a retransmission, was still
    /// outstanding: it was acknowledged, but the DSACK that would distinguish it from the original has not
    /// arrived (RFC 8985 section 7.4.2, and Linux: there is one probe at a time).
    ProbeOutstanding,
    /// In recovery: a retransmission was dropped, and nothing sent later arrived.
    RetransmissionLost,
    /// In recovery: new data was dropped, and nothing sent later arrived.
    TailOfRecoveryLost,
    /// After a timeout: the retransmission was dropped too.
    LostAgain,
    /// The peer has never acknowledged data on this subflow, although some has arrived: its handshake is not
    /// complete.
    Handshake,
    /// Nothing unacknowledged was dropped: segments or acknowledgements were queued.
    Late,
    /// The only segments sent after a lost one and selectively acknowledged are retransmissions that took
    /// less than the minimum RTT, so that the acknowledgement could be that of an original (RFC 8985 section
    /// 6.2, step 2, and Linux).
    Ambiguous,
    /// Outside recovery: the last flight was dropped, nothing of it was selectively acknowledged, and no probe was sent.
    NoProbe,
    /// The first missing segment was marked lost and had not been retransmitted.
    Waiting,
    /// A segment sent after a lost one was selectively acknowledged, and the loss was not detected.
    Undetected,
}

impl Cause {
    /// True if loss recovery should have prevented the timeout.
    pub fn is_fault(self) -> bool {
        matches!(self, Cause::NoProbe | Cause::Waiting | Cause::Undetected)
    }
}

/// A retransmission timeout.
#[derive(Clone, Debug)]
pub struct Timeout {
    pub at: Time,
    pub cause: Cause,
    /// The state of the subflow in words.
    pub about: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Flying,
    Dropped,
    Arrived,
}

#[derive(Clone, Copy, Debug)]
struct Sending {
    at: Time,
    kind: SendKind,
    fate: Fate,
    stamp: u32,
}

/// A segment that is not cumulatively acknowledged.
#[derive(Clone, Debug)]
struct Packet {
    seq: u64,
    end: u64,
    data: DataRange,
    sendings: Vec<Sending>,
    sacked: bool,
    sacked_at: Time,
    /// True if marked lost since its last transmission.
    lost: bool,
}

impl Packet {
    fn last(&self) -> Sending {
        self.sendings[self.sendings.len() - 1]
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Open,
    /// Until this is acknowledged.
    Recovery(u64),
    Loss(u64),
}

/// The sending half of a subflow.
#[derive(Debug)]
struct Half {
    first: Option<u32>,
    una: u64,
    nxt: u64,
    packets: VecDeque<Packet>,
    state: State,
    data_acked: bool,
    /// The time and the end of the last probe.
    probe: Option<(Time, u64)>,
    /// True if it was a retransmission.
    probe_repeats: bool,
    moved: Time,
    last_new: Time,
    /// Pure acknowledgements to this half that were dropped since it last advanced.
    acks_dropped: u32,
    windows: Option<Windows>,
    /// The minimum RTT of a segment.
    min_rtt: Duration,
    timed_out: Option<Time>,
}

impl Default for Half {
    fn default() -> Half {
        Half {
            first: None,
            una: 0,
            nxt: 0,
            packets: VecDeque::new(),
            state: State::Open,
            data_acked: false,
            probe: None,
            probe_repeats: false,
            moved: Time::ZERO,
            last_new: Time::ZERO,
            acks_dropped: 0,
            windows: None,
            min_rtt: Duration::MAX,
            timed_out: None,
        }
    }
}

type Key = (Scope, SubflowId);

/// Observes a whole run.
#[derive(Debug, Default)]
pub struct Watch {
    halves: HashMap<Key, Half>,
    wires: HashMap<(Address, Address), Key>,
    limits: HashMap<Scope, Limit>,
    pub timeouts: Vec<Timeout>,
    /// The number of undone reductions.
    pub undos: usize,
}

impl Watch {
    /// Returns the number of timeouts of each cause.
    pub fn causes(&self) -> BTreeMap<Cause, usize> {
        let mut causes = BTreeMap::new();
        for timeout in &self.timeouts {
            *causes.entry(timeout.cause).or_default() += 1;
        }
        causes
    }

    /// Records the fate of a transmission.
    fn settle(&mut self, segment: &Segment, fate: Fate) {
        let Some(half) = self.half_of(segment.source, segment.destination) else { return };
        let seq = half.offset(segment.seq.0);
        let stamp = segment.options.timestamps.map_or(0, |timestamps| timestamps.value);
        for packet in half.packets.iter_mut().filter(|packet| packet.seq <= seq && seq < packet.end) {
            let sending = packet.sendings.iter_mut().find(|s| s.fate == Fate::Flying && s.stamp == stamp);
            if let Some(sending) = sending {
                sending.fate = fate;
            }
        }
    }

    fn half_of(&mut self, from: Address, to: Address) -> Option<&mut Half> {
        let key = self.wires.get(&(from, to))?;
        self.halves.get_mut(key)
    }
}

impl Half {
    /// Returns the offset from the SYN, near the unacknowledged data.
    fn offset(&self, seq: u32) -> u64 {
        let una = self.first.unwrap_or_default().wrapping_add(self.una as u32);
        (self.una as i64 + i64::from(seq.wrapping_sub(una) as i32)).max(0) as u64
    }

    fn acknowledge(&mut self, now: Time, segment: &Segment) {
        if !segment.flags.has(Flags::ACK) || self.first.is_none() {
            return;
        }
        let ack = self.offset(segment.ack.0);
        if ack > self.una && ack <= self.nxt {
            if self.una == 0 {
                // The RTT of the handshake.
                self.min_rtt = now.since(self.last_new);
            }
            self.data_acked |= self.packets.front().is_some_and(|packet| packet.end <= ack);
            while self.packets.front().is_some_and(|packet| packet.end <= ack) {
                let arrived = |packet: Packet| packet.sendings.into_iter().rfind(|s| s.fate == Fate::Arrived);
                if let Some(sending) = self.packets.pop_front().and_then(arrived) {
                    self.min_rtt = self.min_rtt.min(now.since(sending.at));
                }
            }
            (self.una, self.moved, self.acks_dropped) = (ack, now, 0);
        }
        for (left, right) in segment.options.sack.as_slice() {
            let (left, right) = (self.offset(left.0), self.offset(right.0));
            for packet in &mut self.packets {
                if left <= packet.seq && packet.end <= right && !packet.sacked {
                    (packet.sacked, packet.sacked_at) = (true, now);
                    if let [sending] = packet.sendings[..] {
                        self.min_rtt = self.min_rtt.min(now.since(sending.at));
                    }
                }
            }
        }
        if let State::Recovery(until) | State::Loss(until) = self.state
            && self.una >= until
        {
            self.state = State::Open;
        }
    }

    fn cause(&self) -> Cause {
        let missing: Vec<&Packet> = self.packets.iter().filter(|packet| !packet.sacked).collect();
        let Some(head) = missing.first() else { return Cause::Late };
        let arrived = |packet: &Packet| packet.sendings.iter().any(|s| s.fate == Fate::Arrived);
        if !self.data_acked && self.packets.iter().any(arrived) && !self.packets.iter().any(|p| p.sacked) {
            return Cause::Handshake;
        }
        if missing.iter().all(|packet| arrived(packet) || packet.last().fate == Fate::Flying) {
            let probed = self.probe.is_some_and(|(_, end)| end > self.una) && self.acks_dropped > 0;
            return if probed { Cause::ProbeAckLost } else { Cause::Late };
        }
        if head.lost {
            return Cause::Waiting;
        }
        // Segments sent after the head's last transmission and acknowledged since.
        let overtakers = |hole: &Packet| {
            let sent = hole.last().at;
            let later = move |s: &Sending| s.at > sent && s.fate == Fate::Arrived;
            self.packets.iter().filter(move |packet| packet.sacked && packet.sendings.iter().any(later))
        };
        let clear = |packet: &Packet| {
            packet.sendings.len() == 1 || packet.sacked_at.since(packet.last().at) >= self.min_rtt
        };
        let holes = || missing.iter().filter(|packet| packet.last().fate == Fate::Dropped && !packet.lost);
        if holes().any(|hole| overtakers(hole).any(clear)) {
            return Cause::Undetected;
        }
        if holes().any(|hole| overtakers(hole).next().is_some()) {
            return Cause::Ambiguous;
        }
        match self.state {
            State::Loss(_) if head.last().fate == Fate::Dropped => Cause::LostAgain,
            State::Loss(_) => Cause::Late,
            State::Recovery(_) if head.sendings.len() > 1 => Cause::RetransmissionLost,
            State::Recovery(_) => Cause::TailOfRecoveryLost,
            State::Open => match self.probe {
                Some((_, end)) if end > self.una => {
                    let probe = self.packets.iter().find(|packet| packet.end == end);
                    match probe.map(|packet| (packet.sacked, arrived(packet))) {
                        Some((true, _)) => Cause::Ambiguous,
                        Some((false, true)) => Cause::ProbeAckLost,
                        _ => Cause::FlightAndProbeLost,
                    }
                }
                Some((_, end)) if end == self.una && self.probe_repeats => Cause::ProbeOutstanding,
                // A recovery that began with the acknowledgement that ended the one before.
                _ if head.sendings.len() > 1 => Cause::RetransmissionLost,
                _ => Cause::NoProbe,
            },
        }
    }

    fn about(&self, now: Time) -> String {
        let mut text = format!("{:?} una {} nxt {}", self.state, self.una, self.nxt);
        if let Some(windows) = self.windows {
            let srtt = windows.srtt.unwrap_or_default().as_micros();
            text +=
                &format!(" cwnd {} in flight {} srtt {srtt} us", windows.cwnd_bytes, windows.inflight_bytes);
        }
        let ago = |at: Time| now.since(at).as_micros() as f64 / 1e3;
        if let Some((at, end)) = self.probe {
            text += &format!(" probe to {end} {:.1} ms ago", ago(at));
        }
        text += &format!(" moved {:.1} ms ago, {} acks dropped;", ago(self.moved), self.acks_dropped);
        for packet in self.packets.iter().take(12) {
            let mark = if packet.sacked {
                "+"
            } else if packet.lost {
                "-"
            } else {
                ""
            };
            text += &format!(" {}{mark}[", packet.seq);
            for (at, s) in packet.sendings.iter().enumerate() {
                let kind = match s.kind {
                    SendKind::New => "n",
                    SendKind::Retransmission => "r",
                    SendKind::Reinjection => "i",
                    SendKind::Probe => "p",
                    SendKind::Control => "c",
                };
                let fate = match s.fate {
                    Fate::Flying => "?",
                    Fate::Dropped => "x",
                    Fate::Arrived => "!",
                };
                text += &format!("{}{kind}{fate}{:.1}", if at > 0 { " " } else { "" }, ago(s.at));
            }
            text += "]";
        }
        if self.packets.len() > 12 {
            text += &format!(" and {} more", self.packets.len() - 12);
        }
        text
    }
}

impl Recorder for Watch {
    fn on_trace(&mut self, trace: &Trace<'_>) {
        let now = trace.time;
        match trace.what {
            What::Link { event: LinkEvent::Leave { segment, .. }, .. } => self.settle(segment, Fate::Arrived),
            What::Link { event: LinkEvent::Drop { segment, .. }, .. } => self.on_drop(segment),
            What::Stack { scope, event } => match *event {
                StackEvent::Sent { subflow, segment, kind, data } => {
                    self.on_sent(now, scope, subflow, segment, kind, data);
                }
                StackEvent::Received { subflow, segment } => {
                    if let Some(half) = self.halves.get_mut(&(scope, subflow)) {
                        half.acknowledge(now, segment);
                    }
                }
                StackEvent::Lost { subflow, range, reason } => {
                    self.on_lost(now, scope, subflow, range, reason);
                }
                StackEvent::Undone { subflow } => self.on_undo(scope, subflow),
                StackEvent::Windows { subflow, windows } => {
                    if let Some(half) = self.halves.get_mut(&(scope, subflow)) {
                        half.windows = Some(*windows);
                    }
                }
                StackEvent::Limit(limit) => {
                    self.limits.insert(scope, limit);
                }
                _ => {}
            },
            _ => {}
        }
    }
}

impl Watch {
    fn on_drop(&mut self, segment: &Segment) {
        self.settle(segment, Fate::Dropped);
        if segment.payload_len == 0
            && let Some(half) = self.half_of(segment.destination, segment.source)
        {
            half.acks_dropped += 1;
        }
    }

    fn on_sent(
        &mut self,
        now: Time,
        scope: Scope,
        subflow: SubflowId,
        segment: &Segment,
        kind: SendKind,
        data: DataRange,
    ) {
        self.wires.insert((segment.source, segment.destination), (scope, subflow));
        let half = self.halves.entry((scope, subflow)).or_default();
        if half.first.is_none() {
            (half.first, half.last_new) = (Some(segment.seq.0), now);
        }
        let seq = half.offset(segment.seq.0);
        let fin = segment.flags.has(Flags::FIN);
        let end =
            seq + u64::from(segment.payload_len) + u64::from(fin) + u64::from(segment.flags.has(Flags::SYN));
        half.nxt = half.nxt.max(end);
        if segment.flags.has(Flags::SYN) || end == seq {
            return;
        }
        let stamp = segment.options.timestamps.map_or(0, |timestamps| timestamps.value);
        let sending = Sending { at: now, kind, fate: Fate::Flying, stamp };
        let known = half.packets.iter().position(|packet| packet.end > seq);
        match known {
            Some(at) => {
                let packet = &mut half.packets[at];
                if packet.end > end {
                    // It was split.
                    let mut rest = packet.clone();
                    rest.seq = end;
                    packet.end = end;
                    half.packets.insert(at + 1, rest);
                }
                let packet = &mut half.packets[at];
                packet.sendings.push(sending);
                packet.lost = false;
                if kind == SendKind::Probe {
                    (half.probe, half.probe_repeats) = (Some((now, end)), true);
                }
            }
            None => {
                // New data as a probe: two round trips after the last new data and the last progress.
                let srtt = half.windows.and_then(|windows| windows.srtt).unwrap_or(Duration::MAX);
                let silent = !half.packets.is_empty() && now.since(half.last_new.max(half.moved)) >= srtt * 2;
                if kind == SendKind::Probe || (silent && half.state == State::Open) {
                    (half.probe, half.probe_repeats) = (Some((now, end)), false);
                }
                half.last_new = now;
                let sendings = vec![sending];
                half.packets.push_back(Packet {
                    seq,
                    end,
                    data,
                    sendings,
                    sacked: false,
                    sacked_at: now,
                    lost: false,
                });
            }
        }
    }

    fn on_lost(&mut self, now: Time, scope: Scope, subflow: SubflowId, range: DataRange, reason: LossReason) {
        let limit = self.limits.get(&scope).copied().unwrap_or_default();
        let Some(half) = self.halves.get_mut(&(scope, subflow)) else { return };
        if reason == LossReason::Timeout {
            if half.timed_out != Some(now) {
                half.timed_out = Some(now);
                let about = format!("limit {limit:?} {}", half.about(now));
                self.timeouts.push(Timeout { at: now, cause: half.cause(), about });
                half.state = State::Loss(half.nxt);
                half.probe = None;
            }
        } else if half.state == State::Open {
            half.state = State::Recovery(half.nxt);
            half.probe = None;
        }
        for packet in &mut half.packets {
            let inside = packet.data.start >= range.start && packet.data.end <= range.end;
            packet.lost |= inside && !packet.sacked;
        }
    }

    fn on_undo(&mut self, scope: Scope, subflow: SubflowId) {
        self.undos += 1;
        if let Some(half) = self.halves.get_mut(&(scope, subflow)) {
            half.state = State::Open;
            for packet in &mut half.packets {
                packet.lost = false;
            }
        }
    }
}
