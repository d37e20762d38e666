"""Requests to other systems. One client serves any number of event loops and keeps connections on each for a while."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from ..clock import SECOND
from ..errors import InvalidInput, MissingExtra, RequestFailed
from ..outcomes import Fail, JobOutcome, Park, Retry, Throttle
from ..rules.answers import classify
from ..rules.failure import FailureClass
from .policy import Policy, Target, parse

if TYPE_CHECKING:
    import httpcore2

    from .network import Connect, ConnectionPool, Resolve

ANSWER_LIMIT: Final = 64 * 1024
TIMEOUT: Final = 30.0
CONNECT_TIMEOUT: Final = 5.0
_METHOD: Final = re.compile(r"[A-Z]{1,16}")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]{0,8192}")
# The client itself sets the headers that say where the request goes and where it ends.
_OURS: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect", "keep-alive",
     "proxy-authorization", "proxy-connection", "accept-encoding"}
)  # fmt: skip
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The response of a server."""

    status: int
    headers: dict[str, str]
    """By name in lower case; the values of a repeated header are joined with commas."""
    body: bytes
    """The body, up to the limit."""
    cut: str = ""
    """The reason why the body may be incomplete: "size" or "time"; "" if it is whole."""
    seconds: float = 0.0
    """From the call to the answer."""


class HttpClient:
    """Sends requests where a policy allows, follows no redirects, and reads no more of an answer than its limit.

    `trust` are certificates other than the system's. `resolve` and `connect` are for tests.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        trust: ssl.SSLContext | None = None,
        resolve: Resolve | None = None,
        connect: Connect | None = None,
    ) -> None:
        self.policy: Final = policy or Policy()
        self._trust = trust
        self._resolve = resolve
        self._connect = connect
        # An endpoint gets thousands of messages at the same URL.
        self._target = lru_cache(maxsize=256)(partial(parse, policy=self.policy))
        self._connections = PerLoop(self._open, lambda connections: connections.aclose())

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout: float = TIMEOUT,
        connect_timeout: float = CONNECT_TIMEOUT,
        limit: int = ANSWER_LIMIT,
    ) -> HttpAnswer:
        """Send one request and return its answer, whatever its status, within `timeout` seconds in all.

        UrlRefused if the policy forbids it, RequestFailed if no answer came. If the headers came in time and the body
        did not, the part of it that came is returned.
        """
        target = self._target(url)
        connections = await self._connections.get()
        sent = _request(method, target, headers or {}, body, min(connect_timeout, timeout))
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with asyncio.timeout_at(begun + timeout) as within:
                return await _exchange(connections, sent, limit, within)
        except TimeoutError:
            raise RequestFailed("timeout", f"{target.host} did not answer within {timeout:g} s") from None
        except Exception as error:
            if (explained := _explained(error, target)) is None:
                raise
            raise explained from error

    async def aclose(self) -> None:
        """Close the connections of this event loop. Without it they are closed with the loop."""
        await self._connections.drop()

    def _open(self) -> ConnectionPool:
        try:
            from . import network
        except ImportError as missing:
            raise MissingExtra("an HTTP request", missing, "web") from missing
        resolve = network.resolve if self._resolve is None else self._resolve
        connect = network.connect if self._connect is None else self._connect
        return network.connections_of(network.GuardedNetwork(self.policy, resolve, connect), self._trust)


def check_headers(headers: Mapping[str, Any]) -> dict[str, str]:
    """Return headers as they may be sent; InvalidInput for line breaks, and for headers that the client sets itself."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise InvalidInput(f"{name!a} is not the name of a header")
        if name.lower() in _OURS:
            raise InvalidInput(f"the header {name} follows from the URL and the body; leave it out")
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise InvalidInput(f"the header {name} has a value that no header can have")
    return {name.lower(): value.strip() for name, value in headers.items()}


def _request(method: str, target: Target, headers: Mapping[str, str], body: bytes, connect: float) -> httpcore2.Request:
    import httpcore2

    if not _METHOD.fullmatch(method) or method in ("CONNECT", "TRACE"):
        raise InvalidInput(f"{method!a} is not a method that can be sent")
    fields = {"user-agent": "holdfast", **check_headers(headers), "host": target.authority}
    # Compressed, a small answer could become a huge one.
    fields["accept-encoding"] = "identity"
    if body or method in ("POST", "PUT", "PATCH"):
        fields["content-length"] = str(len(body))
    return httpcore2.Request(
        method,
        httpcore2.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path),
        headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()],
        content=body,
        extensions={"timeout": {"connect": connect, "pool": None, "read": None, "write": None}},
    )


async def _exchange(
    connections: ConnectionPool, request: httpcore2.Request, limit: int, within: asyncio.Timeout
) -> HttpAnswer:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    connection, response = await connections.send(request)
    seconds = loop.time() - begun
    body = bytearray()
    try:
        cut = await _read(response, body, limit, within)
    finally:
        try:
            # If something is left unread, this closes the connection.
            await response.aclose()
        finally:
            await connections.give(connection, request.url)
    return HttpAnswer(response.status, _headers(response.headers), bytes(body), cut, seconds)


async def _read(response: httpcore2.Response, body: bytearray, limit: int, within: asyncio.Timeout) -> str:
    """Return why the reading ended early. The deadline ends the reading, not the request: its status is known."""
    deadline = within.when()
    within.reschedule(None)
    try:
        async with asyncio.timeout_at(deadline):
            async for part in response.aiter_stream():
                body += part
                if len(body) > limit:
                    del body[limit:]
                    return "size"
    except TimeoutError:
        return "time"
    return ""


def _headers(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for raw_name, raw_value in raw:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def _explained(error: Exception, target: Target) -> RequestFailed | None:
    import httpcore2

    match error:
        case httpcore2.TimeoutException():
            return RequestFailed("timeout", f"{target.host} could not be connected to in time")
        case httpcore2.ConnectError() if _has_cause(error, ssl.SSLError):
            return RequestFailed("tls", f"{target.host} could not be trusted: {error}")
        case httpcore2.ConnectError():
            return RequestFailed("connect", f"{target.host} could not be connected to: {error}")
        case httpcore2.NetworkError() | OSError():
            return RequestFailed("broken", f"the connection to {target.host} broke: {error}")
        case httpcore2.ProtocolError():
            return RequestFailed("protocol", f"{target.host} does not answer as HTTP asks for: {error}")
        case _:
            return None


def _has_cause(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False


class PerLoop(Generic[T]):
    """One object for each event loop that uses it: made there at first use, and closed with the loop."""

    def __init__(self, make: Callable[[], T], close: Callable[[T], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._lock = threading.Lock()
        self._lives: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[T, AsyncGenerator[None]]] = WeakKeyDictionary()

    async def get(self) -> T:
        """Return the object of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if (found := self._lives.get(loop)) is not None:
                return found[0]
            thing = self._make()
            life = self._live(thing)
            self._lives[loop] = thing, life
        # A loop that ends closes the async generators that it has run: that ties the object to it.
        await anext(life)
        return thing

    async def drop(self) -> None:
        """Close the object of the running loop, if there is one."""
        with self._lock:
            found = self._lives.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found[1].aclose()

    async def _live(self, thing: T) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await self._close(thing)


def outcome_of_answer(answer: HttpAnswer, *, now: int) -> JobOutcome | None:
    """Return the outcome that a handler raises for an answer; None for success. `now` is in microseconds."""
    failure = classify(answer.status, answer.headers, answer.body, now=now)
    if failure is None:
        return None
    message = str(json.loads(failure.error)["message"])
    after = None if failure.after is None else failure.after / SECOND
    match failure.kind:
        case FailureClass.RATE_LIMITED:
            return Throttle(message, after=after or 60.0, cool_queue=failure.cools)
        case FailureClass.AUTH_BLOCKED:
            return Park(message, reason=failure.reason)
        case FailureClass.PERMANENT:
            return Fail(message)
        case _:
            return Retry(message, after=after)
