"""Versions of tasks, and ranges of them that a job may ask for: ">=2,<3", "2.1", "!=2.0.3", "2.*"."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne
from typing import Final, TypeAlias

from ..errors import InvalidVersion

Release: TypeAlias = "tuple[int, ...]"

LONGEST: Final = 64
_RELEASE = re.compile(r"\d{1,9}(\.\d{1,9}){0,7}", re.ASCII)
_CLAUSE = re.compile(r"(>=|<=|==|!=|>|<|)\s*(\d[\d.]*?)(\.\*)?", re.ASCII)
_TESTS: Final[Mapping[str, Callable[[Release, Release], bool]]] = {
    ">=": ge, "<=": le, "==": eq, "!=": ne, ">": gt, "<": lt,
}  # fmt: skip
_EXAMPLES: Final = 'write it like ">=2,<3", "2.1" or "2.*"'


@dataclass(frozen=True, slots=True)
class Clause:
    """One comparison."""

    sign: str
    release: Release

    def __str__(self) -> str:
        return self.sign + ".".join(map(str, self.release or (0,)))


def check_version(value: object) -> str:
    """Check a task's own version: whole numbers with dots between them."""
    if not isinstance(value, str) or not _RELEASE.fullmatch(value):
        raise InvalidVersion(f"version is {value!r}; use whole numbers with dots between them, such as '2.1'")
    return value


def check_range(value: object) -> str:
    """Check a range and return its normal form, so that equal ranges share a route."""
    if not isinstance(value, str):
        raise InvalidVersion(f"version must be text, not {type(value).__qualname__}; {_EXAMPLES}")
    if len(value) > LONGEST:
        raise InvalidVersion(f"version takes {len(value)} characters, the limit is {LONGEST}; {_EXAMPLES}")
    clauses = [clause for part in value.split(",") for clause in _clauses(part.strip(), value)]
    _require_possible(clauses, value)
    return ",".join(sorted({str(clause) for clause in clauses}))


def pin(task: str, wanted: str) -> str:
    """Return the text for a task and a range in a route. A range has no space; a task's name may have some."""
    return f"{task} {wanted}"


def read_pin(text: str) -> tuple[str, str]:
    """Return the task and the range of a pin."""
    task, _, wanted = text.rpartition(" ")
    return task, wanted


def fits(text: str, versions: Mapping[str, str]) -> bool:
    """Return whether a worker with these versions of its tasks may run a job with that pin; any may without one."""
    if not text:
        return True
    task, wanted = read_pin(text)
    try:
        return task in versions and is_within(versions[task], wanted)
    except InvalidVersion:
        return False  # written by a later version of Holdfast, which has more operators


def is_within(version: str, wanted: str) -> bool:
    release = _release(version)
    return all(_TESTS[clause.sign](release, clause.release) for clause in _parsed(wanted))


@lru_cache(maxsize=1024)
def _parsed(wanted: str) -> tuple[Clause, ...]:
    return tuple(clause for part in wanted.split(",") for clause in _clauses(part, wanted))


def _clauses(part: str, whole: str) -> list[Clause]:
    match = _CLAUSE.fullmatch(part)
    if match is None or not _RELEASE.fullmatch(match[2]):
        raise InvalidVersion(f"version {whole!r} is not a range: {part!r} cannot be read; {_EXAMPLES}")
    sign, text, star = match[1], match[2], match[3]
    if not star:
        return [Clause(sign or "==", _release(text))]
    if sign not in ("", "=="):
        raise InvalidVersion(f"version {whole!r} is not a range: .* is only allowed with ==; {_EXAMPLES}")
    numbers = [int(number) for number in text.split(".")]
    return [Clause(">=", _trimmed(numbers)), Clause("<", _trimmed([*numbers[:-1], numbers[-1] + 1]))]


def _require_possible(clauses: list[Clause], whole: str) -> None:
    """Refuse a range that no version can match: a job that needs it would wait forever."""
    exact = {clause.release for clause in clauses if clause.sign == "=="}
    tests = [(_TESTS[clause.sign], clause.release) for clause in clauses]
    if exact:
        possible = any(all(test(one, release) for test, release in tests) for one in exact)
    else:
        lowest = max((_bound(clause) for clause in clauses if clause.sign in (">", ">=")), default=((), 0))
        highest = min((_bound(clause) for clause in clauses if clause.sign in ("<", "<=")), default=None)
        possible = highest is None or lowest < highest
    if not possible:
        raise InvalidVersion(f"version {whole!r} has nothing in it; {_EXAMPLES}")


def _bound(clause: Clause) -> tuple[Release, int]:
    """Return a key that sorts by the point where the range begins or ends: before a release, or after it."""
    return clause.release, int(clause.sign in (">", "<="))


def _release(text: str) -> Release:
    return _trimmed([int(number) for number in text.split(".")])


def _trimmed(numbers: list[int]) -> Release:
    """Remove trailing zeros: 2.0 is 2."""
    while numbers and numbers[-1] == 0:
        numbers = numbers[:-1]
    return tuple(numbers)
