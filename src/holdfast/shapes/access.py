"""Tokens of the HTTP API, and the keys that sign those of waitpoints. A secret is shown once, or never."""

from __future__ import annotations

from typing import Any

import msgspec

from ..model.access import SCOPES, NewToken, TokenState
from ..model.access import Token as TokenRecord
from ..model.signals import Key as KeyRecord
from ..rules.access import role_of
from .bulk import Changed
from .values import Instant, instant_of


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secret. With a tenant it reaches that tenant's part alone.

    With `queues` or `tasks` it may work on, enqueue and read jobs of those alone.
    """

    id: str
    name: str
    state: TokenState
    role: str | None
    scopes: list[str]
    queues: list[str]
    tasks: list[str]
    tenant: str
    created_at: Instant | None
    created_by: str
    expires_at: Instant | None
    last_used_at: Instant | None
    revoked_at: Instant | None


class CreatedToken(Token, frozen=True, kw_only=True):
    """A token with its secret: the only time that it is shown."""

    secret: str


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A signing key by a fingerprint. A retired one verifies until `valid_until`."""

    kid: str
    state: str
    created_at: Instant | None
    valid_until: Instant | None
    fingerprint: str


class KeyActive(msgspec.Struct, frozen=True, kw_only=True):
    """The key that signs from now on."""

    kid: str


class KeyRevoked(Changed, frozen=True, kw_only=True):
    """A key of which nothing is good any more."""

    kid: str
    revoked: bool


def of_token(token: TokenRecord) -> Token:
    return Token(**_facts(token))


def of_new_token(made: NewToken) -> CreatedToken:
    return CreatedToken(**_facts(made.token), secret=made.secret)


def of_key(key: KeyRecord) -> Key:
    return Key(
        kid=key.kid,
        state=key.state,
        created_at=instant_of(key.created_at),
        valid_until=instant_of(key.valid_until),
        fingerprint=key.fingerprint,
    )


def _facts(token: TokenRecord) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "state": token.state,
        "role": role_of(token.scopes),
        "scopes": [scope for scope in SCOPES if scope in token.scopes],
        "queues": list(token.queues),
        "tasks": list(token.tasks),
        "tenant": token.tenant,
        "created_at": instant_of(token.created_at),
        "created_by": token.created_by,
        "expires_at": instant_of(token.expires_at),
        "last_used_at": instant_of(token.last_used_at),
        "revoked_at": instant_of(token.revoked_at),
    }
