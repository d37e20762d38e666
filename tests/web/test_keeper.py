"""A keeper: what workers do beside their work, where all workers are elsewhere."""

from __future__ import annotations

import pytest

import holdfast
from tests.patience import SOON

QUICK = {"rescue_interval": 0.2, "lease": 2.0, "lead_interval": 0.1}


@pytest.fixture(autouse=True)
def loud(app: holdfast.App) -> None:
    app.queues.set("default", events="all")


def test_a_silent_worker_elsewhere_is_found_out_and_nothing_of_ours_is_run(app: holdfast.App) -> None:
    jobs = [app.enqueue(app.tasks["double"].job(n)) for n in range(2)]
    me = app.remote.register("elsewhere", ["default"], ["double"], lease=5)
    (leased,) = app.remote.claim(me.worker)
    feed = app.events(kinds="job", timeout=SOON)
    with app.maintenance_worker(**QUICK):
        rescued = next(iter(feed))
    assert (rescued.kind, rescued.job) == ("job.rescued", leased.id)
    assert [app.jobs.get(job.id).state for job in jobs] == ["ready", "ready"]


def test_schedules_are_fired(app: holdfast.App) -> None:
    app.schedules.create("tick", app.tasks["double"].job(1), every=1)
    feed = app.events(kinds="job.enqueued", timeout=SOON)
    with app.maintenance_worker(**QUICK):
        assert next(iter(feed)).task == "double"
