//! What a connection and an endpoint can be told. Every part of a profile is a knob of its own.

mod settings;

use core::net::IpAddr;

use anabranch_units::{Bytes, Duration, RandomStream};

use crate::congestion::{CongestionKind, CubicOptions};
use crate::path_manager::PathManagerKind;
use crate::scheduler::SchedulerKind;
use crate::segment::{PathId, Segment};
use crate::seq::{Dsn, Seq};
use crate::timestamp::TimestampTick;

/// What an endpoint (a host) is told once.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// The host's addresses, in order of preference.
    pub addresses: Vec<LocalAddress>,
    /// How many connections may exist at once; a SYN beyond is refused. One that is half-open makes room for another
    /// that is established.
    pub max_connections: usize,
    /// How many of those that others open may wait for their third segment. Beyond, one that has waited for 3 s is
    /// evicted for the newest; if there is none, the SYN is answered with a cookie and costs no memory (RFC 4987
    /// section 3.6). 0: every SYN is.
    pub max_half_open: usize,
    /// How often its TCP timestamps tick.
    pub timestamp_tick: TimestampTick,
}

impl EndpointConfig {
    /// A host with `addresses`, up to 65,536 connections and 1024 half-open ones, and timestamps in microseconds.
    pub fn new(addresses: Vec<LocalAddress>) -> EndpointConfig {
        EndpointConfig {
            addresses,
            max_connections: 65_536,
            max_half_open: 1024,
            timestamp_tick: TimestampTick::default(),
        }
    }
}

/// An address of this host and the interface that has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalAddress {
    /// The IP address.
    pub ip: IpAddr,
    /// The interface by which its packets leave.
    pub path: PathId,
    /// Joins from here ask to be backups.
    pub backup: bool,
}

/// Where random bits come from.
#[derive(Clone, Debug)]
pub enum Entropy {
    /// A seeded stream, for simulation and tests.
    Seeded(RandomStream),
    /// A function that fills a buffer with the system's entropy.
    System(fn(&mut [u8])),
}

impl Entropy {
    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        match self {
            Entropy::Seeded(stream) => stream.next_u64(),
            Entropy::System(fill) => {
                let mut bytes = [0; 8];
                fill(&mut bytes);
                u64::from_le_bytes(bytes)
            }
        }
    }

    /// 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }
}

/// Which sender and receiver a connection behaves like (`docs/definitions.md`, Profiles).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Profile {
    /// Today's Linux, as `anabranch validate` compares it with the kernel.
    #[default]
    Linux,
    /// The simulations of the DMPTCP paper.
    Ns3,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Profile; 2] = [Profile::Linux, Profile::Ns3];

    /// Its name in scenarios and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Profile::Linux => "linux",
            Profile::Ns3 => "ns3",
        }
    }

    /// The profile of that name.
    pub fn from_name(name: &str) -> Option<Profile> {
        Profile::ALL.into_iter().find(|profile| profile.name() == name)
    }
}

/// How losses are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossDetection {
    /// RACK-TLP (RFC 8985); needs SACK.
    RackTlp,
    /// Three duplicate ACKs, NewReno (RFC 6582).
    DuplicateAcks,
}

/// When acknowledgements are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckConfig {
    /// After how many full segments one is due; at least 1.
    pub every: u32,
    /// How long a single segment may wait for it.
    pub delay: Duration,
    /// How many segments at the start of a subflow are acknowledged at once.
    pub quick: u32,
    /// A segment is acknowledged at once if it raises the window that Linux would offer, as most do while the sender
    /// is in slow start; and so are `quick` segments after a silence or a needless retransmission.
    pub growth: bool,
    /// The sender marks the last segment of each burst (PSH), and one that is the next of the stream is
    /// acknowledged at once if the application has read all of it.
    pub push: bool,
}

/// Retransmission timeouts (RFC 6298).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtoConfig {
    /// Before there is an RTT sample.
    pub initial: Duration,
    /// The least timeout.
    pub min: Duration,
    /// The least timeout bounds four times the variation (as Linux does) and not the whole sum.
    pub min_bounds_variation: bool,
    /// The greatest timeout.
    pub max: Duration,
    /// Whether each timeout in a row doubles the next.
    pub backoff: bool,
    /// After how many timeouts in a row a subflow is dead.
    pub max_timeouts: u32,
    /// How often a SYN is sent again before the attempt fails.
    pub syn_retries: u32,
}

/// The size of the receive buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveBuffer {
    /// Always this.
    Fixed(Bytes),
    /// Twice the sum of the bandwidths times the largest RTT, between these two.
    Auto {
        /// At the start.
        initial: Bytes,
        /// At the most.
        max: Bytes,
    },
}

impl ReceiveBuffer {
    /// The most it can become.
    pub const fn max(self) -> Bytes {
        match self {
            ReceiveBuffer::Fixed(size) => size,
            ReceiveBuffer::Auto { max, .. } => max,
        }
    }

    /// Its size at the start.
    pub const fn initial(self) -> Bytes {
        match self {
            ReceiveBuffer::Fixed(size) => size,
            ReceiveBuffer::Auto { initial, .. } => initial,
        }
    }
}

/// The send buffers of a connection of Multipath TCP and of its subflows, as Linux has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendBuffers {
    /// What a program has set (`SO_SNDBUF`, of which Linux makes twice as much): the connection has this, and each
    /// subflow.
    Fixed(Bytes),
    /// They grow with the windows (`tcp_wmem`).
    Auto {
        /// Of a subflow at first; at least 46,080 bytes.
        initial: Bytes,
        /// Of a subflow at the most.
        max: Bytes,
    },
}

/// Opportunistic retransmission with penalisation (NSDI 2012), a policy that combines with any
/// scheduler.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum OpportunisticRetransmission {
    /// Neither.
    #[default]
    Off,
    /// Send the blocking data again on the fast subflow.
    Retransmit,
    /// Also halve the window of the slow subflow that blocks.
    RetransmitAndPenalise,
}

/// When a subflow's data is given to another as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reinjection {
    /// Only when the subflow has died.
    OnDeath,
    /// Also at each retransmission timeout.
    OnTimeout,
}

/// DSS checksums (RFC 8684 section 3.3.1): whether flag A of MP_CAPABLE is set, and what an A of the
/// peer's brings.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Checksums {
    /// A peer that requires them gets a plain TCP.
    Refused,
    /// They are used if the peer requires them, as in Linux.
    #[default]
    IfAsked,
    /// They are used in both directions, whatever the peer says.
    Required,
}

/// The width of data sequence numbers and data ACKs on the wire.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum DsnWidth {
    /// 64 bits.
    #[default]
    Wide,
    /// 32 bits; safe while 2^32 bytes cannot pass within a segment's lifetime.
    Narrow,
}

/// Start values of sequence numbers, in place of random ones.
///
/// For simulation and tests alone: RFC 8684 derives the data sequence number from the key and
/// RFC 6528 wants an unpredictable initial sequence number. Both ends must be told the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceOrigin {
    /// The initial sequence number of every subflow.
    pub isn: Seq,
    /// The initial data sequence number of the connection's initiator.
    pub initiator: Dsn,
    /// The initial data sequence number of the listener.
    pub listener: Dsn,
}

/// How a subflow learns how large its packets may be.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum PathMtuDiscovery {
    /// Not at all: segments have the size on which the peers agreed.
    Off,
    /// From routers that drop a packet and say so (RFC 1191, RFC 8201).
    #[default]
    Icmp,
    /// From them, and by probing once full segments have vanished twice in a row (RFC 4821).
    Probe,
}

/// What one connection is told.
#[derive(Clone, PartialEq, Debug)]
pub struct ConnectionConfig {
    /// Multipath TCP, or a plain TCP without option 30.
    pub mptcp: bool,
    /// All handshakes start together and a subflow may carry data one round trip later: the
    /// departure from RFC 8684 of profile `ns3`. Exists in the simulator alone.
    pub simultaneous: bool,
    /// The most payload in one segment, in bytes; less where the MTU leaves less.
    pub mss: u32,
    /// The MTU of every path, in bytes; the MSS option is the MTU without the IP and TCP headers.
    pub mtu: u32,
    /// How a path's smaller MTU is found.
    pub path_mtu: PathMtuDiscovery,
    /// The initial congestion window of a subflow, in segments.
    pub initial_window: u32,
    /// The initial slow-start threshold in segments; none is infinite.
    pub initial_ssthresh: Option<u32>,
    /// The most segments that one acknowledgement adds to a window in slow start (`L` of RFC 3465): 1 as RFC
    /// 5681, 2 as RFC 3465, whose slow start after a timeout then has 1. None: all that it acknowledges, as Linux.
    pub byte_counting_limit: Option<u32>,
    /// How losses are found.
    pub loss_detection: LossDetection,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Timestamps in microseconds.
    pub timestamps: bool,
    /// Proportional rate reduction (RFC 9937); else the window is halved at once.
    pub prr: bool,
    /// Undo of a spurious timeout or recovery.
    pub undo: bool,
    /// Limited transmit (RFC 3042).
    pub limited_transmit: bool,
    /// Explicit congestion notification (RFC 3168): asked for and agreed to.
    pub ecn: bool,
    /// The window falls back to its initial value after an idle time of one timeout (RFC 5681 section 4.1).
    pub idle_restart: bool,
    /// Segments leave at the congestion control's pacing rate; if it names none, at a multiple of
    /// the window per round trip (2 in slow start, 1.2 after).
    pub pacing: bool,
    /// Retransmission timeouts.
    pub rto: RtoConfig,
    /// How many SYNs carry MP_CAPABLE before the next one is a plain one.
    pub mptcp_syns: u32,
    /// Acknowledgements.
    pub ack: AckConfig,
    /// The receive buffer.
    pub receive_buffer: ReceiveBuffer,
    /// The application takes what arrives in order at once: there is
    /// nothing to consume. For applications that only count, as in a simulation.
    pub consume_at_once: bool,
    /// [`Event::Readable`] waits until so much of the stream has arrived in order, counted from its
    /// start; with `consume_at_once`.
    ///
    /// [`Event::Readable`]: crate::event::Event::Readable
    pub readable_from: Bytes,
    /// How many bytes may be written and not yet acknowledged.
    pub send_buffer: Bytes,
    /// How many at first: then twice what the windows let be under way until all of it is acknowledged in order, as
    /// Linux's `tcp_wmem`, up to `send_buffer`. All of `send_buffer` from the beginning if there is none.
    pub send_buffer_start: Option<Bytes>,
    /// Send buffers of the subflows, and their sum for the connection, in a Multipath TCP whose scheduler is `linux`.
    /// None: the connection has `send_buffer`, and a subflow two windows, as with every other scheduler.
    pub send_buffers: Option<SendBuffers>,
    /// The connection is aborted when data stays unacknowledged for so long.
    pub user_timeout: Duration,
    /// An idle connection that has heard nothing for so long probes its peer, and ends when that is silent
    /// for the user timeout; not at all where there is none. A half-closed connection does so anyway, after
    /// the user timeout.
    pub keepalive: Option<Duration>,
    /// How long a closed subflow is remembered.
    pub time_wait: Duration,
    /// How long a connection without any subflow waits for a new one.
    pub close_timeout: Duration,
    /// The packet scheduler.
    pub scheduler: SchedulerKind,
    /// The congestion control.
    pub congestion: CongestionKind,
    /// A joining subflow takes its initial window from the one that sends fastest in its first slow start
    /// (LISA), whatever the congestion control.
    pub lisa: bool,
    /// The path manager.
    pub path_manager: PathManagerKind,
    /// The most subflows at once, the initial one included; at most 32.
    pub max_subflows: u8,
    /// The time that a host takes before it opens a further subflow.
    pub join_delay: Duration,
    /// Opportunistic retransmission.
    pub opportunistic: OpportunisticRetransmission,
    /// Reinjection.
    pub reinjection: Reinjection,
    /// The width of data sequence numbers.
    pub dsn_width: DsnWidth,
    /// DSS checksums.
    pub checksums: Checksums,
    /// How many bytes the application will write in all, where it knows.
    pub flow_size: Option<Bytes>,
    /// Start values of sequence numbers for simulation and tests.
    pub sequence_origin: Option<SequenceOrigin>,
}

impl ConnectionConfig {
    /// The connection that `profile` describes.
    pub fn new(profile: Profile) -> ConnectionConfig {
        match profile {
            Profile::Linux => {
                let linux =
                    ConnectionConfig { congestion: CongestionKind::CubicLinux, ..ConnectionConfig::linux() };
                ConnectionConfig { mss: linux.full_segment(false), ..linux }
            }
            Profile::Ns3 => ConnectionConfig::ns3(),
        }
    }

    /// The defaults of this library: a sender and receiver as in Linux, but with the CUBIC of RFC 9438 and 1400 bytes
    /// in a segment. [`Profile::Linux`] also has the kernel's own CUBIC and segments that fill the MTU.
    pub fn linux() -> ConnectionConfig {
        ConnectionConfig {
            mptcp: true,
            simultaneous: false,
            mss: 1400,
            mtu: 1500,
            path_mtu: PathMtuDiscovery::Icmp,
            initial_window: 10,
            initial_ssthresh: None,
            byte_counting_limit: None,
            loss_detection: LossDetection::RackTlp,
            sack: true,
            timestamps: true,
            prr: true,
            undo: true,
            ecn: false,
            limited_transmit: true,
            idle_restart: true,
            pacing: false,
            rto: RtoConfig {
                initial: Duration::from_secs(1),
                min: Duration::from_millis(200),
                min_bounds_variation: true,
                max: Duration::from_secs(120),
                backoff: true,
                max_timeouts: 15,
                syn_retries: 6,
            },
            mptcp_syns: 3,
            ack: AckConfig {
                every: 2,
                delay: Duration::from_millis(40),
                quick: 16,
                growth: true,
                push: true,
            },
            receive_buffer: ReceiveBuffer::Auto {
                initial: Bytes::from_kib(128),
                max: Bytes::from_kib(6 << 10),
            },
            consume_at_once: false,
            readable_from: Bytes::ZERO,
            send_buffer: Bytes::from_kib(16 << 10),
            send_buffer_start: None,
            send_buffers: Some(SendBuffers::Auto {
                initial: Bytes::from_kib(16),
                max: Bytes::from_kib(4 << 10),
            }),
            user_timeout: Duration::from_secs(924),
            keepalive: None,
            time_wait: Duration::from_secs(60),
            close_timeout: Duration::from_secs(60),
            scheduler: SchedulerKind::MinRtt,
            congestion: CongestionKind::Cubic(CubicOptions::DEFAULT),
            lisa: false,
            path_manager: PathManagerKind::FullMesh,
            max_subflows: 8,
            join_delay: Duration::ZERO,
            opportunistic: OpportunisticRetransmission::Off,
            reinjection: Reinjection::OnTimeout,
            dsn_width: DsnWidth::Wide,
            checksums: Checksums::IfAsked,
            flow_size: None,
            sequence_origin: None,
        }
    }

    /// Profile `ns3`: the simulations of the DMPTCP paper.
    pub fn ns3() -> ConnectionConfig {
        let linux = ConnectionConfig::linux();
        ConnectionConfig {
            simultaneous: true,
            path_mtu: PathMtuDiscovery::Off,
            initial_window: 1,
            byte_counting_limit: Some(1),
            loss_detection: LossDetection::DuplicateAcks,
            sack: false,
            prr: false,
            undo: false,
            rto: RtoConfig {
                backoff: false,
                max_timeouts: 200,
                min_bounds_variation: false,
                initial: Duration::from_millis(200),
                ..linux.rto
            },
            ack: AckConfig { every: 1, growth: false, push: false, ..linux.ack },
            send_buffers: None,
            congestion: CongestionKind::Lia,
            ..linux
        }
    }

    /// The bytes that the options of a data segment take: timestamps, and the data sequence signal with a mapping
    /// and a data acknowledgement.
    pub fn data_options(&self) -> u32 {
        let timestamps = if self.timestamps { 12 } else { 0 };
        // RFC 8684 section 3.3: 4 bytes, a data ACK and a DSN of 4 or 8 each, 6 of the mapping; and a checksum of 2.
        let signal: u32 = match (self.mptcp, self.dsn_width) {
            (false, _) => 0,
            (true, DsnWidth::Wide) => 26,
            // A peer with wide numbers is answered with a wide data ACK.
            (true, DsnWidth::Narrow) => 22,
        };
        let checksum = if self.mptcp && self.checksums == Checksums::Required { 2 } else { 0 };
        (timestamps + (signal + checksum).div_ceil(4) * 4).min(crate::segment::OPTION_SPACE)
    }

    /// The payload of a full segment over IPv4 or IPv6: what the MTU leaves after headers and options.
    ///
    /// ```
    /// use anabranch_stack::config::ConnectionConfig;
    ///
    /// let multipath = ConnectionConfig::new(anabranch_stack::config::Profile::Linux);
    /// let plain = ConnectionConfig { mptcp: false, ..multipath.clone() };
    /// assert_eq!((multipath.full_segment(false), plain.full_segment(false)), (multipath.mss, 1448));
    /// ```
    pub fn full_segment(&self, ipv6: bool) -> u32 {
        let headers = if ipv6 { Segment::IPV4_LEN + 20 } else { Segment::IPV4_LEN };
        self.mtu.saturating_sub(headers + self.data_options()).clamp(64, 65_000)
    }
}
