"""The first page: what the system does now."""

from __future__ import annotations

from ..wire.call import Call
from ..wire.operation import Group
from .frame import Page

group = Group("Overview", kind="page")


@group.get("/", needs="read")
async def show(call: Call) -> Page:
    return Page("overview.html", {"page": "overview"})
