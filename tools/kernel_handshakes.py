#!/usr/bin/env python3
"""How the kernel's Multipath TCP takes first handshakes that lose segments: the comparison for the interoperation cells
`lost-handshakes` with random losses (docs/interoperation.md).

Two network namespaces, a pair of devices between them, and nftables that drop some of the client's segments after the
SYN, 5 % of them. Each client closes its direction at once; the server sends 1000 bytes. Printed: how many connections
were complete in time, how many ended as plain TCP, and the kernel's counters. Takes root, iproute2, nftables.

    sudo tools/kernel_handshakes.py [--connections 500] [--percent 5]
"""

import argparse
import os
import socket
import subprocess
import sys
import threading
import time

CLIENT, SERVER = "handshake_c", "handshake_s"
ADDRESS, PORT = "10.78.1.2", 5000
ANSWER = bytes(at % 251 for at in range(1000))
PATIENCE = 40


def run(command, check=True):
    return subprocess.run(command, shell=True, check=check, capture_output=True, text=True).stdout


def remove():
    for name in (CLIENT, SERVER):
        run(f"ip netns delete {name}", check=False)


def build(percent):
    remove()
    run(f"ip netns add {CLIENT} && ip netns add {SERVER}")
    run(f"ip link add hs_c netns {CLIENT} type veth peer name hs_s netns {SERVER}")
    for name, device, ip in ((CLIENT, "hs_c", "10.78.1.1"), (SERVER, "hs_s", ADDRESS)):
        run(f"ip -n {name} addr add {ip}/24 dev {device} && ip -n {name} link set {device} up")
        run(f"ip netns exec {name} sysctl -qw net.mptcp.blackhole_timeout=0 net.ipv4.tcp_congestion_control=reno")
    drop = f"ip protocol tcp tcp flags & syn == 0 numgen random mod 100 < {percent} drop"
    table = f"add table ip hs; add chain ip hs p {{ type filter hook prerouting priority -300; }}; add rule ip hs p {drop}"
    run(f"ip netns exec {SERVER} nft '{table}'")


def counters(name):
    lines = run(f"ip netns exec {name} cat /proc/net/netstat").splitlines()
    found = {}
    for names, values in zip(lines[::2], lines[1::2]):
        if names.startswith("MPTcpExt"):
            pairs = zip(names.split()[1:], values.split()[1:])
            found = {key: int(value) for key, value in pairs if value != "0"}
    return found


def mptcp_socket():
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
    made.settimeout(PATIENCE)
    return made


def read_all(connection):
    got = b""
    while data := connection.recv(65536):
        got += data
    return got


def serve(count):
    listener = mptcp_socket()
    listener.bind(("", PORT))
    listener.listen(128)
    print("listening", flush=True)

    def answer(connection):
        with connection:
            connection.settimeout(PATIENCE)
            try:
                connection.sendall(ANSWER)
                connection.shutdown(socket.SHUT_WR)
                read_all(connection)
            except OSError:
                pass

    threads = []
    for _ in range(count):
        connection, _ = listener.accept()
        threads.append(threading.Thread(target=answer, args=(connection,)))
        threads[-1].start()
    for thread in threads:
        thread.join()


def ask(count):
    complete, longest = 0, 0.0
    lock = threading.Lock()

    def one(connection):
        nonlocal complete, longest
        begun = time.monotonic()
        with connection:
            try:
                connection.shutdown(socket.SHUT_WR)
                done = read_all(connection) == ANSWER
            except OSError:
                done = False
        with lock:
            complete += done
            longest = max(longest, time.monotonic() - begun)

    threads = []
    for _ in range(count):
        connection = mptcp_socket()
        connection.connect((ADDRESS, PORT))
        threads.append(threading.Thread(target=one, args=(connection,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    print(f"{complete} of {count} connections complete, the longest after {longest:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=500)
    parser.add_argument("--percent", type=int, default=5)
    parser.add_argument("--part", choices=("client", "server"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        (ask if options.part == "client" else serve)(options.connections)
        return
    if os.geteuid() != 0:
        sys.exit("kernel_handshakes.py: takes root")
    build(options.percent)
    try:
        part = [sys.executable, os.path.abspath(__file__), "--connections", str(options.connections), "--part"]
        inside = lambda name, which: ["ip", "netns", "exec", name, *part, which]
        server = subprocess.Popen(inside(SERVER, "server"), stdout=subprocess.PIPE, text=True)
        server.stdout.readline()
        subprocess.run(inside(CLIENT, "client"), check=True)
        server.wait(timeout=PATIENCE)
        for name in (CLIENT, SERVER):
            print(f"{name}: {counters(name)}")
    finally:
        remove()


if __name__ == "__main__":
    main()
