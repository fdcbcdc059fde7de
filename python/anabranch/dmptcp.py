"""DMPTCP's transfer model and its choice of subflows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch import _anabranch
from anabranch.exceptions import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anabranch.network import Path

__all__ = ["ModelRound", "PathChoice", "model", "select"]


@dataclass(frozen=True, kw_only=True)
class ModelRound:
    """A round trip that the transfer model predicts."""

    round: int
    delivered_segments: float
    """In this and all earlier rounds."""
    expected_cwnd: float
    states: list[tuple[int, int | None, float]]
    """Window, threshold and probability of each state."""


def model(
    *, cwnd: int, rounds: int, ssthresh: int | None = None, loss: str | float = 0, clip: bool = False
) -> list[ModelRound]:
    """Return the rounds that DMPTCP's transfer model predicts, as ``anabranch model`` does.

    Windows and thresholds are in segments; ``clip`` ends slow start at the threshold instead of beyond it.

    >>> [round.delivered_segments for round in model(cwnd=10, rounds=3)]
    [10.0, 30.0, 70.0]
    """
    try:
        predicted = _anabranch.model(cwnd=cwnd, ssthresh=ssthresh, loss=str(loss), rounds=rounds, clip=clip)
    except (ValueError, OverflowError) as error:
        raise ScenarioError(str(error)) from error
    return [
        ModelRound(
            round=one["round"],
            delivered_segments=one["delivered_segments"],
            expected_cwnd=one["expected_cwnd"],
            states=[(state["cwnd"], state["ssthresh"], state["probability"]) for state in one["states"]],
        )
        for one in json.loads(predicted)["rounds"]
    ]


@dataclass(frozen=True, kw_only=True)
class PathChoice:
    """Whether DMPTCP selects a path."""

    path: Path
    selected: bool
    faster_deliver_bytes: int | None
    """The bytes that the faster paths deliver within this path's round-trip time; ``None`` if it was not weighed."""
    why: str
    """The reason, in words."""


_KEYS = {"rate", "rtt", "loss", "cwnd", "ssthresh", "full", "backup"}


def select(paths: Iterable[Path], remaining: str | int | None, *, mss: int = 1400) -> list[PathChoice]:
    """Return the subflows that DMPTCP selects, as ``anabranch select`` does.

    ``remaining`` are the bytes of the flow that no subflow has, or ``None`` for a flow of unknown size. A path has a
    round-trip time, and may have ``loss``, ``cwnd`` (10 segments), ``ssthresh``, ``full`` and ``backup``.

    >>> from anabranch import Path
    >>> paths = [Path("100 Mbit/s", "20 ms"), Path("100 Mbit/s", "200 ms")]
    >>> [choice.selected for choice in select(paths, "40 KB")]
    [True, False]
    """
    chosen = list(paths)
    arguments = []
    for path in chosen:
        keys = path.to_dict()
        if unknown := keys.keys() - _KEYS:
            message = f"unknown key `{min(unknown)}`; there are {', '.join(sorted(_KEYS))}"
            raise ScenarioError(message)
        cwnd, ssthresh = keys.get("cwnd", 10), keys.get("ssthresh")
        if not isinstance(cwnd, int) or not (ssthresh is None or isinstance(ssthresh, int)):
            message = "windows and thresholds are whole numbers of segments"
            raise ScenarioError(message)
        flags = bool(keys.get("full", False)), bool(keys.get("backup", False))
        arguments.append((str(keys.get("rtt", "0 s")), str(keys.get("loss", 0)), cwnd, ssthresh, *flags))
    size = None if remaining is None else f"{remaining} B" if isinstance(remaining, int) else remaining
    try:
        selection = json.loads(_anabranch.select(arguments, remaining=size, mss=mss))
    except (ValueError, OverflowError) as error:
        raise ScenarioError(str(error)) from error
    fields = ("selected", "faster_deliver_bytes", "why")
    return [
        PathChoice(path=path, **{field: part[field] for field in fields})
        for path, part in zip(chosen, selection["paths"], strict=True)
    ]
