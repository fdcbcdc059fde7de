//! The client side: accepts the connections of applications, and carries each to its destination.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_scenario::policy::proxy::{Answer, ClientPolicy, Facts, Key, Treatment, Via};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::convert::seal::{self, Code, read_reply};
use crate::convert::{Destination, ErrorCode, Host, Reply, Request};
use crate::destinations::Destinations;
use crate::failure::Failure;
use crate::front::{Asked, Unasked, ask, redirected};
use crate::gate::{Gate, Refused, Waiting, refused};
use crate::guard::WINDOW_MS;
use crate::now_ms;
use crate::owner;
use crate::reach::{connect, resolve};
use crate::relay::{Direction, End, relay};
use crate::sizes::{Messages, Sizes};
use crate::status::{Status, Tracked, lock};
use crate::transport::{Kernel, KernelLink, Link, Stream as _, Transport};

/// The time for an application to send its request.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// The time for the server side to answer.
const REPLY_TIME: Duration = Duration::from_secs(60);
/// The time after which a connection without data is closed.
const IDLE: Duration = Duration::from_secs(2 * 3600);
/// The greatest number of connections of applications.
const MOST_CONNECTIONS: usize = 20_000;
/// The most data of an application that travels with its destination.
const FIRST_DATA: usize = 16 << 10;
/// The pause after the system has refused to accept a connection, as there are too many files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The server side, as its client knows it.
#[derive(Clone, Debug)]
pub struct ServerSide {
    /// Its name or address, and its port.
    pub at: Destination,
    /// The name of this client there.
    pub name: String,
    /// The key of this client.
    pub key: Key,
}

/// The client side. Clones are the same.
#[derive(Debug)]
pub struct Client<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Clone for Client<T> {
    fn clone(&self) -> Client<T> {
        Client { shared: Arc::clone(&self.shared) }
    }
}

#[derive(Debug)]
struct Shared<T> {
    transport: T,
    /// For destinations that are reached from here.
    direct: Kernel,
    server: Option<ServerSide>,
    policy: Mutex<Arc<ClientPolicy>>,
    destinations: Mutex<Destinations<Destination>>,
    /// The server's clock minus the one of this host, in milliseconds.
    clock_offset_ms: AtomicI64,
    /// True once the server side has given an authentic answer, so that the clocks fit.
    is_known: AtomicBool,
    /// The last address of the server's name.
    address: Mutex<Option<SocketAddr>>,
    status: Arc<Status>,
    space: Arc<Semaphore>,
}

impl<T: Transport> Client<T> {
    /// Returns a client side. Without a server side all destinations are reached from here.
    ///
    /// # Errors
    /// If the transport cannot do what the policy wants.
    pub fn new(
        transport: T,
        direct: Kernel,
        server: Option<ServerSide>,
        policy: ClientPolicy,
    ) -> Result<Client<T>, String> {
        let status = Arc::new(Status::new("client", transport.name()));
        let shared = Shared {
            transport,
            direct,
            server,
            policy: Mutex::new(Arc::new(ClientPolicy::default())),
            destinations: Mutex::default(),
            clock_offset_ms: AtomicI64::new(0),
            is_known: AtomicBool::new(false),
            address: Mutex::new(None),
            status,
            space: Arc::new(Semaphore::new(MOST_CONNECTIONS)),
        };
        let client = Client { shared: Arc::new(shared) };
        client.set_policy(policy)?;
        Ok(client)
    }

    /// Replaces the policy; connections of this moment stay as they are.
    ///
    /// # Errors
    /// If the transport cannot do what it wants. Then the old one holds.
    pub fn set_policy(&self, policy: ClientPolicy) -> Result<(), String> {
        let shared = &self.shared;
        let is_by_server = |how: &Treatment| shared.server.is_some() && how.via != Via::Direct;
        let outer = policy.treatments().next().cloned().unwrap_or_default();
        for how in policy.treatments() {
            if is_by_server(how) {
                shared.transport.check(how)?;
            } else if is_by_server(&outer) {
                // Values outside of rules may be for the transport only.
                shared.direct.check(&without(how, &outer))?;
            } else {
                shared.direct.check(how)?;
            }
        }
        owner::check(policy.questions())?;
        let limit = |policy: &ClientPolicy| {
            shared.transport.set_budgets(&policy.budgets)?;
            shared.transport.set_caps(&policy.caps)?;
            shared.transport.set_prices(&policy.prices)?;
            if shared.server.is_none() && !policy.prices.is_empty() {
                return Err("`[[price]]` is for the way to a server side: add --to HOST:PORT".to_owned());
            }
            Ok(())
        };
        if let Err(error) = limit(&policy) {
            let old = Arc::clone(&lock(&shared.policy));
            limit(&old)?;
            return Err(error);
        }
        *lock(&shared.policy) = Arc::new(policy);
        Ok(())
    }

    /// Returns the counters and connections.
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&self.shared.status)
    }

    /// True if users have to give passwords.
    pub fn has_users(&self) -> bool {
        !lock(&self.shared.policy).users.is_empty()
    }

    /// Connects to the server side once, and ends the connection: a failure is known before an application has it.
    ///
    /// # Errors
    /// If there is no connection.
    pub async fn check_server(&self) -> Result<(), Failure> {
        let Some(server) = &self.shared.server else { return Ok(()) };
        let how = lock(&self.shared.policy).treatments().next().cloned().unwrap_or_default();
        let mut link = self.shared.dial_server(server, &how).await?;
        let _ = link.shutdown().await;
        Ok(())
    }

    /// Returns the number of destinations that are known to have Multipath TCP, and to have none.
    pub fn destinations(&self) -> (usize, usize) {
        lock(&self.shared.destinations).count()
    }

    /// Serves the applications that connect to `listener`.
    ///
    /// # Errors
    /// Does not return without one.
    pub async fn serve(&self, listener: TcpListener) -> io::Error {
        self.accept(listener, false).await
    }

    /// Serves connections that the system redirects to `listener`: each is carried to the destination that the application
    /// has dialled. Others are closed.
    ///
    /// # Errors
    /// Does not return without one.
    pub async fn serve_redirected(&self, listener: TcpListener) -> io::Error {
        self.accept(listener, true).await
    }

    async fn accept(&self, listener: TcpListener, redirected: bool) -> io::Error {
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) if is_lasting(&error) => return error,
                Err(_) => {
                    self.shared.status.fail("accept", None);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(permit) = Arc::clone(&self.shared.space).try_acquire_owned() else {
                self.shared.status.fail("busy", None);
                continue;
            };
            let _ = stream.set_nodelay(true);
            let shared = Arc::clone(&self.shared);
            tokio::spawn(async move {
                shared.converse(stream, redirected).await;
                drop(permit);
            });
        }
    }
}

/// True if the listener itself is broken.
pub(crate) fn is_lasting(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotConnected)
}

/// A connection on its way.
enum Way<L> {
    Direct(KernelLink),
    Server(Gate<L>),
}

impl<T: Transport> Shared<T> {
    /// Serves one connection of an application.
    async fn converse(self: Arc<Self>, mut app: TcpStream, redirected: bool) {
        let policy = Arc::clone(&lock(&self.policy));
        let asked = if redirected {
            match redirected::destination(&app) {
                Some(destination) => Asked::redirected(destination),
                None => return self.status.fail("request", None),
            }
        } else {
            match timeout(REQUEST_TIME, ask(&mut app, &policy.users)).await {
                Ok(Ok(asked)) => asked,
                Ok(Err(Unasked::Gone)) => return self.status.fail("gone", None),
                Ok(Err(Unasked::Wrong(_))) => return self.status.fail("request", None),
                Err(_) => return self.status.fail("slow", None),
            }
        };
        let Some(process) = owner::of(&app, &asked, policy.questions()).await else {
            self.status.fail("gone", None);
            return reset(app);
        };
        let facts = Facts {
            host: match &asked.destination.host {
                Host::Name(name) => Some(name),
                Host::Address(_) => None,
            },
            address: match &asked.destination.host {
                Host::Address(ip) => Some(*ip),
                Host::Name(_) => None,
            },
            port: asked.destination.port,
            user: asked.user.as_deref(),
            uid: process.uid,
            programs: &process.programs,
        };
        let how = policy.treatment(&facts).clone();
        drop((policy, process));
        // In a box, so that a connection that waits does not hold the state of its beginning.
        let (relaying, tracked) = match Box::pin(self.begin(&mut app, &asked, &how)).await {
            Ok(begun) => begun,
            Err(failure) => {
                self.status.note(failure.kind(), &asked.destination.to_string(), &failure.to_string());
                if asked.is_redirected() || self.is_early(&how) {
                    return reset(app);
                }
                let _ = app.write_all(&asked.failed(&failure)).await;
                let _ = app.shutdown().await;
                return;
            }
        };
        drop(how);
        let Begun { way, up } = relaying;
        drop(asked);
        let asked = self.status.asked();
        let failure = match way {
            Way::Direct(link) => carry(app, link, up, &tracked, asked).await,
            Way::Server(link) => carry(app, link, up, &tracked, asked).await,
        };
        if let Some(failure) = failure {
            self.status.note(failure.kind(), tracked.to(), &failure.to_string());
        }
    }

    /// True if the application has got its answer before the destination was connected.
    fn is_early(&self, how: &Treatment) -> bool {
        how.answer == Answer::Early && self.server.is_some() && matches!(how.via, Via::Server | Via::Auto)
    }

    /// Connects, and answers the application.
    async fn begin(
        self: &Arc<Self>,
        app: &mut TcpStream,
        asked: &Asked,
        how: &Treatment,
    ) -> Result<(Begun<T::Link>, Tracked), Failure> {
        let to = &asked.destination;
        let known = lock(&self.destinations).has_mptcp(now_ms(), to);
        let via = match (how.via, &self.server) {
            (Via::Refuse, _) => {
                return Err(Failure::Refused("the policy refuses this destination".to_owned()));
            }
            (Via::Direct, _) | (_, None) => None,
            (Via::Auto, Some(_)) if known == Some(true) => None,
            (Via::Server | Via::Auto, Some(server)) => Some(server),
        };
        let who = asked.user.as_deref().unwrap_or_default();
        let gone = |error: io::Error| Failure::Unreachable(format!("the application is gone: {error}"));
        let sizes = T::Link::USES_SIZE.then(|| {
            let hint = how.sends.map(|size| size.0);
            Box::new(Sizes::new(Messages::Requests, hint))
        });
        let mut first = First { held: asked.first.clone(), then: asked.then, sizes };
        let Some(server) = via else {
            let unknown = |error| Failure::Unreachable(format!("{to} is not found: {error}"));
            let addresses = resolve(to).await.map_err(unknown)?;
            let link = connect(&self.direct, &addresses, how).await;
            let link = link.map_err(|error| Failure::of_destination(&error))?;
            lock(&self.destinations).note(now_ms(), to, link.is_mptcp());
            app.write_all(&asked.connected()).await.map_err(gone)?;
            let tracked = self.status.begin(who, to.to_string(), "direct");
            return Ok((
                Begun { way: Way::Direct(link), up: Direction::new(first.held, first.then) },
                tracked,
            ));
        };
        let early = self.is_early(how);
        if early {
            app.write_all(&asked.connected()).await.map_err(gone)?;
        }
        let tracked = self.status.begin(who, to.to_string(), "server");
        let gate = self.by_server(app, server, to, early || asked.is_redirected(), how, &mut first).await?;
        if !early {
            app.write_all(&asked.connected()).await.map_err(gone)?;
        }
        tracked.live.up.fetch_add(first.held.len() as u64, Ordering::Relaxed);
        let up = Direction::new(Vec::new(), first.then).with_sizes(first.sizes.take());
        Ok((Begun { way: Way::Server(gate), up }, tracked))
    }

    /// Connects to a destination through the server side. The first data, and more if the application has sent it
    /// meanwhile, travels with the request. If `early`, it does not wait for the answer of a server side that is known.
    async fn by_server(
        self: &Arc<Self>,
        app: &mut TcpStream,
        server: &ServerSide,
        to: &Destination,
        early: bool,
        how: &Treatment,
        first: &mut First,
    ) -> Result<Gate<T::Link>, Failure> {
        let request = Request { destination: to.clone(), asks_for_mptcp: true };
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut link = self.dial_server(server, how).await?;
            if early {
                first.gather(app);
            }
            let mut nonce = [0; 16];
            getrandom::fill(&mut nonce).map_err(|error| Failure::Server(error.to_string()))?;
            let offset = self.clock_offset_ms.load(Ordering::Relaxed);
            let time = now_ms().saturating_add_signed(offset);
            let (mut message, code) = seal::request(&request, &server.name, &server.key, time, nonce);
            if let Some(sizes) = first.sizes.as_mut().filter(|_| attempts == 1)
                && let Some(remaining) = sizes.see(&first.held)
            {
                link.set_remaining(remaining.map(|remaining| remaining + message.len() as u64));
            }
            message.extend_from_slice(&first.held);
            let lost = |error: io::Error| Failure::Server(format!("the server side is lost: {error}"));
            link.write_all(&message).await.map_err(lost)?;
            link.flush().await.map_err(lost)?;
            let mut gate = Gate::new(link, self.waiting(server.key, code, to.clone()));
            if early && self.is_known.load(Ordering::Relaxed) {
                return Ok(gate);
            }
            let opened = timeout(REPLY_TIME, std::future::poll_fn(|cx| gate.poll_open(cx))).await;
            let opened = opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            match opened {
                Ok(()) => return Ok(gate),
                // The clock was wrong, and is right now.
                Err(error) if attempts == 1 && is_stale(&error) => {}
                Err(error) => return Err(failure_in(error)),
            }
        }
    }

    async fn dial_server(&self, server: &ServerSide, how: &Treatment) -> Result<T::Link, Failure> {
        let failed = |error: io::Error| {
            Failure::Server(format!("the server side {} cannot be reached: {error}", server.at))
        };
        let known = *lock(&self.address);
        let addresses = match known {
            Some(address) => vec![address],
            None => resolve(&server.at).await.map_err(failed)?,
        };
        for address in &addresses {
            match timeout(Duration::from_secs(20), self.transport.dial(*address, how)).await {
                Ok(Ok(link)) => {
                    *lock(&self.address) = Some(*address);
                    return Ok(link);
                }
                Ok(Err(error)) if Some(address) == addresses.last() => {
                    *lock(&self.address) = None;
                    return Err(failed(error));
                }
                _ => {}
            }
        }
        *lock(&self.address) = None;
        Err(failed(io::ErrorKind::TimedOut.into()))
    }

    /// Returns the state of a connection that waits for the answer to the request with this code.
    fn waiting(self: &Arc<Self>, key: Key, code: Code, to: Destination) -> Waiting {
        let shared = Arc::clone(self);
        let judge = move |message: &[u8]| shared.judge(message, &key, &code, &to);
        Waiting::new(Box::new(judge))
    }

    /// Judges the answer of the server side.
    fn judge(&self, message: &[u8], key: &Key, code: &Code, to: &Destination) -> io::Result<()> {
        let server = |text: &str| io::Error::other(Refused(Failure::Server(text.to_owned()), false));
        let received = read_reply(message, key, code)
            .map_err(|why| server(&format!("the answer of the server side is not authentic: {why}")))?;
        let Some(time_ms) = received.time_ms else {
            return Err(match received.reply {
                // It does not know this client, so it cannot sign.
                Reply::Failed { code, .. } => io::Error::other(Refused(Failure::of_code(code), false)),
                Reply::Connected { .. } => server("the answer of the server side is not authentic"),
            });
        };
        match received.reply {
            Reply::Connected { mptcp } => {
                self.is_known.store(true, Ordering::Relaxed);
                if let Some(mptcp) = mptcp {
                    lock(&self.destinations).note(now_ms(), to, mptcp);
                }
                Ok(())
            }
            Reply::Failed { code: failed, .. } => {
                let here = now_ms().saturating_add_signed(self.clock_offset_ms.load(Ordering::Relaxed));
                // Half of the window, as the message took a time.
                let stale = failed == ErrorCode::NotAuthorized && here.abs_diff(time_ms) > WINDOW_MS / 2;
                let early = failed == ErrorCode::NotAuthorized && !self.is_known.load(Ordering::Relaxed);
                if stale || early {
                    let offset = i64::try_from(time_ms).unwrap_or(i64::MAX).saturating_sub_unsigned(now_ms());
                    self.clock_offset_ms.store(offset, Ordering::Relaxed);
                    self.is_known.store(false, Ordering::Relaxed);
                }
                Err(io::Error::other(Refused(Failure::of_code(failed), stale || early)))
            }
        }
    }
}

/// The first data of an application, which travels with its destination.
struct First {
    held: Vec<u8>,
    /// The number of bytes that may follow; none for any.
    then: Option<u64>,
    /// The sizes of the application's messages, if the transport uses them.
    sizes: Option<Box<Sizes>>,
}

impl First {
    /// Takes the data that the application has sent meanwhile.
    fn gather(&mut self, app: &TcpStream) {
        let space = FIRST_DATA.saturating_sub(self.held.len());
        let most = self.then.map_or(space, |then| usize::try_from(then).unwrap_or(space).min(space));
        let start = self.held.len();
        self.held.resize(start + most, 0);
        // An error, or an end, is found again by the relay.
        let n = if most == 0 { 0 } else { app.try_read(&mut self.held[start..]).unwrap_or(0) };
        self.held.truncate(start + n);
        if let Some(then) = &mut self.then {
            *then -= n as u64;
        }
    }
}

/// Returns a treatment without the values of `outer` that only a transport between two sides may have.
fn without(how: &Treatment, outer: &Treatment) -> Treatment {
    let mut how = how.clone();
    if how.scheduler == outer.scheduler {
        how.scheduler = None;
    }
    if how.path_manager == outer.path_manager {
        how.path_manager = None;
    }
    if how.paths == outer.paths {
        how.paths = None;
    }
    if how.backup == outer.backup {
        how.backup.clear();
    }
    how
}

fn is_stale(error: &io::Error) -> bool {
    refused(error).is_some_and(|Refused(_, stale)| *stale)
}

fn failure_in(error: io::Error) -> Failure {
    match refused(&error) {
        Some(Refused(failure, _)) => failure.clone(),
        None => Failure::Server(format!("the server side has ended the connection: {error}")),
    }
}

/// A connection that has reached its destination, or will.
struct Begun<L> {
    way: Way<L>,
    up: Direction,
}

fn reset(app: TcpStream) {
    let _ = socket2::SockRef::from(&app).set_linger(Some(Duration::ZERO));
}

/// Carries the bytes of an application until its connection ends. Returns the failure, if the server side has refused it
/// after the application had its answer.
async fn carry<L: Link>(
    mut app: TcpStream,
    mut link: L,
    up: Direction,
    tracked: &Tracked,
    asked: watch::Receiver<u64>,
) -> Option<Failure> {
    let live = &tracked.live;
    let counts = [&live.up, &live.down];
    let end =
        relay(&mut app, &mut link, up, counts, IDLE, asked, |link| live.set_report(link.report())).await;
    tracked.finish(&link.report(), end.word());
    if !matches!(end, End::Finished) {
        link.reset();
        reset(app);
    }
    match end {
        End::Failed(error) => refused(&error).map(|Refused(failure, _)| failure.clone()),
        End::Finished | End::Idle => None,
    }
}
