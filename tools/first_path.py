#!/usr/bin/env python3
"""How much the path of the first subflow matters: random two-path scenarios from either start.

    cargo build --release --package anabranch-cli
    tools/first_path.py                        160 scenarios
    tools/first_path.py --csv first.csv        one line for each scenario, too

Rates from 2 to 200 Mbit/s, round trips from 5 to 300 ms and sizes from 10 KB to 20 MB are log-uniform, losses uniform up
to 3 %; downloads, profile linux. One comparison of each scenario has all that is needed: its first path is arbitrary,
since the paths are drawn alike, `other_starts` says what the other one would change, and `estimates_s` on which path
`initial = "best"` would start. Schedulers are compared with a plain TCP on the best path as measured.
"""

import argparse
import csv
import json
import math
import os
import random
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SCHEDULERS = ["linux", "min_rtt", "dmptcp"]


def log_uniform(stream, low, high):
    return math.exp(stream.uniform(math.log(low), math.log(high)))


def scenario(number, most_loss):
    """The options of a random scenario."""
    stream = random.Random(f"first path {number}")
    options = []
    for _ in range(2):
        rate, rtt, loss = log_uniform(stream, 2, 200), log_uniform(stream, 5, 300), stream.uniform(0, most_loss)
        options += ["--path", f"{rate * 1000:.0f}kbit/s,{rtt * 1000:.0f}us,loss={loss:.2f}%"]
    return [*options, "--size", f"{log_uniform(stream, 10_000, 20_000_000):.0f}B"]


def measure(args, number):
    """A line of the table: for each scheduler the mean against tcp's from the first path, the best, and the better one."""
    options = scenario(number, args.loss)
    command = [args.binary, "compare", *options, "--set", "deadline=1000s", "--runs", str(args.runs), "--jobs", args.jobs]
    done = subprocess.run([*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    result = json.loads(done.stdout)
    setting = result["conditions"][0]
    estimates = setting["estimates_s"]
    best = 0 if estimates[0] <= estimates[1] else 1
    means = {row["scheduler"]: row["fct_s"]["mean"] for row in result["rows"]}
    single = next(path["path"] for path in setting["single_paths"] if path["chosen"])
    line = {
        "options": " ".join(options),
        "best_is_best_tcp": int(single == str(best + 1)),
        "decisive": int(setting["decisive_start"] is not None),
        "spread": max(means[name] for name in SCHEDULERS) / min(means[name] for name in SCHEDULERS),
    }
    for change in setting["other_starts"][0]["changes"]:
        name = change["scheduler"]
        first = means[name] / means["tcp"]
        other = first * (1 + change["difference_pct"]["mean"] / 100)
        line[f"{name} first"] = first
        line[f"{name} best"] = (first, other)[best]
        line[f"{name} better"] = min(first, other)
        line[f"{name} change"] = max(other / first, first / other)
    return line


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", type=int, default=160)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--loss", type=float, default=3.0, help="the greatest loss, in percent")
    parser.add_argument("--jobs", default="0")
    parser.add_argument("--csv")
    parser.add_argument("--binary", default=str(TARGET / "release" / "anabranch"))
    args = parser.parse_args()
    lines = [measure(args, number) for number in range(args.scenarios)]
    if args.csv:
        with open(args.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, lines[0])
            writer.writeheader()
            writer.writerows(lines)
    count = len(lines)
    share = lambda found: f"{100 * sum(map(found, lines)) / count:.0f} %"  # noqa: E731
    print(f"{count} scenarios, {args.runs} runs each\n")
    print("| more than 2 % slower than the best single TCP (95th percentile of the ratio) | " + " | ".join(SCHEDULERS) + " |")
    print("|---|" + "---|" * len(SCHEDULERS))
    for start, what in [
        ("first", "an arbitrary path first"), ("best", "`initial = \"best\"`"), ("better", "the better start as measured"),
    ]:
        cells = []
        for name in SCHEDULERS:
            key = f"{name} {start}"
            slower = share(lambda line, key=key: line[key] > 1.02)
            cells.append(f"{slower} ({percentile([line[key] for line in lines], 0.95):.2f})")
        print(f"| {what} | " + " | ".join(cells) + " |")
    changes = [line["min_rtt change"] for line in lines]
    print()
    print(f"median factor between the two starts: {percentile(changes, 0.5):.2f} (min_rtt)")
    print(f"median factor between the best and the worst scheduler: {percentile([line['spread'] for line in lines], 0.5):.3f}")
    print("the first path matters more than the scheduler, by the verdict:", share(lambda line: line["decisive"]))
    print("`best` is the path of the best single TCP:", share(lambda line: line["best_is_best_tcp"]))


if __name__ == "__main__":
    main()
