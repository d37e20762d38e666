"""What happens more seldom still: schedules that break or wait, replays that find old waitpoints, full histories."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import patch

from holdfast.clock import SECOND
from holdfast.model.outcomes import Done, Finish, Retry, Suspended
from holdfast.model.schedules import ScheduleKey
from holdfast.model.signals import Condition, Wait
from holdfast.storage.ops import remote  # fmt: skip
from holdfast.storage.ops.flows import dependency_resolution, edges, flow_control  # fmt: skip
from holdfast.storage.ops.jobs import actions, counting, finishing  # fmt: skip
from holdfast.storage.ops.routing import grants  # fmt: skip
from holdfast.storage.ops.schedules import firing, schedules  # fmt: skip
from holdfast.storage.ops.signals import keys, suspension, waitpoints, waking  # fmt: skip
from holdfast.storage.ops.webhooks import endpoints  # fmt: skip
from tests.conformance.world import ERROR

from .operations import Call
from .stage import Stage

DAY = 86_400
_HOUR = 3_600 * SECOND


def _break_schedule(s: Stage) -> None:
    """It was stored by a version that took it."""
    s.world.sql("update holdfast_schedule set expression = '0 0 31 2 *', next_tick = :now where name = 'nightly'")
    s.run(firing.fire, ScheduleKey("", "nightly"))


def _defer(s: Stage) -> None:
    s.app.schedules.resume("paused")
    s.wait_until(3 * 3_600)
    s.run(firing.fire, ScheduleKey("", "paused"), launched_at=s.clock.now())


def _meet_a_twin(s: Stage) -> None:
    twin = s.app.tasks["work"].options(dedupe_key="key").job("tick")
    s.app.schedules.create("twin", twin, every=60)
    s.wait_until(120)
    s.run(firing.fire, ScheduleKey("", "twin"))


def _prune_ticks(s: Stage) -> None:
    for day in (1, 2, 3):
        s.wait_until(day * DAY)
        s.run(firing.fire, ScheduleKey("", "nightly"))
    s.wait_until(90 * DAY)
    s.run(schedules.prune_ticks, SECOND)


def _cancel_in_pages(s: Stage) -> None:
    """As if the flow had more members than are cancelled at once."""
    with patch.object(flow_control, "PAGE", 1):
        s.app.flows.cancel(s.things["pair"])
        while s.run(flow_control.cancel_page, s.things["pair"]):
            pass


def _resolve_in_pages(s: Stage) -> None:
    """As if more waited for a job than are told at once."""
    s.run(edges.await_jobs, s.jobs["ready"], [s.jobs["delayed"]])
    with patch.object(dependency_resolution, "EDGES", 1):
        s.app.jobs.cancel(s.jobs["delayed"])
        s.run(dependency_resolution.resolve_page)


def _use_a_key_again(s: Stage) -> None:
    """While the window of a job is open that somebody has deleted."""
    s.app.jobs.delete(s.jobs["windowed"])
    s.app.enqueue(s.app.tasks["work"].options(dedupe_key="window", dedupe_until=timedelta(hours=1)).job("again"))


def _reopen_waitpoint(s: Stage) -> None:
    job_id = s.jobs["mine"]
    what = ("waitpoint:a#1", "a", _HOUR)
    s.run(waitpoints.open_waitpoint, "mine", job_id, s.things["run"].epoch, *what)
    s.run(finishing.finish, "mine", [Finish(job_id, s.things["run"].epoch, Done("1"))])
    s.run(actions.retry, job_id)
    for job in s.world.claim("mine", queues=["here"]):
        s.run(waitpoints.open_waitpoint, "mine", job.id, job.epoch, *what)


def _describe_waitpoint(s: Stage) -> None:
    wait = Wait(key="wait:x#1", reason="signal", schema="{}", condition=Condition(waitpoints=(s.things["waitpoint"],)))
    s.run(suspension.describe, s.jobs["suspended"], wait)


def _wake_too_early(s: Stage) -> None:
    wait = Wait(key="wait:x#1", reason="signal", condition=Condition(names=("x",)), timeout=_HOUR)
    s.run(finishing.finish, "mine", [Finish(s.jobs["mine"], s.things["run"].epoch, Suspended(wait))])
    s.world.sql("update holdfast_wait set wake_at = :now where job_id = :id", id=s.jobs["mine"])
    s.run(waking.wake_due)


def _admit_again(s: Stage) -> None:
    s.app.quotas.admit("calls", "me")
    s.app.quotas.release("calls", "me")
    s.app.quotas.admit("calls", "me")


def _outlive_a_job(s: Stage) -> None:
    """A grant expires after its job has ended."""
    s.app.jobs.cancel(s.jobs["granted"])
    s.wait_until(DAY)
    s.run(grants.expire_grants)


def _long_history(s: Stage) -> None:
    """It has run so often that its first runs are forgotten."""
    late = 65
    mine: dict[str, Any] = {"id": s.jobs["mine"], "late": late}
    s.world.sql("update holdfast_live set epoch = :late where id = :id and state = 'running' and epoch < :late", **mine)
    s.run(finishing.finish, "mine", [Finish(s.jobs["mine"], late, Retry(SECOND, ERROR))])


def _name_a_store(s: Stage) -> None:
    s.world.sql("delete from holdfast_meta where key in ('store_id', 'secret')")
    s.run(remote.identity)
    s.run(keys.store_secret)


SELDOM: dict[str, Call] = {
    "break a schedule": _break_schedule,
    "defer a schedule": _defer,
    "meet a twin at a tick": _meet_a_twin,
    "prune many ticks": _prune_ticks,
    "cancel a flow in pages": _cancel_in_pages,
    "resolve in pages": _resolve_in_pages,
    "use a key again": _use_a_key_again,
    "open a waitpoint again": _reopen_waitpoint,
    "describe a waitpoint": _describe_waitpoint,
    "wake too early": _wake_too_early,
    "admit again": _admit_again,
    "expire the grant of an ended job": _outlive_a_job,
    "forget early runs": _long_history,
    "name a store": _name_a_store,
    "note a webhook's success": lambda s: s.run(endpoints.succeeded, s.things["endpoint"]),
    "give a webhook up": lambda s: s.run(endpoints.given_up, s.things["endpoint"], s.clock.now() + 1),
    "write a tally": lambda s: s.run(counting.write_tallies, [counting.Tally("default", "succeeded", 1, 0)]),
}
