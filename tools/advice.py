#!/usr/bin/env python3
"""Whether the advice of `anabranch advise` holds: ten situations, each judged again in a larger comparison with another seed.

    cargo build --release --package anabranch-cli
    tools/advice.py                       the table of docs/advise.md
    tools/advice.py --only 3,6 --runs 40  two of the situations, faster

The larger comparison has TCP as advised, every scheduler that `advise` screens and every candidate that it judged, all from
the advised first path, and the effects of the other first paths. Advice is confirmed if

* the answer is the same: the advised way to send is better than TCP with an interval beside zero; or, if the advice is TCP,
  no way is better by more than the least effect that counts;
* no other way to send has a mean that is better by more than the tolerance; and
* no other first path makes the advised way better by more than the tolerance, with an interval beside zero.
"""

import argparse
import json
import os
import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SCREENED = ["linux", "min_rtt", "dmptcp", "blest", "ecf", "stms_a", "redundant", "anabranch"]
# The share by which another way to send, or start, may be better.
TOLERANCE = 0.02

SITUATIONS = [
    ("a phone with good Wi-Fi", "--path wifi --path lte --size 1MB"),
    ("a phone at the edge of Wi-Fi", "--path 2Mbit/s,60ms,loss=3%,name=wifi --path lte --size 1MB"),
    ("two DSL lines", "--path dsl --path dsl --size bulk"),
    ("LTE and a satellite", "--path lte --path satellite-geo --size 5MB"),
    ("two links of a data centre", "--path 1Gbit/s,200us --path 1Gbit/s,200us --size 10MB"),
    ("short web objects over unequal paths", "--path 50Mbit/s,20ms --path 10Mbit/s,100ms --size 30KB"),
    ("bulk with a lossy path", "--path 20Mbit/s,40ms --path 20Mbit/s,40ms,loss=2% --size bulk"),
    ("a small receive buffer", "--path 20Mbit/s,20ms --path 10Mbit/s,200ms --size 4MB --set receive-buffer=128KB"),
    ("very unequal delays", "--path 20Mbit/s,10ms --path 20Mbit/s,300ms --size 2MB"),
    ("identical paths", "--path 20Mbit/s,30ms --path 20Mbit/s,30ms --size 4MB"),
]


def output(command):
    done = subprocess.run([*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(done.stdout)


def contender(name, scheduler, congestion):
    extra = f', congestion = "{congestion}"' if congestion else ""
    return f'{{ scheduler = "{scheduler}", name = "{name}"{extra} }}'


def larger(args, options, advice):
    """The comparison of all ways to send from the advised first path."""
    ways = {name: (name, None) for name in SCREENED}
    ways.update({one["name"]: (one["scheduler"], one["congestion"]) for one in advice["candidates"]})
    contenders = [contender("tcp", "tcp", advice["single_congestion"])]
    contenders += [contender(name, *way) for name, way in ways.items()]
    paths = advice["judgement"]["conditions"][0]["paths"]
    spoken = [name if not name.isdigit() else f"path {name}" for name in paths]
    command = [args.binary, "compare", *options, "--runs", str(args.runs), "--seed", str(args.seed), "--jobs", args.jobs]
    command += ["--set", f"schedulers=[{', '.join(contenders)}]", "--reference", "tcp"]
    return output([*command, "--set", f"initial={spoken.index(advice['start']) + 1}"])


def judge(advice, comparison):
    """The differences of the advised way in the larger comparison, and the reasons against the advice."""
    bulk, best = advice["bulk"], advice["best"]["name"]
    sign = 1 if bulk else -1
    least = comparison["min_effect_pct"]
    rows = {row["scheduler"]: row for row in comparison["rows"]}
    # Gains in percent, positive if better.
    gains = {name: sign * row["vs_reference_pct"]["mean"] for name, row in rows.items() if name != "tcp"}
    bounds = {
        name: sorted(sign * end for end in rows[name]["vs_reference_pct"]["ci95"]) for name in gains
    }
    against = []
    answer = advice["answer"]
    if answer == "pays" and bounds[best][0] <= 0:
        against.append(f"{best} gains {gains[best]:+.1f} %")
    if answer != "pays":
        better = [name for name in gains if bounds[name][0] > 0 and gains[name] > least]
        against += [f"{name} gains {gains[name]:+.1f} %" for name in better]
    else:
        value = {name: row["goodput_bps"] if bulk else row["fct_s"]["mean"] for name, row in rows.items()}
        for name in gains:
            ratio = value[name] / value[best] if bulk else value[best] / value[name]
            if ratio > 1 + TOLERANCE:
                against.append(f"{name} is {100 * (ratio - 1):.1f} % better")
        for other in comparison["conditions"][0]["other_starts"]:
            for change in other["changes"]:
                effect = change["difference_pct"]
                if change["scheduler"] != best or effect is None or effect["ci95"] is None:
                    continue
                low = min(sign * end for end in effect["ci95"])
                if sign * effect["mean"] > 100 * TOLERANCE and low > 0:
                    against.append(f"starting on {other['path']} is {sign * effect['mean']:.1f} % better")
    return gains, bounds, against


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(TARGET / "release" / "anabranch"))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=2027)
    parser.add_argument("--jobs", default="0")
    parser.add_argument("--only", help="numbers of situations, such as 3,6")
    parser.add_argument("--application", default="anabranch", help="anabranch, which may have every way to send, or kernel")
    args = parser.parse_args()
    numbers = [int(number) for number in args.only.split(",")] if args.only else range(1, len(SITUATIONS) + 1)
    print(f"| situation | `anabranch advise --application {args.application} --min-gain 1% ... --no-margins` | advice | {args.runs} other runs | confirmed |")
    print("|---|---|---|---|---|")
    doubted = 0
    for number in numbers:
        name, text = SITUATIONS[number - 1]
        options = shlex.split(text)
        application = ["--application", args.application, "--min-gain", "1%"]
        advice = output([args.binary, "advise", *options, *application, "--no-margins", "--jobs", args.jobs])
        gains, bounds, against = judge(advice, larger(args, options, advice))
        best, sign = advice["best"]["name"], 1 if advice["bulk"] else -1
        single = f"TCP{' with ' + advice['single_congestion'] if advice['single_congestion'] else ''} on {advice['single_path']}"
        told = f"{sign * advice['difference_pct']['mean']:+.1f} %"
        said = f"{best}, starting on {advice['start']}: {told}" if advice["answer"] == "pays" else f"{single}: {advice['answer']} ({best} {told})"
        found = f"{gains[best]:+.1f} % [{bounds[best][0]:+.1f}, {bounds[best][1]:+.1f}]"
        doubted += bool(against)
        verdict = "yes" if not against else "no: " + "; ".join(against)
        print(f"| {name} | `{text}` | {said} | {found} | {verdict} |", flush=True)
    return doubted


if __name__ == "__main__":
    raise SystemExit(main())
