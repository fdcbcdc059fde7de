"""Sweeps on a cluster: the points of a plan as tasks of Dask.

A task simulates some points and returns their lines of the journal; this process alone writes the journal. So
workers need no common file system, may come and go, and what one of them loses is simulated again by another. The
table is written in the order of the points, whatever the order of the answers.

The first units have one point. Later ones have as many as take about :data:`UNIT_S`, by the time of the points
before, and fewer towards the end, so that all workers end together. When no point is left to begin, idle workers get
halves of the units that are late; the first answer counts, and both are the same.
"""

from __future__ import annotations

import hashlib
import queue
import time
from typing import TYPE_CHECKING, Any

from anabranch.exceptions import AnabranchError, SchedulerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch import _anabranch
    from anabranch.storage import Local
    from anabranch.sweeping import Plan

__all__ = ["UNIT_S", "Units", "run"]

UNIT_S = 2.0
"""The time of a unit in seconds: long against the overhead of a task, short against a sweep."""
_MOST_POINTS = 4096
_AHEAD = 2
"""Units on the way for each thread, so that none waits for this process."""
_LATE = 2.0
"""A unit is late after this multiple of its expected time."""
_LOOK_S = 0.2
"""The longest time between two looks at the workers."""


class Units:
    """The points that are not done, cut into units.

    >>> units = Units(list(range(100)))
    >>> units.next(threads=2), units.next(threads=2)
    ([0], [99])
    >>> units.measured(points=2, seconds=0.2)
    >>> len(units.next(threads=2))
    12
    """

    def __init__(self, points: list[int]) -> None:
        # Neighbours take a similar time, and the ends of a plan often the least and the most: the first units are from
        # both ends, and each later one has points from the whole rest.
        self._rest = points
        self._points, self._seconds = 0, 0.0

    def __len__(self) -> int:
        return len(self._rest)

    def measured(self, *, points: int, seconds: float) -> None:
        """Note the time that a unit took."""
        self._points += points
        self._seconds += seconds

    def expected_s(self, points: int) -> float | None:
        """Return the expected time of a number of points, once one has been measured."""
        return points * self._seconds / self._points if self._points else None

    def next(self, threads: int) -> list[int]:
        """Return the next unit."""
        one = self.expected_s(1)
        if one is None:
            return [self._rest.pop(0 if len(self._rest) % 2 == 0 else -1)]
        # A quarter of the share of each thread, so that units become smaller towards the end, down to a tenth.
        share = len(self._rest) // (4 * max(1, threads))
        whole = UNIT_S / max(one, 1e-9)
        size = max(1, min(_MOST_POINTS, max(share, int(whole / 10)), int(whole), len(self._rest)))
        step = max(1, len(self._rest) // size)
        unit = self._rest[::step][:size]
        chosen = set(unit)
        self._rest = [point for point in self._rest if point not in chosen]
        return unit


def run(
    plan: Plan,
    sweep: _anabranch.Sweep,
    client: Any,
    progress: Callable[[int, int], object] | None,
    store: Local,
) -> None:
    """Simulate the missing points of ``sweep`` on the workers of ``client``."""
    missing = sweep.missing
    done, total = len(plan) - len(missing), len(plan)
    if not missing:
        return
    packed = _packed(plan)
    digest = hashlib.sha256(packed).hexdigest()
    units, left = Units(missing), set(missing)
    tasks: dict[Any, tuple[list[int], float]] = {}
    repeated: set[Any] = set()
    ended: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def submit(unit: list[int]) -> None:
        # The plan goes with each task: data that was scattered is lost with its workers.
        task = client.submit(_simulate, packed, digest, unit, pure=False, retries=3)
        tasks[task] = (unit, time.monotonic())
        task.add_done_callback(ended.put)

    known, looked = 0, -_LOOK_S

    def fill() -> None:
        nonlocal known, looked
        if time.monotonic() - looked >= _LOOK_S:
            # A call to the scheduler, which costs as much as a unit.
            known, looked = sum(client.nthreads().values()), time.monotonic()
        threads = max(1, known)
        while units and len(tasks) < _AHEAD * threads:
            submit(units.next(threads))
        if not units and len(tasks) < threads:
            _split(tasks, repeated, left, units, submit)

    try:
        fill()
        while left:
            try:
                task = ended.get(timeout=_LOOK_S)
            except queue.Empty:
                # Workers may have come, and units may be late.
                fill()
                continue
            unit, _ = tasks.pop(task)
            lines, seconds = _result(task, plan)
            units.measured(points=len(unit), seconds=seconds)
            new = [line for point, line in zip(unit, lines, strict=True) if point in left]
            left.difference_update(unit)
            for line in new:
                sweep.add(line)
            store.add(new)
            done += len(new)
            if progress is not None:
                progress(done, total)
            fill()
    finally:
        client.cancel(list(tasks), force=True)


def _split(
    tasks: dict[Any, tuple[list[int], float]],
    repeated: set[Any],
    left: set[int],
    units: Units,
    submit: Callable[[list[int]], None],
) -> None:
    """Give the points of late units to idle workers, in halves."""
    now = time.monotonic()
    for task, (unit, begun) in list(tasks.items()):
        expected = units.expected_s(len(unit))
        if task in repeated or expected is None or now - begun < _LATE * expected + 0.1:
            continue
        repeated.add(task)
        points = [point for point in unit if point in left]
        half = -(-len(points) // 2)
        for part in (points[half:][::-1], points[:half]):
            if part:
                submit(part)
        return


def _packed(plan: Plan) -> bytes:
    """Return the plan for the workers."""
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(plan))
    except Exception as error:
        message = f"this plan cannot be sent to workers: {error}"
        if plan._custom():
            message += "; write its schedulers in a module, and keep open files and locks out of their objects"
        raise SchedulerError(message) from error


def _result(task: Any, plan: Plan) -> tuple[list[str], float]:
    """Return the answer of a task."""
    from anabranch._contenders import reference

    try:
        lines, seconds = task.result()
    except AnabranchError:
        raise
    except (ImportError, AttributeError) as error:
        if not plan._custom():
            raise
        names = ", ".join(reference(part) for part in plan._custom())
        message = (
            f"the workers cannot import the code of this sweep ({names}): {error}; install its module on them, or "
        )
        message += "send it with `client.upload_file`"
        raise SchedulerError(message) from error
    return lines, seconds


_plans: dict[str, Plan] = {}


def _simulate(packed: bytes, digest: str, points: list[int]) -> tuple[list[str], float]:
    """Simulate points on a worker; return their lines and the time."""
    import pickle

    if digest not in _plans:
        # One sweep after the other: the last plan is enough.
        _plans.clear()
        _plans[digest] = pickle.loads(packed)
    begun = time.perf_counter()
    lines = _plans[digest].simulate(points)
    return lines, time.perf_counter() - begun
