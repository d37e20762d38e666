"""Classify the response of an HTTP server, once, by its status, headers and body."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from ..clock import SECOND
from .failure import Failure, FailureClass
from .redaction import excerpt

SHORTEST: Final = 1 * SECOND
LONGEST: Final = 300 * SECOND
UNSAID: Final = 60 * SECOND
"""The wait after a refusal that gives no time."""
_TEMPORARY: Final = frozenset({408, 425})
_HINTS: Final = frozenset({"retryaftersec", "retry_after_sec", "retry_after", "retryafter"})
# In a body that is cut off or not JSON: the quoted key, a colon, a whole number.
_FRAGMENT: Final = re.compile(r'"(?:retryAfterSec|retry_after_sec|retry_after|retryAfter)"\s*:\s*(\d{1,15})(?![\d.eE])')


def classify(status: int, headers: Mapping[str, str], body: bytes, *, now: int) -> Failure | None:
    """Return the failure, or None for success. `now` is in microseconds, for a date in Retry-After."""
    if 200 <= status < 300:
        return None
    error = describe(status, body)
    if status == 429:
        return Failure(FailureClass.RATE_LIMITED, error, wait_of(headers, body, now=now), cools=False)
    if status in (401, 403):
        return Failure(FailureClass.AUTH_BLOCKED, error, reason="auth")
    if 400 <= status < 500 and status not in _TEMPORARY:
        return Failure(FailureClass.PERMANENT, error)
    # A redirect is never followed: it may lead anywhere. Servers under maintenance say when they will be back.
    hint = said_wait(headers, body, now=now) if status == 503 else None
    return Failure(FailureClass.TRANSIENT, error, hint)


def wait_of(headers: Mapping[str, str], body: bytes, *, now: int) -> int:
    """Return the time that a refused caller should wait, in microseconds, within bounds."""
    return said_wait(headers, body, now=now) or UNSAID


def said_wait(headers: Mapping[str, str], body: bytes, *, now: int) -> int | None:
    """Return the wait that the server asked for, in microseconds; None if it gave none that can be parsed."""
    header = next((value for name, value in headers.items() if name.lower() == "retry-after"), None)
    seconds = _of_header(header, now) if header is not None else None
    if seconds is None:
        seconds = _of_body(body)
    return None if seconds is None else int(min(max(seconds * SECOND, SHORTEST), LONGEST))


def describe(status: int, body: bytes) -> str:
    """Return an error as it is stored: the status and the beginning of the body, on one line and without secrets."""
    # Redacted before it is cut: half a secret would not be recognised.
    text = excerpt(body)
    return json.dumps({"type": "HttpStatus", "message": f"{status}: {text}" if text else str(status)})


def _of_header(text: str, now: int) -> float | None:
    text = text.strip()
    # Digits alone: a sign, a fraction or another script's digits are not what the standard allows.
    if text.isascii() and text.isdigit():
        return float(text[:15])
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, IndexError, TypeError):
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() - now / SECOND


def _of_body(body: bytes) -> float | None:
    text = body.decode("utf-8", "replace")
    try:
        found: Any = next(_hints(json.loads(text)), None)
    except (ValueError, RecursionError):
        match = _FRAGMENT.search(text)
        found = int(match[1]) if match else None
    return float(min(found, 10**15)) if found is not None else None


def _hints(document: Any) -> Iterator[int]:
    """Yield the whole numbers under a name that says how long to wait, anywhere in the document."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name.lower() in _HINTS and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                yield value
            else:
                yield from _hints(value)
    elif isinstance(document, list):
        for value in document:
            yield from _hints(value)
