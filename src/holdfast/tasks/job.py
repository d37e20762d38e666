"""The handle of a job, which `enqueue` returns: waits for it, cancels it and reads it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Generator, Iterator
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from ..errors import JobCancelled, JobExpired, JobFailed, JobNotSucceeded, JobSkipped
from ..model.actions import ActionResult
from ..model.jobs import Ended, JobRecord, JobState
from ..storage.forms import CallForm, forwarded
from . import foreign_names
from .foreign_names import find_attribute

if TYPE_CHECKING:
    from ..model.signals import Sent
    from ..model.streams import Frame
    from ..rules.explain import Explanation
    from .options import Seconds

R = TypeVar("R")

_ERRORS: Final[dict[JobState, type[JobNotSucceeded]]] = {
    JobState.FAILED: JobFailed,
    JobState.CANCELLED: JobCancelled,
    JobState.EXPIRED: JobExpired,
    JobState.SKIPPED: JobSkipped,
}


class Jobs(Protocol):
    """The handle's interface to its app, sync and async."""

    def get(self, job_id: str) -> JobRecord: ...
    async def aget(self, job_id: str) -> JobRecord: ...
    def wait(self, job_id: str, timeout: float | None) -> Ended: ...
    async def await_(self, job_id: str, timeout: float | None) -> Ended: ...
    def cancel(self, job: str, *, reason: str = ..., force: bool = ..., actor: str = ...) -> ActionResult: ...
    async def acancel(self, job: str, *, reason: str = ..., force: bool = ..., actor: str = ...) -> ActionResult: ...
    def retry(self, job: str, *, fresh: bool = ..., actor: str = ..., reason: str = ...) -> bool: ...
    async def aretry(self, job: str, *, fresh: bool = ..., actor: str = ..., reason: str = ...) -> bool: ...
    def explain(self, job_id: str) -> Explanation: ...
    async def aexplain(self, job_id: str) -> Explanation: ...
    def decode_result(self, ended: Ended, task: str | None) -> Any: ...
    def result_key(self, job_id: str) -> str: ...
    async def aresult_key(self, job_id: str) -> str: ...
    def pickled_by(self, task: str | None) -> Any: ...
    @property
    def _signals(self) -> Any: ...
    @property
    def _streams(self) -> Any: ...


class Job(Generic[R]):
    """A job that was enqueued. `created` is False if an earlier job already held its id or dedupe key."""

    def __init__(self, jobs: Jobs, id: str, *, created: bool = True, task: str | None = None) -> None:
        self.id: Final = id
        self.created: Final = created
        self._jobs = jobs
        self._task = task

    @property
    def state(self) -> JobState:
        """Its state, read now. In async code use `(await job.astatus()).state`."""
        return self._jobs.get(self.id).state

    @forwarded
    async def status(self, call: CallForm) -> JobRecord:
        """Read everything that the store has about the job."""
        return await call(self._jobs.get, self._jobs.aget, self.id)

    astatus = status.awaiting

    @forwarded
    async def wait(self, call: CallForm, timeout: float | None = None) -> JobState:
        """Wait until the job has ended, with any outcome. Raises ResultTimeout if it has not by then."""
        return (await call(self._jobs.wait, self._jobs.await_, self.id, timeout)).state

    await_ = wait.awaiting

    @forwarded
    async def result(self, call: CallForm, timeout: float | None = None) -> R:
        """Wait for the result. Raises JobFailed, JobCancelled or JobExpired if there is none."""
        return self._result(await call(self._jobs.wait, self._jobs.await_, self.id, timeout))

    aresult = result.awaiting

    @forwarded
    async def result_key(self, call: CallForm) -> str:
        """Return an unguessable key for clients without a token: over HTTP it reads only this job's result."""
        return await call(self._jobs.result_key, self._jobs.aresult_key, self.id)

    aresult_key = result_key.awaiting

    def __await__(self) -> Generator[Any, None, R]:
        """Wait for the result: `await job` is `await job.aresult()`."""
        return self.aresult().__await__()

    @forwarded
    async def cancel(
        self, call: CallForm, *, reason: str = "cancelled", force: bool = False, actor: str = "app"
    ) -> ActionResult:
        """Cancel it if it waits, ask it to stop if it runs, end it at once with `force`."""
        return await call(self._jobs.cancel, self._jobs.acancel, self.id, reason=reason, force=force, actor=actor)

    acancel = cancel.awaiting

    @forwarded
    async def retry(self, call: CallForm, *, fresh: bool = False, actor: str = "app", reason: str = "") -> bool:
        """Run it again after it ended, as `app.jobs.retry` does. False if a live job holds its dedupe key."""
        return await call(self._jobs.retry, self._jobs.aretry, self.id, fresh=fresh, actor=actor, reason=reason)

    aretry = retry.awaiting

    @forwarded
    async def explain(self, call: CallForm) -> Explanation:
        """Explain why it is in its state, and what would change that."""
        return await call(self._jobs.explain, self._jobs.aexplain, self.id)

    aexplain = explain.awaiting

    @forwarded
    async def signal(
        self,
        call: CallForm,
        name: str,
        payload: object = None,
        *,
        key: str | None = None,
        source: str = "",
        connection: Any = None,
    ) -> Sent:
        """Send it a signal, as `app.signal` does. A second one with the same `key` is the same signal."""
        signals = self._jobs._signals
        sent: Sent = await call(
            signals.send, signals.asend, self.id, name, payload, key=key, source=source, connection=connection
        )
        return sent

    asignal = signal.awaiting

    def stream(
        self, *, after: str | None = None, timeout: Seconds | None = None, best_effort: bool = True
    ) -> Iterator[Frame]:
        """Read its stream until it has ended, as `app.stream` does: `for frame in job.stream(): …`."""
        frames: Iterator[Frame] = self._jobs._streams.follow(
            self.id, after=after, timeout=timeout, best_effort=best_effort
        )
        return frames

    def astream(
        self, *, after: str | None = None, timeout: Seconds | None = None, best_effort: bool = True
    ) -> AsyncIterator[Frame]:
        """The async version of `stream`: `async for frame in job.astream(): …`."""
        frames: AsyncIterator[Frame] = self._jobs._streams.afollow(
            self.id, after=after, timeout=timeout, best_effort=best_effort
        )
        return frames

    def _result(self, ended: Ended) -> R:
        if ended.state is JobState.SUCCEEDED:
            value: R = self._jobs.decode_result(ended, self._task)
            return value
        raise _ERRORS[ended.state](ended.id, ended.state, explain_end(ended))

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the task, which the other process imports; its app opens the store there."""
        task = self._jobs.pickled_by(self._task)
        if task is None:
            raise PicklingError(f"{self!r} cannot be pickled; send job.id, and call app.job(id) where it arrives")
        return _unpickled, (task, self.id, self.created)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return find_attribute(self, "a job", name, foreign_names.JOB)


def _unpickled(task: Any, id: str, created: bool) -> Job[Any]:
    return Job(task.handle(id)._jobs, id, created=created, task=task.name)


def explain_end(ended: Ended) -> str | None:
    """Return one line on why a job did not succeed."""
    if not ended.error:
        return ended.reason
    error = json.loads(ended.error)
    return f"{ended.reason or 'failed'}: {error.get('type', 'error')}: {error.get('message', '')}"
