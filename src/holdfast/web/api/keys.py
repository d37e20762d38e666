"""The keys that sign the tokens of waitpoints. No secret is ever shown, nor taken."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ...shapes.access import Key, KeyActive, KeyRevoked, of_key
from ...shapes.pages import Page, whole
from ..wire.call import Call
from ..wire.operation import Group
from .types import Acting, Name, Reason, Seconds

group = Group("Keys", "What signs the tokens of waitpoints.")

_WHAT = "the signing keys"


class KeyRotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the key before has signed stays good for `grace` seconds at least."""

    kid: Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")] | None = None
    grace: Seconds = 86_400.0
    reason: Reason = ""


@group.get("/keys", needs="admin")
async def list_keys(call: Call) -> Page[Key]:
    """Every key by its fingerprint, without its secret."""
    return whole(await call.whole(_WHAT).keys.alist(), of_key)


@group.post("/keys/rotate", needs="admin")
async def rotate_key(call: Call, body: KeyRotation) -> KeyActive:
    """Sign with another, random key from now on. What the old one signed stays good until it expires."""
    keys = call.whole(_WHAT).keys
    return KeyActive(kid=await keys.arotate(body.kid, grace=body.grace, actor=call.actor, reason=body.reason))


@group.post("/keys/{kid}/revoke", needs="admin")
async def revoke_key(call: Call, kid: Name, body: Acting) -> KeyRevoked:
    """Refuse from now on whatever a retired key has signed."""
    keys = call.whole(_WHAT).keys
    before = {key.kid: key.state for key in await keys.alist()}
    await keys.arevoke(kid, actor=call.actor, reason=body.reason)
    return KeyRevoked(changed=before.get(kid) != "revoked", kid=kid, revoked=True)
