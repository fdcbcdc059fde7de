#!/usr/bin/env python3
"""Whether the repository is ready for a version.

    tools/release_check.py VERSION             says what is missing, and fails
    tools/release_check.py --figures BINARY    whether the README and the pages show the figures of this binary
    tools/release_check.py --unpublished       the packages that are not published

The numbers have not changed since the last release, or they have another version. All crates have the version, the changelog has a heading with it and a date, each crate that is published has a README, a
description and keywords, and depends only on crates that are published.
"""

import difflib
import json
import re
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def packages():
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)["packages"]


def faults(version, all_packages, changelog):
    """Returns sentences, one for each thing that is missing."""
    found = []
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        return [f"{version!r} is no version such as 1.2.3"]
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d{{2}}-\d{{2}}$", changelog, re.MULTILINE):
        found.append(f"CHANGELOG.md has no heading `## [{version}] - YEAR-MONTH-DAY`")
    published = {package["name"] for package in all_packages if package["publish"] != []}
    ours = {package["name"] for package in all_packages}
    for package in all_packages:
        name = package["name"]
        if package["version"] != version:
            found.append(f"{name} has version {package['version']}")
        if name not in published:
            continue
        directory = Path(package["manifest_path"]).parent
        if not (directory / "README.md").is_file():
            found.append(f"{name} has no README.md")
        found += [f"{name} has no {key}" for key in ("description", "license", "keywords", "categories") if not package[key]]
        for dependency in package["dependencies"]:
            if dependency["name"] not in ours or dependency["kind"] == "dev":
                continue
            if dependency["name"] not in published:
                found.append(f"{name} depends on {dependency['name']}, which is not published")
            elif dependency["req"] != f"={version}":
                found.append(f"{name} wants {dependency['name']} {dependency['req']}, not ={version}")
    return found


def changed_numbers(before, now):
    """Returns the faults of the digests of results (tests/digests.txt), compared with the last release."""
    versions = [text.splitlines()[0] for text in (before, now)]
    if before != now and versions[0] == versions[1]:
        return ["results differ from the last release, and `RESULTS` of crates/lab/src/lib.rs is the same"]
    return []


def released_digests(version, root=ROOT):
    """The digests of the release before `version`, by its tag; none before the first. The workflow runs at the tag of `version`."""
    git = lambda *words: subprocess.run(["git", *words], cwd=root, capture_output=True, check=False, text=True).stdout
    tag = git("describe", "--tags", "--abbrev=0", "--match", "v*", "--exclude", f"v{version}").strip()
    return git("show", f"{tag}:tests/digests.txt") if tag else None


def other_figures(binary, pages=None):
    """Returns the faults of the blocks marked `sample`, in every digit: `./test` compares only the rows of their tables."""
    sys.path.insert(0, str(ROOT / "tests"))
    import test_documented_commands as documented

    documented.BINARY = binary
    found = []
    for page in pages or documented.PAGES:
        sandbox = documented.Sandbox()
        sandbox.prepare(page)
        for block in documented.blocks(page):
            if block.language != "console" or "sample" not in block.words:
                continue
            for command, shown in block.commands():
                printed = [documented.CLOCK.sub(r"\1...\2...\3", line) for line in sandbox.run(command)[1]]
                lines = difflib.unified_diff("\n".join(shown).strip().split("\n"), "\n".join(printed).strip().split("\n"), "shown", "printed", "", "", 0, "")
                difference = "\n".join(lines)
                if difference:
                    found.append(f"{page}:{block.line}: $ {command}\n{difference}")
        sandbox.close()
    return found


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--figures":
        found = other_figures(Path(sys.argv[2]).resolve())
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        if used.ru_stime > 0.1 * used.ru_utime:
            # The allocator of musl: 20 % (crates/cli/src/bin/anabranch.rs).
            sys.exit(f"Simulations took {used.ru_stime:.1f} s in the kernel and {used.ru_utime:.1f} s outside of it, and need next to nothing of it")
        if found:
            sys.exit("Pages show other figures (ANABRANCH=BINARY tests/test_documented_commands.py --update writes them):\n" + "\n".join(found))
        print("the figures are of this version")
        return
    if sys.argv[1:] == ["--unpublished"]:
        print("\n".join(package["name"] for package in packages() if package["publish"] == []))
        return
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = faults(sys.argv[1], packages(), (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    before = released_digests(sys.argv[1])
    if before:
        found += changed_numbers(before, (ROOT / "tests" / "digests.txt").read_text(encoding="utf-8"))
    if found:
        sys.exit("Not ready:\n" + "\n".join(f"* {fault}" for fault in found))
    print("ready")


if __name__ == "__main__":
    main()
