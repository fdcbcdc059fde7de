"""Nothing destroyed, nothing silent: what a notebook does by accident has an answer."""

from __future__ import annotations

import copy
import datetime
import pickle
import warnings
from pathlib import Path as File
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import anabranch
from anabranch import Path, Plan, Scenario, _palette

PATHS = [Path("20 Mbit/s", "20 ms", name="wifi"), Path("10 Mbit/s", "40 ms", name="lte")]
BASE = Scenario(PATHS, size="100 KB", schedulers=["tcp", "min_rtt"])
VARY: dict[str, Any] = {"path.wifi.rate": ["5 Mbit/s", "20 Mbit/s"], "path.lte.rtt": ["20 ms", "80 ms"]}


def test_an_interrupted_sweep_continues_in_the_same_notebook(tmp_path: File) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    # A notebook keeps the last exception with its traceback, and so the objects in it.
    with pytest.raises(KeyboardInterrupt) as kept:
        anabranch.sweep(BASE.set(size="5 MB"), vary=VARY, runs=3, output=tmp_path, progress=stop)
    result = anabranch.sweep(BASE.set(size="5 MB"), vary=VARY, runs=3, output=tmp_path)
    assert len(result.table) == 8
    assert kept.traceback


class First(anabranch.Scheduler):
    """The first subflow with space."""

    def decide(self, view: anabranch.View) -> anabranch.scheduler.Decision:
        for subflow in view.subflows:
            if subflow.may_carry() and (room := subflow.room()) and (data := view.next_new(room)):
                return anabranch.Assign(subflow, data)
        return anabranch.Wait()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (anabranch.Assign(7, (0, 1400)), "there is no subflow 7"),
        (anabranch.Assign(0, (0, 1 << 40)), "is beyond the window"),
        (anabranch.Assign(0, (0, 1400), "reinject"), "is acknowledged up to"),
        (anabranch.Assign(0, (20_000, 21_400)), "is not unassigned data"),
        (anabranch.Assign(0, (70_000, 71_400), "copy"), "is not outstanding data"),
        (anabranch.Recall(0, (0, 1400)), "the queue of subflow 0 is empty"),
    ],
)
def test_refused_decisions_are_counted_and_explained(answer: anabranch.scheduler.Decision, why: str) -> None:
    class Wrong(anabranch.Scheduler):
        def decide(self, view: anabranch.View) -> anabranch.scheduler.Decision:
            return answer

    with pytest.warns(anabranch.SchedulerWarning, match=rf"\d+ decisions? of the scheduler `Wrong` .*refused.*{why}"):
        result = anabranch.compare(BASE, schedulers=["tcp", Wrong], runs=1, deadline="2 s")
    assert not result.complete
    assert "Of Wrong's decisions" in repr(result)
    assert "a later one may help" not in repr(result)
    assert "refused" in result.data["verdict"]


def test_the_warning_of_refused_decisions_is_at_the_call() -> None:
    class Wrong(anabranch.Scheduler):
        def decide(self, view: anabranch.View) -> anabranch.scheduler.Decision:
            return anabranch.Assign(7, (0, 1400))

    for call in (
        lambda: anabranch.compare(BASE, schedulers=["tcp", Wrong], runs=1, deadline="2 s"),
        lambda: anabranch.run(BASE, schedulers=[Wrong], deadline="2 s"),
        lambda: anabranch.sweep(BASE.set(schedulers=[Wrong], deadline="2 s", runs=1), vary={"path.lte.rtt": ["9 ms"]}),
    ):
        with pytest.warns(anabranch.SchedulerWarning) as noted:
            call()
        assert [note.filename for note in noted] == [__file__]
        warning = noted[0].message
        assert isinstance(warning, anabranch.SchedulerWarning)
        assert (warning.scheduler, warning.why, warning.count > 1) == ("Wrong", "there is no subflow 7", True)


def test_a_scheduler_may_keep_decisions() -> None:
    for one in (
        anabranch.Assign(1, (5, 9), "reinject", rule=3, score=0.5),
        anabranch.Recall(0, (1, 2), other=2.0),
        anabranch.Wait(),
        anabranch.Wait(0.25, rule=7),
    ):
        assert copy.deepcopy(one) == one
        assert pickle.loads(pickle.dumps(one)) == one
        assert repr(pickle.loads(pickle.dumps(one))) == repr(one)

    class Keeping(First):
        def __init__(self) -> None:
            self.wait = anabranch.Wait()

    assert anabranch.compare(BASE, schedulers=["tcp", Keeping()], runs=1).complete


def test_valid_decisions_are_not_counted() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scenario in (BASE, BASE.set({"path.loss": "2%"}, size="500 KB")):
            assert anabranch.compare(scenario, schedulers=["tcp", First], runs=2).complete


@pytest.mark.parametrize("direction", ["download", "upload"])
def test_a_subflow_of_the_view_has_its_path_and_addresses(direction: str) -> None:
    seen: dict[str | None, tuple[tuple[str, int], tuple[str, int]]] = {}

    class Looking(First):
        def decide(self, view: anabranch.View) -> anabranch.scheduler.Decision:
            seen.update({one.path: (one.local, one.remote) for one in view.subflows})
            return super().decide(view)

    scenario = BASE.set({"traffic.direction": direction, "schedulers": ["tcp"]}, size="1 MB")
    anabranch.compare(scenario, schedulers=["tcp", Looking], runs=1)
    assert set(seen) == {"wifi", "lte"}
    ends = [ends[0 if direction == "upload" else 1][0] for ends in (seen["wifi"], seen["lte"])]
    assert ends == ["10.0.0.1", "10.0.0.2"]
    assert anabranch.Subflow.idle(0, 0.02, path="wifi").path == "wifi"


def test_a_view_that_was_kept_raises() -> None:
    kept: list[anabranch.View] = []

    class Keeping(First):
        def decide(self, view: anabranch.View) -> anabranch.scheduler.Decision:
            if kept and kept[-1] is not view:
                with pytest.raises(anabranch.SchedulerError, match="an earlier call"):
                    _ = kept[-1].now_s
            kept[:] = [view]
            return super().decide(view)

    anabranch.compare(BASE, schedulers=["tcp", Keeping], runs=1)
    for name in ("now_s", "subflows", "unassigned", "remaining", "window_end"):
        with pytest.raises(anabranch.SchedulerError, match="an earlier call"):
            getattr(kept[0], name)
    assert repr(kept[0]) == "<View of an earlier call>"


def test_a_misspelt_method_is_refused() -> None:
    with pytest.raises(anabranch.SchedulerError, match=r"`Wary.on_events` is never called; did you mean `on_event`"):

        class Wary(First):
            def on_events(self, view: anabranch.View, event: anabranch.Event) -> None: ...

    with pytest.raises(anabranch.SchedulerError, match="did you mean `increase`"):

        class Gentle(anabranch.WindowRule):
            def incrase(self) -> None: ...

    with pytest.raises(anabranch.SchedulerError, match=r"`Queues\.revise_queues` is never read"):

        class Queues(First):
            revise_queues = True

    with pytest.raises(anabranch.SchedulerError, match="did you mean `coupled`"):

        class Coupled(anabranch.WindowRule):
            couple = True

    class Fine(First):
        names = ("wifi",)

        def fastest(self) -> None: ...
        def _decided(self) -> None: ...


def test_a_table_is_shown_iterated_converted_written_and_pickled(tmp_path: File) -> None:
    table = anabranch.compare(BASE, runs=8).samples
    rows = list(table)
    assert len(rows) == len(table) == 16
    assert list(rows[0]) == table.columns
    assert [row["run"] for row in rows] == table.column("run")
    text = repr(table)
    assert text.startswith("<Table of 16 rows: ")
    assert len(text.splitlines()) == 13
    assert all(len(line) <= 110 for line in text.splitlines()[1:])
    assert "<table>" in table._repr_html_()
    frame = table.to_polars()
    assert isinstance(frame, pl.DataFrame)
    assert frame.equals(pl.DataFrame(table))
    pandas = table.to_pandas()
    assert isinstance(pandas, pd.DataFrame)
    assert list(pandas["fct_s"]) == table.column("fct_s")
    # The types do not depend on the values.
    summary = anabranch.compare(BASE, runs=2).table.to_pandas()
    kinds = {name: str(kind) for name, kind in summary.dtypes.items()}
    wanted = {"fct_p99_s": "float64", "stalled_s": "float64", "runs": "int64", "best": "bool"}
    assert {name: kinds[name] for name in wanted} == wanted
    table.write_parquet(tmp_path / "x.parquet")
    assert pl.read_parquet(tmp_path / "x.parquet").equals(frame)
    with pytest.raises(anabranch.RunError, match="cannot write"):
        table.write_parquet(tmp_path / "none" / "x.parquet")
    again: anabranch.Table = pickle.loads(pickle.dumps(table))
    assert again.to_polars().equals(frame)


def test_results_are_pickled() -> None:
    scenario = BASE.set(runs=2)
    compared = anabranch.compare(scenario)
    results: list[Any] = [
        compared,
        anabranch.run(scenario),
        anabranch.explain(scenario),
        anabranch.sweep(scenario, vary={"path.lte.rtt": ["20 ms", "80 ms"]}),
        anabranch.reproduce("dmptcp"),
    ]
    for result in results:
        for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
            assert type(again) is type(result)
            assert repr(again) == repr(result)
            assert again.data == result.data
            assert repr(pickle.loads(pickle.dumps(again))) == repr(result)
    again = pickle.loads(pickle.dumps(compared))
    assert again.row("min_rtt").fct_s.mean == compared.row("min_rtt").fct_s.mean
    assert again.samples.column("fct_s") == compared.samples.column("fct_s")
    recorded = anabranch.run(scenario, record=True)
    events = len(recorded.recording.run("min_rtt").events)
    packed = pickle.dumps(recorded)
    del recorded
    kept = pickle.loads(packed).recording.run("min_rtt")
    assert len(kept.events) == events
    # Nobody has read this one before.
    assert len(kept.windows) > 0


def test_numbers_of_numpy_ranges_and_times_are_values() -> None:
    def changed(**keys: Any) -> str:
        return Scenario(PATHS, size="100 KB", **keys).hash

    plain = changed(settings={"rto.min": "300 ms", "path.loss": 0.01, "traffic.flows": 3})
    for span in (
        datetime.timedelta(milliseconds=300),
        np.timedelta64(300, "ms"),
        pd.Timedelta(milliseconds=300),
    ):
        settings = {"rto.min": span, "path.loss": np.float64(0.01), "traffic.flows": np.int64(3)}
        assert changed(settings=settings) == plain
        settings["path.loss"] = np.float32(0.01)
        assert changed(settings=settings) == plain
    plan = Plan(BASE, vary={"traffic.flows": range(1, 4), "path.wifi.rate": np.array(["5 Mbit/s", "6 Mbit/s"])})
    assert len(plan) == 6
    assert len(Plan(BASE, vary={"traffic.flows": np.arange(1, 5)}, runs=2)) == 4
    assert len(Plan(BASE, vary={"traffic.flows": pd.Series([1, 2])}, runs=2)) == 2
    spans = np.array([2_000_000, 20_000_000], "timedelta64[ns]")
    mixed = [datetime.timedelta(milliseconds=2), "20 ms"]
    every: list[Any] = [spans, spans.astype("timedelta64[ms]"), pd.Series(spans), list(spans), mixed]
    for times in every:
        varied = Plan(BASE, vary={"path.lte.rtt": times})
        assert [varied.point(at) for at in (0, 1)] == [{"path.lte.rtt (ms)": "2 ms"}, {"path.lte.rtt (ms)": "20 ms"}]
    half = Plan(BASE, vary={"path.lte.rtt": [datetime.timedelta(microseconds=500), np.timedelta64(1_000_001, "ns")]})
    assert [list(half.point(at).values()) for at in (0, 1)] == [["0.5 ms"], ["1.000001 ms"]]
    for wrong in (np.timedelta64("NaT"), np.timedelta64(3)):
        with pytest.raises(anabranch.ScenarioError, match="is no time"):
            changed(settings={"rto.min": wrong})
    assert Scenario(PATHS, phases=np.bool_(False)).hash == Scenario(PATHS, phases=False).hash
    with pytest.raises(anabranch.ScenarioError, match="negative"):
        changed(settings={"rto.min": datetime.timedelta(seconds=-1)})


@pytest.mark.parametrize("wrong", ["3Mb", "3 kb", "3 Gb"])
def test_a_size_that_may_be_bits_is_refused(wrong: str) -> None:
    with pytest.raises(anabranch.ScenarioError, match="may count bytes or bits"):
        Scenario(PATHS, size=wrong)


def test_every_exception_is_the_package_s() -> None:
    result = anabranch.compare(BASE, runs=2, samples=False)
    calls: list[tuple[Any, type[Exception]]] = [
        (lambda: result.samples, ValueError),
        (lambda: result.row("nobody"), KeyError),
        (lambda: result.table.column("nothing"), KeyError),
        (lambda: anabranch.compare(BASE, jobs=-1), ValueError),
        (lambda: anabranch.run(BASE, run=10_000), IndexError),
        (lambda: anabranch.explain(BASE, flow=0, runs=1), IndexError),
        (lambda: anabranch.sweep(BASE, vary=VARY, runs=1, format="xlsx"), ValueError),
        (lambda: anabranch.sweep(BASE, vary=VARY, runs=1, jobs=-1), ValueError),
        (lambda: Plan(BASE, vary=VARY).point(99), IndexError),
        (lambda: anabranch.Wait(-1.0), ValueError),
        (lambda: anabranch.Assign(0, (3, 3)), ValueError),
        (lambda: anabranch.Assign(300, (0, 3)), ValueError),
        (lambda: anabranch.Assign(0, (-1, 3)), ValueError),
        (lambda: anabranch.Recall(-1, (0, 3)), ValueError),
        (lambda: anabranch.Subflow.idle(0, -0.1), ValueError),
        (lambda: anabranch.View.fresh([anabranch.Subflow.idle(0, 0.1)], 1, now_s=float("nan")), ValueError),
        (lambda: anabranch.compare(BASE, schedulers=3), ValueError),  # type: ignore[arg-type]
        (lambda: anabranch.run(BASE, run=-1), IndexError),
        (lambda: anabranch.run(BASE).recording, ValueError),
        (lambda: anabranch.Recording("/nowhere"), RuntimeError),
    ]
    for number, (call, kind) in enumerate(calls):
        with pytest.raises(anabranch.AnabranchError) as raised:
            call()
        assert isinstance(raised.value, kind), number
        assert not str(raised.value).startswith("'"), number


def test_the_time_sequence_graph_shows_the_second_path_of_a_long_flow() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    paths = [Path("100 Mbit/s", "20 ms", name="wifi"), Path("2 Mbit/s", "40 ms", name="lte")]
    recorded = anabranch.run(paths, size="20 MB", schedulers=["min_rtt"], record=True)
    axes = recorded.plot.time_sequence()
    legend = axes.get_legend()
    assert legend is not None
    legend.remove()
    canvas: Any = axes.figure.canvas
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[:, :, :3].astype(int)
    second = [int(_palette.PATHS[1][at : at + 2], 16) for at in (1, 3, 5)]
    near = np.abs(pixels - np.array(second)).sum(axis=2) < 60
    segments = sum(
        one == 1 and event == "sent"
        for one, event in zip(*(recorded.recording.runs[0].events.column(n) for n in ("subflow", "event")), strict=True)
    )
    assert segments > 20
    assert near.sum() > segments / 2, (int(near.sum()), segments)


def test_a_sweep_varies_a_key_that_is_called_as_a_result_and_refuses_a_hidden_one() -> None:
    plan = Plan(BASE, vary={"congestion": ["newreno", "lia"]}, runs=1)
    result = anabranch.sweep(plan)
    assert plan.dimensions == ["congestion (varied)"]
    assert result.table.column("congestion (varied)") == ["newreno", "newreno", "lia", "lia"]
    assert result.table.columns.count("congestion") == 1
    hidden = r"`path.lte.rtt` has no effect, as `path.2.rtt` sets the same value"
    with pytest.raises(anabranch.ScenarioError, match=hidden):
        Plan(BASE, vary={"path.lte.rtt": ["20 ms", "40 ms"], "path.2.rtt": ["10 ms", "30 ms"]})
    Plan(BASE, vary={"path.rtt": ["20 ms", "40 ms"], "path.2.rtt": ["10 ms", "30 ms"]})
