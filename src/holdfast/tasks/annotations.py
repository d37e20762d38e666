"""Resolves a function's annotations to types, as far as possible.

Annotations may be text, may name what exists only for type checkers, and may have no JSON form: what cannot be
resolved counts as Any. A task's context is recognised here, and by its annotation only.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeAlias

from ..errors import ConfigError

# "Context", "holdfast.Context | None", "Optional[Context]", 'Annotated["Context", …]'
_CONTEXT_TEXT: Final = r"""["'\s]*(?:[\w.]*(?:Optional|Annotated)\[)?["'\s]*(?:\w+\.)*(?:{names})\b(?!\.)"""


Find: TypeAlias = "Callable[[Any], Any]"
"""Returns the resource of a type; None if there is none."""


class _Injected:
    """Default of a parameter that a worker fills with a resource."""

    def __repr__(self) -> str:
        return "injected"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise TypeError("this parameter is a resource, which a worker passes; in a call of your own pass it yourself")


injected: Final[Any] = _Injected()
"""`pool: Pool = injected` tells type checkers that callers leave it out: a worker passes the resource."""


@dataclass(frozen=True, slots=True)
class Hints:
    """A function's parameters without its context and its resources, their types, and the type of its result."""

    parameters: inspect.Signature
    types: Mapping[str, Any]
    result: Any
    context: inspect.Parameter | None
    context_kinds: tuple[type, ...]
    """Context classes that its annotation names: one, or none for a union of them."""
    before_context: int
    """Number of parameters before the context."""
    positional_only: int
    """Number of positional-only parameters, without the context."""
    unresolved: Mapping[str, str] = field(default_factory=dict)
    """Annotations whose names could not be found, by parameter, or "return"."""
    injected: Mapping[str, Any] = field(default_factory=dict)
    """Resources by the parameters that take them."""


UNKNOWN: Final = Hints(inspect.Signature(), {}, Any, None, (), 0, 0)
"""Hints of a function that is implemented elsewhere."""


@dataclass(frozen=True, slots=True)
class _Unresolved:
    """An annotation whose names could not be found."""

    annotation: object


def read_hints(
    function: Callable[..., object],
    contexts: tuple[type, ...] = (),
    scope: Mapping[str, object] | None = None,
    find: Find | None = None,
) -> Hints:
    """Read a function's hints. `contexts` are the context classes; `scope` holds names besides its globals.

    With `find`, parameters that take a resource are set apart.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as exc:
        raise ConfigError(f"{function!r} has no signature that can be read; wrap it in a def") from exc
    resolve = _resolver(function, scope or {})
    hints = {p.name: resolve(p.annotation) for p in signature.parameters.values()}
    found = [p for p in signature.parameters.values() if contexts and _is_context(hints[p.name], contexts)]
    if len(found) > 1:
        raise ConfigError(f"{function!r} takes two contexts, {found[0].name} and {found[1].name}; keep one")
    resources = {} if find is None else _resources(function, signature, hints, find)
    kept = [p for p in signature.parameters.values() if p not in found and p.name not in resources]
    result = resolve(signature.return_annotation)
    every = {**{p.name: hints[p.name] for p in kept}, "return": result}
    return Hints(
        parameters=signature.replace(parameters=kept),
        types={p.name: _stored_type(p, _known(hints[p.name])) for p in kept},
        result=_known(result),
        context=found[0] if found else None,
        context_kinds=tuple(kind for kind in contexts if found and _is_context(hints[found[0].name], (kind,))),
        before_context=list(hints).index(found[0].name) if found else 0,
        positional_only=sum(p.kind is p.POSITIONAL_ONLY for p in kept),
        unresolved={name: str(hint.annotation) for name, hint in every.items() if isinstance(hint, _Unresolved)},
        injected=resources,
    )


def _resources(
    function: Callable[..., object], signature: inspect.Signature, hints: Mapping[str, Any], find: Find
) -> dict[str, Any]:
    """Return the resources that parameters take; ConfigError for one that could not be passed."""
    found: dict[str, Any] = {}
    for parameter in signature.parameters.values():
        resource = find(hints[parameter.name])
        name, where = parameter.name, getattr(function, "__qualname__", repr(function))
        if resource is None and parameter.default is injected:
            raise ConfigError(
                f"{where}: there is no resource for {name}; register one of its type with @app.resource above "
                "the task, and import the type outside of TYPE_CHECKING"
            )
        if resource is None:
            continue
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or (
            parameter.kind is parameter.POSITIONAL_OR_KEYWORD
            and any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())
        ):
            raise ConfigError(f"{where}: {name} is a resource, which is passed by name; put it behind * or *args")
        found[name] = resource
    return found


def _resolver(function: Callable[..., object], scope: Mapping[str, object]) -> Callable[[object], Any]:
    inner = _innermost(function)
    names = {**_closure(inner), **scope}

    def resolve(annotation: object) -> Any:
        if annotation is inspect.Parameter.empty:
            return Any
        holder = types.SimpleNamespace(__annotations__={"it": annotation})
        try:
            hints = typing.get_type_hints(holder, getattr(inner, "__globals__", {}), names, include_extras=True)
        except Exception:
            # An annotation's text may be any expression, so evaluating it may raise anything.
            return _Unresolved(annotation)
        return hints["it"]

    return resolve


def _innermost(function: Any) -> Any:
    """Return the plain function inside partials, wrappers and objects with __call__."""
    while isinstance(function, functools.partial):
        function = function.func
    if not hasattr(function, "__globals__") and not isinstance(function, type):
        function = type(function).__call__
    return inspect.unwrap(function)


def _closure(function: Any) -> dict[str, object]:
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None) or ()
    found: dict[str, object] = {}
    for name, cell in zip(code.co_freevars if code else (), cells, strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue  # Not assigned yet: a name that is bound after the function.
    return found


def _is_context(hint: Any, contexts: tuple[type, ...]) -> bool:
    if isinstance(hint, _Unresolved):
        return _is_context(hint.annotation, contexts)
    if isinstance(hint, (str, typing.ForwardRef)):
        text = hint if isinstance(hint, str) else hint.__forward_arg__
        names = "|".join(re.escape(kind.__name__) for kind in contexts)
        return re.match(_CONTEXT_TEXT.format(names=names), text) is not None
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return _is_context(typing.get_args(hint)[0], contexts)
    if origin in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(hint) if member is not types.NoneType]
        return all(_is_context(member, contexts) for member in members)
    kind = origin or hint
    return isinstance(kind, type) and issubclass(kind, contexts)


def _stored_type(parameter: inspect.Parameter, hint: Any) -> Any:
    """Return the stored type: a list for *args, an object for **kwargs."""
    if parameter.kind is parameter.VAR_POSITIONAL:
        return list[hint]
    if parameter.kind is parameter.VAR_KEYWORD:
        return dict[str, hint]
    return hint


def _known(hint: Any) -> Any:
    """Return Any for unresolved hints and those that only type checkers understand; otherwise the hint."""
    if isinstance(hint, (_Unresolved, typing.ParamSpecArgs, typing.ParamSpecKwargs)):
        return Any
    return Any if typing.get_origin(hint) is typing.Unpack else hint
