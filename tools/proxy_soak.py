#!/usr/bin/env python3
"""Runs mixed traffic through `anabranch proxy` for some minutes, and fails if memory or file descriptors grow.

    tools/proxy_soak.py --minutes 20
    tools/proxy_soak.py --minutes 20 --tls --csv soak.csv

Both sides are on the loopback device, with the kernel's Multipath TCP between them. At once there are short downloads of 0 to 200 KB, long ones, connections
that wait and are closed, connections that the application resets, destinations that are refused or closed, requests that are no SOCKS and no HTTP, and strangers
at the server's port. Every five seconds the memory and the descriptors of both sides are recorded (`--csv`).

It fails if a download has not all its bytes, if a side ends, if the median memory of the last quarter exceeds the median of the second quarter by more than
4 MB and 5 %, or if, when the traffic has ended, a connection is left, or more descriptors are open than after the first ten seconds of traffic and a pause.
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
# Pipes that a side keeps for later connections: eight of each thread, with two ends.
KEPT = 16
WEB, SERVER, CLIENT = 8400, 8883, 1480
HERE = "127.0.0.1"


def download(size):
    with proxy.socks((HERE, CLIENT), HERE, WEB) as connection:
        connection.sendall(b"GET /%d HTTP/1.1\r\n\r\n" % size)
        count, head = 0, b""
        while b"\r\n\r\n" not in head:
            part = connection.recv(4096)
            if not part:
                raise OSError("the connection ended in the head")
            head += part
        count = len(head.split(b"\r\n\r\n", 1)[1])
        buffer = bytearray(1 << 18)
        while n := connection.recv_into(buffer):
            count += n
    if count != size:
        raise OSError(f"{count} of {size} bytes")


def short(chance):
    download(chance.randrange(200_000))


def long(chance):
    download(chance.randrange(20_000_000, 60_000_000))
    time.sleep(chance.random())


def waiting(chance):
    with proxy.socks((HERE, CLIENT), HERE, WEB):
        time.sleep(2 * chance.random())


def reset(chance):
    with proxy.socks((HERE, CLIENT), HERE, WEB) as connection:
        connection.sendall(b"GET /endless HTTP/1.1\r\n\r\n")
        for _ in range(chance.randrange(20)):
            connection.recv(1 << 16)
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


KINDS = {"short": (short, 4), "long": (long, 1), "waiting": (waiting, 8), "reset": (reset, 1), "refused": (refused, 1), "nonsense": (nonsense, 1)}


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


def active(path):
    """The number of connections, by the status of a side."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        text = b""
        while part := connection.recv(1 << 16):
            text += part
    return len(json.loads(text.split(b"\r\n\r\n", 1)[1])["connections"])


def quiet(sides, statuses):
    """Waits until both sides have no connection, at most a minute. Returns the descriptors of each."""
    time.sleep(PAUSE)
    until = time.monotonic() + 60
    while any(active(path) for path in statuses) and time.monotonic() < until:
        time.sleep(1)
    time.sleep(1)
    return {name: descriptors(process) for name, process in sides.items()}


def start(binary, place, tls, children):
    key = subprocess.run([binary, "proxy", "--new-key", "test"], stdout=subprocess.PIPE, check=True, text=True).stdout
    new = [binary, "proxy", "--new-certificate", HERE]
    pem = subprocess.run(new, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True).stdout
    limits = f"allow = '{HERE}'\nrate = 10000\nconnections = 100000\n"
    for name, text in (("client.key", key), ("server.toml", limits + key), ("server.pem", pem)):
        (place / name).touch(0o600)
        (place / name).write_text(text, encoding="ascii")
    remote = ["--tls", "--certificate", str(place / "server.pem")] if tls else []
    local = ["--tls", "--pin", pem.split()[3]] if tls else []
    common = [binary, "proxy", "--quiet"]
    proxy.start([sys.executable, proxy.ME, "--web", str(WEB)], children)
    server = [*common, "--server", "--policy", str(place / "server.toml"), "--listen", f"{HERE}:{SERVER}"]
    client = [*common, "--to", f"{HERE}:{SERVER}", "--key", str(place / "client.key"), "--listen", f"{HERE}:{CLIENT}"]
    client += ["--memory", str(place / "paths.json")]
    statuses = [str(place / name) for name in ("server", "client")]
    sides = {
        "server side": proxy.start([*server, *remote, "--status", statuses[0]], children),
        "client side": proxy.start([*client, *local, "--status", statuses[1]], children),
    }
    time.sleep(2)
    return sides, statuses


def soak(args, place, children):
    sides, statuses = start(args.binary, place, args.tls, children)
    warm = Traffic(0)
    time.sleep(10)
    warm.end()
    before = quiet(sides, statuses)
    traffic = Traffic(1)
    begun = time.monotonic()
    rows = []
    wrong = []
    while (now := time.monotonic() - begun) < 60 * args.minutes and not wrong:
        time.sleep(EVERY)
        for name, process in sides.items():
            if process.poll() is not None:
                wrong.append(f"the {name} has ended with {process.returncode}")
                continue
            rows.append({"t_s": round(now), "side": name, "memory_bytes": proxy.memory(process), "descriptors": descriptors(process)})
    traffic.end()
    wrong += warm.failures[:5] + traffic.failures[:5]
    print(", ".join(f"{count} {name}" for name, count in traffic.counts.items()))
    if args.csv:
        with open(args.csv, "w", encoding="ascii", newline="") as file:
            writer = csv.DictWriter(file, ["t_s", "side", "memory_bytes", "descriptors"])
            writer.writeheader()
            writer.writerows(rows)
    if any(process.poll() is not None for process in sides.values()):
        return wrong
    after = quiet(sides, statuses)
    left = [active(path) for path in statuses]
    if any(left):
        wrong.append(f"{left} connections are left")
    for name in sides:
        found = [row["memory_bytes"] for row in rows if row["side"] == name]
        quarter = max(1, len(found) // 4)
        early, late = statistics.median(found[quarter : 2 * quarter] or found), statistics.median(found[-quarter:])
        most = max(row["descriptors"] for row in rows if row["side"] == name)
        print(
            f"{name}: memory {early / 1e6:.1f} MB in the second quarter, {late / 1e6:.1f} MB in the last, at most {max(found) / 1e6:.1f} MB; "
            f"descriptors {before[name]} before, at most {most}, {after[name]} after"
        )
        if late - early > max(4e6, 0.05 * early):
            wrong.append(f"the memory of the {name} has grown by {(late - early) / 1e6:.1f} MB")
        if after[name] > before[name] + KEPT:
            wrong.append(f"the {name} has {after[name] - before[name]} descriptors more than before")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--tls", action="store_true", help="with TLS between the two sides")
    parser.add_argument("--csv", help="the file for memory and descriptors, every five seconds")
    parser.add_argument("--binary", default=str(proxy.TARGET / "release" / "anabranch"))
    args = parser.parse_args()
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
