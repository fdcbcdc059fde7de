//! Hosts of several stacks: connections are spread over them, and each packet finds its connection. On tokio's paused clock,
//! with all stacks in one runtime, except where threads are what is tested.

mod common;

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anabranch_device::memory::MemoryDevice;
use anabranch_device::{Capabilities, Caps, Device, Packet, memory};
use anabranch_middlebox::LinkedDevice;
use anabranch_net::{Capture, Host, HostBuilder, MptcpListener, MptcpStream, default_config};
use anabranch_stack::segment::{Address, Flags, Join, MptcpOption, ResetReason, Segment};
use anabranch_stack::seq::Seq;
use anabranch_wire::{Checksum, Checksums, IpFields, emit, parse};
use common::{PORT, Path, client_ip, config, content, server_address, server_ip};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

const STACKS: usize = 3;

fn spread(builder: HostBuilder) -> HostBuilder {
    builder.runtimes(vec![Handle::current(); STACKS])
}

/// Returns a client of one stack behind two links, and a server of several.
fn hosts() -> (Host, Host) {
    let (client, server) = common::builders(&[Path::new(1000, 1), Path::new(1000, 2)]);
    (client.start().unwrap(), spread(server).start().unwrap())
}

/// Accepts connections and echoes what they send. Returns their numbers.
async fn echo(mut listener: MptcpListener, connections: usize) -> Vec<u64> {
    let mut echoing = JoinSet::new();
    let mut numbers = Vec::new();
    for _ in 0..connections {
        let (stream, _) = listener.accept().await.unwrap();
        numbers.push(stream.number());
        echoing.spawn(async move {
            let (mut read, mut write) = stream.into_split();
            tokio::io::copy(&mut read, &mut write).await.unwrap();
            write.shutdown().await.unwrap();
        });
    }
    while let Some(done) = echoing.join_next().await {
        done.unwrap();
    }
    numbers
}

/// Sends data and reads its echo.
async fn converse(stream: &mut MptcpStream) {
    let sent = content(20_000);
    stream.write_all(&sent).await.unwrap();
    let mut got = vec![0; sent.len()];
    stream.read_exact(&mut got).await.unwrap();
    assert!(got == sent);
}

fn established(stream: &MptcpStream) -> usize {
    stream.subflow_stats().iter().filter(|subflow| subflow.established.is_some()).count()
}

#[tokio::test(start_paused = true)]
async fn a_listener_accepts_at_every_stack_and_every_join_finds_its_connection() {
    const CONNECTIONS: usize = 120;
    let (client, server) = hosts();
    let listener = server.listen(PORT, config(), CONNECTIONS).unwrap();
    let echoing = tokio::spawn(echo(listener, CONNECTIONS));
    let mut streams = Vec::new();
    let opening = async {
        for _ in 0..CONNECTIONS {
            streams.push(client.connect(server_address(), config()).await.unwrap());
            converse(streams.last_mut().unwrap()).await;
        }
    };
    timeout(Duration::from_secs(60), opening).await.expect("each is accepted");
    tokio::time::sleep(Duration::from_millis(100)).await;
    for stream in &mut streams {
        // Both addresses of the client, and of the server.
        assert_eq!(established(stream), 4);
        converse(stream).await;
    }
    let counters = server.counters();
    assert!(counters.moved_subflows > 100, "two of three joins: {}", counters.moved_subflows);
    assert_eq!(counters.handover_drops, 0);
    assert_eq!(server.endpoint_counters().strays_reset, 0);
    for mut stream in streams {
        stream.shutdown().await.unwrap();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    }
    let mut counts = [0; STACKS];
    let numbers = echoing.await.unwrap();
    for number in &numbers {
        counts[(*number as usize - 1) % STACKS] += 1;
    }
    assert!(counts.iter().all(|count| *count > CONNECTIONS / STACKS / 2), "{counts:?}");
    let mut unique = numbers;
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), CONNECTIONS);
    timeout(Duration::from_secs(200), server.finished()).await.expect("in time").unwrap();
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(server.counters().moved_subflows, 0, "nothing is remembered");
    assert_eq!(server.memory_used(), 0);
}

/// A device with a queue for each handle. A packet takes the one from which its flow was last sent, as with a TUN device. Other
/// packets take a queue by their ports.
struct Queues {
    state: Arc<Mutex<QueueState>>,
    at: usize,
}

struct QueueState {
    device: MemoryDevice,
    learns: bool,
    received: Vec<VecDeque<Packet>>,
    flows: HashMap<(Address, Address), usize>,
}

impl Queues {
    fn new(device: MemoryDevice, learns: bool) -> Queues {
        let state = QueueState { device, learns, received: vec![VecDeque::new()], flows: HashMap::new() };
        Queues { state: Arc::new(Mutex::new(state)), at: 0 }
    }
}

impl Device for Queues {
    fn capabilities(&self) -> Capabilities {
        Capabilities::plain(1500)
    }

    fn another(&self) -> std::io::Result<Box<dyn Device>> {
        let mut state = self.state.lock().unwrap();
        state.received.push(VecDeque::new());
        Ok(Box::new(Queues { state: Arc::clone(&self.state), at: state.received.len() - 1 }))
    }

    fn has_own_queue(&self) -> bool {
        true
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<std::io::Result<()>> {
        let mut state = self.state.lock().unwrap();
        let mut next = Packet::default();
        // The first handle is the one of the builder, which nobody reads.
        let queues = state.received.len() - 1;
        while state.received[self.at].is_empty() {
            ready!(state.device.poll_receive(cx, &mut next))?;
            let ends = anabranch_wire::ends(next.bytes());
            let ports = ends.map_or(0, |(here, there)| usize::from(here.port ^ there.port));
            let known = ends.and_then(|ends| state.flows.get(&ends)).copied();
            let queue = known.unwrap_or(1 + ports % queues);
            state.received[queue].push_back(std::mem::take(&mut next));
        }
        *packet = state.received[self.at].pop_front().unwrap();
        Poll::Ready(Ok(()))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<std::io::Result<()>> {
        let mut state = self.state.lock().unwrap();
        if state.learns
            && let Ok(parsed) = parse(packet.bytes(), Checksums::Trust)
        {
            state.flows.insert((parsed.segment.source, parsed.segment.destination), self.at);
        }
        state.device.poll_send(cx, packet)
    }
}

#[tokio::test(start_paused = true)]
async fn stacks_with_a_queue_each_carry_all_connections_and_pass_on_few_packets_of_flows_that_the_device_knows()
 {
    let mut handovers = Vec::new();
    for learns in [false, true] {
        let (left, right) = memory::pair(Capabilities::plain(1500));
        let linked =
            LinkedDevice::new(left, "path", 7, Path::new(1000, 1).link(), Path::new(1000, 1).link()).unwrap();
        let own = [client_ip(0), client_ip(1)];
        let client = Host::builder().seed(1).device(linked, &own).start().unwrap();
        let device = Queues::new(right, learns);
        let server = spread(Host::builder().seed(2).device(device, &[server_ip(0)])).start().unwrap();
        assert!(server.shared_queues().is_empty());
        let echoing = tokio::spawn(echo(server.listen(PORT, config(), 64).unwrap(), 60));
        let mut streams = Vec::new();
        let conversing = async {
            for _ in 0..60 {
                streams.push(client.connect(server_address(), config()).await.unwrap());
                converse(streams.last_mut().unwrap()).await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            for _ in 0..10 {
                for stream in &mut streams {
                    converse(stream).await;
                    assert_eq!(established(stream), 2, "every join finds its connection");
                }
            }
        };
        timeout(Duration::from_secs(60), conversing).await.expect("no packet is stuck");
        let counters = server.counters();
        handovers.push((counters.handovers, counters.received));
        assert_eq!((counters.handover_drops, server.endpoint_counters().strays_reset), (0, 0));
        assert!(counters.moved_subflows > 20, "two of three joins: {}", counters.moved_subflows);
        drop(streams);
        echoing.await.unwrap();
    }
    let [(strangers, all), (few, most)] = handovers[..] else { unreachable!() };
    assert!(strangers > all / 3, "most packets come to another stack: {strangers} of {all}");
    // The SYN of each connection and each join, the third ACK of a join, and what comes before the first answer.
    assert!(few < 60 * 6 && most > 2000, "{few} of {most}");
}

#[tokio::test(start_paused = true)]
async fn a_client_of_several_stacks_opens_connections_at_each() {
    let (left, right) = memory::pair(Capabilities::plain(1500));
    let linked =
        LinkedDevice::new(left, "path", 7, Path::new(100, 5).link(), Path::new(100, 5).link()).unwrap();
    let server = Host::builder().seed(2).device(linked, &[server_ip(0)]).start().unwrap();
    let own = [client_ip(0), client_ip(1)];
    let client = spread(Host::builder().seed(1).device(right, &own)).start().unwrap();
    let listener = server.listen(PORT, config(), 64).unwrap();
    let echoing = tokio::spawn(echo(listener, 30));
    let mut streams = Vec::new();
    let opening = async {
        for _ in 0..30 {
            streams.push(client.connect(server_address(), config()).await.unwrap());
        }
    };
    timeout(Duration::from_secs(60), opening).await.expect("each is accepted");
    let mut counts = [0; STACKS];
    for stream in &mut streams {
        converse(stream).await;
        counts[(stream.number() as usize - 1) % STACKS] += 1;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    for stream in &mut streams {
        assert_eq!(established(stream), 2, "both addresses");
        converse(stream).await;
    }
    assert_eq!(counts, [10; STACKS]);
    assert_eq!(client.counters().moved_subflows, 0);
    drop(streams);
    echoing.await.unwrap();
}

/// Sends a segment as a packet.
async fn send(device: &mut impl Device, segment: &Segment) {
    let mut bytes = vec![0; 200];
    let len = emit(segment, &IpFields::default(), Checksum::Full, &mut bytes, |_| {}).unwrap();
    let mut packet = Packet::from_bytes(&bytes[..len]);
    poll_fn(|cx| device.poll_send(cx, &mut packet)).await.unwrap();
}

async fn receive(device: &mut impl Device) -> Segment {
    let mut packet = Packet::default();
    poll_fn(|cx| device.poll_receive(cx, &mut packet)).await.unwrap();
    parse(packet.bytes(), Checksums::Verify).unwrap().segment
}

#[tokio::test(start_paused = true)]
async fn strays_and_joins_of_unknown_tokens_are_reset_as_by_one_stack() {
    let (mut raw, device) = memory::pair(Capabilities::plain(1500));
    let server = spread(Host::builder().seed(2).device(device, &[server_ip(0)])).start().unwrap();
    let _listener = server.listen(PORT, config(), 4).unwrap();
    let here = Address::new(server_ip(0), PORT);
    let begun = Instant::now();
    for at in 0..500_u16 {
        let from = Address::new(client_ip(0), 1000 + at);
        let mut stray = Segment::new(from, here, Seq(1), Flags::ACK);
        stray.ack = Seq(9);
        send(&mut raw, &stray).await;
        let reset = receive(&mut raw).await;
        assert!(reset.flags.has(Flags::RST) && (reset.seq, reset.destination) == (Seq(9), from));
        let mut syn = Segment::new(from, here, Seq(1), Flags::SYN);
        let token = u32::from(at).wrapping_mul(0x9e37_79b9);
        syn.options.push(MptcpOption::Join(Join::Syn { backup: false, address_id: 1, token, nonce: 1 }));
        send(&mut raw, &syn).await;
        let reset = receive(&mut raw).await;
        let mut options = reset.options.mptcp.iter().flatten();
        assert!(reset.flags.has(Flags::RST) && reset.destination == from);
        assert!(
            options
                .any(|option| matches!(option, MptcpOption::Reset { reason: ResetReason::MptcpError, .. }))
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "each one at once: {:?}", begun.elapsed());
    let counters = server.endpoint_counters();
    assert_eq!((counters.joins_refused, counters.strays_reset), (500, 1000));
    let counters = server.counters();
    assert_eq!((counters.received, counters.moved_subflows, counters.handover_drops), (1000, 0, 0));
    assert_eq!(server.memory_used(), 0);
}

#[tokio::test(start_paused = true)]
async fn stacks_without_connections_go_on_until_all_are_done() {
    let (client, server) = hosts();
    let mut listener = server.listen(PORT, config(), 4).unwrap();
    let stream = client.connect(server_address(), config()).await.unwrap();
    let (mut accepted, _) = listener.accept().await.unwrap();
    drop((server, listener));
    // Only one stack has a connection now; the others still answer.
    for _ in 0..20 {
        let refused = client.connect(server_address(), config()).await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    }
    let echoing = tokio::spawn(async move {
        let mut bytes = vec![0; 1000];
        for _ in 0..50 {
            accepted.read_exact(&mut bytes).await.unwrap();
            accepted.write_all(&bytes).await.unwrap();
        }
    });
    let mut stream = stream;
    for _ in 0..50 {
        let mut bytes = vec![7; 1000];
        stream.write_all(&bytes).await.unwrap();
        stream.read_exact(&mut bytes).await.unwrap();
    }
    echoing.await.unwrap();
    drop(stream);
    // The last driver drops the devices of the server, so the other ends fail.
    let error = timeout(Duration::from_secs(300), async {
        loop {
            if let Err(error) = client.connect(server_address(), config()).await
                && error.kind() == std::io::ErrorKind::BrokenPipe
            {
                return error;
            }
        }
    });
    error.await.expect("in time");
}

#[tokio::test]
async fn what_needs_one_stack_is_refused_with_several() {
    let builder = || {
        let (device, _) = memory::pair(Capabilities::plain(1500));
        Host::builder().device(device, &[server_ip(0)])
    };
    let refused =
        [spread(builder().caps(Caps::default())), spread(builder().capture(Capture::new(std::io::sink())))];
    for builder in refused {
        assert!(builder.start().unwrap_err().to_string().contains("one thread"));
    }
    let (left, _right) = memory::pair(Capabilities::plain(1500));
    let linked =
        LinkedDevice::new(left, "path", 7, Path::new(100, 5).link(), Path::new(100, 5).link()).unwrap();
    let error = spread(Host::builder().device(linked, &[server_ip(0)])).start().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
}

/// A device with a handle that fails.
struct OneFails {
    device: Box<dyn Device>,
    handles: Arc<AtomicUsize>,
    number: usize,
}

impl Device for OneFails {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn another(&self) -> std::io::Result<Box<dyn Device>> {
        let number = self.handles.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(OneFails { device: self.device.another()?, handles: Arc::clone(&self.handles), number }))
    }

    fn has_own_queue(&self) -> bool {
        true
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<std::io::Result<()>> {
        if self.number == 1 {
            return Poll::Ready(Err(std::io::ErrorKind::BrokenPipe.into()));
        }
        self.device.poll_receive(cx, packet)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<std::io::Result<()>> {
        self.device.poll_send(cx, packet)
    }
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_has_failed_opens_no_connections() {
    let (left, right) = memory::pair(Capabilities::plain(1500));
    let server = Host::builder().seed(2).device(left, &[server_ip(0)]).start().unwrap();
    let device = OneFails { device: Box::new(right), handles: Arc::default(), number: usize::MAX };
    let client = spread(Host::builder().seed(1).device(device, &[client_ip(0)])).start().unwrap();
    let echoing = tokio::spawn(echo(server.listen(PORT, config(), 64).unwrap(), 10));
    tokio::task::yield_now().await;
    let mut stacks = [0; STACKS];
    for _ in 0..10 {
        let mut stream = client.connect(server_address(), config()).await.unwrap();
        converse(&mut stream).await;
        stacks[(stream.number() as usize - 1) % STACKS] += 1;
    }
    assert_eq!(stacks, [5, 0, 5]);
    echoing.await.unwrap();
}

/// A runtime of one thread, which ends with it.
struct Thread {
    runtime: Handle,
    end: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Thread {
    fn new() -> Thread {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        let (end, ended) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || drop(runtime.block_on(ended)));
        Thread { runtime: handle, end: Some(end), thread: Some(thread) }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

#[tokio::test]
async fn stacks_on_threads_of_their_own_carry_all_connections() {
    let threads = [Thread::new(), Thread::new()];
    let runtimes: Vec<Handle> = threads.iter().map(|thread| thread.runtime.clone()).collect();
    let (left, right) = memory::pair(Capabilities::plain(1500));
    let own: [IpAddr; 2] = [client_ip(0), client_ip(1)];
    let client = Host::builder().device(left, &own).start().unwrap();
    let server = Host::builder().device(right, &[server_ip(0)]).runtimes(runtimes.clone()).start().unwrap();
    let listener = server.listen(PORT, default_config(), 64).unwrap();
    let parts = listener.split();
    assert_eq!(parts.len(), 2);
    for (part, runtime) in parts.into_iter().zip(&runtimes) {
        runtime.spawn(echo(part, usize::MAX));
    }
    let conversing = async {
        let mut streams = JoinSet::new();
        for _ in 0..40 {
            let mut stream = client.connect(server_address(), default_config()).await.unwrap();
            streams.spawn(async move {
                for _ in 0..20 {
                    converse(&mut stream).await;
                }
                established(&stream)
            });
        }
        let mut most = 0;
        while let Some(done) = streams.join_next().await {
            most = most.max(done.unwrap());
        }
        assert_eq!(most, 2);
    };
    timeout(Duration::from_secs(120), conversing).await.expect("no packet is stuck");
    let counters = server.counters();
    assert_eq!((counters.handover_drops, server.endpoint_counters().strays_reset), (0, 0));
}

#[tokio::test]
async fn a_stack_that_is_slow_loses_nothing() {
    slow(|device| Box::new(device)).await;
}

#[tokio::test]
async fn a_stack_that_is_slow_loses_nothing_of_what_comes_to_the_queues_of_others() {
    slow(|device| Box::new(Queues::new(device, false))).await;
}

async fn slow(device_of: impl FnOnce(MemoryDevice) -> Box<dyn Device>) {
    // The runtime of the second stack does not run until everything is sent.
    let late = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let runtimes = vec![Handle::current(), late.handle().clone()];
    let (go, begin) = std::sync::mpsc::channel::<()>();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        if begin.recv().is_ok() {
            let _ = late.block_on(ended);
        }
    });
    let (mut raw, device) = memory::pair(Capabilities::plain(1500));
    let device = device_of(device);
    let server = Host::builder().seed(2).device(device, &[server_ip(0)]).runtimes(runtimes).start().unwrap();
    let here = Address::new(server_ip(0), PORT);
    for at in 0..1000 {
        let mut stray = Segment::new(Address::new(client_ip(0), 1000 + at), here, Seq(1), Flags::ACK);
        stray.ack = Seq(9);
        send(&mut raw, &stray).await;
    }
    for _ in 0..500 {
        tokio::task::yield_now().await;
    }
    let before = server.counters().received;
    assert!((100..800).contains(&before), "reading stops: {before}");
    go.send(()).unwrap();
    let mut ports: Vec<u16> = Vec::new();
    let receiving = async {
        for _ in 0..1000 {
            ports.push(receive(&mut raw).await.destination.port);
        }
    };
    timeout(Duration::from_secs(60), receiving).await.expect("reading goes on");
    ports.sort_unstable();
    assert!(ports.iter().copied().eq(1000..2000), "each is answered once");
    assert_eq!(server.counters().received, 1000);
    drop(end);
    thread.join().unwrap();
}
