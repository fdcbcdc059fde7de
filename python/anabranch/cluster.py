"""Sweeps and reproductions on a cluster: their runs as tasks of Dask.

A task simulates a unit: some points of a plan, which it returns as lines of the journal, or some runs of a
measurement. This process alone writes the journal. So workers need no common file system, may come and go, and what
one of them loses is simulated again by another. The order of the answers does not count: the table of a sweep is
written in the order of its points, and the runs of a measurement are joined in theirs.

The first units have one point. Later ones have as many as take about :data:`UNIT_S`, by the time of those before, and
fewer towards the end, so that all workers end together. When nothing is left to begin, idle workers get halves of the
units that are late; the first answer counts, and both are the same.

Most of the cost of a task is that of a message. Tasks are submitted and their answers fetched together: those that have
ended since the last time. The busier this process is, the more they are, and the less each of them costs.
"""

from __future__ import annotations

import hashlib
import math
import time
import warnings
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from anabranch.exceptions import SchedulerError, SchedulerWarning, SweepError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from anabranch import _anabranch
    from anabranch.storage import Local
    from anabranch.sweeping import Plan

__all__ = ["UNIT_S", "Runs", "Units", "reproduce", "run"]

UNIT_S = 2.0
"""The time of a unit in seconds: long against the overhead of a task, short against a sweep."""
_MOST_POINTS = 4096
_AHEAD = 2
"""Units on the way for each thread, so that none waits for this process."""
_AHEAD_S = 0.2
"""Short units are as many as take this time on each thread, within reason."""
_MOST_AHEAD = 32
_LATE = 2.0
"""A unit is late after this multiple of its expected time."""
_LOOK_S = 0.5
"""The longest time between two looks at the number of workers."""
_TICK_S = 0.01
"""The time between two looks at the tasks."""

Unit = TypeVar("Unit")


class Units:
    """The points of a plan that are not done, cut into units.

    >>> units = Units(list(range(100)))
    >>> units.next(threads=2), units.next(threads=2)
    ([0], [61])
    >>> units.measured([0, 61], seconds=0.2)
    >>> units.next(threads=2)
    [22, 83, 44, 5, 66, 27, 88, 49, 10, 71, 32, 93]
    """

    def __init__(self, points: list[int]) -> None:
        # Neighbours take a similar time. In steps of the golden section each unit has points of the whole plan.
        count = len(points)
        step = next((step for step in range(int(count * 0.6180339887498949), count) if math.gcd(step, count) == 1), 1)
        self._rest = [points[number * step % count] for number in reversed(range(count))]
        self._points, self._seconds = 0, 0.0

    def __len__(self) -> int:
        return len(self._rest)

    def measured(self, unit: Sequence[int], seconds: float) -> None:
        """Note the time that a unit took."""
        self._points += len(unit)
        self._seconds += seconds

    def expected_s(self, unit: Sequence[int]) -> float | None:
        """Return the expected time of a unit, once one has been measured."""
        return len(unit) * self._seconds / self._points if self._points else None

    def next(self, threads: int) -> list[int]:
        """Return the next unit."""
        one = self.expected_s([0])
        size = 1 if one is None else _size(len(self._rest), UNIT_S / max(one, 1e-9), threads)
        unit = self._rest[-size:][::-1]
        del self._rest[-size:]
        return unit


class Runs:
    """The runs of measurements, cut into units, which have runs of one measurement: its number, and their range.

    ``measurements`` has the number of runs of each, and about how many packets they send.

    >>> runs = Runs([(10, 1e6), (40, 4e7)])
    >>> runs.next(threads=1), runs.next(threads=1)
    ((1, 0, 1), (1, 1, 2))
    >>> runs.measured((1, 0, 1), seconds=0.1)
    >>> runs.next(threads=1), runs.expected_s((0, 0, 10))
    ((1, 2, 11), 0.1)
    """

    def __init__(self, measurements: Sequence[tuple[int, float]]) -> None:
        self._each = [packets / max(1, runs) for runs, packets in measurements]
        # The longest runs first, so that no worker begins one at the end.
        order = sorted(range(len(measurements)), key=lambda number: -self._each[number])
        self._rest = [[number, 0, measurements[number][0]] for number in order if measurements[number][0]]
        self._left = sum(packets for _, packets in measurements)
        self._packets, self._seconds = 0.0, 0.0

    def __len__(self) -> int:
        return sum(end - first for _, first, end in self._rest)

    def _cost(self, unit: tuple[int, int, int]) -> float:
        return self._each[unit[0]] * (unit[2] - unit[1])

    def measured(self, unit: tuple[int, int, int], seconds: float) -> None:
        """Note the time that a unit took."""
        self._packets += self._cost(unit)
        self._seconds += seconds

    def expected_s(self, unit: tuple[int, int, int]) -> float | None:
        """Return the expected time of a unit, once one has been measured."""
        return self._cost(unit) * self._seconds / self._packets if self._packets else None

    def next(self, threads: int) -> tuple[int, int, int]:
        """Return the next unit."""
        number, first, end = self._rest[0]
        one = self.expected_s((number, 0, 1))
        size = 1
        if one is not None:
            # All that is left, in runs of this measurement.
            left = int(self._left / max(self._each[number], 1e-9))
            size = min(end - first, _size(max(1, left), UNIT_S / max(one, 1e-9), threads))
        unit = (number, first, first + size)
        self._left -= self._cost(unit)
        if unit[2] == end:
            self._rest.pop(0)
        else:
            self._rest[0][1] = unit[2]
        return unit


def _size(left: int, whole: float, threads: int) -> int:
    """Return the size of the next unit, if ``whole`` takes :data:`UNIT_S`."""
    # A quarter of the share of each thread, so that units become smaller towards the end, down to a tenth.
    share = left // (4 * max(1, threads))
    return max(1, min(_MOST_POINTS, max(share, int(whole / 10)), int(whole), left))


class _Units(Protocol[Unit]):
    def __len__(self) -> int: ...
    def measured(self, unit: Unit, seconds: float) -> None: ...
    def expected_s(self, unit: Unit) -> float | None: ...
    def next(self, threads: int) -> Unit: ...


class _Job(Protocol[Unit]):
    """Work in units."""

    @property
    def units(self) -> _Units[Unit]:
        """The units that are not begun."""

    def is_left(self) -> bool:
        """Whether an answer is missing."""

    def call(self, unit: Unit) -> tuple[Any, ...]:
        """Return the arguments of the task of a unit."""

    def halves(self, unit: Unit) -> Iterable[Unit]:
        """Return what is missing of a unit, in two parts."""

    def accept(self, answers: list[tuple[Unit, Any]]) -> None:
        """Take the answers of some units."""

    def raised(self, error: Exception) -> Exception:
        """Return the exception for an exception of a task."""


class _Dispatcher(Generic[Unit]):
    """Hands out the units of a job."""

    def __init__(self, client: Any, function: Callable[..., tuple[Any, float]], job: _Job[Unit]) -> None:
        self._client, self._function, self._job = client, function, job
        self._tasks: dict[Any, tuple[Unit, float]] = {}
        self._repeated: set[Any] = set()
        self._threads, self._looked = 1, -_LOOK_S

    def run(self) -> None:
        """Return when the job is done."""
        try:
            while self._job.is_left():
                self._fill()
                # The state of a task is known here, without a message.
                ended = [task for task in self._tasks if task.status != "pending"]
                if not ended:
                    time.sleep(_TICK_S)
                    continue
                answers = []
                try:
                    for task, (answer, seconds) in zip(ended, self._client.gather(ended), strict=True):
                        unit, _ = self._tasks.pop(task)
                        self._job.units.measured(unit, seconds)
                        answers.append((unit, answer))
                except Exception as error:
                    raised = self._job.raised(error)
                    if raised is error:
                        raise
                    raise raised from error
                self._job.accept(answers)
        finally:
            self._client.cancel(list(self._tasks), force=True)

    def _fill(self) -> None:
        """Submit units as long as threads would wait for them."""
        if time.monotonic() - self._looked >= _LOOK_S:
            # A call to the scheduler, which costs as much as a unit.
            self._threads = max(1, sum(self._client.nthreads().values()))
            self._looked = time.monotonic()
        units, job = self._job.units, self._job
        new: list[Unit] = []
        ahead = float(_AHEAD * self._threads)
        # Where each task is short, half of the queue is submitted at a time.
        if len(self._tasks) <= self._most() / 2:
            ahead = max(ahead, self._most())
        while units and len(self._tasks) + len(new) < ahead:
            new.append(units.next(self._threads))
        if not units and not new and len(self._tasks) < self._threads:
            new += self._late()
        if new:
            calls = zip(*(job.call(unit) for unit in new), strict=True)
            tasks = self._client.map(self._function, *map(list, calls), pure=False, retries=3)
            begun = time.monotonic()
            self._tasks.update((task, (unit, begun)) for task, unit in zip(tasks, new, strict=True))

    def _most(self) -> float:
        """Return the number of units that all threads need for a short time."""
        some = [self._job.units.expected_s(unit) for unit, _ in list(self._tasks.values())[-4:]]
        known = [seconds for seconds in some if seconds is not None]
        if not known:
            return 0.0
        mean = sum(known) / len(known)
        return self._threads * min(_MOST_AHEAD, _AHEAD_S / max(mean, 1e-9))

    def _late(self) -> list[Unit]:
        """Return the missing points of a late unit in halves."""
        now = time.monotonic()
        for task, (unit, begun) in self._tasks.items():
            expected = self._job.units.expected_s(unit)
            if task not in self._repeated and expected is not None and now - begun >= _LATE * expected + 0.1:
                self._repeated.add(task)
                return list(self._job.halves(unit))
        return []


def _run(client: Any, function: Callable[..., tuple[Any, float]], job: _Job[Any]) -> None:
    import dask

    # Dask would look for the source of the calling code at each submission.
    with dask.config.set({"distributed.diagnostics.computations.nframes": 0}):
        _Dispatcher(client, function, job).run()


class _Points:
    """The points of a sweep."""

    def __init__(
        self,
        plan: Plan,
        sweep: _anabranch.Sweep,
        progress: Callable[[int, int], object] | None,
        store: Local,
    ) -> None:
        self._plan, self._sweep, self._progress, self._store = plan, sweep, progress, store
        missing = sweep.missing
        self.units, self._left = Units(missing), set(missing)
        self._packed = _packed(plan)
        self._digest = hashlib.sha256(self._packed).hexdigest()
        self._refused: dict[str, tuple[int, str]] = {}

    def warn(self) -> None:
        """Warn of decisions that were refused on the workers."""
        for scheduler, (count, why) in self._refused.items():
            warnings.warn(SchedulerWarning(scheduler, count, why), stacklevel=4)

    def is_left(self) -> bool:
        return bool(self._left)

    def call(self, unit: list[int]) -> tuple[Any, ...]:
        # The plan goes with each task: data that was scattered is lost with its workers.
        return self._packed, self._digest, unit

    def halves(self, unit: list[int]) -> Iterable[list[int]]:
        points = [point for point in unit if point in self._left]
        half = -(-len(points) // 2)
        return [part for part in (points[half:][::-1], points[:half]) if part]

    def accept(self, answers: list[tuple[list[int], tuple[list[str], _Refused]]]) -> None:
        new = []
        for unit, (lines, refused) in answers:
            for scheduler, count, why in refused:
                before = self._refused.get(scheduler, (0, why))
                self._refused[scheduler] = before[0] + count, before[1]
            for point, line in zip(unit, lines, strict=True):
                if point in self._left:
                    self._left.remove(point)
                    new.append(line)
        for line in new:
            self._sweep.add(line)
        if new:
            self._store.add(new)
        if self._progress is not None:
            self._progress(len(self._plan) - len(self._left), len(self._plan))

    def raised(self, error: Exception) -> Exception:
        from anabranch._contenders import reference

        if not isinstance(error, ImportError | AttributeError) or not self._plan._custom():
            return error
        names = ", ".join(reference(part) for part in self._plan._custom())
        message = (
            f"the workers cannot import the code of this sweep ({names}): {error}; install its module on them, or "
        )
        message += "send it with `client.upload_file`"
        return SchedulerError(message)


def run(
    plan: Plan,
    sweep: _anabranch.Sweep,
    client: Any,
    progress: Callable[[int, int], object] | None,
    store: Local,
) -> None:
    """Simulate the missing points of ``sweep`` on the workers of ``client``."""
    if sweep.missing:
        points = _Points(plan, sweep, progress, store)
        _run(client, _simulate, points)
        points.warn()


class _Measurements:
    """The runs of the measurements that a reproduction needs for its next pass."""

    def __init__(
        self,
        inner: _anabranch.Reproducing,
        needed: list[tuple[str, int, float]],
        accepted: Callable[[], object],
    ) -> None:
        from anabranch import _anabranch

        self._inner, self._accepted, self._build = inner, accepted, _anabranch.build()
        self._tasks = [task for task, _, _ in needed]
        self.units = Runs([(runs, packets) for _, runs, packets in needed])
        self._left = [set(range(runs)) for _, runs, _ in needed]
        self._parts: list[list[str]] = [[] for _ in needed]
        for number in range(len(needed)):
            self._add(number)

    def _add(self, number: int) -> None:
        if not self._left[number]:
            self._inner.add(self._tasks[number], self._parts[number])
            self._parts[number] = []
            self._accepted()

    def is_left(self) -> bool:
        return any(self._left)

    def call(self, unit: tuple[int, int, int]) -> tuple[Any, ...]:
        number, first, end = unit
        return self._build, self._tasks[number], first, end

    def halves(self, unit: tuple[int, int, int]) -> Iterable[tuple[int, int, int]]:
        number, first, end = unit
        half = -(-(first + end) // 2)
        parts = ((number, half, end), (number, first, half))
        return [part for part in parts if self._left[number].intersection(range(*part[1:]))]

    def accept(self, answers: list[tuple[tuple[int, int, int], str]]) -> None:
        for (number, first, end), part in answers:
            runs = self._left[number].intersection(range(first, end))
            if runs:
                self._left[number] -= runs
                self._parts[number].append(part)
                self._add(number)

    def raised(self, error: Exception) -> Exception:
        return error


def reproduce(inner: _anabranch.Reproducing, client: Any, progress: Callable[[int, int], object] | None) -> None:
    """Make the measurements that ``inner`` lacks on the workers of ``client``."""
    done = total = 0

    def accepted() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    # The verdicts of a pass decide which variants are measured in the next one.
    while needed := inner.needed():
        total += len(needed)
        _run(client, _measure, _Measurements(inner, needed, accepted))


def _packed(plan: Plan) -> bytes:
    """Return the plan for the workers, with the build that they must have."""
    import cloudpickle

    from anabranch import _anabranch

    try:
        return bytes(cloudpickle.dumps((_anabranch.build(), bytes(cloudpickle.dumps(plan)))))
    except Exception as error:
        message = f"this plan cannot be sent to workers: {error}"
        if plan._custom():
            message += "; write its schedulers in a module, and keep open files and locks out of their objects"
        raise SchedulerError(message) from error


_plans: dict[str, Plan] = {}


_Refused: TypeAlias = list[tuple[str, int, str]]


def _check_build(build: str) -> None:
    """Refuse a worker with another version, which may have other results. No later check would notice."""
    from anabranch import _anabranch

    if build != _anabranch.build():
        message = f"a worker has anabranch {_anabranch.build()}, and the work is of {build}; install the same on both"
        raise SweepError(message)


def _simulate(packed: bytes, digest: str, points: list[int]) -> tuple[tuple[list[str], _Refused], float]:
    """Simulate points on a worker; return their lines, the decisions that were refused, and the time."""
    import pickle

    if digest not in _plans:
        # One sweep after the other: the last plan is enough.
        _plans.clear()
        build, plan = pickle.loads(packed)
        _check_build(build)
        _plans[digest] = pickle.loads(plan)
    begun = time.perf_counter()
    refused: _Refused = []
    lines = _plans[digest]._inner.simulate(points, refused)
    return (lines, refused), time.perf_counter() - begun


def _measure(build: str, task: str, first: int, end: int) -> tuple[str, float]:
    """Make runs of a measurement on a worker; return them and the time."""
    from anabranch import _anabranch

    _check_build(build)
    begun = time.perf_counter()
    part = _anabranch.simulate_part(task, first, end)
    return part, time.perf_counter() - begun
