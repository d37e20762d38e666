"""What schedules have made so far: the part of `app.schedules` that looks back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ..errors import InvalidInput
from ..model.schedule import ScheduledRun
from ..names import check_name
from ..storage.ops import schedules
from ..storage.port import Op, Store

_MOST: Final = 1_000
"""Schedules, and runs of each."""


class ScheduledRuns:
    """Ticks that made a job, and what became of that."""

    _store: Callable[[], Store]

    def runs(self, names: Sequence[str], limit: int = 20) -> dict[str, list[ScheduledRun]]:
        """Of each of these schedules the newest ticks that made a job, with how that job stands."""
        return self._store().read(_runs(names, limit))

    async def aruns(self, names: Sequence[str], limit: int = 20) -> dict[str, list[ScheduledRun]]:
        return await self._store().aread(_runs(names, limit))


def _runs(names: Sequence[str], limit: int) -> Op[dict[str, list[ScheduledRun]]]:
    if len(names) > _MOST or not 1 <= limit <= _MOST:
        raise InvalidInput(f"{len(names):,} schedules and {limit:,} runs of each are asked for; {_MOST:,} is the most")
    asked = [check_name("the schedule's name", name) for name in names]
    return Op(lambda tx: schedules.runs_of(tx, asked, limit))
