"""Finds the operation for a path, in a tree of segments: the number of operations does not matter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .operation import Operation

_ANY: Final = "{}"
_REST: Final = "{:path}"


class Router:
    """Operations by path and method. A literal segment wins over a placeholder."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._root = _Node()
        for operation in operations:
            node = self._root
            for segment in segments_of(operation.path):
                node = node.children.setdefault(_kind(segment), _Node())
            assert operation.method not in node.methods, f"{operation.method} {operation.path} is there twice"
            node.methods[operation.method] = operation

    def find(self, path: str) -> tuple[dict[str, Operation], list[str]] | None:
        """Return the operations of a path by method, and its path parameters; None if there are none."""
        values: list[str] = []
        found = self._root.find(segments_of(path), values)
        return (found.methods, values) if found is not None and found.methods else None


class _Node:
    __slots__ = ("children", "methods")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.methods: dict[str, Operation] = {}

    def find(self, segments: list[str], values: list[str]) -> _Node | None:
        if not segments:
            return self
        first, rest = segments[0], segments[1:]
        if (child := self.children.get(first)) is not None and (found := child.find(rest, values)) is not None:
            return found
        if first and (child := self.children.get(_ANY)) is not None:
            taken = len(values)
            values.append(first)
            if (found := child.find(rest, values)) is not None:
                return found
            del values[taken:]
        if (child := self.children.get(_REST)) is not None:
            values.append("/".join(segments))
            return child
        return None


def segments_of(path: str) -> list[str]:
    return path.lstrip("/").split("/")


def _kind(segment: str) -> str:
    if not segment.startswith("{"):
        return segment
    return _REST if segment.endswith(":path}") else _ANY
