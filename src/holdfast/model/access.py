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
"""The scopes of tokens. `payload` is to see arguments, results, frames and artifacts; `publish` is to put
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
"""The way in which a caller is known: by a token, by a browser's session, as local, by the program
around us; or not at all."""

_words: Final = msgspec.json.Decoder(tuple[str, ...]).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token without its secret, which nobody can read again."""

    id: str
    name: str
    scopes: frozenset[str]
    tenant: str
    """It reaches this tenant's part alone; "" is the whole store."""
    created_at: int
    created_by: str
    expires_at: int | None
    last_used_at: int | None
    """About when, by a minute. A session counts as a use when it is opened."""
    revoked_at: int | None
    state: TokenState
    """As it was when this was read."""
    queues: tuple[str, ...] = ()
    """Those that it is confined to; () is all."""
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just made, with its secret: the only time that it is shown."""

    token: Token
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Session:
    """A browser's session, which stands for the token that logged in."""

    created_at: int
    seen_at: int
    """About when it was last used, by a minute."""
    ended_at: int | None = None
    """When it was logged out."""


@dataclass(frozen=True, slots=True)
class Recognized:
    """A token that a secret or a session stands for, and is good."""

    token: Token
    noteworthy: bool
    """True if the last recorded use is old enough to record this one."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller, and the scopes that it has."""

    name: str
    scopes: frozenset[str]
    tenant: str = ""
    """He reaches this tenant's part alone; "" is the whole store."""
    via: Via = "host"
    token_id: str | None = None
    queues: tuple[str, ...] = ()
    """Jobs of these alone; () is all."""
    tasks: tuple[str, ...] = ()

    @property
    def is_confined(self) -> bool:
        """True if it may only work on, enqueue and read jobs of some queues or tasks."""
        return bool(self.queues or self.tasks)

    @property
    def holder(self) -> str:
        """The owner of its workers: the token, or how else the caller is known; never the app's own process."""
        return self.token_id or f"{self.via}:{self.name}"

    def may(self, scope: str) -> bool:
        """Return whether it has this scope; an admin has all."""
        return scope in self.scopes or ADMIN in self.scopes

    @property
    def actor(self) -> str:
        """His name in the audit. No name of a token makes it look like somebody else's."""
        return f"token:{self.name}" if self.via in ("token", "session") else self.name

    @property
    def role(self) -> str:
        """The widest role that his scopes fill."""
        filled = [role for role in ("admin", "operator", "viewer") if all(self.may(scope) for scope in ROLES[role])]
        return filled[0] if filled else "limited"


LOCAL: Final = Identity("local", ROLES[ADMIN], via="local")
"""A caller on this machine, where no token is asked for."""
NOBODY: Final = Identity("nobody", frozenset(), via="nothing")
"""A caller that is not known."""


def scopes_in(text: str) -> frozenset[str]:
    """Scopes as they are stored."""
    return frozenset(_words(text))


def identity_of(token: Token, via: Via) -> Identity:
    """Whom a token makes of its bearer."""
    return Identity(token.name, token.scopes, token.tenant, via, token.id, token.queues, token.tasks)


def token_of(row: tuple[Any, ...], state: TokenState) -> Token:
    """From its columns."""
    id, name, scopes, tenant, created_at, created_by, expires_at, last_used_at, revoked_at, queues, tasks = row[:11]
    return Token(
        id=id, name=name, scopes=scopes_in(scopes), tenant=tenant, created_at=created_at, created_by=created_by,
        expires_at=expires_at, last_used_at=last_used_at, revoked_at=revoked_at, state=state,
        queues=_words(queues), tasks=_words(tasks),
    )  # fmt: skip
