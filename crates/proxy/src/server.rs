//! The server side: authenticates its clients, and connects to the destinations that they may reach.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_scenario::policy::proxy::{Client, Key, Reach, ServerPolicy, Treatment};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::client::is_lasting;
use crate::convert::seal::{self, Code, Unverified};
use crate::convert::{ErrorCode, HEADER, Malformed, Refusal, Reply, Request, answer_to_malformed, length_of};
use crate::guard::Accounts;
use crate::now_ms;
use crate::reach::{connect, resolve};
use crate::relay::{Direction, End, relay};
use crate::sizes::{Messages, Sizes};
use crate::status::{Status, lock};
use crate::transport::{Accept, Kernel, KernelLink, Link};

/// The time for a client to send its request.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// The greatest number of connections that are not authenticated yet.
const MOST_STRANGERS: usize = 1024;
/// The pause after the system has refused to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The server side. Clones are the same.
#[derive(Clone, Debug)]
pub struct Server {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// For the destinations.
    direct: Kernel,
    policy: Mutex<Arc<ServerPolicy>>,
    accounts: Mutex<Accounts>,
    /// The key of clients that do not exist, so that their names cannot be found out by the time of an answer.
    nobody: Key,
    status: Arc<Status>,
    strangers: Arc<Semaphore>,
}

impl Server {
    /// Returns a server side; `transport` is the name of the transport by which clients come.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new(direct: Kernel, transport: &'static str, policy: ServerPolicy) -> io::Result<Server> {
        let mut nobody = [0; 32];
        getrandom::fill(&mut nobody).map_err(io::Error::other)?;
        let shared = Shared {
            direct,
            policy: Mutex::new(Arc::new(policy)),
            accounts: Mutex::new(Accounts::new(now_ms())),
            nobody: Key(nobody),
            status: Arc::new(Status::new("server", transport)),
            strangers: Arc::new(Semaphore::new(MOST_STRANGERS)),
        };
        Ok(Server { shared: Arc::new(shared) })
    }

    /// Replaces the policy; connections of this moment stay as they are.
    pub fn set_policy(&self, policy: ServerPolicy) {
        *lock(&self.shared.policy) = Arc::new(policy);
    }

    /// Returns the counters and connections.
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&self.shared.status)
    }

    /// Serves the clients that connect to `listener`.
    ///
    /// # Errors
    /// Does not return without one.
    pub async fn serve<A: Accept>(&self, mut listener: A) -> io::Error {
        loop {
            let (link, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) if is_lasting(&error) => return error,
                Err(_) => {
                    self.shared.status.fail("accept", None);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(permit) = Arc::clone(&self.shared.strangers).try_acquire_owned() else {
                self.shared.status.fail("strangers", Some(peer.ip()));
                link.reset();
                continue;
            };
            let shared = Arc::clone(&self.shared);
            tokio::spawn(async move { shared.converse(link, peer.ip().to_canonical(), permit).await });
        }
    }
}

/// A client's request that was admitted. Its place is free again when this is dropped.
struct Admitted {
    shared: Arc<Shared>,
    client: Client,
    request: Request,
    code: Code,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        lock(&self.shared.accounts).leave(&self.client.name);
    }
}

/// A request that is refused: the answer, none for silence, and the reason for the counters.
struct Turned {
    answer: Option<Vec<u8>>,
    kind: &'static str,
}

impl Turned {
    fn plain(reply: Option<Reply>, kind: &'static str) -> Turned {
        Turned { answer: reply.map(|reply| reply.plain()), kind }
    }
}

impl Shared {
    async fn converse<L: Link>(self: Arc<Self>, mut link: L, from: IpAddr, permit: OwnedSemaphorePermit) {
        let turned = match timeout(REQUEST_TIME, Box::pin(read_request(&mut link))).await {
            Err(_) => Turned::plain(None, "slow"),
            Ok(Err(Unread::Gone)) => Turned::plain(None, "gone"),
            Ok(Err(Unread::NotSecured)) => Turned::plain(None, "tls"),
            Ok(Err(Unread::Malformed(message, why))) => {
                Turned::plain(answer_to_malformed(&message, why), "malformed")
            }
            Ok(Ok(message)) => match self.admit(&message) {
                Err(turned) => turned,
                Ok(admitted) => {
                    drop((permit, message));
                    return self.carry(link, from, admitted).await;
                }
            },
        };
        self.status.fail(turned.kind, Some(from));
        refuse(link, turned.answer).await;
    }

    /// Judges a request.
    fn admit(self: &Arc<Self>, message: &[u8]) -> Result<Admitted, Turned> {
        let not_authorized = Reply::failed(ErrorCode::NotAuthorized);
        let unverified = match Unverified::parse(message) {
            Err(why) => return Err(Turned::plain(answer_to_malformed(message, why), "malformed")),
            Ok(None) => return Err(Turned::plain(Some(not_authorized), "no_key")),
            Ok(Some(unverified)) => unverified,
        };
        let policy = Arc::clone(&lock(&self.policy));
        let client = policy.client(unverified.name);
        let is_authentic = unverified.is_of(client.map_or(&self.nobody, |client| &client.key));
        let Some(client) = client.filter(|_| is_authentic) else {
            return Err(Turned::plain(Some(not_authorized), "wrong_key"));
        };
        let code = unverified.code;
        let signed = |reply: &Reply| Some(seal::reply(reply, &client.key, &code, now_ms()));
        let request = unverified.request().map_err(|Refusal { code: error, value, .. }| Turned {
            answer: signed(&Reply::Failed { code: error, value }),
            kind: "malformed",
        })?;
        let admitted = lock(&self.accounts).admit(client, now_ms(), unverified.time_ms, unverified.nonce);
        admitted.map_err(|denied| {
            use crate::guard::Denied;
            let error = match denied {
                Denied::Stale | Denied::Replayed => ErrorCode::NotAuthorized,
                Denied::Rate | Denied::Connections => ErrorCode::ResourceExceeded,
            };
            Turned { answer: signed(&Reply::failed(error)), kind: denied.kind() }
        })?;
        Ok(Admitted { shared: Arc::clone(self), client: client.clone(), request, code })
    }

    /// Carries the bytes of an admitted connection until it ends.
    async fn carry<L: Link>(self: Arc<Self>, mut link: L, from: IpAddr, admitted: Admitted) {
        let connected = Box::pin(self.connect(&admitted)).await;
        let key = admitted.client.key;
        let mut far = match connected {
            Ok(far) => far,
            Err((error, kind)) => {
                let to = admitted.request.destination.to_string();
                self.status.note(kind, &to, &format!("{}: {error}", admitted.client.name));
                let answer = seal::reply(&Reply::failed(error), &key, &admitted.code, now_ms());
                return refuse(link, Some(answer)).await;
            }
        };
        let mptcp = admitted.request.asks_for_mptcp.then(|| far.is_mptcp());
        let answer = seal::reply(&Reply::Connected { mptcp }, &key, &admitted.code, now_ms());
        if link.write_all(&answer).await.is_err() || link.flush().await.is_err() {
            return self.status.fail("gone", Some(from));
        }
        let to = admitted.request.destination.to_string();
        let tracked = self.status.begin(&admitted.client.name, to, "server");
        let policy = Arc::clone(&lock(&self.policy));
        let idle = Duration::from_nanos(policy.idle.0);
        let hint = policy.size(admitted.request.destination.port).map(|size| size.0);
        drop(policy);
        let (live, asked) = (&tracked.live, self.status.asked());
        // The client is the far end, which has the paths.
        let counts = [&live.down, &live.up];
        if let (true, Some(hint)) = (L::USES_SIZE, hint) {
            link.set_remaining(Some(hint));
        }
        let sizes = L::USES_SIZE.then(|| Box::new(Sizes::new(Messages::Responses, hint)));
        let down = Direction::new(Vec::new(), None).with_sizes(sizes);
        let end =
            relay(&mut far, &mut link, down, counts, idle, asked, |link| live.set_report(link.report()));
        let end = end.await;
        tracked.finish(&link.report(), end.word());
        if !matches!(end, End::Finished) {
            link.reset();
            far.reset();
        }
    }

    /// Connects to the destination of a request, at the address that was checked.
    async fn connect(&self, admitted: &Admitted) -> Result<KernelLink, (ErrorCode, &'static str)> {
        let Admitted { client, request, .. } = admitted;
        let found =
            resolve(&request.destination).await.map_err(|_| (ErrorCode::NetworkFailure, "unknown_name"))?;
        let is_allowed = |address: &SocketAddr| client.reach.contains(address.ip(), address.port());
        let allowed: Vec<SocketAddr> = found.into_iter().filter(is_allowed).collect();
        if allowed.is_empty() {
            return Err((ErrorCode::NotAuthorized, "forbidden"));
        }
        let how = Treatment { multipath: lock(&self.policy).multipath, ..Treatment::default() };
        let far = connect(&self.direct, &allowed, &how).await.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => {
                (ErrorCode::ConnectionReset, "connection_refused")
            }
            _ => (ErrorCode::Unreachable, "unreachable"),
        })?;
        match far.ends() {
            Ok((local, remote)) if !may_reach(&client.reach, local.ip(), remote.ip()) => {
                Err((ErrorCode::NotAuthorized, "forbidden"))
            }
            _ => Ok(far),
        }
    }
}

/// True if a client may have a connection with these ends. An address of this host, which its firewall may keep from others, is reached
/// only where a prefix names it.
pub(crate) fn may_reach(reach: &Reach, local: IpAddr, remote: IpAddr) -> bool {
    local != remote || reach.names(remote)
}

/// The reason that there is no request.
enum Unread {
    Gone,
    /// The handshake of TLS has failed.
    NotSecured,
    Malformed(Vec<u8>, Malformed),
}

/// Reads the message of a request, and no byte after it.
async fn read_request<L: Link>(link: &mut L) -> Result<Vec<u8>, Unread> {
    link.prepare().await.map_err(|_| Unread::NotSecured)?;
    let mut header = [0; HEADER];
    link.read_exact(&mut header).await.map_err(|_| Unread::Gone)?;
    let length = length_of(header).map_err(|why| Unread::Malformed(header.to_vec(), why))?;
    let mut message = vec![0; length];
    message[..HEADER].copy_from_slice(&header);
    link.read_exact(&mut message[HEADER..]).await.map_err(|_| Unread::Gone)?;
    Ok(message)
}

/// Sends the answer to a request that is refused, and ends the connection. The client's first data may be unread, and a
/// reset that it causes could overtake the answer: so it is read for a moment.
async fn refuse<L: Link>(mut link: L, answer: Option<Vec<u8>>) {
    let Some(answer) = answer else { return link.reset() };
    if link.write_all(&answer).await.is_err() || link.shutdown().await.is_err() {
        return;
    }
    let draining = async {
        let mut buffer = [0; 1024];
        let mut left = 64_usize;
        while left > 0 && link.read(&mut buffer).await.is_ok_and(|n| n > 0) {
            left -= 1;
        }
    };
    let _ = timeout(Duration::from_secs(2), draining).await;
}
