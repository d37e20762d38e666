"""The wrapper around any ASGI application: what the server and the inner application get to see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

import holdfast
from holdfast.contrib.asgi import WithHoldfast, running
from holdfast.errors import ConfigError
from tests.patience import SOON

Served = Callable[[list[str]], Awaitable[None]]


def live(web: Any, during: Callable[[], Awaitable[None]] | None = None) -> list[str]:
    """Start and stop an application as a server does; what it said, in order."""

    async def serve() -> list[str]:
        inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        said: list[str] = []
        started = asyncio.Event()

        async def send(message: dict[str, Any]) -> None:
            said.append(": ".join([message["type"].removeprefix("lifespan."), *filter(None, [message.get("message")])]))
            started.set()

        inbox.put_nowait({"type": "lifespan.startup"})
        living = asyncio.create_task(web({"type": "lifespan", "state": {}}, inbox.get, send))
        await started.wait()
        if during is not None:
            await during()
        inbox.put_nowait({"type": "lifespan.shutdown"})
        await living
        return said

    return asyncio.run(asyncio.wait_for(serve(), 2 * SOON))


async def unaware(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http"


async def returning(scope: Any, receive: Any, send: Any) -> None: ...


async def hasty(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})


@pytest.mark.parametrize("inner", [unaware, returning, hasty, Starlette()])
def test_the_worker_runs_from_startup_to_shutdown_whatever_the_application_supports(
    app: holdfast.App, inner: Any
) -> None:
    @app.task
    def work() -> int:
        return 7

    async def during() -> None:
        job = await work.aenqueue()
        assert await job.aresult(SOON) == 7

    assert live(WithHoldfast(inner, app, worker=True), during) == ["startup.complete", "shutdown.complete"]
    assert app.workers.list() == []


def test_the_lifespan_of_the_application_surrounds_the_worker(app: holdfast.App) -> None:
    workers: list[int] = []

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, str]]:
        workers.append(len(await app.workers.alist()))
        yield {"mine": "too"}
        workers.append(len(await app.workers.alist()))

    async def index(request: Request) -> JSONResponse:
        workers.append(len(await app.workers.alist()))
        return JSONResponse([request.state.mine, request.state.holdfast is app])

    inner = Starlette(lifespan=lifespan, routes=[Route("/", index)])
    with TestClient(WithHoldfast(inner, app, migrate=True, worker=True)) as client:
        assert client.get("/").json() == ["too", True]
    assert workers == [0, 1, 0]


@asynccontextmanager
async def broken(_: Starlette) -> AsyncIterator[None]:
    raise LookupError("no cache")
    yield


@asynccontextmanager
async def broken_at_the_end(_: Starlette) -> AsyncIterator[None]:
    yield
    raise LookupError("no cache")


def test_the_failures_of_the_application_reach_the_server(app: holdfast.App) -> None:
    (failed,) = live(WithHoldfast(Starlette(lifespan=broken), app, worker=True))
    assert failed.startswith("startup.failed")
    assert "no cache" in failed
    started, failed = live(WithHoldfast(Starlette(lifespan=broken_at_the_end), app, worker=True))
    assert (started, failed.partition(":")[0]) == ("startup.complete", "shutdown.failed")


@pytest.mark.parametrize("inner", [unaware, Starlette()])
def test_a_store_that_cannot_be_opened_fails_the_startup_with_the_reason(tmp_path: Path, inner: Any) -> None:
    app = holdfast.App(str(tmp_path))
    (failed,) = live(WithHoldfast(inner, app, migrate=True))
    assert failed.startswith("startup.failed")
    assert str(tmp_path) in failed


@pytest.mark.parametrize("inner", [unaware, Starlette()])
def test_a_worker_that_cannot_start_fails_the_startup_with_the_reason(app: holdfast.App, inner: Any) -> None:
    (failed,) = live(WithHoldfast(inner, app, worker={"concurrency": 0}))
    assert failed.startswith("startup.failed")
    assert "concurrency" in failed


def test_a_block_opens_the_app_and_closes_it(app: holdfast.App) -> None:
    @app.task
    async def work() -> int:
        return 7

    async def serve() -> int:
        async with running(app, migrate=True, worker=True) as same:
            assert same is app
            return await (await work.aenqueue()).aresult(SOON)

    assert asyncio.run(serve()) == 7
    assert app._opened is None


def test_wrong_arguments_are_refused_when_it_is_made() -> None:
    with pytest.raises(ConfigError, match=r"holdfast\.App is needed here"):
        WithHoldfast(unaware, unaware)  # type: ignore[arg-type]
