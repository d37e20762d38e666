"""Checks the store's schema, and the rules that must hold among its rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from ..port import Tx
from ..statements import Statement, sql

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Applied:
    """A migration that has run. `at` is in microseconds."""

    version: int
    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule and the ids that break it, a few of them; none if it holds."""

    rule: str
    broken_by: tuple[str, ...]


_RULES: Final[dict[str, Statement]] = {
    "every running job's worker is registered": sql.unowned_running,
    "a job has a due mark exactly while it is ready": sql.due_mismatch,
    "a job has an owner exactly while it runs": sql.owner_mismatch,
    "every job is live or has ended, and not both": sql.misplaced_jobs,
    "every place has its job": sql.orphaned_places,
    "no job is claimable before its time": sql.claimable_too_early,
    "suspects are marked as such": sql.suspect_mismatch,
    "every attempt has its job": sql.orphaned_attempts,
    "every grant has its job": sql.orphaned_grants,
    "every stream has its job": sql.orphaned_streams,
    "every place in an order has its entry": sql.orphaned_order,
    "every delivery has its job": sql.orphaned_deliveries,
    "every callback has its job": sql.orphaned_callbacks,
    "every webhook has its breaker": sql.unguarded_webhooks,
    "every special route has its row": sql.missing_routes,
    "every reservation has its job": sql.orphaned_reservations,
    "every dimension has its budget": sql.orphaned_lines,
    "every artifact has its job": sql.orphaned_artifacts,
    "every artifact has its bytes": sql.missing_blobs,
    "every large value has its job": sql.orphaned_values,
    "every large value has its bytes": sql.missing_values,
    "every blob counts its artifacts": sql.miscounted_blobs,
    "every flow counts its unfinished members": sql.miscounted_flows,
    "every waiting member counts what it waits for": sql.miscounted_joins,
    "no member waits for nothing": sql.forgotten_members,
    "a flow without unfinished members has ended": sql.endless_flows,
    "an ended flow has no unfinished members": sql.reopened_flows,
    "every lane counts the jobs that run in it": sql.miscounted_lanes,
    "every reservation belongs to a current run": sql.stray_reservations,
    "every admission of a run belongs to a current run": sql.stray_admissions,
    "every stream has all its frames": sql.gapped_streams,
    "every frame has its stream": sql.orphaned_frames,
    "every step has its job": sql.orphaned_steps,
    "every signal has its job": sql.orphaned_signals,
    "every wait has its job": sql.orphaned_waits,
    "every suspended job waits for something": sql.endless_suspensions,
    "every job that is short of something waits for it": sql.endless_shortages,
    "every job with dependencies waits for them": sql.endless_dependencies,
    "every parked job is parked in a lane": sql.parked_nowhere,
    "no cancelled job waits": sql.waiting_though_cancelled,
    "a job's end is complete": sql.incomplete_ends,
    "no job has more attempts than it may": sql.attempts_beyond,
    "every attempt is of an earlier run": sql.attempts_ahead,
    "a live job holds its dedupe key": sql.unheld_keys,
    "every tick has a job of its own": sql.repeated_ticks,
}


async def applied_migrations(tx: Tx) -> list[Applied]:
    """Return the applied migrations, in order; none on a fresh database."""
    if ("table", "holdfast_migration") not in await schema_objects(tx):
        return []
    return [Applied(*row) for row in await tx.all(sql.applied_migrations)]


async def schema_objects(tx: Tx) -> set[tuple[str, str]]:
    """Return Holdfast's tables, indexes and the like, each as its kind and name."""
    return {(kind, name) for kind, name in await tx.all(sql.schema_objects)}


async def verify(tx: Tx, expected: Collection[tuple[str, str]]) -> list[Finding]:
    """Check every rule, and return all results; only those of the schema if that is incomplete."""
    missing = sorted(f"{kind} {name}" for kind, name in set(expected) - await schema_objects(tx))
    findings = [Finding("the schema is whole", tuple(missing))]
    if missing:
        return findings
    # Every column by name: a store error if one is missing.
    await tx.one(sql.get_job, id="")
    pages = [row[0] for row in await tx.all(sql.check_pages, n=_SHOWN)]
    findings.append(Finding("the database's own check finds nothing", tuple(p for p in pages if p != "ok")))
    for rule, statement in _RULES.items():
        rows = await tx.all(statement, n=_SHOWN)
        findings.append(Finding(rule, tuple(str(row[0]) for row in rows)))
    return findings


async def probe_write(tx: Tx) -> None:
    """Make a write that is never read."""
    await tx.one(sql.write_probe)
