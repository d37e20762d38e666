"""The HTTP status of each error, and the part of its message that clients may see."""

from __future__ import annotations

import logging
from typing import Final

import msgspec
from starlette.responses import Response

from ...errors import (
    AccessDenied,
    BeyondScope,
    ConfigError,
    Conflict,
    Corruption,
    HoldfastError,
    InvalidInput,
    InvalidToken,
    NotFound,
    OutboxFull,
    OutcomeUnknown,
    PayloadTooLarge,
    QueueFull,
    ResultTimeout,
    StorageError,
    TooManySignals,
)

logger: Final = logging.getLogger("holdfast.web")

# The first match counts: special errors before their families.
_STATUSES: Final[tuple[tuple[type[HoldfastError], int], ...]] = (
    (AccessDenied, 403),
    (BeyondScope, 403),
    (InvalidToken, 404),
    (PayloadTooLarge, 413),
    (InvalidInput, 422),
    (NotFound, 404),
    (OutboxFull, 429),
    (QueueFull, 429),
    (TooManySignals, 429),
    (Conflict, 409),
    (ResultTimeout, 504),
    (ConfigError, 422),
    (StorageError, 503),
)
_STORE: Final = "the store is unavailable; try again, and check the server's log"
_BROKEN: Final = "internal error; see the server's log"


class Problem(msgspec.Struct, frozen=True):
    """An error. `code` is stable across versions; `message` is for people."""

    code: str
    message: str
    retryable: bool = False


class ErrorAnswer(msgspec.Struct, frozen=True):
    """The body of every error response."""

    error: Problem


class Refused(Exception):
    """Ends the request with this status."""

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.problem = Problem(code, message, retryable=status in (429, 503))
        self.headers = headers or {}


def refusal_of(error: Exception) -> Refused:
    """Return an error as clients may see it. Messages of the store or the code stay in the log."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, StorageError) or not isinstance(error, HoldfastError):
        return _hidden(error)
    status = next((status for family, status in _STATUSES if isinstance(error, family)), 500)
    headers = {"retry-after": "1"} if status == 429 else None
    refused = Refused(status, error.code, str(error), headers)
    refused.problem = Problem(error.code, str(error), error.retryable)
    return refused


def _hidden(error: Exception) -> Refused:
    logger.error("a request failed", exc_info=error)
    if not isinstance(error, StorageError) or isinstance(error, Corruption):
        return Refused(500, "internal", _BROKEN)
    refused = Refused(503, error.code, _STORE, {"retry-after": "1"})
    # It is unknown whether it was done: repeating it is the caller's decision.
    refused.problem = Problem(error.code, _STORE, error.retryable and not isinstance(error, OutcomeUnknown))
    return refused


def error_response(refused: Refused) -> Response:
    """Return the error as JSON."""
    return Response(
        msgspec.json.encode(ErrorAnswer(refused.problem)),
        refused.status,
        refused.headers,
        media_type="application/json",
    )
