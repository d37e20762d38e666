"""An hour of the studio's past, made by real runs on a clock of its own, so that charts and lists have something."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

from holdfast.clock import SECOND, SYSTEM_CLOCK, ManualClock
from holdfast.ids import derived_id
from holdfast.tasks import JobRequest

from . import tasks
from .pace import chance, pace
from .traffic import TOPICS, arrivals

MINUTES: Final = 60


def make_past() -> None:
    """Run an hour's jobs, minute by minute."""
    clock = ManualClock(SYSTEM_CLOCK.now() - MINUTES * 60 * SECOND)
    pace.past = clock
    with tasks.app.override_store(tasks.app.config.store, clock=clock):
        tasks.app.schedules.ensure()
        minute = 0
        # To make it up takes time, too: until the present, so that no chart has a gap.
        while clock.now() < SYSTEM_CLOCK.now() - 60 * SECOND:
            _live_through(minute, clock)
            minute += 1
    pace.past = None


def _live_through(minute: int, clock: ManualClock) -> None:
    ends = clock.now() + 60 * SECOND
    busy = 24 + round(12 * math.sin(minute / 7)) + chance.randrange(8)
    tasks.app.enqueue_many([_back_then(request, clock, n) for n, request in enumerate(arrivals(busy))])
    if minute % 12 == 0:
        tasks.start_flow("regions")
    if minute % 15 == 4:
        tasks.report.options(tenant="acme").enqueue(TOPICS[minute // 15 % len(TOPICS)])
    tasks.app.drain()
    clock.advance(max(0.0, (ends - clock.now()) / SECOND))
    tasks.app.stats.roll()


def _back_then(request: JobRequest[Any], clock: ManualClock, n: int) -> JobRequest[Any]:
    """With an id of that time: by their ids jobs are counted and sorted."""
    return request.with_options(replace(request.options, id=derived_id(clock.now(), f"{clock.now()} {n}", n)))
