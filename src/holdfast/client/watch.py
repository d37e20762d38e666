"""Wait for jobs or flows to end, for any number of callers, with one reader for all of them.

A thread runs while there are waiters. It checks all awaited ids once per wake-up, so a thousand waiters cost the store
no more than one. Now and then it checks which of them still exist: waiters for a deleted one get NotFound.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from ..errors import HoldfastError, NotFound, ResultTimeout, StorageError
from ..names import check_timeout
from ..rules.routing import Reason
from ..storage.daemons import start_daemon
from ..storage.forking import renew_after_fork
from ..storage.port import Listener, Op, Store
from ..telemetry import current_job, refuse_on_event_loop, refuse_wait_in_task
from .calls import composed
from .lines import Line

logger: Final = logging.getLogger("holdfast")

_SHORTEST: Final = 0.002
_LONGEST: Final = 0.5
_BETWEEN_ROLLS: Final = 1.0
PATIENCE: Final = 5.0
"""Seconds after which the reason why a job has not ended is logged."""
_AWAITED: Final = " (await job waits for its result; await task.aenqueue(…) only enqueues)"
_EXPECTED: Final = frozenset({"running", "claimable", "due_later"})


class Named(Protocol):
    """An object whose end is reported by its id."""

    @property
    def id(self) -> str: ...


E = TypeVar("E", bound=Named)
Callback: TypeAlias = Callable[[E | NotFound], None]
"""Called with the end, or with NotFound if it was deleted."""


class Watch(Generic[E]):
    """Waits of one app for one kind of object.

    `look` finds those of some ids that have ended, `roll` those that exist, `require` raises if one does not exist, and
    `why` says why one has not ended.
    """

    def __init__(
        self,
        store: Callable[[], Store],
        kind: str,
        look: Callable[[Sequence[str]], Op[list[E]]],
        roll: Callable[[Sequence[str]], Op[set[str]]],
        require: Callable[[str], Op[Any]],
        why: Callable[[str], Op[Reason]] | None = None,
    ) -> None:
        self._store = store
        self._kind = kind
        self._ended = look
        self._existing = roll
        self._require = require
        self._why = why
        self.renew()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Start empty in a forked child, which does not have its parent's thread."""
        self._lock = threading.Lock()
        self._waiting: defaultdict[str, list[Callback[E]]] = defaultdict(list)
        self._thread: threading.Thread | None = None

    def wait(self, job_id: str, timeout: float | None) -> E:
        """Block until it has ended."""
        timeout = check_timeout(timeout)
        if timeout != 0:
            refuse_wait_in_task(self._kind, self._store())
            refuse_on_event_loop(
                f"a blocking wait for a {self._kind}", f"await {self._kind}.aresult() or await {self._kind}.await_()"
            )
        if ended := self._look([job_id]):
            return ended[0]
        self._store().read(self._require(job_id))
        done = threading.Event()
        answer: list[E | NotFound] = []

        def callback(end: E | NotFound) -> None:
            answer.append(end)
            done.set()

        self._add(job_id, callback)
        try:
            if not self._wait(done, job_id, timeout):
                raise self._late(timeout, job_id, self._reason(job_id))
        finally:
            self._remove(job_id, callback)
        return _given(answer[0])

    def _wait(self, done: threading.Event, job_id: str, timeout: float | None) -> bool:
        """Wait, and log after a while why it has not ended."""
        if timeout is None or timeout > PATIENCE:
            if done.wait(PATIENCE):
                return True
            self.warn(job_id)
            timeout = timeout if timeout is None else min(timeout - PATIENCE, threading.TIMEOUT_MAX)
        return done.wait(timeout)

    async def await_(self, job_id: str, timeout: float | None) -> E:
        """The async version of `wait`."""
        timeout = check_timeout(timeout)
        store = self._store()
        if timeout != 0:
            refuse_wait_in_task(self._kind, store)
        if ended := await store.aread(self._ended([job_id])):
            return ended[0]
        await store.aread(self._require(job_id))
        loop = asyncio.get_running_loop()
        future: asyncio.Future[E | NotFound] = loop.create_future()

        def callback(end: E | NotFound) -> None:
            loop.call_soon_threadsafe(_resolve, future, end)

        self._add(job_id, callback)
        try:
            async with asyncio.timeout(timeout):
                await asyncio.wait([future], timeout=PATIENCE)
                if not future.done():
                    await self.awarn(job_id, _AWAITED if self._kind == "job" else "")
                return _given(await future)
        except TimeoutError:
            raise self._late(timeout, job_id, await self._areason(job_id)) from None
        finally:
            self._remove(job_id, callback)

    def when_ended(self, job_id: str, callback: Callback[E]) -> Callable[[], None]:
        """Call `callback` once, on the watch's thread, when the job has ended or was deleted.

        The returned function cancels that.
        """
        self._add(job_id, callback)
        return lambda: self._remove(job_id, callback)

    def _add(self, job_id: str, callback: Callback[E]) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = start_daemon("holdfast-watch", self._serve)
            self._waiting[job_id].append(callback)

    def _remove(self, job_id: str, callback: Callback[E]) -> None:
        with self._lock:
            if callback in (waiters := self._waiting.get(job_id, [])):
                waiters.remove(callback)
            if not waiters:
                self._waiting.pop(job_id, None)

    # -- on the thread

    def _serve(self) -> None:
        try:
            while self._awaited():
                self._attend()
        finally:
            self._hand_over()

    def _attend(self) -> None:
        """Serve the waiters, until there are none or an error occurs."""
        try:
            listener = self._store().wakeups.listen(["finished"])
            try:
                self._look_out(listener)
            finally:
                listener.close()
        except Exception as error:
            # The waiters have their own timeouts, and the store may be back soon.
            level = logging.DEBUG if isinstance(error, StorageError) else logging.ERROR
            logger.log(level, "cannot check for now whether a %s has ended", self._kind, exc_info=error)
            time.sleep(_LONGEST)

    def _look_out(self, listener: Listener) -> None:
        pause, rolled = _SHORTEST, time.monotonic()
        while awaited := self._awaited():
            found = self._tell(awaited)
            if time.monotonic() - rolled >= _BETWEEN_ROLLS:
                self._call_the_roll()
                rolled = time.monotonic()
            pause = _SHORTEST if found else min(pause * 2, _LONGEST)
            listener.wait(pause)

    def _awaited(self) -> list[str]:
        with self._lock:
            if self._thread is not threading.current_thread():
                # Replaced after a fork: the waiters have another thread.
                return []
            if not self._waiting:
                # Under the lock: the next waiter starts a new thread.
                self._thread = None
            return list(self._waiting)

    def _hand_over(self) -> None:
        """Start another thread, if there are waiters when this one ends."""
        with self._lock:
            if self._thread is threading.current_thread():
                self._thread = None
                if self._waiting:
                    self._thread = start_daemon("holdfast-watch", self._serve)

    def _tell(self, awaited: list[str]) -> bool:
        ended = self._look(awaited)
        for end in ended:
            self._pass_on(end.id, end)
        return bool(ended)

    def _call_the_roll(self) -> None:
        if not (awaited := self._awaited()):
            return
        there = self._store().read(self._existing(awaited))
        for id in awaited:
            if id in there:
                continue
            try:
                self._store().read(self._require(id))
            except NotFound as gone:
                self._pass_on(id, gone.with_traceback(None))

    def _pass_on(self, id: str, end: E | NotFound) -> None:
        with self._lock:
            waiters = self._waiting.pop(id, [])
        for callback in waiters:
            try:
                callback(end)
            except Exception:
                # Such as a loop that was closed during the wait. The other waiters are not affected.
                logger.debug("a waiter for %s %s could not be notified", self._kind, id, exc_info=True)

    def _look(self, ids: list[str]) -> list[E]:
        return self._store().read(self._ended(ids))

    @composed
    async def _reason(self, line: Line, id: str) -> Reason | None:
        if self._why is None:
            return None
        try:
            return await line.read(self._why(id))
        except HoldfastError:
            return None  # It was just deleted, or the store is unavailable: the wait itself reports that.

    _areason = _reason.awaiting

    @composed
    async def warn(self, line: Line, id: str, hint: str = "") -> None:
        """Log why one has not ended after a while, unless that is expected."""
        reason = await line.call(self._reason, self._areason, id)
        # A waiting task may itself occupy the slot that the other one needs.
        if reason and (reason.code not in _EXPECTED or (reason.code == "claimable" and current_job())):
            logger.warning("%s %s has not ended after %g s: %s%s", self._kind, id, PATIENCE, reason.text, hint)

    awarn = warn.awaiting

    def _late(self, timeout: float | None, id: str, reason: Reason | None) -> ResultTimeout:
        text = f"{self._kind} {id} has not ended after {timeout:g} s; it is still pending and was not cancelled"
        return ResultTimeout(f"{text}: {reason.text}" if reason else text)


def _resolve(future: asyncio.Future[E | NotFound], end: E | NotFound) -> None:
    if not future.done():
        future.set_result(end)


def _given(end: E | NotFound) -> E:
    if isinstance(end, NotFound):
        raise end
    return end
