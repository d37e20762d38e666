"""Where the last claims ended, so that the next need not step over all that was taken before them.

On Postgres a claimed job leaves a dead entry in the index of what waits, until a vacuum comes. That may take a minute
or, beside a transaction that stays open, for ever. A claim that begins where the index does steps over all of them:
5 ms after 400,000 jobs, where 0.1 ms are enough from a mark (one run, vacuum off).

A mark is no more than a hint. What lies before it is looked at whenever a claim comes back short, and twice a second.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from ..clock import SECOND, Clock
from ..model.job import Claimed

_LOOK_BACK_EVERY: Final = 0.5
# Transactions do not commit in the order of their clocks: of what is so young, some may not be visible yet.
_YOUNG: Final = 2 * SECOND
# Each mark costs a claim two steps into the index.
_MOST: Final = 8


class Bookmarks:
    """The marks of one worker: for each route and priority, the rank before which its last claim found nothing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._marks: dict[tuple[int, int], int] = {}
        self._looked_back = clock.monotonic()

    def beyond(self, routes: str) -> str | None:
        """These routes without what lies before the marks; None where a claim should look at everything."""
        now = self._clock.monotonic()
        if not self._marks or now - self._looked_back >= _LOOK_BACK_EVERY:
            self._looked_back = now
            return None
        return json.dumps([strip for route in json.loads(routes) for strip in self._strips(route)])

    def note(self, claimed: Sequence[Claimed]) -> None:
        """Mark where these began: what was before them was taken, or is by now. They come in the order of claims."""
        first: dict[tuple[int, int], int] = {}
        for job in claimed:
            if job.limits is not None:
                # Those that wait behind a limit come back to the place they had.
                self.forget()
                return
            first.setdefault((job.route, job.priority), job.rank)
        self._marks |= {key: min(rank, self._clock.now() - _YOUNG) for key, rank in first.items()}
        if len(self._marks) > _MOST:
            self.forget()

    def forget(self) -> None:
        self._marks.clear()

    def _strips(self, route: dict[str, Any]) -> list[dict[str, Any]]:
        """The route in strips by priority: those with a mark begin at it, those between have none."""
        strips, bounds = [], route
        for priority in sorted((p for number, p in self._marks if number == route["route"]), reverse=True):
            strips.append(bounds | {"least": priority + 1})
            strips.append(route | {"least": priority, "most": priority, "since": self._marks[route["route"], priority]})
            bounds = route | {"most": priority - 1}
        return [*strips, bounds]
