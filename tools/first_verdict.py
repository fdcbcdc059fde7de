#!/usr/bin/env python3
"""A stranger's clock: the time from nothing to the first verdict, by each way of getting anabranch.

    sudo tools/first_verdict.py RELEASE [WAY ...]     RELEASE is the directory that tools/release made

The ways are binary, deb, wheel, pipx, browser and checkout; all of them unless given. Each begins without anything of anabranch, in a new directory as HOME and with
an environment of its own: `binary`, `deb` and `browser` in a new network namespace without a network, the first two also in a root directory that has nothing
else. `wheel`, `pipx` and `checkout` fetch what they depend on. A row has the size of the files that a user fetches from us, the time until the command can run, the time until the
verdict, and the processor time. The line below has the load of the machine. Files are local, so the time of their download is not included.
"""

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPARE = ["compare"]
# The verdict in the page: the first round of the comparison, and the last one.
PAGE = """\
import { createRequire } from "node:module";
const { chromium } = createRequire(process.argv[2] + "/package.json")("playwright-core");
const browser = await chromium.launch({ executablePath: process.argv[4], args: ["--no-sandbox"] });
const page = await browser.newPage();
await page.goto("file://" + process.argv[3]);
await page.waitForFunction(() => document.querySelector(".verdict")?.textContent);
console.log((await page.textContent(".verdict")).slice(0, 200));
await browser.close();
"""


def one(directory, pattern):
    found = sorted(directory.glob(pattern))
    if len(found) != 1:
        sys.exit(f"{len(found)} files {pattern} in {directory}")
    return found[0].resolve()


class Way:
    """One way: its steps run in a new directory, and their time is measured."""

    def __init__(self, release, place):
        self.release, self.place = release, place
        self.begun, self.ready = clock(), None
        keep = ("SSL_CERT_FILE", "PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_CERT", "HTTPS_PROXY", "https_proxy", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN")
        self.environment = {name: os.environ[name] for name in keep if name in os.environ}
        self.environment |= {"HOME": str(place), "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "TERM": "dumb", "LANG": "C.UTF-8"}

    def run(self, *command, cwd=None):
        done = subprocess.run([str(word) for word in command], cwd=cwd or self.place, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def alone(self, root, *command):
        """In a root directory with nothing else, and without a network."""
        self.ready = clock()
        return self.run("unshare", "--net", "--mount", "--pid", "--fork", "chroot", root, *command)

    def binary(self):
        archive = one(self.release, "anabranch-*-x86_64-linux.tar.gz")
        self.run("tar", "-xzf", archive)
        return archive, self.alone(one(self.place, "anabranch-*-x86_64-linux"), "/anabranch", *COMPARE)

    def deb(self):
        package = one(self.release, "*.deb")
        root = self.place / "root"
        for part in ("info", "updates"):
            (root / "var/lib/dpkg" / part).mkdir(parents=True)
        (root / "var/lib/dpkg/status").touch()
        self.run("dpkg", f"--root={root}", "--log=/dev/null", "-i", package)
        return package, self.alone(root, "/usr/bin/anabranch", *COMPARE)

    def wheel(self):
        wheel = one(self.release / "wheels", "*x86_64.whl")
        self.run(sys.executable, "-m", "venv", "venv")
        self.run("venv/bin/pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check", wheel)
        self.ready = clock()
        return wheel, self.run("venv/bin/anabranch", *COMPARE)

    def pipx(self):
        wheel = one(self.release / "wheels", "*x86_64.whl")
        return wheel, self.run(shutil.which("pipx") or "pipx", "run", "--spec", wheel, "anabranch", *COMPARE)

    def browser(self):
        page = one(self.release, "anabranch-explorer-*.html")
        (self.place / "page.mjs").write_text(PAGE)
        self.begun = self.ready = clock()
        chromium = shutil.which(os.environ.get("CHROMIUM", "chromium"))
        text = self.run("unshare", "--net", "node", "page.mjs", ROOT / "web/report", page, chromium)
        return page, text

    def checkout(self):
        self.environment["PATH"] = f"{Path(shutil.which('cargo')).parent}:{self.environment['PATH']}"
        self.environment.setdefault("RUSTUP_HOME", str(Path.home() / ".rustup"))
        self.environment["CARGO_HOME"] = str(self.place / "cargo")
        self.run("git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", "anabranch")
        pack = one(self.place / "anabranch/.git/objects/pack", "*.pack")
        self.run("cargo", "anabranch", "--version", cwd=self.place / "anabranch")
        self.ready = clock()
        return pack, self.run("cargo", "anabranch", *COMPARE, cwd=self.place / "anabranch")


WAYS = ["binary", "deb", "wheel", "pipx", "browser", "checkout"]


def clock():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic(), used.ru_utime + used.ru_stime


def main():
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(WAYS):
        sys.exit(__doc__)
    print("| way | fetched from us | ready after | verdict after | processor time |\n|---|---|---|---|---|")
    for name in sys.argv[2:] or WAYS:
        with contextlib.ExitStack() as stack:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="anabranch-first-")))
            way = Way(Path(sys.argv[1]).resolve(), place)
            fetched, text = getattr(way, name)()
            end, used = clock()
            begun, before = way.begun
            if "tcp" not in text:
                sys.exit(f"{name}: there is no verdict in\n{text}")
            ready = f"{way.ready[0] - begun:.1f} s" if way.ready else "-"
            print(f"| {name} | {fetched.stat().st_size / 1e6:.1f} MB | {ready} | {end - begun:.1f} s | {used - before:.1f} s |", flush=True)
    print(f"\n{os.cpu_count()} processors, load {' '.join(f'{load:.1f}' for load in os.getloadavg())}")


if __name__ == "__main__":
    main()
