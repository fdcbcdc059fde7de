"""The numbers of plots, for every library that draws them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from anabranch.exceptions import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anabranch.comparison import Comparison
    from anabranch.recording import RecordedRun
    from anabranch.records import Interval, Row
    from anabranch.reproducing import Reproduction
    from anabranch.sweeping import Sweep


def choose(known: list[str], chosen: str | None, what: str) -> str:
    """Return what was chosen, or the first one that there is."""
    if chosen is None:
        return known[0]
    if chosen not in known:
        message = f"there is no {what} {chosen!r}; there are {', '.join(known)}"
        raise ArgumentError(message)
    return chosen


def choose_traffic(known: Iterable[object], chosen: str | None) -> str | None:
    """Return the class of traffic that was chosen, or the first one; ``None`` for a result without classes."""
    names = [str(name) for name in dict.fromkeys(known) if name is not None]
    if names:
        return choose(names, chosen, "class of traffic")
    if chosen is not None:
        message = f"there is no class of traffic {chosen!r}; the traffic of this result has no classes"
        raise ArgumentError(message)
    return None


def title(*parts: str | None) -> str:
    """Return the parts of a title that are there."""
    return ", ".join(filter(None, parts))


class Measure(NamedTuple):
    """What the values of a class of traffic are."""

    label: str
    """The name of the axis, with its unit."""
    many: str
    """What has the values."""
    field: str
    """The unit, as the name of a field."""
    factor: float
    """From a sample to a value in the unit."""

    @property
    def is_goodput(self) -> bool:
        """Whether it is the goodput of bulk transfers."""
        return self.field == "mbps"

    def mean(self, row: Row) -> tuple[float, Interval] | None:
        """Return the mean of a row with the ends of its interval, in the unit."""
        mean, ends = (row.goodput_bps, row.goodput_ci95_bps) if self.is_goodput else (row.fct_s.mean, row.fct_s.ci95)
        if mean is None:
            return None
        low, high = ends or (mean, mean)
        return self.factor * mean, (self.factor * low, self.factor * high)


_KINDS = {
    "requests": Measure("response time, ms", "requests", "ms", 1e3),
    "on-off": Measure("delay of a burst, ms", "bursts", "ms", 1e3),
    "udp": Measure("one-way delay, ms", "streams", "ms", 1e3),
    "video": Measure("waiting time (startup and stalls), ms", "videos", "ms", 1e3),
}
_COMPLETION = Measure("completion time, ms", "flows", "ms", 1e3)
_GOODPUT = Measure("goodput, Mbit/s", "flows", "mbps", 1e-6)


class Part:
    """The part of a comparison that a plot shows: a class of traffic under a condition."""

    def __init__(self, result: Comparison, condition: str | None, traffic: str | None) -> None:
        self.condition = choose(result.scenario.conditions, condition, "condition")
        under = [row for row in result.rows if row.condition == self.condition]
        self.traffic = choose_traffic([row.traffic for row in under], traffic)
        self.rows = [row for row in under if row.traffic == self.traffic]
        self.title = title(self.condition, self.traffic)
        self._samples = result.samples
        kind = self.rows[0].kind if self.rows else None
        bulk = kind == "transfer" and all(row.fct_s.mean is None for row in self.rows)
        self.measure = _GOODPUT if bulk else _KINDS.get(kind or "", _COMPLETION)
        self._kind = kind

    def _values(self) -> list[tuple[str, object]]:
        """Return the contender and the value of each sample; the value of an unfinished one is missing."""
        samples = self._samples
        conditions, schedulers = samples.column("condition"), samples.column("scheduler")
        traffics = samples.column("traffic") if self.traffic is not None else [None] * len(conditions)
        values = samples.column("goodput_bps" if self.measure.is_goodput else "fct_s")
        if self._kind == "udp":
            values = samples.column("delay_mean_s")
        elif self._kind == "video":
            values = [
                startup + stalled if finished and isinstance(startup, float) and isinstance(stalled, float) else None
                for finished, startup, stalled in zip(
                    *map(samples.column, ("finished", "startup_s", "stalled_s")), strict=True
                )
            ]
        return [
            (str(scheduler), value)
            for condition, traffic, scheduler, value in zip(conditions, traffics, schedulers, values, strict=True)
            if condition == self.condition and traffic == self.traffic
        ]

    def values(self) -> dict[str, list[float]]:
        """Return the values of each contender, in the unit of the measure."""
        found: dict[str, list[float]] = defaultdict(list)
        for scheduler, value in self._values():
            if isinstance(value, (int, float)):
                found[scheduler].append(self.measure.factor * value)
        return found

    def distributions(self) -> dict[str, tuple[list[float], list[float]]]:
        """Return for each contender its ordered values and the shares of all its samples until them."""
        counts: dict[str, int] = defaultdict(int)
        for scheduler, _ in self._values():
            counts[scheduler] += 1
        found = {}
        for scheduler, unordered in self.values().items():
            shares = [(number + 1) / counts[scheduler] for number in range(len(unordered))]
            found[scheduler] = ([0.0, *sorted(unordered)], [0.0, *shares])
        return found


class Grid(NamedTuple):
    """The cells of a map."""

    x: str
    y: str
    xs: list[object]
    ys: list[object]
    means: dict[tuple[object, object], float]
    title: str

    @property
    def most(self) -> float:
        """The greatest absolute value, at least a little."""
        return max((abs(number) for number in self.means.values()), default=1.0) or 1.0


class Chosen(NamedTuple):
    """The rows of a sweep that a map shows."""

    scheduler: str | None
    condition: str | None
    traffic: str | None


def grid(result: Sweep, x: str, y: str, chosen: Chosen, value: str) -> Grid:
    """Return the mean of ``value`` for each pair of values of two keys."""
    table = result.table
    columns = [_column(result, x), _column(result, y)]
    schedulers = [str(name) for name in dict.fromkeys(table.column("scheduler"))]
    conditions = [str(name) for name in dict.fromkeys(table.column("condition"))]
    scheduler = choose(schedulers[::-1], chosen.scheduler, "contender")
    condition = choose(conditions, chosen.condition, "condition")
    traffic = choose_traffic(table.column("traffic"), chosen.traffic)
    cells: dict[tuple[object, object], list[float]] = defaultdict(list)
    names = [*columns, "scheduler", "condition", "traffic", value]
    for at_x, at_y, own, there, of, number in zip(*map(table.column, names), strict=True):
        if own == scheduler and there == condition and of == traffic and isinstance(number, (int, float)):
            cells[at_x, at_y].append(float(number))
    return Grid(
        columns[0],
        columns[1],
        _ordered({at_x for at_x, _ in cells}),
        _ordered({at_y for _, at_y in cells}),
        {at: sum(numbers) / len(numbers) for at, numbers in cells.items()},
        title(scheduler, condition, traffic),
    )


def _column(result: Sweep, key: str) -> str:
    known = result.plan.dimensions
    for column in known:
        if key == column or key in column.rsplit(" (", 1)[0].split(", "):
            return column
    message = f"{key!r} does not vary; there are {', '.join(known)}"
    raise ArgumentError(message)


def _ordered(values: set[object]) -> list[object]:
    return sorted(values, key=lambda one: (isinstance(one, str), one))


def short(value: object) -> str:
    """Return a value for an axis."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


_SEGMENTS = {"sent", "retransmitted", "reinjected", "probe"}


class Segment(NamedTuple):
    """A segment of the data level."""

    t_s: float
    from_bytes: int
    to_bytes: int
    subflow: str
    event: str


class Sequence(NamedTuple):
    """The time-sequence graph of a direction of a flow."""

    title: str
    subflows: list[str]
    segments: list[Segment]
    acked: list[tuple[float, int]]
    """Time and DATA_ACK."""
    edges: list[tuple[float, int]]
    """Time and the right edge of the peer's window."""


class Windows(NamedTuple):
    """The windows of a subflow over time, in bytes."""

    subflow: str
    t_s: list[float]
    cwnd: list[float]
    inflight: list[float]
    ssthresh: list[float]
    """Not a number while it is infinite."""


class Stream:
    """A direction of a flow of a recorded run."""

    def __init__(self, run: RecordedRun, flow: int, direction: str | None) -> None:
        flows = run.flows.column("flow")
        if flow not in flows:
            message = f"there is no flow {flow}; the flows are 0 to {len(flows) - 1}"
            raise ArgumentError(message)
        own = run.flows.column("direction")[flows.index(flow)]
        direction = str(own) if direction is None else direction
        if direction not in {"up", "down"}:
            message = f"there is no direction {direction!r}; there are up, down"
            raise ArgumentError(message)
        self.run, self.flow, self.direction = run, flow, direction
        name = run.flows.column("name")[flows.index(flow)]
        parts = [run.condition, run.scheduler, str(name) if len(flows) > 1 else ""]
        self.title = ", ".join(filter(None, [*parts, direction if direction != own else ""]))
        self._paths = self._names()

    def _names(self) -> dict[object, str]:
        """Return the name of the path of each subflow: that of the interface of the client."""
        run, subflows = self.run, self.run.subflows
        # In a network of other form interfaces are no paths.
        if not {f"{path}.{self.direction}" for path in run.paths} <= {str(link) for link in run.queues.column("link")}:
            return {}
        end = "client" if self.direction == "up" else "server"
        interfaces: dict[tuple[object, object], object] = {}
        own: list[tuple[object, tuple[object, object]]] = []
        columns = (subflows.column(name) for name in ("flow", "end", "subflow", "local", "remote", "interface"))
        for flow, at, subflow, local, remote, interface in zip(*columns, strict=True):
            if flow == self.flow and at == "client":
                interfaces[local, remote] = interface
            if flow == self.flow and at == end:
                own.append((subflow, (local, remote) if end == "client" else (remote, local)))
        names: dict[object, str] = {}
        for subflow, addresses in own:
            at = interfaces.get(addresses)
            if isinstance(at, int) and at < len(run.paths):
                # An ended subflow may give its number to another.
                names.setdefault(subflow, run.paths[at])
        return names

    def label(self, subflow: object) -> str:
        """Return the name of a subflow."""
        path = self._paths.get(subflow)
        return f"subflow {subflow}" if path is None else f"subflow {subflow}, {path}"

    def sequence(self) -> Sequence:
        """Return its time-sequence graph."""
        names = ("flow", "direction", "t_ns", "subflow", "event", "from_bytes", "to_bytes", "window_edge_bytes")
        segments: list[Segment] = []
        acked: list[tuple[float, int]] = []
        edges: list[tuple[float, int]] = []
        for flow, direction, t_ns, subflow, event, start, end, edge in zip(
            *map(self.run.events.column, names), strict=True
        ):
            if flow != self.flow or direction != self.direction or not isinstance(t_ns, int):
                continue
            if event == "data_acked" and isinstance(end, int):
                acked.append((t_ns / 1e9, end))
                if isinstance(edge, int):
                    edges.append((t_ns / 1e9, edge))
            elif event in _SEGMENTS and isinstance(start, int) and isinstance(end, int):
                segments.append(Segment(t_ns / 1e9, start, end, self.label(subflow), str(event)))
        subflows = list(dict.fromkeys(segment.subflow for segment in segments))
        return Sequence(self.title, sorted(subflows), segments, acked, edges)

    def windows(self) -> list[Windows]:
        """Return the windows of each of its subflows."""
        found: dict[str, Windows] = {}
        names = ("flow", "direction", "t_ns", "subflow", "cwnd_bytes", "inflight_bytes", "ssthresh_bytes")
        for flow, direction, t_ns, subflow, cwnd, inflight, ssthresh in zip(
            *map(self.run.windows.column, names), strict=True
        ):
            if flow == self.flow and direction == self.direction and isinstance(t_ns, int):
                label = self.label(subflow)
                own = found.setdefault(label, Windows(label, [], [], [], []))
                own.t_s.append(t_ns / 1e9)
                for values, value in ((own.cwnd, cwnd), (own.inflight, inflight), (own.ssthresh, ssthresh)):
                    values.append(float(value) if isinstance(value, int) else float("nan"))
        return [found[label] for label in sorted(found)]


class Judgement(NamedTuple):
    """A line of a claim with a value."""

    name: str
    status: str
    value: float
    low: float
    high: float
    words: str


def judgements(result: Reproduction) -> list[Judgement]:
    """Return the judged values of all checks of the plain results."""
    found = []
    for finding in result.findings:
        lines = [(check, line) for check in finding.checks for line in check.lines]
        for number, (_, line) in enumerate(lines, 1):
            if line.value is None:
                continue
            low, high = line.interval or (line.value, line.value)
            name = finding.id if len(lines) == 1 else f"{finding.id}.{number}"
            name = f"{name} {line.condition}".rstrip()
            found.append(Judgement(name, line.status, line.value, low, high, line.words))
    return found
