"""Single runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch import _anabranch, _progress, scenario
from anabranch._anabranch import Table
from anabranch.comparison import threads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch._progress import Progress
    from anabranch._toml import Value

__all__ = ["Run", "run"]


class Run:
    """The result of :func:`run`; ``polars.DataFrame(result)`` has a row for each flow."""

    def __init__(self, flows: Table, links: Table) -> None:
        self.flows: Table = flows
        """A row for each flow, with the columns of ``--samples``."""
        self.links: Table = links
        """A row for each link and contender, with the counters of ``anabranch run --json``."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.flows.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        columns = ("condition", "scheduler", "flow", "outcome", "fct_s", "goodput_bps")
        lines = [f"{'scheduler':<16} {'flow':>5} {'done ms':>10} {'Mbit/s':>8}"]
        condition = ""
        for now, scheduler, flow, outcome, fct, rate in zip(*map(self.flows.column, columns), strict=True):
            if now != condition:
                condition = str(now)
                lines.append(condition)
            done = f"{fct * 1e3:.1f}" if isinstance(fct, float) else str(outcome)
            mbits = rate / 1e6 if isinstance(rate, int) else 0.0
            lines.append(f"{scheduler!s:<16} {flow!s:>5} {done:>10} {mbits:>8.2f}")
        return "\n".join(lines)


def run(
    source: scenario.Source | scenario.Scenario,
    /,
    *,
    run: int | None = None,
    schedulers: scenario.Contenders | None = None,
    settings: Mapping[str, Value] | None = None,
    jobs: int | None = None,
    every_path: bool = False,
    progress: Progress = None,
    **keys: Value,
) -> Run:
    """
    Simulate each contender once, as ``anabranch run`` does.

    With a number ``run`` it is that run of a comparison, with its seed, phases and losses.

    >>> import anabranch
    >>> result = anabranch.run([anabranch.Path("8 Mbit/s", "20 ms")], size="1 MB", schedulers=["tcp"])
    >>> result.flows.column("delivered_bytes"), len(result.links)
    ([1000000], 2)
    """
    chosen = scenario.of(source, schedulers, settings, keys)
    with _progress.bar(progress, "runs") as update:
        flows, links = _anabranch.run(
            chosen._document,
            chosen._contenders,
            run=run,
            jobs=threads(jobs, chosen),
            every_path=every_path,
            progress=update,
        )
    return Run(flows, links)
