"""Each published crate compiles from its package, without the files beside it in the repository.

The packages are made as for the registry, unpacked, and checked together with the options and the versions of the workspace, so that the
crates of others, which `cargo clippy` has just checked, are not checked again. `tools/release` compiles them in full.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import release_check  # noqa: E402


def cargo(*words, directory=ROOT):
    done = subprocess.run(["cargo", *words, "--quiet", "--offline"], cwd=directory, env=os.environ | {"CARGO_TARGET_DIR": str(TARGET)}, check=False)
    if done.returncode:
        sys.exit(f"FAILED: cargo {' '.join(words)}")


def manifest(names):
    """Returns the manifest of a workspace of unpacked packages, each in place of the registry's, with the profiles of the repository."""
    profiles = (ROOT / "Cargo.toml").read_text()
    profiles = profiles[profiles.index("[profile.") :]
    members = "".join(f'    "{name}",\n' for name in names)
    patches = "".join(f'{name} = {{ path = "{name}" }}\n' for name in names)
    # Options of a crate that is not published would be a warning.
    options = "\n".join(line for line in profiles.splitlines() if not (found := re.match(r"(anabranch-[\w-]+) = ", line)) or found[1] in names)
    return f'[workspace]\nresolver = "3"\nmembers = [\n{members}]\n\n[patch.crates-io]\n{patches}\n{options}\n'


def new(member, directory):
    # Cargo tells by its time whether a file has changed, and all packages have one time.
    return tarfile.data_filter(member, directory).replace(mtime=time.time())


def main():
    packages = release_check.packages()
    names = sorted(one["name"] for one in packages if one["publish"] != [])
    version = {one["name"]: one["version"] for one in packages}
    without = [word for one in packages if one["publish"] == [] for word in ("--exclude", one["name"])]
    made = TARGET / "package"
    for old in made.glob("*.crate"):
        old.unlink()
    cargo("package", "--no-verify", "--allow-dirty", "--locked", "--workspace", *without)
    unpacked = TARGET / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    unpacked.mkdir(parents=True)
    for name in names:
        with tarfile.open(made / f"{name}-{version[name]}.crate") as archive:
            archive.extractall(unpacked, filter=new)
        (unpacked / f"{name}-{version[name]}").rename(unpacked / name)
    (unpacked / "Cargo.toml").write_text(manifest(names))
    shutil.copy(ROOT / "Cargo.lock", unpacked)
    cargo("check", "--workspace", directory=unpacked)
    print(f"{len(names)} crates compile from their packages")


TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()

if __name__ == "__main__":
    main()
