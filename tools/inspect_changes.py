#!/usr/bin/env python3
"""Measures how well `anabranch inspect` finds changes of the rates of paths: captures of simulated runs with known changes.

Each case has two drawn paths and lasts 5 to 30 s. In the first cases one or both paths change their rate once or twice, by a
factor of 1.3 to 4, and no packet is lost at random; in the second ones both paths have random losses of 0.1 % too; in the steady cases no rate
changes, and half of the paths have random losses. Half of the captures are made at the sender, half at the receiver. A change is found if its time is within
0.3 s and its rate within 10 %. Prints a table in Markdown. The same numbers give the same table on every machine:

    tools/inspect_changes.py --anabranch target/release/anabranch
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

NEAR_S = 0.3
NEAR_RATE = 0.1


def draw(source, changes, losses):
    """The paths of a case, rate, round trip, queue, loss, and the changes of the rate with their times; and its duration."""
    paths = []
    lasts = source.choice((5, 10, 20, 30)) * source.uniform(1, 1.3)
    counts = [source.choice((0, 1, 2)), source.choice((1, 2))] if changes else [0, 0]
    for count in counts:
        rate = 10 ** source.uniform(0.6, 1.4)
        rtt = source.uniform(10, 80)
        least = rate
        own = []
        for n in range(count):
            factor = source.uniform(1.3, 4)
            # Slower than 2 Mbit/s there are few packets, and faster than 50 Mbit/s the others wait.
            faster = least * factor < 50 and (source.random() < 0.5 or least / factor < 2)
            least = least * factor if faster else least / factor
            own.append((lasts * (source.uniform(0.2, 0.4) + n * 0.4), least))
        bdp = rate * 1e6 / 8 * rtt / 1e3
        paths.append({
            "rates": [(0, rate), *own],
            "rtt": rtt,
            "queue": max(30_000, round(bdp * source.uniform(0.5, 2))),
            "loss": source.choice(losses),
        })
    return paths, lasts


def scenario(paths, lasts, direction, seed):
    """The scenario of a case."""
    lines = ['schedulers = ["linux"]', 'congestion = "cubic_linux"', "runs = 1", f"seed = {seed}"]
    size = 0
    for path in paths:
        rates = path["rates"]
        ends = [at for at, _ in rates[1:]] + [lasts]
        size += sum((end - at) * rate for (at, rate), end in zip(rates, ends)) * 1e6 / 8
        lines += [
            "[[path]]", f'rate = "{rates[0][1]:.3f} Mbit/s"', f'rtt = "{path["rtt"]:.2f} ms"', f'queue = "{path["queue"]} B"',
            f'loss = {{ data = "{path["loss"]}%", acks = "0%" }}',
        ]
        for at, rate in rates[1:]:
            lines += ["[[path.change]]", f'at = "{at:.3f} s"', f'rate = "{rate:.3f} Mbit/s"']
    lines += ["[traffic]", f'size = "{round(size * 0.9)} B"', f'direction = "{direction}"']
    return "\n".join(lines) + "\n"


def inspect(options, number, changes, losses, directory):
    """The paths of a case, and the estimates of `inspect` for them."""
    source = random.Random(number)
    paths, lasts = draw(source, changes, losses)
    direction, end = source.choice(("upload", "download")), source.choice(("sender", "receiver"))
    files = {name: os.path.join(directory, f"case.{name}") for name in ("toml", "pcapng")}
    with open(files["toml"], "w", encoding="utf-8") as file:
        file.write(scenario(paths, lasts, direction, number))
    run = [options.anabranch, "run", files["toml"], "-q", "--pcap", files["pcapng"], "--pcap-at", end, "--pcap-snaplen", "120"]
    subprocess.run([*run, "-o", os.path.join(directory, "out.txt")], check=True, capture_output=True)
    done = subprocess.run([options.anabranch, "inspect", files["pcapng"], "--json", "-q"], check=True, capture_output=True, text=True)
    connection = json.loads(done.stdout)["connections"][0]
    way = 0 if direction == "upload" else 1
    found = [None, None]
    for subflow in connection["subflows"]:
        found[int(subflow["from"].split(":")[0].split(".")[-1]) - 1] = subflow["directions"][way]["path"]
    return paths, found, end


def judge(path, found):
    """For each true change the error of the estimates of its time and its rate, none if there is no estimate near it; and the
    number of changes that did not happen."""
    estimated = (found["rate_phases"] if found else [])[1:]
    changes, used = [], set()
    for at, rate in path["rates"][1:]:
        near = [n for n, one in enumerate(estimated) if n not in used and is_near(one, at)]
        best = min(near, key=lambda n: abs(estimated[n]["from_s"] - at), default=None)
        if best is None:
            changes.append(None)
            continue
        used.add(best)
        one = estimated[best]
        changes.append((abs(one["from_s"] - at), abs(one["rate_bps"]["value"] / 1e6 / rate - 1)))
    return changes, len(estimated) - len(used)


def is_near(one, at):
    return one["from_low_s"] - NEAR_S <= at <= one["from_high_s"] + NEAR_S


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anabranch", default="target/release/anabranch")
    parser.add_argument("--cases", type=int, default=24)
    parser.add_argument("--steady", type=int, default=40)
    parser.add_argument("--verbose", action="store_true", help="a line for each path")
    options = parser.parse_args()
    sets = (
        ("changes, no random losses", True, (0,), 0, options.cases),
        ("changes, random losses of 0.1 %", True, (0.1,), 500, options.cases // 2),
        ("steady paths, half of them with random losses of 0.1 % or 0.3 %", False, (0, 0, 0.1, 0.3), 1000, options.steady),
    )
    print("| | connections | changes | found | median error of the time | of the rate | changes that did not happen | drops of a queue taken for random losses |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        for name, changes, losses, first, count in sets:
            judged, wrong, drops, lossless = [], 0, 0, 0
            for number in range(first + 1, first + count + 1):
                paths, found, end = inspect(options, number, changes, losses, directory)
                for path, estimate in zip(paths, found):
                    own, more = judge(path, estimate)
                    wrong += more
                    judged += own
                    if estimate and not path["loss"]:
                        drops += estimate["random_losses"]
                        lossless += estimate["random_losses"] + estimate["queue_losses"]
                    if options.verbose:
                        tell(number, end, path, estimate, own, more)
            print(row(name, count, judged, wrong, (drops, lossless)), flush=True)


def row(name, count, judged, wrong, drops):
    good = [one for one in judged if one and one[0] <= NEAR_S and one[1] <= NEAR_RATE]
    found = f"{len(good)} ({100 * len(good) / len(judged):.0f} %)" if judged else ""
    middle = [sorted(one[at] for one in good)[len(good) // 2] for at in (0, 1)] if good else None
    errors = f"{1e3 * middle[0]:.0f} ms | {100 * middle[1]:.1f} %" if middle else " | "
    return f"| {name} | {count} | {len(judged)} | {found} | {errors} | {wrong} | {drops[0]} of {drops[1]} |"


def tell(number, end, path, estimate, own, more):
    rates = [(round(at, 2), round(rate, 2)) for at, rate in path["rates"]]
    phases = [
        (round(one["from_s"], 2), round(one["from_low_s"], 2), round(one["from_high_s"], 2), round(one["rate_bps"]["value"] / 1e6, 2))
        for one in (estimate["rate_phases"] if estimate else [])
    ]
    good = [bool(one and one[0] <= NEAR_S and one[1] <= NEAR_RATE) for one in own]
    losses = (estimate["random_losses"], estimate["queue_losses"]) if estimate else None
    print(number, end, "rates", rates, "phases", phases, "loss", path["loss"], "rtt", round(path["rtt"]), good, more, losses, file=sys.stderr)


if __name__ == "__main__":
    main()
