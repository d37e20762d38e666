"""How fast signed webhooks are delivered by one worker, beside bare loops of the HTTP library and of our own client.

Our client takes its connections from the library, checks where each leads, and keeps them in a pool of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import httpcore2

import holdfast
from holdfast.model.webhooks import QUEUE, Endpoint
from holdfast.outbound.client import HttpClient
from holdfast.outbound.policy import Policy
from holdfast.rules.webhooks import trial_message
from holdfast.storage.ops.webhooks import webhooks
from holdfast.storage.port import Op

from .measure import rate
from .receiver import receiver
from .stores import Bench

ENDPOINTS: Final = 8
AT_ONCE: Final = 4
"""To each endpoint."""
_CHUNK: Final = 500
_BETWEEN_LOOKS: Final = 0.02
_HEADERS: Final = {"content-type": "application/json"}


def by_library(count: int) -> float:
    """Requests of the same size, as many at once, by the library in its ordinary way."""
    with receiver() as port:
        return rate(lambda: asyncio.run(_post_by_library(port, count)), count)


def by_client(count: int) -> float:
    """The same by our own client."""
    with receiver() as port:
        return rate(lambda: asyncio.run(_post_by_client(port, count)), count)


def delivered(bench: Bench, count: int) -> float:
    """From the moment a full queue is opened to a waiting worker, until the store shows nothing unfinished."""
    with bench.fresh() as url, receiver() as port:
        app = holdfast.App(url)
        app.outbound = _policy(port)
        try:
            _fill(app, port, count)
            with app.worker(queues=[QUEUE], concurrency=ENDPOINTS * AT_ONCE):
                start = time.perf_counter()
                app.queues.resume(QUEUE)
                # Seldom, and by a query that reads next to nothing: it looks from the process that is measured.
                # Counting all jobs twenty times a second kept a third of a core busy.
                bench.await_empty(url, lambda: time.sleep(_BETWEEN_LOOKS))
                took = time.perf_counter() - start
            _check(app, count)
        finally:
            app.close()
        return count / took


def _fill(app: holdfast.App, port: int, count: int) -> None:
    app.queues.pause(QUEUE)
    endpoints = [app.webhooks.add(f"http://127.0.0.1:{port}/{n}", concurrency=AT_ONCE) for n in range(ENDPOINTS)]
    for first in range(0, count, _CHUNK):
        made = [_delivery(endpoints[n % ENDPOINTS], n) for n in range(first, min(first + _CHUNK, count))]
        app.open().write(Op(lambda tx, made=made: webhooks.send(tx, made)))  # type: ignore[misc]


def _delivery(endpoint: Endpoint, n: int) -> tuple[webhooks.JobSpec, dict[str, str | None]]:
    message = f"msg_{n}"
    spec = webhooks.delivery_job(endpoint, message, trial_message(message, endpoint.id, n))
    return spec, {"endpoint": endpoint.id, "message": message, "kind": "webhook.test", "job": None}


async def _post_by_library(port: int, count: int) -> None:
    async with httpcore2.AsyncConnectionPool() as pool:

        async def post(url: str, body: bytes) -> int:
            return (await pool.request("POST", url, headers=_HEADERS, content=body)).status

        await _post(port, count, post)


async def _post_by_client(port: int, count: int) -> None:
    client = HttpClient(_policy(port))

    async def post(url: str, body: bytes) -> int:
        return (await client.request("POST", url, headers=_HEADERS, body=body)).status

    await _post(port, count, post)
    await client.aclose()


async def _post(port: int, count: int, post: Callable[[str, bytes], Awaitable[int]]) -> None:
    body = trial_message("msg_0", "0" * 26, 0).encode()
    left = iter(range(count))

    async def loop() -> None:
        for n in left:
            assert await post(f"http://127.0.0.1:{port}/{n % ENDPOINTS}", body) == 200

    await asyncio.gather(*(loop() for _ in range(ENDPOINTS * AT_ONCE)))


def _policy(port: int) -> Policy:
    return Policy(allow_http=True, allow_private=("127.0.0.0/8",), ports=(port,))


def _check(app: holdfast.App, count: int) -> None:
    succeeded = sum(found.jobs for found in app.jobs.counts() if found.state == "succeeded")
    if succeeded != count:
        raise RuntimeError(f"of {count} webhooks {succeeded} were delivered")
