"""Keeps the worker's lease: renews it on a thread of its own, so that no handler can block it.

Each heartbeat also reads which jobs this worker has according to the store. A worker that could not renew in time, by
its own monotonic clock, fences itself before the lease ends. One that was declared lost registers under a new identity.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from ..clock import SECOND, Clock
from ..errors import LeaseLost, SchemaMismatch
from ..ids import token
from ..model.stats import Vitals
from ..model.workers import Owned
from ..storage.ops.workers import workers
from ..storage.port import Op, Store
from .claiming.outcomes import OutcomeQueue
from .running.runner import JobRunner
from .settings import FENCE_MARGIN
from .state import WorkerState

logger: Final = logging.getLogger("holdfast.worker")

# After a step of the wall clock by more than this, stored leases cannot be trusted for one lease.
_CLOCK_STEP: Final = 2.0
_PAUSE_AFTER_ERROR: Final = 1.0


class LeaseKeeper:
    """Registers the worker and keeps its lease. `fence` and the methods `on_…` are called on the heartbeat's thread."""

    def __init__(
        self,
        store: Store,
        state: WorkerState,
        lease: float,
        clock: Clock,
        *,
        runner: JobRunner,
        outcomes: OutcomeQueue,
        register: Callable[[], Awaitable[float]],
        resume: Callable[[], None],
        send: Callable[[Awaitable[None]], object],
        examine: Callable[[], Vitals | None],
        heartbeats: type[Heartbeat],
        on_thread: bool = True,
    ) -> None:
        """`register` returns when it began; `resume` claims again; `send` starts a background task.

        With `on_thread=False` the lease is renewed by `keep` only: no thread can know when a test's clock moves.
        """
        self._store = store
        self._state = state
        self._lease = lease
        self._clock = clock
        self._runner = runner
        self._outcomes = outcomes
        self._register = register
        self._resume = resume
        self._send = send
        self._examine = examine
        self._heartbeats = heartbeats
        self._on_thread = on_thread
        self._loop = asyncio.get_running_loop()
        self.heartbeat = self._new_heartbeat()

    @property
    def steady_for(self) -> float:
        return self.heartbeat.steady_for

    async def begin(self) -> None:
        """Register the worker, and keep its lease from now on."""
        self.heartbeat.start(await self._register(), on_thread=self._on_thread)

    async def keep(self) -> None:
        """Renew the lease if that is due and no thread does it. Errors of the store reach the caller."""
        if not self._on_thread and self.heartbeat.is_due:
            await self.heartbeat.renew()
            # The answer is posted to the loop, as one from a thread is.
            await asyncio.sleep(0)

    async def end(self) -> None:
        """Stop renewing; no heartbeat runs afterwards."""
        self.heartbeat.stop()
        if self._on_thread:
            await asyncio.to_thread(self.heartbeat.join)

    def is_valid(self) -> bool:
        """Return True if the lease is valid; checked before each handler. Otherwise the worker is fenced."""
        if not self._on_thread or self.heartbeat.slack > 0:
            return True
        self.heartbeat.check()
        return False

    def check(self) -> float:
        """Fence the worker if its lease is about to end; return the seconds until the next check."""
        self.heartbeat.check()
        slack = self.heartbeat.slack
        return slack if slack > 0 else self._lease * FENCE_MARGIN

    # -- called on the heartbeat's thread

    def on_renewed(self, owned: list[Owned], asked_at: float) -> None:
        self._post(self._renewed, owned, asked_at)

    def fence(self, why: str) -> None:
        self._post(self._fence, why)

    def on_declared_lost(self, worker_id: str, why: str) -> None:
        self._post(self._restart_identity, worker_id, why)

    def _post(self, call: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *args)
        except RuntimeError:
            # The loop is closed: nothing runs here any more, so the lease must not be renewed.
            self.heartbeat.stop()

    # -- called on the loop

    def _renewed(self, owned: list[Owned], asked_at: float) -> None:
        if self._state.fenced:
            self._state.fenced = False
            self._resume()
        self._runner.reconcile(owned, asked_at)

    def _fence(self, why: str) -> None:
        logger.error("%s: every handler is stopped and its job handed back", why)
        self._state.fenced = True
        self._runner.stop_all("fenced")
        if self.heartbeat.is_stopped and not self._state.leaving:
            # The watchdog declared this loop dead, but it runs again: the next heartbeat says who owns the jobs.
            self.heartbeat = self._new_heartbeat()
            self.heartbeat.start(self._clock.monotonic() - self._lease, on_thread=self._on_thread)

    def _restart_identity(self, worker_id: str, why: str) -> None:
        state = self._state
        if worker_id != state.id:
            # Called twice: a fence between the end of a heartbeat and this call has started another one.
            return
        level = logging.WARNING if state.leaving else logging.ERROR
        logger.log(level, "%s; %s", why, "leaving without them" if state.leaving else "continuing under a new identity")
        state.fenced = True
        self._runner.stop_all("lost")
        self._outcomes.forget()
        if not state.leaving:
            state.id = token()
            self.heartbeat = self._new_heartbeat()
            # In the background, with retries: without it the worker would stay fenced.
            self._send(until_done(self._begin_again))

    async def _begin_again(self) -> None:
        await self.begin()
        if self._on_thread:
            self.heartbeat.beat_now()
        else:
            await self.heartbeat.renew()

    def _new_heartbeat(self) -> Heartbeat:
        return self._heartbeats(self._store, self._state.id, self._lease, self, self._clock, self._examine)


async def until_done(work: Callable[[], Awaitable[None]]) -> None:
    """Retry on every error except a schema mismatch."""
    while True:
        try:
            return await work()
        except SchemaMismatch:
            raise
        except Exception as error:
            logger.error("could not continue yet (%s: %s); trying again", type(error).__name__, error)
            await asyncio.sleep(_PAUSE_AFTER_ERROR)


class LeaseHolder(Protocol):
    """The worker whose lease is renewed. Methods are called on the heartbeat's thread."""

    def on_renewed(self, owned: list[Owned], asked_at: float) -> None:
        """Handle a renewal; `owned` is what the store says runs here, as of some time after `asked_at`."""
        ...

    def fence(self, why: str) -> None:
        """Stop every handler and hand back its job: the lease may have expired."""
        ...

    def on_declared_lost(self, worker_id: str, why: str) -> None:
        """Take a new identity: that worker was declared lost, and its jobs belong to others."""
        ...


class Heartbeat:
    """Renews one row every third of the lease."""

    def __init__(
        self,
        store: Store,
        worker_id: str,
        lease: float,
        holder: LeaseHolder,
        clock: Clock,
        examine: Callable[[], Vitals | None] = lambda: None,
    ) -> None:
        self._store = store
        self._id = worker_id
        self._lease = lease
        self._holder = holder
        self._clock = clock
        self._examine = examine
        self._now = threading.Event()
        # Renewals and fences are reported in the order of their decisions: a check that found the lease expired must
        # not fence the worker after a renewal.
        self._reporting = threading.RLock()
        self._stopped = False
        self._fenced = False
        self._thread: threading.Thread | None = None
        self._renewed_at = clock.monotonic()
        self._steady_since = self._renewed_at
        self._wall = (clock.now(), self._renewed_at)

    @property
    def steady_for(self) -> float:
        """Seconds since the last late renewal: other workers' silence can be measured only over this time."""
        now = self._clock.monotonic()
        return now - self._steady_since if now - self._renewed_at < self._lease else 0.0

    @property
    def slack(self) -> float:
        """Seconds until the worker fences itself, unless the lease is renewed."""
        return self._renewed_at + self._lease * (1 - FENCE_MARGIN) - self._clock.monotonic()

    @property
    def silence(self) -> float:
        """Seconds since the last renewal."""
        return self._clock.monotonic() - self._renewed_at

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    @property
    def is_due(self) -> bool:
        return self.silence >= self._lease / 3

    def start(self, registered_at: float, *, on_thread: bool = True) -> None:
        """Start the heartbeat, first due a third of the lease after `registered_at` (monotonic clock)."""
        now = self._clock.monotonic()
        self._renewed_at = self._steady_since = registered_at
        self._wall = (self._clock.now(), now)
        if on_thread:
            self._spawn(registered_at + self._lease / 3 - now)

    def beat_now(self) -> None:
        """Renew now instead of at the next interval."""
        self._now.set()

    def stop(self) -> None:
        """Stop after the renewal under way. Does not wait for it; `join` does."""
        self._stopped = True
        # A worker that outlives this heartbeat must be fenced again, and then starts another.
        self._fenced = False
        self._now.set()

    def join(self) -> None:
        """Wait until the renewal under way has ended, at most as long as one may take."""
        if self._thread is not None:
            self._thread.join(self._lease / 3)

    def run_once(self) -> bool:
        """Renew the lease once; True if that succeeded."""
        # Measured from before the request: the store's lease cannot end earlier than ours.
        asked_at = self._clock.monotonic()
        try:
            self._watch_clock(asked_at)
            owned = self._store.write(self._renewal(self._examine()))
        except LeaseLost as lost:
            self._lost(lost)
            return False
        except Exception as error:
            self._missed(error)
            return False
        return self._renewed(owned, asked_at)

    async def renew(self) -> None:
        """Renew the lease once, on the loop. Errors of the store reach the caller."""
        asked_at = self._clock.monotonic()
        try:
            owned = await self._store.awrite(self._renewal(None))
        except LeaseLost as lost:
            self._lost(lost)
        else:
            self._renewed(owned, asked_at)

    def _renewal(self, vitals: Vitals | None) -> Op[list[Owned]]:
        return Op(lambda tx: workers.beat(tx, self._id, vitals), patience=self._lease / 3, name="heartbeat")

    def _lost(self, lost: LeaseLost) -> None:
        self.stop()
        self._holder.on_declared_lost(self._id, str(lost))

    def _renewed(self, owned: list[Owned], asked_at: float) -> bool:
        self._store.outage.passed()
        with self._reporting:
            if asked_at - self._renewed_at >= self._lease:
                self._steady_since = asked_at
            self._renewed_at = asked_at
            if self.slack <= 0:
                # The answer took longer than the lease: jobs claimed now would have to be handed back at once.
                self.check()
                return False
            self._fenced = False
            self._holder.on_renewed(owned, asked_at)
        return True

    def serve_once(self) -> float:
        """Renew the lease once; return the seconds until the next renewal."""
        return self._lease / 3 if self.run_once() else min(1.0, self._lease / 10)

    def check(self) -> None:
        """Fence the worker if its lease is about to expire."""
        with self._reporting:
            if self.slack <= 0:
                self._fence(f"no renewal for {self.silence:.1f} s of a lease of {self._lease:g} s")

    def _missed(self, error: Exception) -> None:
        if not self._store.outage.covers("the heartbeat", error):
            logger.error("the lease could not be renewed (%s: %s); trying again", type(error).__name__, error)
        self._steady_since = self._clock.monotonic()
        self.check()

    def _fence(self, why: str) -> None:
        if not self._fenced:
            self._fenced = True
            self._holder.fence(why)

    def _watch_clock(self, monotonic: float) -> None:
        wall, then = self._wall
        self._wall = (self._clock.now(), monotonic)
        drift = (self._wall[0] - wall) / SECOND - (monotonic - then)
        if abs(drift) > _CLOCK_STEP:
            logger.warning("the clock stepped by %.1f s; no job is rescued for one lease", drift)
            self._steady_since = monotonic

    def _spawn(self, pause: float) -> None:
        self._thread = threading.Thread(target=self._serve, args=(pause,), name="holdfast-heartbeat", daemon=True)
        self._thread.start()

    def _serve(self, pause: float) -> None:
        while True:
            self._now.wait(pause)
            self._now.clear()
            if self._stopped:
                return
            pause = self.serve_once()
