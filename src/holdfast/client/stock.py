"""Asks the inventories of tasks whether what jobs want exists, before they are enqueued."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ..inventory import Inventory
from ..tasks import JobRequest

R = TypeVar("R", bound="Sequence[JobRequest[Any]]")


def check_stock(requests: R) -> R:
    """NotInInventory for the first job whose affinity its task's inventory does not know."""
    for inventory, name in _wanted(requests):
        inventory.check(name)
    return requests


async def acheck_stock(requests: R) -> R:
    for inventory, name in _wanted(requests):
        await inventory.acheck(name)
    return requests


def _wanted(requests: Sequence[JobRequest[Any]]) -> list[tuple[Inventory, str]]:
    wanted: dict[tuple[int, str], tuple[Inventory, str]] = {}
    for request in requests:
        options = request.task.task_options
        if options.inventory is not None:
            name = options.affinity if request.options.affinity is ... else request.options.affinity
            if name is not None:
                wanted[id(options.inventory), name] = (options.inventory, name)
    return list(wanted.values())
