"""Explanations and reproductions equal those of the command."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path as File
from typing import Any

import matplotlib as mpl
import polars as pl
import pytest

import anabranch
from anabranch import records
from anabranch.explaining import COLORS

mpl.use("Agg")


def command(*words: str, check: bool = True) -> Any:
    done = subprocess.run([sys.executable, "-m", "anabranch", *words], capture_output=True, text=True, check=check)
    return done.stdout


@pytest.fixture(scope="module")
def explained() -> anabranch.Explanation:
    return anabranch.explain("wifi-lte", runs=2, schedulers=["tcp", "linux"])


def test_the_explanation_is_that_of_the_command(explained: anabranch.Explanation) -> None:
    words = ["explain", "wifi-lte", "--runs", "2", "--schedulers", "tcp,linux"]
    printed = json.loads(command(*words, "--json"))
    assert {k: v for k, v in explained.data.items() if k not in {"command", "commit"}} == {
        k: v for k, v in printed.items() if k not in {"command", "commit"}
    }
    assert command(*words).splitlines() == repr(explained).splitlines()
    other = anabranch.explain("wifi-lte", runs=2, schedulers=["tcp"], flow=1, bytes=True, changes=False)
    words = ["explain", "wifi-lte", "--runs", "2", "--schedulers", "tcp", "--flow", "1", "--bytes", "--no-changes"]
    assert command(*words).splitlines() == repr(other).splitlines()


def test_an_explanation_of_bytes_has_their_times() -> None:
    of_bytes, of_flows = (
        anabranch.explain("wifi-lte", runs=2, schedulers=["tcp"], bytes=own, changes=False) for own in (True, False)
    )
    for one, time in ((of_bytes, "byte_mean_s"), (of_flows, "mean_s")):
        row = one.row("tcp")
        assert sum(part.mean_s for part in one.parts(row)) == pytest.approx(getattr(row, time))
        assert f"{1e3 * getattr(row, time):.4g} ms" in one._repr_html_()


def has_keys_of(data: dict[str, object], kind: type) -> bool:
    """Whether the keys are the record's; one with a default may be absent."""
    fields = dataclasses.fields(kind)
    unset = dataclasses.MISSING
    required = {field.name for field in fields if field.default is unset and field.default_factory is unset}
    return required <= set(data) <= {field.name for field in fields}


def test_the_records_of_an_explanation_have_every_key(explained: anabranch.Explanation) -> None:
    row = explained.data["rows"][1]
    assert has_keys_of(row, records.Explained)
    assert has_keys_of(row["parts"][0], records.TimePart)
    assert has_keys_of(row["largest"], records.Largest)
    # The fastest contender has none.
    excess = next(row["excess"] for row in explained.data["rows"] if row["excess"])
    assert has_keys_of(excess, records.Excess)
    assert has_keys_of(row["changes"][0], records.Change)
    own = explained.row("linux")
    assert dataclasses.asdict(own)["parts"][0]["sum_ns"] == row["parts"][0]["sum_ns"]
    assert own.changes[0].effect_pct is not None
    assert own.changes[0].effect_pct.mean == row["changes"][0]["effect_pct"]["mean"]
    with pytest.raises(KeyError, match="nobody"):
        explained.row("nobody")


def test_the_parts_add_up_in_the_table_and_in_the_plot(explained: anabranch.Explanation) -> None:
    frame = pl.DataFrame(explained)
    for row in explained.rows:
        own = frame.filter(pl.col("scheduler") == row.scheduler, pl.col("condition") == row.condition)
        assert own["mean_s"].sum() == pytest.approx(row.mean_s)
        assert sum(part.sum_ns or 0 for part in row.parts) == row.total_ns
    condition = explained.rows[-1].condition
    axes = explained.plot.parts(condition=condition)
    ends = {round(bar.get_x() + bar.get_width(), 6) for bars in axes.containers for bar in bars}
    assert all(
        any(end == pytest.approx(1e3 * (row.mean_s or 0)) for end in ends)
        for row in explained.rows
        if row.condition == condition
    )
    html = explained._repr_html_()
    assert set(frame["cause"]) == set(COLORS)
    assert all(cause in html for cause in ("serialisation", "propagation"))
    assert html.count("<tr>") == len(explained.rows)


def test_mistakes_in_an_explanation_are_errors() -> None:
    for flow, words in ((0, "no flow 0"), (2, "no flow 2")):
        with pytest.raises(IndexError, match=words):
            anabranch.explain("wifi-lte", runs=1, flow=flow)


def test_a_scheduler_in_python_is_explained() -> None:
    class Fastest(anabranch.Scheduler):
        def decide(self, view: anabranch.View) -> anabranch.scheduler.Decision:
            free = [one for one in view.subflows if one.may_carry() and one.room() > 0]
            best = min(free, key=lambda one: one.srtt_s or 1e9, default=None)
            data = view.next_new(best.room()) if best else None
            return anabranch.Assign(best, data) if best and data else anabranch.Wait()

    paths = [anabranch.Path("20 Mbit/s", "20 ms"), anabranch.Path("10 Mbit/s", "45 ms")]
    result = anabranch.explain(paths, schedulers=["min_rtt", Fastest], size="200 KB", runs=2, changes=False)
    assert [part.sum_ns for part in result.row("Fastest").parts] == [p.sum_ns for p in result.row("min_rtt").parts]


@pytest.fixture(scope="module")
def judged() -> anabranch.Reproduction:
    return anabranch.reproduce("dmptcp", claim=["D10"], plain=True)


def test_the_verdicts_are_those_of_the_command(judged: anabranch.Reproduction) -> None:
    words = ["reproduce", "dmptcp", "--claim", "D10", "--plain"]
    assert judged.data == json.loads(command(*words, "--json"))
    assert repr(judged).splitlines() == command(*words).splitlines()
    listed = anabranch.reproduce("dmptcp")
    assert listed.data == json.loads(command("reproduce", "dmptcp", "--list", "--json"))
    assert repr(listed).splitlines() == command("reproduce", "dmptcp", "--list").splitlines()


def test_the_records_of_a_reproduction_have_every_key(judged: anabranch.Reproduction) -> None:
    (finding,) = json.loads(judged._inner.findings())
    assert has_keys_of(finding, records.Finding)
    assert has_keys_of(finding["checks"][0], records.Checked)
    assert has_keys_of(finding["checks"][0]["lines"][0], records.Line)
    own = judged.finding("d10")
    assert own.checks[0].lines[0].words == finding["checks"][0]["lines"][0]["words"]
    recorded = anabranch.reproduce(list=True)
    tried = [tried for finding in recorded.findings for tried in finding.variants]
    assert tried
    assert tried[0].checks[0].lines
    with pytest.raises(KeyError, match="D18"):
        judged.finding("D18")


def test_an_interrupted_reproduction_continues(tmp_path: File) -> None:
    first = anabranch.reproduce("dmptcp", claim="D10", plain=True, out=tmp_path)
    lines = (tmp_path / "journal.ndjson").read_bytes()
    assert anabranch.reproduce("dmptcp", claim="D10", plain=True, out=tmp_path).data == first.data
    assert (tmp_path / "journal.ndjson").read_bytes() == lines
    kept = anabranch.reproduce("dmptcp", list=True, out=tmp_path)
    assert kept.finding("D10").checks == first.finding("D10").checks


def test_a_plot_has_a_line_for_each_judgement(judged: anabranch.Reproduction) -> None:
    lines = [line for finding in judged.findings for check in finding.checks for line in check.lines]
    assert len(judged.plot.checks().get_yticklabels()) == len(lines)
    assert "D10" in judged._repr_html_()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quick": True, "full": True}, "contradict"),
        ({"figure": "1", "table": "1"}, "contradict"),
        ({"list": True, "seed": 3}, "contradict"),
        ({"full": True, "holding": True}, "contradict"),
        ({"holding": True, "claim": "D34"}, "recorded as holding"),
        ({"from_": "."}, "contradict"),
        ({"any_build": True}, "give `out`"),
        ({"claim": "D999"}, "no claim `D999`"),
        ({"figure": "99"}, "no claim fits"),
    ],
)
def test_options_that_contradict_are_errors(options: dict[str, Any], words: str) -> None:
    with pytest.raises(anabranch.ScenarioError, match=words):
        anabranch.reproduce("dmptcp", **options)
    with pytest.raises(anabranch.ScenarioError, match="no paper"):
        anabranch.reproduce("nobody")
