#!/usr/bin/env python3
"""What clients that request a large file and never read cost `anabranch serve`.

As root, in a network namespace of its own, which it fills with a TUN device and three addresses:

    unshare --net tools/slow_readers.py target/release/anabranch --clients 2000

Other clients fetch a file of 4 MB meanwhile, one from the address of those that do not read and one from another.
"""

import argparse
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time

SETUP = """
ip link set lo up
ip tuntap add dev slow1 mode tun
ip link set slow1 txqueuelen 10000 up
ip address add 10.81.1.1/32 dev slow1
ip address add 10.81.1.2/32 dev slow1
ip route add 10.80.1.5 dev slow1 src 10.81.1.1
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("anabranch")
    parser.add_argument("--clients", type=int, default=2000)
    parser.add_argument("--take", type=int, default=0, help="bytes that each reads before it stops")
    parser.add_argument("--hold", type=float, default=10, help="seconds for which all are held")
    parser.add_argument("--files", type=int, default=1024, help="the server's soft limit of open files")
    parser.add_argument("options", nargs="*", help="options of `serve`, after --")
    args = parser.parse_args()
    if len(socket.if_nameindex()) > 1:
        sys.exit("this is no namespace of its own; run it with `unshare --net`")
    subprocess.run(SETUP, shell=True, check=True)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with tempfile.TemporaryDirectory() as directory:
        with open(f"{directory}/big", "wb") as file:
            file.truncate(200_000_000)
        with open(f"{directory}/normal", "wb") as file:
            file.write(os.urandom(4_000_000))
        server = subprocess.Popen(
            [args.anabranch, "serve", "--tun", "slow1", "--address", "10.80.1.5", "--quiet"]
            + args.options
            + [directory],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (args.files, hard)),
        )
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        try:
            measure(args, server.pid)
        finally:
            server.send_signal(2)
            server.wait(10)


def measure(args: argparse.Namespace, pid: int) -> None:
    def show(what: str) -> None:
        with open(f"/proc/{pid}/status") as status:
            rss = next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
        files = len(os.listdir(f"/proc/{pid}/fd"))
        print(f"{what:34} RSS {rss / 1000:8.1f} MB, {files:5} open files", flush=True)

    def fetch(source: str) -> None:
        begun = time.monotonic()
        how = ["-s", "-m", "30", "-o", "/dev/null", "-w", "%{http_code} %{size_download}", "--interface", source]
        run = subprocess.run(["curl", *how, "http://10.80.1.5/normal"], capture_output=True, text=True)
        seconds = time.monotonic() - begun
        print(f"  fetched from {source}: {run.stdout}, exit code {run.returncode}, {seconds:.2f} s", flush=True)

    time.sleep(1)
    show("at the start")
    fetch("10.81.1.1")
    show("after one fetch")
    held, failed = [], 0
    for _ in range(args.clients):
        client = socket.socket()
        if not args.take:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(5)
        try:
            client.connect(("10.80.1.5", 80))
            client.sendall(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
            left = args.take
            while left > 0:
                got = len(client.recv(min(left, 1 << 16)))
                left = left - got if got else 0
        except OSError:
            failed += 1
        held.append(client)
    print(f"  {args.clients} clients, {failed} without a connection", flush=True)
    time.sleep(2)
    show("with all of them")
    fetch("10.81.1.1")
    fetch("10.81.1.2")
    time.sleep(args.hold)
    show(f"after {args.hold:g} s more")
    fetch("10.81.1.2")
    for client in held:
        client.close()
    time.sleep(3)
    show("all closed")
    fetch("10.81.1.1")
    time.sleep(10)
    show("10 s later")


if __name__ == "__main__":
    main()
