"""The methods of an app's clients have their own parameters and results, blocking and awaiting."""

from collections.abc import Callable, Coroutine
from typing import Any, assert_type

import holdfast
from holdfast.model.jobs import JobRecord
from holdfast.model.queues import QueueSettings
from holdfast.model.schedules import Schedule

app = holdfast.App(":memory:")

assert_type(app.queues.pause("mail", actor="ann"), QueueSettings)
assert_type(app.jobs.get("x"), JobRecord)
assert_type(app.jobs.hold("x", reason="later"), bool)
assert_type(app.flows.retry("f"), list[str])
assert_type(app.schedules.edit("nightly", cron="0 4 * * *"), Schedule)

app.queues.pause()  # error: call-arg / reportCallIssue
app.queues.pause(1)  # error: arg-type / reportArgumentType
app.queues.pause("mail", by="ann")  # error: call-arg / reportCallIssue
app.jobs.hold("x", "later")  # error: call-arg / reportCallIssue
app.jobs.set_priority("x", "high")  # error: arg-type / reportArgumentType
app.schedules.edit("nightly", every="often")  # error: arg-type / reportArgumentType


async def awaiting() -> None:
    assert_type(await app.queues.apause("mail", actor="ann"), QueueSettings)
    assert_type(await app.jobs.aget("x"), JobRecord)
    assert_type(await app.schedules.aedit("nightly", cron="0 4 * * *"), Schedule)
    assert_type(await app.workers.arescue("w"), int)
    await app.queues.apause(1)  # error: arg-type / reportArgumentType
    await app.queues.apause("mail", by="ann")  # error: call-arg / reportCallIssue
    await app.schedules.aedit("nightly", every="often")  # error: arg-type / reportArgumentType
    await app.schedules.aedit("nightly", crom="0 4 * * *")  # error: call-arg / reportCallIssue


cancel: Callable[[str], Any] = app.jobs.cancel
acancel: Callable[[str], Coroutine[Any, Any, Any]] = app.jobs.acancel
