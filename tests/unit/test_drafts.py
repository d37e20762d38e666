"""What a task's calls have in common is checked once; what is said for one call counts for that call alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import holdfast


@pytest.fixture
def app() -> Iterator[holdfast.App]:
    app = holdfast.App(":memory:")
    yield app
    app.close()


def test_options_that_are_given_after_a_first_call_count(app: holdfast.App) -> None:
    @app.task(priority=1)
    def work(n: int) -> None: ...

    first = work.enqueue(1).status()
    urgent = work.options(priority=7, tags=["x"])
    second, third = urgent.enqueue(2).status(), urgent.enqueue(3).status()
    fourth = urgent.options(queue="other").enqueue(4).status()
    fifth = work.enqueue(5).status()
    assert [job.priority for job in (first, second, third, fourth, fifth)] == [1, 7, 7, 7, 1]
    assert [job.queue for job in (third, fourth)] == ["default", "other"]
    assert len({job.id for job in (first, second, third, fourth, fifth)}) == 5


def test_each_tenants_jobs_are_its_own(app: holdfast.App) -> None:
    @app.task
    def work() -> None: ...

    made = [work.options(tenant=tenant).enqueue() for tenant in ("a", "b")]
    made += [app.scoped(tenant).enqueue(work.job()) for tenant in ("a", "b", "a")]
    assert [job.status().tenant for job in (*made, work.enqueue())] == ["a", "b", "a", "b", "a", ""]


def test_nothing_to_enqueue_is_nothing_wrong(app: holdfast.App) -> None:
    assert app.enqueue_many([]) == []


def test_an_option_that_is_refused_is_refused_each_time(app: holdfast.App) -> None:
    @app.task
    def work() -> None: ...

    wrong = work.options(concurrency=3)
    for _ in range(2):
        with pytest.raises(holdfast.InvalidInput, match="concurrency_key"):
            wrong.enqueue()
