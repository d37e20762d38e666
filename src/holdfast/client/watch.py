"""Waits for jobs or flows to end, for any number of callers, with one reader for them all.

A thread lives while somebody waits. It looks once per wake-up for every awaited id, so a thousand waiters cost the
store no more than one.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from ..errors import ResultTimeout, StorageError
from ..names import check_timeout
from ..storage.port import Op, Store

_SHORTEST: Final = 0.002
_LONGEST: Final = 0.5


class Named(Protocol):
    """Whose end is told, by its id."""

    @property
    def id(self) -> str: ...


E = TypeVar("E", bound=Named)


class Watch(Generic[E]):
    """One per app and kind. `look` finds those of some ids that have ended, `require` fails where there is none."""

    def __init__(
        self,
        store: Callable[[], Store],
        kind: str,
        look: Callable[[Sequence[str]], Op[list[E]]],
        require: Callable[[str], Op[Any]],
    ) -> None:
        self._store = store
        self._kind = kind
        self._ended = look
        self._require = require
        self.renew()

    def renew(self) -> None:
        """Begin anew, as a forked child must: its parent's thread does not exist there."""
        self._lock = threading.Lock()
        self._waiting: defaultdict[str, list[Callable[[E], None]]] = defaultdict(list)
        self._thread: threading.Thread | None = None

    def wait(self, job_id: str, timeout: float | None) -> E:
        """Block until it has ended."""
        timeout = check_timeout(timeout)
        if ended := self._look([job_id]):
            return ended[0]
        self._store().read(self._require(job_id))
        done = threading.Event()
        answer: list[E] = []

        def told(end: E) -> None:
            answer.append(end)
            done.set()

        self._add(job_id, told)
        try:
            if not done.wait(timeout if timeout is None else min(timeout, threading.TIMEOUT_MAX)):
                raise self._late(job_id, timeout)
        finally:
            self._remove(job_id, told)
        return answer[0]

    async def await_(self, job_id: str, timeout: float | None) -> E:
        """The awaiting twin of `wait`."""
        timeout = check_timeout(timeout)
        store = self._store()
        if ended := await store.aread(self._ended([job_id])):
            return ended[0]
        await store.aread(self._require(job_id))
        loop = asyncio.get_running_loop()
        future: asyncio.Future[E] = loop.create_future()

        def told(end: E) -> None:
            loop.call_soon_threadsafe(_resolve, future, end)

        self._add(job_id, told)
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            raise self._late(job_id, timeout) from None
        finally:
            self._remove(job_id, told)

    def when_ended(self, job_id: str, told: Callable[[E], None]) -> Callable[[], None]:
        """Have `told` called once, on the watch's thread, when it has ended. What is returned takes that back."""
        self._add(job_id, told)
        return lambda: self._remove(job_id, told)

    def _add(self, job_id: str, told: Callable[[E], None]) -> None:
        with self._lock:
            self._waiting[job_id].append(told)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="holdfast-watch", daemon=True)
                self._thread.start()

    def _remove(self, job_id: str, told: Callable[[E], None]) -> None:
        with self._lock:
            if told in (waiters := self._waiting.get(job_id, [])):
                waiters.remove(told)
            if not waiters:
                self._waiting.pop(job_id, None)

    def _serve(self) -> None:
        listener = self._store().bell.listen(["finished"])
        pause = _SHORTEST
        try:
            while awaited := self._awaited():
                found = self._tell(awaited)
                pause = _SHORTEST if found else min(pause * 2, _LONGEST)
                listener.wait(pause)
        finally:
            listener.close()

    def _awaited(self) -> list[str]:
        with self._lock:
            if not self._waiting:
                # Under the lock: whoever comes next starts a new thread.
                self._thread = None
            return list(self._waiting)

    def _tell(self, awaited: list[str]) -> bool:
        try:
            ended = self._look(awaited)
        except StorageError:
            # The store is away; those who wait have their own timeouts.
            return False
        for end in ended:
            with self._lock:
                waiters = self._waiting.pop(end.id, [])
            for told in waiters:
                told(end)
        return bool(ended)

    def _look(self, ids: list[str]) -> list[E]:
        return self._store().read(self._ended(ids))

    def _late(self, id: str, timeout: float | None) -> ResultTimeout:
        return ResultTimeout(f"{self._kind} {id} has not ended after {timeout:g} s; it goes on, ask again later")


def _resolve(future: asyncio.Future[E], end: E) -> None:
    if not future.done():
        future.set_result(end)
