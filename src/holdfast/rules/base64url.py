"""Base64 that is safe in a URL, with exactly one encoding for each value."""

from __future__ import annotations

import base64
import binascii


def encode(data: bytes) -> str:
    """Encode without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode(text: str) -> bytes:
    """Decode strictly: other encodings of the same value, such as with other trailing bits, are refused."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as exc:
        raise ValueError from exc
    if encode(data) != text:
        raise ValueError
    return data
