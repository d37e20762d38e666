"""Holdfast's backend in the places of Django's two, with the few attributes that their tests use besides the API."""

from __future__ import annotations

from typing import Any

from asgiref.sync import sync_to_async

from holdfast.contrib.django import HoldfastBackend, app
from holdfast.contrib.django.testing import arun_jobs, run_jobs


class DummyBackend(HoldfastBackend):
    """Stores tasks, and lists them in the order in which they were enqueued."""

    @property
    def results(self) -> list[Any]:
        """Every stored result."""
        return [self.get_result(job.id) for job in reversed(app.jobs.find())]

    def clear(self) -> None:
        """Delete every job."""
        app.jobs.bulk("delete", all=True)


class ImmediateBackend(HoldfastBackend):
    """Stores a task, runs it with a worker at once, and returns its stored result."""

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Return the result after the run."""
        result = super().enqueue(task, args, kwargs)
        run_jobs()
        result.refresh()
        return result

    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Return the result after the run."""
        result = await sync_to_async(super().enqueue)(task, args, kwargs)
        await arun_jobs()
        await result.arefresh()
        return result
