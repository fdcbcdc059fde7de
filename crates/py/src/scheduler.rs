//! Schedulers written in Python.

use std::sync::Arc;

use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::event::SubflowId;
use anabranch_stack::scheduler::{
    self, AssignKind, CustomScheduler, CustomSchedulerKind, Decision, EventKinds, Rule, SchedulerEvent,
    SchedulerKind, Why,
};
use anabranch_stack::seq::DataRange;
use anabranch_units::{Duration, Time};
use pyo3::exceptions::PyOverflowError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::congestion::Congestion;
use crate::errors;
use crate::view::{Event, Names, Subflow, View};
use crate::work::Control;

/// The names of events in `Scheduler.events`.
const EVENTS: &[(&str, EventKinds)] = &[
    ("subflow_up", EventKinds::SUBFLOW_UP),
    ("subflow_down", EventKinds::SUBFLOW_DOWN),
    ("written", EventKinds::WRITTEN),
    ("sent", EventKinds::SENT),
    ("acked", EventKinds::ACKED),
    ("data_acked", EventKinds::DATA_ACKED),
    ("lost", EventKinds::LOST),
    ("timeout", EventKinds::TIMEOUT),
];

/// The reason of a decision: a number of the scheduler's own, and two scores.
fn why(rule: u16, score: Option<f64>, other: Option<f64>) -> Why {
    Why::scored(Rule::Custom(rule), score.unwrap_or(f64::NAN), other.unwrap_or(f64::NAN))
}

/// Returns the ID of a subflow, which is given by its view or by its number.
fn id(subflow: &Bound<'_, PyAny>) -> PyResult<SubflowId> {
    match subflow.cast::<Subflow>() {
        Ok(subflow) => Ok(subflow.get().0.id),
        Err(_) => {
            subflow.extract().map(SubflowId).map_err(|error| fits(subflow, "no number of a subflow", error))
        }
    }
}

/// Replaces the error of a number that is too large or negative.
fn fits(value: &Bound<'_, PyAny>, what: &str, error: PyErr) -> PyErr {
    match error.is_instance_of::<PyOverflowError>(value.py()) {
        true => errors::argument(format!("{value} is {what}")),
        false => error,
    }
}

fn data(range: &Bound<'_, PyAny>) -> PyResult<DataRange> {
    let (start, end) = range.extract().map_err(|error| fits(range, "no range of a stream", error))?;
    match start < end {
        true => Ok(DataRange::new(start, end)),
        false => Err(errors::argument(format!("the range ({start}, {end}) is empty"))),
    }
}

/// Puts a range into the queue of a subflow.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Assign(Decision);

#[pymethods]
impl Assign {
    #[new]
    #[pyo3(signature = (subflow, range, kind="new", *, rule=0, score=None, other=None))]
    fn new(
        subflow: &Bound<'_, PyAny>,
        range: &Bound<'_, PyAny>,
        kind: &str,
        rule: u16,
        score: Option<f64>,
        other: Option<f64>,
    ) -> PyResult<Assign> {
        let kind = match kind {
            "new" => AssignKind::New,
            "copy" => AssignKind::Copy,
            "reinject" => AssignKind::Reinject,
            _ => {
                let message = format!("`{kind}` is no kind of data; there are new, copy and reinject");
                return Err(errors::argument(message));
            }
        };
        let (subflow, range) = (id(subflow)?, data(range)?);
        Ok(Assign(Decision::Assign { subflow, range, kind, why: why(rule, score, other) }))
    }

    /// For pickle and copies.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduced(py, self.0)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        same(self.0, other)
    }
}

/// Takes unsent data back from the queue of a subflow.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Recall(Decision);

#[pymethods]
impl Recall {
    #[new]
    #[pyo3(signature = (subflow, range, *, rule=0, score=None, other=None))]
    fn new(
        subflow: &Bound<'_, PyAny>,
        range: &Bound<'_, PyAny>,
        rule: u16,
        score: Option<f64>,
        other: Option<f64>,
    ) -> PyResult<Recall> {
        let (subflow, range) = (id(subflow)?, data(range)?);
        Ok(Recall(Decision::Recall { subflow, range, why: why(rule, score, other) }))
    }

    /// For pickle and copies.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduced(py, self.0)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        same(self.0, other)
    }
}

/// Assigns no more until something happens, or until a time.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Wait(Decision);

#[pymethods]
impl Wait {
    #[new]
    #[pyo3(signature = (until_s=None, *, rule=0, score=None, other=None))]
    fn new(until_s: Option<f64>, rule: u16, score: Option<f64>, other: Option<f64>) -> PyResult<Wait> {
        let until = match until_s {
            Some(until) if until.is_finite() && until >= 0.0 => {
                Some(Time::ZERO + Duration::from_secs_f64(until))
            }
            Some(until) => {
                return Err(errors::argument(format!("{until} s is no time of a simulation")));
            }
            None => None,
        };
        Ok(Wait(Decision::Wait { until, why: why(rule, score, other) }))
    }

    /// For pickle and copies.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduced(py, self.0)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        same(self.0, other)
    }
}

/// A function, and its arguments.
type Reduced<'py> = (Bound<'py, PyAny>, Bound<'py, PyTuple>);

/// Returns the call that makes `decision`.
fn reduced(py: Python<'_>, decision: Decision) -> PyResult<Reduced<'_>> {
    let why = |why: Why| {
        let rule = match why.rule {
            Rule::Custom(rule) => rule,
            _ => 0,
        };
        let score = |score: f64| (!score.is_nan()).then_some(score);
        let keys = PyDict::new(py);
        keys.set_item("rule", rule)?;
        keys.set_item("score", score(why.score))?;
        keys.set_item("other", score(why.other))?;
        Ok::<_, PyErr>(keys)
    };
    let (class, arguments, keys) = match decision {
        Decision::Assign { subflow, range, kind, why: own } => {
            let kind = match kind {
                AssignKind::New => "new",
                AssignKind::Copy => "copy",
                AssignKind::Reinject => "reinject",
            };
            let arguments = (subflow.0, (range.start, range.end), kind).into_pyobject(py)?;
            (py.get_type::<Assign>(), arguments, why(own)?)
        }
        Decision::Recall { subflow, range, why: own } => {
            let arguments = (subflow.0, (range.start, range.end)).into_pyobject(py)?;
            (py.get_type::<Recall>(), arguments, why(own)?)
        }
        Decision::Wait { until, why: own } => {
            let until = until.map(|until| (until - Time::ZERO).as_secs_f64());
            (py.get_type::<Wait>(), (until,).into_pyobject(py)?, why(own)?)
        }
    };
    let partial = py.import("functools")?.getattr("partial")?.call((class,), Some(&keys))?;
    Ok((partial, arguments))
}

/// True if `other` is an equal decision. A missing score equals a missing one.
fn same(decision: Decision, other: &Bound<'_, PyAny>) -> bool {
    self::decision(other).is_ok_and(|other| format!("{other:?}") == format!("{decision:?}"))
}

/// Returns the decision that `answer` is.
fn decision(answer: &Bound<'_, PyAny>) -> PyResult<Decision> {
    if let Ok(assign) = answer.cast::<Assign>() {
        return Ok(assign.get().0);
    }
    if let Ok(wait) = answer.cast::<Wait>() {
        return Ok(wait.get().0);
    }
    if let Ok(recall) = answer.cast::<Recall>() {
        return Ok(recall.get().0);
    }
    let found = answer.get_type().name()?;
    let message = format!("`decide` returned {found}; return Assign, Recall or Wait");
    Err(errors::scheduler(answer.py(), &message))
}

/// A contender with a scheduler, a window rule, or both in Python.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Contender {
    name: String,
    scheduler: Option<Py<Custom>>,
    congestion: Option<Py<Congestion>>,
}

#[pymethods]
impl Contender {
    #[new]
    fn new(name: String, scheduler: Option<Py<Custom>>, congestion: Option<Py<Congestion>>) -> Contender {
        Contender { name, scheduler, congestion }
    }
}

impl Contender {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Replaces the scheduler and the congestion control of `config`; exceptions stop the work of `control`.
    /// `names` are the names of the paths.
    pub(crate) fn apply(
        &self,
        py: Python<'_>,
        control: &Arc<Control>,
        names: &Names,
        config: &mut ConnectionConfig,
    ) {
        if let Some(scheduler) = &self.scheduler {
            config.scheduler = scheduler.get().kind(py, control, names);
        }
        if let Some(congestion) = &self.congestion {
            config.congestion = congestion.get().kind(py, control);
        }
    }
}

/// A scheduler in Python.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Custom {
    name: String,
    /// Returns a new scheduler; one for each connection.
    build: Py<PyAny>,
    traits: Traits,
}

/// The answers of a scheduler that are asked for once.
#[derive(Clone, Copy)]
struct Traits {
    events: EventKinds,
    revises_queues: bool,
    decides_alone: bool,
}

#[pymethods]
impl Custom {
    #[new]
    fn new(
        name: String,
        build: Py<PyAny>,
        events: Vec<String>,
        revises_queues: bool,
        decides_alone: bool,
    ) -> PyResult<Custom> {
        let mut kinds = EventKinds::NONE;
        for event in events {
            let Some((_, kind)) = EVENTS.iter().find(|(name, _)| *name == event) else {
                let names: Vec<&str> = EVENTS.iter().map(|(name, _)| *name).collect();
                let message = format!("there is no event `{event}`; there are {}", names.join(", "));
                return Err(errors::argument(message));
            };
            kinds = kinds.and(*kind);
        }
        Ok(Custom { name, build, traits: Traits { events: kinds, revises_queues, decides_alone } })
    }
}

impl Custom {
    /// Returns its kind. Exceptions of the scheduler stop the work of `control`.
    fn kind(&self, py: Python<'_>, control: &Arc<Control>, names: &Names) -> SchedulerKind {
        let (build, traits, control) = (self.build.clone_ref(py), self.traits, control.clone());
        let (names, name) = (names.clone(), Arc::<str>::from(self.name.as_str()));
        let make = move || {
            let made = Python::attach(|py| Object::new(py, build.call0(py)?, names.clone()));
            let object = made.map_err(|error| control.stop(error)).ok();
            let (name, control) = (name.clone(), control.clone());
            Box::new(PythonScheduler { name, object, traits, control }) as Box<dyn CustomScheduler>
        };
        SchedulerKind::Custom(CustomSchedulerKind::new(&self.name, make))
    }
}

/// A scheduler of Python, and the view that it is called with.
struct Object {
    scheduler: Py<PyAny>,
    decide: Py<PyAny>,
    view: Py<View>,
    names: Names,
}

impl Object {
    fn new(py: Python<'_>, scheduler: Py<PyAny>, names: Names) -> PyResult<Object> {
        let decide = scheduler.getattr(py, intern!(py, "decide"))?;
        Ok(Object { scheduler, decide, view: Py::new(py, View::default())?, names })
    }

    fn decide(&mut self, py: Python<'_>, view: &scheduler::View<'_>) -> PyResult<Decision> {
        self.view.bind(py).try_borrow_mut()?.fill(view, Some(&self.names));
        let answer = self.decide.bind(py).call1((&self.view,))?;
        self.end(py)?;
        decision(&answer)
    }

    fn on_event(
        &mut self,
        py: Python<'_>,
        view: &scheduler::View<'_>,
        event: SchedulerEvent,
    ) -> PyResult<()> {
        self.view.bind(py).try_borrow_mut()?.fill(view, Some(&self.names));
        let arguments = (&self.view, Event(event));
        self.scheduler.bind(py).call_method1(intern!(py, "on_event"), arguments)?;
        self.end(py)
    }

    /// Ends a call. A view that the scheduler has kept would have the values of a later call, so it gets none, and the next
    /// call gets another view.
    #[expect(deprecated, reason = "the other function is unsafe")]
    fn end(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.view.get_refcnt(py) > 1 {
            self.view.bind(py).try_borrow_mut()?.expire();
            self.view = Py::new(py, View::default())?;
        }
        Ok(())
    }

    /// Returns a copy with a copy of the scheduler's state.
    fn copy(&self, py: Python<'_>) -> PyResult<Object> {
        let copied = py.import("copy")?.call_method1("deepcopy", (&self.scheduler,))?;
        Object::new(py, copied.unbind(), self.names.clone())
    }
}

/// Returns why the stack refuses a decision, by the rules of the view; none if it does not. A recall is refused if the queue
/// does not have the data, which the view does not show.
fn refusal(decision: &Decision, view: &scheduler::View<'_>) -> Option<String> {
    let subflow = |id: SubflowId| view.subflows.iter().find(|subflow| subflow.id == id);
    match *decision {
        Decision::Assign { subflow: id, range, kind, .. } => {
            let within =
                |inner: DataRange, outer: DataRange| outer.start <= inner.start && inner.end <= outer.end;
            let shown = |range: DataRange| format!("({}, {})", range.start, range.end);
            match subflow(id) {
                None => return Some(format!("there is no subflow {}", id.0)),
                Some(subflow) if !subflow.usable => return Some(format!("subflow {} is not usable", id.0)),
                Some(_) => {}
            }
            if range.end > view.window_end {
                return Some(format!(
                    "{} is beyond the window, which ends at {}",
                    shown(range),
                    view.window_end
                ));
            }
            if range.start < view.data_una {
                return Some(format!("{} is acknowledged up to {}", shown(range), view.data_una));
            }
            match kind {
                AssignKind::New if !view.unassigned.iter().any(|part| within(range, *part)) => {
                    Some(format!("{} is not unassigned data", shown(range)))
                }
                AssignKind::Copy | AssignKind::Reinject => {
                    let part = |one: &scheduler::Pending| {
                        one.range.end.min(range.end).saturating_sub(one.range.start.max(range.start))
                    };
                    let there: u64 = view.outstanding.iter().map(part).sum();
                    (there != range.len()).then(|| format!("{} is not outstanding data", shown(range)))
                }
                AssignKind::New => None,
            }
        }
        Decision::Recall { subflow: id, .. } if subflow(id).is_none() => {
            Some(format!("there is no subflow {}", id.0))
        }
        Decision::Recall { subflow: id, .. } if subflow(id).is_some_and(|subflow| subflow.queued == 0) => {
            Some(format!("the queue of subflow {} is empty", id.0))
        }
        Decision::Recall { .. } | Decision::Wait { .. } => None,
    }
}

/// A scheduler of Python in the stack. After an exception it only waits, and the work is stopped.
struct PythonScheduler {
    name: Arc<str>,
    object: Option<Object>,
    traits: Traits,
    control: Arc<Control>,
}

impl PythonScheduler {
    fn call<T>(&mut self, call: impl FnOnce(Python<'_>, &mut Object) -> PyResult<T>) -> Option<T> {
        let object = self.object.as_mut().filter(|_| !self.control.is_stopped())?;
        match Python::attach(|py| call(py, object)) {
            Ok(value) => Some(value),
            Err(error) => {
                self.control.stop(error);
                None
            }
        }
    }
}

impl scheduler::Scheduler for PythonScheduler {
    fn decide(&mut self, view: &scheduler::View<'_>) -> Decision {
        let decision = self.call(|py, object| object.decide(py, view));
        if let Some(decision) = &decision
            && let Some(why) = refusal(decision, view)
        {
            self.control.refuse(&self.name, why);
        }
        decision.unwrap_or(Decision::Wait { until: None, why: why(0, None, None) })
    }

    fn on_event(&mut self, view: &scheduler::View<'_>, event: &SchedulerEvent) {
        self.call(|py, object| object.on_event(py, view, *event));
    }

    fn wants_events(&self) -> EventKinds {
        self.traits.events
    }

    fn revises_queues(&self) -> bool {
        self.traits.revises_queues
    }

    fn decides_alone(&self) -> bool {
        self.traits.decides_alone
    }
}

impl CustomScheduler for PythonScheduler {
    fn clone_box(&self) -> Box<dyn CustomScheduler> {
        let object = self.object.as_ref().and_then(|object| {
            Python::attach(|py| object.copy(py)).map_err(|error| self.control.stop(error)).ok()
        });
        let (name, control) = (self.name.clone(), self.control.clone());
        Box::new(PythonScheduler { name, object, traits: self.traits, control })
    }
}
