"""Nothing of another tenant is found or changed through a view: every public method, every way to aim it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from random import Random
from typing import Any

import pytest

from holdfast.errors import NotFound
from holdfast.model.outbox import OutboxCounts

from .conftest import Ground
from .tenants_calls import MISSING, Method, ask, calls_of, random_call, spoken, survey, without_ids
from .tenants_kit import Stage, set_up

METHODS = survey()


@pytest.fixture(scope="module", params=["file", "postgres"])
def stage(request: pytest.FixtureRequest, ground: Ground) -> Iterator[Stage]:
    with ExitStack() as stack:
        world = ground.join(ground.place(request.param), request.param, until=stack)
        yield set_up(world, stack.enter_context(asyncio.Runner()))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.path)
def test_nothing_of_the_other_tenant_is_found_or_changed(stage: Stage, method: Method) -> None:
    before = stage.rows()
    for given in calls_of(method, stage):
        require_silence(stage, method, given)
    require_unchanged(stage, before)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_found_or_changed_by_calls_at_random(stage: Stage, seed: int) -> None:
    random, before = Random(seed), stage.rows()
    for _ in range(60):
        method = random.choice(METHODS)
        require_silence(stage, method, random_call(method, stage, random))
    require_unchanged(stage, before)


def require_silence(stage: Stage, method: Method, given: dict[str, Any]) -> None:
    answer = ask(method, stage, given)
    told = stage.secrets_in(answer.text) - stage.secrets_in(spoken(given))
    assert not told, (method.path, given, answer)


def require_unchanged(stage: Stage, before: dict[str, set[tuple[Any, ...]]]) -> None:
    for table, rows in stage.rows().items():
        assert before[table] <= rows, (table, before[table] - rows)
        # The record of what we tried is our own.
        assert rows == before[table] or table == "holdfast_audit", (table, rows - before[table])


@pytest.mark.parametrize("method", [method for method in METHODS if method.asks_for], ids=lambda method: method.path)
def test_what_is_the_other_tenants_is_refused_as_what_does_not_exist(stage: Stage, method: Method) -> None:
    for given in islice(calls_of(method, stage), 8):
        for name in given.keys() & method.asks_for:
            if isinstance(given[name], str):
                theirs = ask(method, stage, given)
                nobodys = ask(method, stage, {**given, name: MISSING})
                assert without_ids(theirs, given[name]) == without_ids(nobodys, MISSING), given


def test_the_survey_has_found_the_parts_of_the_view() -> None:
    found = {method.path for method in METHODS}
    assert len(found) > 150
    assert {"enqueue", "jobs.get", "jobs.aget", "flows.cancel", "signals.send", "streams.read"} <= found


def test_a_view_shows_what_is_its_own(stage: Stage) -> None:
    view, own = stage.app.scoped("alpha"), stage.them
    assert {job.id for job in view.jobs.find()} >= set(own.jobs.values())
    assert view.jobs.get(own.jobs["done"]).tenant == "alpha"
    assert view.artifacts.read(own.jobs["done"], "file") == b"Zebra"
    assert [frame.data for frame in view.streams.read(own.jobs["done"]).frames] == ["Zebra"]
    assert [flow.id for flow in view.flows.find()] == [own.flow]
    assert [one.name for one in view.schedules.list()] == ["nightly"]
    assert view.errors.show(own.fingerprint).message == "Zebra"
    assert {record.action for record in view.audit.list()} >= {"job.hold"}
    assert [one.name for one in view.budgets.list()] == ["team"]
    assert {queue.name for queue in view.queues.list()} == {"default", "busy-alpha", "webhooks", "outbox.cloud"}
    assert view.outbox.list() == [OutboxCounts("cloud", parked=1, delivered=1, abandoned=1)]
    assert view.outbox.drain("cloud").total == 1
    assert [one.id for one in view.webhooks.list()] == [own.endpoint]
    told = view.events.read(limit=1000)
    assert {event.tenant for event in told} == {"alpha"}
    assert {"operator.job.hold", "operator.budget.set"} <= {event.kind for event in told}
    with pytest.raises(NotFound):
        view.jobs.get(stage.us.jobs["done"])
