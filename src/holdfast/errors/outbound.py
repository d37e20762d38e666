"""Requests to other systems, and messages from them, that were refused or came to nothing."""

from __future__ import annotations

from .root import HoldfastError, InvalidInput


class UrlRefused(InvalidInput):
    """A URL that requests may not go to: its form, its scheme, its port, or where its name leads."""

    code = "url_refused"


class RequestFailed(HoldfastError):
    """A request got no answer. `kind` says where it ended: dns, connect, tls, timeout, protocol or broken."""

    code = "request_failed"
    retryable = True

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


class InvalidSignature(InvalidInput):
    """A webhook that its sender did not sign with our secret, or not lately. It is not said which."""

    code = "invalid_signature"

    def __init__(self) -> None:
        super().__init__("the message is not signed with this secret, or is too old; check the secret and both clocks")
