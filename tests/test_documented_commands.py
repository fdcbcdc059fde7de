#!/usr/bin/env python3
"""The documentation says what is true: its commands run and print what it shows.

A fenced block `console` in README.md or in docs/ holds commands after `$ ` and what they print.
Words behind `console`:

    exit=N    the commands end with N and not with 0
    sample    measured numbers: only the rows of the tables have to be those that are shown

A line `...` stands for any lines. A block `toml file=NAME` becomes a file in the directory where the
commands of that page run; `cargo anabranch` and `anabranch` are the binary that $ANABRANCH names.

    tests/test_documented_commands.py             runs everything
    tests/test_documented_commands.py --update    puts into the blocks what the commands print now
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BINARY = Path(os.environ.get("ANABRANCH", ROOT / "target" / "release" / "anabranch")).resolve()
PROGRESS = re.compile(r"^\d+ of \d+ runs done(, about .* to go)?$")
# How long it took, and how many packet-hops a second that is: of no use to a reader elsewhere.
CLOCK = re.compile(r"(of network time in )[\d.]+( s.*?)[\d.]+( million)")


class Block:
    """One fenced block of a page."""

    def __init__(self, page, line, info, text):
        self.page, self.line, self.text = page, line, text
        self.language, *words = info.split() or [""]
        self.words = dict(word.partition("=")[::2] for word in words)

    def commands(self):
        """Each command with the lines that are shown after it."""
        found = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found and found[-1][0].endswith("\\") and not found[-1][1]:
                found[-1] = (found[-1][0] + "\n" + line, [])
            elif found:
                found[-1][1].append(line.rstrip())
        return found


def blocks(page):
    """The fenced blocks of a page."""
    found, start, info, lines = [], 0, "", []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```") and not start:
            start, info, lines = number, line[3:], []
        elif line.startswith("```"):
            found.append(Block(page, start, info, "\n".join(lines)))
            start = 0
        else:
            lines.append(line)
    return found


class Sandbox:
    """A directory in which the commands of one page run."""

    def __init__(self):
        self.path = Path(tempfile.mkdtemp(prefix="anabranch-docs-"))
        tools = self.path / ".bin"
        tools.mkdir()
        (tools / "anabranch").symlink_to(BINARY)
        cargo = tools / "cargo"
        cargo.write_text(
            '#!/bin/sh\n[ "$1" = anabranch ] && shift && exec anabranch "$@"\n'
            'echo "the test knows only cargo anabranch" >&2; exit 101\n'
        )
        cargo.chmod(0o755)
        (self.path / "scenarios").symlink_to(ROOT / "scenarios")
        self.environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}

    def run(self, command):
        """The exit code, and what is printed on both outputs but for the progress."""
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.path, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False,
        )
        lines = [line.rstrip() for line in done.stdout.splitlines() if not PROGRESS.match(line)]
        return done.returncode, lines

    def prepare(self, page):
        """Writes the files that a page shows."""
        for block in blocks(page):
            if "file" in block.words:
                (self.path / block.words["file"]).write_text(block.text + "\n", encoding="utf-8")

    def close(self):
        shutil.rmtree(self.path)


def matches(shown, printed):
    """Whether `printed` is what is shown, where a line `...` stands for any lines."""
    if "..." not in shown:
        return shown == printed
    gap = shown.index("...")
    head, tail = shown[:gap], shown[gap + 1 :]
    if printed[: len(head)] != head:
        return False
    rest = printed[len(head) :]
    return not tail or any(matches(tail, rest[start:]) for start in range(len(rest) + 1))


def outline(lines):
    """The first words of the lines of tables, which come before the line `N runs each`.

    Which of the less important columns are shown depends on how wide the numbers are. The lines below a
    table, which are indented, have measured numbers too.
    """
    found = []
    for line in lines:
        if re.match(r"\d+ runs? (each|of each contender)|seed \d+;", line):
            break
        if line.startswith("  "):
            continue
        found.append(re.split(r" {2,}", line.strip())[0])
    return found


class Documented(unittest.TestCase):
    """Filled below with one test for each block of commands."""

    maxDiff = None


def test_of(block):
    def test(self):
        sandbox = Sandbox()
        self.addCleanup(sandbox.close)
        sandbox.prepare(block.page)
        for command, shown in block.commands():
            code, printed = sandbox.run(command)
            text = "\n".join(printed)
            self.assertEqual(code, int(block.words.get("exit", 0)), f"$ {command}\n{text}")
            while shown and not shown[-1]:
                shown.pop()
            if not shown:
                continue
            if "sample" in block.words:
                self.assertEqual(outline(shown), outline(printed), f"$ {command}\n{text}")
            elif not matches(shown, printed):
                self.assertEqual("\n".join(shown), text, f"$ {command}")

    return test


for page in PAGES:
    for block in blocks(page):
        if block.language == "console":
            name = re.sub(r"\W+", "_", str(page.relative_to(ROOT)))
            setattr(Documented, f"test_{name}_line_{block.line:04}", test_of(block))


def flatten(value, prefix=""):
    """The names of all values in a JSON object: `rows[].fct_s.mean`."""
    if isinstance(value, dict):
        return {name for key, inner in value.items() for name in flatten(inner, f"{prefix}.{key}" if prefix else key)}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return {name for inner in value for name in flatten(inner, f"{prefix}[]")}
    return {prefix}


def expand(name):
    """The names that `a.{b,c}[].d` stands for: `a.b[].d` and `a.c[].d`."""
    found = re.search(r"\{([^{}]*)\}", name)
    if not found:
        return {name}
    return {one for part in found[1].split(",") for one in expand(name[: found.start()] + part + name[found.end() :])}


def named(table, pattern=".+"):
    """The names in the first column of `table`, as far as they match `pattern`: a row may have several in backquotes."""
    cells = re.findall(r"(?m)^\|((?:\s*`[^`]+`,?)+)", table)
    found = (re.match(pattern, one) for cell in cells for one in re.findall(r"`([^`]+)`", cell))
    return [match[0] for match in found if match]


# The options of every verb, which have a table of their own.
EVERYWHERE = {"--color", "--quiet"}


class Reference(unittest.TestCase):
    """The reference pages name everything that there is, and nothing else."""

    def setUp(self):
        self.sandbox = Sandbox()
        self.addCleanup(self.sandbox.close)

    def output(self, command, code=0):
        found, lines = self.sandbox.run(command)
        self.assertEqual(found, code, "\n".join(lines))
        return "\n".join(lines)

    def test_the_keys_of_json_are_those_of_the_tables(self):
        text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
        tables = re.findall(r"<!-- keys: (.*?) -->\n(.*?)\n\n", text, re.S)
        self.assertGreaterEqual(len(tables), 4)
        for command, table in tables:
            documented = [key for name in named(table) for key in expand(name)]
            self.assertEqual(len(documented), len(set(documented)), command)
            self.assertEqual(set(documented), flatten(json.loads(self.output(command))), command)

    def test_further_keys_of_json_are_those_of_the_tables(self):
        text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
        tables = re.findall(r"<!-- (further )?keys: (.*?) -->\n(.*?)\n\n", text + "\n", re.S)
        documented = [{key for name in named(table) for key in expand(name)} for _, _, table in tables]
        usual = set().union(*(keys for (further, *_), keys in zip(tables, documented) if not further))
        checked = 0
        for (further, command, _), keys in zip(tables, documented):
            if further:
                found = flatten(json.loads(self.output(command))) - usual
                # An empty list has no keys of its own.
                found = {key for key in found if not any(other.startswith(f"{key}[]") for other in usual)}
                self.assertEqual(keys, found, command)
                checked += 1
        self.assertGreaterEqual(checked, 2)

    def test_every_option_has_its_place(self):
        text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
        common = text.split("\n## Options of every verb\n")[1].split("\n## ")[0]
        self.assertEqual(set(named(common, r"--[\w-]+")), EVERYWHERE)
        self.check_options("anabranch", "##", text)

    def check_options(self, command, heading, text):
        """The section of each verb below `command` has the verb's options, and those below it theirs."""
        listed = self.output(f"{command} --help").split("Usage:")[1].split("Options:")[0]
        for verb in re.findall(r"^  (\w+)  ", listed, re.M):
            if verb == "help":
                continue
            name = f"{command} {verb}"
            section = text.split(f"\n{heading} `{name}`\n")[1].split(f"\n{heading} ")[0]
            own = section.split(f"\n{heading}# `{name} ")[0]
            help_text = self.output(f"{name} --help")
            options = set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", help_text.split("Options:")[1], re.M))
            options -= {"--help", "--version", *EVERYWHERE}
            documented = set(named(own, r"--[\w-]+"))
            self.assertEqual(documented, options, name)
            if "Commands:" in help_text:
                self.check_options(name, f"{heading}#", section)

    def test_every_key_of_a_scenario_is_described(self):
        text = (ROOT / "docs" / "scenario.md").read_text(encoding="utf-8")
        nonsense = "qqqqqqqqqqqq"
        places = [
            f"anabranch compare --set {nonsense}=1",
            f"anabranch compare --path 1Mbit/s,1ms,{nonsense}=1",
            f"anabranch compare --set traffic.{nonsense}=1",
            f"anabranch compare home --set traffic.{nonsense}=1",
            f"anabranch compare shared-bottleneck --set topology.{nonsense}=1",
            f"anabranch compare --path 1Mbit/s,1ms --set 'path.change=[{{{nonsense}=1}}]'",
            f"anabranch compare --path 1Mbit/s,1ms --set 'path.gilbert-elliott={{{nonsense}=1}}'",
            f"anabranch compare --path 1Mbit/s,1ms --set 'path.jitter={{{nonsense}=1}}'",
            f"anabranch compare --path 1Mbit/s,1ms --set 'path.reorder={{{nonsense}=1}}'",
            f"anabranch compare --set 'traffic.background={{{nonsense}=1}}'",
            f"anabranch compare --set 'traffic.beside={{{nonsense}=1}}'",
        ]
        for command in places:
            found = re.search(r"the keys here are (.*)", self.output(command, code=2))
            self.assertTrue(found, command)
            for key in re.split(r", | and ", found.group(1)):
                self.assertRegex(text, rf"(?m)^\| (`[^`|]+`, )*`{re.escape(key)}`", command)

    def test_every_knob_is_there_with_its_defaults(self):
        text = (ROOT / "docs" / "scenario.md").read_text(encoding="utf-8")
        documented = {}
        for row in re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \|", text, re.M):
            documented[row[0]] = row[1:]
        lines = self.output("anabranch list knobs").splitlines()[1:]
        real = {}
        for line in lines:
            name, linux, ns3, _ = re.split(r" {2,}", line, maxsplit=3)
            real[name] = (linux, ns3)
        self.assertEqual(documented, real)

    def names(self, what):
        """What `anabranch list` names; a line that begins with a space goes on with a description."""
        lines = self.output(f"anabranch list {what}").splitlines()[1:]
        return [line.split()[0] for line in lines if not line.startswith(" ")]

    def test_every_congestion_control_has_its_section(self):
        text = (ROOT / "docs" / "congestion.md").read_text(encoding="utf-8")
        for name in self.names("congestion"):
            self.assertRegex(text, rf"(?m)^## .*`{re.escape(name)}`")

    def test_every_scheduler_has_its_page_with_a_picture_and_its_line_in_the_list(self):
        index = (ROOT / "docs" / "schedulers.md").read_text(encoding="utf-8")
        for name in self.names("schedulers"):
            if name.startswith("tcp"):
                continue
            page = "dmptcp.md" if name == "dmptcp" else f"schedulers/{name}.md"
            self.assertIn(f"| [`{name}`]({page}) |", index)
            text = (ROOT / "docs" / page).read_text(encoding="utf-8")
            self.assertRegex(text, rf"\]\((../)?img/scheduler_{name}\.svg\)")
            for part in ("Rule", "Constants", "Departures", "Source") if name != "dmptcp" else ():
                self.assertIn(f"\n## {part}\n", text, name)

    def test_the_table_of_parameters_is_what_the_command_lists(self):
        text = (ROOT / "docs" / "schedulers.md").read_text(encoding="utf-8")
        found = re.search(r"<!-- parameters -->\n(.*?)\n<!-- end of parameters -->", text, re.S)
        self.assertTrue(found)
        self.assertEqual(found.group(1).splitlines(), parameters(self.sandbox).splitlines())

    def test_the_counts_of_rules_are_those_of_the_tables(self):
        text = (ROOT / "docs" / "rfc8684.md").read_text(encoding="utf-8")
        kept, rest = text.split("\n## Rules that do not apply\n")
        rows = [len(re.findall(r"(?m)^\| [A-Z]+\d+ \|", part)) for part in (kept, rest)]
        self.assertIn(f"{rows[0]} rules are kept; [{rows[1]} do not apply]", text)


class Plots(unittest.TestCase):
    """The plots of the documentation can be made anew."""

    def test_every_plot_is_drawn(self):
        with tempfile.TemporaryDirectory() as out:
            command = [sys.executable, str(ROOT / "tools" / "plot.py"), "--binary", str(BINARY), "--out", out, "--quick"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            drawn = {file.name for file in Path(out).iterdir()}
            # Figures of `anabranch plot` come from tools/report_screenshots.mjs.
            committed = {file.name for file in (ROOT / "docs" / "img").glob("*.svg") if not file.name.startswith("plot-")}
            self.assertEqual(drawn, committed)


def parameters(sandbox):
    """The table of the schedulers' parameters for the documentation."""
    schedulers = {line.split()[0] for line in sandbox.run("anabranch list schedulers")[1] if not line.startswith(" ")}
    head = ["scheduler", "parameter", "default", "may be", "what it is, with its unit"]
    rows = [re.split(r" {2,}", line) for line in sandbox.run("anabranch list parameters")[1][1:]]
    rows = [[f"`{name}`", f"`{key}`", *rest] for name, key, *rest in rows if name in schedulers]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * 5, *rows])


def update():
    """Puts into the blocks what the commands print now. Blocks with `...` or without output stay."""
    for page in PAGES:
        sandbox = Sandbox()
        sandbox.prepare(page)
        lines = page.read_text(encoding="utf-8").splitlines()
        for block in reversed(blocks(page)):
            if block.language != "console":
                continue
            new = []
            commands = list(block.commands())
            stays = lambda shown: "..." in shown or not any(shown)  # noqa: E731
            changes = any(not stays(shown) for _, shown in commands)
            for command, shown in commands:
                new.append("$ " + command)
                if stays(shown):
                    new.extend(shown)
                    # A later command of the block may need what this one leaves.
                    if changes:
                        sandbox.run(command)
                else:
                    new.extend(CLOCK.sub(r"\1...\2...\3", line) for line in sandbox.run(command)[1])
                    new.extend([""] if not shown[-1] else [])
            end = block.line + len(block.text.splitlines())
            lines[block.line : end] = "\n".join(new).splitlines()
        text = "\n".join(lines) + "\n"
        table = "<!-- parameters -->\n" + parameters(sandbox) + "\n<!-- end of parameters -->"
        text = re.sub(r"<!-- parameters -->.*?<!-- end of parameters -->", lambda _: table, text, flags=re.S)
        page.write_text(text, encoding="utf-8")
        sandbox.close()


def main():
    if not BINARY.exists():
        sys.exit(f"there is no {BINARY}; build it, or name another in $ANABRANCH")
    if sys.argv[1:] == ["--update"]:
        return update()
    result = unittest.main(exit=False, verbosity=1).result
    failed, skipped = len(result.failures) + len(result.errors), len(result.skipped)
    for test, reason in result.skipped:
        print(f"SKIPPED: {test.id()}: {reason}")
        if os.environ.get("ANABRANCH_SKIPS"):
            with open(os.environ["ANABRANCH_SKIPS"], "a", encoding="utf-8") as skips:
                skips.write(f"{test.id()}: {reason}\n")
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
