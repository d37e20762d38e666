"""The app: a program's tasks, its store and its worker."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import random as _random
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Never, ParamSpec, Self, TypeVar, cast

from . import config as configuration
from .client.access import Access
from .client.artifacts import Artifacts
from .client.audit import Audit
from .client.breakers import Breakers, declare_breaker
from .client.budgets import Budgets, declare_budget
from .client.budgets import Limits as BudgetLimits
from .client.capabilities import capabilities_of
from .client.delivering import deliver_task
from .client.enqueuer import Around, Enqueuer, both, spill_at
from .client.events import Events
from .client.flows import Flows
from .client.inline import InlineJobs
from .client.jobs import Jobs
from .client.keys import Keys
from .client.limits import Limits, declare_rate, task_limits
from .client.outbox import Outboxes
from .client.queues import Queues
from .client.quotas import Quotas, declare_quota
from .client.remote import Leases
from .client.schedules import Schedules
from .client.signals import Signals
from .client.stats import Errors, Stats
from .client.streams import Streams
from .client.tenants import Scoped
from .client.transactions import Within
from .client.webhooks import Webhooks
from .client.workers import Workers
from .clock import Clock
from .errors import ConfigError
from .flows.flow import Flow
from .model.store import Capabilities
from .model.webhooks import QUEUE as WEBHOOKS
from .model.webhooks import TASK as DELIVER
from .names import check_name, check_queue
from .rules.budgets import Amount
from .rules.redaction import redact_logs
from .rules.retry import RetryPolicy
from .rules.routing import Routes
from .runtime.draining import Drained, drain_store, run_blocking
from .runtime.embedded import EmbeddedWorker
from .runtime.opening import open_store, refuse_postgres_settings
from .runtime.registry import Registry
from .storage.forms import CallForm, forwarded
from .storage.port import Op, Store
from .tasks import foreign_names
from .tasks.destinations import Deliver, Destination, DestinationOptions, Gate, Ready
from .tasks.foreign_names import find_attribute
from .tasks.job import Job
from .tasks.options import Seconds
from .tasks.resources import Lifespan
from .tasks.task import JobRequest
from .tasks.tenants import Known, Tenants, block
from .telemetry import RunTally

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
D = TypeVar("D", bound=Deliver)

logger: Final = logging.getLogger("holdfast")
_ONE_JOB: Final = "app.enqueue takes one job; write task.enqueue(…), or app.enqueue(task.job(…))"
redact_logs()


class App(Registry):
    """Tasks, and the store where their jobs live.

    `store` is a path, "sqlite:///…", ":memory:" or "postgresql://…". Other keywords are settings; `HOLDFAST_*`
    variables override them. `clock` and `random`, a function that returns numbers from 0 up to 1 for jitter, are for
    tests.
    `tenant` is a function that returns the tenant of jobs enqueued without one, such as that of the current request.
    `tenants` lists the known tenants, or is a function that says whether a tenant exists; others are refused. `routes`
    sets the queue of tasks that don't name one, by the task's name or a prefix of it: {"mail.*": "mail"}. `lifespan` is
    a generator function that takes the app and yields once: each worker process enters it before its first job and
    leaves it after its last.
    """

    child_setup: str | None = None
    """The module that a child process imports before that of an isolated task."""

    def __init__(
        self,
        store: str | os.PathLike[str] | None = None,
        *,
        clock: Clock | None = None,
        random: Callable[[], float] | None = None,
        tenant: Callable[[], str] | None = None,
        tenants: Known | None = None,
        routes: Routes | None = None,
        lifespan: Lifespan | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(routes, lifespan)
        self._declared: dict[str, tuple[object, ...]] = {}
        self._declared_limits: dict[str, Op[None]] = {}
        self._code = {**settings, "store": _store_text(store)}
        self.config = configuration.load(self._code)
        refuse_postgres_settings(self._code["store"], settings)
        _warn_of_variables()
        self._clock = clock
        self._random = random or _random.random
        self._tenants = Tenants(tenant, tenants)
        self._opened: Store | None = None
        self._opening = threading.Lock()
        self.signals: Final = Signals(self.open, limit=self._value_limit)
        self.streams: Final = Streams(self.open)
        self.jobs: Final = Jobs(self.open, self._tasks, self.signals, self.streams)
        self.queues: Final = Queues(self.open)
        self.workers: Final = Workers(self.open)
        self.remote: Final = Leases(
            self.open, self._tasks, limit=self._value_limit, random=self._u, poll=lambda: self.config.worker.poll
        )
        self.audit: Final = Audit(self.open)
        self.tokens: Final = Access(self.open, self._tenants.check)
        self.artifacts: Final = Artifacts(self.open)
        self.limits: Final = Limits(self.open)
        self.breakers: Final = Breakers(self.open)
        self.budgets: Final = Budgets(self.open)
        self.quotas: Final = Quotas(self.open)
        self.signal: Final = self.signals.send
        self.asignal: Final = self.signals.asend
        self.keys: Final = Keys(self.open)
        self.stream: Final = self.streams.follow
        self.astream: Final = self.streams.afollow
        self.stats: Final = Stats(self.open)
        self.errors: Final = Errors(self.open)
        self.events: Final = Events(self.open)
        self.aevents: Final = self.events
        self.webhooks: Final = Webhooks(self.open, lambda: self.outbound, lambda: self._clock)
        self._built_in[DELIVER] = deliver_task(self, self._u)
        self.tally: Final = RunTally()
        self.schedules: Final = Schedules(self.open, self._tasks, lambda f: self.task(f), self._check_url, self._check)
        self.cron: Final = self.schedules.cron
        self.every: Final = self.schedules.every
        self.schedule: Final = self.schedules.schedule
        self.aschedule: Final = self.schedules.aschedule
        self._enqueuer = Enqueuer(self.open, self.jobs, spill_at(self.config.spill, self.open))
        self.flows: Final = Flows(self.open, self.jobs, self._enqueuer, self._check)
        self._outboxes: Final = Outboxes(self.open, self.jobs, self._enqueuer, self._tasks, self._tenants.of)
        self._inline = InlineJobs(self, self.jobs.decode_result) if self.config.inline else None

    def declarations(self) -> list[Op[None]]:
        """Return the limits and schedules declared in code, which a worker stores when it starts."""
        return [*self.declared_limits(), *self.schedules.declarations()]

    def declared_limits(self) -> list[Op[None]]:
        """Return the limits declared in code."""
        return [*self._declared_limits.values(), *(op for task in self._tasks.values() for op in task_limits(task))]

    def around_enqueue(self, around: Around) -> None:
        """Enter a context around each enqueue; its value is stored with the jobs, to carry a trace along.

        The value is a JSON object, or None. With several, the first is outermost, and their values are merged.
        """
        before = self._enqueuer.around
        self._enqueuer.around = around if before is None else both(before, around)

    # -- limits of the whole cluster. Workers store them when they start; an operator's settings take precedence

    def rate(self, scope: str, *, capacity: float | None = None, per_second: float) -> str:
        """Declare a token bucket for the whole cluster, and return its scope: `@app.task(rate=app.rate("smtp", …))`.

        Jobs with a `rate_key` have a bucket of that size for each key. `capacity`, how many may start at once, is
        `per_second` unless given, and at least 1.
        Workers store it when they start. An operator's later settings are not overwritten.
        """
        self._declare("rate", scope, (capacity, per_second), declare_rate(scope, capacity, per_second))
        return scope

    def breaker(self, scope: str, *, failures: int = 5, open_for: Seconds = 30) -> str:
        """Declare a circuit breaker for the whole cluster: `@app.task(breaker=app.breaker("stripe"))`.

        After `failures` failures in a row no job that names it runs for `open_for` seconds; then one job tries. Workers
        store it when they start. An operator's later settings are not overwritten.
        """
        self._declare("breaker", scope, (failures, open_for), declare_breaker(scope, failures, open_for))
        return scope

    def budget(
        self,
        name: str,
        *,
        soft: BudgetLimits | None = None,
        every: Seconds | str | None = None,
        zone: str | None = None,
        within: str | None = None,
        **limits: Amount | None,
    ) -> str:
        """Declare a cluster-wide budget, and return its name: `app.budget("team", tokens=1_000_000, every="1d")`.

        `soft` limits only warn, `every` says when it resets, and `within` names its parent budget.
        Workers store it when they start. An operator's later settings are not overwritten.
        """
        said = (limits, soft, every, zone, within)
        self._declare("budget", name, said, declare_budget(name, limits, soft, every, zone, within))
        return name

    def quota(
        self, name: str, *, limit: int | None = None, window: Seconds | None = None, concurrency: int | None = None
    ) -> str:
        """Declare a quota for the whole cluster: `@app.task(quota=app.quota("api", limit=100, window=60))`."""
        said = (limit, window, concurrency)
        self._declare("quota", name, said, declare_quota(name, limit, window, concurrency))
        return name

    def _declare(self, kind: str, name: str, said: tuple[object, ...], op: Op[None]) -> None:
        key = f"{kind}:{name}"
        if self._declared.setdefault(key, said) != said:
            raise ConfigError(f"{kind} {name!r} is declared twice, with different numbers; declare it once")
        self._declared_limits[key] = op

    # -- destinations and their outboxes

    def destination(
        self,
        name: str,
        *,
        batch: int = 64,
        max_age: Seconds | str | None = "7d",
        cap: int | None = 10_000,
        ordered: bool = False,
        exclusive: bool = False,
        ready: Ready | None = None,
        gate: Gate | None = None,
        timeout: Seconds = 30,
        overlap: int = 2,
        retry: RetryPolicy | None = None,
        telemetry: Collection[str] | bool = (),
    ) -> Callable[[D], D]:
        """Register a destination: `@app.destination("cloud")` over a function that takes a list of `OutboxEvent`.

        The function, `def` or `async def`, returns when all of them are delivered, returns `Rejected` for those that
        were refused, or raises. The options are those of `DestinationOptions`. The function itself stays unchanged.
        """
        if not isinstance(name, str):
            raise ConfigError('@app.destination needs a name; write @app.destination("cloud")')
        wants = {key: value for key, value in locals().items() if key not in ("self", "name")}
        options = DestinationOptions(**wants)

        def decorate(deliver: D) -> D:
            if not callable(deliver):
                raise ConfigError(f"app.destination takes a function, not {deliver!r}")
            _check_takes_events(name, deliver)
            self._keep(Destination(self, check_queue(name), deliver, options))
            return deliver

        return decorate

    def declare_destination(self, name: str, *, cap: int | None = 10_000, **options: Any) -> None:
        """Declare a destination whose function is in another program; this program only puts events."""
        self._keep(Destination(self, check_queue(name), None, DestinationOptions(cap=cap, **options)))

    @property
    def outbox(self) -> Outboxes:
        """`app.outbox("cloud")` takes events for a destination; the other methods are for operators."""
        if self._inline:
            raise ConfigError("an outbox needs a store; instead of inline mode use holdfast.testing.isolated and drain")
        return self._outboxes

    # -- enqueue

    def enqueue(self, request: JobRequest[R], *arguments: Never, tenant: str | None = None) -> Job[R]:
        """Enqueue a job made by `task.job(…)`."""
        if arguments:
            raise TypeError(_ONE_JOB)
        self._check(request)
        owner = self._tenants.of(request.options.tenant if tenant is None else tenant)
        if self._inline:
            return Job(self._inline, self._inline.run(request, owner), task=request.task.name)
        return self._enqueuer.one(request, owner)

    async def aenqueue(self, request: JobRequest[R], *arguments: Never, tenant: str | None = None) -> Job[R]:
        """The async version of `enqueue`."""
        if arguments:
            raise TypeError(_ONE_JOB)
        self._check(request)
        owner = self._tenants.of(request.options.tenant if tenant is None else tenant)
        if self._inline:
            return Job(self._inline, await self._inline.arun(request, owner), task=request.task.name)
        return await self._enqueuer.aone(request, owner)

    @forwarded
    async def enqueue_many(
        self, call: CallForm, requests: Iterable[JobRequest[Any]], *, connection: object | None = None
    ) -> list[Job[Any]]:
        """Enqueue up to 10,000 jobs in one transaction, all or none; return their handles in order."""
        requests = list(requests)
        for request in requests:
            self._check(request)
        if self._inline:
            return [await call(self.enqueue, self.aenqueue, request) for request in requests]
        return await call(self._enqueuer.many, self._enqueuer.amany, requests, self._tenants.of(), connection)

    aenqueue_many = enqueue_many.awaiting

    def flow(
        self,
        name: str,
        *,
        tenant: str | None = None,
        connection: object | None = None,
        on_success: JobRequest[Any] | None = None,
        on_failure: JobRequest[Any] | None = None,
    ) -> Flow:
        """Make a flow of dependent jobs: `with app.flow("nightly") as flow: …` stores it when the block ends.

        `connection` is your own open transaction to store it in. `on_success` and `on_failure` are jobs to enqueue when
        the flow ends.
        """
        if self._inline:
            raise ConfigError("a flow needs a store, and inline mode has none; use holdfast.testing.isolated and drain")
        for request in (on_success, on_failure):
            if request is not None:
                self._check(request)
        return Flow(
            self.flows,
            name,
            tenant=self._tenants.of(tenant),
            connection=connection,
            on_success=on_success,
            on_failure=on_failure,
        )

    def within(self, connection: C) -> Within[C]:
        """Make everything enqueued in a block join your open transaction, as `connection=` does for one call.

        `with app.within(session):` or `async with`; jobs, flows, outbox events and signals. A `connection=` of a call
        takes precedence, and so does an inner block; in `within(None)` Holdfast uses its own transactions.
        """
        return Within(self.open, connection)

    def job(self, job_id: str, *, task: str | None = None) -> Job[Any]:
        """Return a job's handle by its id. With `task`, or by `Task.handle`, its result is decoded as that task's."""
        return Job(self.jobs, job_id, created=False, task=task)

    @forwarded
    async def result(self, call: CallForm, key: str, timeout: float | None = None) -> Any:
        """Return the result of the job that a result key is for, as `Job.result` does. NotFound if there is none."""
        job = self.job(await call(self.jobs._keys.job, self.jobs._keys.ajob, key))
        return await call(job.result, job.aresult, timeout)

    aresult = result.awaiting

    def scoped(self, tenant: str) -> Scoped:
        """Return a view of one tenant alone: its jobs, flows, signals, schedules and the rest."""
        return Scoped(self, self._tenants.check(check_name("tenant", tenant)))

    # -- work

    def worker(self, **settings: Any) -> EmbeddedWorker:
        """Run a worker in this program: `with app.worker():` or `async with app.worker():`. No signals are handled."""
        worker = self.settings(**settings).worker
        return EmbeddedWorker(self, self.open(), worker, self._middleware, self._clock)

    def maintenance_worker(self, **settings: Any) -> EmbeddedWorker:
        """Run a worker that does maintenance and runs none of the app's tasks, for use where workers are elsewhere.

        It rescues the jobs of lost workers, fires schedules, times out waits, maintains limits and statistics, prunes,
        and delivers webhooks. `with app.maintenance_worker():` or `async with app.maintenance_worker():`.
        """
        worker = self.settings(**{"concurrency": 5, **settings, "queues": (WEBHOOKS,), "weights": ()}).worker
        return EmbeddedWorker(self, self.open(), worker, (), self._clock, tasks=MappingProxyType(self._built_in))

    def drain(
        self,
        *,
        queues: Sequence[str] | None = None,
        until_empty: bool = True,
        concurrency: int = 1,
        webhooks: bool = True,
    ) -> Drained:
        """Run every due job in this process, one after the other, until nothing is due. For tests and scripts.

        Jobs that those jobs enqueue run too; with `until_empty=False` only as many as are due at the start. Due outbox
        events and webhook messages are really sent as well, and count as jobs do; with `webhooks=False` webhooks wait
        for a worker.
        """
        drained = self.adrain(queues=queues, until_empty=until_empty, concurrency=concurrency, webhooks=webhooks)
        return run_blocking(drained, instead="await adrain(…)")

    async def adrain(
        self,
        *,
        queues: Sequence[str] | None = None,
        until_empty: bool = True,
        concurrency: int = 1,
        webhooks: bool = True,
    ) -> Drained:
        """The async version of `drain`."""
        settings = self.settings(queues=queues, concurrency=concurrency).worker
        return await drain_store(self, settings, self.all_tasks if webhooks else self.tasks, until_empty=until_empty)

    def settings(self, **flags: Any) -> configuration.Config:
        """Return the settings in force, with these overriding all others; None leaves a setting as it is."""
        return configuration.load(self._code, flags=flags)

    # -- the store

    def open(self) -> Store:
        """Return the store, opened at its first use."""
        if self._opened is None:
            with self._opening:
                if self._opened is None:
                    self._opened = open_store(self.config, self._clock)
        return self._opened

    def capabilities(self) -> Capabilities:
        """Return what the store supports, its version and its limits."""
        return capabilities_of(self.open())

    async def acapabilities(self) -> Capabilities:
        """The async version of `capabilities`."""
        return await asyncio.to_thread(self.capabilities)

    def connect(self) -> Any:
        """Open a sqlite3 connection to the store's file with its settings, for `connection=`. SQLite only."""
        store = self.open()
        if not hasattr(store, "connect"):
            raise ConfigError("app.connect() is for SQLite; on Postgres use your own psycopg connection")
        return cast("Any", store).connect()

    def migrate(self) -> list[str]:
        """Bring the schema up to date; return the names of the migrations applied."""
        return self.open().migrate()

    def close(self) -> None:
        """Close every connection. The app may be used again, which reopens the store."""
        with self._opening:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    @block
    def override_store(
        self,
        store: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        random: Callable[[], float] | None = None,
    ) -> Iterator[Self]:
        """Use another store for a while, such as a test's own. It is closed at the end, and the app's own is back.

        Nothing else may use the app at the time of the change: a caller that waits for a result would never get it.
        """
        where = os.fspath(store)
        changes = {
            "_code": {**self._code, "store": where},
            "config": replace(self.config, store=where, inline=False),
            "_clock": clock or self._clock,
            "_random": random or self._random,
            "_opened": None,
            "_inline": None,
        }
        with self._changed(changes):
            try:
                yield self
            finally:
                self.close()

    @block
    def inline(self) -> Iterator[Self]:
        """Run jobs immediately in their caller for a while, without a store."""
        with self._changed({"_inline": InlineJobs(self, self.jobs.decode_result)}):
            yield self

    @block
    def override_resource(self, resource: Any, value: Any) -> Iterator[Self]:
        """Give handlers and steps this value instead of a resource for a while, such as a test's own.

        `resource` is its type or its function. The value is not closed. Child processes cannot get it.
        """
        with self._resources.find(resource).replaced(value):
            yield self

    def _value_limit(self) -> int:
        """Return the size limit of a value in bytes, by the settings in force."""
        return self.config.max_value_bytes

    def _u(self) -> float:
        """Return a number from 0 up to 1, from the source in force."""
        return self._random()

    @contextmanager
    def _changed(self, changes: dict[str, Any]) -> Iterator[None]:
        before = {name: getattr(self, name) for name in changes}
        self.__dict__.update(changes)
        self.jobs.renew()
        self.flows.renew()
        try:
            yield
        finally:
            self.__dict__.update(before)
            self.jobs.renew()
            self.flows.renew()

    def __repr__(self) -> str:
        return f"<App with {len(self._tasks)} tasks>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return find_attribute(self, "an app", name, foreign_names.APP)


_warned: Final[set[str]] = set()


def _store_text(store: object) -> str | None:
    if store is None:
        return None
    if not isinstance(store, (str, os.PathLike)):
        raise ConfigError(f"the store is {store!r}; give a path or a URL as text, such as 'jobs.db'")
    return os.fspath(cast("str | os.PathLike[str]", store))


def _warn_of_variables() -> None:
    """Log a warning, once per process, for each HOLDFAST_* variable that sets nothing."""
    for name, text in configuration.unknown_variables(os.environ).items():
        if name not in _warned:
            _warned.add(name)
            logger.warning("%s", text)


def _check_takes_events(name: str, deliver: Any) -> None:
    try:
        inspect.signature(deliver).bind(None)
    except TypeError:
        how = "write: def deliver(events: list[holdfast.model.OutboxEvent])"
        raise ConfigError(f"the function of destination {name!r} must take a list of events; {how}") from None
    except ValueError:
        return  # A builtin without a signature.
