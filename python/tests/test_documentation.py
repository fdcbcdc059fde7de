"""The code of the guide, of the README and of the notebooks runs."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import nbclient
import nbformat
import pytest

import anabranch
from tests.skipping import skipped

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Items that are the result of a function, a field or a method.
MADE = {
    "Advice": "advise",
    "CaptureSimulation": "simulate",
    "Comparison": "compare",
    "Event": "on_event",
    "Explanation": "explain",
    "Inspection": "inspect",
    "ModelRound": "model",
    "PathChoice": "select",
    "Reproduction": "reproduce",
    "Run": "run",
    "Sweep": "sweep",
    "Table": "samples",
}

mpl.use("Agg")


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_code_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert blocks
    names: dict[str, Any] = {"__name__": "page"}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{page}, block {number}", "exec"), names)
    plt.close("all")


def test_every_public_item_is_documented_and_has_an_example() -> None:
    package = ROOT / "python" / "anabranch"
    pages = [ROOT / "docs" / "python.md", *NOTEBOOKS]
    code = "".join(page.read_text(encoding="utf-8") for page in pages)
    for file in package.glob("*.py*"):
        lines = file.read_text(encoding="utf-8").splitlines()
        code += "".join(f"{line}\n" for line in lines if line.lstrip().startswith((">>> ", "... ")))
    for name in anabranch.__all__:
        item = getattr(anabranch, name)
        if name.startswith("__") or inspect.ismodule(item):
            continue
        assert inspect.getdoc(item), f"{name} has no documentation"
        made = item.__name__ if inspect.isfunction(item) else MADE.get(name, name)
        assert re.search(rf"\b{made}\b", code), f"{name} has no example"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    for capture in path.parent.glob("*.pcap"):
        shutil.copy(capture, tmp_path)
    execute(path, tmp_path)


@pytest.mark.parametrize("direction", ["upload", "download"])
@pytest.mark.filterwarnings("ignore")
def test_the_notebook_of_captures_runs_with_another_capture(direction: str, tmp_path: Path) -> None:
    paths = ["--path", "20Mbit/s,20ms", "--path", "10Mbit/s,40ms,loss=0.5%"]
    traffic = ["--size", "1MB", "--set", f"traffic.direction={direction}", "--schedulers", "linux"]
    words = ["run", *paths, *traffic, "--pcap", "made.pcapng", "--pcap-at", "sender", "-q", "-o", "out.txt"]
    subprocess.run([sys.executable, "-m", "anabranch", *words], cwd=tmp_path, check=True)
    # The notebook knows the capture by this name.
    (tmp_path / "made.pcapng").rename(tmp_path / "two-paths.pcap")
    execute(ROOT / "examples" / "notebooks" / "your-own-capture.ipynb", tmp_path)


def execute(path: Path, tmp_path: Path) -> None:
    """Run a notebook in a directory."""
    if "tshark" in path.read_text(encoding="utf-8") and shutil.which("tshark") is None:
        skipped("there is no tshark (Debian: apt install tshark)")
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs before a commit"
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    figures = [
        output for cell in notebook.cells for output in cell.get("outputs", []) if "image/png" in output.get("data", {})
    ]
    assert figures
