"""The project's tasks, of Django's tasks framework and one of Holdfast's own."""

from __future__ import annotations

import os
from typing import Any

from holdfast.contrib.django import task as holdfast_task

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task


class OutOfInk(Exception):
    """An exception of the project."""


@task
def add(a: int, b: int) -> int:
    return a + b


@task
async def multiply(a: int, b: int) -> int:
    return a * b


@task
def echo(*args: Any, **kwargs: Any) -> Any:
    return [list(args), kwargs]


@task
def fail(message: str = "no luck") -> None:
    raise OutOfInk(message)


@task
async def fail_async() -> None:
    raise ValueError("no luck either")


@task
def leave() -> None:
    raise SystemExit("enough")


@task
def return_object() -> object:
    return object()


@task(takes_context=True)
def tell(context: Any) -> list[Any]:
    result = context.task_result
    return [result.id, context.attempt, str(result.status), len(result.errors), result.task.priority]


@task(takes_context=True)
def twice(context: Any) -> list[str]:
    if context.attempt == 1:
        raise OutOfInk("the first time")
    return [error.exception_class_path for error in context.task_result.errors]


@task(queue_name="mail", priority=10)
def send() -> str:
    return "sent"


@task(takes_context=True)
def apart(context: Any) -> list[Any]:
    if context.attempt == 1:
        raise OutOfInk("the first time")
    return [os.getpid(), len(context.task_result.errors)]


@task(backend="at_once")
def anywhere() -> int:
    return os.getpid()


@holdfast_task
def native() -> str:
    return "a job of Holdfast's own"
