"""The record of operator actions, written in the same commit as the action itself."""

from __future__ import annotations

import json
from typing import Final

from ...errors import InvalidInput
from ...ids import ids
from ...model.audit import AuditFilter, AuditRecord
from ...model.values import decoded, instant_of
from ..port import Tx
from ..statements import sql

_LONGEST: Final = 4096
NOBODY: Final = "unknown"


async def audit(
    tx: Tx,
    *,
    actor: str,
    action: str,
    target: str,
    reason: str = "",
    before: object = None,
    after: object = None,
    tenant: str | None = None,
) -> None:
    """Record an action such as "queue.pause", whose first word is the kind of `target`.

    `before` and `after` are any JSON values; None is omitted. The `tenant` is that of the target job or flow, unless it
    is given.
    """
    await tx.one(
        sql.insert_audit,
        id=ids.new(),
        actor=actor or NOBODY,
        action=action,
        target_kind=action.partition(".")[0],
        target=target,
        reason=reason[:_LONGEST],
        before=_json(before),
        after=_json(after),
        tenant=tenant,
    )


async def list_audit(tx: Tx, wanted: AuditFilter) -> list[AuditRecord]:
    """List records, newest first."""
    common = {
        "actor": wanted.actor, "action": wanted.action, "since": wanted.since, "until": wanted.until,
        "before": wanted.before, "target_kind": wanted.target_kind, "n": wanted.limit, "tenant": wanted.tenant,
    }  # fmt: skip
    if wanted.tenant:
        rows = await tx.all(sql.list_audit_of_tenant, target=wanted.target, **common)
    elif wanted.target is None:
        rows = await tx.all(sql.list_audit, **common)
    elif wanted.target_kind is None:
        raise InvalidInput("a target is found by its kind too; give target_kind, such as 'queue' or 'job'")
    else:
        rows = await tx.all(sql.list_audit_of, target=wanted.target, **common)
    return [
        AuditRecord(id, instant_of(at), actor, action, kind, target, reason, decoded(before), decoded(after), tenant)
        for id, at, actor, action, kind, target, reason, before, after, tenant in rows
    ]


async def was_audited(tx: Tx, action: str, target: str) -> bool:
    """Return whether this action was recorded for it before."""
    kind = action.partition(".")[0]
    return await tx.one(sql.was_audited, target_kind=kind, target=target, action=action) is not None


def _json(value: object) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, default=str)
