"""Inline mode: a job runs at once in its caller, with no store and no worker. For tests and small scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import ConfigError, HoldfastError, NotFound
from ..model.actions import ActionResult
from ..model.jobs import Ended, JobRecord, JobState
from ..names import check_timeout
from ..outcomes import Cancel
from ..rules.explain import Explanation
from ..rules.failure import error_text
from ..storage.forms import CallForm, forwarded
from ..tasks.batches import Item, answers_of
from ..tasks.context import Context, JobInfo, Stop, SyncContext
from ..tasks.resources import LoneResources, private_loop
from ..tasks.task import JobRequest, Task
from ..tasks.tenants import working_for
from ..telemetry import CurrentRun, running
from .specs import spec_of

T = TypeVar("T")


class InlineJobs:
    """Runs jobs and remembers how they ended, for their handles. Delay, queue and retries are ignored."""

    def __init__(self, app: Any, decode: Callable[[Ended, str | None], Any]) -> None:
        self._app = app
        self._decode = decode
        self._ended: dict[str, Ended] = {}

    def run(self, request: JobRequest[Any], tenant: str = "") -> str:
        """Run a job to its end; return its id. A failure is raised when the result is asked for."""
        task = request.task
        if not task.is_async:
            return self._run(request, tenant)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.arun(request, tenant))
        raise ConfigError(f"task {task.name!r} is async and an event loop runs here; await aenqueue instead")

    async def arun(self, request: JobRequest[Any], tenant: str = "") -> str:
        """The async version of `run`."""
        if not request.task.is_async:
            return self._run(request, tenant)
        info, stop, current, call = self._prepare(request, tenant)
        job_id, loop = info.id, asyncio.get_running_loop()
        try:
            with working_for(self._app, info.tenant, job_id), running(current):
                async with LoneResources(stop, lambda: loop) as resources:
                    value = await call(await resources.aopen(request.task.injected))
                    stop.require_awaited()
        except Exception as error:
            return self._failed(job_id, error)
        return self._succeeded(job_id, request.task, value)

    def _run(self, request: JobRequest[Any], tenant: str) -> str:
        info, stop, current, call = self._prepare(request, tenant)
        job_id = info.id
        try:
            with (
                working_for(self._app, info.tenant, job_id),
                running(current),
                LoneResources(stop, private_loop) as resources,
            ):
                value = call(resources.open(request.task.injected))
        except Exception as error:
            return self._failed(job_id, error)
        return self._succeeded(job_id, request.task, value)

    def _prepare(
        self, request: JobRequest[Any], tenant: str
    ) -> tuple[JobInfo, Stop, CurrentRun, Callable[[dict[str, Any]], Any]]:
        task, stop = request.task, Stop()
        if task.fn is None:
            raise ConfigError(f"task {task.name!r} is implemented elsewhere and cannot run inline")
        # Refuse here what a store would refuse.
        spec = spec_of(request, tenant=tenant)
        info = JobInfo(spec.id, task.name, task.task_options.queue, spec.tenant, 1, 1, 0, 1, 0)
        self._app.streams.keep(info)
        kind = Context if task.is_async else SyncContext
        current = CurrentRun(None, None, lambda: kind(info, self._app, stop), subject=info)
        fn = task.fn
        if task.task_options.batch is not None:
            item = Item(task.item(request.payload), info, stop)
            return info, stop, current, lambda resources: fn([item], **resources)
        args, kwargs = task.arguments(request.payload, lambda: current.context)
        return info, stop, current, lambda resources: fn(*args, **kwargs, **resources)

    def _succeeded(self, job_id: str, task: Task[Any, Any], value: Any) -> str:
        try:
            if task.task_options.batch is not None:
                [value] = answers_of(task.name, value, 1)
                if isinstance(value, Exception):
                    return self._failed(job_id, value)
            result = task.signature.encode_result(value)
        except HoldfastError as error:
            return self._failed(job_id, error)
        self._ended[job_id] = Ended(job_id, JobState.SUCCEEDED, result, None, None)
        return job_id

    def _failed(self, job_id: str, error: Exception) -> str:
        if isinstance(error, Cancel):
            self._ended[job_id] = Ended(job_id, JobState.CANCELLED, None, None, error.reason)
            return job_id
        self._ended[job_id] = Ended(job_id, JobState.FAILED, None, error_text(error), "permanent")
        return job_id

    # -- for handles

    @forwarded
    async def get(self, _: CallForm, job_id: str) -> JobRecord:
        raise ConfigError("inline jobs are not stored; they have a result, but no record")

    aget = get.awaiting

    @forwarded
    async def wait(self, _: CallForm, job_id: str, timeout: float | None = None) -> Ended:
        check_timeout(timeout)
        try:
            return self._ended[job_id]
        except KeyError:
            raise NotFound("job", job_id) from None

    await_ = wait.awaiting

    @forwarded
    async def cancel(
        self, _: CallForm, job: str, *, reason: str = "", force: bool = False, actor: str = ""
    ) -> ActionResult:
        return ActionResult.FINISHED

    acancel = cancel.awaiting

    @forwarded
    async def retry(self, _: CallForm, job: str, *, fresh: bool = False, actor: str = "", reason: str = "") -> bool:
        raise ConfigError("inline jobs are not stored; to run one again, enqueue it again")

    aretry = retry.awaiting

    @forwarded
    async def explain(self, _: CallForm, job_id: str) -> Explanation:
        raise ConfigError("inline jobs are not stored; they run at once, and there is nothing to explain")

    aexplain = explain.awaiting

    @property
    def _signals(self) -> Any:
        raise ConfigError("inline jobs are not stored, and take no signals; use a store: holdfast.testing.isolated")

    @property
    def _streams(self) -> Any:
        return self._app.streams

    @forwarded
    async def result_key(self, _: CallForm, job_id: str) -> str:
        raise ConfigError("inline jobs are not stored; no other program can ask for their results")

    aresult_key = result_key.awaiting

    def pickled_by(self, task: str | None) -> None:
        return None

    def decode_result(self, ended: Ended, task: str | None) -> Any:
        return self._decode(ended, task)
