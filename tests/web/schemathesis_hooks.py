"""What schemathesis is told beyond the document: nobody here ever ends a job, so it need not wait for one."""

from __future__ import annotations

import contextlib
from typing import Any

import schemathesis

LONGEST = 0.01


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case, kwargs: dict[str, Any]) -> None:
    """A wait that is allowed becomes a short one; one that is not is left as it is, to be refused."""
    _hurry(case.query, str | int | float)
    if case.operation.path.endswith("/jobs/run") and isinstance(case.body, dict):
        case.body.setdefault("wait", LONGEST)
    _hurry(case.body, int | float)


def _hurry(part: Any, types: Any) -> None:
    wait = part.get("wait") if isinstance(part, dict) else None
    if isinstance(wait, bool) or not isinstance(wait, types):
        return
    with contextlib.suppress(ValueError):
        if LONGEST < float(wait) <= 60:
            part["wait"] = LONGEST
