"""Short transactions that actors make, each with what its actor remembers, and laws that every order of them obeys."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.clock import SECOND
from holdfast.errors import HoldfastError
from holdfast.model.actions import ActionResult
from holdfast.model.jobs import Claimed, Dedupe, JobSpec
from holdfast.model.outcomes import Finish, Outcome, Recorded
from holdfast.model.signals import Signal
from holdfast.model.steps import Step
from holdfast.model.streams import Appended, Batch, Draft
from holdfast.storage.ops import steps, streams  # fmt: skip
from holdfast.storage.ops.flows import dependency_resolution  # fmt: skip
from holdfast.storage.ops.jobs import actions, claims, enqueue, finishing  # fmt: skip
from holdfast.storage.ops.limits import lanes  # fmt: skip
from holdfast.storage.ops.signals import signals, waking  # fmt: skip
from holdfast.storage.ops.workers import workers  # fmt: skip
from holdfast.storage.port import Tx
from holdfast.storage.statements import Statement
from tests.conformance.world import claim_request, spec, worker_spec

_EXISTS = Statement("exists", *["select 1 from holdfast_job where id = :id"] * 2)
_IS_ALIVE = Statement(
    "alive", *["select 1 from holdfast_worker where id = :id and lease_until >= :now and state <> 'dead'"] * 2
)


@dataclass
class Path:
    """One order so far: the clock, what each worker holds, and everything that was acknowledged."""

    now: int
    held: dict[str, Claimed] = field(default_factory=dict)
    """By worker: its last claim, and its first. It does not learn of its loss."""
    log: tuple[tuple[str, str, Any], ...] = ()

    def copy(self) -> Path:
        return Path(self.now, dict(self.held), self.log)

    def note(self, what: str, job: str, detail: Any = None) -> None:
        self.log = (*self.log, (what, job, detail))


Act = Callable[[Tx, Path], Coroutine[Any, Any, None]]
"""One transaction."""
Actor = Sequence[Act]


@dataclass(frozen=True)
class Scene:
    """What is there before, and who acts."""

    name: str
    before: Actor
    actors: tuple[Actor, ...]


# -- acts


def pass_time(seconds: float) -> Act:
    async def act(tx: Tx, path: Path) -> None:
        path.now += round(seconds * SECOND)

    return act


def register(*names: str) -> Act:
    async def act(tx: Tx, path: Path) -> None:
        for name in names:
            await workers.register(tx, worker_spec(name))

    return act


def add(id: str, *, key: str | None = None, until: Any = "finish", then: Any = "existing", **fields: Any) -> Act:
    dedupe = Dedupe(key=key, scope="work", until=until, on_duplicate=then, window=SECOND) if key else None
    one: JobSpec = spec(id=id, dedupe=dedupe, **fields)

    async def act(tx: Tx, path: Path) -> None:
        (answer,) = await enqueue.enqueue(tx, [one])
        found = await tx.one(_EXISTS, id=answer.id)
        assert found or until == "window", f"{answer.id} was named as the twin and is not there"
        path.note("added", answer.id, answer.created)

    return act


def claim(worker: str, **options: Any) -> Act:
    async def act(tx: Tx, path: Path) -> None:
        for job in await claims.claim(tx, claim_request(worker, 1, suspects=1, token=worker, **options)):
            path.held[worker] = job
            path.held.setdefault(f"{worker} at first", job)
            path.note("claimed", job.id, (worker, job.epoch))

    return act


def finish(worker: str, outcome: Outcome, *, late: bool = False) -> Act:
    """By its newest handle, or `late` by the first that it ever had."""
    handle = f"{worker} at first" if late else worker

    async def act(tx: Tx, path: Path) -> None:
        if handle not in path.held:
            return
        job = path.held[handle]
        (verdict,) = await finishing.finish(tx, worker, [Finish(job.id, job.epoch, outcome)])
        if isinstance(verdict, Recorded) and not verdict.again:
            path.note("finished", job.id, (worker, job.epoch, verdict.state))

    return act


def beat(worker: str) -> Act:
    async def act(tx: Tx, path: Path) -> None:
        await workers.beat(tx, worker)

    return act


def rescue(worker: str, *, certain: bool = False) -> Act:
    async def act(tx: Tx, path: Path) -> None:
        alive = not certain and await tx.one(_IS_ALIVE, id=worker)
        for id in (await workers.rescue(tx, worker, certain=certain)).rescued:
            path.note("stolen" if alive else "lost", id, worker)

    return act


def cancel(id: str, *, force: bool = False) -> Act:
    async def act(tx: Tx, path: Path) -> None:
        answer = await actions.cancel(tx, id, force=force)
        if answer is not ActionResult.FINISHED:
            path.note("cancelled", id, answer is ActionResult.CANCELLED)

    return act


def replay(id: str) -> Act:
    async def act(tx: Tx, path: Path) -> None:
        if await actions.retry(tx, id):
            path.note("replayed", id)

    return act


def operate(op: Callable[..., Coroutine[Any, Any, Any]], *args: Any, **options: Any) -> Act:
    """Any other operation, whose answer no law speaks of."""

    async def act(tx: Tx, path: Path) -> None:
        await op(tx, *args, **options)

    return act


def signal(id: str, name: str) -> Act:
    async def act(tx: Tx, path: Path) -> None:
        sent = await signals.send(tx, id, Signal(name=name))
        path.note("signalled", id, sent.seq)

    return act


def record(worker: str) -> Act:
    """An entry of the journal, by its newest handle; what is there already is answered."""

    async def act(tx: Tx, path: Path) -> None:
        if job := path.held.get(worker):
            step = Step(key="step:a#1", kind="step", name="a", value=f'"by {worker}"')
            kept = await steps.record(tx, worker, job.id, job.epoch, step)
            path.note("recorded", job.id, (worker, job.epoch, kept.value))

    return act


def say(worker: str) -> Act:
    """A frame of the stream, by its newest handle."""

    async def act(tx: Tx, path: Path) -> None:
        if job := path.held.get(worker):
            words = (Draft("say", "text", worker.encode()),)
            said = Batch(
                job_id=job.id, owner=worker, epoch=job.epoch, generation=job.generation, attempt=job.attempt,
                writer=f"{worker} {job.epoch}", serial=1, drafts=words,
            )  # fmt: skip
            (answer,) = await streams.append(tx, [said])
            if isinstance(answer, Appended):
                path.note("said", job.id, (worker, job.epoch))

    return act


async def sweep(tx: Tx, path: Path) -> None:
    """What every worker does beside jobs."""
    await finishing.expire_jobs(tx)
    await waking.wake_due(tx)
    await dependency_resolution.resolve_page(tx, rounds=3)
    await lanes.unpark_stalled(tx)


# -- laws


Owners = dict[str, tuple[str, int]]
RUNNING = Statement("running", *["select id, owner, epoch from holdfast_any_job where state = 'running'"] * 2)


async def broken(tx: Tx, path: Path) -> str | None:
    """What the acknowledged acts of an order say against it, or against what the store has now; None if nothing."""
    owners: Owners = {}
    if fault := _fault(path, owners):
        return fault
    found = {id: (owner, epoch) for id, owner, epoch in await tx.all(RUNNING)}
    return None if found == owners else f"the store says that {found} run, and was told {owners}"


def _fault(path: Path, owners: Owners) -> str | None:
    epochs: dict[str, int] = {}
    doomed, done = set[str](), set[str]()
    journal: dict[str, Any] = {}
    for what, job, detail in path.log:
        if what == "claimed":
            if job in doomed:
                return f"{job} was claimed though its cancel was acknowledged"
            if detail[1] <= epochs.get(job, 0) or job in owners:
                return f"{job} was claimed under epoch {detail[1]} while {owners.get(job)} had it"
            epochs[job], owners[job] = detail[1], detail
        elif what == "finished":
            if owners.pop(job, None) != detail[:2]:
                return f"{detail} was recorded for {job}, which is another's"
            if detail[2] == "succeeded" and job in done:
                return f"{job} succeeded twice"
            done |= {job} if detail[2] == "succeeded" else set()
        elif what == "recorded" and (fault := _rewritten(job, detail, journal, owners)):
            return fault
        elif what == "said" and owners.get(job) != detail:
            return f"{detail} spoke for {job}, which is another's"
        elif what == "stolen":
            return f"{job} was taken from {detail}, whose lease had not run out"
        elif what == "lost" or (what == "cancelled" and detail):
            owners.pop(job, None)
        if what == "cancelled":
            doomed.add(job)
        elif what == "replayed":
            doomed.discard(job)
            done.discard(job)
    return None


def _rewritten(job: str, detail: Any, journal: dict[str, Any], owners: Owners) -> str | None:
    first = journal.setdefault(job, detail)
    if first is detail and owners.get(job) != detail[:2]:
        return f"{detail} was written into the journal of {job}, which is another's"
    return None if first[2] == detail[2] else f"the journal of {job} said {first}, and now {detail}"


async def attempt(act: Act, tx: Tx, path: Path) -> bool:
    """Whether it was carried out; what is refused must be rolled back by the caller."""
    try:
        await act(tx, path)
    except HoldfastError:
        return False
    return True
