"""Waits of a durable task: for signals, waitpoints or jobs, and the values that they return."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import msgspec

from ..errors import ConfigError, FlowCycle, HoldfastError, InvalidInput, NotFound
from ..ids import is_made_id
from ..model.jobs import Ended
from ..model.outcomes import Suspended
from ..model.signals import Answer, Condition, Distinct, OnTimeout, Opened, Received, Wait
from ..names import check_duration, check_name
from ..rules.schemas import schema_of
from ..rules.signals import check_distinct, check_needed, check_on_timeout, in_order
from ..rules.steps import Call
from ..storage.ops import tenants
from ..storage.ops.flows import flow_reads
from ..storage.ops.jobs import queries
from ..storage.ops.signals import suspension, waitpoints
from ..storage.port import Op
from ..tasks.job import Job
from ..tasks.options import Seconds
from ..tasks.task import JobRequest
from ..values import codec
from .calls import Durable, ending
from .options import CountTerms

logger: Final = logging.getLogger("holdfast.job")

Awaited = str | Opened | Job[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalTerms:
    """The keyword arguments of `ctx.wait_for`."""

    type: Any
    needed: int | Literal["all"] | None
    distinct: Distinct
    timeout: Seconds | None
    on_timeout: OnTimeout
    default: Any
    delay: Seconds

    @classmethod
    def of(cls, type: Any, on_timeout: OnTimeout, given: CountTerms) -> SignalTerms:
        # A misspelt timeout must not become an endless wait.
        if unknown := given.keys() - CountTerms.__optional_keys__:
            raise TypeError(f"wait_for() got an unexpected keyword argument {min(unknown)!r}")
        return cls(
            type=_readable(type),
            on_timeout=on_timeout,
            needed=given.get("needed"),
            distinct=given.get("distinct", "signals"),
            timeout=given.get("timeout"),
            default=given.get("default"),
            delay=given.get("delay", 0),
        )


def waitpoint(durable: Durable, name: str, expires: Seconds, type: Any, once: bool) -> Coroutine[Any, Any, Opened]:
    """Open a waitpoint for a signal."""
    lifetime = check_duration("expires", expires)
    call = durable.number("waitpoint", check_name("the waitpoint's name", name), "")
    return _waitpoint(durable, call, name, lifetime, schema_of(_readable(type)), once)


def wait_for(durable: Durable, what: Sequence[Awaited], terms: SignalTerms) -> Coroutine[Any, Any, Any]:
    """Wait for signals, or for jobs to end, or for an operator or the timeout where nothing is named."""
    _check_awaited(what)
    jobs = tuple(item for item in what if isinstance(item, Job))
    if jobs and len(jobs) < len(what):
        raise InvalidInput("a wait is for jobs or for signals; wait for one after the other")
    if jobs and terms.needed not in (None, "all"):
        raise InvalidInput("a wait for jobs is over when all of them have ended; needed= is for signals")
    if any(job.id == durable.info.id for job in jobs):
        raise InvalidInput("a job that waits for itself would wait forever; wait for another")
    name = _name(what[0]) if what else "operator"
    call = durable.number("wait", name, "")
    return _wait_for(durable, call, _wait(call, what, jobs, terms), what, jobs, terms)


@ending
async def _waitpoint(durable: Durable, call: Call, name: str, lifetime: int, schema: str | None, once: bool) -> Opened:
    _refuse_inline(durable)
    await durable.find(call)
    info, key = durable.info, call.key
    # Also when it is recorded: its token is not stored and is signed again.
    return await durable.io.write(
        Op(
            lambda tx: waitpoints.open_waitpoint(
                tx,
                info.worker,
                info.id,
                info.epoch,
                key,
                name,
                lifetime,
                schema=schema,
                once=once,
                position=call.position,
            )
        )
    )


@ending
async def _wait_for(
    durable: Durable, call: Call, wait: Wait, what: Sequence[Awaited], jobs: Sequence[Job[Any]], terms: SignalTerms
) -> Any:
    asked = len(what)
    if not what and terms.needed == "all":
        # A list that happens to be empty. Without needed="all", a wait for nothing is one that an operator ends.
        return []
    if durable.is_inline and jobs:
        results = [job.result() for job in jobs]
        return results[0] if asked == 1 else results
    _refuse_inline(durable)
    found = await durable.find(call)
    info = durable.info
    answer = Answer.decode(found.value or "") if found is not None else None
    if answer is None and info.tenant and wait.jobs:
        await durable.io.read(Op(lambda tx: tenants.require_jobs(tx, info.tenant, wait.jobs), single=True))
    if answer is None and await durable.io.read(Op(lambda tx: suspension.peek(tx, info.id, wait), single=True)):
        answer = await durable.io.write(Op(lambda tx: suspension.take(tx, info.worker, info.id, info.epoch, wait)))
    if answer is None:
        _require_own(durable, what)
        await _require_no_circle(durable, jobs)
        await _warn_of_ids(durable, wait.condition.names)
        await durable.pause(Suspended(wait))
    if answer.how == "timeout":
        return terms.default
    if jobs and answer.how == "jobs":
        ended = await _ends(durable, call, jobs)
        results = [job._result(end) for job, end in zip(jobs, ended, strict=True)]
        return results[0] if asked == 1 else results
    try:
        return _value(answer, wait, terms, asked)
    except HoldfastError as error:
        # It was sent before the expected type was known. No further attempt would receive another.
        durable.doom(error, "undecodable")


def _require_own(durable: Durable, what: Sequence[Awaited]) -> None:
    """Refuse the waitpoint of another job, such as the original of a fork: its signals go to that job."""
    for item in what:
        if isinstance(item, Opened) and item.job_id != durable.info.id:
            raise InvalidInput(f"the waitpoint {item.name!r} is of job {item.job_id}; open one in the job that waits")


async def _require_no_circle(durable: Durable, jobs: Sequence[Job[Any]]) -> None:
    """Refuse to wait for a flow member that waits for this one: neither would ever end."""
    if durable.info.flow is None or not jobs:
        return
    job_id = durable.info.id
    behind = await durable.io.read(Op(lambda tx: flow_reads.members_behind(tx, job_id), single=True))
    if circle := [job.id for job in jobs if job.id in behind]:
        raise FlowCycle(f"job {circle[0]} starts when this one has ended; it cannot be waited for here")


async def _warn_of_ids(durable: Durable, names: Sequence[str]) -> None:
    """Log a warning if a signal's name is the id of a job, which was perhaps meant."""
    if not names:
        return
    there = await durable.io.read(Op(lambda tx: tenants.owned_of(tx, durable.info.tenant or None, names), single=True))
    for name in sorted(there):
        logger.warning(
            "job %s waits for a signal named %r, which is also the id of a job; to wait for that job, give the job"
            " itself: ctx.wait_for(job)", durable.info.id, name,
        )  # fmt: skip


async def _ends(durable: Durable, call: Call, jobs: Sequence[Job[Any]]) -> list[Ended]:
    """Return how the jobs had ended when first seen: later they may be pruned, or run again."""
    ends = replace(call, kind="ended")
    found = await durable.find(ends)
    if found is None:
        ids = [job.id for job in jobs]
        rows = await durable.io.read(Op(lambda tx: queries.outcomes_of(tx, ids)))
        by_id = {row.id: row for row in rows}
        if gone := [id for id in ids if id not in by_id]:
            raise NotFound("job", gone[0])
        text = msgspec.json.encode([by_id[id] for id in ids]).decode()
        found = await durable.record(ends, text)
    return msgspec.json.decode(found.value or "[]", type=list[Ended])


def _wait(call: Call, what: Sequence[Awaited], jobs: Sequence[Job[Any]], terms: SignalTerms) -> Wait:
    return Wait(
        key=call.key,
        reason="jobs" if jobs else "signal" if what else "operator",
        condition=Condition(
            names=tuple(check_name("the signal's name", item) for item in what if isinstance(item, str)),
            waitpoints=tuple(item.id for item in what if isinstance(item, Opened)),
            needed=check_needed(terms.needed, len(what)),
            distinct=check_distinct(terms.distinct),
        ),
        jobs=tuple(job.id for job in jobs),
        timeout=None if terms.timeout is None else check_duration("timeout", terms.timeout),
        on_timeout=check_on_timeout(terms.on_timeout),
        schema=schema_of(terms.type),
        delay=check_duration("delay", terms.delay),
        position=call.position,
    )


def _readable(type: Any) -> Any:
    """Refuse an unusable type now rather than when the answer arrives."""
    try:
        codec.decoder(type)
    except TypeError as error:
        raise InvalidInput(f"type is {type!r}, which no answer can be read as: {error}") from error
    return type


def _name(item: Awaited) -> str:
    if isinstance(item, Job):
        return "job"
    return item if isinstance(item, str) else item.name


def _check_awaited(what: Sequence[object]) -> None:
    for item in what:
        if isinstance(item, JobRequest):
            name = item.task.name
            raise InvalidInput(
                f"a call of task {name!r} is not a job yet; enqueue it first: job = ctx.enqueue({name}.job(…))"
            )
        if not isinstance(item, (str, Opened, Job)):
            kind = type(item).__qualname__
            raise InvalidInput(f"a {kind} cannot be waited for; give a signal's name, a waitpoint or a job")
        if isinstance(item, str) and is_made_id(item):
            raise InvalidInput(
                f"{item!r} is the id of a job, and a text names a signal; give the job itself: ctx.wait_for(job),"
                " or ctx.wait_for(app.job(id))"
            )


def _value(answer: Answer, wait: Wait, terms: SignalTerms, asked: int) -> Any:
    if answer.how == "operator":
        payload = bytes(answer.payload)
        return terms.default if payload == b"null" else codec.decode(payload, terms.type, what="what the operator gave")
    values = [_payload(signal, terms.type) for signal in in_order(answer.signals, wait.condition)]
    return values[0] if asked == 1 and wait.condition.needed == 1 else values


def _payload(signal: Received, type: Any) -> Any:
    return codec.decode(bytes(signal.payload), type, what=f"the payload of signal {signal.name!r}")


def _refuse_inline(durable: Durable) -> None:
    if durable.is_inline:
        raise ConfigError("an inline job cannot wait: it is not stored anywhere; use an isolated store and drain it")
