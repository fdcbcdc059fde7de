#!/usr/bin/env python3
"""Lists documentation comments of one line that only repeat the name of the item below them.

    python3 tools/one_line_docs.py               the places, and their number
    python3 tools/one_line_docs.py --at COMMIT   another commit

A comment repeats the name if each of its words is a word of the name, of the type around it or of its type, or says nothing by itself.
"""

import argparse
import re

from prose import git, outside_tests, texts

# Words that say nothing by themselves.
EMPTY = set(
    "a an the of its their this that is are in on for to from by with or and be it as at one all each any whose which has have returns "
    "true if sets gives makes new creates number name value kind index id".split()
)


def stem(word):
    """A word without endings, so that `paths` is `path` and `received` is `receive`."""
    return re.sub(r"(?:ies|ied)$", "y", re.sub(r"(?<=[a-z]{3})(?:es|ed|s|d)$", "", word)).rstrip("e")


def words(text):
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", text)
    return {stem(part.lower()) for part in parts}


def places(files):
    empty = {stem(word) for word in EMPTY}
    item = re.compile(r"\s*(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe )*(?:(?:fn|struct|enum|trait|type|static|mod|const) )?(\w+)\b(.*)")
    for name, source in files.items():
        if not name.endswith(".rs") or "/src/" not in name or name.endswith(("tests.rs", "_tests.rs")) or "/tests/" in name:
            continue
        lines = outside_tests(source).splitlines()
        around = ""
        for number, line in enumerate(lines):
            if found := re.match(r"(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|impl(?:<[^>]*>)?) (\w+)", line):
                around = found[1]
            doc = re.match(r"\s*/// (.*)", line)
            if not doc or (number and lines[number - 1].lstrip().startswith("///")):
                continue
            below = number + 1
            while below < len(lines) and lines[below].lstrip().startswith("#["):
                below += 1
            if below >= len(lines) or lines[below].lstrip().startswith(("///", "//")):
                continue
            found = item.match(lines[below])
            if not found or not doc[1].endswith("."):
                continue
            said = words(re.sub(r"`[^`]*`|\[[^\]]*\]", "", doc[1])) - empty
            if said <= words(found[1]) and "`" not in doc[1]:
                yield name, number + 1, doc[1], found[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--at", metavar="COMMIT")
    options = parser.parse_args()
    found = list(places(texts(options.at)))
    for name, number, text, item in found if options.at is None else []:
        print(f"{name}:{number}: {item}: {text}")
    print(f"one-line docs that only repeat a name: {len(found)}")


if __name__ == "__main__":
    main()
