"""Every public operation, called once in a way that has an effect; found by looking at the app itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast import App
from holdfast.model import Outgoing
from holdfast.model.remote import Done, FrameDraft

from .stage import Stage

Call = Callable[[Stage], Any]
START = datetime(2023, 11, 1, tzinfo=UTC)


def survey() -> set[str]:
    """Every public method of the app and of its parts, without the awaiting twins."""
    app = App(":memory:")
    app.declare_destination("cloud")
    found = {name for name, part in _public(app) if inspect.ismethod(part)}
    for name, part in _public(app):
        if type(part).__module__.startswith("holdfast") and not inspect.ismethod(part):
            found |= {f"{name}.{inner}" for inner, one in _public(part) if callable(one)}
    found |= {f"outbox.{inner}" for inner, one in _public(app.outbox("cloud")) if callable(one)}
    return {path for path in found if not _is_twin(path, found)}


def _public(thing: object) -> list[tuple[str, Any]]:
    return [(name, getattr(thing, name)) for name in dir(thing) if not name.startswith("_")]


def _is_twin(path: str, found: set[str]) -> bool:
    head, dot, name = path.rpartition(".")
    return name.startswith("a") and any(f"{head}{dot}{twin}" in found for twin in (name[1:], f"{name[1:]}_"))


LOCAL = {
    "around_enqueue", "breaker", "budget", "budgets.of", "capabilities", "close", "connect", "cron", "declarations",
    "declare", "declare_destination", "declared_limits", "destination", "every", "external_task", "flow",
    "inline", "inventory", "job", "maintenance_worker", "middleware", "migrate", "open", "quota", "quotas.of", "rate",
    "schedules.cron", "schedules.declarations", "schedules.every", "schedules.of", "schedules.preview", "scoped",
    "settings", "task", "override_resource", "override_store", "resource", "worker",
    "jobs.decode_result", "jobs.pickled_by", "jobs.renew", "jobs.result_key",
    "flows.renew", "flows.handle", "streams.keep", "streams.buffer", "tally.count",
    "aevents.cursor", "aevents.read", "outbound.permits", "jobs.await_", "flows.await_",
    "stats.operations", "within",
}  # fmt: skip
"""They ask nothing of the store by themselves, or say what others do."""

READS = {
    "tokens.get", "tokens.list", "artifacts.get", "artifacts.list", "artifacts.open", "artifacts.read", "audit.list",
    "breakers.get", "breakers.list", "budgets.get", "budgets.list", "budgets.spent_by", "errors.list", "errors.runs",
    "errors.show", "events.cursor", "events.read", "flows.counts", "flows.find", "flows.graph", "flows.result",
    "flows.status", "flows.wait", "jobs.attempts", "jobs.counts", "jobs.demands", "jobs.expired_leases",
    "jobs.explain", "jobs.find", "jobs.get", "jobs.grants", "jobs.search", "jobs.steps", "jobs.unrunnable",
    "jobs.wait", "keys.list", "remote.steps", "limits.show", "limits.undeclared", "outbox.ages",
    "outbox.last_delivery", "outbox.list", "queues.get", "queues.list", "queues.stranded", "queues.tasks",
    "quotas.get", "quotas.list", "result", "schedules.get", "schedules.list", "schedules.next_runs", "schedules.runs",
    "schedules.ticks", "signals.pending", "signals.received", "signals.refused", "stats.health", "stats.leaders",
    "stats.limits", "stats.queue", "stats.queues", "stats.series", "stats.store", "stats.tasks", "stats.throughput",
    "stats.timeline", "stats.workers", "stream", "streams.follow", "streams.progress", "streams.read",
    "streams.summary", "streams.tail", "webhooks.delivery", "webhooks.get", "webhooks.health", "webhooks.list",
    "webhooks.log", "workers.list",
}  # fmt: skip


def _work(s: Stage, **options: Any) -> Any:
    return s.app.tasks["work"].options(**options).job("new")


def _create_flow(s: Stage) -> None:
    if "made" not in s.things:
        flow = s.things["made"] = s.app.flow("made", on_success=_work(s))
        first = flow.add(_work(s))
        flow.add(_work(s), after=first)
        flow.add(s.app.tasks["work"].job(first.output))
    s.app.flows.create(s.things["made"])


def _uncounted(s: Stage) -> Any:
    """The outbox as a process finds it that has not counted its entries: the same statements in each trial."""
    outbox = s.app.outbox("cloud")
    outbox._gauge._where = None
    return outbox


def _bulk(action: str, *names: str, **options: Any) -> Call:
    return lambda s: s.app.jobs.bulk(action, ids=[s.jobs[name] for name in names], **options)


PUBLIC: dict[str, Call] = {
    "tokens.create": lambda s: s.app.tokens.create("other", role="viewer"),
    "tokens.identify": lambda s: (s.wait_until(3600), s.app.tokens.identify(s.things["secret"])),
    "tokens.login": lambda s: s.app.tokens.login(s.things["secret"]),
    "tokens.logout": lambda s: s.app.tokens.logout(s.things["session"]),
    "tokens.note": lambda s: s.app.tokens.note("ann", "page.look", "jobs"),
    "tokens.revoke": lambda s: s.app.tokens.revoke(s.things["token-id"]),
    "tokens.session": lambda s: (s.wait_until(1200), s.app.tokens.session(s.things["session"])),
    "breakers.clear": lambda s: s.app.breakers.clear("api"),
    "breakers.reset": lambda s: s.app.breakers.reset("api"),
    "breakers.set": lambda s: s.app.breakers.set("api", failures=9, open_for=9),
    "breakers.trip": lambda s: s.app.breakers.trip("api"),
    "budgets.delete": lambda s: (s.app.budgets.set("spare", {"usd": 1}), s.app.budgets.delete("spare")),
    "budgets.give_back": lambda s: s.app.budgets.give_back(s.jobs["done"]),
    "budgets.raise_": lambda s: s.app.budgets.raise_("team", {"tokens": 5_000}),
    "budgets.reset": lambda s: s.app.budgets.reset("team"),
    "budgets.set": lambda s: s.app.budgets.set("part", {"tokens": 10}, within="team", every=3600),
    "budgets.spend": lambda s: s.app.budgets.spend("team", tokens=2, key="once"),
    "drain": lambda s: s.app.drain(webhooks=False),
    "enqueue": lambda s: s.app.enqueue(_work(s, id="enqueued-once", dedupe_key="fresh", queue="loud")),
    "enqueue_many": lambda s: s.app.enqueue_many([_work(s, id=f"many-{n}", dedupe_key=f"m{n}") for n in range(3)]),
    "flows.add": lambda s: s.app.flows.add(_staged(s), {"more": _work(s)}),
    "flows.apply": lambda s: (
        s.app.flows.stage(s.things["staged"], [s.things["edge"]], revision=_revision(s)),
        s.app.flows.apply(s.things["staged"]),
    ),
    "flows.begin": lambda s: s.app.flows.begin("begun", id="begun-once"),
    "flows.cancel": lambda s: s.app.flows.cancel(s.things["pair"]),
    "flows.create": _create_flow,
    "flows.extend": lambda s: s.app.drain(queues=["growing"], webhooks=False),
    "flows.retry_member": lambda s: s.app.flows.retry_member(s.jobs["member"]),
    "flows.retry": lambda s: s.app.flows.retry(s.things["ended"]),
    "flows.set_join": lambda s: s.app.flows.set_join(s.jobs["waiting"], "any"),
    "flows.stage": lambda s: s.app.flows.stage(s.things["staged"], [s.things["edge"]], revision=_revision(s)),
    "jobs.act": lambda s: s.app.jobs.act("hold", s.jobs["delayed"]),
    "jobs.bulk": _bulk("cancel", "ready", "delayed", "held", "keyed", "lost"),
    "jobs.cancel": lambda s: s.app.jobs.cancel(s.jobs["lost"], force=True),
    "jobs.delete": lambda s: s.app.jobs.delete(s.jobs["done"]),
    "jobs.fork": lambda s: s.app.jobs.fork(s.jobs["done"], from_step="say"),
    "jobs.grant": lambda s: s.app.jobs.grant(s.jobs["ready"], worker="somebody"),
    "jobs.hold": lambda s: s.app.jobs.hold(s.jobs["ready"]),
    "jobs.move": lambda s: s.app.jobs.move(s.jobs["ready"], "nobody"),
    "jobs.release": lambda s: s.app.jobs.release(s.jobs["held"]),
    "jobs.reschedule": lambda s: s.app.jobs.reschedule(s.jobs["delayed"], delay=1),
    "jobs.retry": lambda s: s.app.jobs.retry(s.jobs["failed"]),
    "jobs.revoke": lambda s: s.app.jobs.revoke(s.jobs["lost"]),
    "jobs.run_now": lambda s: s.app.jobs.run_now(s.jobs["delayed"]),
    "jobs.set_priority": lambda s: s.app.jobs.set_priority(s.jobs["ready"], 9),
    "jobs.withdraw": lambda s: s.app.jobs.withdraw(s.jobs["granted"]),
    "keys.revoke": lambda s: (s.app.keys.rotate("second", "6f" * 32), s.app.keys.revoke("first")),
    "keys.rotate": lambda s: s.app.keys.rotate("second", "6f" * 32),
    "keys.seed": lambda s: s.app.keys.seed("first", "5e" * 32),
    "remote.artifact": lambda s: s.app.remote.artifact(s.handles["first"], "big", b"x" * 300_000),
    "remote.beat": lambda s: s.app.remote.beat(s.things["worker"], [s.handles["first"]]),
    "remote.claim": lambda s: s.app.remote.claim(s.things["worker"], 5, claim_id="again"),
    "remote.deregister": lambda s: s.app.remote.deregister(s.things["worker"]),
    "remote.emit": lambda s: s.app.remote.emit(
        s.handles["first"], [FrameDraft("a"), FrameDraft("b", best_effort=True)], batch=1
    ),
    "remote.finish": lambda s: s.app.remote.finish(s.handles["first"], Done("fine")),
    "remote.progress": lambda s: s.app.remote.progress(s.handles["first"], 10, batch=1),
    "remote.record_step": lambda s: s.app.remote.record_step(s.handles["first"], "load", 1),
    "remote.register": lambda s: s.app.remote.register("new", queues=["lent"], tasks=["lent"]),
    "remote.settle": lambda s: s.app.remote.settle(s.handles["first"], "team", {"tokens": 2}),
    "remote.spend": lambda s: s.app.remote.spend(s.handles["first"], "team", {"tokens": 2}, key="once"),
    "remote.summarize": lambda s: s.app.remote.summarize(s.handles["first"], {"a": 1}),
    "remote.suspend": lambda s: s.app.remote.suspend(s.handles["first"], "approval", waitpoint=True),
    "remote.waitpoint": lambda s: s.app.remote.waitpoint(s.handles["first"], "approval"),
    "limits.acquire": lambda s: s.app.limits.acquire("mail"),
    "limits.clear_concurrency": lambda s: s.app.limits.clear_concurrency(task="work"),
    "limits.clear_rate": lambda s: s.app.limits.clear_rate("mail"),
    "limits.drain": lambda s: s.app.limits.drain("mail", actor="ann"),
    "limits.set_concurrency": lambda s: s.app.limits.set_concurrency(1, task="work"),
    "limits.set_rate": lambda s: s.app.limits.set_rate("mail", capacity=9, per_second=9),
    "limits.set_total": lambda s: s.app.limits.set_total("default", 7),
    "outbox.drain": lambda s: s.app.outbox.drain("cloud", older_than=0, apply=True),
    "outbox.put": lambda s: _uncounted(s).put("event", key="c", id="once"),
    "outbox.put_many": lambda s: _uncounted(s).put_many([Outgoing("x", id="e1"), Outgoing("y", key="c", id="e2")]),
    "outbox.retry": lambda s: s.app.outbox.retry("cloud"),
    "queues.disable": lambda s: s.app.queues.disable("default"),
    "queues.drain": lambda s: s.app.queues.drain("default"),
    "queues.notify": lambda s: s.app.queues.notify("here"),
    "queues.pause": lambda s: s.app.queues.pause("default"),
    "queues.resume": lambda s: (s.app.queues.pause("default"), s.app.queues.resume("default")),
    "queues.set": lambda s: s.app.queues.set("default", events="all", keep_failed=60),
    "quotas.admit": lambda s: s.app.quotas.admit("calls", "me"),
    "quotas.delete": lambda s: (s.app.quotas.set("spare", concurrency=1), s.app.quotas.delete("spare")),
    "quotas.release": lambda s: (s.app.quotas.admit("calls", "me"), s.app.quotas.release("calls", "me")),
    "quotas.set": lambda s: s.app.quotas.set("calls", concurrency=3),
    "schedules.backfill": lambda s: s.app.schedules.backfill("nightly", START, START + timedelta(days=2)),
    "schedules.create": lambda s: s.app.schedules.create("new", s.app.tasks["work"].job("x"), every=60),
    "schedules.delete": lambda s: s.app.schedules.delete("nightly"),
    "schedules.edit": lambda s: s.app.schedules.edit("nightly", cron="0 4 * * *"),
    "schedule": lambda s: s.app.schedule(_work(s), every=60, name="each minute"),
    "schedules.ensure": lambda s: s.app.schedules.ensure(),
    "schedules.schedule": lambda s: s.app.schedules.schedule(_work(s), cron="0 3 * * *", name="each night"),
    "schedules.pause": lambda s: s.app.schedules.pause("nightly"),
    "schedules.resume": lambda s: s.app.schedules.resume("paused"),
    "schedules.run_now": lambda s: s.app.schedules.run_now("nightly"),
    "signal": lambda s: s.app.signal(s.things["token"], payload=True),
    "signals.answer": lambda s: s.app.signals.answer(s.things["waitpoint"], True),
    "signals.resume": lambda s: s.app.signals.resume(s.jobs["suspended"], True),
    "signals.send": lambda s: s.app.signals.send(s.jobs["suspended"], "note", 1, key="twice"),
    "stats.probe": lambda s: s.app.stats.probe(),
    "stats.roll": lambda s: (s.wait_until(120), s.app.stats.roll()),
    "webhooks.add": lambda s: s.app.webhooks.add("https://example.org/other", id="added-once"),
    "webhooks.delete": lambda s: s.app.webhooks.delete(s.things["endpoint"]),
    "webhooks.disable": lambda s: s.app.webhooks.disable(s.things["endpoint"]),
    "webhooks.enable": lambda s: (
        s.app.webhooks.disable(s.things["endpoint"]),
        s.app.webhooks.enable(s.things["endpoint"]),
    ),
    "webhooks.for_calls": lambda s: s.app.webhooks.for_calls("https://example.org/call"),
    "webhooks.recover": lambda s: s.app.webhooks.recover(s.things["endpoint"]),
    "webhooks.retry": lambda s: s.app.webhooks.retry(s.things["delivery"]),
    "webhooks.rotate": lambda s: s.app.webhooks.rotate(s.things["endpoint"]),
    "webhooks.test": lambda s: s.app.webhooks.test(s.things["endpoint"]),
    "workers.rescue": lambda s: s.app.workers.rescue("lost"),
    "workers.mark_dead": lambda s: s.app.workers.mark_dead("lost", "gone"),
}


def _staged(s: Stage) -> Any:
    return next(flow for flow in s.app.flows.find() if flow.id == s.things["staged"])


def _revision(s: Stage) -> int:
    return int(_staged(s).revision)
