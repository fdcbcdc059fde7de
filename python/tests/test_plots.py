"""Plots draw the numbers of the result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as File
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import anabranch
from anabranch import Path, Range

mpl.use("Agg")


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
    means = [float(np.asarray(line.get_xdata())[0]) for line in axes.lines if line.get_marker() == "o"]
    assert means == [pytest.approx(1e3 * (row.fct_s.mean or 0)) for row in result.rows]


def test_a_distribution_ends_at_the_share_of_delivered_flows(result: anabranch.Comparison) -> None:
    axes = result.plot.cdf()
    assert [line.get_label() for line in axes.lines] == result.scenario.contenders
    assert all(np.asarray(line.get_ydata())[-1] == 1.0 for line in axes.lines)
    missed = anabranch.compare([Path("1 Mbit/s", "20 ms")], size="2 MB", deadline="1 s", runs=2, schedulers=["tcp"])
    assert not missed.plot.cdf().lines


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
