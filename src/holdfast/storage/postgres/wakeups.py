"""Wake-ups: at once inside this process, and by NOTIFY to the others.

A wake-up is a hint. Everything works without it, only later, because waiters also poll; so a failure here is no error.
NOTIFY is sent after the commit it announces and never inside it: a transaction with a pending NOTIFY holds a lock
of the whole database while it commits.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ..listeners import Listener, Listeners
from .connect import Address
from .deadlines import Deadlines
from .listen import ListenThread
from .notify import NotifyThread

CHANNEL: Final = "holdfast"


class PgWakeups:
    """Wake-ups for one store. Threads start with the first listener or wake-up, and end with `close`."""

    def __init__(self, address: Address, listen_address: Address, *, notify: bool, deadlines: Deadlines) -> None:
        self._address = address
        self._listen_address = listen_address
        self._notify = notify
        self._deadlines = deadlines
        self._listeners = Listeners()
        self.renew()

    def renew(self) -> None:
        """Create new threads for a forked child, which has none of its parent's."""
        self._listeners.renew()
        self._notifier = self._listener = None
        if self._notify:
            self._notifier = NotifyThread(self._address, CHANNEL, self._deadlines)
            self._listener = ListenThread(self._listen_address, CHANNEL, self._on_notify, self._deadlines)

    def listen(self, topics: Collection[str]) -> Listener:
        listener = self._listeners.listen(topics)
        if self._listener is not None:
            self._listener.ensure_running()
        return listener

    def notify(self, topics: Collection[str]) -> None:
        self._listeners.notify(topics)

    def relax(self, seconds: float) -> None:
        if self._listener is not None:
            self._listener.relax(seconds)

    def announce(self, topics: Collection[str]) -> None:
        """Wake the listeners of this process now, and those of others by the next NOTIFY."""
        self._listeners.notify(topics)
        if self._notifier is not None:
            self._notifier.send(topics)

    def flush(self, timeout: float) -> None:
        """Wait until all announced topics are sent."""
        if self._notifier is not None:
            self._notifier.flush(timeout)

    def close(self) -> None:
        if self._notifier is not None:
            self._notifier.close()
        if self._listener is not None:
            self._listener.close()

    def threads(self) -> object:
        """Return what a forked child must not touch."""
        return self._notifier, self._listener

    def _on_notify(self, payload: str | None, sender: int) -> None:
        if payload is None:
            self._listeners.notify_all()
        elif self._notifier is None or sender != self._notifier.backend_pid:
            # Topics that this process sent itself have woken its listeners already.
            self._listeners.notify(payload.split("\n"))
