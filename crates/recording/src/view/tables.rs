//! The tables of one run, read into a view.

use std::collections::BTreeMap;

use super::events::{Chosen, Events};
use super::{Acks, Column, FlowView, Goodput, QueueView, RunView, Sent, Stream, Subflow};
use crate::read::{ReadError, Recorded, StoredRun, text, whole};
use crate::schema::Name;

/// The number of links with queues in the figures.
const MOST_QUEUES: usize = 8;
/// The number of intervals of goodput at most.
const MOST_BINS: u64 = 200;
/// The number of rows of a subflow's windows, or of a queue, at most.
const MOST_ROWS: usize = 100_000;

/// The size of a run: its flows, and the number of events of each.
pub(super) struct Outline {
    pub(super) flows: Vec<FlowView>,
    /// By flow: the events of its data that the sender sees.
    pub(super) events: Vec<usize>,
    end_ns: u64,
}

impl Outline {
    pub(super) fn read(recorded: &Recorded, run: &StoredRun) -> Result<Outline, ReadError> {
        let mut flows = Vec::new();
        let columns = ["name", "direction", "start_ns", "size_bytes", "outcome", "fct_ns", "goodput_bps"];
        recorded.rows(run, Name::Flows, &columns, |row| {
            let name = text(&row[0]).to_owned();
            let class = run.class(&name);
            flows.push(FlowView {
                own: match class {
                    Some(class) => class.transport == "contender",
                    None => !name.starts_with("beside ") && !name.starts_with("background "),
                },
                traffic: class.map(|class| class.name.clone()),
                kind: class.map(|class| class.kind.clone()),
                name,
                direction: text(&row[1]).to_owned(),
                start_ns: whole(&row[2]).unwrap_or_default(),
                size_bytes: whole(&row[3]),
                outcome: text(&row[4]).to_owned(),
                fct_ns: whole(&row[5]),
                goodput_bps: whole(&row[6]),
            });
        })?;
        let mut events = vec![0; flows.len()];
        let mut end_ns = 0;
        recorded.rows(run, Name::Events, &["t_ns", "flow", "direction", "event"], |row| {
            end_ns = end_ns.max(whole(&row[0]).unwrap_or_default());
            let flow = flow_of(&row[1]);
            let is_data = flows.get(flow).is_some_and(|flow| flow.direction == text(&row[2]));
            if is_data && !matches!(text(&row[3]), "received" | "lost" | "undone") {
                events[flow] += 1;
            }
        })?;
        Ok(Outline { flows, events, end_ns })
    }

    /// Reads the rest; the details of `chosen` flows have at most `most` events.
    pub(super) fn finish(
        self,
        recorded: &Recorded,
        run: &StoredRun,
        chosen: &[usize],
        most: usize,
    ) -> Result<RunView, ReadError> {
        let Outline { flows, events: counts, end_ns } = self;
        let mut bytes_by_path = vec![0; run.paths.len()];
        let mut details: BTreeMap<usize, Stream> = BTreeMap::new();
        for flow in chosen.iter().filter(|flow| **flow < flows.len()) {
            let direction = flows[*flow].direction.clone();
            let (sent, acks) = (Sent::default(), Acks::default());
            details.insert(
                *flow,
                Stream { flow: *flow, direction, subflows: Vec::new(), thinned_ns: 0, sent, acks },
            );
        }
        subflows(recorded, run, &flows, &mut details, &mut bytes_by_path)?;
        windows(recorded, run, &mut details)?;
        let total: usize = details.keys().map(|flow| counts[*flow]).sum();
        let thinned_ns = if total > most { end_ns.div_ceil((most as u64 / 16).max(1)).max(1) } else { 0 };
        let bin_ns = round(end_ns / MOST_BINS * 2);
        let own: Vec<bool> = flows.iter().map(|flow| flow.own).collect();
        let mut events = Events::new(bin_ns, end_ns, own);
        for stream in details.values_mut() {
            stream.thinned_ns = thinned_ns;
            events.choose(Chosen::new(stream));
        }
        let columns =
            ["t_ns", "flow", "direction", "event", "subflow", "from_bytes", "to_bytes", "window_edge_bytes"];
        recorded.rows(run, Name::Events, &columns, |row| {
            let flow = flow_of(&row[1]);
            if flows.get(flow).is_some_and(|flow| flow.direction == text(&row[2])) {
                let offset = |at: usize| whole(&row[at]).unwrap_or_default();
                let range = offset(5)..offset(6);
                events.add(offset(0), flow, text(&row[3]), offset(4) as usize, range, whole(&row[7]));
            }
        })?;
        let (bytes, reordering, found) = events.finish();
        for (flow, sent, acks) in found {
            if let Some(stream) = details.get_mut(&flow) {
                (stream.sent, stream.acks) = (sent, acks);
            }
        }
        let (queues, links) = queues(recorded, run)?;
        let rates: Vec<f64> =
            flows.iter().filter_map(|flow| flow.goodput_bps).map(|bps| bps as f64).collect();
        let comparable = flows.iter().all(|flow| flow.is_transfer() && flow.traffic == flows[0].traffic);
        Ok(RunView {
            condition: run.condition.clone(),
            scheduler: run.scheduler.clone(),
            paths: run.paths.clone(),
            outages: run.outages.iter().filter(|outage| outage.from_ns < end_ns).cloned().collect(),
            complete: run.complete,
            end_ns,
            jain: if comparable { jain(&rates) } else { None },
            flows,
            bytes_by_path,
            goodput: Goodput { bin_ns, bytes },
            reordering,
            queues,
            links,
            streams: chosen.iter().filter_map(|flow| details.remove(flow)).collect(),
        })
    }
}

fn flow_of(cell: &anabranch_table::Cell<'_>) -> usize {
    whole(cell).and_then(|flow| usize::try_from(flow).ok()).unwrap_or(usize::MAX)
}

/// Returns Jain's index: R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.
fn jain(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    (rates.len() > 1 && squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

/// Returns the smallest of 1, 2 and 5 times a power of ten that is at least `ns`, and at least a millisecond.
fn round(ns: u64) -> u64 {
    let mut unit = 1_000_000;
    loop {
        if let Some(factor) = [1, 2, 5].into_iter().find(|factor| factor * unit >= ns) {
            return factor * unit;
        }
        unit *= 10;
    }
}

/// The subflows of the flows in detail with their paths, and the bytes of all own flows by path.
fn subflows(
    recorded: &Recorded,
    run: &StoredRun,
    flows: &[FlowView],
    details: &mut BTreeMap<usize, Stream>,
    bytes_by_path: &mut [u64],
) -> Result<(), ReadError> {
    let columns = ["flow", "end", "subflow", "interface", "bytes_delivered", "local", "remote"];
    // The clients' ends, which come first: a path is an interface of the client, and a server has one for all of them.
    let mut interfaces: BTreeMap<(usize, String, String), usize> = BTreeMap::new();
    recorded.rows(run, Name::Subflows, &columns, |row| {
        let flow = flow_of(&row[0]);
        let Some(view) = flows.get(flow) else { return };
        let end = text(&row[1]);
        let interface = whole(&row[3]).unwrap_or(u64::MAX) as usize;
        let (local, remote) = (text(&row[5]).to_owned(), text(&row[6]).to_owned());
        let is_receiver = (end == "server") == (view.direction == "up");
        let path = match end {
            "client" => {
                interfaces.insert((flow, local, remote), interface);
                Some(interface)
            }
            _ => interfaces.get(&(flow, remote, local)).copied(),
        };
        if is_receiver
            && view.own
            && let Some(bytes) = path.and_then(|path| bytes_by_path.get_mut(path))
        {
            *bytes += whole(&row[4]).unwrap_or_default();
        }
        if let Some(stream) = details.get_mut(&flow)
            && end == "client"
        {
            let id = whole(&row[2]).unwrap_or_default() as usize;
            let path = (interface < run.paths.len()).then_some(interface);
            match stream.subflows.iter_mut().find(|subflow| subflow.id == id) {
                // Its number was given to another one, on another path perhaps.
                Some(subflow) => subflow.path = subflow.path.filter(|known| Some(*known) == path),
                None => stream.subflows.push(Subflow::new(id, path)),
            }
        }
    })?;
    for stream in details.values_mut() {
        for at in 0..stream.subflows.len() {
            let subflow = &stream.subflows[at];
            let alone = |path| stream.subflows.iter().filter(|other| other.path == Some(path)).count() == 1;
            stream.subflows[at].name = match subflow.path {
                Some(path) if alone(path) => path_name(&run.paths[path]),
                _ => format!("subflow {}", subflow.id + 1),
            };
        }
    }
    Ok(())
}

/// Returns the name of a path in a sentence: a path without a name has a number.
pub(super) fn path_name(name: &str) -> String {
    if name.chars().all(|c| c.is_ascii_digit()) { format!("path {name}") } else { name.to_owned() }
}

impl Subflow {
    fn new(id: usize, path: Option<usize>) -> Subflow {
        Subflow {
            id,
            name: String::new(),
            path,
            t_ns: Column::default(),
            cwnd_bytes: Column::default(),
            ssthresh_bytes: Column::default(),
            inflight_bytes: Column::default(),
            srtt_us: Column::default(),
        }
    }
}

fn windows(
    recorded: &Recorded,
    run: &StoredRun,
    details: &mut BTreeMap<usize, Stream>,
) -> Result<(), ReadError> {
    let columns =
        ["t_ns", "flow", "direction", "subflow", "cwnd_bytes", "ssthresh_bytes", "inflight_bytes", "srtt_us"];
    recorded.rows(run, Name::Windows, &columns, |row| {
        let Some(stream) = details.get_mut(&flow_of(&row[1])) else { return };
        if stream.direction != text(&row[2]) {
            return;
        }
        let id = whole(&row[3]).unwrap_or_default() as usize;
        let Some(subflow) = stream.subflows.iter_mut().find(|subflow| subflow.id == id) else { return };
        subflow.t_ns.push(whole(&row[0]).unwrap_or_default());
        subflow.cwnd_bytes.push_or_none(whole(&row[4]));
        subflow.ssthresh_bytes.push_or_none(whole(&row[5]));
        subflow.inflight_bytes.push(whole(&row[6]).unwrap_or_default());
        subflow.srtt_us.push_or_none(whole(&row[7]));
    })?;
    for subflow in details.values_mut().flat_map(|stream| &mut stream.subflows) {
        let Subflow { t_ns, cwnd_bytes, ssthresh_bytes, inflight_bytes, srtt_us, .. } = subflow;
        thin(&mut [t_ns, cwnd_bytes, ssthresh_bytes, inflight_bytes, srtt_us], 1);
    }
    Ok(())
}

/// Returns the queues with the largest means, and the number of links.
fn queues(recorded: &Recorded, run: &StoredRun) -> Result<(Vec<QueueView>, usize), ReadError> {
    let mut links: Vec<(QueueView, f64)> = Vec::new();
    recorded.rows(run, Name::Queues, &["t_ns", "link", "max_bytes", "dropped_packets"], |row| {
        let link = text(&row[1]);
        let found = match links.iter().position(|(queue, _)| queue.link == link) {
            Some(at) => &mut links[at],
            None => {
                let empty = Column::default;
                links.push((
                    QueueView { link: link.to_owned(), t_ns: empty(), bytes: empty(), dropped: empty() },
                    0.0,
                ));
                let last = links.len() - 1;
                &mut links[last]
            }
        };
        let bytes = whole(&row[2]).unwrap_or_default();
        found.0.t_ns.push(whole(&row[0]).unwrap_or_default());
        found.0.bytes.push(bytes);
        found.0.dropped.push(whole(&row[3]).unwrap_or_default());
        found.1 += bytes as f64;
    })?;
    let number = links.len();
    let mut by_mean: Vec<usize> = (0..number).collect();
    let mean = |at: usize| links[at].1 / links[at].0.t_ns.len().max(1) as f64;
    by_mean.sort_by(|a, b| mean(*b).total_cmp(&mean(*a)));
    // A link that carries only acknowledgements has next to no queue, compared with links that carry data.
    let most = by_mean.first().map_or(0.0, |first| mean(*first));
    by_mean.retain(|at| mean(*at) > most / 20.0);
    by_mean.truncate(MOST_QUEUES);
    by_mean.sort_unstable();
    let mut kept = Vec::new();
    for (at, (mut queue, _)) in links.into_iter().enumerate() {
        if by_mean.contains(&at) {
            let QueueView { t_ns, bytes, dropped, .. } = &mut queue;
            thin(&mut [t_ns, bytes, dropped], 1);
            kept.push(queue);
        }
    }
    Ok((kept, number))
}

/// Keeps, of each group of rows, those with the minimum and the maximum of column `by`, so that there are not too many.
fn thin(columns: &mut [&mut Column], by: usize) {
    let rows = columns[0].len();
    if rows <= MOST_ROWS {
        return;
    }
    let size = (2 * rows).div_ceil(MOST_ROWS);
    let mut kept = Vec::new();
    for begin in (0..rows).step_by(size) {
        let group = begin..rows.min(begin + size);
        let of = |at: &usize| columns[by].0[*at];
        let (low, high) = (group.clone().min_by_key(of), group.max_by_key(of));
        let (Some(low), Some(high)) = (low, high) else { continue };
        kept.push(low.min(high));
        if low != high {
            kept.push(low.max(high));
        }
    }
    for column in columns {
        column.0 = kept.iter().map(|at| column.0[*at]).collect();
    }
}

#[cfg(test)]
#[path = "tables_tests.rs"]
mod tests;
