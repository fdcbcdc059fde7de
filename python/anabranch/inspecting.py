"""Captures of real connections."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anabranch import _anabranch, _progress
from anabranch._kept import Kept
from anabranch.comparison import Comparison
from anabranch.exceptions import ArgumentError, NotFoundError
from anabranch.records import CapturedConnection, Match, record
from anabranch.scenario import Scenario

if TYPE_CHECKING:
    from anabranch._progress import Progress

__all__ = ["CaptureSimulation", "Inspection", "inspect"]

NAME = "the scenario of the capture"
"""The name of such a scenario in errors."""


class CaptureSimulation(Kept):
    """The result of :meth:`Inspection.simulate`; ``print(simulation)`` is the command's answer."""

    _values = ("text",)
    _answers = ("json",)

    def __init__(self, inner: _anabranch.Simulation) -> None:
        self._inner = inner
        self.comparison: Comparison = Comparison(inner.comparison, self.scenario)
        """The comparison of the contenders on the paths of the capture, without :attr:`Comparison.samples`."""

    @cached_property
    def data(self) -> dict[str, Any]:
        """The object of ``anabranch inspect --simulate --json``."""
        data: dict[str, Any] = json.loads(self._inner.json())
        return data

    @property
    def connection(self) -> int:
        """The number of the connection in its capture."""
        return int(self.data["connection"])

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario of the connection."""
        return Scenario.from_toml(self.data["scenario"], name=NAME)

    @cached_property
    def matches(self) -> list[Match]:
        """How well the simulation matches the capture: completion time, shares of the paths, retransmissions."""
        return [record(Match, one) for one in self.data["matches"]]

    def __repr__(self) -> str:
        return self._inner.text.rstrip("\n")

    def _repr_html_(self) -> str:
        return f"<pre style='line-height:1.2'>{html.escape(repr(self))}</pre>"


class Inspection(Kept):
    """The result of :func:`inspect`; ``print(inspection)`` is the command's answer, a page for each connection."""

    _values = ("text",)
    _answers = ("json",)

    def __init__(self, inner: _anabranch.Inspection, files: list[str]) -> None:
        self._inner = inner
        self.files: list[str] = files
        """The captures."""

    @cached_property
    def data(self) -> dict[str, Any]:
        """The object of ``anabranch inspect --json``."""
        data: dict[str, Any] = json.loads(self._inner.json())
        return data

    @property
    def notes(self) -> list[str]:
        """Remarks on the captures."""
        notes: list[str] = self.data["notes"]
        return notes

    @cached_property
    def connections(self) -> list[CapturedConnection]:
        """The connections, in the order of their first packets."""
        return [record(CapturedConnection, one) for one in self.data["connections"]]

    def connection(self, number: int | None = None) -> CapturedConnection:
        """Return the connection of a number, from 1, or the one with most data."""
        if number is None:
            return max(self.connections, key=lambda one: max(stream.delivered_bytes for stream in one.streams))
        for one in self.connections:
            if one.number == number:
                return one
        message = f"there is no connection {number}; the captures have {len(self.connections)}"
        raise NotFoundError(message)

    def scenario(
        self, connection: int | None = None, *, scheduler: str | None = None, congestion: str | None = None
    ) -> Scenario:
        """Return the paths and the flow of a connection as a scenario.

        ``connection`` is a number, or the connection with most data. The first contender has ``scheduler`` and
        ``congestion``, by default the ones of Linux.
        """
        text = self._live().scenario(connection, scheduler=scheduler, congestion=congestion)
        return Scenario.from_toml(text, name=NAME)

    def simulate(
        self,
        connection: int | None = None,
        *,
        scheduler: str | None = None,
        congestion: str | None = None,
        jobs: int | None = None,
        progress: Progress = None,
    ) -> CaptureSimulation:
        """Simulate the scenario of a connection, first with the losses of the capture, then with other contenders."""
        if jobs is not None and jobs < 0:
            message = f"{jobs} is no number of threads"
            raise ArgumentError(message)
        with _progress.bar(progress, "runs") as update:
            inner = _anabranch.simulate(
                self._live(),
                connection,
                scheduler=scheduler,
                congestion=congestion,
                jobs=jobs or 0,
                progress=update,
            )
        return CaptureSimulation(inner)

    def _live(self) -> _anabranch.Inspection:
        """Return the object of the extension module; after pickling the captures are read again."""
        if not isinstance(self._inner, _anabranch.Inspection):
            self._inner = _anabranch.inspect(self.files)
        return self._inner

    def __repr__(self) -> str:
        return self._inner.text.rstrip("\n")

    def _repr_html_(self) -> str:
        return f"<pre style='line-height:1.2'>{html.escape(repr(self))}</pre>"


def inspect(captures: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], /) -> Inspection:
    """Read captures of real connections, and say what happened in them, as ``anabranch inspect`` does.

    ``captures`` is a file (pcap or pcapng, also compressed by gzip), or several of them, which are merged by time.
    docs/inspect.md defines the values.

    >>> import anabranch
    >>> anabranch.inspect([])
    Traceback (most recent call last):
    anabranch.exceptions.ArgumentError: there is no capture
    """
    files = [captures] if isinstance(captures, (str, os.PathLike)) else list(captures)
    if not files:
        message = "there is no capture"
        raise ArgumentError(message)
    names = [os.fspath(one) for one in files]
    return Inspection(_anabranch.inspect(names), names)
