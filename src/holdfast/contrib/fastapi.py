"""FastAPI: a lifespan, durable background tasks, sessions that enqueues join, and a router that shows jobs to users."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Annotated, Any

from ..app import App
from ..errors import ConfigError, MissingExtra, NotFound
from ..model.jobs import JobRecord

try:
    from fastapi import APIRouter, Depends, HTTPException, Request
    from fastapi.concurrency import contextmanager_in_threadpool, run_in_threadpool
    from fastapi.requests import HTTPConnection
    from fastapi.responses import Response
except ModuleNotFoundError as missing:
    if not MissingExtra.explains(missing, "fastapi"):
        raise
    raise MissingExtra("holdfast.contrib.fastapi", missing, "fastapi") from missing

from ..web.wire.sse import MEDIA
from .background import DurableBackgroundTasks as _DurableBackgroundTasks
from .background import check_app
from .job_status import VIEWERS, Followers, JobStatus, status_of
from .starlette import app_of, dashboard, lifespan, running

__all__ = [
    "CurrentApp",
    "CurrentJob",
    "DurableBackgroundTasks",
    "JobStatus",
    "dashboard",
    "job_router",
    "lifespan",
    "running",
    "transaction",
]


async def _app(connection: HTTPConnection) -> App:
    return app_of(connection)


CurrentApp = Annotated[App, Depends(_app)]
"""The type of a parameter that gets the app of `lifespan`: `async def endpoint(jobs: CurrentApp): …`."""


async def _background_tasks(app: CurrentApp) -> AsyncIterator[_DurableBackgroundTasks]:
    async with _DurableBackgroundTasks(app) as tasks:
        yield tasks


# Scope "function" ends after the endpoint and before its response is sent. An alias, and not a subclass of FastAPI's
# BackgroundTasks: a parameter with that type gets FastAPI's own, whose tasks no crash survives.
DurableBackgroundTasks = Annotated[_DurableBackgroundTasks, Depends(_background_tasks, scope="function")]
"""The type of a parameter, like FastAPI's BackgroundTasks. Its tasks are stored before the response is sent."""


def transaction(app: App, sessions: Callable[[], Any]) -> Any:
    """Make a dependency: a session in a transaction that everything enqueued in the request joins.

    `Session = Annotated[AsyncSession, transaction(app, async_sessionmaker(engine))]`; also for `sessionmaker`, and for
    SQLModel. It commits before the response is sent, and rolls back if the endpoint raises.
    """
    check_app(app)
    is_dependency = inspect.isgeneratorfunction(sessions) or inspect.isasyncgenfunction(sessions)
    if is_dependency or inspect.iscoroutinefunction(sessions) or not callable(sessions):
        raise ConfigError(
            f"transaction(app, …) takes what makes a session, such as sessionmaker(engine), not {sessions!r}; a"
            " dependency of yours that is an async def can write: async with app.within(session): yield session"
        )

    # The tasks are a dependency of the session, so that they end after it, wherever an endpoint names them.
    async def request_transaction(tasks: DurableBackgroundTasks) -> AsyncIterator[Any]:
        session = sessions()
        is_async = hasattr(session, "__aenter__")
        async with _begun(session) if is_async else _begun_in_thread(session), app.within(session):
            yield session
            # An endpoint that has committed by itself has ended the transaction.
            async with app.within(session if session.in_transaction() else None):
                await (tasks.astore() if is_async else run_in_threadpool(tasks.store))

    return Depends(request_transaction, scope="function")


@asynccontextmanager
async def _begun(session: Any) -> AsyncIterator[None]:
    async with session, session.begin():
        yield


def _begun_in_thread(session: Any) -> AbstractAsyncContextManager[None]:
    @contextmanager
    def begun() -> Iterator[None]:
        with session, session.begin():
            yield

    return contextmanager_in_threadpool(begun())


async def _job(job_id: str, app: CurrentApp) -> JobRecord:
    try:
        return await app.jobs.aget(job_id, whole=False)
    except NotFound:
        raise HTTPException(404, "no such job") from None


CurrentJob = Annotated[JobRecord, Depends(_job)]
"""The type of a parameter that gets the job named by the path parameter `job_id`; if there is none, 404."""


def job_router(*, dependencies: Sequence[Any], viewers: int = VIEWERS) -> APIRouter:
    """Return a router that shows jobs to your users: `web.include_router(job_router(dependencies=…), prefix="/jobs")`.

    `/{job_id}` is the status as JSON, `/{job_id}/events` the status and output as server-sent events. `dependencies`
    decide who may see which job; they can take a `CurrentJob`. An empty list shows every job to everyone. At most
    `viewers` streams are open at a time.
    """
    router = APIRouter(dependencies=list(dependencies), tags=["jobs"])
    followers = Followers(viewers)

    @router.get("/{job_id}")
    async def get_job(job: CurrentJob, app: CurrentApp) -> JobStatus:
        """Get a job's status, and its result or error once it has ended."""
        return await status_of(app, job.id)

    @router.get("/{job_id}/events", response_class=Response, responses={200: {"content": {MEDIA: {}}}})
    async def follow_job(job: CurrentJob, app: CurrentApp, request: Request) -> Response:
        """Follow a job: events `status` and `frame` while it runs, and `end` after it."""
        return await followers.follow(app, request, job.id)

    return router
