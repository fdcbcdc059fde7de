//! A middlebox on a path: it removes options, forgets idle connections, limits the MSS, and carries packets in a tunnel.
//!
//! Like a link, it changes no packet itself: [`Middlebox::pass`] decides from the facts that the middlebox can see
//! ([`Passing`]), and the caller applies the decision to a segment or to bytes. The simulator and the emulator share all of
//! its code.

use core::net::IpAddr;
use std::collections::BTreeMap;

use anabranch_units::{Duration, Time};

/// The segments that lose their options of Multipath TCP (kind 30). Option and length of the segment stay, as with a
/// middlebox that overwrites an unknown option by no-operations (RFC 8684 section 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strip {
    /// None.
    #[default]
    Nothing,
    /// All segments.
    All,
    /// The SYN only.
    Syn,
    /// The SYN/ACK only.
    SynAck,
    /// Every segment after the handshake: all but the SYN, the SYN/ACK, and a third packet without data.
    Data,
}

impl Strip {
    /// Every rule that removes options, in the order of [`Strip::NAMES`].
    pub const ALL: [Strip; 4] = [Strip::All, Strip::Syn, Strip::SynAck, Strip::Data];

    /// The names of the rules in scenarios.
    pub const NAMES: [&str; 4] = ["mptcp", "mptcp-syn", "mptcp-syn-ack", "mptcp-data"];

    /// Its name in scenarios; none for [`Strip::Nothing`].
    pub fn name(self) -> Option<&'static str> {
        Strip::ALL.iter().position(|other| *other == self).map(|at| Strip::NAMES[at])
    }

    fn applies(self, passing: &Passing) -> bool {
        match self {
            Strip::Nothing => false,
            Strip::All => true,
            Strip::Syn => passing.syn && !passing.ack,
            Strip::SynAck => passing.syn && passing.ack,
            Strip::Data => !passing.syn && !passing.opening,
        }
    }
}

/// A NAT, or another middlebox with a table of connections, at the client's end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nat {
    /// A connection without a packet in either direction for longer than this is forgotten.
    pub timeout: Duration,
    /// True if a packet of the client without an entry is answered by a reset, as it is if the NAT gives the connection
    /// another port that the server does not know; otherwise the packet vanishes.
    pub resets: bool,
}

/// A TCP proxy at the client's end of a path: it ends the connections of the client, and opens others to the server in their
/// place. [`Middlebox::pass`] has no part in it; the caller runs the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// The round trip between the client and the proxy, in addition to the round trip of the path.
    pub rtt: Duration,
}

/// The settings of a middlebox. The default does nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MiddleboxConfig {
    /// The segments that lose their options of Multipath TCP.
    pub strip: Strip,
    /// The largest MSS that a SYN may carry, in bytes; a larger one is replaced by it.
    pub mss_clamp: Option<u16>,
    /// The table of connections.
    pub nat: Option<Nat>,
    /// The bytes that a tunnel adds to every packet, in both directions. The MTU of the links includes them.
    pub overhead: u32,
    /// The TCP proxy; the other settings apply to the connections between the proxy and the server.
    pub proxy: Option<Proxy>,
}

impl MiddleboxConfig {
    /// True if it does nothing.
    pub fn is_none(&self) -> bool {
        *self == MiddleboxConfig::default()
    }
}

/// A TCP connection, as its packets show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connection {
    /// The address and port at the client's end of the path.
    pub near: (IpAddr, u16),
    /// The address and port at the other end.
    pub far: (IpAddr, u16),
}

/// The properties of a TCP segment that a middlebox reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passing {
    /// True if it leaves the client.
    pub outgoing: bool,
    /// The addresses and ports of its connection.
    pub connection: Connection,
    /// Its flag SYN.
    pub syn: bool,
    /// Its flag ACK.
    pub ack: bool,
    /// Its flag RST.
    pub rst: bool,
    /// True if it has no data, and an option MP_CAPABLE or MP_JOIN: the third packet of a handshake.
    pub opening: bool,
    /// True if it has an option of Multipath TCP.
    pub mptcp: bool,
    /// The MSS in its options.
    pub mss: Option<u16>,
}

/// The fate of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// It vanishes.
    Dropped {
        /// True if its sender receives a reset, which seems to come from the other end.
        reset: bool,
    },
    /// It goes on, after these changes.
    On {
        /// True if it loses its options of Multipath TCP.
        strip: bool,
        /// The MSS that replaces the one in its options.
        mss: Option<u16>,
    },
}

impl Passed {
    /// It goes on as it is.
    pub const UNCHANGED: Passed = Passed::On { strip: false, mss: None };
}

/// The counts of a middlebox since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MiddleboxCounters {
    /// Segments that lost their options of Multipath TCP.
    pub stripped: u64,
    /// Segments with another MSS.
    pub clamped: u64,
    /// Segments without an entry in the table of connections, which were dropped.
    pub dropped: u64,
    /// Dropped packets that were answered by a reset.
    pub resets: u64,
}

/// A middlebox in operation.
#[derive(Clone, Debug)]
pub struct Middlebox {
    config: MiddleboxConfig,
    counters: MiddleboxCounters,
    /// The time of the last packet of each connection.
    table: BTreeMap<Connection, Time>,
    /// The table is cleared of forgotten connections when it has reached this size.
    full: usize,
}

impl Middlebox {
    /// The size at which the table is cleared for the first time.
    const FULL: usize = 1024;

    /// Returns a middlebox.
    pub fn new(config: MiddleboxConfig) -> Middlebox {
        let counters = MiddleboxCounters::default();
        Middlebox { config, counters, table: BTreeMap::new(), full: Middlebox::FULL }
    }

    /// Returns its settings.
    pub fn config(&self) -> &MiddleboxConfig {
        &self.config
    }

    /// Returns its counts.
    pub fn counters(&self) -> MiddleboxCounters {
        self.counters
    }

    /// Decides on a TCP segment that arrives at `now`. Time does not go back from call to call.
    pub fn pass(&mut self, now: Time, passing: &Passing) -> Passed {
        if let Some(nat) = self.config.nat
            && !self.knows(now, nat, passing)
        {
            let reset = nat.resets && passing.outgoing && !passing.rst;
            self.counters.dropped += 1;
            self.counters.resets += u64::from(reset);
            return Passed::Dropped { reset };
        }
        let strip = passing.mptcp && self.config.strip.applies(passing);
        let mss =
            self.config.mss_clamp.filter(|most| passing.syn && passing.mss.is_some_and(|mss| mss > *most));
        self.counters.stripped += u64::from(strip);
        self.counters.clamped += u64::from(mss.is_some());
        Passed::On { strip, mss }
    }

    /// True if the NAT has an entry for the segment, which the segment renews, or makes one for it: only a SYN of the client
    /// does that. (A NAT that makes an entry for any packet, as Linux does by default, gives it another port unless the old
    /// one is free: `Nat::resets`.)
    fn knows(&mut self, now: Time, nat: Nat, passing: &Passing) -> bool {
        let is_fresh = |last: Time| now.since(last) <= nat.timeout;
        if passing.outgoing && passing.syn && !passing.ack {
            if self.table.len() >= self.full {
                self.table.retain(|_, last| is_fresh(*last));
                self.full = (2 * self.table.len()).max(Middlebox::FULL);
            }
            self.table.insert(passing.connection, now);
            return true;
        }
        match self.table.get_mut(&passing.connection) {
            Some(last) if is_fresh(*last) => *last = now,
            Some(_) => {
                self.table.remove(&passing.connection);
                return false;
            }
            None => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passing(port: u16, outgoing: bool) -> Passing {
        let [near, far] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        Passing {
            outgoing,
            connection: Connection { near: (near, port), far: (far, 80) },
            syn: false,
            ack: true,
            rst: false,
            opening: false,
            mptcp: true,
            mss: None,
        }
    }

    fn syn(port: u16) -> Passing {
        Passing { syn: true, ack: false, mss: Some(1460), ..passing(port, true) }
    }

    fn middlebox(config: MiddleboxConfig) -> Middlebox {
        Middlebox::new(config)
    }

    #[test]
    fn each_rule_strips_its_segments() {
        let syn_ack = Passing { syn: true, mss: Some(1460), ..passing(1, false) };
        let third = Passing { opening: true, ..passing(1, true) };
        let segments = [syn(1), syn_ack, third, passing(1, true), passing(1, false)];
        for (strip, expected) in [
            (Strip::Nothing, [false; 5]),
            (Strip::All, [true; 5]),
            (Strip::Syn, [true, false, false, false, false]),
            (Strip::SynAck, [false, true, false, false, false]),
            (Strip::Data, [false, false, false, true, true]),
        ] {
            let mut one = middlebox(MiddleboxConfig { strip, ..MiddleboxConfig::default() });
            for (segment, strip) in segments.iter().zip(expected) {
                assert_eq!(
                    one.pass(Time::ZERO, segment),
                    Passed::On { strip, mss: None },
                    "{strip:?} {segment:?}"
                );
            }
            assert_eq!(one.counters().stripped, expected.iter().filter(|strip| **strip).count() as u64);
            // A segment without the option has nothing to lose.
            assert_eq!(one.pass(Time::ZERO, &Passing { mptcp: false, ..syn(1) }), Passed::UNCHANGED);
        }
    }

    #[test]
    fn a_larger_mss_is_replaced_and_a_smaller_one_stays() {
        let mut one = middlebox(MiddleboxConfig { mss_clamp: Some(1360), ..MiddleboxConfig::default() });
        assert_eq!(one.pass(Time::ZERO, &syn(1)), Passed::On { strip: false, mss: Some(1360) });
        for mss in [Some(1360), Some(536), None] {
            assert_eq!(one.pass(Time::ZERO, &Passing { mss, ..syn(1) }), Passed::UNCHANGED);
        }
        assert_eq!(one.counters().clamped, 1);
    }

    #[test]
    fn a_connection_is_forgotten_after_the_timeout_and_not_before() {
        for resets in [false, true] {
            let timeout = Duration::from_secs(30);
            let nat = Some(Nat { timeout, resets });
            let mut one = middlebox(MiddleboxConfig { nat, ..MiddleboxConfig::default() });
            let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
            let unknown = Passed::Dropped { reset: resets };
            assert_eq!(one.pass(at(0), &passing(1, true)), unknown, "there was no SYN");
            assert_eq!(one.pass(at(0), &syn(1)), Passed::UNCHANGED);
            // Packets of either direction keep the entry.
            assert_eq!(one.pass(at(30), &passing(1, false)), Passed::UNCHANGED);
            assert_eq!(one.pass(at(60), &passing(1, true)), Passed::UNCHANGED);
            assert_eq!(
                one.pass(at(60), &passing(2, false)),
                Passed::Dropped { reset: false },
                "another connection"
            );
            assert_eq!(
                one.pass(at(91), &passing(1, false)),
                Passed::Dropped { reset: false },
                "the server sees nothing"
            );
            assert_eq!(one.pass(at(91), &passing(1, true)), unknown, "it is forgotten for good");
            assert_eq!(
                one.pass(at(91), &Passing { rst: true, ..passing(1, true) }),
                Passed::Dropped { reset: false }
            );
            assert_eq!(one.pass(at(92), &syn(1)), Passed::UNCHANGED, "and may begin again");
            assert_eq!(one.counters().dropped, 5);
            assert_eq!(one.counters().resets, if resets { 2 } else { 0 });
        }
    }

    #[test]
    fn the_table_keeps_no_forgotten_connections() {
        let nat = Some(Nat { timeout: Duration::from_secs(1), resets: false });
        let mut one = middlebox(MiddleboxConfig { nat, ..MiddleboxConfig::default() });
        for second in 0..100_u64 {
            for port in 0..500 {
                one.pass(Time::ZERO + Duration::from_secs(second), &syn(port + 500 * (second % 100) as u16));
            }
        }
        assert!(one.table.len() <= 2 * Middlebox::FULL, "{}", one.table.len());
    }
}
