"""The records of measures.

Generated from the rows of crates/measure/src/measures.rs; a test there compares this file, and rewrites it
with ANABRANCH_BLESS=1.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Difference", "Interval", "Row", "Statistics"]

Interval: TypeAlias = tuple[float, float]
"""The ends of a 95 % interval."""


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Mean, percentiles and interval of a time in seconds."""

    mean: float | None
    """The mean over all flows of all runs that have a value."""
    p50: float | None
    """The median."""
    p95: float | None
    """The 95th percentile; none for fewer than 20 flows."""
    p99: float | None
    """The 99th percentile; none for fewer than 100 flows."""
    max: float | None
    """The greatest value."""
    ci95: Interval | None
    """The 95 % interval of the mean, by bootstrap over runs and with the bound for events that no run has shown;
    none for a single run."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A difference from the reference in per cent; negative is less."""

    mean: float
    """The difference of the two means, in per cent of the reference's; negative is less."""
    ci95: Interval | None
    """Its 95 % interval, by paired bootstrap over runs; none for a single run. All intervals of one family hold
    simultaneously."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """The results of a contender in a condition, of all its traffic or of one class."""

    scheduler: str
    """The contender; `tcp beside X` for plain TCPs beside X's flows."""
    congestion: str
    """Its congestion control."""
    condition: str
    """The condition's name; empty where there is only one."""
    path: str | None
    """The path of a plain TCP; None for Multipath TCP."""
    n: int
    """Flows (of a class: also requests, bursts, videos, streams), over all runs."""
    completed: int
    """Those that were delivered before the deadline; for bulk those that were not broken off."""
    failed: int
    """The other ones, if their connection ended before the deadline."""
    fct_s: Statistics
    """Completion time, of the flows that were delivered; None for bulk. Of a class: the response times of
    requests, the delays of bursts, the waiting times of videos, the mean delays of streams."""
    acked_s: Statistics
    """Time until everything was acknowledged."""
    goodput_bps: float | None
    """Goodput of a flow: unique bytes over the time they took, or over the time the flow had; mean over flows."""
    goodput_ci95_bps: Interval | None
    """The interval of the mean goodput."""
    vs_reference_pct: Difference | None
    """100 (mean / mean of the reference - 1), of the completion time, for bulk of the goodput; its interval is
    corrected for the number of contenders."""
    reading: str | None = None
    """At a point of a sweep: the interpretation of the difference, `better`, `equal`, `worse`, `undecided` or
    `incomplete`."""
    best: bool | None = None
    """At a point of a sweep: whether the verdict names it among the best."""
    retransmitted_ratio: float
    """Data segments retransmitted on their own subflow, of all."""
    reinjected_ratio: float
    """Data segments reinjected on another subflow, of all."""
    rto_count: float
    """Retransmission timeouts of a flow."""
    longest_gap_s: Statistics
    """The longest gap in delivery, over flows that received something."""
    subflows_used: float
    """Subflows that sent payload."""
    bytes_by_path: list[int]
    """Unique bytes that first arrived by each path, in the order of the condition's paths."""
    lower_bound_s: float | None
    """The lower bound of the completion time, of the delivered flows; for bulk of the time to deliver what was
    delivered."""
    vs_lower_bound: float | None
    """The time over the lower bound; over flows the ratio of the means."""
    by_run: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The values of each run, from run 0; not at a point of a sweep."""
    traffic: str | None = None
    """The class of traffic, where the scenario has classes."""
    kind: str | None = None
    """Its kind."""
    transport: str | None = None
    """`contender`, `tcp` or `udp`."""
    video: dict[str, Any] | None = None
    """Of videos."""
    datagrams: dict[str, Any] | None = None
    """Of datagrams."""
