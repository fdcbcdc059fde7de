"""Window rules of congestion controls in Python.

A rule decides the growth of a window in congestion avoidance and its reduction. Slow start, recovery, timeouts and undo
are those of the built-in window-based controls. Windows are in segments:

>>> import anabranch
>>> class Gentle(anabranch.WindowRule):
...     def increase(self, windows, id, acked, ack):
...         return acked / windows[id].segments
...     def decrease(self, windows, id, flight, reason):
...         return 0.8 * flight
>>> windows, ack = Windows([Window(20.0, srtt_s=0.05)]), Ack.of(1.0, 14_000, 10, 0.05)
>>> Gentle().increase(windows, 0, 10.0, ack), Gentle().decrease(windows, 0, 20.0, "loss")
(0.5, 16.0)
>>> paths = [anabranch.Path("20 Mbit/s", "20 ms"), anabranch.Path("10 Mbit/s", "40 ms", loss="0.5%")]
>>> schedulers = ["tcp", "min_rtt", {"scheduler": "min_rtt", "congestion": Gentle}]
>>> result = anabranch.compare(paths, size="300 KB", runs=2, schedulers=schedulers)
>>> [(row.scheduler, row.congestion) for row in result.rows][1:]
[('min_rtt', 'cubic_linux'), ('min_rtt, Gentle', 'Gentle')]
"""

from __future__ import annotations

import math
from typing import ClassVar

from anabranch import _anabranch, _spelling
from anabranch._anabranch import Ack, Window, Windows
from anabranch.scheduler import factory

__all__ = ["Ack", "Window", "WindowRule", "Windows"]


class WindowRule:
    """The base class of window rules in Python; its methods are those of ``WindowRule`` in Rust.

    Each connection has its own object: a class is called without arguments, an object is copied
    (:func:`copy.deepcopy`). Methods that a class does not define have the defaults of Rust and cost nothing.
    ``windows`` are those of all subflows, ``id`` is the subflow, and ``windows`` is valid until the method returns.
    """

    name: ClassVar[str] = ""
    """The name in results; by default that of the class."""
    coupled: ClassVar[bool] = False
    """Whether the windows of the subflows depend on each other."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        _spelling.check(cls, WindowRule)

    def observe(self, windows: Windows, id: int, ack: Ack) -> None:  # noqa: A002
        """Observe an acknowledgement, in recovery or not, before it changes the window."""

    def on_round(self, windows: Windows, id: int, ack: Ack) -> tuple[float, float] | None:  # noqa: A002, ARG002
        """Handle the end of a round trip outside of recovery, by ``ack``.

        A pair of window and threshold in segments replaces both, and the acknowledgement changes nothing else.
        """
        return None

    def increase(self, windows: Windows, id: int, acked: float, ack: Ack) -> float:  # noqa: A002, ARG002
        """Return the growth in segments after ``acked`` segments were acknowledged in congestion avoidance.

        It may be negative; the window never falls below 1. Not a number counts as no growth.
        """
        return 0.0

    def decrease(self, windows: Windows, id: int, flight: float, reason: str) -> float:  # noqa: A002, ARG002
        """Return the window after a reduction, with ``flight`` segments in flight.

        ``reason`` is ``loss``, ``mark`` (of congestion) or ``timeout``. The window becomes the threshold, too. By
        default it is half of the flight in whole segments (RFC 5681 equation 4).
        """
        return float(math.floor(flight / 2))

    def least_threshold(self, windows: Windows) -> float:  # noqa: ARG002
        """Return the minimum threshold after a reduction."""
        return 2.0

    def window_at(self, windows: Windows, id: int, now_s: float, ahead_s: float) -> float:  # noqa: A002, ARG002
        """Return the window after ``ahead_s``, if nothing is lost until then.

        Only for a rule whose window is a function of time; some schedulers ask for it. Without it windows are taken to
        grow by acknowledgements.
        """
        return windows[id].segments

    def on_change(self, windows: Windows, id: int, now_s: float, change: str, idle_s: float | None) -> None:  # noqa: A002
        """Handle a change of a window by something else; ``windows`` has the new state.

        ``change`` is ``up``, ``down``, ``slow_start``, ``not_limited``, ``reduced``, ``recovered``, ``timeout``,
        ``undone``, ``undone_late``, ``resumed`` (after ``idle_s`` without data in flight), ``restarted`` or
        ``penalised``.
        """


def name_of(rule: WindowRule | type[WindowRule]) -> str:
    """Return the name of a rule in results."""
    return rule.name or (rule if isinstance(rule, type) else type(rule)).__name__


def custom(rule: WindowRule | type[WindowRule]) -> _anabranch.Congestion:
    """Return ``rule`` for a contender."""
    kind, build = factory(rule)
    own = [name for name in _anabranch.Congestion.methods if getattr(kind, name) is not getattr(WindowRule, name)]
    return _anabranch.Congestion(name_of(rule), build, own, kind.coupled)
