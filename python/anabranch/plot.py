"""Plots of results; each method returns the axes of matplotlib on which it has drawn."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from anabranch.comparison import Comparison
    from anabranch.sweeping import Sweep

__all__ = ["ComparisonPlots", "SweepPlots"]


def _axes(axes: Axes | None) -> Axes:
    if axes is not None:
        return axes
    import matplotlib.pyplot as plt

    return plt.subplots()[1]


def _choose(known: list[str], chosen: str | None, what: str) -> str:
    if chosen is None:
        return known[0]
    if chosen not in known:
        message = f"there is no {what} {chosen!r}; there are {', '.join(known)}"
        raise ValueError(message)
    return chosen


class ComparisonPlots:
    """The plots of a comparison."""

    def __init__(self, result: Comparison) -> None:
        self._result = result

    def completion_times(self, *, condition: str | None = None, axes: Axes | None = None) -> Axes:
        """Draw the mean completion time of each contender with its 95 % interval, and its flows as dots.

        >>> import anabranch
        >>> result = anabranch.compare("wifi-lte", runs=3, schedulers=["tcp", "min_rtt"])
        >>> axes = result.plot.completion_times()
        >>> [label.get_text() for label in axes.get_yticklabels()]
        ['tcp', 'min_rtt']
        """
        condition = _choose(self._result.scenario.conditions, condition, "condition")
        drawn = _axes(axes)
        rows = [row for row in self._result.rows if row.condition == condition]
        times = self._times(condition)
        for place, row in enumerate(rows):
            flows = times.get(row.scheduler, [])
            drawn.plot([1e3 * time for time in flows], [place] * len(flows), "|", color="0.7", zorder=1)
            if row.fct_s.mean is None:
                continue
            mean = 1e3 * row.fct_s.mean
            low, high = row.fct_s.ci95 or (row.fct_s.mean, row.fct_s.mean)
            error = [[mean - 1e3 * low], [1e3 * high - mean]]
            drawn.errorbar([mean], [place], xerr=error, fmt="o", color="C0", capsize=2, zorder=2)
        drawn.set_yticks(range(len(rows)), [row.scheduler for row in rows])
        drawn.invert_yaxis()
        drawn.set_xlim(left=0)
        drawn.set_xlabel("completion time, ms")
        if condition:
            drawn.set_title(condition)
        return drawn

    def cdf(self, *, condition: str | None = None, axes: Axes | None = None) -> Axes:
        """Draw the distribution of the completion times of each contender.

        Flows that were not delivered are part of the whole, so that their curve ends below 1.
        """
        condition = _choose(self._result.scenario.conditions, condition, "condition")
        drawn = _axes(axes)
        counts: dict[str, int] = defaultdict(int)
        samples = self._result.samples
        for own, scheduler in zip(samples.column("condition"), samples.column("scheduler"), strict=True):
            counts[str(scheduler)] += own == condition
        for scheduler, times in self._times(condition).items():
            ordered = sorted(times)
            shares = [(number + 1) / counts[scheduler] for number in range(len(ordered))]
            drawn.step([0, *(1e3 * time for time in ordered)], [0, *shares], where="post", label=scheduler)
        drawn.set_xlim(left=0)
        drawn.set_ylim(0, 1.02)
        drawn.set_xlabel("completion time, ms")
        drawn.set_ylabel("share of flows")
        if drawn.lines:
            drawn.legend()
        if condition:
            drawn.set_title(condition)
        return drawn

    def _times(self, condition: str) -> dict[str, list[float]]:
        samples = self._result.samples
        times: dict[str, list[float]] = defaultdict(list)
        columns = (samples.column(name) for name in ("condition", "scheduler", "fct_s"))
        for own, scheduler, time in zip(*columns, strict=True):
            if own == condition and isinstance(time, float):
                times[str(scheduler)].append(time)
        return times


class SweepPlots:
    """The plots of a sweep."""

    def __init__(self, result: Sweep) -> None:
        self._result = result

    def heatmap(
        self,
        x: str,
        y: str,
        *,
        scheduler: str | None = None,
        condition: str | None = None,
        value: str = "vs_reference_pct",
        axes: Axes | None = None,
    ) -> Axes:
        """Draw a value over two varied keys, as a map of colours.

        ``x`` and ``y`` are keys that vary, such as ``path.lte.rate``. ``scheduler`` is the last contender unless one is
        named. ``value`` is a column of numbers of :attr:`Sweep.table`; several points in a cell are averaged.
        """
        table = self._result.table
        columns = [self._column(x), self._column(y)]
        schedulers = [str(name) for name in dict.fromkeys(table.column("scheduler"))]
        conditions = [str(name) for name in dict.fromkeys(table.column("condition"))]
        scheduler = _choose(schedulers[::-1], scheduler, "contender")
        condition = _choose(conditions, condition, "condition")
        cells: dict[tuple[object, object], list[float]] = defaultdict(list)
        names = [*columns, "scheduler", "condition", value]
        for at_x, at_y, own, there, number in zip(*map(table.column, names), strict=True):
            if own == scheduler and there == condition and isinstance(number, (int, float)):
                cells[at_x, at_y].append(float(number))
        xs = _ordered({at_x for at_x, _ in cells})
        ys = _ordered({at_y for _, at_y in cells})
        means = {at: sum(numbers) / len(numbers) for at, numbers in cells.items()}
        grid = [[means.get((at_x, at_y), float("nan")) for at_x in xs] for at_y in ys]
        drawn = _axes(axes)
        signed = value.startswith("vs_reference")
        most = max((abs(number) for number in means.values()), default=1.0) or 1.0
        image = drawn.imshow(
            grid,
            origin="lower",
            aspect="auto",
            cmap="RdBu_r" if signed else "viridis",
            vmin=-most if signed else None,
            vmax=most if signed else None,
        )
        drawn.set_xticks(range(len(xs)), [_short(one) for one in xs])
        drawn.set_yticks(range(len(ys)), [_short(one) for one in ys])
        drawn.set_xlabel(columns[0])
        drawn.set_ylabel(columns[1])
        drawn.set_title(scheduler if not condition else f"{scheduler}, {condition}")
        if drawn.figure is not None:
            drawn.figure.colorbar(image, ax=drawn, label=value)
        return drawn

    def _column(self, key: str) -> str:
        known = self._result.plan.dimensions
        for column in known:
            if key == column or key in column.rsplit(" (", 1)[0].split(", "):
                return column
        message = f"{key!r} does not vary; there are {', '.join(known)}"
        raise ValueError(message)


def _ordered(values: set[object]) -> list[object]:
    return sorted(values, key=lambda one: (isinstance(one, str), one))


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
