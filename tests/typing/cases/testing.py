"""The tools for tests keep the types too."""

from typing import assert_type

import holdfast
from holdfast.testing import adrain, assert_enqueued, drain, inline, isolated

app = holdfast.App(":memory:")


@app.task
async def welcome(user_id: int) -> str:
    return f"welcome {user_id}"


with isolated(app, clock=holdfast.clock.ManualClock()) as same:
    assert_type(same, holdfast.App)
    assert_type(drain(app, queues=["mail"]).succeeded, int)
    assert_type(assert_enqueued(app, welcome, count=1), list[holdfast.model.JobRecord])
    assert_enqueued(app, welcome.job(1))
    assert_enqueued(app, welcome.job("1"))  # error: arg-type / reportArgumentType
    assert_enqueued(app, "welcome")  # error: arg-type / reportArgumentType

with inline(app):
    welcome.enqueue(1)


async def main() -> None:
    assert_type((await adrain(app)).runs, int)
