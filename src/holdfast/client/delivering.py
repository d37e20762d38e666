"""`webhook.deliver`: the built-in task that sends one message to one endpoint. Every app has it.

Whatever the result of a delivery, the job that it is about is not changed.
"""

from __future__ import annotations

import asyncio
import logging
import random as _random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from ..clock import SECOND, SYSTEM_CLOCK
from ..errors import ConfigError, RequestFailed, UrlRefused
from ..model.webhooks import QUEUE, TASK, Signed, failure_text
from ..outbound.client import HttpAnswer, HttpClient
from ..outcomes import Fail, Retry, Snooze
from ..rules.answers import said_wait
from ..rules.redaction import excerpt, redact
from ..rules.signing import sign
from ..rules.webhooks import ATTEMPTS, SCHEDULE, is_last, wait_before_next
from ..storage.ops.audit import audit
from ..storage.ops.webhooks import endpoints
from ..storage.port import Op, Store, Tx
from ..tasks.context import Context
from ..tasks.options import TaskOptions
from ..tasks.task import AsyncTask

if TYPE_CHECKING:
    from ..app import App

logger: Final = logging.getLogger("holdfast.webhooks")


TIMEOUT: Final = 20.0
CONNECT_TIMEOUT: Final = 5.0
GONE: Final = 410
_BUSY: Final = frozenset({429, 503})
_WITHOUT_CLIENT: Final = 300.0
_Asked: TypeAlias = "list[tuple[str, asyncio.Future[Signed | None]]]"


def deliver_task(app: App, random: Callable[[], float] = _random.random) -> AsyncTask[..., dict[str, int]]:
    """Return the task, for the workers of this app."""
    deliverer = Deliverer(app, random)

    async def deliver(ctx: Context, endpoint: str, message: str, body: str, url: str | None = None) -> dict[str, int]:
        return await deliverer.deliver(ctx.attempt, endpoint, message, body.encode(), url)

    options = TaskOptions(queue=QUEUE, max_attempts=ATTEMPTS, timeout=3 * TIMEOUT)
    return AsyncTask(app, deliver, TASK, options)


class Deliverer:
    """Signs and sends messages."""

    def __init__(self, app: App, random: Callable[[], float]) -> None:
        self._app = app
        self._random = random
        self._endpoints = Lookups(app.open)
        self._client: HttpClient | None = None

    async def deliver(
        self, attempt: int, endpoint_id: str, message: str, body: bytes, url: str | None
    ) -> dict[str, int]:
        """Return the status and the milliseconds of a success; otherwise raise the outcome of the delivery.

        `url` is one that a job named, at the endpoint's host.
        """
        store = self._app.open()
        endpoint = await self._endpoints.get(endpoint_id)
        if endpoint is None:
            raise Fail("the endpoint was deleted")
        if endpoint.state != "active":
            raise Fail(f"the endpoint is disabled: {endpoint.reason}")
        answer, ms, error = await self._send(endpoint, url or endpoint.url, message, body)
        if answer is not None and 200 <= answer.status < 300:
            if endpoints.is_noteworthy(endpoint):
                await store.awrite(Op(lambda tx: endpoints.succeeded(tx, endpoint_id)))
            return {"status": answer.status, "ms": ms}
        text = failure_text(answer.status if answer else None, ms, excerpt(answer.body) if answer else error)
        if url is None:
            # The URL that one job named says nothing about others at its host.
            await self._consider(attempt, endpoint_id, endpoint, answer)
        raise self._failure(attempt, answer, text)

    async def _send(self, endpoint: Signed, url: str, message: str, body: bytes) -> tuple[HttpAnswer | None, int, str]:
        if (tracing := self._app.tracing) is None:
            return await self._send_with(endpoint, url, message, body, {})
        with tracing.request(url) as sending:
            answer, ms, error = await self._send_with(endpoint, url, message, body, sending.headers)
            sending.ended(status=answer.status if answer else None, error=error)
        return answer, ms, error

    async def _send_with(
        self, endpoint: Signed, url: str, message: str, body: bytes, more: Mapping[str, str]
    ) -> tuple[HttpAnswer | None, int, str]:
        clock = self._app._clock or SYSTEM_CLOCK
        at = clock.now() // SECOND
        headers = {
            **more,
            "content-type": "application/json",
            "webhook-id": message,
            "webhook-timestamp": str(at),
            "webhook-signature": sign(endpoint.secrets, message, at, body),
        }
        begun = clock.monotonic()
        answer, error = None, ""
        try:
            answer = await self._outbound().request(
                "POST", url, headers=headers, body=body, timeout=TIMEOUT, connect_timeout=CONNECT_TIMEOUT
            )
        except (RequestFailed, UrlRefused) as failure:
            error = redact(str(failure))
        except ConfigError as missing:
            logger.error("no webhook can be sent from here: %s", missing)
            raise Snooze(_WITHOUT_CLIENT) from missing
        return answer, round((clock.monotonic() - begun) * 1000), error

    async def _consider(self, attempt: int, endpoint_id: str, endpoint: Signed, answer: HttpAnswer | None) -> None:
        """Disable the endpoint if it answered 410, or if no delivery succeeded for days."""
        if answer is not None and answer.status == GONE:
            await self._app.open().awrite(_disabling(endpoint_id))
        elif is_last(attempt):
            since = endpoint.now - sum(SCHEDULE)
            if await self._app.open().awrite(Op(lambda tx: _give_up(tx, endpoint_id, since))):
                logger.error("the webhook endpoint %s is disabled: nothing came through for days", endpoint_id)

    def _failure(self, attempt: int, answer: HttpAnswer | None, text: str) -> Fail | Retry:
        if answer is not None and answer.status == GONE:
            return Fail(text)
        said = None
        if answer is not None and answer.status in _BUSY:
            said = said_wait(answer.headers, answer.body, now=(self._app._clock or SYSTEM_CLOCK).now())
        return Retry(text, after=wait_before_next(attempt, said, self._random()) / SECOND)

    def _outbound(self) -> HttpClient:
        """Return the client, made at its first use, when the app's policy has been set."""
        if self._client is None or self._client.policy is not self._app.outbound:
            self._client = HttpClient(self._app.outbound)
        return self._client


class Lookups:
    """Reads of many endpoints at once: those that start together share one query.

    Requests of one iteration of an event loop are read in the next, so that no answer is older than its request.
    """

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._asked: WeakKeyDictionary[asyncio.AbstractEventLoop, _Asked] = WeakKeyDictionary()
        self._looking: set[asyncio.Task[None]] = set()

    async def get(self, endpoint_id: str) -> Signed | None:
        """Return one endpoint as it is now; None if it was deleted."""
        loop = asyncio.get_running_loop()
        asked = self._asked.setdefault(loop, [])
        # One future for each caller: cancelling one does not affect the others.
        answer: asyncio.Future[Signed | None] = loop.create_future()
        asked.append((endpoint_id, answer))
        if len(asked) == 1:
            look = loop.create_task(self._look(loop))
            self._looking.add(look)
            look.add_done_callback(self._looking.discard)
        return await answer

    async def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        asked = self._asked.pop(loop)
        wanted = {endpoint_id for endpoint_id, _ in asked}
        try:
            found = await self._store().aread(Op(lambda tx: endpoints.signed(tx, wanted), single=True))
        except Exception as error:
            for _, answer in asked:
                if not answer.done():
                    answer.set_exception(error)
            return
        for endpoint_id, answer in asked:
            if not answer.done():
                answer.set_result(found.get(endpoint_id))


def _disabling(endpoint_id: str) -> Op[bool]:
    async def run(tx: Tx) -> bool:
        disabled = await endpoints.disable(tx, endpoint_id, "gone")
        if disabled:
            await _say(tx, endpoint_id, "it answered 410")
        return disabled

    return Op(run)


async def _give_up(tx: Tx, endpoint_id: str, since: int) -> bool:
    disabled = await endpoints.given_up(tx, endpoint_id, since)
    if disabled:
        await _say(tx, endpoint_id, "nothing came through")
    return disabled


async def _say(tx: Tx, endpoint_id: str, reason: str) -> None:
    said: dict[str, Any] = {"action": "webhook.disable", "target": endpoint_id, "reason": reason}
    tenant = (await endpoints.get(tx, endpoint_id)).tenant
    await audit(tx, actor="holdfast", **said, tenant=tenant)
