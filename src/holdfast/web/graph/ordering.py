"""The order of nodes within each layer, chosen so that few edges cross."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from .ranks import Pair

Layers: TypeAlias = "list[list[str]]"
_SWEEPS: Final = 8


def ordered(layers: Sequence[Sequence[str]], edges: Iterable[Pair]) -> Layers:
    """Order each layer by the middle of its neighbours, in both directions. Edges lead from one layer to the next."""
    before: defaultdict[str, list[str]] = defaultdict(list)
    after: defaultdict[str, list[str]] = defaultdict(list)
    for upstream, downstream in edges:
        after[upstream].append(downstream)
        before[downstream].append(upstream)
    best = now = [list(layer) for layer in layers]
    fewest = crossings(now, after)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        now = _forth(now, before) if sweep % 2 == 0 else _forth(now[::-1], after)[::-1]
        found = crossings(now, after)
        if found < fewest:
            best, fewest = now, found
    return best


def _forth(layers: Layers, neighbours: Mapping[str, list[str]]) -> Layers:
    done: Layers = [layers[0]] if layers else []
    for layer in layers[1:]:
        at = {node: place for place, node in enumerate(done[-1])}
        middle = {node: _middle(place, neighbours.get(node, []), at) for place, node in enumerate(layer)}
        done.append(sorted(layer, key=lambda node: middle[node]))
    return done


def _middle(place: int, neighbours: Sequence[str], at: Mapping[str, int]) -> float:
    found = [at[one] for one in neighbours if one in at]
    return sum(found) / len(found) if found else float(place)


def crossings(layers: Layers, after: Mapping[str, Sequence[str]]) -> int:
    """Count the pairs of edges that cross, layer by layer."""
    return sum(_between(upper, lower, after) for upper, lower in pairwise(layers))


def _between(upper: Sequence[str], lower: Sequence[str], after: Mapping[str, Sequence[str]]) -> int:
    """Count the inversions among the ends of the edges, with a binary indexed tree."""
    at = {node: place for place, node in enumerate(lower)}
    tree = [0] * (len(lower) + 1)
    seen = crossed = 0
    for node in upper:
        ends = sorted(at[one] for one in after.get(node, ()) if one in at)
        crossed += sum(seen - _upto(tree, end + 1) for end in ends)
        for end in ends:
            _add(tree, end + 1)
        seen += len(ends)
    return crossed


def _upto(tree: Sequence[int], place: int) -> int:
    total = 0
    while place > 0:
        total += tree[place]
        place -= place & -place
    return total


def _add(tree: list[int], place: int) -> None:
    while place < len(tree):
        tree[place] += 1
        place += place & -place
