"""The directory of a sweep: a local one, or a URL of fsspec such as ``s3://bucket/results``.

An object store has no files that grow. There the lines of the journal are objects of their own in ``units/``, one for
each unit of work, each written in one step by the process that holds the sweep. Its other files are those of the local
directory, and are replaced as a whole when the sweep ends or stops.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import tempfile
from typing import TYPE_CHECKING, Any

from anabranch.exceptions import SweepError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anabranch import _anabranch
    from anabranch.sweeping import Plan

__all__ = ["Local", "Remote", "opened"]

_UNITS = "units"
_JOURNAL = "journal.ndjson"
_HEADER = "header.json"


class Local:
    """A directory on this machine: the journal in it grows with each point."""

    def restore(self, sweep: _anabranch.Sweep) -> None:
        """Add the points of an earlier sweep."""

    def add(self, lines: list[str]) -> None:
        """Store the lines of a unit."""

    def save(self) -> None:
        """Store the other files."""


class Remote(Local):
    """A URL of fsspec, and a temporary directory with copies of its files."""

    def __init__(self, url: str, directory: str) -> None:
        try:
            import fsspec
        except ImportError as error:
            message = f"{url} needs fsspec; install `anabranch[remote]`"
            raise SweepError(message) from error
        self._url, self._directory = url, pathlib.Path(directory)
        try:
            self._files: Any
            self._files, self._root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            message = f"cannot use {url}: {error}"
            raise SweepError(message) from error
        with self._errors("read"):
            self._files.invalidate_cache()
            for path in self._list(self._root):
                name = path.rsplit("/", 1)[-1]
                # The journal is made again from its first line, which identifies the sweep, and the units.
                if name not in {_UNITS, _JOURNAL}:
                    (self._directory / name).write_bytes(self._files.cat_file(path))
            self._stored = self._list(f"{self._root}/{_UNITS}")
            self._header: bytes | None = None
            if any(path.endswith(f"/{_HEADER}") for path in self._stored):
                self._header = self._files.cat_file(f"{self._root}/{_UNITS}/{_HEADER}")
                (self._directory / _JOURNAL).write_bytes(self._header)

    @contextlib.contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            message = f"cannot {what} {self._url}: {error or type(error).__name__}"
            raise SweepError(message) from error
        except Exception as error:
            # Clients of stores have exceptions of their own.
            if type(error).__module__.split(".")[0] not in {"botocore", "aiohttp", "gcsfs", "azure", "google"}:
                raise
            message = f"cannot {what} {self._url}: {error}"
            raise SweepError(message) from error

    def _list(self, path: str) -> list[str]:
        try:
            return sorted(str(found).rstrip("/") for found in self._files.ls(path, detail=False))
        except FileNotFoundError:
            return []

    def restore(self, sweep: _anabranch.Sweep) -> None:
        """Add the points of the stored units."""
        with (self._directory / _JOURNAL).open("rb") as journal:
            header = journal.readline()
        if header != self._header:
            if any(path.endswith(".ndjson") for path in self._stored):
                message = f"{self._url} has results that do not belong to this sweep"
                message += "; choose another directory, or remove this one"
                raise SweepError(message)
            self._put(f"{_UNITS}/{_HEADER}", header)
        with self._errors("read"):
            for path in self._stored:
                if path.endswith(".ndjson"):
                    for line in self._files.cat_file(path).decode().splitlines():
                        sweep.add(line)

    def add(self, lines: list[str]) -> None:
        """Store the lines of a unit as one object, whose name follows from them."""
        data = "".join(f"{line}\n" for line in lines).encode()
        name = f"{_UNITS}/{hashlib.sha256(data).hexdigest()[:32]}.ndjson"
        self._put(name, data)

    def _put(self, name: str, data: bytes) -> None:
        with self._errors("write to"):
            path = f"{self._root}/{name}"
            if "file" in getattr(self._files, "protocol", ()):
                # A directory of this machine: a file has its name once it is whole.
                self._files.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
                self._files.pipe_file(f"{path}.partial", data)
                self._files.mv(f"{path}.partial", path)
            else:
                self._files.pipe_file(path, data)

    def save(self) -> None:
        """Store all files but the journal, ``run.json`` last."""
        files = [file for file in self._directory.iterdir() if file.is_file() and file.name != _JOURNAL]
        for file in sorted(files, key=lambda file: (file.name == "run.json", file.name)):
            if not file.name.startswith("."):
                self._put(file.name, file.read_bytes())

    def run(
        self, plan: Plan, sweep: _anabranch.Sweep, jobs: int, progress: Callable[[int, int], object] | None
    ) -> None:
        """Simulate the missing points on threads, in units."""
        from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

        missing = sweep.missing
        done, total = len(plan) - len(missing), len(plan)
        threads = jobs or os.cpu_count() or 1
        size = max(1, min(16, len(missing) // (4 * threads)))
        units = [missing[first : first + size] for first in range(0, len(missing), size)][::-1]
        with ThreadPoolExecutor(threads) as pool:
            running: set[Future[list[str]]] = set()
            try:
                while units or running:
                    while units and len(running) < threads:
                        running.add(pool.submit(plan.simulate, units.pop()))
                    ended, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in ended:
                        lines = future.result()
                        for line in lines:
                            sweep.add(line)
                        self.add(lines)
                        done += len(lines)
                    if progress is not None:
                        progress(done, total)
            finally:
                for future in running:
                    future.cancel()


@contextlib.contextmanager
def opened(output: str | os.PathLike[str] | None) -> Iterator[tuple[str, Local]]:
    """Return the local directory of a sweep, and the store behind it."""
    text = None if output is None else os.fspath(output)
    if text is not None and "://" not in text:
        yield text, Local()
        return
    with tempfile.TemporaryDirectory(prefix="anabranch-") as directory:
        yield directory, Local() if text is None else Remote(text, directory)
