"""The engine's own queues, tasks and breakers are closed to callers, whichever way they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.errors import ReservedName
from holdfast.model.limits import JobLimits, keyed_scope, tenant_breaker

from .web_kit import Site

QUEUES = ["webhooks", "outbox.cloud", "outbox.other"]
TASKS = ["webhook.deliver", "outbox.cloud", "outbox.other"]


def _nothing() -> None: ...


@pytest.fixture
def app(app: holdfast.App) -> holdfast.App:
    @app.destination("cloud")
    async def deliver(events: list[holdfast.model.OutboxEvent]) -> None: ...

    return app


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize(
    "way",
    [
        lambda app, queue: app.tasks["double"].options(queue=queue).enqueue(1),
        lambda app, queue: app.enqueue_many([app.tasks["double"].options(queue=queue).job(1)]),
        lambda app, queue: app.scoped("acme").enqueue(app.tasks["double"].options(queue=queue).job(1)),
        lambda app, queue: _flow(app, app.tasks["double"].options(queue=queue).job(1)),
        lambda app, queue: _flow(app, app.tasks["double"].job(1), app.tasks["double"].options(queue=queue).job(1)),
        lambda app, queue: app.schedules.create("s", app.tasks["double"].options(queue=queue).job(1), every=60),
        lambda app, queue: app.jobs.move(app.tasks["double"].enqueue(1), queue),
        lambda app, queue: app.jobs.bulk("move", ids=["x"], queue=queue),
        lambda app, queue: app.declare("theirs", queue=queue),
        lambda app, queue: app.task(name="mine", queue=queue)(_nothing),
    ],
)
def test_no_caller_puts_a_job_into_a_queue_of_the_engine(
    app: holdfast.App, queue: str, way: Callable[[holdfast.App, str], Any]
) -> None:
    with pytest.raises(ReservedName) as refused:
        way(app, queue)
    assert (refused.value.code, refused.value.kind, refused.value.name) == ("reserved_name", "queue", queue)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "way",
    [
        lambda app, task: app.external_task(task).enqueue(data=1),
        lambda app, task: app.declare(task),
        lambda app, task: app.task(name=task)(_nothing),
    ],
)
def test_no_caller_enqueues_a_task_of_the_engine_by_its_name(
    app: holdfast.App, task: str, way: Callable[[holdfast.App, str], Any]
) -> None:
    with pytest.raises(ReservedName):
        way(app, task)


def test_an_event_gets_into_an_outbox_by_a_put_alone(app: holdfast.App) -> None:
    destination = app.tasks["outbox.cloud"]
    for way in (destination.enqueue, destination.job, destination.options(priority=3).enqueue):
        with pytest.raises(ReservedName):
            way(data="forged")
    assert app.outbox("cloud").put("good") is not None
    assert [job.task for job in app.jobs.find()] == ["outbox.cloud"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/jobs", {"task": "outbox.cloud", "arguments": {"data": "forged"}}),
        ("/jobs", {"task": "webhook.deliver", "arguments": {}}),
        ("/jobs", {"task": "double", "arguments": [1], "options": {"queue": "webhooks"}}),
        ("/jobs/bulk", {"jobs": [{"task": "double", "arguments": [1], "options": {"queue": "outbox.cloud"}}]}),
        ("/jobs/run", {"task": "outbox.cloud", "arguments": {"data": "forged"}}),
        ("/flows", {"name": "f", "members": {"a": {"task": "outbox.cloud", "arguments": {"data": "forged"}}}}),
        ("/jobs", {"task": "double", "arguments": [1], "options": {"breaker": "webhook:abc"}}),
        ("/jobs", {"task": "double", "arguments": [1], "options": {"breaker": "tenant:globex:stripe"}}),
        ("/work/register", {"name": "w", "queues": ["outbox.cloud"], "tasks": ["double"]}),
        ("/work/register", {"name": "w", "queues": ["default"], "tasks": ["outbox.cloud"]}),
    ],
)
def test_over_http_they_are_refused_with_their_own_code(site: Site, path: str, body: dict[str, Any]) -> None:
    answer = site.with_settings(any_task=True).call("POST", f"/api/v1{path}", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "reserved_name")
    assert site.app.jobs.find() == []


def test_a_tenant_cannot_open_the_breaker_of_anothers_webhook(site: Site, app: holdfast.App) -> None:
    victim = app.scoped("globex").webhooks.add("https://hooks.example.com/x")
    attacker = site.as_role("operator", tenant="acme")
    body = {"task": "broken", "arguments": ["x"], "options": {"breaker": f"webhook:{victim.id}", "queue": "mail"}}
    assert attacker.call("POST", "/api/v1/jobs", json=body).status_code == 422
    assert app.breakers.get(f"webhook:{victim.id}").state == "closed"


def test_a_breaker_that_a_tenant_names_is_its_own(site: Site, app: holdfast.App) -> None:
    app.breakers.set("stripe", failures=2, open_for=60)
    attacker = site.as_role("operator", tenant="acme")
    body = {"task": "broken", "arguments": ["x"], "options": {"breaker": "stripe", "queue": "mail"}}
    for _ in range(3):
        attacker.post("/jobs", body)
        app.drain()
    assert app.breakers.get("stripe").state == "closed"
    assert app.breakers.get(tenant_breaker("acme", "stripe")).state == "open"
    other = app.enqueue(app.tasks["double"].options(breaker="stripe").job(4))
    app.drain()
    assert other.result(0) == 8


def test_a_rate_that_a_tenant_names_is_its_own(site: Site, app: holdfast.App) -> None:
    """The program calls Stripe twice an hour. A tenant that takes those tokens would stop the program's jobs."""
    app.limits.set_rate("stripe", capacity=2, per_second=1 / 1800)
    attacker = site.as_role("operator", tenant="acme")
    made = [attacker.post("/jobs", _rated("stripe"))["id"] for _ in range(3)]
    app.drain()
    assert [str(app.jobs.get(one).state) for one in made] == ["succeeded", "succeeded", "ready"]
    other = app.enqueue(app.tasks["double"].options(rate="stripe").job(4))
    app.drain()
    assert other.result(0) == 8
    assert [(rate.scope, rate.keys) for rate in app.limits.show().rates] == [("stripe", 1)]


def test_a_tenant_cannot_take_the_tokens_of_a_tasks_rate_or_of_anothers_key(site: Site, app: holdfast.App) -> None:
    app.limits.set_rate("task:double", capacity=1, per_second=1 / 3600)
    app.limits.set_rate("mail", capacity=3, per_second=1 / 3600)
    victim, keyed = app.scoped("globex"), {"rate": "mail", "rate_key": "bob"}
    first = victim.enqueue(app.tasks["double"].options(**keyed).job(1))
    app.drain()
    attacker = site.as_role("operator", tenant="acme")
    for scope in ("task:double", keyed_scope("mail", "globex", "bob"), keyed_scope("mail", "globex", "")):
        for _ in range(3):
            attacker.post("/jobs", _rated(scope))
    app.drain()
    later = [victim.enqueue(app.tasks["double"].options(**keyed).job(2)) for _ in range(2)]
    own = app.enqueue(app.tasks["double"].options(rate="task:double").job(3))
    app.drain()
    assert [job.result(0) for job in (first, *later, own)] == [2, 4, 4, 6]


def test_a_rate_with_a_key_stays_the_keys_of_the_tenant(site: Site, app: holdfast.App) -> None:
    app.limits.set_rate("mail", capacity=1, per_second=1 / 3600)
    caller = site.as_role("operator", tenant="acme")
    made = [caller.post("/jobs", _rated("mail", rate_key=key))["id"] for key in ("ann", "bob", "ann")]
    app.drain()
    assert [str(app.jobs.get(one).state) for one in made] == ["succeeded", "succeeded", "ready"]
    assert "acme" in str(app.jobs.explain(made[2]).reasons)


def test_a_quota_that_a_tenant_names_is_its_own(site: Site, app: holdfast.App) -> None:
    app.quotas.set("exports", limit=2, window=3600)
    attacker, body = site.as_role("operator", tenant="acme"), {"task": "double", "arguments": [1]}
    made = [attacker.post("/jobs", {**body, "options": {"quota": "exports"}})["id"] for _ in range(3)]
    app.drain()
    assert all("no quota 'exports'" in str(app.jobs.get(one).error) for one in made)
    app.scoped("acme").quotas.set("exports", limit=2, window=3600)
    made = [attacker.post("/jobs", {**body, "options": {"quota": "exports"}})["id"] for _ in range(3)]
    other = app.enqueue(app.tasks["double"].options(quota="exports").job(4))
    app.drain()
    assert other.result(0) == 8
    assert [str(app.jobs.get(one).state) for one in made] == ["succeeded", "succeeded", "ready"]


def test_a_budget_that_a_tenant_names_is_its_own(site: Site, app: holdfast.App) -> None:
    app.budgets.set("team", {"usd": 10})
    attacker, body = site.as_role("operator", tenant="acme"), {"task": "double", "arguments": [1]}
    options = {"reserve": {"team": {"usd": 10}}}
    made = attacker.post("/jobs", {**body, "options": options})["id"]
    app.drain()
    assert "no budget 'team'" in str(app.jobs.get(made).error)
    app.scoped("acme").budgets.set("team", {"usd": 10})
    made = attacker.post("/jobs", {**body, "options": options})["id"]
    app.drain()
    assert str(app.jobs.get(made).state) == "succeeded"


def test_a_concurrency_key_that_a_tenant_names_is_its_own(site: Site, app: holdfast.App) -> None:
    """One slot of the key that a tenant of the program holds is not one of the program's."""
    attacker = site.as_role("operator", tenant="acme")
    body = {"task": "double", "arguments": [1], "options": {"concurrency_key": "stripe", "concurrency": 1}}
    held = attacker.post("/jobs", body)["id"]
    (lane,) = {JobLimits.decode(app.jobs.get(held).limits or "{}").key}
    own = app.enqueue(app.tasks["double"].options(concurrency_key="stripe", concurrency=1).job(1))
    assert JobLimits.decode(app.jobs.get(own.id).limits or "{}").key != lane


def _rated(rate: str, **options: Any) -> dict[str, Any]:
    return {"task": "double", "arguments": [1], "options": {"rate": rate, **options}}


def _flow(app: holdfast.App, request: Any, on_success: Any = None) -> None:
    flow = app.flow("f", on_success=on_success)
    flow.add(request, name="a")
    flow.start()
