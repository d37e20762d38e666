"""Checks of functions given as tasks: each error says what to write instead."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any, Final

from ..errors import ConfigError
from .signature import Signature

_LAMBDA: Final = "<lambda>"
_IMPORTING: Final = "<frozen importlib._bootstrap>"


def is_async(fn: Any) -> bool:
    """Return True if calling it gives a coroutine: an `async def`, an object whose `__call__` is one, or a partial."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(type(fn), "__call__", None))  # noqa: B004


def is_importing() -> bool:
    """Return True if this thread is importing a module."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename != _IMPORTING:
        frame = frame.f_back
    return frame.f_code.co_filename == _IMPORTING


def check_function(fn: Any) -> None:
    """Refuse objects that no worker could call."""
    if isinstance(fn, str) or not callable(fn):
        raise ConfigError(f"app.task takes a function, not {fn!r}; a name is given by name=")
    if hasattr(fn, "task_options"):
        raise ConfigError(f"{fn!r} is a task already; put @app.task below @app.cron and @app.every, or leave it out")
    if isinstance(fn, type):
        raise ConfigError(f"app.task takes a function, not the class {fn.__name__}; write a def that calls it")
    if inspect.isbuiltin(fn):
        raise ConfigError(f"app.task takes a function of yours, not the builtin {fn.__name__}; call it in a def")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise ConfigError(
            f"{_name(fn)} is a generator, and a job returns one value; return a list, or send what it makes with"
            " ctx.emit(…)"
        )
    _check_first(fn)


def check_task_name(fn: Any, name: str | None) -> str:
    """Return the name under which jobs find the function."""
    found: str | None = name or getattr(fn, "__name__", None)
    if found is None or found == _LAMBDA:
        raise ConfigError("a lambda, partial or object has no name for its jobs; give name=, or write a def")
    return found


def check_context(fn: Any, signature: Signature, *, right: type, wrong: type) -> None:
    """Refuse the context of the other kind of function."""
    if signature.context_kinds == (wrong,):
        kind, name = "an async def" if is_async(fn) else "a def", signature.context_parameter
        raise ConfigError(
            f"{_name(fn)} is {kind} and takes {name}: {wrong.__name__}; annotate it with {right.__name__}"
        )


def check_layer(layer: Any) -> None:
    """Refuse objects that cannot be middleware."""
    how = "write it as: def layer(ctx, call): return call(), or as async def with await call()"
    if not callable(layer) or isinstance(layer, type):
        raise ConfigError(f"app.middleware takes a function, not {layer!r}; {how}")
    if inspect.isgeneratorfunction(layer) or inspect.isasyncgenfunction(layer):
        raise ConfigError(f"middleware {_name(layer)} is a generator, which would run nothing; {how}")
    try:
        inspect.signature(layer).bind(None, None)
    except TypeError:
        raise ConfigError(f"middleware {_name(layer)} does not take (ctx, call); {how}") from None


def _check_first(fn: Any) -> None:
    try:
        first = next(iter(inspect.signature(fn).parameters.values()), None)
    except (TypeError, ValueError):
        return  # Reading its annotations raises the reason.
    if first is None:
        return
    if first.name in ("self", "cls") and "." in _name(fn):
        raise ConfigError(
            f"{_name(fn)} is a method, and a worker has no object to call it on; make it a function of its module"
        )
    if first.name == "ctx" and first.annotation is first.empty:
        kind = "Context" if is_async(fn) else "SyncContext"
        raise ConfigError(f"{_name(fn)} takes ctx without an annotation; write ctx: holdfast.{kind}")


def _name(fn: Any) -> str:
    return str(getattr(fn, "__qualname__", repr(fn)))
