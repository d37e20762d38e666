"""Records of operators' actions: actor, action, target and reason."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from .values import Instant, Withheld


class AuditRecord(msgspec.Struct, frozen=True):
    """One action of an operator: actor, action, target, reason, and the values before and after."""

    id: str
    at: Instant
    actor: str
    action: str
    target_kind: str
    target: str
    reason: str
    before: Withheld
    after: Withheld
    tenant: str
    """The tenant of the target; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """A filter for a list of records, newest first. `before` is the id that the last page ended with."""

    actor: str | None = None
    action: str | None = None
    target_kind: str | None = None
    target: str | None = None
    since: int | None = None
    """Microseconds."""
    until: int | None = None
    before: str | None = None
    limit: int = 50
    tenant: str | None = None
    """Only what was done to targets of this tenant, or with "" of none."""
