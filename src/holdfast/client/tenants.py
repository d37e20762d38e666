"""One tenant's part of an app: `app.scoped("acme")`. Other tenants' objects do not exist here.

Each sub-client is the app's own under a `Scope`, or shows a part of what all share. Objects of the whole store, such
as its workers and its signing keys, are not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..errors import ConfigError
from ..flows.flow import Flow
from ..storage.forms import CallForm, forwarded
from ..tasks.job import Job
from ..tasks.task import JobRequest
from .artifacts import Artifacts
from .audit import Audit
from .budgets import Budgets
from .enqueuer import Enqueuer
from .events import Events
from .flows import Flows
from .jobs import Jobs
from .limits import TenantLimits
from .outbox import Outboxes
from .queues import TenantQueues
from .quotas import Quotas
from .schedules import StoredSchedules
from .scope import Scope
from .signals import Signals
from .stats import TenantErrors
from .streams import Streams
from .webhooks import Webhooks

if TYPE_CHECKING:
    from ..app import App

R = TypeVar("R")


class Scoped:
    """The sub-clients of an app, each confined to one tenant. Everything created here is the tenant's."""

    def __init__(self, app: App, tenant: str) -> None:
        self.tenant: Final = tenant
        self._app = app
        self._scope = scope = Scope(tenant)
        self.signals: Final = Signals(app.open, scope, limit=lambda: app.config.max_value_bytes)
        self.streams: Final = Streams(app.open, scope)
        self.jobs: Final = Jobs(app.open, app._tasks, self.signals, self.streams, scope)
        self._enqueuer = Enqueuer(app.open, self.jobs, app._enqueuer.spill)
        self._enqueuer.around = app._enqueuer.tracing
        self.flows: Final = Flows(app.open, self.jobs, self._enqueuer, app._check, scope)
        self.signal: Final = self.signals.send
        self.asignal: Final = self.signals.asend
        self.stream: Final = self.streams.follow
        self.astream: Final = self.streams.afollow
        self.artifacts: Final = Artifacts(app.open, scope)
        self.budgets: Final = Budgets(app.open, scope)
        self.quotas: Final = Quotas(app.open, scope)
        self.schedules: Final = StoredSchedules(app.open, app._tasks, app._check_url, app._check, scope)
        self.queues: Final = TenantQueues(app.open, tenant)
        self.limits: Final = TenantLimits(app.open, tenant)
        self.errors: Final = TenantErrors(app.open, tenant)
        self.audit: Final = Audit(app.open, scope)
        self.events: Final = Events(app.open, tenant)
        self.aevents: Final = self.events
        self.webhooks: Final = Webhooks(app.open, lambda: app.outbound, lambda: app._clock, scope)

    def enqueue(self, request: JobRequest[R]) -> Job[R]:
        """Enqueue a job made by `task.job(…)`, for this tenant."""
        self._own(request)
        if self._app._inline:
            return self._app.enqueue(request, tenant=self.tenant)
        return self._enqueuer.one(request, self.tenant)

    async def aenqueue(self, request: JobRequest[R]) -> Job[R]:
        """The async version of `enqueue`."""
        self._own(request)
        if self._app._inline:
            return await self._app.aenqueue(request, tenant=self.tenant)
        return await self._enqueuer.aone(request, self.tenant)

    @forwarded
    async def enqueue_many(
        self, call: CallForm, requests: Sequence[JobRequest[Any]], *, connection: object | None = None
    ) -> list[Job[Any]]:
        """Enqueue up to 10,000 jobs in one transaction, all or none; return their handles in order."""
        for request in requests:
            self._own(request)
        if self._app._inline:
            return [await call(self.enqueue, self.aenqueue, request) for request in requests]
        return await call(self._enqueuer.many, self._enqueuer.amany, requests, self.tenant, connection)

    aenqueue_many = enqueue_many.awaiting

    def flow(
        self,
        name: str,
        *,
        connection: object | None = None,
        on_success: JobRequest[Any] | None = None,
        on_failure: JobRequest[Any] | None = None,
    ) -> Flow:
        """Make a flow of this tenant, as `app.flow` does."""
        if self._app._inline:
            raise ConfigError("a flow needs a store, and inline mode has none; use holdfast.testing.isolated and drain")
        for request in (on_success, on_failure):
            if request is not None:
                self._own(request)
        return Flow(
            self.flows,
            name,
            tenant=self.tenant,
            connection=connection,
            on_success=on_success,
            on_failure=on_failure,
        )

    @property
    def outbox(self) -> Outboxes:
        """`scoped.outbox("cloud")` puts events of this tenant; the other methods concern only those."""
        return self._app.outbox._within(self._scope, self.jobs, self._enqueuer)

    def job(self, job_id: str, *, task: str | None = None) -> Job[Any]:
        """Return the handle of a job by its id; another tenant's is not found."""
        return Job(self.jobs, job_id, created=False, task=task)

    def _own(self, request: JobRequest[Any]) -> None:
        self._app._check(request)
        self._scope.of(request.options.tenant)

    def __repr__(self) -> str:
        return f"<Scoped to {self.tenant!r}>"
