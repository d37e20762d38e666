"""Write the frames of all runs of this process to the store, on one thread that lives while a stream is open.

Everything that is due is written in one commit, for any number of runs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from ..errors import HoldfastError
from ..model.streams import Appended, Batch
from ..storage.forking import renew_after_fork
from ..storage.ops import streams
from ..storage.port import Op, Store
from ..tasks.context import JobInfo, Stop
from .outlet import Outlet

logger: Final = logging.getLogger("holdfast.streams")


class FrameWriter:
    """Writes the frames of one app's runs."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self.renew_after_fork()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        """Start empty in a forked child, which has neither the parent's runs nor its thread."""
        # Re-entrant: a finaliser may print while its thread holds the lock, and the output may be captured.
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._outlets: dict[Outlet, None] = {}
        self._thread: threading.Thread | None = None

    def open(self, info: JobInfo, stop: Stop) -> Outlet:
        return Outlet(self, info, stop)

    # -- called under the lock

    def wake(self) -> None:
        """Wake the thread, or start it: there is something to store."""
        self._changed.notify_all()

    def enlist(self, outlet: Outlet) -> None:
        self._outlets[outlet] = None
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="holdfast-streams", daemon=True)
            self._thread.start()

    def forget(self, outlet: Outlet) -> None:
        self._outlets.pop(outlet, None)
        self._changed.notify_all()

    # -- the thread

    def _serve(self) -> None:
        try:
            self._work()
        except BaseException as error:
            # No caller may wait forever for a thread that has ended.
            logger.exception("the streams of this process failed")
            with self.lock:
                self._thread = None
                for outlet in list(self._outlets):
                    outlet.fail(HoldfastError(f"the stream failed: {error!r}"))

    def _work(self) -> None:
        while taken := self._take():
            outlets = list(taken)
            answers = self._write(list(taken.values()))
            with self.lock:
                now = time.monotonic()
                for outlet, answer in zip(outlets, answers, strict=True):
                    if answer is None:
                        outlet.postpone(now)
                    else:
                        outlet.settle(answer)

    def _take(self) -> dict[Outlet, Batch]:
        """Wait until batches are due and return them; return nothing when the thread may end."""
        with self.lock:
            while self._outlets:
                now = time.monotonic()
                times = {outlet: due for outlet in self._outlets if (due := outlet.due()) is not None}
                if taken := {outlet: outlet.take(now) for outlet, due in times.items() if due <= now}:
                    return taken
                self._changed.wait(min(times.values()) - now if times else None)
            self._thread = None
            return {}

    def _write(self, batches: Sequence[Batch]) -> list[Appended | HoldfastError | None]:
        """Return one result for each batch; None if it is to be tried again."""
        try:
            store = self._store()
            answers = store.write(_append(batches))
            store.outage.passed()
            return [*answers]
        except Exception as error:
            if isinstance(error, HoldfastError) and error.retryable:
                if not self._store().outage.covers("the streams of jobs", error):
                    logger.warning("the frames of %d jobs are not stored yet (%s); retrying", len(batches), error)
                return [None] * len(batches)
            if len(batches) > 1:
                # One batch caused the error, and only that one shall fail.
                return [answer for batch in batches for answer in self._write([batch])]
            logger.exception("the frames of job %s cannot be stored", batches[0].job_id)
            return [error if isinstance(error, HoldfastError) else HoldfastError(f"the stream failed: {error!r}")]


def _append(batches: Sequence[Batch]) -> Op[list[Appended | HoldfastError]]:
    may_lose_on_power_failure = not any(
        batch.stages or not all(draft.best_effort for draft in batch.drafts) for batch in batches
    )
    return Op(lambda tx: streams.append(tx, batches), may_lose_on_power_failure=may_lose_on_power_failure)
