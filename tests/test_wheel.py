#!/usr/bin/env python3
"""Installs a wheel into an empty virtual environment, and runs five lines there that print a verdict and draw a figure.

`tests/test_wheel.py DIR` takes the wheel for this machine in DIR. It prints the time of each step.
"""

import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LINES = """\
import anabranch
from anabranch import Path
result = anabranch.compare([Path("50 Mbit/s", "20 ms"), Path("10 Mbit/s", "60 ms", loss="0.1%")], size="300 KB")
print(result.verdict)
result.plot.cdf().figure.savefig("figure.svg")
"""


def wheel(directory):
    """The wheel for this machine."""
    found = sorted(Path(directory).glob(f"anabranch-*{platform.machine()}.whl"))
    if len(found) != 1:
        sys.exit(f"{len(found)} wheels for {platform.machine()} in {directory} in place of one")
    return found[0].resolve()


def main():
    own = wheel(*sys.argv[1:])
    # The package of the working tree is none of this.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    with tempfile.TemporaryDirectory(prefix="anabranch-wheel-") as directory:
        venv = Path(directory, "venv")

        def run(name, *command):
            begun = time.monotonic()
            options = {"cwd": directory, "env": {**environment, "MPLBACKEND": "Agg"}, "text": True}
            done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, **options)
            if done.returncode != 0:
                sys.exit(f"{name}: exit code {done.returncode}\n{done.stdout}")
            print(f"{name}: {time.monotonic() - begun:.1f} s")
            return done.stdout

        run("an empty virtual environment", sys.executable, "-m", "venv", venv)
        pip = [venv / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run(f"pip install '{own.name}[plot]'", *pip, f"{own}[plot]")
        verdict = run("five lines", venv / "bin/python", "-c", LINES)
        print(verdict, end="")
        if " " not in verdict.strip():
            sys.exit("the five lines print no verdict")
        figure = Path(directory, "figure.svg").read_text()
        if figure.count("<path") < 10:
            sys.exit("the five lines draw no figure")
        where = run("the package", venv / "bin/python", "-c", "import anabranch; print(anabranch.__file__)")
        if not where.startswith(str(venv)):
            sys.exit(f"this was another package: {where}")
        version = run("the command", venv / "bin/anabranch", "--version")
        if not version.startswith("anabranch "):
            sys.exit(f"the command answers {version!r}")


if __name__ == "__main__":
    main()
