"""Counts what holds `crates/stack` together: fields, methods, public fields, reaches into a subflow, call cycles. With
`--circles` it shows, for all crates, the files that import each other in a circle.

    python3 tools/structure.py              the working tree
    python3 tools/structure.py --at main    another commit
    python3 tools/structure.py --surface    also the methods of a subflow and of its parts that connection/ calls
    python3 tools/structure.py --circles    the circles of imports in each crate, and the names that close them

The counts are a help for those who restructure the code, and no gate; tests/test_architecture.py holds that there is no
call cycle, no circle of imports with more than five files, and none across folders. Tests are left out. A call is found by its
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
# The largest circle of imports that may be.
LARGEST_CIRCLE = 5


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def crate_directories(revision):
    """The directories with the sources of every crate."""
    if revision is None:
        manifests = [path.relative_to(ROOT) for place in ("crates", "tests") for path in (ROOT / place).glob("*/Cargo.toml")]
    else:
        names = git("ls-tree", "-r", "--name-only", revision, "--", "crates/", "tests/").split()
        manifests = [Path(name) for name in names if re.fullmatch(r"(?:crates|tests)/\w+/Cargo.toml", name)]
    return sorted(str(manifest.parent / "src") for manifest in manifests)


def sources(revision, directory=SOURCE):
    """The source files of a crate, by default of the stack, without their tests, by path below `directory`."""
    if revision is None:
        texts = {
            str(path.relative_to(ROOT / directory)): path.read_text(encoding="utf-8")
            for path in sorted((ROOT / directory).rglob("*.rs"))
        }
    else:
        names = git("ls-tree", "-r", "--name-only", revision, "--", directory + "/").split()
        texts = {name[len(directory) + 1 :]: git("show", f"{revision}:{name}") for name in names if name.endswith(".rs")}
    return {
        name: without_tests(without_comments(text))
        for name, text in texts.items()
        if not any(part == "tests" or part.endswith("_tests") for part in name.removesuffix(".rs").split("/"))
    }


def without_comments(text):
    """The code of `text` without its comments, and with empty strings."""
    pattern = r'//[^\n]*|/\*.*?\*/|\br(#*)".*?"\1|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\\n]|\\(?:u\{\w+\}|x\w\w|.))\''
    return re.sub(pattern, lambda found: "" if found[0].startswith("/") else '""', text, flags=re.S)


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

    return max(circles_of(calls), key=len, default=[])


def circles_of(arrows):
    """The sets of names that reach each other over `arrows`, a dictionary from a name to others; each set once."""

    def reached(start):
        seen, todo = set(), [start]
        while todo:
            for there in arrows[todo.pop()]:
                if there not in seen:
                    seen.add(there)
                    todo.append(there)
        return seen

    reach = {name: reached(name) for name in arrows}
    found = {tuple(sorted(other for other in reach[name] if name in reach[other])) for name in arrows if name in reach[name]}
    return [list(circle) for circle in sorted(found)]


def module_of(path):
    """The module that a file of a crate is, as a tuple of names; empty for the root."""
    parts = path.removesuffix(".rs").split("/")
    if parts[-1] == "mod" or parts in (["lib"], ["main"]):
        parts.pop()
    return tuple(parts)


def spread(tree):
    """The paths that a tree of imports names: `a::{b, c::d}` is `a::b` and `a::c::d`."""
    tree = tree.strip()
    opening = tree.find("{")
    if opening < 0:
        return [tree.split(" as ")[0].strip()]
    inside, depth, start, paths = tree[opening + 1 : tree.rindex("}")], 0, 0, []
    for at, letter in enumerate(inside + ","):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            if inside[start:at].strip():
                paths += [tree[:opening] + path for path in spread(inside[start:at])]
            start = at + 1
    return paths


def imports(files):
    """The files that each file of a crate imports from, with the names that it takes: a dictionary of dictionaries. A name
    that a module only hands on, by `pub use`, belongs to the file that defines it."""
    file_of = {module_of(path): path for path in files if path != "main.rs" or "lib.rs" not in files}
    handed = {}

    def absolute(module, path):
        """The names of `path` from the root of the crate; none for another crate."""
        names = path.split("::")
        if names[0] == "crate":
            return names[1:]
        at = list(module)
        while names and names[0] in ("self", "super"):
            if names.pop(0) == "super":
                if not at:
                    return None
                at.pop()
        if len(names) < len(path.split("::")) or (*module, names[0]) in file_of:
            return at + names
        return None

    def resolved(names, steps=8):
        """The file that defines what the path `names` leads to, and the last name."""
        at = 0
        while at < len(names) and tuple(names[: at + 1]) in file_of:
            at += 1
        module = tuple(names[:at])
        if module not in file_of:
            return None
        if at < len(names) and steps:
            further = handed.get(module, {}).get(names[at])
            if further is not None:
                return resolved(further + names[at + 1 :], steps - 1)
        return file_of[module], names[at] if at < len(names) else "*"

    uses = {}
    for path, text in files.items():
        module = module_of(path)
        uses[path] = []
        for public, tree in re.findall(r"^[ \t]*(pub(?:\([^)]*\))? )?use ([^;]+);", text, re.M):
            renamed = dict(reversed(pair) for pair in re.findall(r"(\w+) as (\w+)", tree))
            for one in spread(re.sub(r"\s+", " ", tree)):
                names = absolute(module, re.sub(r"\s", "", one).removesuffix("::self"))
                if names is None:
                    continue
                if public:
                    own = next((new for new, old in renamed.items() if old == names[-1]), names[-1])
                    handed.setdefault(module, {})[own] = names
                else:
                    uses[path].append(names)
        # Paths in the code itself, and calls into a module of one's own.
        body = re.sub(r"^[ \t]*(?:pub(?:\([^)]*\))? )?use [^;]+;", "", text, flags=re.M)
        for one in re.findall(r"(?<![\w:$])((?:crate|self|super|[a-z_]\w*)(?:::\w+)+)", body):
            names = absolute(module, one)
            if names is not None:
                uses[path].append(names)
    for module, names in handed.items():
        if "*" in names:
            # A module that hands on all of another: only its own names are known, so that they lead to that file.
            names.pop("*")
    found = {path: {} for path in files}
    for path, all_names in uses.items():
        for names in all_names:
            target = resolved(names)
            if target is not None and target[0] != path:
                found[path].setdefault(target[0], set()).add(target[1])
    return found


def folder(path, files):
    """The folder that a file belongs to: its own, or the one that it is the module of."""
    own = path.removesuffix(".rs") + "/"
    return own if any(other.startswith(own) for other in files) else path.rpartition("/")[0] + "/"


def circles_of_imports(files):
    """The circles of files that import each other, each with whether it leads across folders. A file that names the
    parts of a module above it closes none: a module and the files inside of it are one thing."""

    def is_above(path, target):
        above = module_of(target)
        return module_of(path)[: len(above)] == above

    arrows = {path: {to for to in targets if not is_above(path, to)} for path, targets in imports(files).items()}
    circles = circles_of(arrows)
    return [(circle, len({folder(path, files) for path in circle}) > 1) for circle in circles]


def show_circles(revision):
    for directory in crate_directories(revision):
        files = sources(revision, directory)
        taken = imports(files)
        for circle, across in circles_of_imports(files):
            print(f"{directory}: {len(circle)} of {len(files)} files{', across folders' if across else ''}")
            for path in circle:
                for target in sorted(set(taken[path]) & set(circle)):
                    print(f"    {path} -> {target}: {', '.join(sorted(taken[path][target]))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--at", metavar="REVISION", help="a commit in place of the working tree")
    parser.add_argument("--surface", action="store_true", help="the names of the methods of a subflow that connection/ calls")
    parser.add_argument("--circles", action="store_true", help="the circles of imports in each crate")
    options = parser.parse_args()
    if options.circles:
        return show_circles(options.at)
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
