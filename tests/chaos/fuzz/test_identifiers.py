"""Names as nobody chooses them, through every public call on both stores: refused in our words, or kept exactly."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import holdfast
from holdfast.errors import HoldfastError, InvalidInput, StorageError
from holdfast.model import JobFilter
from tests.chaos.dials import Figure, scaled

from .dice import TEXTS, dice, text
from .pair import Pair, answer
from .sweep import calls

Keep = Callable[[holdfast.App, str], Any]


def names(rng: random.Random, count: int) -> Iterator[str]:
    """Those of the corpus, then others."""
    yield from rng.sample(TEXTS, min(count, len(TEXTS)))
    for _ in range(count - len(TEXTS)):
        yield text(rng, 20) + rng.choice(("", "", "\ud800", "x" * rng.randint(60, 140)))


@pytest.mark.parametrize(
    "count", [12, pytest.param(scaled(len(TEXTS) + 30), marks=[pytest.mark.proof, pytest.mark.timeout(0)])]
)
def test_a_name_is_refused_or_found_again_exactly_on_both_stores_alike(pair: Pair, count: int, figure: Figure) -> None:
    tried = 0
    for what, keep in KINDS.items():
        for name in names(dice(what), count):
            kept = [_kept(app, keep, name) for app in pair]
            assert kept[0] == kept[1], f"{what} {name[:80]!a}: SQLite says {kept[0]!a}, Postgres {kept[1]!a}"
            assert kept[0] in (name, "refused"), f"{what} {name[:80]!a} came back as {kept[0]!a}"
            tried += 1
    figure(tried, "inputs: identifiers")


@pytest.mark.parametrize("share", [0.1, pytest.param(1.0, marks=[pytest.mark.proof, pytest.mark.timeout(0)])])
def test_every_public_call_answers_alike_on_both_stores_whatever_it_is_given(
    pair: Pair, share: float, figure: Figure
) -> None:
    rng, tried = dice(f"sweep {share}"), 0
    jobs = [app.tasks["count"].enqueue(1).id for app in pair]
    for what, call in calls(pair.sqlite):
        if rng.random() < share:
            answers = [
                answer(lambda app=app, job=job, call=call: call(app, job)) for app, job in zip(pair, jobs, strict=True)
            ]
            assert answers[0] == answers[1], f"{what}: SQLite says {answers[0]}, Postgres {answers[1]}"
            tried += 1
    figure(tried, "inputs: identifiers")


def _kept(app: holdfast.App, keep: Keep, name: str) -> Any:
    try:
        return keep(app, name)
    except InvalidInput as error:
        assert len(str(error)) > 20, f"{error!r} does not say what is allowed"
        return "refused"
    except StorageError as error:
        raise AssertionError(f"the store itself refused {name[:80]!a}: {error!r}") from error
    except HoldfastError as error:
        return type(error).__name__


def _by_option(option: str, filter: str | None = None, **others: Any) -> Keep:
    """A job with the name as one of its options, found again by it where there is a filter."""

    def keep(app: holdfast.App, name: str) -> Any:
        given = [name] if option in ("tags", "requires") else name
        job = app.tasks["count"].options(**{option: given}, **others).enqueue(1)
        record = app.jobs.get(job.id)
        if filter is not None:
            field = filter.removesuffix("s")
            found = [one.id for one in app.jobs.find(JobFilter(**{field: name}, limit=1000))]
            assert job.id in found, f"the filter {field} does not find {name!a}"
            paged = app.jobs.search(JobFilter(**{field: name}, limit=1000)).jobs
            assert [one.id for one in paged] == found
        if option == "tags":
            return app.jobs.find(JobFilter(tag=name, limit=1))[0] and name
        return getattr(record, option, name) if option != "dedupe_key" else record.dedupe_key

    return keep


def _schedule(app: holdfast.App, name: str) -> Any:
    app.schedules.create(name, app.tasks["count"].job(1), cron="0 3 * * *")
    found = app.schedules.get(name).name
    assert name in [one.name for one in app.schedules.list()]
    app.schedules.delete(name)
    return found


def _flow(app: holdfast.App, name: str) -> Any:
    with app.flow(name) as flow:
        flow.add(app.tasks["count"].job(1), name=name)
    return next(one.name for one in app.flows.find() if one.id == flow.id)


def _task(app: holdfast.App, name: str) -> Any:
    job = app.external_task(name).enqueue()
    assert job.id in [one.id for one in app.jobs.find(JobFilter(task=name, limit=1000))]
    return app.jobs.get(job.id).task


def _signal(app: holdfast.App, name: str) -> Any:
    job = app.tasks["count"].options(delay=3600).enqueue(1)
    app.signal(job.id, name, 1, key=name)
    return app.signals.received(job.id)[0].name


def _budget(app: holdfast.App, name: str) -> Any:
    app.budgets.set(name, {name: 5})
    app.budgets.get(name)
    return next(one.name for one in app.budgets.list(limit=1000) if one.name == name)


def _token(app: holdfast.App, name: str) -> Any:
    made = app.tokens.create(name, role="viewer", reason="why")
    found = app.tokens.get(name).name
    app.tokens.revoke(made.id)
    return found


def _queue(app: holdfast.App, name: str) -> Any:
    app.queues.pause(name)
    found = app.queues.get(name).name
    app.queues.resume(name)
    return found


def _rate(app: holdfast.App, name: str) -> Any:
    app.limits.set_rate(name, capacity=1, per_second=1)
    app.limits.clear_rate(name)
    return name


def _breaker(app: holdfast.App, name: str) -> Any:
    app.breakers.set(name, failures=3, open_for=30)
    return app.breakers.get(name).scope


def _quota(app: holdfast.App, name: str) -> Any:
    app.quotas.set(name, concurrency=1)
    return app.quotas.get(name).name


KINDS: dict[str, Keep] = {
    "id": _by_option("id", "id"),
    "queue of a job": _by_option("queue", "queue"),
    "tenant": _by_option("tenant", "tenant"),
    "tag": _by_option("tags", "tags"),
    "dedupe key": _by_option("dedupe_key", on_duplicate="existing"),
    "dedupe scope": _by_option("dedupe_scope", dedupe_key="k"),
    "lane": _by_option("concurrency_key", concurrency=1),
    "fair key": _by_option("fair_key"),
    "rate of a job": _by_option("rate"),
    "breaker of a job": _by_option("breaker"),
    "quota of a job": _by_option("quota"),
    "capability": _by_option("requires"),
    "affinity": _by_option("affinity"),
    "task": _task,
    "schedule": _schedule,
    "flow and member": _flow,
    "signal": _signal,
    "budget and dimension": _budget,
    "token": _token,
    "queue": _queue,
    "rate": _rate,
    "breaker": _breaker,
    "quota": _quota,
}
