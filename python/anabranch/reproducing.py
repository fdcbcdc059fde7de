"""Claims of published papers, judged by simulation."""

from __future__ import annotations

import html
import json
import os
import pathlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anabranch import _anabranch, _palette, _progress
from anabranch._kept import Kept
from anabranch.exceptions import ArgumentError, NotFoundError, ScenarioError
from anabranch.records import Finding, record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch._progress import Progress
    from anabranch.plot import ReproductionPlots

__all__ = ["Reproduction", "reproduce"]

COLORS = _palette.VERDICTS
"""The colour of each status; others are grey."""


class Reproduction(Kept):
    """The result of :func:`reproduce`; ``print(result)`` is the command's answer."""

    _values = ("text", "changed")
    _answers = ("json", "findings")

    def __init__(self, inner: _anabranch.Reproduction) -> None:
        self._inner = inner

    @cached_property
    def data(self) -> list[dict[str, Any]]:
        """The list of ``anabranch reproduce --json``: a record for each claim."""
        data: list[dict[str, Any]] = json.loads(self._inner.json())
        return data

    @cached_property
    def findings(self) -> list[Finding]:
        """The claims with all judgements, as in ``results.json``."""
        return [record(Finding, one) for one in json.loads(self._inner.findings())]

    def finding(self, claim: str) -> Finding:
        """Return the result of a claim, such as ``D18``."""
        for finding in self.findings:
            if finding.id.lower() == claim.lower():
                return finding
        message = f"there is no claim {claim!r} here; there are {', '.join(finding.id for finding in self.findings)}"
        raise NotFoundError(message)

    @property
    def changed(self) -> str | None:
        """With ``quick`` and ``holding``: the verdicts that differ from the recorded ones, in words."""
        return self._inner.changed

    @property
    def plot(self) -> ReproductionPlots:
        """The plots."""
        from anabranch.plot import ReproductionPlots

        return ReproductionPlots(self)

    def __repr__(self) -> str:
        return self._inner.text.rstrip("\n")

    def _repr_html_(self) -> str:
        rows = "".join(
            "<tr>"
            f"<td>{html.escape(one.id)}</td>"
            f"<td style='color:{COLORS.get(one.status, 'gray')}'>{one.status.replace('_', ' ')}</td>"
            f"<td style='text-align:left'>{html.escape(f'{one.paper}, {one.figure}')}</td>"
            f"<td style='text-align:left'>{html.escape(one.claim)}</td>"
            f"<td style='text-align:left'>{html.escape(one.evidence)}</td>"
            "</tr>"
            for one in self.findings
        )
        names = ("claim", "verdict", "figure", "what it says", "evidence")
        head = "".join(f"<th style='text-align:left'>{name}</th>" for name in names)
        return f"<table><tr>{head}</tr>{rows}</table>"


def _contradict(options: Mapping[str, object], *pairs: tuple[str, str]) -> None:
    for one, other in pairs:
        if options[one] not in (None, False) and options[other] not in (None, False):
            message = f"`{one}` and `{other}` contradict each other; give one of them"
            raise ScenarioError(message)


def reproduce(
    paper: str | None = None,
    /,
    *,
    from_: str | os.PathLike[str] | None = None,
    figure: str | None = None,
    table: str | None = None,
    claim: str | Sequence[str] = (),
    quick: bool = False,
    full: bool = False,
    holding: bool = False,
    plain: bool = False,
    out: str | os.PathLike[str] | None = None,
    any_build: bool = False,
    list: bool = False,  # noqa: A002
    seed: int | None = None,
    jobs: int = 0,
    client: Any = None,
    progress: Progress = None,
) -> Reproduction:
    """Judge the claims of published papers by simulation, as ``anabranch reproduce`` does.

    ``paper`` is ``dmptcp``, ``cp``, ``stms`` or ``coupled``, ``figure`` and ``table`` are its own, such as ``14a``,
    and ``claim`` is one or several such as ``D18``. Without any of them, ``quick`` or ``full`` the recorded verdicts
    are returned. ``quick`` judges the claims that are most likely to change with the stack, with fewer runs; ``full``
    all of them, and ``holding`` those that are recorded as holding, such as with another ``seed``. ``from_`` is the
    directory of a paper that is not built in. ``plain`` tries no variants. ``out`` is
    the directory of the journal and the results, in which an interrupted reproduction continues. With a ``client`` of
    Dask the runs are simulated on its workers, with the same results; they need to read the directory ``from_``.
    docs/claims.md describes claims.

    >>> import anabranch
    >>> anabranch.reproduce("dmptcp", claim="D18").data[0]["status"] in {"holds", "variant", "fails", "undecided"}
    True
    >>> anabranch.reproduce(list=True).finding("D18").figure
    'Figure 14a'
    """
    given = {
        "paper": paper,
        "from_": from_,
        "figure": figure,
        "table": table,
        "quick": quick,
        "full": full,
        "holding": holding,
        "list": list,
        "seed": seed,
    }
    _contradict(
        given,
        ("figure", "table"),
        ("quick", "full"),
        ("quick", "holding"),
        ("full", "holding"),
        ("list", "quick"),
        ("list", "full"),
        ("list", "holding"),
        ("list", "seed"),
        ("from_", "paper"),
        ("from_", "list"),
        ("from_", "holding"),
    )
    if any_build and out is None:
        message = "`any_build` is about the measurements in a directory; give `out`"
        raise ScenarioError(message)
    if jobs < 0:
        message = f"{jobs} is no number of threads"
        raise ArgumentError(message)
    inner = _anabranch.Reproducing(
        paper,
        from_=None if from_ is None else str(pathlib.Path(from_).absolute()),
        figure=figure,
        table=table,
        claim=[claim] if isinstance(claim, str) else [*claim],
        quick=quick,
        full=full,
        holding=holding,
        plain=plain,
        out=None if out is None else str(pathlib.Path(out)),
        any_build=any_build,
        list=list,
        seed=seed,
        jobs=jobs,
    )
    with _progress.bar(progress, "measurements") as update:
        if client is not None:
            from anabranch import cluster

            cluster.reproduce(inner, client, update)
            # All that is left are the verdicts.
            update = None
        return Reproduction(inner.finish(update))
