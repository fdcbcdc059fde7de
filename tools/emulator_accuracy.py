#!/usr/bin/env python3
"""Measures how true `anabranch emulate` is on this machine: round trips with ping, goodput with iperf3.

Prints two tables in Markdown, and exits with 1 if a bound of docs/emulator.md is not kept. Needs root, ping, iperf3
and mptcpize:

    sudo tools/emulator_accuracy.py --anabranch target/release/anabranch
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

RATES = (8, 25, 100, 500)
RTT_MS = 20
# Of a packet of 1500 bytes, 20 are IP's header, 20 TCP's, and 12 its timestamps.
PAYLOAD = 1448 / 1500
# Linux's Multipath TCP adds a DSS option of 24 bytes: 4, 4 of acknowledgement, 14 of mapping, and padding.
MPTCP_PAYLOAD = 1424 / 1500
SERVER = "iperf3 --server --one-off"


class Failed(Exception):
    """A command that did not do what it should."""


def emulate(options, paths, client, server=None):
    """Runs a client over `paths`. Its output, and the report."""
    with tempfile.TemporaryDirectory() as directory:
        report = os.path.join(directory, "report.json")
        command = [options.anabranch, "emulate", "--report", report, "--kernel-cc", "cubic"]
        for path in paths:
            command += ["--path", path]
        if server:
            command += ["--server-command", f"exec {server} >/dev/null"]
        done = subprocess.run(command + ["--", *client], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(f"{' '.join(command)}: {done.stdout[-500:]} {done.stderr[-2000:]}")
        with open(report, encoding="utf-8") as file:
            return done.stdout, json.load(file)


def repeated(options, measure):
    """The first reliable result of `measure` within the tries, else the last one."""
    for _ in range(options.tries):
        result = measure()
        if result["report"]["reliable"]:
            break
    return result


def ping(options, rate):
    """Round trips over an idle path, in milliseconds."""
    client = ["ping", "-c", str(options.pings), "-i", "0.02", "10.1.1.1"]
    output, report = emulate(options, [f"{rate}Mbit/s,{RTT_MS}ms"], client)
    times = [float(value) for value in re.findall(r"time=([0-9.]+) ms", output)]
    return {"times": times, "report": report}


def iperf(options, paths, mptcp=False):
    """Goodput in Mbit/s, without the first seconds."""
    client = ["iperf3", "--client", "10.1.1.1", "--json", "--time", str(options.seconds), "--omit", "2"]
    before = options.before.split()
    before += ["mptcpize", "run"] if mptcp else []
    output, report = emulate(options, paths, before + client, " ".join(before + [SERVER]))
    return {"goodput": json.loads(output)["end"]["sum_received"]["bits_per_second"] / 1e6, "report": report}


def lateness(report, direction):
    """Lateness of a direction in microseconds, as text."""
    late = report[f"lateness_{direction}"]
    return f"{late['p50_us']:.0f} / {late['p99_us']:.0f} / {late['p999_us']:.0f}"


def verdict(report):
    """Whether the run was reliable, as text."""
    return "yes" if report["reliable"] else "no"


def processor():
    """What the machine calls its processor."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        found = re.search(r"model name\s*: (.*)", file.read())
    return found.group(1) if found else platform.machine()


def main():
    """Measures, prints, judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anabranch", default="anabranch", help="the command")
    parser.add_argument("--seconds", type=int, default=8, help="how long each iperf3 runs")
    parser.add_argument("--pings", type=int, default=200, help="how many pings")
    parser.add_argument("--tries", type=int, default=3, help="how often an unreliable run is repeated")
    parser.add_argument("--before", default="", metavar="WORDS",
                        help="what to put before iperf3, such as `chrt --rr 10` on a machine with other work, where "
                             "the emulator is to be measured and not how long a program waits for a processor")
    options = parser.parse_args()
    missed = []
    print(f"{time.strftime('%Y-%m-%d')}, {processor()}, {os.cpu_count()} cores, Linux {platform.release()}, "
          f"load {os.getloadavg()[0]:.1f}{', iperf3 by ' + options.before if options.before else ''}\n")
    print("| rate, Mbit/s | RTT set, ms | ping median, p95 | goodput possible | measured | difference "
          "| lateness up p50 / p99 / p99.9, us | reliable |")
    print("|---|---|---|---|---|---|---|---|")
    for rate in RATES:
        echo = repeated(options, lambda: ping(options, rate))
        # A queue that keeps the link busy while the sender's window is cut: it is the link that is measured.
        bulk = repeated(options, lambda: iperf(options, [f"{rate}Mbit/s,{RTT_MS}ms,queue=4bdp"]))
        # An echo request of 84 bytes also takes its time on the link, each way.
        alone = RTT_MS + 2 * 84 * 8 / (rate * 1000)
        median = statistics.median(echo["times"])
        p95 = statistics.quantiles(echo["times"], n=20)[-1]
        possible = rate * PAYLOAD
        difference = bulk["goodput"] / possible - 1
        if abs(median - alone) > 0.5:
            missed.append(f"{rate} Mbit/s: the round trip is {median} ms in place of {alone:.3f} ms")
        if abs(difference) > 0.01:
            missed.append(f"{rate} Mbit/s: the goodput is {bulk['goodput']:.2f} of {possible:.2f} Mbit/s")
        print(f"| {rate} | {alone:.2f} | {median:.2f}, {p95:.2f} | {possible:.2f} | {bulk['goodput']:.2f} "
              f"| {difference:+.2%} | {lateness(bulk['report'], 'up')} | {verdict(bulk['report'])} |", flush=True)
    print("\n| paths, Multipath TCP of the kernel | goodput possible | measured | share "
          "| lateness up p50 / p99 / p99.9, us | reliable |")
    print("|---|---|---|---|---|---|")
    for rates, paths in (
        (200, ["100Mbit/s,20ms", "100Mbit/s,20ms"]),
        (125, ["25Mbit/s,20ms", "100Mbit/s,40ms"]),
    ):
        both = repeated(options, lambda: iperf(options, paths, mptcp=True))
        possible = rates * MPTCP_PAYLOAD
        share = both["goodput"] / possible
        if share < 0.95:
            missed.append(f"{' + '.join(paths)}: {share:.1%} of what is possible")
        if rates == 200 and both["report"]["lateness_up"]["p50_us"] >= 100:
            missed.append(f"{' + '.join(paths)}: p50 of the lateness is not below 100 us")
        print(f"| {' + '.join(paths)} | {possible:.1f} | {both['goodput']:.1f} | {share:.1%} "
              f"| {lateness(both['report'], 'up')} | {verdict(both['report'])} |", flush=True)
    for text in missed:
        print(f"\nNOT KEPT: {text}")
    return 1 if missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failure:
        sys.exit(f"error: {failure}")
