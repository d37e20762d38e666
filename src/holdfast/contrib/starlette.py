"""Starlette: a lifespan that opens the app and runs a worker, and routes that show a job to your users.

`holdfast.contrib.fastapi` has the same for FastAPI.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import msgspec

from ..app import App
from ..errors import ConfigError, HoldfastError, NotFound
from ..model.jobs import JobRecord
from ..web import asgi as dashboard
from ..web.wire.failures import error_response, refusal_of
from .asgi import STATE, WorkerWanted, opened, running, working
from .background import DurableBackgroundTasks, check_app
from .job_status import VIEWERS, Followers, JobStatus, status_of

from starlette.requests import HTTPConnection, Request  # isort: skip
from starlette.responses import Response  # isort: skip
from starlette.routing import Route  # isort: skip

__all__ = ["DurableBackgroundTasks", "JobStatus", "app_of", "dashboard", "job_routes", "lifespan", "running"]

Lifespan: TypeAlias = "Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any]]]"
InnerLifespan: TypeAlias = "Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any] | None]]"
MayRead: TypeAlias = "Callable[[Request, JobRecord], bool | Awaitable[bool]]"


def lifespan(
    app: App, *, migrate: bool = False, worker: WorkerWanted = False, inner: InnerLifespan | None = None
) -> Lifespan:
    """Return a lifespan for `Starlette(lifespan=…)` or `FastAPI(lifespan=…)`, with the settings of `running`.

    `inner` is your own lifespan. It runs while the store is open, and the worker runs while yours is open, so that
    tasks find what it sets up. Requests get the app as `request.state.holdfast`.
    """
    check_app(app)
    if inner is not None and (inspect.isasyncgenfunction(inner) or hasattr(inner, "__aenter__")):
        raise ConfigError(
            f"inner is {inner!r}; put @asynccontextmanager above the function, and pass it without calling it"
        )

    @asynccontextmanager
    async def live(web: Any) -> AsyncIterator[Mapping[str, Any]]:
        async with opened(app, migrate=migrate), _inner(inner, web) as state, working(app, worker):
            yield {**(state or {}), STATE: app}

    return live


@asynccontextmanager
async def _inner(inner: InnerLifespan | None, web: Any) -> AsyncIterator[Mapping[str, Any] | None]:
    if inner is None:
        yield None
        return
    async with inner(web) as state:
        yield state


def app_of(connection: HTTPConnection) -> App:
    """Return the app of the lifespan in which this request is served."""
    app = getattr(connection.state, STATE, None)
    if not isinstance(app, App):
        raise ConfigError(
            "this request has no Holdfast app; create the application with lifespan=lifespan(app), and in tests enter"
            " the client: with TestClient(web) as client: …"
        )
    return app


def job_routes(app: App, *, may_read: MayRead | None, viewers: int = VIEWERS) -> list[Route]:
    """Return routes that show jobs to your users: `Mount("/jobs", routes=job_routes(app, may_read=…))`.

    `/{job_id}` is the status as JSON, `/{job_id}/events` the status and output as server-sent events. `may_read`, a
    `def` or an `async def`, decides whether a request may see a job; if not, there is none (404). None as `may_read`
    shows every job to everyone. At most `viewers` streams are open at a time.
    """
    check_app(app)
    followers = Followers(viewers)

    async def get_job(request: Request) -> Response:
        status = await status_of(app, await _permitted(app, request, may_read))
        return Response(msgspec.json.encode(status), media_type="application/json")

    async def follow_job(request: Request) -> Response:
        return await followers.follow(app, request, await _permitted(app, request, may_read))

    return [Route("/{job_id}", _answering(get_job)), Route("/{job_id}/events", _answering(follow_job))]


async def _permitted(app: App, request: Request, may_read: MayRead | None) -> str:
    job_id: str = request.path_params["job_id"]
    job = await app.jobs.aget(job_id, whole=False)
    allowed = may_read is None or may_read(request, job)
    if not (await allowed if inspect.isawaitable(allowed) else allowed):
        raise NotFound("job", job_id)
    return job.id


def _answering(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Turn Holdfast's errors into responses."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except HoldfastError as error:
            return error_response(refusal_of(error))

    return answer
