"""Act on many jobs: they are chosen once, then changed in batches of 500, each a transaction with an audit record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, Final

from ..errors import InvalidInput
from ..model.actions import ActionResult, BulkReport, JobResult, Order
from ..model.answers import LATER, JobFilter
from ..model.jobs import JobState
from ..names import (
    CREATOR_BYTES,
    NAME_BYTES,
    check_duration,
    check_instant,
    check_name,
)
from ..storage.ops.jobs import actions as ops
from ..storage.ops.jobs.finding import find_ids
from ..storage.port import Op
from .lines import Line

_PAGE: Final = 5_000
_INSTANTS: Final = ("created_after", "created_before", "finished_after", "finished_before")
FIELDS: Final = tuple(f.name for f in fields(JobFilter) if f.name not in ("order", "before", "limit"))
_NUMBERS: Final = (*_INSTANTS, "older_than", "priority", "min_attempts", "limit")
_TEXTS: Final = (
    "queue", "task", "tenant", "reason", "id", "flow", "worker", "affinity", "tag", "text", "created_by",
    "before",
)  # fmt: skip


async def run(
    line: Line,
    order: Order,
    wanted: JobFilter | None,
    ids: Sequence[str] | None,
    *,
    dry_run: bool,
    actor: str,
    reason: str,
) -> BulkReport:
    """Choose the jobs, then act in batches. The event loop is free between two batches."""
    if ids is None:
        assert wanted is not None
        only_states = _states_of(wanted)
        order = replace(order, only_states=only_states, only_queue=wanted.queue)
        chosen = await _choose(line, wanted)
    else:
        chosen = list(dict.fromkeys(ids))
    await line.read(Op(lambda tx: ops.check_target(tx, order)))
    results: dict[str, ActionResult] = {}
    for batch in (chosen[start : start + ops.BATCH] for start in range(0, len(chosen), ops.BATCH)):
        target = batch[0] if len(chosen) == 1 else _describe(wanted, len(chosen))
        results |= await _batch(line, batch, order, target, dry_run=dry_run, actor=actor, reason=reason)
    counts = Counter(results.values())
    return BulkReport(
        action=order.action,
        dry_run=dry_run,
        chosen=len(chosen),
        changed=sum(n for result, n in counts.items() if result.changes),
        counts=dict(counts),
        results=()
        if ids is None
        else tuple(JobResult(id=job_id, outcome=result) for job_id, result in results.items()),
    )


def check_meant(given: object, ids: Sequence[str] | None, *, all: bool) -> None:
    """Refuse a filter together with ids."""
    if ids is not None and (given is not None or all):
        raise InvalidInput("ids name the jobs already; leave the filter out")
    if isinstance(ids, str):
        raise InvalidInput("ids must be a list of ids; write ids=[…]")
    for id in ids or ():
        check_name("the id", id)


def filter_of(given: Mapping[str, object] | JobFilter | None, *, all: bool) -> JobFilter:
    """Return the filter of the jobs. No filter means every job only with `all`."""
    wanted = given if isinstance(given, JobFilter) else JobFilter(**_checked(given or {}))
    check_filter(wanted)
    is_empty = all_of(wanted)
    if is_empty and not all:
        raise InvalidInput("no filter is given, which would mean every job; say so by all=True, or give a filter")
    if all and not is_empty:
        raise InvalidInput("all=True means every job, but a filter is given; leave one of them out")
    return replace(wanted, order="created", before=None)


def all_of(wanted: JobFilter) -> bool:
    """Return True if nothing narrows the filter."""
    return all(getattr(wanted, name) is None for name in FIELDS)


def check_filter(wanted: JobFilter) -> None:
    """Refuse an invalid filter."""
    for name in _TEXTS:
        _check_text(name, getattr(wanted, name))
    for name in _NUMBERS:
        _check_number(name, getattr(wanted, name))
    if wanted.order not in ("created", "ended"):
        raise InvalidInput(f"order is {wanted.order!r}; use 'created' or 'ended'")
    if wanted.state is not None and wanted.states is not None:
        raise InvalidInput("give either state or states, not both")
    if isinstance(wanted.states, str):
        raise InvalidInput(f"states is the text {str(wanted.states)!r}; give several, or one as state=")
    if wanted.states is not None and not wanted.states:
        raise InvalidInput("states is empty; name some, or leave it out")
    if wanted.label is not None and wanted.label not in LATER:
        raise InvalidInput(f"there is no label {wanted.label!r} here; use one of {', '.join(LATER)}, or a state")
    for state in wanted.states or (wanted.state,):
        if state is not None and state not in list(JobState):
            raise InvalidInput(f"there is no state {state!r}; use one of {', '.join(JobState)}")


def _states_of(wanted: JobFilter) -> tuple[str, ...] | None:
    """Return the states in which a chosen job is still affected."""
    if wanted.state is not None:
        return (wanted.state,)
    return (str(JobState.READY),) if wanted.label is not None and wanted.states is None else wanted.states


def _check_text(name: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise InvalidInput(f"the filter {name} must be text, not {type(value).__qualname__}")
    if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidInput(f"the filter {name} is {value[:64]!a}, with characters that no job can have; remove them")


def _check_number(name: str, value: object) -> None:
    if value is None:
        return
    # An instant and a duration are added up, and the sum must still fit into 64 bits.
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 2**62:
        raise InvalidInput(f"the filter {name} must be a whole number of at most 62 bits")


async def _choose(line: Line, wanted: JobFilter) -> list[str]:
    """Return every job that matches now, oldest first; later ones are not affected."""
    found: list[str] = []
    page: list[str] | None = None
    while page is None or len(page) == _PAGE:
        before = page[-1] if page else None
        page = await line.read(_page(wanted, before))
        found += page
    return found[::-1]


def _page(wanted: JobFilter, before: str | None) -> Op[list[str]]:
    return Op(lambda tx: find_ids(tx, wanted, before=before, n=_PAGE), slow=True)


async def _batch(
    line: Line, batch: Sequence[str], order: Order, target: str, *, dry_run: bool, actor: str, reason: str
) -> dict[str, ActionResult]:
    if dry_run:
        return await line.read(Op(lambda tx: ops.expect(tx, batch, order), slow=True))
    op = Op(lambda tx: ops.apply(tx, batch, order, actor=actor, reason=reason, target=target), slow=True)
    return await line.write(op)


def _describe(wanted: JobFilter | None, n: int) -> str:
    if wanted is None:
        return f"{n} jobs"
    return " ".join(f"{f}={value}" for f in FIELDS if (value := getattr(wanted, f)) is not None) or "all"


def _checked(given: Mapping[str, object]) -> dict[str, Any]:
    if unknown := sorted(set(given) - set(FIELDS)):
        raise InvalidInput(f"there is no filter {', '.join(map(str, unknown))}; use {', '.join(FIELDS)}")
    return {name: _value(name, value) for name, value in given.items() if value is not None}


def _value(name: str, value: object) -> str | int | tuple[str, ...]:
    if name in _INSTANTS:
        return check_instant(name, _instant(name, value))
    if name == "older_than":
        return check_duration(name, value)
    if name in ("priority", "min_attempts"):
        return _whole(name, value)
    if name == "states":
        return _states(value)
    limit = CREATOR_BYTES if name == "created_by" else NAME_BYTES
    return check_name(f"the filter {name}", value, limit=limit) if value != "" else ""


def _whole(name: str, value: object) -> int:
    """Return a whole number, which on the command line is text."""
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if not isinstance(number, int) or isinstance(number, bool) or abs(number) >= 2**31:
        raise InvalidInput(f"{name} is {value!r}; give a whole number")
    return number


def _states(value: object) -> tuple[str, ...]:
    """Return several states, which on the command line are separated by commas."""
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, (list, tuple)):
        raise InvalidInput(f"states is {value!r}; give a list of states")
    return tuple(str(state) for state in given)


def _instant(name: str, value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise InvalidInput(f"{name} is {value!r}; write it such as 2026-11-15T09:00:00+00:00") from None
