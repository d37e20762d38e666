"""Scopes and lifetimes of tokens and sessions. A secret is a prefix and 256 random bits."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection
from typing import Final

from ..clock import SECOND
from ..errors import AccessDenied, InvalidInput
from ..model.access import ADMIN, ROLES, SCOPES, Identity, Session, TokenState
from ..names import check_duration

PREFIX: Final = "hf_"
"""The prefix of a token's secret, by which people and scanners of leaked secrets recognise one."""
SESSION_PREFIX: Final = "hfs_"
SECRET_BYTES: Final = 32
IDLE: Final = 30 * 60 * SECOND
"""A session expires when it was not used for this long."""
ABSOLUTE: Final = 12 * 3600 * SECOND
"""No session lasts longer."""
CONFINED: Final = ("read", "payload", "enqueue", "signal", "work")
"""The scopes that are allowed for a token that is confined to queues or tasks."""
NOTED_EVERY: Final = 60 * SECOND
_LONGEST_LIFE: Final = 3_660 * 86_400 * SECOND
_RANDOM: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def scopes_of(given: object) -> frozenset[str]:
    """Return the scopes of a role by its name, or of a list; InvalidInput for an unknown one."""
    if isinstance(given, str):
        return _role(given)
    if not isinstance(given, (list, tuple, set, frozenset)):
        raise InvalidInput(f"scopes must be a list of texts, not {type(given).__qualname__}; write scopes=[…]")
    found = frozenset(check_scope(scope) for scope in given)
    if not found:
        raise InvalidInput(f"a token without scopes is good for nothing; give one or more of {', '.join(SCOPES)}")
    return frozenset(SCOPES) if ADMIN in found else found


def check_scope(scope: object) -> str:
    """Refuse an unknown scope with InvalidInput."""
    if not isinstance(scope, str) or scope not in SCOPES:
        raise InvalidInput(f"there is no scope {scope!r}; use one or more of {', '.join(SCOPES)}")
    return scope


def may(identity: Identity, scope: str) -> bool:
    """Return whether an identity has this scope; an unknown scope is refused, even to an admin."""
    return identity.may(check_scope(scope))


def check_confined(scopes: Collection[str]) -> None:
    """Refuse scopes that reach further than the queues or tasks to which a token is confined."""
    if beyond := [scope for scope in SCOPES if scope in scopes and scope not in CONFINED]:
        raise InvalidInput(
            f"a token that is confined to queues or tasks cannot have {', '.join(beyond)}; give it some of "
            f"{', '.join(CONFINED)}"
        )


def check_within(what: str, name: str, allowed: Collection[str]) -> None:
    """Raise AccessDenied if a token is confined to other names; an empty list is no restriction."""
    if allowed and name not in allowed:
        raise AccessDenied(f"the token does not allow {what} {name!r}", f"it is confined to {', '.join(allowed)}")


def check_life(expires: object) -> int | None:
    """Return a token's lifetime in microseconds; None never expires."""
    if expires is None:
        return None
    micros = check_duration("expires", expires)
    if not 0 < micros <= _LONGEST_LIFE:
        raise InvalidInput(
            "expires must be more than 0 seconds and at most ten years; leave it out for a token for ever"
        )
    return micros


def make_secret(randomness: bytes, prefix: str = PREFIX) -> str:
    """Return a secret made of 32 random bytes."""
    if len(randomness) != SECRET_BYTES:
        raise InvalidInput(f"a secret is made of {SECRET_BYTES} random bytes, not {len(randomness)}")
    return prefix + base64.urlsafe_b64encode(randomness).decode().rstrip("=")


def is_secret(text: object, prefix: str = PREFIX) -> bool:
    """Return whether a text has the form of a secret; any other text need not be looked up."""
    return isinstance(text, str) and text.startswith(prefix) and bool(_RANDOM.fullmatch(text, len(prefix)))


def digest(secret: str) -> str:
    """Return the hash that is stored. Random secrets of this length need neither salt nor a slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def state_of(revoked_at: int | None, expires_at: int | None, now: int) -> TokenState:
    """Return the state of a token. Only an active one is accepted."""
    if revoked_at is not None:
        return "revoked"
    return "expired" if expires_at is not None and expires_at <= now else "active"


def is_open(session: Session, now: int) -> bool:
    """Return whether a session is open, regardless of its token."""
    used_lately = now - session.seen_at < IDLE
    return session.ended_at is None and used_lately and now - session.created_at < ABSOLUTE


def is_noteworthy(last: int | None, now: int) -> bool:
    """Return whether the last recorded use is old enough to record this one."""
    return last is None or last <= now - NOTED_EVERY


def _role(name: str) -> frozenset[str]:
    if name not in ROLES:
        raise InvalidInput(f"there is no role {name!r}; use {', '.join(ROLES)}, or scopes=[…]")
    return ROLES[name]
