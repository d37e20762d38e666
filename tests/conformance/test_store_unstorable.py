"""What no database keeps is refused alike by every store, as the caller's mistake and not as the store's failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import App
from holdfast.errors import InvalidInput
from holdfast.model import JobFilter

from .world import World

TEXTS = ("a\x00b", "\x00", "\ud800", "x\udcffy")
CALLS: dict[str, Callable[[App, str, str], Any]] = {
    "reason of a cancel": lambda app, job, text: app.jobs.cancel(job, reason=text, actor="me"),
    "actor": lambda app, job, text: app.queues.pause("mail", actor=text),
    "reason in the audit": lambda app, job, text: app.queues.pause("mail", reason=text),
    "name of a schedule": lambda app, job, text: app.schedules.get(text),
    "name of a budget": lambda app, job, text: app.budgets.get(text),
    "name of a token": lambda app, job, text: app.tokens.get(text),
    "place in a list": lambda app, job, text: app.tokens.list(after=text),
    "worker": lambda app, job, text: app.workers.rescue(text),
    "ids": lambda app, job, text: app.jobs.bulk("cancel", ids=[text]),
    "endpoint": lambda app, job, text: app.webhooks.get(text),
    "tenant of what is pending": lambda app, job, text: app.signals.pending(tenant=text),
    "filter": lambda app, job, text: app.jobs.find(JobFilter(queue=text)),
    "filter of text": lambda app, job, text: app.jobs.search(JobFilter(text=text)),
}


@pytest.fixture
def stocked(each_store: World) -> tuple[App, str]:
    """An app with a job and a budget."""
    app = App(":memory:", clock=each_store.clock)
    app._opened = each_store.store

    @app.task
    def nothing() -> None: ...

    app.budgets.set("team", {"tokens": 5})
    return app, nothing.enqueue().id


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
@pytest.mark.parametrize("what", CALLS)
def test_a_text_that_no_database_keeps_is_refused_by_each_of_them(
    stocked: tuple[App, str], what: str, text: str
) -> None:
    with pytest.raises(InvalidInput):
        CALLS[what](*stocked, text)


@pytest.mark.parametrize("number", [2**63, -(2**70), 10**400], ids=["2**63", "-2**70", "10**400"])
def test_a_number_beyond_64_bits_is_refused_by_each_of_them(stocked: tuple[App, str], number: int) -> None:
    app, job = stocked
    for look in (
        lambda: app.signals.received(job, before=number),
        lambda: app.jobs.find(JobFilter(created_after=number)),
        lambda: app.jobs.find(JobFilter(older_than=number)),
        lambda: app.jobs.find(JobFilter(priority=number)),
    ):
        with pytest.raises(InvalidInput):
            look()


@pytest.mark.parametrize("wrong", [{"queue": 5}, {"queue": ["a"]}, {"priority": "x"}, {"limit": True}, {"limit": 2.5},
                                   {"created_after": float("nan")}, {"older_than": -(2**63)}], ids=str)  # fmt: skip
def test_a_filter_of_the_wrong_type_is_named(stocked: tuple[App, str], wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        stocked[0].jobs.find(JobFilter(**wrong))


def test_a_store_goes_on_after_it_has_refused_something(stocked: tuple[App, str]) -> None:
    app, job = stocked
    with pytest.raises(InvalidInput):
        app.jobs.cancel(job, reason="\ud800", actor="me")
    assert app.jobs.get(job).state == "ready"
    app.jobs.cancel(job, reason="really", actor="me")
    assert app.jobs.get(job).state == "cancelled"
