"""Quotas: a number of jobs per time window, and a concurrency."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ...client.quotas import Quotas
from ...model.budgets import Admission, Admitted, AlreadyAdmitted, ConcurrencyExceeded, Quota, RateExceeded
from ..wire.call import Call
from ..wire.operation import Group
from .budgets import TenantAndReason, TenantListing, TenantQuery
from .paging import Page, part, place_at
from .types import LONGEST, Changed, Count, Name, Reason

group = Group("Quotas", "Cluster-wide limits per time window, and concurrency.")

Window = Annotated[float, msgspec.Meta(ge=0.001, le=LONGEST, description="Seconds.")]


class QuotaTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`limit` per `window` seconds, and `concurrency`. Null removes a value; fields left out are unchanged."""

    limit: Count | UnsetType | None = UNSET
    window: Window | UnsetType | None = UNSET
    concurrency: Count | UnsetType | None = UNSET
    reason: Reason = ""


class Holder(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The key to admit. The same key within the window counts once."""

    key: Name


class QuotaChanged(Changed, frozen=True, kw_only=True):
    """A quota after it was set."""

    quota: Quota


class Admittance(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a quota: admitted or not, and if not, when there is room again or how many are active."""

    admitted: bool
    outcome: Literal["admitted", "already_admitted", "rate_exceeded", "concurrency_exceeded"]
    retry_after: float | None = None
    active: int | None = None


@group.get("/quotas", needs="read")
async def list_quotas(call: Call, query: TenantListing) -> Page[Quota]:
    """List the quotas with their use."""
    after: Any = None if query.after is None else place_at(query.after, 2)
    found = await _quotas(call, query.tenant).alist(after=after, limit=query.limit)
    return part(found, query.limit, lambda one: (one.tenant, one.name))


@group.get("/quotas/{name}", needs="read")
async def get_quota(call: Call, name: Name, query: TenantQuery) -> Quota:
    """Get a quota with its use."""
    return await _quotas(call, query.tenant).aget(name)


@group.put("/quotas/{name}", needs="operate")
async def set_quota(call: Call, name: Name, query: TenantQuery, body: QuotaTerms) -> QuotaChanged:
    """Create or change a quota. Fields left out are unchanged."""
    quotas = _quotas(call, query.tenant)
    fields = msgspec.structs.asdict(body)
    wanted = {key: value for key, value in fields.items() if value is not UNSET and key != "reason"}
    changed = await quotas.aset(name, **wanted, actor=call.actor, reason=body.reason)
    return QuotaChanged(changed=changed, quota=await quotas.aget(name))


@group.delete("/quotas/{name}", needs="operate")
async def delete_quota(call: Call, name: Name, query: TenantAndReason) -> Changed:
    """Delete a quota. Jobs that use it fail from then on."""
    removed = await _quotas(call, query.tenant).adelete(name, actor=call.actor, reason=query.reason)
    return Changed(changed=removed)


@group.post("/quotas/{name}/admit", needs="operate")
async def admit_to_quota(call: Call, name: Name, query: TenantQuery, body: Holder) -> Admittance:
    """Admit a key, or explain why not.

    It counts as active until it is released or its window ends.
    """
    return _admittance(await _quotas(call, query.tenant).aadmit(name, body.key))


@group.post("/quotas/{name}/release", needs="operate")
async def release_from_quota(call: Call, name: Name, query: TenantQuery, body: Holder) -> Changed:
    """Release a key, so that it is no longer active."""
    return Changed(changed=await _quotas(call, query.tenant).arelease(name, body.key))


def _admittance(answer: Admission) -> Admittance:
    match answer:
        case Admitted():
            return Admittance(admitted=True, outcome="admitted")
        case AlreadyAdmitted():
            return Admittance(admitted=True, outcome="already_admitted")
        case RateExceeded(retry_after):
            return Admittance(admitted=False, outcome="rate_exceeded", retry_after=retry_after)
        case ConcurrencyExceeded(active):
            return Admittance(admitted=False, outcome="concurrency_exceeded", active=active)


def _quotas(call: Call, tenant: str | None) -> Quotas:
    quotas = call.client.quotas
    return quotas if tenant is None else quotas.of(tenant)
