"""Bytes as letters that are safe in a URL, in exactly one spelling."""

from __future__ import annotations

import base64
import binascii


def encode(data: bytes) -> str:
    """Without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode(text: str) -> bytes:
    """Strict: of the spellings of one value, such as with other trailing bits, exactly one is accepted."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as exc:
        raise ValueError from exc
    if encode(data) != text:
        raise ValueError
    return data
