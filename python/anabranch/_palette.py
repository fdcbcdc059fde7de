"""The colours, markers and dashes of all figures.

Generated from crates/plot/src/palette.rs;
a test there compares this file, and rewrites it with ANABRANCH_BLESS=1.
"""

from __future__ import annotations

from typing import Final

DASHES: Final[tuple[tuple[float, ...], ...]] = (
    (),
    (5.0, 2.2),
    (1.5, 2.0),
    (6.5, 2.0, 1.5, 2.0),
    (10.0, 3.0),
    (6.5, 2.0, 1.5, 2.0, 1.5, 2.0),
    (3.0, 1.8),
    (10.0, 2.2, 3.0, 2.2),
    (5.0, 2.2, 5.0, 2.2, 1.5, 2.2),
    (1.5, 1.5, 1.5, 3.5),
)
"""Lengths of strokes and gaps in points. Only the first is solid."""

MARKERS: Final = ("o", "s", "^", "D")
"""Markers of matplotlib."""

KNOWN: Final = {
    "tcp": ("#000000", "o", DASHES[1]),
    "min_rtt": ("#0072B2", "s", DASHES[0]),
    "dmptcp": ("#D55E00", "D", DASHES[4]),
    "linux": ("#C98500", "^", DASHES[3]),
    "round_robin": ("#009E73", "^", DASHES[5]),
    "redundant": ("#B8578F", "o", DASHES[2]),
}
"""Contenders that look the same in every figure: colour, marker and dash."""

COLORS: Final = (
    "#009E73",
    "#B8578F",
    "#2E93CC",
    "#8A7A00",
    "#0072B2",
    "#D55E00",
    "#6b6b6b",
)
"""The colours of other contenders."""

PATHS: Final = (
    "#3b528b",
    "#5ec962",
    "#c9b400",
    "#21918c",
    "#440154",
    "#9ad6a0",
    "#7a5c00",
    "#9a9a9a",
)
"""Subflows, paths and links."""

CAUSES: Final = {
    "handshake": "#7f7f7f",
    "application": "#c7c7c7",
    "send_buffer": "#aec7e8",
    "receive_window": "#5f3c99",
    "congestion_window": "#0072B2",
    "pacing": "#8fd0ff",
    "scheduler": "#1b2a6b",
    "queueing": "#8A7A00",
    "serialisation": "#009E73",
    "propagation": "#b6e3a1",
    "retransmission": "#7a1f00",
    "head_of_line": "#E69F00",
    "outage": "#2b2b2b",
}
"""The causes of an explanation, in its order."""

VERDICTS: Final = {
    "holds": "#1a7f37",
    "variant": "#9a6700",
    "undecided": "#9a6700",
    "fails": "#cf222e",
}
"""Claims of papers by their verdict."""

INK: Final = {
    "text": "#16202b",
    "dim": "#55616e",
    "line": "#d5dae0",
    "warn": "#d1290c",
    "note": "#a0218f",
}
"""Words, axes, retransmissions and reinjections."""
