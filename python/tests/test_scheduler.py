"""Schedulers in Python: the decisions, reasons and checks of Rust."""

from __future__ import annotations

import contextlib
import pickle
from typing import Any, ClassVar

import polars as pl
import pytest

import anabranch
from anabranch import Assign, Event, Path, Recall, Scheduler, Subflow, View, Wait
from anabranch.comparison import threads
from anabranch.scheduler import Decision, factory

PATHS = [Path("20 Mbit/s", "20 ms"), Path("10 Mbit/s", "45 ms")]


class MinRtt(Scheduler):
    """As the built-in one, on paths without loss."""

    name = "mine"

    def decide(self, view: View) -> Decision:
        free = [subflow for subflow in view.subflows if subflow.may_carry() and subflow.room() > 0]
        best = min(free, key=lambda subflow: subflow.srtt_s or 1e9, default=None)
        if best is None:
            return Wait()
        data = view.next_new(best.room())
        return Assign(best, data) if data else Wait()


def flows(result: anabranch.Comparison, scheduler: str) -> pl.DataFrame:
    return pl.DataFrame(result).filter(pl.col("scheduler") == scheduler).drop("scheduler")


def test_min_rtt_in_python_is_min_rtt_in_rust() -> None:
    result = anabranch.compare(PATHS, schedulers=["tcp", "min_rtt", MinRtt], size="300 KB", runs=4)
    own = flows(result, "mine")
    assert own.height == 4
    assert own.equals(flows(result, "min_rtt"))
    rows = {row.scheduler: row for row in result.rows}
    assert rows["mine"].fct_s == rows["min_rtt"].fct_s


def test_threads_do_not_change_a_result() -> None:
    one, two = (
        anabranch.compare(PATHS, schedulers=[MinRtt, "tcp"], size="100 KB", runs=3, jobs=jobs) for jobs in (1, 2)
    )
    assert pl.DataFrame(one).equals(pl.DataFrame(two))


def test_a_scheduler_in_python_has_one_thread_unless_more_are_given() -> None:
    own, built_in = (anabranch.Scenario(PATHS, schedulers=[kind]) for kind in (MinRtt, "min_rtt"))
    assert [threads(jobs, own) for jobs in (None, 0, 3)] == [1, 0, 3]
    assert [threads(jobs, built_in) for jobs in (None, 3)] == [0, 3]
    with pytest.raises(ValueError, match="-1 is no number of threads"):
        threads(-1, own)


def test_the_name_is_part_of_the_experiment() -> None:
    class Other(MinRtt):
        name = "other"

    first, second = (anabranch.Scenario(PATHS, schedulers=[kind]) for kind in (MinRtt, Other))
    assert first.hash != second.hash
    assert first.contenders == ["mine"]
    named = anabranch.Scenario(PATHS, schedulers=[{"scheduler": MinRtt, "name": "given"}])
    assert named.contenders == ["given"]


class FirstOnly(Scheduler):
    """Counts its decisions, and uses the first subflow alone."""

    def __init__(self) -> None:
        self.decisions = 0

    def decide(self, view: View) -> Decision:
        self.decisions += 1
        first = view.subflow(0)
        data = view.next_new(first.room()) if first and first.may_carry() else None
        return Assign(0, data, rule=self.decisions % 7, score=1.0) if first and data else Wait()


def test_an_object_is_copied_for_each_connection() -> None:
    scheduler = FirstOnly()
    result = anabranch.compare(PATHS, schedulers=["tcp@1", scheduler], size="100 KB", runs=2)
    assert scheduler.decisions == 0
    row = result.row("FirstOnly")
    assert row.completed == 2
    assert row.bytes_by_path[1] == 0
    # As it was given: its owner may change it before a connection is made.
    kind, build = factory(scheduler)
    scheduler.decisions = 9
    assert kind is FirstOnly
    assert build().decisions == 0


class Broken(Scheduler):
    answer: ClassVar[Any] = None

    def decide(self, view: View) -> Decision:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]


@pytest.mark.parametrize("answer", [None, 3, "wait", (0, (0, 10))])
def test_another_answer_is_an_error(answer: Any) -> None:
    Broken.answer = answer
    with pytest.raises(anabranch.SchedulerError, match="return Assign, Recall or Wait"):
        anabranch.compare(PATHS, schedulers=["tcp", Broken], size="100 KB", runs=2)


def test_an_exception_of_a_scheduler_is_the_exception_of_the_comparison() -> None:
    Broken.answer = ZeroDivisionError("of mine")
    with pytest.raises(ZeroDivisionError, match="of mine"):
        anabranch.compare(PATHS, schedulers=["tcp", Broken], size="100 KB", runs=20, jobs=2)


def test_a_constructor_that_needs_arguments_is_an_error() -> None:
    class Needs(MinRtt):
        def __init__(self, number: int) -> None:
            self.number = number

    with pytest.raises(TypeError, match="number"):
        anabranch.compare(PATHS, schedulers=[Needs], size="100 KB", runs=1)
    assert anabranch.compare(PATHS, schedulers=[Needs(3)], size="100 KB", runs=1).complete


@pytest.mark.parametrize(
    "decision",
    [
        Assign(9, (0, 1400)),
        Assign(0, (1 << 60, (1 << 60) + 1)),
        Assign(0, (5_000_000, 5_001_400)),
        Recall(0, (0, 1400)),
        Assign(0, (0, 1400), "reinject"),
        Wait(1e6),
    ],
)
def test_an_impossible_decision_is_a_wait(decision: Decision) -> None:
    class Stubborn(Scheduler):
        def decide(self, view: View) -> Decision:
            return decision

    scenario = anabranch.Scenario(PATHS, schedulers=["tcp", Stubborn], size="50 KB", runs=1, deadline="2 s")
    is_valid = isinstance(decision, Wait)
    warned = contextlib.nullcontext() if is_valid else pytest.warns(anabranch.SchedulerWarning, match="Stubborn")
    with warned:
        result = anabranch.compare(scenario)
    assert result.row("Stubborn").completed == 0
    assert not result.complete


def test_events_are_reported_as_wanted() -> None:
    seen: list[Event] = []
    times: list[float] = []

    class Watching(MinRtt):
        events = ("acked", "lost", "subflow_up", "data_acked")

        def on_event(self, view: View, event: Event) -> None:
            times.append(view.now_s)
            seen.append(event)

    lossy = [Path("20 Mbit/s", "20 ms", loss="2%"), PATHS[1]]
    anabranch.run(lossy, schedulers=[Watching], size="500 KB")
    kinds = {event.kind for event in seen}
    assert kinds == {"acked", "lost", "subflow_up", "data_acked"}
    # The first subflow is up after a round trip; both paths together need 133 ms for the data.
    assert times == sorted(times)
    assert times[0] >= 0.02
    assert times[-1] > 0.133
    assert sum(event.bytes or 0 for event in seen if event.kind == "acked") >= 500_000
    assert all(event.segments for event in seen if event.kind == "lost")
    last = [event.range for event in seen if event.kind == "data_acked"][-1]
    assert last is not None
    assert last[1] >= 500_000


def test_events_that_do_not_exist_are_an_error() -> None:
    class Wrong(MinRtt):
        events = ("acked", "ack")

    with pytest.raises(anabranch.SchedulerError, match="`ack`"):
        anabranch.Scenario(PATHS, schedulers=[Wrong])

    class Text(MinRtt):
        events = "acked"

    with pytest.raises(anabranch.SchedulerError, match="tuple"):
        anabranch.Scenario(PATHS, schedulers=[Text])


def test_a_decision_is_a_unit_test() -> None:
    slow, fast = Subflow.idle(0, 0.05), Subflow.idle(1, 0.02, inflight=14_000)
    assert MinRtt().decide(View.fresh([slow, fast], 100_000)) == Assign(0, (0, 14_000))
    full = Subflow.idle(0, 0.05, inflight=14_000)
    assert MinRtt().decide(View.fresh([full, fast], 100_000)) == Wait()
    assert Assign(0, (0, 5)) != Assign(1, (0, 5))
    for wrong in (lambda: Assign(0, (5, 5)), lambda: Assign(0, (0, 5), "old"), lambda: Wait(float("nan"))):
        with pytest.raises(ValueError, match=r"empty|no kind|no time"):
            wrong()


def test_a_scenario_with_a_scheduler_can_be_pickled() -> None:
    scenario = anabranch.Scenario(PATHS, schedulers=["tcp", MinRtt])
    assert pickle.loads(pickle.dumps(scenario)).contenders == ["tcp", "mine"]
