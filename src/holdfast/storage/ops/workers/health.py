"""Health of the worker processes, as each reports it with its heartbeat."""

from __future__ import annotations

from ....clock import SECOND
from ....model.stats import Vitals
from ...port import Tx
from ...statements import sql


async def set_pulse(tx: Tx, worker_id: str, vitals: Vitals) -> None:
    """Store the health of a worker's process."""
    await tx.one(
        sql.set_pulse,
        worker=worker_id,
        cpu=vitals.cpu,
        rss=vitals.rss,
        claims=vitals.claims,
        claim_p50=_micros(vitals.claim_p50),
        claim_p99=_micros(vitals.claim_p99),
        waiting=vitals.waiting,
    )


async def pulses(tx: Tx) -> dict[str, Vitals]:
    """Return each worker's last report, by its id."""
    return {
        worker: Vitals(
            cpu=cpu,
            rss=rss,
            claims=claims,
            claim_p50=_seconds(p50),
            claim_p99=_seconds(p99),
            waiting=waiting,
            at=at,
        )
        for worker, at, cpu, rss, claims, p50, p99, waiting in await tx.all(sql.list_pulses)
    }


async def forget_pulses(tx: Tx) -> None:
    """Delete the reports of workers that are gone."""
    await tx.one(sql.delete_pulses)


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * SECOND)


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else micros / SECOND
