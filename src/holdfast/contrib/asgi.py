"""Any ASGI application: `WithHoldfast(application, app)` opens the app, and runs a worker, while the server runs.

`running` does the same for a block.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeAlias

from ..app import App
from ..errors import ConfigError
from .background import DurableBackgroundTasks, check_app

__all__ = ["DurableBackgroundTasks", "WithHoldfast", "running"]

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
WorkerWanted: TypeAlias = "bool | Mapping[str, Any]"

STATE: Final = "holdfast"
"""The key of the app in the state of the server's lifespan, which each request gets."""
logger: Final = logging.getLogger("holdfast")


@asynccontextmanager
async def running(app: App, *, migrate: bool = False, worker: WorkerWanted = False) -> AsyncIterator[App]:
    """Open the app's store for a block: `async with running(app, migrate=True, worker=True):`.

    `migrate` first brings the schema up to date. `worker` runs a worker on this event loop; its settings, such as
    `{"concurrency": 10}`, may be given instead of True.
    """
    async with opened(app, migrate=migrate), working(app, worker):
        yield app


@asynccontextmanager
async def opened(app: App, *, migrate: bool) -> AsyncIterator[None]:
    """Open the store, and close it at the end."""
    check_app(app)
    await asyncio.to_thread(app.migrate if migrate else app.open)
    try:
        yield
    finally:
        await asyncio.to_thread(app.close)


@asynccontextmanager
async def working(app: App, worker: WorkerWanted) -> AsyncIterator[None]:
    """Run a worker, if wanted."""
    if not isinstance(worker, bool | Mapping):
        raise ConfigError(f"worker is {worker!r}; give True, or settings such as worker={{'concurrency': 10}}")
    if worker is False:
        yield
        return
    async with app.worker(**({} if worker is True else worker)):
        yield


class WithHoldfast:
    """An ASGI application around another one, with the same settings as `running`.

    The store is open from before the inner application's startup until after its shutdown, the worker from after its
    startup until before its shutdown. The inner application need not support the lifespan protocol.
    """

    def __init__(
        self, application: Application, app: App, *, migrate: bool = False, worker: WorkerWanted = False
    ) -> None:
        self._inner = application
        self._app = check_app(app)
        self._migrate = migrate
        self._worker = worker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        else:
            await self._inner({**scope, "state": {**scope.get("state", {}), STATE: self._app}}, receive, send)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _Lifespan(self._app, receive, send).run(self._inner, scope, migrate=self._migrate, worker=self._worker)


class _Lifespan:
    """One run of the lifespan protocol: passes its messages on, and opens and closes between them."""

    def __init__(self, app: App, receive: Receive, send: Send) -> None:
        self._app = app
        self._receive = receive
        self._send = send
        self._wanted: WorkerWanted = False
        self._working = AsyncExitStack()
        self._started = self._stopped = self._broken = False
        self._last: Message | None = None
        """The inner application's last message, held back until the store is closed."""

    async def run(self, inner: Application, scope: Scope, *, migrate: bool, worker: WorkerWanted) -> None:
        self._wanted = worker
        first = await self._receive()
        try:
            async with opened(self._app, migrate=migrate), self._working:
                await self._call(inner, scope, first)
                if self._last is None:
                    await self._start()
                    await self._stop()
        except Exception as error:
            kind = "shutdown" if self._started else "startup"
            failed = {"type": f"lifespan.{kind}.failed", "message": f"{type(error).__name__}: {error}"}
            self._last = self._last or failed
        await self._send(self._last or {"type": "lifespan.shutdown.complete"})

    async def _call(self, inner: Application, scope: Scope, first: Message) -> None:
        waiting = [first]

        async def receive() -> Message:
            return waiting.pop() if waiting else await self._stop()

        async def send(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                await self._start()
            else:
                self._last = message

        try:
            await inner(scope, receive, send)
        except Exception as error:
            if self._started or self._broken or self._last is not None:
                raise
            # As servers do: no startup message means that the application does not know the protocol.
            logger.info("the application does not support lifespans (%s: %s)", type(error).__name__, error)

    async def _start(self) -> None:
        """Start the worker and report the startup, once."""
        if self._started:
            return
        try:
            await self._working.enter_async_context(working(self._app, self._wanted))
        except Exception:
            self._broken = True
            raise
        self._started = True
        await self._send({"type": "lifespan.startup.complete"})

    async def _stop(self) -> Message:
        """Wait for the shutdown and stop the worker, once."""
        if not self._stopped:
            await self._receive()
            self._stopped = True
            await self._working.aclose()
        return {"type": "lifespan.shutdown"}
