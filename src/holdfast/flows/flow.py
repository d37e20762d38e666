"""A flow as it is written: `with app.flow("nightly") as flow: …`. It is stored whole at the end of the block."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, NoReturn, Protocol, Self

from ..errors import ForeignMember, InvalidFlow, InvalidInput
from ..ids import derived_id, ids
from ..model.flows import Holder
from ..names import check_name
from ..rules.steps import Call
from ..storage.forms import CallForm, forwarded
from ..tasks.context import JobInfo
from ..tasks.job import Jobs
from ..tasks.task import JobRequest
from .builder import Builder
from .handle import FlowHandle, Flows
from .members import Member

logger: Final = logging.getLogger("holdfast")


class FlowStore(Flows, Protocol):
    """The further operations that a flow needs from its app."""

    @property
    def jobs(self) -> Jobs: ...

    def create(self, flow: Flow) -> None: ...
    async def acreate(self, flow: Flow) -> None: ...
    def extend(self, extension: Extension) -> None: ...
    async def aextend(self, extension: Extension) -> None: ...


class Flow(Builder, FlowHandle):
    """A graph of dependent jobs. Add them inside `with`; afterwards this is the flow's handle."""

    def __init__(
        self,
        store: FlowStore,
        name: str,
        *,
        tenant: str = "",
        connection: object | None = None,
        on_success: JobRequest[Any] | None = None,
        on_failure: JobRequest[Any] | None = None,
    ) -> None:
        Builder.__init__(self, store.jobs)
        FlowHandle.__init__(self, store, ids.new())
        self.name = check_name("the flow's name", name)
        self.tenant = tenant
        self.connection = connection
        self.on_success = on_success and on_success.complete()
        self.on_failure = on_failure and on_failure.complete()
        self._store = store
        self._flows = _Unstored(name)
        self._abandoned = False

    @forwarded
    async def start(self, call: CallForm) -> Flow:
        """Store the flow; members that wait for nothing can run from then on. `with` does so at its end."""
        self._require_complete()
        self._flows = self._store
        await call(self._store.create, self._store.acreate, self)
        self.closed = True
        return self

    astart = start.awaiting

    def close_into(self, parent: Builder) -> None:
        """Become a part of another flow, unless an option of this one would be lost."""
        if self.on_success or self.on_failure or self.connection is not None:
            raise InvalidInput(f"flow {self.name!r} is to be a part: give callbacks and connection to the whole flow")
        if isinstance(parent, Flow) and self.tenant not in ("", parent.tenant):
            raise ForeignMember(f"flow {self.name!r} is of tenant {self.tenant!r}, the whole of {parent.tenant!r}")
        super().close_into(parent)

    def __enter__(self) -> Self:
        self._require_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._abandoned = kind is not None
        if kind is None and not self.closed:
            self.start()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._abandoned = kind is not None
        if kind is None and not self.closed:
            await self.astart()

    def __del__(self) -> None:
        if isinstance(self.__dict__.get("_flows"), _Unstored) and not self._abandoned and not self.closed and len(self):
            logger.warning("flow %r was never stored: write it as with app.flow(…), or call .start()", self.name)

    def __repr__(self) -> str:
        return f"<Flow {self.name!r} {self.id}>"

    def _require_complete(self) -> None:
        self._require_open()
        if not len(self):
            raise InvalidFlow(f"flow {self.name!r} has no members, and would never end; add one, or store no flow")


class _Unstored:
    """The store of a flow that is not stored yet: each use raises."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, _: str) -> NoReturn:
        raise InvalidInput(
            f"flow {self._name!r} is not stored yet; that happens at the end of its with block, or by .start()"
        )


class Extension(Builder):
    """More members for the flow of a running job: `async with ctx.flow() as flow: …`.

    Their ids are derived from the job's own, so a handler that runs again adds nothing twice. Their names begin with
    the job's.
    """

    def __init__(self, store: FlowStore, flow_id: str, holder: Holder, *, generation: int, call: Call, at: int) -> None:
        """`call` distinguishes the extensions of one run; `at` is when the job was made, in microseconds."""
        super().__init__(store.jobs)
        self.flow_id = flow_id
        self.holder = holder
        self.generation = generation
        self.me: Member[Any] = Member(self, store.jobs, holder.job_id, "me", "")
        """The running job itself, for `after`."""
        self._store = store
        self._at = at
        self._seed = f"{holder.job_id}:{generation}:{call.name}{call.nth}"
        self._prefix = call.name if call.nth == 1 else f"{call.name}{call.nth}."
        self._made = 0

    def __enter__(self) -> Self:
        self._require_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is None:
            self._store.extend(self)
            self.closed = True

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        if kind is None:
            await self._store.aextend(self)
            self.closed = True

    def _new_id(self) -> str:
        self._made += 1
        return derived_id(self._at, self._seed, self._made)

    def _fresh(self, name: str, *, numbered: bool = False) -> str:
        # By its position, not by the names already taken: a later run may not reach those.
        return super()._fresh(self._prefix + name, numbered=numbered)


def extension_of(store: FlowStore, job: JobInfo, number: Callable[[], Call]) -> Extension:
    """Return an extension for the run of a member. It is numbered as a durable call of its step or branch."""
    if job.flow is None:
        raise InvalidInput("this job is not a member of a flow, so there is nothing to add to; make one with app.flow")
    holder = Holder(job.worker, job.id, job.epoch)
    return Extension(store, job.flow, holder, generation=job.generation, call=number(), at=job.created_at)
