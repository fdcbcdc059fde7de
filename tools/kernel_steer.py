#!/usr/bin/env python3
"""Completion times with the kernel's path manager, with `anabranch kernel steer`, and of TCP: the tables of docs/kernel.md.

    sudo tools/kernel_steer.py wifi-lte --runs 20
    sudo tools/kernel_steer.py wifi-lte --runs 21 --download
    sudo tools/kernel_steer.py "20Mbit/s,20ms,loss=0.1%" "20Mbit/s,100ms,loss=0.1%" --runs 30
    sudo tools/kernel_steer.py "20Mbit/s,20ms,loss=3%" "20Mbit/s,100ms,loss=3%" --runs 30 --up-to "1 MB"

The arguments are a scenario, or its paths. Each run has, for each size, one connection of each kind over the emulator, one after
the other in rotating order. The table has the mean differences of the completion times with their 95 % intervals (bootstrap over
runs); below 0 is faster. `steer` runs at the client with an empty memory of paths, and the kernels keep no metrics of connections that
have ended, so that no connection depends on the ones before. A run takes ten seconds.
"""

import argparse
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from paired import difference

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SIZES = {"16 KB": 16_000, "64 KB": 64_000, "256 KB": 256_000, "1 MB": 1_000_000, "8 MB": 8_000_000}
KINDS = ["kernel", "steer", "tcp"]
PORT = 5001
PAUSE = 0.25


def forget():
    """The kernel keeps no slow-start threshold and no round trip of a peer for the next connection."""
    Path("/proc/sys/net/ipv4/tcp_no_metrics_save").write_text("1", encoding="ascii")


def exactly(connection, size):
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise OSError
        data += part
    return data


def drain(connection, size):
    while size > 0:
        part = connection.recv(1 << 18)
        if not part:
            raise OSError
        size -= len(part)


def serve():
    """Takes or sends as many bytes as each connection asks for."""

    def answer(connection):
        with connection:
            try:
                head = exactly(connection, 9)
                size = int.from_bytes(head[1:], "big")
                if head[:1] == b"u":
                    drain(connection, size)
                    connection.sendall(b"k")
                else:
                    connection.sendall(bytes(size))
                connection.recv(1)
            except OSError:
                pass

    forget()
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", PORT))
    listener.listen(128)
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()


def transfer(kind, size, download):
    """Returns the time of one connection, in seconds."""
    Path("/proc/sys/net/mptcp/path_manager").write_text("userspace" if kind == "steer" else "kernel", encoding="ascii")
    protocol = socket.IPPROTO_TCP if kind == "tcp" else socket.IPPROTO_MPTCP
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol) as connection:
        begun = time.perf_counter()
        connection.connect((os.environ["ANABRANCH_SERVER"], PORT))
        head = (b"d" if download else b"u") + size.to_bytes(8, "big")
        if download:
            connection.sendall(head)
            drain(connection, size)
        else:
            connection.sendall(head + bytes(size))
            exactly(connection, 1)
        return time.perf_counter() - begun


def up_to(largest):
    names = list(SIZES)
    return names[: names.index(largest) + 1]


def client(runs, download, anabranch, largest):
    """Prints an object for each run: the times of each size and kind."""
    forget()
    with tempfile.TemporaryDirectory() as place:
        command = [anabranch, "kernel", "steer", "--quiet", "--run-directory", place, "--state-directory", place]
        daemon = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        time.sleep(1)
        try:
            for run in range(runs):
                times = {}
                for name in up_to(largest):
                    size = SIZES[name]
                    for kind in KINDS[run % 3 :] + KINDS[: run % 3]:
                        times[f"{name} {kind}"] = transfer(kind, size, download)
                        time.sleep(PAUSE)
                print(json.dumps(times), flush=True)
        finally:
            Path("/proc/sys/net/mptcp/path_manager").write_text("userspace", encoding="ascii")
            daemon.terminate()
            daemon.wait()


def shown(runs, one, other):
    mean, low, high = difference(runs, one, other)
    return f"{mean:.1f} % ({low:.1f} to {high:.1f})"


def table(runs, largest):
    lines = ["| size | kernel's path manager, vs TCP | `steer` vs TCP | `steer` vs kernel's |", "|---|---|---|---|"]
    for size in up_to(largest):
        cells = [shown(runs, f"{size} {a}", f"{size} {b}") for a, b in (("kernel", "tcp"), ("steer", "tcp"), ("steer", "kernel"))]
        lines.append(f"| {size} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a scenario, or two or more paths")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--download", action="store_true", help="the server sends")
    parser.add_argument("--up-to", choices=SIZES, default="8 MB", help="the largest size")
    parser.add_argument("--binary", default=str(TARGET / "release" / "anabranch"))
    args = parser.parse_args()
    if args.runs < 2:
        parser.error("an interval needs two runs or more")
    what = args.paths if len(args.paths) == 1 else [word for path in args.paths for word in ("--path", path)]
    me = shlex.quote(str(Path(__file__).resolve()))
    command = [
        args.binary, "emulate", *what, "--kernel-cc", "cubic", "--download" if args.download else "--upload",
        "--server-command", f"{shlex.quote(sys.executable)} {me} --serve", "--",
        sys.executable, str(Path(__file__).resolve()), "--client", str(args.runs), str(int(args.download)), args.binary, args.up_to,
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not runs:
        sys.exit(f"no run has ended: {shlex.join(command)}")
    print(f"{len(runs)} runs\n\n{table(runs, args.up_to)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve()
    elif sys.argv[1:2] == ["--client"]:
        client(int(sys.argv[2]), sys.argv[3] == "1", *sys.argv[4:6])
    else:
        main()
