"""Wake-ups: within the process at once, from other processes through a watch on the notices and, for a while, the log.

Commits on connections of others carry no topic, so they wake all listeners.
"""

from __future__ import annotations

from collections.abc import Collection

from ..forking import renew_after_fork
from ..listeners import Listener, Listeners
from .notices import slot_of
from .watch import Watch


class SqliteBell:
    """The process's listeners. The watch checks for commits of others while one of them waits."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._ears = Listeners()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        self._ears.renew()

    @property
    def heard(self) -> bool:
        """Return whether there are listeners."""
        return bool(self._ears)

    def listen(self, topics: Collection[str]) -> WatchfulEar:
        return WatchfulEar(self._ears.listen(topics), self._watch)

    def ring(self, topics: Collection[str]) -> None:
        self._ears.ring(topics)

    def ring_slots(self, slots: Collection[int]) -> None:
        """Wake the listeners of topics that other processes notified."""
        self._ears.ring_if(lambda topic: slot_of(topic) in slots)

    def ring_all(self) -> None:
        self._ears.ring_all()


class WatchfulEar:
    """A listener that keeps the watch active while it waits."""

    def __init__(self, ear: Listener, watch: Watch) -> None:
        self._ear = ear
        self._watch = watch

    def wait(self, timeout: float) -> bool:
        with self._watch.attended():
            return self._ear.wait(timeout)

    async def await_ring(self, timeout: float) -> bool:
        with self._watch.attended():
            return await self._ear.await_ring(timeout)

    def ring(self) -> None:
        self._ear.ring()

    def close(self) -> None:
        self._ear.close()
