#!/usr/bin/env python3
"""Writes the results as types of TypeScript, for the page of the report, and of Python.

    python3 tools/typings.py               compares the two files with the structs
    python3 tools/typings.py --write       writes them

The structs of Rust that `serde` writes as JSON are the only declaration. This file lists them with the names that they have in the
other languages; keys, types and meanings are read from the structs. `tests/test_architecture.py` compares the files. The
records of measures have rows in place of structs: `crates/measure/src/types.rs` writes those.
"""

import argparse
import keyword
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TYPESCRIPT = "web/report/src/results.ts"
PYTHON = "python/anabranch/_results.py"

# The structs and enums by file: their names in Rust, TypeScript and Python; None where a language has no such type. An enum of units
# is the union of its names in TypeScript, and a text in Python.
TYPES = {
    "lab/src/head.rs": [("Head", None, None)],
    "lab/src/report/measured.rs": [("Measure", "Measure", None)],
    "lab/src/report/verdict.rs": [("Outcome", "Outcome", None), ("Verdict", "Verdict", "Verdict")],
    "lab/src/report/fairness.rs": [
        ("Balance", "Balance", None), ("Estimate", "Estimate", None), ("Party", "Party", None), ("Fairness", "Fairness", None),
    ],
    "lab/src/starts.rs": [("StartChange", "StartChange", None), ("OtherStart", "OtherStart", None), ("DecisiveStart", "DecisiveStart", None)],
    "lab/src/baseline.rs": [("SinglePath", "SinglePath", None)],
    "lab/src/report/setting.rs": [
        ("UnseenEvents", "UnseenEvents", None), ("ClassPath", "ClassPath", None), ("PhaseLimits", "PhaseLimits", None),
        ("Setting", "Condition", None),
    ],
    "lab/src/usage.rs": [("PathUsage", "PathUsage", None)],
    "lab/src/compare.rs": [("Cost", "Cost", None), ("Comparison", "Comparison", None)],
    "lab/src/explain/cause.rs": [("Cause", "Cause", None)],
    "lab/src/explain/row.rs": [
        ("PathPart", "PathPart", "PathPart"), ("TimePart", "TimePart", "TimePart"), ("OutagePart", "OutagePart", "OutagePart"),
        ("Largest", "Largest", "Largest"), ("Excess", "Excess", "Excess"), ("Change", "Change", "Change"),
        ("Subject", None, None), ("Row", "ExplainedRow", "Explained"),
    ],
    "lab/src/explain/mod.rs": [("Explanation", "Explanation", None)],
    "lab/src/sweep/summary.rs": [("Standing", None, "Standing")],
    "lab/src/sweep/point.rs": [("PointResult", None, None)],
    "lab/src/output/report/samples.rs": [("Samples", "Samples", None)],
    "lab/src/output/report.rs": [
        ("ShownComparison", "ShownComparison", None), ("ShownExplanation", "ShownExplanation", None),
        ("Dimension", "Dimension", None), ("Point", "SweepPoint", None), ("ShownSweep", "ShownSweep", None),
    ],
    "recording/src/read.rs": [("Facts", None, None), ("StoredOutage", "RecordedOutage", None)],
    "recording/src/view/mod.rs": [
        ("Goodput", "RecordedGoodput", None), ("Reordering", "Reordering", None), ("QueueView", "RecordedQueue", None),
        ("Subflow", "Subflow", None), ("Sent", "Sent", None), ("Acks", "Acks", None), ("Stream", "Stream", None),
        ("FlowView", "RecordedFlow", None), ("RunView", "RecordedRun", None), ("View", "Recording", None),
    ],
    "recording/src/report.rs": [("Input", "Input", None), ("Report", "Report", None)],
    "inspect/src/cause.rs": [("Cause", None, None)],
    "inspect/src/track/subflow.rs": [("Vantage", None, None)],
    "inspect/src/kernel.rs": [("KernelReport", None, "KernelValues")],
    "inspect/src/estimate.rs": [
        ("RateSource", None, None), ("Estimate", None, "Estimated"), ("RatePhase", None, "RatePhase"),
        ("BusyTime", None, "BusyTime"), ("Outage", None, "PathOutage"), ("PathEstimate", None, "PathEstimate"),
    ],
    "inspect/src/application.rs": [
        ("Pattern", None, None), ("Turn", None, "ApplicationTurn"), ("Application", None, "CapturedApplication"),
    ],
    "inspect/src/result.rs": [
        ("ProtocolName", None, None), ("RttReport", None, "RoundTrip"), ("DirectionReport", None, "CapturedDirection"),
        ("SubflowReport", None, "CapturedSubflow"), ("PartReport", None, "CapturedPart"), ("StreamReport", None, "CapturedStream"),
        ("AddressReport", None, "AnnouncedAddress"), ("FaultReport", None, "ProtocolFault"), ("ConnectionReport", None, "CapturedConnection"),
    ],
    "lab/src/inspected.rs": [("Match", None, "Match")],
    "reproduce/src/judge.rs": [("Status", None, None)],
    "reproduce/src/parts.rs": [("Part", None, "Part")],
    "reproduce/src/finding.rs": [("Line", None, "Line"), ("Checked", None, "Checked"), ("Tried", None, "Tried"), ("Finding", None, "Finding")],
}

# The types that are no struct of the list, in TypeScript and in Python.
PLAIN = {
    **dict.fromkeys(["String", "&'static str"], ("string", "str")),
    **dict.fromkeys(["u8", "u32", "u64", "usize"], ("number", "int")),
    "f64": ("number", "float"),
    "bool": ("boolean", "bool"),
    # A number or a text: a value of a swept key.
    "Value": ("number | string", "Any"),
    "Column": ("Packed", "str"),
}
# The types that `crates/measure/src/types.rs` writes.
MEASURED = {"Record": ("Row", "Row"), "Difference": ("Difference", "Difference"), "Interval": ("Interval", "Interval")}
# Keys of which the struct does not tell the type: the `command` of a sweep is copied from its `run.json`, if there is one.
COPIED = {("ShownSweep", "command"): ("string[] | null", "list[str] | None")}

ORIGIN = "Generated from the structs of crates/ by tools/typings.py, which also compares it."


def snake(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def meaning(lines):
    """A documentation comment in one line, without the targets of links."""
    text = " ".join(line.strip().removeprefix("///").strip() for line in lines)
    text = re.sub(r"\[(`[^`]*`)\](?:\([^)]*\))?", r"\1", text)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def parsed(source, name):
    """A struct or enum: its meaning, its fields (name, type, attributes, meaning) or None, and its variants (name, content)."""
    found = re.search(rf"((?:^(?:///|#\[)[^\n]*\n)*)^pub (struct|enum) {name}\b[^{{;]*\{{\n(.*?)^\}}", source, re.M | re.S)
    if not found:
        raise ValueError(f"there is no struct or enum {name}")
    head, kind, body = found.groups()
    about = meaning([line for line in head.splitlines() if line.startswith("///")])
    item = re.compile(r"((?:^    (?://|#\[)[^\n]*\n)*)^    (?:pub(?:\(\w+\))? )?(\w+)(?:: ([^\n]*)|(?:\(([^\n]*)\))?),\n", re.M)
    items = []
    for marks, key, of, content in item.findall(body):
        lines = marks.splitlines()
        serde = " ".join(line for line in lines if "#[serde(" in line)
        items.append((key, of.rstrip(",") or content, serde, meaning([line for line in lines if line.strip().startswith("///")])))
    return about, items if kind == "struct" else None, [(key, content) for key, content, _, _ in items] if kind == "enum" else None


class Types:
    """The types of the list in one other language: 0 is TypeScript, 1 is Python."""

    def __init__(self, read, language):
        self.language = language
        self.parsed, self.names = {}, {}
        for path, entries in TYPES.items():
            source = read(f"crates/{path}")
            for name, *others in entries:
                self.parsed[path, name] = parsed(source, name)
                self.names[path, name] = others[language]

    def place(self, path, name):
        """The entry of a type that is named in a file: of the file itself, its crate, or another crate."""
        crate = path.split("/")[0]
        every = [key for key in self.parsed if key[1] == name]
        own = [key for key in every if key[0] == path] or [key for key in every if key[0].split("/")[0] == crate] or every
        return own[0] if own else None

    def type(self, path, of):
        """A type of Rust, in the other language."""
        python = self.language
        for outer in ["Option", "Vec", "Box"]:
            if inner := re.fullmatch(rf"{outer}<(.*)>", of):
                of = self.type(path, inner[1])
                wide = f"({of})" if " | " in of and not python else of
                return {"Box": of, "Vec": f"list[{of}]" if python else f"{wide}[]", "Option": f"{of} | {'None' if python else 'null'}"}[outer]
        if inner := re.fullmatch(r"\[(.*); \d+\]", of):
            return self.type(path, f"Vec<{inner[1]}>")
        if inner := re.fullmatch(r"\((.*)\)", of):
            parts = ", ".join(self.type(path, part) for part in inner[1].split(", "))
            return f"tuple[{parts}]" if python else f"[{parts}]"
        if of in PLAIN:
            return PLAIN[of][python]
        place = self.place(path, of)
        if place is None:
            return MEASURED[of][python]
        if python and self.parsed[place][1] is None:
            return "str"
        if self.names[place] is None:
            raise ValueError(f"{of} in {path} has no name in the other language")
        return self.names[place]

    def fields(self, place):
        """The fields of a struct: name, type, whether the key may be absent, meaning. Those of a flattened struct are among them."""
        path, name = place
        for key, of, serde, about in self.parsed[place][1]:
            if re.search(r"\bskip\b", serde):
                continue
            if "flatten" in serde:
                yield from self.fields(self.place(path, of))
                continue
            yield key, COPIED[name, key][self.language] if (name, key) in COPIED else self.type(path, of), "skip_serializing_if" in serde, about


def typescript(read):
    types = Types(read, 0)
    text = f"// {ORIGIN}\n\n"
    text += 'import type { Difference, Interval, Row } from "./records";\n\n'
    text += "export type { Difference, Interval, Row } from \"./records\";\n\n"
    text += "/** A column of whole numbers, packed: series.ts unpacks it. */\nexport type Packed = string;\n"
    for place, name in types.names.items():
        about, fields, variants = types.parsed[place]
        if name is None:
            continue
        text += f"\n/** {about} */\n"
        if variants and not any(content for _, content in variants):
            text += f"export type {name} =\n" + "\n".join(f'  | "{snake(variant)}"' for variant, _ in variants) + ";\n"
        elif variants:
            of = lambda content: types.type(place[0], content)
            text += f"export type {name} =\n" + "\n".join(f'  | ({{ kind: "{snake(variant)}" }} & {of(content)})' for variant, content in variants) + ";\n"
        else:
            text += f"export interface {name} {{\n"
            for key, of, optional, why in types.fields(place):
                text += f"  /** {why} */\n" if why else ""
                text += f"  {key}?: {of.removesuffix(' | null')};\n" if optional else f"  {key}: {of};\n"
            text += "}\n"
    return text


def docstring(text):
    text = text.replace("none ", "None ") if text.startswith("none ") else text
    lines = textwrap.wrap(text, 108, break_long_words=False, break_on_hyphens=False)
    return "\n    ".join(lines)


def python(read):
    types = Types(read, 1)
    wanted = {place: name for place, name in types.names.items() if name}
    text = f'"""The records of results, with the keys of the command\'s JSON.\n\n{ORIGIN}\n"""\n\n'
    text += "from __future__ import annotations\n\nimport dataclasses\nfrom dataclasses import dataclass\n\n"
    text += "from anabranch._records import Difference, Interval\n\n"
    text += "__all__ = [\n" + "".join(f'    "{name}",\n' for name in sorted(wanted.values())) + "]\n"
    for place, name in wanted.items():
        about = types.parsed[place][0]
        text += f'\n\n@dataclass(frozen=True, kw_only=True)\nclass {name}:\n    """{docstring(about)}"""\n\n'
        for key, of, optional, why in types.fields(place):
            defaults = {"str": '""', "int": "0", "bool": "False"}
            default = "dataclasses.field(default_factory=list)" if of.startswith("list[") else defaults.get(of, "None")
            key += "_" * keyword.iskeyword(key)
            text += f"    {key}: {of} = {default}\n" if optional else f"    {key}: {of}\n"
            text += f'    """{docstring(why)}"""\n' if why else ""
    return text


def read_file(path):
    return (ROOT / path).read_text(encoding="utf-8")


def files(read=read_file):
    """The generated files by their paths."""
    return {TYPESCRIPT: typescript(read), PYTHON: python(read)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="writes the files")
    options = parser.parse_args()
    wrong = []
    for path, text in files().items():
        if options.write:
            (ROOT / path).write_text(text, encoding="utf-8")
        elif not (ROOT / path).exists() or read_file(path) != text:
            wrong.append(path)
    if wrong:
        sys.exit(f"not as the structs: {', '.join(wrong)}; tools/typings.py --write writes them")


if __name__ == "__main__":
    main()
