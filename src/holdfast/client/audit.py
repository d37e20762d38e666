"""The record of what operators did: `app.audit`. Each method has an async version."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime

from ..errors import InvalidInput
from ..model.audit import AuditFilter, AuditRecord
from ..names import check_instant
from ..storage.ops.audit import audit, list_audit
from ..storage.port import Op, Store, Tx
from .calls import reads
from .scope import EVERYTHING, Scope


class Audit:
    """The record of one store. Records are written by the actions themselves, in their own commit."""

    def __init__(self, store: Callable[[], Store], scope: Scope = EVERYTHING) -> None:
        self._store = store
        self._scope = scope

    @reads
    def list(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        target_kind: str | None = None,
        target: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: str | None = None,
        limit: int = 50,
        tenant: str | None = None,
    ) -> Op[builtins.list[AuditRecord]]:
        """Return records, newest first. `before` is the id that the page before ended with.

        `tenant` is that of the targets, "" for targets of no tenant.
        """
        wanted = self._wanted(_wanted(actor, action, target_kind, target, since, until, before, limit, tenant))
        return Op(lambda tx: list_audit(tx, wanted), single=True)

    alist = list.awaiting

    def _wanted(self, asked: AuditFilter) -> AuditFilter:
        return replace(asked, tenant=self._scope.within(asked.tenant))


def _wanted(  # noqa: PLR0917 - the filters of `list`, in its order
    actor: str | None,
    action: str | None,
    target_kind: str | None,
    target: str | None,
    since: datetime | None,
    until: datetime | None,
    before: str | None,
    limit: int,
    tenant: str | None,
) -> AuditFilter:
    if not 1 <= limit <= 10_000:
        raise InvalidInput(f"limit is {limit}; use 1 to 10,000")
    return AuditFilter(
        actor=actor,
        action=action,
        target_kind=target_kind,
        target=target,
        since=None if since is None else check_instant("since", since),
        until=None if until is None else check_instant("until", until),
        before=before,
        limit=limit,
        tenant=tenant,
    )


def removal(
    remove: Callable[[Tx], Awaitable[bool]],
    *,
    action: str,
    target: str,
    actor: str,
    reason: str,
    tenant: str | None = None,
) -> Op[bool]:
    """Remove something and record it, in one commit; False, and no record, if there was nothing to remove."""

    async def run(tx: Tx) -> bool:
        removed = await remove(tx)
        if removed:
            await audit(tx, actor=actor, action=action, target=target, reason=reason, tenant=tenant)
        return removed

    return Op(run)
