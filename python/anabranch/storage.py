"""The directory of a sweep: a local one, or a URL of fsspec such as ``s3://bucket/results``.

Only the sweep's own files are read. An object store has no files that grow. There the lines of the journal are objects
of their own in ``units/``, one for each unit of work, each written in one step by the process that holds the sweep. The
name of an object is a digest of its lines, and each line has the hash of its scenario: an object that was damaged is
named, and its points are simulated again. The other files are copies of the local directory's, and are replaced
as a whole when the sweep ends or stops.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import tempfile
import warnings
from typing import TYPE_CHECKING, Any

from anabranch.exceptions import SweepError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anabranch import _anabranch
    from anabranch.sweeping import Plan

__all__ = ["Local", "Remote", "opened"]

_UNITS = "units"
_JOURNAL = "journal.ndjson"
_PLAN = "plan.toml"
_STATE = "run.json"
_RESULTS = "results."
_HEADER = "header.json"


def _is_own(name: str) -> bool:
    """Whether a sweep has a file of this name."""
    return name in {_UNITS, _JOURNAL, _PLAN, _STATE} or name.startswith((_RESULTS, "."))


def _unit(data: bytes) -> str:
    """Return the name of an object with the lines ``data``."""
    return f"{_UNITS}/{hashlib.sha256(data).hexdigest()[:32]}.ndjson"


def _difference(stored: bytes | None, own: bytes) -> str:
    """Return how the header of a stored sweep differs from this one's."""
    try:
        found, wanted = json.loads(stored or b""), json.loads(own)
        same = all(found[key] == wanted[key] for key in ("plan", "points"))
        return f"anabranch {_build(found)} wrote them, and this is {_build(wanted)}" if same else _OTHER
    except (ValueError, LookupError, TypeError):
        return f"{_UNITS}/{_HEADER} is missing or damaged"


_OTHER = "they were made with another plan"


def _build(header: dict[str, Any]) -> str:
    commit = header["commit"]
    return f"{header['version']} ({commit})" if commit else str(header["version"])


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
            names = [path.rsplit("/", 1)[-1] for path in self._list(self._root)]
            self._stored = self._list(f"{self._root}/{_UNITS}")
            self._header: bytes | None = None
            if any(path.endswith(f"/{_HEADER}") for path in self._stored):
                # The journal is made again from its first line, which identifies the sweep, and the units.
                self._header = self._files.cat_file(f"{self._root}/{_UNITS}/{_HEADER}")
            elif other := next((name for name in names if not _is_own(name)), None):
                message = f"{url} holds no sweep, but for example {other}; choose another directory"
                raise SweepError(message)
            if _PLAN in names:
                (self._directory / _PLAN).write_bytes(self._files.cat_file(f"{self._root}/{_PLAN}"))

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
        units = [path for path in self._stored if path.endswith(".ndjson")]
        with (self._directory / _JOURNAL).open("rb") as journal:
            header = journal.readline()
        if self._header != header:
            if units:
                message = (
                    f"{self._url} has results that do not belong to this sweep: {_difference(self._header, header)}"
                )
                message += "; choose another directory, or remove this one"
                raise SweepError(message)
            self._put(f"{_UNITS}/{_HEADER}", header)
        for path in units:
            with self._errors("read"):
                data = self._files.cat_file(path)
            try:
                if not path.endswith(f"/{_unit(data)}"):
                    message = "its contents do not have the digest in its name"
                    raise ValueError(message)
                for line in data.decode().splitlines():
                    sweep.add(line, check=True)
            except (ValueError, IndexError) as error:
                self._put_aside(path, str(error))

    def _put_aside(self, path: str, why: str) -> None:
        """Report a damaged object, and rename it, so that it is reported once and nothing is lost."""
        text = f"{self._url}: {_UNITS}/{path.rsplit('/', 1)[-1]} is damaged, so its points are simulated again: {why}"
        warnings.warn(text, stacklevel=4)
        with self._errors("write to"):
            self._files.mv(path, f"{path}.damaged")

    def add(self, lines: list[str]) -> None:
        """Store the lines of a unit as one object, whose name follows from them."""
        data = "".join(f"{line}\n" for line in lines).encode()
        self._put(_unit(data), data)

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
