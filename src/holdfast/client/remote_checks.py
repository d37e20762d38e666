"""Check a remote worker's registration and requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ..clock import SECOND
from ..errors import InvalidInput
from ..ids import token
from ..model.remote import LONGEST_WAIT, MOST_CLAIMED, Caller
from ..model.workers import WorkerSpec
from ..names import check_affinity, check_capabilities, check_duration, check_limit, check_name, check_queue
from ..rules.access import check_within
from ..rules.reserved import check_open_queue, check_open_task
from ..rules.routing import RESERVED
from ..rules.versions import check_version
from ..tasks.options import Seconds

_MOST_NAMES: Final = 1_000
_MOST_SLOTS: Final = 10_000
_SHORTEST, _LONGEST = 2 * SECOND, 3600 * SECOND


def introduction(
    name: object,
    queues: object,
    tasks: object,
    *,
    capabilities: object,
    resident: object,
    concurrency: object,
    lease: Seconds,
    versions: Mapping[str, str] | None,
    host: str,
    client: str,
) -> WorkerSpec:
    """Return the worker's row, under a new identity."""
    slots, micros = check_limit("concurrency", concurrency), check_duration("lease", lease)
    if slots > _MOST_SLOTS:
        raise InvalidInput(f"concurrency is {slots:,}; use at most {_MOST_SLOTS:,}")
    if not _SHORTEST <= micros <= _LONGEST:
        raise InvalidInput(f"lease is {micros / SECOND:g} s; use 2 s to 1 h")
    return WorkerSpec(
        id=token(),
        name=check_name("the worker's name", name),
        host=check_name("the host", host) if host else "",
        # Not a process of this system: its absence must not be concluded from a pid.
        pid=0,
        process_key="",
        queues=tuple(_queue(queue) for queue in _names("queues", queues)),
        tasks=tuple(sorted(_task(task) for task in _names("tasks", tasks))),
        concurrency=slots,
        version=check_name("the client", client) if client else "",
        lease=micros,
        capabilities=_capabilities(capabilities),
        resident=tuple(dict.fromkeys(check_affinity(item) for item in _names("resident", resident, least=0))),
        versions={_task(task): check_version(version) for task, version in (versions or {}).items()},
    )


def check_confined(spec: WorkerSpec, caller: Caller) -> None:
    """Raise AccessDenied if a worker would serve more than its caller is confined to."""
    for what, named, allowed in (("queue", spec.queues, caller.queues), ("task", spec.tasks, caller.tasks)):
        for name in named:
            check_within(what, name, allowed)


def beat_every(lease: int) -> float:
    """Return the seconds between two beats: two in a row may be lost."""
    return lease / SECOND / 3


def check_claim(limit: object, wait: Seconds) -> tuple[int, float]:
    most, patience = check_limit("limit", limit), check_duration("wait", wait) / SECOND
    if most > MOST_CLAIMED:
        raise InvalidInput(f"limit is {most:,}; claim at most {MOST_CLAIMED:,} jobs at once")
    if patience > LONGEST_WAIT:
        raise InvalidInput(f"wait is {patience:g} s; wait at most {LONGEST_WAIT:g} s, and ask again")
    return most, patience


def check_handles(handles: object) -> Sequence[str]:
    if isinstance(handles, str) or not isinstance(handles, (list, tuple)):
        raise InvalidInput("handles must be a list of handles")
    if len(handles) > _MOST_SLOTS:
        raise InvalidInput(f"{len(handles):,} handles are too many; name at most {_MOST_SLOTS:,}")
    return handles


def _queue(value: object) -> str:
    return check_open_queue(check_queue(value))


def _task(value: object) -> str:
    return check_open_task(check_name("a task", value))


def _capabilities(values: object) -> tuple[str, ...]:
    found = sorted(check_capabilities("capabilities", values))
    for name in found:
        if name.startswith(RESERVED):
            raise InvalidInput(f"capabilities has {name!r}; what starts with task: or worker: it has anyway")
    return tuple(found)


def _names(what: str, values: object, *, least: int = 1) -> Iterable[object]:
    if isinstance(values, str) or not isinstance(values, (list, tuple)):
        raise InvalidInput(f"{what} must be a list of names; write {what}=[…]")
    found = dict.fromkeys(values)
    if not least <= len(found) <= _MOST_NAMES:
        raise InvalidInput(f"{what} has {len(found):,} names; give {least} to {_MOST_NAMES:,}")
    return found
