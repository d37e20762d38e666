"""Lease of a draining worker, which has no background loops.

With the system clock a heartbeat renews it, as for a worker. With a test's clock no thread can know when it moves: the
lease is renewed between two rounds instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from ..clock import Clock, SystemClock
from ..errors import LeaseLost
from ..ids import token
from ..model.workers import Owned
from ..storage.ops.workers import workers
from ..storage.port import Op, Store
from .lease import Heartbeat
from .running.runner import JobRunner

logger: Final = logging.getLogger("holdfast.worker")


class DrainLease:
    """`register` registers the worker under the runner's current id."""

    def __init__(
        self, store: Store, runner: JobRunner, lease: float, clock: Clock, register: Callable[[], Awaitable[None]]
    ) -> None:
        self._store = store
        self._runner = runner
        self._lease = lease
        self._clock = clock
        self._register = register
        self._loop = asyncio.get_running_loop()
        self._renewed_at = clock.monotonic()
        self._is_lost = False
        self._heartbeat: Heartbeat | None = None

    async def begin(self) -> None:
        """Register the worker, and keep its lease from now on."""
        self._renewed_at = self._clock.monotonic()
        await self._register()
        self._is_lost = False
        if isinstance(self._clock, SystemClock):
            self._heartbeat = Heartbeat(self._store, self._runner.id, self._lease, self, self._clock)
            self._heartbeat.start(self._renewed_at)

    async def keep(self) -> None:
        """Renew the lease if it is due and no heartbeat does it; if it was lost, register under a new identity."""
        if self._heartbeat is None and self._clock.monotonic() - self._renewed_at >= self._lease / 3:
            await self._beat()
        if self._is_lost:
            self._runner.id = token()
            await self.begin()
            self._resume()

    async def end(self) -> None:
        """Stop renewing; no heartbeat runs afterwards."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
            await asyncio.to_thread(self._heartbeat.join)

    async def _beat(self) -> None:
        me, asked_at = self._runner.id, self._clock.monotonic()
        try:
            owned = await self._store.awrite(Op(lambda tx: workers.beat(tx, me), name="heartbeat"))
        except LeaseLost as lost:
            self._lose(me, str(lost))
        else:
            self._renewed_at = asked_at
            self._runner.reconcile(owned, asked_at)

    # -- called on the heartbeat's thread

    def on_renewed(self, owned: list[Owned], asked_at: float) -> None:
        self._post(self._renewed, owned, asked_at)

    def fence(self, why: str) -> None:
        self._post(self._fence, why)

    def on_declared_lost(self, worker_id: str, why: str) -> None:
        self._post(self._lose, worker_id, why)

    def _post(self, call: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *args)
        except RuntimeError:
            # The loop is closed: nothing runs here any more, so the lease must not be renewed.
            if self._heartbeat is not None:
                self._heartbeat.stop()

    # -- called on the loop

    def _renewed(self, owned: list[Owned], asked_at: float) -> None:
        if self._runner.fenced and not self._is_lost:
            self._resume()
        self._runner.reconcile(owned, asked_at)

    def _resume(self) -> None:
        self._runner.fenced = False
        self._runner.claimer.request_claim()

    def _fence(self, why: str) -> None:
        logger.error("%s: every handler is stopped and its job handed back", why)
        self._runner.fenced = True
        self._runner.stop_all("fenced")

    def _lose(self, worker_id: str, why: str) -> None:
        if worker_id != self._runner.id:
            return
        logger.error("%s; what runs is stopped", why)
        self._is_lost = self._runner.fenced = True
        self._runner.stop_all("lost")
        self._runner.claimer.forget()
        self._runner.claimer.wake.set()
