"""Litestar in this process: the plugin's lifespan and dependency."""

import pytest
from litestar import Litestar, get
from litestar.di import NamedDependency
from litestar.testing import TestClient

import holdfast
from holdfast.contrib.litestar import HoldfastPlugin
from holdfast.errors import ConfigError
from tests.patience import SOON


@pytest.mark.parametrize("name", ["holdfast", "jobs"])
def test_handlers_get_the_app_and_its_worker_runs(app: holdfast.App, name: str) -> None:
    @app.task
    async def work() -> int:
        return 7

    @get("/holdfast")
    async def by_default(holdfast: NamedDependency[holdfast.App]) -> list[object]:
        return [await (await work.aenqueue()).aresult(SOON), holdfast is app]

    @get("/jobs")
    async def by_name(jobs: NamedDependency[holdfast.App]) -> list[object]:
        return [await (await work.aenqueue()).aresult(SOON), jobs is app]

    handler = by_default if name == "holdfast" else by_name
    plugin = HoldfastPlugin(app, migrate=True, worker=True, dependency=name)
    with TestClient(Litestar([handler], plugins=[plugin])) as client:
        assert client.get(f"/{name}").json() == [7, True]
    assert app.workers.list() == []


def test_the_web_application_given_for_the_app_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"holdfast\.App is needed here"):
        HoldfastPlugin(Litestar([]))  # type: ignore[arg-type]
