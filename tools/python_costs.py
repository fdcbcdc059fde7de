#!/usr/bin/env python3
"""The costs of the Python package, on one thread: `venv/bin/python tools/python_costs.py`.

Prints the CPU time of a decision in Python, that of `compare()` against the command, and the time in which a million
rows reach polars, and the cost of a cluster. Needs the package, polars and distributed.
"""

import os
import resource
import subprocess
import sys
import time

import anabranch
import polars
from anabranch import Assign, Path, Plan, Range, Scenario, Scheduler, Wait, WindowRule

PATHS = [Path("200 Mbit/s", "20 ms"), Path("100 Mbit/s", "45 ms")]
RUNS = "200"


class Fastest(Scheduler):
    """minRTT, with a list and a key function."""

    decisions = 0

    def decide(self, view):
        Fastest.decisions += 1
        free = [s for s in view.subflows if s.may_carry() and s.room() > 0]
        best = min(free, key=lambda s: s.srtt_s or 1e9, default=None)
        data = view.next_new(best.room()) if best else None
        return Assign(best, data) if data else Wait()


class First(Scheduler):
    """The first subflow with space."""

    decisions = 0

    def decide(self, view):
        First.decisions += 1
        for subflow in view.subflows:
            room = subflow.room()
            if room and subflow.may_carry():
                data = view.next_new(room)
                return Assign(subflow, data) if data else Wait()
        return Wait()


class Reno(WindowRule):
    """increase() of a window rule, as of NewReno."""

    calls = 0

    def increase(self, windows, id, acked, ack):
        Reno.calls += 1
        return acked / windows[id].segments


def least(work, times=5):
    """The least CPU time of some repetitions, in seconds."""
    measured = []
    for _ in range(times):
        begun = time.process_time()
        work()
        measured.append(time.process_time() - begun)
    return min(measured)


def transfer(scheduler):
    scenario = Scenario(PATHS, schedulers=[scheduler], size="60 MB", runs=1)
    return least(lambda: anabranch.compare(scenario, other_starts=False, jobs=1))


def rule():
    """Prints the cost of a call of a window rule."""

    def took(congestion):
        contender = {"scheduler": "min_rtt", "congestion": congestion}
        # The losses end slow start, in which the rule is not called.
        paths = [Path(path.to_dict()["rate"], "20 ms", loss="0.05%") for path in PATHS]
        scenario = Scenario(paths, schedulers=[contender], size="40 MB", runs=1)
        return least(lambda: anabranch.compare(scenario, other_starts=False, jobs=1))

    base, own = took("newreno"), took(Reno)
    calls = Reno.calls / 5
    print(f"{Reno.__doc__} {calls:.0f} calls, {(own - base) / calls * 1e6:.2f} us each beyond those of newreno in Rust")


def children(code):
    """The least CPU time of a process of Python, in seconds."""

    def spent():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    measured = []
    for _ in range(5):
        begun = spent()
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
        measured.append(spent() - begun)
    return min(measured)


def overhead():
    """Prints the CPU time of the process that hands out units, and of its workers, for units of one point each."""
    from anabranch import cluster as own
    from distributed import Client, LocalCluster

    def spent(pids):
        ticks = os.sysconf("SC_CLK_TCK")
        fields = (open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1].split() for pid in pids)
        return sum(int(one[11]) + int(one[12]) for one in fields) / ticks

    short = Scenario([Path("100 Mbit/s", "1 ms")], size="2 KB", schedulers=["tcp"], runs=1)
    plan = Plan(short, vary={"path.1.rtt": Range("1 ms", "2 ms", steps=1000)})
    begun = time.process_time()
    anabranch.sweep(plan, jobs=1)
    points = time.process_time() - begun
    own.UNIT_S = 0.0
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**options) as local, Client(local) as client:
        pids = [worker.pid for worker in local.workers.values()]
        anabranch.sweep(Plan(short, vary={"path.1.rtt": ["1 ms", "2 ms"]}), client=client)
        here, there = time.process_time(), spent(pids)
        anabranch.sweep(plan, client=client)
        here, there = time.process_time() - here, spent(pids) - there
    own.UNIT_S = 2.0
    each = 1e3 / len(plan)
    print(
        f"{len(plan)} units of one point: {here * each:.2f} ms of CPU time in the process that hands them out, which is the "
        f"scheduler of Dask, too; {there * each:.2f} ms in the worker; {points * each:.2f} ms for a point on a thread"
    )


def cluster():
    """Prints the time of a sweep of short points on one thread, and on one worker of Dask."""
    from distributed import Client, LocalCluster

    short = Scenario([Path("100 Mbit/s", "1 ms")], size="2 KB", schedulers=["tcp"], runs=1)
    plan = Plan(short, vary={"path.1.rtt": Range("1 ms", "2 ms", steps=400)})
    begun = time.perf_counter()
    anabranch.sweep(plan, jobs=1)
    thread = time.perf_counter() - begun
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**options) as local, Client(local) as client:
        client.submit(len, "a").result()
        begun = time.perf_counter()
        anabranch.sweep(plan, client=client)
        worker = time.perf_counter() - begun
    print(f"{len(plan)} short points: {1e3 * thread:.0f} ms on a thread, {1e3 * worker:.0f} ms on a worker")


def main():
    base = transfer("min_rtt")
    for scheduler in (Fastest, First):
        scheduler.decisions = 0
        took = transfer(scheduler)
        decisions = scheduler.decisions / 5
        cost = (took - base) / decisions * 1e6
        print(f"{scheduler.__doc__} {decisions:.0f} decisions, {cost:.2f} us each beyond those of min_rtt in Rust")
    rule()
    words = ["anabranch", "compare", "phone", "--runs", RUNS, "--jobs", "1", "--json", "-o", os.devnull]
    command = children(f"from anabranch import _anabranch as a; raise SystemExit(a.command({words}))")
    own = children(f"import anabranch; anabranch.compare('phone', runs={RUNS}, jobs=1)")
    print(f"compare('phone', runs={RUNS}): {own:.2f} s, the command {command:.2f} s: {100 * (own / command - 1):+.1f} %")
    many = anabranch.compare([Path("1 Gbit/s", "1 ms")], size="1 KB", flows=5000, runs=2, schedulers=["tcp"])
    table = anabranch.Table.concat([many.samples] * 100)
    begun = time.perf_counter()
    frame = polars.DataFrame(table)
    print(f"{frame.height} rows of {frame.width} columns reach polars in {1e3 * (time.perf_counter() - begun):.0f} ms")


if __name__ == "__main__":
    main()
    cluster()
    overhead()
