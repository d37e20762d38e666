"""Reservations of runs in budgets, their settlement, and the admission of runs.

A reservation is all or nothing: over its dimensions, over the budgets that it names, and over all that contain
those. It counts only while its job runs under its epoch. Locks: the run's job, then budgets by key, then its quota.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ....errors import BudgetNotFound, InvalidInput, LeaseLost, UnknownDimension
from ....model.budgets import Admission, ConcurrencyExceeded, Crossed, Exhausted, RateExceeded
from ....model.jobs import Claimed
from ....model.limits import JobLimits
from ....rules.budgets import Account, Refusal, breached, exhausted, refusal, set_aside
from ...port import Params, Row, Tx
from ...statements import sql
from ..limits import quotas
from ..limits.parking import park_alike
from . import shortages
from .accounts import chain, locked, read, write
from .budgets import charge_all, known_dimensions

MARK = "run:"


@dataclass(frozen=True, slots=True)
class Wish:
    """One reservation: the budget, and the amounts in millionths by dimension."""

    hold: str
    budget: str
    amounts: Mapping[str, int]
    shares: bool = True
    """True if it may be a budget of no tenant."""


@dataclass(frozen=True, slots=True)
class Runner:
    """The run that reserves."""

    owner: str
    job_id: str
    epoch: int


def admission_hold(budget: str) -> str:
    """Return the name of what was reserved in a budget before the run began."""
    return f"admission:{budget}"


async def reserve(
    tx: Tx, run: Runner, wishes: Sequence[Wish], *, quota: str | None = None, shares_quota: bool = True
) -> Exhausted | Admission | None:
    """Reserve all of this for a run, and admit it to its quota, or neither; None if the run got everything.

    A repetition changes nothing. LeaseLost where the run no longer owns the job.
    """
    tenant = await own_job(tx, run)
    held = await tx.all(sql.holds_of_run, job_id=run.job_id, epoch=run.epoch)
    open_ = [wish for wish in wishes if wish.hold not in {row[0] for row in held}]
    chains = {wish.hold: await chain(tx, tenant, wish.budget, shares=wish.shares) for wish in open_}
    if not held:
        # Do as much as possible before the budgets are locked: other transactions wait for those.
        await tx.one(sql.mark_run, id=run.job_id, epoch=run.epoch)
    accounts = await locked(tx, {key for keys in chains.values() for key in keys}) if chains else {}
    rows = [row for wish in open_ for row in _rows(wish, chains[wish.hold], accounts)]
    if refused := await _refuse(tx, run, accounts, rows, held):
        return refused
    if quota is not None and (answer := await _enter(tx, run, tenant, quota, shares=shares_quota)):
        return answer
    await _sweep(tx, accounts)
    if rows:
        items: list[Params] = [
            {"hold": hold, "budget": key, "dimension": name, "amount": n} for hold, key, name, n in rows
        ]
        await tx.each(sql.insert_reservation, items, job_id=run.job_id, epoch=run.epoch)
    return None


async def settle(tx: Tx, run: Runner, tenant: str, wish: Wish) -> list[Crossed]:
    """Release a reservation and count the actual usage: less, more, or in other dimensions.

    The caller has locked the run's job.
    """
    rows = await tx.all(sql.drop_reservation, job_id=run.job_id, epoch=run.epoch, hold=wish.hold)
    if not rows:
        raise InvalidInput(f"nothing is reserved in budget {wish.budget!r}, or it was settled already; use spend")
    keys = await chain(tx, tenant, wish.budget)
    crossings = await charge_all(tx, await locked(tx, keys), keys, wish.amounts)
    await shortages.wake(tx, {row[0] for row in rows})
    return crossings


async def release(tx: Tx, run: Runner, hold: str) -> bool:
    """Release a reservation unused; False if there was none."""
    rows = await tx.all(sql.drop_reservation, job_id=run.job_id, epoch=run.epoch, hold=hold)
    await shortages.wake(tx, {row[0] for row in rows})
    return bool(rows)


async def runs_ended(tx: Tx, holds: Iterable[str]) -> set[str]:
    """Release the reservations of ended runs; return the quotas that they left. `holds` are those of their jobs."""
    ids = [
        lane.removeprefix(MARK)
        for text in holds
        if f'"{MARK}' in text
        for lane in json.loads(text)
        if lane.startswith(MARK)
    ]
    return await forget_runs(tx, ids) if ids else set()


async def forget_runs(tx: Tx, ids: Iterable[str]) -> set[str]:
    """Release the reservations of jobs that no longer run; return the quotas that they left."""
    gone = json.dumps(sorted(ids))
    await shortages.wake(tx, {row[0] for row in await tx.all(sql.release_runs, ids=gone)})
    return {row[0] for row in await tx.all(sql.end_admissions_of, ids=gone)}


async def block_short(tx: Tx, claimed: list[Claimed]) -> tuple[list[Claimed], int]:
    """Block claimed jobs whose budgets have too little left; return the other jobs, and how many were blocked.

    Each budget is read once. The other jobs still reserve when they start, and an unknown budget is reported
    then.
    """
    asking = [(job, wishes_of(job)) for job in claimed if job.limits and '"reserve"' in job.limits]
    if not asking:
        return claimed, 0
    named = {(job.tenant, wish.budget, wish.shares) for job, wishes in asking for wish in wishes}
    chains = {name: await _chain(tx, *name) for name in sorted(named)}
    found = await read(tx, {key for keys in chains.values() for key in keys})
    accounts = {key: account.current for key, account in found.items()}
    refused: dict[str, Refusal] = {}
    alike: list[Refusal] = []
    for job, wishes in asking:
        asked = _asked(wishes, {wish.hold: chains[job.tenant, wish.budget, wish.shares] for wish in wishes}, accounts)
        if (short := refusal(accounts, asked)) is None:
            accounts = set_aside(accounts, asked)
        else:
            others = await park_alike(tx, job, None)
            refused[job.id] = short
            alike += [short] * len(others)
            await shortages.note(tx, [job.id, *others], short.key, _within(short.key, asked))
    if refused:
        await _note_breaches(tx, [*refused.values(), *alike], await locked(tx, {one.key for one in refused.values()}))
        blocked: list[Params] = [
            {"id": job.id, "epoch": job.epoch, "lane": None} for job in claimed if job.id in refused
        ]
        await tx.each(sql.park_job, blocked)
    return [job for job in claimed if job.id not in refused], len(refused)


def wishes_of(job: Claimed) -> list[Wish]:
    """Return the reservations that a job makes before it starts."""
    limits = JobLimits.decode(job.limits or "{}")
    shares = not limits.own_reserve
    return [Wish(admission_hold(name), name, amounts, shares) for name, amounts in (limits.reserve or {}).items()]


def _asked(
    wishes: Sequence[Wish], chains: Mapping[str, Sequence[str]], accounts: Mapping[str, Account]
) -> dict[tuple[str, str], int]:
    """Sum the amounts by budget and dimension; empty where a budget or a dimension is unknown."""
    if any(not set(chains[wish.hold]) & set(accounts) for wish in wishes):
        return {}
    try:
        return _sums(row for wish in wishes for row in _rows(wish, chains[wish.hold], accounts))
    except UnknownDimension:
        return {}


async def _chain(tx: Tx, tenant: str, name: str, shares: bool) -> list[str]:
    """Return the chain of a budget; empty where there is no such budget."""
    try:
        return await chain(tx, tenant, name, shares=shares)
    except BudgetNotFound:
        return []


async def _note_breaches(tx: Tx, refused: Iterable[Refusal], accounts: Mapping[str, Account]) -> None:
    """Count reservations that these locked budgets refused."""
    counts = Counter((one.key, one.dimension) for one in refused)
    for key in sorted({key for key, _ in counts} & set(accounts)):
        account = accounts[key]
        lines = {name: breached(line, counts[key, name]) for name, line in account.lines.items()}
        await write(tx, account, replace(account, breached_at=account.now, lines=lines))


async def own_job(tx: Tx, run: Runner) -> str:
    """Lock a run's job and return its tenant."""
    row = await tx.one(sql.lock_running, id=run.job_id, owner=run.owner, epoch=run.epoch)
    if row is None:
        raise LeaseLost(f"job {run.job_id} is no longer this worker's; nothing was reserved or spent")
    return str(row[0])


def _rows(wish: Wish, keys: Sequence[str], accounts: Mapping[str, Account]) -> list[tuple[str, str, str, int]]:
    """Return the rows to store: hold, budget, dimension, amount. A containing budget counts its own dimensions."""
    known_dimensions(accounts[keys[0]], wish.amounts)
    return [
        (wish.hold, key, dimension, amount)
        for key in keys
        for dimension, amount in wish.amounts.items()
        if dimension in accounts[key].lines
    ]


async def _refuse(
    tx: Tx,
    run: Runner,
    accounts: Mapping[str, Account],
    rows: Sequence[tuple[str, str, str, int]],
    held: Sequence[Row],
) -> Exhausted | None:
    asked = _sums(rows)
    refused = refusal(accounts, asked)
    if refused is None:
        return None
    await _note_breaches(tx, [refused], accounts)
    # Includes what the run holds already: that is released now, and reserved again. Otherwise the job would be
    # unblocked in vain.
    await shortages.note(tx, [run.job_id], refused.key, _within(refused.key, _sums([*rows, *held])))
    return exhausted(accounts[refused.key], refused)


def _within(budget: str, asked: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Return the amounts asked of one budget, by dimension."""
    return {dimension: amount for (key, dimension), amount in asked.items() if key == budget}


def _sums(rows: Iterable[Row]) -> dict[tuple[str, str], int]:
    """Sum by budget and dimension."""
    found: dict[tuple[str, str], int] = {}
    for _, key, dimension, amount in rows:
        found[key, dimension] = found.get((key, dimension), 0) + amount
    return found


async def _enter(tx: Tx, run: Runner, tenant: str, name: str, *, shares: bool) -> Admission | None:
    answer = await quotas.admit(tx, tenant, name, run.job_id, (run.job_id, run.epoch), shares=shares)
    return answer if isinstance(answer, RateExceeded | ConcurrencyExceeded) else None


async def _sweep(tx: Tx, accounts: Mapping[str, Account]) -> None:
    for key, account in accounts.items():
        if any(line.stale for line in account.lines.values()):
            await tx.one(sql.sweep_reservations, budget=key)
