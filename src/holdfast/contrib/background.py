"""Background tasks of a web request, stored as jobs before the response is sent. For any framework."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from ..app import App
from ..errors import ConfigError
from ..storage.forms import CallForm, forwarded
from ..tasks.task import JobRequest, Task

__all__ = ["DurableBackgroundTasks"]


class DurableBackgroundTasks:
    """Background tasks that are stored as jobs, so that they survive a crash of the server.

    `async with DurableBackgroundTasks(app) as tasks:` (or `with`), then `tasks.add_task(task, …)`. All are stored in
    one transaction when the block ends, and none if it raises. In an `app.within` block that transaction is yours.
    """

    def __init__(self, app: App) -> None:
        self._app = check_app(app)
        self._added: list[JobRequest[Any]] = []
        self._entered = False

    def add_task(self, task: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Add a call of a task of the app, with or without options: `add_task(send.options(delay=60), "ada")`."""
        if not self._entered:
            raise ConfigError(
                "background tasks are stored at the end of a block; write: async with DurableBackgroundTasks(app) as"
                " tasks: …, and in FastAPI annotate a parameter with holdfast.contrib.fastapi.DurableBackgroundTasks"
            )
        self._added.append(self._task(task).job(*args, **kwargs))

    @forwarded
    async def store(self, call: CallForm) -> None:
        """Store now what was added."""
        added, self._added = self._added, []
        if added:
            await call(self._app.enqueue_many, self._app.aenqueue_many, added)

    astore = store.awaiting

    async def __call__(self) -> None:
        """Do nothing: `background=tasks` of a response is allowed, but the tasks were stored before it is sent."""

    def __enter__(self) -> Self:
        self._entered = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._entered = False
        if error is None:
            self.store()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._entered = False
        if error is None:
            await self.astore()

    def _task(self, given: Any) -> Task[Any, Any]:
        if isinstance(given, Task):
            if given.app is not self._app:
                raise ConfigError(f"{given!r} is a task of another app; add it to background tasks of its own app")
            return given
        # A worker finds a function by the name of its task: nothing is imported by what the store says.
        for task in self._app.tasks.values():
            if task.fn is not None and task.fn == given:
                return task
        name = getattr(given, "__name__", repr(given))
        raise ConfigError(
            f"{name} is not a task of this app, so no worker could find it; put @app.task above it, which leaves"
            " direct calls as they are, or register a function of another library with app.task(function)"
        )


def check_app(app: object) -> App:
    """Return the app; ConfigError for anything else, such as a web framework's application."""
    if not isinstance(app, App):
        raise ConfigError(f"a holdfast.App is needed here, not {app!r}")
    return app
