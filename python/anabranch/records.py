"""The records of results, with the names of the command's JSON."""

from __future__ import annotations

import dataclasses
import functools
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from anabranch._records import Difference, Interval, Row, Statistics
from anabranch._results import (
    AnnouncedAddress,
    ApplicationTurn,
    BusyTime,
    CapturedApplication,
    CapturedConnection,
    CapturedDirection,
    CapturedPart,
    CapturedStream,
    CapturedSubflow,
    Change,
    Checked,
    Estimated,
    Excess,
    Explained,
    Finding,
    KernelValues,
    Largest,
    Line,
    Match,
    OutagePart,
    Part,
    PathEstimate,
    PathOutage,
    PathPart,
    ProtocolFault,
    RatePhase,
    RoundTrip,
    Standing,
    TimePart,
    Tried,
    Verdict,
)
from anabranch.exceptions import NotFoundError

__all__ = [
    "AnnouncedAddress",
    "ApplicationTurn",
    "BusyTime",
    "CapturedApplication",
    "CapturedConnection",
    "CapturedDirection",
    "CapturedPart",
    "CapturedStream",
    "CapturedSubflow",
    "Change",
    "Checked",
    "Difference",
    "Estimated",
    "Excess",
    "Explained",
    "Finding",
    "Interval",
    "KernelValues",
    "Largest",
    "Line",
    "Match",
    "OutagePart",
    "Part",
    "PathEstimate",
    "PathOutage",
    "PathPart",
    "ProtocolFault",
    "RatePhase",
    "RoundTrip",
    "Row",
    "Standing",
    "Statistics",
    "TimePart",
    "Tried",
    "Verdict",
]


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
    """Return ``data`` of the command's JSON as a record; the name of a key that is a word of Python ends with ``_``."""
    hints = _hints(kind)  # type: ignore[arg-type]
    keys = {name: name.rstrip("_") for name in hints}
    return kind(**{name: _value(hint, data[keys[name]]) for name, hint in hints.items() if keys[name] in data})


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
