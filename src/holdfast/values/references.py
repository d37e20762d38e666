"""References to future results, as arguments of other jobs: `merge.job(a.output, b.output)`.

A payload has null in place of a reference. The path of each and the job whose result belongs there are stored beside
it, and the worker fills in the results just before the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol, TypeAlias

import msgspec

Key: TypeAlias = "str | int"
Path: TypeAlias = "tuple[Key, ...]"


class Source(Protocol):
    """The job whose result is referenced."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...


class _Missing:
    """Marks that no value was given, since None is a value."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


class Reference:
    """The result of a job that has not run. It can only be passed on, and indexed by `[key]`."""

    # Not a dataclass: msgspec would encode one by its fields.
    __slots__ = ("default", "of", "source")

    def __init__(self, source: Source, of: Path = (), default: object = MISSING) -> None:
        self.source: Final = source
        self.of: Final = of
        """Path of the part of the result."""
        self.default: Final = default
        """Value passed if the job did not succeed."""

    def __getitem__(self, key: Key) -> Reference:
        return Reference(self.source, (*self.of, key), self.default)

    def __repr__(self) -> str:
        return f"{self.source.name}.output" + "".join(f"[{key!r}]" for key in self.of)

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError(
            f"{self!r} is not there yet: it can be passed to another job of the flow, not used here; "
            "compute with it inside a task that takes it as an argument"
        )

    # Without these, text would silently contain "a.output", and a loop over it would never end.
    __str__ = __bool__ = __len__ = __iter__ = __format__ = __contains__ = _refuse
    # Without these, Python's error would only say that Reference does not support the operator.
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __int__ = __float__ = __index__ = __call__ = _refuse


@dataclass(frozen=True, slots=True)
class Use:
    """A reference, and its path in a payload."""

    at: Path
    reference: Reference


class Input(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored form of a use."""

    at: tuple[Key, ...]
    job: str
    of: tuple[Key, ...] = ()
    default: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """JSON; unset if the job must have succeeded."""


class MissingInput(Exception):
    """A result that a job needs as an argument is missing."""


def lift(plain: Any, at: Path = ()) -> tuple[Any, list[Use]]:
    """Return a plain value with None in place of its references, and the references."""
    if isinstance(plain, Reference):
        return None, [Use(at, plain)]
    items: Iterator[tuple[Any, Any]] | None = None
    if isinstance(plain, dict):
        items = iter(plain.items())
    elif isinstance(plain, (list, tuple)):
        items = enumerate(plain)
    if items is None:
        return plain, []
    uses: list[Use] = []
    lifted: list[tuple[Any, Any]] = []
    for key, item in items:
        value, more = lift(item, (*at, key))
        lifted.append((key, value))
        uses += more
    return (dict(lifted) if isinstance(plain, dict) else [value for _, value in lifted]), uses


def encode_inputs(uses: Sequence[Use], defaults: Sequence[str | None]) -> str:
    """Encode the inputs stored with a job. `defaults` are encoded already, one per use."""
    inputs = [
        Input(use.at, use.reference.source.id, use.reference.of, _raw(default))
        for use, default in zip(uses, defaults, strict=True)
    ]
    return msgspec.json.encode(inputs).decode()


def decode_inputs(text: str) -> list[Input]:
    return msgspec.json.decode(text, type=list[Input])


def fill(payload: str, inputs: Sequence[Input], results: Mapping[str, str]) -> str:
    """Return the payload with the results filled in. `results` are JSON texts of the jobs that succeeded.

    Raises MissingInput if a result without a default is missing, or has no such part.
    """
    whole = msgspec.json.decode(payload)
    for item in inputs:
        *way, last = item.at
        place = whole
        for key in way:
            place = place[key]
        place[last] = _value(item, results)
    return msgspec.json.encode(whole).decode()


def _value(item: Input, results: Mapping[str, str]) -> msgspec.Raw:
    if item.job not in results:
        if isinstance(item.default, msgspec.Raw):
            return item.default
        raise MissingInput(f"job {item.job}, whose result is an argument here, did not succeed or is gone")
    raw = msgspec.Raw(results[item.job].encode())
    return _part(item, raw) if item.of else raw


def _part(item: Input, raw: msgspec.Raw) -> msgspec.Raw:
    value = msgspec.json.decode(raw)
    for key in item.of:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError) as wrong:
            raise MissingInput(f"the result of job {item.job} has no part {list(item.of)}") from wrong
    return msgspec.Raw(msgspec.json.encode(value))


def _raw(text: str | None) -> msgspec.Raw | msgspec.UnsetType:
    return msgspec.UNSET if text is None else msgspec.Raw(text.encode())
