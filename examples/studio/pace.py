"""The duration of the studio's work. While an hour of its past is made up, time passes only on the clock."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Final

from holdfast.clock import ManualClock

chance: Final = random.Random(7)
"""The same studio every time."""


class Pace:
    """The studio's clock while its past is made up; None once it lives."""

    past: ManualClock | None = None

    async def work(self, least: float, most: float) -> None:
        """Be busy for a while."""
        seconds = self._seconds(least, most)
        if self.past is None:
            await asyncio.sleep(seconds)
        else:
            self.past.advance(seconds)

    def work_in_thread(self, least: float, most: float) -> None:
        """The same, in a thread."""
        seconds = self._seconds(least, most)
        if self.past is None:
            time.sleep(seconds)
        else:
            self.past.advance(seconds)

    def _seconds(self, least: float, most: float) -> float:
        # Most are quick, a few are slow, as in life.
        seconds = least + (most - least) * chance.random() ** 3
        return seconds if self.past is None else min(seconds, 0.4)


pace: Final = Pace()
