"""Flows: graphs of dependent jobs, stored as one."""

from typing import TYPE_CHECKING

from ..lazy import lazily as _lazily

if TYPE_CHECKING:
    from .chains import Chain, Group, group
    from .flow import Flow
    from .handle import FlowHandle
    from .joins import all_of, any_of, quorum
    from .members import Member, Members, Part

__all__ = ["Chain", "Flow", "FlowHandle", "Group", "Member", "Members", "Part", "all_of", "any_of", "group", "quorum"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = _lazily(
        __name__,
        {
            "chains": ["Chain", "Group", "group"],
            "flow": ["Flow"],
            "handle": ["FlowHandle"],
            "joins": ["all_of", "any_of", "quorum"],
            "members": ["Member", "Members", "Part"],
        },
    )
