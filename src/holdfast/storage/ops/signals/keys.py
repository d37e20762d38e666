"""Signing keys: those of waitpoints, one of which is active, and the store's own. A secret never leaves the store."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

from ....clock import SECOND
from ....errors import IllegalMove, KeyConflict, NotFound
from ....ids import token
from ....model.access import Key
from ....model.values import instant_of
from ....rules.signals import SECRET_BYTES
from ...port import Tx
from ...statements import sql
from ..audit import audit

GRACE: Final = 24 * 3600 * SECOND


async def seed(tx: Tx, kid: str, secret: str, *, actor: str, reason: str = "") -> bool:
    """Store the first key; False if it exists already. Another active key, or another secret, is a conflict."""
    if await _is_known(tx, kid, secret):
        return False
    if active := await tx.one(sql.active_key):
        raise KeyConflict(f"the key {active[0]!r} is active; rotate to the new one instead")
    await _insert(tx, kid, secret, actor, "key.seed", reason)
    return True


async def rotate(tx: Tx, kid: str, secret: str, *, actor: str, reason: str = "", grace: int = GRACE) -> bool:
    """Sign with a new key from now on; False if it is the active one already.

    The previous key verifies for `grace` microseconds, or until the last token that it signed has expired.
    """
    if await _is_known(tx, kid, secret):
        return False
    retired = await tx.one(sql.retire_key, grace=grace)
    before = {"kid": retired[0], "valid_until": retired[1]} if retired else None
    await _insert(tx, kid, secret, actor, "key.rotate", reason, before)
    return True


async def revoke(tx: Tx, kid: str, *, actor: str, reason: str = "") -> None:
    """Refuse every token that a key has signed, from now on. The active one must be rotated first."""
    if await tx.one(sql.revoke_key, kid=kid):
        await audit(tx, actor=actor, action="key.revoke", target=kid, reason=reason)
        return
    row = await tx.one(sql.get_key, kid=kid)
    if row is None:
        raise NotFound("key", kid)
    if row[1] == "active":
        raise IllegalMove(f"the key {kid!r} is active; rotate to another, then revoke it")


async def list_keys(tx: Tx) -> list[Key]:
    return [
        Key(kid, state, instant_of(created), instant_of(until), hashlib.sha256(bytes.fromhex(secret)).hexdigest()[:16])
        for kid, state, created, until, secret in await tx.all(sql.list_keys)
    ]


async def signing_key(tx: Tx) -> tuple[str, bytes]:
    """Return the active key; a new random one where none was ever seeded."""
    row = await tx.one(sql.active_key)
    if row is None:
        kid = f"auto-{token()[:8]}"
        # Another transaction may have done the same meanwhile: then use its key.
        if await tx.one(sql.insert_key, kid=kid, secret=secrets.token_hex(SECRET_BYTES)):
            await audit(tx, actor="holdfast", action="key.seed", target=kid, reason="the first waitpoint needs a key")
        row = await tx.one(sql.active_key)
    assert row is not None
    return row[0], bytes.fromhex(row[1])


async def verifying_secret(tx: Tx, kid: str) -> bytes | None:
    """Return the secret of a key that still verifies; None for any other or unknown key."""
    row = await tx.one(sql.get_key, kid=kid)
    if row is None:
        return None
    secret, state, valid_until, now = row
    is_good = state == "active" or (state == "retired" and valid_until > now)
    return bytes.fromhex(secret) if is_good else None


async def secret_of(tx: Tx, kid: str) -> bytes:
    """Return the secret of a key in whatever state, to write a token again as it was."""
    row = await tx.one(sql.get_key, kid=kid)
    if row is None:
        raise NotFound("key", kid)
    return bytes.fromhex(row[0])


async def store_secret(tx: Tx) -> bytes:
    """Return the secret that signs handles and result keys, created on first use. It never changes."""
    row = await tx.one(sql.store_secret)
    if row is None:
        await tx.one(sql.insert_store_secret, value=secrets.token_hex(SECRET_BYTES))
        row = await tx.one(sql.store_secret)
    assert row is not None
    return bytes.fromhex(row[0])


async def note_signed(tx: Tx, kid: str, expires_at: int) -> None:
    """Keep the key verifying at least until then."""
    await tx.one(sql.note_longest, kid=kid, exp=expires_at)


async def _is_known(tx: Tx, kid: str, secret: str) -> bool:
    row = await tx.one(sql.get_key, kid=kid)
    if row is None:
        return False
    if row[1] == "active" and hmac.compare_digest(row[0], secret):
        return True
    raise KeyConflict(f"the key {kid!r} exists with another secret, or is no longer active; choose another name")


async def _insert(tx: Tx, kid: str, secret: str, actor: str, action: str, reason: str, before: object = None) -> None:
    if await tx.one(sql.insert_key, kid=kid, secret=secret) is None:
        raise KeyConflict("another caller has just made a key active; look at the list and try again")
    await audit(tx, actor=actor, action=action, target=kid, reason=reason, before=before)
