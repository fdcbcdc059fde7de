#!/usr/bin/env python3
"""CPU time of a gigabyte with each congestion control of the kernel: the table of docs/kernel-cc.md.

    cargo build --release -p anabranch-cli --features kernel-bpf
    sudo tools/kernel_cc_cost.py --rounds 10

Two network namespaces are connected by two pairs of veth. In each round one connection of Multipath TCP with two subflows
carries a gigabyte with each control, in rotating order. The CPU time is the whole machine's (/proc/stat, interrupts
included), so nothing else may run; with `--own` it is the time of the two programs (/proc/PID/schedstat), which includes the packets
that they process for each other, and so other programs may run. Prints the mean of each control and its difference from `reno`, paired by round, with a
95 % interval (bootstrap over rounds).
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from paired import difference

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CONTROLS = ["reno", "cubic", "mp_lia", "mp_olia", "mp_balia", "mp_wvegas"]
MPTCP = 262
PORT = 5001
ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
GIGABYTE = 1_000_000_000
SERVER = "10.77.1.2"


def receive():
    """Accepts connections one after the other, and reads each one to its end. Answers with its own CPU time for each."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("0.0.0.0", PORT))
        listener.listen()
        buffer = bytearray(1 << 18)
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                begun = own()
                while connection.recv_into(buffer):
                    pass
                connection.sendall(str(own() - begun).encode())


def send():
    """Sends a gigabyte, and prints the CPU time of the machine and the time that it took."""
    data = memoryview(bytes(1 << 18))
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP) as connection:
        connection.connect((SERVER, PORT))
        # The second subflow joins.
        connection.sendall(data)
        time.sleep(0.2)
        before, mine, begun, left = busy(), own(), time.monotonic(), GIGABYTE
        while left > 0:
            left -= connection.send(data[: min(left, len(data))])
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(64)
        if not answer:
            raise SystemExit("the server has not received everything")
        print(busy() - before, time.monotonic() - begun, own() - mine + float(answer))


def busy():
    """Returns the CPU time of the machine that was not idle, in seconds."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq, *_ = map(int, fields)
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def own():
    """Returns the CPU time of this program, in seconds."""
    return int(Path("/proc/self/schedstat").read_text().split()[0]) / 1e9


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def inside(name, *words):
    return ["ip", "netns", "exec", name, *words]


def set_up(names):
    for name in names:
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
    for pair in (1, 2):
        ends = [f"anc{pair}", f"ans{pair}"]
        ip("link", "add", ends[0], "netns", names[0], "type", "veth", "peer", "name", ends[1], "netns", names[1])
        for at, (name, end) in enumerate(zip(names, ends, strict=True), 1):
            ip("-n", name, "address", "add", f"10.77.{pair}.{at}/24", "dev", end)
            ip("-n", name, "link", "set", end, "up")
    for name in names:
        ip("-n", name, "mptcp", "limits", "set", "subflows", "2", "add_addr_accepted", "2")
    ip("-n", names[1], "mptcp", "endpoint", "add", "10.77.2.2", "dev", "ans2", "signal")
    time.sleep(1)


def subflows(name):
    """Returns the number of subflows that have joined connections of this namespace."""
    shown = subprocess.run(
        inside(name, "nstat", "-asz", "MPTcpExtMPJoinSynAckRx"), capture_output=True, text=True, check=True
    )
    return sum(int(line.split()[1]) for line in shown.stdout.splitlines() if line.startswith("MPTcpExt"))


def measure(names, controls, rounds):
    rows = {control: [] for control in controls}
    for at in range(rounds):
        first = at % len(controls)
        for control in controls[first:] + controls[:first]:
            for name in names:
                knob = f"net.ipv4.tcp_congestion_control={control}"
                subprocess.run(inside(name, "sysctl", "-qw", knob), check=True)
            joined = subflows(names[0])
            shown = subprocess.run(
                inside(names[0], sys.executable, __file__, "--send"), capture_output=True, text=True, check=True
            )
            if subflows(names[0]) != joined + 1:
                raise SystemExit(f"with {control} no second subflow has joined")
            rows[control].append(tuple(map(float, shown.stdout.split())))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--controls", nargs="+", default=CONTROLS, help="the controls, `reno` first")
    parser.add_argument("--own", action="store_true", help="the CPU time of the two programs, and not the machine's")
    parser.add_argument("--send", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--receive", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.send:
        return send()
    if arguments.receive:
        return receive()
    command = os.environ.get("ANABRANCH", TARGET / "release" / "anabranch")
    # Everything is undone after SIGTERM too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    names = [f"anabranch-cost-{os.getpid()}-{end}" for end in ("c", "s")]
    laws = [control.removeprefix("mp_") for control in arguments.controls if control.startswith("mp_")]
    loaded = subprocess.Popen([command, "kernel", "cc", "load", *laws], stdout=subprocess.DEVNULL)
    server = None
    # A namespace takes a default only from the controls that are allowed to all.
    before = ALLOWED.read_text()
    time.sleep(1)
    try:
        ALLOWED.write_text(" ".join(dict.fromkeys(before.split() + arguments.controls)))
        set_up(names)
        server = subprocess.Popen(
            inside(names[1], sys.executable, __file__, "--receive"), stdout=subprocess.PIPE, text=True
        )
        server.stdout.readline()
        rows = measure(names, arguments.controls, arguments.rounds)
    finally:
        if server:
            server.kill()
            server.wait()
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False)
        ALLOWED.write_text(before)
        loaded.send_signal(signal.SIGINT)
        loaded.wait()
    print(f"{arguments.rounds} rounds; load {os.getloadavg()[0]:.2f}\n")
    print("| control | CPU seconds for a gigabyte | against `reno` | Gbit/s |\n|---|---|---|---|")
    for control in arguments.controls:
        which = 2 if arguments.own else 0
        cpu = [row[which] for row in rows[control]]
        rate = sum(8 / row[1] for row in rows[control]) / len(cpu)
        pairs = list(zip(cpu, (row[which] for row in rows["reno"]), strict=True))
        versus = "{:+.1f} % ({:+.1f} to {:+.1f})".format(*difference(pairs, 0, 1))
        print(f"| `{control}` | {sum(cpu) / len(cpu):.3f} | {versus} | {rate:.1f} |")


if __name__ == "__main__":
    main()
