"""Quotas: `app.quotas`. Each method has an async version, actions are audited, and a repeated call changes nothing."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import EllipsisType
from typing import Any, TypeAlias

from ..errors import InvalidInput, QuotaNotFound
from ..model.budgets import Admission, Place, Quota, place_of
from ..names import check_duration, check_limit, check_name
from ..storage.ops.audit import audit
from ..storage.ops.budgets.accounts import key_of
from ..storage.ops.limits import quotas
from ..storage.port import Op, Store, Tx
from ..tasks.options import Seconds
from .audit import removal
from .calls import reads, writes
from .scope import EVERYTHING, Scope

Count: TypeAlias = "int | EllipsisType | None"
Window: TypeAlias = "Seconds | EllipsisType | None"


class Quotas:
    """Limits of the whole cluster: admissions within a window, and concurrency."""

    def __init__(self, store: Callable[[], Store], scope: Scope = EVERYTHING, *, shares: bool = False) -> None:
        self._store = store
        self._scope = scope
        self._shares = shares

    def of(self, tenant: str) -> Quotas:
        """Return the quotas of one tenant, in which its jobs look up names first."""
        scope = Scope(self._scope.of(check_name("tenant", tenant)))
        return Quotas(self._store, scope, shares=self._shares or self._scope.tenant is None)

    @reads
    def list(self, *, after: Quota | Place | None = None, limit: int = 500) -> Op[builtins.list[Quota]]:
        """Return every quota and its state, by tenant and name. `after` is the last of the page before."""
        tenant = self._scope.tenant
        if not 1 <= limit <= 1_000:
            raise InvalidInput(f"limit is {limit}; use 1 to 1,000")
        start = "" if after is None else key_of(*place_of(after))
        return Op(lambda tx: quotas.list_quotas(tx, tenant, after=start, limit=limit))

    alist = list.awaiting

    @reads
    def get(self, name: str) -> Op[Quota]:
        """Return one quota and its state; QuotaNotFound if there is none."""
        return Op(lambda tx: quotas.get(tx, self._scope.home, name))

    aget = get.awaiting

    @writes
    def set(
        self,
        name: str,
        *,
        limit: Count = ...,
        window: Window = ...,
        concurrency: Count = ...,
        actor: str = "app",
        reason: str = "",
    ) -> Op[bool]:
        """Create or change a quota: `limit` within any `window` seconds, `concurrency` at once; False if unchanged.

        Omitted settings stay as they are; None removes one.
        """
        tenant, quota = self._scope.home, check_name("the quota's name", name)

        async def run(tx: Tx) -> bool:
            terms = _terms(*await _merged(tx, tenant, quota, limit, window, concurrency))
            changed = await quotas.ensure(tx, tenant, quota, **terms, origin="operator")
            if changed:
                said = {"action": "quota.set", "target": quota, "reason": reason}
                await audit(tx, actor=actor, **said, after=terms, tenant=tenant)
            return changed

        return Op(run)

    aset = set.awaiting

    @writes
    def delete(self, name: str, *, actor: str = "app", reason: str = "") -> Op[bool]:
        """Delete a quota; False if there was none. Jobs that name it fail from then on."""
        tenant = self._scope.home
        return removal(
            lambda tx: quotas.remove(tx, tenant, name),
            action="quota.delete",
            target=name,
            actor=actor,
            reason=reason,
            tenant=tenant,
        )

    adelete = delete.awaiting

    @writes
    def admit(self, name: str, key: str) -> Op[Admission]:
        """Admit one more, or return why not. The same `key` within the window counts once.

        It counts as active until `release`, at the latest until its window ends, or without one for an hour.
        """
        tenant, holder, shares = self._scope.home, check_name("the key", key), self._shares
        return Op(lambda tx: quotas.admit(tx, tenant, name, holder, shares=shares))

    aadmit = admit.awaiting

    @writes
    def release(self, name: str, key: str) -> Op[bool]:
        """End an admission; False if it was not active."""
        tenant, holder, shares = self._scope.home, check_name("the key", key), self._shares
        return Op(lambda tx: quotas.release(tx, tenant, name, holder, shares=shares))

    arelease = release.awaiting


def declare_quota(name: str, limit: int | None, window: Seconds | None, concurrency: int | None) -> Op[None]:
    """Declare a quota in code; an operator's settings take precedence."""
    quota, terms = check_name("the quota's name", name), _terms(limit, window, concurrency)

    async def run(tx: Tx) -> None:
        await quotas.ensure(tx, "", quota, **terms, origin="code")

    return Op(run)


async def _merged(
    tx: Tx, tenant: str, name: str, limit: Count, window: Window, concurrency: Count
) -> tuple[int | None, Seconds | None, int | None]:
    """Return the given settings, with the current value of each omitted one."""
    await quotas.lock(tx, tenant, name)
    try:
        now = await quotas.get(tx, tenant, name)
        allowed, span, most = now.limit, now.window, now.concurrency
    except QuotaNotFound:
        allowed = span = most = None
    if limit is None:
        span = None
    return (
        allowed if limit is ... else limit,
        span if window is ... else window,
        most if concurrency is ... else concurrency,
    )


def _terms(limit: int | None, window: Seconds | None, concurrency: int | None) -> dict[str, Any]:
    if (limit is None) != (window is None):
        raise InvalidInput("limit and window belong together: a number of admissions per window of seconds")
    if limit is None and concurrency is None:
        raise InvalidInput("a quota needs limit= with window=, or concurrency=, or both")
    span = None if window is None else check_duration("window", window)
    if span == 0:
        raise InvalidInput("window is 0; give more seconds")
    return {
        "allowed": None if limit is None else check_limit("limit", limit),
        "span": span,
        "concurrency": None if concurrency is None else check_limit("concurrency", concurrency),
    }
