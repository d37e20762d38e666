"""Tasks that name no queue get theirs from the app's routes."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from holdfast import App
from holdfast.errors import ConfigError, InvalidInput

ROUTES = {"mail.*": "mail", "mail.bulk.*": "bulk", "mail.reset": "urgent", "*": "rest"}


@pytest.mark.parametrize(
    ("name", "queue"),
    [("mail.send", "mail"), ("mail.bulk.news", "bulk"), ("mail.reset", "urgent"), ("report", "rest"), ("mail", "rest")],
)
def test_the_name_wins_then_the_longest_prefix(name: str, queue: str) -> None:
    app = App(":memory:", routes=ROUTES)
    app.task(name=name)(lambda: None)
    assert app.tasks[name].task_options.queue == queue
    assert (
        app.declare(f"{name}x").task_options.queue
        == App(":memory:", routes=ROUTES).external_task(f"{name}x").task_options.queue
    )


def test_a_job_goes_where_the_router_says_unless_its_task_or_its_call_says_otherwise() -> None:
    with closing(App(":memory:", routes={"mail.*": "mail"})) as app:

        @app.task(name="mail.send")
        def send() -> None: ...

        @app.task(name="mail.own", queue="default")
        def own() -> None: ...

        @app.task
        def other() -> None: ...

        jobs = [send.enqueue(), own.enqueue(), other.enqueue(), send.options(queue="now").enqueue()]
        assert [job.status().queue for job in jobs] == ["mail", "default", "default", "now"]


def test_a_function_may_choose_and_leave_the_default() -> None:
    app = App(":memory:", routes=lambda name: name.split(".")[0] if "." in name else None)
    app.task(name="mail.send")(lambda: None)
    app.task(name="plain")(lambda: None)
    assert [app.tasks[name].task_options.queue for name in ("mail.send", "plain")] == ["mail", "default"]


@pytest.mark.parametrize("routes", [{"": "mail"}, {"a*b": "mail"}, {"mail.*": "a queue"}, {"mail.*": ""}, {7: "mail"}])
def test_routes_that_make_no_sense_are_refused_at_once(routes: Any) -> None:
    with pytest.raises((ConfigError, InvalidInput)):
        App(":memory:", routes=routes)
