"""Invalid flows, and flows that have ended or did not succeed."""

from __future__ import annotations

from .root import Conflict, HoldfastError, InvalidInput, NotFound


class InvalidFlow(InvalidInput):
    """An invalid graph of jobs. Nothing was written."""

    code = "invalid_flow"


class SelfEdge(InvalidFlow):
    """A member would wait for itself."""

    code = "self_edge"


class FlowCycle(InvalidFlow):
    """Members would wait for each other, and none could start."""

    code = "flow_cycle"


class ForeignMember(InvalidFlow):
    """A member of another flow or another tenant, or no member at all."""

    code = "foreign_member"


class DuplicateEdge(InvalidFlow):
    """A member would wait for another twice."""

    code = "duplicate_edge"


class DuplicateMember(InvalidFlow):
    """A member of that name, or with that job, is in a flow already."""

    code = "duplicate_member"


class FlowTooLarge(InvalidFlow):
    """A flow with too many members, or too long a chain of them."""

    code = "flow_too_large"


class FlowNotFound(NotFound):
    """There is no such flow."""

    code = "flow_not_found"

    def __init__(self, id: str) -> None:
        super().__init__("flow", id)


class FlowEnded(Conflict):
    """The flow has ended or was cancelled; nothing can be added to it any more."""

    code = "flow_ended"


class StaleRevision(Conflict):
    """Another caller changed the flow's graph since it was read. Read it again, and repeat."""

    code = "stale_revision"
    retryable = True


class FlowNotSucceeded(HoldfastError):
    """The flow ended without success. `failures` has the members that did not succeed, each with the reason."""

    code = "flow_not_succeeded"

    def __init__(self, flow_id: str, state: str, failures: dict[str, str]) -> None:
        self.flow_id = flow_id
        self.state = state
        self.failures = failures
        shown = [f"{name} ({why})" for name, why in list(failures.items())[:3]]
        more = f" and {len(failures) - 3:,} more" if len(failures) > 3 else ""
        super().__init__(f"flow {flow_id} {state}" + (f": {', '.join(shown)}{more}" if shown else ""))
