"""Tasks: functions that can be run later, elsewhere, with their own signature and types.

`@app.task` makes a `Task`. Its `enqueue` has the function's own parameters, without the context.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Final, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

import msgspec

from .apart import run_apart
from .context import Context, SyncContext
from .flows.chains import Chain, Group, Takes, chain_of
from .handle import Job
from .model.job import JobSpec, OnDuplicate
from .names import check_name
from .options import CallOptions, Seconds, TaskOptions
from .references import UnexpectedReference, Use
from .rules.amounts import Amounts
from .rules.retry import RetryPolicy
from .signature import Signature

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_NO_OPTIONS: Final = CallOptions()
_LEFT_OUT: Final = {field.name: field.default for field in fields(CallOptions)}


class JobRequest(msgspec.Struct, Generic[R], frozen=True):
    """A call that is not enqueued yet: what `task.job(…)` gives, for `app.enqueue_many` and `flow.add`."""

    task: Task[Any, R]
    payload: str
    options: CallOptions
    uses: tuple[Use, ...] = ()
    """The arguments that are results of other jobs of its flow."""

    def complete(self) -> JobRequest[R]:
        """Itself, unless it can only run in a flow."""
        if self.uses:
            raise UnexpectedReference(self.uses[0].reference)
        return self

    def with_options(self, options: CallOptions) -> JobRequest[R]:
        """The same call with other options in the place of its own."""
        return JobRequest(self.task, self.payload, options, self.uses)

    @overload
    def __or__(self, then: Takes[R, T]) -> Chain[T]: ...
    @overload
    def __or__(self, then: JobRequest[T] | Chain[T]) -> Chain[T]: ...
    @overload
    def __or__(self, then: Group[T]) -> Chain[list[T]]: ...
    def __or__(self, then: Any) -> Chain[Any]:
        """A chain for `flow.add`: a task takes the result of what stands before it, a job only comes after it."""
        return chain_of(self, then)


class Enqueuer(Protocol):
    """What a task needs of its app."""

    def enqueue(self, request: JobRequest[R]) -> Job[R]: ...

    async def aenqueue(self, request: JobRequest[R]) -> Job[R]: ...

    def handle(self, job_id: str, *, task: str | None = None) -> Job[Any]: ...


class Task(Generic[P, R]):
    """A registered function. Call `enqueue` with its arguments, `options` to say when and how."""

    def __init__(
        self,
        app: Enqueuer,
        fn: Callable[..., Any] | None,
        name: str,
        options: TaskOptions,
        *,
        call: CallOptions | None = None,
    ) -> None:
        self.app = app
        self.fn = fn
        self.name = check_name("the task's name", name)
        self.task_options = options
        self.call_options = call or _NO_OPTIONS
        self.draft: tuple[str, JobSpec] | None = None
        """What its jobs have in common, made by the first for a tenant."""
        self.is_async = fn is not None and inspect.iscoroutinefunction(fn)
        self.signature = Signature(fn, name=name, contexts=(Context, SyncContext))

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Store a job that calls this task with these arguments, and return its handle."""
        return self.app.enqueue(self.job(*args, **kwargs))

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """The awaiting twin of `enqueue`."""
        return await self.app.aenqueue(self.job(*args, **kwargs))

    def job(self, /, *args: P.args, **kwargs: P.kwargs) -> JobRequest[R]:
        """The call as a value, checked and encoded, for `app.enqueue_many` and `flow.add`."""
        try:
            return JobRequest(self, self.signature.encode(args, kwargs), self.call_options)
        except UnexpectedReference:
            payload, uses = self.signature.encode_with_references(args, kwargs)
            return JobRequest(self, payload, self.call_options, tuple(uses))

    def read(self, arguments: Mapping[str, Any] | list[Any], options: CallOptions | None = None) -> JobRequest[R]:
        """`job` for arguments that were read from JSON, by name or in order; checked as a worker will read them."""
        wanted = options or self.call_options
        try:
            return JobRequest(self, self.signature.accept(arguments), wanted)
        except UnexpectedReference:
            args, kwargs = ((), arguments) if isinstance(arguments, Mapping) else (arguments, {})
            payload, uses = self.signature.encode_with_references(args, kwargs, from_json=True)
            return JobRequest(self, payload, wanted, tuple(uses))

    def handle(self, job_id: str) -> Job[R]:
        """The handle of a job of this task that was enqueued before, perhaps elsewhere."""
        return self.app.handle(job_id, task=self.name)

    def options(
        self,
        *,
        id: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        delay: Seconds | None = None,
        at: datetime | None = None,
        max_attempts: int | None = None,
        timeout: Seconds | None = None,
        deadline: Seconds | datetime | None = None,
        retry: RetryPolicy | None = None,
        dedupe_key: str | None = None,
        dedupe_scope: str | None = None,
        dedupe_until: Literal["start", "failure", "finish"] | Seconds = "finish",
        on_duplicate: OnDuplicate = "existing",
        tenant: str | None = None,
        tags: Sequence[str] = (),
        concurrency_key: str | None = None,
        concurrency: int | None = None,
        fair_key: str | None = None,
        weight: float = 1.0,
        rate: str | None = None,
        breaker: str | None = None,
        reserve: Mapping[str, Amounts] | None = None,
        quota: str | None = None,
        requires: Sequence[str] | None = None,
        affinity: str | None = None,
        version: str | None = None,
        webhook: str | None = None,
        webhook_events: Sequence[str] = (),
        connection: object | None = None,
    ) -> Task[P, R]:
        """This task with further options for the calls made on what is returned.

        `delay` and `at` say when it may start, `deadline` when it must have ended. `dedupe_key` lets one job at a
        time hold that key, in the scope of the task unless `dedupe_scope` says otherwise, until it starts, first
        fails, finishes, or for so many seconds. Of the jobs with one `concurrency_key` at most `concurrency` run at
        once; those with different values of `fair_key` take turns, in proportion to their `weight`. `rate` names a
        token bucket, `breaker` a circuit breaker, `quota` a quota; `reserve` is set aside in budgets before it
        starts. `requires` adds capabilities that a worker must have, `affinity` says what it would like to find
        loaded, `version` which versions of the task may run it, such as ">=2,<3". `webhook` is a URL that is told
        what becomes of the job, of all that or of `webhook_events`, such as ("job.failed",). `connection` is your own
        open transaction to enqueue in.
        """
        given = {name: value for name, value in locals().items() if name != "self"}
        before = self.call_options
        if before is not _NO_OPTIONS:
            # What this call leaves out stays as an earlier one said.
            given = {name: getattr(before, name) if given[name] is _LEFT_OUT[name] else given[name] for name in given}
        return self._with(CallOptions(**given))

    def _with(self, call: CallOptions) -> Task[P, R]:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, call_options=call, draft=None)
        return twin

    def arguments(self, payload: str, make_context: Callable[[], Any]) -> tuple[list[Any], dict[str, Any]]:
        """The function's arguments from a stored payload, with the context where it wants one."""
        signature = self.signature
        return signature.decode(payload, make_context() if signature.takes_context else None)

    @property
    def address(self) -> tuple[str, str]:
        """Where another process finds this task: its module and its name there."""
        return (self.fn.__module__, self.fn.__qualname__) if self.fn else ("", "")

    def run_in_child(self, header: dict[str, Any], payload: str, control: Any) -> dict[str, Any]:
        """Called in a child process of the worker: run the function and describe its outcome."""
        return run_apart(self, header, payload, control)

    def __repr__(self) -> str:
        return f"<Task {self.name!r}>"


class AsyncTask(Task[P, R]):
    """A task over an `async def`; calling it runs the function here, without a queue."""

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        return _direct(self)(*args, **kwargs)  # type: ignore[no-any-return]


class SyncTask(Task[P, R]):
    """A task over a `def`; calling it runs the function here, without a queue."""

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return _direct(self)(*args, **kwargs)  # type: ignore[no-any-return]


class UndeclaredTask(Task[P, R]):
    """A task that is known by its name alone: `app.elsewhere`."""


def _direct(task: Task[Any, Any]) -> Callable[..., Any]:
    if task.fn is None:
        raise TypeError(f"task {task.name!r} is implemented elsewhere; enqueue it")
    if task.signature.context_parameter:
        raise TypeError(f"task {task.name!r} takes a context; call {task.name}.fn(ctx, …) yourself")
    return task.fn
