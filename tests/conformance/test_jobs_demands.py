"""What a job asks of workers and limits can be read back, and searched for."""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast import App, NotFound
from holdfast.model import JobFilter
from holdfast.model.jobs import Demands

from .world import World


@pytest.fixture
def app(each_store: World) -> App:
    app = App(":memory:", clock=each_store.clock)
    app._opened = each_store.store
    app.declare("work")
    return app


def test_a_job_shows_what_it_asks_for(app: App) -> None:
    app.budgets.set("team", {"tokens": 100})
    job = app.tasks["work"].options(
        requires=["gpu", "big"], affinity="llama3", version=">=2", concurrency_key="c:1", concurrency=2,
        breaker="api", reserve={"team": {"tokens": 1.5}}, webhook="https://shop.example/hook?x=1", tenant="acme",
    ).enqueue()  # fmt: skip
    assert app.jobs.demands(job.id) == Demands(
        requires=("big", "gpu"), affinity="llama3", version=">=2", concurrency_key="c:1", concurrency=2,
        breaker="api", reserve={"team": {"tokens": Decimal("1.5")}}, webhook="https://shop.example/hook?x=1",
    )  # fmt: skip


def test_a_plain_job_asks_for_nothing_and_one_that_there_is_not_is_not_found(app: App) -> None:
    assert app.jobs.demands(app.tasks["work"].enqueue().id) == Demands()
    with pytest.raises(NotFound):
        app.jobs.demands("none")


def test_jobs_are_found_by_their_affinity(app: App) -> None:
    wanted = app.tasks["work"].options(affinity="llama3").enqueue()
    app.tasks["work"].options(affinity="other").enqueue()
    app.tasks["work"].enqueue()
    assert [job.id for job in app.jobs.find(JobFilter(affinity="llama3"))] == [wanted.id]
