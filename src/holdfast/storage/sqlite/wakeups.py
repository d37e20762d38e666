"""Wake-ups: within the process at once, from other processes through a watch on the notices and, for a while, the log.

Commits on connections of others carry no topic, so they wake all listeners.
"""

from __future__ import annotations

from collections.abc import Collection

from ..forking import renew_after_fork
from ..listeners import Listener, Listeners
from .notices import slot_of
from .watch import Watch


class SqliteWakeups:
    """The process's listeners. The watch checks for commits of others while one of them waits."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._listeners = Listeners()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        self._listeners.renew()

    @property
    def has_listeners(self) -> bool:
        """Return whether there are listeners."""
        return bool(self._listeners)

    def listen(self, topics: Collection[str]) -> WatchingListener:
        return WatchingListener(self._listeners.listen(topics), self._watch)

    def relax(self, seconds: float) -> None:
        """Do nothing: other processes are noticed without a statement."""

    def notify(self, topics: Collection[str]) -> None:
        self._listeners.notify(topics)

    def notify_slots(self, slots: Collection[int]) -> None:
        """Wake the listeners of topics that other processes notified."""
        self._listeners.notify_if(lambda topic: slot_of(topic) in slots)

    def notify_all(self) -> None:
        self._listeners.notify_all()


class WatchingListener:
    """A listener that keeps the watch active while it waits."""

    def __init__(self, listener: Listener, watch: Watch) -> None:
        self._listener = listener
        self._watch = watch

    def wait(self, timeout: float) -> bool:
        with self._watch.attended():
            return self._listener.wait(timeout)

    async def await_ring(self, timeout: float) -> bool:
        with self._watch.attended():
            return await self._listener.await_ring(timeout)

    def notify(self) -> None:
        self._listener.notify()

    def close(self) -> None:
        self._listener.close()
