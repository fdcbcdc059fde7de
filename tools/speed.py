#!/usr/bin/env python3
"""Makes the tables of docs/performance.md about real packets: `anabranch bench` against the kernel, beside
the kernel's own TCP and MPTCP and beside smoltcp, all through TUN devices of MTU 1500.

    cargo build --release --package anabranch-cli
    cargo build --release --manifest-path tools/speed/Cargo.toml
    sudo tools/speed.py                       everything, some minutes
    sudo tools/speed.py --only goodput        one of goodput, ping, many

It works in network namespaces of its own, which it removes. Of several runs it prints the best. CPU time is that
of all processes that take part, the kernel's work in their calls and in the interrupts that these raise included;
it depends less than wall time on what else the machine does, and the load is printed.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Where the kernel is, and where the other one is.
KERNEL, OTHER = "10.81.1.1", "10.80.0.5"
# A run that takes longer, in seconds, has failed.
LIMIT = 60


def run(*command, **kwargs):
    return subprocess.run(command, check=True, **kwargs)


def ip(*args, netns=None):
    run("ip", *(["-n", netns] if netns else []), *args)


def cpu_of(pid):
    """Seconds that all threads of a process have run so far."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def drain(stream):
    with stream:
        stream.read()


class Lab:
    """Namespaces and what runs in them."""

    def __init__(self, args, name):
        self.args = args
        self.near, self.far = f"{args.name}-{name}-n", f"{args.name}-{name}-f"
        self.spaces, self.children = [], []

    def __enter__(self):
        for space in (self.near, self.far):
            ip("netns", "add", space)
            self.spaces.append(space)
            ip("link", "set", "lo", "up", netns=space)
            run("ip", "netns", "exec", space, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
        return self

    def __exit__(self, *_):
        for child in self.children:
            child.terminate()
        for child in self.children:
            child.wait()
        for space in self.spaces:
            subprocess.run(["ip", "netns", "delete", space], check=False)

    def inside(self, space, command):
        return ["ip", "netns", "exec", space, *map(str, command)]

    def start(self, space, *command, ready):
        """Starts what says that it is ready on its output or its errors."""
        command = self.inside(space, command)
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.children.append(child)
        for line in child.stdout:
            if line.startswith(ready):
                # A full pipe would hold up a server that prints a line for each connection.
                threading.Thread(target=drain, args=[child.stdout], daemon=True).start()
                return child
        raise SystemExit(f"{' '.join(command)} has ended with {child.wait()}")

    def measure(self, space, *command, beside=()):
        """Runs a client to its end: what it prints, its CPU time, and that of those `beside`."""
        before = sum(cpu_of(child.pid) for child in beside)
        command = self.inside(space, command)
        client = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        late = threading.Timer(LIMIT, client.kill)
        late.start()
        out, err = client.stdout.read(), client.stderr.read()
        _, status, usage = os.wait4(client.pid, 0)
        late.cancel()
        client.returncode = os.waitstatus_to_exitcode(status)
        if client.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} has ended with {client.returncode}: {err}")
        result = json.loads(out)
        result["cpu"] = usage.ru_utime + usage.ru_stime
        result["rss"] = usage.ru_maxrss * 1024
        result["cpu_beside"] = sum(cpu_of(child.pid) for child in beside) - before
        return result

    def tun(self):
        """A TUN device into the kernel of the namespace `far`."""
        ip("tuntap", "add", "dev", "tun0", "mode", "tun", netns=self.far)
        self.up(self.far, "tun0", KERNEL, OTHER)

    def up(self, space, device, own, peer):
        ip("link", "set", device, "mtu", "1500", "txqueuelen", "10000", "up", netns=space)
        ip("address", "add", f"{own}/32", "dev", device, netns=space)
        ip("route", "add", peer, "dev", device, "src", own, netns=space)

    def relay(self, offload):
        """A TUN device in each namespace, and a process that carries packets between them."""
        for device in ("tun0", "tun1"):
            ip("tuntap", "add", "dev", device, "mode", "tun", netns=self.far)
            ip("link", "set", device, "up", netns=self.far)
        options = ["--offload"] if offload else []
        child = self.start(self.far, self.args.speed, "relay", "tun0", "tun1", *options, ready="ready")
        ip("link", "set", "tun1", "netns", self.near, netns=self.far)
        self.up(self.far, "tun0", KERNEL, OTHER)
        self.up(self.near, "tun1", OTHER, KERNEL)
        return child

    def veth(self):
        ip("link", "add", "veth0", "netns", self.far, "type", "veth", "peer", "veth1", "netns", self.near)
        self.up(self.far, "veth0", KERNEL, OTHER)
        self.up(self.near, "veth1", OTHER, KERNEL)

    def server(self, protocol):
        command = [self.args.binary, "bench", "--server", "--kernel", protocol]
        return self.start(self.far, *command, ready="waiting")


class Contender:
    """Someone who speaks with the kernel's TCP or MPTCP."""

    def __init__(self, args, who, protocol, offload):
        self.args, self.who, self.protocol, self.offload = args, who, protocol, offload

    def label(self):
        return {
            "anabranch": "anabranch, one TUN",
            "smoltcp": "smoltcp, one TUN",
            "relay": "the kernel, two TUNs and a relay",
            "veth": "the kernel, veth",
        }[self.who]

    def __enter__(self):
        self.lab = Lab(self.args, f"{self.who}-{self.protocol}"[:8]).__enter__()
        self.beside = []
        if self.who == "relay":
            self.beside.append(self.lab.relay(self.offload))
        elif self.who == "veth":
            self.lab.veth()
        else:
            self.lab.tun()
        self.server = self.lab.server(self.protocol)
        self.beside.append(self.server)
        return self

    def __exit__(self, *args):
        self.lab.__exit__(*args)

    def bench(self, *options):
        """`anabranch bench`, in the namespace that fits."""
        command = [self.args.binary, "bench", "--client", KERNEL, "--json", "--interval", "0", *options]
        if self.who == "anabranch":
            command += ["--tun", "tun0", "--address", OTHER]
            command += [] if self.offload else ["--no-offload"]
            return self.lab.measure(self.lab.far, *command, beside=self.beside)
        command += ["--kernel", self.protocol]
        return self.lab.measure(self.lab.near, *command, beside=self.beside)

    def smoltcp(self, what, amount):
        command = [self.args.speed, "smoltcp", "tun0", OTHER, f"{KERNEL}:5210", what, amount]
        return self.lab.measure(self.lab.far, *command, beside=self.beside)

    def goodput(self, up):
        seconds = self.args.seconds
        if self.who == "smoltcp":
            result = self.smoltcp("upload" if up else "download", seconds)
            moved = result["bytes"]
        else:
            result = self.bench("--time", f"{seconds}s", *([] if up else ["--reverse"]))
            moved = result["uploaded_bytes" if up else "downloaded_bytes"]
        return {
            "mbps": moved * 8 / result["duration_s"] / 1e6,
            "own": result["cpu"] / (moved / 1e9),
            "all": (result["cpu"] + result["cpu_beside"]) / (moved / 1e9),
        }

    def ping(self):
        if self.who == "smoltcp":
            return self.smoltcp("ping", self.args.pings)
        return self.bench("--ping", self.args.pings)


def contenders(args):
    for offload in (False, True):
        for protocol in ("tcp", "mptcp"):
            yield Contender(args, "anabranch", protocol, offload)
        if not offload:
            yield Contender(args, "smoltcp", "tcp", False)
        for protocol in ("tcp", "mptcp"):
            yield Contender(args, "relay", protocol, offload)
    for protocol in ("tcp", "mptcp"):
        yield Contender(args, "veth", protocol, True)


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def header(*cells):
    print()
    row(*cells)
    print("|" + "---|" * len(cells))


def tried(args, act):
    """The results of the runs that came to an end."""
    results = []
    for _ in range(args.repeat):
        try:
            results.append(act())
        except RuntimeError as error:
            print(error, file=sys.stderr)
    return results


def goodput(args):
    header("who", "protocol", "offload", "direction", "Mbit/s", "own CPU s/GB", "CPU s/GB of all")
    for contender in contenders(args):
        with contender:
            for up in (True, False):
                results = tried(args, lambda: contender.goodput(up))
                if not results:
                    row(contender.label(), contender.protocol, "", "up" if up else "down", "fails", "", "")
                    continue
                best = {
                    "mbps": max(result["mbps"] for result in results),
                    "own": min(result["own"] for result in results),
                    "all": min(result["all"] for result in results),
                }
                row(
                    contender.label(),
                    contender.protocol,
                    "yes" if contender.offload else "no",
                    "to the kernel" if up else "from the kernel",
                    f"{best['mbps']:.0f}",
                    f"{best['own']:.2f}",
                    f"{best['all']:.2f}",
                )


def ping(args):
    header("who", "protocol", "offload", "p50, us", "p99, us")
    for contender in contenders(args):
        with contender:
            results = tried(args, contender.ping)
            at = [min((r[f"ping_{q}_s"] for r in results), default=0) * 1e6 for q in ("p50", "p99")]
            offload = "yes" if contender.offload else "no"
            row(contender.label(), contender.protocol, offload, *(f"{us:.0f}" for us in at))


def many(args):
    header("who", "protocol", "direction", "done", "s", "own CPU s", "CPU s of all", "largest memory, MB")
    for contender in contenders(args):
        if contender.who == "smoltcp" or not contender.offload:
            continue
        with contender:
            for up in (True, False):
                options = ["--parallel", str(args.connections), "--size", "1MB", *([] if up else ["--reverse"])]
                results = tried(args, lambda: timed(lambda: contender.bench(*options)))
                sizes = [r["uploaded_bytes" if up else "downloaded_bytes"] for r in results]
                done = sum(size == args.connections * 1_000_000 for size in sizes)
                row(
                    contender.label(),
                    contender.protocol,
                    "to the kernel" if up else "from the kernel",
                    f"{done} of {args.repeat} runs",
                    f"{min((r['took'] for r in results), default=0):.1f}",
                    f"{min((r['cpu'] for r in results), default=0):.1f}",
                    f"{min((r['cpu'] + r['cpu_beside'] for r in results), default=0):.1f}",
                    f"{min((r['rss'] for r in results), default=0) / 1e6:.0f}",
                )


def timed(act):
    """The result of `act`, with the seconds it took, connecting included."""
    begun = time.monotonic()
    result = act()
    return {**result, "took": time.monotonic() - begun}


PARTS = {"goodput": goodput, "ping": ping, "many": many}


def machine():
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    cores = f"{len(names)} cores of {names[0] if names else platform.machine()}"
    load = " ".join(f"{load:.1f}" for load in os.getloadavg())
    print(f"{cores}, Linux {platform.release()}, load {load}, {time.strftime('%Y-%m-%d')}")


def main():
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", help="this part of it")
    parser.add_argument("--binary", default=target / "release" / "anabranch")
    speed = ROOT / "tools" / "speed" / "target" / "release" / "anabranch-speed"
    parser.add_argument("--speed", default=speed, help="the program of tools/speed")
    parser.add_argument("--seconds", type=float, default=3, help="of each run")
    parser.add_argument("--repeat", type=int, default=3, help="how many runs")
    parser.add_argument("--pings", type=int, default=20000)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--name", default=f"speed{os.getpid()}", help="what the namespaces are called")
    args = parser.parse_args()
    for program in (args.binary, args.speed):
        if not Path(program).exists():
            parser.error(f"there is no {program}: build it first, as `--help` says")
    if os.geteuid() != 0:
        parser.error("it takes root")
    for part in args.only or PARTS:
        machine()
        PARTS[part](args)
        print()


if __name__ == "__main__":
    main()
