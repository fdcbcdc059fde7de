#!/usr/bin/env python3
"""Measures the stack of `anabranch-net` on one core and on two: the tables of "Several cores" in docs/runtime.md.

    cargo build --release --example cores -p anabranch-net
    tools/stack_cores.py memory --runs 5
    sudo tools/stack_cores.py proxy --runs 5

`memory`: two hosts in one process, connected in memory, on one core with one thread, and on two cores with one and with two. Each thread has a stack of both hosts, which have the
same work on one core and on two. Two processes with one thread and a core each show what the second core of this machine can give.

`proxy`: bytes a second of downloads at once through both sides with `--transport anabranch`, each with a TUN device that has one queue or one for each thread, between which the kernel forwards; both sides, sink and source on the same cores.

The runs alternate, in rotating order. The ratios are of means, to one core, with 95 % intervals (bootstrap over runs): of the rate, and of the processor time for each byte or connection (of both
sides only, for `proxy`), which other programs on the machine change less.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import proxy
from paired import difference

KINDS = {"one core, one thread": ((0,), 1), "two cores, one thread": ((0, 1), 1), "two cores, two threads": ((0, 1), 2)}
PROCESSES = "two processes, a core each"
# The last value is true for devices with a queue for each thread.
SIDES = {
    "one core, one thread for each side": ((0,), 1, True),
    "two cores, one thread for each side": ((0, 1), 1, True),
    "two cores, `--threads 2`, one queue": ((0, 1), 2, False),
    "two cores, `--threads 2`, two queues": ((0, 1), 2, True),
}


def on(cores, command):
    return subprocess.Popen(["taskset", "--cpu-list", ",".join(map(str, cores)), *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def finish(processes):
    """Returns the sum of the rates of these processes, and their processor time for each unit of work."""
    rate = work = time_s = 0
    for process in processes:
        one, whole = map(float, process.stdout.read().split())
        _, _, usage = os.wait4(process.pid, 0)
        rate, work, time_s = rate + one, work + whole, time_s + usage.ru_utime + usage.ru_stime
    return rate, time_s / work


def table(runs, unit, scale):
    names = list(runs[0])
    print(f"load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    print(f"| | {unit} | of one core | processor time of each, of one core |\n|---|---|---|---|")
    for name in names:
        cells = [f"{scale * statistics.fmean(run[name][0] for run in runs):.4g}"]
        for column in (0, 1):
            pairs = [{key: values[column] for key, values in run.items()} for run in runs]
            mean, low, high = (1 + value / 100 for value in difference(pairs, name, names[0]))
            cells.append(f"{mean:.2f} ({low:.2f} to {high:.2f})")
        print(f"| {name} | {' | '.join(cells)} |")


def rotated(kinds, turn):
    names = list(kinds)
    turn %= len(names)
    return names[turn:] + names[:turn]


def memory(binary, rounds, seconds):
    for what, unit, connections in (("bulk", "Gbit/s", 8), ("short", "connections a second", 64)):
        for device in ("offload", "1500"):
            runs = []
            for turn in range(rounds):
                rates = {}
                for name in rotated([*KINDS, PROCESSES], turn):
                    cores, threads = KINDS.get(name, ((0, 1), 1))
                    places = [(0,), (1,)] if name == PROCESSES else [cores]
                    each = connections // len(places)
                    words = [str(threads), str(each), str(seconds), what, device]
                    processes = [on(place, [binary, *words]) for place in places]
                    rates[name] = finish(processes)
                runs.append({name: rates[name] for name in [*KINDS, PROCESSES]})
            print(f"\n{what}, {connections} at once, {device}\n")
            table(runs, unit, 1)


def through_proxies(binary, rounds, connections, options):
    children = []
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        key = subprocess.run([binary, "proxy", "--new-key", "test"], stdout=subprocess.PIPE, check=True, text=True).stdout
        limits = "allow = ['10.0.0.0/8', '127.0.0.0/8']\nrate = 10000\nconnections = 100000\n"
        for name, text in (("client.key", key), ("server.toml", limits + key)):
            (place / name).touch(0o600)
            (place / name).write_text(text, encoding="ascii")
        try:
            proxy.run("ip", "link", "set", "lo", "up")
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="ascii")
            sides = []
            for at, (cores, threads, queues) in enumerate(SIDES.values()):
                os.sched_setaffinity(0, cores)
                extra = ("--threads", str(threads), *options)
                proxy.stack_sides(binary, str(place), children, 1091 + at, 1 + 2 * at, extra, queues)
                sides.append(children[-2:])
                proxy.start([sys.executable, proxy.ME, "--web", str(proxy.WEB + at)], children)
            time.sleep(2)
            runs = []
            for turn in range(rounds):
                rates = {}
                for name in rotated(SIDES, turn):
                    at = list(SIDES).index(name)
                    command = [sys.executable, proxy.ME, "--read", str(1091 + at), str(proxy.WEB + at), str(connections)]
                    before = sum(map(proxy.cpu_time, sides[at]))
                    rate = float(on(SIDES[name][0], command).communicate()[0])
                    rates[name] = (rate, (sum(map(proxy.cpu_time, sides[at])) - before) / rate)
                runs.append({name: rates[name] for name in SIDES})
            table(runs, "Gbit/s", 8e-9)
        finally:
            proxy.end(children)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["memory", "proxy"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--connections", type=int, default=8, help="downloads at once (proxy)")
    parser.add_argument("--no-offload", action="store_true", help="packets of 1500 bytes (proxy)")
    parser.add_argument("--binary", help="the example `cores`, or the command (proxy)")
    args = parser.parse_args()
    if args.what == "memory":
        memory(args.binary or str(proxy.TARGET / "release" / "examples" / "cores"), args.runs, args.seconds)
    else:
        proxy.own_network(os.path.realpath(__file__), sys.argv[1:])
        options = ["--no-offload"] if args.no_offload else []
        through_proxies(args.binary or str(proxy.TARGET / "release" / "anabranch"), args.runs, args.connections, options)


if __name__ == "__main__":
    main()
