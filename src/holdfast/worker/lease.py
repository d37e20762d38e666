"""Renews the worker's lease on a thread of its own, so that no handler can block it.

Each heartbeat also reads which jobs this worker has according to the store. A worker that could not renew in time, by
its own monotonic clock, fences itself before the lease ends.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, Protocol

from ..clock import SECOND, Clock
from ..errors import LeaseLost
from ..model.stats import Vitals
from ..model.workers import Owned
from ..storage.ops.workers import workers
from ..storage.port import Op, Store

logger: Final = logging.getLogger("holdfast.worker")

# After a step of the wall clock by more than this, stored leases cannot be trusted for one lease.
_CLOCK_STEP: Final = 2.0
# Fractions of the lease: how long before its end the worker fences itself, and how much of that handlers get to stop.
FENCE_MARGIN: Final = 1 / 6
FENCE_GRACE: Final = 1 / 8


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
    def is_stopped(self) -> bool:
        return self._stopped

    def start(self, registered_at: float) -> None:
        """Start the heartbeat, first due a third of the lease after `registered_at` (monotonic clock)."""
        now = self._clock.monotonic()
        self._renewed_at = self._steady_since = registered_at
        self._wall = (self._clock.now(), now)
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
            vitals = self._examine()
            beat = Op(lambda tx: workers.beat(tx, self._id, vitals), patience=self._lease / 3, name="heartbeat")
            owned = self._store.write(beat)
        except LeaseLost as lost:
            self.stop()
            self._holder.on_declared_lost(self._id, str(lost))
            return False
        except Exception as error:
            self._missed(error)
            return False
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
                silent = self._clock.monotonic() - self._renewed_at
                self._fence(f"no renewal for {silent:.1f} s of a lease of {self._lease:g} s")

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
            logger.warning("the clock stepped by %.1f s; nobody is rescued for one lease", drift)
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
