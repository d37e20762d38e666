"""The columns of a job, from which inserts, claims and reads are made for both databases.

The types of `model.jobs` are the table: `JobRecord` has every column that is read, `Claimed` those that a claim
returns, and a field that `JobSpec` and `JobRecord` share is stored as it is given. A new field is said there and in a
migration, and nowhere else in storage. In a statement, `@job` stands for the columns of a record, `@claimed` for those
of a claim, and `@given` for those stored as given: alone for their names, `@given(bound)` for their parameters,
`@given(cast)` for the same with types, `@given(typed)` for names with types, `@given(kept)` for what a fork keeps.
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


given: Final = reader(GIVEN)
"""Return the values of GIVEN."""


def expand(text: str) -> str:
    """Return the text of a statement with its column lists in full."""
    return _LIST.sub(lambda m: ", ".join(_LISTS[m[1]](m[2] or "")), text)


def _listed(names: tuple[str, ...]) -> Callable[[str], list[str]]:
    return lambda alias: [f"{alias}.{name}" if alias else name for name in names]


def _given(form: str) -> list[str]:
    forms: dict[str, Callable[[str], str]] = {
        "": lambda name: name,
        "kept": lambda name: name,
        "bound": lambda name: f":{name}",
        "cast": lambda name: f":{name}::{_TYPES[name]}",
        "typed": lambda name: f"{name} {_TYPES[name]}",
    }
    return [forms[form](name) for name in GIVEN if form != "kept" or name not in _NOT_KEPT]


_LIST: Final = re.compile(r"@(job|claimed|given)(?:\((\w+)\))?")
_LISTS: Final = {"job": _listed(RECORD), "claimed": _listed(CLAIMED), "given": _given}
# Annotations are texts, by `from __future__ import annotations`.
_TYPES: Final = {name: "bigint" if JobSpec.__annotations__[name].startswith("int") else "text" for name in GIVEN}
