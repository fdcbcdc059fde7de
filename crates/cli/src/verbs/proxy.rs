//! `anabranch proxy`

mod top;

use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anabranch_lab::scenario::policy::proxy::{ClientPolicy, Joins, Key, PATH_MANAGERS, ServerPolicy};
use anabranch_lab::scenario::units;
use anabranch_net::device::Caps;
use anabranch_net::{Host, HostBuilder};
use anabranch_proxy::client::{Client, ServerSide};
use anabranch_proxy::convert::Destination;
use anabranch_proxy::passed::{self, Passed};
use anabranch_proxy::paths::{PathNames, Paths};
use anabranch_proxy::server::Server;
use anabranch_proxy::status::{StackRow, Status};
use anabranch_proxy::status_socket::StatusSocket;
use anabranch_proxy::transport::tls::{Identity, PublicKeyPin, Tls, Trust, new_certificate};
use anabranch_proxy::transport::{Accept as _, Anabranch, Kernel, Transport};
use anabranch_units::Bytes;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::failure::Failure;
use crate::online::trace::{self, Format};
use crate::online::{self, HostArgs, Started};
use crate::output;

/// Carries the connections of any application over several paths: a proxy for SOCKS 5 and HTTP, and its server side
#[derive(clap::Args)]
#[command(after_help = "Examples:\n    \
    anabranch proxy\n    \
    anabranch proxy --new-key laptop > laptop.key\n    \
    anabranch proxy --server --policy server.toml\n    \
    anabranch proxy --to server.example:8803 --key laptop.key\n    \
    anabranch proxy --new-certificate server.example > server.pem\n    \
    anabranch proxy --server --policy server.toml --tls --certificate server.pem\n    \
    curl --proxy socks5h://127.0.0.1:1080 https://example.org/")]
pub(crate) struct Args {
    /// Be the server side, which connects to the destinations of its clients
    #[arg(long, requires = "policy", conflicts_with_all = ["to", "key"])]
    server: bool,
    /// The server side to use; without it connections go to their destinations from here
    #[arg(long, value_name = "HOST:PORT", requires = "key", value_parser = parse_destination)]
    to: Option<Destination>,
    /// The file with the name and the key of this client
    #[arg(long, value_name = "FILE", requires = "to")]
    key: Option<PathBuf>,
    /// The policy, read again on SIGHUP: the treatment of connections, or with --server the clients
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The address for applications, 127.0.0.1:1080; with --server for clients, [::]:8803. Not if systemd passes sockets
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<SocketAddr>,
    /// An address for connections that nftables redirects to it, of applications that know nothing of the proxy; may be given
    /// several times
    #[arg(long, value_name = "IP:PORT", conflicts_with = "server")]
    redirected: Vec<SocketAddr>,
    /// The Multipath TCP between the two sides
    #[arg(long, value_name = "NAME", default_value = "kernel")]
    transport: TransportName,
    /// Encrypt everything between the two sides with TLS 1.3; connections without are refused
    #[arg(long)]
    tls: bool,
    /// The public key that the server side has, instead of a certificate that an authority of this system has signed; may be
    /// given several times
    #[arg(long, value_name = "sha256:HEX", requires = "tls", conflicts_with = "server")]
    pin: Vec<PublicKeyPin>,
    /// With --server --tls the certificate as PEM, read again on SIGHUP
    #[arg(long, value_name = "FILE", requires = "tls")]
    certificate: Option<PathBuf>,
    /// Its private key as PEM, if it is in another file
    #[arg(long, value_name = "FILE", requires = "certificate")]
    private_key: Option<PathBuf>,
    #[command(flatten)]
    host: HostArgs,
    /// Remember the paths (RTT, rate, loss) in this file, and begin each connection on the path that is expected to finish first
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    memory: Option<PathBuf>,
    /// The expected size of a transfer, for that choice, --path-manager and prices
    #[arg(long, value_name = "SIZE", default_value = "100KB", requires = "memory", value_parser = size)]
    expect: Bytes,
    /// The path manager of --transport anabranch: `full_mesh` joins every path at once, `anabranch` where the paths of --memory
    /// let it expect a gain
    #[arg(long, value_name = "NAME", conflicts_with = "server", value_parser = path_manager())]
    path_manager: Option<Joins>,
    #[command(flatten)]
    race: online::RaceArgs,
    /// The threads that carry connections
    #[arg(long, value_name = "N", default_value = "1", value_parser = crate::args::whole::<usize>(1..=256))]
    threads: usize,
    /// Serve the state as JSON, and at /metrics for Prometheus, on this socket of UNIX
    #[arg(long, value_name = "PATH")]
    status: Option<PathBuf>,
    /// The time for open connections to end after Ctrl-C or SIGTERM; a second signal ends them at once
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = crate::args::parse_span)]
    drain: Duration,
    /// Log connections, refusals, failures and reloads on standard error, as text or as JSON
    #[arg(long, value_name = "FORMAT")]
    log: Option<Format>,
    /// Let the log name destinations too
    #[arg(long, requires = "log")]
    log_destinations: bool,
    /// Show the connections of the proxy that has this socket of --status, every second
    #[arg(long, value_name = "PATH", exclusive = true)]
    top: Option<PathBuf>,
    /// Make a key for a client of this name, print it, and end
    #[arg(long, value_name = "NAME", exclusive = true)]
    new_key: Option<String>,
    /// Make a key and a certificate for the server side of this name, print them, and end
    #[arg(long, value_name = "HOST", exclusive = true)]
    new_certificate: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TransportName {
    /// The kernel's sockets; plain TCP where it has no Multipath TCP
    Kernel,
    /// This project's stack, with --tun and --address
    Anabranch,
}

fn parse_destination(text: &str) -> Result<Destination, String> {
    let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    parts
        .and_then(|(host, port)| Destination::new(host, port))
        .ok_or_else(|| format!("`{text}` is no host with a port; write for example server.example:8803"))
}

/// The port of the server side.
const SERVER_PORT: u16 = 8803;
const CLIENT_PORT: u16 = 1080;
/// The name of a socket to which connections are redirected (`FileDescriptorName=`).
const REDIRECTED: &str = "redirected";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(name) = &args.new_key {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| Failure::Failed(error.to_string()))?;
        let text =
            ServerPolicy::text_of_key(name, Key(key)).map_err(|error| Failure::Usage(error.to_string()))?;
        return output::print(&text);
    }
    if let Some(name) = &args.new_certificate {
        let (text, pin) = new_certificate(name).map_err(Failure::Usage)?;
        output::print(&text)?;
        output::remark(format_args!("clients accept this server with --tls --pin {pin}"));
        return Ok(());
    }
    if let Some(path) = &args.top {
        return top::show(path);
    }
    if args.transport == TransportName::Kernel
        && !(args.host.tun.is_empty() && args.host.addresses.is_empty())
    {
        let text = "--tun and --address are for --transport anabranch; add it, or leave them out";
        return Err(Failure::Usage(text.to_owned()));
    }
    if args.certificate.is_some() && !args.server {
        let text = "--certificate is for --server; a client has --pin for the server's key";
        return Err(Failure::Usage(text.to_owned()));
    }
    if args.tls && !args.server && args.to.is_none() {
        let text =
            "--tls is for the way to a server side: add --to HOST:PORT, or with --server --certificate FILE";
        return Err(Failure::Usage(text.to_owned()));
    }
    if args.race.is_given() && (args.server || args.transport == TransportName::Kernel) {
        let text = "--race is for a client with --transport anabranch: the kernel opens a connection on one path, and a server dials none";
        return Err(Failure::Usage(text.to_owned()));
    }
    if args.path_manager.is_some() && args.transport == TransportName::Kernel {
        let text = "--path-manager is for --transport anabranch: the kernel's path manager, or `anabranch kernel steer`, opens the subflows of --transport kernel";
        return Err(Failure::Usage(text.to_owned()));
    }
    if args.path_manager.is_some() && args.to.is_none() {
        let text = "--path-manager is for the way to a server side: add --to HOST:PORT";
        return Err(Failure::Usage(text.to_owned()));
    }
    let passed = passed::take().map_err(Failure::Usage)?;
    if let Some(format) = args.log {
        trace::begin(format);
    }
    if !passed.is_empty() && (args.listen.is_some() || !args.redirected.is_empty()) {
        let text = "systemd passes the sockets of its .socket unit, so leave out --listen and --redirected";
        return Err(Failure::Usage(text.to_owned()));
    }
    online::raise_file_limit();
    if args.threads > 1 && args.transport == TransportName::Anabranch && args.host.capture.pcap.is_some() {
        let text = "--pcap needs --threads 1: with several, the packets of one connection are read by several stacks";
        return Err(Failure::Usage(text.to_owned()));
    }
    let work = |runtimes: Vec<Handle>| async move {
        let (kernel, remark) = Kernel::open();
        let destinations = kernel.clone().for_destinations();
        if let Some(remark) = remark {
            output::warn(remark);
        }
        if args.transport == TransportName::Kernel {
            let paths = paths(args, PathNames::Interfaces)?;
            let kernel = kernel.with_paths(paths.clone());
            let destinations = destinations.with_paths(paths.clone());
            let machine = Machine { runtimes: vec![Handle::current()], host: None };
            return sides(args, passed, kernel, destinations, paths, &machine).await;
        }
        let paths = paths(args, PathNames::Addresses)?;
        let caps = Caps::default();
        let change = |builder: HostBuilder| match runtimes.len() {
            1 => builder.caps(caps.clone()),
            _ => builder.runtimes(runtimes.clone()),
        };
        let started = args.host.start(change, |text| output::remark(text))?;
        for name in args.host.devices_with_one_queue(&started.host) {
            output::remark(format_args!(
                "the threads read {name} in turn, as it has one queue; a device with several is faster: `anabranch tun setup` makes one, or `ip \
                 tuntap add dev {name} mode tun multi_queue`"
            ));
        }
        let config = args.race.apply(args.host.config());
        let transport =
            Anabranch::new(started.host.clone(), config).with_paths(paths.clone()).with_caps(caps);
        let transport = transport.with_path_manager(args.path_manager.unwrap_or_default());
        let machine = Machine { runtimes, host: Some(started.host.clone()) };
        let work = sides(args, passed, transport, destinations, paths, &machine);
        let result = tokio::select! {
            result = work => result,
            never = online::heap::follow(started.host.clone()) => match never {},
        };
        Started::leave(started, result).await
    };
    let result = match args.transport {
        TransportName::Kernel => online::block_on_threads(args.threads, work(Vec::new())),
        TransportName::Anabranch => online::block_on_runtimes(args.threads, work),
    };
    trace::end();
    result
}

/// Reads the memory of paths.
fn paths(args: &Args, names: PathNames) -> Result<Option<Paths>, Failure> {
    let open = |file: &PathBuf| {
        let failed =
            |error| Failure::Failed(format!("cannot read the memory of paths {}: {error}", file.display()));
        Paths::open(file, names, args.expect).map_err(failed)
    };
    args.memory.as_ref().map(open).transpose()
}

fn path_manager() -> impl TypedValueParser<Value = Joins> {
    PossibleValuesParser::new(PATH_MANAGERS.map(|(name, _)| name)).map(|chosen| {
        let named = PATH_MANAGERS.into_iter().find(|(name, _)| *name == chosen);
        named.map(|(_, joins)| joins).unwrap_or_default()
    })
}

fn size(text: &str) -> Result<Bytes, String> {
    units::parse_size(text).map_err(|error| error.to_string())
}

/// The threads that carry connections, and the host in user space if there is one.
struct Machine {
    runtimes: Vec<Handle>,
    host: Option<Host>,
}

impl Machine {
    /// Lets the status show them.
    fn show_in(&self, status: &Status) {
        status.count_tasks_of(&self.runtimes);
        let Some(host) = self.host.clone() else { return };
        status.show_stack(move || {
            let counters = host.counters();
            StackRow {
                stacks: host.stacks(),
                buffer_bytes: host.memory_used(),
                spare_bytes: host.memory_spare(),
                time_waits: host.time_waits(),
                handovers: counters.handovers,
                moved_subflows: counters.moved_subflows,
            }
        });
    }
}

async fn sides<T: Transport>(
    args: &Args,
    passed: Vec<Passed>,
    transport: T,
    direct: Kernel,
    paths: Option<Paths>,
    machine: &Machine,
) -> Result<(), Failure> {
    match (args.server, args.tls) {
        (true, false) => server(args, passed, transport, direct, None, machine).await,
        (true, true) => {
            let identity = identity(args)?;
            let tls = Tls::server(transport, identity.clone());
            server(args, passed, tls, direct, Some(identity), machine).await
        }
        (false, false) => client(args, passed, transport, direct, paths, machine).await,
        (false, true) => {
            let tls = Tls::client(transport, trust(args)?);
            client(args, passed, tls, direct, paths, machine).await
        }
    }
}

/// Returns the servers that a client accepts.
fn trust(args: &Args) -> Result<Trust, Failure> {
    let name = args.to.as_ref().map(|to| to.host.to_string()).unwrap_or_default();
    let trust =
        if args.pin.is_empty() { Trust::system(&name) } else { Trust::pinned(&name, args.pin.clone()) };
    trust.map_err(Failure::Usage)
}

/// Returns the files of a server's certificate and private key.
fn identity_files(args: &Args) -> Result<(&Path, &Path), Failure> {
    let certificate = args.certificate.as_deref().ok_or_else(|| {
        let text = "--server --tls needs --certificate FILE; `anabranch proxy --new-certificate HOST > server.pem` makes one";
        Failure::Usage(text.to_owned())
    })?;
    Ok((certificate, args.private_key.as_deref().unwrap_or(certificate)))
}

fn identity(args: &Args) -> Result<Identity, Failure> {
    let (certificate, key) = identity_files(args)?;
    let identity = Identity::open(certificate, key).map_err(Failure::Usage)?;
    warn_of_readers(key);
    Ok(identity)
}

async fn client<T: Transport>(
    args: &Args,
    passed: Vec<Passed>,
    transport: T,
    direct: Kernel,
    paths: Option<Paths>,
    machine: &Machine,
) -> Result<(), Failure> {
    let policy = client_policy(args.policy.as_deref())?;
    let side = match (&args.to, &args.key) {
        (Some(at), Some(file)) => Some(server_side(at, file)?),
        _ => None,
    };
    let client = Client::new(transport, direct, side, policy).map_err(Failure::Usage)?;
    machine.show_in(&client.status());
    if args.log_destinations {
        client.status().log_destinations();
    }
    let listeners = client_listeners(args, passed).await?;
    let open = listeners
        .iter()
        .find_map(|(at, _, redirected)| (!at.ip().is_loopback() && !redirected).then_some(*at));
    if let Some(at) = open.filter(|_| !client.has_users()) {
        return Err(Failure::Usage(format!(
            "{at} is no loopback address, so that others could use this proxy; give its users names and passwords in \
             the policy (`[[user]]`), or listen at 127.0.0.1"
        )));
    }
    let list = |wanted: bool| {
        let own = listeners.iter().filter(|(.., redirected)| *redirected == wanted);
        own.map(|(at, ..)| at.to_string()).collect::<Vec<_>>().join(" and ")
    };
    let at = match (list(false), list(true)) {
        (socks, redirected) if socks.is_empty() => format!("redirected connections at {redirected}"),
        (socks, _) => format!("SOCKS 5 and HTTP at {socks}"),
    };
    let mut serving = JoinSet::new();
    for (at, listener, redirected) in listeners {
        let listeners = on_each(listener, &machine.runtimes)
            .map_err(|error| Failure::Failed(format!("cannot listen at {at}: {error}")))?;
        for (listener, runtime) in listeners.into_iter().zip(&machine.runtimes) {
            let serves = client.clone();
            let serve = async move {
                if redirected {
                    serves.serve_redirected(listener).await
                } else {
                    serves.serve(listener).await
                }
            };
            serving.spawn_on(serve, runtime);
        }
    }
    let serving = first_end(serving);
    let way = args.to.as_ref().map_or("directly".to_owned(), |to| format!("by {to}"));
    let tls = if args.tls { ", with TLS" } else { "" };
    output::remark(format_args!("proxy for {at}; connections go {way}{tls}"));
    let checking = async {
        if args.tls
            && let Err(error) = client.check_server().await
        {
            output::warn(error);
        }
        std::future::pending::<std::io::Error>().await
    };
    let serving = async {
        tokio::select! { error = serving => error, error = checking => error }
    };
    let reload = || match client_policy(args.policy.as_deref()) {
        // Without users an address that others can reach would be open.
        Ok(policy) if open.is_some() && policy.users.is_empty() => {
            Err("the policy has no users any more".to_owned())
        }
        Ok(policy) => client.set_policy(policy),
        Err(error) => Err(words(error)),
    };
    let status = client.status();
    let learning = async {
        match &paths {
            Some(paths) => paths.watch(&status, |text| output::warn(text)).await,
            None => std::future::pending().await,
        }
    };
    let result = tokio::select! {
        result = until_the_end(args, Arc::clone(&status), serving, reload) => result,
        () = learning => Ok(()),
    };
    if let (Some(paths), Some(file)) = (&paths, &args.memory)
        && let Err(error) = paths.finish(&status)
    {
        output::warn(format_args!("cannot write the memory of paths {}: {error}", file.display()));
    }
    result
}

async fn server<T: Transport>(
    args: &Args,
    passed: Vec<Passed>,
    transport: T,
    direct: Kernel,
    identity: Option<Identity>,
    machine: &Machine,
) -> Result<(), Failure> {
    let file = args.policy.as_deref().unwrap_or(Path::new(""));
    let server = Server::new(direct, transport.name(), server_policy(file)?);
    let server = server.map_err(|error| Failure::Failed(error.to_string()))?;
    machine.show_in(&server.status());
    if args.log_destinations {
        server.status().log_destinations();
    }
    let (ports, listeners) = server_listeners(args, passed, &transport)?;
    let mut serving = JoinSet::new();
    for listener in listeners {
        for (listener, runtime) in listener.split().into_iter().zip(machine.runtimes.iter().cycle()) {
            let serves = server.clone();
            serving.spawn_on(async move { serves.serve(listener).await }, runtime);
        }
    }
    let serving = first_end(serving);
    let tls = identity.as_ref().map(|identity| format!(", with TLS; --pin {}", identity.pin()));
    output::remark(format_args!("server side of the proxy at port {ports}{}", tls.unwrap_or_default()));
    let reload = || {
        let policy = server_policy(file).map_err(words)?;
        if let (Some(identity), Ok((certificate, key))) = (&identity, identity_files(args)) {
            identity.renew(certificate, key)?;
        }
        server.set_policy(policy);
        Ok(())
    };
    until_the_end(args, server.status(), serving, reload).await
}

/// Returns the listening sockets of a client side, with their addresses, and true for those to which connections are redirected.
async fn client_listeners(
    args: &Args,
    passed: Vec<Passed>,
) -> Result<Vec<(SocketAddr, TcpListener, bool)>, Failure> {
    let mut listeners = Vec::new();
    for Passed { name, listener } in passed {
        let failed =
            |error| Failure::Failed(format!("cannot listen at the socket `{name}` of systemd: {error}"));
        let at = listener.local_addr().map_err(failed)?;
        let listener = TcpListener::from_std(listener).map_err(failed)?;
        listeners.push((at, listener, name == REDIRECTED));
    }
    if !listeners.is_empty() {
        return Ok(listeners);
    }
    let listen = args.listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], CLIENT_PORT)));
    let redirected = args.redirected.iter().map(|at| (*at, true));
    for (at, redirected) in core::iter::once((listen, false)).chain(redirected) {
        let listener = TcpListener::bind(at).await;
        let listener =
            listener.map_err(|error| Failure::Failed(format!("cannot listen at {at}: {error}")))?;
        listeners.push((listener.local_addr().unwrap_or(at), listener, redirected));
    }
    Ok(listeners)
}

/// Returns a handle of a listening socket for each runtime: the connections that one accepts are served there.
fn on_each(listener: TcpListener, runtimes: &[Handle]) -> std::io::Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    for runtime in runtimes.iter().skip(1) {
        let socket = listener.as_fd().try_clone_to_owned()?;
        let _within = runtime.enter();
        listeners.push(TcpListener::from_std(socket.into())?);
    }
    listeners.insert(0, listener);
    Ok(listeners)
}

/// Returns the listening sockets of a server side, and their ports in words.
fn server_listeners<T: Transport>(
    args: &Args,
    passed: Vec<Passed>,
    transport: &T,
) -> Result<(String, Vec<T::Listener>), Failure> {
    if passed.is_empty() {
        let any = SocketAddr::from(([0_u16; 8], SERVER_PORT));
        let wanted = args.listen.unwrap_or(any);
        let mut listener = transport.listen(wanted);
        if args.listen.is_none() && listener.is_err() {
            // A host without IPv6.
            listener = transport.listen(SocketAddr::from(([0; 4], SERVER_PORT)));
        }
        let listener =
            listener.map_err(|error| Failure::Failed(format!("cannot listen at {wanted}: {error}")))?;
        return Ok((wanted.port().to_string(), vec![listener]));
    }
    let (mut ports, mut listeners) = (Vec::new(), Vec::new());
    for Passed { name, listener } in passed {
        if !passed::is_mptcp(&listener) {
            output::warn(format_args!(
                "the socket `{name}` of systemd is plain TCP, so clients have one path; give the unit `SocketProtocol=mptcp` (systemd 257)"
            ));
        }
        let port = listener.local_addr().map(|at| at.port().to_string()).unwrap_or_default();
        if !ports.contains(&port) {
            ports.push(port);
        }
        let adopted = transport.adopt(listener);
        listeners.push(adopted.map_err(|error| {
            Failure::Usage(format!("cannot listen at the socket `{name}` of systemd: {error}"))
        })?);
    }
    Ok((ports.join(" and "), listeners))
}

/// Returns the error of the first task that ends.
async fn first_end(mut serving: JoinSet<std::io::Error>) -> std::io::Error {
    match serving.join_next().await {
        Some(Ok(error)) => error,
        _ => std::io::Error::other("a task has ended"),
    }
}

/// Serves until a signal, and then until the open connections have ended.
async fn until_the_end(
    args: &Args,
    status: Arc<Status>,
    serving: impl Future<Output = std::io::Error>,
    reload: impl Fn() -> Result<(), String>,
) -> Result<(), Failure> {
    let mut hangup = signal(SignalKind::hangup()).map_err(|error| Failure::Failed(error.to_string()))?;
    let socket = args.status.as_deref().map(|path| {
        StatusSocket::bind(path)
            .map_err(|error| Failure::Failed(format!("cannot make the socket {}: {error}", path.display())))
    });
    let socket = socket.transpose()?;
    let reporting = async {
        match &socket {
            Some(socket) => socket.serve(Arc::clone(&status)).await,
            None => std::future::pending().await,
        }
    };
    let reloading = async {
        while hangup.recv().await.is_some() {
            match reload() {
                Ok(()) => output::remark("the policy was read again"),
                Err(error) => output::warn(format_args!("the policy stays as it was: {error}")),
            }
        }
        std::future::pending::<()>().await;
    };
    let mut serving = Box::pin(serving);
    tokio::pin!(reporting, reloading);
    tokio::select! {
        error = &mut serving => return Err(Failure::Failed(format!("cannot accept connections: {error}"))),
        () = online::interrupted() => {}
        () = &mut reporting => {}
        () = &mut reloading => {}
    }
    // The listener is closed, so that another process can have the port.
    drop(serving);
    let open = status.active();
    if open > 0 && !args.drain.is_zero() {
        output::remark(format_args!("{open} connections may end within {} s", args.drain.as_secs_f64()));
        let drained = async {
            while status.active() > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            _ = tokio::time::timeout(args.drain, drained) => {}
            () = online::interrupted() => {}
            () = &mut reporting => {}
        }
    }
    Ok(())
}

fn client_policy(path: Option<&Path>) -> Result<ClientPolicy, Failure> {
    let policy =
        path.map(ClientPolicy::open).transpose().map_err(|error| Failure::Usage(error.to_string()))?;
    if let (Some(path), Some(policy)) = (path, &policy)
        && !policy.users.is_empty()
    {
        warn_of_readers(path);
    }
    Ok(policy.unwrap_or_default())
}

fn server_policy(path: &Path) -> Result<ServerPolicy, Failure> {
    let policy = ServerPolicy::open(path).map_err(|error| Failure::Usage(error.to_string()))?;
    warn_of_readers(path);
    Ok(policy)
}

/// Reads the file of a client's key.
fn server_side(at: &Destination, file: &Path) -> Result<ServerSide, Failure> {
    let mut policy = server_policy(file)?;
    match (policy.clients.pop(), policy.clients.is_empty()) {
        (Some(client), true) => Ok(ServerSide { at: at.clone(), name: client.name, key: client.key }),
        _ => Err(Failure::Usage(format!("{} has the keys of several clients; keep one", file.display()))),
    }
}

/// Warns of a file with secrets that other users can read.
fn warn_of_readers(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    if std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0) {
        output::warn(format_args!(
            "other users can read the secrets in {0}; run `chmod 600 {0}`",
            path.display()
        ));
    }
}

fn words(failure: Failure) -> String {
    match failure {
        Failure::Usage(text) | Failure::Failed(text) => text,
        Failure::Interrupted | Failure::BrokenPipe => String::new(),
    }
}
