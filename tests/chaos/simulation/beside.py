"""What a worker keeps on threads of its own, in a world that has but one: on a lane beside the loop."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.worker.lease import Heartbeat
from holdfast.worker.running.deadlines import DeadlineTimer

from .loop import LANE


class LaneHeartbeat(Heartbeat):
    """Beats in the side lane of its node, so that a loop which stands still does not stop it."""

    _timer: asyncio.Handle | None = None

    def _spawn(self, delay: float) -> None:
        self._again(max(0.0, delay))

    def beat_now(self) -> None:
        self._again(0.0)

    def _again(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        context = LANE.get().node.side.context.copy()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._beat, context=context)

    def _beat(self) -> None:
        if not self._stopped:
            self._again(self.serve_once())


class LaneTimekeeper(DeadlineTimer):
    """Keeps its deadlines in the side lane."""

    _timer: Any = None

    def _start(self) -> None:
        loop, context = asyncio.get_running_loop(), LANE.get().node.side.context.copy()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(self._heap[0][0], self._keep, context=context)

    def _keep(self) -> None:
        if not self._closed and self.run_once() is not None:
            self._start()
