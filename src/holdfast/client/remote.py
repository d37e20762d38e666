"""Workers in other languages: `app.remote`. They register, claim, beat and finish like any other worker.

Every call that must not count twice can be repeated safely: it is recognised by its key, name or batch.
"""

from __future__ import annotations

import json
import random as _random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, Self

import msgspec

from ..clock import SECOND
from ..durable.artifacts import ArtifactData, Storing, artifact_data, type_of
from ..errors import DuplicateArtifact, HoldfastError, InvalidInput, LeaseLost, StreamFull
from ..ids import token
from ..model.artifacts import PART, Artifact
from ..model.budgets import Spent
from ..model.jobs import Claimed, JobRecord, JobState
from ..model.outcomes import Finish, Outcome, Recorded, Released, Retry, Snoozed, Throttled
from ..model.remote import (
    MOST_FRAMES,
    OWN_PROCESS,
    AnyEnding,
    Beaten,
    Caller,
    Finished,
    FrameDraft,
    HeldJob,
    LeasedJob,
    Registered,
    Waited,
)
from ..model.signals import Answer, Condition, Distinct, OnTimeout, Opened, Wait
from ..model.steps import Step, StepInfo
from ..model.streams import Batch, Cursor, Draft, Progress
from ..names import check_duration, check_name
from ..rules.artifacts import check_artifact_name, check_content_type
from ..rules.budgets import Amount, check_amounts
from ..rules.failure import Failure
from ..rules.remote import RELEASED, Lease, Origin, read, stated, write
from ..rules.schemas import check_schema
from ..rules.signals import check_distinct, check_needed, check_on_timeout, in_order
from ..rules.steps import check_call_name, key_of
from ..storage.blobs import Reach
from ..storage.ops import remote, steps, streams
from ..storage.ops.artifacts import artifacts
from ..storage.ops.budgets import spending
from ..storage.ops.budgets.reservations import Runner, Wish, admission_hold
from ..storage.ops.jobs.queries import get_job
from ..storage.ops.remote import Holding, Opening, Rest
from ..storage.ops.signals import keys
from ..storage.port import Op, Store, Tx
from ..streams.frames import draft_of, patch_of, progress_of
from ..tasks.context import JobInfo
from ..tasks.options import Seconds
from ..values.codec import VALUE_LIMIT, encode
from ..worker.claiming.remote import Tasks, decide_failure
from .calls import composed
from .lines import Line
from .remote_checks import beat_every, check_claim, check_confined, check_handles, introduction
from .remote_claims import claim
from .steps import shown_step, shown_steps

Amounts = Mapping[str, Amount]

_POLL: Final = 2.0
_MOST_BYTES: Final = 4 * 1024 * 1024
DAY: Final = 86_400.0


class Leases:
    """The lease API of one app, for the whole store: a worker gets the jobs of every tenant."""

    def __init__(
        self,
        store: Callable[[], Store],
        tasks: Tasks,
        caller: Caller = OWN_PROCESS,
        *,
        limit: Callable[[], int] = lambda: VALUE_LIMIT,
        random: Callable[[], float] = _random.random,
        poll: Callable[[], float] = lambda: _POLL,
    ) -> None:
        """`limit` returns the size limit of a result or step value in bytes, `poll` is a claim's polling interval."""
        self._limit = limit
        self._random = random
        self._poll = poll
        self._store = store
        self._tasks = tasks
        self._caller = caller
        self._known: list[tuple[Store, Origin]] = []
        """The origin of the store that is open, shared by all callers."""

    def _of(self, caller: Caller) -> Self:
        """Return this API for a caller over HTTP, whose workers belong to it."""
        view = type(self)(self._store, self._tasks, caller, limit=self._limit, random=self._random, poll=self._poll)
        view._known = self._known
        return view

    @composed
    async def register(
        self,
        line: Line,
        name: str,
        queues: Sequence[str],
        tasks: Sequence[str],
        *,
        capabilities: Sequence[str] = (),
        resident: Sequence[str] = (),
        concurrency: int = 1,
        lease: Seconds = 30,
        versions: Mapping[str, str] | None = None,
        host: str = "",
        client: str = "",
    ) -> Registered:
        """Register a worker: the tasks it runs, its queues in their order, its concurrency.

        `resident` are the affinities that it has loaded; it has room for as many, and for at least one. `versions` are
        those of its tasks, `host` and `client` are shown to people.
        """
        spec = introduction(
            name, queues, tasks, capabilities=capabilities, resident=resident, concurrency=concurrency, lease=lease,
            versions=versions, host=host, client=client,
        )  # fmt: skip
        caller = self._caller
        check_confined(spec, caller)
        await line.write(Op(lambda tx: remote.register(tx, replace(spec, holder=caller.holder), caller.actor)))
        return Registered(worker=spec.id, lease=spec.lease / SECOND, beat_every=beat_every(spec.lease))

    aregister = register.awaiting

    @composed
    async def beat(self, line: Line, worker: str, handles: Sequence[str] = ()) -> Beaten:
        """Renew a worker's lease; return what it owns, what is to be cancelled, and which of `handles` it lost.

        LeaseLost if the worker itself was declared lost: it should stop all its runs, and register again.
        """
        worker_id, named = check_worker(worker), await self._leases(line, check_handles(handles))
        held = await line.write(Op(lambda tx: remote.beat(tx, worker_id, self._caller.holder)))
        handles = [await self._handle(line, _lease(worker_id, job)) for job in held]
        jobs = tuple(
            HeldJob(handle=handle, id=job.id, cancel_requested=job.cancel_requested)
            for handle, job in zip(handles, held, strict=True)
        )
        mine = {(worker_id, job.id, job.epoch) for job in held}
        lost = tuple(text for text, run in named.items() if (run.worker, run.job_id, run.epoch) not in mine)
        cancelled = tuple(job.handle for job in jobs if job.cancel_requested)
        return Beaten(worker=worker_id, jobs=jobs, cancelled=cancelled, lost=lost)

    abeat = beat.awaiting

    @composed
    async def claim(
        self, line: Line, worker: str, limit: int = 1, *, wait: Seconds = 0, claim_id: str | None = None
    ) -> list[LeasedJob]:
        """Claim up to `limit` jobs, as the worker's room and limits allow; it may wait for the first up to 30 s.

        A claim renews the lease as a beat does, and waits no longer than half of it. Repeated with its `claim_id`, it
        returns the jobs that it claimed before and that still run.
        """
        worker_id, mark = check_worker(worker), None if claim_id is None else check_name("claim_id", claim_id)
        most, patience = check_claim(limit, wait)
        known = await line.read(Op(lambda tx: remote.get_worker(tx, worker_id, self._caller.holder)))
        ready = await claim(
            line, self._tasks, known, most, patience, mark or token(), random=self._random, poll=self._poll()
        )
        return [one.under(await self._handle(line, _lease(worker_id, one.job))) for one in ready]

    aclaim = claim.awaiting

    @composed
    async def finish(self, line: Line, handle: str, outcome: AnyEnding) -> Finished:
        """Record how a run ended; a failed job is retried by its attempts and its retry policy.

        Repeated after a lost answer, it says so. LeaseLost if this run no longer owns the job.
        """
        lease, said, u = await self._lease(line, handle), stated(outcome, self._limit()), self._random()

        async def run(tx: Tx) -> Finished:
            end = said if not isinstance(said, Failure) else await self._decide(tx, lease, said, u)
            (verdict,) = await remote.finish(tx, lease.worker, [Finish(lease.job_id, lease.epoch, end)])
            if not isinstance(verdict, Recorded):
                raise LeaseLost(f"job {lease.job_id} is no longer this worker's; nothing was recorded")
            return Finished(job_id=lease.job_id, state=verdict.state, again=verdict.again, delay=_delay(end, verdict))

        return await line.write(Op(run))

    afinish = finish.awaiting

    @composed
    async def deregister(self, line: Line, worker: str) -> int:
        """Deregister a worker. Jobs it still holds are released without using an attempt; return their number."""
        worker_id, count, more = check_worker(worker), 0, True
        while more:
            page, more = await line.write(Op(lambda tx: remote.hand_back(tx, worker_id, "shutdown", self._caller)))
            count += page
        return count

    aderegister = deregister.awaiting

    # -- during a run. LeaseLost: this run no longer owns the job, and nothing was changed

    @composed
    async def emit(self, line: Line, handle: str, frames: Sequence[FrameDraft], *, batch: int | None = None) -> str:
        """Append frames to the job's stream; return its end, as a cursor.

        Batches of a run that are numbered from 1 can be sent again. Number all of them, progress included, or none.
        """
        return await self._say(line, handle, frames, None, batch)

    aemit = emit.awaiting

    @composed
    async def progress(
        self,
        line: Line,
        handle: str,
        percent: float | None = None,
        message: str | None = None,
        stage: str | None = None,
        *,
        batch: int | None = None,
    ) -> str:
        """Report progress. Omitted fields stay as they were."""
        return await self._say(line, handle, (), progress_of(percent, message, stage), batch)

    aprogress = progress.awaiting

    @composed
    async def summarize(self, line: Line, handle: str, patch: Mapping[str, Any]) -> int:
        """Change the job's summary by a merge patch (RFC 7396); return its new version."""
        lease, plain = await self._lease(line, handle), patch_of(patch)
        op = Op(lambda tx: streams.summarize(tx, lease.worker, lease.job_id, lease.epoch, plain))
        return (await line.write(op)).version

    asummarize = summarize.awaiting

    @composed
    async def spend(self, line: Line, handle: str, budget: str, amounts: Amounts, *, key: str) -> Spent:
        """Charge a budget, once for each key of the job. It is always recorded, even over the limit."""
        lease, name = await self._lease(line, handle), check_name("the budget's name", budget)
        wanted, mark = check_amounts("a spend", amounts), check_name("the spend's key", key)
        entry = Step(key=f"spend:{name}#{mark}", kind="spend", name=name, value=json.dumps(wanted))
        return await line.write(Op(lambda tx: remote.spend(tx, lease, mark, entry, name, wanted)))

    aspend = spend.awaiting

    @composed
    async def settle(self, line: Line, handle: str, budget: str, amounts: Amounts) -> None:
        """Charge what was used of the job's reservation, and release the rest. Can be called once."""
        lease, name = await self._lease(line, handle), check_name("the budget's name", budget)
        wish = Wish(admission_hold(name), name, check_amounts("a settlement", amounts, zero=True))
        entry = Step(key=key_of("settle", name, 1), kind="settle", name=name, value=json.dumps(wish.amounts))
        run = Runner(lease.worker, lease.job_id, lease.epoch)

        async def settle(tx: Any) -> None:
            await spending.settle(tx, run, await remote.placed(tx, lease.job_id, entry), wish)

        await line.write(Op(settle))

    asettle = settle.awaiting

    @composed
    async def artifact(
        self, line: Line, handle: str, name: str, data: Any, *, content_type: str | None = None
    ) -> Artifact:
        """Store named bytes: bytes, text, or an open file. A repeat is recognised; other bytes are a conflict."""
        return await _store_artifact(line, await self._lease(line, handle), name, data, content_type)

    aartifact = artifact.awaiting

    @composed
    async def record_step(self, line: Line, handle: str, name: str, value: object) -> StepInfo:
        """Record the value of a step, for later runs. The first value under its name stays."""
        lease = await self._lease(line, handle)
        named = check_call_name(check_name("the step's name", name))
        text = encode(value, what=f"the value of step {named!r}", limit=self._limit())
        entry = Step(key=key_of("step", named, 1), kind="step", name=named, value=text)
        return shown_step(await line.write(Op(lambda tx: remote.record_step(tx, lease, entry))))

    arecord_step = record_step.awaiting

    @composed
    async def steps(self, line: Line, handle: str) -> list[StepInfo]:
        """Return the steps that the runs of the job have recorded so far, in order."""
        lease = await self._lease(line, handle)
        return shown_steps(await line.read(Op(lambda tx: steps.read_whole_journal(tx, lease.job_id))))

    asteps = steps.awaiting

    # -- waits. A wait is a step of the job's journal: the next run makes the same call, and gets the answer

    @composed
    async def waitpoint(
        self,
        line: Line,
        handle: str,
        name: str,
        *,
        expires: Seconds = DAY,
        schema: Mapping[str, Any] | None = None,
        once: bool = True,
    ) -> Opened:
        """Open a waitpoint, with a token that lets its holder send the signal; a repeat returns the same one."""
        opening = _opening(name, expires, schema, once)
        lease = await self._lease(line, handle)
        return await line.write(Op(lambda tx: remote.open_for(tx, lease, opening)))

    awaitpoint = waitpoint.awaiting

    @composed
    async def suspend(
        self,
        line: Line,
        handle: str,
        *names: str,
        waitpoint: bool = False,
        waitpoints: Sequence[Opened | str] = (),
        needed: int | Literal["all"] | None = None,
        distinct: Distinct = "signals",
        expires: Seconds = DAY,
        schema: Mapping[str, Any] | None = None,
        timeout: Seconds | None = None,
        on_timeout: OnTimeout = "fail",
        delay: Seconds = 0,
        step_name: str | None = None,
    ) -> Waited:
        """Wait for signals by their names and at `waitpoints`; without any, for an operator or the timeout.

        With `waitpoint` it opens one of that name, and waits for the signal that its token sends. `needed` and
        `distinct` are those of `ctx.wait_for`: the first signal ends the wait, or `needed` of them, or "all".

        If they have already come, the run continues with them. Otherwise the job is suspended and no longer the
        worker's: when they have come, the job is claimed again, and the same call returns the answer. A job that waits
        for the same signal more than once names each wait by `step_name`.
        """
        opening = _opening_of(names, waitpoints, needed, expires, schema) if waitpoint else None
        condition = _condition(names, waitpoints, needed, distinct, opening)
        wait = _wait(names, step_name, condition, schema, timeout, on_timeout, delay)
        lease = await self._lease(line, handle)
        rest = await line.write(Op(lambda tx: remote.suspend(tx, lease, wait, opening)))
        return _waited(lease.job_id, wait, rest)

    asuspend = suspend.awaiting

    # -- handles

    async def _lease(self, line: Line, handle: str) -> Lease:
        """Return the run that a handle identifies; BadHandle if it is not one of this store."""
        return read(await self._origin(line), handle, self._caller.holder)

    async def _leases(self, line: Line, handles: Iterable[str]) -> dict[str, Lease]:
        origin = await self._origin(line)
        return {handle: read(origin, handle, self._caller.holder) for handle in handles}

    async def _handle(self, line: Line, lease: Lease) -> str:
        return write(await self._origin(line), lease, self._caller.holder)

    async def _origin(self, line: Line) -> Origin:
        store = line.store
        if not self._known or self._known[0][0] is not store:
            self._known[:] = [(store, Origin(store.backend, *await line.write(Op(_identity))))]
        return self._known[0][1]

    async def _decide(self, tx: Tx, lease: Lease, failure: Failure, u: float) -> Outcome:
        job = await _job(tx, lease)
        if job is None:
            # The store refuses it, or has it already: its content does not matter.
            return Released(RELEASED)
        return await decide_failure(tx, job, failure, self._tasks, u)

    async def _say(
        self, line: Line, handle: str, frames: Sequence[FrameDraft], progress: Progress | None, batch: int | None
    ) -> str:
        lease = await self._lease(line, handle)
        said = _batch(lease, _drafts(frames), progress, batch)
        (answer,) = await line.write(Op(lambda tx: streams.append(tx, [said])))
        if isinstance(answer, HoldfastError):
            raise answer
        if answer.refused:
            raise StreamFull(lease.job_id)
        return str(Cursor(answer.head, answer.live))


async def _identity(tx: Tx) -> tuple[str, bytes]:
    return await remote.identity(tx), await keys.store_secret(tx)


def check_worker(worker: object) -> str:
    return check_name("the worker's id", worker)


def _delay(outcome: Outcome, verdict: Recorded) -> float | None:
    if verdict.again or verdict.state != JobState.READY or not isinstance(outcome, Retry | Snoozed | Throttled):
        return None
    return outcome.delay / SECOND


def _lease(worker_id: str, job: Claimed | Holding) -> Lease:
    return Lease(job.id, job.epoch, worker_id, job.generation, job.attempt)


async def _job(tx: Tx, lease: Lease) -> JobRecord | None:
    """Return the job, if this run owns it."""
    if not await remote.is_own(tx, lease):
        return None
    return await get_job(tx, lease.job_id)


def _batch(lease: Lease, drafts: tuple[Draft, ...], progress: Progress | None, batch: int | None) -> Batch:
    if batch is not None and not 1 <= batch < 2**53:
        raise InvalidInput(f"batch is {batch!r}; number the batches of a run from 1")
    return Batch(
        job_id=lease.job_id,
        owner=lease.worker,
        epoch=lease.epoch,
        generation=lease.generation,
        attempt=lease.attempt,
        writer=token() if batch is None else f"{lease.worker}.{lease.epoch}",
        serial=batch or 1,
        drafts=drafts,
        progress=progress,
        stages=(progress.stage,) if progress and progress.stage is not None else (),
    )


def _drafts(frames: Sequence[FrameDraft]) -> tuple[Draft, ...]:
    if len(frames) > MOST_FRAMES:
        raise InvalidInput(f"{len(frames):,} frames are too many for one call; send at most {MOST_FRAMES:,}")
    drafts = tuple(_draft(frame) for frame in frames)
    if (size := sum(len(draft.data) for draft in drafts)) > _MOST_BYTES:
        raise InvalidInput(f"the frames take {size:,} bytes; send at most {_MOST_BYTES:,} in one call")
    return drafts


def _draft(frame: FrameDraft) -> Draft:
    return draft_of(frame.data, frame.kind, "", frame.best_effort, frame.source, frame.correlation_id)


def _opening(name: object, expires: Seconds, schema: object, once: bool) -> Opening:
    named = check_call_name(check_name("the waitpoint's name", name))
    lifetime = check_duration("expires", expires)
    return Opening(key_of("waitpoint", named, 1), named, lifetime, check_schema(schema), bool(once))


def _opening_of(names: Sequence[str], waitpoints: object, needed: object, expires: Seconds, schema: object) -> Opening:
    if len(names) != 1 or waitpoints or needed is not None:
        raise InvalidInput("waitpoint=True opens one, with one name; for more, open each and give them as waitpoints=")
    return _opening(names[0], expires, schema, True)


def _condition(
    names: Sequence[str],
    waitpoints: Sequence[Opened | str],
    needed: object,
    distinct: Distinct,
    opening: Opening | None,
) -> Condition:
    """Return the condition of a wait. A waitpoint that is not opened yet gets its id in the transaction."""
    named = tuple(check_name("the signal's name", name) for name in names)
    if isinstance(waitpoints, str):
        raise InvalidInput(f"waitpoints is {waitpoints!r}; give a list")
    places = tuple(_id(place) for place in waitpoints)
    asked = len(named) + len(places)
    if needed == "all" and not asked:
        raise InvalidInput("needed is 'all', and nothing is waited for; name what is needed")
    return Condition(
        names=() if opening is not None else named,
        waitpoints=places,
        needed=check_needed(needed, asked),
        distinct=check_distinct(distinct),
    )


def _id(place: Opened | str) -> str:
    return place.id if isinstance(place, Opened) else check_name("the waitpoint's id", place)


def _wait(
    names: Sequence[str],
    step_name: str | None,
    condition: Condition,
    schema: object,
    timeout: Seconds | None,
    on_timeout: OnTimeout,
    delay: Seconds,
) -> Wait:
    first = next(iter((*names, *condition.waitpoints)), "operator")
    named = check_call_name(first if step_name is None else check_name("the step's name", step_name))
    return Wait(
        key=key_of("wait", named, 1),
        reason="signal" if names or condition.waitpoints else "operator",
        condition=condition,
        timeout=None if timeout is None else check_duration("timeout", timeout),
        on_timeout=check_on_timeout(on_timeout),
        schema=check_schema(schema),
        delay=check_duration("delay", delay),
    )


def _waited(job_id: str, wait: Wait, rest: Rest) -> Waited:
    if rest.answer is not None:
        value = _value(rest.answer, wait.condition)
        return Waited(
            job_id=job_id, state="running", how=rest.answer.how, value=value, token=None, expires_at=None, again=False
        )
    assert rest.verdict is not None
    token = None if rest.opened is None else rest.opened.token
    expires_at = None if rest.opened is None else rest.opened.expires_at
    state, again = rest.verdict.state, rest.verdict.again
    return Waited(job_id=job_id, state=state, how="", value=None, token=token, expires_at=expires_at, again=again)


def _value(answer: Answer, asked: Condition) -> Any:
    if answer.how == "operator":
        return msgspec.json.decode(answer.payload)
    if answer.how != "signals":
        return None
    values = [msgspec.json.decode(signal.payload) for signal in in_order(answer.signals, asked)]
    return values[0] if asked.needed == 1 and len(asked.names) + len(asked.waitpoints) < 2 else values


async def _store_artifact(reach: Reach, lease: Lease, name: object, data: Any, content_type: object) -> Artifact:
    """Store named bytes once. DuplicateArtifact if the name has other bytes."""
    named = check_artifact_name(name)
    kind = check_content_type(type_of(data) if content_type is None else content_type)
    source = artifact_data(data)
    entry, found = await reach.read(Op(lambda tx: _find(tx, lease, named)))
    if found is None:
        found = await Storing(_info(lease), reach, entry, source, _go_on).run(named, kind)
    else:
        await _measure(reach, source)
    made = artifacts.stored_as(found)
    if (made.size, made.sha256, made.content_type) != (source.size, source.sha256, kind):
        raise DuplicateArtifact(lease.job_id, named)
    return made


async def _find(tx: Tx, lease: Lease, name: str) -> tuple[Step, Step | None]:
    """Return the entry to write, and the existing one."""
    entry = Step(key=key_of("artifact", name, 1), kind="artifact", name=name)
    return await remote.placed(tx, lease.job_id, entry), await steps.find(tx, lease.job_id, entry.key)


async def _measure(reach: Reach, source: ArtifactData) -> None:
    """Read the data to their end, to compare them with what was stored before."""
    try:
        while await reach.run(source.read, PART):
            pass
    finally:
        source.close()


def _info(lease: Lease) -> JobInfo:
    return replace(
        _NOBODY, id=lease.job_id, attempt=lease.attempt, generation=lease.generation, epoch=lease.epoch,
        worker=lease.worker,
    )  # fmt: skip


def _go_on() -> None:
    """Do nothing: only the store knows whether the run is over."""


_NOBODY: Final = JobInfo(
    id="", task="", queue="", tenant="", attempt=0, max_attempts=0, generation=0, epoch=0, created_at=0
)
