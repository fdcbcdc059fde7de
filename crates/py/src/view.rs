//! The view of a scheduler in Python: copies of the stack's view, converted as they are read.

use core::net::IpAddr;
use std::sync::Arc;

use anabranch_stack::event::{SubflowId, SubflowSet};
use anabranch_stack::scheduler::{self, RecoveryState, SchedulerEvent, SubflowView};
use anabranch_stack::seq::DataRange;
use anabranch_units::{Duration, Time};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::congestion::span;
use crate::errors;

/// A range of offsets in the stream: the first one, and the first one after it.
type Range = (u64, u64);

fn range(range: DataRange) -> Range {
    (range.start, range.end)
}

fn members(set: SubflowSet) -> Vec<u8> {
    set.iter().map(|id| id.0).collect()
}

fn seconds(span: Option<Duration>) -> Option<f64> {
    span.map(Duration::as_secs_f64)
}

/// The names of the paths of a scenario, by the addresses of the hosts that connect.
pub(crate) type Names = Arc<[(IpAddr, String)]>;

/// One subflow at the time of a decision.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Subflow(pub(crate) SubflowView, Option<Names>);

#[pymethods]
impl Subflow {
    /// A subflow for tests: usable, with nothing in flight and `cwnd` segments of `mss` bytes.
    #[staticmethod]
    #[pyo3(signature = (id, srtt_s, cwnd=10, mss=1400, *, inflight=0, queued=0, path=None))]
    fn idle(
        id: u8,
        srtt_s: f64,
        cwnd: u64,
        mss: u64,
        inflight: u64,
        queued: u64,
        path: Option<String>,
    ) -> PyResult<Subflow> {
        let srtt = span("srtt_s", srtt_s)?;
        let view = SubflowView::idle(SubflowId(id), srtt, cwnd, mss);
        let names = path.map(|path| Names::from([(view.local.ip, path)]));
        Ok(Subflow(SubflowView { inflight, queued, ..view }, names))
    }

    /// The bytes of new data, in whole segments, that windows and queue admit now.
    fn room(&self) -> u64 {
        self.0.room()
    }

    /// True if new data may be assigned to it.
    fn may_carry(&self) -> bool {
        self.0.may_carry()
    }

    #[getter]
    fn id(&self) -> u8 {
        self.0.id.0
    }
    /// The name of its path in the scenario; None if no path has its addresses.
    #[getter]
    fn path(&self) -> Option<&str> {
        let is_end = |ip: IpAddr| ip == self.0.local.ip || ip == self.0.remote.ip;
        self.1.as_ref()?.iter().find(|(ip, _)| is_end(*ip)).map(|(_, name)| name.as_str())
    }
    /// Its local address and port.
    #[getter]
    fn local(&self) -> (String, u16) {
        (self.0.local.ip.to_string(), self.0.local.port)
    }
    /// Its remote address and port.
    #[getter]
    fn remote(&self) -> (String, u16) {
        (self.0.remote.ip.to_string(), self.0.remote.port)
    }
    #[getter]
    fn usable(&self) -> bool {
        self.0.usable
    }
    #[getter]
    fn potentially_failed(&self) -> bool {
        self.0.potentially_failed
    }
    #[getter]
    fn timeouts(&self) -> u32 {
        self.0.timeouts
    }
    #[getter]
    fn backup(&self) -> bool {
        self.0.backup
    }
    #[getter]
    fn recovery(&self) -> &'static str {
        match self.0.recovery {
            RecoveryState::Open => "open",
            RecoveryState::Recovery => "recovery",
            RecoveryState::Loss => "loss",
        }
    }
    #[getter]
    fn cwnd(&self) -> u64 {
        self.0.cwnd
    }
    #[getter]
    fn ssthresh(&self) -> Option<u64> {
        self.0.ssthresh
    }
    #[getter]
    fn inflight(&self) -> u64 {
        self.0.inflight
    }
    #[getter]
    fn queued(&self) -> u64 {
        self.0.queued
    }
    #[getter]
    fn unacked(&self) -> u64 {
        self.0.unacked
    }
    #[getter]
    fn short_unacked(&self) -> u64 {
        self.0.short_unacked
    }
    #[getter]
    fn window_room(&self) -> u64 {
        self.0.window_room
    }
    #[getter]
    fn srtt_s(&self) -> Option<f64> {
        seconds(self.0.srtt)
    }
    #[getter]
    fn rttvar_s(&self) -> f64 {
        self.0.rttvar.as_secs_f64()
    }
    #[getter]
    fn srtt_min_s(&self) -> Option<f64> {
        seconds(self.0.srtt_min)
    }
    #[getter]
    fn srtt_max_s(&self) -> Option<f64> {
        seconds(self.0.srtt_max)
    }
    #[getter]
    fn min_rtt_s(&self) -> f64 {
        self.0.min_rtt.as_secs_f64()
    }
    #[getter]
    fn last_rtt_s(&self) -> f64 {
        self.0.last_rtt.as_secs_f64()
    }
    #[getter]
    fn mss(&self) -> u64 {
        self.0.mss
    }
    #[getter]
    fn pacing_rate_bps(&self) -> Option<u64> {
        self.0.pacing_rate.map(|rate| rate.0)
    }
    #[getter]
    fn delivery_rate_bps(&self) -> u64 {
        self.0.delivery_rate.0
    }
    #[getter]
    fn one_way_delay_us(&self) -> Option<i64> {
        self.0.one_way_delay_us
    }
    #[getter]
    fn loss_rate(&self) -> f64 {
        self.0.loss_rate
    }
    #[getter]
    fn bytes_sent(&self) -> u64 {
        self.0.bytes_sent
    }
    #[getter]
    fn established_s(&self) -> f64 {
        self.0.established.as_secs_f64()
    }
    #[getter]
    fn last_received_s(&self) -> f64 {
        self.0.last_received.as_secs_f64()
    }
    /// When the first and the last unacknowledged segment were last sent; None without one.
    #[getter]
    fn sent_s(&self) -> Option<(f64, f64)> {
        self.0.sent.map(|(first, last)| (first.as_secs_f64(), last.as_secs_f64()))
    }
    #[getter]
    fn send_buffer(&self) -> u32 {
        self.0.send_buffer
    }
    fn __repr__(&self) -> String {
        let srtt = self.0.srtt.map_or("None".to_owned(), |srtt| srtt.as_secs_f64().to_string());
        let path = self.path().map_or(String::new(), |path| format!(" on {path}"));
        format!(
            "<Subflow {}{path}: srtt_s={srtt}, cwnd={}, room={}>",
            self.0.id.0,
            self.0.cwnd,
            self.0.room()
        )
    }
}

/// Data to be assigned to a subflow that has not carried it.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Pending(scheduler::Pending);

#[pymethods]
impl Pending {
    #[getter]
    fn range(&self) -> Range {
        range(self.0.range)
    }
    #[getter]
    fn tried(&self) -> Vec<u8> {
        members(self.0.tried)
    }
    fn __repr__(&self) -> String {
        format!("<Pending {:?}, tried {:?}>", range(self.0.range), members(self.0.tried))
    }
}

fn pending(all: &[scheduler::Pending]) -> Vec<Pending> {
    all.iter().map(|one| Pending(*one)).collect()
}

/// The connection. A scheduler receives the same object at each decision, with new values; one that it has kept is
/// replaced, and then has none.
#[pyclass(module = "anabranch._anabranch")]
#[derive(Default)]
pub(crate) struct View {
    values: Option<Values>,
}

#[derive(Default)]
struct Values {
    now: Time,
    subflows: Vec<SubflowView>,
    names: Option<Names>,
    /// The same for Python, once they were read.
    objects: Option<Py<PyTuple>>,
    unassigned: Vec<DataRange>,
    reinject: Vec<scheduler::Pending>,
    outstanding: Vec<scheduler::Pending>,
    data_una: u64,
    data_nxt: u64,
    window_end: u64,
    peer_window: u64,
    remaining: u64,
    size_known: bool,
    send_buffer_full: bool,
    send_buffer_max: u64,
    written: u64,
    data_timeouts: u64,
    coupled: bool,
}

impl View {
    /// Takes the values of `view`.
    pub(crate) fn fill(&mut self, view: &scheduler::View<'_>, names: Option<&Names>) {
        fn copy<T: Copy>(to: &mut Vec<T>, from: &[T]) {
            to.clear();
            to.extend_from_slice(from);
        }
        let values = self.values.get_or_insert_default();
        values.objects = None;
        copy(&mut values.subflows, view.subflows);
        copy(&mut values.unassigned, view.unassigned);
        copy(&mut values.reinject, view.reinject);
        copy(&mut values.outstanding, view.outstanding);
        if values.names.is_none() {
            values.names = names.cloned();
        }
        values.now = view.now;
        values.data_una = view.data_una;
        values.data_nxt = view.data_nxt;
        values.window_end = view.window_end;
        values.peer_window = view.peer_window;
        values.remaining = view.remaining;
        values.size_known = view.size_known;
        values.send_buffer_full = view.send_buffer_full;
        values.send_buffer_max = view.send_buffer_max;
        values.written = view.written;
        values.data_timeouts = view.data_timeouts;
        values.coupled = view.coupled;
    }

    /// Removes the values: the decision has been made.
    pub(crate) fn expire(&mut self) {
        self.values = None;
    }

    fn get(&self) -> PyResult<&Values> {
        self.values.as_ref().ok_or_else(expired)
    }
}

fn expired() -> PyErr {
    let text = "this view was that of an earlier call; keep the values that you need, such as `view.now_s`, and not the view";
    Python::attach(|py| errors::scheduler(py, text))
}

#[pymethods]
impl View {
    /// A view for tests: of a sender that has written `size` bytes and sent nothing.
    #[staticmethod]
    #[pyo3(signature = (subflows, size, *, now_s=0.0))]
    fn fresh(subflows: Vec<Bound<'_, Subflow>>, size: u64, now_s: f64) -> PyResult<View> {
        let all: Vec<SubflowView> = subflows.iter().map(|subflow| subflow.get().0).collect();
        let unassigned = [DataRange::new(0, size)];
        let now = Time::ZERO + span("now_s", now_s)?;
        let mut view = View::default();
        view.fill(&scheduler::View::fresh(now, &all, &unassigned), None);
        if let Some(values) = &mut view.values {
            let objects = Python::attach(|py| PyTuple::new(py, subflows).map(Bound::unbind));
            values.objects = objects.ok();
        }
        Ok(view)
    }

    #[getter]
    fn subflows(&mut self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        let values = self.values.as_mut().ok_or_else(expired)?;
        if let Some(objects) = &values.objects {
            return Ok(objects.clone_ref(py));
        }
        let names = &values.names;
        let objects = values.subflows.iter().map(|subflow| Bound::new(py, Subflow(*subflow, names.clone())));
        let objects = PyTuple::new(py, objects.collect::<PyResult<Vec<_>>>()?)?.unbind();
        values.objects = Some(objects.clone_ref(py));
        Ok(objects)
    }

    /// The subflow with this ID; None if there is none.
    fn subflow(&self, id: u8) -> PyResult<Option<Subflow>> {
        let values = self.get()?;
        let found = values.subflows.iter().find(|subflow| subflow.id.0 == id);
        Ok(found.map(|subflow| Subflow(*subflow, values.names.clone())))
    }

    /// The first unassigned bytes that the connection's window admits, at most `limit`.
    #[pyo3(signature = (limit=u64::MAX))]
    fn next_new(&self, limit: u64) -> PyResult<Option<Range>> {
        let values = self.get()?;
        let Some(first) = values.unassigned.first() else { return Ok(None) };
        let end = first.end.min(values.window_end).min(first.start.saturating_add(limit));
        Ok((end > first.start).then_some((first.start, end)))
    }

    #[getter]
    fn now_s(&self) -> PyResult<f64> {
        Ok(self.get()?.now.as_secs_f64())
    }
    #[getter]
    fn unassigned(&self) -> PyResult<Vec<Range>> {
        Ok(self.get()?.unassigned.iter().copied().map(range).collect())
    }
    #[getter]
    fn reinject(&self) -> PyResult<Vec<Pending>> {
        Ok(pending(&self.get()?.reinject))
    }
    #[getter]
    fn outstanding(&self) -> PyResult<Vec<Pending>> {
        Ok(pending(&self.get()?.outstanding))
    }
    #[getter]
    fn data_una(&self) -> PyResult<u64> {
        Ok(self.get()?.data_una)
    }
    #[getter]
    fn data_nxt(&self) -> PyResult<u64> {
        Ok(self.get()?.data_nxt)
    }
    #[getter]
    fn window_end(&self) -> PyResult<u64> {
        Ok(self.get()?.window_end)
    }
    #[getter]
    fn peer_window(&self) -> PyResult<u64> {
        Ok(self.get()?.peer_window)
    }
    #[getter]
    fn remaining(&self) -> PyResult<u64> {
        Ok(self.get()?.remaining)
    }
    #[getter]
    fn size_known(&self) -> PyResult<bool> {
        Ok(self.get()?.size_known)
    }
    #[getter]
    fn send_buffer_full(&self) -> PyResult<bool> {
        Ok(self.get()?.send_buffer_full)
    }
    #[getter]
    fn send_buffer_max(&self) -> PyResult<u64> {
        Ok(self.get()?.send_buffer_max)
    }
    #[getter]
    fn written(&self) -> PyResult<u64> {
        Ok(self.get()?.written)
    }
    #[getter]
    fn data_timeouts(&self) -> PyResult<u64> {
        Ok(self.get()?.data_timeouts)
    }
    #[getter]
    fn coupled(&self) -> PyResult<bool> {
        Ok(self.get()?.coupled)
    }
    fn __repr__(&self) -> String {
        match &self.values {
            Some(values) => {
                let (now, count) = (values.now.as_secs_f64(), values.subflows.len());
                format!("<View at {now} s: {count} subflows, {} bytes remain>", values.remaining)
            }
            None => "<View of an earlier call>".to_owned(),
        }
    }
}

/// An event between two decisions.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Event(pub(crate) SchedulerEvent);

#[pymethods]
impl Event {
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0 {
            SchedulerEvent::SubflowUp(_) => "subflow_up",
            SchedulerEvent::SubflowDown(_) => "subflow_down",
            SchedulerEvent::Written => "written",
            SchedulerEvent::Sent { .. } => "sent",
            SchedulerEvent::Acked { .. } => "acked",
            SchedulerEvent::DataAcked { .. } => "data_acked",
            SchedulerEvent::Lost { .. } => "lost",
            SchedulerEvent::Timeout(_) => "timeout",
        }
    }

    /// The subflow, for events of one.
    #[getter]
    fn subflow(&self) -> Option<u8> {
        match self.0 {
            SchedulerEvent::SubflowUp(subflow)
            | SchedulerEvent::SubflowDown(subflow)
            | SchedulerEvent::Timeout(subflow)
            | SchedulerEvent::Sent { subflow, .. }
            | SchedulerEvent::Acked { subflow, .. }
            | SchedulerEvent::Lost { subflow, .. } => Some(subflow.0),
            SchedulerEvent::Written | SchedulerEvent::DataAcked { .. } => None,
        }
    }

    /// The data that was sent, or acknowledged at the data level.
    #[getter]
    fn range(&self) -> Option<Range> {
        match self.0 {
            SchedulerEvent::Sent { range: sent, .. } => Some(range(sent)),
            SchedulerEvent::DataAcked { from, to, .. } => Some((from, to)),
            _ => None,
        }
    }

    /// The bytes that were acknowledged on a subflow.
    #[getter]
    fn bytes(&self) -> Option<u64> {
        if let SchedulerEvent::Acked { bytes, .. } = self.0 { Some(bytes) } else { None }
    }

    /// The segments that were marked lost.
    #[getter]
    fn segments(&self) -> Option<u32> {
        if let SchedulerEvent::Lost { segments, .. } = self.0 { Some(segments) } else { None }
    }

    /// The subflows that carried the first bytes of a data acknowledgement.
    #[getter]
    fn carried_by(&self) -> Vec<u8> {
        if let SchedulerEvent::DataAcked { carried_by, .. } = self.0 {
            members(carried_by)
        } else {
            Vec::new()
        }
    }

    fn __repr__(&self) -> String {
        format!("<Event {:?}>", self.0)
    }
}
