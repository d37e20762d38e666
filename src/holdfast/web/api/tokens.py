"""Access tokens of the HTTP API. A secret is shown once, when its token is created."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from ...model.access import CreatedToken, ScopeName, Token
from ..wire.call import Call
from ..wire.operation import Group
from .paging import Page, part, place_at
from .types import Acting, Changed, Listing, Name, QueueName, Reason

group = Group("Tokens", "Access tokens of the HTTP API.")

Life = Annotated[float, msgspec.Meta(ge=1, le=3_650 * 86_400.0, description="Seconds.")]
_WHAT = "the tokens"


class WantedToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A new token, with either a role or scopes.

    With `queues` or `tasks` it is restricted to those jobs.
    """

    name: Name
    role: Literal["viewer", "operator", "admin"] | None = None
    scopes: Annotated[list[ScopeName], msgspec.Meta(min_length=1, max_length=16)] | None = None
    tenant: Name | None = None
    expires: Life | None = None
    queues: Annotated[list[QueueName], msgspec.Meta(max_length=256)] = []
    tasks: Annotated[list[Name], msgspec.Meta(max_length=256)] = []
    reason: Reason = ""


@group.get("/tokens", needs="admin")
async def list_tokens(call: Call, query: Listing) -> Page[Token]:
    """List the tokens without their secrets, oldest first, including expired and revoked ones."""
    after = None if query.after is None else place_at(query.after)[0]
    found = await call.whole(_WHAT).tokens.alist(after=after, limit=query.limit)
    return part(found, query.limit, lambda one: (one.id,))


@group.post("/tokens", needs="admin", status=201)
async def create_token(call: Call, body: WantedToken) -> CreatedToken:
    """Create a token.

    The response contains its secret, which is not stored and not shown again.
    """
    return await call.whole(_WHAT).tokens.acreate(
        body.name,
        role=body.role,
        scopes=body.scopes,
        tenant=body.tenant,
        expires=body.expires,
        queues=body.queues,
        tasks=body.tasks,
        actor=call.actor,
        reason=body.reason,
    )


@group.get("/tokens/{token}", needs="admin")
async def get_token(call: Call, token: Name) -> Token:
    """Get a token by id, or by name: the active one, or the newest."""
    return await call.whole(_WHAT).tokens.aget(token)


@group.post("/tokens/{token}/revoke", needs="admin")
async def revoke_token(call: Call, token: Name, body: Acting) -> Changed:
    """Revoke a token by id or name, and its sessions. Takes effect within seconds."""
    return Changed(changed=await call.whole(_WHAT).tokens.arevoke(token, actor=call.actor, reason=body.reason))
