#!/usr/bin/env python3
"""How often the intervals of `anabranch compare` contain the truth.

    cargo build --release --package anabranch-cli
    tools/coverage.py                 100 seeds of 30 runs against 2000 runs with another seed
    tools/coverage.py --seeds 400
    tools/coverage.py --fairness      goodputs, Jain's index and the differences from fair shares

Prints a table: for each scenario the share of seeds whose interval has the true mean, and the share whose
intervals of all differences have the true differences together. Both should be 93 to 97 % (with 100 seeds chance
alone moves them by 2 %).
"""

import argparse
import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# `tcp@1` stays on its path, so that the truth is of the same path.
SCENARIOS = {
    "three flows of 100 KB, 0.5 % loss": [
        "--path", "20Mbit/s,20ms,loss=0.5%", "--path", "10Mbit/s,40ms,loss=0.5%", "--size", "100KB", "--flows", "3",
    ],
    "one flow of 300 KB, 1 % loss": [
        "--path", "20Mbit/s,20ms,loss=1%", "--path", "10Mbit/s,40ms,loss=1%", "--size", "300KB",
    ],
    "ten web-like flows up to 200 KB, no loss": [
        "--path", "20Mbit/s,20ms", "--path", "10Mbit/s,40ms", "--size", "web", "--flows", "10",
        "--set", "traffic.max=200KB",
    ],
}


FAIRNESS = {
    "beside a TCP on path 1, losses": [
        "--path", "20Mbit/s,20ms,loss=0.5%", "--path", "10Mbit/s,40ms,loss=1%", "--size", "bulk",
        "--set", "traffic.duration=1s", "--set", "traffic.beside={flows=1,path=1}",
    ],
    "three flows, 0.3 % loss on path 1": [
        "--path", "20Mbit/s,20ms,loss=0.3%", "--path", "10Mbit/s,40ms", "--flows", "3", "--size", "bulk",
        "--set", "traffic.duration=1s",
    ],
    "five web-like flows beside five TCPs": [
        "--path", "20Mbit/s,20ms,loss=0.5%", "--path", "10Mbit/s,40ms,loss=1%", "--size", "web", "--flows", "5",
        "--set", "traffic.max=200KB", "--set", "traffic.beside={flows=5,path=1}",
    ],
}


def compare(binary, options, runs, seed):
    command = [binary, "compare", *options, "--schedulers", "tcp@1,min_rtt,dmptcp", "--no-other-starts", "--json"]
    command += ["--runs", str(runs), "--seed", str(seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(done.stdout)["rows"]


def inside(value, truth):
    low, high = value["ci95"]
    return low - 1e-9 <= truth["mean"] <= high + 1e-9


def fairness(args):
    """The least and the greatest share of seeds among all intervals of a kind, and the family's share."""
    schedulers = ["--schedulers", "min_rtt,dmptcp", "--reference", "min_rtt"]

    def shares(runs, seed):
        command = [args.binary, "compare", *options, *schedulers, "--json", "--runs", str(runs), "--seed", str(seed)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        found = json.loads(done.stdout)["fairness"]
        parties = [party for one in found for party in one["parties"] or one["flows"]]
        return {
            "Jain's index": [one["jain"] for one in found],
            "goodput": [party["goodput_bps"] for party in parties],
            "difference from the fair share": [party["vs_fair_pct"] for party in parties],
        }

    print("| scenario | Jain's index | goodput | difference from the fair share | all differences together |")
    print("|---|---|---|---|---|")
    for name, options in FAIRNESS.items():
        truth = shares(args.truth, 1_000_000)
        counts, together = {kind: [0] * len(values) for kind, values in truth.items()}, 0
        for seed in range(1, args.seeds + 1):
            for kind, values in shares(args.runs, seed).items():
                hits = [inside(value, true) for value, true in zip(values, truth[kind])]
                counts[kind] = [count + hit for count, hit in zip(counts[kind], hits)]
            together += all(hits)
        percent = [f"{100 * min(kind) / args.seeds:.0f} to {100 * max(kind) / args.seeds:.0f} %" for kind in counts.values()]
        print(f"| {name} | " + " | ".join(percent) + f" | {100 * together / args.seeds:.0f} % |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--truth", type=int, default=2000, help="runs of the truth")
    parser.add_argument("--binary", default=str(TARGET / "release" / "anabranch"))
    parser.add_argument("--fairness", action="store_true", help="the intervals of fairness in place of times")
    args = parser.parse_args()
    if args.fairness:
        fairness(args)
        return
    print("| scenario | mean of tcp | mean of min_rtt | mean of dmptcp | both differences together |")
    print("|---|---|---|---|---|")
    for name, options in SCENARIOS.items():
        truth = compare(args.binary, options, args.truth, 1_000_000)
        means, together = [0] * len(truth), 0
        for seed in range(1, args.seeds + 1):
            rows = compare(args.binary, options, args.runs, seed)
            inside = []
            for place, (row, true) in enumerate(zip(rows, truth)):
                low, high = row["fct_s"]["ci95"]
                means[place] += low <= true["fct_s"]["mean"] <= high
                low, high = row["vs_reference_pct"]["ci95"]
                inside.append(low - 1e-9 <= true["vs_reference_pct"]["mean"] <= high + 1e-9)
            together += all(inside)
        shares = [f"{100 * count / args.seeds:.1f} %" for count in [*means, together]]
        print(f"| {name} | " + " | ".join(shares) + " |", flush=True)


if __name__ == "__main__":
    main()
