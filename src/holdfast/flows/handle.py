"""The handle of a stored flow: wait for it, read it and act on it."""

from __future__ import annotations

from typing import Any, Final, Protocol

from ..model.flows import CancelPolicy, FlowCancel, FlowState, FlowStatus
from ..storage.forms import CallForm, forwarded


class Flows(Protocol):
    """The operations that a handle needs from its app, blocking and async."""

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
    """A stored flow. The handle holds its id and reads everything else from the store."""

    def __init__(self, flows: Flows, id: str) -> None:
        self.id: Final = id
        self._flows = flows

    @property
    def state(self) -> FlowState:
        """Read the flow's current state."""
        return self.status().state

    @forwarded
    async def status(self, call: CallForm) -> FlowStatus:
        """Read the flow, and the number of members in each state."""
        return await call(self._flows.status, self._flows.astatus, self.id)

    astatus = status.awaiting

    @forwarded
    async def progress(self, call: CallForm) -> dict[str, int]:
        """Return the number of members in each state, without states that have none."""
        return (await call(self._flows.status, self._flows.astatus, self.id)).counts

    aprogress = progress.awaiting

    @forwarded
    async def wait(self, call: CallForm, timeout: float | None = None) -> FlowState:
        """Wait until every member has ended. ResultTimeout if they have not by then; the flow continues."""
        return (await call(self._flows.wait, self._flows.await_, self.id, timeout)).state

    await_ = wait.awaiting

    @forwarded
    async def result(self, call: CallForm, timeout: float | None = None) -> Any:
        """Wait for the flow, and return the result of its last member.

        If several members have nothing after them, it is a dict of their results by name, without those that did not
        succeed. FlowNotSucceeded if the flow failed or was cancelled.
        """
        return await call(self._flows.result, self._flows.aresult, self.id, timeout)

    aresult = result.awaiting

    @forwarded
    async def cancel(
        self, call: CallForm, policy: CancelPolicy | str = CancelPolicy.CANCEL_ALL, *, reason: str = "cancelled"
    ) -> FlowCancel:
        """Cancel what has not ended: `cancel_all`, `cancel_pending` (running jobs finish), or `flow_only`.

        A repeated call returns what the first one did.
        """
        return await call(self._flows.cancel, self._flows.acancel, self.id, policy, reason=reason)

    acancel = cancel.awaiting

    @forwarded
    async def retry(self, call: CallForm) -> list[str]:
        """Rerun members that failed, expired or were cancelled, and those skipped because of them; return their ids."""
        return await call(self._flows.retry, self._flows.aretry, self.id)

    aretry = retry.awaiting

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"
