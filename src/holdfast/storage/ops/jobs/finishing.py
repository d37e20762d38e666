"""Record how runs ended. Every write requires the caller's ownership; zero rows is a result, not an error."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from ....model.budgets import BUDGET_EXHAUSTED, QUOTA
from ....model.outcomes import (  # fmt: skip
    Cancelled,
    Done,
    Expired,
    Failed,
    Finish,
    Lost,
    Outcome,
    Parked,
    Recorded,
    Released,
    Rerouted,
    Retry,
    Snoozed,
    Suspended,
    Throttled,
    Verdict,
)
from ....model.values import SURELY_INLINE
from ...port import Params, Row, Tx, Value
from ...statements import sql
from .. import events
from ..budgets import shortages
from ..flows import dependency_resolution
from ..limits import breakers, rates
from ..limits.lanes import release
from ..routing.routes import insert_routes
from ..signals import suspension
from . import values

EXPIRED_PAGE: Final = 500
_KEPT_ATTEMPTS: Final = 32
_SUCCEEDED: Final = Recorded("succeeded")
_NOT_ADMITTED: Final = frozenset({"quota", "admission"})
# In the middle of a run, or before it began.
_NOT_IN_HISTORY: Final = frozenset({"sleep", "gate", *_NOT_ADMITTED})
_id: Final = attrgetter("id")


@dataclass(frozen=True, slots=True)
class Record:
    """The result of each outcome, and the lanes that the ended runs counted in."""

    verdicts: list[Verdict]
    freed: list[str]
    closed: Collection[str] = ()
    """Circuit breakers that were found closed."""


async def finish(tx: Tx, owner: str, finishes: Sequence[Finish]) -> list[Verdict]:
    """Record each outcome if `owner` still holds that job under that epoch. Results come in order."""
    done = await record(tx, owner, finishes)
    await release(tx, done.freed)
    return done.verdicts


async def record(tx: Tx, owner: str, finishes: Sequence[Finish], cooled: Collection[str] = ()) -> Record:
    """Record outcomes, and leave it to the caller to release the slots in lanes. `cooled` are throttled queues."""
    # Every transaction locks jobs in the order of their ids.
    ordered = sorted(finishes, key=_id)
    done = [item for item in ordered if type(item.outcome) is Done]
    rest = ordered if not done else [item for item in ordered if type(item.outcome) is not Done]
    succeeded = await _succeed(tx, owner, done) if done else []
    settled = await _settle(tx, owner, rest, by_owner=True) if rest else []
    if rest or cooled:
        await rates.cool_queues(tx, _cooled(rest, settled), {row[1] for row in succeeded if row}.intersection(cooled))
    if succeeded:
        await events.succeeded(tx, owner, done, succeeded)
    tx.notify("finished")
    items, rows = [*done, *rest], [*succeeded, *settled]
    await _notify(tx, [item.id for item, row in zip(items, rows, strict=True) if row and row[-2]])
    freed = [row[-1] for row in rows if row and row[-1]]
    closed = await breakers.judge(tx, finishes, items, rows) if freed else ()
    if not rest and None not in succeeded:
        return Record([_SUCCEEDED] * len(finishes), freed, closed)
    found = {(item.id, item.epoch): row for item, row in zip(items, rows, strict=True)}
    return Record([await _verdict(tx, item, found[item.id, item.epoch]) for item in finishes], freed, closed)


async def settle(tx: Tx, owner: str, finishes: Sequence[Finish], *, by_owner: bool = True) -> list[Row | None]:
    """Record outcomes other than success, each with a row in the history. A rescuer does so in the owner's place."""
    rows = await _settle(tx, owner, finishes, by_owner=by_owner)
    await rates.cool_queues(tx, _cooled(finishes, rows), ())
    await _notify(tx, [item.id for item, row in zip(finishes, rows, strict=True) if row and row[-2]])
    await release(tx, [row[-1] for row in rows if row])
    return rows


async def _settle(tx: Tx, owner: str, finishes: Sequence[Finish], *, by_owner: bool) -> list[Row | None]:
    if not finishes:
        return []
    await insert_routes(tx, [f.outcome.route for f in finishes if isinstance(f.outcome, Rerouted)])
    rows = await tx.each(sql.settle_job, [_change(item) for item in finishes], owner=owner, by_owner=int(by_owner))
    history = [
        _attempt(item, row) for item, row in zip(finishes, rows, strict=True) if row and _is_in_history(item.outcome)
    ]
    if history:
        await tx.each(sql.record_attempt, history, worker=owner)
    for item in finishes:
        # Each run takes two epochs, so there are at most half as many rows; a refunded attempt counts no further.
        if item.epoch >= 2 * _KEPT_ATTEMPTS:
            await tx.one(sql.trim_attempts, job_id=item.id)
    await suspension.suspend(
        tx,
        {item.id: item.outcome.wait for item, row in zip(finishes, rows, strict=True)
         if row and row[0] == "suspended" and isinstance(item.outcome, Suspended)},
    )  # fmt: skip
    await shortages.look_again(
        tx, [item.id for item, row in zip(finishes, rows, strict=True) if row and row[0] == "blocked"
             and isinstance(item.outcome, Parked) and item.outcome.reason in (BUDGET_EXHAUSTED, QUOTA)],
    )  # fmt: skip
    for queue in {row[4] for row in rows if row and row[0] == "ready"}:
        # It can be claimed at once, or comes due before the workers would poll again.
        tx.notify(f"queue:{queue}")
    return rows


def _cooled(finishes: Sequence[Finish], rows: Sequence[Row | None]) -> dict[str, int]:
    """Return the queues that were throttled, each with the first delay that was requested."""
    delays: dict[str, int] = {}
    for item, row in zip(finishes, rows, strict=True):
        if row and isinstance(item.outcome, Throttled) and item.outcome.cools:
            delays.setdefault(row[4], item.outcome.delay)
    return delays


async def _notify(tx: Tx, linked: Sequence[str]) -> None:
    """Notify the jobs and flows that wait for these jobs, if they have ended."""
    if linked:
        await dependency_resolution.resolve(tx, linked)


async def _succeed(tx: Tx, owner: str, finishes: Sequence[Finish]) -> list[Row | None]:
    if not finishes:
        return []
    results = [f.outcome.result for f in finishes if isinstance(f.outcome, Done)]
    large = {n: values.column_of(text) for n, text in enumerate(results) if len(text) > SURELY_INLINE}
    items: list[Params] = [
        {"id": f.id, "epoch": f.epoch, "result": results[n] if n not in large else large[n]}
        for n, f in enumerate(finishes)
    ]
    rows = await tx.each(sql.succeed_job, items, owner=owner)
    for n, column in large.items():
        if rows[n]:
            await values.keep(tx, finishes[n].id, "result", "", column, results[n])
    return rows


async def _verdict(tx: Tx, item: Finish, changed: Row | None) -> Verdict:
    """Classify an outcome that changed nothing: repeated after an unknown commit, or no longer the caller's job."""
    if changed:
        return Recorded(changed[0])
    row = await tx.one(sql.finish_verdict, id=item.id)
    return Recorded(row[0], again=True) if row and row[2] == item.epoch else Lost()


def _attempt(item: Finish, row: Row) -> Params:
    _state, generation, attempt, started_at, *_ = row
    label, error = _history(item.outcome)
    return {
        "job_id": item.id,
        "epoch": item.epoch,
        "generation": generation,
        "attempt": attempt,
        "outcome": label,
        "started_at": started_at,
        "error": error,
    }


def _is_in_history(outcome: Outcome) -> bool:
    """Return whether the outcome gets a row in the history: a pause in the middle of a run does not end the attempt."""
    return not isinstance(outcome, Suspended) and not (
        isinstance(outcome, Snoozed) and outcome.reason in _NOT_IN_HISTORY
    )


def _history(outcome: Outcome) -> tuple[str, str | None]:
    match outcome:
        case Retry():
            return outcome.outcome, outcome.error
        case Failed():
            return outcome.kind, outcome.error
        case Throttled():
            return "throttled", outcome.error
        case Parked():
            return "parked", outcome.error
        case Released() | Rerouted():
            return "released", None
        case _:
            return type(outcome).__name__.lower(), None


def _change(item: Finish) -> Params:
    """Return the columns that an outcome sets.

    A refund gives back the attempt that the claim counted. A run with an outcome of its own clears the
    suspicion on the job and its losses; one that was lost or handed back (None) leaves them.
    """
    change: dict[str, Value] = {
        "id": item.id, "epoch": item.epoch, "state": "ready", "reason": None, "delay": 0, "refund": 0, "crash": 0,
        "loss": 0, "suspect": 0, "route": None, "deadline": None, "error": None, "terminal": 0,
        "unbegun": int(_never_began(item.outcome)),
    }  # fmt: skip
    change.update(_columns(item.outcome))
    return change


def _never_began(outcome: Outcome) -> bool:
    """Return whether no handler was started: for others, the job was not claimed."""
    match outcome:
        case Snoozed(reason=reason):
            return reason in _NOT_ADMITTED
        case Parked() | Released():
            return not outcome.began
        case _:
            return isinstance(outcome, Rerouted)


def _columns(outcome: Outcome) -> dict[str, Value]:  # noqa: C901, PLR0911 (one line per outcome)
    match outcome:
        case Retry(delay, error, "lost", convicts, suspect):
            mark = 1 if suspect else None
            return {
                "reason": "rescue", "delay": delay, "error": error, "crash": int(convicts), "loss": 1, "suspect": mark
            }  # fmt: skip
        case Retry(delay, error, label, convicts):
            mark = int(label == "crashed")
            return {"reason": "retry", "delay": delay, "error": error, "crash": int(convicts), "suspect": mark}
        case Failed(kind, error, convicts):
            return {"state": "failed", "reason": kind, "error": error, "crash": int(convicts), "terminal": 1}
        case Snoozed(delay, reason):
            return {"reason": reason, "delay": delay, "refund": 1}
        case Suspended(wait):
            return {"state": "suspended", "reason": wait.reason, "refund": 1}
        case Throttled(delay, error, _):
            return {"reason": "throttle", "delay": delay, "error": error, "refund": 1}
        case Parked(reason, error):
            return {"state": "blocked", "reason": reason, "error": error, "refund": 1}
        case Released(reason):
            return {"reason": reason, "refund": 1, "suspect": None}
        case Rerouted(route, reason, deadline):
            return {"reason": reason, "route": route.number, "deadline": deadline, "refund": 1, "suspect": None}
        case Cancelled(reason):
            return {"state": "cancelled", "reason": reason, "terminal": 1}
        case Expired():
            return {"state": "expired", "reason": "deadline", "terminal": 1}
        case Done():
            raise AssertionError("a success is not settled")


async def is_overdue(tx: Tx) -> bool:
    """Return whether a job that is not running has passed its deadline. Takes no lock."""
    return await tx.one(sql.overdue_job) is not None


async def expire_jobs(tx: Tx) -> list[str]:
    """End the jobs that have passed their deadline and are not running, a page at a time."""
    rows = await tx.all(sql.expire_jobs, n=EXPIRED_PAGE)
    if rows:
        tx.notify("finished")
    if linked := [row[0] for row in rows if row[1]]:
        await dependency_resolution.resolve(tx, linked)
    return [row[0] for row in rows]
