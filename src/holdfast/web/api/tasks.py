"""Tasks."""

from __future__ import annotations

from ...shapes.tasks import Kind, of_task
from ..wire.call import Call
from ..wire.operation import Group
from .paging import Page, whole

group = Group("Tasks", "The tasks that this app knows.")


@group.get("/tasks", needs="read")
async def list_tasks(call: Call) -> Page[Kind]:
    """List the registered and declared tasks, each with its options and parameters."""
    return whole([of_task(one) for one in [call.app.tasks[name] for name in sorted(call.app.tasks)]])
