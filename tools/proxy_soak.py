#!/usr/bin/env python3
"""Runs mixed traffic through `anabranch proxy` for some minutes, and fails if memory, descriptors or tasks grow.

    tools/proxy_soak.py --minutes 20
    tools/proxy_soak.py --minutes 20 --transport anabranch --tls --csv soak.csv

Both sides are in a network namespace of their own, with two addresses of the client side: with the kernel's Multipath TCP on the loopback device, with
`--transport anabranch` on two TUN devices between which the kernel forwards. At once there are short downloads of 0 to 200 KB, long ones, uploads, connections
that are idle from the beginning to the end, ones that wait and are closed, downloads and uploads that the application resets, readers that pause, destinations
that are refused or closed, requests that are no SOCKS and no HTTP, and strangers at the server's port. Every five seconds the memory, the descriptors and the
tasks of both sides are recorded (`--csv`).

It fails if a download or an upload has not all its bytes, if a connection that was idle does not answer at the end, if a side ends, if the median memory of the
last quarter exceeds the median of the third quarter by more than 2 MB and 3 %, or if, when the traffic has ended, a connection is left, or more tasks or descriptors
are there than after the first ten seconds of traffic and a rest. The memory at rest is only shown: the heap keeps what it once needed.
"""

import argparse
import csv
import json
import os
import random
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import proxy

EVERY, PAUSE = 5.0, 4.0
# The time in which a stack frees the buffers that it has not used, and returns the memory to the system.
REST = 30.0
# Pipes that a side keeps for later connections: eight of each thread, with two ends.
KEPT = 16
WEB, SERVER, CLIENT = 8400, 8883, 1480
HERE = "127.0.0.1"
ME = str(Path(__file__).resolve())
# The connections that are idle from the beginning to the end.
IDLE = 50


def through():
    return proxy.socks((HERE, CLIENT), HERE, WEB)


def answer(connection, pause=None):
    """Returns the body of an answer as its length and its first bytes. `pause` is called after each piece."""
    head = b""
    while b"\r\n\r\n" not in head:
        part = connection.recv(4096)
        if not part:
            raise OSError("the connection ended in the head")
        head += part
    first = head.split(b"\r\n\r\n", 1)[1]
    count = len(first)
    buffer = bytearray(1 << 18)
    while n := connection.recv_into(buffer):
        first += buffer[: min(n, max(0, 100 - len(first)))]
        count += n
        if pause:
            pause()
    return count, first


def download(size, connection=None, pause=None):
    with connection or through() as connection:
        connection.sendall(b"GET /%d HTTP/1.1\r\n\r\n" % size)
        count, _ = answer(connection, pause)
    if count != size:
        raise OSError(f"{count} of {size} bytes")


def upload(chance):
    size = int(10 ** chance.uniform(0, 7.5))
    with through() as connection:
        connection.sendall(b"PUT /%d HTTP/1.1\r\n\r\n" % size)
        connection.sendall(bytes(size))
        if chance.random() < 0.5:
            connection.shutdown(socket.SHUT_WR)
        _, got = answer(connection)
    if int(got) != size:
        raise OSError(f"{int(got)} of {size} bytes")


def short(chance):
    download(chance.randrange(200_000))


def long(chance):
    download(chance.randrange(20_000_000, 60_000_000))
    time.sleep(chance.random())


def pausing(chance):
    """A download that fills the buffers of both sides while the application does not read."""
    left = [chance.randrange(1, 4)]

    def pause():
        if left[0] and chance.random() < 0.2:
            left[0] -= 1
            time.sleep(chance.random())

    download(chance.randrange(5_000_000, 20_000_000), pause=pause)


def waiting(chance):
    with through():
        time.sleep(2 * chance.random())


def reset(chance):
    """An endless download, or an upload without its end, that the application aborts."""
    with through() as connection:
        if chance.random() < 0.5:
            connection.sendall(b"GET /endless HTTP/1.1\r\n\r\n")
            for _ in range(chance.randrange(20)):
                connection.recv(1 << 16)
        else:
            connection.sendall(b"PUT /999999999 HTTP/1.1\r\n\r\n" + bytes(chance.randrange(1_000_000)))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def refused(chance):
    """A destination that the server's policy refuses, or a port that is closed."""
    host, port = chance.choice([("192.0.2.1", 80), (HERE, 1)])
    try:
        with proxy.socks((HERE, CLIENT), host, port) as connection:
            connection.settimeout(10)
            if connection.recv(1):
                raise AssertionError("a refused destination has sent data")
    except OSError:
        pass
    time.sleep(0.05)


def nonsense(chance):
    """Bytes of no protocol, to the port of the applications or to the server side."""
    try:
        with socket.create_connection((HERE, chance.choice([CLIENT, SERVER]))) as connection:
            connection.settimeout(1)
            connection.sendall(chance.randbytes(chance.randrange(1, 300)))
            connection.recv(100)
    except OSError:
        pass
    time.sleep(0.05)


KINDS = {
    "short": (short, 4),
    "long": (long, 1),
    "uploads": (upload, 2),
    "pausing": (pausing, 1),
    "waiting": (waiting, 8),
    "reset": (reset, 1),
    "refused": (refused, 1),
    "nonsense": (nonsense, 1),
}


class Traffic:
    def __init__(self, seed):
        self.ending = threading.Event()
        self.counts = dict.fromkeys(KINDS, 0)
        self.failures = []
        self.threads = []
        for name, (_, number) in KINDS.items():
            for at in range(number):
                self.threads.append(threading.Thread(target=self.run, args=(name, random.Random(f"{seed} {name} {at}"))))
        for thread in self.threads:
            thread.start()

    def run(self, name, chance):
        while not self.ending.is_set():
            try:
                KINDS[name][0](chance)
            except (OSError, AssertionError) as error:
                self.failures.append(f"{name}: {error}")
                time.sleep(1)
            self.counts[name] += 1

    def end(self):
        self.ending.set()
        for thread in self.threads:
            thread.join()


def descriptors(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def status(path):
    """The state of a side."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        text = b""
        while part := connection.recv(1 << 16):
            text += part
    return json.loads(text.split(b"\r\n\r\n", 1)[1])


def active(path):
    return len(status(path)["connections"])


def counts(process, path):
    """The memory, the descriptors and the tasks of a side; of the memory, what a stack keeps for reuse and the buffers of its connections."""
    look = status(path)
    stack = look.get("stack", {"spare_bytes": 0, "buffer_bytes": 0})
    return {
        "memory_bytes": proxy.memory(process),
        "spare_bytes": stack["spare_bytes"],
        "buffer_bytes": stack["buffer_bytes"],
        "descriptors": descriptors(process),
        "tasks": look["tasks"],
    }


def quiet(sides):
    """Waits until both sides have no connection, at most a minute, and rests. Returns the counts of each."""
    time.sleep(PAUSE)
    until = time.monotonic() + 60
    while any(active(path) for _, path in sides.values()) and time.monotonic() < until:
        time.sleep(1)
    time.sleep(REST)
    return {name: counts(*side) for name, side in sides.items()}


def network(transport):
    """Prepares the network namespace. Returns the options of the server side and of the client side, and the server's address."""
    proxy.run("ip", "link", "set", "lo", "up")
    if transport == "kernel":
        proxy.run("ip", "mptcp", "limits", "set", "subflow", "4", "add_addr_accepted", "4")
        proxy.run("ip", "mptcp", "endpoint", "add", "127.0.0.2", "dev", "lo", "subflow")
        return ["--listen", f"{HERE}:{SERVER}"], [], HERE
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="ascii")
    remote, local = proxy.tun("ab1", 1), proxy.tun("ab2", 2)
    return ["--listen", f"0.0.0.0:{SERVER}", *remote], [*local, "--address", "10.86.2.2"], "10.86.1.1"


def start(binary, place, transport, tls, children):
    server_options, client_options, address = network(transport)
    key = subprocess.run([binary, "proxy", "--new-key", "test"], stdout=subprocess.PIPE, check=True, text=True).stdout
    new = [binary, "proxy", "--new-certificate", address]
    pem = subprocess.run(new, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True).stdout
    limits = f"allow = '{HERE}'\nrate = 10000\nconnections = 100000\n"
    for name, text in (("client.key", key), ("server.toml", limits + key), ("server.pem", pem)):
        (place / name).touch(0o600)
        (place / name).write_text(text, encoding="ascii")
    remote = ["--tls", "--certificate", str(place / "server.pem")] if tls else []
    local = ["--tls", "--pin", pem.split()[3]] if tls else []
    common = [binary, "proxy", "--quiet"]
    proxy.start([sys.executable, proxy.ME, "--web", str(WEB)], children)
    server = [*common, "--server", "--policy", str(place / "server.toml"), *server_options, *remote]
    client = [*common, "--to", f"{address}:{SERVER}", "--key", str(place / "client.key"), "--listen", f"{HERE}:{CLIENT}"]
    client += ["--memory", str(place / "paths.json"), *client_options, *local]
    sides = {}
    for name, command in (("server", server), ("client", client)):
        path = str(place / name)
        sides[f"{name} side"] = (proxy.start([*command, "--status", path], children), path)
    time.sleep(3)
    return sides


def watch(sides, seconds, wrong):
    """Returns the counts of both sides, every few seconds."""
    rows = []
    begun = time.monotonic()
    while (now := time.monotonic() - begun) < seconds and not wrong:
        time.sleep(EVERY)
        for name, (process, path) in sides.items():
            if process.poll() is not None:
                wrong.append(f"the {name} has ended with {process.returncode}")
            else:
                rows.append({"t_s": round(now), "side": name, **counts(process, path)})
    return rows


def judge(name, rows, before, after):
    """Prints the counts of a side. Returns what has grown."""
    wrong = []
    found = [row["memory_bytes"] for row in rows if row["side"] == name]
    quarter = max(1, len(found) // 4)
    medians = [statistics.median(found[at * quarter : (at + 1) * quarter] or found) / 1e6 for at in range(4)]
    most = {what: max(row[what] for row in rows if row["side"] == name) for what in before}
    print(
        f"{name}: memory {before['memory_bytes'] / 1e6:.1f} MB at rest before, {', '.join(f'{median:.1f}' for median in medians)} in the quarters, at most "
        f"{most['memory_bytes'] / 1e6:.1f}, {after['memory_bytes'] / 1e6:.1f} at rest after; kept for reuse at most {most['spare_bytes'] / 1e6:.1f}; "
        + "; ".join(f"{what} {before[what]} before, at most {most[what]}, {after[what]} after" for what in ("descriptors", "tasks"))
    )
    grown = medians[3] - medians[2]
    if grown > max(2, 0.03 * medians[2]):
        wrong.append(f"the memory of the {name} has grown by {grown:.1f} MB")
    for what, kept in (("descriptors", KEPT), ("tasks", 0)):
        if after[what] > before[what] + kept:
            wrong.append(f"the {name} has {after[what] - before[what]} {what} more than before")
    return wrong


def soak(args, place, children):
    sides = start(args.binary, place, args.transport, args.tls, children)
    warm = Traffic(0)
    time.sleep(10)
    warm.end()
    before = quiet(sides)
    idle = [through() for _ in range(IDLE)]
    traffic = Traffic(1)
    wrong = []
    rows = watch(sides, 60 * args.minutes, wrong)
    paths = {row["local"].rsplit(":", 1)[0] for one in status(sides["client side"][1])["connections"] for row in one["subflows"]} if not wrong else {}
    traffic.end()
    wrong += warm.failures[:5] + traffic.failures[:5]
    print(", ".join(f"{count} {name}" for name, count in traffic.counts.items()), f"{IDLE} idle; paths {', '.join(sorted(paths))}", sep=", ")
    if args.csv:
        with open(args.csv, "w", encoding="ascii", newline="") as file:
            writer = csv.DictWriter(file, ["t_s", "side", "memory_bytes", "spare_bytes", "buffer_bytes", "descriptors", "tasks"])
            writer.writeheader()
            writer.writerows(rows)
    if any(process.poll() is not None for process, _ in sides.values()):
        return wrong
    for connection in idle:
        try:
            download(1000, connection)
        except OSError as error:
            wrong.append(f"a connection that was idle: {error}")
    after = quiet(sides)
    left = [active(path) for _, path in sides.values()]
    if any(left):
        wrong.append(f"{left} connections are left")
    for name in sides:
        wrong += judge(name, rows, before[name], after[name])
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--transport", choices=["kernel", "anabranch"], default="kernel")
    parser.add_argument("--tls", action="store_true", help="with TLS between the two sides")
    parser.add_argument("--csv", help="the file for these counts, every five seconds")
    parser.add_argument("--binary", default=str(proxy.TARGET / "release" / "anabranch"))
    args = parser.parse_args()
    proxy.own_network(ME, sys.argv[1:])
    children = []
    try:
        with tempfile.TemporaryDirectory() as place:
            wrong = soak(args, Path(place), children)
    finally:
        proxy.end(children)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
