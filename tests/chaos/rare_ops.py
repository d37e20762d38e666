"""What seldom happens: twins, suspects, trials, races within flows, escalations; several operations in a row."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec

import holdfast
from holdfast.clock import SECOND
from holdfast.errors import HoldfastError
from holdfast.model.jobs import Hook
from holdfast.model.outcomes import Done, Finish, Parked, Retry, Suspended, Throttled
from holdfast.model.signals import Condition, Wait
from holdfast.model.steps import Step
from holdfast.storage.ops import steps
from holdfast.storage.ops.flows import dependency_resolution, endings
from holdfast.storage.ops.jobs import claims, enqueue, finishing, retention
from holdfast.storage.ops.limits import rates, totals
from holdfast.storage.ops.signals import waking
from holdfast.storage.ops.workers import workers
from holdfast.tasks.options import CallOptions
from tests.conformance.world import ERROR, claim_request, spec

from .operations import Call
from .seldom_ops import SELDOM
from .stage import Stage


def _work(s: Stage, **options: Any) -> Any:
    return s.app.tasks["work"].options(**options).job("rare")


def _claim(s: Stage, queue: str, **options: Any) -> list[Any]:
    standing = s.world.read(rates.standing)
    found: list[Any] = s.run(claims.claim, claim_request("mine", queues=[queue], standing=standing, **options))
    return found


def _end(s: Stage, jobs: list[Any], outcome: Any) -> None:
    s.run(finishing.finish, "mine", [Finish(job.id, job.epoch, outcome) for job in jobs])


def _supersede(s: Stage) -> None:
    keyed = {"key": "rare", "until": "failure", "queue": "twins"}
    s.run(enqueue.enqueue, [spec(id="first-twin", **keyed)])
    _end(s, _claim(s, "twins"), Retry(SECOND, ERROR))
    s.run(enqueue.enqueue, [spec(id="second-twin", **keyed)])


def _suspects(s: Stage) -> None:
    s.wait_until(60)
    s.run(workers.rescue, "lost")
    s.run(workers.beat, "mine")
    _end(s, _claim(s, "going"), Retry(0, ERROR, outcome="crashed", convicts=True))
    _end(s, _claim(s, "going", suspects=1, alone=True), Done("1"))


def _trial(s: Stage) -> None:
    s.app.breakers.trip("api", 1)
    s.app.enqueue(_work(s, queue="tried", breaker="api"))
    s.wait_until(20)
    for outcome in (Retry(0, ERROR), Done("1")):
        s.wait_until(80 if isinstance(outcome, Done) else 20)
        _end(s, _claim(s, "tried"), outcome)


def _inherit(s: Stage) -> None:
    options = CallOptions(queue="tried", breaker="api", limits_tenant="acme")
    s.app.enqueue(s.app.tasks["work"].read(["rare"], options))
    _end(s, _claim(s, "tried"), Done("1"))


def _throttle(s: Stage) -> None:
    s.app.enqueue(_work(s, queue="hot"))
    _end(s, _claim(s, "hot"), Throttled(SECOND, ERROR, cools=True))
    s.wait_until(600)
    standing = s.world.read(rates.standing)
    ends = [Finish(job.id, job.epoch, Done("1")) for job in _claim(s, "hot")]
    s.run(claims.turn, "mine", ends, claim_request("mine", queues=["hot"], standing=standing))


def _end_with_a_hook(s: Stage) -> None:
    hook = Hook(on="end", spec=spec(task="work", queue="after"), takes="word")
    hooks = msgspec.json.encode([hook]).decode()
    s.run(enqueue.enqueue, [spec(id="rare-hooked", queue="hooked", hooks=hooks)])
    _end(s, _claim(s, "hooked"), Done("1"))


def _race(s: Stage) -> None:
    with s.app.flow("race", on_success=_work(s, queue="after")) as flow:
        fast, slow = flow.add(_work(s, queue="fast")), flow.add(_work(s, queue="slow"))
        last = flow.add(_work(s, queue="fast"), after=holdfast.any_of(fast, slow, rest="cancel"))
        flow.add(_work(s, queue="fast"), after=[last.failed])
    s.app.queues.drain("after")
    for _ in range(2):
        _end(s, _claim(s, "fast"), Done("1"))
        s.run(dependency_resolution.sweep)
        s.run(dependency_resolution.resolve_page)
    s.app.queues.resume("after")
    s.run(endings.pay_callbacks)


def _escalate(s: Stage) -> None:
    for policy in ("escalate", "fail"):
        s.app.enqueue(_work(s, queue=policy))
        wait = Wait(
            key="wait:x#1", reason="signal", condition=Condition(names=("x",)), timeout=SECOND, on_timeout=policy
        )
        _end(s, _claim(s, policy), Suspended(wait))
    s.wait_until(30)
    s.run(waking.wake_due)


def _refuse(s: Stage) -> None:
    with suppress(HoldfastError):
        s.app.signal(s.things["token"][:-4] + "AAAA", payload=True)


def _share(s: Stage) -> None:
    s.app.limits.set_total("here", 5)
    s.run(totals.share_out)
    s.app.limits.set_total("here", None)
    s.run(totals.share_out)


def _unpark_entries(s: Stage) -> None:
    s.app.enqueue(_work(s, queue="parking"))
    jobs = _claim(s, "parking")
    _end(s, jobs, Parked("auth", ERROR))
    for job in jobs:
        s.app.jobs.run_now(job.id)


def _restart_step(s: Stage) -> None:
    s.app.jobs.retry(s.jobs["done"], fresh=True)
    s.app.jobs.move(s.jobs["done"], "again")
    s.app.drain(queues=["again"], webhooks=False)


def _crowd(s: Stage) -> None:
    """Claim two of three that ask for a quota which has room for one: the third is parked with the second."""
    s.app.quotas.set("narrow", concurrency=1)
    s.app.enqueue_many([_work(s, queue="narrow", quota="narrow") for _ in range(3)])
    _end(s, _claim(s, "narrow", n=2), Done("1"))


def _large(s: Stage, **options: Any) -> Any:
    return s.app.tasks["work"].options(**options).job("x" * 300_000)


def _large_step(s: Stage) -> None:
    s.app.enqueue(_large(s, id="rare-large-run", queue="large"))
    for job in _claim(s, "large", n=1):
        step = Step(key="step:large#1", kind="step", name="large", position=1, value=json.dumps("y" * 300_000))
        s.run(steps.record, "mine", job.id, job.epoch, step)
        s.app.signal(job.id, "note", "z" * 300_000, key="once")
        _end(s, [job], Done(json.dumps("r" * 300_000)))
        s.app.jobs.fork(job.id, from_step="large")
        s.app.jobs.retry(job.id, fresh=True)


RARE: dict[str, Call] = {
    "enqueue large arguments": lambda s: s.app.enqueue_many(
        [_large(s, id="rare-large"), _large(s, dedupe_key="large")]
    ),
    "debounce to large arguments": lambda s: s.app.enqueue(_large(s, dedupe_key="key", on_duplicate="replace")),
    "run with large values": _large_step,
    "enqueue for a window": lambda s: s.app.enqueue(
        _work(s, id="rare-window", dedupe_key="w", dedupe_until=timedelta(hours=1))
    ),
    "debounce": lambda s: s.app.enqueue(_work(s, dedupe_key="key", on_duplicate="replace")),
    "enqueue a twin fairly": lambda s: s.app.enqueue(_work(s, dedupe_key="key", fair_key="f")),
    "crowd a quota": _crowd,
    "enqueue fairly": lambda s: s.app.enqueue(_work(s, id="rare-fair", fair_key="f")),
    "enqueue with a callback": lambda s: s.app.enqueue(
        _work(s, id="rare-call", webhook="https://example.org/told", webhook_events=["job"])
    ),
    "end with a hook": _end_with_a_hook,
    "enqueue many without keys": lambda s: s.app.enqueue_many([s.app.tasks["work"].job("plain") for _ in range(3)]),
    "supersede a twin": _supersede,
    "claim suspects": _suspects,
    "promote what is due": lambda s: (s.wait_until(4_000), _end(s, _claim(s, "default", n=1), Done("1"))),
    "try a breaker": _trial,
    "follow a breaker": _inherit,
    "cool and warm a queue": _throttle,
    "race within a flow": _race,
    "escalate": _escalate,
    "refuse a token": _refuse,
    "share a total": _share,
    "run what was parked": _unpark_entries,
    "run a durable task again": _restart_step,
    "delete several": lambda s: s.app.jobs.bulk("delete", ids=[s.jobs["done"], s.jobs["failed"]]),
    **SELDOM,
    "close windows": lambda s: (s.wait_until(90_000), s.run(retention.prune_windows)),
}
