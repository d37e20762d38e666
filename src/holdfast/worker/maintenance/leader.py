"""Leader election for work that one worker does for all: `leader.holds("schedules")`.

A role is a lease of 10 s, renewed every third. This process measures it with its monotonic clock from before the
renewal request, so a leader stops before another may start; still, everything done under it is safe if two do it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from random import random
from typing import Final

from ...clock import SECOND, Clock
from ...errors import HoldfastError
from ...storage.ops.workers import workers
from ...storage.port import Op, Store
from .service import wake_on_topics

logger: Final = logging.getLogger("holdfast.worker")

LEASE: Final = 10.0
"""After a leader dies, another takes over within 1.1 leases."""
ROLES: Final = ("schedules", "totals", "retention", "numbers", "upkeep", "webhooks")
"""Roles of the loops that only one worker needs to run."""

_MARGIN: Final = 0.1
_SPREAD: Final = 0.1


class Leader:
    """`own_id` returns the worker's current id, which changes if it was declared lost."""

    def __init__(
        self,
        store: Store,
        own_id: Callable[[], str],
        clock: Clock,
        roles: Sequence[str] = ROLES,
        lease: float = LEASE,
        random: Callable[[], float] = random,
    ) -> None:
        self._random = random
        self._store = store
        self._own_id = own_id
        self._clock = clock
        self._lease = lease
        self._until = dict.fromkeys(roles, float("-inf"))
        self._on_gain: defaultdict[str, list[Callable[[], None]]] = defaultdict(list)

    def holds(self, role: str) -> bool:
        """Return True if this worker certainly has that role."""
        if role not in self._until:
            raise ValueError(f"there is no role {role!r}; add it to worker.maintenance.leader.ROLES")
        return self._clock.monotonic() < self._until[role]

    def on_gain(self, role: str, call: Callable[[], None]) -> None:
        """Call `call` on the event loop whenever the role is gained, to start at once."""
        self._on_gain[role].append(call)

    async def listen(self, wake: Callable[[], None]) -> None:
        """Wake at once when a leader resigns."""
        await wake_on_topics(self._store.wakeups, [workers.RESIGNED], wake)

    async def run_once(self) -> float | None:
        """Renew own roles and take free ones. If others hold all, return the seconds until the first lease ends."""
        holder, lease = self._own_id(), round(self._lease * SECOND)
        roles = tuple(self._until)
        # Followers only read: a needless write would take the lock of a SQLite file from other writers.
        free, left = await self._store.aread(Op(lambda tx: workers.open_roles(tx, roles, holder, lease), single=True))
        asked_at = self._clock.monotonic()
        held: set[str] = set()
        if free:
            held = await self._store.awrite(Op(lambda tx: workers.lead(tx, free, holder, lease)))
        for role in roles:
            self._learn(role, asked_at + self._lease * (1 - _MARGIN) if role in held else float("-inf"))
        # Spread out: the first worker takes every free role.
        return None if free else min(left / SECOND, self._lease) + self._lease * _SPREAD * self._random()

    async def resign(self) -> None:
        """Give up all roles, so that others can take them at once."""
        held = [role for role in self._until if self.holds(role)]
        self._until = dict.fromkeys(self._until, float("-inf"))
        if held:
            await self._leave(self._own_id())

    async def _leave(self, holder: str) -> None:
        try:
            await self._store.awrite(Op(lambda tx: workers.resign(tx, holder)))
        except HoldfastError as error:
            if not self._store.outage.covers("the leader's resignation", error):
                logger.error("the store failed while the leader resigned (%s); its lease will run out instead", error)

    def _learn(self, role: str, until: float) -> None:
        held = self.holds(role)
        self._until[role] = until
        if self.holds(role) and not held:
            logger.debug("this worker leads: %s", role)
            for call in self._on_gain[role]:
                call()
