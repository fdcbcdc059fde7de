#!/usr/bin/env python3
"""How often the intervals of `anabranch compare` contain the truth.

    cargo build --release --package anabranch-cli
    tools/coverage.py                 100 seeds of 30 runs against 2000 runs with another seed
    tools/coverage.py --seeds 400
    tools/coverage.py --fairness      goodputs, Jain's index and the differences from fair shares
    tools/coverage.py --random 200    random scenarios, a third of them with rare timeouts: 20 seeds of 30 runs each
    tools/coverage.py --random 200 --rounds
                                      the same, each with the number of runs that `compare` finds itself
    tools/coverage.py --random 200 --journal FILE
                                      continues where FILE ends: a line for each scenario
    tools/coverage.py --random 200 --journal NEW --truths FILE
                                      the truths of an earlier journal: for a change of the intervals, not of the runs
    tools/coverage.py --only 17,44 --seeds 200 --first-seed 5001
                                      some of the random scenarios, with other seeds

Prints a table: for each scenario the share of seeds whose interval has the true mean, and the share whose
intervals of all differences have the true differences together. Both should be 93 to 97 % (with 100 seeds chance
alone moves them by 2 %).
"""

import argparse
import json
import math
import os
import random
import statistics
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


def inside(value, truth, least=1e-9):
    low, high = value["ci95"]
    return low - least <= truth["mean"] <= high + least


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


KINDS = {"rare": "rare losses, 0.1 to 1 %", "often": "losses, 1 to 4 %", "trace": "no loss, one trace"}
# A difference is missed by more than the least effect if the truth is more than 1 % beside the interval.
MEASURES = {
    "mean": "means", "differences": "differences together", "near": "the same to within 1 %", "p95": "p95 of the best",
}

# Half widths of intervals, in percent of the mean (of a difference in percentage points).
WIDTHS = {
    "shown": "mean, events that runs have shown", "width": "mean, with the bound", "difference_width": "difference",
}


def random_scenario(number):
    """Two random paths and short flows. Every third scenario loses 0.1 to 1 % of its packets, so that thirty runs often
    have no timeout; another third loses 1 to 4 %, and the last one nothing, with a trace on one path. Half of each are
    uploads."""
    stream = random.Random(f"coverage {number}")
    log = lambda low, high: math.exp(stream.uniform(math.log(low), math.log(high)))  # noqa: E731
    kind = ("rare", "often", "trace")[number % 3]
    loss = {"rare": (0.1, 1), "often": (1, 4), "trace": (0, 0)}[kind]
    paths = []
    for _ in range(2):
        lost = f",loss={stream.uniform(*loss):.2f}%" if loss[1] else ""
        paths += ["--path", f"{log(2, 50) * 1000:.0f}kbit/s,{log(5, 150) * 1000:.0f}us,queue={log(0.5, 4):.2f}BDP{lost}"]
    if kind == "trace":
        traces = Path("scenarios") / "traces"
        paths[3] = f"trace={traces / 'synthetic-lte.down'}:{traces / 'synthetic-lte.up'},{log(20, 80):.0f}ms"
    flows = stream.choice([1, 4])
    size = log(10_000, 300_000) / flows
    direction = ("download", "upload")[number // 3 % 2]
    options = [*paths, "--size", f"{size:.0f}B", "--flows", str(flows), "--set", f"traffic.direction={direction}"]
    return kind, direction, [*options, "--set", "deadline=1000s"]


def hits_of(args, number, known=None):
    """For each measure whether the interval of each seed has the truth, which is `known` from an earlier journal."""
    kind, direction, options = random_scenario(number)

    def measure(runs, seed):
        command = [args.binary, "compare", *options, "--schedulers", "tcp@1,min_rtt,dmptcp", "--no-other-starts"]
        command += ["--json", "--jobs", "1", "--seed", str(seed)] + (["--runs", str(runs)] if runs else [])
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, cwd=ROOT)
        return json.loads(done.stdout)

    truth = known or [
        {"scheduler": row["scheduler"], "fct_s": {of: row["fct_s"][of] for of in ("mean", "p95")},
         "vs_reference_pct": {"mean": row["vs_reference_pct"]["mean"]}}
        for row in measure(args.truth, 1_000_000 + number)["rows"]
    ]  # fmt: skip
    tails = {row["scheduler"]: row["fct_s"]["p95"] for row in truth}
    found = {"number": number, "kind": kind, "direction": direction, "options": " ".join(options), "runs": []}
    found.update(truth=truth, intervals=[])
    found.update((name, []) for name in [*MEASURES, *WIDTHS])
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        few = measure(None if args.rounds else args.runs, seed + 10_000 * number)
        found["runs"].append(few["runs"])
        pairs = list(zip(few["rows"], truth))
        for row, true in pairs:
            low, high = row["fct_s"]["ci95"]
            found["intervals"].append([low, row["fct_s"]["mean"], high])
            found["mean"].append(low - 1e-9 <= true["fct_s"]["mean"] <= high + 1e-9)
            # The bound for unseen events raises the upper end of the interval of a mean time only.
            mean = row["fct_s"]["mean"]
            found["width"].append(50 * (high - low) / mean)
            found["shown"].append(100 * (mean - low) / mean)
            low, high = row["vs_reference_pct"]["ci95"]
            if low < high:
                found["difference_width"].append((high - low) / 2)
        differences = [(row["vs_reference_pct"], true["vs_reference_pct"]) for row, true in pairs]
        found["differences"].append(all(inside(row, true) for row, true in differences))
        found["near"].append(all(inside(row, true, least=1.0) for row, true in differences))
        for verdict in few["verdicts"]:
            if verdict["measure"] == "p95":
                true = 100 * (tails[verdict["compared"]] / tails[verdict["reference"]] - 1)
                found["p95"].append(inside(verdict["difference_pct"], {"mean": true}))
    return found


def random_coverage(args):
    """The shares of all intervals that have the truth: of the means, of all differences together, and of the p95."""
    numbers = [int(number) for number in args.only.split(",")] if args.only else range(args.random)
    every = []
    if args.journal and Path(args.journal).exists():
        every = [json.loads(line) for line in Path(args.journal).read_text().splitlines()]
    known = {found["number"] for found in every}
    lines = Path(args.truths).read_text().splitlines() if args.truths else []
    truths = {found["number"]: found["truth"] for found in map(json.loads, lines)}
    for number in numbers:
        if number in known:
            continue
        every.append(hits_of(args, number, truths.get(number)))
        if args.journal:
            with open(args.journal, "a") as journal:
                journal.write(json.dumps(every[-1]) + "\n")
    every = [found for found in every if found["number"] in numbers]
    share = lambda hits: 100 * sum(hits) / len(hits)  # noqa: E731

    def row(name, chosen):
        hits = [[hit for found in chosen for hit in found.get(of, [])] for of in MEASURES]
        print(f"| {name} | {len(chosen)} | " + " | ".join(f"{share(own):.1f} % of {len(own)}" if own else "-" for own in hits) + " |")

    print("| scenarios | | " + " | ".join(MEASURES.values()) + " |\n|---|---|---|---|---|---|")
    for kind, name in KINDS.items():
        row(name, [found for found in every if found["kind"] == kind])
    for direction in ("download", "upload"):
        row(f"{direction}s", [found for found in every if found["direction"] == direction])
    row("all", every)
    print("\n| half width, median (95th percentile) | " + " | ".join(WIDTHS.values()) + " |\n|---|---|---|---|")
    for kind, name in KINDS.items():
        widths = [[w for found in every if found["kind"] == kind for w in found.get(of, [])] for of in WIDTHS]
        spread = lambda own: f"{statistics.median(own):.1f} % ({statistics.quantiles(own, n=20)[-1]:.1f} %)"  # noqa: E731
        print(f"| {name} | " + " | ".join(spread(own) if len(own) > 1 else "-" for own in widths) + " |")
    for of, name in MEASURES.items():
        shares = sorted((share(found[of]), found["number"]) for found in every if found.get(of))
        low = [f"{number} ({value:.0f} %)" for value, number in shares if value < 85]
        if shares:
            print(f"\n{name}: the worst scenario {shares[0][0]:.0f} %; below 85 %: {', '.join(low) or 'none'}")
    runs = [count for found in every for count in found["runs"]]
    print(f"\n{min(runs)} to {max(runs)} runs, {sum(runs) / len(runs):.0f} on average")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, help="default 100, of random scenarios 20")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--truth", type=int, default=2000, help="runs of the truth")
    parser.add_argument("--binary", default=str(TARGET / "release" / "anabranch"))
    parser.add_argument("--fairness", action="store_true", help="the intervals of fairness in place of times")
    parser.add_argument("--random", type=int, metavar="N", help="N random scenarios")
    parser.add_argument("--rounds", action="store_true", help="random scenarios without --runs")
    parser.add_argument("--only", metavar="NUMBERS", help="random scenarios by number, such as 17,44")
    parser.add_argument("--first-seed", type=int, default=1, help="of a random scenario")
    parser.add_argument("--journal", metavar="FILE", help="random scenarios: results that are continued")
    parser.add_argument("--truths", metavar="JOURNAL", help="an earlier journal of the same scenarios and runs")
    args = parser.parse_args()
    is_random = args.random or args.only
    args.seeds = args.seeds or (20 if is_random else 100)
    if is_random:
        random_coverage(args)
        return
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
