"""The records of results, with the names of the command's JSON."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from anabranch._records import Difference, Interval, Row, Statistics
from anabranch.exceptions import NotFoundError

__all__ = [
    "Change",
    "Checked",
    "Difference",
    "Excess",
    "Explained",
    "Finding",
    "Interval",
    "Largest",
    "Line",
    "OutagePart",
    "PathPart",
    "Row",
    "Standing",
    "Statistics",
    "TimePart",
    "Tried",
    "Verdict",
]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict for a condition, a class of traffic and a measure."""

    condition: str
    measure: str
    outcome: str
    best: list[str]
    traffic: str | None = None
    """The class of traffic, in a scenario with classes."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A contender over all points of a sweep."""

    condition: str
    scheduler: str
    best: int
    better: int
    equal: int
    worse: int
    undecided: int
    incomplete: int
    median_pct: float | None
    least: tuple[float, int] | None
    greatest: tuple[float, int] | None
    traffic: str | None = None
    """The class of traffic, in a scenario with classes."""


@dataclass(frozen=True, kw_only=True)
class PathPart:
    """The part of a time that concerns one path, the mean over flows."""

    path: str
    mean_s: float


@dataclass(frozen=True, kw_only=True)
class TimePart:
    """The part of a time that has one cause."""

    cause: str
    mean_s: float
    share_pct: float
    sum_ns: int | None = None
    """The sum over flows; ``None`` for the account of bytes."""
    by_path: list[PathPart] = dataclasses.field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class OutagePart:
    """The time of waiting because of an outage of a path, the mean over flows."""

    path: str
    from_s: float
    until_s: float | None
    mean_s: float


@dataclass(frozen=True, kw_only=True)
class Largest:
    """The largest cause, and the path that has most of it."""

    cause: str
    path: str | None
    mean_s: float
    share_pct: float


@dataclass(frozen=True, kw_only=True)
class Excess:
    """The comparison with the fastest contender of the condition."""

    than: str
    total_s: float
    cause: str
    path: str | None
    cause_s: float


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change that was run, and its effect on the mean completion time, for bulk on the goodput."""

    what: str
    mean_s: float | None
    effect_pct: Difference
    helps: bool | None
    """``None`` if the runs cannot tell."""
    setting: bool
    """Whether it is a setting of the hosts, and not of the network or its traffic."""


@dataclass(frozen=True, kw_only=True)
class Explained:
    """Where the time of a contender's flows went in a condition."""

    scheduler: str
    congestion: str
    condition: str
    path: str | None
    n: int
    completed: int
    explained: int
    mean_s: float | None
    total_ns: int
    parts: list[TimePart]
    """The parts of the time of a flow, one for each cause."""
    byte_mean_s: float | None
    bytes: list[TimePart]
    """The parts of the time of a byte."""
    outages: list[OutagePart]
    """The parts of ``outage``, by outage."""
    longest_gap_s: float | None
    largest: Largest | None
    excess: Excess | None
    changes: list[Change]
    """The changes that were run, the best first."""
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Line:
    """A judgement in numbers and words."""

    condition: str
    status: str
    of: float | None
    to: float | None
    value: float | None
    interval: Interval | None
    runs: int
    words: str


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A check of a claim with its judgements, one for each condition."""

    source: str
    required: str
    names: tuple[str, str | None]
    """The contender, and that with which it is compared."""
    unit: str
    lines: list[Line]


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The result of a claim with a variant."""

    name: str
    what: str
    status: str
    checks: list[Checked]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of a claim."""

    id: str
    paper: str
    figure: str
    kind: str
    claim: str
    status: str
    """``holds``, ``variant``, ``fails``, ``undecided``, ``not_checkable`` or ``not_run``."""
    evidence: str
    numbers: str
    reason: str
    finding: str
    checks: list[Checked]
    variants: list[Tried]


Record = TypeVar("Record")
AnyRow = TypeVar("AnyRow", Row, Explained)


def row_of(rows: list[AnyRow], scheduler: str, condition: str | None, traffic: str | None = None) -> AnyRow:
    """Return the row of a contender, in the first condition and class of traffic unless they are named."""
    classes = list(dict.fromkeys(getattr(row, "traffic", None) for row in rows))
    if traffic is not None and traffic not in classes:
        names = ", ".join(filter(None, classes))
        message = (
            f"there is no class of traffic {traffic!r}; there are {names}"
            if names
            else (f"there is no class of traffic {traffic!r}; the traffic of this result has no classes")
        )
        raise NotFoundError(message)
    for row in rows:
        of = getattr(row, "traffic", None)
        if row.scheduler == scheduler and condition in {None, row.condition} and traffic in {None, of}:
            return row
    conditions = list(dict.fromkeys(row.condition for row in rows))
    if condition is not None and condition not in conditions:
        names = ", ".join(map(repr, filter(None, conditions)))
        message = f"there is no condition {condition!r}; "
        message += f"there are {names}" if names else "this result has only one, without a name"
        raise NotFoundError(message)
    known = ", ".join(dict.fromkeys(row.scheduler for row in rows))
    message = f"there is no row for {scheduler!r}; there are {known}"
    raise NotFoundError(message)


def record(kind: type[Record], data: dict[str, Any]) -> Record:
    """Return ``data`` of the command's JSON as a record."""
    hints = _hints(kind)  # type: ignore[arg-type]
    return kind(**{name: _value(hint, data[name]) for name, hint in hints.items() if name in data})


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return record(hint, value)
    if get_origin(hint) is list:
        return [_value(get_args(hint)[0], one) for one in value]
    if get_origin(hint) is tuple:
        return tuple(value)
    if get_origin(hint) in {Union, UnionType}:
        return _value(next(one for one in get_args(hint) if one is not NoneType), value)
    return value
