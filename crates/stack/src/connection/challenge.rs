//! Challenge ACKs (RFC 5961), and their limit.

use anabranch_units::{Duration, Time};

use super::Connection;

/// RFC 5961 section 7: the interval of the limit.
const INTERVAL: Duration = Duration::from_secs(5);
/// The maximum number of challenge ACKs on one connection in an interval.
const MOST: u32 = 10;

/// The number of recent challenge ACKs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Challenges {
    since: Time,
    count: u32,
}

impl Challenges {
    /// True if another may be sent now; counts it.
    fn admit(&mut self, now: Time) -> bool {
        if now.since(self.since) >= INTERVAL {
            *self = Challenges { since: now, count: 0 };
        }
        self.count += 1;
        self.count <= MOST
    }
}

impl Connection {
    /// Answers a segment that no correct peer would send with an acknowledgement, which informs a true peer
    /// and reveals nothing to a forger. Returns true if one is sent: their rate is limited.
    #[cold]
    pub(super) fn challenge(&mut self, now: Time, at: usize) -> bool {
        let admitted = self.challenges.admit(now);
        if admitted {
            self.subflows[at].recv_mut().want_ack();
        }
        admitted
    }
}
