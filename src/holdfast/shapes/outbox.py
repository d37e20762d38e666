"""Outboxes: how many entries are where, and what trying again did."""

from __future__ import annotations

import msgspec

from ..model.outbox import DrainReport, OutboxCounts
from .bulk import Changed


class Outbox(msgspec.Struct, frozen=True, kw_only=True):
    """The number of entries of an outbox, by state."""

    name: str
    pending: int
    sending: int
    parked: int
    delivered: int
    abandoned: int
    other: int


class Due(Changed, frozen=True, kw_only=True):
    """The number of entries that have become due."""

    outbox: str
    due: int


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """Abandoned entries by kind. Where it was applied they are pending again, but for the `left`."""

    outbox: str
    applied: bool
    kinds: dict[str, int]
    left: int


def of_outbox(counts: OutboxCounts) -> Outbox:
    return Outbox(
        name=counts.name,
        pending=counts.pending,
        sending=counts.sending,
        parked=counts.parked,
        delivered=counts.delivered,
        abandoned=counts.abandoned,
        other=counts.other,
    )


def of_drain(report: DrainReport) -> Drain:
    return Drain(outbox=report.name, applied=report.applied, kinds=dict(report.by_kind), left=report.left)
