"""Progress bars, if tqdm is installed."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TypeAlias

Progress: TypeAlias = "bool | Callable[[int, int], object] | None"
"""``False``: none; a function: it receives the numbers of runs that are done, and of all runs; ``None``: a bar on a
terminal and in a notebook."""


def _is_watched() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules


@contextlib.contextmanager
def bar(progress: Progress, unit: str) -> Iterator[Callable[[int, int], object] | None]:
    """Return the function that receives the progress; a bar appears after a second."""
    if callable(progress):
        yield progress
        return
    if progress is False or (progress is None and (not _is_watched() or "PYTEST_CURRENT_TEST" in os.environ)):
        yield None
        return
    try:
        # In a notebook without ipywidgets tqdm warns, and draws the bar as text.
        with warnings.catch_warnings(action="ignore"):
            from tqdm.auto import tqdm
    except ImportError:
        yield None
        return
    with tqdm(unit=unit, delay=1, leave=False) as shown:

        def update(done: int, total: int) -> None:
            shown.total = total
            shown.update(done - shown.n)

        yield update
