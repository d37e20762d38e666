"""Fires due schedules while this worker leads, and wakes when the next tick is due.

Each schedule is fired in a transaction of its own. One that fails is retried soon; it is not disabled, loses no tick
and does not delay the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ...clock import SECOND, Clock
from ...errors import HoldfastError, NotFound
from ...model.schedules import Firing, ScheduleKey
from ...rules.redaction import redact
from ...storage.ops.jobs import queries
from ...storage.ops.schedules import firing, schedules
from ...storage.port import Op, Store
from .service import wake_on_topics

logger: Final = logging.getLogger("holdfast.worker")

ROLE: Final = "schedules"
_KEEP_TICKS: Final = 30 * 86_400 * SECOND
_PRUNE_EVERY: Final = 3_600.0
_SHORTEST_RETRY: Final = 0.5
_LONGEST_RETRY: Final = 30.0


class Scheduler:
    """`leads` says whether this worker fires schedules."""

    def __init__(
        self,
        store: Store,
        leads: Callable[[], bool],
        clock: Clock,
        *,
        longest_rest: float = 5.0,
    ) -> None:
        self._store = store
        self._leads = leads
        self._clock = clock
        self._longest_rest = longest_rest
        self._launched_at: int | None = None
        self._pruned_at = clock.monotonic()
        self._failing: dict[ScheduleKey, _Failing] = {}

    async def run_once(self) -> float | None:
        """Fire what is due; return the seconds until the next check."""
        if not self._leads():
            self._launched_at = None
            return None
        rest = await self._fire_all(await self._launch())
        await self._prune()
        return rest

    async def _launch(self) -> int:
        """Return when this scheduler began to lead, by the store's clock."""
        launched_at = self._launched_at
        if launched_at is None:
            launched_at = await self._store.aread(Op(queries.clock, single=True))
            self._launched_at = launched_at
        return launched_at

    async def listen(self, wake: Callable[[], None]) -> None:
        """Wake at once when a schedule was created or changed."""
        await wake_on_topics(self._store.wakeups, ["schedules"], wake)

    async def _fire_all(self, launched_at: int) -> float:
        looked_at, page = await self._store.aread(Op(firing.due_schedules))
        seen: set[ScheduleKey] = set()
        while page:
            for _, key in page:
                await self._fire(key, launched_at)
            seen.update(key for _, key in page)
            last = page[-1]
            page = await self._more(last) if len(page) == firing.PAGE else []
        # A schedule that failed and is no longer due was paused, fixed or fired by another worker.
        self._failing = {key: failing for key, failing in self._failing.items() if key in seen}
        return await self._rest(looked_at)

    async def _more(self, last: tuple[int, ScheduleKey]) -> list[tuple[int, ScheduleKey]]:
        return (await self._store.aread(Op(lambda tx: firing.due_schedules(tx, last))))[1]

    async def _fire(self, key: ScheduleKey, launched_at: int) -> None:
        failing = self._failing.get(key)
        if failing is not None and failing.retry_at > self._clock.monotonic():
            return
        try:
            fired = await self._store.awrite(Op(lambda tx: firing.fire(tx, key, launched_at=launched_at)))
        except NotFound:
            self._failing.pop(key, None)  # deleted since the read
        except Exception as error:
            await self._fail(key, error)
        else:
            self._failing.pop(key, None)
            _report(key, fired)

    async def _fail(self, key: ScheduleKey, error: Exception) -> None:
        failing = self._failing.setdefault(key, _Failing())
        pause = failing.again(self._clock.monotonic())
        text = redact(f"{type(error).__name__}: {error}")
        level = logging.ERROR if failing.count == 1 else logging.DEBUG
        logger.log(level, "schedule %s could not be fired (%s); its tick is kept, next try in %g s", key, text, pause)
        try:
            await self._store.awrite(Op(lambda tx: schedules.note_error(tx, key, text)))
        except HoldfastError:
            logger.debug("the error of schedule %s could not be stored either", key)

    async def _rest(self, looked_at: int) -> float:
        rest = await self._store.aread(Op(lambda tx: firing.seconds_to_next(tx, looked_at)))
        now = self._clock.monotonic()
        retries = [failing.retry_at - now for failing in self._failing.values()]
        return max(0.0, min([self._longest_rest, *retries, *([] if rest is None else [rest])]))

    async def _prune(self) -> None:
        if self._clock.monotonic() - self._pruned_at < _PRUNE_EVERY:
            return
        if await self._store.awrite(Op(lambda tx: schedules.prune_ticks(tx, _KEEP_TICKS))) == 0:
            self._pruned_at = self._clock.monotonic()


class _Failing:
    """A schedule whose last tries failed."""

    def __init__(self) -> None:
        self.count = 0
        self.retry_at = 0.0

    def again(self, now: float) -> float:
        """Count one more failure; return the seconds to wait after it."""
        self.count += 1
        pause = min(_SHORTEST_RETRY * 2.0 ** min(self.count - 1, 16), _LONGEST_RETRY)
        self.retry_at = now + pause
        return pause


def _report(key: ScheduleKey, fired: Firing) -> None:
    if fired.broken is not None:
        logger.error("schedule %s is disabled: %s; edit it to enable it again", key, fired.broken)
    elif fired.skipped:
        logger.info("schedule %s passed over %d ticks", key, fired.skipped)
