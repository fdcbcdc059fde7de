"""Scenarios: paths, traffic and contenders."""

from __future__ import annotations

import html
import os
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from anabranch import _anabranch, _contenders, _toml, network
from anabranch.congestion import WindowRule
from anabranch.exceptions import ScenarioError

if TYPE_CHECKING:
    from anabranch._toml import Value

__all__ = ["Scenario", "builtin_scenarios"]

Contenders: TypeAlias = _contenders.Contenders
Source: TypeAlias = "str | os.PathLike[str] | Mapping[str, Value] | Iterable[network.Path] | network.Graph"


class Scenario:
    """A valid scenario; it does not change.

    Its keys, units and errors are those of scenario files (docs/scenario.md). It is made from

    * the name of a built-in scenario, or of a file: ``Scenario("wifi-lte")``
    * paths: ``Scenario([Path("50 Mbit/s", "20 ms"), Path("10 Mbit/s", "60 ms", loss="0.1%")], size="3 MB")``
    * a mapping with the keys of a file, or a graph of networkx whose attributes are those of nodes and links
    * a text: :meth:`from_toml`

    ``size``, ``flows`` and every key of a file may be given as a keyword. ``schedulers`` may have schedulers in Python
    (:class:`Scheduler`), also by the name of their class (``"module:Class"``), and mappings with a ``congestion`` in
    Python (:class:`WindowRule`).

    >>> from anabranch import Path, Scenario
    >>> scenario = Scenario([Path("50 Mbit/s", "20 ms"), Path("10 Mbit/s", "60 ms")], size="300 KB", runs=5)
    >>> scenario.paths, scenario.contenders, scenario.runs
    (['1', '2'], ['tcp', 'linux', 'min_rtt', 'dmptcp', 'anabranch'], 5)
    """

    def __init__(
        self,
        source: Source,
        /,
        *,
        schedulers: Contenders | None = None,
        settings: Mapping[str, Value] | None = None,
        **keys: Value,
    ) -> None:
        self._origin = _origin(source)
        self._changes: tuple[tuple[str, str], ...] = ()
        self._custom: dict[str, _contenders.Own] = {}
        self._change(schedulers, settings, keys)

    @classmethod
    def from_toml(cls, text: str, *, name: str = "scenario", directory: str | os.PathLike[str] = ".") -> Scenario:
        """Return the scenario ``text``, called ``name`` in errors; the files it names are in ``directory``.

        >>> Scenario.from_toml("path = [{ rate = '1 Mbit/s' }]")
        Traceback (most recent call last):
        anabranch.exceptions.ScenarioError: a path has no `rtt`
         --> scenario:1:9
          |
        1 | path = [{ rate = '1 Mbit/s' }]
          |         ^^^^^^^^^^^^^^^^^^^^^
          = help: add for example `rtt = "20 ms"`
        """
        scenario = cls.__new__(cls)
        _toml.plain(text)
        scenario._origin = ("parse", name, text, os.fspath(directory))
        scenario._changes = ()
        scenario._custom = {}
        scenario._read()
        return scenario

    def set(
        self,
        settings: Mapping[str, Value] | None = None,
        /,
        *,
        schedulers: Contenders | None = None,
        **keys: Value,
    ) -> Scenario:
        """Return the scenario with other values.

        Keys with dots, such as ``path.wifi.loss``, are given in a mapping, as for ``--set``: ``path.loss`` is that of
        every path, and the knobs of a connection have their own names.

        >>> Scenario("wifi-lte").set({"path.lte.rate": "5 Mbit/s", "rto.min": "300 ms"}, runs=3).runs
        3
        """
        scenario = type(self).__new__(type(self))
        scenario._origin = self._origin
        scenario._changes = self._changes
        scenario._custom = dict(self._custom)
        scenario._change(schedulers, settings, keys)
        return scenario

    def _change(
        self, schedulers: Contenders | None, settings: Mapping[str, Value] | None, keys: Mapping[str, Value]
    ) -> None:
        changes = list(self._changes)
        given = {key.replace("_", "-"): value for key, value in keys.items()}
        if "size" in given:
            changes.append(("size", str(_toml.plain(given.pop("size"), "`size`"))))
        if "flows" in given:
            given["traffic.flows"] = given.pop("flows")
        if schedulers is not None:
            entries, self._custom = _contenders.read(schedulers)
            changes.append(("set", _toml.assignment("schedulers", entries)))
        for key, value in {**(settings or {}), **given}.items():
            rule: object = value
            if isinstance(rule, WindowRule) or (isinstance(rule, type) and issubclass(rule, WindowRule)):
                message = "a window rule in Python belongs to a contender"
                help_ = f'write `schedulers=[{{"scheduler": "min_rtt", "{key}": ...}}]`'
                text = f"{message}; {help_}"
                raise ScenarioError(text, message, help=help_)
            if isinstance(value, Mapping):
                changes.extend(("set", _toml.assignment(f"{key}.{inner}", v)) for inner, v in value.items())
            else:
                changes.append(("set", _toml.assignment(key, value)))
        self._changes = tuple(changes)
        self._read()

    def _read(self) -> None:
        kind, *arguments = self._origin
        document = _anabranch.Document.open(*arguments) if kind == "open" else _anabranch.Document.parse(*arguments)
        for kind, text in self._changes:
            document = document.with_size(text) if kind == "size" else document.with_settings([text])
        self._document = document
        self._contenders = [own.made(name) for name, own in self._custom.items()]
        self._summary = document.summary(self._contenders)
        for warning in self._summary.warnings:
            warnings.warn(warning, stacklevel=4)

    def __getstate__(self) -> dict[str, object]:
        return {"_origin": self._origin, "_changes": self._changes, "_custom": self._custom}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._read()

    @property
    def name(self) -> str:
        """The name."""
        return self._summary.name

    @property
    def description(self) -> str:
        """The purpose, in a sentence or two."""
        return self._summary.description

    @property
    def runs(self) -> int:
        """The number of runs of each contender in each condition."""
        return self._summary.runs

    @property
    def seed(self) -> int:
        """The seed."""
        return self._summary.seed

    @property
    def hash(self) -> str:
        """The SHA-256 of the canonical form, which identifies the experiment."""
        return self._summary.hash

    @property
    def canonical(self) -> str:
        """The canonical form."""
        return self._summary.canonical

    @property
    def contenders(self) -> list[str]:
        """The names of the contenders."""
        return self._summary.contenders

    @property
    def conditions(self) -> list[str]:
        """The names of the conditions; one empty name if there are none."""
        return self._summary.conditions

    @property
    def paths(self) -> list[str]:
        """The names of the paths of the first condition."""
        return self._summary.paths

    @property
    def text(self) -> str | None:
        """The text of the file without later changes; none for a file on disk."""
        kind, first, *rest = self._origin
        return rest[0] if kind == "parse" else dict(builtin_scenarios()).get(first)

    def _rows(self) -> list[tuple[str, str]]:
        summary = self._summary
        flows = f"{summary.flows} flow{'s' if summary.flows != 1 else ''} in each run, {summary.direction}"
        rows = [
            ("paths", ", ".join(summary.paths)),
            ("traffic", flows + (", bulk" if summary.bulk else "")),
            ("contenders", ", ".join(summary.contenders)),
            ("conditions", ", ".join(filter(None, summary.conditions))),
            ("profile", summary.profile),
            ("runs, seed", f"{summary.runs}, {summary.seed}"),
            ("changes", "; ".join(text for _, text in self._changes)),
            ("hash", summary.hash[:16]),
        ]
        return [(key, value) for key, value in rows if value]

    def __repr__(self) -> str:
        lines = [f"{key + ':':<12} {value}" for key, value in self._rows()]
        return "\n".join([f"Scenario {self.name}".rstrip(), *(f"  {line}" for line in lines)])

    def _repr_html_(self) -> str:
        cell = html.escape
        rows = "".join(
            f"<tr><th style='text-align:left'>{cell(key)}</th><td style='text-align:left'>{cell(value)}</td></tr>"
            for key, value in self._rows()
        )
        title = cell(self.name or "scenario")
        about = f"<p>{cell(self.description)}</p>" if self.description else ""
        return f"<div><b>{title}</b>{about}<table>{rows}</table></div>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scenario) and other.hash == self.hash and other.runs == self.runs

    def __hash__(self) -> int:
        return hash((self.hash, self.runs))


def of(
    source: Source | Scenario,
    schedulers: Contenders | None = None,
    settings: Mapping[str, Value] | None = None,
    keys: Mapping[str, Value] | None = None,
) -> Scenario:
    """Return the scenario that a function was given, with the changes that it was given."""
    keys = keys or {}
    if not isinstance(source, Scenario):
        return Scenario(source, schedulers=schedulers, settings=settings, **keys)
    if schedulers is None and not settings and not keys:
        return source
    return source.set(settings, schedulers=schedulers, **keys)


def builtin_scenarios() -> list[tuple[str, str]]:
    """Return the names and the texts of the built-in scenarios.

    >>> builtin_scenarios()[0][0]
    'phone'
    """
    return _anabranch.builtin_scenarios()


def _origin(source: Source) -> tuple[str, ...]:
    if isinstance(source, (str, os.PathLike)):
        return ("open", os.fspath(source))
    if isinstance(source, Mapping):
        table = source
    elif isinstance(source, network.Graph):
        table = network.from_graph(source)
    elif isinstance(source, Iterable):
        paths = list(source)
        for path in paths:
            if not isinstance(path, (network.Path, Mapping)):
                message = f"a {type(path).__name__} is no path; write for example `Path('50 Mbit/s', '20 ms')`"
                raise ScenarioError(message)
        table = {"path": [path.to_dict() if isinstance(path, network.Path) else path for path in paths]}
    else:
        message = f"a {type(source).__name__} is no scenario; give a name, paths or a mapping"
        raise ScenarioError(message)
    return ("parse", "scenario", _toml.document(table), ".")
