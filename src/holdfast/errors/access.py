"""Tokens that cannot be made, and what a token does not allow."""

from __future__ import annotations

from .root import Conflict, InvalidInput


class TokenConflict(Conflict):
    """A token of that name is in force."""

    code = "token_conflict"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"a token named {name!r} is in force; revoke it first, or choose another name")


class AccessDenied(InvalidInput):
    """The caller's token does not allow this: another's worker, or a queue or task that it is not confined to."""

    code = "access_denied"

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
