"""The layer of each node of a graph: after all its dependencies."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import TypeAlias

Pair: TypeAlias = "tuple[str, str]"
"""A node, and its dependent."""


def ranks_of(nodes: Sequence[str], edges: Iterable[Pair]) -> dict[str, int]:
    """Return the length of the longest path to each node. Nodes on a cycle, which no flow has, come first."""
    known = set(nodes)
    after: defaultdict[str, list[str]] = defaultdict(list)
    waits: Counter[str] = Counter()
    for upstream, downstream in edges:
        if upstream in known and downstream in known and upstream != downstream:
            after[upstream].append(downstream)
            waits[downstream] += 1
    ranks = dict.fromkeys(nodes, 0)
    free = deque(node for node in nodes if not waits[node])
    while free:
        node = free.popleft()
        for behind in after[node]:
            ranks[behind] = max(ranks[behind], ranks[node] + 1)
            waits[behind] -= 1
            if not waits[behind]:
                free.append(behind)
    return {node: 0 if waits[node] else rank for node, rank in ranks.items()}
