"""Checks of the store, each with a status and advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ...clock import SECOND
from ...model.stats import StoreStats, WorkerStats

Facts = Mapping[str, object]
Tone = Literal["good", "warn", "bad", "plain"]

_MIB: Final = 1024 * 1024
_LARGE_WAL: Final = 256 * _MIB
_LITTLE_SPACE: Final = 256 * _MIB
_SOME_SPACE: Final = 2048 * _MIB
_OLD: Final = 300.0
_VERY_OLD: Final = 3_600.0
_SLOW: Final = 0.1
_VERY_SLOW: Final = 1.0
_MANY_WRITES: Final = 1_000
_MUCH_SKEW: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One check of the store: its value, status and advice."""

    key: str
    name: str
    value: object
    unit: Literal["", "bytes", "duration", "number", "percent"] = ""
    verdict: Tone = "good"
    advice: str = ""


def health_verdicts(health: StoreStats, free_disk: int | None) -> list[Verdict]:
    """Return the checks of figures that change by the second."""
    return [*_size(health, free_disk), *_rows(health), *_snapshots(health), *_claims(health)]


def fact_verdicts(facts: Facts, workers: Sequence[WorkerStats]) -> list[Verdict]:
    """Return the checks of what the database reports."""
    found = _sqlite(facts) if facts.get("backend") == "sqlite" else _postgres(facts)
    return [*found, *_workers(workers)]


def _size(health: StoreStats, free_disk: int | None) -> Iterator[Verdict]:
    empty = health.free_bytes or 0
    half = empty > health.bytes / 2 and empty > 64 * _MIB
    said = "Over half of the file is empty. Run VACUUM at a quiet time to reclaim the space." if half else ""
    yield Verdict(
        key="size", name="Size", value=health.bytes, unit="bytes", verdict="warn" if half else "good", advice=said
    )
    if health.free_bytes is not None:
        yield Verdict(
            key="empty",
            name="Empty pages",
            value=empty,
            unit="bytes",
            verdict="plain",
            advice="Reused before the file grows.",
        )
    if health.wal_bytes is not None:
        large = health.wal_bytes > _LARGE_WAL
        said = "A long read keeps the log from being checkpointed. Look for a forgotten transaction."
        yield Verdict(
            key="wal", name="Write-ahead log", value=health.wal_bytes, unit="bytes",
            verdict="warn" if large else "good", advice=said if large else "Checkpointed into the file regularly.",
        )  # fmt: skip
    if free_disk is not None:
        tone: Tone = "bad" if free_disk < _LITTLE_SPACE else "warn" if free_disk < _SOME_SPACE else "good"
        said = "" if tone == "good" else "Free some space: without it, every write fails."
        yield Verdict(key="disk", name="Free disk space", value=free_disk, unit="bytes", verdict=tone, advice=said)


def _rows(health: StoreStats) -> Iterator[Verdict]:
    if health.dead_rows is None:
        return
    many = health.dead_rows > 10_000 and health.dead_rows > (health.live_rows or 0)
    said = "Vacuum cannot keep up. Look for long transactions, and run autovacuum more often on these tables."
    yield Verdict(
        key="dead", name="Dead rows", value=health.dead_rows, unit="number", verdict="warn" if many else "good",
        advice=said if many else "Vacuum keeps up.",
    )  # fmt: skip
    yield Verdict(
        key="live",
        name="Live rows",
        value=health.live_rows,
        unit="number",
        verdict="plain",
        advice="Estimated by the server.",
    )


def _snapshots(health: StoreStats) -> Iterator[Verdict]:
    if (age := health.oldest_transaction) is None:
        return
    tone: Tone = "bad" if age > _VERY_OLD else "warn" if age > _OLD else "good"
    said = "It blocks vacuum, which slows down every queue. Find it in pg_stat_activity and end it."
    yield Verdict(
        key="snapshot", name="Oldest open transaction", value=age * SECOND, unit="duration", verdict=tone,
        advice="" if tone == "good" else said,
    )  # fmt: skip


def _claims(health: StoreStats) -> Iterator[Verdict]:
    slow = health.claim_p99 or 0.0
    tone: Tone = "bad" if slow > _VERY_SLOW else "warn" if slow > _SLOW else "good"
    if health.claim_p99 is None:
        tone, said = "plain", "No claims in the last minute."
    elif tone == "good":
        said = f"{health.claims:,} claims in the last minute."
    else:
        said = "Workers wait for the store before each job. Check its disk, locks and load."
    for name, value in (("p50", health.claim_p50), ("p99", health.claim_p99)):
        micros = None if value is None else value * SECOND
        own = tone if name == "p99" else "plain"
        yield Verdict(
            key=f"claim-{name}", name=f"Claim latency, {name}", value=micros, unit="duration", verdict=own,
            advice=said if name == "p99" else "",
        )  # fmt: skip
    busy = health.writes_waiting > _MANY_WRITES
    said = "More is written than the store can handle. Write in batches, or use a faster disk." if busy else ""
    yield Verdict(
        key="writes", name="Pending writes", value=health.writes_waiting, unit="number",
        verdict="warn" if busy else "good", advice=said or "In the worker with the most.",
    )  # fmt: skip


def _sqlite(facts: Facts) -> Iterator[Verdict]:
    bug = str(facts.get("wal_reset_bug", "fixed"))
    fixed = bug == "fixed"
    yield Verdict(
        key="version", name="SQLite", value=facts.get("sqlite_version"), verdict="good" if fixed else "plain",
        advice="" if fixed else f"WAL-reset bug: {bug}.",
    )  # fmt: skip
    safe = facts.get("synchronous") in ("full", "extra")
    yield Verdict(
        key="durability", name="Durability", value=f"synchronous = {facts.get('synchronous')}",
        verdict="good" if safe else "warn",
        advice="Every commit survives a power failure."
        if safe
        else "The last commits before a power failure may be lost. Set durable=True if that matters.",
    )  # fmt: skip
    wal = facts.get("journal_mode") == "wal"
    yield Verdict(
        key="journal", name="Journal", value=facts.get("journal_mode"), verdict="good" if wal else "plain",
        advice="Readers and the writer do not block each other." if wal else "Only this process can use it.",
    )  # fmt: skip
    yield Verdict(key="vacuum", name="Automatic vacuum", value=facts.get("auto_vacuum"), verdict="plain")


def _postgres(facts: Facts) -> Iterator[Verdict]:
    standby = bool(facts.get("in_recovery"))
    yield Verdict(
        key="version", name="Postgres", value=facts.get("server_version"), verdict="bad" if standby else "good",
        advice="This server is a standby and refuses writes. Connect to the primary." if standby else "",
    )  # fmt: skip
    fsync, commit = facts.get("fsync") == "on", facts.get("synchronous_commit") != "off"
    said = "Every commit survives a crash of the server." if commit else "The last commits before a crash may be lost."
    yield Verdict(
        key="durability", name="Durability",
        value=f"fsync = {facts.get('fsync')}, synchronous_commit = {facts.get('synchronous_commit')}",
        verdict="bad" if not fsync else "good" if commit else "warn",
        advice=said if fsync else "A crash of the server may corrupt the database. Turn fsync on.",
    )  # fmt: skip
    used, most = _number(facts, "connections"), _number(facts, "max_connections") or 1.0
    full = used > 0.8 * most
    yield Verdict(
        key="connections", name="Connections", value=f"{used:,.0f} of {most:,.0f}", verdict="warn" if full else "good",
        advice="Put a pooler in front, or make the pools smaller (pool_size)." if full else "",
    )  # fmt: skip
    notify = _number(facts, "notify_queue_usage")
    unread = notify > 0.5
    yield Verdict(
        key="notify", name="NOTIFY queue in use", value=notify, unit="percent", verdict="warn" if unread else "good",
        advice="A listener is not reading its notifications." if unread else "",
    )  # fmt: skip
    skew = _number(facts, "clock_skew_seconds")
    off = abs(skew) > _MUCH_SKEW
    yield Verdict(
        key="clock", name="Clock difference", value=skew * SECOND, unit="duration",
        verdict="warn" if off else "good",
        advice="Synchronise both machines with NTP: times on these pages are off by this much." if off else "",
    )  # fmt: skip


def _workers(workers: Sequence[WorkerStats]) -> Iterator[Verdict]:
    live = [worker for worker in workers if worker.is_live]
    yield Verdict(
        key="workers", name="Live workers", value=len(live), unit="number", verdict="good" if live else "warn",
        advice="" if live else "No worker runs jobs, records statistics, runs schedules or deletes old data.",
    )  # fmt: skip


def _number(facts: Facts, name: str) -> float:
    value = facts.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0
