"""Recordings: the tables of a run directory, and their plots."""

from __future__ import annotations

import gc
import json
from pathlib import Path as File
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import pytest

import anabranch
from anabranch import Path, Recording
from anabranch.recording import TABLES

mpl.use("Agg")

PATHS = [
    Path("20 Mbit/s", "20 ms", name="wifi", loss="2%"),
    Path("10 Mbit/s", "40 ms", name="lte", loss="4%"),
]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> anabranch.Run:
    directory = tmp_path_factory.mktemp("recorded") / "run"
    return anabranch.run(PATHS, size="500 KB", schedulers=["min_rtt", "blest"], record=directory)


def test_the_tables_are_those_of_the_files(result: anabranch.Run) -> None:
    recording = Recording(result.recording.directory)
    assert recording.complete
    assert [run.scheduler for run in recording.runs] == ["min_rtt", "blest"]
    for run in recording.runs:
        assert run.complete
        assert run.paths == ["wifi", "lte"]
        for name in TABLES:
            table = getattr(run, name)
            expected = pl.read_parquet(run.directory / f"{name}.parquet")
            assert len(table) > 0
            assert pl.DataFrame(table).equals(expected), name
    assert recording.run("blest").flows.column("scheduler") == ["blest"]
    with pytest.raises(KeyError, match="nobody"):
        recording.run("nobody")


def test_a_run_has_its_condition_and_the_outages_of_its_paths(tmp_path: File) -> None:
    changes: list[Any] = [{"at": "100 ms", "down": True}, {"at": "250 ms", "up": True}]
    paths = [Path("10 Mbit/s", "20 ms", name="wifi", change=changes), Path("5 Mbit/s", "40 ms", name="lte")]
    conditions: list[Any] = [
        {"name": "short", "traffic": {"size": "20 KB"}},
        {"name": "long", "traffic": {"size": "400 KB"}},
    ]
    scenario = anabranch.Scenario(paths, schedulers=["min_rtt"], condition=conditions)
    recording = anabranch.run(scenario, record=tmp_path / "run").recording
    for condition in ("short", "long"):
        run = recording.run("min_rtt", condition)
        assert run.condition == condition
        assert run.outages == [("wifi", 0.1, 0.25)]
    assert recording.run("min_rtt").condition == "short"
    with pytest.raises(KeyError, match="no run of 'min_rtt'; there are short, min_rtt; long, min_rtt"):
        recording.run("min_rtt", "longer")


def test_a_recording_changes_no_result(result: anabranch.Run) -> None:
    plain = anabranch.run(PATHS, size="500 KB", schedulers=["min_rtt", "blest"])
    assert pl.DataFrame(plain).equals(pl.DataFrame(result))
    with pytest.raises(ValueError, match="record=True"):
        _ = plain.recording


def test_a_temporary_recording_goes_with_its_result() -> None:
    own = anabranch.run(PATHS, size="50 KB", schedulers=["min_rtt"], record=True)
    directory = own.recording.directory
    assert own.plot.windows().lines
    assert directory.exists()
    events = own.recording.run().events
    del own
    gc.collect()
    assert len(events) > 0
    assert not directory.exists()


def test_a_time_sequence_graph_has_every_segment(result: anabranch.Run) -> None:
    events = pl.DataFrame(result.recording.run("min_rtt").events).filter(pl.col("direction") == "down")
    sent = events.filter(pl.col("event").is_in(["sent", "retransmitted", "reinjected", "probe"]))
    axes = result.plot.time_sequence(scheduler="min_rtt")
    drawn: Any = axes.collections
    assert sum(len(one.get_segments()) for one in drawn) == sent.height
    labels = {line.get_label(): line for line in axes.lines}
    again = events.filter(pl.col("event") == "retransmitted")
    assert again.height > 0
    assert len(np.asarray(labels["retransmitted"].get_xdata())) == again.height
    acked = np.asarray(labels["DATA_ACK"].get_ydata())
    assert acked[-1] == pytest.approx(0.5, abs=1e-5)
    assert [one.get_label() for one in drawn] == ["subflow 0, wifi", "subflow 1, lte"]
    for wrong in ({"flow": 7}, {"direction": "left"}):
        with pytest.raises(ValueError, match="there is no"):
            result.plot.time_sequence(**wrong)
    plt.close("all")


def test_the_windows_of_each_subflow_are_drawn(result: anabranch.Run) -> None:
    windows = pl.DataFrame(result.recording.run("blest").windows).filter(pl.col("direction") == "down")
    axes = result.plot.windows(scheduler="blest")
    named = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    assert [line.get_label() for line in named] == ["subflow 0, wifi", "subflow 1, lte"]
    for number, line in enumerate(named):
        own = windows.filter(pl.col("subflow") == number)["cwnd_bytes"]
        assert np.asarray(line.get_ydata()).tolist() == [value / 1e3 for value in own]
        # The threshold is infinite until the first loss: nothing is drawn.
        threshold = np.asarray(axes.lines[3 * number + 2].get_ydata())
        thresholds = windows.filter(pl.col("subflow") == number)["ssthresh_bytes"].to_list()
        assert thresholds[0] is None
        assert any(thresholds)
        np.testing.assert_array_equal(threshold, [np.nan if one is None else one / 1e3 for one in thresholds])
    plt.close("all")


def test_a_subflow_of_a_download_has_the_path_on_which_the_server_sends() -> None:
    # The join on the third path arrives first, so that the server's second subflow is the client's third.
    paths = [Path("10 Mbit/s", f"{rtt} ms", name=name) for rtt, name in ((20, "a"), (300, "b"), (30, "c"))]
    result = anabranch.run(paths, size="4 MB", schedulers=["min_rtt"], record=True)
    legend = result.plot.time_sequence().get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert names[:3] == ["subflow 0, a", "subflow 1, c", "subflow 2, b"]
    plt.close("all")


def test_options_of_a_recording_are_those_of_the_command(tmp_path: File) -> None:
    options: Any = {"size": "50 KB", "schedulers": ["tcp"]}
    own = anabranch.run(PATHS, record=tmp_path / "a", record_every="0", xpl=True, **options)
    assert own.recording.data["interval_ns"] == 0
    assert list((tmp_path / "a" / "tcp").glob("*.xpl"))
    with pytest.raises(anabranch.RunError, match="not empty"):
        anabranch.run(PATHS, record=tmp_path / "a", **options)
    with pytest.raises(ValueError, match="format"):
        anabranch.run(PATHS, record=tmp_path / "c", record_format="xls", **options)
    with pytest.raises(anabranch.ScenarioError, match="unit"):
        anabranch.run(PATHS, record=tmp_path / "d", record_every="1 parsec", **options)


@pytest.mark.parametrize("extension", ["csv", "ndjson"])
@pytest.mark.parametrize("conditions", [False, True])
def test_text_tables_are_read_like_parquet(extension: str, conditions: bool, tmp_path: File) -> None:
    scenario = anabranch.Scenario(PATHS, size="200 KB", schedulers=["tcp", "dmptcp", "blest"])
    if conditions:
        scenario = scenario.set(condition=[{"name": 'slow, "far"', "path": {"lte": {"rtt": "90 ms"}}}])
    first = anabranch.run(scenario, record=tmp_path / "parquet").recording
    other = anabranch.run(scenario, record=tmp_path / extension, record_format=extension).recording
    for one, again in zip(first.runs, other.runs, strict=True):
        for name in TABLES:
            expected, table = pl.DataFrame(getattr(one, name)), pl.DataFrame(getattr(again, name))
            assert table.schema == expected.schema
            assert table.equals(expected), name
    assert other.plot.time_sequence(scheduler="dmptcp").lines
    plt.close("all")


@pytest.mark.parametrize("extension", ["csv", "ndjson"])
def test_a_damaged_text_table_is_an_error_with_its_line(extension: str, tmp_path: File) -> None:
    own = anabranch.run(PATHS, size="50 KB", schedulers=["tcp"], record=tmp_path / "run", record_format=extension)
    file = own.recording.run().directory / f"windows.{extension}"
    lines = file.read_text().splitlines()
    # A number is replaced by a word, a line is cut, or the columns are others.
    word = lines[2].replace("140", "many") if "140" in lines[2] else lines[2].replace("0", "many")
    for changed in ([*lines[:2], word, *lines[3:]], [*lines[:2], lines[2][: len(lines[2]) // 2]], ["{}", "1,2"]):
        file.write_text("\n".join(changed) + "\n")
        with pytest.raises(anabranch.RunError, match=rf"windows\.{extension}: "):
            _ = Recording(tmp_path / "run").run().windows
    file.unlink()
    with pytest.raises(anabranch.RunError, match=r"there is no .*windows.*the run did not end"):
        _ = Recording(tmp_path / "run").run().windows


def test_another_directory_is_no_recording(tmp_path: File) -> None:
    with pytest.raises(anabranch.RunError, match="is no recording"):
        Recording(tmp_path)
    for text in ("{", "[]", '{"schema": 1}'):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(anabranch.RunError, match="is no recording"):
            Recording(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps({"schema": 2, "runs": [], "interval_ns": 0}))
    with pytest.raises(anabranch.RunError, match="schema 2"):
        Recording(tmp_path)


def test_a_file_that_is_no_table_is_an_error(tmp_path: File) -> None:
    own = anabranch.run(PATHS, size="50 KB", schedulers=["tcp"], record=tmp_path / "run")
    file = own.recording.run().directory / "events.parquet"
    whole = file.read_bytes()
    for data in (b"", b"PAR1", whole[: len(whole) // 2], whole[:100] + bytes(100) + whole[200:]):
        file.write_bytes(data)
        try:
            table = Recording(tmp_path / "run").run().events
        except anabranch.RunError as error:
            assert "events.parquet" in str(error)
        else:
            assert table.columns


def test_a_stopped_recording_is_partial(tmp_path: File) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    scenario = anabranch.Scenario("dmptcp-eight-paths", size="50 MB", schedulers=["tcp", "min_rtt", "dmptcp"])
    with pytest.raises(KeyboardInterrupt):
        anabranch.run(scenario, record=tmp_path / "run", jobs=1, progress=stop)
    recording = Recording(tmp_path / "run")
    assert not recording.complete
    assert "partial" in repr(recording)
