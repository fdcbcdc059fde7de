"""Values of Python as TOML, the language of scenarios and plans."""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import tomli_w

from anabranch.exceptions import ScenarioError


class OfNumPy(Protocol):
    """A number, a time or an array of NumPy."""

    def tolist(self) -> Any:
        """Return it as objects of Python."""


Value: TypeAlias = "str | int | float | bool | datetime.timedelta | OfNumPy | Sequence[Value] | Mapping[str, Value]"
"""A value of a scenario: a text with a unit such as ``"20 ms"``, a number, a time, a list or a mapping.

Numbers and arrays of NumPy, ranges, and times of NumPy and pandas are values, too.
"""

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
    if isinstance(value, bool):
        return value
    if isinstance(value, float):
        # One of NumPy is written otherwise.
        return float(value)
    # A time of NumPy is a number, too.
    if (span := _nanoseconds(value, where)) is not None:
        # All of a list have the same unit.
        return f"{span // 1_000_000}.{span % 1_000_000:06}".rstrip("0").rstrip(".") + " ms"
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        # The text of a number with fewer bits has the digits that its writer meant: 0.1, and not 0.10000000149011612.
        return float(str(value))
    if isinstance(value, Mapping):
        table = {}
        for key, item in value.items():
            if not isinstance(key, str):
                message = f"the key {key!r} in {where} is not a text"
                raise ScenarioError(message)
            table[str(plain(key, where, depth))] = plain(item, f"`{key}`", depth + 1)
        return table
    if isinstance(value, (list, tuple, range)):
        return [plain(item, where, depth + 1) for item in value]
    if not isinstance(value, type):
        # An array, a series of pandas, or a truth value of NumPy.
        if callable(to_list := getattr(value, "tolist", None)):
            # Times of nanoseconds would be plain numbers.
            array: Any = value
            is_time = getattr(getattr(array, "dtype", None), "kind", "") == "m"
            return plain(list(array) if is_time else to_list(), where, depth + 1)
        if callable(to_dict := getattr(value, "to_dict", None)):
            return plain(to_dict(), where, depth)
    message = f"a {type(value).__name__} in {where} is no value of a scenario; give a text, a number or a list"
    raise ScenarioError(message)


def _nanoseconds(value: Any, where: str) -> int | None:
    """Return the length of a time of the standard library, of NumPy or of pandas; None of anything else."""
    if type(value).__name__ == "timedelta64":
        if value != value or value.dtype.str[1:] == "m8":
            message = f"{value!r} in {where} is no time; give a number and a unit"
            raise ScenarioError(message)
        value = value.astype("timedelta64[ns]").astype("int64").item()
    elif isinstance(value, datetime.timedelta):
        # That of pandas has nanoseconds.
        exact = getattr(value, "value", None)
        micro = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
        value = exact if isinstance(exact, int) else 1000 * micro
    else:
        return None
    if value < 0:
        message = f"a time in {where} is negative"
        raise ScenarioError(message)
    return int(value)


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
