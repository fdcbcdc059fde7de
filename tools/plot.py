#!/usr/bin/env python3
"""Draws the plots of the documentation from what the command itself prints.

    pip install -r tools/requirements.txt
    cargo build --release --package anabranch-cli
    tools/plot.py                  all plots, into docs/img/
    tools/plot.py paths            one of them

The same version draws the same files to the last byte.
"""

import argparse
import csv
import importlib.util
import json
import os
import re
import struct
import subprocess
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# The looks of all figures, without the package: its extension module need not be built.
SPEC = importlib.util.spec_from_file_location("palette", ROOT / "python" / "anabranch" / "_palette.py")
PALETTE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(PALETTE)
STYLE = {
    name: (color, marker, (0, dash) if dash else "solid") for name, (color, marker, dash) in PALETTE.KNOWN.items()
}
# The colours of lines that are no contenders.
BLACK, BLUE, VERMILION, AMBER, GREEN, PURPLE = (look[0] for look in PALETTE.KNOWN.values())
# What the DMPTCP paper calls the RTTs of its eight disjoint paths; they are delays of one way.
RTTS_MS = [10, 20, 30, 40, 60, 80, 90, 100]


class Anabranch:
    """The command."""

    def __init__(self, binary, quick):
        self.binary, self.quick = binary, quick

    def json(self, *arguments):
        command = [self.binary, *map(str, arguments), "--json"]
        if self.quick and "--runs" in command:
            command[command.index("--runs") + 1] = "2"
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

    def points(self, values):
        """The values at which to measure: of many the two ends where time is short."""
        return [values[0], values[-1]] if self.quick else values


def plot_phone(anabranch):
    """Download times of a phone by the rate of its Wi-Fi, from either first path: the default comparison."""
    rates = anabranch.points([1, 2, 4, 8, 16, 32, 64])
    names = ["linux", "min_rtt", "dmptcp"]
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True)
    for axes, (initial, title) in zip(panels, [("wifi", "starting on Wi-Fi"), ("lte", "starting on LTE")]):
        results = [
            anabranch.json(
                "compare", "phone", "--set", f"path.wifi.rate={rate}Mbit/s", "--initial", initial,
                "--no-other-starts", "--runs", 60,
            )
            for rate in rates
        ]
        axes.axhline(0, color=STYLE["tcp"][0], linestyle="--", linewidth=1.5, label="tcp on the better path")
        for place, name in enumerate(names):
            rows = [
                next(row for row in result["rows"] if (row["condition"], row["scheduler"]) == ("good wifi", name))
                for result in results
            ]
            differences = [row["vs_reference_pct"] for row in rows]
            mean = [difference["mean"] for difference in differences]
            errors = [
                [m - difference["ci95"][0] for m, difference in zip(mean, differences)],
                [difference["ci95"][1] - m for m, difference in zip(mean, differences)],
            ]
            colour, marker, line = STYLE[name]
            # Side by side, so that no interval hides another.
            axes.errorbar(
                [rate * 1.06 ** (place - 1) for rate in rates], mean, yerr=errors, label=name, color=colour,
                marker=marker, linestyle=line, markersize=5, linewidth=1.5, capsize=3, elinewidth=1,
            )
        axes.set_title(title, fontsize=10)
        axes.set_xscale("log", base=2)
        axes.set_xticks(rates, [str(rate) for rate in rates])
        axes.minorticks_off()
        axes.set_xlabel("rate of the Wi-Fi, Mbit/s")
        axes.grid(alpha=0.25)
    panels[0].set_ylabel("mean download time of 1 MB\nagainst tcp, %")
    panels[0].legend(frameon=False, fontsize=8)
    return figure


def plot_paths(anabranch):
    """Completion times over one to eight paths: the DMPTCP paper's setting with fewer of its paths."""
    counts = anabranch.points(list(range(1, len(RTTS_MS) + 1)))
    results = []
    for count in counts:
        paths = [word for rtt in RTTS_MS[:count] for word in ("--path", f"100Mbit/s,{2 * rtt}ms")]
        results.append(anabranch.json("compare", "dmptcp-eight-paths", *paths, "--no-other-starts", "--runs", 30))
    conditions = list(dict.fromkeys(row["condition"] for row in results[0]["rows"]))
    figure, panels = plt.subplots(1, len(conditions), figsize=(9, 3.6), sharey=True)
    for axes, condition in zip(panels, conditions):
        axes.axhline(0, color=STYLE["tcp"][0], linestyle="--", linewidth=1.5, label="tcp on the best path")
        for place, name in enumerate(("min_rtt", "dmptcp")):
            rows = [
                next(row for row in result["rows"] if (row["condition"], row["scheduler"]) == (condition, name))
                for result in results
            ]
            differences = [row["vs_reference_pct"] for row in rows]
            mean = [difference["mean"] for difference in differences]
            errors = [
                [m - difference["ci95"][0] for m, difference in zip(mean, differences)],
                [difference["ci95"][1] - m for m, difference in zip(mean, differences)],
            ]
            colour, marker, line = STYLE[name]
            # Side by side, so that no interval hides another.
            axes.errorbar(
                [count + 0.12 * (2 * place - 1) for count in counts], mean, yerr=errors, label=name, color=colour,
                marker=marker, linestyle=line, markersize=5, linewidth=1.5, capsize=3, elinewidth=1,
            )
        axes.set_title(condition.replace("=", " "), fontsize=10)
        axes.set_xlabel(f"so many of the paths of {', '.join(str(2 * rtt) for rtt in RTTS_MS)} ms", fontsize=8)
        axes.set_xticks(counts)
        axes.grid(alpha=0.25)
    panels[0].set_ylabel("mean completion time\nagainst tcp, %")
    panels[0].legend(frameon=False)
    return figure


def plot_schedulers(anabranch):
    """Completion times against the flow's size on two unequal paths, in multiples of the lower bound."""
    sizes = anabranch.points([10, 30, 100, 300, 1000, 3000, 10000])
    names = ["tcp", "min_rtt", "round_robin", "redundant", "dmptcp"]
    results = [
        anabranch.json(
            "compare", "--path", "50Mbit/s,20ms,loss=0.1%", "--path", "20Mbit/s,80ms,loss=0.1%",
            "--size", f"{size}KB", "--schedulers", ",".join(names), "--no-other-starts", "--runs", 200,
        )
        for size in sizes
    ]
    figure, axes = plt.subplots(figsize=(7, 3.8))
    for name in names:
        colour, marker, line = STYLE[name]
        times = [next(row for row in result["rows"] if row["scheduler"] == name) for result in results]
        axes.plot(
            sizes, [row["vs_lower_bound"] for row in times], label=name, color=colour, marker=marker, linestyle=line,
            markersize=5, linewidth=1.5,
        )
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size} KB" if size < 1000 else f"{size // 1000} MB" for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("size of the flow")
    axes.set_ylabel("mean completion time\n/ lower bound")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    return figure


def plot_congestion(anabranch):
    """Goodput of bulk flows against random loss on two equal paths."""
    losses = anabranch.points([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
    figure, axes = plt.subplots(figsize=(7, 3.8))
    styles = [("cubic", VERMILION, "D"), ("newreno", BLUE, "s"), ("lia", GREEN, "^")]
    for name, colour, marker in styles:
        goodput = []
        for loss in losses:
            result = anabranch.json(
                "compare", "--path", f"50Mbit/s,40ms,loss={loss}%", "--path", f"50Mbit/s,40ms,loss={loss}%",
                "--size", "bulk", "--cc", name, "--schedulers", "min_rtt",
                "--set", "traffic.duration=20s", "--no-other-starts", "--runs", 10,
            )
            goodput.append(result["rows"][0]["goodput_bps"] / 1e6)
        axes.plot(losses, goodput, label=name, color=colour, marker=marker, markersize=5, linewidth=1.5)
    axes.set_xscale("log")
    axes.set_xticks(losses, [f"{loss:g} %" for loss in losses])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("random loss on either path")
    axes.set_ylabel("goodput, Mbit/s")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    return figure


def plot_model(anabranch):
    """The transfer model: what a window of 8 segments delivers in up to six round trips."""
    figure, axes = plt.subplots(figsize=(7, 3.8))
    styles = [("0", BLACK, "o"), ("0.01%", BLUE, "s"), ("1%", GREEN, "^"), ("5%", VERMILION, "D")]
    for loss, colour, marker in styles:
        result = anabranch.json("model", "--cwnd", 8, "--rounds", 6, "--loss", loss)
        rounds = [0] + [entry["round"] for entry in result["rounds"]]
        segments = [0.0] + [entry["delivered_segments"] for entry in result["rounds"]]
        label = f"loss {loss}".replace("%", " %")
        axes.plot(rounds, segments, label=label, color=colour, marker=marker, markersize=5, linewidth=1.5)
    axes.set_xlabel("round trips of the fast path in one of the slow path")
    axes.set_ylabel("segments delivered")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    return figure


def plot_selection(anabranch):
    """How many of the paper's eight paths DMPTCP takes, by what remains to be sent."""
    figure, axes = plt.subplots(figsize=(7, 3.8))
    styles = [("0", BLACK, "-"), ("1%", GREEN, "-."), ("5%", VERMILION, "--")]
    sizes = anabranch.points([round(10 ** (exponent / 20)) for exponent in range(20, 101)])
    for loss, colour, line in styles:
        paths = [word for rtt in RTTS_MS for word in ("--path", f"100Mbit/s,{rtt}ms,loss={loss},cwnd=8")]
        counts = [len(anabranch.json("select", *paths, "--remaining", f"{size}KB")["selected"]) for size in sizes]
        label = f"loss {loss}".replace("%", " %")
        axes.step(sizes, counts, where="post", label=label, color=colour, linestyle=line, linewidth=1.5)
    axes.set_xscale("log")
    axes.set_xticks([10, 100, 1000, 10000, 100000], ["10 KB", "100 KB", "1 MB", "10 MB", "100 MB"])
    axes.minorticks_off()
    axes.set_yticks(range(1, len(RTTS_MS) + 1))
    axes.set_xlabel("what remains of the flow")
    axes.set_ylabel("paths taken, of eight")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    return figure


def plot_window_growth(_anabranch):
    """Windows of two subflows without a network: what the golden file of the tests says."""
    text = (ROOT / "crates" / "stack" / "tests" / "golden" / "window_growth.txt").read_text(encoding="utf-8")
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    panels = [
        ("every subflow by itself", ["newreno", "cubic", "vegas", "veno", "cubic_linux"]),
        ("coupled", ["lia", "olia", "balia", "wvegas", "sbd", "dwc"]),
    ]
    figure, axes = plt.subplots(2, 3, figsize=(9, 5.2), sharex=True, sharey="row")
    colours = [BLUE, VERMILION, GREEN, PURPLE, BLACK, AMBER]
    for line, (title, names) in zip(axes, panels):
        for place, (panel, ratio) in enumerate(zip(line, ("1", "2", "3"))):
            for name, colour in zip(names, colours):
                mine = [row for row in rows if (row["control"], row["ratio"]) == (name, ratio)]
                rounds = [int(row["round"]) for row in mine]
                panel.plot(rounds, [float(row["first"]) for row in mine], color=colour, label=name, linewidth=1.5)
                panel.plot(rounds, [float(row["second"]) for row in mine], color=colour, linestyle="--", linewidth=1)
            panel.set_title(f"{title}, round trips 1 to {ratio}", fontsize=8)
            panel.grid(alpha=0.25)
            # Linux's CUBIC grows by a twentieth in a round trip until a loss, out of the picture.
            shown = [float(row["first"]) for row in rows if row["control"] in names and row["control"] != "cubic_linux"]
            panel.set_ylim(0, 1.05 * max(shown))
            if place == 0:
                panel.set_ylabel("window, segments")
        line[0].legend(frameon=False, fontsize=7)
    for panel in axes[-1]:
        panel.set_xlabel("round trips of the first subflow")
    figure.tight_layout()
    return figure


def sends(capture):
    """The data segments in a capture of a simulated run: seconds, the link, first and last byte of the stream, why."""
    data, at, links, found = Path(capture).read_bytes(), 0, [], []
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        block = data[at + 8 : at + length - 4]
        at += length
        if kind == 1:  # An interface: its link type and snap length, and its name among the options.
            links.append(options(block[8:]).get(2, b"").decode())
        elif kind == 6:  # A packet, with a comment if it is data that the host sends.
            link, high, low, kept, _ = struct.unpack_from("<5I", block)
            comment = options(block[20 + (kept + 3) // 4 * 4 :]).get(1, b"").decode()
            stream = re.search(r"stream (\d+)\.\.(\d+)", comment)
            if stream:
                time = ((high << 32) + low) / 1e9
                found.append((time, links[link], int(stream[1]), int(stream[2]), comment))
    return found


def options(block):
    """The options of a block of a pcapng file, by code."""
    found, at = {}, 0
    while at + 4 <= len(block):
        code, length = struct.unpack_from("<HH", block, at)
        found[code] = block[at + 4 : at + 4 + length]
        at += 4 + (length + 3) // 4 * 4
    return found


def plot_scheduler(anabranch):
    """A picture for each scheduler: what it sends on which path, and when, in the scenario every-scheduler."""
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        flows = anabranch.json("run", "every-scheduler", "--pcap", f"{folder}/x.pcapng", "--pcap-snaplen", 120)["flows"]
        longest = max(flow["fct_s"] for flow in flows)
        for flow in flows:
            name = flow["scheduler"]
            figures[name] = picture_of(flow, sends(f"{folder}/x.{name}.pcapng"), longest)
    return figures


def picture_of(flow, segments, longest):
    """Time against the place in the stream; a line for what leaves at once, in the colour of its path."""
    figure, axes = plt.subplots(figsize=(6, 3))
    for path, colour, width in (("fast.up", BLUE, 1.6), ("slow.up", VERMILION, 2.4)):
        lines = []
        for time, link, first, last, _ in segments:
            if link != path:
                continue
            if lines and abs(lines[-1][0] - time) < 5e-4 and lines[-1][2] == first:
                lines[-1][2] = last
            else:
                lines.append([time, first, last])
        xs = [x for time, *_ in lines for x in (round(1e3 * time, 1), round(1e3 * time, 1), None)]
        ys = [y for _, first, last in lines for y in (first / 1e3, last / 1e3, None)]
        name = path.removesuffix(".up")
        axes.plot(xs, ys, color=colour, linewidth=width, solid_capstyle="butt", label=f"{name} path")
    axes.axvline(1e3 * flow["fct_s"], color=BLACK, linewidth=0.8, linestyle=":")
    axes.set_title(
        f"all is there after {1e3 * flow['fct_s']:.0f} ms, {flow['bytes_by_path'][1] / 1e3:.0f} KB of it by the slow path",
        fontsize=8, loc="left",
    )
    axes.set_xlim(0, 1050 * longest)
    axes.set_ylim(0, flow["size_bytes"] / 980)
    axes.set_xlabel("ms")
    axes.set_ylabel("place in the stream, KB")
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    return figure


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
    # Text as outlines, so that it looks the same everywhere; nothing that changes from day to day.
    plt.rcParams.update({"figure.max_open_warning": 0, "svg.fonttype": "path", "svg.hashsalt": "anabranch", "font.size": 9})
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.plots or PLOTS:
        drawn = PLOTS[name](Anabranch(options.binary, options.quick))
        # Several pictures of one kind are many: their letters are the viewer's.
        figures = {f"{name}_{part}": figure for part, figure in drawn.items()} if isinstance(drawn, dict) else {name: drawn}
        plt.rcParams["svg.fonttype"] = "none" if isinstance(drawn, dict) else "path"
        for file, figure in figures.items():
            figure.savefig(options.out / f"{file}.svg", bbox_inches="tight", metadata={"Date": None}, facecolor="white")
            plt.close(figure)
            print(options.out / f"{file}.svg")


if __name__ == "__main__":
    main()
