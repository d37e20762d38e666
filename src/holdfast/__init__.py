"""Holdfast: a durable job queue and execution engine, on a SQLite file or on Postgres.

Everyday names are here. All others are in their modules, such as `holdfast.errors`, `holdfast.flows` and
`holdfast.model`.
"""

from typing import TYPE_CHECKING

from .lazy import lazily as _lazily
from .version import VERSION as __version__

if TYPE_CHECKING:
    from . import clock as clock
    from . import errors as errors
    from . import flows as flows
    from . import model as model
    from . import outcomes as outcomes
    from . import tasks as tasks
    from .app import App
    from .errors import (
        HoldfastError,
        InvalidInput,
        JobCancelled,
        JobFailed,
        NotFound,
        OutcomeUnknown,
        QueueClosed,
        QueueFull,
        ResultTimeout,
        StorageUnavailable,
    )
    from .flows.chains import group
    from .flows.flow import Flow
    from .flows.joins import all_of, any_of, quorum
    from .outcomes import Cancel, Fail, Park, Retry, Snooze, Throttle
    from .rules.retry import RetryPolicy, exponential, fixed
    from .tasks.annotations import injected
    from .tasks.batches import Item
    from .tasks.context import Context, SyncContext, current
    from .tasks.job import Job
    from .tasks.task import Task
    from .tasks.tenants import tenant

__all__ = [
    "App",
    "Cancel",
    "Context",
    "Fail",
    "Flow",
    "HoldfastError",
    "InvalidInput",
    "Item",
    "Job",
    "JobCancelled",
    "JobFailed",
    "NotFound",
    "OutcomeUnknown",
    "Park",
    "QueueClosed",
    "QueueFull",
    "ResultTimeout",
    "Retry",
    "RetryPolicy",
    "Snooze",
    "StorageUnavailable",
    "SyncContext",
    "Task",
    "Throttle",
    "__version__",
    "all_of",
    "any_of",
    "current",
    "exponential",
    "fixed",
    "group",
    "injected",
    "quorum",
    "tenant",
]

# Imported when first asked for: pytest loads this package in every run where Holdfast is installed, to find its
# fixtures, and the whole takes more than ten times as long.
if not TYPE_CHECKING:
    __getattr__, __dir__ = _lazily(
        __name__,
        {
            "app": ["App"],
            "errors": [
                "HoldfastError",
                "InvalidInput",
                "JobCancelled",
                "JobFailed",
                "NotFound",
                "OutcomeUnknown",
                "QueueClosed",
                "QueueFull",
                "ResultTimeout",
                "StorageUnavailable",
            ],
            "flows.chains": ["group"],
            "flows.flow": ["Flow"],
            "flows.joins": ["all_of", "any_of", "quorum"],
            "outcomes": ["Cancel", "Fail", "Park", "Retry", "Snooze", "Throttle"],
            "rules.retry": ["RetryPolicy", "exponential", "fixed"],
            "tasks.annotations": ["injected"],
            "tasks.batches": ["Item"],
            "tasks.context": ["Context", "SyncContext", "current"],
            "tasks.job": ["Job"],
            "tasks.task": ["Task"],
            "tasks.tenants": ["tenant"],
        },
        ("clock", "errors", "flows", "model", "outcomes", "tasks"),
    )
