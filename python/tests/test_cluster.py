"""Sweeps on workers, and into stores: the bytes are those of threads and of a directory."""

from __future__ import annotations

import contextlib
import importlib
import linecache
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path as File
from typing import Any

import pytest

import anabranch
from anabranch import Path, Plan, Range, Scenario, storage
from anabranch.cluster import UNIT_S, Runs, Units
from tests import ssh
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
    seen = [point for unit in first for point in unit]
    units.measured(seen, seconds=0.04)
    sizes: list[int] = []
    while units:
        unit = units.next(threads=2)
        sizes.append(len(unit))
        seen += unit
    assert sorted(seen) == list(range(10_000))
    assert max(sizes) == UNIT_S / 0.01
    assert sizes == sorted(sizes, reverse=True)
    assert min(sizes[:-1]) == UNIT_S / 0.01 / 10


def test_a_unit_has_points_of_the_whole_plan() -> None:
    units = Units(list(range(10_000)))
    units.measured([0], seconds=0.01)
    unit = sorted(units.next(threads=2))
    assert len(unit) == UNIT_S / 0.01
    gaps = {later - earlier for earlier, later in pairwise(unit)}
    assert max(gaps) < 3 * 10_000 / len(unit), gaps


def test_a_unit_costs_no_more_in_a_long_plan() -> None:
    # Counted in allocated objects: a copy of the rest for each unit would be 100,000 points.
    units = Units(list(range(100_000)))
    units.measured([0], seconds=1e-3)
    rest = units._rest
    assert len(units.next(threads=1)) == UNIT_S / 1e-3
    assert units._rest is rest


def test_runs_are_cut_by_their_packets_and_all_are_made() -> None:
    runs = Runs([(30, 3e6), (500, 5e6), (1, 9e6)])
    # The longest first.
    assert runs.next(threads=2) == (2, 0, 1)
    runs.measured((2, 0, 1), seconds=0.9)
    seen, costs = {(2, 0)}, []
    while runs:
        number, first, end = unit = runs.next(threads=2)
        seen |= {(number, run) for run in range(first, end)}
        costs.append(runs.expected_s(unit) or 0)
    assert len(seen) == 531
    assert max(costs) < UNIT_S / 4
    assert min(costs[:-2]) >= 0.09, costs


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


def test_a_class_with_another_source_is_other_code(tmp_path: File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)

    def imported(patience: float) -> type[First]:
        text = f"from tests.test_cluster import First\n\n\nclass Patient(First):\n    patience = {patience}\n"
        (tmp_path / "patient.py").write_text(text)
        linecache.clearcache()
        sys.modules.pop("patient", None)
        importlib.invalidate_caches()
        found: type[First] = importlib.import_module("patient").Patient
        return found

    for patience, match in ((0.1, ""), (0.1, ""), (0.25, "another plan")):
        scenario = BASE.set(schedulers=["tcp", imported(patience)])
        with pytest.raises(anabranch.SweepError, match=match) if match else contextlib.nullcontext():
            anabranch.sweep(scenario, vary=VARY, runs=1, output=tmp_path / "sweep")


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
            cluster.scale(1 if done < 3 or done >= 12 else 2)

        anabranch.sweep(many, client=client, output=tmp_path / "cluster", progress=scale)
    assert table(tmp_path / "cluster") == table(tmp_path / "threads")


def test_a_straggler_is_split(client: Any, plan: Plan, expected: bytes, tmp_path: File, monkeypatch: Any) -> None:
    from anabranch import cluster

    marker = str(tmp_path / "slow")
    original = cluster._simulate

    def simulate(packed: bytes, digest: str, points: list[int]) -> Any:
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


def files(directory: File) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in ("results.json", "report.html")}


def measurements(directory: File) -> list[str]:
    return sorted((directory / "journal.ndjson").read_text().splitlines())


def test_a_reproduction_on_workers_has_the_same_bytes_and_continues(client: Any, tmp_path: File) -> None:
    # D24 holds, and D14 fails with its variant too, which is a second pass.
    claims = ["D24", "D14"]
    on_threads = anabranch.reproduce("dmptcp", claim=claims, out=tmp_path / "threads")
    assert on_threads.finding("D24").status == "holds"
    assert on_threads.finding("D14").variants

    def stop(done: int, total: int) -> None:
        if done >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        anabranch.reproduce("dmptcp", claim=claims, out=tmp_path / "cluster", client=client, progress=stop)
    begun = measurements(tmp_path / "cluster")
    assert len(begun) >= 2
    assert not (tmp_path / "cluster" / "results.json").exists()
    seen: list[tuple[int, int]] = []
    options: Any = {"client": client, "progress": lambda done, total: seen.append((done, total))}
    result = anabranch.reproduce("dmptcp", claim=claims, out=tmp_path / "cluster", **options)
    assert files(tmp_path / "cluster") == files(tmp_path / "threads")
    assert measurements(tmp_path / "cluster") == measurements(tmp_path / "threads")
    assert (repr(result), result.data) == (repr(on_threads), on_threads.data)
    assert len(seen) == len(measurements(tmp_path / "cluster")) - len(begun)
    assert seen[-1][0] == seen[-1][1]
    # Nothing is left to do, so no task is submitted.
    seen.clear()
    assert repr(anabranch.reproduce("dmptcp", claim=claims, out=tmp_path / "cluster", **options)) == repr(result)
    assert not seen


def test_a_reproduction_without_simulations_needs_no_worker(client: Any) -> None:
    recorded = anabranch.reproduce("dmptcp", client=client)
    assert repr(recorded) == repr(anabranch.reproduce("dmptcp"))


def test_a_paper_that_workers_read_otherwise_is_an_error(client: Any, tmp_path: File, monkeypatch: Any) -> None:
    from anabranch import cluster

    original = cluster._measure
    monkeypatch.setattr(
        cluster, "_measure", lambda build, task, *runs: original(build, task.replace('"key":"', '"key":"0'), *runs)
    )
    with pytest.raises(anabranch.RunError, match=r"claim D24: .*the same version"):
        anabranch.reproduce("dmptcp", claim="D24", plain=True, client=client)


@pytest.mark.filterwarnings("ignore")
def test_workers_over_ssh_give_the_same_bytes(
    plan: Plan, expected: bytes, tmp_path: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    pytest.importorskip("asyncssh")
    if ssh.program() is None:
        skipped("there is no sshd (Debian: apt install openssh-server)")
    code = "from tests.test_cluster import First\nclass Mine(First):\n    name = 'mine'\n"
    (tmp_path / "only_here.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    with ssh.server(tmp_path) as options, ssh.cluster(options) as cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        anabranch.sweep(plan, client=client, output=tmp_path / "results")
        scenario = BASE.set(schedulers=["tcp", "only_here:Mine"])
        with pytest.raises(anabranch.SchedulerError, match=r"cannot import .*only_here:Mine.*upload_file"):
            anabranch.sweep(scenario, vary=VARY, runs=1, client=client)
    assert table(tmp_path / "results") == expected


INTERRUPTED = """
import sys
from pathlib import Path
import anabranch, distributed
from tests import ssh
from tests.test_cluster import BASE, VARY

def main():
    kind, directory, mark = sys.argv[1:]
    plan = anabranch.Plan(BASE.set(size="20 MB"), vary=VARY, runs=1000)
    if kind == "ssh":
        with ssh.server(Path(directory), mark) as options, ssh.cluster(options) as cluster:
            sweep(plan, cluster)
    else:
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
            sweep(plan, cluster)

def sweep(plan, cluster):
    import threading, time
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        def watch():
            with distributed.Client(cluster.scheduler_address) as other:
                while not all(other.processing().values()):
                    time.sleep(0.1)
            print("begun", flush=True)
        threading.Thread(target=watch, daemon=True).start()
        anabranch.sweep(plan, client=client)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(("kind", "number"), [("local", "SIGINT"), ("local", "SIGKILL"), ("ssh", "SIGKILL")])
def test_an_interrupted_program_leaves_no_workers(kind: str, number: str, tmp_path: File) -> None:
    pytest.importorskip("distributed")
    if kind == "ssh" and (ssh.program() is None or not pytest.importorskip("asyncssh")):
        skipped("there is no sshd (Debian: apt install openssh-server)")
    if not File("/proc/self/environ").exists():
        skipped("there is no /proc, by which the processes are found")
    # All of its processes inherit the mark, those over SSH by the server's configuration.
    mark = f"ANABRANCH_TEST={tmp_path.name}-{os.getpid()}"
    (tmp_path / "program.py").write_text(INTERRUPTED)
    environment = {**os.environ, "ANABRANCH_TEST": mark.split("=")[1], "PYTHONPATH": str(File(__file__).parents[1])}

    def left() -> list[str]:
        found = []
        for process in File("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark.encode() in (process / "environ").read_bytes():
                    found.append((process / "cmdline").read_text().replace("\0", " "))
        return found

    command = [sys.executable, str(tmp_path / "program.py"), kind, str(tmp_path), mark]
    options: Any = {"env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, **options) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        assert len(left()) > 2, left()
        program.send_signal(signal.Signals[number])
        program.wait(timeout=60)
    for _ in range(300):
        if not left():
            break
        time.sleep(0.1)
    assert not left(), left()


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
    with pytest.raises(anabranch.SweepError, match="they were made with another plan"):
        anabranch.sweep(Plan(BASE, vary=VARY, runs=3), output="memory://results")
    with pytest.raises(anabranch.SweepError, match="cannot use nothing://"):
        anabranch.sweep(plan, output="nothing://there")


def test_the_state_of_a_stored_sweep_is_written_last(plan: Plan, tmp_path: File, monkeypatch: Any) -> None:
    written: list[str] = []
    put = storage.Remote._put

    def noted(self: storage.Remote, name: str, data: bytes) -> None:
        written.append(name)
        put(self, name, data)

    monkeypatch.setattr(storage.Remote, "_put", noted)
    anabranch.sweep(plan, output=f"file://{tmp_path}/results")
    # A reader that finds it finds the results, too.
    assert written[0] == "units/header.json"
    assert written[-1] == "run.json"
    assert "results.parquet" in written


def test_a_damaged_object_is_named_and_simulated_again(plan: Plan, expected: bytes, tmp_path: File) -> None:
    url = f"file://{tmp_path}/results"
    anabranch.sweep(plan, output=url)
    units = sorted((tmp_path / "results" / "units").glob("*.ndjson"))
    # A digit of a result that is still a result.
    text = units[0].read_text()
    place = text.index('"fct_s":{"mean":') + len('"fct_s":{"mean":') + 4
    units[0].write_text(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])
    said = rf"units/{units[0].name} is damaged, so its points are simulated again"
    with pytest.warns(UserWarning, match=said) as noted:
        anabranch.sweep(plan, output=url)
    assert noted[0].filename == __file__
    assert table(tmp_path / "results") == expected
    assert [file.name for file in (tmp_path / "results" / "units").glob("*.damaged")] == [f"{units[0].name}.damaged"]
    # A result of another scenario under the digest of its own.
    line = plan.simulate([0])[0].replace('"scenario_hash":"', '"scenario_hash":"0')
    from anabranch import storage

    own = tmp_path / "results" / storage._unit(f"{line}\n".encode())
    own.write_text(f"{line}\n")
    with pytest.warns(UserWarning, match="point 0 is the result of another scenario"):
        anabranch.sweep(plan, output=url)
    assert table(tmp_path / "results") == expected


def test_only_the_files_of_a_sweep_are_read(plan: Plan, expected: bytes, tmp_path: File, monkeypatch: Any) -> None:
    url = f"file://{tmp_path}/results"
    anabranch.sweep(plan, output=url)
    (tmp_path / "results" / "large.bin").write_bytes(b"x" * 1000)
    import fsspec

    read: list[str] = []
    local: Any = fsspec.filesystem("file")
    original = type(local).cat_file

    def noted(self: Any, path: str, *rest: Any, **more: Any) -> Any:
        read.append(path)
        return original(self, path, *rest, **more)

    monkeypatch.setattr(type(local), "cat_file", noted)
    anabranch.sweep(plan, output=url)
    assert {path.rsplit("/", 1)[-1] for path in read if "/units/" not in path} == {"plan.toml"}
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "other.txt").write_text("")
    with pytest.raises(anabranch.SweepError, match=r"holds no sweep, but for example other.txt"):
        anabranch.sweep(plan, output=f"file://{tmp_path}/else")


def test_a_worker_of_another_version_is_refused(client: Any, plan: Plan, tmp_path: File, monkeypatch: Any) -> None:
    from anabranch import cluster

    original = cluster._packed

    def packed(plan: Plan) -> bytes:
        import pickle

        build, data = pickle.loads(original(plan))
        return pickle.dumps((f"{build} of tomorrow", data))

    monkeypatch.setattr(cluster, "_packed", packed)
    with pytest.raises(anabranch.SweepError, match=r"a worker has anabranch .* of tomorrow"):
        anabranch.sweep(plan, client=client, output=tmp_path)


class Refused(anabranch.Scheduler):
    """Names a subflow that there is not."""

    def decide(self, view: anabranch.View) -> anabranch.scheduler.Decision:
        return anabranch.Assign(7, (0, 1400))


def test_decisions_that_workers_refuse_are_counted_here(client: Any) -> None:
    paths = [anabranch.Path("20 Mbit/s", "20 ms", name="a"), anabranch.Path("10 Mbit/s", "40 ms", name="b")]
    scenario = anabranch.Scenario(paths, size="100 KB", schedulers=["tcp", Refused], deadline="2 s", runs=1)
    vary = {"path.b.rtt": ["20 ms", "40 ms", "60 ms"]}
    with pytest.warns(anabranch.SchedulerWarning) as here:
        anabranch.sweep(scenario, vary=vary)
    with pytest.warns(anabranch.SchedulerWarning) as there:
        anabranch.sweep(scenario, vary=vary, client=client)
    assert [str(note.message) for note in here] == [str(note.message) for note in there]
    assert there[0].filename == __file__


def test_a_worker_of_another_version_makes_no_runs_of_a_reproduction(client: Any, monkeypatch: Any) -> None:
    from anabranch import cluster

    original = cluster._Measurements.call
    other = "0.0.0 of tomorrow"
    monkeypatch.setattr(cluster._Measurements, "call", lambda self, unit: (other, *original(self, unit)[1:]))
    with pytest.raises(anabranch.SweepError, match=rf"a worker has anabranch .*, and the work is of {other}"):
        anabranch.reproduce("dmptcp", claim="D24", plain=True, client=client)


def test_a_store_gets_units_of_several_points(tmp_path: File) -> None:
    vary = {"path.1.rate": ["5 Mbit/s", "9 Mbit/s"], "path.2.rtt": ["10 ms", "20 ms", "30 ms", "40 ms"]}
    plan = Plan("two-paths", vary=vary, settings={"traffic.size": "20 KB"}, runs=1)
    anabranch.sweep(plan, output=tmp_path / "here")
    anabranch.sweep(plan, output=f"file://{tmp_path}/store", jobs=1)
    assert table(tmp_path / "here") == table(tmp_path / "store")
    units = list((tmp_path / "store" / "units").glob("*.ndjson"))
    assert sorted(len(unit.read_text().splitlines()) for unit in units) == [2, 2, 2, 2]
