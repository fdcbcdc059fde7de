//! The memory of a connection between observations.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use anabranch_scenario::policy::Treatment;
use anabranch_units::{Duration, Time};

use crate::diag::{Connection, TcpInfo};
use crate::interfaces::Interfaces;
use crate::pm::{Subflow, Token};

/// The circumstances of a decision about a connection.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub now: Time,
    pub token: Token,
    pub interfaces: &'a Interfaces,
    pub treatment: &'a Treatment,
}

/// A connection.
#[derive(Clone, Debug)]
pub(super) struct Tracked {
    pub initial: Subflow,
    /// True if this host opens subflows; none until it is known.
    pub client: Option<bool>,
    /// True once subflows can be opened.
    pub established: bool,
    /// True if the peer accepts no further subflow to its initial address.
    pub deny_join_id0: bool,
    /// True if another path manager has it: its commands are refused.
    pub foreign: bool,
    /// The addresses that the peer has announced, by identifier.
    pub announced: BTreeMap<u8, SocketAddr>,
    /// The addresses that this host has announced, with their identifiers.
    pub own_announced: BTreeMap<IpAddr, u8>,
    pub subflows: BTreeMap<Subflow, TrackedSubflow>,
    /// Subflows that are being opened, or could not be opened, by local address.
    pub opening: BTreeMap<IpAddr, Opening>,
    /// Subflows without their address, by their attempts to close them: the kernel may refuse, and keep a subflow.
    pub closing: BTreeMap<Subflow, Opening>,
    /// The last observation.
    pub view: Option<Connection>,
    pub traffic: Traffic,
    /// The time of the next observation that it needs.
    pub next_look: Time,
}

#[derive(Clone, Debug, Default)]
pub(super) struct TrackedSubflow {
    /// The identifier of its local address.
    pub local_id: u8,
    pub remote_id: u8,
    /// Observations in a row in which it was used and not needed.
    pub spare: u32,
    /// No change of its priority before.
    pub quiet_until: Time,
    /// Refusals of a change in a row.
    pub refusals: u32,
    pub loss: LossEstimate,
    pub growth: Growth,
    /// Payload received by it, until the last observation and the one before.
    pub received: [u64; 2],
}

/// An attempt to open a subflow, or to close it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    pub attempts: u32,
    /// The time of the next attempt.
    pub next: Time,
}

/// The time after the last attempt from which on earlier ones are forgotten.
const FORGOTTEN: Duration = Duration::from_secs(120);
/// The first pause between two attempts, doubled with each.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The exponent of the longest pause, about a minute.
const MOST_DOUBLINGS: u32 = 6;

impl Opening {
    /// Returns the next attempt after `before`.
    pub(super) fn after(before: Option<Opening>, now: Time) -> Opening {
        let recent = before.filter(|before| now < before.next + FORGOTTEN);
        let attempts = recent.map_or(0, |before| before.attempts);
        let pause = FIRST_PAUSE.0 << attempts.min(MOST_DOUBLINGS);
        Opening { attempts: attempts + 1, next: now + Duration(pause) }
    }
}

impl Tracked {
    pub(super) fn new(initial: Subflow) -> Tracked {
        Tracked {
            initial,
            client: None,
            established: false,
            deny_join_id0: false,
            foreign: false,
            announced: BTreeMap::new(),
            own_announced: BTreeMap::new(),
            subflows: BTreeMap::new(),
            opening: BTreeMap::new(),
            closing: BTreeMap::new(),
            view: None,
            traffic: Traffic::default(),
            next_look: Time::ZERO,
        }
    }

    pub(super) fn server_port(&self) -> u16 {
        match self.client {
            Some(false) => self.initial.local.port(),
            _ => self.initial.remote.port(),
        }
    }
}

/// One direction of a connection's data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stream {
    total: u64,
    /// The bytes since the last pause.
    pub burst: u64,
    /// The bytes since the observation before.
    pub fresh: u64,
    last: Time,
}

/// A pause that ends a burst.
const PAUSE: Duration = Duration::from_millis(500);

impl Stream {
    /// Notes the bytes so far; `busy` if there is data that waits.
    fn update(&mut self, now: Time, total: u64, busy: bool) {
        self.fresh = total.saturating_sub(self.total);
        self.total = total;
        if now.since(self.last) > PAUSE {
            self.burst = 0;
        }
        if self.fresh > 0 || busy {
            self.last = now;
        }
        self.burst += self.fresh;
    }
}

/// The data of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    pub sent: Stream,
    pub received: Stream,
    /// The time of the observation before.
    pub before: Time,
    /// The time between the last two observations.
    pub span: Duration,
}

impl Traffic {
    /// Notes an observation.
    pub(super) fn update(&mut self, now: Time, connection: &Connection) {
        let sum = |count: fn(&TcpInfo) -> u64| connection.subflows.iter().map(|one| count(&one.info)).sum();
        let (sent, received) = match connection.info.counters {
            Some(counters) => (counters.bytes_sent, counters.bytes_received),
            None => (sum(|info| info.bytes_sent), sum(|info| info.bytes_received)),
        };
        // Data that waits was written too.
        let written = sent + connection.unsent();
        self.sent.update(now, written, connection.info.outstanding() > 0);
        self.received.update(now, received, false);
        self.span = now.since(self.before);
        self.before = now;
    }

    /// True if the connection receives, by this host's last observations: it sends nothing, or less.
    pub(super) fn is_receiving(&self, outstanding: u64) -> bool {
        match (outstanding, self.received.burst) {
            (0, received) => received > self.sent.burst,
            (waiting, received) => received > self.sent.burst.max(waiting),
        }
    }
}

/// The part of a subflow's payload that is lost, from the counters of retransmissions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossEstimate {
    sent: u64,
    retransmitted: u64,
    rate: f64,
}

/// The payload over which old losses are forgotten to 1/e: a thousand segments.
const LOSS_SPAN: f64 = 1.4e6;

impl LossEstimate {
    pub(super) fn update(&mut self, info: &TcpInfo) {
        let sent = info.bytes_sent.saturating_sub(self.sent);
        let lost = info.bytes_retrans.saturating_sub(self.retransmitted);
        if sent > 0 {
            let weight = 1.0 - (-(sent as f64) / LOSS_SPAN).exp();
            let now = (lost as f64 / sent as f64).min(1.0);
            self.rate += weight * (now - self.rate);
        }
        (self.sent, self.retransmitted) = (info.bytes_sent, info.bytes_retrans);
    }

    pub(super) fn rate(&self) -> f64 {
        self.rate
    }
}

/// The growth of a window: the threshold that slow start has found without a loss, as BBR and HyStart do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    /// The window at the time of the last comparison.
    before: Option<(Time, u32)>,
    /// The window at which it has ceased to double.
    ceiling: Option<u32>,
}

impl Growth {
    /// Compares the window with the one of a round trip ago, if the subflow had data for it.
    pub(super) fn update(&mut self, now: Time, info: &TcpInfo) {
        let Some((then, before)) = self.before else {
            self.before = Some((now, info.cwnd));
            return;
        };
        if now.since(then) < Duration::from_micros(info.rtt_us.into()) {
            return;
        }
        self.before = Some((now, info.cwnd));
        let has_grown = |from: u32| info.cwnd > from + from / 4;
        if self.ceiling.is_some_and(has_grown) {
            self.ceiling = None;
        }
        let is_limited = info.notsent_bytes > 0 && info.in_flight() * 2 >= info.cwnd;
        if is_limited && !has_grown(before) && self.ceiling.is_none() {
            self.ceiling = Some(info.cwnd);
        }
    }

    /// Returns the threshold: the kernel's, or the one found.
    pub(super) fn threshold(&self, info: &TcpInfo) -> Option<u32> {
        info.ssthresh.or(self.ceiling)
    }
}
