#!/usr/bin/env python3
"""How much the phases of runs matter: random two-path scenarios compared with phases and without.

    cargo build --release --package anabranch-cli
    tools/phases.py                        200 scenarios without random loss
    tools/phases.py --loss 3               200 scenarios with losses up to 3 %
    tools/phases.py --flows 20             20 flows together, each of a twentieth of the size
    tools/phases.py --csv phases.csv       one line for each scenario, too

Rates from 1 to 200 Mbit/s, round trips from 5 to 300 ms, queues from 0.25 to 4 BDP, sizes from 10 KB to 20 MB, all
log-uniform. Without random loss and without phases all runs are the same, so one is enough there.
"""

import argparse
import csv
import json
import os
import subprocess
from pathlib import Path

import random_paths

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def compare(binary, options, *more):
    command = [binary, "compare", *options, "--set", "deadline=1000s", "--no-other-starts", "--json", *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    result = json.loads(done.stdout)
    return result["verdicts"][0], {row["scheduler"]: row["fct_s"]["mean"] for row in result["rows"]}


def leaders(means):
    """Those within 1 % of the best."""
    best = min(means.values())
    return sorted(name for name, mean in means.items() if mean <= 1.01 * best)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", type=int, default=200)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--loss", type=float, default=0.0, help="the greatest loss, in percent")
    parser.add_argument("--flows", type=int, default=1)
    parser.add_argument("--jobs", default="0")
    parser.add_argument("--csv")
    parser.add_argument("--binary", default=str(TARGET / "release" / "anabranch"))
    args = parser.parse_args()
    lines = []
    for number in range(args.scenarios):
        options = random_paths.scenario("phases", number, lambda stream: stream.uniform(0, args.loss), args.flows)
        runs = ["--runs", str(args.runs), "--jobs", args.jobs]
        few = ["--runs", str(args.runs if args.loss else 1), "--jobs", args.jobs]
        verdict, with_phases = compare(args.binary, options, *runs)
        _, without = compare(args.binary, options, *few, "--set", "phases=false")
        named = min(without, key=without.get)
        lines.append({
            "options": " ".join(options),
            "without": "/".join(leaders(without)),
            "with": "/".join(leaders(with_phases)),
            "regret_pct": 100 * (with_phases[named] / min(with_phases.values()) - 1),
            "moved_pct": max(100 * abs(with_phases[name] / without[name] - 1) for name in without),
            "outcome": verdict["outcome"],
            "best": "/".join(verdict["best"]),
        })
    if args.csv:
        with open(args.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, lines[0])
            writer.writeheader()
            writer.writerows(lines)
    count = lambda found: sum(1 for line in lines if found(line))  # noqa: E731
    split = lambda text: set(text.split("/"))  # noqa: E731
    moved = sorted(line["moved_pct"] for line in lines)
    rows = {
        "scenarios": len(lines),
        "others lead: nobody within 1 % of the best without phases is so with them":
            count(lambda line: not split(line["without"]) & split(line["with"])),
        "the leaders (within 1 % of the best) are not the same ones": count(lambda line: line["without"] != line["with"]),
        "tcp is among the leaders with phases alone, or without alone":
            count(lambda line: ("tcp" in split(line["without"])) != ("tcp" in split(line["with"]))),
        "the best without phases is more than 1 % worse than the best with": count(lambda line: line["regret_pct"] > 1),
        "... more than 5 % worse": count(lambda line: line["regret_pct"] > 5),
        "a mean moves by more than 1 %": count(lambda line: line["moved_pct"] > 1),
        "... by more than 5 %": count(lambda line: line["moved_pct"] > 5),
        "median of the greatest move of a mean": f"{moved[len(moved) // 2]:.2f} %",
        "the greatest move of all": f"{moved[-1]:.1f} %",
        "the verdict over phases names no winner (cannot be told apart)":
            count(lambda line: line["outcome"] == "undecided"),
    }
    print("| | |\n|---|---|")
    for what, value in rows.items():
        print(f"| {what} | {value} |")


if __name__ == "__main__":
    main()
