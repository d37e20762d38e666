"""Inventories: names that exist elsewhere, such as models on a server. A task can check them at enqueue.

The names are fetched lazily and cached; a miss fetches once more. While the source cannot be reached, the last names
are kept and everything is accepted: a source that is down must not stop the queue.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from ..clock import SECOND, SYSTEM_CLOCK, Clock
from ..errors import InvalidInput, NotInInventory
from ..names import check_duration, check_name
from ..storage.forms import CallForm, forwarded

logger: Final = logging.getLogger("holdfast")

Fetch: TypeAlias = "Callable[[], Iterable[str] | Awaitable[Iterable[str]]]"
"""Returns the names that exist now; raises if the source cannot be reached."""

_TIMEOUT: Final = 10.0
_SHORTEST_PAUSE: Final = 5.0
_SHOWN: Final = 3


class Inventory:
    """The names that a source offers. Created by `app.inventory`; safe to use from any thread and any event loop."""

    def __init__(
        self,
        name: str,
        fetch: Fetch,
        *,
        every: float | timedelta = 30.0,
        timeout: float | timedelta = _TIMEOUT,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if not callable(fetch):
            raise InvalidInput(f"inventory {name!r} needs a function that returns names, not {fetch!r}")
        self.name = check_name("the inventory's name", name)
        self._fetch = fetch
        self._every = check_duration("every", every) / SECOND
        self._timeout = check_duration("timeout", timeout) / SECOND
        self._clock = clock
        self._lock = threading.Lock()
        self._known: frozenset[str] = frozenset()
        self._asked_at: float | None = None
        self._pending: concurrent.futures.Future[None] | None = None
        self._is_degraded = False
        self._answered_at: int | None = None

    @property
    def last_poll(self) -> datetime | None:
        """Time of the source's last answer to this process; None if there was none."""
        return None if self._answered_at is None else datetime.fromtimestamp(self._answered_at / SECOND, UTC)

    @property
    def degraded(self) -> bool:
        """True if the last fetch failed."""
        return self._is_degraded

    @forwarded
    async def names(self, call: CallForm) -> frozenset[str]:
        """Return the names; fetches them if the last answer is old."""
        if self._is_old():
            await call(self._refresh, self._arefresh)
        return self._known

    anames = names.awaiting

    @forwarded
    async def check(self, call: CallForm, name: str) -> None:
        """Raise NotInInventory if the source does not have the name, even after a new fetch."""
        fresh = self._is_old() and await call(self._refresh, self._arefresh)
        # Another caller's fetch may have started before the name existed: only our own is conclusive.
        while not self._accepts(name):
            if fresh:
                raise self._unknown(name)
            fresh = await call(self._refresh, self._arefresh)

    acheck = check.awaiting

    def _accepts(self, name: str) -> bool:
        return self._is_degraded or name in self._known

    def _is_old(self) -> bool:
        if self._asked_at is None:
            return True
        pause = min(self._every, _SHORTEST_PAUSE) if self._is_degraded else self._every
        return self._clock.monotonic() - self._asked_at >= pause

    def _unknown(self, name: str) -> NotInInventory:
        return NotInInventory(self.name, name, get_close_matches(name, sorted(self._known), n=_SHOWN))

    # -- fetching: one at a time; other callers wait for its answer

    def _refresh(self) -> bool:
        """Fetch, or wait for the fetch under way; True if the answer is from our own fetch."""
        pending, is_ours = self._join_fetch()
        if not is_ours:
            concurrent.futures.wait([pending], self._timeout)
            return self._waited(pending)
        try:
            self._settle(pending, self._answer_blocking())
        except BaseException as error:
            self._settle(pending, error)
            if not isinstance(error, Exception):
                raise
        return True

    async def _arefresh(self) -> bool:
        pending, is_ours = self._join_fetch()
        if not is_ours:
            await asyncio.wait([asyncio.wrap_future(pending)], timeout=self._timeout)
            return self._waited(pending)
        try:
            async with asyncio.timeout(self._timeout):
                self._settle(pending, await self._answer())
        except BaseException as error:
            self._settle(pending, error)
            if not isinstance(error, Exception):
                raise
        return True

    def _waited(self, pending: concurrent.futures.Future[None]) -> bool:
        if not pending.done():
            self._fail(TimeoutError(f"no answer within {self._timeout:g} s"))
        return False

    def _join_fetch(self) -> tuple[concurrent.futures.Future[None], bool]:
        with self._lock:
            if self._pending is not None:
                return self._pending, False
            self._pending = concurrent.futures.Future()
            return self._pending, True

    def _settle(self, pending: concurrent.futures.Future[None], answer: Iterable[str] | BaseException) -> None:
        with self._lock:
            self._pending = None
            if isinstance(answer, Exception) or not isinstance(answer, BaseException):
                self._asked_at = self._clock.monotonic()
            if isinstance(answer, BaseException):
                self._fail(answer)
            else:
                self._learn(answer)
        pending.set_result(None)

    def _learn(self, names: Iterable[str]) -> None:
        if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
            self._fail(TypeError(f"it returned {type(names).__qualname__}, not a list of names"))
            return
        self._known = frozenset(str(name) for name in names)
        self._answered_at = self._clock.now()
        if self._is_degraded:
            self._is_degraded = False
            logger.info("inventory %r can be reached again; it has %d names", self.name, len(self._known))

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, Exception):
            return  # the caller was interrupted, which says nothing about the source
        if not self._is_degraded:
            kept = f"the {len(self._known)} names known last are kept, and everything is accepted"
            logger.warning("inventory %r cannot be reached (%s: %s); %s", self.name, type(error).__name__, error, kept)
        self._is_degraded = True

    def _answer_blocking(self) -> Any:
        """Fetch on a thread, so that a hanging source blocks its caller only for the timeout; async ones on a loop."""
        box: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def run() -> None:
            try:
                found = self._fetch()
                box.set_result(asyncio.run(_awaited(found)) if inspect.isawaitable(found) else _listed(found))
            except BaseException as error:
                box.set_exception(error)

        threading.Thread(target=run, name=f"holdfast-inventory-{self.name}", daemon=True).start()
        return box.result(self._timeout)

    async def _answer(self) -> Any:
        if inspect.iscoroutinefunction(self._fetch):
            return _listed(await self._fetch())
        found = await asyncio.to_thread(self._fetch)
        return _listed(await found if inspect.isawaitable(found) else found)


async def _awaited(found: Awaitable[Any]) -> Any:
    return _listed(await found)


def _listed(names: Any) -> Any:
    """Read the names completely: an iterator that reads pages may fail halfway."""
    return names if isinstance(names, (str, bytes)) or not isinstance(names, Iterable) else list(names)
