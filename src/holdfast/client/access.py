"""Tokens and sessions for HTTP: `app.tokens`. Each method has an async version, and actions are audited.

A view of one tenant has none of this: tokens are the whole store's.
"""

from __future__ import annotations

import builtins
import logging
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from msgspec import structs

from ..errors import InvalidInput, QueueFull, StorageError
from ..ids import ids
from ..model.access import CreatedToken, Identity, Recognized, Token, identity_of
from ..names import check_name, check_queue
from ..rules.access import (
    SECRET_BYTES,
    SESSION_PREFIX,
    check_confined,
    check_life,
    digest,
    is_secret,
    make_secret,
    scopes_of,
)  # fmt: skip
from ..storage.ops import access
from ..storage.ops.audit import audit
from ..storage.port import Op, Store
from ..tasks.options import Seconds
from .calls import composed, reads, writes
from .lines import Line

logger: Final = logging.getLogger("holdfast.access")

_MOST: Final = 1_000
_MOST_NAMES: Final = 256


class Access:
    """Tokens, which programs send and people log in with, and the sessions of browsers."""

    def __init__(self, store: Callable[[], Store], check_tenant: Callable[[str | None], str]) -> None:
        self._store = store
        self._check_tenant = check_tenant

    # -- tokens

    @composed
    async def create(
        self,
        line: Line,
        name: str,
        *,
        role: str | None = None,
        scopes: Collection[str] | None = None,
        tenant: str | None = None,
        expires: Seconds | None = None,
        queues: Sequence[str] = (),
        tasks: Sequence[str] = (),
        actor: str = "app",
        reason: str = "",
    ) -> CreatedToken:
        """Create a token; the result has its secret, which is not stored and never shown again.

        A `role` (viewer, operator, admin) or `scopes` say what it allows. With a `tenant` it reaches only that tenant's
        part. It is valid for `expires` seconds, or with None until it is revoked. TokenConflict if an active token has
        that name.

        With `queues` or `tasks` it is confined to jobs of those: its workers serve no others, and it can enqueue and
        read no others. Such a token has none of the scopes operate and admin.
        """
        secret = make_secret(secrets.token_bytes(SECRET_BYTES))
        fields: dict[str, Any] = {
            "id": ids.new(),
            "name": check_name("the token's name", name),
            "digest": digest(secret),
            "scopes": _scopes(role, scopes),
            "tenant": self._check_tenant(tenant),
            "expires": check_life(expires),
            "queues": _names("queues", queues, check_queue),
            "tasks": _names("tasks", tasks, lambda task: check_name("a task", task)),
        }
        if fields["queues"] or fields["tasks"]:
            check_confined(fields["scopes"])
        token = await line.write(Op(lambda tx: access.create(tx, **fields, actor=actor, reason=reason)))
        return CreatedToken(**structs.asdict(token), secret=secret)

    acreate = create.awaiting

    @reads
    def list(self, *, after: Token | str | None = None, limit: int = 500) -> Op[builtins.list[Token]]:
        """Return every token, the oldest first, inactive ones too. `after` is the last of the page before or its id."""
        if not 1 <= limit <= _MOST:
            raise InvalidInput(f"limit is {limit}; use 1 to {_MOST:,}")
        start = after if isinstance(after, str) else "" if after is None else after.id
        return Op(lambda tx: access.list_tokens(tx, start, limit), single=True)

    alist = list.awaiting

    @reads
    def get(self, token: str) -> Op[Token]:
        """Return a token by its id, or by its name: the active one, else the newest. NotFound if there is none."""
        return Op(lambda tx: access.find(tx, token), single=True)

    aget = get.awaiting

    @writes
    def revoke(self, token: str, *, actor: str = "app", reason: str = "") -> Op[bool]:
        """Revoke a token, by its id or name, and its sessions; False if it was revoked already."""
        return Op(lambda tx: access.revoke(tx, token, actor=actor, reason=reason))

    arevoke = revoke.awaiting

    @composed
    async def identify(self, line: Line, secret: str) -> Identity | None:
        """Return the identity that a token's secret gives; None where it is wrong, expired or revoked."""
        if not is_secret(secret):
            return None
        found = await line.read(_identifying(secret))
        if found is not None and found.noteworthy:
            with _at_leisure():
                await line.write(_touching(found))
        return None if found is None else identity_of(found.token, "token")

    aidentify = identify.awaiting

    # -- sessions

    @composed
    async def login(self, line: Line, secret: str) -> tuple[str, Identity] | None:
        """Open a session with a token's secret; return the session's secret and identity. None as for `identify`."""
        # A read first: a wrong guess must not take the write lock.
        if not is_secret(secret) or await line.read(_identifying(secret)) is None:
            return None
        opened, op = _opening(secret)
        token = await line.write(op)
        return None if token is None else (opened, identity_of(token, "session"))

    alogin = login.awaiting

    @composed
    async def session(self, line: Line, session_secret: str) -> Identity | None:
        """Return the identity of a session; None where there is none, it is over, or its token is invalid.

        It expires after 30 minutes without use, 12 hours after it was opened, and when it is logged out.
        """
        if not is_secret(session_secret, SESSION_PREFIX):
            return None
        found = await line.read(_resuming(session_secret))
        if found is not None and found.noteworthy:
            with _at_leisure():
                await line.write(_staying(session_secret))
        return None if found is None else identity_of(found.token, "session")

    asession = session.awaiting

    @composed
    async def logout(self, line: Line, session_secret: str) -> bool:
        """End a session; False if there is none, or it was ended."""
        return is_secret(session_secret, SESSION_PREFIX) and await line.write(_ending(session_secret))

    alogout = logout.awaiting

    # -- the record

    @writes
    def note(self, actor: str, action: str, target: str, *, reason: str = "", tenant: str | None = None) -> Op[None]:
        """Record a refused attempt in the audit, under the name of the action, such as job.cancel."""
        return Op(lambda tx: audit(tx, actor=actor, action=action, target=target, reason=reason, tenant=tenant))

    anote = note.awaiting


def _identifying(secret: str) -> Op[Recognized | None]:
    hashed = digest(secret)
    return Op(lambda tx: access.identify(tx, hashed), single=True)


def _touching(found: Recognized) -> Op[None]:
    return Op(lambda tx: access.touch(tx, found.token.id), single=True, may_lose_on_power_failure=True)


def _opening(secret: str) -> tuple[str, Op[Token | None]]:
    opened = make_secret(secrets.token_bytes(SECRET_BYTES), SESSION_PREFIX)
    token, session = digest(secret), digest(opened)
    return opened, Op(lambda tx: access.open_session(tx, token, session))


def _resuming(secret: str) -> Op[Recognized | None]:
    hashed = digest(secret)
    return Op(lambda tx: access.identify_session(tx, hashed), single=True)


def _staying(secret: str) -> Op[None]:
    hashed = digest(secret)
    return Op(lambda tx: access.touch_session(tx, hashed), single=True, may_lose_on_power_failure=True)


def _ending(secret: str) -> Op[bool]:
    hashed = digest(secret)
    return Op(lambda tx: access.end_session(tx, hashed))


def _scopes(role: str | None, scopes: Collection[str] | None) -> frozenset[str]:
    if (role is None) == (scopes is None):
        raise InvalidInput("a token has a role or scopes; give one of them, not both")
    if role is not None:
        return scopes_of(role)
    if isinstance(scopes, str):
        raise InvalidInput(f"scopes must be a list of texts, not one; write scopes=[{scopes!r}]")
    return scopes_of(scopes or ())


def _names(what: str, given: object, check: Callable[[object], str]) -> list[str]:
    if isinstance(given, str) or not isinstance(given, (list, tuple, set, frozenset)):
        raise InvalidInput(f"{what} must be a list of names; write {what}=[…]")
    if len(given) > _MOST_NAMES:
        raise InvalidInput(f"{what} has {len(given):,} names; give at most {_MOST_NAMES}")
    return sorted({check(name) for name in given})


@contextmanager
def _at_leisure() -> Iterator[None]:
    """Ignore that a use could not be recorded: a store that is full or busy can still be read."""
    try:
        yield
    except (StorageError, QueueFull) as error:
        logger.debug("a use of a token was not recorded: %s", error)
