"""The records of results, with the keys of the command's JSON.

Generated from the structs of crates/ by tools/typings.py, which also compares it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from anabranch._records import Difference

__all__ = [
    "Change",
    "Checked",
    "Excess",
    "Explained",
    "Finding",
    "Largest",
    "Line",
    "OutagePart",
    "Part",
    "PathPart",
    "Standing",
    "TimePart",
    "Tried",
    "Verdict",
]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict of one condition by one measure, for programs."""

    condition: str
    """The condition; empty if there is only one."""
    traffic: str | None = None
    """The class of traffic, if the scenario has classes."""
    measure: str
    """The measure by which the contenders are compared."""
    outcome: str
    """Whether a contender is best, and if not, why not."""
    best: list[str]
    """The best contenders: the one with the best value, followed by those that cannot be distinguished from it or
    are practically equal to it. Empty if there is none."""
    tied: list[str]
    """The contenders in `best` that cannot be distinguished from the first: which of them is best is unknown."""
    compared: str | None
    """The best contender other than the reference."""
    reference: str | None
    """The contender with which the others are compared; none if there is none."""
    difference_pct: Difference | None
    """Its difference from the reference, in percent."""
    runs_needed: int | None
    """If undecided, an estimate of the number of runs that would be decisive."""


@dataclass(frozen=True, kw_only=True)
class PathPart:
    """The part of a time that concerns one path."""

    path: str
    """The path that the waits concern."""
    mean_s: float
    """Its time in seconds, the mean over flows."""


@dataclass(frozen=True, kw_only=True)
class TimePart:
    """The part of a time that has one cause."""

    cause: str
    """The cause of this part."""
    mean_s: float
    """Its time in seconds, the mean over flows or bytes."""
    share_pct: float
    """Its share of the whole, in percent."""
    sum_ns: int | None = None
    """The sum over flows in nanoseconds, exactly; none for bytes."""
    by_path: list[PathPart] = dataclasses.field(default_factory=list)
    """By path, of all paths; the rest concerns no path. Empty for bytes."""


@dataclass(frozen=True, kw_only=True)
class OutagePart:
    """The time of waiting because of an outage of a path."""

    path: str
    """The path that was down."""
    from_s: float
    """The time at which it went down, in seconds from the start of the run."""
    until_s: float | None
    """The time at which it came up; none if it stayed down."""
    mean_s: float
    """The time in seconds, the mean over flows."""


@dataclass(frozen=True, kw_only=True)
class Largest:
    """The largest cause."""

    cause: str
    """The cause with the most time."""
    path: str | None
    """The path that has most of it, if it concerns paths."""
    mean_s: float
    """Its time in seconds, the mean over flows."""
    share_pct: float
    """Its share of the whole, in percent."""


@dataclass(frozen=True, kw_only=True)
class Excess:
    """The comparison with the fastest contender of the condition."""

    than: str
    """The fastest contender."""
    total_s: float
    """The difference of the mean times in seconds."""
    cause: str
    """The cause with the largest difference."""
    path: str | None
    """The path that has most of this cause, if it concerns paths."""
    cause_s: float
    """The difference of the mean times of this cause, in seconds."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change that was run, and its effect."""

    what: str
    """The change in words, such as `no loss on path 2`."""
    mean_s: float | None
    """The mean time of a flow in seconds; none if flows did not finish."""
    effect_pct: Difference
    """The change of the mean completion time in percent, for bulk of the goodput, with an interval by a paired
    bootstrap over runs. The intervals of a contender's changes hold simultaneously with 95 %."""
    helps: bool | None
    """True if it helps: the interval excludes zero, and the effect is not practically none. None if the runs
    cannot tell."""
    setting: bool
    """True for a setting of the hosts, false for a change of the network or its traffic."""


@dataclass(frozen=True, kw_only=True)
class Explained:
    """Where the time of a contender's flows went in a condition."""

    scheduler: str
    """The contender's name."""
    congestion: str
    """Its congestion control."""
    condition: str
    """The condition; empty if there is only one."""
    traffic: str | None = None
    """The class of traffic; absent without classes."""
    path: str | None
    """The path of a plain TCP; none for Multipath TCP."""
    n: int
    """The number of flows."""
    completed: int
    """The number of flows delivered before the deadline. (Bulk: not aborted.)"""
    explained: int
    """The number of flows that are explained: the flows that delivered at least one byte."""
    mean_s: float | None
    """The mean time in seconds from the start of an explained flow to its last in-order delivery."""
    total_ns: int
    """The sum of these times in nanoseconds: exactly the sum of the parts."""
    parts: list[TimePart]
    """The parts of this time along the chain of waits, one for each cause."""
    byte_mean_s: float | None
    """The mean time of a byte in seconds, from its offer to its in-order delivery."""
    bytes: list[TimePart]
    """The parts of this time, one for each cause."""
    outages: list[OutagePart]
    """The parts of `outage`, by outage, in the order of paths and times."""
    longest_gap_s: float | None
    """The longest gap in the delivery of a flow in seconds, mean over flows."""
    fallbacks: int = 0
    """The number of flows that were to use Multipath TCP and gave it up."""
    largest: Largest | None
    """The largest cause of the parts."""
    excess: Excess | None
    """The comparison with the fastest contender of the condition; none for that one, and if the difference is
    practically none."""
    changes: list[Change]
    """The changes that were run, the best first."""
    sentence: str
    """The largest cause, the excess and the advised change, in words."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A contender over all points."""

    condition: str
    """The condition; empty where there is only one."""
    traffic: str | None = None
    """The class of traffic, if the scenario has classes."""
    scheduler: str
    """The contender's name."""
    best: int
    """Points at which the verdict names it among the best."""
    better: int
    """Points at which it is better than the reference."""
    equal: int
    """Points at which it is practically equal to the reference."""
    worse: int
    """Points at which it is worse than the reference."""
    undecided: int
    """Points at which it cannot be told apart from the reference."""
    incomplete: int
    """Points at which flows did not finish."""
    median_pct: float | None
    """The median over points of the difference from the reference, in percent; none for the reference."""
    least: tuple[float, int] | None
    """The least difference, and its point."""
    greatest: tuple[float, int] | None
    """The greatest difference, and its point."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """The verdict on a part of a claim."""

    name: str
    """The key `part` of its checks."""
    status: str
    """Whether all checks of the part hold."""
    variant: str | None = None
    """The variant with which it holds, if it does not hold without."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A judgement in numbers and words."""

    condition: str
    """The condition; empty if there is only one."""
    status: str
    """Whether the required relation holds under this condition."""
    of: float | None
    """The mean of the contender; none if it has none."""
    to: float | None
    """The mean of that with which it is compared."""
    value: float | None
    """The judged ratio, difference or mean."""
    interval: tuple[float, float] | None
    """Its 95 % interval."""
    runs: int
    """The number of paired runs."""
    words: str
    """The values above as a sentence for the report."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A check with its judgements."""

    part: str = ""
    """The part of the claim to which it belongs; empty if the claim has no parts."""
    same: bool = False
    """Whether the variant changes nothing of it."""
    source: str
    """The scenario, plan or simulation."""
    required: str
    """The required relation, in words."""
    names: tuple[str, str | None]
    """The contender, and that with which it is compared."""
    unit: str
    """The unit of both."""
    lines: list[Line]
    """The judgements, by condition."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The result with a variant."""

    name: str
    """The name of the variant."""
    what: str
    """The difference."""
    status: str
    """The status of the claim with it."""
    checks: list[Checked]
    """The judgements of each check with the variant, in the order of the claim."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of a claim."""

    id: str
    """The claim's identifier."""
    paper: str
    """The paper's identifier, such as `dmptcp`."""
    figure: str
    """The figure, table or section."""
    kind: str
    """`Kind::name`."""
    claim: str
    """The statement of the paper, in our words."""
    status: str
    """The status over all checks and variants."""
    evidence: str
    """The measured values in words, the name of the test, or the reason that there is none."""
    numbers: str
    """The paper's numbers."""
    reason: str
    """The reason for the tolerance."""
    finding: str
    """The finding, for a reader of the paper."""
    checks: list[Checked]
    """The checks of the plain result."""
    variants: list[Tried]
    """The variants that were tried."""
    parts: list[Part] = dataclasses.field(default_factory=list)
    """The verdicts on its parts; empty if it has none."""
    build: str = ""
    """The version and commit of the program that judged it, if another program judged the whole record: rows are
    judged again one by one."""
