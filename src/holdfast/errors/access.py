"""Tokens that cannot be created, and actions that a token does not allow."""

from __future__ import annotations

from .root import Conflict, InvalidInput


class TokenConflict(Conflict):
    """An active token has that name."""

    code = "token_conflict"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"a token named {name!r} is in force; revoke it first, or choose another name")


class AccessDenied(InvalidInput):
    """The caller's token does not allow this: another caller's worker, or a queue or task outside of its own."""

    code = "access_denied"

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
