"""Scenarios from Python: the same keys, units and errors as in files."""

from __future__ import annotations

import pickle
import string
from pathlib import Path as File
from typing import Any

import networkx as nx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anabranch
from anabranch import Link, Node, Path, Scenario, ScenarioError

TWO = [Path("50 Mbit/s", "20 ms", name="wifi"), Path("10 Mbit/s", "60 ms", loss="0.1%", name="lte")]


def test_paths_dictionary_text_and_file_are_the_same_scenario(tmp_path: File) -> None:
    built = Scenario(TWO, size="300 KB", schedulers=["tcp", "min_rtt"], runs=4)
    text = """
        schedulers = ["tcp", "min_rtt"]
        runs = 4
        [[path]]
        name = "wifi"
        rate = "50 Mbit/s"
        rtt = "20 ms"
        [[path]]
        name = "lte"
        rate = "10 Mbit/s"
        rtt = "60 ms"
        loss = "0.1%"
        [traffic]
        size = "300 KB"
    """
    (tmp_path / "two.toml").write_text(text)
    table: dict[str, Any] = {
        "schedulers": ["tcp", "min_rtt"],
        "runs": 4,
        "path": [path.to_dict() for path in TWO],
        "traffic": {"size": "300 KB"},
    }
    others = [Scenario.from_toml(text), Scenario(tmp_path / "two.toml"), Scenario(table)]
    assert [other.hash for other in others] == [built.hash] * 3
    assert built.paths == ["wifi", "lte"]


def test_an_error_in_a_file_has_its_place(tmp_path: File) -> None:
    file = tmp_path / "home.toml"
    file.write_text('[[path]]\nrate = "10 Mbit/s"\nrtt = "20 parsec"\n')
    with pytest.raises(ScenarioError, match="parsec") as caught:
        Scenario(file)
    error = caught.value
    assert (error.file, error.line, error.column) == (str(file), 3, 7)
    assert error.help is not None
    assert "20 ms" in error.help
    assert "^^^^" in str(error)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Scenario("no-such-file"), "cannot read the scenario"),
        (lambda: Scenario([]), "path"),
        (lambda: Scenario([Path("10 Mbit/s", "20 ms", color="red")]), "unknown key `color`"),
        (lambda: Scenario({"path": [{1: 2}]}), "the key 1"),  # type: ignore[arg-type]
        (lambda: Scenario({"path": object()}), "object"),  # type: ignore[arg-type]
        (lambda: Scenario({"name": "\ud800"}), "surrogate"),
        (lambda: Scenario({"a": 1 << 80}), "too large"),
        (lambda: Scenario(3), "no scenario"),  # type: ignore[arg-type]
        (lambda: Scenario([3]), "no path"),  # type: ignore[list-item]
        (lambda: Scenario(TWO, schedulers=["min_rt"]), "min_rt"),
        (lambda: Scenario(TWO, schedulers=[print]), "no contender"),  # type: ignore[list-item]
        (lambda: Scenario(TWO, colour="red"), "colour"),
        (lambda: Scenario(TWO).set({"path.3.rtt": "1 ms"}), "3"),
    ],
)
def test_a_mistake_is_a_scenario_error(make: Any, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        make()


def test_a_deep_mapping_is_an_error_and_no_overflow() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(ScenarioError, match="deep"):
        Scenario(deep)


def test_settings_change_a_copy() -> None:
    before = Scenario(TWO, size="1 MB")
    after = before.set({"path.wifi.rtt": "25 ms", "rto.min": "300 ms"}, runs=7, traffic={"size": "2 MB"})
    assert (before.runs, after.runs) == (30, 7)
    assert before.hash != after.hash
    assert "300" in after.canonical
    assert after.set({"path.wifi.rtt": "20 ms", "rto.min": "200 ms"}, size="1 MB").hash == before.hash


def test_a_scenario_can_be_pickled() -> None:
    scenario = Scenario(TWO, size="1 MB").set(runs=3)
    again = pickle.loads(pickle.dumps(scenario))
    assert again == scenario
    assert again.canonical == scenario.canonical


def test_html_shows_names_as_text() -> None:
    scenario = Scenario([Path("1 Mbit/s", "1 ms", name="<b>")], name="<script>")
    shown = scenario._repr_html_()
    assert "<script>" not in shown
    assert "&lt;b&gt;" in shown
    assert scenario.hash[:16] in repr(scenario)
    result = anabranch.compare(scenario, runs=1, schedulers=["tcp"], size="10 KB")
    assert "<b>" not in result._repr_html_()
    assert "&lt;b&gt;" in result._repr_html_()


def test_a_graph_and_its_tables_are_the_same_scenario() -> None:
    graph: Any = nx.Graph()
    graph.add_node("c")
    graph.add_node("r", kind="router")
    graph.add_node("s")
    graph.add_edge("c", "r", rate="10 Mbit/s", delay="5 ms", name="up")
    graph.add_edge("c", "s", rate="20 Mbit/s", delay="9 ms", name="direct")
    graph.add_edge("r", "s", rate="50 Mbit/s", delay="1 ms", name="core")
    traffic = {"from": "c", "to": "s", "size": "1 MB"}
    drawn = Scenario(graph, traffic=traffic)
    tables: dict[str, Any] = {
        "node": [Node("c"), Node("r", "router"), Node("s")],
        "link": [
            Link("c", "r", "10 Mbit/s", "5 ms", name="up"),
            Link("c", "s", "20 Mbit/s", "9 ms", name="direct"),
            Link("r", "s", "50 Mbit/s", "1 ms", name="core"),
        ],
        "traffic": traffic,
    }
    assert Scenario(tables).hash == drawn.hash
    assert len(drawn.paths) == 2


def test_suspicious_values_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="loss"):
        Scenario([Path("1 Mbit/s", "1 ms", loss=0.9)])


KEYS = st.sampled_from(
    [
        "path",
        "rate",
        "rtt",
        "loss",
        "traffic",
        "size",
        "schedulers",
        "runs",
        "seed",
        "connection",
        "condition",
        "node",
        "link",
        "route",
        "name",
        "queue",
        "trace",
        "profile",
        "change",
        "jitter",
        "fat-tree",
        "initial",
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["20 ms", "10 Mbit/s", "1%", "web", "bulk", "tcp", "min_rtt", "dmptcp", "a"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(string.printable, max_size=5), inner, max_size=5)
    ),
    max_leaves=25,
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(KEYS, VALUES, max_size=6))
@pytest.mark.filterwarnings("ignore")
def test_a_random_dictionary_is_a_scenario_or_an_error(table: dict[str, Any]) -> None:
    try:
        Scenario(table)
    except ScenarioError as error:
        assert str(error)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=60))
@pytest.mark.filterwarnings("ignore")
def test_a_random_text_is_a_scenario_or_an_error(text: str) -> None:
    try:
        Scenario.from_toml(text)
    except ScenarioError as error:
        assert str(error)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(["path.1.rate", "path.2.rtt", "loss", "", "a"]), VALUES, max_size=3), VALUES)
@pytest.mark.filterwarnings("ignore")
def test_a_random_plan_is_a_plan_or_an_error(vary: dict[str, Any], design: Any) -> None:
    for keys in ({}, {"design": design}, {"stop": design}):
        try:
            assert len(anabranch.Plan(TWO, vary=vary, **keys)) > 0
        except ScenarioError as error:
            assert str(error)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(VALUES, max_size=3), st.dictionaries(KEYS | st.just("scheduler"), VALUES, max_size=4))
@pytest.mark.filterwarnings("ignore")
def test_random_contenders_are_a_scenario_or_an_error(contenders: Any, table: dict[str, Any]) -> None:
    for schedulers in (contenders, [table], [{"scheduler": "min_rtt", **table}]):
        try:
            Scenario(TWO, schedulers=schedulers)
        except ScenarioError as error:
            assert str(error)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(), st.integers(), st.text(max_size=6) | st.floats())
def test_random_numbers_are_a_model_or_an_error(cwnd: int, rounds: int, loss: Any) -> None:
    try:
        assert anabranch.model(cwnd=cwnd, rounds=rounds, loss=loss)
    except ScenarioError as error:
        assert str(error)


def test_a_directed_graph_and_parallel_edges_are_networks() -> None:
    graph: Any = nx.MultiDiGraph()
    for one, other in (("c", "s"), ("s", "c")):
        graph.add_edge(one, other, rate="10 Mbit/s", delay="5 ms", name=f"fast-{one}")
        graph.add_edge(one, other, rate="5 Mbit/s", delay="25 ms", name=f"slow-{one}")
    scenario = Scenario(graph, traffic={"from": "s", "to": "c", "size": "100 KB"}, schedulers=["min_rtt"], runs=1)
    assert len(scenario.paths) == 2
    assert anabranch.compare(scenario).complete


def test_the_built_in_scenarios_are_listed() -> None:
    for name, text in anabranch.builtin_scenarios():
        assert Scenario(name).name
        assert text
