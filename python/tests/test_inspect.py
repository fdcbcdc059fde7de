"""Captures are read as the command reads them."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path as File
from typing import Any

import pytest

import anabranch

CAPTURE = File(__file__).resolve().parents[2] / "examples" / "notebooks" / "two-paths.pcap"


def command(*words: str) -> Any:
    done = subprocess.run([sys.executable, "-m", "anabranch", *words], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def inspection() -> anabranch.Inspection:
    return anabranch.inspect(CAPTURE)


def without(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in {"command", "commit"}}


def test_the_inspection_is_that_of_the_command(inspection: anabranch.Inspection) -> None:
    assert without(inspection.data) == without(json.loads(command("inspect", str(CAPTURE), "--json")))
    assert command("inspect", str(CAPTURE)).splitlines() == repr(inspection).splitlines()
    assert "<pre" in inspection._repr_html_()
    assert inspection.notes == []


def test_a_connection_is_a_record(inspection: anabranch.Inspection) -> None:
    connection = inspection.connection()
    assert connection == inspection.connections[0] == inspection.connection(1)
    assert connection.protocol == "mptcp"
    assert connection.streams[1].delivered_bytes == 1_000_000
    near, far = (subflow.directions[1].path for subflow in connection.subflows)
    assert near is not None
    assert near.rate_bps is not None
    assert near.rate_bps.value == pytest.approx(12e6, rel=0.01)
    assert near.rate_phases == []
    assert far is not None
    assert far.random_losses == 4
    causes = {part.cause: part.share_pct for part in connection.streams[1].parts}
    assert sum(causes.values()) == pytest.approx(100)
    assert all(direction.kernel is None for subflow in connection.subflows for direction in subflow.directions)
    with pytest.raises(anabranch.NotFoundError, match="there is no connection 2; the captures have 1"):
        inspection.connection(2)
    with pytest.raises(anabranch.NotFoundError, match="there is no connection 2; the captures have 1"):
        inspection.scenario(2)


def test_a_connection_is_a_scenario_and_can_be_simulated(inspection: anabranch.Inspection, tmp_path: File) -> None:
    file = tmp_path / "capture.toml"
    command("inspect", str(CAPTURE), "--scenario", str(file))
    scenario = inspection.scenario()
    assert scenario == anabranch.Scenario(str(file))
    assert scenario.paths == ["path1", "path2"]
    assert inspection.scenario(1, scheduler="min_rtt", congestion="reno").contenders[0] == "min_rtt"
    simulation = inspection.simulate(scheduler="min_rtt")
    printed = json.loads(command("inspect", str(CAPTURE), "--simulate", "--scheduler", "min_rtt", "--json"))
    assert simulation.data["matches"] == printed["matches"]
    first = simulation.matches[0]
    assert first.measure.startswith("completion")
    assert first.simulated == pytest.approx(first.captured, rel=0.1)
    assert simulation.connection == 1
    assert simulation.comparison.row("min_rtt").completed > 0
    assert simulation.scenario.contenders[0] == "min_rtt"
    assert "captured" in repr(simulation)
    assert "<pre" in simulation._repr_html_()
    with pytest.raises(anabranch.ArgumentError, match="-1 is no number of threads"):
        inspection.simulate(jobs=-1)


def test_results_can_be_pickled(inspection: anabranch.Inspection) -> None:
    again = pickle.loads(pickle.dumps(inspection))
    assert (again.data, repr(again)) == (inspection.data, repr(inspection))
    # The capture is read again.
    assert again.scenario() == inspection.scenario()


def test_a_fault_is_a_sentence_about_the_file(tmp_path: File) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("this is no capture at all, but long enough to have a head")
    with pytest.raises(anabranch.CaptureError, match=r"notes\.txt: ") as raised:
        anabranch.inspect([CAPTURE, text])
    assert raised.value.file == str(text)
    assert pickle.loads(pickle.dumps(raised.value)).help == raised.value.help
    with pytest.raises(anabranch.CaptureError, match=r"cannot read the capture .*directory"):
        anabranch.inspect(tmp_path)
    with pytest.raises(anabranch.ArgumentError, match="there is no capture"):
        anabranch.inspect([])
