//! The steering against a kernel in virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use anabranch_scenario::policy::Policy;
use anabranch_units::{Duration, Time};
use proptest::prelude::*;

use super::{Decision, Steering, Why};
use crate::diag::{Connection, Counters, MptcpInfo, SendBuffer, SubflowFlags, SubflowState, TcpInfo};
use crate::interfaces::{Interface, Interfaces};
use crate::memory::Memory;
use crate::pm::{Command, Event, EventKind, Subflow, Token};

const TOKEN: Token = Token(7);
const MSS: u64 = 1400;
const STEP: Duration = Duration::from_millis(1);
/// The send buffer of a connection, and the queue of a subflow.
const BUFFER: u64 = 400_000;
const QUEUE: u64 = 100_000;

/// A path of the simulated kernel: its interface, RTT and rate.
#[derive(Clone, Copy, Debug)]
struct Path {
    rtt_ms: u64,
    mbps: u64,
}

/// A subflow of the simulated kernel: slow start up to the path's bandwidth-delay product.
#[derive(Debug)]
struct Flow {
    addresses: Subflow,
    path: usize,
    id: u8,
    established: Time,
    backup: bool,
    cwnd: u64,
    notsent: u64,
    /// Segments in flight: the times of their departure and of their acknowledgement, and their payload.
    flying: VecDeque<(Time, Time, u64)>,
    /// The least RTT and the smoothed one, none before the first sample.
    rtts: Option<[Duration; 2]>,
    /// The time until which the link is busy.
    busy: Time,
    sent: u64,
    acked: u64,
}

/// A kernel with one connection that sends. Its scheduler fills the queues of subflows, the shortest RTT first, as the
/// default one does with the pacing rate.
struct Kernel {
    now: Time,
    paths: Vec<Path>,
    flows: Vec<Flow>,
    /// Data that the application has not written, and data that no subflow has.
    unwritten: u64,
    unsent: u64,
    written: u64,
    acked: u64,
    interfaces: Interfaces,
    steering: Steering,
    decisions: Vec<(Time, Decision)>,
    /// The most data in flight on a path, in bandwidth-delay products: what is beyond one waits in the link's queue.
    depth: u64,
    /// True if a connection of the in-kernel path manager refuses all commands.
    foreign: bool,
    /// True if it refuses to close a subflow, and the times at which it was asked to.
    keeps: bool,
    kept: Vec<Time>,
    next_port: u16,
}

fn local(path: usize) -> IpAddr {
    IpAddr::from([10, 0, path as u8 + 1, 1])
}

fn server() -> SocketAddr {
    "10.1.1.1:80".parse().unwrap()
}

fn interface(path: usize) -> Interface {
    Interface {
        index: path as u32 + 1,
        name: format!("path{}", path + 1),
        running: true,
        loopback: false,
        addresses: vec![format!("{}/24", local(path)).parse().unwrap()],
    }
}

impl Kernel {
    fn new(policy: &str, paths: &[Path], size: u64) -> Kernel {
        let interfaces = (0..paths.len()).map(|path| (path as u32 + 1, interface(path))).collect();
        let interfaces = Interfaces(interfaces);
        let policy = Policy::parse("policy", policy).unwrap();
        let mut kernel = Kernel {
            now: Time::from_secs(1),
            paths: paths.to_vec(),
            flows: Vec::new(),
            unwritten: size,
            unsent: 0,
            written: 0,
            acked: 0,
            steering: Steering::new(policy, interfaces.clone(), Memory::default()),
            interfaces,
            decisions: Vec::new(),
            depth: 2,
            foreign: false,
            keeps: false,
            kept: Vec::new(),
            next_port: 40_000,
        };
        kernel.add(0, 0, false);
        let subflow = kernel.flows[0].addresses;
        kernel.flows[0].established = kernel.now;
        kernel.event(EventKind::Created { subflow, server: false, deny_join_id0: false });
        kernel.event(EventKind::Established { subflow, server: false, deny_join_id0: false });
        kernel
    }

    fn event(&mut self, kind: EventKind) {
        self.steering.on_event(self.now, &Event { token: TOKEN, kind });
    }

    fn add(&mut self, path: usize, id: u8, backup: bool) {
        self.next_port += 1;
        let addresses = Subflow { local: SocketAddr::new(local(path), self.next_port), remote: server() };
        self.flows.push(Flow {
            addresses,
            path,
            id,
            established: self.now + Duration::from_millis(self.paths[path].rtt_ms),
            backup,
            cwnd: 10,
            notsent: 0,
            flying: VecDeque::new(),
            rtts: None,
            busy: self.now,
            sent: 0,
            acked: 0,
        });
    }

    fn is_up(&self, path: usize) -> bool {
        self.interfaces.0.contains_key(&(path as u32 + 1))
    }

    /// One millisecond of the kernel and of the daemon.
    fn step(&mut self) {
        self.now += STEP;
        let now = self.now;
        let written = self.unwritten.min(BUFFER.saturating_sub(self.written - self.acked));
        self.unwritten -= written;
        self.unsent += written;
        self.written += written;
        let established: Vec<_> = self
            .flows
            .iter()
            .filter(|flow| flow.id != 0 && flow.established == now)
            .map(|flow| (flow.addresses, flow.id))
            .collect();
        for (subflow, local_id) in established {
            self.event(EventKind::SubflowEstablished { subflow, local_id, interface: 0 });
        }
        let mut order: Vec<usize> = (0..self.flows.len()).collect();
        order.sort_by_key(|at| self.paths[self.flows[*at].path].rtt_ms);
        let any_used = self.flows.iter().any(|flow| !flow.backup && flow.established <= now);
        for at in order {
            let (up, path) = (self.is_up(self.flows[at].path), self.paths[self.flows[at].path]);
            let flow = &mut self.flows[at];
            if flow.established > now || !up {
                continue;
            }
            while let Some((sent, acked, bytes)) = flow.flying.front().copied()
                && acked <= now
            {
                flow.flying.pop_front();
                flow.acked += bytes;
                self.acked += bytes;
                let sample = acked.since(sent);
                let [least, smoothed] = flow.rtts.unwrap_or([sample; 2]);
                flow.rtts = Some([least.min(sample), smoothed.mul_f64(0.875) + sample.mul_f64(0.125)]);
                // Slow start.
                let most = (path.mbps * path.rtt_ms * 125 / MSS).max(5) * self.depth;
                flow.cwnd = (flow.cwnd + 1).min(most);
            }
            if !flow.backup || !any_used {
                let taken = self.unsent.min(QUEUE.saturating_sub(flow.notsent));
                flow.notsent += taken;
                self.unsent -= taken;
            }
            while flow.notsent > 0 && (flow.flying.len() as u64) < flow.cwnd {
                let bytes = flow.notsent.min(MSS);
                flow.notsent -= bytes;
                flow.sent += bytes;
                flow.busy = flow.busy.max(now) + Duration(bytes * 8 * 1000 / path.mbps);
                let acked = flow.busy + Duration::from_millis(path.rtt_ms);
                flow.flying.push_back((now, acked, bytes));
            }
        }
        if self.steering.next_look().is_some_and(|at| at <= now) {
            let seen = BTreeMap::from([(TOKEN, self.connection())]);
            self.steering.observe(now, seen);
        }
        self.carry_out();
    }

    fn carry_out(&mut self) {
        for decision in self.steering.take_decisions() {
            let result = self.command(&decision.command);
            match result {
                Ok(()) => {
                    self.steering.on_accepted(&decision.command);
                    self.decisions.push((self.now, decision));
                }
                Err(errno) => self.steering.on_refused(self.now, &decision.command, errno),
            }
        }
    }

    fn command(&mut self, command: &Command) -> Result<(), i32> {
        if self.foreign {
            return Err(libc::EINVAL);
        }
        match command {
            Command::Create { local: address, id, backup, .. } => {
                let path = (0..self.paths.len()).find(|path| local(*path) == *address).ok_or(libc::EINVAL)?;
                if !self.is_up(path) || self.flows.iter().any(|flow| flow.path == path) {
                    return Err(libc::EINVAL);
                }
                self.add(path, *id, *backup);
            }
            Command::SetBackup { subflow, backup, .. } => {
                let now = self.now;
                let found = self.flows.iter_mut().find(|flow| flow.addresses == *subflow);
                let flow = found.filter(|flow| flow.established < now).ok_or(libc::EINVAL)?;
                flow.backup = *backup;
            }
            Command::Destroy { .. } if self.keeps => {
                self.kept.push(self.now);
                return Err(libc::ESRCH);
            }
            Command::Destroy { subflow, .. } => {
                let at = self.flows.iter().position(|flow| flow.addresses == *subflow).ok_or(libc::ESRCH)?;
                let flow = self.flows.remove(at);
                // The connection sends it again elsewhere.
                self.unsent += flow.notsent + flow.flying.iter().map(|(_, _, bytes)| bytes).sum::<u64>();
            }
            Command::Remove { .. } | Command::Announce { .. } => {}
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    fn connection(&self) -> Connection {
        let subflow = |flow: &Flow| {
            let path = self.paths[flow.path];
            let established = flow.established <= self.now;
            // The handshake gives the first sample.
            let [least, smoothed] = flow.rtts.unwrap_or([Duration::from_millis(path.rtt_ms); 2]);
            let us = |rtt: Duration| if established { (rtt.0 / 1000) as u32 } else { 0 };
            SubflowState {
                addresses: flow.addresses,
                state: if established { 1 } else { 2 },
                interface: 0,
                local_id: flow.id,
                remote_id: 0,
                flags: SubflowFlags(
                    1 << 1 | u32::from(flow.backup) << 5 | u32::from(flow.established < self.now) << 6,
                ),
                congestion: "reno".to_owned(),
                info: TcpInfo {
                    rtt_us: us(smoothed),
                    min_rtt_us: us(least),
                    cwnd: flow.cwnd as u32,
                    snd_mss: MSS as u32,
                    unacked: flow.flying.len() as u32,
                    notsent_bytes: flow.notsent as u32,
                    bytes_sent: flow.sent,
                    bytes_acked: flow.acked,
                    ..TcpInfo::default()
                },
            }
        };
        let counters = Counters {
            bytes_sent: self.written - self.unsent,
            bytes_acked: self.acked,
            ..Counters::default()
        };
        Connection {
            token: TOKEN,
            addresses: Subflow { local: SocketAddr::new(local(0), 40_001), remote: server() },
            uid: 0,
            inode: 1,
            info: MptcpInfo {
                token: TOKEN.0,
                write_seq: self.written,
                snd_una: self.acked,
                counters: Some(counters),
                ..MptcpInfo::default()
            },
            send_buffer: SendBuffer { limit: BUFFER as u32, queued: (self.written - self.acked) as u32 },
            subflows: self.flows.iter().map(subflow).collect(),
        }
    }

    fn run(&mut self, span: Duration) -> &mut Kernel {
        let end = self.now + span;
        while self.now < end {
            self.step();
        }
        self
    }

    /// Runs until all data is acknowledged, and returns the time that it took.
    fn finish(&mut self) -> Duration {
        let begun = self.now;
        while self.acked < self.written + self.unwritten {
            self.step();
            assert!(self.now.since(begun) < Duration::from_secs(60), "it does not end: {:?}", self.decisions);
        }
        self.now.since(begun)
    }

    fn sent_on(&self, path: usize) -> u64 {
        self.flows.iter().filter(|flow| flow.path == path).map(|flow| flow.sent).sum()
    }

    /// The changes of priority: times and values.
    fn changes(&self) -> Vec<bool> {
        let change = |(_, decision): &(Time, Decision)| match decision.command {
            Command::SetBackup { backup, .. } => Some(backup),
            _ => None,
        };
        self.decisions.iter().filter_map(change).collect()
    }
}

const FAST_AND_SLOW: [Path; 2] = [Path { rtt_ms: 20, mbps: 20 }, Path { rtt_ms: 200, mbps: 10 }];

#[test]
fn a_short_flow_leaves_the_slow_path_as_a_backup() {
    let mut kernel = Kernel::new("", &FAST_AND_SLOW, 30_000);
    assert!(kernel.finish() < Duration::from_millis(90));
    kernel.run(Duration::from_secs(2));
    assert_eq!((kernel.sent_on(0), kernel.sent_on(1)), (30_000, 0));
    let opened = &kernel.decisions[0].1;
    assert!(
        matches!(opened.command, Command::Create { backup: true, .. }) && opened.why == Why::NotNeededYet
    );
    assert_eq!(kernel.changes(), [false; 0]);
}

#[test]
fn a_long_flow_uses_both_paths_and_is_faster_than_the_better_one() {
    let mut kernel = Kernel::new("", &FAST_AND_SLOW, 8_000_000);
    let both = kernel.finish();
    assert!(kernel.sent_on(1) > 1_000_000, "{:?}", kernel.decisions);
    let alone = Kernel::new("", &FAST_AND_SLOW[..1], 8_000_000).finish();
    assert!(both < alone.mul_f64(0.85), "{both:?} {alone:?}");
    let used =
        kernel.decisions.iter().find(|(_, one)| matches!(one.command, Command::SetBackup { .. })).unwrap();
    let words = used.1.to_string();
    assert!(words.contains("use path2 (10.0.2.1)") && words.contains("less than the remaining"), "{words}");
    // Used once, and a backup again at the end at most.
    assert!(kernel.changes().len() <= 3, "{:?}", kernel.decisions);
}

#[test]
fn a_burst_after_a_pause_begins_on_the_fast_path() {
    let mut kernel = Kernel::new("", &FAST_AND_SLOW, 8_000_000);
    kernel.finish();
    kernel.run(Duration::from_secs(3));
    let before = kernel.sent_on(1);
    kernel.unwritten = 30_000;
    kernel.finish();
    assert_eq!(kernel.sent_on(1), before, "{:?}", kernel.decisions);
    assert_eq!(kernel.changes().last(), Some(&true));
}

#[test]
fn a_path_with_a_queue_of_its_own_is_the_fast_one_again_when_the_queue_has_drained() {
    let paths = [Path { rtt_ms: 10, mbps: 10 }, Path { rtt_ms: 60, mbps: 50 }];
    let mut kernel = Kernel::new("", &paths, 3_000_000);
    kernel.depth = 20;
    kernel.finish();
    // The last acknowledgements have waited for longer than the other path takes.
    let [least, smoothed] = kernel.flows[0].rtts.unwrap();
    assert!(least < Duration::from_millis(12) && smoothed > Duration::from_millis(120), "{smoothed:?}");
    kernel.run(Duration::from_secs(3));
    let backups: Vec<bool> = kernel.flows.iter().map(|flow| flow.backup).collect();
    assert_eq!(backups, [false, true], "{:?}", kernel.decisions);
}

#[test]
fn an_interface_that_goes_is_closed_at_once_and_one_that_comes_is_opened() {
    let mut kernel = Kernel::new("use = 'all'", &FAST_AND_SLOW, 8_000_000);
    kernel.run(Duration::from_millis(500));
    assert_eq!(kernel.flows.len(), 2);
    let lost = kernel.interfaces.0.remove(&1).unwrap();
    kernel.decisions.clear();
    kernel.steering.set_interfaces(kernel.now, kernel.interfaces.clone());
    kernel.carry_out();
    let commands: Vec<_> = kernel.decisions.iter().map(|(_, decision)| &decision.command).collect();
    // The address of the initial subflow has the identifier 0.
    assert!(matches!(commands[..], [Command::Remove { id: 0, .. }, Command::Destroy { .. }]), "{commands:?}");
    kernel.run(Duration::from_millis(300));
    assert_eq!(kernel.flows.len(), 1);
    kernel.interfaces.0.insert(1, lost);
    kernel.decisions.clear();
    kernel.steering.set_interfaces(kernel.now, kernel.interfaces.clone());
    kernel.carry_out();
    assert!(matches!(kernel.decisions[0].1.command, Command::Create { backup: false, .. }));
    kernel.finish();
}

#[test]
fn a_subflow_that_the_kernel_does_not_close_is_tried_again_more_and_more_rarely() {
    let mut kernel = Kernel::new("use = 'all'", &FAST_AND_SLOW, 500_000_000);
    kernel.run(Duration::from_millis(500));
    let lost = kernel.interfaces.0.remove(&1).unwrap();
    kernel.keeps = true;
    let begin = kernel.now;
    kernel.steering.set_interfaces(kernel.now, kernel.interfaces.clone());
    kernel.run(Duration::from_secs(10));
    // At once, and after 1, 3 and 7 seconds.
    let seconds: Vec<u64> = kernel.kept.iter().map(|at| at.since(begin).as_secs_f64() as u64).collect();
    assert_eq!(seconds, [0, 1, 3, 7]);
    let withdraws = |(_, decision): &&(Time, Decision)| matches!(decision.command, Command::Remove { .. });
    assert_eq!(kernel.decisions.iter().filter(withdraws).count(), 1, "its address is withdrawn once");
    // Once the address was there again, the next loss is a new one.
    kernel.interfaces.0.insert(1, lost);
    kernel.steering.set_interfaces(kernel.now, kernel.interfaces.clone());
    kernel.run(Duration::from_millis(100));
    kernel.interfaces.0.remove(&1);
    let again = kernel.now;
    kernel.steering.set_interfaces(kernel.now, kernel.interfaces.clone());
    kernel.run(Duration::from_millis(100));
    assert!(
        kernel.kept[4..].iter().all(|at| at.since(again) < Duration::from_millis(10)),
        "{:?}",
        kernel.kept
    );
    assert_eq!(kernel.kept.len(), 5);
}

#[test]
fn the_only_subflow_is_never_closed() {
    let mut kernel = Kernel::new("", &FAST_AND_SLOW[..1], 100_000);
    kernel.run(Duration::from_millis(30));
    kernel.interfaces.0.clear();
    kernel.steering.set_interfaces(kernel.now, kernel.interfaces.clone());
    kernel.run(Duration::from_secs(1));
    assert_eq!((kernel.flows.len(), kernel.decisions.len()), (1, 0));
}

#[test]
fn a_connection_of_another_path_manager_is_left_alone_after_some_refusals() {
    let mut kernel = Kernel::new("", &FAST_AND_SLOW, 500_000_000);
    kernel.foreign = true;
    kernel.run(Duration::from_secs(12));
    assert!(kernel.decisions.is_empty());
    assert_eq!(kernel.steering.next_look(), None);
}

#[test]
fn a_policy_decides_before_the_selection() {
    let mut nothing = Kernel::new("use = 'nothing'", &FAST_AND_SLOW, 1_000_000);
    nothing.finish();
    assert!(nothing.decisions.is_empty());
    let mut all = Kernel::new("use = 'all'", &FAST_AND_SLOW, 1_000_000);
    all.finish();
    assert!(all.sent_on(1) > 0 && all.changes().is_empty());
    let mut backup = Kernel::new("backup = 'path2'", &FAST_AND_SLOW, 4_000_000);
    backup.finish();
    assert_eq!(backup.sent_on(1), 0);
    assert!(matches!(backup.decisions[0].1.command, Command::Create { backup: true, .. }));
    let mut one = Kernel::new("[[rule]]\nport = 80\nsubflows = 1", &FAST_AND_SLOW, 1_000_000);
    one.finish();
    assert_eq!(one.flows.len(), 1);
}

#[test]
fn a_new_policy_holds_for_existing_connections() {
    let mut kernel = Kernel::new("backup = 'path2'", &FAST_AND_SLOW, 40_000_000);
    kernel.run(Duration::from_secs(2));
    assert_eq!(kernel.sent_on(1), 0);
    kernel.steering.set_policy(kernel.now, Policy::default());
    kernel.run(Duration::from_secs(1));
    assert!(kernel.sent_on(1) > 100_000, "{:?}", kernel.decisions);
}

#[test]
fn a_steering_that_begins_in_the_middle_finds_the_connection_and_keeps_its_subflows() {
    let mut kernel = Kernel::new("", &FAST_AND_SLOW, 40_000_000);
    kernel.run(Duration::from_secs(3));
    kernel.decisions.clear();
    kernel.steering = Steering::new(Policy::default(), kernel.interfaces.clone(), Memory::default());
    let seen = BTreeMap::from([(TOKEN, kernel.connection())]);
    kernel.steering.observe(kernel.now, seen);
    kernel.run(Duration::from_secs(3));
    assert!(kernel.decisions.is_empty(), "{:?}", kernel.decisions);
    // The path that it has lost meanwhile is opened with the same identifier.
    let id = kernel.flows[1].id;
    let addresses = kernel.flows.remove(1).addresses;
    kernel.event(EventKind::SubflowClosed { subflow: addresses, ended: crate::pm::Ended::default() });
    kernel.run(Duration::from_secs(2));
    assert!(matches!(kernel.decisions[0].1.command, Command::Create { id: again, .. } if again == id));
}

#[test]
fn attempts_that_fail_become_rarer() {
    let mut kernel = Kernel::new("", &FAST_AND_SLOW, 500_000_000);
    let mut times = Vec::new();
    for _ in 0..40_000 {
        kernel.step();
        if kernel.flows.len() == 2 {
            times.push(kernel.now);
            let subflow = kernel.flows.remove(1).addresses;
            kernel.event(EventKind::SubflowClosed {
                subflow,
                ended: crate::pm::Ended { error: 104, reset: 0 },
            });
        }
    }
    // After 0, 1, 3, 7, 15 and 31 seconds.
    assert_eq!(times.len(), 6, "{times:?}");
}

#[test]
fn a_download_uses_the_slow_path_once_it_is_long() {
    let mut kernel = Kernel::new("", &FAST_AND_SLOW, 300);
    kernel.finish();
    kernel.run(Duration::from_secs(1));
    let mut received = 0;
    let mut after = |kernel: &mut Kernel, bytes: u64, rounds: u32| {
        for _ in 0..rounds {
            kernel.now += Duration::from_millis(20);
            received += bytes;
            let mut seen = kernel.connection();
            seen.subflows[0].info.bytes_received = received;
            if let Some(counters) = &mut seen.info.counters {
                counters.bytes_received = received;
            }
            kernel.steering.observe(kernel.now, BTreeMap::from([(TOKEN, seen)]));
            kernel.carry_out();
        }
    };
    after(&mut kernel, 10_000, 3);
    assert!(kernel.changes().is_empty());
    after(&mut kernel, 50_000, 40);
    assert_eq!(kernel.changes(), [false]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// For any paths and sizes the flow ends, changes are rare, and the same run gives the same decisions.
    #[test]
    fn any_flow_ends_without_flapping(
        rtts in proptest::collection::vec((5_u64..300, 1_u64..50), 2..5),
        size in 1_000_u64..3_000_000,
    ) {
        let paths: Vec<Path> = rtts.iter().map(|(rtt_ms, mbps)| Path { rtt_ms: *rtt_ms, mbps: *mbps }).collect();
        let mut kernel = Kernel::new("", &paths, size);
        let took = kernel.finish();
        let seconds = took.as_secs_f64().ceil() as usize;
        prop_assert!(kernel.changes().len() <= (2 + 3 * seconds) * paths.len(), "{:?}", kernel.decisions);
        let mut again = Kernel::new("", &paths, size);
        prop_assert_eq!(again.finish(), took);
        prop_assert_eq!(again.decisions, kernel.decisions);
    }
}
