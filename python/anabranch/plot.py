"""Plots of results; each method returns the axes of matplotlib on which it has drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch import _palette, _plotting, style
from anabranch._plotting import choose

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from anabranch.comparison import Comparison
    from anabranch.explaining import Explanation
    from anabranch.recording import RecordedRun, Recording
    from anabranch.reproducing import Reproduction
    from anabranch.sweeping import Sweep

__all__ = ["ComparisonPlots", "ExplanationPlots", "RecordingPlots", "ReproductionPlots", "SweepPlots"]


def _axes(axes: Axes | None) -> Axes:
    if axes is not None:
        return axes
    import matplotlib.pyplot as plt

    return plt.subplots()[1]


class _Plots:
    """The plots of a result."""

    def __init__(self, result: Any) -> None:
        self._result = result


class ComparisonPlots(_Plots):
    """The plots of a comparison."""

    _result: Comparison

    def completion_times(
        self, *, condition: str | None = None, traffic: str | None = None, axes: Axes | None = None
    ) -> Axes:
        """Draw the mean completion time of each contender with its 95 % interval, and its flows as dots.

        With classes of traffic it draws the measure of the class ``traffic``, of the first one unless it is named, such
        as response times, and requests or bursts as dots.

        >>> import anabranch
        >>> result = anabranch.compare("wifi-lte", runs=3, schedulers=["tcp", "min_rtt"])
        >>> axes = result.plot.completion_times()
        >>> [label.get_text() for label in axes.get_yticklabels()]
        ['tcp', 'min_rtt']
        """
        part = _plotting.Part(self._result, condition, traffic)
        drawn = _axes(axes)
        values = part.values()
        looks = style.contenders(row.scheduler for row in part.rows)
        for place, row in enumerate(part.rows):
            flows = values.get(row.scheduler, [])
            drawn.plot(flows, [place] * len(flows), "|", color="0.7", zorder=1)
            found = part.measure.mean(row)
            if found is None:
                continue
            mean, (low, high) = found
            error = [[mean - low], [high - mean]]
            look = looks[row.scheduler]
            drawn.errorbar([mean], [place], xerr=error, fmt=look.marker, ms=4, color=look.color, capsize=2, zorder=2)
        drawn.set_yticks(range(len(part.rows)), [row.scheduler for row in part.rows])
        drawn.invert_yaxis()
        drawn.set_xlim(left=0)
        drawn.set_xlabel(part.measure.label)
        if part.title:
            drawn.set_title(part.title)
        return drawn

    def cdf(self, *, condition: str | None = None, traffic: str | None = None, axes: Axes | None = None) -> Axes:
        """Draw the distribution of the completion times of each contender.

        With classes of traffic it is that of the measure of the class ``traffic``, of the first one unless it is named.
        Flows that were not delivered are part of the whole, so that their curve ends below 1.
        """
        part = _plotting.Part(self._result, condition, traffic)
        drawn = _axes(axes)
        looks = style.contenders(row.scheduler for row in part.rows)
        for scheduler, (values, shares) in part.distributions().items():
            look = looks[scheduler]
            drawn.step(values, shares, where="post", label=scheduler, color=look.color, linestyle=look.line)
        drawn.set_xlim(left=0)
        drawn.set_ylim(0, 1.02)
        drawn.set_xlabel(part.measure.label)
        drawn.set_ylabel(f"share of {part.measure.many}")
        if drawn.lines:
            drawn.legend(handlelength=4)
        if part.title:
            drawn.set_title(part.title)
        return drawn


class SweepPlots(_Plots):
    """The plots of a sweep."""

    _result: Sweep

    def heatmap(
        self,
        x: str,
        y: str,
        *,
        scheduler: str | None = None,
        condition: str | None = None,
        traffic: str | None = None,
        value: str = "vs_reference_pct",
        axes: Axes | None = None,
    ) -> Axes:
        """Draw a value over two varied keys, as a map of colours.

        ``x`` and ``y`` are keys that vary, such as ``path.lte.rate``. ``scheduler`` is the last contender unless one is
        named, ``traffic`` the first class of traffic if there are classes. ``value`` is a column of numbers of
        :attr:`Sweep.table`; several points in a cell are averaged.
        """
        grid = _plotting.grid(self._result, x, y, _plotting.Chosen(scheduler, condition, traffic), value)
        cells = [[grid.means.get((at_x, at_y), float("nan")) for at_x in grid.xs] for at_y in grid.ys]
        drawn = _axes(axes)
        signed = value.startswith("vs_reference")
        image = drawn.imshow(
            cells,
            origin="lower",
            aspect="auto",
            cmap="RdBu_r" if signed else "viridis",
            vmin=-grid.most if signed else None,
            vmax=grid.most if signed else None,
        )
        drawn.set_xticks(range(len(grid.xs)), [_plotting.short(one) for one in grid.xs])
        drawn.set_yticks(range(len(grid.ys)), [_plotting.short(one) for one in grid.ys])
        drawn.set_xlabel(grid.x)
        drawn.set_ylabel(grid.y)
        drawn.set_title(grid.title)
        if drawn.figure is not None:
            drawn.figure.colorbar(image, ax=drawn, label=value)
        return drawn


class ExplanationPlots(_Plots):
    """The plots of an explanation."""

    _result: Explanation

    def parts(self, *, condition: str | None = None, axes: Axes | None = None) -> Axes:
        """Draw the time of each contender as a bar of its causes.

        >>> import anabranch
        >>> result = anabranch.explain("wifi-lte", runs=1, schedulers=["tcp", "min_rtt"], changes=False)
        >>> [label.get_text() for label in result.plot.parts().get_yticklabels()]
        ['tcp', 'min_rtt']
        """
        from anabranch.explaining import COLORS

        result = self._result
        condition = choose(list(dict.fromkeys(row.condition for row in result.rows)), condition, "condition")
        rows = [row for row in result.rows if row.condition == condition]
        drawn = _axes(axes)
        ends = [0.0] * len(rows)
        for cause, color in COLORS.items():
            widths = [1e3 * sum(part.mean_s for part in result.parts(row) if part.cause == cause) for row in rows]
            if any(widths):
                drawn.barh(range(len(rows)), widths, left=ends, color=color, label=cause.replace("_", " "))
            ends = [end + width for end, width in zip(ends, widths, strict=True)]
        drawn.set_yticks(range(len(rows)), [row.scheduler for row in rows])
        drawn.invert_yaxis()
        drawn.set_xlabel("time of a byte, ms" if result.of_bytes else "time of a flow, ms")
        if drawn.containers:
            drawn.legend(loc="upper left", bbox_to_anchor=(1, 1))
        if condition:
            drawn.set_title(condition)
        return drawn


class ReproductionPlots(_Plots):
    """The plots of a reproduction."""

    _result: Reproduction

    def checks(self, *, axes: Axes | None = None) -> Axes:
        """Draw the judged ratio, difference or mean of each check with its 95 % interval, in the colour of its verdict.

        >>> import anabranch
        >>> axes = anabranch.reproduce("dmptcp", claim="D18").plot.checks()
        >>> len(axes.get_yticklabels()) > 2
        True
        """
        from anabranch.reproducing import COLORS

        lines = _plotting.judgements(self._result)
        drawn = _axes(axes)
        named = set()
        for place, line in enumerate(lines):
            error = [[line.value - line.low], [line.high - line.value]]
            label = None if line.status in named else line.status
            named.add(line.status)
            color = COLORS.get(line.status, "gray")
            drawn.errorbar([line.value], [place], xerr=error, fmt="o", color=color, capsize=2, label=label)
        drawn.set_yticks(range(len(lines)), [line.name for line in lines])
        drawn.invert_yaxis()
        drawn.axvline(1, color="0.8", zorder=0)
        drawn.set_xlabel("judged value")
        if lines:
            drawn.legend()
        return drawn


_MARKS = (
    ("retransmitted", ".", _palette.INK["warn"]),
    ("reinjected", "x", _palette.INK["note"]),
    ("probe", "^", _palette.INK["dim"]),
)


def _path(number: int) -> str:
    """Return the colour of a subflow or a path."""
    return _palette.PATHS[number % len(_palette.PATHS)]


def _shade(axes: Axes, run: RecordedRun) -> None:
    """Shade the times in which a path is down, as far as they are in view."""
    low, high = axes.get_xlim()
    labelled = set()
    for path, begin, end in run.outages:
        until = high if end is None else min(end, high)
        if begin < until and until > low:
            label = None if path in labelled else f"{path} down"
            labelled.add(path)
            axes.axvspan(begin, until, color="0.88", zorder=0, label=label)
    axes.set_xlim(low, high)


class RecordingPlots(_Plots):
    """The plots of a recording."""

    _result: Recording

    def time_sequence(
        self,
        *,
        scheduler: str | None = None,
        condition: str | None = None,
        flow: int = 0,
        direction: str | None = None,
        axes: Axes | None = None,
    ) -> Axes:
        """Draw the data-level time-sequence graph of a flow, over all its subflows.

        A segment is a vertical line in the colour of its subflow; a retransmission has a red dot, a reinjection a
        purple cross. The lower staircase is the DATA_ACK, the upper one the right edge of the peer's window.
        ``scheduler`` and ``condition`` choose a run, ``direction`` is that of the flow's data unless given.

        >>> import anabranch
        >>> from anabranch import Path
        >>> paths = [Path("20 Mbit/s", "20 ms", name="wifi"), Path("10 Mbit/s", "40 ms", name="lte")]
        >>> result = anabranch.run(paths, size="200 KB", schedulers=["min_rtt"], record=True)
        >>> axes = result.plot.time_sequence()
        >>> [text.get_text() for text in axes.get_legend().get_texts()]
        ['subflow 0, wifi', 'subflow 1, lte', 'DATA_ACK', 'window edge']
        """
        run = self._result.run(scheduler, condition)
        stream = _plotting.Stream(run, flow, direction)
        title, subflows, segments, acked, edges = stream.sequence()
        drawn = _axes(axes)
        megabyte = 1e6
        of = {subflow: [segment for segment in segments if segment.subflow == subflow] for subflow in subflows}
        for number, (subflow, own) in enumerate(of.items()):
            low, high = ([getattr(one, key) / megabyte for one in own] for key in ("from_bytes", "to_bytes"))
            # In a long flow a segment is lower than a pixel, so it has ends; a subflow with few segments is not covered
            # by one with many, and is wider.
            rank = sum(len(other) > len(own) for other in of.values())
            style: dict[str, Any] = {"linewidth": 1.5 + 1.5 * min(rank, 1), "capstyle": "projecting"}
            style["zorder"] = 2 + rank / 100
            drawn.vlines([one.t_s for one in own], low, high, color=_path(number), label=subflow, **style)
        for event, form, color in _MARKS:
            marked = [segment for segment in segments if segment.event == event]
            if marked:
                places = [one.to_bytes / megabyte for one in marked]
                drawn.plot([one.t_s for one in marked], places, form, color=color, markersize=4, label=event)
        if acked:
            times, offsets = zip(*acked, strict=True)
            places = [offset / megabyte for offset in offsets]
            drawn.step(times, places, where="post", color="0.4", linewidth=0.8, label="DATA_ACK")
        top = max((segment.to_bytes for segment in segments), default=0) / megabyte
        if edges and top:
            drawn.set_ylim(0, 1.1 * top)
            times, offsets = zip(*edges, strict=True)
            places = [offset / megabyte for offset in offsets]
            drawn.step(times, places, where="post", color="goldenrod", linewidth=0.8, label="window edge")
        _shade(drawn, run)
        drawn.set_xlabel("time, s")
        drawn.set_ylabel("data sequence, MB")
        drawn.set_title(title)
        if segments:
            drawn.legend()
        return drawn

    def windows(
        self,
        *,
        scheduler: str | None = None,
        condition: str | None = None,
        flow: int = 0,
        direction: str | None = None,
        axes: Axes | None = None,
    ) -> Axes:
        """Draw the congestion window of each subflow over time, with the data in flight and the threshold.

        The window is a solid line, the data in flight a thin one, the threshold dotted while it is finite.
        """
        run = self._result.run(scheduler, condition)
        stream = _plotting.Stream(run, flow, direction)
        drawn = _axes(axes)
        for number, own in enumerate(stream.windows()):
            color = _path(number)
            kilobytes = [[value / 1e3 for value in values] for values in (own.cwnd, own.inflight, own.ssthresh)]
            drawn.step(own.t_s, kilobytes[0], where="post", color=color, label=own.subflow)
            drawn.step(own.t_s, kilobytes[1], where="post", color=color, linewidth=0.5, alpha=0.5)
            drawn.step(own.t_s, kilobytes[2], where="post", color=color, linestyle=":")
        drawn.set_ylim(bottom=0)
        _shade(drawn, run)
        drawn.set_xlabel("time, s")
        drawn.set_ylabel("congestion window, KB")
        drawn.set_title(stream.title)
        if drawn.lines:
            drawn.legend()
        return drawn
