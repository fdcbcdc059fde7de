//! One TCP connection of the capture: a subflow, or a plain TCP.

use anabranch_stack::segment::{Address, ResetReason};
use anabranch_stack::seq::Seq;
use anabranch_units::{Duration, Time};
use std::collections::VecDeque;

use super::half::Half;
use crate::capture::Heading;

/// The host at which, or near which, a capture was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Vantage {
    /// The host that opened the subflow.
    Client,
    /// The host that accepted it.
    Server,
    /// A host on the path.
    Between,
    /// Not known: the handshake is not in the capture.
    Unknown,
}

impl Vantage {
    /// Returns its name in sentences.
    pub const fn name(self) -> &'static str {
        match self {
            Vantage::Client => "at the client",
            Vantage::Server => "at the server",
            Vantage::Between => "between client and server",
            Vantage::Unknown => "at an unknown place",
        }
    }
}

/// The end of a subflow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reset {
    pub time: Time,
    /// 0 if the initiator of the subflow sent it.
    pub by: usize,
    pub reason: Option<ResetReason>,
    pub transient: bool,
    pub fast_close: bool,
}

/// The identity of a join.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Joining {
    pub token: u32,
    pub nonces: [Option<u32>; 2],
    pub ids: [Option<u8>; 2],
    pub backup: bool,
    pub hmac: [Option<bool>; 2],
    pub codes: (Option<u64>, Option<[u8; 20]>),
}

/// A packet as it is recognised on another interface.
type Print = (u32, u32, u32, u16, u32, u32);

/// The most packets among which a copy is searched.
const MAX_PRINTS: usize = 16;

/// A subflow, from one file.
#[derive(Debug)]
pub(crate) struct Subflow {
    pub file: usize,
    pub connection: usize,
    /// The number within its connection.
    pub number: usize,
    /// The address that sent the SYN, or probably did.
    pub client: Address,
    pub server: Address,
    /// True if the connection's server has opened it.
    pub flipped: bool,
    /// Of the initiator and of the other host.
    pub halves: [Half; 2],
    pub first: Time,
    pub last: Time,
    pub syn: Option<Time>,
    pub last_syn: Option<Time>,
    pub syn_count: u32,
    pub syn_ack: Option<Time>,
    pub syn_ack_count: u32,
    pub ack: Option<Time>,
    pub syn_seq: Option<Seq>,
    pub syn_wire: [u32; 2],
    pub syn_heading: Option<Heading>,
    pub joining: Option<Joining>,
    pub capable: bool,
    pub has_mptcp: bool,
    pub backup: [bool; 2],
    pub reset: Option<Reset>,
    pub copies: u64,
    prints: VecDeque<(Print, u32)>,
}

impl Subflow {
    pub(crate) fn new(file: usize, now: Time, client: Address, server: Address) -> Subflow {
        Subflow {
            file,
            connection: 0,
            number: 0,
            client,
            server,
            flipped: false,
            halves: [Half::default(), Half::default()],
            first: now,
            last: now,
            syn: None,
            last_syn: None,
            syn_count: 0,
            syn_ack: None,
            syn_ack_count: 0,
            ack: None,
            syn_seq: None,
            syn_wire: [0; 2],
            syn_heading: None,
            joining: None,
            capable: false,
            has_mptcp: false,
            backup: [false; 2],
            reset: None,
            copies: 0,
            prints: VecDeque::new(),
        }
    }

    /// True if the packet was captured on another interface before.
    pub(crate) fn is_copy(&mut self, view: &anabranch_wire::View, interface: u32) -> bool {
        let segment = &view.segment;
        let value = segment.options.timestamps.map_or(0, |timestamps| timestamps.value);
        let flags = u32::from(segment.flags.0) << 16 | u32::from(segment.window);
        let print = (segment.seq.0, segment.ack.0, segment.payload_len, view.ip_id, value, flags);
        let found = self.prints.iter().any(|(known, at)| *known == print && *at != interface);
        if !found {
            if self.prints.len() >= MAX_PRINTS {
                self.prints.pop_front();
            }
            self.prints.push_back((print, interface));
        }
        self.copies += u64::from(found);
        found
    }

    /// The direction of the connection in which half `half` carries data: 0 from the connection's client.
    pub(crate) fn direction(&self, half: usize) -> usize {
        half ^ usize::from(self.flipped)
    }

    /// The half that carries the data of a direction of the connection.
    pub(crate) fn half(&self, direction: usize) -> &Half {
        &self.halves[(direction ^ usize::from(self.flipped)) & 1]
    }

    /// From the SYN to its answer, and from there to the third packet, as seen by the capture.
    pub(crate) fn handshake(&self) -> Option<(Duration, Duration)> {
        let (syn, answer, ack) = (self.last_syn?, self.syn_ack?, self.ack?);
        Some((answer.since(syn), ack.since(answer)))
    }

    /// Returns the round trip of a handshake without retransmissions: of both parts, so from any place.
    pub(crate) fn handshake_rtt(&self) -> Option<Duration> {
        let (there, back) = self.handshake().filter(|_| self.syn_count == 1 && self.syn_ack_count == 1)?;
        Some(there + back)
    }

    /// Returns the place of the capture.
    pub(crate) fn vantage(&self) -> Vantage {
        match self.syn_heading {
            Some(Heading::Out) => return Vantage::Client,
            Some(Heading::In) => return Vantage::Server,
            None => {}
        }
        let Some((there, back)) = self.handshake() else { return Vantage::Unknown };
        let share = back.as_secs_f64() / (there.as_secs_f64() + back.as_secs_f64()).max(1e-9);
        match share {
            s if s < 0.2 => Vantage::Client,
            s if s > 0.8 => Vantage::Server,
            _ => Vantage::Between,
        }
    }

    /// True if the capture was made at the host that sends half `half`, or nearer to it. Without a handshake the one
    /// with the longer time from data to acknowledgement.
    pub(crate) fn is_at_sender(&self, half: usize) -> bool {
        match self.vantage() {
            Vantage::Client => half == 0,
            Vantage::Server => half == 1,
            Vantage::Between => {
                let back = self.handshake().map_or(0.5, |(there, back)| {
                    back.as_secs_f64() / (there.as_secs_f64() + back.as_secs_f64()).max(1e-9)
                });
                (half == 0) == (back < 0.5)
            }
            Vantage::Unknown => {
                let own = &self.halves[half & 1];
                match (own.rtt.quantile(0.5), own.echo_rtt.quantile(0.5)) {
                    (Some(ack), Some(echo)) => ack >= echo,
                    _ => true,
                }
            }
        }
    }
}

/// True if the capture was made at the sender of a stream, by the subflow with most of its data.
pub(crate) fn is_at_sender(subflows: &[&Subflow], direction: usize) -> bool {
    let main = subflows.iter().max_by_key(|subflow| subflow.half(direction).counts.bytes);
    main.is_none_or(|one| one.is_at_sender(direction ^ usize::from(one.flipped)))
}
