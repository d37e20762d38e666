"""The columns of a job, from which inserts, claims and reads are made for both databases.

The types of `model.jobs` are the table: `JobRecord` has every column that is read, `Claimed` those that a claim
returns, and a field that `JobSpec` and `JobRecord` share is stored as it is given. A new field is said there and in a
migration, and nowhere else in storage. In a statement, `@job` stands for the columns of a record, `@claimed(live)`
for those of a claim, `@taken(live)` for the same from the rows before it, `@given` for those that `holdfast_job`
stores as given, and `@copied` for those that `holdfast_live` does: alone for their names, `(bound)` for their
parameters, `(cast)` for the same with types, `(kept)` for what a fork keeps. `@given(typed)` is all of them with
their types. `@ended` stands for the columns of `holdfast_ended`, `@success(live, result)` for their values at a
success, and `@key(job)` for the text under which a key is held.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, Final

from ..model.jobs import Claimed, JobRecord, JobSpec

RECORD: Final = tuple(field.name for field in fields(JobRecord))
"""The order in which a job's row is read."""

# Both are stored in another form: the number of the route, the instant of the deadline.
_COMPUTED: Final = frozenset({"route", "deadline"})
_CLAIMED_AS: Final = {"attempt": "attempts", "time_left": "deadline - :now"}
_NOT_KEPT: Final = frozenset({"id", "created_by"})

CLAIMED: Final = tuple(_CLAIMED_AS.get(name, name) for name in Claimed.__struct_fields__)
"""The order in which a claimed job is read."""
GIVEN: Final = tuple(name for name in JobSpec.__struct_fields__ if name in RECORD and name not in _COMPUTED)
"""The fields of a new job that are stored as they are given."""


def reader(names: Iterable[str]) -> Callable[[JobSpec], tuple[Any, ...]]:
    """Return what reads these attributes of a new job: 80 ns, where `attrgetter` takes 200."""
    read: Callable[[JobSpec], tuple[Any, ...]] = eval(f"lambda spec: ({', '.join(f'spec.{name}' for name in names)},)")  # noqa: S307 - names of our own types
    return read


def expand(text: str) -> str:
    """Return the text of a statement with its column lists in full."""
    return _LIST.sub(lambda m: ", ".join(_LISTS[m[1]](m[2] or "")), text)


def _record(alias: str) -> list[str]:
    return [f"{alias}.{name}" if alias else name for name in RECORD]


def _claimed(alias: str) -> list[str]:
    """Return the columns of a claim: those that transitions change from the place, the others from the job."""
    replaced = {"payload": f"coalesce({alias}.payload, job.payload)"}
    return [replaced.get(name, f"{'job' if name in _OF_THE_JOB else alias}.{name}") for name in CLAIMED]


def _taken(alias: str) -> list[str]:
    """Return the columns of a claim from the rows before it."""
    grown = {f"{alias}.{name}" for name in ("attempts", "epoch")}
    return [f"{column} + 1" if column in grown else column for column in _claimed(alias)]


def _columns(names: tuple[str, ...]) -> Callable[[str], list[str]]:
    forms: dict[str, Callable[[str], str]] = {
        "": lambda name: name,
        "kept": lambda name: name,
        "bound": lambda name: f":{name}",
        "cast": lambda name: f":{name}::{_TYPES[name]}",
        "typed": lambda name: f"{name} {_TYPES[name]}",
    }

    def listed(form: str) -> list[str]:
        chosen = GIVEN if form == "typed" else names
        return [forms[form](name) for name in chosen if form != "kept" or name not in _NOT_KEPT]

    return listed


# What only a place has, and what only the job has.
_OF_THE_PLACE: Final = frozenset({"priority"})
_OF_THE_JOB: Final = frozenset(GIVEN) - {"id", "task", "tenant", "priority", "limits", "tags"} | {
    "created_at",
    "inputs",
}
COPIED: Final = tuple(name for name in GIVEN if name not in _OF_THE_JOB)
"""The fields of a new job that are stored in its place."""
STORED: Final = tuple(name for name in GIVEN if name not in _OF_THE_PLACE)
"""The fields of a new job that are stored in `holdfast_job`."""

ENDED: Final = (
    "id", "task", "queue", "tenant", "route", "state", "priority", "rank", "not_before", "reason", "tags", "flow",
    "attempts", "past_attempts", "generation", "epoch", "claimed_at", "started_at", "suspect", "crashes", "losses",
    "cancel_at", "cancel_reason", "deadline", "finished_at", "finished_epoch", "error", "result", "holds", "linked",
)  # fmt: skip
"""The columns of a job that has ended."""


def _ended(alias: str) -> list[str]:
    return [f"{alias}.{name}" if alias else name for name in ENDED]


def _success(given: str) -> list[str]:
    alias, result = given.split(", ", 1)
    changed = {
        "state": "'succeeded'", "reason": "null", "epoch": f"{alias}.epoch + 1", "finished_at": ":now",
        "finished_epoch": f"{alias}.epoch", "result": result,
    }  # fmt: skip
    return [changed.get(name, f"{alias}.{name}") for name in ENDED]


def _key(alias: str) -> list[str]:
    # The separator in a form that both databases know.
    return [f"{alias}.tenant || '\x1f' || {alias}.dedupe_scope || '\x1f' || {alias}.dedupe_key"]


_LIST: Final = re.compile(r"@(job|claimed|taken|given|copied|ended|success|key)\b(?:\(((?:[^()]|\([^()]*\))*)\))?")
_LISTS: Final[dict[str, Callable[[str], list[str]]]] = {
    "job": _record, "claimed": _claimed, "taken": _taken, "given": _columns(STORED), "copied": _columns(COPIED),
    "ended": _ended, "success": _success, "key": _key,
}  # fmt: skip
# Annotations are texts, by `from __future__ import annotations`.
_TYPES: Final = {name: "bigint" if JobSpec.__annotations__[name].startswith("int") else "text" for name in GIVEN}
