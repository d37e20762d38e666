"""The handle of a stored flow: what waits for it, looks at it and acts on it."""

from __future__ import annotations

from typing import Any, Final, Protocol

from ..model.flows import CancelPolicy, FlowCancel, FlowState, FlowStatus


class Flows(Protocol):
    """What a handle needs of its app, in both colours."""

    def status(self, flow_id: str) -> FlowStatus: ...
    async def astatus(self, flow_id: str) -> FlowStatus: ...
    def wait(self, flow_id: str, timeout: float | None) -> FlowStatus: ...
    async def await_(self, flow_id: str, timeout: float | None) -> FlowStatus: ...
    def result(self, flow_id: str, timeout: float | None) -> Any: ...
    async def aresult(self, flow_id: str, timeout: float | None) -> Any: ...
    def cancel(self, flow_id: str, policy: CancelPolicy | str = ..., *, reason: str = ...) -> FlowCancel: ...
    async def acancel(self, flow_id: str, policy: CancelPolicy | str = ..., *, reason: str = ...) -> FlowCancel: ...
    def retry(self, flow_id: str) -> list[str]: ...
    async def aretry(self, flow_id: str) -> list[str]: ...


class FlowHandle:
    """A flow that was stored, perhaps elsewhere. It knows its id; everything else it reads when asked."""

    def __init__(self, flows: Flows, id: str) -> None:
        self.id: Final = id
        self._flows = flows

    @property
    def state(self) -> FlowState:
        """Where it is now."""
        return self.status().state

    def status(self) -> FlowStatus:
        """Its row, its state, and how many of its members are in each state, read now."""
        return self._flows.status(self.id)

    async def astatus(self) -> FlowStatus:
        return await self._flows.astatus(self.id)

    def progress(self) -> dict[str, int]:
        """How many members are in each state; those in which there are none are left out."""
        return self.status().counts

    async def aprogress(self) -> dict[str, int]:
        return (await self.astatus()).counts

    def wait(self, timeout: float | None = None) -> FlowState:
        """Block until every member has ended. ResultTimeout if that is not so by then; the flow goes on."""
        return self._flows.wait(self.id, timeout).state

    async def await_(self, timeout: float | None = None) -> FlowState:
        """The awaiting twin of `wait`."""
        return (await self._flows.await_(self.id, timeout)).state

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the flow, and return the result of its last member.

        Where several members have nobody behind them, it is a dict of their results by name, without those that did not
        succeed. FlowNotSucceeded if the flow failed or was cancelled.
        """
        return self._flows.result(self.id, timeout)

    async def aresult(self, timeout: float | None = None) -> Any:
        """The awaiting twin of `result`."""
        return await self._flows.aresult(self.id, timeout)

    def cancel(self, policy: CancelPolicy | str = CancelPolicy.CANCEL_ALL, *, reason: str = "cancelled") -> FlowCancel:
        """Cancel what has not ended: `cancel_all`, `cancel_pending` (what runs goes on), or `flow_only`.

        Repeated, it tells what the first one did.
        """
        return self._flows.cancel(self.id, policy, reason=reason)

    async def acancel(
        self, policy: CancelPolicy | str = CancelPolicy.CANCEL_ALL, *, reason: str = "cancelled"
    ) -> FlowCancel:
        return await self._flows.acancel(self.id, policy, reason=reason)

    def retry(self) -> list[str]:
        """Run again what failed, was cancelled or expired, and what was skipped for its sake; the ids of those jobs."""
        return self._flows.retry(self.id)

    async def aretry(self) -> list[str]:
        return await self._flows.aretry(self.id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"
