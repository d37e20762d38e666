"""Tokens that cannot be made."""

from __future__ import annotations

from .root import Conflict


class TokenConflict(Conflict):
    """A token of that name is in force."""

    code = "token_conflict"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"a token named {name!r} is in force; revoke it first, or choose another name")
