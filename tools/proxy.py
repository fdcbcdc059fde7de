#!/usr/bin/env python3
"""Measures `anabranch proxy`: the tables of docs/proxy.md.

    sudo tools/proxy.py downloads wifi-lte --runs 20 --scheduler dmptcp
    sudo tools/proxy.py downloads wifi-lte --tls
    sudo tools/proxy.py handover --runs 20
    tools/proxy.py throughput
    tools/proxy.py cores
    tools/proxy.py idle --connections 10000
    tools/proxy.py rate
    tools/proxy.py rate --transport anabranch --runs 1 --seconds 90

`downloads`: each run has, for each size, a download by curl of plain TCP on the first path, through the proxy with the kernel's transport and
with the transport `anabranch` (the scheduler is the one of the server side, which sends), one after the other in rotating order. The table has
the mean differences to TCP, with 95 % intervals (bootstrap over runs); below 0 is faster. Both kernels use CUBIC.

`handover`: downloads during which one path and then the other is cut for a second, again and again; the longest pause of each.

`throughput`: bytes a second through both sides on the loopback device, with and without TLS, beside two plain relays of the same shape (`cargo build
--release --example plain_relay -p anabranch-proxy`), which copy or call `splice`, two relays with the kernel's Multipath TCP between them, which show what that
costs by itself, and a direct connection, in rotating order. The rows of `--transport anabranch` have a TUN device for each side, between which the kernel
forwards; relays with a device without offload between them show what packets of 1500 bytes cost the kernel. The table has the ratios to the relays. `--one-core`
has all parts on one core. It runs in its own network namespace, without root in one of its own user namespace.

`cores`: bytes a second of eight downloads at once, with all parts (both sides, sink and source) on one core, and on two cores with one and with two
threads for each side, in rotating order; with and without TLS. The last column is the processor time of both sides for each gigabyte.

`idle`: the memory of both sides with many idle connections. A side needs two file descriptors for each with `--transport kernel`, and one with `--transport
anabranch`, in its own network namespace; `ulimit -Hn` bounds them.

`rate`: new connections a second through both sides, 32 at once, each with one small request and its answer, with and without TLS, and the memory of both
sides at the end (`cargo build --release --example open_connections -p anabranch-proxy`).
"""

import argparse
import json
import os
import re
import shlex
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from paired import difference

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SIZES = {"100 KB": 100_000, "1 MB": 1_000_000, "10 MB": 10_000_000}
WEB, KERNEL_PORT, STACK_PORT = 8000, 8803, 8804
ME = str(Path(__file__).resolve())


# --- The parts that run in the namespaces.


def serve_web(address="", port=WEB):
    """Answers `GET /N` with N bytes, `GET /endless` until the connection ends, and `PUT /N` with the number of bytes that it has received of N."""
    piece = bytes(1 << 20)

    def count(connection, got, size):
        buffer = bytearray(1 << 18)
        while got < size and (n := connection.recv_into(buffer)):
            got += n
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%d" % got)

    def answer(connection):
        with connection:
            try:
                request = b""
                while b"\r\n\r\n" not in request:
                    part = connection.recv(4096)
                    if not part:
                        return
                    request += part
                what = request.split(b" ")[1][1:]
                if request.startswith(b"PUT "):
                    count(connection, len(request.split(b"\r\n\r\n", 1)[1]), int(what))
                    return
                size = 1 << 60 if what == b"endless" else int(what)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size)
                while size > 0:
                    connection.sendall(piece[: min(size, len(piece))])
                    size -= len(piece)
            except (OSError, ValueError):
                pass

    listener = socket.create_server((address, port), backlog=1024)
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()


def stack(most=None):
    addresses = os.environ["ANABRANCH_ADDRESSES"].split(",")[:most]
    own = [word for one in addresses for word in ("--address", one)]
    return ["--transport", "anabranch", "--tun", os.environ["ANABRANCH_TUN"], *own]


def tls_of(place, server):
    """The options of a side with TLS, if `--tls` was given."""
    pem = Path(place) / "server.pem"
    if not (Path(place) / "tls").exists():
        return []
    return ["--tls", "--certificate", str(pem)] if server else ["--tls", "--pin", pem.read_text(encoding="ascii").split()[3]]


def server(anabranch, place, scheduler):
    common = [anabranch, "proxy", "--quiet", "--server", "--policy", f"{place}/server.toml", *tls_of(place, True)]
    subprocess.Popen(common)
    subprocess.Popen([*common, "--listen", f"[::]:{STACK_PORT}", *stack(1), "--scheduler", scheduler])
    serve_web()


def clients(anabranch, place):
    """Starts a client side of each transport. Returns the options of curl for each."""
    common = [anabranch, "proxy", "--quiet", "--key", f"{place}/client.key", *tls_of(place, False)]
    kernel, own = os.environ["ANABRANCH_SERVER"], os.environ["ANABRANCH_SERVER_STACK"]
    subprocess.Popen([*common, "--to", f"{kernel}:{KERNEL_PORT}", "--listen", "127.0.0.1:1080", "--status", f"{place}/kernel"])
    subprocess.Popen(
        [*common, "--to", f"{own}:{STACK_PORT}", "--listen", "127.0.0.1:1081", "--status", f"{place}/stack", *stack()]
    )
    time.sleep(1.5)
    return {"kernel": ["--proxy", "socks5h://127.0.0.1:1080"], "anabranch": ["--proxy", "socks5h://127.0.0.1:1081"]}


def fetch(options, address, size):
    """Returns the time of a download, in seconds."""
    command = ["curl", "--silent", "--show-error", "--max-time", "60", "--output", "/dev/null"]
    command += ["--write-out", "%{size_download} %{time_total}", *options, f"http://{address}:{WEB}/{size}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    got, seconds = done.stdout.split()
    if int(got) != size:
        raise OSError(f"{got} of {size} bytes")
    return float(seconds)


def client_downloads(anabranch, place, runs):
    """Prints an object for each run: the times of each size and kind."""
    address = os.environ["ANABRANCH_SERVER"]
    kinds = {"tcp": ([], address)} | {kind: (options, address) for kind, options in clients(anabranch, place).items()}
    names = list(kinds)
    for run in range(runs):
        times = {}
        for name, size in SIZES.items():
            turn = run % len(names)
            for kind in names[turn:] + names[:turn]:
                times[f"{name} {kind}"] = fetch(*kinds[kind], size)
                time.sleep(0.1)
        print(json.dumps(times), flush=True)


def client_handover(anabranch, place, runs):
    """Prints an object for each run: the longest pause of a download that crosses a failure of the path in use."""
    kinds = clients(anabranch, place)
    for _ in range(runs):
        pauses = {}
        for kind in kinds:
            port = {"kernel": 1080, "anabranch": 1081}[kind]
            pauses[kind] = longest_pause(("127.0.0.1", port), os.environ["ANABRANCH_SERVER"], 4.0)
        print(json.dumps(pauses), flush=True)


def longest_pause(proxy, address, seconds):
    """Returns the longest time between two pieces of an endless download, and the bytes; -1 if the connection was lost."""
    with socks(proxy, address, WEB) as connection:
        connection.sendall(b"GET /endless HTTP/1.1\r\n\r\n")
        connection.settimeout(10)
        begun = last = time.perf_counter()
        longest = count = 0
        while last - begun < seconds:
            try:
                part = connection.recv(1 << 18)
            except OSError:
                part = b""
            now = time.perf_counter()
            if not part:
                return [-1, count]
            longest, last, count = max(longest, now - last), now, count + len(part)
        return [longest, count]


def socks(proxy, address, port):
    """Returns a connection through a proxy, by SOCKS 5."""
    connection = socket.create_connection(proxy)
    request = b"\x05\x01\x00" + b"\x05\x01\x00\x01" + socket.inet_aton(address) + struct.pack(">H", port)
    connection.sendall(request)
    answer = b""
    while len(answer) < 12:
        part = connection.recv(12 - len(answer))
        if not part:
            raise OSError("the proxy has refused")
        answer += part
    if answer[3] != 0:
        raise OSError(f"the proxy has answered {answer[3]}")
    return connection


# --- Emulated.


def emulate(binary, what, place, kind, runs, scheduler):
    me = f"{shlex.quote(sys.executable)} {shlex.quote(ME)}"
    command = [
        binary, "emulate", *what, "--kernel-cc", "cubic",
        "--server-command", f"{me} --serve {shlex.quote(binary)} {place} {scheduler}", "--",
        sys.executable, ME, f"--client-{kind}", binary, place, str(runs),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or len(found) < 2:
        sys.exit(f"the emulator ended with {done.returncode}")
    return found


def shown(runs, one, other):
    mean, low, high = difference(runs, one, other)
    return f"{mean:+.1f} % ({low:+.1f} to {high:+.1f})"


def ratio(runs, one, other):
    mean, low, high = (1 + value / 100 for value in difference(runs, one, other))
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"


def downloads(runs):
    lines = ["| size | TCP | `kernel`, vs TCP | `anabranch`, vs TCP |", "|---|---|---|---|"]
    for size in SIZES:
        mean = statistics.fmean(run[f"{size} tcp"] for run in runs)
        cells = [shown(runs, f"{size} {kind}", f"{size} tcp") for kind in ("kernel", "anabranch")]
        lines.append(f"| {size} | {1000 * mean:.0f} ms | {' | '.join(cells)} |")
    return "\n".join(lines)


def handover(runs):
    lines = ["| transport | median of the longest pauses | greatest | connections lost |", "|---|---|---|---|"]
    for kind in ("kernel", "anabranch"):
        pauses = [run[kind][0] for run in runs]
        kept = [pause for pause in pauses if pause >= 0]
        lost = len(pauses) - len(kept)
        lines.append(f"| `{kind}` | {1000 * statistics.median(kept):.0f} ms | {1000 * max(kept):.0f} ms | {lost} of {len(pauses)} |")
    return "\n".join(lines)


# --- On the loopback device.


def start(command, children, cores=None):
    pinned = ["taskset", "--cpu-list", cores] if cores else []
    children.append(subprocess.Popen([*pinned, *command]))
    return children[-1]


# The time of a download.
SECONDS = 2.0


def rate_of(connection, seconds=SECONDS):
    """Returns the bytes a second of an endless download."""
    connection.sendall(b"GET /endless HTTP/1.1\r\n\r\n")
    buffer = bytearray(1 << 20)
    begun = time.perf_counter()
    count = 0
    while (now := time.perf_counter()) - begun < seconds:
        count += connection.recv_into(buffer)
    connection.close()
    return count / (now - begun)


def local_sides(binary, place, children, extra=(), port=KERNEL_PORT, listen=1080, cores=None, policy=None):
    common = [binary, "proxy", "--quiet"]
    tls = ["--tls", "--certificate", f"{place}/server.pem"] if "--tls" in extra else []
    rest = [word for word in extra if word != "--tls"]
    start([*common, "--server", "--policy", f"{place}/server.toml", "--listen", f"127.0.0.1:{port}", *tls, *rest], children, cores)
    tls = ["--tls", "--pin", Path(f"{place}/server.pem").read_text(encoding="ascii").split()[3]] if tls else []
    client = ["--to", f"127.0.0.1:{port}", "--key", f"{place}/client.key", "--listen", f"127.0.0.1:{listen}"]
    client += ["--policy", policy] if policy else []
    start([*common, *client, *tls, *rest], children, cores)


def run(*command, stdout=None):
    subprocess.run(command, stdout=stdout, check=True)


def own_network(program, arguments):
    """Runs a program again in a network namespace, for devices and addresses that disturb nothing. Returns in that one."""
    if "ANABRANCH_PROXY_NETWORK" in os.environ:
        return
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    os.environ["ANABRANCH_PROXY_NETWORK"] = "own"
    os.execvp("unshare", ["unshare", *user, "--net", sys.executable, program, *arguments])


def tun(name, network, queues=False):
    """Makes a TUN device, with several queues if `queues`. The address of its host in user space ends with 1."""
    run("ip", "tuntap", "add", "dev", name, "mode", "tun", *(["multi_queue"] if queues else []))
    run("ip", "link", "set", name, "txqueuelen", "10000", "up")
    run("ip", "address", "add", f"10.86.{network}.254/24", "dev", name)
    return ["--transport", "anabranch", "--tun", name, "--address", f"10.86.{network}.1"]


def stack_sides(binary, place, children, listen, network, extra=(), queues=False):
    """Both sides with the transport `anabranch`: the kernel forwards between their devices."""
    common = [binary, "proxy", "--quiet", *extra]
    remote, local = (tun(f"ab{at}", at, queues) for at in (network, network + 1))
    start([*common, "--server", "--policy", f"{place}/server.toml", *remote], children)
    client = ["--to", f"10.86.{network}.1:{KERNEL_PORT}", "--key", f"{place}/client.key", "--listen", f"127.0.0.1:{listen}"]
    start([*common, *client, *local], children)


def relays_without_offload(relay, children, port):
    """Two plain relays, with a device between them that has packets of 1500 bytes and no offload. The second is on another host with the source."""
    other = start(["unshare", "--net", "sleep", "infinity"], children)
    while os.readlink(f"/proc/{other.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
        time.sleep(0.01)
    there = ["nsenter", f"--net=/proc/{other.pid}/ns/net"]
    run("ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(other.pid))
    for before, name, address in (([], "near", "10.85.0.1/24"), (there, "far", "10.85.0.2/24")):
        for words in (("link", "set", "lo", "up"), ("address", "add", address, "dev", name), ("link", "set", name, "up")):
            run(*before, "ip", *words)
        run(*before, "ethtool", "--offload", name, "tx", "off", "tso", "off", "gso", "off", "gro", "off", stdout=subprocess.DEVNULL)
    start([*there, sys.executable, ME, "--web"], children)
    start([*there, relay, f"10.85.0.2:{port}", f"127.0.0.1:{WEB}", "splice"], children)
    start([relay, f"127.0.0.1:{port}", f"10.85.0.2:{port}", "splice"], children)


def throughput(binary, place, rounds):
    children = []
    try:
        run("ip", "link", "set", "lo", "up")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="ascii")
        local_sides(binary, place, children)
        local_sides(binary, place, children, ("--tls",), KERNEL_PORT + 1, 1081)
        plain = Path(place) / "plain.toml"
        plain.write_text("multipath = 'never'\n", encoding="ascii")
        local_sides(binary, place, children, (), KERNEL_PORT + 2, 1090, policy=str(plain))
        stack_sides(binary, place, children, 1091, 1)
        stack_sides(binary, place, children, 1092, 3, ("--no-offload",))
        start([sys.executable, ME, "--web"], children)
        relay = str(Path(binary).parent / "examples" / "plain_relay")
        # The kernel moves data into a socket of Multipath TCP by `splice`, but not out of it.
        relays = {
            1082: ((), ()),
            1084: (("splice",), ("splice",)),
            1086: (("splice", "accept-mptcp"), ("dial-mptcp",)),
        }
        for port, (remote, local) in relays.items():
            start([relay, f"127.0.0.1:{port}", f"127.0.0.1:{WEB}", *remote], children)
            start([relay, f"127.0.0.1:{port + 1}", f"127.0.0.1:{port}", *local], children)
        relays_without_offload(relay, children, 1088)
        time.sleep(2)

        def by(port):
            return lambda: socket.create_connection(("127.0.0.1", port))

        def through(port):
            return lambda: socks(("127.0.0.1", port), "127.0.0.1", WEB)

        kinds = {
            "direct": by(WEB),
            "two plain relays": by(1083),
            "two plain relays, `splice`": by(1085),
            "two relays, Multipath TCP between": by(1087),
            "two plain relays, `splice`, no offload between": by(1088),
            "proxy": through(1080),
            'proxy, `multipath = "never"`': through(1090),
            "proxy, `--tls`": through(1081),
            "proxy, `--transport anabranch`": through(1091),
            "proxy, `--transport anabranch --no-offload`": through(1092),
        }
        names = list(kinds)
        runs = []
        # The first connection finds out that the destination has no Multipath TCP.
        for name in names[5:]:
            rate_of(kinds[name](), 0.2)
        for turn in range(rounds):
            turn %= len(names)
            runs.append({name: rate_of(kinds[name]()) for name in names[turn:] + names[:turn]})
        columns = {"relays with `splice`": 2, "relays with Multipath TCP": 3, "relays without offload": 4}
        print(f"| | rate | of the {' | of the '.join(columns)} |\n|---|---|{'---|' * len(columns)}")
        for name in names:
            mean = statistics.fmean(run[name] for run in runs)
            cells = ["1.00" if names[other] == name else ratio(runs, name, names[other]) for other in columns.values()]
            print(f"| {name} | {8e-9 * mean:.2f} Gbit/s | {' | '.join(cells)} |")
    finally:
        end(children)


def read_many(proxy_port, web_port, connections):
    """Prints the bytes a second of that number of downloads at once."""
    counts = []

    def read():
        counts.append(rate_of(socks(("127.0.0.1", proxy_port), "127.0.0.1", web_port)))

    threads = [threading.Thread(target=read) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(counts))


def cores(binary, place, rounds):
    for tls in ((), ("--tls",)):
        children = []
        try:
            kinds = {"one core": ("0", 1), "two cores, one thread": ("0,1", 1), "two cores, `--threads 2`": ("0,1", 2)}
            sides = []
            for at, (which, threads) in enumerate(kinds.values()):
                extra = (*tls, "--threads", str(threads))
                local_sides(binary, place, children, extra, KERNEL_PORT + at, 1080 + at, which)
                sides.append(children[-2:])
                start([sys.executable, ME, "--web", str(WEB + at)], children, which)
            time.sleep(2)
            runs = []
            names = list(kinds)
            for turn in range(rounds):
                turn %= len(names)
                rates = {}
                for name in names[turn:] + names[:turn]:
                    at = names.index(name)
                    command = ["taskset", "--cpu-list", kinds[name][0], sys.executable, ME]
                    command += ["--read", str(1080 + at), str(WEB + at), "8"]
                    before = sum(map(cpu_time, sides[at]))
                    rates[name] = float(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
                    rates[f"{name} cpu"] = (sum(map(cpu_time, sides[at])) - before) / (rates[name] * SECONDS)
                runs.append(rates)
            for name in names:
                mean, cpu = (statistics.fmean(run[column] for run in runs) for column in (name, f"{name} cpu"))
                cells = f"{8e-9 * mean:.2f} Gbit/s | {shown(runs, name, names[0])} | {1e9 * cpu:.2f} s, {shown(runs, f'{name} cpu', f'{names[0]} cpu')}"
                print(f"| {name}{', TLS' if tls else ''} | {cells} |")
        finally:
            end(children)


def memory(process):
    """The resident memory of a process, in bytes."""
    text = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return 1024 * int(re.search(r"VmRSS:\s+(\d+)", text)[1])


def raise_file_limit():
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def keep(port):
    """Accepts connections and keeps them, without a thread for each."""
    raise_file_limit()
    listener = socket.create_server(("127.0.0.1", port), backlog=4096)
    kept = []
    while True:
        kept.append(listener.accept()[0])


def idle(binary, place, connections, transport):
    raise_file_limit()
    children = []
    try:
        sides_with(transport, binary, place, children)
        start([sys.executable, ME, "--web"], children)
        start([sys.executable, ME, "--keep", str(WEB + 1)], children)
        time.sleep(1.5)
        sides = {"server side": children[0], "client side": children[1]}
        # The first ones load what every later one shares.
        held = [socks(("127.0.0.1", 1080), "127.0.0.1", WEB + 1) for _ in range(20)]
        before = {name: memory(process) for name, process in sides.items()}
        begun = time.perf_counter()
        held += [socks(("127.0.0.1", 1080), "127.0.0.1", WEB + 1) for _ in range(connections)]
        seconds = time.perf_counter() - begun
        time.sleep(2)
        for name, process in sides.items():
            grown = memory(process) - before[name]
            print(f"| {name} | {grown / connections / 1000:.1f} KB for each of {connections} connections |")
        print(f"{connections / seconds:.0f} new connections a second, one after the other")
        rate = rate_of(socks(("127.0.0.1", 1080), "127.0.0.1", WEB))
        print(f"another connection meanwhile: {8e-9 * rate:.2f} Gbit/s")
    finally:
        end(children)


def rate(binary, place, rounds, seconds, transport):
    opener = str(Path(binary).parent / "examples" / "open_connections")
    for tls in ((), ("--tls",)) if transport == "kernel" else ((),):
        children = []
        try:
            sides_with(transport, binary, place, children, tls)
            time.sleep(1.5)
            found = []
            for _ in range(rounds):
                before = [cpu_time(child) for child in children]
                text = subprocess.run([opener, "127.0.0.1:1080", "32", str(seconds)], stdout=subprocess.PIPE, check=True, text=True).stdout
                many, median, most, failed = (float(word) for word in text.split())
                spent = [1e6 * (cpu_time(child) - one) / (seconds * many) for child, one in zip(children, before, strict=True)]
                found.append((many, median, most, failed, *spent, *(memory(child) / 1e6 for child in children)))
            means = [statistics.fmean(column) for column in zip(*found, strict=True)]
            lost = sum(one[3] for one in found)
            print(
                f"{'with' if tls else 'without'} TLS: {means[0]:.0f} connections a second ({min(one[0] for one in found):.0f} to "
                f"{max(one[0] for one in found):.0f}), median {means[1]:.1f} ms, 99th percentile {means[2]:.1f} ms, {lost:.0f} failed; processor time of "
                f"each: server side {means[4]:.0f} us, client side {means[5]:.0f} us; memory at the end {found[-1][6]:.1f} and {found[-1][7]:.1f} MB"
            )
        finally:
            end(children)


def sides_with(transport, binary, place, children, extra=()):
    """Both sides with one of the transports, in this network namespace."""
    if transport == "kernel":
        local_sides(binary, place, children, extra)
    else:
        run("ip", "link", "set", "lo", "up")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="ascii")
        stack_sides(binary, place, children, 1080, 1, extra)


def cpu_time(process):
    """The processor time of a process, in seconds."""
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def end(children):
    for child in children:
        child.send_signal(signal.SIGKILL)
    for child in children:
        child.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["downloads", "handover", "throughput", "cores", "idle", "rate"])
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a scenario, or two or more paths")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--scheduler", default="dmptcp")
    parser.add_argument("--tls", action="store_true", help="with TLS between the two sides (downloads, handover)")
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--transport", choices=["kernel", "anabranch"], default="kernel", help="the transport (idle, rate)")
    parser.add_argument("--seconds", type=float, default=5, help="the time of a run (rate)")
    parser.add_argument("--one-core", action="store_true", help="all parts on one core (throughput)")
    parser.add_argument("--binary", default=str(TARGET / "release" / "anabranch"))
    args = parser.parse_args()
    if args.what == "throughput" or (args.what in ("idle", "rate") and args.transport == "anabranch"):
        own_network(ME, sys.argv[1:])
    if args.one_core:
        os.sched_setaffinity(0, {0})
    with tempfile.TemporaryDirectory() as place:
        key = subprocess.run([args.binary, "proxy", "--new-key", "test"], stdout=subprocess.PIPE, check=True, text=True).stdout
        limits = "allow = ['10.0.0.0/8', '127.0.0.0/8']\nrate = 10000\nconnections = 100000\n"
        pem = subprocess.run(
            [args.binary, "proxy", "--new-certificate", "127.0.0.1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True
        ).stdout
        for name, text in (("client.key", key), ("server.toml", limits + key), ("server.pem", pem)):
            file = Path(place) / name
            file.touch(0o600)
            file.write_text(text, encoding="ascii")
        if args.tls:
            (Path(place) / "tls").touch()
        if args.what == "throughput":
            throughput(args.binary, place, args.runs)
        elif args.what == "cores":
            cores(args.binary, place, args.runs)
        elif args.what == "idle":
            idle(args.binary, place, args.connections, args.transport)
        elif args.what == "rate":
            rate(args.binary, place, args.runs, args.seconds, args.transport)
        elif args.what == "downloads":
            paths = args.paths or ["wifi-lte"]
            what = paths if len(paths) == 1 and "," not in paths[0] else [word for path in paths for word in ("--path", path)]
            print(downloads(emulate(args.binary, what, place, "downloads", args.runs, args.scheduler)))
        else:
            scenario = Path(place) / "handover.toml"
            scenario.write_text(outages(args.runs), encoding="ascii")
            print(handover(emulate(args.binary, [str(scenario)], place, "handover", args.runs, args.scheduler)))


def outages(runs):
    """Two paths that fail in turn for a second, every second second, for as long as the runs take."""
    seconds = 12 * runs + 20
    text = "profile = 'linux'\n"
    for at, rtt in ((0, 16), (1, 50)):
        changes = []
        for second in range(3 + 2 * at, seconds, 4):
            changes += [f"{{ at = '{second} s', loss = '100%' }}", f"{{ at = '{second + 1} s', loss = '0%' }}"]
        text += f"[[path]]\nrate = '20 Mbit/s'\nrtt = '{rtt} ms'\nchange = [{', '.join(changes)}]\n"
    return text


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--web", *port]:
            serve_web("127.0.0.1", int(port[0]) if port else WEB)
        case ["--keep", port]:
            keep(int(port))
        case ["--read", proxy_port, web_port, connections]:
            read_many(int(proxy_port), int(web_port), int(connections))
        case ["--serve", anabranch, place, scheduler]:
            server(anabranch, place, scheduler)
        case ["--client-downloads", anabranch, place, runs]:
            client_downloads(anabranch, place, int(runs))
        case ["--client-handover", anabranch, place, runs]:
            client_handover(anabranch, place, int(runs))
        case _:
            main()
