#!/usr/bin/env python3
"""Draws the pictures of the documentation from what the command itself prints, with `anabranch plot`.

    cargo build --release --package anabranch-cli
    tools/plot.py                  all plots, into docs/img/
    tools/plot.py paths            one of them

The same version draws the same files to the last byte.
"""

import argparse
import csv
import json
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# What the DMPTCP paper calls the RTTs of its eight disjoint paths; they are delays of one way.
RTTS_MS = [10, 20, 30, 40, 60, 80, 90, 100]
# The ways to start that are compared belong to another question.
ONE_START = "--no-other-starts"


class Anabranch:
    """The command."""

    def __init__(self, binary, quick):
        self.binary, self.quick = binary, quick

    def run(self, *arguments):
        command = [self.binary, *map(str, arguments)]
        if self.quick and "--runs" in command:
            command[command.index("--runs") + 1] = "2"
        return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout

    def json(self, *arguments):
        return json.loads(self.run(*arguments, "--json"))

    def points(self, values):
        """The values at which to measure: of many the two ends where time is short."""
        return [values[0], values[-1]] if self.quick else values

    def draw(self, panels, file, width="140mm", height="55mm"):
        """Draws panels of curves into a file."""
        with tempfile.TemporaryDirectory() as folder:
            numbers = Path(folder) / "panels.json"
            numbers.write_text(json.dumps(panels), encoding="utf-8")
            self.run("-q", "plot", "--curves", numbers, "--width", width, "--panel-height", height, "-o", file)


def panel(x, y, curves, title="", **more):
    """A panel; a curve is a name and its points, and with a third item it is dashed."""
    own = [{"name": name, "printed": bool(dashed), "dots": [[*dot, None][:3] for dot in dots]} for name, dots, *dashed in curves]
    return {"panel": title, "x": x, "y": y, "categories": [], "log_x": False, "log_y": False, "curves": own, **more}


def differences(results, positions, condition, names, reference):
    """The differences of contenders from the reference at each position, and the reference itself at 0."""
    curves = [(reference, [[at, 0] for at in positions], True)]
    for name in names:
        wanted = (condition, name)
        rows = [next(row for row in result["rows"] if (row["condition"], row["scheduler"]) == wanted) for result in results]
        found = [row["vs_reference_pct"] for row in rows]
        curves.append((name, [[at, one["mean"], one["ci95"]] for at, one in zip(positions, found)]))
    return curves


def plot_phone(anabranch, file):
    """Download times of a phone by the rate of its Wi-Fi, from either first path: the default comparison."""
    rates = anabranch.points([1, 2, 4, 8, 16, 32, 64])
    panels = []
    for initial, title in [("wifi", "starting on Wi-Fi"), ("lte", "starting on LTE")]:
        of = lambda rate: ["phone", "--set", f"path.wifi.rate={rate}Mbit/s", "--initial", initial, ONE_START, "--runs", 60]
        results = [anabranch.json("compare", *of(rate)) for rate in rates]
        curves = differences(results, rates, "good wifi", ["linux", "min_rtt", "dmptcp", "anabranch"], "tcp on the better path")
        panels.append(panel("rate of the Wi-Fi, Mbit/s", "mean time of 1 MB against tcp, %", curves, title, log_x=True))
    anabranch.draw(panels, file, width="180mm")


def plot_paths(anabranch, file):
    """Completion times over one to eight paths: the DMPTCP paper's setting with fewer of its paths."""
    counts = anabranch.points(list(range(1, len(RTTS_MS) + 1)))
    results = []
    for count in counts:
        paths = [word for rtt in RTTS_MS[:count] for word in ("--path", f"100Mbit/s,{2 * rtt}ms")]
        results.append(anabranch.json("compare", "dmptcp-eight-paths", *paths, ONE_START, "--runs", 30))
    conditions = list(dict.fromkeys(row["condition"] for row in results[0]["rows"]))
    own = lambda condition: differences(results, counts, condition, ["min_rtt", "dmptcp"], "tcp on the best path")
    titles = {condition: condition.replace("=", " ") for condition in conditions}
    y = "mean completion time against tcp, %"
    anabranch.draw([panel("number of paths", y, own(one), titles[one]) for one in conditions], file, width="180mm")


def plot_reduction(anabranch, file):
    """The time that DMPTCP saves against minRTT, and the closed form of the most by the last acknowledgement."""
    whole = {"by delivery": "fct_s", "by the last acknowledgement": "acked_s"}

    def saved(*arguments, condition):
        """The mean of each measure with its interval, over runs, which are pairs."""
        with tempfile.TemporaryDirectory() as folder:
            samples = Path(folder) / "samples.csv"
            names = ["--schedulers", "min_rtt,dmptcp", ONE_START, "--samples", samples]
            anabranch.run("-q", "compare", *arguments, *names)
            rows = [row for row in csv.DictReader(samples.read_text().splitlines()) if row["condition"] == condition]
        own = {"lost": any(int(row["retransmitted_segments"]) for row in rows)}
        for key in whole.values():
            time = {}
            for row in rows:
                time.setdefault((row["scheduler"], row["run"]), []).append(float(row[key]))
            mean = {at: sum(flows) / len(flows) for at, flows in time.items()}
            pairs = [(mean["min_rtt", run], mean["dmptcp", run]) for name, run in mean if name == "dmptcp"]
            base = sum(slow for slow, _ in pairs) / len(pairs)
            ratio = 1 - sum(fast for _, fast in pairs) / len(pairs) / base
            rest = [(slow * (1 - ratio) - fast) / base for slow, fast in pairs]
            half = 2 * (sum(one * one for one in rest) / max(len(rest) - 1, 1) / len(rest)) ** 0.5
            own[key] = (100 * ratio, [100 * (ratio - half), 100 * (ratio + half)])
        return own

    # The first data of the slow path is acknowledged after two of its round trips, and DMPTCP ends after one of each path at
    # the earliest.
    bound = lambda ratio: 100 * (1 / 2 - 1 / (2 * ratio))
    flows = anabranch.points([1, 2, 4, 8, 15, 30, 60])
    of = lambda count: ["dmptcp-eight-paths", "--flows", count, "--runs", 30]
    found = [saved(*of(count), condition="loss=0") for count in flows]
    curves = [(name, [[at, *one[key]] for at, one in zip(flows, found)]) for name, key in whole.items()]
    curves.append(("closed form, last acknowledgement", [[at, bound(10)] for at in flows], True))
    y = "time saved against min_rtt, %"
    panels = [panel("number of web flows, over the paper's eight paths", y, curves, "by the number of flows", log_x=True)]
    # One flow over two paths: of the sizes without losses the one that gains most by the last acknowledgement. A flow that
    # overflows a queue waits for a timeout, which the closed form does not have.
    ratios = anabranch.points([1.5, 2, 3, 4, 6, 8, 10, 15, 20])
    sizes = anabranch.points([20, 30, 40, 60, 80, 100, 150, 200, 300, 400, 600, 800, 1200, 1600, 2000, 2500, 3000, 4000])
    best = []
    for ratio in ratios:
        paths = ["--path", "100Mbit/s,20ms", "--path", f"100Mbit/s,{round(20 * ratio)}ms"]
        rest = ["--profile", "ns3", "--set", "traffic.direction=upload", "--set", "traffic.start=0.1s", "--runs", 10]
        each = [saved(*paths, "--size", f"{size}KB", *rest, condition="") for size in sizes]
        best.append(max((one for one in each if not one["lost"]), key=lambda one: one["acked_s"][0]))
    curves = [(name, [[at, *one[key]] for at, one in zip(ratios, best)]) for name, key in whole.items()]
    curves.append(("closed form, last acknowledgement", [[at, bound(at)] for at in ratios], True))
    panels.append(panel("round trip of the slow path, in those of the fast one", y, curves, "by the ratio of the round trips"))
    anabranch.draw(panels, file, width="180mm")


def plot_schedulers(anabranch, file):
    """Completion times against the flow's size on two unequal paths, in multiples of the lower bound."""
    sizes = anabranch.points([10, 30, 100, 300, 1000, 3000, 10000])
    names = ["tcp", "min_rtt", "round_robin", "redundant", "dmptcp"]
    results = [
        anabranch.json(
            "compare", "--path", "50Mbit/s,20ms,loss=0.1%", "--path", "20Mbit/s,80ms,loss=0.1%",
            "--size", f"{size}KB", "--schedulers", ",".join(names), ONE_START, "--runs", 200,
        )
        for size in sizes
    ]
    of = lambda result, name: next(row for row in result["rows"] if row["scheduler"] == name)["vs_lower_bound"]
    curves = [(name, [[size, of(result, name)] for size, result in zip(sizes, results)]) for name in names]
    anabranch.draw([panel("size of the flow, KB", "mean completion time / lower bound", curves, log_x=True)], file)


def plot_congestion(anabranch, file):
    """Goodput of bulk flows against random loss on two equal paths."""
    losses = anabranch.points([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0])

    def goodput(name, loss):
        path = f"50Mbit/s,40ms,loss={loss}%"
        result = anabranch.json(
            "compare", "--path", path, "--path", path, "--size", "bulk", "--cc", name, "--schedulers", "min_rtt",
            "--set", "traffic.duration=20s", ONE_START, "--runs", 10,
        )
        return result["rows"][0]["goodput_bps"] / 1e6

    curves = [(name, [[loss, goodput(name, loss)] for loss in losses]) for name in ["cubic", "newreno", "lia"]]
    anabranch.draw([panel("random loss on either path, %", "goodput, Mbit/s", curves, log_x=True)], file)


def plot_model(anabranch, file):
    """The transfer model: the segments that a window of 8 delivers in up to six round trips."""
    curves = []
    for loss in ["0", "0.01%", "1%", "5%"]:
        result = anabranch.json("model", "--cwnd", 8, "--rounds", 6, "--loss", loss)
        dots = [[0, 0]] + [[entry["round"], entry["delivered_segments"]] for entry in result["rounds"]]
        curves.append((f"loss {loss}".replace("%", " %"), dots))
    anabranch.draw([panel("round trips of the fast path in one of the slow path", "segments delivered", curves)], file)


def plot_selection(anabranch, file):
    """The number of the paper's eight paths that DMPTCP takes, by the remaining bytes."""
    sizes = anabranch.points([round(10 ** (exponent / 20)) for exponent in range(20, 101)])
    curves = []
    for loss in ["0", "1%", "5%"]:
        paths = [word for rtt in RTTS_MS for word in ("--path", f"100Mbit/s,{rtt}ms,loss={loss},cwnd=8")]
        counts = [len(anabranch.json("select", *paths, "--remaining", f"{size}KB")["selected"]) for size in sizes]
        curves.append((f"loss {loss}".replace("%", " %"), list(zip(sizes, counts))))
    anabranch.draw([panel("remaining bytes of the flow, KB", "paths taken, of eight", curves, log_x=True, shape="steps")], file)


def plot_window_growth(anabranch, file):
    """Windows of two subflows without a network: the golden file of the tests. The second subflow is dashed."""
    text = (ROOT / "crates" / "stack" / "tests" / "golden" / "window_growth.txt").read_text(encoding="utf-8")
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    panels = []
    for names in [["newreno", "cubic", "vegas", "veno", "cubic_linux"], ["lia", "olia", "balia", "wvegas", "sbd", "dwc"]]:
        # Linux's CUBIC grows by a twentieth in a round trip until a loss, out of the picture.
        most = max(float(row["first"]) for row in rows if row["control"] in names and row["control"] != "cubic_linux")
        for ratio in ["1", "2", "3"]:
            curves = []
            for name in names:
                own = [row for row in rows if (row["control"], row["ratio"]) == (name, ratio) and float(row["first"]) <= 1.05 * most]
                dots = lambda column: [[int(row["round"]), float(row[column])] for row in own]
                curves += [(name, dots("first")), (name, dots("second"), True)]
            kind = "independent" if "cubic" in names else "coupled"
            panels.append(panel("round trips of the first subflow", "window, segments", curves, f"{kind}, round trips 1 to {ratio}"))
    anabranch.draw(panels, file, width="180mm", height="40mm")


def plot_scheduler(anabranch, file):
    """A picture for each scheduler: the data that it sends on each path, and when, in the scenario every-scheduler."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record"
        flows = json.loads(anabranch.run("-q", "run", "every-scheduler", "--record", record, "--json"))["flows"]
        for flow in flows:
            name = flow["scheduler"]
            picture = file.with_stem(f"{file.stem}_{name}")
            only = ["--schedulers", name, "--width", "140mm", "--panel-height", "60mm"]
            anabranch.run("-q", "plot", record, "--figure", "sequence", *only, "-o", picture)


PLOTS = {name.removeprefix("plot_"): draw for name, draw in list(globals().items()) if name.startswith("plot_")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plots", nargs="*", metavar="PLOT", help=f"some of {', '.join(PLOTS)} (default: all)")
    parser.add_argument("--binary", default=str(TARGET / "release" / "anabranch"), help="the command")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "img", help="where the files go")
    parser.add_argument("--quick", action="store_true", help="few points and runs: a test of this program alone")
    options = parser.parse_args()
    unknown = [name for name in options.plots if name not in PLOTS]
    if unknown:
        parser.error(f"there is no plot {unknown[0]}; there are {', '.join(PLOTS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.plots or PLOTS:
        PLOTS[name](Anabranch(options.binary, options.quick), options.out.resolve() / f"{name}.svg")
        print(options.out / f"{name}.svg")


if __name__ == "__main__":
    main()
