"""Tokens and sessions. Only the SHA-256 of a secret is stored; a secret is found by plain reads of that hash.

How long an index lookup takes depends on how much of a hash matches. That reveals nothing useful: a caller who can
choose the first bytes of a SHA-256 still does not know the 256 random bits behind it.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Collection, Sequence

from ...errors import NotFound, TokenConflict
from ...model.access import SCOPES, Recognized, Session, Token, identity_of, token_of
from ...model.values import micros_of
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
    """Create a token that is valid for `expires` microseconds; TokenConflict where an active one has that name."""
    listed = [scope for scope in SCOPES if scope in scopes]
    await tx.one(sql.retire_expired_token, name=name)
    made = await tx.one(
        sql.add_token, id=id, name=name, hash=digest, scopes=json.dumps(listed), tenant=tenant, actor=actor,
        expires=expires, queues=json.dumps(queues), tasks=json.dumps(tasks),
    )  # fmt: skip
    if made is None:
        raise TokenConflict(name)
    token = await find(tx, id)
    after: dict[str, object] = {"name": name, "scopes": listed, "expires_at": micros_of(token.expires_at)}
    after |= {what: names for what, names in (("queues", queues), ("tasks", tasks)) if names}
    await audit(tx, actor=actor, action="token.create", target=id, reason=reason, after=after, tenant=tenant)
    return token


async def find(tx: Tx, which: str) -> Token:
    """Find a token by its id or name; of several with that name the active one, else the newest."""
    row = await tx.one(sql.find_token, which=which)
    if row is None:
        raise NotFound("token", which)
    return _token(row)


async def list_tokens(tx: Tx, after: str, n: int) -> list[Token]:
    """List tokens in the order of their ids, including expired and revoked ones that are still kept."""
    return [_token(row) for row in await tx.all(sql.list_tokens, after=after, n=n)]


async def revoke(tx: Tx, which: str, *, actor: str, reason: str = "") -> bool:
    """Revoke a token and every session that it opened; False if it was not active."""
    token = await find(tx, which)
    if await tx.one(sql.revoke_token, id=token.id) is None:
        return False
    said = {"action": "token.revoke", "target": token.id, "reason": reason}
    await audit(tx, actor=actor, **said, before={"name": token.name}, tenant=token.tenant)
    return True


async def identify(tx: Tx, digest: str) -> Recognized | None:
    """Return the active token whose secret has this hash."""
    row = await tx.one(sql.identify_token, hash=digest)
    if row is None or not hmac.compare_digest(row[12], digest):
        return None
    token = _token(row)
    return Recognized(token, is_noteworthy(row[7], row[11])) if token.state == "active" else None


async def touch(tx: Tx, token_id: str) -> None:
    """Record a token's use, at most once a minute."""
    await tx.one(sql.touch_token, id=token_id, rest=NOTED_EVERY)


async def open_session(tx: Tx, digest: str, session_digest: str) -> Token | None:
    """Open a session for the bearer of a token, unless the token is not active."""
    found = await identify(tx, digest)
    if found is None:
        return None
    token = found.token
    await tx.one(sql.open_session, hash=session_digest, token=token.id)
    await touch(tx, token.id)
    await audit(tx, actor=_bearer(token), action="token.login", target=token.id, tenant=token.tenant)
    return token


async def identify_session(tx: Tx, digest: str) -> Recognized | None:
    """Return the active token of an open session whose secret has this hash."""
    row = await tx.one(sql.identify_session, hash=digest)
    if row is None or not hmac.compare_digest(row[12], digest):
        return None
    token, session = _token(row), Session(*row[13:16])
    if token.state != "active" or not is_open(session, row[11]):
        return None
    return Recognized(token, is_noteworthy(session.seen_at, row[11]))


async def touch_session(tx: Tx, digest: str) -> None:
    """Record a session's use, at most once a minute."""
    await tx.one(sql.touch_session, hash=digest, rest=NOTED_EVERY, idle=IDLE)


async def end_session(tx: Tx, digest: str) -> bool:
    """End a session; False if there is none, or it has ended."""
    row = await tx.one(sql.identify_session, hash=digest)
    if row is None or await tx.one(sql.end_session, hash=digest) is None:
        return False
    token = _token(row)
    await audit(tx, actor=_bearer(token), action="token.logout", target=token.id, tenant=token.tenant)
    return True


async def is_over(tx: Tx, kept: int) -> bool:
    """Return whether there are expired sessions, or tokens that ended `kept` µs ago or earlier."""
    return await tx.one(sql.access_is_over, life=ABSOLUTE, kept=_kept(kept)) is not None


async def prune(tx: Tx, kept: int) -> int:
    """Remove a batch of those; return how many."""
    sessions = len(await tx.all(sql.prune_sessions, life=ABSOLUTE, n=BATCH))
    return sessions + len(await tx.all(sql.prune_tokens, kept=_kept(kept), n=BATCH))


def _bearer(token: Token) -> str:
    return identity_of(token, "session").actor


def _kept(micros: int) -> int:
    return max(micros, ABSOLUTE)


def _token(row: Row) -> Token:
    return token_of(row, state_of(row[8], row[6], row[11]))
