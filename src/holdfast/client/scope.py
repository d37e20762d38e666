"""The scope of a sub-client: everything, or one tenant. `app.scoped("acme")` is built on this.

A sub-client takes `scope: Scope = EVERYTHING` last in its `__init__` and keeps it as `self._scope`. Then each method
declares its target, and targets outside of the scope do not exist, in the same transaction as the action itself:

    read of a job      store.read(self._scope.sees(job_id, op))          NotFound("job", id) where it is another's
    write to a job     store.write(self._scope.owns(job_id, op))         the same, and the job cannot change hands
    of a flow          self._scope.sees_flow(flow_id, op), owns_flow     FlowNotFound
    list, count        pass self._scope.within(asked) as the statement's tenant; it is None where nothing narrows it
    keyed by a name    the key is (tenant, name): use self._scope.home   "" outside of any tenant
    of the whole store self._scope.whole("the workers")                  BeyondScope in a scoped view

Under EVERYTHING the operations are returned as they are: an app without tenants pays nothing. A cursor is a place in a
list that is filtered in SQL, so a foreign one shows nothing of its owner; one that names a job goes through `sees`.
The view itself is `client/tenants.py`: add the sub-client there. `tests/conformance/test_tenants.py` finds every
public method of the view by itself, and fails until it knows how to call a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ..errors import BeyondScope, InvalidInput
from ..storage.ops.tenants import require_flow, require_job
from ..storage.port import Op, Tx

T = TypeVar("T")

NOBODYS: Final = "\x1f"
"""An impossible tenant, since no name has a control character: its lists are empty."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One tenant's part of the store, or with None all of it."""

    tenant: str | None = None

    @property
    def home(self) -> str:
        """The tenant of what is created here without naming one."""
        return self.tenant or ""

    def sees(self, job_id: str, op: Op[T]) -> Op[T]:
        """Return the operation, checked to read a job of this scope."""
        return self._after(op, lambda tx, tenant: require_job(tx, tenant, job_id))

    def owns(self, job_id: str, op: Op[T]) -> Op[T]:
        """Return the operation, checked to write to a job of this scope."""
        return self._after(op, lambda tx, tenant: require_job(tx, tenant, job_id, hold=True))

    def sees_flow(self, flow_id: str, op: Op[T]) -> Op[T]:
        """Return the operation, checked to read a flow of this scope."""
        return self._after(op, lambda tx, tenant: require_flow(tx, tenant, flow_id))

    def owns_flow(self, flow_id: str, op: Op[T]) -> Op[T]:
        """Return the operation, checked to write to a flow of this scope."""
        return self._after(op, lambda tx, tenant: require_flow(tx, tenant, flow_id, hold=True))

    def within(self, asked: str | None = None) -> str | None:
        """Return the tenant to filter by, given the one that a filter names."""
        if self.tenant is None or asked == self.tenant:
            return asked
        return self.tenant if asked is None else NOBODYS

    def of(self, given: str | None) -> str | None:
        """Return the tenant of something new; InvalidInput if it names another."""
        if self.tenant is None or given in (None, self.tenant):
            return given if self.tenant is None else self.tenant
        raise InvalidInput(f"what is made in the view of tenant {self.tenant!r} is its own; leave tenant= out")

    def whole(self, what: str) -> None:
        """Refuse, in a tenant's view, an action on the whole store."""
        if self.tenant is not None:
            raise BeyondScope(what, self.tenant)

    def _after(self, op: Op[T], require: Callable[[Tx, str], Coroutine[Any, Any, None]]) -> Op[T]:
        tenant = self.tenant
        if tenant is None:
            return op

        async def run(tx: Tx) -> T:
            await require(tx, tenant)
            return await op.run(tx)

        return Op(
            run, patience=op.patience, may_lose_on_power_failure=op.may_lose_on_power_failure, name=op.name or "tenant"
        )


EVERYTHING: Final = Scope()
