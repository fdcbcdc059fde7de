"""The one way in which a test of the package is left out; ``./test`` counts and names what was."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest


def skipped(why: str) -> NoReturn:
    """Leave out the test that runs. In CI it fails, where nobody would see that it was left out."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "a test").split(" ")[0]
    if os.environ.get("CI"):
        pytest.fail(f"{test} cannot run, and this is CI: {why}")
    if file := os.environ.get("ANABRANCH_SKIPS"):
        with Path(file).open("a", encoding="utf-8") as skips:
            skips.write(f"{test}: {why}\n")
    pytest.skip(why)
