"""What a task takes and returns: calls to JSON payloads and back, typed by the function's own annotations.

A payload is an object by parameter name that holds only what the caller gave, so that a default changed by a later
version applies to the jobs that left it out. *args are a list under their name, **kwargs an object under theirs.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from inspect import Parameter
from typing import Any, Final

import msgspec

from . import codec
from .errors import ConfigError, InvalidArguments
from .hints import Hints, read_hints

Arguments = tuple[list[Any], dict[str, Any]]

# JSON keeps these as they are, and "is this its type" is all there is to check.
_EXACT: Final[frozenset[Any]] = frozenset(
    {str, int, float, bool, bytes, type(None), datetime, date, time, timedelta, uuid.UUID, Decimal}
)
# In JSON these are text, so the decoder alone would take any text for them.
_WRITTEN_AS_TEXT: Final[frozenset[Any]] = frozenset({bytes, datetime, date, time, timedelta, uuid.UUID, Decimal})
_ABSENT: Final = msgspec.UNSET


class Signature:
    """One task's parameters and result. Made once, at registration; safe to share between threads."""

    __slots__ = (
        "_by_position", "_decoder", "_exact", "_fields", "_hints", "_named", "_required", "_result", "_simple",
        "limit", "task",
    )  # fmt: skip

    def __init__(self, task: str, hints: Hints, limit: int = codec.PAYLOAD_LIMIT) -> None:
        self.task = task
        self.limit = limit
        self._hints = hints
        parameters = list(hints.parameters.parameters.values())
        self._by_position = tuple(p.name for p in parameters if p.kind in _POSITIONAL)
        self._named = tuple(p.name for p in parameters if p.kind in _NAMED)
        self._required = frozenset(p.name for p in parameters if p.default is p.empty and p.kind not in _VARIADIC)
        self._simple = all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
        self._fields = tuple((f"f{index}", p.name, p.kind) for index, p in enumerate(parameters))
        self._exact = {name: _exactly(hint) for name, hint in hints.types.items()}
        self._decoder = _payload_decoder(task, parameters, hints.types)
        self._result = _result_decoder(hints.result)

    @classmethod
    def of(
        cls,
        function: Callable[..., object],
        *,
        task: str,
        contexts: tuple[type, ...] = (),
        scope: Mapping[str, object] | None = None,
        limit: int = codec.PAYLOAD_LIMIT,
    ) -> Signature:
        """Read a function. `contexts` are the classes that mark its context, `scope` what its annotations may name."""
        return cls(task, read_hints(function, contexts, scope), limit)

    @property
    def context(self) -> str | None:
        """The name of the parameter that takes the context, if there is one."""
        return self._hints.context.name if self._hints.context else None

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """A call's arguments by parameter name, in the order of the parameters; defaults are left out."""
        if self._simple:
            names = self._by_position
            if not kwargs and len(args) == len(names):
                return dict(zip(names, args, strict=True))
            if not args and self._required <= kwargs.keys() <= self._exact.keys():
                return {name: kwargs[name] for name in names if name in kwargs}
        try:
            return dict(self._hints.parameters.bind(*args, **kwargs).arguments)
        except TypeError as exc:
            raise InvalidArguments(f"task {self.task!r}: {exc}; it takes {self}") from None

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """A call as payload text, each argument checked against its annotation."""
        bound = self.bind(args, kwargs)
        exact = self._exact
        for name, value in bound.items():
            expected = exact[name]
            if expected is not object and type(value) is not expected:
                return self._encode_checked(bound)
        return codec.encode(bound, what=self._what, limit=self.limit)

    def decode(self, text: str | bytes) -> Arguments:
        """A payload as (args, kwargs) for the function, without its context."""
        found = codec.read(self._decoder, text, self._what)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        pass_by_position = self._has_more_positions(found)
        for field, name, kind in self._fields:
            value = getattr(found, field)
            if value is _ABSENT:
                pass_by_position = False
            elif kind is Parameter.VAR_POSITIONAL:
                args += value
            elif kind is Parameter.VAR_KEYWORD:
                kwargs |= value
            elif kind is Parameter.POSITIONAL_ONLY or (pass_by_position and kind in _POSITIONAL):
                args.append(value)
            else:
                kwargs[name] = value
        return args, kwargs

