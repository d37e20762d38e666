"""Operations: typed functions with a method and a path, gathered in groups."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from starlette.responses import Response

from ...model.access import ScopeName

Handler: TypeAlias = Callable[..., Awaitable[Any]]
H = TypeVar("H", bound=Handler)
Kind: TypeAlias = Literal["api", "page"]
Needs: TypeAlias = ScopeName | Literal["nothing"]

T = TypeVar("T")

_WITHOUT_VALUES: Final = ("nothing", "operate", "admin")
"""The maximum body size without arguments or results, unless the operation sets another."""
_PLACEHOLDER: Final = re.compile(r"\{(\w+)(?::path)?\}")


@dataclass(frozen=True, slots=True)
class Answered(Generic[T]):
    """A response with another status, or with headers."""

    value: T
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation. The types of `query`, `body` and `answer` validate and describe it."""

    name: str
    tag: str
    kind: Kind
    method: str
    path: str
    needs: Needs
    handler: Handler
    status: int
    summary: str
    description: str
    places: tuple[tuple[str, Any], ...]
    """The path parameters with their types."""
    query: Any = None
    body: Any = None
    form: Any = None
    answer: Any = None
    media: str = "application/json"
    bulk: bool = False
    """True if its body may be as large as one with many jobs."""
    small: bool = False
    """True if its body holds only names, numbers and a reason, or comes from anonymous callers."""
    also: tuple[int, ...] = ()
    """Other statuses with the same kind of response."""
    request_headers: tuple[str, ...] = ()
    """Request headers it uses."""
    confines: bool = False
    """True if it checks the permissions of callers restricted to queues or tasks itself."""
    shows_payload: bool = False
    """True if it shows arguments, results or output of a job or flow to callers with that scope, which is audited."""
    streams: bool = False
    """True if it can respond with server-sent events."""
    besides: tuple[tuple[int, str], ...] = ()
    """Additional statuses, with their meaning."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group of operations, under one heading of the document."""

    tag: str
    about: str = ""
    kind: Kind = "api"
    operations: list[Operation] = field(default_factory=list)

    def get(self, path: str, **how: Any) -> Callable[[H], H]:
        return self._add("GET", path, how)

    def post(self, path: str, **how: Any) -> Callable[[H], H]:
        return self._add("POST", path, how)

    def put(self, path: str, **how: Any) -> Callable[[H], H]:
        return self._add("PUT", path, how)

    def patch(self, path: str, **how: Any) -> Callable[[H], H]:
        return self._add("PATCH", path, how)

    def delete(self, path: str, **how: Any) -> Callable[[H], H]:
        return self._add("DELETE", path, how)

    def _add(self, method: str, path: str, how: dict[str, Any]) -> Callable[[H], H]:
        def decorate(handler: H) -> H:
            self.operations.append(_operation(self, method, path, handler, how))
            return handler

        return decorate


def _operation(group: Group, method: str, path: str, handler: Handler, how: dict[str, Any]) -> Operation:
    hints = get_type_hints(handler, include_extras=True)
    placeholders = _PLACEHOLDER.findall(path)
    answer = hints.pop("return", None)
    if get_origin(answer) is UnionType and Response in get_args(answer):
        # Data, or another kind of response if the caller asks for it.
        (answer,) = [part for part in get_args(answer) if part is not Response]
    if get_origin(answer) is Answered:
        (answer,) = get_args(answer)
    parts = {name: hints.pop(name) for name in ("query", "body", "form") if name in hints}
    unread = set(inspect.signature(handler).parameters) - {"call", *placeholders, *parts}
    assert not unread, f"{handler.__qualname__} takes {unread}, which nothing gives it"
    small = group.kind == "api" and how["needs"] in _WITHOUT_VALUES
    summary, _, description = inspect.cleandoc(handler.__doc__ or "").partition("\n")
    return Operation(
        name=handler.__name__,
        tag=group.tag,
        kind=group.kind,
        method=method,
        path=path,
        handler=handler,
        status=how.pop("status", 200 if answer is not type(None) else 204),
        summary=summary.rstrip("."),
        description=description.strip(),
        places=tuple((name, hints[name]) for name in placeholders),
        answer=answer,
        small=how.pop("small", small),
        **parts,
        **how,
    )
