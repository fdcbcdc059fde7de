#!/usr/bin/env python3
"""Counts in how many forms a result exists, which files declare a palette, and how long code and pages are.

    python3 tools/records.py               the working tree
    python3 tools/records.py --at main     another commit
    python3 tools/records.py --list        also the pairs, and the files that name each measure

A pair is two types with eight or more fields of the same name, in two crates or in two languages: structs of Rust, interfaces of
TypeScript, dataclasses of Python. A field of one crate that is a type of another crate counts only there. Files that are generated
have `generated` in their first lines, and are left out, as are tests. A measure is a name of `docs/results.md` or one of `MEASURES`. A
palette is a file with five or more different colours of contenders, paths or causes.
"""

import argparse
import re
import subprocess
from itertools import combinations
from pathlib import Path

from prose import outside_tests

ROOT = Path(__file__).resolve().parent.parent
LEAST = 8
LONG = 700
# The state before results, figures and pages were put in order: later crates are counted apart.
BEFORE = "7aa2e73f"
# The measures of flows that a comparison has for all traffic.
MEASURES = ["goodput_bps", "acked_s", "retransmitted_ratio", "reinjected_ratio", "rto_count", "longest_gap_s", "subflows_used",
            "lower_bound_s", "lost_ratio", "stalled_s"]
# Colours of the palette, and of those that were there before it.
PALETTE_PLACES = ["crates", "python/anabranch", "web", "tools"]
MOST_COLOURS = 4
PLACES = ["crates", "python/anabranch", "web/report/src", "docs"]


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def is_test(name):
    return bool(re.search(r"(^|/)tests?/|_tests?\.rs$|/tests\.rs$|/benches/|/examples/", name))


def texts(revision):
    """The sources of the product by path, without tests and generated files."""
    names = git("ls-files", *PLACES).split() if revision is None else git("ls-tree", "-r", "--name-only", revision, "--", *PLACES).split()
    found = {}
    for name in names:
        if name.endswith((".rs", ".ts", ".py", ".pyi", ".md")) and not is_test(name):
            path = ROOT / name
            if revision is None and not path.exists():
                continue
            text = path.read_text(encoding="utf-8") if revision is None else git("show", f"{revision}:{name}")
            if not any("generated" in line.lower() for line in text.splitlines()[:3]):
                found[name] = text
    return found


def house(name):
    """The crate of a file, or its language."""
    parts = name.split("/")
    return parts[1] if parts[0] == "crates" else parts[0]


def structs(name, text):
    """The types of a file with their fields."""
    # The records of `crates/measure`, which rows of a macro declare.
    for contender, flow, body in re.findall(r"^    contender (\w+);\n.*?^    flow (\w+);\n(.*?)^\}", text, re.M | re.S):
        fields = lambda *owners: set(re.findall(rf"^    (?:optional |measure )?(?:{'|'.join(owners)}) (\w+):", body, re.M))
        yield contender, fields("both", "contender")
        yield flow, fields("both", "flow")
    if name.endswith(".rs"):
        pattern, field = r"^\s*(?:pub(?:\([^)]*\))? )?struct (\w+)[^;{(]*\{\n(.*?)^\s*\}", r"^\s*(?:pub(?:\([^)]*\))? )?(\w+): "
    elif name.endswith(".ts"):
        pattern, field = r"^\s*(?:export )?interface (\w+)[^{]*\{\n(.*?)^\}", r"^\s*(\w+)\??: "
    elif name.endswith((".py", ".pyi")):
        pattern, field = r"^class (\w+)[^\n]*\n((?:    [^\n]*\n|\n)*)", r"^    (\w+): "
    else:
        return
    for kind, body in re.findall(pattern, text, re.M | re.S):
        yield kind, set(re.findall(field, body, re.M))


def pairs(sources):
    """The pairs of types in two houses with at least `LEAST` fields in common."""
    every = [(house(name), name, kind, fields) for name, text in sources.items() for kind, fields in structs(name, text)]
    every = [one for one in every if len(one[3]) >= LEAST]
    return [
        (len(a[3] & b[3]), f"{a[1]}: {a[2]}", f"{b[1]}: {b[2]}")
        for a, b in combinations(every, 2)
        if a[0] != b[0] and len(a[3] & b[3]) >= LEAST
    ]


def naming(sources, measure):
    """The files that name a measure."""
    return sorted(name for name, text in sources.items() if re.search(rf"\b{measure}\b", text) and not name.startswith("docs/reports"))


def palettes(revision):
    """The files that declare five or more saturated colours: those of data, and not the greys of a page."""
    names = git("ls-files", *PALETTE_PLACES) if revision is None else git("ls-tree", "-r", "--name-only", revision, "--", *PALETTE_PLACES)
    found = []
    for name in names.split():
        if not name.endswith((".rs", ".ts", ".py", ".css", ".html", ".mjs")) or is_test(name) or "/test/" in name or (ROOT / name).is_symlink() or "/dist/" in name:
            continue
        path = ROOT / name
        if revision is None and not path.is_file():
            continue
        text = path.read_text(encoding="utf-8") if revision is None else git("show", f"{revision}:{name}")
        if any("generated" in line.lower() for line in text.splitlines()[:3]):
            continue
        colours = {colour.lower() for colour in re.findall(r"#([0-9a-fA-F]{6})\b", text)}
        parts = lambda colour: [int(colour[at : at + 2], 16) for at in (0, 2, 4)]
        saturated = [colour for colour in colours if max(parts(colour)) - min(parts(colour)) > 60]
        if len(saturated) > MOST_COLOURS:
            found.append(name)
    return sorted(found)


def sizes(revision):
    """The lines of Rust outside tests in crates of `BEFORE` and in later ones, the files of more than `LONG` lines, and the words of the pages and of the reports."""
    names = git("ls-files") if revision is None else git("ls-tree", "-r", "--name-only", revision)
    known = git("ls-tree", "--name-only", BEFORE, "--", "crates/").split()
    lines, long, words = [0, 0], [], {"pages": 0, "reports": 0}
    for name in names.split():
        rust = re.match(r"crates/.*/src/.*\.rs$", name) and not is_test(name)
        page = name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md") or re.match(r"docs/.*\.md$", name)
        if not (rust or page) or (revision is None and not (ROOT / name).is_file()):
            continue
        text = (ROOT / name).read_text(encoding="utf-8") if revision is None else git("show", f"{revision}:{name}")
        if rust:
            lines["/".join(name.split("/")[:2]) not in known] += len(outside_tests(text).splitlines())
            long += [name] if len(text.splitlines()) > LONG else []
        else:
            words["reports" if name.startswith("docs/reports/") else "pages"] += len(text.split())
    return lines, long, words


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--at", metavar="COMMIT")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    sources = texts(options.at)
    found = pairs(sources)
    print(f"pairs of types with {LEAST} or more equal fields: {len(found)}")
    for count, one, other in found if options.list else []:
        print(f"    {count}  {one}  {other}")
    files = palettes(options.at)
    print(f"files that declare a palette: {len(files)}")
    for name in files if options.list else []:
        print(f"    {name}")
    lines, long, words = sizes(options.at)
    print(f"lines of Rust outside tests: {sum(lines)}, {lines[0]} of them in the crates of {BEFORE}; words of pages: {words['pages']}, of reports: {words['reports']}")
    print(f"files of Rust with more than {LONG} lines: {len(long)}")
    for name in long if options.list else []:
        print(f"    {name}")
    for measure in MEASURES:
        files = naming(sources, measure)
        print(f"files that name {measure}: {len(files)}")
        for name in files if options.list else []:
            print(f"    {name}")


if __name__ == "__main__":
    main()
