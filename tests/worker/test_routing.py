"""Work goes only where it can run: capabilities, versions, grants."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from holdfast import App, Context, InvalidInput
from holdfast.clock import ManualClock
from holdfast.errors import ConfigError, IllegalMove, InvalidVersion
from holdfast.model.answers import JobFilter
from tests.patience import SOON

from .worker_kit import Shop, live


def running(app: App, **options: Any) -> Any:
    """A task that says by whom it is run."""

    @app.task(name="work", **options)
    async def work(ctx: Context) -> str:
        (own,) = [worker.name for worker in await app.workers.alist() if worker.id == ctx.job.worker]
        return own

    return work


@live
async def test_a_call_asks_for_capabilities_besides_those_of_its_task(shop: Shop) -> None:
    work = running(shop.app, requires=["gpu"])
    job = await work.options(requires=["big"]).aenqueue()
    assert (await shop.app.jobs.aexplain(job.id)).reasons[0].code == "no_worker"
    async with shop.working(capabilities=("gpu",), name="small"):
        (reason,) = (await shop.app.jobs.aexplain(job.id)).reasons
        assert (reason.code, "big, gpu" in reason.text) == ("capability_missing", True)
        async with shop.working(capabilities=("gpu", "big", "fast"), name="large"):
            assert await job.aresult(SOON) == "large"


@live
async def test_a_pinned_job_waits_for_a_worker_with_that_version_of_its_task(shop: Shop) -> None:
    new = App(shop.url, clock=shop.clock)
    old_work, new_work = running(shop.app, version="1.9"), running(new, version="2.1")
    job, free = await old_work.options(version=">=2,<3").aenqueue(), await old_work.aenqueue()
    async with shop.working(name="old"):
        assert await free.aresult(SOON) == "old"
        (reason,) = (await shop.app.jobs.aexplain(job.id)).reasons
        assert reason.code == "version_missing"
        assert "1.9" in reason.text
        async with shop.working(new.tasks, name="new"):
            assert await job.aresult(SOON) == "new"
    assert new_work.task_options.version == "2.1"
    new.close()


@live
async def test_a_granted_job_goes_to_the_named_worker_as_soon_as_that_one_looks(shop: Shop) -> None:
    work = running(shop.app)
    job = await work.aenqueue()
    grant = await shop.app.jobs.agrant(job, worker="chosen", expires=60, actor="me")
    assert await shop.app.jobs.agrants() == [grant]
    async with shop.working(name="other"), shop.working(name="chosen"):
        assert await job.aresult(SOON) == "chosen"
    assert await shop.app.jobs.agrants() == []
    (record,) = await shop.app.audit.alist(action="job.grant")
    assert (record.actor, record.target) == ("me", job.id)
    with pytest.raises(IllegalMove):
        await shop.app.jobs.agrant(job, worker="chosen")


@live
async def test_others_get_it_when_the_grant_is_over(real_shop: Shop) -> None:
    work = running(real_shop.app)
    job = await work.aenqueue()
    await real_shop.app.jobs.agrant(job, worker="gone", expires=0.3)
    async with real_shop.working(name="other", poll=5.0):
        assert await job.aresult(4) == "other"


@live
async def test_a_job_that_nobody_can_run_is_said_aloud(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    work = running(shop.app)
    job = await work.options(requires=["quantum"]).aenqueue()
    async with shop.working(lead_interval=0.02) as worker:
        while not worker.services.leader.holds("totals"):
            await asyncio.sleep(0.01)
        with caplog.at_level(logging.ERROR, "holdfast.worker"):
            for _ in range(3):
                await worker.services.queue_totals.run_once()
        (said,) = [
            record.getMessage() for record in caplog.records if "others like it, cannot run" in record.getMessage()
        ]
        assert job.id in said
        assert "quantum" in said
        (found,) = await shop.app.queues.astranded()
        assert (found.code, found.job) == ("capability_missing", job.id)
        listed = await shop.app.jobs.afind(JobFilter(queue="default"))
        assert (await shop.app.jobs.aunrunnable(listed))[job.id].code == "capability_missing"


@pytest.mark.parametrize(
    "requires",
    ["gpu", [f"c{n}" for n in range(257)], ["x" * 128] * 2 + [f"{n:03}" + "x" * 125 for n in range(32)], [""], ["a b"]],
    ids=["text", "257", "too long", "empty", "blank"],
)
def test_capabilities_that_cannot_be_are_refused_everywhere(requires: Any) -> None:
    app = App(":memory:", clock=ManualClock())
    with pytest.raises(InvalidInput):
        app.task(requires=requires)(lambda: None)
    with pytest.raises(InvalidInput):
        app.declare("elsewhere", requires=requires)
    plain = app.declare("plain")
    with pytest.raises(InvalidInput):
        plain.options(requires=requires).enqueue()
    if isinstance(requires, list) and all(requires):
        with pytest.raises((InvalidInput, ConfigError)):
            app.settings(capabilities=tuple(requires))
    app.close()


def test_as_many_capabilities_as_are_allowed_are_allowed() -> None:
    app = App(":memory:", clock=ManualClock())
    many = [f"c{n}" for n in range(256)]
    # 32 of 127 bytes and the 31 commas between them are 4,095 bytes; one more makes 4,096.
    long = [f"{n:02}" + "x" * 125 for n in range(31)] + ["31" + "x" * 126]
    assert len(",".join(long)) == 4_096
    for requires in (many, long):
        app.declare(f"task-{len(requires)}", requires=requires).enqueue()
        assert app.settings(capabilities=tuple(requires)).worker.capabilities == tuple(requires)
    app.close()


@pytest.mark.parametrize("version", ["", "newest", ">=3,<2", 2])
def test_a_range_that_cannot_be_is_refused(version: Any) -> None:
    app = App(":memory:", clock=ManualClock())
    task = app.declare("work")
    with pytest.raises(InvalidVersion):
        task.options(version=version).enqueue()
    with pytest.raises(InvalidVersion):
        app.task(version=">=2")(lambda: None)
    app.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"residents": 0},
        {"resident": ("a", "b")},
        {"resident": ("a b",)},
        {"affinity_wait": 0.0},
        {"affinity_wait": float("nan")},
        {"capabilities": ("task:other",)},
        {"capabilities": ("worker:other",)},
    ],
    ids=str,
)
def test_wrong_settings_of_a_worker_are_told_before_anything_runs(wrong: Any) -> None:
    app = App(":memory:")
    with pytest.raises((ConfigError, InvalidInput)):
        app.settings(**wrong)


@pytest.mark.parametrize("affinity", ["", "a b", "a,b", "\n", 5])
def test_an_affinity_is_one_word(affinity: Any) -> None:
    app = App(":memory:", clock=ManualClock())
    with pytest.raises(InvalidInput):
        app.declare("work").options(affinity=affinity).enqueue()
    with pytest.raises(InvalidInput):
        app.task(affinity=affinity)(lambda: None)
    app.close()


@pytest.mark.parametrize(
    "wrong", [{"worker": ""}, {"worker": "a\nb"}, {"expires": 0}, {"expires": -1}, {"expires": "x"}]
)
def test_a_grant_that_cannot_be_is_refused(wrong: Any) -> None:
    app = App(":memory:", clock=ManualClock())
    job = app.declare("work").enqueue()
    given: dict[str, Any] = {"worker": "gpu-1", **wrong}
    with pytest.raises(InvalidInput):
        app.jobs.grant(job, **given)
    assert app.jobs.grants() == []
    app.close()
