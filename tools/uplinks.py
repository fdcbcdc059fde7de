#!/usr/bin/env python3
"""Measures how soon a connection through the proxy leaves an interface that fails, and returns: the table in docs/proxy.md.

    sudo tools/uplinks.py [--events 20]

A host has two interfaces to another one, in network namespaces. A download of a steady rate passes both sides of the proxy while one interface
and then the other goes down for two seconds and comes back, as `ip link set down` and `up` with its default route. The table has the time from
the call of `ip` to the line in the log of the proxy (transport `anabranch`), and the longest pause of the download after it.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
ME = str(Path(__file__).resolve())
HOME, FAR = f"uplinks-home-{os.getpid()}", f"uplinks-far-{os.getpid()}"
WEB, PORT, SOCKS = 8000, 8803, 1080
# 26 Mbit/s.
PIECE, EVERY = 16_384, 0.005

NETWORK = f"""
ip netns add {HOME}; ip netns add {FAR}
ip -n {HOME} link set lo up; ip -n {FAR} link set lo up
for n in 0 1; do
    ip -n {HOME} link add r$n type veth peer name f$n netns {FAR}
    ip -n {HOME} link set r$n addrgenmode none up; ip -n {FAR} link set f$n addrgenmode none up
    ip -n {HOME} addr add 10.9.$n.2/24 dev r$n; ip -n {FAR} addr add 10.9.$n.1/24 dev f$n
    ip -n {HOME} route add default via 10.9.$n.1 dev r$n metric $((100 + n))
    ip -n {HOME} rule add from 10.9.$n.2 lookup $((10 + n))
    ip -n {HOME} route add default via 10.9.$n.1 dev r$n table $((10 + n))
    ip -n {HOME} mptcp endpoint add 10.9.$n.2 dev r$n subflow
done
ip -n {HOME} mptcp limits set subflow 4 add_addr_accepted 4; ip -n {FAR} mptcp limits set subflow 4 add_addr_accepted 4
ip -n {FAR} addr add 203.0.113.9/32 dev lo
ip -n {FAR} tuntap add dev tun0 mode tun; ip -n {FAR} link set tun0 txqueuelen 10000 up
ip -n {FAR} addr add 10.80.0.254/24 dev tun0
ip netns exec {FAR} sysctl -qw net.ipv4.ip_forward=1
ip netns exec {FAR} sysctl -qw net.ipv4.conf.all.rp_filter=0
"""


def shell(text, check=True):
    return subprocess.run(["bash", "-euc", text], check=check)


def serve():
    """Sends bytes at a steady rate to each connection, until it ends."""
    piece = bytes(PIECE)

    def send(connection):
        begun, count = time.monotonic(), 0
        try:
            while True:
                connection.sendall(piece)
                count += 1
                time.sleep(max(0, begun + count * EVERY - time.monotonic()))
        except OSError:
            pass

    listener = socket.create_server(("127.0.0.1", WEB))
    print("ready", flush=True)
    while True:
        threading.Thread(target=send, args=(listener.accept()[0],), daemon=True).start()


def receive():
    """Prints the time and the length of each pause above 20 ms of a download by the proxy."""
    app = socket.create_connection(("127.0.0.1", SOCKS))
    app.sendall(b"\5\1\0")
    app.recv(2, socket.MSG_WAITALL)
    app.sendall(b"\5\1\0\1" + socket.inet_aton("127.0.0.1") + struct.pack(">H", WEB))
    app.recv(10, socket.MSG_WAITALL)
    last = time.time()
    print(json.dumps({"begun": last}), flush=True)
    while app.recv(1 << 20):
        now = time.time()
        if now - last > 0.02:
            print(json.dumps({"at": last, "pause": now - last}), flush=True)
        last = now
    print(json.dumps({"ended": last}), flush=True)


class Lines:
    """The lines of a program, with the time at which each came, read by a thread."""

    def __init__(self, stream):
        self.lines = []
        threading.Thread(target=self.read, args=(stream,), daemon=True).start()

    def read(self, stream):
        for line in stream:
            self.lines.append((time.time(), line.strip()))

    def wait(self, word, patience=10):
        end = time.time() + patience
        while time.time() < end:
            for _, line in self.lines:
                if word in line:
                    return line
            time.sleep(0.01)
        raise SystemExit(f"no `{word}` in {self.lines}")


def spread(values):
    if not values:
        return "-"
    return f"{statistics.median(values) * 1000:.0f} ms, {max(values) * 1000:.0f} ms"


def measure(binary, work, transport, steer, events):
    running = []

    def start(namespace, *words, pipe="stderr"):
        words = ["ip", "netns", "exec", namespace, *map(str, words)]
        process = subprocess.Popen(words, text=True, cwd=work, **{pipe: subprocess.PIPE})
        running.append(process)
        return Lines(process.stderr if pipe == "stderr" else process.stdout)

    try:
        start(FAR, sys.executable, ME, "serve", pipe="stdout").wait("ready")
        server, client, at = [], [], "203.0.113.9"
        if transport == "anabranch":
            server = ["--transport", "anabranch", "--tun", "tun0", "--address", "10.80.0.5"]
            client = ["--transport", "anabranch", "--tun", "anabranch0", "--address", "10.86.84.1", "--address", "10.86.84.2"]
            at = "10.80.0.5"
            start(HOME, binary, "tun", "follow", "--state-dir", work / "state").wait("follow their")
        start(FAR, binary, "proxy", "--server", "--policy", "server.toml", *server).wait("server side")
        if steer:
            start(HOME, binary, "kernel", "steer", "--run-directory", work / "run", "--state-directory", work / "memory")
            time.sleep(1)
        log = start(HOME, binary, "proxy", "--to", f"{at}:{PORT}", "--key", "laptop.key", "--log", "json", *client)
        log.wait("proxy for SOCKS")
        stream = start(HOME, sys.executable, ME, "receive", pipe="stdout")
        stream.wait("begun")
        time.sleep(2)
        lost, back, times = [], [], []
        for event in range(events):
            n = event % 2
            down = time.time()
            shell(f"ip -n {HOME} link set r{n} down")
            time.sleep(2)
            up = time.time()
            shell(f"ip -n {HOME} link set r{n} up; ip -n {HOME} route add default via 10.9.{n}.1 dev r{n} metric {100 + n}; "
                  f"ip -n {HOME} route replace default via 10.9.{n}.1 dev r{n} table {10 + n}")
            time.sleep(3)
            times.append((down, up))
        moments = []
        for _, line in log.lines:
            entry = json.loads(line)
            if "path" in entry.get("message", "") and "timestamp" in entry:
                moments.append((datetime.fromisoformat(entry["timestamp"]).timestamp(), entry["message"]))
        pauses = [json.loads(line) for _, line in stream.lines]
        if any("ended" in pause for pause in pauses):
            print("  the connection was lost")
        gaps = []
        for down, up in times:
            lost += [at - down for at, text in moments if "lost" in text and down <= at < up][:1]
            back += [at - up for at, text in moments if "back" in text and up <= at < up + 3][:1]
            gaps.append(max([p["pause"] for p in pauses if "at" in p and down - 0.1 <= p["at"] < up], default=0))
        name = transport + (", steered" if steer else "")
        print(f"| `{name}` | {spread(lost)} | {spread(back)} | {spread(gaps)} |", flush=True)
    finally:
        for process in reversed(running):
            process.send_signal(signal.SIGTERM)
        for process in running:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["serve", "receive"], help=argparse.SUPPRESS)
    parser.add_argument("--events", type=int, default=20, help="how often an interface goes down")
    parser.add_argument("--binary", default=str(TARGET / "release" / "anabranch"))
    options = parser.parse_args()
    if options.part:
        return {"serve": serve, "receive": receive}[options.part]()
    work = Path(tempfile.mkdtemp(prefix="uplinks-"))
    binary = str(Path(options.binary).resolve())
    try:
        shell(NETWORK)
        key = subprocess.run([binary, "proxy", "--new-key", "laptop"], check=True, capture_output=True, text=True).stdout
        (work / "laptop.key").write_text(key)
        (work / "server.toml").write_text(f"allow = '127.0.0.0/8'\n{key}")
        shell(f"ip netns exec {HOME} {binary} tun setup --path r0 --path r1 --state-dir {work}/state > /dev/null")
        print("| transport | lost: median and greatest | back | pause |\n|---|---|---|---|")
        for transport, steer in [("anabranch", False), ("kernel", False), ("kernel", True)]:
            measure(binary, work, transport, steer, options.events)
    finally:
        for name in [HOME, FAR]:
            shell(f"ip netns del {name}", check=False)
        shutil.rmtree(work, ignore_errors=True)
    return None


if __name__ == "__main__":
    sys.exit(main())
