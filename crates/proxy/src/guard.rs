//! The limits of the clients of a server: the rate of new connections, their number, and requests that were seen before.

use std::collections::{BTreeMap, HashSet};

use anabranch_scenario::policy::proxy::Client;

use crate::convert::seal::Nonce;

/// The greatest difference between the clocks of a client and the server, in milliseconds.
pub(crate) const WINDOW_MS: u64 = 60_000;

/// The reason that an authentic request is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// Its time is too far from the server's time.
    Stale,
    /// It was seen before.
    Replayed,
    /// There were too many in this second.
    Rate,
    /// There are too many connections.
    Connections,
}

impl Denied {
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Denied::Stale => "stale",
            Denied::Replayed => "replayed",
            Denied::Rate => "rate",
            Denied::Connections => "connections",
        }
    }
}

/// The nonces of the last requests, in two generations: one is dropped when no request with its nonces could be in the
/// window any more. The rate of a client bounds their number.
#[derive(Debug, Default)]
struct Nonces {
    generations: [HashSet<Nonce>; 2],
    /// The time at which the newer generation began.
    began_ms: u64,
}

impl Nonces {
    /// Notes a nonce; false if it was noted before.
    fn note(&mut self, now_ms: u64, nonce: Nonce) -> bool {
        // A request that arrives now may have a time in the future: its nonce is needed for two windows.
        if now_ms.saturating_sub(self.began_ms) > 2 * WINDOW_MS {
            self.generations.swap(0, 1);
            let idle = now_ms.saturating_sub(self.began_ms) > 4 * WINDOW_MS;
            self.generations[0] = HashSet::new();
            if idle {
                self.generations[1] = HashSet::new();
            }
            self.began_ms = now_ms;
        }
        !self.generations[1].contains(&nonce) && self.generations[0].insert(nonce)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.generations.iter().map(HashSet::len).sum()
    }
}

/// The state of a client.
#[derive(Debug, Default)]
struct Account {
    connections: u32,
    /// New connections that it may make now, in thousandths.
    tokens: u64,
    filled_ms: u64,
    nonces: Nonces,
}

/// The accounts of all clients, by name. They outlive a change of the policy.
#[derive(Debug)]
pub(crate) struct Accounts {
    began_ms: u64,
    accounts: BTreeMap<String, Account>,
}

impl Accounts {
    pub(crate) fn new(now_ms: u64) -> Accounts {
        Accounts { began_ms: now_ms, accounts: BTreeMap::new() }
    }

    /// Admits an authentic request of a client. Its connection counts until [`Accounts::leave`].
    pub(crate) fn admit(
        &mut self,
        client: &Client,
        now_ms: u64,
        time_ms: u64,
        nonce: Nonce,
    ) -> Result<(), Denied> {
        let began_ms = self.began_ms;
        let account = match self.accounts.get_mut(&client.name) {
            Some(account) => account,
            None => {
                let tokens = u64::from(client.rate) * 1000;
                let new = Account { tokens, filled_ms: now_ms, ..Account::default() };
                self.accounts.entry(client.name.clone()).or_insert(new)
            }
        };
        // The nonces from before the start of this process are lost, so older requests are refused too.
        if now_ms.abs_diff(time_ms) > WINDOW_MS || time_ms < began_ms {
            return Err(Denied::Stale);
        }
        let most = u64::from(client.rate) * 1000;
        let gained = now_ms.saturating_sub(account.filled_ms).saturating_mul(u64::from(client.rate));
        account.tokens = account.tokens.saturating_add(gained).min(most);
        account.filled_ms = now_ms;
        // Before the nonce is noted, so that the rate bounds the nonces. A replay costs its client a token.
        account.tokens = account.tokens.checked_sub(1000).ok_or(Denied::Rate)?;
        if !account.nonces.note(now_ms, nonce) {
            return Err(Denied::Replayed);
        }
        if account.connections >= client.connections {
            return Err(Denied::Connections);
        }
        account.connections += 1;
        Ok(())
    }

    /// Ends a connection of a client.
    pub(crate) fn leave(&mut self, name: &str) {
        if let Some(account) = self.accounts.get_mut(name) {
            account.connections = account.connections.saturating_sub(1);
        }
    }

    /// Returns the connections of each client.
    #[cfg(test)]
    pub(crate) fn connections(&self) -> BTreeMap<String, u32> {
        self.accounts.iter().map(|(name, account)| (name.clone(), account.connections)).collect()
    }

    /// Returns the number of nonces in memory.
    #[cfg(test)]
    pub(crate) fn nonces(&self) -> usize {
        self.accounts.values().map(|account| account.nonces.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_scenario::policy::proxy::{Key, Reach};

    const START: u64 = 1_000_000_000_000;

    fn client(rate: u32, connections: u32) -> Client {
        Client { name: "a".to_owned(), key: Key([0; 32]), reach: Reach::default(), connections, rate }
    }

    fn nonce(number: u64) -> Nonce {
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&number.to_be_bytes());
        nonce
    }

    #[test]
    fn a_request_is_admitted_once_at_any_time() {
        let client = client(1000, u32::MAX);
        // For every offset of the client's clock, and every delay of the replay.
        for offset in [-60_000_i64, -59_000, 0, 59_000, 60_000] {
            let mut accounts = Accounts::new(START - 200_000);
            let time = START.checked_add_signed(offset).unwrap();
            accounts.admit(&client, START, time, nonce(1)).unwrap();
            for later in (0..400_000).step_by(500) {
                let _ = accounts.admit(&client, START + later, START + later, nonce(2 + later));
                let replay = accounts.admit(&client, START + later, time, nonce(1));
                assert!(
                    matches!(replay, Err(Denied::Stale | Denied::Replayed)),
                    "{offset} {later}: {replay:?}"
                );
            }
        }
    }

    #[test]
    fn a_time_outside_of_the_window_or_before_the_start_is_refused() {
        let client = client(1000, 10);
        let mut accounts = Accounts::new(START);
        for time in [START + 60_001, START - 1, 0, u64::MAX] {
            assert_eq!(accounts.admit(&client, START, time, nonce(1)), Err(Denied::Stale));
        }
        assert_eq!(accounts.admit(&client, START, START + 60_000, nonce(1)), Ok(()));
    }

    #[test]
    fn the_rate_bounds_connections_and_memory() {
        let client = client(10, u32::MAX);
        let mut accounts = Accounts::new(START);
        let mut admitted = 0;
        for ms in 0..10_000 {
            admitted += u32::from(accounts.admit(&client, START + ms, START + ms, nonce(ms)).is_ok());
        }
        assert_eq!(admitted, 10 + 99, "ten at once, and ten a second");
        for ms in 10_000..1_000_000 {
            let _ = accounts.admit(&client, START + ms, START + ms, nonce(ms));
        }
        assert!(accounts.nonces() <= 10 + 10 * 4 * 60 + 10, "{}", accounts.nonces());
    }

    #[test]
    fn connections_are_counted_until_they_end() {
        let client = client(100, 2);
        let mut accounts = Accounts::new(START);
        let mut one = |at| accounts.admit(&client, START, START, nonce(at));
        assert_eq!((one(1), one(2), one(3)), (Ok(()), Ok(()), Err(Denied::Connections)));
        accounts.leave("a");
        assert_eq!(accounts.admit(&client, START, START, nonce(4)), Ok(()));
        assert_eq!(accounts.connections()["a"], 2);
    }
}
