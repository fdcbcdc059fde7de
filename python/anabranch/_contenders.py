"""Contenders with schedulers or window rules in Python."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from anabranch import _anabranch, congestion, scheduler
from anabranch.congestion import WindowRule
from anabranch.exceptions import ScenarioError
from anabranch.scheduler import Scheduler

if TYPE_CHECKING:
    from anabranch._toml import Value

Contenders: TypeAlias = "Sequence[str | Mapping[str, Any] | Scheduler | type[Scheduler]]"

# The built-in ones in whose places those of Python are put.
_SCHEDULER = "min_rtt"
_CONGESTION = "newreno"
_REFERENCE = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)")


@dataclass(frozen=True)
class Own:
    """The parts of a contender that are in Python."""

    scheduler: Scheduler | type[Scheduler] | None = None
    congestion: WindowRule | type[WindowRule] | None = None

    def made(self, name: str) -> _anabranch.Contender:
        """Return the contender called ``name``."""
        return _anabranch.Contender(
            name,
            None if self.scheduler is None else scheduler.custom(self.scheduler),
            None if self.congestion is None else congestion.custom(self.congestion),
        )

    def origin(self) -> str:
        """Return where the code is, with a hash of it."""
        parts = (part for part in (self.scheduler, self.congestion) if part is not None)
        return ", ".join(f"{reference(part)} {_digest(part)}".rstrip() for part in parts)


def reference(part: object) -> str:
    """Return ``module:Class`` of an object or a class."""
    kind = part if isinstance(part, type) else type(part)
    return f"{kind.__module__}:{kind.__qualname__}"


def _digest(part: object) -> str:
    """Return a hash of the source and the state, by which a sweep that is continued notices other code."""
    kind = part if isinstance(part, type) else type(part)
    try:
        source = inspect.getsource(kind).encode()
    except (OSError, TypeError):
        # There is none for a class that was typed at a prompt.
        source = b""
    if not isinstance(part, type):
        try:
            source += pickle.dumps(vars(part))
        except Exception:
            source += repr(sorted(vars(part))).encode()
    return hashlib.sha256(source).hexdigest()[:16] if source else ""


def _imported(text: str) -> object:
    """Return the class that ``module:Class`` names; the text itself if it is none."""
    match = _REFERENCE.fullmatch(text)
    if match is None:
        return text
    try:
        found: object = getattr(importlib.import_module(match["module"]), match["name"])
    except (ImportError, AttributeError) as error:
        message = f"`{text}` is no class that can be imported: {error}"
        raise ScenarioError(message) from error
    if not (isinstance(found, type) and issubclass(found, (Scheduler, WindowRule))):
        message = f"`{text}` is neither a subclass of `anabranch.Scheduler` nor of `anabranch.WindowRule`"
        raise ScenarioError(message)
    return found


def _is(entry: object, kind: type) -> bool:
    return isinstance(entry, kind) or (isinstance(entry, type) and issubclass(entry, kind))


def _name(entry: Any) -> str:
    return str(entry.name or (entry if isinstance(entry, type) else type(entry)).__name__)


def _table(entry: Mapping[str, Any]) -> tuple[dict[str, Value], Own]:
    """Return the table of a contender for the file, and its parts in Python."""
    table = dict(entry)
    for key in ("scheduler", "congestion"):
        if isinstance(table.get(key), str):
            table[key] = _imported(table[key])
    own: dict[str, Any] = {}
    names: list[str] = []
    for key, kind, built_in in (("scheduler", Scheduler, _SCHEDULER), ("congestion", WindowRule, _CONGESTION)):
        part = table.get(key)
        if _is(part, kind):
            own[key], table[key] = part, built_in
            names.append(_name(part))
        elif key == "scheduler" and part is not None:
            names.append(str(part.get("name", "")) if isinstance(part, Mapping) else str(part))
    if own:
        table.setdefault("name", ", ".join(names))
    return table, Own(**own)


def read(schedulers: Contenders) -> tuple[list[Value], dict[str, Own]]:
    """Return the contenders for the file, and those with parts in Python by their names."""
    if isinstance(schedulers, str):
        schedulers = [name.strip() for name in schedulers.split(",")]
    if not isinstance(schedulers, Sequence):
        message = f"{schedulers!r} is no list of contenders"
        raise ScenarioError(message)
    entries: list[Value] = []
    own: dict[str, Own] = {}
    for given in schedulers:
        entry = _imported(given) if isinstance(given, str) else given
        if isinstance(entry, str):
            entries.append(entry)
            continue
        if _is(entry, Scheduler):
            entry = {"scheduler": entry}
        if not isinstance(entry, Mapping):
            message = f"{entry!r} is no contender; give a name, a mapping or a subclass of `anabranch.Scheduler`"
            if _is(entry, WindowRule):
                rule = reference(entry).rpartition(":")[2]
                message = f'a window rule needs a scheduler: {{"scheduler": "min_rtt", "congestion": {rule}}}'
            raise ScenarioError(message)
        table, parts = _table(entry)
        if parts != Own():
            own[str(table["name"])] = parts
        entries.append(table)
    return entries, own
