"""Positions for the nodes of a layered graph and paths for its edges, from left to right.

An edge over several layers bends around the nodes in between: it has a point in each layer. Within its layer a node is
placed as near to the middle of its neighbours as the others allow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from .ordering import Layers, ordered
from .ranks import Pair

GAP_ACROSS: Final = 56.0
GAP_BETWEEN: Final = 14.0
_POINT: Final = 6.0
"""The height that a bend of an edge takes in its layer."""
_MOST_BENDS: Final = 2_000
"""Above this number, edges are drawn straight: such a drawing is unreadable anyway."""
_SWEEPS: Final = 6

Point: TypeAlias = "tuple[float, float]"


@dataclass(frozen=True, slots=True)
class Size:
    """The size and rank of a node."""

    key: str
    rank: int
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a node, by its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


@dataclass(frozen=True, slots=True)
class Layout:
    """All positions. A path begins at the right of a node and ends at the left of another."""

    width: float
    height: float
    places: dict[str, Place]
    ways: dict[Pair, tuple[Point, ...]]


def lay_out(sizes: Sequence[Size], edges: Iterable[Pair]) -> Layout:
    """Return positions and paths. Each edge must lead to a later rank."""
    if not sizes:
        return Layout(0.0, 0.0, {}, {})
    pairs = list(edges)
    ranks = {size.key: size.rank for size in sizes}
    chains = _chains(pairs, ranks)
    layers = _layers(sizes, chains, ranks)
    hops = [hop for chain in chains.values() for hop in pairwise(chain)]
    layers = ordered(layers, hops)
    heights = {size.key: size.height for size in sizes}
    middles = _middles(layers, hops, heights)
    return _placed(sizes, layers, chains, middles)


def _chains(pairs: Sequence[Pair], ranks: Mapping[str, int]) -> dict[Pair, list[str]]:
    """Return each edge as the nodes and bends on its path."""
    bends = sum(ranks[b] - ranks[a] - 1 for a, b in pairs)
    if bends > _MOST_BENDS:
        return {pair: list(pair) for pair in pairs}
    return {
        (a, b): [a, *(f"{a}\x1f{b}\x1f{rank}" for rank in range(ranks[a] + 1, ranks[b])), b] for a, b in pairs
    }  # fmt: skip


def _layers(sizes: Sequence[Size], chains: Mapping[Pair, list[str]], ranks: Mapping[str, int]) -> Layers:
    layers: Layers = [[] for _ in range(max(ranks.values()) + 1)]
    for size in sizes:
        layers[size.rank].append(size.key)
    for (a, _), chain in chains.items():
        for step, bend in enumerate(chain[1:-1], 1):
            layers[ranks[a] + step].append(bend)
    return layers


def _middles(layers: Layers, hops: Iterable[Pair], heights: Mapping[str, float]) -> dict[str, float]:
    """Return the vertical middle of each node and bend."""
    before: defaultdict[str, list[str]] = defaultdict(list)
    after: defaultdict[str, list[str]] = defaultdict(list)
    for a, b in hops:
        after[a].append(b)
        before[b].append(a)
    at: dict[str, float] = {}
    for layer in layers:
        at.update(zip(layer, _apart(layer, [0.0] * len(layer), heights), strict=True))
    for sweep in range(_SWEEPS):
        forth = sweep % 2 == 0
        neighbours = before if forth else after
        for layer in layers if forth else layers[::-1]:
            wanted = [_mean([at[one] for one in neighbours[node]], at[node]) for node in layer]
            at.update(zip(layer, _apart(layer, wanted, heights), strict=True))
    return at


def _apart(layer: Sequence[str], wanted: Sequence[float], heights: Mapping[str, float]) -> list[float]:
    """Return the nearest positions in this order and without overlap: a least-squares fit by pooling."""
    offsets, offset = [], 0.0
    for place, node in enumerate(layer):
        if place:
            offset += (heights.get(layer[place - 1], _POINT) + heights.get(node, _POINT)) / 2 + GAP_BETWEEN
        offsets.append(offset)
    pools: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=True):
        pools.append((want - offset, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (first, n), (second, m) = pools[-2:]
            pools[-2:] = [((first * n + second * m) / (n + m), n + m)]
    fitted = [level for level, n in pools for _ in range(n)]
    return [level + offset for level, offset in zip(fitted, offsets, strict=True)]


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _placed(
    sizes: Sequence[Size], layers: Layers, chains: Mapping[Pair, list[str]], middles: Mapping[str, float]
) -> Layout:
    widths = [0.0] * len(layers)
    for size in sizes:
        widths[size.rank] = max(widths[size.rank], size.width)
    lefts = [0.0]
    for width in widths:
        lefts.append(lefts[-1] + width + GAP_ACROSS)
    top = min(middles[size.key] - size.height / 2 for size in sizes)
    top = min(top, min(middles.values()) - _POINT)
    places = {
        size.key: Place(lefts[size.rank], middles[size.key] - size.height / 2 - top, widths[size.rank], size.height)
        for size in sizes
    }
    bends = {node: (rank, middles[node] - top) for rank, layer in enumerate(layers) for node in layer}
    ways = {pair: _way(chain, places, bends, lefts, widths) for pair, chain in chains.items()}
    lowest = max((y for _, y in bends.values()), default=0.0) + _POINT
    height = max(lowest, max(place.y + place.height for place in places.values()))
    return Layout(lefts[-1] - GAP_ACROSS, height, places, ways)


def _way(
    chain: Sequence[str],
    places: Mapping[str, Place],
    bends: Mapping[str, tuple[int, float]],
    lefts: Sequence[float],
    widths: Sequence[float],
) -> tuple[Point, ...]:
    start, end = places[chain[0]], places[chain[-1]]
    points = [(start.x + start.width, start.middle)]
    for bend in chain[1:-1]:
        rank, y = bends[bend]
        points += [(lefts[rank], y), (lefts[rank] + widths[rank], y)]
    return (*points, (end.x, end.middle))
