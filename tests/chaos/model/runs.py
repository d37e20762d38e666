"""What workers do: claim, finish, beat, and be lost."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import InvalidInput, LeaseLost
from holdfast.model.outcomes import Done, Failed, Finish, Lost, Outcome, Parked, Recorded, Retry, Suspended, Verdict
from holdfast.model.workers import Owned
from holdfast.rules.lifecycle import Event as Happens
from holdfast.rules.lifecycle import after_loss, event_of

from . import links
from .lanes import SHORT, balance, by_rank, wake_short
from .state import Job, Model, S, Worker

PAGE = 10
_REASONS = {"Snoozed": "snooze", "Throttled": "throttle"}


def claim(model: Model, owner: str, queues: Sequence[str], n: int, suspects: int, alone: bool) -> list[Job]:
    """Take the first, park those for which their lane has no room."""
    return turn(model, owner, [], queues, n, suspects, alone)[1]


def turn(
    model: Model, owner: str, finishes: Sequence[Finish], queues: Sequence[str], n: int, suspects: int, alone: bool
) -> tuple[list[Verdict], list[Job]]:
    """Finish, then claim: a slot that was freed is taken in the same commit."""
    verdicts, freed = _record(model, owner, finishes)
    _promote(model)
    taken: list[Job] = []
    if model.workers.get(owner, _NOBODY).state == "alive":
        taken = _first(model, queues, 3, suspects)
        for job in taken:
            job.alone = int(alone)
        if not (taken and alone):
            taken += _first(model, queues, 1, n - len(taken))
    for job in taken:
        _take(model, job, owner)
    return verdicts, balance(model, freed, sorted(taken, key=by_rank))


def finish(model: Model, owner: str, finishes: Sequence[Finish]) -> list[Verdict]:
    verdicts, freed = _record(model, owner, finishes)
    balance(model, freed, [])
    return verdicts


def rescue(model: Model, worker_id: str, *, certain: bool) -> tuple[tuple[str, ...], bool]:
    """Which jobs it took from a lost worker, and whether there may be more."""
    worker = model.workers.get(worker_id)
    if worker is None or not (certain or worker.state == "dead" or worker.lease_until < model.now):
        return (), False
    worker.state = "dead"
    lost = sorted((job for job in model.all() if job.owner == worker_id), key=lambda job: job.id)
    if not lost:
        del model.workers[worker_id]
        return (), False
    for i, job in enumerate(lost):
        delay = 0 if len(lost) < PAGE else int(i / len(lost) * 1_000_000)
        outcome = after_loss(
            attempts=job.attempts, max_attempts=job.max_attempts, crashes=job.crashes, losses=job.losses,
            alone=bool(job.alone),
            time_left=None if job.deadline is None else job.deadline - model.now, error="", delay=delay,
        )  # fmt: skip
        _settle(model, job, outcome, by_owner=False)
    links.tell(model, lost)
    balance(model, lost, [])
    return tuple(job.id for job in lost), True


def beat(model: Model, worker_id: str) -> list[Owned]:
    worker = model.workers.get(worker_id, _NOBODY)
    if worker.state not in ("alive", "stopping"):
        raise LeaseLost(worker_id)
    worker.lease_until = model.now + LEASE
    return [Owned(job.id, job.epoch, "", job.cancel) for job in model.all() if job.owner == worker_id]


def stop(model: Model, worker_id: str) -> None:
    """It claims no more."""
    worker = model.workers[worker_id]
    worker.state = "stopping" if worker.state == "alive" else worker.state


def deregister(model: Model, worker_id: str) -> bool:
    known = worker_id in model.workers and not any(job.owner == worker_id for job in model.all())
    if known:
        del model.workers[worker_id]
    return known


def reserve(model: Model, owner: str, job_id: str, epoch: int, hold: str, amount: int) -> bool:
    _own(model, owner, job_id, epoch)
    return model.purse.reserve(job_id, hold, amount, model.now)


def settle(model: Model, owner: str, job_id: str, epoch: int, hold: str, used: int) -> None:
    _own(model, owner, job_id, epoch)
    if hold not in model.purse.held.get(job_id, {}):
        raise InvalidInput(hold)
    model.purse.settle(job_id, hold, used)
    wake_short(model)


def freed(model: Model, jobs: Sequence[Job]) -> None:
    """These no longer run: whoever waited for their slots goes on."""
    balance(model, jobs, [])


LEASE = 30_000_000
_NOBODY = Worker("", "gone", 0)


def _promote(model: Model) -> None:
    for job in model.all():
        if job.due == 0 and job.not_before <= model.now:
            job.due = job.mark


def _first(model: Model, queues: Sequence[str], due: int, n: int) -> list[Job]:
    open_ = [queue for queue in queues if model.queues.get(queue) not in ("paused", "disabled")]
    found = [job for job in model.all() if job.due == due and job.queue in open_]
    return sorted(found, key=by_rank)[: max(0, n)]


def _take(model: Model, job: Job, owner: str) -> None:
    job.move(Happens.CLAIM, S.RUNNING)
    job.due, job.reason, job.owner = None, None, owner
    job.epoch += 1
    job.attempts += 1
    job.was = (job.started_at, job.holds_key, job.ran_in)
    job.ran_in = job.generation
    job.started_at = model.now if job.started_at is None else job.started_at
    job.holds_key = job.holds_key and job.until != "start"


def _record(model: Model, owner: str, finishes: Sequence[Finish]) -> tuple[list[Verdict], list[Job]]:
    verdicts: dict[tuple[str, int], Verdict] = {}
    ordered = sorted(finishes, key=lambda item: (not isinstance(item.outcome, Done), item.id))
    ended: list[Job] = []
    for item in ordered:
        job = model.jobs.get(item.id)
        if job is None or job.state is not S.RUNNING or (job.owner, job.epoch) != (owner, item.epoch):
            continue
        _settle(model, job, item.outcome, by_owner=True)
        ended.append(job)
        verdicts[item.id, item.epoch] = Recorded(str(job.state))
    for job, outcome in ((job, item.outcome) for item in ordered for job in ended if job.id == item.id):
        _follow(model, job, outcome)
    links.tell(model, ended)
    for item in ordered:
        known = model.jobs.get(item.id)
        if (item.id, item.epoch) not in verdicts:
            again = known is not None and known.finished_epoch == item.epoch
            verdicts[item.id, item.epoch] = Recorded(str(known.state), again=True) if known and again else Lost()
    return [verdicts[item.id, item.epoch] for item in finishes], ended


def _follow(model: Model, job: Job, outcome: Outcome) -> None:
    if isinstance(outcome, Suspended) and job.state is S.SUSPENDED:
        links.suspend(model, job, outcome.wait)
    if (
        isinstance(outcome, Parked)
        and job.state is S.BLOCKED
        and outcome.reason == SHORT
        and job.id in model.purse.short
    ):
        wake_short(model)


def _settle(model: Model, job: Job, outcome: Outcome, *, by_owner: bool) -> None:
    """Where an outcome leads. A requested cancel turns every one but success into `cancelled`."""
    event = event_of(outcome) if by_owner else Happens.RESCUE
    epoch, name = job.epoch, type(outcome).__name__
    if by_owner:
        job.finished_epoch = epoch
    if isinstance(outcome, Done):
        job.move(event, S.SUCCEEDED)
        job.ends(None, model.now)
        return
    job.attempts -= name in ("Snoozed", "Suspended", "Throttled", "Parked", "Released")
    job.crashes += isinstance(outcome, Retry | Failed) and outcome.convicts
    is_loss = isinstance(outcome, Retry) and outcome.outcome == "lost"
    if is_loss:
        job.losses += 1
        job.suspect = int(job.suspect or job.losses >= 2)
    elif name != "Released":
        job.suspect = int(isinstance(outcome, Retry) and outcome.outcome == "crashed")
        job.losses = job.losses if job.suspect else 0
    delay, place = getattr(outcome, "delay", 0), job.rank
    if name in ("Retry", "Snoozed", "Throttled", "Released"):
        job.not_before = model.now + delay
        job.rank = place if is_loss else job.not_before
    if job.cancel:
        job.move(event, S.CANCELLED)
        job.ends(job.cancel_reason, model.now)
        return
    if name in ("Failed", "Cancelled", "Expired"):
        state = {"Failed": S.FAILED, "Cancelled": S.CANCELLED, "Expired": S.EXPIRED}[name]
        job.move(event, state)
        job.ends(
            "deadline" if name == "Expired" else getattr(outcome, "kind", getattr(outcome, "reason", None)), model.now
        )
        return
    job.owner, job.alone = None, 0
    job.epoch += 1
    if isinstance(outcome, Suspended):
        job.move(event, S.SUSPENDED)
        job.reason = outcome.wait.reason
    elif isinstance(outcome, Parked):
        job.move(event, S.BLOCKED)
        job.reason = outcome.reason
    else:
        job.move(event, S.READY)
        job.rests(_reason(outcome), model.now + delay, model.now)
        job.rank = place if is_loss else job.rank


def _reason(outcome: Outcome) -> str:
    if isinstance(outcome, Retry):
        return "rescue" if outcome.outcome == "lost" else "retry"
    return _REASONS.get(type(outcome).__name__) or str(getattr(outcome, "reason", ""))


def _own(model: Model, owner: str, job_id: str, epoch: int) -> Job:
    job = model.jobs.get(job_id)
    if job is None or job.state is not S.RUNNING or (job.owner, job.epoch) != (owner, epoch):
        raise LeaseLost(job_id)
    return job
