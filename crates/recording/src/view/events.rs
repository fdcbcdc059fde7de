//! The events of the data of a run: order, goodput, and the columns of the flows in detail.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Acks, KINDS, Reordering, Sent, Stream};

/// The number of steps of a distribution.
const MOST_STEPS: usize = 2000;

/// Receives the events of the data of a run in the order of their times.
pub(super) struct Events {
    bin_ns: u64,
    bins: Vec<u64>,
    own: Vec<bool>,
    order: BTreeMap<usize, Order>,
    /// The out-of-order delays.
    delays: Vec<u64>,
    stuck: usize,
    chosen: BTreeMap<usize, Chosen>,
}

/// The receiver of a flow.
#[derive(Default)]
struct Order {
    next: u64,
    /// By first offset: the end, and the time of arrival.
    held: BTreeMap<u64, (u64, u64)>,
}

/// A flow in detail.
pub(super) struct Chosen {
    flow: usize,
    subflows: Vec<usize>,
    cell_ns: u64,
    sent: Sent,
    acks: Acks,
    /// By subflow and kind: the row that is extended within the cell.
    open: BTreeMap<(usize, usize), usize>,
}

impl Chosen {
    pub(super) fn new(stream: &Stream) -> Chosen {
        Chosen {
            flow: stream.flow,
            subflows: stream.subflows.iter().map(|subflow| subflow.id).collect(),
            cell_ns: stream.thinned_ns,
            sent: Sent::default(),
            acks: Acks::default(),
            open: BTreeMap::new(),
        }
    }

    fn sent(&mut self, t: u64, kind: usize, subflow: usize, range: Range<u64>) {
        let Some(subflow) = self.subflows.iter().position(|id| *id == subflow) else { return };
        if self.cell_ns > 0
            && let Some(row) = self.open.get(&(subflow, kind)).copied()
            && (self.sent.t_ns.0[row] as u64 + self.cell_ns) > t
        {
            let (from, to) = (&mut self.sent.from.0[row], &mut self.sent.to.0[row]);
            *from = (*from).min(range.start as i64);
            *to = (*to).max(range.end as i64);
            return;
        }
        self.open.insert((subflow, kind), self.sent.t_ns.len());
        self.sent.t_ns.push(t);
        self.sent.from.push(range.start);
        self.sent.to.push(range.end);
        self.sent.subflow.push(subflow as u64);
        self.sent.kind.push(kind as u64);
    }

    fn acked(&mut self, t: u64, ack: u64, edge: Option<u64>) {
        if self.cell_ns > 0
            && let Some(last) = self.acks.t_ns.0.last()
            && *last as u64 + self.cell_ns > t
        {
            return;
        }
        self.acks.t_ns.push(t);
        self.acks.ack.push(ack);
        self.acks.edge.push_or_none(edge);
    }
}

impl Events {
    pub(super) fn new(bin_ns: u64, end_ns: u64, own: Vec<bool>) -> Events {
        Events {
            bin_ns,
            bins: vec![0; (end_ns / bin_ns) as usize + 1],
            own,
            order: BTreeMap::new(),
            delays: Vec::new(),
            stuck: 0,
            chosen: BTreeMap::new(),
        }
    }

    pub(super) fn choose(&mut self, chosen: Chosen) {
        self.chosen.insert(chosen.flow, chosen);
    }

    /// Adds an event of the data of `flow`.
    pub(super) fn add(
        &mut self,
        t: u64,
        flow: usize,
        event: &str,
        subflow: usize,
        range: Range<u64>,
        edge: Option<u64>,
    ) {
        match event {
            "received" => self.received(t, flow, range),
            "data_acked" => {
                if let Some(chosen) = self.chosen.get_mut(&flow) {
                    chosen.acked(t, range.end, edge);
                }
            }
            event => {
                if let Some(kind) = KINDS.iter().position(|kind| *kind == event)
                    && let Some(chosen) = self.chosen.get_mut(&flow)
                {
                    chosen.sent(t, kind, subflow, range);
                }
            }
        }
    }

    fn received(&mut self, t: u64, flow: usize, range: Range<u64>) {
        if !self.own[flow] {
            return;
        }
        let order = self.order.entry(flow).or_default();
        if range.start > order.next {
            order.held.insert(range.start, (range.end, t));
            return;
        }
        let before = order.next;
        self.delays.push(0);
        order.next = order.next.max(range.end);
        while let Some(held) = order.held.first_entry().filter(|held| *held.key() <= order.next) {
            let (end, arrived) = held.remove();
            self.delays.push(t - arrived);
            order.next = order.next.max(end);
        }
        if let Some(bin) = self.bins.get_mut((t / self.bin_ns) as usize) {
            *bin += order.next - before;
        }
    }

    /// Returns the bytes delivered in order by interval, the out-of-order delays, and the columns of the chosen flows.
    pub(super) fn finish(mut self) -> (Vec<u64>, Reordering, Vec<(usize, Sent, Acks)>) {
        self.stuck += self.order.values().map(|order| order.held.len()).sum::<usize>();
        self.delays.sort_unstable();
        let reordering = distribution(&self.delays, self.stuck);
        let chosen = self.chosen.into_values().map(|chosen| (chosen.flow, chosen.sent, chosen.acks));
        (self.bins, reordering, chosen.collect())
    }
}

/// Returns the steps of the distribution of `ordered`; a share of it never ended.
fn distribution(ordered: &[u64], stuck: usize) -> Reordering {
    let all = (ordered.len() + stuck) as f64;
    let mut steps: Vec<(u64, f64)> = Vec::new();
    for (at, delay) in ordered.iter().enumerate() {
        let share = (at + 1) as f64 / all;
        match steps.last_mut() {
            Some(last) if last.0 == *delay => last.1 = share,
            _ => steps.push((*delay, share)),
        }
    }
    let tail = steps.len().saturating_sub(MOST_STEPS / 4);
    let stride = tail.div_ceil(MOST_STEPS).max(1);
    let kept = |at: usize| at.is_multiple_of(stride) || at >= tail;
    let steps = steps.into_iter().enumerate().filter(|(at, _)| kept(*at)).map(|(_, step)| step);
    Reordering { segments: ordered.len() + stuck, stuck, steps: steps.collect() }
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
