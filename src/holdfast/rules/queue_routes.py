"""Chooses the queue of a task's jobs where neither the task nor the call names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ..errors import ConfigError
from ..names import check_queue

DEFAULT: Final = "default"
Routes: TypeAlias = "Mapping[str, str] | Callable[[str], str | None]"
"""Queues by task name, by prefix (`"mail.*"`) or for all others (`"*"`); or a function from a task name to a queue."""


class QueueRouter:
    """Gives the queue of each task name."""

    def __init__(self, routes: Routes | None) -> None:
        self._ask = routes if callable(routes) else None
        self._exact: dict[str, str] = {}
        self._prefixes: list[tuple[str, str]] = []
        if routes is not None and not callable(routes):
            self._read(routes)

    def queue_for(self, task: str) -> str:
        """The exact name wins, then the longest prefix; without a match it is "default"."""
        if self._ask is not None:
            found = self._ask(task)
            return DEFAULT if found is None else check_queue(found)
        if task in self._exact:
            return self._exact[task]
        return next((queue for prefix, queue in self._prefixes if task.startswith(prefix)), DEFAULT)

    def _read(self, routes: Mapping[str, str]) -> None:
        for pattern, queue in routes.items():
            if not pattern or "*" in str(pattern)[:-1] or type(pattern) is not str:
                raise ConfigError(f"{pattern!r} routes no task; use a task's name, or a prefix such as 'mail.*'")
            if pattern.endswith("*"):
                self._prefixes.append((pattern[:-1], check_queue(queue)))
            else:
                self._exact[pattern] = check_queue(queue)
        self._prefixes.sort(key=lambda item: -len(item[0]))
