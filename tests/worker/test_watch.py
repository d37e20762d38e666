"""Who waits for a job or a flow is told, whatever becomes of it, of the store, or of others who wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import App, Job, NotFound
from holdfast.client import watch as watching
from holdfast.client.watch import Watch
from holdfast.errors import FlowNotFound, StorageUnavailable
from tests.patience import SOON

from .worker_kit import Shop


@pytest.fixture(autouse=True)
def _no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_BETWEEN_ROLLS", 0.0)
    monkeypatch.setattr(watching, "_LONGEST", 0.002)


def task_of(app: App) -> Any:
    return app.declare("work").options(delay=60)


def once_waited_for(watch: Watch[Any], act: Callable[[], object]) -> None:
    """Act when somebody has begun to wait."""
    add = watch._add

    def added(job_id: str, told: Callable[[Any], None]) -> None:
        watch._add = add  # type: ignore[method-assign]
        add(job_id, told)
        act()

    watch._add = added  # type: ignore[method-assign]


def ends_while_waited_for(shop: Shop, job: Job[Any]) -> bool:
    once_waited_for(shop.app.jobs._watch, job.cancel)
    return job.wait(SOON) == "cancelled"


def fails_once(thing: object, name: str, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    original, errors = getattr(thing, name), [error]

    def failing(*args: Any) -> Any:
        if errors:
            raise errors.pop()
        return original(*args)

    monkeypatch.setattr(thing, name, failing)


def test_a_job_that_is_deleted_while_it_is_waited_for_is_not_found(shop: Shop) -> None:
    job = task_of(shop.app).enqueue()
    once_waited_for(shop.app.jobs._watch, lambda: shop.app.jobs.delete(job.id))
    with pytest.raises(NotFound, match=job.id):
        job.result(SOON)


def test_a_task_that_waits_for_it_is_told_too(shop: Shop) -> None:
    job = task_of(shop.app).enqueue()
    once_waited_for(shop.app.jobs._watch, lambda: shop.app.jobs.delete(job.id))
    with pytest.raises(NotFound, match=job.id):
        asyncio.run(job.aresult(SOON))


def test_who_waits_for_another_job_goes_on_to_wait(shop: Shop) -> None:
    acme = shop.app.scoped("acme")
    task = task_of(shop.app)
    doomed, other = acme.enqueue(task.job()), acme.enqueue(task.job())

    async def main() -> None:
        begun = asyncio.Event()
        once_waited_for(acme.jobs._watch, begun.set)
        waiting = asyncio.create_task(other.await_(SOON))
        await begun.wait()
        once_waited_for(acme.jobs._watch, lambda: shop.app.jobs.delete(doomed.id))
        with pytest.raises(NotFound):
            await doomed.await_(SOON)
        await other.acancel()
        assert await waiting == "cancelled"

    asyncio.run(main())


def test_a_flow_that_is_gone_while_it_is_waited_for_is_not_found(shop: Shop) -> None:
    with shop.app.flow("gone") as flow:
        flow.add(task_of(shop.app).job())
    handle = shop.app.flows.handle(flow.id)
    once_waited_for(shop.app.flows._watch, lambda: shop.alter("delete from holdfast_flow where id = ?", flow.id))
    with pytest.raises(FlowNotFound, match=flow.id):
        handle.wait(SOON)


def test_a_loop_that_was_closed_with_a_wait_in_it_keeps_nobody_from_being_told(small_shop: Shop) -> None:
    task = task_of(small_shop.app)
    first, second = task.enqueue(), task.enqueue()
    watch = small_shop.app.jobs._watch
    loop, begun = asyncio.new_event_loop(), asyncio.Event()
    once_waited_for(watch, begun.set)
    abandoned = loop.create_task(first.aresult())
    loop.run_until_complete(begun.wait())
    loop.close()

    told = threading.Event()
    watch.when_ended(first.id, lambda _: told.set())
    first.cancel()
    assert told.wait(SOON)
    assert not abandoned.done()
    assert ends_while_waited_for(small_shop, second)


def test_a_look_that_fails_is_repeated(
    small_shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fails_once(small_shop.app.jobs._watch, "_tell", ValueError("odd"), monkeypatch)
    assert ends_while_waited_for(small_shop, task_of(small_shop.app).enqueue())
    assert "ValueError: odd" in caplog.text


def test_who_cannot_listen_tries_again(small_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    fails_once(small_shop.app.open().wakeups, "listen", OSError("no ear left"), monkeypatch)
    assert ends_while_waited_for(small_shop, task_of(small_shop.app).enqueue())


def test_a_thread_that_ends_while_somebody_waits_has_a_successor(
    small_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, told = task_of(small_shop.app).enqueue(), threading.Event()
    watch = small_shop.app.jobs._watch
    fails_once(watch, "_attend", SystemExit(), monkeypatch)
    watch._thread = threading.current_thread()
    watch.when_ended(job.id, lambda _: told.set())
    with pytest.raises(SystemExit):
        watch._serve()
    job.cancel()
    assert told.wait(SOON)


def test_where_the_system_has_no_thread_the_caller_is_told_and_the_next_is_served(
    small_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = task_of(small_shop.app).enqueue()
    with monkeypatch.context() as patched:
        fails_once(threading.Thread, "start", RuntimeError("can't start new thread"), patched)
        with pytest.raises(StorageUnavailable, match="no thread"):
            job.wait(SOON)
    assert ends_while_waited_for(small_shop, job)
