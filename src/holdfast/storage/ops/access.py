"""Tokens and sessions. Of a secret only its SHA-256 is here, and what is found by that is read with plain reads.

A lookup by an index takes longer or shorter by how much of a hash fits. That tells nothing of use: who can choose the
first bytes of a SHA-256 still does not know 256 random bits whose hash it is.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Collection, Sequence

from ...errors import NotFound, TokenConflict
from ...model.access import SCOPES, Recognized, Session, Token, identity_of, token_of
from ...rules.access import ABSOLUTE, IDLE, NOTED_EVERY, is_noteworthy, is_open, state_of
from ..port import Row, Tx
from ..statements import sql
from .audit import audit
from .jobs.retention import BATCH


async def create(
    tx: Tx,
    *,
    id: str,
    name: str,
    digest: str,
    scopes: Collection[str],
    tenant: str,
    expires: int | None,
    queues: Sequence[str] = (),
    tasks: Sequence[str] = (),
    actor: str,
    reason: str = "",
) -> Token:
    """Make a token that is good for `expires` microseconds; TokenConflict where one of that name is in force."""
    listed = [scope for scope in SCOPES if scope in scopes]
    await tx.one(sql.retire_expired_token, name=name)
    made = await tx.one(
        sql.add_token, id=id, name=name, hash=digest, scopes=json.dumps(listed), tenant=tenant, actor=actor,
        expires=expires, queues=json.dumps(queues), tasks=json.dumps(tasks),
    )  # fmt: skip
    if made is None:
        raise TokenConflict(name)
    token = await find(tx, id)
    after: dict[str, object] = {"name": name, "scopes": listed, "expires_at": token.expires_at}
    after |= {what: names for what, names in (("queues", queues), ("tasks", tasks)) if names}
    await audit(tx, actor=actor, action="token.create", target=id, reason=reason, after=after, tenant=tenant)
    return token


async def find(tx: Tx, which: str) -> Token:
    """A token by its id, or by its name; of several of that name the one in force, else the newest."""
    row = await tx.one(sql.find_token, which=which)
    if row is None:
        raise NotFound("token", which)
    return _token(row)


async def list_tokens(tx: Tx, after: str, n: int) -> list[Token]:
    """In the order of their ids, those that are over too as long as they are kept."""
    return [_token(row) for row in await tx.all(sql.list_tokens, after=after, n=n)]


async def revoke(tx: Tx, which: str, *, actor: str, reason: str = "") -> bool:
    """From now on it is good for nothing, nor is any session that it has opened; False if that was so."""
    token = await find(tx, which)
    if await tx.one(sql.revoke_token, id=token.id) is None:
        return False
    said = {"action": "token.revoke", "target": token.id, "reason": reason}
    await audit(tx, actor=actor, **said, before={"name": token.name}, tenant=token.tenant)
    return True


async def identify(tx: Tx, digest: str) -> Recognized | None:
    """The active token whose secret has this hash."""
    row = await tx.one(sql.identify_token, hash=digest)
    if row is None or not hmac.compare_digest(row[12], digest):
        return None
    token = _token(row)
    return Recognized(token, is_noteworthy(token.last_used_at, row[11])) if token.state == "active" else None


async def touch(tx: Tx, token_id: str) -> None:
    """It is used now; noted once in a minute at most."""
    await tx.one(sql.touch_token, id=token_id, rest=NOTED_EVERY)


async def open_session(tx: Tx, digest: str, session_digest: str) -> Token | None:
    """A session for the bearer of a token, unless the token is no good."""
    found = await identify(tx, digest)
    if found is None:
        return None
    token = found.token
    await tx.one(sql.open_session, hash=session_digest, token=token.id)
    await touch(tx, token.id)
    await audit(tx, actor=_bearer(token), action="token.login", target=token.id, tenant=token.tenant)
    return token


async def identify_session(tx: Tx, digest: str) -> Recognized | None:
    """The active token of an open session whose secret has this hash."""
    row = await tx.one(sql.identify_session, hash=digest)
    if row is None or not hmac.compare_digest(row[12], digest):
        return None
    token, session = _token(row), Session(*row[13:16])
    if token.state != "active" or not is_open(session, row[11]):
        return None
    return Recognized(token, is_noteworthy(session.seen_at, row[11]))


async def touch_session(tx: Tx, digest: str) -> None:
    """It is used now; noted once in a minute at most."""
    await tx.one(sql.touch_session, hash=digest, rest=NOTED_EVERY, idle=IDLE)


async def end_session(tx: Tx, digest: str) -> bool:
    """Its secret is good for nothing any more; False if there is no such session, or it was ended."""
    row = await tx.one(sql.identify_session, hash=digest)
    if row is None or await tx.one(sql.end_session, hash=digest) is None:
        return False
    token = _token(row)
    await audit(tx, actor=_bearer(token), action="token.logout", target=token.id, tenant=token.tenant)
    return True


async def is_over(tx: Tx, kept: int) -> bool:
    """Whether there are sessions that cannot be good any more, or tokens that were over `kept` µs ago."""
    return await tx.one(sql.access_is_over, life=ABSOLUTE, kept=_kept(kept)) is not None


async def prune(tx: Tx, kept: int) -> int:
    """Remove some of those; how many."""
    sessions = len(await tx.all(sql.prune_sessions, life=ABSOLUTE, n=BATCH))
    return sessions + len(await tx.all(sql.prune_tokens, kept=_kept(kept), n=BATCH))


def _bearer(token: Token) -> str:
    return identity_of(token, "session").actor


def _kept(micros: int) -> int:
    return max(micros, ABSOLUTE)


def _token(row: Row) -> Token:
    return token_of(row, state_of(row[8], row[6], row[11]))
