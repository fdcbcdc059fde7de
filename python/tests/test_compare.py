"""Comparisons, runs and advice equal those of the command, and their tables reach other libraries."""

from __future__ import annotations

import csv
import dataclasses
import gc
import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path as File
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import anabranch
from anabranch import Path, Scenario

SMALL = Scenario("wifi-lte", runs=3)


def command(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "anabranch", *words], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def result() -> anabranch.Comparison:
    return anabranch.compare(SMALL)


def test_a_row_is_the_one_of_its_condition(result: anabranch.Comparison) -> None:
    conditions = list(dict.fromkeys(row.condition for row in result.rows))
    assert len(conditions) > 1
    for condition in conditions:
        assert result.row("min_rtt", condition).condition == condition
    assert result.row("min_rtt").condition == conditions[0]
    with pytest.raises(KeyError, match=f"no condition 'nowhere'; there are '{conditions[0]}'"):
        result.row("min_rtt", "nowhere")
    with pytest.raises(KeyError, match="no row for 'nobody'; there are tcp"):
        result.row("nobody", conditions[0])


def test_the_result_is_that_of_the_command(result: anabranch.Comparison, tmp_path: File) -> None:
    samples = tmp_path / "samples.csv"
    printed = json.loads(command("compare", "wifi-lte", "--runs", "3", "--json", "--samples", str(samples)))
    for one in (printed, result.data):
        one = dict(one)
    own = {key: value for key, value in result.data.items() if key not in {"command", "performance", "commit"}}
    assert own == {key: printed[key] for key in own}
    rows = list(csv.reader(io.StringIO(samples.read_text())))
    assert rows[0] == result.samples.columns
    assert len(rows) - 1 == len(result.samples)
    numbers = dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))
    for name in rows[0]:
        for text, value in zip(numbers[name], result.samples.column(name), strict=True):
            if isinstance(value, bool):
                assert text == str(value).lower()
            elif isinstance(value, (int, float)):
                assert float(text) == value
            else:
                assert text == (value or "")


def test_the_text_is_that_of_the_command(result: anabranch.Comparison) -> None:
    printed = command("compare", "wifi-lte", "--runs", "3").splitlines()
    shown = repr(result).splitlines()
    assert len(printed) == len(shown)
    different = [line for line, other in zip(printed, shown, strict=True) if line != other]
    assert len(different) <= 1, different
    assert all("network time" in line for line in different)


def test_records_have_every_key(result: anabranch.Comparison) -> None:
    row = result.data["rows"][0]
    fields = dataclasses.fields(result.rows[0])
    required = {field.name for field in fields if field.default is dataclasses.MISSING}
    assert required <= set(row) <= {field.name for field in fields}
    assert set(row["fct_s"]) == set(result.rows[0].fct_s.__dataclass_fields__)
    verdict = {field.name for field in dataclasses.fields(result.verdicts[0]) if field.default is dataclasses.MISSING}
    assert verdict <= set(result.data["verdicts"][0])
    assert result.row("tcp").fct_s.mean == row["fct_s"]["mean"]
    with pytest.raises(KeyError, match="nobody"):
        result.row("nobody")


def test_every_library_reads_the_table(result: anabranch.Comparison) -> None:
    samples = result.samples
    expected = samples.column("fct_s")
    assert pl.DataFrame(samples)["fct_s"].to_list() == expected
    assert pl.DataFrame(result).height == len(samples)
    table = pa.table(samples)
    assert table["fct_s"].to_pylist() == expected
    assert table.column_names == samples.columns
    assert pd.DataFrame.from_arrow(samples)["fct_s"].tolist() == expected
    found = duckdb.execute(
        "select scheduler, count(*), sum(delivered_bytes) from samples group by 1 order by 1"
    ).fetchall()
    assert [name for name, _, _ in found] == sorted(SMALL.contenders)
    assert pl.DataFrame(result.table).height == len(result.rows)


def test_a_table_outlives_its_result() -> None:
    frame = pl.DataFrame(anabranch.compare(SMALL, schedulers=["tcp"]))
    gc.collect()
    assert frame["finished"].all()


def test_a_million_rows_are_read_whole() -> None:
    many = anabranch.compare([Path("1 Gbit/s", "1 ms")], size="1 KB", flows=5000, runs=2, schedulers=["tcp"])
    table = anabranch.Table.concat([many.samples] * 100)
    assert len(table) == 1_000_000
    frame = pl.DataFrame(table)
    assert frame.height == 1_000_000
    assert frame["delivered_bytes"].sum() == 1_000_000_000


def test_a_copy_of_the_arrow_stream_has_the_same_memory(result: anabranch.Comparison) -> None:
    first, second = (pa.table(result.samples)["fct_s"].chunk(0).buffers()[1].address for _ in range(2))
    assert first == second


def test_the_result_does_not_depend_on_threads() -> None:
    one, two = (anabranch.compare(SMALL, jobs=jobs).samples for jobs in (1, 2))
    assert pl.DataFrame(one).equals(pl.DataFrame(two))


def test_a_run_is_a_run_of_the_comparison(result: anabranch.Comparison) -> None:
    replayed = pl.DataFrame(anabranch.run(SMALL, run=1))
    compared = pl.DataFrame(result).filter(pl.col("run") == 1)
    assert replayed.equals(compared)
    with pytest.raises(IndexError, match="there is no run 3"):
        anabranch.run(SMALL, run=3)


def test_links_have_the_counters_of_the_command() -> None:
    printed = json.loads(command("run", "wifi-lte", "--json"))["links"]
    links = anabranch.run(Scenario("wifi-lte")).links
    assert links.columns == list(printed[0])
    assert pl.DataFrame(links).to_dicts() == printed


def test_advice_is_that_of_the_command() -> None:
    paths = [Path("20 Mbit/s", "20 ms"), Path("20 Mbit/s", "30 ms")]
    advice = anabranch.advise(paths, size="1 MB", margins=False)
    words = ["--path", "20Mbit/s,20ms", "--path", "20Mbit/s,30ms", "--size", "1MB", "--no-margins"]
    printed = json.loads(command("advise", *words, "--json"))
    assert (advice.answer, advice.best, advice.start) == (
        printed["answer"],
        printed["best"]["name"],
        printed["start"],
    )
    assert advice.actions
    assert repr(advice).startswith("Multipath TCP pays")


def test_the_model_and_the_choice_are_those_of_the_command() -> None:
    printed = json.loads(command("model", "--cwnd", "10", "--loss", "1%", "--rounds", "4", "--json"))["rounds"]
    rounds = anabranch.model(cwnd=10, loss="1%", rounds=4)
    assert [(r.round, r.delivered_segments, r.expected_cwnd, len(r.states)) for r in rounds] == [
        (r["round"], r["delivered_segments"], r["expected_cwnd"], len(r["states"])) for r in printed
    ]
    words = ["--path", "10Mbit/s,20ms,cwnd=4", "--path", "10Mbit/s,70ms", "--path", "1Mbit/s,900ms"]
    chosen = json.loads(command("select", *words, "--remaining", "60KB", "--json"))["paths"]
    paths = [Path("10 Mbit/s", "20 ms", cwnd=4), Path("10 Mbit/s", "70 ms"), Path("1 Mbit/s", "900 ms")]
    own = anabranch.select(paths, "60 KB")
    assert [(p.selected, p.faster_deliver_bytes) for p in own] == [
        (p["selected"], p["faster_deliver_bytes"]) for p in chosen
    ]
    assert [p.why for p in own] == [p["why"] for p in chosen]
    with pytest.raises(anabranch.ScenarioError, match="window"):
        anabranch.select([Path("1 Mbit/s", "1 ms", cwnd=0)], "1 KB")


@pytest.mark.parametrize("notebook", [False, True])
def test_a_long_call_shows_a_bar(notebook: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    import tqdm.auto

    shown = io.StringIO()

    class Shown(tqdm.auto.tqdm):  # type: ignore[misc]
        def __init__(self, **options: Any) -> None:
            # The real one appears after a second, and vanishes at the end.
            assert options.pop("delay") == 1
            super().__init__(**{**options, "file": shown, "leave": True, "mininterval": 0})

    monkeypatch.setattr(tqdm.auto, "tqdm", Shown)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    if notebook:
        monkeypatch.setitem(sys.modules, "ipykernel", sys)
    anabranch.compare(SMALL, progress=None if notebook else True)
    assert re.search(r"100%.* (\d+)/\1 .*runs", shown.getvalue()), shown.getvalue()
    shown.truncate(0)
    anabranch.compare(SMALL, progress=False)
    assert not shown.getvalue()


def test_progress_is_reported_and_its_exceptions_stop_the_work() -> None:
    seen: list[tuple[int, int]] = []
    anabranch.compare(SMALL, progress=lambda done, total: seen.append((done, total)))
    assert seen
    assert seen[-1][0] == seen[-1][1]

    class StopError(Exception):
        pass

    def stop(done: int, total: int) -> None:
        raise StopError

    with pytest.raises(StopError):
        anabranch.compare("dmptcp-eight-paths", progress=stop)


INTERRUPTED = """
import anabranch, time, sys
print("begin", flush=True)
try:
    anabranch.compare("dmptcp-eight-paths", runs=5000, samples=False)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_works_within_a_second() -> None:
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begin\n"
        time.sleep(0.5)
        begun = time.monotonic()
        os.kill(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        took = time.monotonic() - begun
        assert process.wait() == 0
    # Below 0.2 s on an idle machine; the tests share theirs.
    assert took < 3, took


def test_memory_does_not_grow_with_the_number_of_calls() -> None:
    scenario = Scenario([Path("100 Mbit/s", "1 ms")], size="2 KB", runs=1, schedulers=["tcp"])
    wrong: dict[str, Any] = {"path": [{"rate": "1 parsec"}]}

    def calls(count: int) -> None:
        for number in range(count):
            with pytest.raises(anabranch.ScenarioError):
                Scenario(wrong)
            anabranch.model(cwnd=10, rounds=1 + number % 3)
            # A simulation starts a thread, and takes longer than all the rest.
            if number % 10 == 0:
                pl.DataFrame(anabranch.compare(scenario))
                pl.DataFrame(anabranch.explain(scenario, changes=False))

    def resident() -> int:
        gc.collect()
        pages = int(File("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    calls(1000)
    before = resident()
    calls(3000)
    grown = resident() - before
    # 300 results of 10 KB each, kept, would be 3 MB; 3000 scenarios far more.
    assert grown < 1_000_000, grown


def test_options_out_of_range_are_errors() -> None:
    with pytest.raises(ValueError, match="threads"):
        anabranch.compare(SMALL, jobs=-1)
    without = anabranch.compare(SMALL, samples=False, schedulers=["tcp"])
    with pytest.raises(ValueError, match="samples=False"):
        _ = without.samples
    with pytest.raises(KeyError, match="fct_s"):
        anabranch.compare(SMALL, schedulers=["tcp"]).samples.column("nothing")
