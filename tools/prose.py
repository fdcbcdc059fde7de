"""Counts, per 10,000 words, what makes comments and pages read as translated.

    python3 tools/prose.py                         the working tree, a row for each crate and for the pages
    python3 tools/prose.py --at main               another commit
    python3 tools/prose.py --list what [PATH]      each place of one marker, as FILE:LINE: sentence

The counts are a help for those who write, and no gate: some places are right. Comments are `//`, `///` and `//!`
of Rust files; pages are README.md, CONTRIBUTING.md and docs/ without docs/reports/. Blocks of code, code spans and
the targets of links are not counted.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# A marker is found in the text of a whole comment, so that it may extend over two lines.
MARKERS = {
    # "What arrives is kept." A question is not one, nor is "What if".
    "what": r"(?:(?<=[.!?:;] )|(?<=\A)|(?<=\n))What (?!if\b)[^.?!]*(?:[.!]|\Z|(?=\n))",
    "told": r"\b(?:told|tell|tells|telling|say|says|said|saying|hear|hears|heard)\b",
    "behind": r"\bbehind\b",
    "whoever": r"\b(?:whoever|whomever|nobody|anybody|somebody|everybody)\b",
    "stands": r"\b(?:stands|stood|standing|(?<!under)(?<!not )stand)\b",
    "luck": r"\b(?:un)?luck(?:y|ily)?\b",
    "put off": r"\b(?:put|puts|putting) (?:it |them |this )?off\b",
    "taken for": r"\b(?:take|takes|taken|took|taking) (?:\w+ )?for (?:lost|dead|one|a|an|the|its)\b",
    "sent again": r"\b(?:send|sends|sent|sending) (?:\w+ ){0,2}again\b",
    "for ever": r"\b(?:for ever|forever|for good|as ever|by turns|would else|else would|by itself alone)\b",
    "shall": r"\bshall\b",
    "box": r"\bbox(?:es)?\b",
    "room": r"\brooms?\b",
    "under way": r"\b(?:under way|underway|what waits|what is left)\b",
    "goes": r"\b(?:goes|went|gone)\b",
    "so many": r"\bso (?:many|long|much|few|often|far)\b(?! (?:as|that)\b)",
    "that of": r"\b(?:that|those) of\b",
    "whose": r"\bwhose\b",
    # For "only"; "let alone" and "leave alone" are others.
    "alone": r"(?<!let )(?<!leave )(?<!leaves )\balone\b",
    "of which": r"\bof which\b",
    "beside": r"\bbeside\b",
    "of its own": r"\bof (?:its|their|his|her) own\b",
    "noun what": r"\b(?:of|for|by|to|from|with|in|at|than|is|was|are|and|but) what (?!(?:if|about|kind|time)\b)",
}


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def texts(revision):
    """The Rust files and the pages, by path."""
    if revision is None:
        names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    else:
        names = git("ls-tree", "-r", "-z", "--name-only", revision).split("\0")
    found = {}
    for name in names:
        page = name in ("README.md", "CONTRIBUTING.md") or re.fullmatch(r"docs/(?!reports/).*\.md", name)
        if not page and not re.match(r"crates/.*\.rs$", name):
            continue
        if revision is not None:
            found[name] = git("show", f"{revision}:{name}")
        elif (ROOT / name).is_file():
            found[name] = (ROOT / name).read_text(encoding="utf-8")
    return found


# A literal or a comment, whichever begins first: a `//` in a string is no comment.
RUST = re.compile(
    r'(?P<comment>//[^\n]*)|(?P<block>/\*.*?\*/)|b?r(?P<hash>#*)".*?"(?P=hash)|b?"(?:\\.|[^"\\])*"'
    r"|b?'(?:\\[^\n]{1,8}?|[^'\\\n])'",
    re.S,
)


def comments(source):
    """The lines of each comment with their numbers; neighbouring full lines of one kind are one comment."""
    blocks, last = [], None
    for found in RUST.finditer(source):
        if not found["comment"]:
            continue
        number = source.count("\n", 0, found.start()) + 1
        alone = not source[source.rfind("\n", 0, found.start()) + 1 : found.start()].strip()
        kind = re.match(r"//[/!]?", found[0])[0]
        if not (alone and last == (number - 1, kind)):
            blocks.append([])
        blocks[-1].append((number, found[0][len(kind) :].strip()))
        last = (number, kind) if alone else None
    return blocks


def outside_tests(source):
    """The source without its `#[cfg(test)]` modules, with the same numbers of lines."""
    found = re.search(r"^#\[cfg\(test\)\]\s*mod \w+ \{", source, re.M)
    return source[: found.start()] if found else source


def prose(lines):
    """The text of a comment or page, a paragraph or list item a line, and the line number of each character."""
    text, numbers, fenced = "", [], False
    for number, line in lines:
        if line.startswith("```"):
            fenced = not fenced
            continue
        if fenced:
            continue
        starts = not line or re.match(r"[*\-+] |\d+\. |#|\||>", line)
        # The words of a code span or of a target are not English.
        line = re.sub(r"^(?:[*\-+>] |\d+\. |#+ |\| )+", "", line)
        line = re.sub(r"`[^`]*`", "`", re.sub(r"\]\([^)]*\)", "]", line)).replace(" | ", " . ")
        joint = "\n" if starts else " "
        if text:
            text += joint
            numbers.append(number)
        text += line
        numbers += [number] * len(line)
    return text, numbers


def pieces(files):
    """Of every file: group, whether it is a test, and its texts."""
    for name, source in files.items():
        if name.endswith(".md"):
            yield name, "pages", False, [prose(enumerate((line.strip() for line in source.splitlines()), 1))]
            continue
        _, crate, *rest = name.split("/")
        test = "src" not in rest or any(part.removesuffix(".rs") == "tests" for part in rest)
        until = outside_tests(source).count("\n") + 1
        for block in comments(source):
            yield name, crate, test or block[0][0] > until, [prose(block)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--at", metavar="REVISION", help="a commit in place of the working tree")
    parser.add_argument("--list", metavar="MARKER", choices=sorted(MARKERS), help="each place of a marker")
    parser.add_argument("path", nargs="?", default="", help="only files below this path")
    options = parser.parse_args()
    patterns = {name: re.compile(pattern, re.I if name != "what" else 0) for name, pattern in MARKERS.items()}
    words, counts = {}, {}
    files = {name: text for name, text in texts(options.at).items() if name.startswith(options.path)}
    if not files:
        sys.exit(f"no Rust file and no page below '{options.path}'")
    for name, group, test, found in pieces(files):
        rows = [group] if group == "pages" else [group, "comments"] + ([] if test else ["without tests"])
        for text, numbers in found:
            for row in rows:
                words[row] = words.get(row, 0) + len(re.findall(r"[^\W\d_][\w'-]*", text))
            for marker, pattern in patterns.items():
                for hit in pattern.finditer(text):
                    # A question is none.
                    if marker == "what" and text[hit.end() : hit.end() + 1] == "?":
                        continue
                    for row in rows:
                        counts[row, marker] = counts.get((row, marker), 0) + 1
                    if options.list == marker:
                        start = max(text.rfind(". ", 0, hit.start()) + 2, text.rfind("\n", 0, hit.start()) + 1, 0)
                        end = re.search(r"[.?!](?:\s|$)|\n|$", text[hit.end() - 1 :]).end() + hit.end() - 1
                        print(f"{name}:{numbers[hit.start()]}: {text[start if start > 1 else 0 : end].strip()}")
    if options.list:
        return
    rows = [row for row in sorted(words) if row not in ("comments", "without tests", "pages")]
    rows += [row for row in ("comments", "without tests", "pages") if row in words]
    print(f"{'':<13} {'words':>7}  " + " ".join(f"{marker:>{max(len(marker), 4)}}" for marker in MARKERS))
    for row in rows:
        rates = ((marker, 10_000 * counts.get((row, marker), 0) / max(words[row], 1)) for marker in MARKERS)
        cells = " ".join(f"{rate:>{max(len(marker), 4)}.1f}".replace(" 0.0", "   ·") for marker, rate in rates)
        print(f"{row:<13} {words[row]:>7}  {cells}")


if __name__ == "__main__":
    main()
