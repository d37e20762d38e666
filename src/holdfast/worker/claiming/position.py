"""Position of the last claim, so that the next one can skip what was claimed before it.

On Postgres a claimed job leaves a dead entry in the index of waiting jobs until the next vacuum. That may take a minute
or, beside a transaction that stays open, for ever. A claim that starts at the beginning of the index skips all of them:
5 ms after 400,000 jobs, against 0.1 ms from a mark (one run, vacuum off).

The mark is only a hint. Claims scan the part before it whenever one comes back short, and twice a second.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...clock import SECOND, Clock
from ...model.jobs import Claimed

_LOOK_BACK_EVERY: Final = 0.5
# Jobs that wait for a limit return to the place they had. With marks in use, a key's jobs ran at two a second.
_AFTER_LIMITS: Final = 5.0
# Transactions do not commit in the order of their timestamps: some rows this recent may not be visible yet.
_YOUNG: Final = 2 * SECOND


@dataclass(frozen=True, slots=True)
class ClaimMark:
    route: int
    priority: int
    rank: int
    """No claimable job was found before this rank."""


class ClaimPosition:
    """Claim position of one worker. Set only where a whole claim came from one route and one priority.

    With a mark in each of several priorities, a claim would lock n rows of every one, and a full scan that is filled
    by higher priorities would leave the marks of the lower ones in place.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mark: ClaimMark | None = None
        self._looked_back = self._silent_until = clock.monotonic()
        self.edition = 0
        """Incremented when a mark is dropped: claims requested before that must not set a mark."""

    def beyond(self, routes: str) -> str | None:
        """Return these routes without the jobs before or below the mark; None if the claim should scan everything."""
        now = self._clock.monotonic()
        if self._mark is None or now - self._looked_back >= _LOOK_BACK_EVERY:
            self._looked_back = now
            self._forget()
            return None
        return json.dumps([strip for route in json.loads(routes) for strip in _strips(route, self._mark)])

    def note(self, claimed: Sequence[Claimed], edition: int) -> None:
        """Set the mark at the first of these jobs: everything before it has been claimed."""
        if edition != self.edition or not claimed or self._clock.monotonic() < self._silent_until:
            return
        first = claimed[0]
        if first.rank != first.created_at or not all(_is_of(first, job) for job in claimed):
            # A rank other than the creation time comes from fair shares, where later jobs may rank before it.
            self._forget()
        else:
            self._mark = ClaimMark(first.route, first.priority, min(first.rank, self._clock.now() - _YOUNG))

    def met_limits(self) -> None:
        """Scan everything for a while: jobs with limits were claimed or parked."""
        self._silent_until = self._clock.monotonic() + _AFTER_LIMITS
        self._forget()

    def _forget(self) -> None:
        # Two loops that both scan everything, alternately, must not drop each other's marks for ever.
        if self._mark is not None:
            self._mark = None
            self.edition += 1


def _is_of(first: Claimed, job: Claimed) -> bool:
    # Suspects are claimed separately.
    return job.route == first.route and job.priority == first.priority and not job.suspect


def _strips(route: dict[str, Any], mark: ClaimMark) -> list[dict[str, Any]]:
    """Split a route by priority: everything above the mark's priority, and at that priority jobs from the mark on."""
    if route["route"] != mark.route:
        return [route]
    above = route | {"least": mark.priority + 1}
    return [above, route | {"least": mark.priority, "most": mark.priority, "since": mark.rank}]
