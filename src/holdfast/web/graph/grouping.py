"""Grouping of large graphs: nodes of one kind in one layer are merged until few enough are left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from .ranks import Pair, ranks_of

FAN: Final = 16
"""Up to this many nodes of one kind in a layer are drawn individually."""
MOST: Final = 300
"""The maximum number of nodes in a drawing."""
_BANDS: Final = (100, 40, 12)
"""If there are too many layers, neighbouring ones are merged into this many."""

_Key: TypeAlias = Callable[["Item"], Hashable]


@dataclass(frozen=True, slots=True)
class Item:
    """An item to draw; items of the same kind may share a node."""

    id: str
    kind: str


@dataclass(frozen=True, slots=True)
class Node:
    """One item, or all of a kind in a layer. `kind` is None if it has several kinds."""

    key: str
    kind: str | None
    rank: int
    items: tuple[str, ...]

    @property
    def is_group(self) -> bool:
        return len(self.items) > 1


@dataclass(frozen=True, slots=True)
class Structure:
    """The nodes and edges to draw. Edges connect node keys, and lead to later layers."""

    nodes: tuple[Node, ...]
    edges: tuple[Pair, ...]
    node_of: dict[str, str]
    """The key of each item's node."""


def structure_of(items: Sequence[Item], edges: Iterable[Pair], *, fan: int = FAN, most: int = MOST) -> Structure:
    """Return the nodes of a drawing, at most `most` of them."""
    pairs = list(edges)
    ranks = ranks_of([item.id for item in items], pairs)
    nodes = _nodes(items, ranks, fan, most)
    node_of = {id: node.key for node in nodes for id in node.items}
    rank = {node.key: node.rank for node in nodes}
    joined = dict.fromkeys((node_of[a], node_of[b]) for a, b in pairs if a in node_of and b in node_of)
    return Structure(tuple(nodes), tuple((a, b) for a, b in joined if rank[a] < rank[b]), node_of)


def _nodes(items: Sequence[Item], ranks: dict[str, int], fan: int, most: int) -> list[Node]:
    """Return the finest grouping that leaves few enough nodes."""
    layers = max(ranks.values(), default=0) + 1
    by_layer: _Key = lambda item: (item.kind, ranks[item.id])  # noqa: E731
    sizes = Counter(by_layer(item) for item in items)
    ways: list[tuple[_Key, int]] = [
        (lambda item: by_layer(item) if sizes[by_layer(item)] > fan else item.id, layers),
        (by_layer, layers),
        *((lambda item, n=n: (item.kind, ranks[item.id] * n // layers), n) for n in _BANDS if n < layers),
        *((lambda item, n=n: ranks[item.id] * n // layers, n) for n in (*_BANDS, 1) if n <= layers),
    ]
    for key, bands in ways:
        if len({key(item) for item in items}) <= most:
            return _joined(items, key, {id: rank * bands // layers for id, rank in ranks.items()})
    raise AssertionError("one band is one node")


def _joined(items: Sequence[Item], key: _Key, bands: dict[str, int]) -> list[Node]:
    found: dict[Hashable, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return [_node(members, bands[members[0].id]) for members in found.values()]


def _node(members: list[Item], band: int) -> Node:
    kinds = {item.kind for item in members}
    kind = members[0].kind if len(kinds) == 1 else None
    name = members[0].id if len(members) == 1 else f"{band}:{kind or ''}"
    return Node(name, kind, band, tuple(item.id for item in members))
