//! The configuration of endpoints and connections. Every part of a profile is a separate option.

mod settings;
mod sim_only;

use core::net::IpAddr;

use anabranch_units::{Bytes, Duration, RandomStream};

use crate::congestion::{CongestionKind, CubicOptions};
use crate::known::KnownPaths;
use crate::path_manager::PathManagerKind;
use crate::scheduler::SchedulerKind;
use crate::segment::{PathId, Segment};
use crate::shard::Shard;
use crate::subflow::memory::Memory;
use crate::timestamp::TimestampTick;

pub use crate::scheduler::OpportunisticRetransmission;
pub use sim_only::{ScatterSwitch, ScatterVolume, ScatterWindow, SequenceOrigin, SimConfig, SimOnly};

/// The configuration of an endpoint (a host).
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// The host's addresses, in order of preference.
    pub addresses: Vec<LocalAddress>,
    /// The maximum number of connections at a time; a SYN beyond it is refused. A half-open connection is
    /// evicted for another that becomes established.
    pub max_connections: usize,
    /// The maximum number of connections initiated by peers that wait for their third segment. Beyond it, one
    /// that has waited for 3 s is evicted for the newest; if there is none, the SYN is answered with a cookie
    /// and costs no memory (RFC 4987 section 3.6). 0: every SYN is answered with a cookie.
    pub max_half_open: usize,
    /// The tick of its TCP timestamps.
    pub timestamp_tick: TimestampTick,
    /// Its place among several endpoints with the same addresses.
    pub shard: Shard,
}

impl EndpointConfig {
    /// Returns a host with `addresses`, up to 65,536 connections and 1024 half-open ones, and timestamps in
    /// microseconds; it is the only endpoint with these addresses.
    pub fn new(addresses: Vec<LocalAddress>) -> EndpointConfig {
        EndpointConfig {
            addresses,
            max_connections: 65_536,
            max_half_open: 1024,
            timestamp_tick: TimestampTick::default(),
            shard: Shard::WHOLE,
        }
    }
}

/// An address of this host and its interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalAddress {
    /// The IP address.
    pub ip: IpAddr,
    /// The interface on which its packets are sent.
    pub path: PathId,
    /// True if joins from this address request to be backups.
    pub backup: bool,
}

/// The source of random bits.
#[derive(Clone, Debug)]
pub enum Entropy {
    /// A seeded stream, for simulation and tests.
    Seeded(RandomStream),
    /// A function that fills a buffer with the system's entropy.
    System(fn(&mut [u8])),
}

impl Entropy {
    /// Returns 64 random bits.
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

    /// Returns 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }
}

/// The modelled sender and receiver (`docs/definitions.md`, Profiles).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Profile {
    /// Current Linux, as compared with the kernel by `anabranch validate`.
    #[default]
    Linux,
    /// The simulations of the DMPTCP paper.
    Ns3,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Profile; 2] = [Profile::Linux, Profile::Ns3];

    /// Returns the name used in scenarios and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Profile::Linux => "linux",
            Profile::Ns3 => "ns3",
        }
    }

    /// Returns the profile of the given name.
    pub fn from_name(name: &str) -> Option<Profile> {
        Profile::ALL.into_iter().find(|profile| profile.name() == name)
    }
}

/// The method of loss detection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossDetection {
    /// RACK-TLP (RFC 8985); needs SACK.
    RackTlp,
    /// Three duplicate ACKs, NewReno (RFC 6582).
    DuplicateAcks,
}

/// The timing of acknowledgements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckConfig {
    /// The number of full segments after which one is due; at least 1.
    pub every: u32,
    /// The maximum delay for a single segment.
    pub delay: Duration,
    /// The number of segments at the start of a subflow that are acknowledged at once.
    pub quick: u32,
    /// True to acknowledge a segment at once if it increases the window that Linux would advertise, as most
    /// do while the sender is in slow start; and also `quick` segments after a silence or a spurious
    /// retransmission.
    pub growth: bool,
    /// True if the sender marks the last segment of each burst (PSH), and such a segment is acknowledged at
    /// once if it is in order and the application has read all of the stream.
    pub push: bool,
    /// True if a subflow that has received a segment with PSH or a short one acknowledges it as soon as the
    /// application has read everything, whichever subflow brought the rest.
    pub drain: bool,
}

/// Retransmission timeouts (RFC 6298).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtoConfig {
    /// The timeout before the first RTT sample.
    pub initial: Duration,
    /// The minimum timeout.
    pub min: Duration,
    /// True for the timeout of Linux: the minimum bounds four times the variation rather than the whole sum, and the variation
    /// is the greatest of a round trip, from which it falls once per round trip.
    pub min_bounds_variation: bool,
    /// The maximum timeout.
    pub max: Duration,
    /// True if each consecutive timeout doubles the next.
    pub backoff: bool,
    /// The number of consecutive timeouts after which a subflow has failed.
    pub max_timeouts: u32,
    /// The number of retransmissions of a SYN before the attempt fails.
    pub syn_retries: u32,
}

/// The size of the receive buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveBuffer {
    /// A fixed size.
    Fixed(Bytes),
    /// Twice the sum of the bandwidths times the largest RTT, within these limits.
    Auto {
        /// The initial size.
        initial: Bytes,
        /// The maximum size.
        max: Bytes,
    },
}

impl ReceiveBuffer {
    /// Returns the maximum size.
    pub const fn max(self) -> Bytes {
        match self {
            ReceiveBuffer::Fixed(size) => size,
            ReceiveBuffer::Auto { max, .. } => max,
        }
    }

    /// Returns the initial size.
    pub const fn initial(self) -> Bytes {
        match self {
            ReceiveBuffer::Fixed(size) => size,
            ReceiveBuffer::Auto { initial, .. } => initial,
        }
    }
}

/// The send buffers of a Multipath TCP connection and of its subflows, as in Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendBuffers {
    /// The size set by a program (`SO_SNDBUF`, which Linux doubles), for the connection and for each subflow.
    Fixed(Bytes),
    /// Buffers that grow with the windows (`tcp_wmem`).
    Auto {
        /// The initial size for a subflow; at least 46,080 bytes.
        initial: Bytes,
        /// The maximum size for a subflow.
        max: Bytes,
    },
}

/// The events at which a subflow's data is reinjected on another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reinjection {
    /// Only the end of the subflow.
    OnDeath,
    /// Also each retransmission timeout.
    OnTimeout,
}

/// DSS checksums (RFC 8684 section 3.3.1): the value of flag A of MP_CAPABLE, and the reaction to the peer's.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Checksums {
    /// Falls back to plain TCP with a peer that requires them.
    Refused,
    /// Uses them if the peer requires them, as in Linux.
    #[default]
    IfAsked,
    /// Uses them in both directions, whatever the peer requests.
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

/// The discovery of a subflow's packet size.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum PathMtuDiscovery {
    /// None: segments have the size negotiated by the peers.
    Off,
    /// Reports from routers that drop a packet (RFC 1191, RFC 8201).
    #[default]
    Icmp,
    /// Reports, and probing after full segments have been lost twice in a row (RFC 4821).
    Probe,
}

/// The configuration of one connection: everything that a host on a real network may set. A simulator may set
/// more ([`SimConfig`]).
#[derive(Clone, PartialEq, Debug)]
pub struct ConnectionConfig {
    /// True for Multipath TCP, false for plain TCP without option 30.
    pub mptcp: bool,
    /// The maximum payload of a segment, in bytes; less if the MTU requires it.
    pub mss: u32,
    /// The MTU of every path, in bytes; the MSS option is the MTU without the IP and TCP headers.
    pub mtu: u32,
    /// The discovery of a path's smaller MTU.
    pub path_mtu: PathMtuDiscovery,
    /// The initial congestion window of a subflow, in segments.
    pub initial_window: u32,
    /// The initial slow-start threshold in segments; `None` is infinite.
    pub initial_ssthresh: Option<u32>,
    /// The maximum number of segments that one acknowledgement adds to a window in slow start (`L` of RFC
    /// 3465): 1 as in RFC 5681, 2 as in RFC 3465, with 1 in the slow start after a timeout. `None`: all
    /// segments acknowledged, as in Linux.
    pub byte_counting_limit: Option<u32>,
    /// The method of loss detection.
    pub loss_detection: LossDetection,
    /// True to use selective acknowledgements.
    pub sack: bool,
    /// True to use timestamps.
    pub timestamps: bool,
    /// True to use proportional rate reduction (RFC 9937); otherwise the window is halved at once.
    pub prr: bool,
    /// True to undo a spurious timeout or recovery.
    pub undo: bool,
    /// True to use limited transmit (RFC 3042).
    pub limited_transmit: bool,
    /// True to request and accept explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// True to reset the window to its initial value after an idle time of one timeout (RFC 5681 section
    /// 4.1), or to let it decay, by the congestion control.
    pub idle_restart: bool,
    /// True to send segments at the congestion control's pacing rate, or if it sets none, at a multiple of
    /// the window per round trip (2 in slow start, 1.2 afterwards).
    pub pacing: bool,
    /// True if the short end of the data queued on a subflow waits while another segment of less than the MSS
    /// is unacknowledged there: Nagle's algorithm (RFC 9293 section 3.7.4) in Minshall's form, as in Linux. The
    /// end of a plain TCP's stream does not wait.
    pub nagle: bool,
    /// True if the scheduler `linux` assigns new data up to the edge of the peer's window, inside a segment, as
    /// in Linux; needs `send_buffers`. Without `nagle`, the short segments are sent at once.
    pub fill_window: bool,
    /// True if a packet of several segments waits for acknowledgements that let it grow, as in Linux: in a plain TCP, and
    /// with the scheduler `linux` and `send_buffers`.
    pub tso_defer: bool,
    /// True if the first window advertised is a whole number of segments, as in Linux; with `ack.growth`.
    pub whole_first_window: bool,
    /// True if the window is the free memory of the receive buffer, as in Linux; with `ack.growth`. Half of
    /// the memory is payload until every subflow has received a large segment. A fixed buffer is half of its
    /// memory.
    pub window_memory: bool,
    /// True if the FIN of a plain TCP is sent with the last data that is not sent yet, as in Linux, and not
    /// after it.
    pub fin_with_data: bool,
    /// True if the reordering timer and tail loss probes are 2 ms later than RFC 8985 has them, and the probe of
    /// a single segment `rto.min` later, as in Linux.
    pub late_probes: bool,
    /// True if every segment carries the keys until the listener has confirmed them; false if only the third
    /// ACK and the first two segments of data do, as in Linux.
    pub repeat_keys: bool,
    /// Retransmission timeouts.
    pub rto: RtoConfig,
    /// The number of SYNs with MP_CAPABLE before the next one is plain.
    pub mptcp_syns: u32,
    /// The timing of acknowledgements: their delay, and the segments that are acknowledged at once.
    pub ack: AckConfig,
    /// The size of the receive buffer: fixed, or from the measured bandwidths and RTTs.
    pub receive_buffer: ReceiveBuffer,
    /// The maximum number of bytes written and not yet acknowledged.
    pub send_buffer: Bytes,
    /// The initial send buffer: it then holds twice the data that the windows allow in flight until all of it
    /// is acknowledged in order, as Linux's `tcp_wmem`, up to `send_buffer`. `None`: all of `send_buffer`
    /// from the beginning.
    pub send_buffer_start: Option<Bytes>,
    /// Send buffers of the subflows, and their sum for the connection, in a Multipath TCP with scheduler
    /// `linux`. `None`: the connection has `send_buffer`, and a subflow two windows.
    pub send_buffers: Option<SendBuffers>,
    /// True if plain TCP and every other scheduler have the `send_buffers` too, and `send_buffer` does not count, as in
    /// the kernel.
    pub kernel_buffers: bool,
    /// The time for which data may stay unacknowledged before the connection is aborted.
    pub user_timeout: Duration,
    /// The silence after which an idle connection probes its peer, and ends if that is silent for the user
    /// timeout; `None`: no probes. A half-closed connection always probes, after the user timeout.
    pub keepalive: Option<Duration>,
    /// The duration of TIME-WAIT of a subflow.
    pub time_wait: Duration,
    /// The time for which a connection without any subflow waits for a new one.
    pub close_timeout: Duration,
    /// The packet scheduler.
    pub scheduler: SchedulerKind,
    /// The bytes of new data in the queue of a subflow's device above which the scheduler, unless it is `linux`, passes
    /// over the subflow, as the out-of-tree kernel's did; for simulations, as the device sends 1 Gbit/s.
    pub small_queues: Option<u32>,
    /// The congestion control.
    pub congestion: CongestionKind,
    /// True if a joining subflow takes its initial window from the one with the highest rate in its first
    /// slow start (LISA), for any congestion control.
    pub lisa: bool,
    /// The path manager, which decides on the subflows and address announcements of this side.
    pub path_manager: PathManagerKind,
    /// The maximum number of subflows at a time, including the initial one; at most 32.
    pub max_subflows: u8,
    /// The time before a host opens a further subflow.
    pub join_delay: Duration,
    /// The time after which the next local address tries to open the first subflow as well, unless one is already open:
    /// the first answer wins, as in RFC 8305. `None`: only the given address tries.
    pub race: Option<Duration>,
    /// Opportunistic retransmission.
    pub opportunistic: OpportunisticRetransmission,
    /// The events at which a subflow's data is reinjected on another.
    pub reinjection: Reinjection,
    /// The width of data sequence numbers.
    pub dsn_width: DsnWidth,
    /// DSS checksums.
    pub checksums: Checksums,
    /// The paths that this host knows, for scheduler [`Anabranch`](crate::scheduler::Anabranch).
    pub known_paths: KnownPaths,
    /// The total number of bytes that the application will write, if known.
    pub flow_size: Option<Bytes>,
}

/// The smallest fixed receive buffer with counted memory, in bytes: one segment (`SOCK_MIN_RCVBUF`).
const SMALLEST_FIXED: u64 = 2304;

impl ConnectionConfig {
    /// The usual delay of a race of first subflows ([`ConnectionConfig::race`]): none. Every path of the connection gets
    /// a SYN anyway, with or without a race, and a delay is a delay of each flow with the wrong first path.
    pub const RACE_DELAY: Duration = Duration::ZERO;

    /// Returns the defaults of this library: a sender and receiver as in Linux, but with the CUBIC of RFC
    /// 9438, 1400 bytes per segment, and without `nagle`, `fill_window`, `tso_defer`,
    /// `whole_first_window`, `window_memory` and `ack.drain`. [`Profile::Linux`] has the kernel's own CUBIC, segments that fill the MTU, and those.
    pub fn linux() -> ConnectionConfig {
        ConnectionConfig {
            mptcp: true,
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
            nagle: false,
            fill_window: false,
            tso_defer: false,
            whole_first_window: false,
            window_memory: false,
            fin_with_data: false,
            late_probes: false,
            repeat_keys: true,
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
                drain: false,
            },
            receive_buffer: ReceiveBuffer::Auto {
                initial: Bytes::from_kib(128),
                max: Bytes::from_kib(6 << 10),
            },
            send_buffer: Bytes::from_kib(16 << 10),
            send_buffer_start: None,
            send_buffers: Some(SendBuffers::Auto {
                initial: Bytes::from_kib(16),
                max: Bytes::from_kib(4 << 10),
            }),
            kernel_buffers: false,
            user_timeout: Duration::from_secs(924),
            keepalive: None,
            time_wait: Duration::from_secs(60),
            close_timeout: Duration::from_secs(60),
            scheduler: SchedulerKind::MinRtt,
            small_queues: None,
            congestion: CongestionKind::Cubic(CubicOptions::DEFAULT),
            lisa: false,
            path_manager: PathManagerKind::FullMesh,
            max_subflows: 8,
            join_delay: Duration::ZERO,
            race: None,
            opportunistic: OpportunisticRetransmission::Off,
            reinjection: Reinjection::OnTimeout,
            dsn_width: DsnWidth::Wide,
            checksums: Checksums::IfAsked,
            known_paths: KnownPaths::default(),
            flow_size: None,
        }
    }

    /// Returns the settings of [`Profile::Linux`].
    pub(crate) fn kernel() -> ConnectionConfig {
        let linux = ConnectionConfig {
            congestion: CongestionKind::CubicLinux,
            nagle: true,
            fill_window: true,
            tso_defer: true,
            whole_first_window: true,
            window_memory: true,
            fin_with_data: true,
            late_probes: true,
            repeat_keys: false,
            kernel_buffers: true,
            // The maximum of tcp_rmem in Linux 6.18, on which the scale of the window depends.
            receive_buffer: ReceiveBuffer::Auto {
                initial: Bytes::from_kib(128),
                max: Bytes::from_kib(32 << 10),
            },
            ..ConnectionConfig::linux()
        };
        let ack = AckConfig { drain: true, ..linux.ack };
        ConnectionConfig { mss: linux.full_segment(false), ack, ..linux }
    }

    /// Returns the settings of [`Profile::Ns3`] without the settings that only a simulator has ([`SimOnly`]).
    pub(crate) fn ns3() -> ConnectionConfig {
        let linux = ConnectionConfig::linux();
        ConnectionConfig {
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

    /// Returns this configuration with settings that only a simulator has.
    pub fn simulated(self, only: SimOnly) -> SimConfig {
        SimConfig { connection: self, only }
    }

    /// Returns the maximum of the first window that it advertises, as the one that connects or accepts; no limit
    /// unless `whole_first_window`.
    pub(crate) fn first_window(&self, initiator: bool) -> u64 {
        if !(self.whole_first_window && self.ack.growth) {
            return u64::MAX;
        }
        let buffer = match self.receive_buffer {
            ReceiveBuffer::Fixed(size) => size.get(),
            // Linux advertises half of the memory before it has received a segment.
            ReceiveBuffer::Auto { initial, .. } => initial.get() / 2,
        };
        // A listener knows that timestamps take 12 bytes of each segment.
        let options = if initiator { 0 } else { self.plain_options() };
        first_window(buffer, u64::from(self.mtu.saturating_sub(Segment::IPV4_LEN + options).max(1)))
    }

    /// Returns the most that a new subflow advertises beyond received data: the first window, with a segment of `mss` bytes
    /// of the `buffer` for payload in reserve (`tcp_init_buffer_space` in net/ipv4/tcp_input.c); no limit unless
    /// `whole_first_window`.
    pub(crate) fn first_threshold(&self, buffer: u64, mss: u32) -> u64 {
        let mss = u64::from(mss);
        let reserve = if buffer > 2 * mss { mss.min(buffer - 2 * mss) } else { 0 };
        match self.first_window(true) {
            u64::MAX => u64::MAX,
            window => window.min(buffer - reserve),
        }
    }

    /// Returns the initial memory of the receive buffer, if the window is what is free of it.
    pub(crate) fn receive_memory(&self) -> Option<Memory> {
        match self.receive_buffer {
            ReceiveBuffer::Auto { initial, .. } if self.window_memory && self.ack.growth => {
                Some(Memory::new(initial.get()))
            }
            // SO_RCVBUF is doubled. The kernel has none smaller than this.
            ReceiveBuffer::Fixed(size)
                if self.window_memory && self.ack.growth && size.get() >= SMALLEST_FIXED =>
            {
                Some(Memory::new(size.get().saturating_mul(2)))
            }
            _ => None,
        }
    }

    /// Returns the length of the options of a data segment of a plain TCP.
    fn plain_options(&self) -> u32 {
        if self.timestamps { 12 } else { 0 }
    }

    /// Returns the most payload of a segment without MPTCP options, where one with them may have `mss` bytes: more by
    /// these options, but no more than the setting, unless that fills the MTU.
    pub(crate) fn mss_without_mptcp(&self, mss: u32, ipv6: bool) -> u32 {
        let most = if self.mss >= self.full_segment(ipv6) { 65_000 } else { self.mss };
        (mss + (self.data_options() - self.plain_options())).min(most).max(mss)
    }

    /// Returns the length of the options of a data segment: timestamps, and the data sequence signal with a
    /// mapping and a data acknowledgement.
    pub fn data_options(&self) -> u32 {
        let timestamps = self.plain_options();
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

    /// Returns the payload of a full segment over IPv4 or IPv6: the MTU without headers and options.
    ///
    /// ```
    /// use anabranch_stack::config::{ConnectionConfig, Profile, SimConfig};
    ///
    /// let multipath = SimConfig::new(Profile::Linux).connection;
    /// let plain = ConnectionConfig { mptcp: false, ..multipath.clone() };
    /// assert_eq!((multipath.full_segment(false), plain.full_segment(false)), (multipath.mss, 1448));
    /// ```
    pub fn full_segment(&self, ipv6: bool) -> u32 {
        let headers = if ipv6 { Segment::IPV4_LEN + 20 } else { Segment::IPV4_LEN };
        self.mtu.saturating_sub(headers + self.data_options()).clamp(64, 65_000)
    }
}

/// Returns the first window with a `buffer` for payload: whole segments of `mss` bytes, if it has space for more
/// than one (`tcp_select_initial_window` in net/ipv4/tcp_output.c).
pub(crate) const fn first_window(buffer: u64, mss: u64) -> u64 {
    if buffer > mss { buffer - buffer % mss } else { buffer }
}
