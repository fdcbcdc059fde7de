//! Challenge ACKs (RFC 5961), and their limit.

use anabranch_units::{Duration, Time};

use super::Connection;

/// RFC 5961 section 7: in this time ...
const INTERVAL: Duration = Duration::from_secs(5);
/// ... no more than so many leave on one connection.
const MOST: u32 = 10;

/// How many have left lately.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Challenges {
    since: Time,
    count: u32,
}

impl Challenges {
    /// Whether another may leave now.
    fn admit(&mut self, now: Time) -> bool {
        if now.since(self.since) >= INTERVAL {
            *self = Challenges { since: now, count: 0 };
        }
        self.count += 1;
        self.count <= MOST
    }
}

impl Connection {
    /// A segment cannot be what a peer in its right mind would send: the answer is an acknowledgement, by
    /// which a true peer finds out and a forger learns nothing. Whether one leaves: a flood gets few.
    #[cold]
    pub(super) fn challenge(&mut self, now: Time, at: usize) -> bool {
        let admitted = self.challenges.admit(now);
        if admitted {
            self.subflows[at].want_ack();
        }
        admitted
    }
}
