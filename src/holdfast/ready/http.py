"""`http.request`: an HTTP request as a job, retried according to the response."""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..clock import SYSTEM_CLOCK
from ..errors import ConfigError, InvalidInput, NotFound, UrlRefused
from ..model.limits import JobLimits
from ..outbound.client import HttpAnswer, HttpClient, check_headers, outcome_of_answer
from ..outbound.policy import Policy, parse
from ..outcomes import Retry, Throttle
from ..tasks.context import Context
from ..values.codec import encode

if TYPE_CHECKING:
    from ..app import App
    from ..tasks.task import AsyncTask

LONGEST: Final = 3_600.0
# In JSON such a character takes six times its size.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_KEPT_BACK: Final = frozenset({"set-cookie"})
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class HttpResult:
    """A successful answer."""

    status: int
    headers: dict[str, str]
    body: str
    """As text, or in base64 if it is not text."""
    encoding: str = "text"
    """"text" or "base64"."""
    truncated: bool = False
    """True if the body was longer than the limit."""


def http_request(
    app: App,
    *,
    name: str = "http.request",
    policy: Policy | None = None,
    credentials: Mapping[str, Mapping[str, str]] | None = None,
    trust: ssl.SSLContext | None = None,
    limit: int = 64 * 1024,
    **options: Any,
) -> AsyncTask[..., HttpResult]:
    """Register a task that sends a request: `call.enqueue("https://api.example.com/x", "POST", json={…})`.

    `credentials` are headers by origin, such as "https://api.example.com" or "https://api.example.com:8443"; a host
    alone is its https origin. They are added here, for that origin only, and never stored with a job. `policy` is the
    app's own unless given; `limit` is how many bytes of an answer are kept. The rest are options of the task.
    """
    secrets = {_origin(where): check_headers(headers) for where, headers in (credentials or {}).items()}
    if not 0 <= limit <= 64 * 1024:
        raise InvalidInput(f"limit is {limit}; use at most {64 * 1024:,} bytes, which fit into a result")
    client = _Lazy(app, policy, trust)

    async def request(
        ctx: Context,
        url: str,
        method: str = "GET",
        *,
        headers: dict[str, str] | None = None,
        body: str | None = None,
        json: Any = None,
        timeout: float = 30.0,
    ) -> HttpResult:
        if not 0 < timeout <= LONGEST:
            raise InvalidInput(f"timeout is {timeout}; use up to {LONGEST:,.0f} seconds")
        content, fields = _content(body, json)
        if method not in _SAFE:
            # The same for each attempt: a server that recognises it does the work once.
            fields["idempotency-key"] = ctx.id
        target = parse(url, client.policy)
        fields |= check_headers(headers or {}) | secrets.get((target.scheme, target.host, target.port), {})
        answer = await client.request(method, url, headers=fields, body=content, timeout=timeout, limit=limit)
        if (failure := outcome_of_answer(answer, now=(app._clock or SYSTEM_CLOCK).now())) is not None:
            if isinstance(failure, Throttle):
                await _drain_rate(app, ctx)
            raise failure
        if answer.cut == "time":
            raise Retry(f"{answer.status}: the rest of the answer did not come within {timeout:g} s")
        return _result(answer)

    chosen: dict[str, Any] = {"name": name, "no_retry_on": (InvalidInput,), **options}
    task: AsyncTask[..., HttpResult] = app.task(**chosen)(request)
    return task


def _origin(where: str) -> tuple[str, str, int]:
    """Return the scheme, host and port for which credentials are meant."""
    given = where if "://" in where else f"https://{where}"
    found = re.search(r":([0-9]{1,5})/?$", given)
    try:
        target = parse(given, Policy(allow_http=True, allow_private=True, ports=(int(found[1]),) if found else ()))
        if target.path != "/":
            raise InvalidInput("it has a path")
    except (InvalidInput, UrlRefused, ConfigError) as wrong:
        raise InvalidInput(
            f"credentials for {where!r}: {wrong}; give an origin, such as https://api.example.com"
        ) from None
    return target.scheme, target.host, target.port


async def _drain_rate(app: App, ctx: Context) -> None:
    """Empty the bucket of the job's rate, if it has one: the server has just refused a request."""
    if not ctx.job.worker:
        return
    limits = JobLimits.decode((await app.jobs.aget(ctx.id)).limits or "{}")
    if scope := limits.keyed or limits.rate:
        with suppress(NotFound):
            await ctx.drain(scope)


class _Lazy:
    """A client made at its first use, when the app's policy has been set."""

    def __init__(self, app: App, policy: Policy | None, trust: ssl.SSLContext | None) -> None:
        self._app = app
        self._policy = policy
        self._trust = trust
        self._client: HttpClient | None = None

    @property
    def policy(self) -> Policy:
        return self._policy or self._app.outbound

    async def request(self, method: str, url: str, **rest: Any) -> HttpAnswer:
        if self._client is None or self._client.policy is not self.policy:
            self._client = HttpClient(self.policy, trust=self._trust)
        return await self._client.request(method, url, **rest)


def _content(body: str | None, json: Any) -> tuple[bytes, dict[str, str]]:
    if json is not None:
        if body is not None:
            raise InvalidInput("give either body or json, not both")
        return encode(json, what="json").encode(), {"content-type": "application/json"}
    return (body or "").encode(), {"content-type": "text/plain; charset=utf-8"} if body else {}


def _result(answer: HttpAnswer) -> HttpResult:
    headers = {name: value for name, value in answer.headers.items() if name not in _KEPT_BACK}
    text, encoding = _text(answer.body, cut=answer.cut == "size")
    return HttpResult(answer.status, headers, text, encoding, answer.cut == "size")


def _text(body: bytes, *, cut: bool) -> tuple[str, str]:
    try:
        # The cut may split a character; up to three bytes of it are dropped then.
        text = body.decode("utf-8", "ignore") if cut and _ends_amid(body) else body.decode()
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"
    return (base64.b64encode(body).decode(), "base64") if _CONTROL.search(text) else (text, "text")


def _ends_amid(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and len(body) - error.start < 4
    return False
