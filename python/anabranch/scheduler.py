"""Schedulers in Python.

A scheduler is a class with a method ``decide``. It receives a :class:`View` and returns one decision at a time,
until it returns :class:`Wait`:

>>> import anabranch
>>> class Fastest(anabranch.Scheduler):
...     def decide(self, view):
...         free = [s for s in view.subflows if s.may_carry() and s.room() > 0]
...         best = min(free, key=lambda s: s.srtt_s or 0.0, default=None)
...         data = view.next_new(best.room()) if best else None
...         return Assign(best, data) if data else Wait()
>>> slow, fast = Subflow.idle(0, 0.040), Subflow.idle(1, 0.020)
>>> Fastest().decide(View.fresh([slow, fast], 100_000)) == Assign(1, (0, 14_000))
True
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar

from anabranch import _anabranch, _spelling
from anabranch._anabranch import Assign, Event, Pending, Recall, Subflow, View, Wait
from anabranch.exceptions import SchedulerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Assign", "Decision", "Event", "Pending", "Recall", "Scheduler", "Subflow", "View", "Wait"]

Decision: TypeAlias = "Assign | Recall | Wait"
"""The answer of a scheduler."""


class Scheduler(ABC):
    """The base class of schedulers in Python.

    Each connection has its own object: a class is called without arguments, an object is copied
    (:func:`copy.deepcopy`). State belongs into the object. Runs are repeatable only without a clock, random numbers
    and the order of a set; ``view.now_s`` is the time.
    """

    name: ClassVar[str] = ""
    """The name in results; by default that of the class."""
    events: ClassVar[Sequence[str]] = ()
    """The events for which :meth:`on_event` is called, of ``subflow_up``, ``subflow_down``, ``written``, ``sent``,
    ``acked``, ``data_acked``, ``lost`` and ``timeout``."""
    revises_queues: ClassVar[bool] = False
    """Whether it is asked when there is no new data but a queue could be recalled."""
    decides_alone: ClassVar[bool] = False
    """Whether it is asked even with a single subflow."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        _spelling.check(cls, Scheduler)

    @abstractmethod
    def decide(self, view: View) -> Decision:
        """Return the next decision. It is called again until it returns :class:`Wait`.

        A decision that the view does not allow (a subflow or a range that does not exist, data beyond the window)
        counts as a wait, as in Rust; a :class:`~anabranch.SchedulerWarning` has their number and the first reason.
        ``view`` is valid until the method returns.
        """

    def on_event(self, view: View, event: Event) -> None:  # noqa: B027
        """Handle an event of :attr:`events`.

        >>> import anabranch
        >>> class Wary(anabranch.Scheduler):
        ...     '''Uses the subflow that has lost least.'''
        ...     events = ("lost",)
        ...     def __init__(self):
        ...         self.losses = {}
        ...     def on_event(self, view, event):
        ...         self.losses[event.subflow] = self.losses.get(event.subflow, 0) + 1
        ...     def decide(self, view):
        ...         free = [s for s in view.subflows if s.may_carry() and s.room() > 0]
        ...         best = min(free, key=lambda s: self.losses.get(s.id, 0), default=None)
        ...         data = view.next_new(best.room()) if best else None
        ...         return anabranch.Assign(best, data) if data else anabranch.Wait()
        >>> result = anabranch.compare("wifi-lte", schedulers=["tcp", Wary], runs=1)
        >>> result.complete
        True
        """


Made = TypeVar("Made")


def factory(given: Made | type[Made]) -> tuple[type[Made], Callable[[], Made]]:
    """Return the class of an object, or a class itself, and a function that makes one for each connection."""
    if isinstance(given, type):
        return given, given
    # The caller may change its object later.
    original = copy.deepcopy(given)
    return type(given), lambda: copy.deepcopy(original)


def custom(scheduler: Scheduler | type[Scheduler]) -> _anabranch.Custom:
    """Return ``scheduler`` for a contender."""
    kind, build = factory(scheduler)
    if isinstance(kind.events, str):
        message = f"`events` of {kind.__name__} is a text; write a tuple, such as ({kind.events!r},)"
        raise SchedulerError(message)
    name = scheduler.name or kind.__name__
    try:
        return _anabranch.Custom(name, build, list(kind.events), kind.revises_queues, kind.decides_alone)
    except (TypeError, ValueError) as error:
        message = f"{kind.__name__}: {error}"
        raise SchedulerError(message) from error
