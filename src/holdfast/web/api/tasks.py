"""Kinds of work."""

from __future__ import annotations

from ...shapes.pages import Page, whole
from ...shapes.tasks import Kind, of_task
from ..wire.call import Call
from ..wire.operation import Group

group = Group("Tasks", "The kinds of work that this program knows.")


@group.get("/tasks", needs="read")
async def list_tasks(call: Call) -> Page[Kind]:
    """Registered and declared tasks by name, each with its options and what it takes."""
    return whole([call.app.tasks[name] for name in sorted(call.app.tasks)], of_task)
