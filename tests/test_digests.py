#!/usr/bin/env python3
"""The results of small comparisons, sweeps, explanations and recordings equal those behind `digests.txt` to the byte.

Code that moves from one file to another changes no result. Each case is a command; each artefact of it (a table, a verdict, JSON, a
file) has a digest of its own, so a failure names the artefact that changed. On a change the test runs everything again, and says whether the
two runs differ.

    tests/test_digests.py             compares
    tests/test_digests.py --update    rewrites the file, which is justified only by a change that is meant
    tests/test_digests.py --keep DIR  also keeps the artefacts in DIR, to compare two binaries

The first line of the file is the version of the numbers (`results` in JSON). Digests that differ from the last release need another one, which
`tools/release_check.py` asks for.

The binary is the one that $ANABRANCH names.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = Path(os.environ.get("ANABRANCH", ROOT / "target" / "debug" / "anabranch")).resolve()
FILE = ROOT / "tests" / "digests.txt"

TWO = "--path 20Mbit/s,20ms,loss=0.5%,name=wifi --path 10Mbit/s,40ms,loss=1%,name=lte --seed 5"
OUTAGE = "--set path.1.change=[{at='500ms',down=true},{at='1s',up=true}]"
GRID = "--vary path.1.rate=5..20Mbit/s:2:log --vary path.2.rtt=20ms,80ms"

# A comparison, sweep, explanation or recording: its name, its commands, and the files that they write.
CASES = [
    ("web", f"compare {TWO} --size 100KB --flows 3 --runs 5 --every-path --gaps --samples web.csv", ["web.csv"]),
    ("web-json", f"compare {TWO} --size 100KB --flows 3 --runs 5 --every-path --json --samples web.ndjson", ["web.ndjson"]),
    ("phone-json", "compare phone --runs 3 --json", []),
    ("bulk", "compare fair-shared --runs 3 --set traffic.duration=1s --view auto", []),
    ("bulk-json", "compare fair-shared --runs 3 --set traffic.duration=1s --json --samples bulk.parquet", ["bulk.parquet"]),
    ("classes", "compare home --runs 2", []),
    ("classes-json", "compare home --runs 2 --json --samples classes.csv", ["classes.csv"]),
    ("unfinished-json", f"compare {TWO} --size 1MB --set deadline=400ms --runs 4 --json", []),
    ("sweep", f"sweep two-paths {GRID} --runs 2 --jobs 1 -o sweep --format csv", ["sweep/results.csv", "sweep/journal.ndjson"]),
    (
        "sweep-classes",
        "sweep home --vary path.1.rate=20Mbit/s,40Mbit/s --runs 2 --jobs 1 -o classes --format ndjson --json",
        ["classes/results.ndjson", "classes/journal.ndjson"],
    ),
    ("explain", f"explain {TWO} --size 1MB --schedulers tcp,linux --runs 3 --bytes", []),
    ("explain-json", f"explain {TWO} --size 1MB --schedulers tcp,linux --runs 3 {OUTAGE} --json", []),
    ("run-json", "run figure8 --json", []),
    ("record", f"run {TWO} --size 200KB --flows 2 --record record --record-format csv --xpl", ["record"]),
    ("record-classes", "run home --record record --record-format ndjson --json", ["record"]),
]

# Figures of the cases before them: the name, the case, and the result.
FIGURES = [
    ("difference", "web-json", "out"),
    ("completion", "classes-json", "out"),
    ("jain", "bulk-json", "out"),
    ("paths", "web-json", "out"),
    ("causes", "explain-json", "out"),
    ("map", "sweep", "sweep"),
    ("lines", "sweep", "sweep"),
]

# The numbers that differ from one machine or build to the next.
CLOCK = re.compile(rb"(of network time in )[\d.]+( s.*?)[\d.]+( million)")
# The time that a sweep took.
TOOK = re.compile(rb"(simulated in )[^\n]*")
MACHINE = re.compile(rb'"(wall_s|peak_rss_bytes|commit|version|begun_unix_s|ended_unix_s)":\s*("[^"]*"|[\d.e+-]+|null)')
VERDICT = re.compile(rb'^ *"(?:fairness_)?verdict": .*\n', re.M)


def settled(data):
    """The bytes without the numbers of a machine or a build."""
    return MACHINE.sub(rb'"\1":0', TOOK.sub(rb"\1", CLOCK.sub(rb"\1\2\3", data)))


def parts(case, data):
    """The artefacts in the output of a command: a table and a verdict, in text and in JSON."""
    if data.startswith(b"{"):
        return {f"{case} json": VERDICT.sub(b"", data), f"{case} json-verdict": b"".join(VERDICT.findall(data))}
    table, split, verdict = re.split(rb"(?m)(^[^\n]*;[^\n]*of network time[^\n]*\n)", data, maxsplit=1) if b"of network time" in data else (data, b"", b"")
    return {f"{case} table": table + split, **({f"{case} verdict": verdict} if split else {})}


def files(directory, name):
    path = directory / name
    return sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]


def command(directory, words):
    environment = {**os.environ, "COLUMNS": "100"}
    done = subprocess.run([BINARY, *words], cwd=directory, env=environment, capture_output=True, check=False, timeout=300)
    if done.returncode not in (0, 1) or not done.stdout and done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.decode()}")
    return done.stdout


def artefacts():
    """The artefacts of all cases by name."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="anabranch-digests-") as place:
        for case, words, written in CASES:
            directory = Path(place, case)
            directory.mkdir()
            out = command(directory, words.split())
            (directory / "out").write_bytes(out)
            for name, data in parts(case, settled(out)).items():
                if data:
                    found[name] = data
            for name in written:
                for path in files(directory, name):
                    found[f"{case} {path.relative_to(directory)}"] = settled(path.read_bytes())
        for figure, case, result in FIGURES:
            directory = Path(place, case)
            command(directory, ["plot", result, "--figure", figure, "-o", f"{figure}.svg"])
            found[f"{case} {figure}.svg"] = (directory / f"{figure}.svg").read_bytes()
    return found


def digests(found):
    """The digest of each artefact, after the version of the numbers if there is a comparison among them."""
    version = {"results": str(json.loads(found["web-json json"])["results"])} if "web-json json" in found else {}
    return version | {name: hashlib.sha256(data).hexdigest()[:16] for name, data in found.items()}


def known():
    return dict(line.rsplit(" ", 1) for line in FILE.read_text().splitlines())


def differing(one, other):
    """The names whose values differ."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def differences(first, again):
    """A line for each artefact in which two runs of the same binary differ: its first line that does."""
    found = []
    for name in differing(first, again):
        if name not in first or name not in again:
            found.append(f"{name}: only in one of two runs")
            continue
        lines = enumerate(zip_longest(first[name].split(b"\n"), again[name].split(b"\n")), 1)
        number, (one, other) = next((number, pair) for number, pair in lines if pair[0] != pair[1])
        found.append(f"{name}, line {number}: {one!r:.300}, in a second run {other!r:.300}")
    return found


class Digests(unittest.TestCase):
    def test_results_are_as_they_were(self):
        before, found = known(), artefacts()
        changed = differing(digests(found), before)
        if changed:
            again = artefacts()
            same = "a second run gives the same; if the change is meant, tests/test_digests.py --update rewrites the digests"
            self.fail("\n".join([f"changed: {', '.join(changed)}", *(differences(found, again) or [same])]))

    def test_two_runs_that_differ_are_told_by_their_first_lines(self):
        first = {"x windows": b"1\n2\n3\n", "x events": b"1\n", "y": b"4"}
        self.assertEqual(differences(first, dict(first)), [])
        again = first | {"x windows": b"1\n20\n3\n", "y": b"4\n", "z": b""}
        lines = ["x windows, line 2: b'2', in a second run b'20'", "y, line 2: None, in a second run b''", "z: only in one of two runs"]
        self.assertEqual(differences(first, again), lines)
        self.assertEqual(differing({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}), ["b", "c"])

    def test_a_changed_number_would_be_noticed_and_a_clock_not(self):
        of = lambda data: digests(parts("x", settled(data)))
        first = b'{\n  "verdict": "a",\n  "rows": [1.5],\n  "wall_s": 0.25\n}\n'
        self.assertEqual(of(first), of(first.replace(b"0.25", b"0.5")))
        self.assertNotEqual(of(first)["x json"], of(first.replace(b"1.5", b"1.6"))["x json"])
        self.assertEqual(of(first)["x json"], of(first.replace(b'"a"', b'"b"'))["x json"])
        self.assertNotEqual(of(first)["x json-verdict"], of(first.replace(b'"a"', b'"b"'))["x json-verdict"])
        text = b"a  1\n\n2 runs each, seed 1; 3 s of network time in 0.1 s, 5 million packet-hops a second\nbest\n"
        self.assertEqual(of(text), of(text.replace(b"0.1", b"0.2")))
        self.assertEqual(set(of(text)), {"x table", "x verdict"})


def keep(directory):
    shutil.rmtree(directory, ignore_errors=True)
    for name, data in artefacts().items():
        path = Path(directory, name.replace("/", "-").replace(" ", "."))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    if "--update" in sys.argv:
        FILE.write_text("".join(f"{name} {digest}\n" for name, digest in digests(artefacts()).items()))
    elif "--keep" in sys.argv:
        keep(sys.argv[sys.argv.index("--keep") + 1])
    else:
        unittest.main()
