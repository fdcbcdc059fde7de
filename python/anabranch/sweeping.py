"""Sweeps: a comparison at each point of a space of conditions."""

from __future__ import annotations

import html
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from anabranch import _anabranch, _progress, _toml, scenario, storage
from anabranch._anabranch import Table
from anabranch.exceptions import ArgumentError, ScenarioError, SweepError
from anabranch.records import Standing, record

if TYPE_CHECKING:
    from anabranch._progress import Progress
    from anabranch._toml import Value
    from anabranch.plot import SweepPlots

__all__ = ["Plan", "Range", "Sweep", "sweep"]


class Range:
    """A range of values: ``steps`` of them in a grid; ``log`` makes equal factors of equal steps.

    >>> Range("5 Mbit/s", "80 Mbit/s", steps=5, log=True)
    Range('5 Mbit/s', '80 Mbit/s', steps=5, log=True)
    """

    def __init__(self, from_: Value, to: Value, /, *, steps: int | None = None, log: bool = False) -> None:
        self.from_, self.to, self.steps, self.log = from_, to, steps, log

    def to_dict(self) -> dict[str, Value]:
        """Return the range as it is in a plan."""
        table: dict[str, Value] = {
            "from": self.from_,
            "to": self.to,
            "scale": "log" if self.log else "linear",
        }
        return table if self.steps is None else {**table, "steps": self.steps}

    def __repr__(self) -> str:
        return f"Range({self.from_!r}, {self.to!r}, steps={self.steps}, log={self.log})"


Varied: TypeAlias = "Mapping[str, Sequence[Value] | _toml.OfNumPy | Range]"


class Plan:
    """A scenario, and the values that its keys take.

    ``source`` is a file of a plan, or a scenario with ``vary``, whose contenders may be in Python. ``design`` is
    ``grid`` (the default), ``random``, ``latin-hypercube`` or ``sobol``; all but a grid take a number of ``points``.
    Other keys of a plan, such as ``stop``, are keywords.

    >>> plan = Plan("wifi-lte", vary={"path.lte.rate": Range("5 Mbit/s", "20 Mbit/s", steps=3, log=True)}, runs=3)
    >>> len(plan), plan.dimensions
    (3, ['path.lte.rate (Mbit/s)'])
    >>> plan.point(1)
    {'path.lte.rate (Mbit/s)': '10 Mbit/s'}
    """

    def __init__(
        self,
        source: scenario.Source | scenario.Scenario,
        /,
        *,
        vary: Varied | None = None,
        settings: Mapping[str, Value] | None = None,
        runs: int | None = None,
        **keys: Value,
    ) -> None:
        self._scenario: scenario.Scenario | None = None
        self._settings = [_toml.assignment(key, value) for key, value in (settings or {}).items()]
        self._runs = runs
        if vary is None:
            if not isinstance(source, (str, os.PathLike)):
                message = "there is nothing to vary; give `vary`, or the file of a plan"
                raise ScenarioError(message)
            if keys:
                message = f"the plan {os.fspath(source)} is a file, which has `{next(iter(keys))}` itself"
                raise ScenarioError(message)
            file = pathlib.Path(source)
            try:
                self._text = file.read_text(encoding="utf-8")
            except (OSError, UnicodeError) as error:
                message = f"cannot read the plan `{file}`: {error}"
                raise ScenarioError(message) from error
            self._name, self._directory = str(file), str(file.parent)
        else:
            self._scenario = scenario.of(source)
            table = {key.replace("_", "-"): value for key, value in keys.items()}
            # A directory of other code is not continued.
            origins = (f"# {name} is {own.origin()}\n" for name, own in self._scenario._custom.items())
            self._text = "".join(origins) + _toml.document({**table, "vary": dict(vary)})
            self._name, self._directory = "plan", "."
        self._open()

    def _open(self) -> None:
        document = self._scenario._document if self._scenario is not None else None
        contenders = self._scenario._contenders if self._scenario is not None else []
        self._inner = _anabranch.Plan(
            self._name, self._text, self._directory, document, self._settings, self._runs, contenders
        )

    def _custom(self) -> list[object]:
        """Return the schedulers and window rules in Python."""
        own = self._scenario._custom.values() if self._scenario is not None else ()
        return [part for one in own for part in (one.scheduler, one.congestion) if part is not None]

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_inner"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def __len__(self) -> int:
        return len(self._inner)

    @property
    def text(self) -> str:
        """The text of the plan."""
        return self._inner.text

    @property
    def dimensions(self) -> list[str]:
        """The columns of the varied values."""
        return self._inner.dimensions

    def point(self, number: int) -> dict[str, str]:
        """Return the values of a point."""
        values = (value.strip("\"'") for value in self._inner.point(number))
        return dict(zip(self.dimensions, values, strict=True))

    def simulate(self, points: Sequence[int]) -> list[str]:
        """Simulate points on one thread, and return a line of the journal for each: a unit of work on a cluster."""
        return self._inner.simulate(points)

    def __repr__(self) -> str:
        return f"<Plan of {len(self)} points: {', '.join(self.dimensions)}>"


class Sweep:
    """The result of :func:`sweep`; ``polars.DataFrame(result)`` has a row for each point, condition and contender."""

    def __init__(self, plan: Plan, table: Table, summary: str, text: str) -> None:
        self.plan: Plan = plan
        """The plan."""
        self.table: Table = table
        """A row for each point, condition and contender, with the columns of ``results.parquet``."""
        self.data: dict[str, Any] = json.loads(summary)
        """The summary, with the keys of ``anabranch sweep --json``."""
        self._text = text

    @property
    def contenders(self) -> list[Standing]:
        """Each contender over all points."""
        return [record(Standing, one) for one in self.data["contenders"]]

    @property
    def plot(self) -> SweepPlots:
        """The plots."""
        from anabranch.plot import SweepPlots

        return SweepPlots(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return self._text.rstrip("\n")

    def _repr_html_(self) -> str:
        return f"<pre style='line-height:1.2'>{html.escape(repr(self))}</pre>"


def sweep(
    source: Plan | scenario.Source | scenario.Scenario,
    /,
    *,
    vary: Varied | None = None,
    settings: Mapping[str, Value] | None = None,
    runs: int | None = None,
    output: str | os.PathLike[str] | None = None,
    format: str = "parquet",  # noqa: A002
    jobs: int | None = None,
    client: Any = None,
    progress: Progress = None,
    **keys: Value,
) -> Sweep:
    """Compare schedulers at every point of a space of conditions, as ``anabranch sweep`` does.

    ``source``, ``vary``, ``settings``, ``runs`` and other keys are those of :class:`Plan`. An interrupted sweep
    continues in the directory ``output``, which may be a URL of fsspec such as ``s3://bucket/results``; its files are
    those of the command. With a ``client`` of Dask the points are simulated on its workers. ``jobs`` is the number of
    threads: by default one for each core, and one with a scheduler in Python. The table has the same bytes for any
    number of threads, workers and interruptions.

    >>> import anabranch
    >>> paths = [anabranch.Path("10 Mbit/s", "20 ms"), anabranch.Path("10 Mbit/s", "30 ms")]
    >>> scenario = anabranch.Scenario(paths, size="100 KB", schedulers=["tcp", "min_rtt"])
    >>> result = anabranch.sweep(scenario, vary={"path.2.rate": ["5 Mbit/s", "20 Mbit/s"]}, runs=2)
    >>> len(result.table), result.table.column("path.2.rate (Mbit/s)")
    (4, [5.0, 5.0, 20.0, 20.0])
    """
    if isinstance(source, Plan):
        if vary is not None or settings is not None or runs is not None or keys:
            message = "the plan is complete; give its values to `Plan`"
            raise ScenarioError(message)
        plan = source
    else:
        plan = Plan(source, vary=vary, settings=settings, runs=runs, **keys)
    if jobs is None:
        # The interpreter runs one thread at a time.
        jobs = 1 if plan._custom() else 0
    if jobs < 0:
        message = f"{jobs} is no number of threads"
        raise ArgumentError(message)
    with storage.opened(output) as (directory, store):
        try:
            inner = _anabranch.Sweep(plan._inner, directory, format)
        except SweepError as error:
            raise SweepError(str(error).replace(directory, os.fspath(output or directory))) from None
        try:
            store.restore(inner)
            with _progress.bar(progress, "points") as update:
                try:
                    if client is not None:
                        from anabranch import cluster

                        cluster.run(plan, inner, client, update, store)
                    elif isinstance(store, storage.Remote):
                        store.run(plan, inner, jobs, update)
                    else:
                        inner.run(jobs, update)
                except BaseException:
                    # Records that the sweep is partial.
                    inner.finish()
                    store.save()
                    raise
            table, summary, text = inner.finish()
            store.save()
        finally:
            # A notebook keeps the traceback of an exception, and so this object with the lock of its directory.
            inner.close()
    return Sweep(plan, table, summary, text)
