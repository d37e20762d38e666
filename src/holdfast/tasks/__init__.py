"""Tasks: the decorated functions, their options and signatures, and the context of a run."""

from typing import TYPE_CHECKING

from ..lazy import lazily as _lazily

if TYPE_CHECKING:
    from .context import Context, SyncContext, current
    from .inventory import Inventory
    from .job import Job
    from .task import JobRequest, Task
    from .tenants import tenant

__all__ = ["Context", "Inventory", "Job", "JobRequest", "SyncContext", "Task", "current", "tenant"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = _lazily(
        __name__,
        {
            "context": ["Context", "SyncContext", "current"],
            "inventory": ["Inventory"],
            "job": ["Job"],
            "task": ["JobRequest", "Task"],
            "tenants": ["tenant"],
        },
    )
