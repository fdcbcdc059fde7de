//! Runs a case: the operations, then the paths recover, both sides close, and everything must end cleanly.

#![expect(clippy::disallowed_methods, reason = "the environment may ask for a log")]

use std::ops::AddAssign;

use anabranch_stack::config::Checksums;
use anabranch_stack::event::{CloseReason, SubflowId};
use anabranch_units::{Duration, Time};

use super::case::{Case, Op};
use crate::harness::{Pair, Path, Side, client_ip, server_ip_at};

/// The maximum time that a connection may take to end on healthy paths.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Frequencies of events.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    pub cases: u64,
    pub finished: u64,
    pub segments: u64,
    pub timeouts: u64,
    pub tail_probes: u64,
    pub recoveries: u64,
    pub undos: u64,
    pub zero_windows: u64,
    pub window_probes: u64,
    pub reinjected_segments: u64,
    pub subflow_wraps: u64,
    pub narrow_wraps: u64,
    pub wide_wraps: u64,
    pub subflow_deaths: u64,
    pub half_closes: u64,
    pub head_timeouts: u64,
    pub opportunistic: u64,
    pub fallbacks: u64,
    pub checksum_failures: u64,
    pub fails_received: u64,
    pub held: u64,
    pub damaged: u64,
    pub bursts: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.cases += other.cases;
        self.finished += other.finished;
        self.segments += other.segments;
        self.timeouts += other.timeouts;
        self.tail_probes += other.tail_probes;
        self.recoveries += other.recoveries;
        self.undos += other.undos;
        self.zero_windows += other.zero_windows;
        self.window_probes += other.window_probes;
        self.reinjected_segments += other.reinjected_segments;
        self.subflow_wraps += other.subflow_wraps;
        self.narrow_wraps += other.narrow_wraps;
        self.wide_wraps += other.wide_wraps;
        self.subflow_deaths += other.subflow_deaths;
        self.half_closes += other.half_closes;
        self.head_timeouts += other.head_timeouts;
        self.opportunistic += other.opportunistic;
        self.fallbacks += other.fallbacks;
        self.checksum_failures += other.checksum_failures;
        self.fails_received += other.fails_received;
        self.held += other.held;
        self.damaged += other.damaged;
        self.bursts += other.bursts;
    }
}

/// Returns two connected hosts as configured by the case.
pub fn start(case: &Case) -> Pair {
    start_with(case, true)
}

fn start_with(case: &Case, fast_paths: bool) -> Pair {
    let path = |setup: &super::case::PathSetup| Path {
        delay: Duration::from_micros(u64::from(setup.delay_us)),
        loss: [f64::from(setup.loss) / 1000.0; 2],
        reorder: f64::from(setup.reorder) / 1000.0,
        duplicate: f64::from(setup.duplicate) / 1000.0,
        ..Path::clean(0)
    };
    let paths = case.paths.iter().map(path).collect();
    let servers = usize::from(case.servers);
    let mut pair = Pair::with_servers(paths, servers, case.config(Side::Server), case.seed);
    pair.check_every = 1;
    pair.set_fast_paths(fast_paths);
    // Either side can request them, if both use MPTCP and neither refuses.
    let wishes = [case.config(Side::Client).checksums, case.config(Side::Server).checksums];
    let agreed = wishes.contains(&Checksums::Required)
        && case.mptcp == [true; 2]
        && !case.config(Side::Client).only.simultaneous;
    for side in Side::BOTH {
        pair.host(side).checksums = agreed && !wishes.contains(&Checksums::Refused);
        pair.host(side).endpoint.set_burst_limit(case.burst_limit(side));
    }
    pair.keep_log = std::env::var("ANABRANCH_RANDOM_LOG").is_ok();
    pair.connect(case.config(Side::Client));
    for (at, setup) in case.paths.iter().enumerate().skip(1) {
        if setup.absent {
            pair.set_address_up(Side::Client, client_ip(at), false);
        }
    }
    pair
}

/// Executes one operation.
pub fn apply(pair: &mut Pair, op: Op) {
    let count = pair.paths.len();
    let at = |path: u8| usize::from(path) % count;
    let share = |per_mille: u16| f64::from(per_mille) / 1000.0;
    match op {
        Op::Write(side, n) => {
            if !pair.host(side).close_wanted {
                pair.write_all(side, u64::from(n));
            }
        }
        Op::Close(side) => pair.close_after_backlog(side),
        Op::Abort(side) => pair.abort(side),
        Op::Read(side, n) => pair.read(side, u64::from(n)),
        Op::Pause(side) => pair.host(side).auto_read = false,
        Op::Resume(side) => {
            pair.host(side).auto_read = true;
            pair.read(side, u64::MAX);
        }
        Op::PathDown(path) => pair.paths[at(path)].down = true,
        Op::PathUp(path) => pair.paths[at(path)].down = false,
        Op::Loss(path, back, loss) => pair.paths[at(path)].loss[usize::from(back)] = share(loss),
        Op::Burst(path, n) => pair.paths[at(path)].burst = u32::from(n),
        Op::Delay(path, us) => pair.paths[at(path)].delay = Duration::from_micros(u64::from(us)),
        Op::Reorder(path, late) => pair.paths[at(path)].reorder = share(late),
        Op::Duplicate(path, twice) => pair.paths[at(path)].duplicate = share(twice),
        Op::AddressDown(side, which) => set_address(pair, side, which, false),
        Op::AddressUp(side, which) => set_address(pair, side, which, true),
        Op::Backup(side, subflow, backup) => pair.set_backup(side, SubflowId(subflow), backup),
        Op::Strip(path, what) => {
            let bit = |at: u8| what >> at & 1 == 1;
            let middlebox = &mut pair.paths[at(path)].middlebox;
            middlebox.strips_syn = bit(0);
            middlebox.strips_syn_ack = bit(1);
            middlebox.strips_later = [bit(2), bit(3)];
            middlebox.drops_syn = bit(4);
        }
        Op::Damage(path, changed) => pair.paths[at(path)].middlebox.damages = share(changed),
        Op::Advance(us) => pair.run_for(Duration::from_micros(u64::from(us))),
    }
}

fn set_address(pair: &mut Pair, side: Side, which: u8, up: bool) {
    let ip = match side {
        Side::Client => client_ip(usize::from(which) % pair.paths.len()),
        Side::Server => server_ip_at(usize::from(which) % 2),
    };
    pair.set_address_up(side, ip, up);
}

/// Runs a case twice, with and without the fast paths, and compares every segment sent.
/// Returns a digest of every segment if `ANABRANCH_RANDOM_DIGEST` is set, to compare two commits with each other.
pub fn compare_fast_paths(case: &Case) -> u64 {
    let [fast, slow] = [true, false].map(|fast_paths| {
        let mut pair = start_with(case, fast_paths);
        pair.check_every = 64;
        pair.keep_log = true;
        for &op in &case.ops {
            apply(&mut pair, op);
        }
        finish(case, &mut pair);
        pair
    });
    fast.assert_same_output(&slow);
    if std::env::var("ANABRANCH_RANDOM_DIGEST").is_ok() { fast.digest() } else { 0 }
}

/// Runs a case to its end, checks the invariants, and returns the frequencies of events.
pub fn run(case: &Case) -> Tally {
    let mut pair = start(case);
    for &op in &case.ops {
        apply(&mut pair, op);
    }
    finish(case, &mut pair);
    judge(case, &mut pair)
}

/// Restores the paths, and stops further writes.
fn finish(case: &Case, pair: &mut Pair) {
    for path in &mut pair.paths {
        path.heal();
    }
    for at in 0..pair.paths.len() {
        pair.set_address_up(Side::Client, client_ip(at), true);
    }
    for at in 0..usize::from(case.servers) {
        pair.set_address_up(Side::Server, server_ip_at(at), true);
    }
    for side in Side::BOTH {
        pair.host(side).auto_read = true;
        pair.read(side, u64::MAX);
        pair.close_after_backlog(side);
    }
    let over = |pair: &Pair| {
        pair.client.closed.is_some() && (pair.server.closed.is_some() || pair.server.connection.is_none())
    };
    let limit = pair.now + PATIENCE;
    pair.run_until(limit, over);
    if !case.must_finish() {
        // One side has silently lost the connection, and the other waits for data that never arrives: TCP has
        // no timeout for that, the application must close.
        for side in Side::BOTH {
            let ended = pair.host(side).closed;
            if !matches!(ended, None | Some(CloseReason::Finished)) {
                pair.abort(side.other());
            }
        }
    }
    let limit = pair.now + PATIENCE;
    pair.run_until(limit, |_| false);
}

fn judge(case: &Case, pair: &mut Pair) -> Tally {
    let ends = [pair.client.closed, pair.server.closed];
    assert!(ends[0].is_some(), "the client's connection never ends: {ends:?}");
    assert!(ends[1].is_some() || pair.server.connection.is_none(), "the server's never ends: {ends:?}");
    let counts = [pair.client.endpoint.connection_count(), pair.server.endpoint.connection_count()];
    assert_eq!(counts, [0, 0], "connections are never released; ends {ends:?}");
    assert_eq!(pair.next(), None, "timers are left");
    let finished = [Some(CloseReason::Finished); 2];
    if case.must_finish() {
        assert_eq!(ends, finished);
    }
    for side in Side::BOTH {
        let written = pair.host(side).written;
        let other = pair.host(side.other());
        let in_order = other.in_order();
        let at_once = case.config(side.other()).only.consume_at_once;
        let read = if at_once { in_order } else { other.read };
        assert!(read <= in_order && in_order <= written, "{read} read, {in_order} here, {written} written");
        if ends == finished {
            assert_eq!(read, written, "{side:?} has finished, and its data is not there");
            assert_eq!(pair.host(side).backlog, 0);
        }
        if case.must_finish() {
            assert_eq!(written, case.total(side));
        }
    }
    tally(pair, ends == finished)
}

fn tally(pair: &Pair, finished: bool) -> Tally {
    let mut tally = Tally {
        cases: 1,
        finished: u64::from(finished),
        segments: pair.sent,
        bursts: pair.bursts,
        zero_windows: pair.checks.zero_windows,
        // Once per case: a stream that starts before a wrap has many segments after it.
        subflow_wraps: pair.checks.subflow_wraps.min(1),
        narrow_wraps: pair.checks.narrow_wraps.min(1),
        wide_wraps: pair.checks.wide_wraps.min(1),
        ..Tally::default()
    };
    for host in [&pair.client, &pair.server] {
        tally.subflow_deaths += host.subflow_deaths;
        tally.half_closes += u64::from(host.half_closed_bytes > 0);
        tally.held += u64::from(host.held_bytes > 0);
        tally.damaged += u64::from(host.damaged_bytes > 0);
        let Some((connection, subflows)) = &host.final_stats else { continue };
        tally.head_timeouts += connection.head_timeouts;
        tally.opportunistic += connection.opportunistic_retransmissions;
        tally.fallbacks += connection.fallbacks;
        tally.checksum_failures += connection.checksum_failures;
        tally.fails_received += connection.fails_received;
        for subflow in subflows {
            tally.timeouts += subflow.counters.timeouts;
            tally.tail_probes += subflow.counters.tail_probes;
            tally.recoveries += subflow.counters.recoveries;
            tally.undos += subflow.counters.undos;
            tally.window_probes += subflow.counters.window_probes;
            tally.reinjected_segments += subflow.counters.segments_reinjected;
        }
    }
    let end: Time = pair.now;
    assert!(end.is_armed());
    tally
}
