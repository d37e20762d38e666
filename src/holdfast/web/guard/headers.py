"""The security headers of every response. They tell browsers to run only our own scripts."""

from __future__ import annotations

from typing import Final

from starlette.types import Message

_POLICY: Final = "; ".join((
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types default",
))  # fmt: skip
_ALWAYS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)
_UNCACHED: Final = (b"cache-control", b"no-store")


def protect(message: Message) -> Message:
    """Return the start of a response with our headers; its own caching headers are kept."""
    headers = list(message.get("headers", ()))
    if not any(name == b"cache-control" for name, _ in headers):
        headers.append(_UNCACHED)
    return {**message, "headers": [*headers, *_ALWAYS]}
