"""Paths, and networks of hosts, routers and links, as data of a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from anabranch._toml import Value

__all__ = ["Link", "Node", "Path", "Route"]


class _Entry:
    """An entry of a table of a scenario: its keys are those of the file, with ``_`` for ``-``."""

    _entry: dict[str, Value]

    def _fill(self, given: Mapping[str, Value | None], options: Mapping[str, Value]) -> None:
        own = {key: value for key, value in given.items() if value is not None}
        self._entry = {key.removesuffix("_"): value for key, value in {**own, **options}.items()}

    def to_dict(self) -> dict[str, Value]:
        """Return the entry as it is in a scenario."""
        return dict(self._entry)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.to_dict() == self.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self._entry.items())})"


class Path(_Entry):
    """A path between client and server, with the keys of ``[[path]]``.

    >>> Path("50 Mbit/s", "20 ms", loss="0.1%", name="wifi")
    Path(rate='50 Mbit/s', rtt='20 ms', loss='0.1%', name='wifi')
    """

    def __init__(self, rate: Value | None = None, rtt: Value | None = None, /, **options: Value) -> None:
        self._fill({"rate": rate, "rtt": rtt}, options)


class Node(_Entry):
    """A host or a router, with the keys of ``[[node]]``.

    >>> Node("r1", "router")
    Node(name='r1', kind='router')
    """

    def __init__(self, name: str, kind: str = "host", **options: Value) -> None:
        self._fill({"name": name, "kind": kind}, options)


class Link(_Entry):
    """A link between two nodes, with the keys of ``[[link]]``.

    >>> Link("a", "b", "100 Mbit/s", "5 ms", queue="50 packets")
    Link(from='a', to='b', rate='100 Mbit/s', delay='5 ms', queue='50 packets')
    """

    def __init__(
        self, from_: str, to: str, rate: Value | None = None, delay: Value | None = None, **options: Value
    ) -> None:
        self._fill({"from": from_, "to": to, "rate": rate, "delay": delay}, options)


class Route(_Entry):
    """A route between two hosts, with the keys of ``[[route]]``.

    >>> Route("a", "b", via=["r1", "r2"])
    Route(from='a', to='b', via=['r1', 'r2'])
    """

    def __init__(self, from_: str, to: str, **options: Value) -> None:
        self._fill({"from": from_, "to": to}, options)


@runtime_checkable
class Graph(Protocol):
    """A graph of networkx, or one with the same methods."""

    def is_directed(self) -> bool:
        """Return whether an edge has one direction."""

    @property
    def nodes(self) -> Nodes:
        """The nodes."""

    @property
    def edges(self) -> Edges:
        """The edges."""


class Nodes(Protocol):
    """The nodes of a graph."""

    def __call__(self, *, data: bool) -> Iterable[tuple[object, Mapping[str, Value]]]:
        """Return each node with its attributes."""


class Edges(Protocol):
    """The edges of a graph."""

    def __call__(self, *, data: bool) -> Iterable[tuple[object, object, Mapping[str, Value]]]:
        """Return each edge with its attributes."""


def from_graph(graph: Graph) -> dict[str, Value]:
    """Return the nodes and links of ``graph``, whose attributes are the keys of ``[[node]]`` and ``[[link]]``.

    An edge of a directed graph is one direction of a link.
    """
    one_way: dict[str, Value] = {"duplex": False} if graph.is_directed() else {}
    nodes: list[Value] = [{"name": str(name), **data} for name, data in graph.nodes(data=True)]
    links: list[Value] = [{"from": str(a), "to": str(b), **one_way, **data} for a, b, data in graph.edges(data=True)]
    return {"node": nodes, "link": links}
