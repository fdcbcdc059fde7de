"""Methods of a user's class that are probably misspelt."""

from __future__ import annotations

import difflib

from anabranch.exceptions import SchedulerError

__all__ = ["check"]

_NEAR = 0.8
"""The likeness of two names, from 0 to 1, above which one is a misspelling of the other."""


def check(kind: type, base: type) -> None:
    """Refuse a class with a method that is nearly called as one of ``base``, which nobody would call.

    A method of the class's own may begin with an underscore, or be called otherwise.
    """
    known = [name for name in vars(base) if not name.startswith("_")]
    for name, value in vars(kind).items():
        if name.startswith("_") or name in known or not callable(value) or isinstance(value, type):
            continue
        if near := difflib.get_close_matches(name, known, n=1, cutoff=_NEAR):
            message = f"`{kind.__name__}.{name}` is never called; did you mean `{near[0]}`? A method of your own may "
            message += f"be called `_{name}`"
            raise SchedulerError(message)
