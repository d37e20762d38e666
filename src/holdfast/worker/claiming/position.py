"""Where the last claim began, so that the next need not step over all that was taken before it.

On Postgres a claimed job leaves a dead entry in the index of what waits, until a vacuum comes. That may take a minute
or, beside a transaction that stays open, for ever. A claim that begins where the index does steps over all of them:
5 ms after 400,000 jobs, where 0.1 ms are enough from a mark (one run, vacuum off).

The mark is no more than a hint. What lies before it is looked at whenever a claim comes back short, and twice a second.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...clock import SECOND, Clock
from ...model.jobs import Claimed

_LOOK_BACK_EVERY: Final = 0.5
# Jobs that wait behind a limit come back to the place they had. With marks between, a key's jobs ran two a second.
_AFTER_LIMITS: Final = 5.0
# Transactions do not commit in the order of their clocks: of what is so young, some may not be visible yet.
_YOUNG: Final = 2 * SECOND


@dataclass(frozen=True, slots=True)
class Mark:
    route: int
    priority: int
    rank: int
    """Before this one nothing was found."""


class ClaimPosition:
    """One worker's. It marks a place only where a whole claim came from one route and one priority.

    With a mark in each of several priorities, a claim would lock n rows of every one, and a look back that is filled
    from above would leave those below in their places.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mark: Mark | None = None
        self._looked_back = self._silent_until = clock.monotonic()
        self.edition = 0
        """Grows when a mark is given up: what was asked for before it says nothing about what is there since."""

    def beyond(self, routes: str) -> str | None:
        """These routes without what lies before the mark, or below it; None where a claim should look at everything."""
        now = self._clock.monotonic()
        if self._mark is None or now - self._looked_back >= _LOOK_BACK_EVERY:
            self._looked_back = now
            self._forget()
            return None
        return json.dumps([strip for route in json.loads(routes) for strip in _strips(route, self._mark)])

    def note(self, claimed: Sequence[Claimed], edition: int) -> None:
        """Mark where these began, the first of them first: what was before them was taken, or is by now."""
        if edition != self.edition or not claimed or self._clock.monotonic() < self._silent_until:
            return
        first = claimed[0]
        if first.rank != first.created_at or not all(_is_of(first, job) for job in claimed):
            # A rank that is not the time of its making is one of fair shares, where others come before it, or later.
            self._forget()
        else:
            self._mark = Mark(first.route, first.priority, min(first.rank, self._clock.now() - _YOUNG))

    def met_limits(self) -> None:
        """Jobs with limits came or went: look at everything for a while."""
        self._silent_until = self._clock.monotonic() + _AFTER_LIMITS
        self._forget()

    def _forget(self) -> None:
        # Two who both look at everything, taking turns, must not undo each other's marks for ever.
        if self._mark is not None:
            self._mark = None
            self.edition += 1


def _is_of(first: Claimed, job: Claimed) -> bool:
    # Suspects come from elsewhere.
    return job.route == first.route and job.priority == first.priority and not job.suspect


def _strips(route: dict[str, Any], mark: Mark) -> list[dict[str, Any]]:
    """A route in strips by priority: above the mark there is all, and at its own what comes from it on."""
    if route["route"] != mark.route:
        return [route]
    above = route | {"least": mark.priority + 1}
    return [above, route | {"least": mark.priority, "most": mark.priority, "since": mark.rank}]
