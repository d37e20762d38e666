"""Flask in this process: a context for each job, and the commands."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask, current_app, g

import holdfast
from holdfast.contrib.flask import current_holdfast, init_app
from holdfast.errors import ConfigError


@pytest.fixture
def web(app: holdfast.App) -> Flask:
    web = Flask("shop")
    web.config["SHOP"] = "teapots"
    init_app(web, app)
    return web


def test_each_job_has_an_application_context_that_is_torn_down_at_its_end(app: holdfast.App, web: Flask) -> None:
    ends: list[str] = []

    @web.teardown_appcontext
    def close(error: BaseException | None) -> None:
        ends.append(f"{g.get('name')} {type(error).__name__}")

    @app.task
    def blocking(name: str) -> str:
        assert "name" not in g
        g.name = name
        return str(current_app.config["SHOP"])

    @app.task
    async def awaiting(name: str) -> str:
        g.name = name
        return str(current_app.config["SHOP"])

    @app.task(max_attempts=1)
    def failing(name: str) -> None:
        g.name = name
        raise LookupError

    jobs: list[holdfast.Job[Any]] = [blocking.enqueue("a"), blocking.enqueue("b"), awaiting.enqueue("c")]
    failing.enqueue("d")
    app.drain()
    assert [job.result(0) for job in jobs] == ["teapots"] * 3
    assert sorted(ends) == ["a NoneType", "b NoneType", "c NoneType", "d LookupError"]


def test_the_last_application_of_a_factory_counts(app: holdfast.App, web: Flask) -> None:
    @app.task
    def name() -> str:
        return current_app.name

    init_app(Flask("second"), app)
    job = name.enqueue()
    app.drain()
    assert job.result(0) == "second"


def test_the_commands_act_on_the_app_of_the_application(app: holdfast.App, web: Flask) -> None:
    @app.task
    def greet() -> None: ...

    job = greet.enqueue()
    runner = web.test_cli_runner()
    listed = runner.invoke(args=["holdfast", "jobs", "list"])
    assert (listed.exit_code, job.id in listed.output) == (0, True)
    refused = runner.invoke(args=["holdfast", "jobs", "list", "--store", "other.db"])
    assert (refused.exit_code, "leave out --store" in refused.output) == (2, True)
    refused = runner.invoke(args=["holdfast", "jobs", "list", "--app", "shop:app"])
    assert (refused.exit_code, "has an app of its own" in refused.output) == (2, True)


def test_a_request_finds_the_app(app: holdfast.App, web: Flask) -> None:
    with web.app_context():
        assert current_holdfast() is app
    with Flask("other").app_context(), pytest.raises(ConfigError, match=r"init_app\(web, app\)"):
        current_holdfast()


def test_the_arguments_in_the_wrong_order_are_refused(app: holdfast.App, web: Flask) -> None:
    with pytest.raises(ConfigError, match=r"init_app\(web, app\)"):
        init_app(app, web)  # type: ignore[arg-type]
