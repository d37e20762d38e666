"""Signatures of webhooks, by the Standard Webhooks specification: HMAC-SHA256 over id, time and the raw body."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from typing import Final

from ..errors import InvalidInput

PREFIX: Final = "whsec_"
TOLERANCE: Final = 300
"""Seconds by which a message's time may differ from ours, either way."""
_SHORTEST: Final = 24
_LONGEST: Final = 64
_ID: Final = re.compile(r"[A-Za-z0-9_\-]{1,128}")


def new_secret(randomness: bytes) -> str:
    """Return a secret made of these random bytes."""
    return PREFIX + base64.b64encode(check_size(randomness)).decode()


def key_of(secret: str) -> bytes:
    """Return the key in a secret; InvalidInput if it is malformed."""
    try:
        # Some senders omit the padding.
        text = secret.removeprefix(PREFIX).rstrip("=")
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("the secret is not whsec_ and base64; let Holdfast make one") from None
    return check_size(key)


def check_size(key: bytes) -> bytes:
    if not _SHORTEST <= len(key) <= _LONGEST:
        raise InvalidInput(f"the secret has {len(key)} bytes; use {_SHORTEST} to {_LONGEST}")
    return key


def sign(secrets: Sequence[str], message_id: str, at: int, body: bytes) -> str:
    """Return the value of `webhook-signature`; with several secrets, one signature for each."""
    if not _ID.fullmatch(message_id):
        raise InvalidInput(f"a message id has letters, digits, _ and - only, not {message_id!r}")
    return " ".join(f"v1,{_mac(key_of(secret), message_id, at, body)}" for secret in secrets)


def is_signed(secrets: Iterable[str], message_id: str, at: str, body: bytes, signatures: str) -> bool:
    """Return whether a signature matches a secret. Every pair is compared, in constant time."""
    given = [part.partition(",")[2] for part in signatures.split(" ")[:16] if part.startswith("v1,")]
    matched = False
    for secret in secrets:
        expected = _mac(key_of(secret), message_id, at, body)
        for one in given:
            matched |= hmac.compare_digest(expected.encode(), one.encode("utf-8", "surrogatepass"))
    return matched


def is_timely(at: str, now: float) -> bool:
    """Return whether a message's time is well-formed and close to ours."""
    return at.isascii() and at.isdigit() and len(at) <= 12 and abs(int(at) - now) <= TOLERANCE


def _mac(key: bytes, message_id: str, at: int | str, body: bytes) -> str:
    # Some servers pass header bytes that are not UTF-8 as lone surrogates; nothing was ever signed with those.
    signed = f"{message_id}.{at}.".encode("utf-8", "surrogatepass") + body
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
