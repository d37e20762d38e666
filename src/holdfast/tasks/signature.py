"""A task's signature: converts calls to JSON payloads and back, typed by the function's annotations.

A payload is an object by parameter name that holds only what the caller passed, so that a default changed by a later
version applies to jobs that left it out. *args are a list under their name, **kwargs an object under theirs.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from inspect import Parameter
from inspect import Signature as InspectSignature
from typing import Any, Final, TypeAlias

import msgspec

from ..errors import ConfigError, InvalidArguments, Undecodable
from ..values import codec, lossy_json
from ..values.references import Use, lift
from .annotations import UNKNOWN, Find, Hints, read_hints

Arguments: TypeAlias = tuple[list[Any], dict[str, Any]]

# JSON keeps these unchanged, so checking the type is enough. Not `time`: JSON cannot keep every zone of one.
EXACT: Final[frozenset[Any]] = frozenset(
    {str, int, float, bool, bytes, type(None), datetime, date, timedelta, uuid.UUID, Decimal}
)
# In JSON these are text, so the decoder alone would accept any text for them.
_WRITTEN_AS_TEXT: Final[frozenset[Any]] = frozenset({bytes, datetime, date, time, timedelta, uuid.UUID, Decimal})
_BYTES: Final = (bytes, bytearray, memoryview)
_ABSENT: Final = msgspec.UNSET
_VARIADIC: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_UNTYPED: Final = EXACT - {bytes}
"""Types that a parameter without an annotation accepts: unchanged, or as readable text."""


class Signature:
    """One task's parameters and result. Created once, at registration; safe to share between threads."""

    __slots__ = (
        "_by_position", "_decoder", "_exact", "_fewest", "_hints", "_is_plain", "_most", "_names", "_payload",
        "_result", "_result_decoder", "_result_exact", "injected", "limit", "name", "takes_context",
    )  # fmt: skip

    def __init__(
        self,
        function: Callable[..., object] | None,
        *,
        name: str,
        contexts: tuple[type, ...] = (),
        scope: Mapping[str, object] | None = None,
        limit: int = codec.PAYLOAD_LIMIT,
        resources: Find | None = None,
        hints: Hints | None = None,
    ) -> None:
        """`function` is None for a task that is implemented elsewhere: it takes any arguments, by name.

        `contexts` are the context classes; `scope` holds names that its annotations may use besides globals.
        `resources` finds the resource of a type: such a parameter is no part of the payload. `hints` are used instead
        of the function's own.
        """
        if hints is None:
            hints = read_hints(function, contexts, scope, resources) if function else UNKNOWN
        parameters = hints.parameters.parameters.values()
        self.name = name
        self.limit = limit
        self._hints = hints
        self._names = tuple(p.name for p in parameters)
        self._is_plain = function is not None and all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
        self._fewest = sum(_is_required(p) for p in parameters)
        self._most = len(self._names)
        self.takes_context: Final = hints.context is not None
        self.injected: Final[Mapping[str, Any]] = hints.injected
        # All parameters are required and a worker adds none: the values are the arguments.
        adds = self.takes_context or bool(self.injected)
        self._by_position = self._is_plain and self._fewest == self._most and not adds
        self._exact = {name: _exactly(hint) for name, hint in hints.types.items()}
        self._decoder = _payload_decoder(name, hints)
        self._result_decoder = result_decoder(hints.result)
        self._result_exact = _exactly(hints.result)
        self._payload = f"the payload of task {name!r}"
        self._result = f"the result of task {name!r}"

    @property
    def context_parameter(self) -> str | None:
        """Name of the parameter that takes the context, if there is one."""
        return self._hints.context.name if self._hints.context else None

    @property
    def context_kinds(self) -> tuple[type, ...]:
        """Context classes that this parameter's annotation names."""
        return self._hints.context_kinds

    @property
    def unresolved(self) -> Mapping[str, str]:
        """Annotations that count as Any because their names could not be found."""
        return self._hints.unresolved

    @property
    def takes_anything(self) -> bool:
        """True if it takes only `*args` and `**kwargs`, as an inner function of a decorator does."""
        return [p.kind for p in self._hints.parameters.parameters.values()] == list(_VARIADIC)

    def has_parameter(self, name: str) -> bool:
        """Return True if the task has a parameter of that name."""
        return name in self._names

    def parameter_of(self, type: Any) -> str | None:
        """Return the first parameter of the payload with that annotation; None if there is none."""
        return next((name for name, hint in self._hints.types.items() if hint == type), None)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return a call's arguments by parameter name, in the order of the parameters; defaults are left out."""
        if self._is_plain and not kwargs and self._fewest <= len(args) <= self._most:
            return dict(zip(self._names, args))  # noqa: B905 - strict= doubles the time, measured
        if self._is_plain and not args and kwargs.keys() == self._exact.keys():
            return {name: kwargs[name] for name in self._names}
        if self._hints is UNKNOWN:
            return self._bind_unknown(args, kwargs)
        try:
            return dict(self._hints.parameters.bind(*args, **kwargs).arguments)
        except TypeError as exc:
            hint = self._misspelt(exc, kwargs) or self._unregistered(exc)
            raise InvalidArguments(f"task {self.name!r}: {exc}{hint}; it takes {self}") from None

    def _misspelt(self, wrong: TypeError, kwargs: Mapping[str, Any]) -> str:
        """Name the argument that was probably meant for a missing one: `bind` stops at the first mistake."""
        parameters = self._hints.parameters.parameters
        unknown = [name for name in kwargs if name not in parameters]
        if not unknown or "missing" not in str(wrong) or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            return ""
        return f", and got an unexpected keyword argument {unknown[0]!r}"

    def _unregistered(self, wrong: TypeError) -> str:
        """Name the resource that is probably meant by a missing argument of a type that JSON cannot hold."""
        named = re.search(r"missing a required argument: '(\w+)'", str(wrong))
        kind = self._hints.types.get(named[1]) if named else None
        if not isinstance(kind, type) or not isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.CustomType):
            return ""
        return f", a {kind.__name__}; if a worker should pass it, register it with @app.resource above the task"

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Encode a call as payload text, with each argument checked against its annotation."""
        bound = self.bind(args, kwargs)
        exact = self._exact
        for name, value in bound.items():
            expected = exact.get(name, object)
            if type(value) is not expected and (expected is not object or type(value) not in _UNTYPED):
                return self._encode_checked(bound)
        return codec.encode_flat(bound, what=self._payload, limit=self.limit)

    def accept(self, arguments: Mapping[str, Any] | list[Any] | tuple[Any, ...]) -> str:
        """Encode arguments that were read from JSON, by name or in order, where text may stand for a datetime."""
        bound = self.bind(arguments, {}) if isinstance(arguments, (list, tuple)) else self.bind((), arguments)
        text = codec.encode(bound, what=self._payload, limit=self.limit)
        self._require_decodable(bound, text)
        return text

    def as_hook(self, known: Sequence[str]) -> tuple[str, list[str]]:
        """Return the parameter that takes the ended job's id, and which of the `known` facts are taken by name."""
        if self._hints is UNKNOWN:
            return "job_id", list(known)
        if not self._names:
            raise ConfigError(f"task {self.name!r} cannot be a hook: its first argument must take the id of a job")
        first, *others = self._hints.parameters.parameters.values()
        if wrong := [p.name for p in others if _is_required(p) and p.name not in known]:
            raise ConfigError(
                f"task {self.name!r} cannot be a hook: besides the id of a job it may take {', '.join(known)}, "
                f"not {wrong[0]!r}; give that a default"
            )
        return first.name, [p.name for p in others if p.name in known]

    def schema(self) -> dict[str, Any]:
        """Return the arguments as JSON Schema; types that have no schema may be anything."""
        return msgspec.json.schema(self._decoder.type, schema_hook=_foreign_schema)

    def encode_with_references(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], *, from_json: bool = False
    ) -> tuple[str, list[Use]]:
        """Encode arguments that contain results not yet available, with null in their places.

        An argument that contains such a result is checked when the result is available, the others now.
        """
        bound = self.bind(args, kwargs)
        payload, uses = lift({name: codec.plain(value, what=self._payload) for name, value in bound.items()})
        later = {use.at[0] for use in uses}
        for name, value in bound.items():
            if name not in later and type(value) is not self._exact.get(name, object):
                self._check_one(name, value, from_json=from_json)
        return codec.encode(payload, what=self._payload, limit=self.limit), uses

    def decode(self, text: str | bytes, context: object = None) -> Arguments:
        """Decode a payload to (args, kwargs) for the function, with `context` in its place if it takes one."""
        try:
            found = codec.read(self._decoder, text, self._payload)
        except Undecodable as wrong:
            raise self._undecodable(wrong, text) from wrong
        if self._hints is UNKNOWN:
            return [], found
        values = msgspec.structs.astuple(found)
        if self._by_position:
            return list(values), {}
        if self._is_plain:
            arguments: Arguments = [], {n: v for n, v in zip(self._names, values, strict=True) if v is not _ABSENT}
        else:
            arguments = self._spread(values)
        return self._with_context(context, arguments)

    def encode_result(self, value: object) -> str:
        """Encode a result as text, checked against the return annotation, which readers rely on."""
        text = "null" if value is None else codec.encode(value, what=self._result, limit=self.limit, whole=False)
        if type(value) is not self._result_exact and self._result_exact is not object:
            try:
                self._result_decoder.decode(text)
            except msgspec.ValidationError as exc:
                raise InvalidArguments(f"{self._result} does not match its annotation: {codec.explain(exc)}") from exc
        return text

    def decode_result(self, text: str | bytes) -> Any:
        """Decode a stored result, typed by the return annotation."""
        return codec.read(self._result_decoder, text, self._result)

    def __str__(self) -> str:
        shown = [p.replace(annotation=p.empty) for p in self._hints.parameters.parameters.values()]
        return str(InspectSignature(shown))

    def _undecodable(self, wrong: Undecodable, text: str | bytes) -> Undecodable:
        names = _names_in(text)
        stored = "no arguments by name" if names is None else ", ".join(map(repr, names)) or "no arguments"
        error = Undecodable(f"{wrong}; it takes {self}, the stored job has {stored}")
        error.unknown = tuple(name for name in names or () if name not in self._names)
        return error

    def _bind_unknown(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if args:
            raise InvalidArguments(f"task {self.name!r} is implemented elsewhere; pass its arguments by name")
        return dict(kwargs)

    def _check_one(self, name: str, value: Any, *, from_json: bool) -> None:
        text = codec.encode(value, what=self._payload, limit=self.limit)
        if not from_json:
            self._refuse_text(name, value)
        try:
            codec.decoder(self._hints.types.get(name, Any)).decode(text)
        except msgspec.ValidationError as exc:
            raise InvalidArguments(f"task {self.name!r}: {name}: {codec.explain(exc)}; it takes {self}") from exc

    def _refuse_text(self, name: str, value: Any) -> None:
        hint = self._hints.types.get(name, Any)
        if hint is Any and self._hints is not UNKNOWN:
            self._refuse_untyped(name, value)
        elif isinstance(value, Mapping) and _has_other_keys(value) and lossy_json.takes_text_keys(hint):
            raise self._keys_become_text(name)
        if isinstance(value, str) and isinstance(hint, type) and hint in _WRITTEN_AS_TEXT:
            raise InvalidArguments(f"task {self.name!r}: {name}: expected {hint.__name__}, got str; it takes {self}")
        if (asked := lossy_json.asks_for_bytes(hint)) is not None:
            place = lossy_json.text_for_bytes(asked, codec.plain(value, what=self._payload, keep=_BYTES))
            if place is not None:
                raise InvalidArguments(f"task {self.name!r}: {name}{place}: expected bytes, got str; it takes {self}")

    def _refuse_untyped(self, name: str, value: Any) -> None:
        """Refuse values that would arrive as another type because the parameter has no annotation."""
        if isinstance(value, bytes | bytearray | memoryview):
            problem = f"bytes, which a parameter without a type would get as text; annotate it: {name}: bytes"
            raise InvalidArguments(f"task {self.name!r}: {name} is {problem}")
        if isinstance(value, Mapping) and _has_other_keys(value):
            raise self._keys_become_text(name)

    def _keys_become_text(self, name: str) -> InvalidArguments:
        problem = f"a mapping whose keys would become text; annotate it, such as {name}: dict[int, str]"
        return InvalidArguments(f"task {self.name!r}: {name} is {problem}")

    def _encode_checked(self, bound: dict[str, Any]) -> str:
        text = codec.encode(bound, what=self._payload, limit=self.limit)
        for name, value in bound.items():
            self._refuse_text(name, value)
            if codec.is_row(value):
                raise InvalidArguments(f"task {self.name!r}: {name} ({type(value).__qualname__}) is {codec.A_ROW}")
        self._require_decodable(bound, text)
        return text

    def _require_decodable(self, bound: Mapping[str, Any], text: str) -> None:
        expected = [(value, self._exact.get(name, object)) for name, value in bound.items()]
        if all(type(value) is kind or kind is object for value, kind in expected):
            return
        try:
            self._decoder.decode(text)
        except msgspec.ValidationError as exc:
            raise InvalidArguments(f"task {self.name!r}: {codec.explain(exc)}; it takes {self}") from exc

    def _spread(self, values: tuple[Any, ...]) -> Arguments:
        parameters = self._hints.parameters.parameters.values()
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        # Python accepts *args only if every named parameter before them is passed by position too.
        all_by_position = any(p.kind is p.VAR_POSITIONAL and value for p, value in zip(parameters, values, strict=True))
        for parameter, value in zip(parameters, values, strict=True):
            by_position = parameter.kind is parameter.POSITIONAL_ONLY or (
                all_by_position and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
            )
            if by_position:
                args.append(parameter.default if value is _ABSENT else value)
            elif value is _ABSENT:
                continue
            elif parameter.kind is parameter.VAR_POSITIONAL:
                args += value
            elif parameter.kind is parameter.VAR_KEYWORD:
                self._refuse_twice(kwargs, value)
                kwargs |= value
            else:
                kwargs[parameter.name] = value
        return args, kwargs

    def _with_context(self, context: object, arguments: Arguments) -> Arguments:
        (args, kwargs), parameter, at = arguments, self._hints.context, self._hints.before_context
        if parameter is None:
            return arguments
        has_all_by_position = len(args) > self._hints.positional_only and parameter.kind is not Parameter.KEYWORD_ONLY
        if has_all_by_position or parameter.kind is Parameter.POSITIONAL_ONLY:
            return [*args[:at], context, *args[at:]], kwargs
        return args, {parameter.name: context, **kwargs}

    def _refuse_twice(self, kwargs: dict[str, Any], more: dict[str, Any]) -> None:
        if twice := kwargs.keys() & more.keys():
            raise Undecodable(f"{self._payload}: {sorted(twice)} given twice; it takes {self}")


def _names_in(text: str | bytes) -> list[str] | None:
    """Return the names of a payload's arguments; None if it has none."""
    try:
        return list(msgspec.json.decode(text, type=dict[str, Any]))
    except (msgspec.MsgspecError, RecursionError):
        return None


def _has_other_keys(value: Mapping[Any, Any]) -> bool:
    for key in value:  # noqa: SIM110 - measured twice as fast as any()
        if type(key) is not str and not isinstance(key, str):
            return True
    return False


def _is_required(parameter: Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in _VARIADIC


def _exactly(hint: Any) -> Any:
    """Return the type that a value must have to need no further check; `object` for any, None for none."""
    if hint is Any or hint is object:
        return object
    return hint if isinstance(hint, type) and hint in EXACT else None


def _payload_decoder(task: str, hints: Hints) -> msgspec.json.Decoder[Any]:
    if hints is UNKNOWN:
        return codec.decoder(dict[str, Any])
    # The struct's fields have neutral names, because a parameter may be named like one of a Struct's attributes.
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for index, parameter in enumerate(hints.parameters.parameters.values()):
        hint = hints.types[parameter.name]
        _require_readable(task, parameter.name, hint)
        fields.append((f"p{index}", hint) if _is_required(parameter) else (f"p{index}", hint, _ABSENT))
    names = {f"p{index}": name for index, name in enumerate(hints.types)}
    return codec.decoder(msgspec.defstruct("Payload", fields, rename=names, kw_only=True, forbid_unknown_fields=True))


def _require_readable(task: str, name: str, hint: Any) -> None:
    try:
        codec.decoder(hint)
    except (TypeError, NameError, ValueError) as exc:
        advice = "annotate it with a type that JSON can distinguish, or with Any"
        raise ConfigError(f"task {task!r}: the annotation of {name} cannot be read from JSON: {exc}; {advice}") from exc


def _foreign_schema(type: Any) -> dict[str, Any]:
    """Return the schema of a type that msgspec does not know: pydantic models have their own."""
    described = getattr(type, "model_json_schema", None)
    return described() if described is not None else {}


def result_decoder(hint: Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder for a result of that type; a type that JSON cannot distinguish counts as Any."""
    try:
        return codec.decoder(hint)
    except (TypeError, NameError, ValueError):
        return codec.decoder(Any)
