"""Frozen data that the layers pass to each other. The classes that programs use can be imported from here."""

from typing import TYPE_CHECKING

from ..lazy import lazily as _lazily

if TYPE_CHECKING:
    from .actions import ActionResult
    from .answers import JobFilter
    from .artifacts import Artifact
    from .budgets import Budget, Quota
    from .flows import CancelPolicy, FlowFilter, FlowState, FlowStatus
    from .jobs import JobRecord, JobState
    from .outbox import OutboxEvent, Outgoing
    from .schedules import Schedule, ScheduleState
    from .store import Capabilities
    from .streams import Frame, StreamPage

__all__ = [
    "ActionResult",
    "Artifact",
    "Budget",
    "CancelPolicy",
    "Capabilities",
    "FlowFilter",
    "FlowState",
    "FlowStatus",
    "Frame",
    "JobFilter",
    "JobRecord",
    "JobState",
    "OutboxEvent",
    "Outgoing",
    "Quota",
    "Schedule",
    "ScheduleState",
    "StreamPage",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = _lazily(
        __name__,
        {
            "actions": ["ActionResult"],
            "answers": ["JobFilter"],
            "artifacts": ["Artifact"],
            "budgets": ["Budget", "Quota"],
            "flows": ["CancelPolicy", "FlowFilter", "FlowState", "FlowStatus"],
            "jobs": ["JobRecord", "JobState"],
            "outbox": ["OutboxEvent", "Outgoing"],
            "schedules": ["Schedule", "ScheduleState"],
            "store": ["Capabilities"],
            "streams": ["Frame", "StreamPage"],
        },
    )
