//! Negotiation in the handshake: evaluation of the offers and answers of MP_CAPABLE and of TCP's options (RFC
//! 8684 section 3.1).

use anabranch_units::Time;

use super::{Connection, Mode};
use crate::config::Checksums;
use crate::crypto;
use crate::segment::{Capable, Join, Key, MptcpOption, Options, Segment};
use crate::seq::Dsn;

/// The algorithm bits of an MP_CAPABLE.
const ALGORITHMS: u8 = 0x1f;

/// The outcome of a first handshake with MP_CAPABLE, by the segment that acknowledges the SYN/ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThirdAck {
    /// The connection is MPTCP: the peer's key, and the flags of its MP_CAPABLE.
    Keys { key: Key, flags: u8 },
    /// The connection is plain TCP. `peer_unaware` if the segment has MPTCP options, so that the peer has yet
    /// to notice.
    Tcp { peer_unaware: bool },
    /// The peer uses MPTCP with other keys: its mappings would not fit plain TCP.
    Foreign,
}

/// Returns the first MP_CAPABLE among the options.
pub(crate) fn find_capable(options: &Options) -> Option<Capable> {
    options.mptcp.iter().flatten().find_map(|option| match option {
        MptcpOption::Capable(capable) => Some(*capable),
        _ => None,
    })
}

/// Returns the first MP_JOIN among the options.
pub(crate) fn find_join(options: &Options) -> Option<Join> {
    options.mptcp.iter().flatten().find_map(|option| match option {
        MptcpOption::Join(join) => Some(*join),
        _ => None,
    })
}

/// True if the MP_CAPABLE of a SYN is an offer that can be accepted (RFC 8684 section 3.1): this version or a newer one,
/// SHA-256 among the algorithms, and not the form of version 0, which had a key.
pub(crate) fn is_acceptable_offer(capable: &Capable, checksums: Checksums) -> bool {
    capable.version >= 1 && capable.sender_key.is_none() && {
        let chosen =
            Capable { version: 1, flags: capable.flags & !ALGORITHMS | Capable::HMAC_SHA256, ..*capable };
        capable.flags & Capable::HMAC_SHA256 != 0 && is_acceptable(&chosen, checksums)
    }
}

/// True if an MP_CAPABLE after the offer matches it: version 1, only SHA-256, and no checksums if they are
/// refused.
pub(super) fn is_acceptable(capable: &Capable, checksums: Checksums) -> bool {
    capable.version == 1
        && capable.flags & Capable::EXTENSION == 0
        && capable.flags & ALGORITHMS == Capable::HMAC_SHA256
        && (capable.flags & Capable::CHECKSUM == 0 || checksums != Checksums::Refused)
}

/// Evaluates the segment that acknowledges a SYN/ACK with MP_CAPABLE and the `local_key` (RFC 8684 section
/// 3.1).
///
/// A segment without MP_CAPABLE makes a plain TCP even if it has a DSS, as in Linux. Its sender has lost the
/// third ACK; if it closes early, or its first data is lost as well, it may never repeat the keys. An
/// initiator that repeats them until they are confirmed keeps MPTCP.
pub(crate) fn third_ack(segment: &Segment, local_key: Key, checksums: Checksums) -> ThirdAck {
    match find_capable(&segment.options).filter(|capable| is_acceptable(capable, checksums)) {
        Some(Capable { sender_key: Some(key), receiver_key: Some(echoed), flags, .. }) => {
            if echoed == local_key { ThirdAck::Keys { key, flags } } else { ThirdAck::Foreign }
        }
        _ => ThirdAck::Tcp { peer_unaware: !segment.options.have_no_mptcp() },
    }
}

/// Returns the smallest window shift with which a window of `max` bytes can be advertised.
pub(crate) fn own_scale(max: u64) -> u8 {
    (0..14).find(|shift| max >> shift <= 65_535).unwrap_or(14)
}

impl Connection {
    /// Processes the peer's SYN or SYN/ACK at the level of the subflow.
    #[cold]
    pub(crate) fn on_peer_syn(&mut self, now: Time, at: usize, segment: &Segment) {
        let scale = own_scale(self.config.receive_buffer.max().get());
        self.subflows[at].on_syn(now, self.tick, segment, scale, &self.config);
        if self.mode == Mode::Plain {
            self.subflows[at].drop_mptcp_options(&self.config);
        }
    }

    /// Falls back to TCP, because the peer, or a middlebox, does not support MPTCP.
    #[cold]
    pub(super) fn speak_tcp(&mut self) {
        self.checksummed = false;
        // A SYN without the option may be sent several times.
        if core::mem::replace(&mut self.mode, Mode::Plain) == Mode::Mptcp {
            let Connection { subflows, config, .. } = self;
            subflows.iter_mut().for_each(|subflow| subflow.drop_mptcp_options(config));
        }
    }

    /// Records the peer's key and token, agreed in advance.
    pub(crate) fn agree_on_keys(&mut self, remote: Key, token: u32) {
        self.learn_remote_key(remote);
        self.keys.agree_on_token(token);
    }

    /// Records the peer's key, and derives its token and the start of its stream.
    pub(super) fn learn_remote_key(&mut self, key: Key) {
        self.keys.learn(key);
        // RFC 8684 section 3.1: the initial DSN counts as the MP_CAPABLE's octet.
        let initial = match (self.config.only.sequence_origin, self.initiator) {
            (Some(origin), true) => origin.listener,
            (Some(origin), false) => origin.initiator,
            (None, _) => crypto::initial_dsn(key),
        };
        self.remote_dsn = Dsn(initial.0.wrapping_add(1));
    }

    /// Returns the flags of the local MP_CAPABLE: SHA-256, and A if either side requests checksums.
    pub(super) fn capable_flags(&self) -> u8 {
        Capable::HMAC_SHA256 | if self.checksummed { Capable::CHECKSUM } else { 0 }
    }
}
