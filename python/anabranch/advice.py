"""Advice: whether Multipath TCP pays, and with what."""

from __future__ import annotations

import html
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from anabranch import _anabranch, scenario
from anabranch._kept import Kept
from anabranch.exceptions import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch._toml import Value

__all__ = ["Advice", "advise"]


class Advice(Kept):
    """The result of :func:`advise`; ``print(advice)`` is the command's answer."""

    _values = ("text",)
    _answers = ("json",)

    def __init__(self, inner: _anabranch.Advice) -> None:
        self._inner = inner

    @cached_property
    def data(self) -> dict[str, Any]:
        """The object of ``anabranch advise --json``."""
        data: dict[str, Any] = json.loads(self._inner.json())
        return data

    @property
    def answer(self) -> str:
        """``pays``, ``small``, ``equal``, ``costs``, ``undecided`` or ``incomplete``."""
        return str(self.data["answer"])

    @property
    def best(self) -> str:
        """The best candidate that the application can have, such as ``linux with bbr``."""
        return str(self.data["best"]["name"])

    @property
    def start(self) -> str:
        """The path on which a connection should start."""
        return str(self.data["start"])

    @property
    def single_path(self) -> str | None:
        """The best single path."""
        path: str | None = self.data["single_path"]
        return path

    @property
    def reasons(self) -> list[dict[str, Any]]:
        """For TCP and each candidate where its time went, from ``explain``; ``sentence`` says it in words."""
        reasons: list[dict[str, Any]] = self.data["reasons"]
        return reasons

    @property
    def margins(self) -> list[dict[str, Any]]:
        """How far each quantity may change before the answer does."""
        margins: list[dict[str, Any]] = self.data["margins"]
        return margins

    @property
    def actions(self) -> list[str]:
        """Commands and settings that put the advice into effect."""
        actions: list[str] = self.data["actions"]
        return actions

    def __repr__(self) -> str:
        return self._inner.text.rstrip("\n")

    def _repr_html_(self) -> str:
        return f"<pre style='line-height:1.2'>{html.escape(repr(self))}</pre>"


def advise(
    source: scenario.Source | scenario.Scenario,
    /,
    *,
    settings: Mapping[str, Value] | None = None,
    condition: str | None = None,
    margins: bool = True,
    min_gain: float = 0.05,
    application: Literal["kernel", "anabranch"] = "kernel",
    jobs: int = 0,
    **keys: Value,
) -> Advice:
    """Advise whether Multipath TCP pays for these paths and this traffic, as ``anabranch advise`` does.

    ``condition`` is one of a scenario that has several. ``margins`` are how far the paths may change before the answer
    does, which takes most of the time. ``min_gain`` is the least advantage over TCP that counts as a gain, as a part of
    TCP's value. An ``application`` of kind ``kernel`` uses the sockets of a stock Linux kernel; one of kind
    ``anabranch`` is built on this stack, and can have every scheduler and congestion control.

    >>> import anabranch
    >>> paths = [anabranch.Path("20 Mbit/s", "20 ms"), anabranch.Path("20 Mbit/s", "30 ms")]
    >>> advice = anabranch.advise(paths, size="2 MB", margins=False)
    >>> advice.answer, advice.single_path
    ('pays', 'path 1')
    """
    chosen = scenario.of(source, None, settings, keys)
    if chosen._contenders:
        message = "advice chooses among the built-in schedulers; `compare` takes schedulers in Python"
        raise ScenarioError(message)
    inner = _anabranch.advise(
        chosen._document, condition=condition, margins=margins, min_gain=min_gain, application=application, jobs=jobs
    )
    return Advice(inner)
