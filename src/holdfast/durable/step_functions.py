"""The functions of steps: their parameters and return type, read from their annotations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ..errors import ConfigError, InvalidArguments, InvalidInput
from ..tasks.annotations import UNKNOWN, Find, Hints, read_hints
from ..tasks.functions import is_async
from ..tasks.signature import result_decoder
from ..values import codec


@dataclass(frozen=True, slots=True)
class StepFunction:
    """A function that can be a step."""

    called: str
    """Its name, without its module, so that it may move to another."""
    is_async: bool
    hints: Hints
    decoder: msgspec.json.Decoder[Any]

    def arguments(
        self, context: object, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return the call's arguments, with the context if the function takes one."""
        parameter, at = self.hints.context, self.hints.before_context
        if parameter is None:
            return args, kwargs
        if parameter.kind is parameter.KEYWORD_ONLY or len(args) < at:
            return args, {**kwargs, parameter.name: context}
        return [*args[:at], context, *args[at:]], kwargs

    def injected(self, find: Find, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the resources that the function takes and the call does not pass, by parameter."""
        given = {*list(self.hints.types)[: len(args)], *kwargs}
        found = {name: find(hint) for name, hint in self.hints.types.items() if name not in given}
        return {name: resource for name, resource in found.items() if resource is not None}

    def encode(self, value: object, what: str, limit: int) -> str:
        """Return the value as text, checked against the return annotation, on which the next run relies."""
        text = codec.encode(value, what=what, limit=limit)
        try:
            self.decoder.decode(text)
        except msgspec.ValidationError as wrong:
            raise InvalidArguments(f"{what} is not what its function says: {codec.explain(wrong)}") from wrong
        return text

    def decode(self, text: str | None, what: str) -> Any:
        return codec.read(self.decoder, "null" if text is None else text, what)


def step_function(fn: Callable[..., Any], contexts: tuple[type, ...]) -> StepFunction:
    """Return the shape of a function, which is read once."""
    _require_function(fn)
    try:
        return _step_function(fn, contexts)
    except TypeError:  # A callable that cannot be hashed.
        return _step_function.__wrapped__(fn, contexts)


def _require_function(fn: object) -> None:
    if callable(fn):
        return
    if isinstance(fn, Coroutine):
        fn.close()
    raise InvalidInput(f"a step needs a function and its arguments, not {fn!r}: ctx.step(name, function, argument)")


@functools.lru_cache(maxsize=1024)
def _step_function(fn: Callable[..., Any], contexts: tuple[type, ...]) -> StepFunction:
    try:
        hints = read_hints(fn, contexts)
    except ConfigError:
        # Some builtins have no signature, such as set.add.
        hints = UNKNOWN
    return StepFunction(_name(fn), is_async(fn), hints, result_decoder(hints.result))


def _name(fn: Any) -> str:
    while isinstance(fn, functools.partial):
        fn = fn.func
    name: str = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    return name.rpartition("<locals>.")[2]
