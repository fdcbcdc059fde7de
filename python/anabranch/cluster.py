"""Sweeps on a cluster: the points of a plan as tasks of Dask.

A task simulates some points and returns their lines of the journal; this process alone writes the journal. So
workers need no common file system, may come and go, and what one of them loses is simulated again by another. The
table is written in the order of the points, whatever the order of the answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anabranch import _anabranch
    from anabranch.sweeping import Plan

__all__ = ["run"]

_UNITS_PER_THREAD = 8
"""Units for each thread of the cluster: more of them even out their times, and cost more messages."""
_MOST_POINTS = 64


def run(
    plan: Plan,
    sweep: _anabranch.Sweep,
    client: Any,
    progress: Callable[[int, int], object] | None,
) -> None:
    """Simulate the missing points of ``sweep`` on the workers of ``client``."""
    import distributed

    as_completed: Any = distributed.as_completed

    missing = sweep.missing
    done, total = len(plan) - len(missing), len(plan)
    shared = client.scatter(plan, broadcast=True) if missing else None
    tasks = [
        client.submit(_simulate, shared, unit, pure=False, retries=3)
        for unit in _units(missing, sum(client.nthreads().values()))
    ]
    try:
        for task in as_completed(tasks):
            for line in task.result():
                sweep.add(line)
                done += 1
            if progress is not None:
                progress(done, total)
    finally:
        client.cancel(tasks)


def _units(points: list[int], threads: int) -> Iterator[list[int]]:
    size = max(1, min(_MOST_POINTS, len(points) // (_UNITS_PER_THREAD * max(1, threads))))
    # Adjacent points take a similar time: each unit has points from the whole plan.
    count = -(-len(points) // size)
    return (points[first::count] for first in range(count))


def _simulate(plan: Plan, points: list[int]) -> list[str]:
    return plan.simulate(points)
