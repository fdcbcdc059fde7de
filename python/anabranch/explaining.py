"""Explanations: where the time of a flow went, and what would change it."""

from __future__ import annotations

import html
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anabranch import _anabranch, _palette, _progress, scenario
from anabranch._anabranch import Table
from anabranch._kept import Kept
from anabranch.comparison import threads
from anabranch.records import Explained, TimePart, record, row_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch._progress import Progress
    from anabranch._toml import Value
    from anabranch.plot import ExplanationPlots

__all__ = ["Explanation", "explain"]

COLORS = _palette.CAUSES
"""The colour of each cause; the names are those of ``anabranch explain --json``."""


class Explanation(Kept):
    """The result of :func:`explain`; ``print(explanation)`` is the command's answer.

    ``polars.DataFrame(explanation)`` has a row for each condition, contender and cause.
    """

    _values = ("table", "text", "bytes_text")
    _answers = ("json",)

    def __init__(self, inner: _anabranch.Explanation, *, of_bytes: bool) -> None:
        self._inner = inner
        self.of_bytes: bool = of_bytes
        """Whether the text and the plot show the time of a byte, and not that of a flow."""

    @property
    def table(self) -> Table:
        """A row for each condition, contender and cause, with its time and share."""
        return self._inner.table

    @cached_property
    def data(self) -> dict[str, Any]:
        """The object of ``anabranch explain --json``."""
        data: dict[str, Any] = json.loads(self._inner.json())
        return data

    @cached_property
    def rows(self) -> list[Explained]:
        """The explanations: one for each condition and contender."""
        return [record(Explained, one) for one in self.data["rows"]]

    def row(self, scheduler: str, condition: str | None = None) -> Explained:
        """Return the explanation of a contender, in the first condition unless one is named."""
        return row_of(self.rows, scheduler, condition)

    def parts(self, row: Explained) -> list[TimePart]:
        """Return the parts that are shown: those of a flow, or those of a byte."""
        return row.bytes if self.of_bytes else row.parts

    @property
    def plot(self) -> ExplanationPlots:
        """The plots."""
        from anabranch.plot import ExplanationPlots

        return ExplanationPlots(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return (self._inner.bytes_text if self.of_bytes else self._inner.text).rstrip("\n")

    def _repr_html_(self) -> str:
        longest = max((sum(part.mean_s for part in self.parts(row)) for row in self.rows), default=0.0) or 1.0
        lines, seen = [], set()
        for row in self.rows:
            name = ", ".join(filter(None, (row.condition, row.scheduler)))
            bar = ""
            for part in self.parts(row):
                width = 100 * part.mean_s / longest
                if width >= 0.05:
                    seen.add(part.cause)
                    title = f"{part.cause.replace('_', ' ')}: {1e3 * part.mean_s:.3g} ms, {part.share_pct:.0f} %"
                    style = f"display:inline-block;height:1.2em;width:{width:.2f}%;background:{COLORS[part.cause]}"
                    bar += f"<span title='{title}' style='{style}'></span>"
            mean = f"{1e3 * sum(part.mean_s for part in self.parts(row)):.4g} ms"
            lines.append(
                f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{mean}</td>"
                f"<td style='width:60%;text-align:left;white-space:nowrap'>{bar}</td></tr>"
            )
        shown = ((cause, color) for cause, color in COLORS.items() if cause in seen)
        legend = " ".join(
            f"<span style='color:{color}'>&#9632;</span>&nbsp;{cause.replace('_', ' ')}" for cause, color in shown
        )
        sentences = "".join(f"<li>{html.escape(row.sentence)}</li>" for row in self.rows)
        return f"<div><table style='width:100%'>{''.join(lines)}</table><p>{legend}</p><ul>{sentences}</ul></div>"


def explain(
    source: scenario.Source | scenario.Scenario,
    /,
    *,
    schedulers: scenario.Contenders | None = None,
    settings: Mapping[str, Value] | None = None,
    flow: int | None = None,
    bytes: bool = False,  # noqa: A002
    changes: bool = True,
    jobs: int | None = None,
    progress: Progress = None,
    **keys: Value,
) -> Explanation:
    """Explain where the time of a flow went, and what would change it, as ``anabranch explain`` does.

    ``flow`` is one flow of each run, from 1, instead of all. ``bytes`` shows the time of a byte from its offer to its
    delivery. ``changes`` runs changes that remove the largest cause, which takes most of the time. docs/explain.md
    defines the causes.

    >>> import anabranch
    >>> paths = [anabranch.Path("50 Mbit/s", "20 ms"), anabranch.Path("20 Mbit/s", "80 ms")]
    >>> result = anabranch.explain(paths, size="1 MB", runs=2, schedulers=["tcp", "linux"], changes=False)
    >>> result.row("linux").excess.cause
    'head_of_line'
    >>> row = result.row("tcp")
    >>> sum(part.sum_ns for part in row.parts) == row.total_ns
    True
    """
    chosen = scenario.of(source, schedulers, settings, keys)
    with _progress.bar(progress, "runs") as update:
        inner = _anabranch.explain(
            chosen._document,
            chosen._contenders,
            flow=flow,
            changes=changes,
            jobs=threads(jobs, chosen),
            progress=update,
        )
    return Explanation(inner, of_bytes=bytes)
