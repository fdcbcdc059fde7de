"""The packages of a release: what they include, and what `tools/release_check.py` finds missing.

    cargo doc --workspace --no-deps && python3 tests/test_release.py
    python3 tests/test_release.py --update      writes the list of public items
"""

import copy
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import release_check  # noqa: E402

# Every public item of the published crates, so that a review sees what a change makes public or takes away.
ITEMS = ROOT / "tests" / "public_items.txt"
CHANGELOG = "## [1.2.3] - 2026-11-27\n"


def package(name, dependencies=(), **changes):
    kept = ROOT / "crates" / "units" / "Cargo.toml"
    made = {
        "name": name, "version": "1.2.3", "publish": None, "manifest_path": str(kept), "description": "d", "license": "MIT",
        "keywords": ["k"], "categories": ["c"],
        "dependencies": [{"name": other, "req": "=1.2.3", "kind": None} for other in dependencies],
    }
    return {**made, **changes}


def public_items():
    """Returns a line for each public item of a published crate, from the pages that `cargo doc` wrote."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    lines = []
    for one in release_check.packages():
        libraries = [made["name"] for made in one["targets"] if {"lib", "rlib"} & set(made["kind"])]
        if one["publish"] == [] or not libraries:
            continue
        page = target / "doc" / libraries[0].replace("-", "_") / "all.html"
        if not page.is_file():
            sys.exit(f"test_release.py: there is no {page}; first: cargo doc --workspace --no-deps")
        found = re.findall(r'<li><a href="(?:[^"]*/)?([a-z]+)\.[^"]*">([^<]+)</a>', page.read_text(encoding="utf-8"))
        lines += [f"{one['name']} {kind} {name}" for kind, name in found]
    return "".join(f"{line}\n" for line in sorted(lines))


class Release(unittest.TestCase):
    def test_the_list_of_public_items_is_of_today(self):
        self.assertEqual(
            public_items().splitlines(), ITEMS.read_text(encoding="utf-8").splitlines(),
            "public items have changed; if this is meant: python3 tests/test_release.py --update",
        )

    def test_what_a_crate_includes_is_in_its_directory(self):
        """`cargo package` has the files of the crate only, also those that a symbolic link of the crate names."""
        outside = re.compile(r'include_(?:str|bytes)!\((?:concat!\()?"((?:\.\./)+)')
        for source in sorted(ROOT.glob("crates/*/src/**/*.rs")):
            depth = len(source.relative_to(ROOT).parts) - 3
            shipped = source.read_text(encoding="utf-8").split("#[cfg(test)]")[0]
            for ups in outside.findall(shipped):
                self.assertLessEqual(ups.count("../"), depth, f"{source.relative_to(ROOT)} includes a file outside of its crate")

    def test_every_crate_can_be_packaged(self):
        """The published ones, and the extension module with its crates, which the sdist of the Python package lists so."""
        command = ["cargo", "package", "--list", "--workspace", "--allow-dirty", "--quiet", "--offline"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("GUIDE.md", "scenarios/phone.toml", "report.html", "explorer.html", "explorer.wasm.gz"):
            self.assertIn(f"{name}\n", done.stdout)

    def test_links_of_crates_lead_to_files(self):
        links = [path for path in ROOT.glob("crates/*/*") if path.is_symlink()]
        self.assertTrue(links)
        for link in links:
            self.assertTrue(link.exists(), link)
            self.assertTrue(link.resolve().is_relative_to(ROOT), link)

    def test_the_packages_lack_nothing_but_the_date_of_the_release(self):
        packages = release_check.packages()
        version = next(one["version"] for one in packages if one["name"] == "anabranch-cli")
        heading = f"## [{version}] - 2026-01-01"
        self.assertEqual(release_check.faults(version, packages, heading), [])

    def test_each_fault_is_found(self):
        good = [package("a"), package("b", ["a"]), package("c", ["b"], publish=[])]
        self.assertEqual(release_check.faults("1.2.3", good, CHANGELOG), [])
        self.assertIn("is no version", release_check.faults("1.2", good, CHANGELOG)[0])
        self.assertIn("no heading", release_check.faults("1.2.3", good, "## [Unreleased]\n")[0])

        def changed(index, **changes):
            packages = copy.deepcopy(good)
            packages[index].update(changes)
            return release_check.faults("1.2.3", packages, CHANGELOG)

        self.assertEqual(changed(0, version="1.2.2"), ["a has version 1.2.2"])
        self.assertEqual(changed(0, publish=[]), ["b depends on a, which is not published"])
        self.assertEqual(changed(1, keywords=[]), ["b has no keywords"])
        self.assertEqual(changed(1, manifest_path="/nowhere/Cargo.toml"), ["b has no README.md"])
        loose = [{"name": "a", "req": "^1.2.3", "kind": None}]
        self.assertEqual(changed(1, dependencies=loose), ["b wants a ^1.2.3, not =1.2.3"])
        tests_only = [{"name": "c", "req": "*", "kind": "dev"}]
        self.assertEqual(changed(1, dependencies=tests_only), [])

    def test_the_last_release_is_another_version(self):
        with tempfile.TemporaryDirectory() as root:
            (Path(root) / "tests").mkdir()
            git = ["git", "-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main"]
            subprocess.run([*git, "init", "--quiet"], cwd=root, check=True)
            for version in ("1.0.0", "1.1.0"):
                (Path(root) / "tests" / "digests.txt").write_text(f"results of {version}\n")
                for words in (["add", "."], ["commit", "--quiet", "-m", version], ["tag", f"v{version}"]):
                    subprocess.run([*git, *words], cwd=root, check=True)
            self.assertEqual(release_check.released_digests("1.1.0", root), "results of 1.0.0\n")
            self.assertEqual(release_check.released_digests("1.2.0", root), "results of 1.1.0\n")

    def test_the_workflow_calls_what_is_there(self):
        text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
        self.assertIn('run: tools/release "${GITHUB_REF_NAME#v}"', text)
        for name in set(re.findall(r"(?:tools|tests|python|docs)/[\w./]+\w", text)):
            self.assertTrue((ROOT / name).exists(), name)
        self.assertRegex((ROOT / "python" / "requirements.txt").read_text(encoding="utf-8"), "(?m)^maturin==")

    def test_every_library_has_an_example(self):
        for one in release_check.packages():
            if one["publish"] == [] or one["name"] == "anabranch-cli":
                continue
            sources = [path.read_text(encoding="utf-8") for path in Path(one["manifest_path"]).parent.glob("src/**/*.rs")]
            self.assertTrue(any(re.search(r"(?m)^ *//[/!] ```(no_run)?$", text) for text in sources), one["name"])

    def test_another_digit_of_the_readme_is_found(self):
        with tempfile.TemporaryDirectory() as directory:
            page, binary = Path(directory, "README.md"), Path(directory, "anabranch")
            binary.write_text("#!/bin/sh\necho 'tcp  294'\necho '5 s of network time in 0.7 s, 3.1 million packet-hops'\n")
            binary.chmod(0o755)
            text = "```console sample\n$ anabranch compare\ntcp  294\n5 s of network time in ... s, ... million packet-hops\n```\n"
            page.write_text(text)
            self.assertEqual(release_check.other_figures(binary, [page]), [])
            page.write_text(text.replace("294", "295"))
            self.assertIn("-tcp  295\n+tcp  294", release_check.other_figures(binary, [page])[0])

    def test_the_debian_package_has_what_the_script_puts_together(self):
        """Each file that cargo-deb is told of is one that `tools/release` makes, and each unit's pages and program are there."""
        script = (ROOT / "tools" / "release").read_text(encoding="utf-8")
        manifest = tomllib.loads((ROOT / "crates" / "cli" / "Cargo.toml").read_text(encoding="utf-8"))
        assets = [asset[0] for asset in manifest["package"]["metadata"]["deb"]["assets"]]
        directories = {Path(asset).parent.name for asset in assets} - {"deb"}
        self.assertEqual(directories, {"man", "completions", "systemd"})
        for directory in directories:
            self.assertIn(f'"$work/binary/{directory}', script)
        for unit in ROOT.glob("packaging/systemd/anabranch-proxy*.service"):
            text = unit.read_text(encoding="utf-8")
            # systemd looks for a name without directories in /usr/local/bin and in /usr/bin.
            self.assertRegex(text, r"(?m)^ExecStart=anabranch proxy ")
        self.assertIn("packaging/systemd/*.socket", script)
        for unit in ROOT.glob("packaging/systemd/*.socket"):
            # A socket starts the service of its name, if it names no other.
            named = re.search(r"(?m)^Service=(.*)$", unit.read_text(encoding="utf-8"))
            service = named[1] if named else f"{unit.stem}.service"
            self.assertTrue((unit.parent / service).exists(), unit)

    def test_systemd_accepts_the_units(self):
        """`systemd-analyze verify` has no complaint about them, but for the key that systemd has since version 257."""
        if not shutil.which("systemd-analyze"):
            self.skipTest("there is no systemd-analyze (Debian: apt install systemd)")
        with tempfile.TemporaryDirectory() as place:
            for unit in ROOT.glob("packaging/systemd/*"):
                # The command is not installed on this machine.
                text = re.sub(r"(?m)^(Exec\w+=)\S+", r"\1/bin/true", unit.read_text(encoding="utf-8"))
                name = unit.name.replace("@.", "@lia.")
                (Path(place) / name).write_text(text, encoding="utf-8")
            units = sorted(path.name for path in Path(place).iterdir())
            self.assertEqual(len(units), 6)
            verify = ["systemd-analyze", "verify", "--man=no", *units]
            done = subprocess.run(verify, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            lines = [line for line in done.stdout.splitlines() if "Failed to parse socket protocol, ignoring: mptcp" not in line]
            self.assertEqual(lines, [])

    def test_other_numbers_need_another_version_of_results(self):
        before = "results 1\nweb table aa\n"
        self.assertEqual(release_check.changed_numbers(before, before), [])
        self.assertEqual(release_check.changed_numbers(before, "results 2\nweb table bb\n"), [])
        self.assertIn("RESULTS", release_check.changed_numbers(before, "results 1\nweb table bb\n")[0])


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        ITEMS.write_text(public_items(), encoding="utf-8")
    else:
        unittest.main()
