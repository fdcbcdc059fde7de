#!/usr/bin/env python3
"""How often the verdict of `anabranch compare` is right, over random two-path scenarios.

    cargo build --release --package anabranch-cli
    tools/verdicts.py                         200 scenarios, 30 runs each, against 1000 runs with other seeds
    tools/verdicts.py --results verdicts.ndjson
                                              keeps each scenario as it is done, and goes on from there

Rates from 1 to 200 Mbit/s, round trips from 5 to 300 ms, queues from 0.25 to 4 BDP, sizes from 10 KB to 20 MB, all
log-uniform; half of the paths lose nothing, the others up to 3 %. The truth is the mean of every contender, and of a
plain TCP on either path, over the many runs. A verdict *names a winner* if it says that one contender is best; where it
says that several are best and cannot be told apart, that is counted on its own. A winner is right if its true mean is within
1 % of the best one. The sign is wrong if the verdict finds a multipath scheduler faster than the best single path and it is
slower, or the other way round.
"""

import argparse
import json
import os
import subprocess
from pathlib import Path

import random_paths

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# Seeds of the truth begin here; those of the verdicts are small.
TRUTH = 1_000_000


def loss(stream):
    return stream.uniform(0, 3) if stream.random() < 0.5 else 0.0


def compare(args, options, runs, seed, *more):
    command = [args.binary, "compare", *options, "--runs", str(runs), "--seed", str(seed), "--jobs", args.jobs]
    command += ["--set", "deadline=10000s", "--json", *args.option, *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def examine(args, number):
    """The verdict of a scenario and the true means."""
    options = random_paths.scenario("verdicts", number, loss)
    few = compare(args, options, args.runs, number + 1)
    verdict = next(verdict for verdict in few["verdicts"] if verdict["measure"] == "mean_time")
    truth = compare(args, options, args.truth, TRUTH + number, "--every-path")
    means = {row["scheduler"]: row["fct_s"]["mean"] for row in truth["rows"]}
    setting = few["conditions"][0]
    chosen = next(at for at, path in enumerate(setting["single_paths"], 1) if path["chosen"])
    true = next(at for at, path in enumerate(truth["conditions"][0]["single_paths"], 1) if path["chosen"])
    single = {f"{at}": means["tcp" if at == true else f"tcp@{at}"] for at in (1, 2)}
    others = {name: mean for name, mean in means.items() if not name.startswith("tcp")}
    return {
        "number": number,
        "options": " ".join(options),
        "outcome": verdict["outcome"],
        "best": verdict["best"],
        "tied": verdict["tied"],
        "compared": verdict["compared"],
        "difference_pct": verdict["difference_pct"],
        "tcp_path": str(chosen),
        "true_single_s": single,
        "true_s": others,
    }


def judge(line):
    """What is right and wrong about a verdict."""
    least_single = min(line["true_single_s"].values())
    least = min(least_single, *line["true_s"].values())
    true = {**line["true_s"], "tcp": line["true_single_s"][line["tcp_path"]]}
    regret = {name: 100 * (true[name] / least - 1) for name in line["best"]}
    group = {name: regret[name] for name in line["best"][:1] + line["tied"]}
    said, is_so = line["difference_pct"]["mean"], 100 * (true[line["compared"]] / least_single - 1)
    return {
        "names": line["outcome"] == "best" and not line["tied"],
        "several": line["outcome"] == "best" and bool(line["tied"]),
        "regret_pct": regret[line["best"][0]] if line["best"] else None,
        "group_regret_pct": min(group.values(), default=None),
        "said_pct": said,
        "true_pct": is_so,
        "wrong_sign": line["outcome"] == "best" and said * is_so < 0,
        "not_equal": line["outcome"] == "equal" and abs(is_so) > 1,
        "baseline_pct": 100 * (true["tcp"] / least_single - 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", type=int, default=200)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--truth", type=int, default=1000, help="runs of the truth")
    parser.add_argument("--jobs", default="0")
    parser.add_argument("--option", action="append", default=[], help="a further option of compare, such as --option=--cc=lia")
    parser.add_argument("--results", type=Path, help="a file with one line of JSON for each scenario")
    parser.add_argument("--binary", default=str(TARGET / "release" / "anabranch"))
    args = parser.parse_args()
    lines = []
    if args.results and args.results.exists():
        lines = [json.loads(line) for line in args.results.read_text(encoding="utf-8").splitlines()]
    done = {line["number"] for line in lines}
    for number in (number for number in range(args.scenarios) if number not in done):
        lines.append(examine(args, number))
        if args.results:
            with args.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(lines[-1]) + "\n")
    judged = [(line, judge(line)) for line in sorted(lines, key=lambda line: line["number"])]
    count = lambda found: sum(1 for line, verdict in judged if found(line, verdict))  # noqa: E731
    named = [verdict for _, verdict in judged if verdict["names"]]
    several = [verdict for _, verdict in judged if verdict["several"]]
    share = lambda part, whole: f"{len(part)} of {len(whole)}"  # noqa: E731
    rows = [
        ("scenarios", len(judged)),
        ("the verdict names a winner", len(named)),
        ("... which is truly within 1 % of the best", share([v for v in named if v["regret_pct"] <= 1], named)),
        ("the verdict names several that cannot be told apart", len(several)),
        ("... one of which is truly within 1 % of the best", share([v for v in several if v["group_regret_pct"] <= 1], several)),
        ("wrong sign against the best single path", count(lambda _, verdict: verdict["wrong_sign"])),
        ("\"cannot be told apart\"", count(lambda line, _: line["outcome"] == "undecided")),
        ("\"practically equal\"", count(lambda line, _: line["outcome"] == "equal")),
        ("... and truly more than 1 % apart", count(lambda _, verdict: verdict["not_equal"])),
        ("tcp is on a path that is more than 1 % slower than the best", count(lambda _, v: v["baseline_pct"] > 1)),
    ]
    print("| | |\n|---|---|")
    for what, value in rows:
        print(f"| {what} | {value} |")
    wrong = [(line, v) for line, v in judged if v["wrong_sign"] or v["not_equal"] or (v["names"] and v["regret_pct"] > 1)]
    if wrong:
        print("\n| scenario | verdict | difference found, % | true, % | winner to the best, % |\n|---|---|---|---|---|")
    for line, verdict in wrong:
        name = "/".join(line["best"]) or line["outcome"]
        regret = "-" if verdict["regret_pct"] is None else f"{verdict['regret_pct']:.1f}"
        print(f"| `{line['options']}` | {name} | {verdict['said_pct']:+.1f} | {verdict['true_pct']:+.1f} | {regret} |")


if __name__ == "__main__":
    main()
