"""Sweeps on workers, and into stores: the bytes are those of threads and of a directory."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path as File
from typing import Any

import pytest

import anabranch
from anabranch import Path, Plan, Range, Scenario
from anabranch.cluster import UNIT_S, Units
from tests.skipping import skipped

PATHS = [Path("20 Mbit/s", "20 ms"), Path("20 Mbit/s", "30 ms")]
BASE = Scenario(PATHS, size="100 KB", schedulers=["tcp", "min_rtt"])
VARY: dict[str, Any] = {"path.1.rate": Range("5 Mbit/s", "40 Mbit/s", steps=4), "path.2.rtt": ["20 ms", "80 ms"]}


class First(anabranch.Scheduler):
    """The first subflow with space."""

    name = "first"

    def decide(self, view: anabranch.View) -> anabranch.scheduler.Decision:
        for subflow in view.subflows:
            if subflow.may_carry() and (room := subflow.room()):
                data = view.next_new(room)
                return anabranch.Assign(subflow, data) if data else anabranch.Wait()
        return anabranch.Wait()


def table(directory: File) -> bytes:
    return (directory / "results.parquet").read_bytes()


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan(BASE, vary=VARY, runs=2)


@pytest.fixture(scope="module")
def expected(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    directory = tmp_path_factory.mktemp("threads")
    anabranch.sweep(plan, output=directory)
    return table(directory)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs="CRITICAL"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_units_grow_to_their_time_and_shrink_towards_the_end() -> None:
    units = Units(list(range(10_000)))
    first = [units.next(threads=2) for _ in range(4)]
    assert [len(unit) for unit in first] == [1, 1, 1, 1]
    units.measured(points=4, seconds=0.04)
    sizes: list[int] = []
    seen = [point for unit in first for point in unit]
    while units:
        unit = units.next(threads=2)
        sizes.append(len(unit))
        seen += unit
    assert sorted(seen) == list(range(10_000))
    assert max(sizes) == UNIT_S / 0.01
    assert sizes == sorted(sizes, reverse=True)
    assert min(sizes[:-1]) == UNIT_S / 0.01 / 10


def test_schedulers_in_python_are_swept(client: Any, tmp_path: File) -> None:
    scenario = BASE.set(schedulers=["tcp", First, "min_rtt"])
    on_threads = anabranch.sweep(scenario, vary=VARY, runs=2, output=tmp_path / "threads")
    anabranch.sweep(scenario, vary=VARY, runs=2, output=tmp_path / "cluster", client=client)
    assert table(tmp_path / "threads") == table(tmp_path / "cluster")
    assert {row.scheduler for row in on_threads.contenders} == {"tcp", "first", "min_rtt"}
    one = anabranch.compare(scenario.set({"path.1.rate": "5 Mbit/s", "path.2.rtt": "20 ms"}), runs=2)
    assert on_threads.table.column("fct_mean_s")[1] == one.row("first").fct_s.mean


def test_an_exception_of_a_scheduler_ends_a_sweep(tmp_path: File) -> None:
    class Broken(First):
        def decide(self, view: anabranch.View) -> anabranch.scheduler.Decision:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        anabranch.sweep(BASE.set(schedulers=["tcp", Broken]), vary=VARY, runs=1)


def test_a_directory_of_other_code_is_not_continued(tmp_path: File) -> None:
    class Patient(First):
        def __init__(self, patience: float) -> None:
            self.patience = patience

    one, other = (BASE.set(schedulers=["tcp", Patient(patience)]) for patience in (0.1, 0.2))
    anabranch.sweep(one, vary=VARY, runs=1, output=tmp_path)
    anabranch.sweep(one, vary=VARY, runs=1, output=tmp_path)
    with pytest.raises(anabranch.SweepError, match="another plan"):
        anabranch.sweep(other, vary=VARY, runs=1, output=tmp_path)
    assert "test_cluster:" in (tmp_path / "plan.toml").read_text()


def test_an_object_that_cannot_be_sent_is_an_error(client: Any, tmp_path: File) -> None:
    class Logging(First):
        def __init__(self) -> None:
            self.log: Any = None

        def __deepcopy__(self, memo: Any) -> Logging:
            return self

    own = Logging()
    own.log = (tmp_path / "log").open("w")
    with pytest.raises(anabranch.SchedulerError, match="cannot be sent to workers"):
        anabranch.sweep(BASE.set(schedulers=[own]), vary=VARY, runs=1, client=client)
    own.log.close()


def test_workers_may_come_and_go(plan: Plan, expected: bytes, tmp_path: File) -> None:
    distributed = pytest.importorskip("distributed")
    many = Plan(BASE.set(size="1 MB"), vary={**VARY, "path.2.rate": Range("5 Mbit/s", "20 Mbit/s", steps=3)}, runs=2)
    anabranch.sweep(many, output=tmp_path / "threads")
    sizes: list[int] = []
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs="CRITICAL"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):

        def scale(done: int, total: int) -> None:
            sizes.append(len(client.nthreads()))
            if done in {3, 12}:
                cluster.scale(2 if done == 3 else 1)

        anabranch.sweep(many, client=client, output=tmp_path / "cluster", progress=scale)
    assert table(tmp_path / "cluster") == table(tmp_path / "threads")


def test_a_straggler_is_split(client: Any, plan: Plan, expected: bytes, tmp_path: File, monkeypatch: Any) -> None:
    from anabranch import cluster

    marker = str(tmp_path / "slow")
    original = cluster._simulate

    def simulate(packed: bytes, digest: str, points: list[int]) -> tuple[list[str], float]:
        # One task of the sweep hangs, as on a machine that is busy with something else.
        if 3 in points:
            try:
                with open(marker, "x"):  # noqa: PTH123
                    pass
                while not os.path.exists(marker + ".over"):  # noqa: PTH110
                    time.sleep(0.1)
            except FileExistsError:
                pass
        return original(packed, digest, points)

    monkeypatch.setattr(cluster, "_simulate", simulate)
    try:
        anabranch.sweep(plan, client=client, output=tmp_path / "cluster")
    finally:
        File(marker + ".over").touch()
    assert File(marker).exists()
    assert table(tmp_path / "cluster") == expected


@contextlib.contextmanager
def sshd(directory: File) -> Iterator[tuple[int, File]]:
    """Run a server for this user on a port of this machine, and return the port and the key of a client."""
    program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        skipped("there is no sshd (Debian: apt install openssh-server)")
    for name in ("host", "client"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)], check=True)
    (directory / "authorized").write_text((directory / "client.pub").read_text())
    if os.geteuid() == 0:
        File("/run/sshd").mkdir(exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    config = directory / "config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\nAuthorizedKeysFile {directory}/authorized\n"
        f"PidFile {directory}/pid\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
    )
    with subprocess.Popen([program, "-D", "-e", "-f", str(config)], stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(100):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield port, directory / "client"
        finally:
            server.terminate()


@pytest.mark.filterwarnings("ignore")
def test_workers_over_ssh_give_the_same_bytes(
    plan: Plan, expected: bytes, tmp_path: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    pytest.importorskip("asyncssh")
    tmp_path.chmod(0o700)
    code = "from tests.test_cluster import First\nclass Mine(First):\n    name = 'mine'\n"
    (tmp_path / "only_here.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    with sshd(tmp_path) as (port, key):
        options = {"port": port, "known_hosts": None, "client_keys": [str(key)], "username": getpass.getuser()}
        with (
            distributed.SSHCluster(
                ["127.0.0.1", "127.0.0.1", "127.0.0.1"],
                connect_options=options,
                worker_options={"nthreads": 1},
                scheduler_options={"port": 0, "dashboard_address": ":0"},
                remote_python=sys.executable,
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            client.wait_for_workers(2, timeout=60)
            anabranch.sweep(plan, client=client, output=tmp_path / "results")
            scenario = BASE.set(schedulers=["tcp", "only_here:Mine"])
            with pytest.raises(anabranch.SchedulerError, match=r"cannot import .*only_here:Mine.*upload_file"):
                anabranch.sweep(scenario, vary=VARY, runs=1, client=client)
    assert table(tmp_path / "results") == expected


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A bucket of a server that speaks the protocol of S3."""
    server = pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in keys.items():
            patch.setenv(name, value)
        running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        running.start()
        host, port = running.get_host_and_port()
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        boto3.client("s3").create_bucket(Bucket="sweeps")
        yield "s3://sweeps"
        running.stop()


@pytest.mark.filterwarnings("ignore")
def test_a_sweep_into_an_object_store_has_the_same_bytes_and_continues(
    plan: Plan, expected: bytes, bucket: str, client: Any
) -> None:
    import fsspec

    files: Any = fsspec.filesystem("s3")
    url = f"{bucket}/one"

    def stop(done: int, total: int) -> None:
        if done >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        anabranch.sweep(plan, output=url, jobs=1, progress=stop)
    files.invalidate_cache()
    assert files.exists("sweeps/one/run.json")
    assert not files.exists("sweeps/one/results.parquet")
    before = set(files.ls("sweeps/one/units", detail=False))
    assert before
    seen: list[int] = []
    result = anabranch.sweep(plan, output=url, client=client, progress=lambda done, total: seen.append(done))
    assert min(seen) > 2
    files.invalidate_cache()
    assert files.cat_file("sweeps/one/results.parquet") == expected
    assert before < set(files.ls("sweeps/one/units", detail=False))
    assert len(result.table) == 2 * len(plan)
    again = anabranch.sweep(plan, output=url)
    assert again.data["contenders"] == result.data["contenders"]
    with pytest.raises(anabranch.SweepError, match=r"s3://sweeps/one.* do not belong to this sweep"):
        anabranch.sweep(Plan(BASE, vary=VARY, runs=3), output=url)
    with pytest.raises(anabranch.SweepError, match="no-such-bucket"):
        anabranch.sweep(plan, output="s3://no-such-bucket/one")


def test_any_url_of_fsspec_is_a_directory(plan: Plan, expected: bytes, tmp_path: File) -> None:
    anabranch.sweep(plan, output=f"file://{tmp_path}/results")
    assert table(tmp_path / "results") == expected
    assert list((tmp_path / "results" / "units").glob("*.ndjson"))
    assert not list((tmp_path / "results").glob("**/*.partial"))
    anabranch.sweep(plan, output="memory://results")
    import fsspec

    memory: Any = fsspec.filesystem("memory")
    assert memory.cat_file("/results/results.parquet") == expected
    with pytest.raises(anabranch.SweepError, match="cannot use nothing://"):
        anabranch.sweep(plan, output="nothing://there")
