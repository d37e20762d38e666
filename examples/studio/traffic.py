"""The studio's customers, who enqueue as long as it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from holdfast import HoldfastError
from holdfast.model import JobFilter, JobState
from holdfast.tasks import JobRequest

from . import tasks
from .pace import chance

_TENANTS: Final = ("acme", "acme", "acme", "globex", "globex", "initech")
TOPICS: Final = ("Churn in the south", "What our users asked for", "Invoices that were paid late", "A market of one")
_LOCALES: Final = ("en", "de", "fr", "pt")
_BEAT: Final = 1.5
_UNAPPROVED: Final = 6


def arrivals(n: int) -> list[JobRequest[Any]]:
    """About so many jobs, as a moment brings them."""
    return [_one() for _ in range(n)]


def _one() -> JobRequest[Any]:
    tenant = chance.choice(_TENANTS)
    which = chance.random()
    if which < 0.55:
        return tasks.welcome.options(tenant=tenant).job(chance.randrange(1, 90_000), chance.choice(_LOCALES))
    if which < 0.80:
        return tasks.thumbnail.options(tenant=tenant).job(f"IMG_{chance.randrange(1_000, 9_999)}.jpg")
    if which < 0.92:
        return tasks.charge.options(tenant=tenant, priority=5, tags=["invoice"]).job(
            chance.randrange(10_000, 99_999), chance.randrange(500, 90_000)
        )
    account = f"{tenant}-{chance.randrange(1, 9)}"
    return tasks.sync.options(tenant=tenant, concurrency_key=tenant, concurrency=2).job(account)


class Traffic:
    """Enqueues in a thread of its own until it is stopped."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="studio traffic", daemon=True)
        self._beats = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stopped.wait(_BEAT):
            self._beats += 1
            for act in self._due():
                try:
                    act()
                except HoldfastError:
                    # A queue that was paused or closed by whoever tries the dashboard; that is what it is for.
                    continue

    def _due(self) -> list[Callable[[], object]]:
        acts: list[Callable[[], object]] = [lambda: tasks.app.enqueue_many(arrivals(chance.randrange(3)))]
        if self._beats % 8 == 1:
            acts.append(lambda: tasks.transcode.options(tenant="globex").enqueue(f"take-{self._beats}.mov"))
        if self._beats % 20 == 2:
            acts.append(lambda: tasks.start_flow("regions"))
        if self._beats % 14 == 3:
            acts.append(_write_report)
        return acts


def _write_report() -> None:
    """Another report, unless enough wait for approval already."""
    waiting = tasks.app.jobs.find(JobFilter(state=JobState.SUSPENDED, limit=_UNAPPROVED))
    if len(waiting) < _UNAPPROVED:
        tasks.report.options(tenant="acme").enqueue(chance.choice(TOPICS))
