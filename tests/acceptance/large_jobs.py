"""Tasks with large values everywhere; their store is the one that HOLDFAST_STORE names."""

from __future__ import annotations

import holdfast
from holdfast.rules.retry import RetryPolicy
from tests.acceptance.jobs import note

app = holdfast.App("unused.db")
STEP = 20_000_000
RESULT = 1_000_000


def makes(ctx: holdfast.SyncContext, name: str, letter: str, size: int) -> str:
    note(name, ctx)
    return letter * size


@app.task(queue="large", max_attempts=None, retry=RetryPolicy(kind="none"))
def lifts(ctx: holdfast.SyncContext, given: str) -> str:
    first = ctx.step("first", makes, "first", given[0], STEP)
    second = ctx.step("second", makes, "second", first[0], RESULT)
    third = ctx.step("third", makes, "third", second[0], 10)
    assert len(first) == STEP
    return third[0] * RESULT
