"""Warns of rates and breakers that are not declared: jobs that name one wait for ever."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from ...errors import HoldfastError
from ...model.limits import breaker_lane, rate_lane
from ...rules.limits import rate_scope
from ...storage.ops.limits.undeclared import named_by, waited_for
from ...storage.port import Op, Store
from ...tasks.task import Task

logger: Final = logging.getLogger("holdfast.worker")


class UndeclaredLimits:
    """Warns once when the worker starts, and once for each name when jobs wait for it."""

    def __init__(self, store: Store, tasks: Mapping[str, Task[Any, Any]]) -> None:
        self._store = store
        self._tasks = tasks
        self._warned: frozenset[tuple[str, str]] = frozenset()

    async def check_tasks(self) -> None:
        """Warn of those that tasks of this worker name."""
        lanes = self._lanes()
        try:
            found = await self._store.aread(Op(lambda tx: named_by(tx, lanes))) if lanes else []
        except HoldfastError as error:
            logger.debug("the rates and breakers of the tasks could not be checked: %s", error)
            return
        for it in found:
            logger.warning(
                "the %s %r is not declared, so jobs of %s that name it will wait for ever; %s",
                it.kind, it.name, ", ".join(it.tasks), it.remedy,
            )  # fmt: skip

    async def check_jobs(self) -> None:
        """Warn of those for which jobs wait. A name that was declared and removed again is warned of again."""
        found = {(it.kind, it.name): it for it in await self._store.aread(Op(waited_for))}
        for it in (found[key] for key in found.keys() - self._warned):
            logger.warning(
                "job %s of task %s, and others like it, wait for the %s %r, which is not declared; %s",
                it.job_id, ", ".join(it.tasks), it.kind, it.name, it.remedy,
            )  # fmt: skip
        self._warned = frozenset(found)

    def _lanes(self) -> dict[str, list[str]]:
        """Return the tasks by the lane of the rate or breaker that they name."""
        found: dict[str, list[str]] = {}
        for task in self._tasks.values():
            its = task.task_options
            if its.rate is not None:
                found.setdefault(rate_lane(rate_scope(task.name, its.rate)), []).append(task.name)
            if its.breaker is not None:
                found.setdefault(breaker_lane(its.breaker), []).append(task.name)
        return found
