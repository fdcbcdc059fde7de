"""Single runs."""

from __future__ import annotations

import html
import json
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anabranch import _anabranch, _progress, scenario
from anabranch import recording as _recording
from anabranch._anabranch import Table
from anabranch._kept import Kept
from anabranch.comparison import threads
from anabranch.exceptions import ArgumentError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch._progress import Progress
    from anabranch._toml import Value
    from anabranch.plot import RecordingPlots

__all__ = ["Run", "run"]


class Run(Kept):
    """The result of :func:`run`.

    ``print(result)`` is the command's table; ``polars.DataFrame(result)`` has a row for each flow.
    """

    _values = ("flows", "links", "text")
    _answers = ("json",)

    def __init__(self, inner: _anabranch.Run, recorded: _recording.Recording | None) -> None:
        self._inner = inner
        self._recording = recorded

    @property
    def flows(self) -> Table:
        """A row for each flow, with the columns of ``--samples``."""
        return self._inner.flows

    @property
    def links(self) -> Table:
        """A row for each link and contender, with the counters of ``anabranch run --json``."""
        return self._inner.links

    @cached_property
    def data(self) -> dict[str, Any]:
        """The object of ``anabranch run --json``."""
        data: dict[str, Any] = json.loads(self._inner.json())
        return data

    @property
    def recording(self) -> _recording.Recording:
        """The recording, if :func:`run` was called with ``record``."""
        if self._recording is None:
            message = "this run was not recorded; give `record=True`"
            raise ArgumentError(message)
        return self._recording

    @property
    def plot(self) -> RecordingPlots:
        """The plots of the recording."""
        return self.recording.plot

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.flows.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return self._inner.text.rstrip("\n")

    def _repr_html_(self) -> str:
        return f"<pre style='line-height:1.2'>{html.escape(repr(self))}</pre>"


def run(
    source: scenario.Source | scenario.Scenario,
    /,
    *,
    run: int | None = None,
    schedulers: scenario.Contenders | None = None,
    settings: Mapping[str, Value] | None = None,
    jobs: int | None = None,
    every_path: bool = False,
    record: bool | str | os.PathLike[str] = False,
    record_format: str = "parquet",
    record_every: str = "1 ms",
    xpl: bool = False,
    progress: Progress = None,
    **keys: Value,
) -> Run:
    """Simulate each contender once, as ``anabranch run`` does.

    With a number ``run`` it is that run of a comparison, with its seed, phases and losses. ``record`` keeps the events
    of the runs as tables (:attr:`Run.recording`), in a new directory or, if it is true, in a temporary one that is
    removed with the result; ``record_format``, ``record_every`` and ``xpl`` are options of the command.

    >>> import anabranch
    >>> result = anabranch.run([anabranch.Path("8 Mbit/s", "20 ms")], size="1 MB", schedulers=["tcp"])
    >>> result.flows.column("delivered_bytes"), len(result.links)
    ([1000000], 2)
    """
    if run is not None and run < 0:
        message = f"there is no run {run}; the runs are counted from 0"
        raise NotFoundError(message)
    chosen = scenario.of(source, schedulers, settings, keys)
    directory = (_recording.Temporary() if record else None) if isinstance(record, bool) else record
    with _progress.bar(progress, "runs") as update:
        inner = _anabranch.run(
            chosen._document,
            chosen._contenders,
            run=run,
            jobs=threads(jobs, chosen),
            every_path=every_path,
            record=None if directory is None else (os.fspath(directory), record_format, record_every, xpl),
            progress=update,
        )
    return Run(inner, None if directory is None else _recording.Recording(directory))
