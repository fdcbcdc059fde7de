"""Results that can be pickled, such as by Dask, by a cache or by another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

__all__ = ["Kept"]


class _Stored:
    """The values of an object of the extension module."""

    def __init__(self, inner: Any, values: tuple[str, ...], answers: tuple[str, ...]) -> None:
        self._values = {name: getattr(inner, name) for name in values}
        self._answers = {name: getattr(inner, name)() for name in answers}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._answers:
            answer: Callable[[], Any] = lambda: self._answers[name]  # noqa: E731
            return answer
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None


class Kept:
    """A result around an object of the extension module, which cannot be pickled itself."""

    _values: ClassVar[tuple[str, ...]] = ()
    """The attributes of the object."""
    _answers: ClassVar[tuple[str, ...]] = ()
    """Its methods without arguments."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inner": _Stored(self.__dict__["_inner"], self._values, self._answers)}
