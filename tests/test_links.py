#!/usr/bin/env python3
"""Every link between the pages of the repository leads to a file and a heading that exist, and every page has an index.

Links are read as GitHub reads them: a path relative to the page, and `#` with the anchor that GitHub makes of a
heading. Links to other sites are not opened. Source files and functions that the decisions and the page of the
architecture name must exist too. Needs no build.

    tests/test_links.py
"""

import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
# The pages of these folders need a link on the index named beside them, and so do the indexes on docs/README.md.
INDEXES = {
    "docs": "docs/README.md",
    "docs/decisions": "docs/decisions/README.md",
    "docs/reports": "docs/reports/README.md",
    "docs/schedulers": "docs/schedulers.md",
}


def pages():
    """The Markdown files of the repository, tracked or new, by their paths relative to it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:  # A package without a repository.
        found = [path for path in ROOT.rglob("*.md") if "target" not in path.relative_to(ROOT).parts]
    else:
        found = [ROOT / name for name in listed.stdout.splitlines()]
    # A symbolic link in a crate leads to a page that is listed itself.
    found = [path for path in sorted(found) if path.is_file() and not path.is_symlink()]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in found}


def prose(text):
    """`text` without fenced blocks, which may show links and headings that are none."""
    return re.sub(r"(?ms)^```.*?^```", "", text)


def anchors(text):
    """The anchors of the headings of a page."""
    found = set()
    for heading in re.findall(r"(?m)^#{1,6} +(.*?) *#*$", prose(text)):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        base = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number, anchor = 0, base
        while anchor in found:
            number += 1
            anchor = f"{base}-{number}"
        found.add(anchor)
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def links(text):
    """The targets of the links of a page, but for those to other sites."""
    text = re.sub(r"`[^`\n]*`", "``", prose(text))
    return [target for target in LINK.findall(text) if not re.match(r"[a-z]+:", target)]


def dead(name, texts, exists):
    """The links of the page `name` that lead nowhere, with the reason."""
    found = []
    for target in links(texts[name]):
        path, _, anchor = target.partition("#")
        parts = [*name.split("/")[:-1], *path.split("/")] if path else name.split("/")
        plain = []
        for part in parts:
            if part == ".." and plain:
                plain.pop()
            elif part not in ("", "."):
                plain.append(part)
        file = "/".join(plain)
        if not exists(file):
            found.append(f"{name}: {target}: no such file")
        elif anchor and file in texts and anchor not in anchors(texts[file]):
            found.append(f"{name}: {target}: no such heading")
    return found


def sources(text):
    """The source files that a page names in backquotes, with the names that it places in each."""
    found = {}
    for file in re.findall(r"`([\w./-]+\.(?:rs|py|toml|csv|txt))`", prose(text)):
        found.setdefault(file, set())
    for name, file in re.findall(r"`([\w:]+)`\s+in\s+`([\w./-]+\.rs)`", prose(text)):
        found[file].add(name.split("::")[-1])
    for file, name in re.findall(r"(?:In|in)\s+`([\w./-]+\.rs)`,\s+`([\w:]+)`", prose(text)):
        found[file].add(name.split("::")[-1])
    return found


def missing(named, files):
    """The files among `named` that are none of `files`, by the end of the path, and the names that none of them defines."""
    wrong = []
    for file, names in sorted(named.items()):
        texts = [text for path, text in files.items() if f"/{path}".endswith(f"/{file}")]
        wrong += [file] if not texts else []
        for name in sorted(names) if texts else []:
            defined = rf"\b(?:fn|struct|enum|trait|type|const|static|mod|let mut|let)\s+{name}\b|^\s*(?:pub(?:\(\w+\))? )?{name}:"
            wrong += [] if any(re.search(defined, text, re.M) for text in texts) else [f"{file}: {name}"]
    return wrong


class Sources(unittest.TestCase):
    def test_decisions_and_architecture_name_files_and_functions_that_exist(self):
        files = {}
        for suffix in ("rs", "py", "toml", "csv", "txt"):
            for path in ROOT.rglob(f"*.{suffix}"):
                if "target" not in path.relative_to(ROOT).parts:
                    files[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8", errors="replace")
        named = 0
        for name, text in pages().items():
            if name.startswith("docs/decisions/") or name == "docs/architecture.md":
                named += len(sources(text))
                self.assertEqual(missing(sources(text), files), [], name)
        self.assertGreater(named, 30)

    def test_what_is_gone_is_noticed(self):
        text = "`third_ack` in `connection/ack.rs` and `gone.rs`. In `close.rs`, `check_closing`: drop it."
        files = {"src/connection/ack.rs": "self.third_ack()", "src/close.rs": "fn check_closing()"}
        self.assertEqual(missing(sources(text), files), ["connection/ack.rs: third_ack", "gone.rs"])


class Links(unittest.TestCase):
    def test_every_link_leads_to_a_file_and_a_heading(self):
        texts = pages()
        self.assertGreater(len(texts), 50)
        wrong = [one for name in texts for one in dead(name, texts, lambda file: (ROOT / file).exists())]
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_every_page_is_in_its_index(self):
        texts = pages()
        for folder, index in INDEXES.items():
            linked = {(ROOT / index).parent.joinpath(target.split("#")[0]).resolve() for target in links(texts[index])}
            listed = [name for name in texts if str(Path(name).parent) == folder and name != index]
            missing = [name for name in listed if (ROOT / name).resolve() not in linked]
            self.assertEqual(missing, [], f"{index} has no link to these pages")

    def test_dead_links_are_noticed(self):
        texts = {"a.md": "[x](b.md#one-two) [y](b.md#three) [z](gone.md) [w](#here) `[v](no.md)`\n\n## Here",
                 "b.md": "# `One` two\n\n```sh\n# Three\n```\n"}
        wrong = dead("a.md", texts, texts.__contains__)
        self.assertEqual(wrong, ["a.md: b.md#three: no such heading", "a.md: gone.md: no such file"])

    def test_anchors_are_those_of_github(self):
        text = "## `[[path]]`\n## `--set`\n## `anabranch tun`\n## Who, and what: *why*\n### Who and what\n### Who and what\n"
        expected = {"path", "--set", "anabranch-tun", "who-and-what-why", "who-and-what", "who-and-what-1"}
        self.assertEqual(anchors(text), expected)


if __name__ == "__main__":
    unittest.main()
