"""The plots of results by Altair; each method returns a chart.

They are those of :mod:`anabranch.plot`: ``result.plot(backend="altair").cdf()``. Install ``anabranch[altair]``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from anabranch import _plotting, style
from anabranch._plotting import choose

if TYPE_CHECKING:
    import altair as alt

    from anabranch.comparison import Comparison
    from anabranch.explaining import Explanation
    from anabranch.recording import Recording
    from anabranch.reproducing import Reproduction
    from anabranch.sweeping import Sweep

__all__ = ["ComparisonCharts", "ExplanationCharts", "RecordingCharts", "ReproductionCharts", "SweepCharts"]


class _Charts:
    def __init__(self, result: Any) -> None:
        self._result = result


def _values(rows: list[dict[str, Any]]) -> alt.InlineData:
    import altair as alt

    return alt.InlineData(values=rows)


def _scaled(channel: Any, looks: dict[str, style.Look], values: list[Any], **more: Any) -> Any:
    """Return a channel with a value for each contender."""
    import altair as alt

    return channel("scheduler:N", scale=alt.Scale(domain=list(looks), range=values), title=None, **more)


class ComparisonCharts(_Charts):
    """The charts of a comparison."""

    _result: Comparison

    def completion_times(
        self, *, condition: str | None = None, traffic: str | None = None
    ) -> alt.LayerChart | alt.FacetChart:
        """Return the mean completion time of each contender with its 95 % interval, and its flows as ticks.

        With classes of traffic it is the measure of the class ``traffic``, of the first one unless it is named.

        >>> import anabranch
        >>> result = anabranch.compare("wifi-lte", runs=3, schedulers=["tcp", "min_rtt"])
        >>> chart = result.plot(backend="altair").completion_times()
        >>> len(chart.to_dict()["layer"])
        3
        """
        import altair as alt

        part = _plotting.Part(self._result, condition, traffic)
        field = part.measure.field
        flows = [
            {"scheduler": scheduler, field: value} for scheduler, values in part.values().items() for value in values
        ]
        means = []
        for row in part.rows:
            found = part.measure.mean(row)
            if found is not None:
                mean, (low, high) = found
                means.append({"scheduler": row.scheduler, field: mean, "low": low, "high": high})
        y = alt.Y("scheduler:N", sort=[row.scheduler for row in part.rows], title=None)
        x = alt.X(f"{field}:Q", title=part.measure.label, scale=alt.Scale(zero=True))
        looks = style.contenders(row.scheduler for row in part.rows)
        color = _scaled(alt.Color, looks, [look.color for look in looks.values()], legend=None)
        shape = _scaled(alt.Shape, looks, [look.shape for look in looks.values()], legend=None)
        ticks = alt.Chart(_values(flows)).mark_tick(color="lightgray").encode(x=x, y=y)
        bars = alt.Chart(_values(means)).mark_rule().encode(x="low:Q", x2="high:Q", y=y, color=color)
        points = alt.Chart(_values(means)).mark_point(filled=True).encode(x=x, y=y, color=color, shape=shape)
        return alt.layer(ticks, bars, points, title=part.title)

    def cdf(self, *, condition: str | None = None, traffic: str | None = None) -> alt.Chart:
        """Return the distribution of the completion times of each contender.

        With classes of traffic it is that of the measure of the class ``traffic``, of the first one unless it is named.
        """
        import altair as alt

        part = _plotting.Part(self._result, condition, traffic)
        field = part.measure.field
        found = part.distributions()
        looks = style.contenders(row.scheduler for row in part.rows)
        # A solid line has a gap of no length.
        dashes = [list(look.dash) or [1, 0] for look in looks.values()]
        legend = alt.Legend(symbolSize=1500, symbolStrokeWidth=2)
        rows = [
            {"scheduler": scheduler, field: value, "share": share}
            for scheduler, pairs in found.items()
            for value, share in zip(*pairs, strict=True)
        ]
        chart: alt.Chart = (
            alt.Chart(_values(rows), title=part.title)
            .mark_line(interpolate="step-after")
            .encode(
                x=alt.X(f"{field}:Q", title=part.measure.label),
                y=alt.Y("share:Q", title=f"share of {part.measure.many}", scale=alt.Scale(domain=[0, 1])),
                color=_scaled(alt.Color, looks, [look.color for look in looks.values()], legend=legend),
                strokeDash=_scaled(alt.StrokeDash, looks, dashes, legend=legend),
            )
        )
        return chart


class SweepCharts(_Charts):
    """The charts of a sweep."""

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
    ) -> alt.Chart:
        """Return a value over two varied keys, as a map of colours."""
        import altair as alt

        grid = _plotting.grid(self._result, x, y, _plotting.Chosen(scheduler, condition, traffic), value)
        rows = [
            {"x": _plotting.short(at_x), "y": _plotting.short(at_y), "value": mean}
            for (at_x, at_y), mean in grid.means.items()
        ]
        signed = value.startswith("vs_reference")
        scale = alt.Scale(scheme="redblue", domain=[-grid.most, grid.most], reverse=True) if signed else alt.Scale()
        xs, ys = ([_plotting.short(one) for one in values] for values in (grid.xs, grid.ys))
        chart: alt.Chart = (
            alt.Chart(_values(rows), title=grid.title)
            .mark_rect()
            .encode(
                x=alt.X("x:O", sort=xs, title=grid.x),
                y=alt.Y("y:O", sort=ys[::-1], title=grid.y),
                color=alt.Color("value:Q", scale=scale, title=value),
            )
        )
        return chart


class ExplanationCharts(_Charts):
    """The charts of an explanation."""

    _result: Explanation

    def parts(self, *, condition: str | None = None) -> alt.Chart:
        """Return the time of each contender as a bar of its causes."""
        import altair as alt

        from anabranch.explaining import COLORS

        result = self._result
        condition = choose(list(dict.fromkeys(row.condition for row in result.rows)), condition, "condition")
        own = [row for row in result.rows if row.condition == condition]
        order = list(COLORS)
        rows = [
            {"scheduler": row.scheduler, "cause": part.cause, "ms": 1e3 * part.mean_s, "order": order.index(part.cause)}
            for row in own
            for part in result.parts(row)
            if part.mean_s > 0
        ]
        causes = [cause for cause in order if any(row["cause"] == cause for row in rows)]
        title = "time of a byte, ms" if result.of_bytes else "time of a flow, ms"
        chart: alt.Chart = (
            alt.Chart(_values(rows), title=condition)
            .mark_bar()
            .encode(
                x=alt.X("ms:Q", title=title),
                y=alt.Y("scheduler:N", sort=[row.scheduler for row in own], title=None),
                color=alt.Color(
                    "cause:N", scale=alt.Scale(domain=causes, range=[COLORS[cause] for cause in causes]), title=None
                ),
                order="order:Q",
            )
        )
        return chart


class ReproductionCharts(_Charts):
    """The charts of a reproduction."""

    _result: Reproduction

    def checks(self) -> alt.LayerChart | alt.FacetChart:
        """Return the judged ratio, difference or mean of each check with its 95 % interval."""
        import altair as alt

        from anabranch.reproducing import COLORS

        lines = _plotting.judgements(self._result)
        rows = [line._asdict() for line in lines]
        statuses = list(dict.fromkeys(line.status for line in lines))
        base = alt.Chart(_values(rows)).encode(
            y=alt.Y("name:N", sort=[line.name for line in lines], title=None),
            color=alt.Color(
                "status:N",
                scale=alt.Scale(domain=statuses, range=[COLORS.get(status, "gray") for status in statuses]),
                title=None,
            ),
            tooltip="words:N",
        )
        bars = base.mark_rule().encode(x="low:Q", x2="high:Q")
        points = base.mark_point(filled=True).encode(x=alt.X("value:Q", title="judged value"))
        return alt.layer(bars, points)


class RecordingCharts(_Charts):
    """The charts of a recording. A long one has many rows: Altair draws some ten thousand of them well."""

    _result: Recording

    def time_sequence(
        self,
        *,
        scheduler: str | None = None,
        condition: str | None = None,
        flow: int = 0,
        direction: str | None = None,
    ) -> alt.LayerChart | alt.FacetChart:
        """Return the data-level time-sequence graph of a flow, over all its subflows."""
        import altair as alt

        stream = _plotting.Stream(self._result.run(scheduler, condition), flow, direction)
        found = stream.sequence()
        rows = [
            {
                "t": one.t_s,
                "low": one.from_bytes / 1e6,
                "high": one.to_bytes / 1e6,
                "subflow": one.subflow,
                "event": one.event,
            }
            for one in found.segments
        ]
        # A subflow with few segments is drawn last, so that one with many does not cover it.
        count = Counter(one.subflow for one in found.segments)
        rows.sort(key=lambda row: -count[str(row["subflow"])])
        most = max(count.values(), default=0)
        rows = [{**row, "width": 1.5 if count[str(row["subflow"])] == most else 3} for row in rows]
        acked = [{"t": time, "mb": offset / 1e6} for time, offset in found.acked]
        y = alt.Y("low:Q", title="data sequence, MB")
        color = alt.Color("subflow:N", sort=found.subflows, title=None)
        segments = alt.Chart(_values(rows)).mark_rule(strokeCap="square")
        repeated = alt.Chart(_values([row for row in rows if row["event"] != "sent"])).mark_point(size=12)
        return alt.layer(
            segments.encode(
                x=alt.X("t:Q", title="time, s"),
                y=y,
                y2="high:Q",
                color=color,
                strokeWidth=alt.StrokeWidth("width:Q", scale=None),
            ),
            repeated.encode(x="t:Q", y="high:Q", shape=alt.Shape("event:N", title=None)),
            alt.Chart(_values(acked))
            .mark_line(interpolate="step-after", color="gray", strokeWidth=0.8)
            .encode(x="t:Q", y="mb:Q"),
            title=found.title,
        )

    def windows(
        self,
        *,
        scheduler: str | None = None,
        condition: str | None = None,
        flow: int = 0,
        direction: str | None = None,
    ) -> alt.Chart:
        """Return the congestion window of each subflow over time."""
        import altair as alt

        stream = _plotting.Stream(self._result.run(scheduler, condition), flow, direction)
        rows = [
            {"t": time, "kb": cwnd / 1e3, "subflow": own.subflow}
            for own in stream.windows()
            for time, cwnd in zip(own.t_s, own.cwnd, strict=True)
        ]
        chart: alt.Chart = (
            alt.Chart(_values(rows), title=stream.title)
            .mark_line(interpolate="step-after")
            .encode(
                x=alt.X("t:Q", title="time, s"),
                y=alt.Y("kb:Q", title="congestion window, KB"),
                color=alt.Color("subflow:N", title=None),
            )
        )
        return chart
