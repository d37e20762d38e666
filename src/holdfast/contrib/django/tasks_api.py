"""The names of Django's tasks framework: from `django.tasks`, or before Django 6.0 from the package `django-tasks`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from django.core.exceptions import ImproperlyConfigured

_NEEDED = (
    "the task backend of Holdfast needs the tasks framework, which Django has since 6.0; "
    "with an older version run: pip install django-tasks, and add 'django_tasks' to INSTALLED_APPS"
)

BaseTaskBackend: Any
Task: Any
TaskContext: Any
TaskError: Any
TaskResult: Any
TaskResultStatus: Any
InvalidTask: Any
TaskResultDoesNotExist: Any
task_enqueued: Any
task_started: Any
task_finished: Any
task_backends: Any
normalize_json: Any

if find_spec("django.tasks") is not None:
    from django.tasks import task_backends  # type: ignore[no-redef]
    from django.tasks.backends.base import BaseTaskBackend  # type: ignore[no-redef]
    from django.tasks.base import (  # type: ignore[no-redef]
        Task,
        TaskContext,
        TaskError,
        TaskResult,
        TaskResultStatus,
    )
    from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist  # type: ignore[no-redef]
    from django.tasks.signals import task_enqueued, task_finished, task_started  # type: ignore[no-redef]
    from django.utils.json import normalize_json  # type: ignore[no-redef]
else:
    try:
        import django_tasks
        from django_tasks import exceptions
        from django_tasks.backends.base import BaseTaskBackend
        from django_tasks.base import (
            Task,
            TaskContext,
            TaskError,
            TaskResult,
            TaskResultStatus,
        )
        from django_tasks.exceptions import TaskResultDoesNotExist
        from django_tasks.signals import task_enqueued, task_finished, task_started
        from django_tasks.utils import normalize_json
    except ModuleNotFoundError as missing:
        if missing.name != "django_tasks":
            raise
        raise ImproperlyConfigured(_NEEDED) from missing
    task_backends = getattr(django_tasks, "task_backends")  # noqa: B009 - its types lack it
    # Its versions up to 0.12 call it InvalidTaskError.
    InvalidTask = getattr(exceptions, "InvalidTask", None) or exceptions.InvalidTaskError

__all__ = [
    "BaseTaskBackend",
    "InvalidTask",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultStatus",
    "normalize_json",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]
