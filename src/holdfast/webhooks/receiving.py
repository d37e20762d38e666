"""An ASGI application that receives webhooks: mount it where a provider sends them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..clock import SYSTEM_CLOCK
from ..errors import (
    ConfigError,
    HoldfastError,
    InvalidInput,
    InvalidSignature,
    InvalidToken,
    JobEnded,
    NotFound,
    QueueClosed,
    QueueFull,
    SignalConflict,
    StorageError,
    Undecodable,
)
from ..names import check_duration, check_name
from ..rules.signing import TOLERANCE
from ..tasks.task import JobRequest, Task
from .message import Message, check_secrets, verify

if TYPE_CHECKING:
    from ..app import App

logger: Final = logging.getLogger("holdfast.webhooks")

Scope: TypeAlias = "MutableMapping[str, Any]"
Receive: TypeAlias = "Callable[[], Awaitable[MutableMapping[str, Any]]]"
Send: TypeAlias = "Callable[[MutableMapping[str, Any]], Awaitable[None]]"
MakesJob: TypeAlias = "Task[..., Any] | Callable[[Message], JobRequest[Any] | None]"
MakesSignal: TypeAlias = "Callable[[Message], tuple[Any, ...] | None]"

BODY_LIMIT: Final = 256 * 1024
BODY_SECONDS: Final = 30.0
REMEMBERED: Final = 7 * 86_400
_KEY: Final = re.compile(r"[A-Za-z0-9_:\-]{1,128}")


class _Refused(Exception):
    """The request ends with this status."""

    def __init__(self, status: int, code: str) -> None:
        self.status = status
        self.code = code


def receiver(
    app: App,
    secrets: str | Sequence[str],
    *,
    task: MakesJob | None = None,
    signal: MakesSignal | None = None,
    name: str = "webhook",
    remember: float = REMEMBERED,
    limit: int = BODY_LIMIT,
) -> Receiver:
    """Make an ASGI application that turns each verified message into a job or a signal, once.

    `task` is a task that takes the message's JSON, or a function of the `Message` that returns `some_task.job(…)`, or
    None to ignore it. `signal` is a function that returns `(job, name, payload)`, `(token, None, payload)`, or None.
    A message that comes again within `remember` seconds gets the same answer and does nothing; give each provider its
    own `name`, because two providers may use the same ids.
    """
    return Receiver(app, secrets, task, signal, name=name, remember=remember, limit=limit)


class Receiver:
    """The application that `receiver` makes."""

    def __init__(
        self,
        app: App,
        secrets: str | Sequence[str],
        task: MakesJob | None,
        signal: MakesSignal | None,
        *,
        name: str,
        remember: float,
        limit: int,
    ) -> None:
        if (task is None) == (signal is None):
            raise ConfigError("a receiver makes either jobs or signals; give task= or signal=")
        check_duration("remember", remember)
        if remember < 2 * TOLERANCE:
            # For this long the same signed message would be accepted again.
            raise ConfigError(f"remember is {remember:g}; use at least {2 * TOLERANCE} seconds")
        self._app = app
        self._secrets = check_secrets(secrets)
        self._task = task
        self._signal = signal
        self._name = check_name("the receiver's name", name, limit=64)
        self._remember = float(remember)
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            status, answer = await self._answered(scope, receive)
            await _reply(send, status, answer)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _answered(self, scope: Scope, receive: Receive) -> tuple[int, dict[str, Any]]:
        try:
            if scope["method"] != "POST":
                raise _Refused(405, "method_not_allowed")
            body = await _body(scope, receive, self._limit)
            now = (self._app._clock or SYSTEM_CLOCK).now() / 1e6
            return await self._take(verify(self._secrets, scope["headers"], body, now=now))
        except _Refused as refused:
            return refused.status, {"error": refused.code}
        except HoldfastError as error:
            return _explained(error), {"error": error.code}
        except Exception:
            logger.exception("a message for %s could not be taken", self._name)
            return 500, {"error": "error"}

    async def _take(self, message: Message) -> tuple[int, dict[str, Any]]:
        return await (self._send(message) if self._signal is not None else self._enqueue(message))

    async def _enqueue(self, message: Message) -> tuple[int, dict[str, Any]]:
        task = self._task
        assert task is not None
        request = task.job(message.data) if isinstance(task, Task) else task(message)
        if request is None:
            return 200, {"ignored": True}
        once = replace(
            request.options,
            dedupe_key=_key(message.id),
            dedupe_scope=f"webhook:{self._name}",
            dedupe_until=self._remember,
            on_duplicate="existing",
        )
        job = await self._app.aenqueue(request.with_options(once))
        return 202, {"job": job.id, "created": job.created}

    async def _send(self, message: Message) -> tuple[int, dict[str, Any]]:
        assert self._signal is not None
        wanted = self._signal(message)
        if wanted is None:
            return 200, {"ignored": True}
        given: list[Any] = [*wanted, None, None]
        key, source = _key(f"{self._name}:{message.id}"), f"webhook:{self._name}"
        try:
            await self._app.signals.asend(given[0], given[1], given[2], key=key, source=source)
        except (JobEnded, SignalConflict) as late:
            # No later attempt would succeed, and an error status would cause one.
            return 200, {"ignored": True, "why": late.code}
        return 202, {"sent": True}


def _key(message_id: str) -> str:
    """Return an id of any form as a key that may be stored."""
    return message_id if _KEY.fullmatch(message_id) else hashlib.sha256(message_id.encode()).hexdigest()


async def _body(scope: Scope, receive: Receive, limit: int) -> bytes:
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    if declared.isdigit() and int(declared[:20]) > limit:
        raise _Refused(413, "too_large")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while (event := await receive())["type"] == "http.request":
                body += event.get("body", b"")
                if len(body) > limit:
                    raise _Refused(413, "too_large")
                if not event.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise _Refused(408, "timeout") from None
    raise _Refused(400, "disconnected")


def _explained(error: HoldfastError) -> int:
    """Return the status for an error. A sender tries again after server errors, and after 404."""
    match error:
        case InvalidSignature():
            return 401
        case Undecodable():
            return 400
        case NotFound() | InvalidToken():
            return 404
        case InvalidInput():
            return 422
        case StorageError() | QueueFull() | QueueClosed():
            logger.warning("a message could not be stored: %s", error)
            return 503
        case _:
            logger.error("a message could not be taken: %s", error)
            return 500


async def _reply(send: Send, status: int, answer: dict[str, Any]) -> None:
    body = json.dumps(answer).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 405:
        headers.append((b"allow", b"POST"))
    if status == 503:
        headers.append((b"retry-after", b"5"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _live(receive: Receive, send: Send) -> None:
    """Answer the lifespan events. There is nothing to set up: the app opens its store at its first use."""
    while True:
        event = await receive()
        await send({"type": f"{event['type']}.complete"})
        if event["type"] == "lifespan.shutdown":
            return
