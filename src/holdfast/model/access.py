"""Access over HTTP: tokens, sessions, and the identities that they give to callers. Instants are microseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

ADMIN: Final = "admin"
ScopeName: TypeAlias = Literal["read", "payload", "enqueue", "publish", "signal", "work", "operate", "admin"]
SCOPES: Final[tuple[str, ...]] = get_args(ScopeName)
"""The scopes of tokens. `payload` allows to read arguments, results, frames and artifacts; `publish` to put
events into outboxes; `admin` is everything."""
ROLES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "viewer": frozenset({"read"}),
        "operator": frozenset({"read", "payload", "enqueue", "signal", "operate"}),
        ADMIN: frozenset(SCOPES),
    }
)
"""Names for sets of scopes."""

TokenState: TypeAlias = Literal["active", "expired", "revoked"]
Via: TypeAlias = Literal["token", "session", "local", "host", "nothing"]
"""The way in which a caller is identified: by a token, by a browser's session, as local, by the program
around us; or not at all."""

_words: Final = msgspec.json.Decoder(tuple[str, ...]).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token without its secret, which cannot be read again."""

    id: str
    name: str
    scopes: frozenset[str]
    tenant: str
    """The only tenant that it reaches; "" is the whole store."""
    created_at: int
    created_by: str
    expires_at: int | None
    last_used_at: int | None
    """Accurate to a minute. A session counts as a use when it is opened."""
    revoked_at: int | None
    state: TokenState
    """The state when this was read."""
    queues: tuple[str, ...] = ()
    """The names to which it is confined; () is all."""
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just made, with its secret: the only time that it is shown."""

    token: Token
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Session:
    """A browser's session, which represents the token that logged in."""

    created_at: int
    seen_at: int
    """The last use, accurate to a minute."""
    ended_at: int | None = None
    """When it was logged out."""


@dataclass(frozen=True, slots=True)
class Recognized:
    """A valid token, found by its secret or session."""

    token: Token
    noteworthy: bool
    """True if the last recorded use is old enough to record this one."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller and its scopes."""

    name: str
    scopes: frozenset[str]
    tenant: str = ""
    """The only tenant that the caller reaches; "" is the whole store."""
    via: Via = "host"
    token_id: str | None = None
    queues: tuple[str, ...] = ()
    """The only names of which it may see jobs; () is all."""
    tasks: tuple[str, ...] = ()

    @property
    def is_confined(self) -> bool:
        """True if it may only work on, enqueue and read jobs of some queues or tasks."""
        return bool(self.queues or self.tasks)

    @property
    def holder(self) -> str:
        """The owner of its workers: the token, or another identification; never the app's own process."""
        return self.token_id or f"{self.via}:{self.name}"

    def may(self, scope: str) -> bool:
        """Return whether it has this scope; an admin has all."""
        return scope in self.scopes or ADMIN in self.scopes

    @property
    def actor(self) -> str:
        """The caller's name in the audit. No token's name can imitate another kind of actor."""
        return f"token:{self.name}" if self.via in ("token", "session") else self.name

    @property
    def role(self) -> str:
        """The widest role that the scopes include."""
        filled = [role for role in ("admin", "operator", "viewer") if all(self.may(scope) for scope in ROLES[role])]
        return filled[0] if filled else "limited"


LOCAL: Final = Identity("local", ROLES[ADMIN], via="local")
"""A caller on this machine, where no token is required."""
NOBODY: Final = Identity("nobody", frozenset(), via="nothing")
"""An unidentified caller."""


def scopes_in(text: str) -> frozenset[str]:
    """Parse scopes as they are stored."""
    return frozenset(_words(text))


def identity_of(token: Token, via: Via) -> Identity:
    """Return the identity of a token's bearer."""
    return Identity(token.name, token.scopes, token.tenant, via, token.id, token.queues, token.tasks)


def token_of(row: tuple[Any, ...], state: TokenState) -> Token:
    """Make a token from its columns."""
    id, name, scopes, tenant, created_at, created_by, expires_at, last_used_at, revoked_at, queues, tasks = row[:11]
    return Token(
        id=id, name=name, scopes=scopes_in(scopes), tenant=tenant, created_at=created_at, created_by=created_by,
        expires_at=expires_at, last_used_at=last_used_at, revoked_at=revoked_at, state=state,
        queues=_words(queues), tasks=_words(tasks),
    )  # fmt: skip
