"""Sign a webhook message, and verify one."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ..errors import InvalidInput, InvalidSignature
from ..rules import signing
from ..rules.signing import is_signed, is_timely, key_of
from ..values.codec import decode

Headers: TypeAlias = "Mapping[str, str] | Iterable[tuple[str | bytes, str | bytes]]"
# A full stop in an id could be read as the one that ends it: the signature would also fit another message.
_ID: Final = re.compile(r"[!-\-/-~]{1,256}")
_WANTED: Final = ("webhook-id", "webhook-timestamp", "webhook-signature")


@dataclass(frozen=True, slots=True)
class Message:
    """A message that was verified."""

    id: str
    """The same for each attempt of its sender."""
    at: int
    """The time it was sent, in seconds since 1970."""
    body: bytes

    @property
    def data(self) -> Any:
        """The body, read as JSON."""
        return decode(self.body, what="the message")

    @property
    def type(self) -> str:
        """Its kind, such as "invoice.paid"; "" if it has none."""
        data = self.data
        kind = data.get("type") if isinstance(data, dict) else None
        return kind if isinstance(kind, str) else ""


def verify(secrets: str | Sequence[str], headers: Headers, body: bytes, *, now: float | None = None) -> Message:
    """Return the message in a request, if it was signed with one of the secrets within the last five minutes.

    InvalidSignature otherwise, which does not say why. `body` is the raw bytes of the request, not parsed.
    Give the old and the new secret while the sender changes from one to the other.
    """
    keys = check_secrets(secrets)
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise InvalidInput(f"the body is of type {type(body).__name__}; pass the raw bytes of the request, unread")
    found = _fields(headers)
    message_id, at, signature = (found.get(name, "") for name in _WANTED)
    timely = is_timely(at, time.time() if now is None else now)
    if not (is_signed(keys, message_id, at, body, signature) and timely and _ID.fullmatch(message_id)):
        raise InvalidSignature
    return Message(message_id, int(at), bytes(body))


def sign(secrets: str | Sequence[str], message_id: str, body: bytes, *, now: float | None = None) -> dict[str, str]:
    """Return the headers of a message. With several secrets, a receiver that has any one of them can verify it."""
    at = int(time.time() if now is None else now)
    signature = signing.sign(check_secrets(secrets), message_id, at, body)
    return dict(zip(_WANTED, (message_id, str(at), signature), strict=True))


def check_secrets(secrets: str | Sequence[str]) -> list[str]:
    """Check that there is at least one secret, each of the right form."""
    given = [secrets] if isinstance(secrets, str) else list(secrets)
    for secret in given or [""]:
        key_of(secret)
    return given


def _fields(headers: Headers) -> dict[str, str]:
    """Return the three signature headers. One that comes twice is ignored: another parser might take the other."""
    pairs: Any = headers.items() if isinstance(headers, Mapping) else headers
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        key = _text(name).lower()
        if key in _WANTED:
            found.setdefault(key, []).append(_text(value))
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
