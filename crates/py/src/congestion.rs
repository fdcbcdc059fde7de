//! Window rules of congestion controls written in Python.

use std::sync::Arc;

use anabranch_stack::congestion::classic::{Change, Reduction, Step, Window, WindowRule, Windows};
use anabranch_stack::congestion::{Ack, Classic, CongestionKind, CustomCongestion, CustomCongestionKind};
use anabranch_stack::event::SubflowId;
use anabranch_units::{Duration, Time};
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

use crate::errors;
use crate::work::Control;

/// The methods of a rule, in the order of [`Methods`].
const METHODS: [&str; 7] =
    ["observe", "on_round", "increase", "decrease", "least_threshold", "window_at", "on_change"];

const OBSERVE: usize = 0;
const ON_ROUND: usize = 1;
const INCREASE: usize = 2;
const DECREASE: usize = 3;
const LEAST_THRESHOLD: usize = 4;
const WINDOW_AT: usize = 5;
const ON_CHANGE: usize = 6;

pub(crate) fn span(name: &str, seconds: f64) -> PyResult<Duration> {
    match seconds.is_finite() && seconds >= 0.0 {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(errors::argument(format!("`{name}` is {seconds} s; give a time from 0"))),
    }
}

/// The window of one subflow.
#[pyclass(frozen, name = "Window", module = "anabranch._anabranch")]
pub(crate) struct OneWindow(Window);

#[pymethods]
impl OneWindow {
    /// A window for tests, of an established subflow.
    #[new]
    #[pyo3(signature = (segments, ssthresh=None, srtt_s=0.0, *, mss=1400, recovering=false))]
    fn new(
        segments: f64,
        ssthresh: Option<f64>,
        srtt_s: f64,
        mss: u64,
        recovering: bool,
    ) -> PyResult<OneWindow> {
        let ssthresh = ssthresh.unwrap_or(f64::INFINITY);
        let srtt = span("srtt_s", srtt_s)?;
        Ok(OneWindow(Window { up: true, segments, ssthresh, srtt, mss: mss.max(1), recovering }))
    }
    #[getter]
    fn segments(&self) -> f64 {
        self.0.segments
    }
    #[getter]
    fn ssthresh(&self) -> f64 {
        self.0.ssthresh
    }
    #[getter]
    fn srtt_s(&self) -> f64 {
        self.0.srtt.as_secs_f64()
    }
    #[getter]
    fn mss(&self) -> u64 {
        self.0.mss
    }
    #[getter]
    fn recovering(&self) -> bool {
        self.0.recovering
    }
    #[getter]
    fn in_slow_start(&self) -> bool {
        self.0.in_slow_start()
    }
    fn __repr__(&self) -> String {
        let Window { segments, ssthresh, .. } = self.0;
        format!("<Window: segments={segments}, ssthresh={ssthresh}, srtt_s={}>", self.srtt_s())
    }
}

/// The windows of all subflows. A rule receives the same object at each call, with new values.
#[pyclass(name = "Windows", module = "anabranch._anabranch")]
#[derive(Default)]
pub(crate) struct AllWindows(Windows);

#[pymethods]
impl AllWindows {
    /// Windows for tests, of the subflows 0, 1, ...
    #[new]
    fn new(windows: Vec<Bound<'_, OneWindow>>) -> AllWindows {
        AllWindows(Windows::new(windows.iter().map(|window| window.get().0).collect()))
    }

    fn __getitem__(&self, id: u8) -> PyResult<OneWindow> {
        let window = self.0.get(SubflowId(id));
        match window.up {
            true => Ok(OneWindow(window)),
            false => Err(errors::missing(format!("there is no subflow {id}"))),
        }
    }

    fn __len__(&self) -> usize {
        self.0.iter().count()
    }

    /// The windows of the established subflows, with their IDs.
    fn items(&self) -> Vec<(u8, OneWindow)> {
        self.0.iter().map(|(id, window)| (id.0, OneWindow(*window))).collect()
    }

    /// ID, window in segments and smoothed round-trip time in seconds of the subflows that have a sample; if none has,
    /// of all of them with equal times.
    fn measured(&self) -> Vec<(u8, f64, f64)> {
        self.0.measured().map(|(id, segments, srtt_s)| (id.0, segments, srtt_s)).collect()
    }

    fn __repr__(&self) -> String {
        format!("<Windows of {} subflows>", self.__len__())
    }
}

/// The congestion signals of one acknowledgement.
#[pyclass(frozen, name = "Ack", module = "anabranch._anabranch")]
pub(crate) struct OneAck(Ack);

#[pymethods]
impl OneAck {
    /// An acknowledgement for tests: outside of recovery, with a used window, after which nothing is in flight.
    #[staticmethod]
    fn of(now_s: f64, bytes: u64, segments: u32, rtt_s: f64) -> PyResult<OneAck> {
        let now = Time::ZERO + span("now_s", now_s)?;
        Ok(OneAck(Ack::of(now, bytes, segments, span("rtt_s", rtt_s)?)))
    }
    #[getter]
    fn now_s(&self) -> f64 {
        self.0.now.as_secs_f64()
    }
    #[getter]
    fn acked_bytes(&self) -> u64 {
        self.0.acked_bytes
    }
    #[getter]
    fn acked_segments(&self) -> u32 {
        self.0.acked_segments
    }
    #[getter]
    fn lost_bytes(&self) -> u64 {
        self.0.lost_bytes
    }
    #[getter]
    fn rtt_s(&self) -> Option<f64> {
        self.0.rtt.map(Duration::as_secs_f64)
    }
    #[getter]
    fn srtt_s(&self) -> f64 {
        self.0.srtt.as_secs_f64()
    }
    #[getter]
    fn min_rtt_s(&self) -> f64 {
        self.0.min_rtt.as_secs_f64()
    }
    #[getter]
    fn one_way_delay_us(&self) -> Option<i64> {
        self.0.one_way_delay_us
    }
    #[getter]
    fn delivery_rate_bps(&self) -> Option<u64> {
        self.0.delivery_rate.map(|rate| rate.0)
    }
    #[getter]
    fn app_limited(&self) -> bool {
        self.0.app_limited
    }
    #[getter]
    fn cwnd_limited(&self) -> bool {
        self.0.cwnd_limited
    }
    #[getter]
    fn ce(&self) -> bool {
        self.0.ce
    }
    #[getter]
    fn inflight_bytes(&self) -> u64 {
        self.0.inflight_bytes
    }
    #[getter]
    fn in_recovery(&self) -> bool {
        self.0.in_recovery
    }
    #[getter]
    fn una_advanced(&self) -> bool {
        self.0.una_advanced
    }
    #[getter]
    fn round_start(&self) -> bool {
        self.0.round_start
    }
    fn __repr__(&self) -> String {
        format!("<Ack at {} s: {} bytes>", self.now_s(), self.0.acked_bytes)
    }
}

/// A name of a change in Python, and the length of the idle time that it ended.
fn change_name(change: Change) -> (&'static str, Option<f64>) {
    match change {
        Change::Up => ("up", None),
        Change::Down => ("down", None),
        Change::SlowStart => ("slow_start", None),
        Change::NotLimited => ("not_limited", None),
        Change::Reduced => ("reduced", None),
        Change::Recovered => ("recovered", None),
        Change::Timeout => ("timeout", None),
        Change::Undone => ("undone", None),
        Change::UndoneLate => ("undone_late", None),
        Change::Resumed(idle) => ("resumed", Some(idle.as_secs_f64())),
        Change::Restarted => ("restarted", None),
        Change::Penalised => ("penalised", None),
    }
}

/// A congestion control with a window rule in Python.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Congestion {
    name: String,
    /// Returns a new rule; one for each connection.
    build: Py<PyAny>,
    /// True for each of [`METHODS`] that the rule has itself.
    own: [bool; METHODS.len()],
    coupled: bool,
}

#[pymethods]
impl Congestion {
    #[new]
    fn new(name: String, build: Py<PyAny>, methods: Vec<String>, coupled: bool) -> Congestion {
        let own = METHODS.map(|name| methods.iter().any(|method| method == name));
        Congestion { name, build, own, coupled }
    }

    /// The methods of a rule.
    #[classattr]
    fn methods() -> Vec<&'static str> {
        METHODS.into()
    }
}

impl Congestion {
    /// Returns its kind. Exceptions of the rule stop the work of `control`.
    pub(crate) fn kind(&self, py: Python<'_>, control: &Arc<Control>) -> CongestionKind {
        let (build, own, control) = (self.build.clone_ref(py), self.own, control.clone());
        let make = move || {
            let made = Python::attach(|py| Object::new(py, build.call0(py)?, &own));
            let object = made.map_err(|error| control.stop(error)).ok();
            let control = control.clone();
            match own[WINDOW_AT] {
                true => Box::new(Classic::new(PythonRule::<true> { object, own, control }))
                    as Box<dyn CustomCongestion>,
                false => Box::new(Classic::new(PythonRule::<false> { object, own, control })),
            }
        };
        CongestionKind::Custom(CustomCongestionKind::new(&self.name, self.coupled, make))
    }
}

/// A rule of Python, its methods, and the windows that it is called with.
struct Object {
    rule: Py<PyAny>,
    methods: [Option<Py<PyAny>>; METHODS.len()],
    windows: Py<AllWindows>,
}

impl Object {
    fn new(py: Python<'_>, rule: Py<PyAny>, own: &[bool; METHODS.len()]) -> PyResult<Object> {
        let mut methods = [const { None }; METHODS.len()];
        for (at, method) in methods.iter_mut().enumerate().filter(|(at, _)| own[*at]) {
            *method = Some(rule.getattr(py, METHODS[at])?);
        }
        Ok(Object { rule, methods, windows: Py::new(py, AllWindows::default())? })
    }

    fn copy(&self, py: Python<'_>, own: &[bool; METHODS.len()]) -> PyResult<Object> {
        let copied = py.import("copy")?.call_method1("deepcopy", (&self.rule,))?;
        Object::new(py, copied.unbind(), own)
    }
}

/// A rule of Python in the stack. `BY_TIME` if it has `window_at`. After an exception it has the defaults, and the work
/// is stopped.
struct PythonRule<const BY_TIME: bool> {
    object: Option<Object>,
    own: [bool; METHODS.len()],
    control: Arc<Control>,
}

impl<const BY_TIME: bool> Clone for PythonRule<BY_TIME> {
    fn clone(&self) -> Self {
        let object = self.object.as_ref().and_then(|object| {
            let copied = Python::attach(|py| object.copy(py, &self.own));
            copied.map_err(|error| self.control.stop(error)).ok()
        });
        PythonRule { object, own: self.own, control: self.control.clone() }
    }
}

impl<const BY_TIME: bool> PythonRule<BY_TIME> {
    /// Calls a method, if the rule has it, with the windows and the arguments that `arguments` makes of them, and
    /// converts its answer.
    fn call<A: for<'py> PyCallArgs<'py>, T>(
        &self,
        method: usize,
        windows: &Windows,
        arguments: impl FnOnce(Py<AllWindows>) -> A,
        answer: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        let object = self.object.as_ref().filter(|_| !self.control.is_stopped())?;
        let own = object.methods[method].as_ref()?;
        let result = Python::attach(|py| {
            object.windows.bind(py).try_borrow_mut()?.0.clone_from(windows);
            answer(&own.bind(py).call1(arguments(object.windows.clone_ref(py)))?)
        });
        result.map_err(|error| self.control.stop(error)).ok()
    }
}

/// Returns the number that a method answered.
fn number(method: usize) -> impl FnOnce(&Bound<'_, PyAny>) -> PyResult<f64> {
    move |answer| {
        answer.extract().map_err(|_| {
            let found =
                answer.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
            let message = format!("`{}` returned {found}; return a number of segments", METHODS[method]);
            errors::scheduler(answer.py(), &message)
        })
    }
}

/// Returns the pair of window and threshold that `on_round` answered; none for none.
fn step(answer: &Bound<'_, PyAny>) -> PyResult<Option<Step>> {
    if answer.is_none() {
        return Ok(None);
    }
    let (segments, ssthresh) = answer.extract().map_err(|_| {
        let message = "`on_round` returns None, or the window and the threshold in segments: (10.0, 20.0)";
        errors::scheduler(answer.py(), message)
    })?;
    Ok(Some(Step { segments, ssthresh }))
}

impl<const BY_TIME: bool> WindowRule for PythonRule<BY_TIME> {
    const BY_TIME: bool = BY_TIME;

    fn observe(&mut self, windows: &Windows, id: SubflowId, ack: &Ack) {
        self.call(OBSERVE, windows, |all| (all, id.0, OneAck(*ack)), |_| Ok(()));
    }

    fn on_round(&mut self, windows: &Windows, id: SubflowId, ack: &Ack) -> Option<Step> {
        self.call(ON_ROUND, windows, |all| (all, id.0, OneAck(*ack)), step).flatten()
    }

    fn increase(&mut self, windows: &Windows, id: SubflowId, acked: f64, ack: &Ack) -> f64 {
        let arguments = |all| (all, id.0, acked, OneAck(*ack));
        self.call(INCREASE, windows, arguments, number(INCREASE)).unwrap_or(0.0)
    }

    fn decrease(&mut self, windows: &Windows, id: SubflowId, flight: f64, reduction: Reduction) -> f64 {
        let reason = match reduction {
            Reduction::Loss => "loss",
            Reduction::Mark => "mark",
            Reduction::Timeout => "timeout",
        };
        let arguments = |all| (all, id.0, flight, reason);
        // RFC 5681 equation 4, as of a rule in Rust without this method.
        self.call(DECREASE, windows, arguments, number(DECREASE)).unwrap_or_else(|| (flight / 2.0).floor())
    }

    fn least_threshold(&self, windows: &Windows) -> f64 {
        self.call(LEAST_THRESHOLD, windows, |all| (all,), number(LEAST_THRESHOLD)).unwrap_or(2.0)
    }

    fn window_at(&self, windows: &Windows, id: SubflowId, now: Time, ahead: Duration) -> Option<f64> {
        let arguments = |all| (all, id.0, now.as_secs_f64(), ahead.as_secs_f64());
        self.call(WINDOW_AT, windows, arguments, number(WINDOW_AT))
    }

    fn on_change(&mut self, windows: &Windows, id: SubflowId, now: Time, change: Change) {
        let (name, idle_s) = change_name(change);
        self.call(ON_CHANGE, windows, |all| (all, id.0, now.as_secs_f64(), name, idle_s), |_| Ok(()));
    }
}
