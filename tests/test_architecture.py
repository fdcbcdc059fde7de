"""The rules of docs/architecture.md: floors, unsafe code, crates without input or output, lints."""

import json
import re
import subprocess
import sys
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import records  # noqa: E402
import structure  # noqa: E402
import typings  # noqa: E402

PAGE = (ROOT / "docs" / "architecture.md").read_text()
PREFIX = "anabranch-"

# The crates that use no clock, thread, file or socket, and the crates of others that they may use.
PURE = ["units", "link", "stack", "sim"]
PURE_MAY_USE = {"hmac", "libm", "prefetch-index", "rand_core", "rand_pcg", "rustc-hash", "sha2"}

# The crates that make results: the same on every machine, and in WebAssembly.
EXACT = [*PURE, "scenario", "measure", "lab", "recording", "web"]
# Functions of numbers that the system's library computes, with other last digits on another system.
INEXACT = re.compile(
    r"\.(?:powf|exp|exp2|exp_m1|ln|ln_1p|log|log2|log10|cbrt|hypot|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh)\("
)

# The crates for real networks, which know no setting that exists only in a simulator.
REAL = ["device", "net", "middlebox", "interop"]


def metadata():
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def crates():
    """The packages of `crates/` and of `tests/` by their short names."""
    packages = {}
    for package in metadata()["packages"]:
        if Path(package["manifest_path"]).parent.parent in (ROOT / "crates", ROOT / "tests"):
            packages[package["name"].removeprefix(PREFIX)] = package
    return packages


def place(name):
    """The directory of a crate."""
    return next(ROOT / folder / name for folder in ("crates", "tests") if (ROOT / folder / name).exists())


def used_by_product(packages):
    """The crates of `tests/` that a crate of the product needs for more than its tests."""
    for_tests = {name for name, one in packages.items() if Path(one["manifest_path"]).parent.parent.name == "tests"}
    wrong = []
    for name in sorted(packages.keys() - for_tests):
        normal = {one["name"].removeprefix(PREFIX) for one in packages[name]["dependencies"] if one["kind"] != "dev"}
        wrong += [(name, other) for other in sorted(normal & for_tests)]
    return wrong


def floors(page):
    """The floor of each crate, from the first diagram of the page: a digit, names, and after wide gaps a text."""
    diagram = page.split("```text\n", 1)[1].split("```", 1)[0]
    found = {}
    for line in diagram.splitlines():
        number, *names = re.split(r"\s{2,}", line.strip())
        for name in names[:-1]:
            if name in found:
                raise ValueError(f"{name} is on two floors")
            found[name] = int(number)
    return found


def upwards(floor, packages):
    """The dependencies between `packages` that lead to no lower floor, or from tests to a higher one."""
    wrong = []
    for name, package in sorted(packages.items()):
        for dependency in package["dependencies"]:
            other = dependency["name"].removeprefix(PREFIX)
            if other not in floor or name not in floor:
                continue
            highest = floor[name] if dependency["kind"] == "dev" else floor[name] - 1
            if floor[other] > highest:
                wrong.append(f"{name} (floor {floor[name]}) uses {other} (floor {floor[other]})")
    return wrong


def sources():
    for directory in ["crates", "examples", "fuzz", "tests", "tools"]:
        for path in sorted((ROOT / directory).rglob("*.rs")):
            if "target" not in path.relative_to(ROOT).parts:
                yield path


def lints_allowed(text, names):
    """Whether `text` turns one of the lints `names` off, as an attribute of Rust."""
    attribute = r"#!?\[\s*(?:cfg_attr\([^\]]*?)?(?:allow|expect)\(([^\]]*)\)"
    return any(re.search(rf"\b(?:{names})\b", found) for found in re.findall(attribute, text))


def has_unsafe(text):
    """Whether `text` has unsafe code, or allows it: the packages apart from the workspace need not ask."""
    return bool(re.search(r"\bunsafe\s*(?:\{|(?:fn|impl|extern|trait)\b)", text)) or lints_allowed(text, "unsafe_code")


class Floors(unittest.TestCase):
    def test_the_diagram_and_the_table_have_every_crate(self):
        names = sorted(crates())
        self.assertEqual(sorted(floors(PAGE)), names)
        self.assertEqual(sorted(re.findall(r"^\| `(?:crates|tests)/(\w+)` \|", PAGE, re.M)), names)

    def test_dependencies_lead_to_lower_floors(self):
        self.assertEqual(upwards(floors(PAGE), crates()), [])

    def test_no_crate_of_the_product_depends_on_one_for_tests(self):
        self.assertEqual(used_by_product(crates()), [])
        package = lambda folder, *uses: {
            "manifest_path": f"/home/{folder}/x/Cargo.toml",
            "dependencies": [{"name": PREFIX + name, "kind": kind} for name, kind in uses],
        }
        packages = {"box": package("tests"), "net": package("crates", ("box", "dev")), "matrix": package("tests", ("box", None))}
        self.assertEqual(used_by_product(packages), [])
        packages["net"] = package("crates", ("box", None))
        self.assertEqual(used_by_product(packages), [("net", "box")])

    def test_python_needs_the_command_for_one_feature_only(self):
        needed = {one["name"]: one["optional"] for one in crates()["py"]["dependencies"]}
        self.assertIs(needed["anabranch-cli"], True)
        self.assertIs(needed["anabranch-show"], False)

    def test_a_dependency_upwards_would_be_noticed(self):
        floor = {"low": 0, "beside": 1, "high": 1}
        uses = lambda name, kind: {"dependencies": [{"name": PREFIX + name, "kind": kind}]}
        self.assertEqual(upwards(floor, {"high": uses("low", None)}), [])
        self.assertEqual(upwards(floor, {"high": uses("beside", "dev")}), [])
        self.assertEqual(len(upwards(floor, {"high": uses("beside", None)})), 1)
        self.assertEqual(len(upwards(floor, {"high": uses("beside", "build")})), 1)
        self.assertEqual(len(upwards(floor, {"low": uses("high", "dev")})), 1)


class Connection(unittest.TestCase):
    def files(self):
        everything = structure.sources(None)
        return {path: text for path, text in everything.items() if path.startswith("connection/")}

    def test_calls_between_its_files_lead_one_way(self):
        files = self.files()
        self.assertGreater(len(files), 20)
        self.assertEqual(structure.largest_cycle(files), [])

    def test_a_call_back_would_be_noticed(self):
        files = self.files()
        files["connection/end.rs"] += "\nimpl Connection {\n    fn again(&mut self) { self.close_subflow(); }\n}\n"
        self.assertEqual(structure.largest_cycle(files), ["connection/end.rs", "connection/subflow_end.rs"])


class Rooms(unittest.TestCase):
    def test_no_large_circle_of_imports_and_none_across_folders(self):
        directories = structure.crate_directories(None)
        self.assertGreater(len(directories), 15)
        for directory in directories:
            files = structure.sources(None, directory)
            wrong = [
                circle
                for circle, across in structure.circles_of_imports(files)
                if across or len(circle) > structure.LARGEST_CIRCLE
            ]
            self.assertEqual(wrong, [], directory)

    def circles(self, **texts):
        return structure.circles_of_imports({name.replace("_", "/") + ".rs": text for name, text in texts.items()})

    def test_a_circle_would_be_noticed(self):
        there, back = "use crate::b::{C, d::D as E};", "fn f() { super::a::g() }"
        self.assertEqual(self.circles(lib="", a=there, b=back), [(["a.rs", "b.rs"], False)])
        self.assertEqual(self.circles(lib="", a=there, b=""), [])
        self.assertEqual(self.circles(lib="", x_mod="", x_a=there, b="use crate::x::a::D;"), [(["b.rs", "x/a.rs"], True)])

    def test_a_name_that_is_handed_on_belongs_to_its_file(self):
        face = "pub use part::Part; use crate::b::B;"
        self.assertEqual(self.circles(lib="", x_mod=face, x_part="", b="use crate::x::Part;"), [])
        # The files of a module may use what the module itself has.
        self.assertEqual(self.circles(lib="", x_mod="use part::Part;", x_part="use super::Other;"), [])


# The pairs of types with eight or more equal fields that are two things, with the reason.
RIGHTLY_TWO = {
    ("inspect/src/result.rs: StreamReport", "measure/src/measures.rs: FlowRecord"): "a capture shows a part of a measure, by other rules",
    ("py/src/view.rs: Values", "stack/src/scheduler/mod.rs: View"): "a class of Python owns its values, and the view borrows them",
    ("sim/src/pool.rs: Usual", "stack/src/segment.rs: Segment"): "one cache line of the common fields, in place of five",
}


class Results(unittest.TestCase):
    def test_no_type_of_another_crate_or_language_has_the_same_fields(self):
        found = {(one.removeprefix("crates/"), other.removeprefix("crates/")) for _, one, other in records.pairs(records.texts(None))}
        self.assertEqual(found, set(RIGHTLY_TWO))

    def test_other_languages_have_the_structs_of_results(self):
        for path, text in typings.files().items():
            self.assertEqual((ROOT / path).read_text(), text, f"{path}: tools/typings.py --write writes it")

    def test_a_field_would_be_noticed(self):
        changed = lambda old, new: typings.files(lambda path: typings.read_file(path).replace(old, new))
        before, more = typings.files(), changed("    pub balance: Balance,\n", "    pub balance: Balance,\n    /// More\n    pub more: Option<u32>,\n")
        self.assertIn("  /** More */\n  more: number | null;\n", more[typings.TYPESCRIPT])
        self.assertEqual(more[typings.PYTHON], before[typings.PYTHON])
        more = changed("    pub helps: Option<bool>,\n", "    pub helps: Option<bool>,\n    #[serde(skip)]\n    pub own: u32,\n    pub more: Vec<(String, f64)>,\n")
        self.assertIn("    more: list[tuple[str, float]]\n", more[typings.PYTHON])
        self.assertNotIn("own:", more[typings.PYTHON])
        self.assertRaises(ValueError, changed, "pub struct Party", "pub struct Side")


MODULE = re.compile(r'(?:#\[path = "([^"]+)"\]\s*)?^ *(?:pub )?mod (\w+);', re.M)


def reached(root):
    """The files of a test program: `root`, and the modules that it names."""
    seen, rest = set(), [(root.resolve(), True)]
    while rest:
        file, owns_folder = rest.pop()
        if file in seen or not file.exists():
            continue
        seen.add(file)
        folder = file.parent if owns_folder or file.name == "mod.rs" else file.parent / file.stem
        for path, name in MODULE.findall(file.read_text()):
            if path:
                rest.append(((file.parent / path).resolve(), True))
            else:
                rest += [(folder / f"{name}.rs", False), (folder / name / "mod.rs", True)]
    return seen


class Tests(unittest.TestCase):
    """A test that no program has is not run, and nobody is told."""

    def test_every_file_of_tests_is_in_a_program(self):
        for name, package in crates().items():
            programs = [Path(one["src_path"]) for one in package["targets"] if {"test", "bench"} & set(one["kind"])]
            files = set().union(*map(reached, programs))
            written = {file.resolve() for file in (Path(package["manifest_path"]).parent / "tests").rglob("*.rs")}
            self.assertEqual(sorted(map(str, written - files)), [], name)

    def test_a_forgotten_file_would_be_noticed(self):
        files = {file.name for file in reached(ROOT / "crates/stack/tests/all.rs")}
        self.assertLessEqual({"golden_grid.rs", "mod.rs", "middlebox.rs", "case.rs"}, files)
        self.assertNotIn("hostile_flood.rs", files)


class Unsafe(unittest.TestCase):
    def test_unsafe_code_is_in_the_files_that_the_page_lists(self):
        listed = re.findall(r"^\* `([\w/]+\.rs)`: ", PAGE, re.M)
        used = [str(path.relative_to(ROOT)) for path in sources() if has_unsafe(path.read_text())]
        self.assertTrue(listed)
        self.assertEqual(sorted(used), sorted(listed))

    def test_every_package_has_the_lints_of_the_workspace(self):
        workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())
        self.assertIn(workspace["workspace"]["lints"]["rust"]["unsafe_code"], ["deny", "forbid"])
        for package in metadata()["packages"]:
            manifest = tomllib.loads(Path(package["manifest_path"]).read_text())
            self.assertEqual(manifest.get("lints"), {"workspace": True}, package["name"])


class Pure(unittest.TestCase):
    def test_the_forbidden_methods_and_types_are_the_same_in_each(self):
        files = [tomllib.loads((ROOT / "crates" / name / "clippy.toml").read_text()) for name in PURE]
        self.assertTrue(all(file == files[0] for file in files))
        # Clippy reads the nearest file alone.
        everywhere = tomllib.loads((ROOT / "clippy.toml").read_text())
        for rule in everywhere["disallowed-methods"]:
            self.assertIn(rule, files[0]["disallowed-methods"])

    def test_no_code_but_tests_is_exempt(self):
        for name in PURE:
            for path in (ROOT / "crates" / name / "src").rglob("*.rs"):
                if not path.stem.endswith("tests"):
                    exempt = lints_allowed(path.read_text(), "disallowed_methods|disallowed_types|iter_over_hash_type")
                    self.assertFalse(exempt, path)

    def test_no_dependency_has_come_without_a_decision(self):
        packages = crates()
        for name in PURE:
            dependencies = packages[name]["dependencies"]
            normal = {one["name"] for one in dependencies if one["kind"] != "dev"}
            other = {one for one in normal if not one.startswith(PREFIX)}
            self.assertLessEqual(other, PURE_MAY_USE, name)


class Scripts(unittest.TestCase):
    def test_a_file_that_names_its_interpreter_can_be_executed(self):
        entries = subprocess.run(["git", "ls-files", "--stage"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        files = [(line[:6], ROOT / line.split("\t", 1)[1]) for line in entries.splitlines()]
        scripts = [(mode, path) for mode, path in files if path.is_file() and path.read_bytes()[:2] == b"#!"]
        self.assertGreater(len(scripts), 20)
        wrong = [str(path.relative_to(ROOT)) for mode, path in scripts if mode != "100755"]
        self.assertEqual(wrong, [], "git update-index --chmod=+x")

    def test_no_script_expects_a_failure_in_a_way_that_cannot_fail(self):
        """`set -e` passes over a line `! command`, whatever becomes of the command."""
        texts = [path.read_text() for path in sources()] + [(ROOT / name).read_text() for name in ["test", ".ci/run"]]
        wrong = [line for text in texts for line in text.splitlines() if re.match(r"\s*! ", line) and not line.endswith("; then")]
        self.assertEqual(wrong, [], "use `fails command` of crates/cli/tests/common/mod.rs, or `if command; then`")


class Exact(unittest.TestCase):
    def test_results_use_no_function_of_the_systems_library(self):
        for name in EXACT:
            for path in (ROOT / "crates" / name / "src").rglob("*.rs"):
                if not path.stem.endswith("tests"):
                    code = path.read_text().split("#[cfg(test)]\nmod tests {")[0]
                    self.assertEqual(INEXACT.findall(code), [], f"{path}: call the function of libm")

    def test_a_use_would_be_noticed(self):
        self.assertTrue(INEXACT.search("10_f64.powf(x)"))
        self.assertFalse(INEXACT.search("libm::pow(10.0, x) + x.sqrt() + spread.ln_of()"))


class SimulatorOnly(unittest.TestCase):
    def names(self, text):
        """The types of settings for simulators that the code of `text` names; comments do not count."""
        code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//"))
        return set(re.findall(r"\b(?:SimConfig|SimOnly|SequenceOrigin)\b", code))

    def test_the_code_for_real_networks_does_not_name_them(self):
        for name in REAL:
            for path in sorted(place(name).rglob("*.rs")):
                self.assertEqual(self.names(path.read_text()), set(), path)

    def test_a_use_would_be_noticed(self):
        self.assertEqual(self.names("// SimConfig\nlet x: ConnectionConfig;"), set())
        self.assertEqual(self.names("use anabranch_stack::config::{SimConfig};"), {"SimConfig"})


class Public(unittest.TestCase):
    def test_each_library_warns_of_pub_that_nobody_can_reach(self):
        for name in crates():
            library = place(name) / "src" / "lib.rs"
            if library.exists():
                self.assertIn("#![warn(unreachable_pub)]", library.read_text(), library)


if __name__ == "__main__":
    unittest.main()
