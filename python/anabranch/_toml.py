"""Values of Python as TOML, the language of scenarios and plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import tomli_w

from anabranch.exceptions import ScenarioError

Value: TypeAlias = "str | int | float | bool | Sequence[Value] | Mapping[str, Value]"
"""A value of a scenario: a text with a unit such as ``"20 ms"``, a number, a list or a mapping."""

_DEPTH = 32


def plain(value: object, where: str = "the scenario", depth: int = 0) -> object:
    """Return a copy of ``value`` that consists of the types of TOML."""
    if depth > _DEPTH:
        message = f"{where} is nested more than {_DEPTH} deep"
        raise ScenarioError(message)
    if isinstance(value, str):
        if any("\ud800" <= char <= "\udfff" for char in value):
            message = f"{value!r} in {where} has half of a surrogate pair, which is no character"
            raise ScenarioError(message)
        return str(value)
    if isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Mapping):
        table = {}
        for key, item in value.items():
            if not isinstance(key, str):
                message = f"the key {key!r} in {where} is not a text"
                raise ScenarioError(message)
            table[str(plain(key, where, depth))] = plain(item, f"`{key}`", depth + 1)
        return table
    if isinstance(value, (list, tuple)):
        return [plain(item, where, depth + 1) for item in value]
    to_dict = getattr(value, "to_dict", None)
    if callable(to_dict) and not isinstance(value, type):
        return plain(to_dict(), where, depth)
    message = f"a {type(value).__name__} in {where} is no value of a scenario; give a text, a number or a list"
    raise ScenarioError(message)


def document(table: Mapping[str, object]) -> str:
    """Return ``table`` as a document."""
    plain_table = plain(table)
    assert isinstance(plain_table, dict)
    return tomli_w.dumps(plain_table)


def assignment(key: str, value: object) -> str:
    """Return ``KEY=VALUE`` on one line."""
    return f"{key}={inline(plain(value, f'`{key}`'))}"


def inline(value: object) -> str:
    """Return a value on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_string(key)} = {inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(inline, value)) + "]"
    if isinstance(value, str):
        return _string(value)
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")


def _string(text: str) -> str:
    return tomli_w.dumps({"x": text}).removeprefix("x = ").rstrip("\n")
