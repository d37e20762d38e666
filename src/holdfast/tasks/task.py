"""Tasks: functions that run later, in a worker, with their own signature and types.

`@app.task` makes a `Task`. Its `enqueue` has the function's own parameters, without the context.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from operator import attrgetter
from pickle import PicklingError
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Never, ParamSpec, Protocol, TypeVar, overload

import msgspec

from ..errors import InvalidArguments, UnexpectedReference
from ..flows.chains import Chain, Group, Takes, chain_of
from ..model.jobs import JobSpec, OnDuplicate
from ..names import check_name
from ..rules.budgets import Amounts
from ..rules.limits import check_rate_name
from ..rules.retry import RetryPolicy, take_attempts
from ..values.codec import VALUE_LIMIT
from ..values.references import Use
from . import foreign_names
from .batches import ITEM, batch_hints
from .child_entry import run_isolated
from .context import Context, SyncContext
from .foreign_names import find_attribute
from .functions import check_context, is_async
from .job import Job
from .options import CALL_OPTIONS, CallOptions, Seconds, Tags, TaskOptions, unknown_option
from .resources import Resource
from .signature import Signature

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_NO_OPTIONS: Final = CallOptions()


class JobRequest(msgspec.Struct, Generic[R], frozen=True):
    """A call that is not enqueued yet: `task.job(…)` returns it, for `app.enqueue_many` and `flow.add`."""

    task: Task[Any, R]
    payload: str
    options: CallOptions
    uses: tuple[Use, ...] = ()
    """Arguments that are results of other jobs of its flow."""

    def complete(self) -> JobRequest[R]:
        """Return itself; raise UnexpectedReference if it can only run in a flow."""
        if self.uses:
            raise UnexpectedReference(self.uses[0].reference)
        return self

    def with_options(self, options: CallOptions) -> JobRequest[R]:
        """Return this call with other options instead of its own."""
        return JobRequest(self.task, self.payload, options, self.uses)

    @overload
    def __or__(self, then: Takes[R, T]) -> Chain[T]: ...
    @overload
    def __or__(self, then: JobRequest[T] | Chain[T]) -> Chain[T]: ...
    @overload
    def __or__(self, then: Group[T]) -> Chain[list[T]]: ...
    def __or__(self, then: Any) -> Chain[Any]:
        """Make a chain for `flow.add`: a task gets the result of its predecessor, a job only runs after it."""
        return chain_of(self, then)


class Draft(msgspec.Struct, frozen=True):
    """Common part of all jobs that a task enqueues for a tenant, created with the first of them."""

    options: CallOptions
    tenant: str
    spec: JobSpec


def value_limit(app: object) -> int:
    """Return the maximum bytes of an app's arguments, results, step values and signals."""
    config = getattr(app, "config", None)
    return VALUE_LIMIT if config is None else int(config.max_value_bytes)


class Enqueuer(Protocol):
    """The task's interface to its app."""

    def enqueue(self, request: JobRequest[R]) -> Job[R]: ...

    async def aenqueue(self, request: JobRequest[R]) -> Job[R]: ...

    def job(self, job_id: str, *, task: str | None = None) -> Job[Any]: ...


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
        self.queues: tuple[str, ...] = (options.queue,)
        """Queues that a worker with this task serves, unless its settings name others."""
        self.call_options = call or _NO_OPTIONS
        self.draft: Draft | None = None
        self.is_async = fn is not None and is_async(fn)
        find = getattr(app, "_find_resource", None)
        self.signature = Signature(
            fn,
            name=name,
            contexts=(Context, SyncContext),
            limit=value_limit(app),
            resources=find,
            hints=batch_hints(fn, name, find) if fn is not None and options.batch is not None else None,
        )
        self.injected: Final[Mapping[str, Resource]] = self.signature.injected
        """Resources by the parameters that take them."""
        if fn is not None and self.signature.takes_context:
            right, wrong = (Context, SyncContext) if self.is_async else (SyncContext, Context)
            check_context(fn, self.signature, right=right, wrong=wrong)

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Store a job that calls this task with these arguments, and return its handle."""
        return self.app.enqueue(self.job(*args, **kwargs))

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """The async version of `enqueue`."""
        return await self.app.aenqueue(self.job(*args, **kwargs))

    def job(self, /, *args: P.args, **kwargs: P.kwargs) -> JobRequest[R]:
        """Return the call as a value, checked and encoded, for `app.enqueue_many` and `flow.add`."""
        try:
            return JobRequest(self, self.signature.encode(args, kwargs), self.call_options)
        except UnexpectedReference:
            payload, uses = self.signature.encode_with_references(args, kwargs)
            return JobRequest(self, payload, self.call_options, tuple(uses))
        except InvalidArguments as wrong:
            for name in kwargs.keys() & set(CALL_OPTIONS):
                if f"unexpected keyword argument {name!r}" in str(wrong):
                    raise InvalidArguments(f"{wrong}; an option goes first: .options({name}=…).enqueue(…)") from None
            raise

    def read(self, arguments: Mapping[str, Any] | list[Any], options: CallOptions | None = None) -> JobRequest[R]:
        """Like `job`, for arguments read from JSON, by name or in order; checked as a worker will read them."""
        wanted = options or self.call_options
        try:
            return JobRequest(self, self.signature.accept(arguments), wanted)
        except UnexpectedReference:
            args, kwargs = ((), arguments) if isinstance(arguments, Mapping) else (arguments, {})
            payload, uses = self.signature.encode_with_references(args, kwargs, from_json=True)
            return JobRequest(self, payload, wanted, tuple(uses))

    def handle(self, job_id: str) -> Job[R]:
        """Return the handle of a job of this task that was enqueued before."""
        return self.app.job(job_id, task=self.name)

    def options(
        self,
        *,
        id: str | EllipsisType | None = ...,
        queue: str | EllipsisType | None = ...,
        priority: int | EllipsisType | None = ...,
        delay: Seconds | EllipsisType | None = ...,
        at: datetime | EllipsisType | None = ...,
        max_attempts: int | EllipsisType | None = ...,
        timeout: Seconds | EllipsisType | None = ...,
        deadline: Seconds | datetime | EllipsisType | None = ...,
        retry: RetryPolicy | EllipsisType | None = ...,
        dedupe_key: str | EllipsisType | None = ...,
        dedupe_scope: str | EllipsisType | None = ...,
        dedupe_until: Literal["start", "failure", "finish"] | Seconds | EllipsisType = ...,
        on_duplicate: OnDuplicate | EllipsisType = ...,
        tenant: str | EllipsisType | None = ...,
        tags: Tags | EllipsisType = ...,
        title: str | EllipsisType | None = ...,
        concurrency_key: str | EllipsisType | None = ...,
        concurrency: int | EllipsisType | None = ...,
        fair_key: str | EllipsisType | None = ...,
        weight: float | EllipsisType = ...,
        rate: str | EllipsisType | None = ...,
        rate_key: str | EllipsisType | None = ...,
        breaker: str | EllipsisType | None = ...,
        reserve: Mapping[str, Amounts] | EllipsisType | None = ...,
        quota: str | EllipsisType | None = ...,
        requires: Sequence[str] | EllipsisType | None = ...,
        affinity: str | EllipsisType | None = ...,
        version: str | EllipsisType | None = ...,
        webhook: str | EllipsisType | None = ...,
        webhook_events: Sequence[str] | EllipsisType = ...,
        created_by: str | EllipsisType | None = ...,
        connection: object | None = ...,
        **unknown: Never,
    ) -> Task[P, R]:
        """Return a copy of this task with further options for its calls.

        Options left out stay as set by the task or an earlier `options`. None turns one off: `max_attempts=None` is
        without limit, `timeout=None` without a timeout, `dedupe_key=None` without a key.

        `delay` and `at` set when it may start, `deadline` when it must have ended. `dedupe_key` lets one job at a
        time hold that key, in the scope of the task unless `dedupe_scope` says otherwise, until it starts, first
        fails, finishes, or for a number of seconds. Of the jobs with one `concurrency_key` at most `concurrency` run
        at once; those with different values of `fair_key` alternate in proportion to their `weight`. `rate` names a
        token bucket, one for each `rate_key`, `breaker` a circuit breaker, `quota` a quota; `reserve` is reserved in
        budgets before it starts. `requires` adds capabilities that a worker must have, `affinity` names what it
        prefers to find loaded, `version` which versions of the task may run it, such as ">=2,<3". `webhook` is a URL
        that receives the job's events, all or only `webhook_events`, such as ("job.failed",). `created_by` is the
        creator stored with the job, such as "user:ada", `title` a title for people. `connection` is your own open
        transaction to enqueue in.
        """
        given = {name: value for name, value in locals().items() if value is not ...}
        del given["self"]
        if given.pop("unknown"):
            raise unknown_option("options", unknown, CALL_OPTIONS)
        given = take_attempts(given)
        if "rate" in given:
            check_rate_name(given["rate"])
        if (before := self.call_options) is not _NO_OPTIONS:
            given = {name: getattr(before, name) for name in CALL_OPTIONS} | given
        return self._with(CallOptions(**given))

    def _with(self, call: CallOptions) -> Task[P, R]:
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, call_options=call, draft=None)
        return copy

    def arguments(self, payload: str, make_context: Callable[[], Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the function's arguments from a stored payload, with the context if it takes one."""
        signature = self.signature
        return signature.decode(payload, make_context() if signature.takes_context else None)

    def item(self, payload: str) -> Any:
        """Return the argument of a job of a task that takes batches."""
        args, kwargs = self.signature.decode(payload)
        return args[0] if args else kwargs[ITEM]

    @property
    def address(self) -> tuple[str, str]:
        """Module and qualified name by which another process finds this task; "" for an object without a name."""
        if self.fn is None or not hasattr(self.fn, "__qualname__"):
            return ("", "")
        return (self.fn.__module__, self.fn.__qualname__)

    def redefines(self, other: Task[Any, Any]) -> bool:
        """Return True if this redefines a function of `__main__`, as when a notebook cell runs again."""
        module, name = self.address
        return module == "__main__" and "<" not in name and other.address == (module, name)

    def run_in_child(self, header: dict[str, Any], payload: str, control: Any) -> dict[str, Any]:
        """Run the function in a child process of the worker, and describe its outcome."""
        return run_isolated(self, header, payload, control)

    def __repr__(self) -> str:
        return f"<Task {self.name!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as functions are, by module and name; the other process imports the task."""
        module, name = self.address
        if self.call_options.connection is not None or not self._is_at(module, name):
            raise PicklingError(
                f"{self!r} cannot be pickled: another process must find it as {module or '?'}.{name or self.name}, "
                "without a connection; decorate a function at the top of a module, or send the task's name"
            )
        return _imported, (module, name, None if self.call_options is _NO_OPTIONS else self.call_options)

    def _is_at(self, module: str, name: str) -> bool:
        try:
            return _imported(module, name, None).fn is self.fn
        except (ImportError, AttributeError, ValueError):
            return False

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return find_attribute(self, "a task", name, foreign_names.TASK)


class AsyncTask(Task[P, R]):
    """A task over an `async def`; calling it runs the function here, without a queue."""

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        return _direct(self)(*args, **kwargs)  # type: ignore[no-any-return]


class SyncTask(Task[P, R]):
    """A task over a `def`; calling it runs the function here, without a queue."""

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return _direct(self)(*args, **kwargs)  # type: ignore[no-any-return]


class UndeclaredTask(Task[P, R]):
    """A task of which only the name is known: `app.external_task`."""


def _imported(module: str, name: str, call: CallOptions | None) -> Task[Any, Any]:
    found: Task[Any, Any] = attrgetter(name)(import_module(module))
    return found if call is None else found._with(call)


def _direct(task: Task[Any, Any]) -> Callable[..., Any]:
    if task.fn is None:
        raise TypeError(f"task {task.name!r} is implemented elsewhere; enqueue it")
    if task.call_options is not _NO_OPTIONS:
        raise TypeError(f"task {task.name!r}: a call runs it here, without options; write .options(…).enqueue(…)")
    if task.task_options.batch is not None:
        raise TypeError(f"task {task.name!r} takes batches; call {task.name}.fn([…]) yourself, or enqueue it")
    if task.signature.context_parameter:
        raise TypeError(f"task {task.name!r} takes a context; call {task.name}.fn(ctx, …) yourself")
    return task.fn
