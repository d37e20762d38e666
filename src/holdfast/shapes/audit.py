"""Records of operators' actions."""

from __future__ import annotations

import msgspec

from ..model.audit import AuditRecord
from .values import Instant, Withheld, decoded, instant_of


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One action: who, what, to which, why, and what it changed."""

    id: str
    at: Instant | None
    actor: str
    action: str
    target_kind: str
    target: str
    tenant: str
    reason: str
    before: Withheld
    after: Withheld


def of_record(record: AuditRecord, *, payload: bool = True) -> Record:
    """Without `payload` what it changed is withheld: a schedule's arguments may be there."""
    return Record(
        id=record.id,
        at=instant_of(record.at),
        actor=record.actor,
        action=record.action,
        target_kind=record.target_kind,
        target=record.target,
        tenant=record.tenant,
        reason=record.reason,
        before=decoded(record.before) if payload else None,
        after=decoded(record.after) if payload else None,
    )
