"""The tasks of an app: `@app.task` registers them by name, under which jobs find them."""

from __future__ import annotations

import logging
from collections import ChainMap
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, overload

from ..client.specs import hooks_of
from ..clock import SYSTEM_CLOCK, Clock
from ..config import Config
from ..errors import ConfigError, UnknownTask
from ..model.outcomes import Outcome
from ..names import check_capabilities
from ..outbound.policy import Policy, parse
from ..rules.budgets import Amounts
from ..rules.limits import check_rate_text
from ..rules.reserved import check_open_queue, check_open_task
from ..rules.retry import RetryPolicy, take_attempts
from ..rules.routing import QueueRouter, Routes
from ..tasks.context import Context, SyncContext
from ..tasks.decorators import BatchDecorator, TaskDecorator
from ..tasks.destinations import Destination
from ..tasks.functions import check_function, check_layer, check_task_name, is_async
from ..tasks.inventory import Fetch, Inventory
from ..tasks.middleware import Middleware
from ..tasks.options import TASK_OPTIONS, Captured, Hooks, Isolate, Seconds, TaskOptions, unknown_option
from ..tasks.resources import Lifespan, Resource, Resources, Scope
from ..tasks.task import AsyncTask, Enqueuer, JobRequest, SyncTask, Task, UndeclaredTask
from ..tasks.tenants import Tenants
from ..telemetry import Tracing

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound=Middleware)
F = TypeVar("F", bound=Callable[..., Any])

logger: Final = logging.getLogger("holdfast")


class Registry(Enqueuer):
    """Tasks by name, and their middleware. The app adds a store to it."""

    config: Config
    _clock: Clock | None
    _tenants: Tenants
    outbound: Policy = Policy()
    """Policy for outbound requests of this app: webhooks, and the ready-made HTTP task."""
    tracing: Tracing | None = None
    """Told of steps, waits and deliveries; set by `holdfast.contrib.otel.instrument`."""

    def __init__(self, routes: Routes | None = None, lifespan: Lifespan | None = None) -> None:
        if lifespan is not None and not callable(lifespan):
            raise ConfigError(f"App(lifespan=…) takes a function, not {lifespan!r}; write: async def lifespan(app): …")
        self._lifespan = lifespan
        self._router = QueueRouter(routes)
        self._tasks: dict[str, Task[Any, Any]] = {}
        self._built_in: dict[str, Task[Any, Any]] = {}
        self._middleware: list[Middleware] = []
        self._on_run_end: list[Callable[[Any, Outcome], object]] = []
        """Called on the worker's loop with each run that ended and its outcome."""
        self._resources = Resources()

    @overload
    def task(self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def task(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def task(self, fn: Callable[Concatenate[SyncContext, P], R], /) -> SyncTask[P, R]: ...
    @overload
    def task(self, fn: Callable[P, R], /) -> SyncTask[P, R]: ...
    @overload
    def task(
        self,
        *,
        name: str | None = None,
        queue: str = ...,
        priority: int = 0,
        max_attempts: int | None = 5,
        retry: RetryPolicy | None = None,
        timeout: Seconds | None = None,
        isolate: Isolate | None = None,
        capture: Sequence[Captured] = (),
        concurrency: int | None = None,
        rate: str | None = None,
        breaker: str | None = None,
        reserve: Mapping[str, Amounts] | None = None,
        quota: str | None = None,
        requires: Sequence[str] = (),
        affinity: str | None = None,
        version: str | None = None,
        inventory: Inventory | None = None,
        no_retry_on: tuple[type[BaseException], ...] = (),
        on_success: Hooks = (),
        on_failure: Hooks = (),
        on_end: Hooks = (),
    ) -> TaskDecorator: ...
    @overload
    def task(
        self,
        *,
        name: str | None = None,
        queue: str = ...,
        priority: int = 0,
        max_attempts: int | None = 5,
        retry: RetryPolicy | None = None,
        timeout: Seconds | None = None,
        isolate: Isolate | None = None,
        batch: int,
        wait: Seconds = 0,
        concurrency: int | None = None,
        rate: str | None = None,
        breaker: str | None = None,
        reserve: Mapping[str, Amounts] | None = None,
        quota: str | None = None,
        requires: Sequence[str] = (),
        version: str | None = None,
        no_retry_on: tuple[type[BaseException], ...] = (),
        on_success: Hooks = (),
        on_failure: Hooks = (),
        on_end: Hooks = (),
    ) -> BatchDecorator: ...

    def task(self, *function: Any, **options: Any) -> Any:
        """Make a function a task: `@app.task`, or `@app.task(queue="mail", max_attempts=5, timeout=30)`.

        The name under which jobs find it is the function's own; give `name` to keep it when the function is renamed.
        With `batch` the function takes a list of jobs, each a `holdfast.Item`, and returns an answer for each; a worker
        waits up to `wait` seconds until there are `batch` of them.
        """
        name = options.pop("name", None)
        wanted = _wanted("@app.task", options)
        hooks_of(wanted)

        def decorate(fn: Callable[..., Any]) -> Task[Any, Any]:
            check_function(fn)
            called = check_task_name(fn, name)
            routed = wanted if "queue" in options else replace(wanted, queue=self._router.queue_for(called))
            return self._register(fn, called, routed)

        if len(function) > 1:
            raise ConfigError("app.task takes a function only; options go by name, such as @app.task(queue='mail')")
        return decorate(*function) if function else decorate

    def declare(self, name: str, *, queue: str | None = None, **options: Any) -> Task[..., Any]:
        """Declare a task that is implemented elsewhere, perhaps in another language. Arguments are passed by name."""
        wanted = _wanted("app.declare", {"queue": self._router.queue_for(name) if queue is None else queue, **options})
        return self._keep(Task(self, None, name, wanted))

    def external_task(self, name: str) -> Task[..., Any]:
        """Return the task of that name, or one like `declare` makes, but unregistered: for names from outside."""
        known = self._tasks.get(name)
        check_open_task(name)
        return known or UndeclaredTask(self, None, name, TaskOptions(queue=self._router.queue_for(name)))

    def inventory(self, name: str, fetch: Fetch, *, every: Seconds = 30, timeout: Seconds = 10) -> Inventory:
        """Create an inventory of names, such as models: `@app.task(inventory=app.inventory("models", list_models))`.

        `fetch` returns the names, as a `def` or an `async def`. It is called when a job is enqueued and the last answer
        is older than `every` seconds or lacks the job's affinity.
        """
        return Inventory(name, fetch, every=every, timeout=timeout, clock=self._clock or SYSTEM_CLOCK)

    def middleware(self, layer: M, /) -> M:
        """Wrap every run: `def layer(ctx, call): return call()`, or `async def` with `await call()`.

        The first added is outermost. A `def` layer runs on the thread of a `def` task, an `async def` layer on the
        event loop. Runs in child processes are wrapped in the child.
        """
        check_layer(layer)
        self._middleware.append(layer)
        return layer

    @overload
    def resource(self, fn: F, /) -> F: ...
    @overload
    def resource(self, *, scope: Scope = "run") -> Callable[[F], F]: ...

    def resource(self, *function: Any, scope: Scope = "run") -> Any:
        """Share what handlers need: `@app.resource(scope="worker")` over a function that yields it and then closes it.

        A generator, `def` or `async def`, or a plain function if there is nothing to close. Handlers, steps and other
        resources that have a parameter of the type that it yields get it. It is opened at its first use: once for each
        worker process, or with scope "run" for each run of a job, and closed whatever the outcome. The function itself
        stays unchanged.
        """

        def decorate(fn: F) -> F:
            resource = self._resources.add(fn, scope)
            for task in self._tasks.values():
                if name := task.signature.parameter_of(resource.type):
                    raise ConfigError(
                        f"task {task.name!r} takes {name}, for which resource {resource.name!r} comes too late; "
                        "move the resource above the task"
                    )
            return fn

        if len(function) > 1:
            raise ConfigError("app.resource takes a function only; write @app.resource(scope='worker')")
        return decorate(*function) if function else decorate

    def _find_resource(self, type: Any) -> Resource | None:
        return self._resources.get(type)

    @property
    def tasks(self) -> Mapping[str, Task[Any, Any]]:
        """Registered and declared tasks by name."""
        return MappingProxyType(self._tasks)

    @property
    def all_tasks(self) -> Mapping[str, Task[Any, Any]]:
        """Tasks that a worker of this app runs: its own, and the built-in one that delivers webhooks."""
        return MappingProxyType(ChainMap(self._tasks, self._built_in))

    def _register(self, fn: Callable[..., Any], name: str, options: TaskOptions) -> Task[Any, Any]:
        if options.isolate == "process" and fn.__module__ == "__main__":
            raise ConfigError(
                f"task {name!r} has isolate='process', but a child process cannot import it from __main__; "
                "move it to a module of its own"
            )
        if options.isolate == "process" and "<locals>" in getattr(fn, "__qualname__", "<locals>"):
            raise ConfigError(
                f"task {name!r} has isolate='process', but a child process cannot import a function inside another; "
                "move it to the top of its module"
            )
        if not self._tasks and self.config.inline:
            logger.warning("inline mode: jobs run at once in their caller; nothing is stored and no worker is used")
        kind = AsyncTask if is_async(fn) else SyncTask
        task = self._keep(kind(self, fn, name, options))
        _warn_of_signature(task)
        return task

    def _keep(self, task: Task[Any, Any]) -> Task[Any, Any]:
        check_rate_text(task.name, task.task_options.rate)
        if not isinstance(task, Destination):
            check_open_task(task.name)
            check_open_queue(task.task_options.queue)
        if (before := self._tasks.get(task.name)) is not None:
            if not task.redefines(before):
                raise ConfigError(f"there are two tasks named {task.name!r}; give one of them another name=")
            logger.warning("task %r is defined again in __main__; the new definition replaces the earlier", task.name)
        self._tasks[task.name] = task
        return task

    def _check(self, request: JobRequest[Any], *, in_flow: bool = False) -> None:
        """Refuse a request that this app cannot enqueue. Only in a flow may it use results of other jobs."""
        if not isinstance(request, JobRequest):
            raise TypeError(f"enqueue takes what task.job(…) makes, not {request!r}")
        if request.uses and not in_flow:
            request.complete()
        if request.task.name not in self._tasks and not isinstance(request.task, UndeclaredTask):
            known = ", ".join(sorted(self._tasks)) or "none"
            raise UnknownTask(f"this app has no task {request.task.name!r}; it knows {known}")
        if request.options.tenant is not None:
            self._tenants.check(request.options.tenant)
        if request.options.webhook is not None:
            self._check_url(request.options.webhook)

    def _check_url(self, url: str) -> None:
        parse(url, self.outbound)


def _warn_of_signature(task: Task[Any, Any]) -> None:
    """Warn about arguments that are not checked although the function looks annotated."""
    for name, annotation in task.signature.unresolved.items():
        what = "its result" if name == "return" else name
        logger.warning(
            "task %r: the annotation %s of %s cannot be resolved, so values are not checked or converted;"
            " import it outside of TYPE_CHECKING, above the task", task.name, annotation, what,
        )  # fmt: skip
    if task.signature.takes_anything and "<locals>" in getattr(task.fn, "__qualname__", ""):
        logger.warning(
            "task %r takes (*args, **kwargs), so its arguments are not checked; if it is the inner function of a"
            " decorator, put @functools.wraps(fn) on it", task.name,
        )  # fmt: skip


def _wanted(where: str, options: dict[str, Any]) -> TaskOptions:
    if unknown := [name for name in options if name not in TASK_OPTIONS]:
        raise unknown_option(where, unknown, TASK_OPTIONS)
    options["requires"] = check_capabilities("requires", options.get("requires", ()))
    return TaskOptions(**take_attempts(options))
