"""Every public call of an app with something in it that it did not expect, found by looking at what it takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import holdfast

PARTS = (
    "jobs", "queues", "workers", "remote", "audit", "tokens", "artifacts", "limits", "breakers", "budgets", "quotas",
    "signals",
    "keys", "streams", "stats", "errors", "events", "webhooks", "flows", "schedules",
)  # fmt: skip
LEFT_OUT = {
    "wait", "await_", "follow", "renew",  # they take as long as somebody else does
    "cron", "every", "declared", "declarations",  # they decorate
    "add", "begin", "handle", "seed",  # they take more than texts and numbers
    "create", "decode_result", "unrunnable", "claim",
}  # fmt: skip
TEXTS = (
    "\x00",
    "a\x00b",
    "\ud800",
    "x\udcffy",
    "",
    " ",
    "\u202e",
    "é" * 10_000,
    "%",
    "'",
    "\U0001f600",
    "\U0010ffff",
    "a,b",
)
WHOLE = (2**70, -(2**70), 2**63, -(2**63), -1, 0, 10**400)
FRACTIONS = (float("nan"), float("inf"), -float("inf"), 1e303, -1e303, -1.0, 1e15, 10**400)
USUAL: dict[str, Any] = {
    "action": "cancel",
    "actor": "me",
    "reason": "why",
    "limit": 5,
    "count": 2,
    "queue": "q",
    "name": "x",
}

Call = Callable[[holdfast.App, str], Any]


def calls(app: holdfast.App) -> Iterator[tuple[str, Call]]:
    """Each call with each strange value in each of its places; the second argument is the id of some job."""
    for part in PARTS:
        kind = type(getattr(app, part))
        for name in dir(kind):
            method = getattr(kind, name)
            if name.startswith("_") or name in LEFT_OUT or not inspect.isfunction(method) or _is_twin(kind, name):
                continue
            for place, value in _places(method):
                yield f"app.{part}.{name}({place}={_shown(value)})", _call(part, name, method, place, value)


def _is_twin(kind: type, name: str) -> bool:
    """The awaiting one of two."""
    method = getattr(kind, name)
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method) or hasattr(kind, name[1:])


def _places(method: Any) -> Iterator[tuple[str, Any]]:
    for parameter in _parameters(method):
        takes = str(parameter.annotation)
        values: tuple[Any, ...] = TEXTS if "str" in takes else WHOLE if "int" in takes else ()
        if any(word in takes for word in ("float", "Seconds", "timedelta")):
            values = (*values, *FRACTIONS)
        yield from ((parameter.name, value) for value in values)


def _call(part: str, name: str, method: Any, place: str, value: Any) -> Call:
    parameters = _parameters(method)

    def call(app: holdfast.App, job: str) -> Any:
        given = {p.name: _usual(p.name, job) for p in parameters if p.default is p.empty and "VAR" not in p.kind.name}
        given[place] = value
        by_place = [given.pop(p.name) for p in parameters if p.kind is p.POSITIONAL_ONLY and p.name in given]
        return getattr(getattr(app, part), name)(*by_place, **given)

    return call


def _parameters(method: Any) -> list[inspect.Parameter]:
    found = list(inspect.signature(method).parameters.values())[1:]
    return [p for p in found if p.kind is not p.VAR_KEYWORD and p.kind is not p.VAR_POSITIONAL]


def _usual(name: str, job: str) -> Any:
    return job if name in ("job_id", "job", "id") else USUAL.get(name, "x")


def _shown(value: Any) -> str:
    return ascii(value)[:40]
