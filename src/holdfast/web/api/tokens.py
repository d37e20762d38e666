"""Tokens: who may come in over HTTP. A secret is shown once, when its token is made."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from ...model.access import ScopeName
from ...shapes.access import CreatedToken, Token, of_new_token, of_token
from ...shapes.acting import Changed
from ...shapes.pages import Page, part, place_at
from ..wire.call import Call
from ..wire.operation import Group
from .types import Acting, Listing, Name, QueueName, Reason

group = Group("Tokens", "Who may come in over HTTP.")

Life = Annotated[float, msgspec.Meta(ge=1, le=3_650 * 86_400.0, description="Seconds.")]
_WHAT = "the tokens"


class WantedToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the token is good for is said by a role or by scopes, and by one of them alone.

    With `queues` or `tasks` it is confined to jobs of those.
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
    """Every token without its secret, the oldest first, also those that are over."""
    after = None if query.after is None else place_at(query.after)[0]
    found = await call.whole(_WHAT).access.alist(after=after, limit=query.limit)
    return part(found, query.limit, of_token, lambda one: (one.id,))


@group.post("/tokens", needs="admin", status=201)
async def create_token(call: Call, body: WantedToken) -> CreatedToken:
    """Make a token. The answer has its secret, this once: it is stored nowhere."""
    made = await call.whole(_WHAT).access.acreate(
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
    return of_new_token(made)


@group.get("/tokens/{token}", needs="admin")
async def get_token(call: Call, token: Name) -> Token:
    """A token by its id, or by its name: the one in force, else the newest."""
    return of_token(await call.whole(_WHAT).access.aget(token))


@group.post("/tokens/{token}/revoke", needs="admin")
async def revoke_token(call: Call, token: Name, body: Acting) -> Changed:
    """Refuse a token, by its id or name, and whoever has logged in with it. It takes effect within seconds."""
    return Changed(changed=await call.whole(_WHAT).access.arevoke(token, actor=call.actor, reason=body.reason))
