"""Multipath TCP, simulated: which scheduler serves your paths and your traffic best?

>>> import anabranch
>>> result = anabranch.compare("figure8", runs=2, schedulers=["tcp", "min_rtt"])
>>> [row.scheduler for row in result.rows]
['tcp', 'min_rtt']

docs/python.md is the guide.
"""

from anabranch import _anabranch, congestion, scheduler, style
from anabranch._anabranch import Table
from anabranch.advice import Advice, advise
from anabranch.comparison import Comparison, compare
from anabranch.congestion import WindowRule
from anabranch.dmptcp import ModelRound, PathChoice, model, select
from anabranch.exceptions import (
    AnabranchError,
    ArgumentError,
    CaptureError,
    NotFoundError,
    RunError,
    ScenarioError,
    SchedulerError,
    SchedulerWarning,
    SweepError,
)
from anabranch.explaining import Explanation, explain
from anabranch.inspecting import CaptureSimulation, Inspection, inspect
from anabranch.network import Link, Node, Path, Route
from anabranch.recording import Recording
from anabranch.reproducing import Reproduction, reproduce
from anabranch.running import Run, run
from anabranch.scenario import Scenario, builtin_scenarios
from anabranch.scheduler import Assign, Event, Recall, Scheduler, Subflow, View, Wait
from anabranch.sweeping import Plan, Range, Sweep, sweep

__version__ = _anabranch.VERSION

__all__ = [
    "Advice",
    "AnabranchError",
    "ArgumentError",
    "Assign",
    "CaptureError",
    "CaptureSimulation",
    "Comparison",
    "Event",
    "Explanation",
    "Inspection",
    "Link",
    "ModelRound",
    "Node",
    "NotFoundError",
    "Path",
    "PathChoice",
    "Plan",
    "Range",
    "Recall",
    "Recording",
    "Reproduction",
    "Route",
    "Run",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Scheduler",
    "SchedulerError",
    "SchedulerWarning",
    "Subflow",
    "Sweep",
    "SweepError",
    "Table",
    "View",
    "Wait",
    "WindowRule",
    "__version__",
    "advise",
    "builtin_scenarios",
    "compare",
    "congestion",
    "explain",
    "inspect",
    "model",
    "reproduce",
    "run",
    "scheduler",
    "select",
    "style",
    "sweep",
]
