#!/usr/bin/env python3
"""Floods a test host of one's own with SYNs whose answers nobody hears.

    syn_flood.py --to 10.1.1.2:80 --rate 20000 --seconds 30

For tests of one's own server inside a network namespace, for example as a part of `anabranch emulate
--server-command`. It is run in the namespace of the server, as root, and refuses to run in that of the machine or in one that
has a default route. It makes a second namespace with a link to the first, and sends from there: SYNs as Linux sends them, with MP_CAPABLE, from
198.19.0.0/16, a range for benchmarks that is routed nowhere (RFC 2544). Both namespaces' ends of the link are gone when
it ends. At the end it says how many SYNs it has sent.
"""

import argparse
import ctypes
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time

DEVICE = "synflood0"
NEAR, FAR = "198.18.0.1", "198.18.0.2"
SOURCES = "198.19"
MOST_RATE, MOST_SECONDS = 100_000, 600
MOST_PACKETS = 100_000
CLONE_NEWNET = 0x40000000
# MSS 1460, SACK permitted, timestamps, no operation, window scale 7, MP_CAPABLE of version 1 with HMAC-SHA256.
OPTIONS = bytes([2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7, 30, 4, 1, 1])


def main() -> None:
    """Reads the options, makes the link, floods, and takes the link away."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--to", required=True, metavar="IP:PORT", help="the server in this namespace, IPv4")
    parser.add_argument("--rate", type=int, default=5000, metavar="N", help=f"SYNs a second, up to {MOST_RATE}")
    parser.add_argument("--seconds", type=float, default=10, metavar="S", help=f"how long, up to {MOST_SECONDS}")
    args = parser.parse_args()
    ip, _, port = args.to.rpartition(":")
    if not 0 < args.rate <= MOST_RATE or not 0 < args.seconds <= MOST_SECONDS:
        sys.exit(f"at most {MOST_RATE} SYNs a second and {MOST_SECONDS} s")
    if is_outside():
        sys.exit("floods are for network namespaces made for tests, and this one leads outside")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET) != 0:
            os._exit(1)
        os.write(ready[1], b"x")
        if os.read(go[0], 1) == b"x":
            flood(socket.inet_aton(ip), int(port), args.rate, args.seconds)
        os._exit(0)
    try:
        os.read(ready[0], 1)
        link(child)
        os.write(go[1], b"x")
        os.waitpid(child, 0)
        child = 0
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        subprocess.run(["ip", "link", "del", DEVICE], stderr=subprocess.DEVNULL, check=False)


def is_outside() -> bool:
    """Whether this is the network namespace of the machine, or another with a way out of it."""
    routes = subprocess.run(
        ["ip", "-4", "route", "show", "table", "all", "default"], check=True, capture_output=True, text=True
    )
    try:
        same = os.readlink("/proc/self/ns/net") == os.readlink("/proc/1/ns/net")
    except PermissionError:
        same = False
    return same or bool(routes.stdout.strip())


def link(child: int) -> None:
    """Joins this namespace and that of `child` by a pair of devices."""
    inside = ["nsenter", "--target", str(child), "--net"]
    for command in [
        ["ip", "link", "add", DEVICE, "type", "veth", "peer", "name", DEVICE, "netns", str(child)],
        ["ip", "address", "add", f"{NEAR}/30", "dev", DEVICE],
        ["ip", "link", "set", DEVICE, "up"],
        ["ip", "route", "add", f"{SOURCES}.0.0/16", "via", FAR],
        [*inside, "ip", "address", "add", f"{FAR}/30", "dev", DEVICE],
        [*inside, "ip", "link", "set", DEVICE, "up"],
        [*inside, "ip", "route", "add", "default", "via", NEAR],
    ]:
        subprocess.run(command, check=True)


def flood(to: bytes, port: int, rate: int, seconds: float) -> None:
    """Sends the SYNs."""
    out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    # Made beforehand, so that what limits the rate is the sending.
    packets = [syn(to, port) for _ in range(min(int(rate * seconds) + 1, MOST_PACKETS))]
    address = (socket.inet_ntoa(to), 0)
    begun = time.monotonic()
    sent = 0
    due = 0.0
    while True:
        now = time.monotonic() - begun
        if now >= seconds:
            break
        # After a pause of the processor at most 20 ms are made up for.
        due = max(due, (now - 0.02) * rate)
        while due < now * rate:
            due += 1
            sent += 1
            try:
                out.sendto(packets[sent % len(packets)], address)
            except OSError as error:
                sys.exit(f"cannot send: {error}")
        time.sleep(0.001)
    print(f"{sent} SYNs in {seconds:g} s, {sent / seconds:.0f} a second", file=sys.stderr, flush=True)


def syn(to: bytes, port: int) -> bytes:
    """The packet of one SYN from a random source. The kernel fills in the checksum of the IP header."""
    source = socket.inet_aton(SOURCES + ".0.0")[:2] + random.randbytes(2)
    length = 20 + len(OPTIONS)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + length, 0, 0, 64, socket.IPPROTO_TCP, 0, source, to)
    head = struct.pack("!HHIIBBH", random.randrange(1024, 65536), port, random.getrandbits(32), 0, length << 2, 2, 64240)
    tcp = head + b"\0\0\0\0" + OPTIONS
    pseudo = source + to + struct.pack("!HH", socket.IPPROTO_TCP, length)
    total = sum(struct.unpack(f"!{(len(pseudo) + length) // 2}H", pseudo + tcp))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return ip + head + struct.pack("!HH", ~total & 0xFFFF, 0) + OPTIONS


if __name__ == "__main__":
    main()
