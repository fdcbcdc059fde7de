"""Counts what holds `crates/stack` together: fields, methods, public fields, reaches into a subflow, call cycles.

    python3 tools/structure.py              the working tree
    python3 tools/structure.py --at main    another commit
    python3 tools/structure.py --surface    also the methods of a subflow and of its parts that connection/ calls

The counts are a help for those who restructure the stack, and no gate; tests/test_architecture.py holds only that there
is no call cycle. Tests are left out. A call is found by its
name, and belongs to the one file that defines the name; names that several files define are not counted.

A method of a subflow counts as used by connection/ if it is called there on a value whose name is that of a subflow
(`self.subflows[at]`, `subflow`, `other`, ...) or if no other function of the stack has its name. A part of a subflow is
a type of subflow/ that one of its methods returns by reference; a method of a part counts if it is called on such a
method, or on a variable with its name.
"""

import argparse
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = "crates/stack/src"


def sources(revision):
    """The source files of the stack without their tests, by path below `SOURCE`."""
    if revision is None:
        texts = {
            str(path.relative_to(ROOT / SOURCE)): path.read_text(encoding="utf-8")
            for path in sorted((ROOT / SOURCE).rglob("*.rs"))
        }
    else:

        def git(*words):
            return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout

        names = git("ls-tree", "-r", "--name-only", revision, "--", SOURCE + "/").split()
        texts = {name[len(SOURCE) + 1 :]: git("show", f"{revision}:{name}") for name in names if name.endswith(".rs")}
    return {
        name: without_tests(without_comments(text))
        for name, text in texts.items()
        if "tests" not in name.removesuffix(".rs").split("/")
    }


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text)


def block(text, start):
    """The text from the first brace after `start` to the one that closes it, and where that is."""
    opening = text.index("{", start)
    depth = 0
    for at in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[opening + 1 : at], at + 1
    raise ValueError("a brace is not closed")


def without_tests(text):
    while found := re.search(r"#\[cfg\(test\)\]\s*mod \w+ \{", text):
        text = text[: found.start()] + text[block(text, found.start())[1] :]
    return text


def fields(files, name):
    """The fields of a struct, and those that other modules can reach."""
    for text in files.values():
        if found := re.search(rf"\bstruct {name}\b[^;{{]*\{{", text):
            body, _ = block(text, found.start())
            lines = re.findall(r"^ {4}(pub(?:\([^)]*\))? )?(\w+): ", body, re.M)
            return len(lines), sum(1 for public, _ in lines if public)
    return 0, 0


def methods(text, name):
    """The functions in the `impl` blocks of a type: name, and whether other modules can call it."""
    found = []
    for start in re.finditer(rf"^impl(?:<[^>]*>)? {name}\b[^{{;]*\{{", text, re.M):
        body, _ = block(text, start.start())
        pattern = r"^ {4}(pub(?:\([^)]*\))? )?(?:const )?fn (\w+)"
        found += [(method, bool(public)) for public, method in re.findall(pattern, body, re.M)]
    return found


# The names that variables of the type Subflow have in connection/.
SUBFLOW = r"(?:\bsubflows\[[^\]]*\]|\b(?:subflow|other|only|first|best|new|Subflow:))\s*[.:]\s*"


def surface(connection, subflow, files):
    """The methods of `Subflow` that connection/ calls, and those of the parts of a subflow that it reaches through them:
    two dictionaries from a name to the files that call it."""

    def callers(pattern):
        found = {path: re.search(pattern, text) for path, text in connection.items()}
        return [path for path, hit in found.items() if hit]

    whole = "\n".join(subflow.values())
    defined = Counter(name for text in files.values() for name in re.findall(r"\bfn (\w+)", text))
    own = {name: path for path, text in subflow.items() for name, _ in methods(text, "Subflow")}
    used, parts = {}, {}
    for name in own:
        # A call, or the name as a value (`map(Subflow::view)`); fields of other types may have the same name.
        call = rf"{name}\b\s*(?:::<[^(]*>)?\("
        path = rf"\bSubflow::{name}\b"
        paths = callers(rf"{SUBFLOW}{call}|{path}")
        if defined[name] == 1:
            paths = callers(rf"\.\s*{call}|{path}") or paths
        if paths:
            used[name] = paths
    # A part is what a method returns by reference, and has methods of its own.
    getter = r"fn (\w+)\(&(?:mut )?self\) -> (?:Option<)?&(?:mut )?(\w+)\b"
    of_connection = re.findall(r"^ {4}(?:pub(?:\([^)]*\))? )?(\w+): ", connection["connection/mod.rs"], re.M)
    for name, kind in re.findall(getter, whole):
        if name not in used:
            continue
        for method in {method for text in subflow.values() for method, _ in methods(text, kind)}:
            variable = "" if name in of_connection else rf"|(?<![\w.]){name}"
            paths = callers(rf"(?:\.{name}\(\){variable})\s*\.\s*{method}\b")
            if paths:
                parts.setdefault(f"{kind}::{method}", paths)
    return used, parts


def impl_text(text, name):
    starts = re.finditer(rf"^impl(?:<[^>]*>)? {name}\b[^{{;]*\{{", text, re.M)
    return "".join(block(text, start.start())[0] for start in starts)


def largest_cycle(files):
    """The most files of `files` that call each other in a circle (methods of `Connection`, and free functions); empty if
    all calls lead one way."""
    owner = {}
    for path, text in files.items():
        owner |= {("self", method): path for method, _ in methods(text, "Connection")}
        owner |= {("", name): path for name in re.findall(r"^(?:pub(?:\([^)]*\))? )?(?:const )?fn (\w+)", text, re.M)}
    calls = {}
    for path, text in files.items():
        named = {("self", name) for name in re.findall(r"\b(?:self\.|Connection::)(\w+)\b", impl_text(text, "Connection"))}
        named |= {("", name) for name in re.findall(r"(?<![\w.])(?:\w+::)*(\w+)(?:::<[^>(]*>)?\(", text)}
        calls[path] = {owner[name] for name in named if owner.get(name, path) != path}

    def reached(start):
        seen, todo = set(), [start]
        while todo:
            for there in calls[todo.pop()]:
                if there not in seen:
                    seen.add(there)
                    todo.append(there)
        return seen

    reach = {path: reached(path) for path in files}
    circles = [sorted(other for other in files if path in reach[other] and other in reach[path]) for path in files]
    return max(circles, key=len)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--at", metavar="REVISION", help="a commit in place of the working tree")
    parser.add_argument("--surface", action="store_true", help="the names of the methods of a subflow that connection/ calls")
    options = parser.parse_args()
    files = sources(options.at)
    connection = {path: text for path, text in files.items() if path.startswith("connection/")}
    subflow = {path: text for path, text in files.items() if path.startswith("subflow/")}
    if not connection or not subflow:
        sys.exit("there is no crates/stack/src/connection and subflow: is this the repository of anabranch?")

    for name, home in (("Connection", ""), ("Subflow", "subflow/"), ("Endpoint", ""), ("ConnectionConfig", "")):
        among = {path: text for path, text in files.items() if path.startswith(home)}
        all_fields, public = fields(among, name)
        own = [method for text in among.values() for method in methods(text, name)]
        where = sum(1 for text in among.values() if methods(text, name))
        reachable = sum(1 for _, public_method in own if public_method)
        print(
            f"{name + ':':<18} {all_fields:>3} fields, {public} of them reachable from other modules; "
            f"{len(own)} methods, {reachable} reachable, in {where} files"
        )

    def count(pattern, among):
        hits = {path: len(re.findall(pattern, text)) for path, text in among.items()}
        return sum(hits.values()), sum(1 for hit in hits.values() if hit)

    print("uses of self.subflows[at] in connection/: {} in {} files".format(*count(r"self\.subflows\[", connection)))
    pattern = r"(?:self\.subflows\[\w+\]|\b(?:other_)?subflow)\.(?:\w+)(?!\w|\()"
    print("fields of a subflow named in connection/: {} times in {} files".format(*count(pattern, connection)))
    used, parts = surface(connection, subflow, files)
    print(
        f"methods of a subflow called in connection/: {len(used)}, and {len(parts)} of its parts; "
        f"by one file only: {sum(1 for paths in used.values() if len(paths) == 1)}"
    )
    # The names before and after the record of what is wanted next.
    pattern = r"schedule_wanted \|?= (?!false)|wanted\.schedule\(\)|self\.news = true"
    print("the scheduler is wanted: set {} times in {} files".format(*count(pattern, files)))
    pattern = r"timers_moved \|?= (?!false)|wanted\.timers\(\)|Timers::Moved(?!\)? =>)"
    print("the timers have moved: set {} times in {} files".format(*count(pattern, files)))
    print("TcpState is assigned: {} times in {} files".format(*count(r"\.(?:state|tcp) = (?:TcpState|match)", files)))
    upward = count(r"crate::connection|super::super::connection", subflow)
    print("imports of connection/ in subflow/: {} in {} files".format(*upward))
    circle = largest_cycle(connection)
    names = ", ".join(path.removeprefix("connection/").removesuffix(".rs") for path in circle) or "none"
    print(f"largest call cycle in connection/: {len(circle)} of {len(connection)} files ({names})")
    for title, names in (("a subflow", used), ("its parts", parts)) if options.surface else ():
        print(f"\nmethods of {title} called in connection/:")
        for name, paths in sorted(names.items()):
            print(f"    {name:<32} {', '.join(path.removeprefix('connection/').removesuffix('.rs') for path in paths)}")


if __name__ == "__main__":
    main()
