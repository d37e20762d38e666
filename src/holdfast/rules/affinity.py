"""Chooses the affinities that a worker serves next: models, datasets and other things that are slow to load.

A worker has room for so many at once. It stays with what it has loaded while there are jobs for it; others come first
by their queue, by their priority, or when they have waited for longer than is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Head:
    """The first claimable job of a route with an affinity."""

    affinity: str
    tier: int
    """The place of its queue in the worker's order."""
    priority: int
    rank: int
    id: str
    waited: int
    """Microseconds for which it could have started."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The affinities that a worker has loaded, the last used first, and those that its running jobs use."""

    resident: tuple[str, ...]
    in_use: frozenset[str]
    most: int
    wait: int | None = None
    """The longest wait of other affinities, in microseconds; None is without bound."""
    stints: Mapping[str, int] = field(default_factory=dict)
    """The microseconds for which each has been loaded; one that is missing, for ever."""
    elsewhere: frozenset[str] = frozenset()
    """The affinities that other workers have loaded; empty where others may wait for ever."""

    def using(self, affinities: Iterable[str]) -> Hold:
        """After jobs of these were started."""
        used = tuple(dict.fromkeys(affinities))
        stints = {**self.stints, **{affinity: 0 for affinity in used if affinity not in self.resident}}
        return replace(self, resident=loaded(self, used), in_use=self.in_use | set(used), stints=stints)

    @property
    def is_full(self) -> bool:
        return len(self.in_use) >= self.most


def choose(hold: Hold, heads: Sequence[Head]) -> tuple[str, ...]:
    """The affinities to claim from now, the best first; none where a better one waits for running jobs to end."""
    best: dict[str, Head] = {}
    stint = None if hold.wait is None else hold.wait // (2 * max(1, len({head.affinity for head in heads})))
    for head in sorted(heads, key=lambda head: _order(hold, stint, head)):
        best.setdefault(head.affinity, head)
    wanted = list(best)[: hold.most]
    chosen: list[str] = []
    for affinity in wanted:
        # An affinity in use cannot be unloaded: its place becomes free when its jobs have ended; it gets no new ones.
        if len(hold.in_use | {*chosen, affinity}) <= hold.most:
            chosen.append(affinity)
    return tuple(chosen)


def loaded(hold: Hold, used: Sequence[str]) -> tuple[str, ...]:
    """Return the affinities that are loaded after a start: `used`, those in use, then the last used of the rest."""
    order = dict.fromkeys([*used, *(name for name in hold.resident if name in hold.in_use), *hold.resident])
    return tuple(order)[: hold.most]


def _order(hold: Hold, stint: int | None, head: Head) -> tuple[int, int, int, int, int, str]:
    urgency, late = _urgency(hold, stint, head)
    return head.tier, -head.priority, urgency, -late, head.rank, head.id


def _urgency(hold: Hold, stint: int | None, head: Head) -> tuple[int, int]:
    """Return a sort key, then the time waited: loaded affinities first, or those that must not wait any longer.

    Half of the bound is for waiting, half for the stints of those who come before: each late one is served for a share
    of it, and then gives way to other late ones. When there is more to do than can be done every job is late, and the
    oldest first would mean another load for each.
    """
    is_resident = head.affinity in hold.resident or head.affinity in hold.in_use
    if stint is None or hold.wait is None:
        return (0 if is_resident else 3), 0
    if is_resident:
        return (0 if hold.stints.get(head.affinity, stint) < stint else 2), 0
    # Not everybody runs after the same late one: where another worker has it, that one comes first.
    patience = hold.wait if head.affinity in hold.elsewhere else hold.wait // 2
    return (1, head.waited) if head.waited >= patience else (3, 0)
