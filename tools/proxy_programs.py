#!/usr/bin/env python3
"""Measures real programs through `anabranch proxy`: the tables of programs in docs/proxy.md.

    cargo build --release
    sudo tools/proxy_programs.py times wifi-lte --runs 10 --scheduler linux
    sudo tools/proxy_programs.py cuts --runs 4

Needs curl, git, iperf3, OpenSSH, Node.js, Chromium (`--only` leaves programs out), nftables and root.

`times`: in each run each program runs as a plain TCP on the first path, with the kernel's Multipath TCP (`anabranch kernel run`), and through the
proxy with both transports, one after the other in rotating order. nftables redirects the program's connections to the proxy, so all programs
are the same in all ways. The servers speak plain TCP, and others of the same kind Multipath TCP. The table has the mean differences of the times to TCP's, with 95 % intervals (bootstrap over runs); below 0 is faster. Both
kernels use CUBIC. The time of Chromium is from the navigation to the load event, of the video the time for which its viewer
waits (before the start and in stalls), and of the others from the start to the end of the program.

`cuts`: the programs run longer, while two paths are cut in turn, for one second of four each. The table has the longest time in which the
program received less than 1000 bytes, and the programs that failed. Then one download crosses 20 cuts.
"""

import argparse
import json
import os
import re
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import proxy
from paired import difference

ME = str(Path(__file__).resolve())
WEB, TLS, IPERF, SSH, GIT = 8000, 8443, 5201, 2222, 9418
# The same servers with Multipath TCP are at ports above by this.
MPTCP = 10000
PORTS = {"kernel": 1090, "anabranch": 1091}
KINDS = ["tcp", "mptcp", "kernel", "anabranch"]
OBJECTS = 40
# The data of each program in bytes: for `times` and for `cuts`.
SIZES = {
    "curl, 1 MB": (1_000_000, None),
    "curl, 10 MB": (10_000_000, 20_000_000),
    "curl, HTTP/2 over TLS, 2 MB": (2_000_000, 20_000_000),
    "40 small downloads of 30 KB": (30_000, 400_000),
    "40 objects over six connections": (30_000, None),
    "git clone, 3 MB": (3_000_000, 20_000_000),
    "ssh, 3 MB": (3_000_000, 20_000_000),
    "iperf3, 5 MB": (5_000_000, 20_000_000),
    "a video of 12 segments": (1_500_000, 1_500_000),
    "Chromium, a page of 40 objects": (30_000, 400_000),
}

H2_SERVER = """
const fs = require('fs'), [,, pem, port] = process.argv;
const server = require('http2').createSecureServer({ key: fs.readFileSync(pem), cert: fs.readFileSync(pem) });
server.on('stream', (stream, headers) => { stream.respond({ ':status': 200 }); stream.end(Buffer.alloc(+headers[':path'].slice(1))); });
server.listen(+port, '0.0.0.0');
"""

SSHD = """
HostKey {place}/host
AuthorizedKeysFile {place}/user.pub
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PidFile none
"""


# --- The server's host.


def serve_web(port):
    """Answers `GET /N` with N bytes, `GET /endless` without end, and `GET /page/N` with a page of images of N bytes, over connections that stay open."""
    def answer(connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, connection.makefile("rb") as lines:
            try:
                while line := lines.readline():
                    while lines.readline().strip():
                        pass
                    what = line.split()[1].decode().strip("/").split("/")
                    kind = "image/png"
                    if what[0] == "page":
                        body, kind = page(what[1]).encode(), "text/html"
                    elif what[0].isdigit():
                        body = bytes(int(what[0]))
                    else:
                        body = b""
                    while what[0] == "endless":
                        connection.sendall(bytes(1 << 20))
                    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nCache-Control: no-store\r\nContent-Length: {len(body)}\r\n\r\n"
                    connection.sendall(head.encode() + body)
            except (OSError, IndexError):
                pass

    listener = socket.create_server(("", port), backlog=1024)
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()


# The length of a segment of the video, and the most that is fetched before it is played, in seconds.
SEGMENT, AHEAD, SEGMENTS = 0.5, 1.5, 12


def play(address, port, size):
    """Fetches the segments of a video ahead of their playback, over one connection. Prints the time for which the viewer waits: before the start, and
    in stalls."""
    import http.client

    connection = http.client.HTTPConnection(address, port, timeout=60)
    begun = time.perf_counter()
    until = begun
    waited = 0.0
    for number in range(SEGMENTS):
        time.sleep(max(0.0, until - time.perf_counter() - AHEAD))
        connection.request("GET", f"/{size}/{number}")
        if len(connection.getresponse().read()) != size:
            sys.exit("a segment is not complete")
        now = time.perf_counter()
        waited += max(0.0, now - until)
        until = max(until, now) + SEGMENT
    print(f"WAITED {1000 * waited:.0f}")


def page(size):
    """A page that writes the time of its load event into itself."""
    images = "".join(f"<img src='/{size}/{n}'>" for n in range(OBJECTS))
    script = "onload = () => { document.title = 'LOADED ' + (performance.timing.loadEventStart - performance.timing.navigationStart); }"
    return f"<html><head><title>-</title><script>{script}</script></head><body>{images}</body></html>"


def serve(anabranch, place, scheduler, congestion):
    common = [anabranch, "proxy", "--quiet", "--server", "--policy", f"{place}/server.toml"]
    subprocess.Popen(common)
    subprocess.Popen([*common, "--listen", f"[::]:{proxy.STACK_PORT}", *proxy.stack(1), "--scheduler", scheduler, "--cc", congestion])
    Path("/run/sshd").mkdir(exist_ok=True)
    for above, before in ((0, []), (MPTCP, [anabranch, "kernel", "run", "--"])):
        for command in (
            [sys.executable, ME, "--web", str(WEB + above)],
            ["node", f"{place}/h2.js", f"{place}/web.pem", str(TLS + above)],
            ["iperf3", "-s", "-p", str(IPERF + above)],
            ["/usr/sbin/sshd", "-D", "-f", f"{place}/sshd", "-p", str(SSH + above)],
            ["git", "daemon", f"--base-path={place}", "--export-all", "--reuseaddr", f"--port={GIT + above}"],
        ):
            subprocess.Popen([*before, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    threading.Event().wait()


# --- The client's host.


def commands(place, address, column, above=0):
    """Returns the command of each program, with the bytes that it must print, or none. The servers' ports are higher by `above`."""
    curl = ["curl", "--silent", "--show-error", "--insecure", "--max-time", "90"]
    web, tls = f"http://{address}:{WEB + above}", f"https://{address}:{TLS + above}"
    made = {}
    for name, sizes in SIZES.items():
        size = sizes[column]
        if size is None:
            continue
        if name.startswith("curl, HTTP/2"):
            made[name] = [*curl, "--http2", f"{tls}/{size}"], size
        elif name.startswith("curl"):
            made[name] = [*curl, f"{web}/{size}"], size
        elif name.startswith("40 small"):
            made[name] = [*curl, f"{web}/{size}/[1-{OBJECTS}]"], OBJECTS * size
        elif name.startswith("40 objects"):
            made[name] = [*curl, "--parallel", "--parallel-max", "6", f"{web}/{size}/[1-{OBJECTS}]"], OBJECTS * size
        elif name.startswith("git"):
            made[name] = ["git", "clone", "--quiet", f"git://{address}:{GIT + above}/{size}.git", f"{place}/clone"], None
        elif name.startswith("ssh"):
            options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-F", "none"]
            made[name] = ["ssh", *options, "-i", f"{place}/user", "-p", str(SSH + above), f"root@{address}", f"head -c {size} /dev/zero"], size
        elif name.startswith("a video"):
            made[name] = [sys.executable, ME, "--play", address, str(WEB + above), str(size)], None
        elif name.startswith("iperf3"):
            made[name] = ["iperf3", "-c", address, "-p", str(IPERF + above), "-R", "-n", str(size)], None
        else:
            profile = f"--user-data-dir={place}/profile"
            made[name] = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", profile, "--dump-dom", f"{web}/page/{size}"], None
    return made


def redirect(address, port):
    """Redirects the connections of programs to the proxy at a port, or none of them."""
    rules = "table ip programs\ndelete table ip programs\n"
    if port:
        ports = f"{{ {WEB}, {TLS}, {IPERF}, {SSH}, {GIT} }}"
        rules += f"""table ip programs {{
            chain output {{ type nat hook output priority -100; ip daddr {address} tcp dport {ports} redirect to :{port}; }}
        }}"""
    subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)


def once(command, wanted, place):
    """Returns the time of a program in seconds; raises OSError if it fails."""
    for left in ("clone", "profile"):
        subprocess.run(["rm", "-rf", f"{place}/{left}"], check=True)
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        done = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)
        # `wait` with a timeout would look only every 50 ms.
        limit = threading.Timer(120, done.kill)
        limit.start()
        done.wait()
        seconds = time.perf_counter() - begun
        limit.cancel()
        printed = out.tell()
        if done.returncode != 0 or wanted not in (None, printed):
            errors.seek(0)
            raise OSError(f"{command[0]} ended with {done.returncode}, {printed} bytes: {errors.read()[-300:]!r}")
        if "--dump-dom" in command or "--play" in command:
            out.seek(0)
            found = re.search(rb"(LOADED|WAITED) (\d+)", out.read())
            if not found:
                raise OSError("the page was not loaded, or the video not played")
            seconds = int(found[2]) / 1000
    return seconds


def start_clients(anabranch, place):
    common = [anabranch, "proxy", "--quiet", "--key", f"{place}/client.key"]
    kernel, own = os.environ["ANABRANCH_SERVER"], os.environ["ANABRANCH_SERVER_STACK"]
    for listen, (kind, to, more) in enumerate((("kernel", f"{kernel}:{proxy.KERNEL_PORT}", ()), ("anabranch", f"{own}:{proxy.STACK_PORT}", proxy.stack()))):
        ports = ["--listen", f"127.0.0.1:{1080 + listen}", "--redirected", f"127.0.0.1:{PORTS[kind]}"]
        subprocess.Popen([*common, "--to", to, *ports, *more])
    time.sleep(2)


def client_times(anabranch, place, runs, only, kinds):
    """Prints an object for each run: the seconds of each program and kind."""
    start_clients(anabranch, place)
    address = os.environ["ANABRANCH_SERVER"]
    names = [name for name in commands(place, address, 0) if re.search(only, name)]
    for run in range(runs):
        times = {}
        for at, name in enumerate(names):
            turn = (run + at) % len(kinds)
            for kind in kinds[turn:] + kinds[:turn]:
                redirect(address, PORTS.get(kind))
                before, above = ([anabranch, "kernel", "run", "--"], MPTCP) if kind == "mptcp" else ([], 0)
                command, wanted = commands(place, address, 0, above)[name]
                try:
                    times[f"{name} {kind}"] = once([*before, *command], wanted, place)
                except OSError as error:
                    print(f"{name} {kind}: {error}", file=sys.stderr)
        print(json.dumps(times), flush=True)


class Pauses(threading.Thread):
    """Finds the longest time without data for programs, by the count of the loopback device, which the proxy sends to."""

    def __init__(self):
        super().__init__(daemon=True)
        self.ended = False
        self.longest = 0.0

    def run(self):
        last, at = received(), time.perf_counter()
        while not self.ended:
            time.sleep(0.005)
            count, now = received(), time.perf_counter()
            if count - last >= 1000:
                self.longest, last, at = max(self.longest, now - at), count, now


def received():
    """Returns the bytes that the loopback device has received; /sys would show the device of another namespace."""
    return int(re.search(r"lo:\s*(\d+)", Path("/proc/thread-self/net/dev").read_text(encoding="ascii"))[1])


def client_cuts(anabranch, place, runs, only, _kinds):
    """Prints an object for each run: the longest pause of each program and transport, -1 if it failed."""
    start_clients(anabranch, place)
    address = os.environ["ANABRANCH_SERVER"]
    made = {name: made for name, made in commands(place, address, 1).items() if re.search(only, name)}
    for run in range(runs):
        pauses = {}
        for name, (command, wanted) in made.items():
            for kind, port in list(PORTS.items())[:: 1 if run % 2 else -1]:
                redirect(address, port)
                watch = Pauses()
                watch.start()
                try:
                    once(command, wanted, place)
                    pauses[f"{name} {kind}"] = watch.longest
                except OSError as error:
                    print(f"{name} {kind}: {error}", file=sys.stderr)
                    pauses[f"{name} {kind}"] = -1
                watch.ended = True
                watch.join()
        print(json.dumps(pauses), flush=True)
    redirect(address, None)
    for at, kind in enumerate(PORTS):
        pause = proxy.longest_pause(("127.0.0.1", 1080 + at), address, 41.0)
        print(json.dumps({"row": kind, "pause": pause[0], "bytes": pause[1]}), flush=True)


# --- Outside.


def prepare(binary, place):
    def run(*command):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    place = Path(place)
    key = subprocess.run([binary, "proxy", "--new-key", "test"], stdout=subprocess.PIPE, check=True, text=True).stdout
    for name, text in (
        ("client.key", key),
        ("server.toml", "allow = ['10.0.0.0/8', '127.0.0.0/8']\nrate = 10000\nconnections = 100000\n" + key),
        ("h2.js", H2_SERVER),
        ("sshd", SSHD.format(place=place)),
    ):
        (place / name).touch(0o600)
        (place / name).write_text(text, encoding="ascii")
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test", "-keyout", f"{place}/k.pem", "-out", f"{place}/c.pem")
    (place / "web.pem").write_text((place / "k.pem").read_text() + (place / "c.pem").read_text())
    for name in ("host", "user"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{place}/{name}")
    for size in SIZES["git clone, 3 MB"]:
        work = place / f"{size}.work"
        run("git", "init", "--quiet", str(work))
        for file in range(20):
            (work / f"{file}").write_bytes(os.urandom(size // 20))
        run("git", "-C", str(work), "add", ".")
        run("git", "-C", str(work), "-c", "user.name=x", "-c", "user.email=x", "commit", "--quiet", "-m", "x")
        run("git", "clone", "--quiet", "--bare", str(work), f"{place}/{size}.git")


def emulate(binary, what, place, kind, args):
    me = f"{shlex.quote(sys.executable)} {shlex.quote(ME)}"
    command = [
        binary, "emulate", *what, "--download", "--kernel-cc", "cubic", "--sysctl", "net.ipv4.tcp_no_metrics_save=1",
        "--server-command", f"{me} --serve {shlex.quote(binary)} {place} {args.scheduler} {args.cc}", "--",
        sys.executable, ME, f"--client-{kind}", binary, place, str(args.runs), args.only, ",".join(args.kinds),
    ]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not found:
        sys.exit(f"the emulator ended with {done.returncode}")
    return found


def times_table(runs):
    lines = ["| program | TCP | Multipath TCP | proxy, `kernel` | proxy, `anabranch` | medians |", "|---|---|---|---|---|---|"]
    for name in SIZES:
        cells = []
        for kind in ("mptcp", "kernel", "anabranch"):
            both = [run for run in runs if f"{name} tcp" in run and f"{name} {kind}" in run]
            if len(both) > 1:
                cells.append("{:+.1f} % ({:+.1f} to {:+.1f})".format(*difference(both, f"{name} {kind}", f"{name} tcp")))
            else:
                cells.append("-")
        tcp = [run[f"{name} tcp"] for run in runs if f"{name} tcp" in run]
        if tcp:
            found = [[run[f"{name} {kind}"] for run in runs if f"{name} {kind}" in run] for kind in KINDS]
            medians = ", ".join(f"{1000 * statistics.median(one):.0f}" if one else "-" for one in found)
            lines.append(f"| {name} | {1000 * statistics.fmean(tcp):.0f} ms | {' | '.join(cells)} | {medians} ms |")
    return "\n".join(lines)


def cuts_table(runs):
    lines = ["| program | `kernel`: median and greatest pause | `anabranch` | failed |", "|---|---|---|---|"]
    programs = [run for run in runs if "row" not in run]
    for name in SIZES:
        cells, failed, all_runs = [], 0, 0
        for kind in PORTS:
            pauses = [run[f"{name} {kind}"] for run in programs if f"{name} {kind}" in run]
            kept = [pause for pause in pauses if pause >= 0]
            failed, all_runs = failed + len(pauses) - len(kept), all_runs + len(pauses)
            cells.append(f"{1000 * statistics.median(kept):.0f} ms, {1000 * max(kept):.0f} ms" if kept else "-")
        if all_runs:
            lines.append(f"| {name.rsplit(',', 1)[0] if 'MB' in name else name} | {' | '.join(cells)} | {failed} of {all_runs} |")
    for run in runs:
        if "row" in run:
            lines.append(f"one download of 41 s with `{run['row']}`: longest pause {1000 * run['pause']:.0f} ms, {run['bytes'] / 1e6:.0f} MB")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["times", "cuts"])
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a scenario, or two or more paths")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--scheduler", default="linux", help="of the server side with `anabranch`, which sends")
    parser.add_argument("--cc", default="cubic_linux", help="the congestion control there")
    parser.add_argument("--only", default="", metavar="REGEX", help="the programs with names that match")
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS, help="for `times`")
    parser.add_argument("--results", type=Path, help="also write the runs to this file, as JSON lines")
    parser.add_argument("--binary", default=str(proxy.TARGET / "release" / "anabranch"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        prepare(args.binary, place)
        if args.what == "times":
            paths = args.paths or ["wifi-lte"]
            what = paths if len(paths) == 1 and "," not in paths[0] else [word for path in paths for word in ("--path", path)]
            table = times_table
        else:
            scenario = Path(place) / "cuts.toml"
            scenario.write_text(proxy.outages(100), encoding="ascii")
            what, table = [str(scenario)], cuts_table
        runs = emulate(args.binary, what, place, args.what, args)
        if args.results:
            args.results.write_text("".join(json.dumps(run) + "\n" for run in runs), encoding="ascii")
        print(table(runs))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--web", port]:
            serve_web(int(port))
        case ["--play", address, port, size]:
            play(address, int(port), int(size))
        case ["--serve", anabranch, place, scheduler, congestion]:
            serve(anabranch, place, scheduler, congestion)
        case ["--client-times", anabranch, place, runs, only, kinds]:
            client_times(anabranch, place, int(runs), only, kinds.split(","))
        case ["--client-cuts", anabranch, place, runs, only, kinds]:
            client_cuts(anabranch, place, int(runs), only, kinds)
        case _:
            main()
