//! A random case: two configurations, some paths, and operations; and their generators.

use anabranch_stack::config::{
    AckConfig, Checksums, ConnectionConfig, DsnWidth, LossDetection, OpportunisticRetransmission, Profile,
    ReceiveBuffer, Reinjection, RtoConfig, SendBuffers, SequenceOrigin, SimConfig, SimOnly,
};
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::path_manager::PathManagerKind;
use anabranch_stack::scheduler::SchedulerKind;
use anabranch_stack::seq::{Dsn, Seq};
use anabranch_units::{Bytes, Duration};
use proptest::prelude::*;

use crate::harness::Side;

/// An event that affects the two hosts or the paths between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// The application requests to write this many bytes.
    Write(Side, u32),
    /// The application closes once everything is written.
    Close(Side),
    /// The application aborts.
    Abort(Side),
    /// The application reads at most this many bytes.
    Read(Side, u32),
    /// The application stops reading automatically.
    Pause(Side),
    /// The application reads automatically again.
    Resume(Side),
    /// A path fails silently.
    PathDown(u8),
    /// The path recovers.
    PathUp(u8),
    /// The loss in a direction, per mille.
    Loss(u8, bool, u16),
    /// The number of consecutive segments lost.
    Burst(u8, u8),
    /// The one-way delay in microseconds.
    Delay(u8, u32),
    /// The share of late segments, per mille.
    Reorder(u8, u16),
    /// The share of duplicated segments, per mille.
    Duplicate(u8, u16),
    /// A local address disappears.
    AddressDown(Side, u8),
    /// A local address appears (again).
    AddressUp(Side, u8),
    /// A subflow's priority changes.
    Backup(Side, u8, bool),
    /// A middlebox on a path removes option 30 from some segments, selected by bits: SYN, SYN/ACK, the
    /// client's later ones, the server's; and drops a SYN that has it.
    Strip(u8, u8),
    /// The share of changed data segments, per mille.
    Damage(u8, u16),
    /// This many microseconds pass.
    Advance(u32),
}

/// The configuration of one side. Numbers are indices into lists, so that everything can shrink.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knobs {
    /// Bits that invert the profile's switches: SACK, timestamps, PRR, undo, limited transmit, idle restart,
    /// pacing, loss detection, opportunistic retransmission (2), reinjection, narrow DSN, backoff, least
    /// timeout on the variation, consume at once, departures of several segments.
    pub flips: u16,
    pub scheduler: u8,
    pub congestion: u8,
    pub mss: u32,
    pub initial_window: u32,
    pub ssthresh: Option<u32>,
    pub ack: (u32, u64, u32),
    /// The receive buffer, and the increment to which it may grow.
    pub receive_buffer: (u64, u64),
    pub send_buffer: u64,
    pub max_subflows: u8,
    /// The flow size: 0 unknown, 1 correct, 2 too small, 3 too large.
    pub size_hint: u8,
    /// DSS checksums: 0 if requested, 1 required, 2 refused.
    pub checksums: u8,
}

/// The initial state of one path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathSetup {
    pub delay_us: u32,
    pub loss: u16,
    pub reorder: u16,
    pub duplicate: u16,
    /// True if the client's address is absent at first.
    pub absent: bool,
}

/// A random case.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    pub seed: u64,
    pub ns3: bool,
    /// The sides that use MPTCP.
    pub mptcp: [bool; 2],
    pub simultaneous: bool,
    /// 0 none, 1 full mesh, else the number of subflows between one pair of addresses.
    pub path_manager: u8,
    /// True if a failing path is given up soon.
    pub fragile: bool,
    pub rto_min_ms: u64,
    pub rto_max_ms: u64,
    pub user_timeout_ms: u64,
    pub time_wait_ms: u64,
    pub isn: u32,
    pub dsn: [u64; 2],
    pub knobs: [Knobs; 2],
    pub servers: u8,
    pub paths: Vec<PathSetup>,
    pub ops: Vec<Op>,
}

impl Knobs {
    /// The profile's values, with buffers that never limit.
    pub const PLAIN: Knobs = Knobs {
        flips: 0,
        scheduler: 0,
        congestion: 0,
        mss: 1400,
        initial_window: 10,
        ssthresh: None,
        ack: (2, 40, 16),
        receive_buffer: (1 << 20, 0),
        send_buffer: 1 << 20,
        max_subflows: 8,
        size_hint: 0,
        checksums: 0,
    };
}

impl Case {
    /// Returns two clean paths without events, the base of hand-written cases.
    pub fn plain() -> Case {
        let path = |delay_us| PathSetup { delay_us, loss: 0, reorder: 0, duplicate: 0, absent: false };
        Case {
            seed: 0,
            ns3: false,
            mptcp: [true; 2],
            simultaneous: false,
            path_manager: 1,
            fragile: false,
            rto_min_ms: 200,
            rto_max_ms: 3000,
            user_timeout_ms: 900_000,
            time_wait_ms: 10_000,
            isn: 0,
            dsn: [0; 2],
            knobs: [Knobs::PLAIN; 2],
            servers: 1,
            paths: vec![path(10_000), path(20_000)],
            ops: Vec::new(),
        }
    }

    pub fn config(&self, side: Side) -> SimConfig {
        let at = usize::from(side == Side::Server);
        let knobs = &self.knobs[at];
        let base = SimConfig::new(if self.ns3 { Profile::Ns3 } else { Profile::Linux });
        let flip = |bit: u32, profile: bool| (knobs.flips >> bit & 1 == 1) != profile;
        let sack = flip(0, base.sack);
        let rack = flip(7, base.loss_detection == LossDetection::RackTlp);
        let loss_detection = if rack { LossDetection::RackTlp } else { LossDetection::DuplicateAcks };
        let all = SchedulerKind::ALL;
        let opportunistic = match knobs.flips >> 8 & 3 {
            1 => OpportunisticRetransmission::Retransmit,
            2 | 3 => OpportunisticRetransmission::RetransmitAndPenalise,
            _ => OpportunisticRetransmission::Off,
        };
        let on_death = flip(10, base.reinjection == Reinjection::OnDeath);
        let narrow = flip(11, false);
        let (buffer, growth) = knobs.receive_buffer;
        let total = self.total(side);
        let only = SimOnly {
            simultaneous: self.simultaneous && self.mptcp == [true; 2],
            sequence_origin: Some(SequenceOrigin {
                isn: Seq(self.isn),
                initiator: Dsn(self.dsn[0]),
                listener: Dsn(self.dsn[1]),
            }),
            consume_at_once: flip(14, base.only.consume_at_once),
            ..base.only
        };
        let connection = ConnectionConfig {
            mptcp: self.mptcp[at],
            mss: knobs.mss,
            mtu: 9000,
            initial_window: knobs.initial_window,
            initial_ssthresh: knobs.ssthresh,
            loss_detection,
            sack,
            timestamps: flip(1, base.timestamps),
            prr: flip(2, base.prr),
            undo: flip(3, base.undo),
            limited_transmit: flip(4, base.limited_transmit),
            idle_restart: flip(5, base.idle_restart),
            pacing: flip(6, base.pacing),
            ecn: flip(15, base.ecn),
            lisa: flip(15, base.lisa),
            rto: RtoConfig {
                min: Duration::from_millis(self.rto_min_ms),
                max: Duration::from_millis(self.rto_max_ms),
                backoff: flip(12, base.rto.backoff),
                min_bounds_variation: flip(13, base.rto.min_bounds_variation),
                max_timeouts: if self.fragile { 3 } else { 400 },
                syn_retries: if self.fragile { 2 } else { 50 },
                ..base.rto
            },
            mptcp_syns: if self.fragile { 1 } else { 3 },
            ack: AckConfig {
                every: knobs.ack.0,
                delay: Duration::from_millis(knobs.ack.1),
                quick: knobs.ack.2,
                ..base.ack
            },
            receive_buffer: if growth == 0 {
                ReceiveBuffer::Fixed(Bytes(buffer))
            } else {
                ReceiveBuffer::Auto { initial: Bytes(buffer), max: Bytes(buffer + growth) }
            },
            send_buffer: Bytes(knobs.send_buffer),
            send_buffers: Some(SendBuffers::Fixed(Bytes(knobs.send_buffer))),
            user_timeout: Duration::from_millis(self.user_timeout_ms),
            time_wait: Duration::from_millis(self.time_wait_ms),
            close_timeout: Duration::from_secs(10),
            scheduler: all[usize::from(knobs.scheduler) % all.len()].clone(),
            congestion: CongestionKind::ALL[usize::from(knobs.congestion) % CongestionKind::ALL.len()]
                .clone(),
            path_manager: match self.path_manager {
                0 => PathManagerKind::None,
                1 => PathManagerKind::FullMesh,
                n => PathManagerKind::NDiffPorts(n),
            },
            max_subflows: knobs.max_subflows,
            opportunistic,
            reinjection: if on_death { Reinjection::OnDeath } else { Reinjection::OnTimeout },
            dsn_width: if narrow { DsnWidth::Narrow } else { DsnWidth::Wide },
            flow_size: match knobs.size_hint {
                0 => None,
                1 => Some(Bytes(total)),
                2 => Some(Bytes(total / 3)),
                _ => Some(Bytes(total * 3 + 10_000)),
            },
            checksums: match knobs.checksums * u8::from(!self.simultaneous) {
                0 => Checksums::IfAsked,
                1 => Checksums::Required,
                _ => Checksums::Refused,
            },
            ..base.connection
        };
        connection.simulated(only)
    }

    /// Returns the maximum payload of a departure of several segments of a side.
    pub fn burst_limit(&self, side: Side) -> u32 {
        let knobs = &self.knobs[usize::from(side == Side::Server)];
        let limit = if self.seed.is_multiple_of(2) { 65_000 } else { 3 * knobs.mss + 100 };
        if knobs.flips >> 15 & 1 == 1 { limit } else { 0 }
    }

    /// Returns the total that the application of a side writes.
    pub fn total(&self, side: Side) -> u64 {
        let mut total = 0;
        for op in &self.ops {
            match *op {
                Op::Write(who, n) if who == side => total += u64::from(n),
                Op::Close(who) if who == side => break,
                _ => {}
            }
        }
        total
    }

    /// True if nothing in the case may end a connection early.
    pub fn must_finish(&self) -> bool {
        let harmless =
            |op: &Op| !matches!(op, Op::Abort(_) | Op::AddressDown(..) | Op::Strip(..) | Op::Damage(..));
        !self.fragile
            && self.user_timeout_ms >= 600_000
            && self.ops.iter().all(harmless)
            && self.timeouts_learn()
    }

    /// True if every timeout eventually exceeds the round trip. Without backoff and without timestamps it
    /// does not: everything is retransmitted before it is acknowledged, so there are no samples (Karn's
    /// rule). Subflows may then retransmit the same data alternately forever, as ns-3 does.
    fn timeouts_learn(&self) -> bool {
        let configs = Side::BOTH.map(|side| self.config(side));
        if configs.iter().all(|config| config.timestamps) || configs.iter().all(|config| config.rto.backoff) {
            return true;
        }
        let least = configs.iter().map(|config| config.rto.initial.min(config.rto.min)).min();
        let delayed = self.ops.iter().filter_map(|op| match op {
            Op::Delay(_, delay_us) => Some(u64::from(*delay_us)),
            _ => None,
        });
        let longest = self.paths.iter().map(|path| u64::from(path.delay_us)).chain(delayed).max();
        least > longest.map(|delay_us| Duration::from_micros(2 * delay_us))
    }
}

/// Generates operations, paths and configurations.
pub fn any_case() -> impl Strategy<Value = Case> {
    let sides = prop_oneof![Just(Side::Client), Just(Side::Server)];
    let origins = (any_near(1 << 32), prop::array::uniform2(any_dsn()));
    let life = (
        any::<bool>(),
        prop_oneof![8 => Just([true, true]), 1 => Just([false, true]), 1 => Just([true, false])],
        prop::bool::weighted(0.3),
        prop_oneof![1 => Just(0u8), 5 => Just(1), 2 => 2u8..5],
        prop::bool::weighted(0.3),
    );
    let times = (
        prop_oneof![2 => Just(200u64), 1 => 20u64..400],
        prop_oneof![3 => Just(3000u64), 1 => Just(20_000)],
        prop_oneof![9 => Just(900_000u64), 1 => 2_000u64..20_000],
        prop_oneof![1 => 500u64..5000, 3 => Just(60_000)],
    );
    let paths = prop::collection::vec(any_path(), 1..5);
    let ops = prop::collection::vec(any_op(sides.boxed()), 1..30);
    let knobs = prop::array::uniform2(any_knobs());
    (any::<u64>(), life, times, origins, knobs, 1u8..3, paths, ops).prop_map(
        |(seed, life, times, (isn, dsn), knobs, servers, paths, ops)| Case {
            seed,
            ns3: life.0,
            mptcp: life.1,
            simultaneous: life.2,
            path_manager: life.3,
            fragile: life.4,
            rto_min_ms: times.0,
            rto_max_ms: times.1,
            user_timeout_ms: times.2,
            time_wait_ms: times.3,
            isn: isn as u32,
            dsn,
            knobs,
            servers,
            paths,
            ops,
        },
    )
}

/// Generates a number shortly before `wrap`, or any number.
fn any_near(wrap: u64) -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 1 => 0..wrap, 2 => (1u64..30_000).prop_map(move |before| wrap - before)]
}

fn any_dsn() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => Just(0u64),
        1 => any::<u64>(),
        // Before a wrap of the low half, and before the maximum.
        2 => (any::<u32>(), 1u64..30_000).prop_map(|(high, before)| (u64::from(high) << 32).wrapping_sub(before)),
        2 => (1u64..30_000).prop_map(|before| 0u64.wrapping_sub(before)),
    ]
}

fn any_knobs() -> impl Strategy<Value = Knobs> {
    let flips = prop_oneof![1 => Just(0u16), 1 => any::<u16>(), 1 => (0u32..16).prop_map(|bit| 1 << bit)];
    let kinds = (0u8..SchedulerKind::ALL.len() as u8, 0u8..CongestionKind::ALL.len() as u8);
    let windows = (
        prop_oneof![3 => Just(1400u32), 1 => 64u32..1400, 1 => Just(8900)],
        prop_oneof![2 => Just(10u32), 1 => 1u32..20],
        prop_oneof![3 => Just(None), 1 => (1u32..40).prop_map(Some)],
    );
    let ack = (1u32..5, prop_oneof![2 => Just(40u64), 1 => 1u64..200], 0u32..20);
    let buffers = (
        prop_oneof![2 => 20_000u64..200_000, 2 => 1000u64..20_000, 1 => 200u64..1000, 2 => Just(1 << 20)],
        prop_oneof![2 => Just(0u64), 1 => 1u64..1_000_000],
        prop_oneof![2 => 20_000u64..200_000, 1 => 400u64..20_000, 2 => Just(1 << 20)],
    );
    let checksums = prop_oneof![4 => Just(0u8), 2 => Just(1), 1 => Just(2)];
    (flips, kinds, windows, ack, buffers, prop_oneof![Just(8u8), 1u8..9], 0u8..4, checksums).prop_map(
        |(flips, kinds, windows, ack, buffers, max_subflows, size_hint, checksums)| Knobs {
            flips,
            scheduler: kinds.0,
            congestion: kinds.1,
            mss: windows.0,
            initial_window: windows.1,
            ssthresh: windows.2,
            ack,
            receive_buffer: (buffers.0, buffers.1),
            send_buffer: buffers.2,
            max_subflows,
            size_hint,
            checksums,
        },
    )
}

fn any_path() -> impl Strategy<Value = PathSetup> {
    let fault = || prop_oneof![3 => Just(0u16), 1 => 0u16..300];
    (any_delay(), fault(), fault(), fault(), prop::bool::weighted(0.1)).prop_map(
        |(delay_us, loss, reorder, duplicate, absent)| PathSetup {
            delay_us,
            loss,
            reorder,
            duplicate,
            absent,
        },
    )
}

fn any_delay() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 1_000u32..60_000, 1 => 10u32..1_000, 1 => 60_000u32..600_000]
}

fn any_op(side: BoxedStrategy<Side>) -> impl Strategy<Value = Op> {
    let s = || side.clone();
    let size = prop_oneof![3 => 1u32..5_000, 4 => 5_000u32..40_000, 1 => 40_000u32..150_000];
    prop_oneof![
        12 => (s(), size).prop_map(|(side, n)| Op::Write(side, n)),
        2 => s().prop_map(Op::Close),
        1 => prop_oneof![4 => Just(Op::Advance(1)), 1 => s().prop_map(Op::Abort)],
        2 => (s(), 1u32..30_000).prop_map(|(side, n)| Op::Read(side, n)),
        3 => s().prop_map(Op::Pause),
        2 => s().prop_map(Op::Resume),
        3 => (0u8..4).prop_map(Op::PathDown),
        3 => (0u8..4).prop_map(Op::PathUp),
        2 => (0u8..4, any::<bool>(), 0u16..500).prop_map(|(path, back, loss)| Op::Loss(path, back, loss)),
        3 => (0u8..4, 1u8..12).prop_map(|(path, n)| Op::Burst(path, n)),
        2 => (0u8..4, any_delay()).prop_map(|(path, delay)| Op::Delay(path, delay)),
        1 => (0u8..4, 0u16..500).prop_map(|(path, share)| Op::Reorder(path, share)),
        1 => (0u8..4, 0u16..500).prop_map(|(path, share)| Op::Duplicate(path, share)),
        1 => (s(), 0u8..4).prop_map(|(side, at)| Op::AddressDown(side, at)),
        2 => (s(), 0u8..4).prop_map(|(side, at)| Op::AddressUp(side, at)),
        2 => (s(), 0u8..4, any::<bool>()).prop_map(|(side, at, backup)| Op::Backup(side, at, backup)),
        1 => (0u8..4, 0u8..32).prop_map(|(path, what)| Op::Strip(path, what)),
        1 => (0u8..4, 0u16..200).prop_map(|(path, share)| Op::Damage(path, share)),
        16 => prop_oneof![3 => 100u32..60_000, 3 => 60_000u32..500_000, 1 => 500_000u32..2_000_000].prop_map(Op::Advance),
    ]
}
