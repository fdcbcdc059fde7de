#!/usr/bin/env python3
"""How schedulers compare with a TCP on the best single path, over sets of random scenarios.

    cargo build --release --package anabranch-cli
    tools/landscape.py validate                          150 scenarios, from an arbitrary path and from the remembered best one
    tools/landscape.py train --first 40 --schedulers backup,anabranch --starts best
    tools/landscape.py train --schedulers anabranch:tail=0,anabranch --worst anabranch     one part off, and the scenarios to look at
    tools/landscape.py train --starts race,race=10ms     nothing known, with a race of the first subflow, and its delay
    tools/landscape.py train --json train.json           all figures, one object for each scenario, start and scheduler
    tools/landscape.py train --json train.json --schedulers anabranch --again
                                                         measures `anabranch` anew, and takes the others from the file

The sets *train*, *validate* and *test* are drawn from different seeds: schedulers are developed on *train* and chosen by *validate*;
*test* is looked at once, at the end. *large* is drawn like them, for `--first 1000`, and nothing was developed on it. A scenario has 2 to 4 paths of 1 to 300 Mbit/s, 4 to 400 ms and a queue of 0.3 to 6 BDP (all
log-uniform), losses from none to 3 % on one path or on all of them, at random or in bursts, some with jitter, and 1 to 20 flows of together
10 KB to 30 MB, or bulk flows, up or down; some have small receive buffers, a path that fails and returns, or the rate of a trace. The set
*pairs* is simpler: two such paths, random losses on none, one or both of them, and one download of 10 KB to 20 MB.
In *common* 2 or 3 paths cross one link, which is the bottleneck of most of them.

Ratios are of mean completion times, and for bulk of goodputs, so that above 1 is slower: to a plain TCP on the best single path as measured,
and to the lower bound (docs/definitions.md; for bulk the ideal sum), which only scenarios with one flow have.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SEEDS = {"train": "landscape 1", "validate": "landscape 2", "test": "landscape 3", "pairs": "landscape 4", "large": "landscape 6", "common": "landscape 7"}
CONTENDERS = "linux,stms_c,dmptcp,backup,anabranch"
CLASSES = [("below 100 KB", 0, 1e5), ("0.1 to 1 MB", 1e5, 1e6), ("1 to 30 MB", 1e6, 1e9), ("bulk", 1e9, math.inf)]
# The share by which the header of Multipath TCP makes a flow slower: 28 bytes of 1448.
HEADER = 0.02


def log_uniform(stream, low, high):
    return math.exp(stream.uniform(math.log(low), math.log(high)))


def losses(stream, paths):
    """The lines of the losses of each path."""
    kind = stream.choices(["none", "one", "all", "bursts"], [40, 20, 30, 10])[0]
    lossy = stream.randrange(paths)
    lines = []
    for path in range(paths):
        share = log_uniform(stream, 0.0002, 0.03)
        if kind == "none" or (kind != "all" and path != lossy):
            lines.append("")
        elif kind == "bursts":
            bad = log_uniform(stream, 0.005, 0.1)
            good = bad * (0.5 / share - 1)
            lines.append(f'gilbert-elliott = {{ mean-good = "{good * 1e6:.0f} us", mean-bad = "{bad * 1e6:.0f} us", loss-bad = 0.5 }}')
        else:
            lines.append(f"loss = {share:.5f}")
    return lines


def path(rate, rtt, queue):
    """The lines of a path, with its rate in Mbit/s, its round trip in ms and its queue in BDP."""
    return f'[[path]]\nrtt = "{rtt * 1000:.0f} us"\nrate = "{rate * 1000:.0f} kbit/s"\nqueue = "{queue:.2f} BDP"'


def traffic(stream, bulk, total, flows):
    """The lines of `flows` flows of `total` bytes together, or of bulk flows."""
    size = "bulk" if bulk else f"{max(total / flows, 2000):.0f} B"
    direction = "upload" if stream.random() < 0.25 else "download"
    lines = [f'[traffic]\nsize = "{size}"\nflows = {flows}\ndirection = "{direction}"']
    return lines + ([f'duration = "{stream.uniform(2, 6):.1f} s"'] if bulk else [])


def draw_pair(stream, number):
    """A scenario of the set *pairs*."""
    total = log_uniform(stream, 1e4, 2e7)
    lines = ['deadline = "1000 s"', f"seed = {1 + number}"]
    lossy = stream.choices([[], [stream.randrange(2)], [0, 1]], [50, 30, 20])[0]
    for at in range(2):
        lines.append(path(log_uniform(stream, 1, 300), log_uniform(stream, 4, 400), log_uniform(stream, 0.3, 6)))
        if at in lossy:
            lines.append(f"loss = {log_uniform(stream, 0.0002, 0.03):.5f}")
    lines.append(f'[traffic]\nsize = "{total:.0f} B"\ndirection = "download"')
    return "\n".join(lines) + "\n", total, 1


def draw_common(stream, number):
    """A scenario of the set *common*."""
    bulk = stream.random() < 0.12
    total = log_uniform(stream, 1e4, 3e7)
    shared = log_uniform(stream, 2, 200)
    lines = ['deadline = "1000 s"', f"seed = {1 + number}"]
    for _ in range(stream.choices([2, 3], [80, 20])[0]):
        lines.append(path(shared * log_uniform(stream, 0.5, 10), log_uniform(stream, 4, 200), log_uniform(stream, 0.3, 6)))
    rtt, queue = log_uniform(stream, 1, 40), log_uniform(stream, 0.3, 6)
    lines.append(f'[topology]\nkind = "shared"\nrate = "{shared * 1000:.0f} kbit/s"\nrtt = "{rtt * 1000:.0f} us"\nqueue = "{queue:.2f} BDP"')
    lines += traffic(stream, bulk, total, 1)
    return "\n".join(lines) + "\n", math.inf if bulk else total, 1


def draw(name, number):
    """A scenario, as the text of its file, with the total size of its flows in bytes, infinite for bulk, and their number."""
    stream = random.Random(f"{SEEDS[name]} {number}")
    if name == "pairs":
        return draw_pair(stream, number)
    if name == "common":
        return draw_common(stream, number)
    count = stream.choices([2, 3, 4], [70, 20, 10])[0]
    bulk = stream.random() < 0.12
    total = log_uniform(stream, 1e4, 3e7)
    flows = 1 if stream.random() < 0.75 else round(log_uniform(stream, 2, 20))
    lines = ['deadline = "1000 s"', f"seed = {1 + number}"]
    for path, loss in enumerate(losses(stream, count)):
        rate, rtt = log_uniform(stream, 1, 300), log_uniform(stream, 4, 400)
        queue, jitter = log_uniform(stream, 0.3, 6), stream.random() < 0.25 and stream.uniform(0.02, 0.3) * rtt
        trace = stream.random() < 0.05
        lines.append(f'[[path]]\nrtt = "{rtt * 1000:.0f} us"')
        if trace:
            lines.append('trace = "traces/synthetic-lte.down"')
        else:
            lines.append(f'rate = "{rate * 1000:.0f} kbit/s"\nqueue = "{queue:.2f} BDP"')
        if jitter:
            lines.append(f'jitter = "{jitter * 1000:.0f} us"')
        if loss:
            lines.append(loss)
        if path == 1 and stream.random() < 0.05:
            fails = stream.uniform(0.05, 2)
            lines.append(f'change = [{{ at = "{fails:.2f} s", down = true }}, {{ at = "{fails + stream.uniform(1, 5):.2f} s", up = true }}]')
    lines += traffic(stream, bulk, total, flows)
    if stream.random() < 0.15:
        lines.append(f'[connection]\nreceive-buffer = "{log_uniform(stream, 3e4, 1e6):.0f} B"')
    return "\n".join(lines) + "\n", math.inf if bulk else total, flows


def measure(args, number, start, schedulers):
    """The figures of each scheduler: the ratios, and the interval of the first one in percent."""
    text, total, flows = draw(args.set, number)
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(f"schedulers = {json.dumps(['tcp', *schedulers])}\nruns = {args.runs}\nother-starts = false\n")
        kind, _, delay = start.partition("=")
        file.write(f'initial = "{kind}"\n' * (kind != "arbitrary") + text)
        file.flush()
        command = [args.binary, "compare", file.name, "--jobs", "1", "--json"]
        command += ["--set", f"connection.race={delay}"] if delay else []
        command += [word for key in args.set_key for word in ("--set", key)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode > 1:
        sys.exit(f"{args.set} {number}: {done.stderr.decode()}\n{text}")
    result = json.loads(done.stdout)
    setting = result["conditions"][0]
    rows = {row["scheduler"]: row for row in result["rows"]}
    bulk = math.isinf(total)
    value = {name: 1 / max(row["goodput_bps"], 1) if bulk else row["fct_s"]["mean"] or math.inf for name, row in rows.items()}
    bound = None
    if flows == 1:
        ideal = setting.get("ideal_sum_bps") if bulk else rows["tcp"]["lower_bound_s"]
        bound = ideal and (1 / ideal if bulk else ideal)
    lines = []
    for name in ["tcp", *schedulers]:
        interval = (rows[name].get("vs_reference_pct") or {}).get("ci95") if name != "tcp" else None
        if interval and bulk:
            interval = [100 * (100 / max(100 + end, 1e-9) - 1) for end in reversed(interval)]
        lines.append({
            "number": number, "start": start, "scheduler": name, "total": total if not bulk else "bulk", "flows": flows,
            "of_single": value[name] / value["tcp"], "of_bound": bound and value[name] / bound, "interval_pct": interval,
        })
    return lines


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else math.nan


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def in_class(line, low, high):
    total = math.inf if line["total"] == "bulk" else line["total"]
    return low <= total < high or total == high


def table(lines, starts, schedulers):
    header = "| first path, scheduler | of single: mean | p90 | p95 | max | over 2 % slower | significantly | of the bound: mean | median | p90 | p95 |"
    print(header, "|" + "---|" * 11, sep="\n")
    for start in starts:
        for name in schedulers:
            mine = [line for line in lines if line["start"] == start and line["scheduler"] == name]
            single = [line["of_single"] for line in mine]
            bound = [line["of_bound"] for line in mine if line["of_bound"]]
            over = sum(ratio > 1 + HEADER for ratio in single) / len(single)
            sure = sum(bool(line["interval_pct"]) and line["interval_pct"][0] > 100 * HEADER for line in mine) / len(single)
            cells = [f"{geometric_mean(single):.3f}", f"{percentile(single, 0.9):.2f}", f"{percentile(single, 0.95):.2f}", f"{max(single):.2f}"]
            cells += [f"{100 * over:.0f} %", f"{100 * sure:.0f} %", f"{geometric_mean(bound):.3f}"]
            cells += [f"{percentile(bound, share):.2f}" for share in (0.5, 0.9, 0.95)]
            print(f"| {start}: `{name}` | " + " | ".join(cells) + " |")
    print("\n| of single, geometric mean | " + " | ".join(f"{name} ({len(select(lines, starts[0], schedulers[0], low, high))})" for name, low, high in CLASSES) + " |")
    print("|---|" + "---|" * len(CLASSES))
    for start in starts:
        for name in schedulers:
            cells = [f"{geometric_mean([line['of_single'] for line in select(lines, start, name, low, high)]):.3f}" for _, low, high in CLASSES]
            print(f"| {start}: `{name}` | " + " | ".join(cells) + " |")


def select(lines, start, name, low, high):
    return [line for line in lines if line["start"] == start and line["scheduler"] == name and in_class(line, low, high)]


def worst(lines, count, name):
    """Prints the scenarios in which a scheduler is slowest compared with the best of the others."""
    best = {}
    for line in lines:
        key = line["number"], line["start"]
        best[key] = min(best.get(key, math.inf), line["of_single"])
    mine = [line for line in lines if line["scheduler"] == name]
    mine.sort(key=lambda line: line["of_single"] / best[line["number"], line["start"]], reverse=True)
    for line in mine[:count]:
        print(f"{line['number']:4} {line['start']:9} {line['of_single']:.3f} of single, the best {best[line['number'], line['start']]:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=SEEDS)
    parser.add_argument("--first", type=int, default=150, help="number of scenarios")
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--schedulers", default=CONTENDERS)
    parser.add_argument("--starts", default="arbitrary,best")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--json", help="a file with all figures; those that it has are not measured again")
    parser.add_argument("--again", action="store_true", help="measure the schedulers named anew")
    parser.add_argument("--worst", help="print the scenarios in which this scheduler is slowest")
    parser.add_argument("--show", type=int, help="print this scenario")
    parser.add_argument("--set-key", action="append", default=[], metavar="KEY=VALUE", help="for all scenarios, as `--set` of compare")
    parser.add_argument("--binary", default=str(TARGET / "release" / "anabranch"))
    args = parser.parse_args()
    if args.show is not None:
        print(draw(args.set, args.show)[0])
        return
    starts, schedulers = args.starts.split(","), args.schedulers.split(",")
    known = {}
    if args.json and Path(args.json).exists():
        known = {(line["number"], line["start"], line["scheduler"]): line for line in json.loads(Path(args.json).read_text(encoding="utf-8"))}
    begin = time.monotonic()
    tasks = []
    for number in range(args.first):
        for start in starts:
            missing = [name for name in schedulers if args.again or (number, start, name) not in known]
            tasks += [(number, start, missing)] if missing else []
    with ThreadPoolExecutor(args.workers) as pool:
        for found in pool.map(lambda task: measure(args, *task), tasks):
            known.update({(line["number"], line["start"], line["scheduler"]): line for line in found})
    if args.json:
        Path(args.json).write_text(json.dumps(list(known.values())), encoding="utf-8")
    lines = [line for (number, _, _), line in known.items() if number < args.first]
    print(f"{args.set}: {args.first} scenarios, {args.runs} runs of each, {time.monotonic() - begin:.0f} s\n")
    shown = schedulers if not args.again else sorted({line["scheduler"] for line in lines} - {"tcp"})
    table(lines, starts, shown)
    if args.worst:
        print()
        worst([line for line in lines if line["start"] in starts], 25, args.worst)


if __name__ == "__main__":
    main()
