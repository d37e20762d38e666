"""Batches: a handler that takes many jobs of its task in one call, and answers for each."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar

from ..errors import ConfigError, InvalidArguments, InvalidInput, NoCurrentJob
from .annotations import Find, Hints, read_hints
from .context import Context, JobInfo, RunFacts, Stop, SyncContext

T = TypeVar("T")

ITEM: Final = "item"
"""The one argument of a job of such a task."""
_HOW: Final = "write: def {name}(items: list[holdfast.Item[…]]) -> list[…]"


class Item(RunFacts, Generic[T]):
    """One job of a batch: the `value` it was enqueued with, and the facts of its run."""

    def __init__(self, value: T, info: JobInfo, stop: Stop) -> None:
        super().__init__(info, stop)
        self.value: Final = value

    def __repr__(self) -> str:
        return f"<Item {self.value!r} of job {self.id}>"


def batch_hints(fn: Callable[..., Any], name: str, find: Find | None) -> Hints:
    """Return the hints of one job of a handler that takes batches: the item's type, and the type of its answer."""
    hints = read_hints(fn, (Context, SyncContext), find=find)
    how = _HOW.format(name=getattr(fn, "__name__", name))
    if hints.context is not None:
        raise ConfigError(f"task {name!r} takes batches and has no context; each item has its own: item.id; {how}")
    parameters = list(hints.parameters.parameters.values())
    if len(parameters) != 1 or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise ConfigError(f"task {name!r} takes batches: its arguments are one list of items, and resources; {how}")
    item = inspect.Parameter(ITEM, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return replace(
        hints,
        parameters=hints.parameters.replace(parameters=[item]),
        types={ITEM: _item_type(name, hints.types[parameters[0].name], how)},
        result=_answer_type(name, hints.result, how),
        positional_only=0,
    )


def _item_type(name: str, hint: Any, how: str) -> Any:
    of = typing.get_args(hint)
    if typing.get_origin(hint) is not list or len(of) != 1:
        raise ConfigError(f"task {name!r} takes batches, but its parameter is not a list of items; {how}")
    if of[0] is Item:
        return Any
    if typing.get_origin(of[0]) is not Item:
        raise ConfigError(
            f"task {name!r} takes batches: its list is of holdfast.Item, whose value is the argument; {how}"
        )
    return typing.get_args(of[0])[0]


def _answer_type(name: str, hint: Any, how: str) -> Any:
    """Return the type of one answer, without the exceptions that stand for failures."""
    if hint is Any or hint is type(None) or hint is None:
        return hint
    if isinstance(hint, types.UnionType) and type(None) in typing.get_args(hint):
        rest = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return _answer_type(name, rest[0], how) if len(rest) == 1 else Any
    if typing.get_origin(hint) not in (list, tuple, Sequence, typing.get_origin(Sequence[int])):
        raise ConfigError(
            f"task {name!r} takes batches and returns a list with an answer for each item, or None; {how}"
        )
    answer = typing.get_args(hint)[0]
    if typing.get_origin(answer) not in (typing.Union, types.UnionType):
        return None if _is_error(answer) else answer
    kinds = [kind for kind in typing.get_args(answer) if not _is_error(kind)]
    return typing.Union[tuple(kinds)] if kinds else None  # noqa: UP007 - from a tuple


def _is_error(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


def answers_of(task: str, value: Any, items: int) -> list[Any]:
    """Return the answer for each item; InvalidArguments if the handler's result is not one for each."""
    if value is None:
        return [None] * items
    if not isinstance(value, (list, tuple)):
        raise InvalidArguments(
            f"task {task!r} got a batch and returned {type(value).__name__}; return a list with an answer for each "
            "item, or None"
        )
    if len(value) != items:
        raise InvalidArguments(
            f"task {task!r} got {items} items and returned {len(value)} answers; return one for each, in their order"
        )
    return list(value)


class BatchContext(Context):
    """The context of async middleware around a batch: that of its first job, without durable calls and streams."""

    def _calls(self) -> Any:
        raise _refusal(self.job.task)

    def _check(self) -> None:
        raise _refusal(self.job.task)


class SyncBatchContext(SyncContext):
    """The context of `def` middleware around a batch; see `BatchContext`."""

    def _calls(self) -> Any:
        raise _refusal(self.job.task)

    def _check(self) -> None:
        raise _refusal(self.job.task)


def _refusal(task: str) -> InvalidInput:
    return InvalidInput(f"task {task!r} takes batches, which have no steps, waits, streams or flows; use another task")


def batch_context_of(info: JobInfo, app: Any, stop: Stop) -> Callable[[type[Any]], Any]:
    return lambda kind: (BatchContext if kind is Context else SyncBatchContext)(info, app, stop)


def no_current_job(task: str) -> Any:
    """Refuse `holdfast.current()` in the handler of a batch."""
    raise NoCurrentJob(batch=task)
