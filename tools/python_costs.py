#!/usr/bin/env python3
"""The costs of the Python package: `venv/bin/python tools/python_costs.py [package] [units] [efficiency]`.

Without words all of them. `package`: the CPU time of a decision and of a window rule in Python, that of `compare()` against
the command, and the time in which a million rows reach polars. `units`: the CPU time of a unit of work on a cluster, in the
process that hands them out and in the worker. `efficiency`: the same sweep on a thread, and with one and two workers. Needs
the package, polars and distributed.
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


def spent(pids):
    """The CPU time of processes, in seconds."""
    fields = (open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1].split() for pid in pids)
    return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")


def on_workers(plan, workers):
    """The wall time of a sweep on workers of Dask, and the CPU time here, where its scheduler is, and there."""
    from distributed import Client, LocalCluster

    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**options) as local, Client(local) as client:
        client.wait_for_workers(workers)
        pids = [worker.pid for worker in local.workers.values()]
        # The modules are imported before.
        warm = Plan(Scenario(PATHS, size="2 KB", runs=1), vary={"path.1.rtt": [f"{ms} ms" for ms in range(1, 9)]})
        anabranch.sweep(warm, client=client)
        clock, here, there = time.perf_counter(), time.process_time(), spent(pids)
        anabranch.sweep(plan, client=client)
        return time.perf_counter() - clock, time.process_time() - here, spent(pids) - there


def on_a_thread(plan):
    """The wall time and the CPU time of a sweep in this process."""
    clock, cpu = time.perf_counter(), time.process_time()
    anabranch.sweep(plan, jobs=1)
    return time.perf_counter() - clock, time.process_time() - cpu


def units():
    """Prints the CPU time of the process that hands out units, and of its worker, for units of one point each."""
    from anabranch import cluster

    short = Scenario([Path("100 Mbit/s", "1 ms")], size="2 KB", schedulers=["tcp"], runs=1)
    plan = Plan(short, vary={"path.1.rtt": Range("1 ms", "2 ms", steps=2000)})
    _, points = on_a_thread(plan)
    whole, cluster.UNIT_S = cluster.UNIT_S, 0.0
    _, here, there = on_workers(plan, 1)
    cluster.UNIT_S = whole
    each = 1e3 / len(plan)
    print(
        f"{len(plan)} units of one point: {here * each:.2f} ms of CPU time in the process that hands them out, which is the "
        f"scheduler of Dask, too; {there * each:.2f} ms in the worker; {points * each:.2f} ms for a point on a thread"
    )


def efficiency():
    """Prints the times of a sweep on a thread, and with one and two workers.

    The efficiency by CPU time is that of the thread over all that the sweep took, here and there: with as many cores as
    workers, none of which does anything else, nothing can be faster. That by the clock counts on an idle machine alone.
    """
    plan = Plan(Scenario(PATHS, size="20 MB", runs=1), vary={"path.1.rtt": Range("5 ms", "100 ms", steps=100)})
    clock, cpu = on_a_thread(plan)
    print(f"{len(plan)} points: {clock:.1f} s on a thread, {cpu:.2f} s of CPU time")
    for workers in (1, 2):
        wall, here, there = on_workers(plan, workers)
        print(
            f"{workers} workers: {wall:.1f} s, {100 * clock / workers / wall:.0f} % by the clock; CPU time {here:.2f} s here "
            f"and {there:.2f} s there, {100 * cpu / (here + there):.0f} %"
        )


def package():
    """Prints the costs of decisions, of compare(), and of a large table."""
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
    for part in (package, units, efficiency):
        if part.__name__ in (sys.argv[1:] or [part.__name__]):
            part()
