"""Comparisons of schedulers."""

from __future__ import annotations

import html
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anabranch import _anabranch, _progress, scenario
from anabranch._anabranch import Table
from anabranch._kept import Kept
from anabranch.exceptions import ArgumentError
from anabranch.records import Row, Verdict, record, row_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch._progress import Progress
    from anabranch._toml import Value
    from anabranch.plot import ComparisonPlots

__all__ = ["Comparison", "compare"]


class Comparison(Kept):
    """The result of :func:`compare`.

    ``print(result)`` is the command's table; ``polars.DataFrame(result)`` has a row for each flow (:attr:`samples`).
    """

    _values = ("samples", "table", "text", "complete")
    _answers = ("json",)

    def __init__(self, inner: _anabranch.Comparison, of: scenario.Scenario) -> None:
        self._inner = inner
        self.scenario: scenario.Scenario = of
        """The scenario."""

    @property
    def table(self) -> Table:
        """A row for each condition and contender, with the columns of a sweep's results."""
        return self._inner.table

    @property
    def samples(self) -> Table:
        """A row for each flow of each run, with the columns of ``--samples``."""
        if self._inner.samples is None:
            message = "this comparison was made with `samples=False`"
            raise ArgumentError(message)
        return self._inner.samples

    @property
    def complete(self) -> bool:
        """Whether all flows were delivered, so that there can be a winner."""
        return self._inner.complete

    @cached_property
    def data(self) -> dict[str, Any]:
        """The object of ``anabranch compare --json``."""
        data: dict[str, Any] = json.loads(self._inner.json())
        return data

    @property
    def verdict(self) -> str:
        """The best scheduler for this traffic, in words."""
        return str(self.data["verdict"])

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """The verdicts: one for each condition, class of traffic and measure."""
        return [record(Verdict, one) for one in self.data["verdicts"]]

    @cached_property
    def rows(self) -> list[Row]:
        """The results: one for each condition, class of traffic and contender."""
        return [record(Row, one) for one in self.data["rows"]]

    def row(self, scheduler: str, condition: str | None = None, traffic: str | None = None) -> Row:
        """Return the results of a contender, in the first condition and class of traffic unless they are named."""
        return row_of(self.rows, scheduler, condition, traffic)

    @property
    def plot(self) -> ComparisonPlots:
        """The plots."""
        from anabranch.plot import ComparisonPlots

        return ComparisonPlots(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.samples.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return self._inner.text.rstrip("\n")

    def _repr_html_(self) -> str:
        return f"<pre style='line-height:1.2'>{html.escape(repr(self))}</pre>"


def compare(
    source: scenario.Source | scenario.Scenario = "phone",
    /,
    *,
    schedulers: scenario.Contenders | None = None,
    settings: Mapping[str, Value] | None = None,
    jobs: int | None = None,
    samples: bool = True,
    every_path: bool = False,
    other_starts: bool = True,
    progress: Progress = None,
    **keys: Value,
) -> Comparison:
    """Compare schedulers on a scenario, with common random numbers, as ``anabranch compare`` does.

    ``source`` and the keys of a scenario are those of :class:`Scenario`. ``jobs`` is the number of threads: by default
    one for each core, and one with a scheduler in Python; the result does not depend on it. ``samples`` keeps a row for
    each flow. ``every_path`` adds a plain TCP on every single path, ``other_starts`` measures the effect of starting
    on other paths.

    >>> import anabranch
    >>> paths = [anabranch.Path("50 Mbit/s", "20 ms"), anabranch.Path("50 Mbit/s", "25 ms")]
    >>> result = anabranch.compare(paths, size="3 MB", runs=3, schedulers=["tcp", "min_rtt"])
    >>> result.verdicts[0].best, len(result.samples)
    (['min_rtt'], 6)
    """
    chosen = scenario.of(source, schedulers, settings, keys)
    with _progress.bar(progress, "runs") as update:
        inner = _anabranch.compare(
            chosen._document,
            chosen._contenders,
            jobs=threads(jobs, chosen),
            samples=samples,
            every_path=every_path,
            other_starts=other_starts,
            progress=update,
        )
    return Comparison(inner, chosen)


def threads(jobs: int | None, of: scenario.Scenario) -> int:
    """Return the number of threads; 0 is one for each core."""
    if jobs is None:
        # The interpreter runs one thread at a time.
        return 1 if of._contenders else 0
    if jobs < 0:
        message = f"{jobs} is no number of threads"
        raise ArgumentError(message)
    return jobs
