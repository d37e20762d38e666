"""Durable background tasks, without a framework: what may be added, and when it is stored."""

from __future__ import annotations

import asyncio
import os

import pytest

import holdfast
from holdfast.contrib.background import DurableBackgroundTasks
from holdfast.errors import ConfigError, InvalidArguments


def arguments(app: holdfast.App) -> list[str]:
    return sorted(job.payload for job in app.jobs.find())


def test_tasks_are_stored_when_the_block_ends(app: holdfast.App) -> None:
    @app.task
    def greet(name: str) -> None: ...

    with DurableBackgroundTasks(app) as tasks:
        tasks.add_task(greet, "ada")
        tasks.add_task(greet.options(delay=60), name="bob")
        assert arguments(app) == []
    assert arguments(app) == ['{"name":"ada"}', '{"name":"bob"}']


def test_tasks_are_stored_when_an_async_block_ends(app: holdfast.App) -> None:
    @app.task
    async def greet(name: str) -> None: ...

    async def request() -> None:
        async with DurableBackgroundTasks(app) as tasks:
            tasks.add_task(greet, "ada")
        await tasks()  # as a response calls its background task

    asyncio.run(request())
    assert arguments(app) == ['{"name":"ada"}']


def test_a_block_that_raises_stores_nothing(app: holdfast.App) -> None:
    @app.task
    def greet(name: str) -> None: ...

    def request() -> None:
        with DurableBackgroundTasks(app) as tasks:
            tasks.add_task(greet, "ada")
            raise LookupError

    with pytest.raises(LookupError):
        request()
    assert arguments(app) == []


def test_a_function_that_was_registered_without_a_decorator_is_found(app: holdfast.App) -> None:
    def greet(name: str) -> None: ...

    app.task(greet)
    with DurableBackgroundTasks(app) as tasks:
        tasks.add_task(greet, "ada")
    assert arguments(app) == ['{"name":"ada"}']


@pytest.mark.parametrize("plain", [os.system, lambda: None, "os.system"])
def test_a_function_that_is_no_task_is_refused_at_once(app: holdfast.App, plain: object) -> None:
    with DurableBackgroundTasks(app) as tasks, pytest.raises(ConfigError, match=r"put @app\.task above it"):
        tasks.add_task(plain, "ls")  # type: ignore[arg-type]


def test_a_task_of_another_app_and_wrong_arguments_are_refused_at_once(app: holdfast.App) -> None:
    @app.task
    def greet(name: str) -> None: ...

    other = holdfast.App(":memory:")
    with DurableBackgroundTasks(app) as tasks:
        with pytest.raises(InvalidArguments):
            tasks.add_task(greet)
        with pytest.raises(InvalidArguments):
            tasks.add_task(greet, object())
        with pytest.raises(ConfigError, match="of another app"):
            tasks.add_task(other.task(name="theirs")(lambda: None))
    assert arguments(app) == []


def test_tasks_are_added_inside_the_block_only(app: holdfast.App) -> None:
    @app.task
    def greet(name: str) -> None: ...

    with pytest.raises(ConfigError, match="async with DurableBackgroundTasks"):
        DurableBackgroundTasks(app).add_task(greet, "ada")
    with DurableBackgroundTasks(app) as tasks:
        pass
    with pytest.raises(ConfigError, match="at the end of a block"):
        tasks.add_task(greet, "ada")
    with pytest.raises(ConfigError, match=r"a holdfast\.App is needed"):
        DurableBackgroundTasks(greet)  # type: ignore[arg-type]
