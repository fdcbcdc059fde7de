#!/usr/bin/env python3
"""Measures how true `anabranch inspect` is: connections of the kernel's Multipath TCP over the emulator, with known paths.

Each connection has two or three drawn paths, a direction, a size, and a capture by tcpdump at the sender or the receiver. The
estimates are compared with the paths, and the simulation of the scenario with the connection. Prints tables in Markdown.
Needs root, tcpdump, and a kernel with Multipath TCP:

    sudo tools/inspect_accuracy.py --anabranch target/release/anabranch --connections 50
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

# One byte is the request; the size is known to both. IPPROTO_MPTCP is 262.
TRANSFER = """
import os, socket, sys
role, size, down = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "download"
kind = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
if role == "server":
    kind.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kind.bind(("0.0.0.0", 8000))
    kind.listen(1)
    sock = kind.accept()[0]
else:
    sock = kind
    sock.connect((os.environ["ANABRANCH_SERVER"], 8000))
sends = down == (role == "server")
if sends:
    if down:
        sock.recv(1)
    block = bytes(1 << 18)
    left = size
    while left:
        left -= sock.send(block[:min(left, len(block))])
    sock.shutdown(socket.SHUT_WR)
    sock.recv(1)
else:
    if down:
        sock.send(b"x")
    while size:
        got = len(sock.recv(1 << 18))
        if not got:
            sys.exit("the connection ended early")
        size -= got
    sock.send(b"x")
sock.close()
"""


def draw(source):
    """The paths of a connection, its size and its direction."""
    paths = []
    for _ in range(source.choice((2, 2, 3))):
        rate = round(10 ** source.uniform(0.5, 1.5), 1)
        rtt = round(source.uniform(10, 80), 1)
        loss = source.choice((0, 0, 0.2, 0.5, 1))
        bdp = rate * 1e6 / 8 * rtt / 1e3
        queue = max(20_000, round(bdp * source.uniform(0.5, 2)))
        paths.append({"rate": rate, "rtt": rtt, "loss": loss, "queue": queue})
    total = sum(path["rate"] for path in paths)
    size = round(total * 1e6 / 8 * source.uniform(0.8, 2.0))
    return {
        "paths": paths,
        "size": size,
        "direction": source.choice(("upload", "download")),
        "end": source.choice(("sender", "receiver")),
    }


def scenario(one):
    """The scenario for the emulator."""
    lines = []
    for path in one["paths"]:
        loss = f'loss = {{ data = "{path["loss"]}%", acks = "0%" }}' if path["loss"] else ""
        lines.append(
            f'[[path]]\nrate = "{path["rate"]} Mbit/s"\nrtt = "{path["rtt"]} ms"\nqueue = "{path["queue"]} B"\n{loss}\n'
        )
    return "\n".join(lines) + f'\n[traffic]\nsize = "{one["size"]} B"\ndirection = "{one["direction"]}"\n'


def capture(options, one, number, directory):
    """Makes a connection; returns its capture, or none if the emulator was late."""
    files = {name: os.path.join(directory, f"{number}.{name}") for name in ("toml", "py", "pcap", "json")}
    with open(files["toml"], "w", encoding="utf-8") as file:
        file.write(scenario(one))
    with open(files["py"], "w", encoding="utf-8") as file:
        file.write(TRANSFER)
    at_server = (one["direction"] == "download") == (one["end"] == "sender")
    tcpdump = f"tcpdump -q -i any -s 120 -B 16384 -w {files['pcap']} tcp 2>/dev/null"

    def command(role):
        run = f"{sys.executable} {files['py']} {role} {one['size']} {one['direction']}"
        if at_server != (role == "server"):
            return run
        return f"{tcpdump} & trap 'kill $!' EXIT; sleep 0.5; {run}; code=$?; sleep 0.3; exit $code"

    call = [options.anabranch, "emulate", files["toml"], "--run", str(number), "--kernel-cc", "cubic"]
    call += ["--report", files["json"], "--server-command", command("server"), "--", "sh", "-c", command("client")]
    done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        print(f"connection {number}: {done.stderr[-500:]}", file=sys.stderr)
        return None
    with open(files["json"], encoding="utf-8") as file:
        if not json.load(file)["reliable"]:
            print(f"connection {number}: the emulator was late", file=sys.stderr)
            return None
    return files["pcap"]


def inspect(options, path, *words):
    """The result of `anabranch inspect` as JSON."""
    done = subprocess.run(
        [options.anabranch, "inspect", path, "--json", "-q", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return None
    return json.loads(done.stdout)


def compare(options, one, path):
    """The rows of the paths, and the row of the connection."""
    found = inspect(options, path)
    simulated = inspect(options, path, "--simulate")
    if not found:
        return [], None
    connection = max(found["connections"], key=lambda each: sum(s["delivered_bytes"] for s in each["streams"]))
    direction = 0 if one["direction"] == "upload" else 1
    rows = []
    for subflow in connection["subflows"]:
        number = int(subflow["from"].split(".")[2]) - 1
        estimate = subflow["directions"][direction]["path"]
        if not estimate or estimate["packets"] < options.least:
            continue
        rows.append({"true": one["paths"][number], "found": estimate, "end": one["end"]})
    match = simulated["matches"][0] if simulated and simulated["matches"] else None
    ratio = match["simulated"] / match["captured"] if match and match["measure"].startswith("completion") else None
    return rows, {"end": one["end"], "direction": one["direction"], "ratio": ratio, "captured": match and match["captured"]}


def judge(row):
    """Whether rate, round trip and loss are within the bounds of docs/inspect.md."""
    true, found = row["true"], row["found"]
    rate = found["rate_bps"] and found["rate_bps"]["value"] / (true["rate"] * 1e6) - 1
    rtt = found["rtt_s"] and found["rtt_s"]["value"] / (true["rtt"] / 1e3) - 1
    loss, interval = true["loss"] / 100, found["random_loss"]
    inside = interval["low"] <= loss <= interval["high"]
    near = loss > 0 and loss / 1.5 <= interval["value"] <= loss * 1.5
    return {"rate": rate, "rtt": rtt, "loss": inside or near}


def percent(judged):
    """A share as text."""
    judged = list(judged)
    return f"{100 * sum(judged) / len(judged):.0f} % of {len(judged)}" if judged else "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anabranch", default="target/release/anabranch")
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--first", type=int, default=1, help="the number of the first connection, which is its seed")
    parser.add_argument("--least", type=int, default=50, help="data packets of a path that is judged")
    parser.add_argument("--keep", help="a directory for the captures; those that it has are not made again")
    parser.add_argument("--only-capture", action="store_true", help="make the captures, and judge nothing")
    parser.add_argument("--verbose", action="store_true", help="a line for each path and each connection")
    options = parser.parse_args()
    rows, connections = [], []
    with tempfile.TemporaryDirectory() as directory:
        directory = options.keep or directory
        os.makedirs(directory, exist_ok=True)
        for number in range(options.first, options.first + options.connections):
            one = draw(random.Random(number))
            path = os.path.join(directory, f"{number}.pcap")
            report = os.path.join(directory, f"{number}.json")
            if os.path.exists(path) and os.path.exists(report):
                with open(report, encoding="utf-8") as file:
                    path = path if json.load(file)["reliable"] else None
            else:
                path = capture(options, one, number, directory)
            if not path or options.only_capture:
                continue
            own, connection = compare(options, one, path)
            rows += own
            connections += [connection] if connection else []
            if options.verbose:
                print(number, one["end"], one["direction"], one["size"], connection)
                for row in own:
                    print("   ", row["true"], {key: row["found"][key] for key in (
                        "rate_source", "packets", "queue_bytes", "queue_was_full", "queue_losses", "random_losses")},
                        judge(row))
    if options.only_capture:
        return
    print("| | all | at the sender | at the receiver |\n|---|---|---|---|")
    groups = [lambda row: True, lambda row: row["end"] == "sender", lambda row: row["end"] == "receiver"]
    judged = [(row, judge(row)) for row in rows]
    busy = lambda row: row["found"]["rate_source"] == "busy_periods"
    for title, test in (
        ("rate within 5 %", lambda row, one: one["rate"] is not None and abs(one["rate"]) < 0.05),
        ("round trip within 2 %", lambda row, one: one["rtt"] is not None and abs(one["rtt"]) < 0.02),
        ("random loss within 1.5 times or in the interval", lambda row, one: one["loss"]),
    ):
        cells = [percent(test(row, one) for row, one in judged if group(row)) for group in groups]
        print(f"| {title} | {' | '.join(cells)} |")
    cells = [percent(abs(one["rate"]) < 0.05 for row, one in judged if group(row) and busy(row)) for group in groups]
    print(f"| the same rate, of paths that were full | {' | '.join(cells)} |")
    cells = []
    for group in groups:
        own = [one for one in connections if group(one)]
        cells.append(percent(one["ratio"] is not None and abs(one["ratio"] - 1) < 0.1 for one in own))
    print(f"| simulated completion within 10 % | {' | '.join(cells)} |")
    errors = [abs(one["ratio"] - 1) * 100 for one in connections if one["ratio"]]
    if errors:
        print(f"\nmedian error of the simulated completion: {statistics.median(errors):.1f} %")


if __name__ == "__main__":
    main()
