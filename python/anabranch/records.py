"""The records of results, with the names of the command's JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

__all__ = ["Difference", "Interval", "Row", "Standing", "Statistics", "Verdict"]

Interval: TypeAlias = "tuple[float, float]"
"""The ends of a 95 % interval."""


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Mean, percentiles and interval of a time in seconds; a percentile of too few flows is ``None``."""

    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    ci95: Interval | None


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A difference from the reference in per cent; negative is less."""

    mean: float
    ci95: Interval | None


@dataclass(frozen=True, kw_only=True)
class Row:
    """The results of a contender in a condition."""

    scheduler: str
    congestion: str
    condition: str
    path: str | None
    n: int
    completed: int
    fct_s: Statistics
    acked_s: Statistics
    goodput_bps: float | None
    goodput_ci95_bps: Interval | None
    vs_reference_pct: Difference | None
    retransmitted_ratio: float
    reinjected_ratio: float
    rto_count: float
    subflows_used: float
    bytes_by_path: list[int]
    lower_bound_s: float | None
    vs_lower_bound: float | None
    by_run: dict[str, Any]
    traffic: str | None = None
    """The class of traffic, its kind and its transport, in a scenario with classes."""
    kind: str | None = None
    transport: str | None = None
    video: dict[str, Any] | None = None
    datagrams: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict for a condition and a measure."""

    condition: str
    measure: str
    outcome: str
    best: list[str]


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


Record = TypeVar("Record", Row, Verdict, Standing)
_INNER: dict[str, type[Statistics | Difference]] = {
    "fct_s": Statistics,
    "acked_s": Statistics,
    "vs_reference_pct": Difference,
}
_PAIRS = {"ci95", "goodput_ci95_bps", "least", "greatest"}


def record(kind: type[Record], data: dict[str, Any]) -> Record:
    """Return ``data`` of the command's JSON as a record."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.name not in data and field.default is not dataclasses.MISSING:
            continue
        value = data[field.name]
        if value is not None and field.name in _INNER:
            inner = _INNER[field.name]
            value = inner(**{**value, "ci95": value["ci95"] and tuple(value["ci95"])})
        elif value is not None and field.name in _PAIRS:
            value = tuple(value)
        values[field.name] = value
    return kind(**values)
