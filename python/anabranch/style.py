"""Styles of figures for papers."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from anabranch import _palette

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["COLUMN_INCHES", "PAGE_INCHES", "Look", "contenders", "paper"]

COLUMN_INCHES = 3.5
"""The width of a column of a page with two."""
PAGE_INCHES = 7.16
"""The width of both."""

COLORS = list(_palette.COLORS)
"""Colours that people with colour blindness can tell apart (after Okabe and Ito, 2008)."""


class Look(NamedTuple):
    """The look of a contender, the same as in figures of ``anabranch plot`` and ``anabranch report``."""

    color: str
    marker: str
    """A marker of matplotlib."""
    dash: tuple[float, ...]
    """Lengths of strokes and gaps; a solid line has none."""

    @property
    def line(self) -> Any:
        """The style of a line for matplotlib."""
        return (0, self.dash) if self.dash else "solid"


_KNOWN: Final = {name: Look(*look) for name, look in _palette.KNOWN.items()}


def contenders(names: Iterable[str]) -> dict[str, Look]:
    """Return the look of each contender, told apart without colour too; at most one has a solid line.

    >>> looks = contenders(["tcp", "min_rtt", "blest"])
    >>> looks["min_rtt"].line, looks["blest"].dash
    ('solid', (1.5, 2.0))
    """
    names = list(dict.fromkeys(names))
    taken = [_KNOWN[name] for name in names if name in _KNOWN]
    colors = sorted(_palette.COLORS, key=[look.color for look in taken].__contains__)
    markers = sorted(_palette.MARKERS, key=[look.marker for look in taken].__contains__)
    dashes = sorted(_palette.DASHES, key=[look.dash for look in taken].__contains__)
    others = [name for name in names if name not in _KNOWN]
    looks = {
        name: Look(colors[at % len(colors)], markers[at % len(markers)], dashes[at % len(dashes)])
        for at, name in enumerate(others)
    }
    return {name: _KNOWN.get(name) or looks[name] for name in names}


@contextlib.contextmanager
def paper(*, columns: int = 1, aspect: float = 0.62, **settings: Any) -> Iterator[None]:
    """Draw figures for a paper: one or two columns wide, with 8-point text and fonts that editors accept.

    >>> import matplotlib.pyplot as plt
    >>> with paper(columns=2):
    ...     figure, axes = plt.subplots()
    >>> float(figure.get_figwidth())
    7.16
    >>> plt.close(figure)
    """
    import matplotlib as mpl
    from cycler import cycler

    width = COLUMN_INCHES if columns == 1 else PAGE_INCHES
    chosen: Any = {
        "figure.figsize": (width, width * aspect),
        "figure.constrained_layout.use": True,
        "font.size": 8,
        "axes.labelsize": 8,
        "axes.titlesize": 8,
        "legend.fontsize": 7,
        "legend.frameon": False,
        "xtick.labelsize": 7,
        "ytick.labelsize": 7,
        "axes.linewidth": 0.6,
        "lines.linewidth": 1.2,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=COLORS),
        # Type 42 in PDF, and text as text in SVG.
        "pdf.fonttype": 42,
        "ps.fonttype": 42,
        "svg.fonttype": "none",
        "savefig.dpi": 300,
        **settings,
    }
    with mpl.rc_context(chosen):
        yield
