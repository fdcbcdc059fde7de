//! Fallbacks of connections to plain TCP, and their causes.

use anabranch_stack::stats::ConnectionStats;
use serde::Serialize;

/// The fallback of a connection to plain TCP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Fallback {
    /// The number of the connection, from 0.
    pub connection: usize,
    /// `handshake`, or `later` if it used Multipath TCP first.
    pub when: &'static str,
    /// The cause, as far as this end can determine it.
    pub why: &'static str,
}

impl Fallback {
    /// Returns the fallback of a connection with these counters, if it does not use Multipath TCP. `accepted`
    /// is true at a server.
    pub(crate) fn of(connection: usize, stats: &ConnectionStats, accepted: bool) -> Option<Fallback> {
        if stats.mptcp {
            return None;
        }
        let (when, why) = match stats {
            ConnectionStats { fallbacks: 0, .. } if accepted => (
                "handshake",
                "the client's SYN, or its next ACK, had no Multipath TCP option: it uses plain TCP, or a \
                 middlebox removed it",
            ),
            ConnectionStats { fallbacks: 0, .. } => (
                "handshake",
                "the server's SYN/ACK had no Multipath TCP option: the server uses plain TCP, or a middlebox \
                 removed it",
            ),
            ConnectionStats { checksum_failures: 1.., .. } => {
                ("later", "a checksum was wrong: a middlebox changes the payload")
            }
            ConnectionStats { fails_received: 1.., .. } => {
                ("later", "the peer reported a wrong checksum: a middlebox changes the payload")
            }
            _ => (
                "later",
                "segments arrived without Multipath TCP options: a middlebox removes them, or the peer fell \
                 back",
            ),
        };
        Some(Fallback { connection, when, why })
    }

    /// Returns the fallback of a kernel socket in the handshake.
    pub(crate) fn of_kernel(connection: usize) -> Fallback {
        Fallback {
            connection,
            when: "handshake",
            why: "reported by the kernel: the server uses plain TCP, or a middlebox removed the Multipath \
                  TCP option",
        }
    }

    /// Returns a predicate that describes it.
    pub(crate) fn sentence(&self) -> String {
        match self.when {
            "handshake" => format!("plain TCP: {}", self.why),
            _ => format!("fell back to TCP: {}", self.why),
        }
    }
}

/// Warns of each connection that does not use Multipath TCP; once if many have the same cause.
pub(crate) fn warn(fallbacks: &[Fallback], connections: usize) {
    let mut seen: Vec<&str> = Vec::new();
    for fallback in fallbacks {
        if seen.contains(&fallback.why) {
            continue;
        }
        seen.push(fallback.why);
        let same = fallbacks.iter().filter(|other| other.why == fallback.why).count();
        let who = match (same, connections) {
            (1, 1) => "the connection is".to_owned(),
            (1, _) => format!("connection {} is", fallback.connection + 1),
            (same, all) => format!("{same} of {all} connections are"),
        };
        let now = if fallback.when == "later" { " now" } else { "" };
        crate::output::warn(format_args!("{who}{now} plain TCP: {}", fallback.why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_told_as_far_as_one_end_knows_it() {
        let plain = ConnectionStats::default();
        let why =
            |stats: ConnectionStats, accepted| Fallback::of(0, &stats, accepted).map(|own| own.sentence());
        assert_eq!(why(ConnectionStats { mptcp: true, ..plain }, false), None);
        let cases = [
            (plain, false, "plain TCP: the server's SYN/ACK"),
            (plain, true, "plain TCP: the client's SYN, or"),
            (ConnectionStats { fallbacks: 1, ..plain }, false, "fell back to TCP: segments arrived without"),
            (
                ConnectionStats { fallbacks: 1, checksum_failures: 2, ..plain },
                true,
                "fell back to TCP: a checksum",
            ),
            (
                ConnectionStats { fallbacks: 1, fails_received: 1, ..plain },
                true,
                "fell back to TCP: the peer reported",
            ),
        ];
        for (stats, accepted, words) in cases {
            let text = why(stats, accepted).unwrap();
            assert!(text.starts_with(words), "{text}");
        }
    }
}
