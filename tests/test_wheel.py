#!/usr/bin/env python3
"""Installs a wheel into an empty virtual environment, and runs five lines there that print a verdict and draw a figure.

`tests/test_wheel.py DIR` takes the wheel for this machine in DIR. It prints the time of each step.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

LINES = """\
import anabranch
from anabranch import Path
result = anabranch.compare([Path("50 Mbit/s", "20 ms"), Path("10 Mbit/s", "60 ms", loss="0.1%")], size="300 KB")
print(result.verdict)
result.plot.cdf().figure.savefig("figure.svg")
"""

METADATA = "import importlib.metadata as m, json; print(json.dumps(m.metadata('anabranch').json))"


# `e_machine` of ELF files.
MACHINES = {"x86_64": 62, "aarch64": 183}


def check_machines(directory):
    """Ends with a message if a Linux wheel has a module for another machine than its name says."""
    for path in sorted(Path(directory).glob("anabranch-*linux*.whl")):
        named = next((machine for machine in MACHINES if path.stem.endswith(machine)), None)
        with zipfile.ZipFile(path) as archive:
            heads = {name: archive.read(name)[:20] for name in archive.namelist() if name.endswith(".so")}
        if named is None or not heads:
            sys.exit(f"{path.name}: no module, or a machine that this test does not know")
        for name, head in heads.items():
            machine = int.from_bytes(head[18:20], "little")
            if head[:4] != b"\x7fELF" or machine != MACHINES[named]:
                sys.exit(f"{path.name}: {name} is for ELF machine {machine}, not for {named} ({MACHINES[named]})")


def wheel(directory):
    """The wheel for this machine."""
    found = sorted(Path(directory).glob(f"anabranch-*{platform.machine()}.whl"))
    if len(found) != 1:
        sys.exit(f"{len(found)} wheels for {platform.machine()} in {directory} in place of one")
    return found[0].resolve()


def main():
    check_machines(*sys.argv[1:])
    own = wheel(*sys.argv[1:])
    # The package of the working tree is none of this.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    with tempfile.TemporaryDirectory(prefix="anabranch-wheel-") as directory:
        directory = Path(directory).resolve()
        venv = directory / "venv"
        programs = venv / ("Scripts" if os.name == "nt" else "bin")

        def run(name, *command):
            begun = time.monotonic()
            options = {"cwd": directory, "env": {**environment, "MPLBACKEND": "Agg"}, "text": True}
            done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, **options)
            if done.returncode != 0:
                sys.exit(f"{name}: exit code {done.returncode}\n{done.stdout}")
            print(f"{name}: {time.monotonic() - begun:.1f} s")
            return done.stdout

        run("an empty virtual environment", sys.executable, "-m", "venv", venv)
        pip = [programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run(f"pip install '{own.name}[plot]'", *pip, f"{own}[plot]")
        verdict = run("five lines", programs / "python", "-c", LINES)
        print(verdict, end="")
        if " " not in verdict.strip():
            sys.exit("the five lines print no verdict")
        figure = Path(directory, "figure.svg").read_text()
        if figure.count("<path") < 10:
            sys.exit("the five lines draw no figure")
        where = run("the package", programs / "python", "-c", "import anabranch; print(anabranch.__file__)")
        if not where.startswith(str(venv)):
            sys.exit(f"this was another package: {where}")
        version = run("the command", programs / "anabranch", "--version")
        if not version.startswith("anabranch "):
            sys.exit(f"the command answers {version!r}")
        answer = run("a comparison by the command", programs / "anabranch", "compare", "two-paths", "--runs", "1", "--quiet")
        if "tcp" not in answer:
            sys.exit(f"the command compares nothing: {answer}")
        # The page of the package at an index.
        about = json.loads(run("the metadata", programs / "python", "-c", METADATA))
        if "pipx run anabranch compare" not in about["description"] or about["license_expression"] != "MIT OR Apache-2.0":
            sys.exit(f"the metadata are {about}")


if __name__ == "__main__":
    main()
