//! The recorder of one run: turns its events into rows.

use anabranch_lab::recording::{Beginning, RunRecorder};
use anabranch_lab::run::RunError;
use anabranch_lab::samples::outcome;
use anabranch_sim::{
    Direction, End, EndReport, FlowEvent, FlowId, LinkEvent, Queue, RunReport, Scope, Trace, What,
};
use anabranch_stack::event::{ConnectionId, SubflowId};
use anabranch_stack::observer::{StackEvent, Windows};
use anabranch_stack::scheduler::{Decision, Rule};
use anabranch_stack::seq::DataRange;
use anabranch_table::Cell;
use anabranch_units::{Duration, Rate, Time};

use crate::batch::{QueueRow, WindowRow, whole};
use crate::data::Data;
use crate::names::{EventName, Stream};
use crate::schema::Name;
use crate::series::Series;
use crate::tables::{TableError, Tables};
use crate::xpl::Xpl;

/// Records one run.
pub(crate) struct Recorder<'a> {
    tables: Tables,
    xpl: Option<Xpl>,
    condition: String,
    scheduler: String,
    /// The direction of the data of each flow.
    directions: Vec<Direction>,
    links: Vec<LinkSeries>,
    /// By host, then by the connection's place.
    connections: Vec<Vec<Option<Connection>>>,
    /// Data that has arrived with the segment that opens a connection, before its flow is known.
    early: Vec<(Time, Scope, SubflowId, DataRange)>,
    interval: Duration,
    /// Called with success or failure at the end.
    done: Box<dyn FnOnce(bool) + 'a>,
}

/// A connection at one end of a flow.
struct Connection {
    id: ConnectionId,
    flow: FlowId,
    end: End,
    /// The last DATA_ACK received.
    una: u64,
    /// The reason of the last decision, if it was to wait.
    waits: Option<Rule>,
    windows: Vec<WindowSeries>,
}

struct WindowSeries {
    series: Series<(Windows, u64)>,
    /// The threshold of the last report.
    ssthresh: Option<u64>,
}

struct LinkSeries {
    series: Series<Queue>,
    /// The maximum and the drops since the last row.
    max_bytes: u64,
    dropped: u64,
}

fn cell(value: impl TryInto<i64>) -> Cell<'static> {
    Cell::Integer(whole(value))
}

fn or_missing<T>(value: Option<T>, cell: impl FnOnce(T) -> Cell<'static>) -> Cell<'static> {
    value.map_or(Cell::Missing, cell)
}

fn at(time: Time) -> Cell<'static> {
    cell(time.0)
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(
        tables: Tables,
        xpl: Option<Xpl>,
        run: &Beginning<'_>,
        (condition, scheduler): (String, String),
        interval: Duration,
        done: Box<dyn FnOnce(bool) + 'a>,
    ) -> Recorder<'a> {
        let links = run.network.links().iter().map(|_| LinkSeries {
            series: Series::new(interval),
            max_bytes: 0,
            dropped: 0,
        });
        Recorder {
            tables,
            xpl,
            condition,
            scheduler,
            directions: run.flows.iter().map(|flow| flow.direction).collect(),
            links: links.collect(),
            connections: run.network.hosts().iter().map(|_| Vec::new()).collect(),
            early: Vec::new(),
            interval,
            done,
        }
    }

    fn attach(&mut self, flow: FlowId, end: End, scope: Scope) {
        let host = &mut self.connections[scope.host.index()];
        let place = scope.connection.place();
        if host.len() <= place {
            host.resize_with(place + 1, || None);
        }
        let ended = host[place].take();
        let id = scope.connection;
        host[place] = Some(Connection { id, flow, end, una: 0, waits: None, windows: Vec::new() });
        if let Some(mut ended) = ended {
            ended.finish(&mut self.tables);
        }
        for (time, of, subflow, range) in core::mem::take(&mut self.early) {
            if of == scope {
                self.on_stack(time, scope, &StackEvent::Arrived { subflow, range });
            }
        }
    }

    #[inline]
    fn on_stack(&mut self, now: Time, scope: Scope, event: &StackEvent<'_>) {
        let place = scope.connection.place();
        let known = self.connections[scope.host.index()].get_mut(place).and_then(Option::as_mut);
        let Some(connection) = known.filter(|known| known.id == scope.connection) else {
            if let StackEvent::Arrived { subflow, range } = *event {
                // The flow is known at the same time, if at all.
                self.early.retain(|early| early.0 == now);
                self.early.push((now, scope, subflow, range));
            }
            return;
        };
        let (flow, end) = (connection.flow, connection.end);
        let mut data = Data {
            tables: &mut self.tables,
            xpl: self.xpl.as_mut(),
            now,
            flow,
            stream: Stream::sent_by(end),
        };
        match *event {
            StackEvent::Sent { subflow, kind, data: range, .. } => {
                if let Some(name) = EventName::sent(kind)
                    && !range.is_empty()
                {
                    data.event(subflow, name, range);
                }
            }
            StackEvent::Received { .. }
            | StackEvent::Limit(_)
            | StackEvent::Assigned { .. }
            | StackEvent::Held { .. } => {}
            StackEvent::Arrived { subflow, range } => {
                data.stream = Stream::received_by(end);
                data.event(subflow, EventName::Received, range);
            }
            StackEvent::Lost { subflow, range, reason } => data.lost(subflow, range, reason.into()),
            StackEvent::Undone { subflow } => data.undone(subflow),
            StackEvent::DataAcked { subflow, una, window_edge } => {
                let range = DataRange::new(connection.una, una);
                connection.una = una;
                data.acked(subflow, range, Some(window_edge));
            }
            StackEvent::Decision(decision) => {
                let rule = match decision {
                    Decision::Wait { why, .. } => Some(why.rule),
                    _ => None,
                };
                if rule.is_none() || rule != connection.waits {
                    data.decision(decision);
                }
                connection.waits = rule;
            }
            StackEvent::Windows { subflow, windows } => {
                connection.on_windows(now, subflow, windows, self.interval, &mut self.tables);
            }
        }
    }

    fn on_link(&mut self, now: Time, index: usize, event: &LinkEvent<'_>) {
        let LinkEvent::Queue { queue, dropped } = *event else { return };
        let LinkSeries { series, max_bytes, dropped: drops } = &mut self.links[index];
        *max_bytes = queue.bytes.max(*max_bytes);
        *drops += u64::from(dropped);
        let tables = &mut self.tables;
        series.add(now, queue, false, |time, queue| queue_row(tables, time, index, queue, max_bytes, drops));
    }

    /// Writes the tables with values that are known only at the end.
    fn write_reports(&mut self, report: &RunReport) {
        for (index, flow) in report.flows.iter().enumerate() {
            let data = match self.directions[index] {
                Direction::Upload => "up",
                Direction::Download => "down",
            };
            let span = flow.fct.or(flow.ended).unwrap_or(report.end.since(flow.start));
            let outcome = outcome(&flow.outcome);
            self.tables.row(
                Name::Flows,
                &[
                    cell(index),
                    Cell::Text(&flow.name),
                    Cell::Text(&self.condition),
                    Cell::Text(&self.scheduler),
                    Cell::Text(data),
                    at(flow.start),
                    or_missing(flow.size, |size| cell(size.0)),
                    Cell::Text(&outcome),
                    or_missing(flow.fct, |span| cell(span.0)),
                    or_missing(flow.acked, |span| cell(span.0)),
                    or_missing(flow.connected, |span| cell(span.0)),
                    cell(flow.delivered),
                    cell(Rate::from_bytes_over(flow.delivered, span).0),
                    cell(flow.data_segments),
                    cell(flow.retransmitted_segments),
                    cell(flow.reinjected_bytes),
                    cell(flow.duplicate_bytes),
                    cell(flow.rto_count),
                    flow.longest_gap.map_or(Cell::Missing, |gap| cell(gap.0)),
                ],
            );
            let sends_up = self.directions[index] == Direction::Upload;
            let (client, server) = match sends_up {
                true => (&flow.sender, &flow.receiver),
                false => (&flow.receiver, &flow.sender),
            };
            self.write_subflows(index, "client", client);
            self.write_subflows(index, "server", server);
        }
    }

    fn write_subflows(&mut self, flow: usize, end: &'static str, report: &EndReport) {
        for subflow in &report.subflows {
            let counters = &subflow.counters;
            let address = |address: anabranch_stack::segment::Address| {
                std::net::SocketAddr::new(address.ip, address.port).to_string()
            };
            let (local, remote) = (address(subflow.local), address(subflow.remote));
            self.tables.row(
                Name::Subflows,
                &[
                    cell(flow),
                    Cell::Text(end),
                    cell(subflow.id.0),
                    Cell::Text(&local),
                    Cell::Text(&remote),
                    cell(subflow.path.0),
                    at(subflow.started),
                    or_missing(subflow.established, at),
                    or_missing(subflow.ended, at),
                    cell(counters.bytes_sent),
                    cell(counters.bytes_acked),
                    cell(counters.bytes_delivered),
                    cell(counters.bytes_duplicate),
                    cell(counters.bytes_reinjected),
                    cell(counters.data_segments_sent),
                    cell(counters.segments_retransmitted),
                    cell(counters.segments_lost),
                    cell(counters.timeouts),
                    or_missing(subflow.min_rtt, |rtt| cell(rtt.0 / 1000)),
                ],
            );
        }
    }

    fn finish(mut self, report: &RunReport) -> Result<Box<dyn FnOnce(bool) + 'a>, TableError> {
        for connection in self.connections.iter_mut().flatten().flatten() {
            connection.finish(&mut self.tables);
        }
        for (link, LinkSeries { series, max_bytes, dropped }) in self.links.iter_mut().enumerate() {
            let tables = &mut self.tables;
            series.finish(|time, queue| queue_row(tables, time, link, queue, max_bytes, dropped));
        }
        self.write_reports(report);
        self.tables.finish()?;
        if let Some(xpl) = self.xpl {
            xpl.finish()?;
        }
        Ok(self.done)
    }
}

impl RunRecorder for Recorder<'_> {
    fn on_trace(&mut self, trace: &Trace<'_>) {
        match trace.what {
            What::Stack { scope, event } => self.on_stack(trace.time, scope, event),
            What::Link { link, event } => self.on_link(trace.time, link.index(), &event),
            What::Flow { flow, event: FlowEvent::Start { client } } => self.attach(flow, End::Client, client),
            What::Flow { flow, event: FlowEvent::Accept { server } } => {
                self.attach(flow, End::Server, server)
            }
            What::Flow { .. } | What::Host { .. } => {}
        }
    }

    fn is_broken(&self) -> bool {
        self.tables.is_broken() || self.xpl.as_ref().is_some_and(Xpl::is_broken)
    }

    fn end(self: Box<Self>, report: &RunReport, whole: bool) -> Result<(), RunError> {
        let done = self.finish(report).map_err(|error| RunError::Recording(error.to_string()))?;
        done(whole);
        Ok(())
    }
}

impl Connection {
    fn on_windows(
        &mut self,
        now: Time,
        subflow: SubflowId,
        windows: &Windows,
        interval: Duration,
        tables: &mut Tables,
    ) {
        let at = subflow.index();
        while self.windows.len() <= at {
            self.windows.push(WindowSeries { series: Series::new(interval), ssthresh: None });
        }
        let WindowSeries { series, ssthresh } = &mut self.windows[at];
        let important = *ssthresh != windows.ssthresh_bytes;
        *ssthresh = windows.ssthresh_bytes;
        let (flow, stream) = (self.flow, Stream::sent_by(self.end));
        series.add(now, (*windows, self.una), important, |time, value| {
            window_row(tables, time, (flow, stream), subflow, value);
        });
    }

    /// Writes the windows that are kept.
    fn finish(&mut self, tables: &mut Tables) {
        let (flow, stream) = (self.flow, Stream::sent_by(self.end));
        for (index, WindowSeries { series, .. }) in self.windows.iter_mut().enumerate() {
            let subflow = SubflowId(index as u8);
            series.finish(|time, value| window_row(tables, time, (flow, stream), subflow, value));
        }
    }
}

fn window_row(
    tables: &mut Tables,
    time: Time,
    (flow, stream): (FlowId, Stream),
    subflow: SubflowId,
    (windows, una): (Windows, u64),
) {
    tables.window(&WindowRow {
        time,
        flow: flow.0,
        stream,
        subflow: subflow.0,
        cwnd_bytes: Some(windows.cwnd_bytes),
        ssthresh_bytes: windows.ssthresh_bytes,
        inflight_bytes: windows.inflight_bytes,
        srtt_us: windows.srtt.map(|srtt| srtt.0 / 1000),
        pacing_bps: windows.pacing_rate.map(|rate| rate.0),
        peer_window_bytes: windows.peer_window_edge.saturating_sub(una),
    });
}

fn queue_row(tables: &mut Tables, time: Time, link: usize, queue: Queue, max: &mut u64, dropped: &mut u64) {
    tables.queue(&QueueRow {
        time,
        link: link as u32,
        queue_bytes: queue.bytes,
        queue_packets: queue.packets,
        max_bytes: queue.bytes.max(*max),
        dropped_packets: *dropped,
    });
    (*max, *dropped) = (0, 0);
}
