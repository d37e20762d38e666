"""Keys that sign the tokens of waitpoints. Secrets are never shown or accepted."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ...model.access import Key
from ..wire.call import Call
from ..wire.operation import Group
from .paging import Page, whole
from .types import Acting, Changed, Name, Reason, Seconds

group = Group("Keys", "Keys that sign the tokens of waitpoints.")

_WHAT = "the signing keys"


class KeyRotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Signatures of the previous key stay valid for at least `grace` seconds."""

    kid: Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")] | None = None
    grace: Seconds = 86_400.0
    reason: Reason = ""


class KeyActive(msgspec.Struct, frozen=True, kw_only=True):
    """The key that signs from now on."""

    kid: str


class KeyRevoked(Changed, frozen=True, kw_only=True):
    """A revoked key, whose signatures are rejected."""

    kid: str
    revoked: bool


@group.get("/keys", needs="admin")
async def list_keys(call: Call) -> Page[Key]:
    """List the keys by fingerprint, without their secrets."""
    return whole(await call.whole(_WHAT).keys.alist())


@group.post("/keys/rotate", needs="admin")
async def rotate_key(call: Call, body: KeyRotation) -> KeyActive:
    """Rotate the signing key.

    The new key is random. Signatures of the old one stay valid until they expire.
    """
    keys = call.whole(_WHAT).keys
    return KeyActive(kid=await keys.arotate(body.kid, grace=body.grace, actor=call.actor, reason=body.reason))


@group.post("/keys/{kid}/revoke", needs="admin")
async def revoke_key(call: Call, kid: Name, body: Acting) -> KeyRevoked:
    """Revoke a retired key, so that its signatures are rejected."""
    keys = call.whole(_WHAT).keys
    before = {key.kid: key.state for key in await keys.alist()}
    await keys.arevoke(kid, actor=call.actor, reason=body.reason)
    return KeyRevoked(changed=before.get(kid) != "revoked", kid=kid, revoked=True)
