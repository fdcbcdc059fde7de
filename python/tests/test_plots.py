"""Plots draw the numbers of the result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as File
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import pytest

import anabranch
from anabranch import Path, Range

mpl.use("Agg")

CLASSES: dict[str, Any] = {
    "schedulers": ["tcp", "min_rtt"],
    "path": [
        {"name": "wifi", "rate": "20 Mbit/s", "rtt": "20 ms", "loss": "0.5%"},
        {"name": "lte", "rate": "10 Mbit/s", "rtt": "60 ms"},
    ],
    "traffic": [
        {"name": "web", "kind": "requests", "size": "30 KB", "think": "300 ms", "duration": "2 s"},
        {"name": "film", "kind": "video", "bitrate": "2 Mbit/s", "segment": "1 s", "buffer": "4 s", "duration": "4 s"},
        {"name": "call", "kind": "udp", "path": "wifi", "size": "160 B", "gap": "20 ms", "duration": "2 s"},
        {"name": "photos", "size": "300 KB", "flows": 2, "every": "1 s", "direction": "upload"},
        {"name": "backup", "size": "bulk", "duration": "2 s"},
    ],
}


@pytest.fixture(scope="module")
def result() -> anabranch.Comparison:
    return anabranch.compare("figure8", runs=3)


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def test_completion_times_show_the_means(result: anabranch.Comparison) -> None:
    axes = result.plot.completion_times()
    assert [label.get_text() for label in axes.get_yticklabels()] == result.scenario.contenders
    means = [float(np.asarray(line.get_xdata())[0]) for line in axes.lines if line.get_marker() in set("os^D")]
    assert means == [pytest.approx(1e3 * (row.fct_s.mean or 0)) for row in result.rows]


def test_a_distribution_ends_at_the_share_of_delivered_flows(result: anabranch.Comparison) -> None:
    axes = result.plot.cdf()
    assert [line.get_label() for line in axes.lines] == result.scenario.contenders
    looks = [(line.get_color(), line.is_dashed()) for line in axes.lines]
    assert looks == [
        (look.color, bool(look.dash)) for look in anabranch.style.contenders(result.scenario.contenders).values()
    ]
    assert all(np.asarray(line.get_ydata())[-1] == 1.0 for line in axes.lines)
    missed = anabranch.compare([Path("1 Mbit/s", "20 ms")], size="2 MB", deadline="1 s", runs=2, schedulers=["tcp"])
    assert not missed.plot.cdf().lines


def test_a_distribution_ends_below_1_if_flows_were_not_delivered() -> None:
    sizes = {"distribution": "uniform", "min": "10 KB", "max": "1 MB"}
    traffic: dict[str, Any] = {"size": sizes, "flows": 10}
    scenario = anabranch.Scenario([Path("2 Mbit/s", "20 ms")], traffic=traffic, schedulers=["tcp"], deadline="8 s")
    result = anabranch.compare(scenario, runs=2)
    (row,) = result.rows
    assert 2 < row.completed < row.n
    (line,) = result.plot.cdf().lines
    assert np.asarray(line.get_ydata())[-1] == pytest.approx(row.completed / row.n)


def test_a_cell_of_a_heat_map_is_the_mean_of_its_points() -> None:
    rates = ["5 Mbit/s", "20 Mbit/s"]
    vary: Any = {"path.1.rate": rates, "path.2.rate": rates, "path.2.rtt": ["20 ms", "80 ms"]}
    base = anabranch.Scenario(
        [Path("20 Mbit/s", "20 ms"), Path("20 Mbit/s", "30 ms")], size="100 KB", schedulers=["tcp", "min_rtt"]
    )
    result = anabranch.sweep(base, vary=vary, runs=2)
    cells = result.plot.heatmap("path.1.rate", "path.2.rate").images[0].get_array()
    table = pl.DataFrame(result).filter(pl.col("scheduler") == "min_rtt")
    first, second = (f"path.{number}.rate (Mbit/s)" for number in (1, 2))
    means = table.group_by(second, first).agg(pl.col("vs_reference_pct").mean()).sort(second, first)
    assert np.asarray(cells).flatten() == pytest.approx(means["vs_reference_pct"].to_list())


def test_a_heat_map_has_a_cell_for_each_point() -> None:
    vary: Any = {"path.1.rate": Range("5 Mbit/s", "20 Mbit/s", steps=3), "path.2.rtt": ["20 ms", "80 ms"]}
    base = anabranch.Scenario(
        [Path("20 Mbit/s", "20 ms"), Path("20 Mbit/s", "30 ms")], size="100 KB", schedulers=["tcp", "min_rtt"]
    )
    result = anabranch.sweep(base, vary=vary, runs=2)
    axes = result.plot.heatmap("path.1.rate", "path.2.rtt")
    grid = np.asarray(axes.images[0].get_array())
    assert grid.shape == (2, 3)
    own = result.table.column("vs_reference_pct")
    names = result.table.column("scheduler")
    expected = sorted(v for v, name in zip(own, names, strict=True) if name == "min_rtt" and isinstance(v, float))
    assert sorted(grid.flatten()) == expected
    assert axes.get_title() == "min_rtt"
    with pytest.raises(ValueError, match="does not vary"):
        result.plot.heatmap("path.1.rtt", "path.2.rtt")
    with pytest.raises(ValueError, match="no contender"):
        result.plot.heatmap("path.1.rate", "path.2.rtt", scheduler="blest")


def test_a_figure_for_a_paper_is_written(result: anabranch.Comparison, tmp_path: File) -> None:
    with anabranch.style.paper():
        figure, axes = plt.subplots()
        assert result.plot.cdf(axes=axes) is axes
        for kind in ("svg", "pdf"):
            figure.savefig(tmp_path / f"figure.{kind}")
            assert (tmp_path / f"figure.{kind}").stat().st_size > 1000
    assert "completion time" in (tmp_path / "figure.svg").read_text()


def test_contenders_differ_without_colour() -> None:
    names = ["tcp", "min_rtt", "dmptcp", "linux", "round_robin", "redundant", "blest", "ecf", "otias", "peekaboo"]
    for some in (names, ["tcp", "blest", "ecf"], names[1:3]):
        looks = anabranch.style.contenders(some)
        assert list(looks) == some
        assert len({look.dash for look in looks.values()}) == len(some)
        assert sum(look.dash == () for look in looks.values()) <= 1
        assert len({look.color for look in looks.values()}) >= min(len(some), 7)


@pytest.fixture(scope="module")
def classes() -> anabranch.Comparison:
    return anabranch.compare(CLASSES, runs=3)


def test_a_class_of_traffic_has_its_own_measure(classes: anabranch.Comparison) -> None:
    labels = {
        "web": "response time, ms",
        "film": "waiting time (startup and stalls), ms",
        "call": "one-way delay, ms",
        "photos": "completion time, ms",
        "backup": "goodput, Mbit/s",
    }
    for traffic, label in labels.items():
        axes = classes.plot.completion_times(traffic=traffic)
        assert (axes.get_xlabel(), axes.get_title()) == (label, traffic)
        rows = [row for row in classes.rows if row.traffic == traffic]
        names = [row.scheduler for row in rows]
        assert [text.get_text() for text in axes.get_yticklabels()] == names == ["tcp", "min_rtt"]
        means = [float(np.asarray(line.get_xdata())[0]) for line in axes.lines if line.get_marker() in set("os^D")]
        bulk = traffic == "backup"
        expected = [1e-6 * (row.goodput_bps or 0) if bulk else 1e3 * (row.fct_s.mean or 0) for row in rows]
        assert means == [pytest.approx(mean) for mean in expected]
        # The dots are the samples of this class, of which the means are those of the rows.
        dots = [np.asarray(line.get_xdata(), dtype=float) for line in axes.lines if line.get_color() == "0.7"]
        assert [len(some) for some in dots] == [row.completed for row in rows]
        assert [some.mean() for some in dots] == [pytest.approx(mean) for mean in expected]
        curves = classes.plot.cdf(traffic=traffic).lines
        assert [len(np.asarray(line.get_xdata())) - 1 for line in curves] == [row.completed for row in rows]


def test_the_first_class_is_shown_unless_another_is_named(classes: anabranch.Comparison) -> None:
    assert classes.plot.cdf().get_title() == "web"
    assert classes.row("min_rtt", traffic="call").kind == "udp"
    assert classes.row("min_rtt").traffic == "web"
    assert {verdict.traffic for verdict in classes.verdicts} == {"web", "film", "call", "photos", "backup"}
    with pytest.raises(ValueError, match="no class of traffic 'mail'; there are web, film, call, photos, backup"):
        classes.plot.cdf(traffic="mail")
    with pytest.raises(KeyError, match="no class of traffic 'mail'; there are web"):
        classes.row("min_rtt", traffic="mail")


def test_a_result_without_classes_has_none_to_choose(result: anabranch.Comparison) -> None:
    with pytest.raises(ValueError, match="no class of traffic 'web'; the traffic of this result has no classes"):
        result.plot.cdf(traffic="web")


def test_a_heat_map_shows_one_class() -> None:
    vary: Any = {"path.wifi.rate": ["5 Mbit/s", "20 Mbit/s"], "path.lte.rtt": ["20 ms", "60 ms"]}
    result = anabranch.sweep(CLASSES, vary=vary, runs=1)
    columns = (result.table.column(name) for name in ("traffic", "scheduler", "vs_reference_pct"))
    all_rows = list(zip(*columns, strict=True))
    for traffic in ("web", "photos", "backup"):
        own = [value for of, name, value in all_rows if (of, name) == (traffic, "min_rtt")]
        axes = result.plot.heatmap("path.wifi.rate", "path.lte.rtt", traffic=traffic)
        assert sorted(np.asarray(axes.images[0].get_array()).flatten()) == sorted(own)
        assert axes.get_title() == f"min_rtt, {traffic}"
    assert result.plot.heatmap("path.wifi.rate", "path.lte.rtt").get_title() == "min_rtt, web"
    assert [standing.traffic for standing in result.contenders][:2] == ["web", "web"]
    with pytest.raises(ValueError, match="no class of traffic 'mail'"):
        result.plot.heatmap("path.wifi.rate", "path.lte.rtt", traffic="mail")
