//! Counters of a proxy and its connections of this moment, as JSON and for Prometheus.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::budgets::BudgetRow;
use crate::transport::LinkReport;

/// The greatest number of kinds, paths or clients that are counted apart.
const MOST: usize = 256;

/// The number of failures that are shown.
const MOST_SHOWN: usize = 16;

/// Locks a mutex; the state of a task that has panicked is good enough for counters.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection of this moment.
#[derive(Debug)]
pub struct Live {
    number: u64,
    began: Instant,
    /// The user at a client, the client at a server.
    who: String,
    to: String,
    via: &'static str,
    pub(crate) up: AtomicU64,
    pub(crate) down: AtomicU64,
    report: Mutex<LinkReport>,
    /// True once its end is in the log.
    is_logged: AtomicBool,
}

impl Default for Live {
    fn default() -> Live {
        Live {
            number: 0,
            began: Instant::now(),
            who: String::new(),
            to: String::new(),
            via: "",
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
            report: Mutex::default(),
            is_logged: AtomicBool::new(false),
        }
    }
}

impl Live {
    pub(crate) fn set_report(&self, report: LinkReport) {
        *lock(&self.report) = report;
    }
}

/// A connection, as it is shown.
#[derive(Clone, Debug, Serialize)]
pub struct ConnectionRow {
    /// Its number among all since the start.
    pub number: u64,
    /// The seconds since its beginning.
    pub age_s: f64,
    /// The user at a client, if it has given a name; the client at a server.
    pub who: String,
    /// The destination.
    pub to: String,
    /// `server` or `direct`.
    pub via: &'static str,
    /// Bytes to the destination.
    pub up_bytes: u64,
    /// Bytes from the destination.
    pub down_bytes: u64,
    /// The paths between the two sides.
    #[serde(flatten)]
    pub report: LinkReport,
}

/// The bytes of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PathTotals {
    /// Payload sent, retransmissions included.
    pub sent_bytes: u64,
    /// Payload received.
    pub received_bytes: u64,
    /// Payload retransmitted.
    pub retransmitted_bytes: u64,
}

/// A request without a connection.
#[derive(Clone, Debug, Serialize)]
pub struct FailureRow {
    /// The time, in seconds since the start.
    pub t_s: f64,
    /// The destination.
    pub to: String,
    /// The reason.
    pub why: String,
}

/// Totals since the start.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Totals {
    /// Connections by their way.
    pub connections: BTreeMap<&'static str, u64>,
    /// Connections between the two sides that were plain TCP.
    pub plain_tcp: u64,
    /// Requests without a connection, by the reason.
    pub failures: BTreeMap<&'static str, u64>,
    /// Bytes to destinations, of connections that have ended.
    pub up_bytes: u64,
    /// Bytes from destinations, of connections that have ended.
    pub down_bytes: u64,
    /// Bytes by the local address, of connections that have ended.
    pub paths: BTreeMap<IpAddr, PathTotals>,
}

/// The memory and the packets of a host in user space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StackRow {
    /// Its stacks, one for each thread.
    pub stacks: usize,
    /// The bytes of the buffers of its connections.
    pub buffer_bytes: u64,
    /// The bytes that it keeps for reuse.
    pub spare_bytes: u64,
    /// Subflows in TIME-WAIT of connections that have ended.
    pub time_waits: usize,
    /// Packets that one stack has read and passed on to another.
    pub handovers: u64,
    /// Joined subflows of this moment: all of their packets are passed on.
    pub moved_subflows: u64,
}

/// The question to a host in user space.
struct Probe(Box<dyn Fn() -> StackRow + Send + Sync>);

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Probe")
    }
}

/// The counters and the connections.
#[derive(Debug)]
pub struct Status {
    side: &'static str,
    transport: &'static str,
    began: Instant,
    next: AtomicU64,
    live: Mutex<BTreeMap<u64, Arc<Live>>>,
    totals: Mutex<Totals>,
    last_failures: Mutex<VecDeque<FailureRow>>,
    asks: watch::Sender<u64>,
    /// The last reports of connections that have ended; none before the first request for them.
    ended: Mutex<Option<VecDeque<LinkReport>>>,
    budgets: Mutex<Vec<BudgetRow>>,
    runtimes: OnceLock<Vec<Handle>>,
    stack: OnceLock<Probe>,
    /// True if the log has destinations.
    logs_destinations: AtomicBool,
}

/// The state of a proxy.
#[derive(Clone, Debug, Serialize)]
pub struct Snapshot {
    /// `client` or `server`.
    pub side: &'static str,
    /// `kernel` or `anabranch`.
    pub transport: &'static str,
    /// The seconds since the start.
    pub uptime_s: f64,
    /// The tasks of its runtimes at this moment: a few for itself, and one or two for each connection.
    pub tasks: usize,
    /// The host in user space of `--transport anabranch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<StackRow>,
    /// Totals since the start.
    pub totals: Totals,
    /// The last requests without a connection.
    pub last_failures: Vec<FailureRow>,
    /// The budgets of metered paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<BudgetRow>,
    /// The connections of this moment.
    pub connections: Vec<ConnectionRow>,
}

impl Status {
    /// Returns the status of a proxy that starts now, with all counters at 0.
    pub fn new(side: &'static str, transport: &'static str) -> Status {
        Status {
            side,
            transport,
            began: Instant::now(),
            next: AtomicU64::new(1),
            live: Mutex::default(),
            totals: Mutex::default(),
            last_failures: Mutex::default(),
            asks: watch::Sender::new(0),
            ended: Mutex::default(),
            budgets: Mutex::default(),
            runtimes: OnceLock::new(),
            stack: OnceLock::new(),
            logs_destinations: AtomicBool::new(false),
        }
    }

    /// From now on, events of `tracing` have destinations, and the reasons of failures, which may name them.
    pub fn log_destinations(&self) {
        self.logs_destinations.store(true, Ordering::Relaxed);
    }

    /// Counts the tasks of these runtimes, instead of the current one's. Only the first call has an effect.
    pub fn count_tasks_of(&self, runtimes: &[Handle]) {
        let _ = self.runtimes.set(runtimes.to_vec());
    }

    /// Shows the host in user space that `probe` looks at. Only the first call has an effect.
    pub fn show_stack(&self, probe: impl Fn() -> StackRow + Send + Sync + 'static) {
        let _ = self.stack.set(Probe(Box::new(probe)));
    }

    fn tasks(&self) -> usize {
        let alive = |runtime: &Handle| runtime.metrics().num_alive_tasks();
        match self.runtimes.get() {
            Some(runtimes) => runtimes.iter().map(alive).sum(),
            None => Handle::try_current().map_or(0, |runtime| alive(&runtime)),
        }
    }

    /// Returns a destination as the log has it.
    fn in_log<'a>(&self, text: &'a str) -> Option<&'a str> {
        self.logs_destinations.load(Ordering::Relaxed).then_some(text)
    }

    /// Begins a connection. It is shown until the returned value is dropped.
    pub(crate) fn begin(self: &Arc<Status>, who: &str, to: String, via: &'static str) -> Tracked {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let live = Arc::new(Live { number, who: who.to_owned(), to, via, ..Live::default() });
        lock(&self.live).insert(number, Arc::clone(&live));
        *lock(&self.totals).connections.entry(via).or_default() += 1;
        info!(connection = number, who = named(who), via, to = self.in_log(&live.to), "a connection begins");
        Tracked { status: Arc::clone(self), live }
    }

    /// Counts a request without a connection; `from` is the address of a client.
    pub(crate) fn fail(&self, kind: &'static str, from: Option<IpAddr>) {
        warn!(reason = kind, from = from.map(tracing::field::display), "no connection");
        self.count(kind);
    }

    fn count(&self, kind: &'static str) {
        let mut totals = lock(&self.totals);
        if totals.failures.len() < MOST || totals.failures.contains_key(kind) {
            *totals.failures.entry(kind).or_default() += 1;
        }
    }

    /// Counts a request without a connection, and shows its destination and the reason.
    pub(crate) fn note(&self, kind: &'static str, to: &str, why: &str) {
        // Only the other reasons may have a part of a destination.
        let in_log = if kind == "server" { Some(why) } else { self.in_log(why) };
        warn!(reason = kind, why = in_log, to = self.in_log(to), "no connection");
        self.count(kind);
        let mut last = lock(&self.last_failures);
        if last.len() >= MOST_SHOWN {
            last.pop_front();
        }
        let t_s = self.began.elapsed().as_secs_f64();
        last.push_back(FailureRow { t_s, to: to.to_owned(), why: why.to_owned() });
    }

    /// Returns the number of connections of this moment.
    pub fn active(&self) -> usize {
        lock(&self.live).len()
    }

    /// Returns the last reports of the connections that have ended since the last call. They are kept from the first call on, up
    /// to 256.
    pub(crate) fn take_ended(&self) -> VecDeque<LinkReport> {
        lock(&self.ended).replace(VecDeque::new()).unwrap_or_default()
    }

    pub(crate) fn set_budgets(&self, budgets: Vec<BudgetRow>) {
        *lock(&self.budgets) = budgets;
    }

    pub(crate) fn asked(&self) -> watch::Receiver<u64> {
        self.asks.subscribe()
    }

    /// Returns the state, with fresh reports of the paths.
    pub async fn look(&self) -> Snapshot {
        self.asks.send_modify(|count| *count += 1);
        // The connections answer in their next turn.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        self.snapshot()
    }

    /// Returns the state.
    pub fn snapshot(&self) -> Snapshot {
        let row = |live: &Arc<Live>| ConnectionRow {
            number: live.number,
            age_s: live.began.elapsed().as_secs_f64(),
            who: live.who.clone(),
            to: live.to.clone(),
            via: live.via,
            up_bytes: live.up.load(Ordering::Relaxed),
            down_bytes: live.down.load(Ordering::Relaxed),
            report: lock(&live.report).clone(),
        };
        Snapshot {
            side: self.side,
            transport: self.transport,
            uptime_s: self.began.elapsed().as_secs_f64(),
            tasks: self.tasks(),
            stack: self.stack.get().map(|probe| probe.0()),
            totals: lock(&self.totals).clone(),
            last_failures: lock(&self.last_failures).iter().cloned().collect(),
            budgets: lock(&self.budgets).clone(),
            connections: lock(&self.live).values().map(row).collect(),
        }
    }
}

/// A connection that is shown until this is dropped.
#[derive(Debug)]
pub(crate) struct Tracked {
    status: Arc<Status>,
    pub live: Arc<Live>,
}

impl Tracked {
    /// Returns the destination.
    pub(crate) fn to(&self) -> &str {
        &self.live.to
    }

    /// Notes the paths of the connection at its end; `end` is the end in a word.
    pub(crate) fn finish(&self, report: &LinkReport, end: &'static str) {
        self.log_end(end, Some(report));
        if let Some(ended) = &mut *lock(&self.status.ended) {
            if ended.len() >= MOST {
                ended.pop_front();
            }
            ended.push_back(report.clone());
        }
        let mut totals = lock(&self.status.totals);
        totals.plain_tcp += u64::from(!report.mptcp);
        for subflow in &report.subflows {
            let ip = subflow.local.ip();
            if totals.paths.len() >= MOST && !totals.paths.contains_key(&ip) {
                continue;
            }
            let path = totals.paths.entry(ip).or_default();
            path.sent_bytes += subflow.sent_bytes;
            path.received_bytes += subflow.received_bytes;
            path.retransmitted_bytes += subflow.retransmitted_bytes;
        }
    }
}

impl Tracked {
    fn log_end(&self, end: &'static str, report: Option<&LinkReport>) {
        let live = &self.live;
        if live.is_logged.swap(true, Ordering::Relaxed) {
            return;
        }
        let local = report.map(|report| report.subflows.iter().map(|subflow| subflow.local.ip()));
        let local: BTreeSet<IpAddr> = local.into_iter().flatten().collect();
        let local: Vec<String> = local.iter().map(ToString::to_string).collect();
        info!(
            connection = live.number,
            end,
            seconds = live.began.elapsed().as_secs_f64(),
            up_bytes = live.up.load(Ordering::Relaxed),
            down_bytes = live.down.load(Ordering::Relaxed),
            mptcp = report.map(|report| report.mptcp),
            paths = named(&local.join(" ")),
            to = self.status.in_log(&live.to),
            "a connection ends"
        );
    }
}

/// Returns a name for the log; none if it is empty.
fn named(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.log_end("failed", None);
        lock(&self.status.live).remove(&self.live.number);
        let mut totals = lock(&self.status.totals);
        totals.up_bytes += self.live.up.load(Ordering::Relaxed);
        totals.down_bytes += self.live.down.load(Ordering::Relaxed);
    }
}

impl Snapshot {
    /// Returns the text that Prometheus reads: totals, with the connections of this moment, and without their names.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, rows: &[(String, f64)]| {
            // Writing to a string cannot fail.
            let _ =
                writeln!(text, "# HELP anabranch_proxy_{name} {help}\n# TYPE anabranch_proxy_{name} {kind}");
            for (labels, value) in rows {
                let _ = writeln!(text, "anabranch_proxy_{name}{labels} {value}");
            }
        };
        let counts = |map: &BTreeMap<&'static str, u64>, label: &str| -> Vec<(String, f64)> {
            map.iter().map(|(key, count)| (format!("{{{label}=\"{key}\"}}"), *count as f64)).collect()
        };
        let one = |value: f64| vec![(String::new(), value)];
        let (mut paths, mut up, mut down) =
            (self.totals.paths.clone(), self.totals.up_bytes, self.totals.down_bytes);
        for row in &self.connections {
            (up, down) = (up + row.up_bytes, down + row.down_bytes);
            for subflow in &row.report.subflows {
                let path = paths.entry(subflow.local.ip()).or_default();
                path.sent_bytes += subflow.sent_bytes;
                path.received_bytes += subflow.received_bytes;
                path.retransmitted_bytes += subflow.retransmitted_bytes;
            }
        }
        let path = |value: fn(&PathTotals) -> u64| -> Vec<(String, f64)> {
            paths.iter().map(|(ip, totals)| (format!("{{path=\"{ip}\"}}"), value(totals) as f64)).collect()
        };
        metric("uptime_seconds", "gauge", "Seconds since the start", &one(self.uptime_s));
        metric("tasks", "gauge", "Tasks of this moment", &one(self.tasks as f64));
        if let Some(stack) = &self.stack {
            let of = |value: u64| one(value as f64);
            metric(
                "stack_buffer_bytes",
                "gauge",
                "Memory of the buffers of connections",
                &of(stack.buffer_bytes),
            );
            metric("stack_spare_bytes", "gauge", "Memory that is kept for reuse", &of(stack.spare_bytes));
            metric(
                "stack_time_waits",
                "gauge",
                "Subflows in TIME-WAIT of connections that have ended",
                &of(stack.time_waits as u64),
            );
            metric(
                "stack_handovers_total",
                "counter",
                "Packets that one thread has read and passed on to another",
                &of(stack.handovers),
            );
        }
        metric(
            "active_connections",
            "gauge",
            "Connections of this moment",
            &one(self.connections.len() as f64),
        );
        metric(
            "connections_total",
            "counter",
            "Connections by their way",
            &counts(&self.totals.connections, "via"),
        );
        metric(
            "plain_tcp_total",
            "counter",
            "Ended connections between the two sides that were plain TCP",
            &one(self.totals.plain_tcp as f64),
        );
        metric(
            "failures_total",
            "counter",
            "Requests without a connection by the reason",
            &counts(&self.totals.failures, "reason"),
        );
        if !self.budgets.is_empty() {
            let budget = |value: fn(&BudgetRow) -> u64| -> Vec<(String, f64)> {
                let row = |row: &BudgetRow| (format!("{{path=\"{}\"}}", row.path), value(row) as f64);
                self.budgets.iter().map(row).collect()
            };
            metric("budget_bytes", "gauge", "Monthly budget of a path", &budget(|row| row.monthly_bytes));
            metric(
                "budget_used_bytes",
                "gauge",
                "Payload of a path in this month",
                &budget(|row| row.used_bytes),
            );
        }
        metric("up_bytes_total", "counter", "Bytes to destinations", &one(up as f64));
        metric("down_bytes_total", "counter", "Bytes from destinations", &one(down as f64));
        metric(
            "path_sent_bytes_total",
            "counter",
            "Payload sent by the local address",
            &path(|t| t.sent_bytes),
        );
        metric(
            "path_received_bytes_total",
            "counter",
            "Payload received by the local address",
            &path(|t| t.received_bytes),
        );
        metric(
            "path_retransmitted_bytes_total",
            "counter",
            "Payload retransmitted by the local address",
            &path(|t| t.retransmitted_bytes),
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_tasks_of_all_threads_are_counted() {
        let other = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let status = Status::new("client", "anabranch");
        let before = status.snapshot().tasks;
        status.count_tasks_of(&[Handle::current(), other.handle().clone()]);
        other.spawn(std::future::pending::<()>());
        other.spawn(std::future::pending::<()>());
        tokio::spawn(std::future::pending::<()>());
        assert_eq!(status.snapshot().tasks, before + 3);
        other.shutdown_background();
    }

    #[test]
    fn the_memory_of_a_host_in_user_space_is_shown_if_there_is_one() {
        let status = Status::new("client", "anabranch");
        assert!(!status.snapshot().metrics().contains("stack"));
        status.show_stack(|| StackRow {
            spare_bytes: 4096,
            time_waits: 5,
            handovers: 7,
            ..StackRow::default()
        });
        let look = status.snapshot();
        for line in ["stack_spare_bytes 4096\n", "stack_time_waits 5\n", "stack_handovers_total 7\n"] {
            let line = format!("anabranch_proxy_{line}");
            assert!(look.metrics().contains(&line), "{line}");
        }
        assert!(serde_json::to_string(&look).unwrap().contains("\"spare_bytes\":4096"));
    }
}
