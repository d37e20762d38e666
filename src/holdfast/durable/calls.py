"""The durable calls of one run. Each reads the journal first, and runs only if it is not recorded there."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, TypeAlias, TypeVar

from ..clock import SECOND, SYSTEM_CLOCK
from ..errors import (
    HoldfastError,
    InvalidArguments,
    InvalidInput,
    LeaseLost,
    PayloadTooLarge,
    StepDiverged,
    StepFailed,
    StorageError,
)
from ..model.outcomes import Failed, Outcome, Snoozed
from ..model.steps import TRACE, Journal, Step
from ..model.values import is_large, is_reference
from ..names import check_duration, check_instant, check_name
from ..outcomes import JobOutcome
from ..rules.failure import error_text
from ..rules.retry import DEFAULT
from ..rules.steps import MOST_CALLS, Call, check_call_name
from ..storage.ops import steps
from ..storage.port import Op, Tx
from ..streams.writer import restart_step
from ..tasks.context import Context, JobInfo, Stop, SyncContext
from ..tasks.job import Job
from ..tasks.options import Seconds
from ..tasks.task import value_limit
from ..telemetry import Tracing
from .attributes import Notes
from .journal import CallSite, RunJournal, inside, site_of
from .options import ONCE, StepPolicy
from .step_functions import StepFunction, step_function
from .step_io import AsyncStepIO, BlockingStepIO, StepIO

P = ParamSpec("P")
R = TypeVar("R")
Perform: TypeAlias = "Callable[[], Coroutine[Any, Any, Any]]"

# Stop reasons after which the handler's requests are ignored.
_TOO_LATE: Final = frozenset({"timeout", "deadline", "lost", "fenced"})
# Exceptions that a step's own policy does not retry: the run is over, or the step raised an outcome itself.
_NOT_TRIED_AGAIN: Final = (JobOutcome, LeaseLost, StepDiverged, InvalidInput)
_CONTEXTS: Final = (Context, SyncContext)
_TO_RESUME: Final = 2
"""The epochs between a run and the next: one for its suspension, one for the claim."""


def ending(
    made: Callable[Concatenate[Durable, Call, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Durable, Call, P], Coroutine[Any, Any, R]]:
    """Note the end of a call, after which another task or thread may use its name."""

    @functools.wraps(made)
    async def run(durable: Durable, call: Call, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await made(durable, call, *args, **kwargs)
        finally:
            durable.end(call)

    return run


class Durable:
    """Made at the first durable call of a run. A run without a worker (inline) records nothing."""

    def __init__(
        self, info: JobInfo, app: Any, stop: Stop, io: StepIO, contexts: tuple[type, ...], scope: str = ""
    ) -> None:
        self.info: Final = info
        self.app: Final = app
        self.stop: Final = stop
        self.io: Final = io
        self.is_inline: Final = not info.worker
        self.tracing: Final[Tracing | None] = getattr(app, "tracing", None)
        self._contexts = contexts
        self._scope = scope
        self._journal = RunJournal()
        # The first run ever has nothing to read.
        self._is_read = self.is_inline or info.epoch == 1
        self._failures: list[Step] = []
        self._stale: frozenset[str] = frozenset()
        self._doom: HoldfastError | None = None
        self.says_nothing = False
        """True if the job is known to have had no stream when this run began."""
        self.stored: Final[dict[str, CallSite]] = {}
        """Artifacts by their keys, and where in the run each was stored."""

    # -- the calls. Each is numbered when it is made, in the order of the program, and runs when it is awaited.

    def step(
        self,
        context: object,
        name: str,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        policy: StepPolicy | None,
    ) -> Coroutine[Any, Any, Any]:
        function = step_function(fn, self._contexts)
        call = self.number("step", check_name("the step's name", name), function.called)
        wanted: Mapping[str, Any] = {}
        if self.stop.resources is not None:
            wanted = function.injected(self.app._find_resource, args, kwargs)
        args, kwargs = function.arguments(context, args, kwargs)
        notes = Notes(self)

        async def run() -> Any:
            more = await self.io.open(wanted) if wanted else {}
            with notes.taken():
                return await self.io.call(fn, function.is_async, args, {**kwargs, **more})

        return self._step(call, function, run, policy or ONCE, notes)

    def sleep(self, how_long: Seconds | datetime) -> Coroutine[Any, Any, None]:
        until = check_instant("the end of the sleep", how_long) if isinstance(how_long, datetime) else None
        delay = None if isinstance(how_long, datetime) else check_duration("the sleep", how_long)
        return self._sleep(self.number("sleep", "", ""), until, delay)

    def enqueue(self, request: Any) -> Coroutine[Any, Any, Job[Any]]:
        self.app._check(request)
        return self._enqueue(self.number("enqueue", "", request.task.name), request)

    # -- implementation

    @ending
    async def _step(self, call: Call, function: StepFunction, run: Perform, policy: StepPolicy, notes: Notes) -> Any:
        what = f"the value of step {call.name!r}"
        found = await self.find(call)
        if found is None:
            started = SYSTEM_CLOCK.monotonic()
            with self.io.in_flight(f"{call.name}#{call.nth}/"):
                value, attempts = await self._try(call, run, policy)
                text = self._encode(function, value, what)
                took = round((SYSTEM_CLOCK.monotonic() - started) * SECOND)
                found = await self.record(call, text, attempts=attempts, took=took, attributes=notes.text)
        if found.error is not None:
            raise _failed(call.name, found.error)
        return function.decode(found.value, what)

    async def _try(self, call: Call, run: Perform, policy: StepPolicy) -> tuple[Any, int]:
        attempts = 0
        while True:
            attempts += 1
            try:
                return await self._perform(call, run, attempts), attempts
            except _NOT_TRIED_AGAIN:
                raise
            except Exception as error:
                if policy.max_attempts is not None and attempts >= policy.max_attempts:
                    raise self._fail(call, attempts, error) from error
                await self.io.rest((policy.retry or DEFAULT).delay(attempts, self._u()))

    def _u(self) -> float:
        source: Callable[[], float] = getattr(self.app, "_u", random.random)
        return source()

    async def _perform(self, call: Call, run: Perform, attempt: int) -> Any:
        if (watch := getattr(self.app, "_on_step", None)) is not None:
            await watch(self, call)
        if attempt > 1 or self.info.epoch > 1:
            await restart_step(self, f"{call.name}#{call.nth}")
        site, tracing = site_of(self), self.tracing
        with inside(self, f"{call.name}#{call.nth}/", site.branch):
            if tracing is None:
                return await run()
            with tracing.step(call.name, attempt):
                return await run()

    def _fail(self, call: Call, attempts: int, error: Exception) -> StepFailed:
        """Record the failure only once the handler has caught it and continues; from then on it is final.

        A handler that fails with it tries the step again in its next attempt.
        """
        text = error_text(error)
        self._failures.append(entry_of(call, None, attempts, text))
        return _failed(call.name, text)

    def _encode(self, function: StepFunction, value: Any, what: str) -> str:
        try:
            return function.encode(value, what, value_limit(self.app))
        except (InvalidArguments, PayloadTooLarge) as error:
            # The step's effects cannot be undone, and each further attempt would repeat them.
            self.doom(error, "bad_result")

    @ending
    async def _sleep(self, call: Call, until: int | None, delay: int | None) -> None:
        found = await self.find(call)
        if self.is_inline:
            return
        now = self._journal.read_at
        if found is None:
            found = await self.record(call, None if until is None else str(until), wake_after=delay)
            now = found.ended_at
        left = int(found.value or 0) - now
        if left > 0:
            await self.pause(Snoozed(left, "sleep"))

    @ending
    async def _enqueue(self, call: Call, request: Any) -> Job[Any]:
        found = await self.find(call)
        if found is not None:
            made = json.loads(found.value or "{}")
            return Job(self.app.jobs, made["id"], created=made["created"], task=request.task.name)
        info, entry = self.info, entry_of(call, None)
        record = None
        if not self.is_inline:
            record = lambda tx, spec: steps.record_enqueue(tx, info.worker, info.id, info.epoch, entry, spec)  # noqa: E731
        return await self.io.enqueue(request, info.tenant, record)

    # -- the journal

    def number(self, kind: str, name: str, called: str) -> Call:
        check_call_name(name)
        scope = self._scope + site_of(self).scope
        return self._journal.number(kind, scope + name, called, self.io.caller())

    def end(self, call: Call) -> None:
        self._journal.end(call)

    async def find(self, call: Call) -> Step | None:
        """Return the record of a call; stop the handler here if the outcome of its run is decided."""
        self.check()
        await self._read()
        if self._failures:
            await self._admit()
        try:
            found = self._journal.answer(call)
        except StepDiverged as error:
            self.doom(error, "diverged")
        if found is None or not is_reference(found.value):
            return found
        return await self.io.read(Op(lambda tx: steps.whole(tx, found), single=True))

    async def record(
        self,
        call: Call,
        value: str | None,
        *,
        attempts: int = 1,
        took: int = 0,
        wake_after: int | None = None,
        attributes: str | None = None,
    ) -> Step:
        step, info = replace(entry_of(call, value, attempts), attributes=attributes), self.info
        if self.is_inline:
            return step

        async def write(tx: Tx) -> Step:
            return await steps.record(tx, info.worker, info.id, info.epoch, step, took=took, wake_after=wake_after)

        async def write_over(tx: Tx) -> Step:
            return await steps.overwrite(tx, info.worker, info.id, info.epoch, step, took=took)

        op = Op(write_over) if step.key in self._stale else Op(write, single=not is_large(value))
        return self._journal.add(await self.io.write(op))

    def keep(self, step: Step) -> None:
        """Remember an entry that is in the store."""
        self._journal.add(step)

    async def _read(self) -> None:
        if self._is_read:
            return
        job_id = self.info.id
        journal: Journal = await self.io.read(Op(lambda tx: steps.read_journal(tx, job_id)))
        # Another branch may have read it meanwhile.
        if not self._is_read:
            self._is_read = True
            self._journal.recorded = {step.key: step for step in journal.steps}
            self._journal.read_at = journal.read_at
            self._stale = journal.stale
            self._tell_resumed(journal)

    def _tell_resumed(self, journal: Journal) -> None:
        """Tell the tracer which suspension this run continues."""
        notes = [step for step in journal.steps if step.kind == TRACE]
        if notes and self.tracing is not None:
            last = max(notes, key=lambda step: step.ended_at)
            first = last.epoch + _TO_RESUME == self.info.epoch
            self.tracing.resumed(last.value or "", last.ended_at, first=first)

    async def _admit(self) -> None:
        """Record the failures that the handler has caught, before it does anything else."""
        failures, self._failures, info = self._failures, [], self.info
        if self.is_inline:
            return
        try:
            admitted = await self.io.write(
                Op(lambda tx: steps.record_all(tx, info.worker, info.id, info.epoch, failures))
            )
        except BaseException:
            self._failures = failures + self._failures
            raise
        for step in admitted:
            self._journal.add(step)

    # -- end a run before its handler ends

    def check(self) -> None:
        """Stop the handler again if the outcome of its run is decided: it may have swallowed the exception."""
        if self._doom is not None:
            raise self._doom
        branch = site_of(self).branch
        if self.stop.outcome is not None or (branch is not None and branch.wish is not None):
            self.io.again()

    async def pause(self, outcome: Outcome) -> NoReturn:
        """Unwind the handler, and then end the run with this outcome."""
        branch = site_of(self).branch
        if self.stop.reason in _TOO_LATE:
            self.io.again()
        if branch is None:
            await self.io.let_others_end(site_of(self).scope)
            self.check()
            await self._note_suspension(outcome)
            self.stop.outcome = outcome
            await self.io.unwind(self.stop.task)
        branch.wish = outcome
        await self.io.unwind(branch.task)

    async def _note_suspension(self, outcome: Outcome) -> None:
        """Keep the tracer's note about this run for the next."""
        if self.tracing is not None and (note := self.tracing.suspended(outcome)) is not None:
            # The job matters more than its trace.
            with suppress(StorageError):
                await self.record(Call(TRACE, "", self.info.epoch, "", MOST_CALLS), note)

    def doom(self, error: HoldfastError, kind: str) -> NoReturn:
        """Fail the job permanently, even if its handler swallows this exception."""
        self._doom = error
        self.stop.outcome = Failed(kind, error_text(error))
        raise error


def entry_of(call: Call, value: str | None, attempts: int = 1, error: str | None = None) -> Step:
    return Step(
        key=call.key, kind=call.kind, name=call.name, called=call.called, position=call.position, value=value,
        attempts=attempts, error=error,
    )  # fmt: skip


def _failed(name: str, text: str) -> StepFailed:
    error = json.loads(text)
    return StepFailed(name, error.get("type", "error"), error.get("message", ""))


def async_calls(info: JobInfo, app: Any, stop: Stop, scope: str = "") -> Durable:
    return Durable(info, app, stop, AsyncStepIO(app, stop), _CONTEXTS, scope)


def blocking_calls(info: JobInfo, app: Any, stop: Stop, scope: str = "") -> Durable:
    return Durable(info, app, stop, BlockingStepIO(app, stop), _CONTEXTS, scope)
