//! The window that a Linux receiver advertises. Its growth decides which segments are acknowledged at once.
//!
//! A new connection's window is limited by a threshold (`rcv_ssthresh`) that begins with the first window: nearly all of
//! the payload for which there is memory, 64 KB by default. Each segment
//! above a minimum length increases it by two segments until it reaches the receive buffer, and a segment
//! that has increased it is acknowledged at once (`tcp_grow_window` sets a bit of `icsk_ack.quick`). The
//! buffer itself grows once per round trip, as measured by dynamic right-sizing (`tcp_rcvbuf_grow`). So
//! nearly every segment is acknowledged at once while a sender is in slow start, and every second one
//! afterwards; also for some time after a hole was filled.
//!
//! **Source**: net/ipv4/tcp_input.c and net/mptcp/protocol.c of Linux 6.18.
//!
//! **Constants**: an initial threshold of 64,240 bytes without `whole-first-window`, and an initial amount of ten segments per
//! round trip; 39/64 of the first buffer are for payload.
//!
//! **Departures from the source**: without a limit of [`Memory`], sizes are payload, and the kernel's conversion
//! between payload and memory is omitted except for the first buffer. The edge that a subflow has advertised
//! counts for the connection, as in Linux.

use anabranch_units::Duration;

use super::memory::{Buffer, LEAST_MEASURE, Memory};
use crate::config::ReceiveBuffer;

/// The initial threshold: the greatest multiple of 1460 bytes in half of 128 KiB.
const INITIAL_THRESHOLD: u32 = 64_240;
/// The initial bytes of a round trip: ten segments.
const INITIAL_SPACE: u32 = 14_480;
/// The minimum length of a segment that increases the threshold.
const LEAST_LEN: u32 = 128;

/// The threshold, the buffer, and the round trip of one subflow of a receiver.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    threshold: u32,
    /// The limit of the threshold, and of the window.
    buffer: Buffer,
    /// The maximum number of bytes read in a round trip of the connection, as far as this subflow knows.
    space: u32,
    /// The round trip in eighths of a microsecond, 0 before the first sample.
    rtt: u32,
    /// The echoed timestamp of the last sample.
    echo: u32,
}

impl Growth {
    /// Returns the initial state with this buffer.
    pub(super) fn new(policy: ReceiveBuffer) -> Growth {
        let buffer = match policy {
            ReceiveBuffer::Fixed(size) => size.get(),
            ReceiveBuffer::Auto { initial, .. } => initial.get() / 64 * 39,
        };
        let threshold = in_32_bits(buffer).min(INITIAL_THRESHOLD);
        Growth { threshold, buffer: Buffer::new(buffer), space: INITIAL_SPACE, rtt: 0, echo: 0 }
    }

    /// Begins with the threshold that `first` returns for a buffer, unless that is without a limit.
    pub(crate) fn begin(&mut self, first: impl FnOnce(u64) -> u64) {
        match first(self.buffer.size()) {
            u64::MAX => {}
            threshold => self.threshold = in_32_bits(threshold),
        }
    }

    /// Limits the buffer by memory.
    pub(super) fn limit_by(&mut self, memory: Option<Memory>) {
        self.buffer.limit_by(memory);
    }

    /// True if it has received a large segment, which measures the part of its memory that is payload.
    pub(crate) fn is_measured(&self) -> bool {
        self.buffer.memory().is_some_and(Memory::is_measured)
    }

    /// Processes a segment of `len` bytes, on a subflow with segments of up to `mss` bytes without MPTCP options
    /// (`advmss`). Returns true if it has increased the threshold.
    #[inline]
    pub(super) fn on_data(&mut self, len: u32, mss: u32) -> bool {
        if len >= LEAST_MEASURE && self.buffer.memory().is_some_and(|memory| !memory.is_measured()) {
            self.buffer.set_measured(true);
        }
        let most = in_32_bits(self.buffer.size());
        let rises = self.threshold < most && len >= LEAST_LEN;
        if rises {
            self.threshold = self.threshold.saturating_add(2 * len.max(mss)).min(most);
        }
        rises
    }

    /// Returns the maximum number of bytes that the subflow advertises beyond those received.
    #[inline]
    pub(crate) fn window(&self) -> u64 {
        u64::from(self.threshold)
    }

    /// Processes the sample of a segment that echoes the timestamp `echo` after `elapsed`; only the first
    /// segment with the same echo counts. A shorter sample is used at once, a longer one by an eighth, and
    /// only if nothing waits to be read.
    #[inline]
    pub(crate) fn sample(&mut self, echo: u32, elapsed: Duration) {
        if echo == self.echo {
            return;
        }
        self.echo = echo;
        let micros = u32::try_from(elapsed.as_micros()).unwrap_or(u32::MAX / 8).clamp(1, u32::MAX / 8);
        if self.rtt == 0 || micros * 8 < self.rtt {
            self.rtt = micros * 8;
        } else {
            self.rtt = self.rtt - self.rtt / 8 + micros;
        }
    }

    /// Returns the round trip as seen by the receiver; zero before the first sample.
    #[inline]
    pub(crate) fn rtt(&self) -> Duration {
        Duration::from_micros(u64::from(self.rtt / 8))
    }

    /// Right-sizes the buffer after `read` bytes were read in the last round trip, more than in any before
    /// it.
    pub(crate) fn widen(&mut self, read: u64, most: u64) {
        let wanted = wanted_buffer(read, u64::from(self.space)).min(most);
        self.space = in_32_bits(read);
        self.buffer.grow(wanted);
    }
}

/// Returns a number of bytes, or the maximum of 32 bits.
#[inline]
fn in_32_bits(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Returns the buffer for a sender that has delivered `read` bytes in the last round trip and at most
/// `before` in earlier ones: as the measurement lags a round trip, it doubles, and doubles again in
/// proportion to the growth.
pub(crate) fn wanted_buffer(read: u64, before: u64) -> u64 {
    let window = read.saturating_mul(2);
    let growth = u128::from(window) * u128::from(read.saturating_sub(before)) / u128::from(before.max(1));
    window.saturating_add(u64::try_from(growth.saturating_mul(2)).unwrap_or(u64::MAX))
}

/// Returns the minimum with which [`wanted_buffer`] is compared on a new connection.
pub(crate) const fn initial_space() -> u64 {
    INITIAL_SPACE as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConnectionConfig, Profile, SimConfig, first_window};
    use anabranch_units::Bytes;

    fn growth(size: u64) -> Growth {
        Growth::new(ReceiveBuffer::Fixed(Bytes(size)))
    }

    #[test]
    fn each_segment_raises_the_threshold_by_two_until_it_reaches_the_buffer() {
        let mut growth = growth(70_000);
        assert!(!growth.on_data(127, 1448), "too short");
        assert!(growth.on_data(1448, 1448));
        assert!(growth.on_data(200, 1448), "as much as a full one");
        assert!(!growth.on_data(1448, 1448), "64,240 + 2 x 2896 = 70,032");
        growth.widen(19_000, 1 << 20);
        assert_eq!(
            growth.buffer.size(),
            70_000,
            "38,000, and twice as much in proportion to 4520 of 14,480, is less"
        );
        growth.widen(40_000, 1 << 20);
        assert_eq!(growth.buffer.size(), 80_000 + 2 * (80_000 * 21_000 / 19_000));
        assert_eq!((0..100).filter(|_| growth.on_data(1448, 1448)).count(), 65);
    }

    #[test]
    fn a_first_window_has_whole_segments() {
        assert_eq!(first_window(65_536, 1460), 64_240);
        assert_eq!(first_window(65_536, 1448), 65_160);
        assert_eq!(first_window(16_000, 1460), 14_600);
        assert_eq!((first_window(1460, 1460), first_window(1000, 1460)), (1460, 1000));
        assert_eq!(first_window(1 << 20, 1460), 718 * 1460);
        let mut growth = growth(16_000);
        growth.begin(|_| 14_600);
        assert_eq!(growth.window(), 14_600);
        assert!(growth.on_data(1448, 1448) && !growth.on_data(1448, 1448));
        assert_eq!(growth.window(), 16_000);
    }

    /// Captured from Linux 6.18 with 152,000 bytes: its first acknowledgement of data has a window of 150,552 as a server.
    #[test]
    fn all_of_a_fixed_buffer_but_a_segment_is_advertised_from_the_first_data_on() {
        let config = SimConfig::new(Profile::Linux).connection;
        let first = |buffer: u64| {
            let config =
                ConnectionConfig { receive_buffer: ReceiveBuffer::Fixed(Bytes(buffer)), ..config.clone() };
            let mut growth = Growth::new(config.receive_buffer);
            growth.limit_by(config.receive_memory());
            growth.begin(|buffer| config.first_threshold(buffer, 1448));
            growth.window()
        };
        assert_eq!(first(152_000), 150_552);
        // Two segments stay; one of two is in reserve; a buffer of two has none.
        assert_eq!((first(16_000), first(3000), first(2896)), (14_552, 2896, 1460));
        let free = ConnectionConfig { whole_first_window: false, ..config };
        assert_eq!(free.first_threshold(152_000, 1448), u64::MAX);
    }

    #[test]
    fn a_buffer_below_the_threshold_never_grows_by_itself() {
        let mut growth = growth(20_000);
        assert!(!growth.on_data(1448, 1448));
        growth.widen(1 << 40, 30_000);
        assert_eq!((growth.buffer.size(), growth.space), (30_000, u32::MAX));
    }

    #[test]
    fn a_subflow_that_joins_late_catches_up_with_a_leap() {
        let auto = ReceiveBuffer::Auto { initial: Bytes(131_072), max: Bytes(6 << 20) };
        let mut joined = Growth::new(auto);
        assert_eq!((joined.window(), joined.buffer.size()), (64_240, 79_872));
        joined.widen(100_000, 6 << 20);
        assert_eq!(joined.buffer.size(), 200_000 + 2 * (200_000_u64 * 85_520 / 14_480));
    }

    #[test]
    fn a_shorter_round_trip_counts_at_once_and_a_longer_one_by_an_eighth() {
        let mut growth = growth(131_072);
        assert_eq!(growth.rtt(), Duration::ZERO);
        growth.sample(7, Duration::from_millis(40));
        growth.sample(7, Duration::from_millis(10));
        assert_eq!(growth.rtt(), Duration::from_millis(40), "the same echo is no new sample");
        growth.sample(8, Duration::from_millis(48));
        assert_eq!(growth.rtt(), Duration::from_millis(41));
        growth.sample(9, Duration::from_millis(20));
        assert_eq!(growth.rtt(), Duration::from_millis(20));
        growth.sample(10, Duration::MAX);
        assert!(growth.rtt() < Duration::from_secs(68));
    }
}
