"""Refused or failed requests to other systems, and refused messages from them."""

from __future__ import annotations

from .root import HoldfastError, InvalidInput


class UrlRefused(InvalidInput):
    """Requests may not go to this URL: its form, scheme, port or resolved address is not allowed."""

    code = "url_refused"


class RequestFailed(HoldfastError):
    """A request got no answer. `kind` says why: dns, connect, tls, timeout, protocol or broken."""

    code = "request_failed"
    retryable = True

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


class InvalidSignature(InvalidInput):
    """A webhook that was not signed with this secret, or is too old. The message does not say which."""

    code = "invalid_signature"

    def __init__(self) -> None:
        super().__init__("the message is not signed with this secret, or is too old; check the secret and both clocks")
