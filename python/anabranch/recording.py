"""Recordings: the tables of a run directory."""

from __future__ import annotations

import html
import json
import os
import pathlib
import shutil
import tempfile
import weakref
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anabranch import _anabranch
from anabranch._anabranch import Table
from anabranch.exceptions import NotFoundError, RunError

if TYPE_CHECKING:
    from anabranch.plot import RecordingPlots

__all__ = ["RecordedRun", "Recording"]

TABLES = ("flows", "subflows", "windows", "queues", "events", "decisions")
"""The tables of a run; docs/recording.md describes their columns."""


FORMATS = ("parquet", "csv", "ndjson")
"""The formats, which are the extensions of the files."""


class Temporary:
    """A new directory, which is removed with the last object that keeps this one."""

    def __init__(self) -> None:
        self._path = tempfile.mkdtemp(prefix="anabranch-recording-")
        weakref.finalize(self, shutil.rmtree, self._path, ignore_errors=True)

    def __fspath__(self) -> str:
        return self._path


class RecordedRun:
    """The tables of one run: a contender under a condition.

    Each table is read when it is first used, and kept.
    """

    def __init__(self, directory: pathlib.Path, data: dict[str, Any], keep: Temporary | None) -> None:
        self.directory: pathlib.Path = directory
        """Its directory."""
        self._keep = keep
        self.data: dict[str, Any] = data
        """Its entry in ``run.json``."""

    @property
    def condition(self) -> str:
        """The condition; empty if the scenario has none."""
        return str(self.data["condition"])

    @property
    def scheduler(self) -> str:
        """The contender."""
        return str(self.data["scheduler"])

    @property
    def paths(self) -> list[str]:
        """The names of the paths, in the order of the interfaces of both hosts."""
        return [str(name) for name in self.data["paths"]]

    @property
    def outages(self) -> list[tuple[str, float, float | None]]:
        """The times in which paths are down: path, beginning and end in seconds; ``None`` for no end."""
        found = []
        for outage in self.data.get("outages", []):
            until = outage["until_ns"]
            found.append((str(outage["path"]), outage["from_ns"] / 1e9, None if until is None else until / 1e9))
        return found

    @property
    def complete(self) -> bool:
        """Whether the run ended."""
        return bool(self.data["complete"])

    def _read(self, name: str) -> Table:
        files = (self.directory / f"{name}.{extension}" for extension in FORMATS)
        file = next((file for file in files if file.exists()), None)
        if file is None:
            message = f"there is no {self.directory / name}.{FORMATS[0]}: the run did not end"
            raise RunError(message)
        try:
            return _anabranch.read_table(name, file)
        except OSError as error:
            raise RunError(str(error)) from error

    @cached_property
    def flows(self) -> Table:
        """A row for each flow."""
        return self._read("flows")

    @cached_property
    def subflows(self) -> Table:
        """A row for each subflow at each end of a flow."""
        return self._read("subflows")

    @cached_property
    def windows(self) -> Table:
        """The windows of each sending subflow over time."""
        return self._read("windows")

    @cached_property
    def queues(self) -> Table:
        """The queue of each link over time."""
        return self._read("queues")

    @cached_property
    def events(self) -> Table:
        """The events of the data of each flow."""
        return self._read("events")

    @cached_property
    def decisions(self) -> Table:
        """The decisions of the scheduler."""
        return self._read("decisions")

    def __getstate__(self) -> dict[str, Any]:
        if self._keep is None:
            return self.__dict__
        # The temporary directory may be gone when this is read again.
        tables = {name: getattr(self, name) for name in TABLES} if self.complete else {}
        return {**self.__dict__, **tables, "_keep": None}

    def __repr__(self) -> str:
        name = ", ".join(filter(None, (self.condition, self.scheduler)))
        return f"<RecordedRun {name}{'' if self.complete else ', partial'}>"


class Recording:
    """A run directory, as ``anabranch run --record DIR`` and :func:`anabranch.run` with ``record`` write it.

    >>> import anabranch
    >>> paths = [anabranch.Path("20 Mbit/s", "20 ms", name="wifi"), anabranch.Path("10 Mbit/s", "40 ms", name="lte")]
    >>> result = anabranch.run(paths, size="200 KB", schedulers=["min_rtt", "blest"], record=True)
    >>> recording = result.recording
    >>> recording.runs
    [<RecordedRun min_rtt>, <RecordedRun blest>]
    >>> events = recording.run("min_rtt").events
    >>> events.column("event").count("data_acked") > 10
    True
    """

    def __init__(self, directory: str | os.PathLike[str] | Temporary) -> None:
        keep = directory if isinstance(directory, Temporary) else None
        self.directory: pathlib.Path = pathlib.Path(directory)
        """The directory."""
        file = self.directory / "run.json"
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            message = f"{self.directory} is no recording: {error}"
            raise RunError(message) from error
        if not isinstance(data, dict) or "runs" not in data or "interval_ns" not in data:
            message = f"{self.directory} is no recording, but its run.json belongs to a sweep or to something else"
            raise RunError(message)
        if data.get("schema") != 1:
            message = f"{file} has schema {data.get('schema')}; this version of anabranch reads 1"
            raise RunError(message)
        self.data: dict[str, Any] = data
        """``run.json``."""
        self.runs: list[RecordedRun] = [
            RecordedRun(self.directory / one["directory"], one, keep) for one in data["runs"]
        ]
        """The runs."""

    @property
    def complete(self) -> bool:
        """Whether all runs ended and all tables are whole."""
        return bool(self.data["complete"])

    def run(self, scheduler: str | None = None, condition: str | None = None) -> RecordedRun:
        """Return the run of a contender under a condition; the first one that fits."""
        for run in self.runs:
            if scheduler in {None, run.scheduler} and condition in {None, run.condition}:
                return run
        known = "; ".join(", ".join(filter(None, (run.condition, run.scheduler))) for run in self.runs)
        message = f"there is no run of {scheduler or condition!r}; there are {known}"
        raise NotFoundError(message)

    @property
    def plot(self) -> RecordingPlots:
        """The plots."""
        from anabranch.plot import RecordingPlots

        return RecordingPlots(self)

    def __repr__(self) -> str:
        state = "complete" if self.complete else f"partial ({self.data.get('reason') or 'no reason is known'})"
        return f"<Recording {self.directory}: {len(self.runs)} runs, {state}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(run.condition)}</td><td>{html.escape(run.scheduler)}</td>"
            f"<td>{html.escape(', '.join(run.paths))}</td><td>{run.data['seed']}</td>"
            f"<td>{'complete' if run.complete else 'partial'}</td></tr>"
            for run in self.runs
        )
        head = "".join(f"<th>{name}</th>" for name in ("condition", "scheduler", "paths", "seed", ""))
        return f"<div>{html.escape(repr(self))}<table><tr>{head}</tr>{rows}</table></div>"
