#!/usr/bin/env python3
"""Measures how true `anabranch inspect` is: connections of the kernel's Multipath TCP over the emulator, with known paths.

Each connection has two or three drawn paths, a direction, a size, and a capture by tcpdump at the sender or the receiver. There are
four kinds: plain paths, paths with cross traffic, paths with recorded rates (traces), and plain paths over IPv6. The
estimates are compared with the paths, and the simulation of the scenario with the connection. The rate of a path is what its cross traffic
leaves on average (without the packets of it that were dropped), and the mean of its trace over the times in which packets waited, as a capture
shows no others. Prints a table in Markdown.
Needs root, tcpdump, and a kernel with Multipath TCP:

    sudo tools/inspect_accuracy.py --anabranch target/release/anabranch --connections 50
"""

import argparse
import bisect
import glob
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
peer = os.environ["ANABRANCH_SERVER"]
family = socket.AF_INET6 if ":" in peer else socket.AF_INET
kind = socket.socket(family, socket.SOCK_STREAM, 262)
if role == "server":
    kind.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kind.bind(("::" if ":" in peer else "0.0.0.0", 8000))
    kind.listen(1)
    sock = kind.accept()[0]
else:
    sock = kind
    sock.connect((peer, 8000))
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


KINDS = ("plain", "cross", "trace", "ipv6")


def kind_of(number, kinds):
    """The kind of a connection: as many of each."""
    return kinds[number % len(kinds)]


def draw(number, kind, traces):
    """The paths of a connection, its size and its direction."""
    source = random.Random(number if kind == "plain" else f"{kind} {number}")
    paths = []
    for _ in range(source.choice((2, 2, 3))):
        rate = round(10 ** source.uniform(0.5, 1.5), 1)
        rtt = round(source.uniform(10, 80), 1)
        loss = source.choice((0, 0, 0.2, 0.5, 1))
        bdp = rate * 1e6 / 8 * rtt / 1e3
        queue = max(20_000, round(bdp * source.uniform(0.5, 2)))
        paths.append({"rate": rate, "rtt": rtt, "loss": loss, "queue": queue})
    if kind == "cross":
        for path in source.sample(paths, source.choice((1, len(paths)))):
            path["cross"] = round(path["rate"] * source.uniform(0.1, 0.5), 2)
            path["packet"] = source.choice((300, 1000, 1500))
    if kind == "trace":
        for path in source.sample(paths, source.choice((1, len(paths)))):
            path["trace"] = source.choice(traces)
            moments, length = opportunities(path["trace"])
            path["start"] = round(source.uniform(0, length), 3)
            path["rate"] = len(moments) * 0.012 / length
            path["queue"] = max(path["queue"], round(path["rate"] * 1e6 / 8 * path["rtt"] / 1e3))
    total = sum(path["rate"] for path in paths)
    size = round(total * 1e6 / 8 * source.uniform(0.8, 2.0))
    return {
        "kind": kind,
        "paths": paths,
        "size": size,
        "direction": source.choice(("upload", "download")),
        "end": source.choice(("sender", "receiver")),
    }


def opportunities(trace):
    """The times in seconds at which a trace delivers 1500 bytes, and its length."""
    with open(trace, encoding="utf-8") as file:
        moments = [int(line) / 1e3 for line in file if line.strip()]
    return moments, moments[-1]


def true_rate(path, link, begun, busy):
    """The mean rate in Mbit/s that a path had for the connection, which began this number of seconds after the links.

    `link` has the counts of the emulator, and `busy` the times in which packets waited.
    """
    if "trace" not in path:
        taken = path.get("cross", 0)
        return path["rate"] - taken * (1 - link["cross_dropped"] / max(link["cross_packets"], 1))
    moments, length = opportunities(path["trace"])

    def until(time):
        turns, rest = divmod(path["start"] + begun + time, length)
        return turns * len(moments) + bisect.bisect_right(moments, rest)

    seconds = sum(each["until_s"] - each["from_s"] for each in busy)
    if not seconds:
        return path["rate"]
    return sum(until(each["until_s"]) - until(each["from_s"]) for each in busy) * 0.012 / seconds


def scenario(one):
    """The scenario for the emulator."""
    lines = ["ipv6 = true"] if one["kind"] == "ipv6" else []
    for path in one["paths"]:
        loss = f'loss = {{ data = "{path["loss"]}%", acks = "0%" }}\n' if path["loss"] else ""
        cross = ""
        if "cross" in path:
            cross = f'cross-traffic = {{ rate = "{path["cross"]} Mbit/s", packet = "{path["packet"]} B" }}\n'
        rate = f'rate = "{path["rate"]} Mbit/s"'
        if "trace" in path:
            rate = f'trace = "{os.path.abspath(path["trace"])}"\ntrace-start = "{path["start"]} s"'
        lines.append(
            f'[[path]]\n{rate}\nrtt = "{path["rtt"]} ms"\nqueue = "{path["queue"]} B"\n{loss}{cross}'
        )
    return "\n".join(lines) + f'\n[traffic]\nsize = "{one["size"]} B"\ndirection = "{one["direction"]}"\n'


def files_of(one, number, directory):
    """The files of a connection."""
    name = f"{one['kind']}-{number}"
    return {end: os.path.join(directory, f"{name}.{end}") for end in ("toml", "py", "pcap", "json", "begun")}


def capture(options, one, number, files):
    """Makes a connection; returns whether the emulator was in time."""
    with open(files["toml"], "w", encoding="utf-8") as file:
        file.write(scenario(one))
    with open(files["py"], "w", encoding="utf-8") as file:
        file.write(TRANSFER)
    at_server = (one["direction"] == "download") == (one["end"] == "sender")
    tcpdump = f"tcpdump -q -i any -s 140 -B 16384 -w {files['pcap']} tcp 2>/dev/null"

    def command(role):
        run = f"{sys.executable} {files['py']} {role} {one['size']} {one['direction']}"
        if at_server != (role == "server"):
            return run
        return f"{tcpdump} & trap 'kill $!; wait' EXIT; sleep 0.5; {run}; code=$?; sleep 0.3; exit $code"

    call = [options.anabranch, "emulate", files["toml"], "--run", str(number), "--kernel-cc", "cubic"]
    # The links begin with the client's command.
    client = f"date +%s.%N >{files['begun']}; {command('client')}"
    call += ["--report", files["json"], "--server-command", command("server"), "--", "sh", "-c", client]
    done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        print(f"connection {number}: {done.stderr[-500:]}", file=sys.stderr)
        return False
    return is_reliable(files, number)


def is_reliable(files, number):
    """True if the emulator was in time."""
    with open(files["json"], encoding="utf-8") as file:
        reliable = json.load(file)["reliable"]
    if not reliable:
        print(f"connection {number}: the emulator was late", file=sys.stderr)
    return reliable


def inspect(options, path, *words):
    """The result of `anabranch inspect` as JSON."""
    done = subprocess.run(
        [options.anabranch, "inspect", path, "--json", "-q", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return None
    return json.loads(done.stdout)


def path_of(address):
    """The number of the path of a client's address, from 0."""
    if address.startswith("["):
        return int(address.split(":")[3], 16) - 1
    return int(address.split(".")[2]) - 1


def compare(options, one, files):
    """The rows of the paths, and the row of the connection."""
    path = files["pcap"]
    found = inspect(options, path)
    simulated = inspect(options, path, "--simulate")
    if not found:
        return [], None
    connection = max(found["connections"], key=lambda each: sum(s["delivered_bytes"] for s in each["streams"]))
    direction = 0 if one["direction"] == "upload" else 1
    with open(files["begun"], encoding="utf-8") as file:
        begun = found["begun_unix_s"] + connection["start_s"] - float(file.read())
    with open(files["json"], encoding="utf-8") as file:
        links = json.load(file)["paths"]
    rows = []
    for subflow in connection["subflows"]:
        number = path_of(subflow["from"])
        estimate = subflow["directions"][direction]["path"]
        if not estimate or estimate["packets"] < options.least:
            continue
        true = one["paths"][number]
        link = links[number]["up" if direction == 0 else "down"]["links"][0]
        true = {**true, "rate": true_rate(true, link, begun, estimate["busy"])}
        rows.append({"true": true, "found": estimate, "end": one["end"], "kind": one["kind"]})
    match = simulated["matches"][0] if simulated and simulated["matches"] else None
    ratio = match["simulated"] / match["captured"] if match and match["measure"].startswith("completion") else None
    row = {key: one[key] for key in ("end", "direction", "kind")}
    return rows, {**row, "ratio": ratio, "captured": match and match["captured"]}


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


def measure(options, number, directory):
    """The rows of a connection, which is made unless its capture is there."""
    one = draw(number, kind_of(number, options.kinds), options.traces)
    files = files_of(one, number, directory)
    if os.path.exists(files["pcap"]) and os.path.exists(files["json"]):
        good = is_reliable(files, number)
    else:
        good = capture(options, one, number, files)
    if not good or options.only_capture:
        return [], None
    rows, connection = compare(options, one, files)
    if options.verbose:
        print(number, one["direction"], one["size"], connection)
        for row in rows:
            keys = ("rate_bps", "rate_source", "packets", "queue_bytes", "queue_was_full", "queue_losses", "random_losses")
            print("   ", row["true"], {key: row["found"][key] for key in keys}, judge(row), flush=True)
    return rows, connection


TESTS = (
    ("rate within 5 %", lambda one: one["rate"] is not None and abs(one["rate"]) < 0.05),
    ("round trip within 2 %", lambda one: one["rtt"] is not None and abs(one["rtt"]) < 0.02),
    ("random loss within 1.5 times or in the interval", lambda one: one["loss"]),
)


def table(judged, connections, kinds):
    """Prints the shares of the rows, for all and by kind and end."""
    groups = [("all", lambda row: True)]
    groups += [(kind, lambda row, kind=kind: row["kind"] == kind) for kind in kinds if len(kinds) > 1]
    groups += [(f"at the {end}", lambda row, end=end: row["end"] == end) for end in ("sender", "receiver")]
    print(f"| | {' | '.join(name for name, _ in groups)} |\n|---{'|---' * len(groups)}|")
    for title, test in TESTS:
        cells = [percent(test(one) for row, one in judged if group(row)) for _, group in groups]
        print(f"| {title} | {' | '.join(cells)} |")
    near = lambda one: one["ratio"] is not None and abs(one["ratio"] - 1) < 0.1
    cells = [percent(near(one) for one in connections if group(one)) for _, group in groups]
    print(f"| simulated completion within 10 % | {' | '.join(cells)} |")
    errors = [abs(one["ratio"] - 1) * 100 for one in connections if one["ratio"]]
    if errors:
        print(f"\nmedian error of the simulated completion: {statistics.median(errors):.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anabranch", default="target/release/anabranch")
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--first", type=int, default=1, help="the number of the first connection, which is its seed")
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=KINDS, help="kinds, with commas")
    parser.add_argument("--traces", nargs="+", default=sorted(glob.glob("scenarios/traces/*.[du]*")), help="traces to draw from")
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
            own, connection = measure(options, number, directory)
            rows += own
            connections += [connection] if connection else []
    if not options.only_capture:
        table([(row, judge(row)) for row in rows], connections, options.kinds)


if __name__ == "__main__":
    main()
