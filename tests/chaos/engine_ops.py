"""What workers and their chores ask of a store: behind claims, ends of runs, rescue, cron and cleaning."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from holdfast.clock import SECOND
from holdfast.model.outcomes import (  # fmt: skip
    Cancelled,
    Done,
    Expired,
    Failed,
    Finish,
    Outcome,
    Parked,
    Released,
    Rerouted,
    Retry,
    Snoozed,
    Suspended,
    Throttled,
)
from holdfast.model.routing import Route
from holdfast.model.schedules import ScheduleKey
from holdfast.model.signals import Condition, Wait
from holdfast.model.stats import HealthMinute, Vitals
from holdfast.model.steps import Step
from holdfast.model.streams import Batch, Draft, Progress
from holdfast.storage.ops import access, events, steps, streams  # fmt: skip
from holdfast.storage.ops.artifacts import blobs  # fmt: skip
from holdfast.storage.ops.budgets import budgets, reservations, shortages  # fmt: skip
from holdfast.storage.ops.flows import dependency_resolution, edges, endings  # fmt: skip
from holdfast.storage.ops.jobs import actions, claims, counting, finishing, retention  # fmt: skip
from holdfast.storage.ops.limits import lanes, quotas, rates, totals  # fmt: skip
from holdfast.storage.ops.outbox import entries  # fmt: skip
from holdfast.storage.ops.routing import grants, routes  # fmt: skip
from holdfast.storage.ops.schedules import firing, schedules  # fmt: skip
from holdfast.storage.ops.signals import suspension, waitpoints, waking  # fmt: skip
from holdfast.storage.ops.stats import errors, stats  # fmt: skip
from holdfast.storage.ops.store import probe_write  # fmt: skip
from holdfast.storage.ops.webhooks import fanout  # fmt: skip
from holdfast.storage.ops.workers import workers  # fmt: skip
from holdfast.storage.port import Op
from tests.conformance.world import ERROR, claim_request, spec, worker_spec

from .operations import Call
from .stage import Stage

DAY = 86_400


def _ends(outcome: Outcome) -> Call:
    return lambda s: s.run(finishing.finish, "mine", [Finish(s.jobs["mine"], s.things["run"].epoch, outcome)])


def _after(seconds: float, op: Callable[..., Any], *args: Any, **kwargs: Any) -> Call:
    def call(s: Stage) -> Any:
        s.wait_until(seconds)
        return s.run(op, *args, **kwargs)

    return call


def _turn(s: Stage) -> Any:
    request = claim_request("mine", queues=["here", "default", "loud"], standing=s.world.read(rates.standing))
    return s.run(claims.turn, "mine", [Finish(s.jobs["mine"], s.things["run"].epoch, Done("1"))], request)


def _mine(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Call:
    return lambda s: s.run(op, "mine", s.jobs["mine"], s.things["run"].epoch, *args, **kwargs)


def _prune(s: Stage) -> Any:
    s.wait_until(30 * DAY)
    return s.run(retention.prune_jobs, [s.jobs[name] for name in ("done", "failed", "sent")], SECOND)


def _append(s: Stage) -> Any:
    run = s.things["run"]
    said = (Draft("text", "json", b'"a"', "say"), Draft("text", "json", b'"b"', best_effort=True))
    batches = [
        Batch(
            job_id=run.id,
            owner="mine",
            epoch=run.epoch,
            generation=0,
            attempt=1,
            writer="writer",
            serial=n,
            drafts=drafts,
            progress=Progress(percent=n, stage="loading"),
            stages=("loading",),
        )
        for n, drafts in ((1, said), (2, (Draft("", "restart", b"", "say"),)))
    ]
    return s.run(streams.append, batches)


def _outbox_turn(s: Stage) -> Any:
    request = claim_request("mine", queues=["outbox.cloud"], standing=s.world.read(rates.standing))
    taken = s.run(entries.turn, "mine", [], request, unpark="outbox.cloud", ordered=True)
    ends = [Finish(job.id, job.epoch, Done("null")) for job in taken.jobs]
    return s.run(entries.turn, "mine", ends, request, unpark="outbox.cloud", ordered=True)


def _reserve(s: Stage) -> Any:
    run = reservations.Runner("mine", s.jobs["mine"], s.things["run"].epoch)
    s.run(reservations.reserve, run, [reservations.Wish("h", "team", {"tokens": 5 * SECOND})], quota="calls")
    return s.run(reservations.release, run, "h")


def _short(s: Stage) -> Any:
    run = reservations.Runner("mine", s.jobs["mine"], s.things["run"].epoch)
    s.run(reservations.reserve, run, [reservations.Wish("h", "team", {"tokens": 5_000 * SECOND})])
    _ends(Parked("budget_exhausted", ERROR))(s)
    s.app.budgets.raise_("team", {"tokens": 9_000})
    ids = s.store.read(_op(shortages.who_fits, "team"))
    s.run(shortages.release_waiting, ids)
    return s.run(shortages.drop_leftovers)


def _op(op: Callable[..., Any], *args: Any) -> Op[Any]:
    return Op(lambda tx: op(tx, *args))


def _tallies(s: Stage) -> Any:
    found = s.store.read(_op(lambda tx: counting.measure(tx, recount=True)))
    return s.run(counting.write_tallies, found)


def _errors(s: Stage) -> Any:
    s.wait_until(120)
    page = s.store.read(_op(errors.page))
    return s.run(errors.note, page, errors.grouped(page)) if page.rows else None


_WAIT = Wait(key="wait:x#1", reason="signal", condition=Condition(names=("x",)), timeout=SECOND)
STEP = Step(key="step:load#1", kind="step", name="load", value="1")

ENGINE: dict[str, Call] = {
    "turn": _turn,
    "end as done": _ends(Done("1")),
    "end as retry": _ends(Retry(SECOND, ERROR)),
    "end as failed": _ends(Failed("permanent", ERROR)),
    "end as snoozed": _ends(Snoozed(SECOND)),
    "end as suspended": _ends(Suspended(_WAIT)),
    "end as throttled": _ends(Throttled(SECOND, ERROR, cools=True)),
    "end as parked": _ends(Parked("auth", ERROR)),
    "end as released": _ends(Released("shutdown")),
    "end as rerouted": _ends(Rerouted(Route("here", frozenset({"task:work"})), "no_handler")),
    "end as cancelled": _ends(Cancelled("asked")),
    "end as expired": _ends(Expired()),
    "register": lambda s: s.run(workers.register, worker_spec("fresh")),
    "beat": lambda s: s.run(workers.beat, "mine", Vitals(cpu=0.1, rss=1)),
    "set a queue's state": lambda s: s.run(actions.set_queue_state, "here", "draining"),
    "stop": lambda s: s.run(workers.stop, "mine"),
    "deregister": lambda s: s.run(workers.deregister, "mine"),
    "rescue": _after(60, workers.rescue, "lost"),
    "expire jobs": _after(4_000, finishing.expire_jobs),
    "fire": _after(DAY, firing.fire, ScheduleKey("", "nightly")),
    "prune ticks": lambda s: (
        _after(DAY, firing.fire, ScheduleKey("", "nightly"))(s),
        _after(90 * DAY, schedules.prune_ticks, SECOND)(s),
    ),
    "note schedule error": lambda s: s.run(schedules.note_error, ScheduleKey("", "nightly"), ERROR),
    "wake": lambda s: (_ends(Suspended(_WAIT))(s), _after(5, waking.wake_due)(s)),
    "unpark": lambda s: (_turn(s), s.run(lanes.unpark_stalled)),
    "remove idle rates": lambda s: (
        s.run(rates.lock, {"mail[7]": "mail"}),
        s.wait_until(DAY),
        s.run(rates.prune_idle),
    ),
    "resolve": lambda s: (
        s.app.jobs.cancel(s.jobs["ready"]),
        s.run(dependency_resolution.resolve_page),
        s.run(dependency_resolution.sweep),
    ),
    "pay callbacks": lambda s: s.run(endings.pay_callbacks),
    "prune jobs": _prune,
    "prune results": lambda s: (s.wait_until(DAY), s.run(retention.prune_results, [s.jobs["done"]], SECOND)),
    "prune flows": lambda s: (_prune(s), s.run(retention.prune_flows)),
    "prune audit": _after(DAY, retention.prune_audit, SECOND),
    "prune windows": _after(DAY, retention.prune_windows),
    "prune lanes": lambda s: s.run(lanes.delete_unused, ["key::unused"]),
    "note idle routes": lambda s: s.run(routes.note_usage, routes.Usage(left=[1], used=[2], over=[3])),
    "put health": lambda s: s.run(stats.put_health, HealthMinute(minute=datetime(1970, 1, 1, tzinfo=UTC))),
    "prune health": _after(90 * DAY, stats.prune_health, SECOND),
    "prune sessions": _after(90 * DAY, access.prune, SECOND),
    "prune spends": lambda s: (
        s.app.budgets.spend("team", tokens=1, key="k"),
        _after(90 * DAY, budgets.prune_spends, 10)(s),
    ),
    "prune admissions": lambda s: (s.app.quotas.admit("calls", "me"), _after(DAY, quotas.prune_admissions, 10)(s)),
    "prune events": _after(DAY, events.prune, SECOND),
    "relay events": lambda s: s.run(events.relay),
    "count": _tallies,
    "note errors": _errors,
    "prune errors": lambda s: (_errors(s), s.run(errors.prune, 0)),
    "lead": lambda s: s.run(workers.lead, {"cron"}, "me", SECOND),
    "resign": lambda s: (s.run(workers.lead, {"cron"}, "me", SECOND), s.run(workers.resign, "me")),
    "share out": lambda s: s.run(totals.share_out),
    "begin anew": lambda s: (
        s.app.budgets.set("hourly", {"usd": 1}, every=3600),
        _after(DAY, budgets.reset_due, "hourly")(s),
    ),
    "reserve": _reserve,
    "run short": _short,
    "expire grants": _after(DAY, grants.expire_grants),
    "outbox turn": _outbox_turn,
    "mend order": lambda s: s.run(entries.repair_order, "outbox.cloud", 10),
    "fan out": lambda s: s.run(fanout.fan_out),
    "record step": _mine(steps.record, STEP),
    "record steps": _mine(steps.record_all, [STEP]),
    "record enqueue": lambda s: _mine(
        steps.record_enqueue, Step(key="enqueue:x#1", kind="enqueue", name="x"), spec(id="child-once")
    )(s),
    "append": _append,
    "summarize": _mine(streams.summarize, {"a": 1}),
    "take": _mine(suspension.take, _WAIT),
    "open waitpoint": _mine(waitpoints.open_waitpoint, "waitpoint:a#1", "a", DAY * SECOND),
    "write a blob": lambda s: (
        _mine(blobs.begin, "blob")(s),
        s.run(blobs.add_part, "blob", 0, b"x"),
        s.run(blobs.doom, ["blob"]),
        s.run(blobs.drop_parts, "blob"),
        s.run(blobs.drop, ["blob"]),
    ),
    "await jobs": lambda s: s.run(edges.await_jobs, s.jobs["ready"], [s.jobs["delayed"]]),
    "forget vitals_of_workers": lambda s: s.run(workers.forget_pulses),
    "probe": lambda s: s.run(probe_write),
}
