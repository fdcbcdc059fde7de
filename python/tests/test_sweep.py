"""Sweeps: the same bytes as those of the command, on any executor."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path as File
from typing import Any

import polars as pl
import pytest

import anabranch
from anabranch import Path, Plan, Range, Scenario

BASE = Scenario([Path("20 Mbit/s", "20 ms"), Path("20 Mbit/s", "30 ms")], size="100 KB", schedulers=["tcp", "min_rtt"])
VARY: dict[str, Any] = {
    "path.1.rate": Range("5 Mbit/s", "40 Mbit/s", steps=3, log=True),
    "path.2.rtt": ["20 ms", "80 ms"],
}


def table(directory: File) -> bytes:
    return (directory / "results.parquet").read_bytes()


def test_the_files_are_those_of_the_command(tmp_path: File) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('scenario = "wifi-lte"\nruns = 2\n[vary]\n"path.lte.rate" = ["5 Mbit/s", "20 Mbit/s"]\n')
    result = anabranch.sweep(plan, output=tmp_path / "own")
    words = ["sweep", str(plan), "-o", str(tmp_path / "command")]
    subprocess.run([sys.executable, "-m", "anabranch", *words], check=True, capture_output=True)
    assert table(tmp_path / "own") == table(tmp_path / "command")
    own, command = ({file.name for file in (tmp_path / name).iterdir()} for name in ("own", "command"))
    assert own == command
    assert pl.DataFrame(result).equals(pl.read_parquet(tmp_path / "own" / "results.parquet"))
    assert result.contenders[0].scheduler == "tcp"


def test_an_interrupted_sweep_continues(tmp_path: File) -> None:
    whole = anabranch.sweep(BASE, vary=VARY, runs=2, output=tmp_path / "whole")

    def stop(done: int, total: int) -> None:
        if done >= 2:
            raise KeyboardInterrupt

    slow = Plan(BASE, vary=VARY, runs=2)
    with pytest.raises(KeyboardInterrupt):
        anabranch.sweep(Plan(BASE.set(size="20 MB"), vary=VARY, runs=60), output=tmp_path / "other", progress=stop)
    half = anabranch._anabranch.Sweep(slow._inner, str(tmp_path / "parts"), "parquet")
    for line in slow.simulate([3, 0]):
        half.add(line)
    assert half.missing == [1, 2, 4, 5]
    del half
    again = anabranch.sweep(slow, output=tmp_path / "parts")
    assert table(tmp_path / "parts") == table(tmp_path / "whole")
    assert pl.DataFrame(again).equals(pl.DataFrame(whole))


def test_mistakes_are_errors(tmp_path: File) -> None:
    with pytest.raises(anabranch.ScenarioError, match="nothing to vary"):
        anabranch.sweep(BASE)
    with pytest.raises(anabranch.ScenarioError, match="cannot read the plan"):
        anabranch.sweep(tmp_path / "none.toml")
    with pytest.raises(anabranch.ScenarioError, match="path"):
        Plan(BASE, vary={"path.9.rate": ["5 Mbit/s"]})
    with pytest.raises(anabranch.ScenarioError, match="points"):
        Plan(BASE, vary={"path.1.rate": Range("1 Mbit/s", "2 Mbit/s")}, design="sobol")
    with pytest.raises(ValueError, match="format"):
        anabranch.sweep(BASE, vary=VARY, runs=1, format="xlsx")
    (tmp_path / "file").write_text("")
    with pytest.raises(anabranch.SweepError, match="holds no sweep"):
        anabranch.sweep(BASE, vary=VARY, runs=1, output=tmp_path)


def test_the_keys_of_a_plan_are_keywords() -> None:
    stop: Any = {"half-width": "5%", "most-runs": 40}
    plan = Plan(BASE, vary=VARY, runs=2, other_starts=True, stop=stop)
    assert "other-starts = true" in plan.text
    assert "most-runs = 40" in plan.text
    with pytest.raises(anabranch.ScenarioError, match="othr-starts"):
        Plan(BASE, vary=VARY, othr_starts=True)


def test_a_plan_can_be_pickled() -> None:
    plan = Plan(BASE, vary=VARY, runs=2)
    again: Plan = pickle.loads(pickle.dumps(plan))
    assert (len(again), again.text) == (len(plan), plan.text)
    assert again.simulate([1]) == plan.simulate([1])


def test_a_cluster_gives_the_same_bytes_though_its_workers_are_killed(tmp_path: File) -> None:
    distributed = pytest.importorskip("distributed")
    vary = {**VARY, "path.2.rate": Range("5 Mbit/s", "20 Mbit/s", steps=4)}
    plan = Plan(BASE.set(size="2 MB"), vary=vary, runs=3)
    anabranch.sweep(plan, output=tmp_path / "threads")
    options = {"distributed.scheduler.allowed-failures": 100, "distributed.worker.profile.enabled": False}
    import dask

    with (
        dask.config.set(options),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs="CRITICAL"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        chance, over = random.Random(1), threading.Event()
        killed: list[int] = []

        def kill() -> None:
            while not over.wait(1.0) and len(killed) < 2:
                workers = [worker.pid for worker in cluster.workers.values() if worker.pid]
                if workers:
                    killed.append(chance.choice(workers))
                    os.kill(killed[-1], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        begun = time.monotonic()
        anabranch.sweep(plan, client=client, output=tmp_path / "cluster")
        over.set()
        killer.join()
    assert table(tmp_path / "cluster") == table(tmp_path / "threads")
    assert killed or time.monotonic() - begun < 1.5
