"""Methods and options of a user's class that are probably misspelt."""

from __future__ import annotations

import difflib

from anabranch.exceptions import SchedulerError

__all__ = ["check"]

_NEAR = 0.8
"""The likeness of two names, from 0 to 1, above which one is a misspelling of the other."""


def check(kind: type, base: type) -> None:
    """Refuse a class with a method or an option that is nearly called as one of ``base``, which nobody would use.

    Those of the class's own may begin with an underscore, or be called otherwise.
    """
    known = {name: value for name, value in vars(base).items() if not name.startswith("_")}
    methods = [name for name, value in known.items() if callable(value)]
    # `names` is a good name for something else.
    options = [name for name in known if name not in {*methods, "name"}]
    for name, value in vars(kind).items():
        if name.startswith("_") or name in known or isinstance(value, type):
            continue
        is_method = callable(value) or isinstance(value, staticmethod | classmethod)
        if near := difflib.get_close_matches(name, methods if is_method else options, n=1, cutoff=_NEAR):
            used, what = ("called", "method") if is_method else ("read", "option")
            message = f"`{kind.__name__}.{name}` is never {used}; did you mean `{near[0]}`? A {what} of your own may "
            message += f"be called `_{name}`"
            raise SchedulerError(message)
