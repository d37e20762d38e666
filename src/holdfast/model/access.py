"""Access over HTTP: tokens, sessions, the identities that they give to callers; and the keys that sign waitpoints."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from .values import Instant, instant_of

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


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secret, which cannot be read again."""

    id: str
    name: str
    state: TokenState
    """The state when this was read."""
    role: str | None
    """The role with exactly these scopes, if there is one."""
    scopes: tuple[str, ...]
    queues: tuple[str, ...]
    """The names to which it is confined; () is all."""
    tasks: tuple[str, ...]
    tenant: str
    """The only tenant that it reaches; "" is the whole store."""
    created_at: Instant
    created_by: str
    expires_at: Instant | None
    last_used_at: Instant | None
    """Accurate to a minute. A session counts as a use when it is opened."""
    revoked_at: Instant | None


class CreatedToken(Token, frozen=True, kw_only=True):
    """A token with its secret: the only time that it is shown."""

    secret: str

    def __repr__(self) -> str:
        return f"CreatedToken({self.name!r})"


class Key(msgspec.Struct, frozen=True):
    """A signing key without its secret."""

    kid: str
    state: Literal["active", "retired", "revoked"]
    created_at: Instant
    valid_until: Instant | None
    """A retired key verifies its signatures until then."""
    fingerprint: str
    """The beginning of the secret's hash, to see whether two stores have the same."""


@dataclass(frozen=True, slots=True)
class Session:
    """A browser's session, which represents the token that logged in. Instants are microseconds."""

    created_at: int
    seen_at: int
    """The last use, accurate to a minute."""
    ended_at: int | None = None
    """The time of its logout."""


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


def role_of(scopes: Collection[str]) -> str | None:
    """Return the role with exactly these scopes, if there is one."""
    found = frozenset(SCOPES) if ADMIN in scopes else frozenset(scopes)
    return next((name for name, those in ROLES.items() if those == found), None)


def identity_of(token: Token, via: Via) -> Identity:
    """Return the identity of a token's bearer."""
    return Identity(token.name, frozenset(token.scopes), token.tenant, via, token.id, token.queues, token.tasks)


def token_of(row: tuple[Any, ...], state: TokenState) -> Token:
    """Make a token from its columns."""
    id, name, stored, tenant, created_at, created_by, expires_at, last_used_at, revoked_at, queues, tasks = row[:11]
    scopes = _words(stored)
    return Token(
        id=id, name=name, state=state, role=role_of(scopes),
        scopes=tuple(scope for scope in SCOPES if scope in scopes), queues=_words(queues), tasks=_words(tasks),
        tenant=tenant, created_at=instant_of(created_at), created_by=created_by, expires_at=instant_of(expires_at),
        last_used_at=instant_of(last_used_at), revoked_at=instant_of(revoked_at),
    )  # fmt: skip
