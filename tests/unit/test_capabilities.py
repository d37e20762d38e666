"""What can be promised of a store, from what it says of itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast import App
from holdfast.rules.store import supports
from holdfast.version import VERSION

SQLITE = {"backend": "sqlite", "synchronous": "full"}
POSTGRES = {"backend": "postgres", "fsync": "on", "synchronous_commit": "on", "notify": 1}


def test_every_store_answers_for_the_same_names() -> None:
    file = supports(SQLITE, on_disk=True, artifacts="files")
    memory = supports(SQLITE, on_disk=False, artifacts="table")
    server = supports(POSTGRES, on_disk=True, artifacts="table")
    assert file.keys() == memory.keys() == server.keys()
    assert (file["many_hosts"], server["many_hosts"]) == (False, True)
    assert (file["isolated_tasks"], memory["isolated_tasks"]) == (True, False)


@pytest.mark.parametrize(
    ("facts", "survives"),
    [
        (SQLITE, True),
        (SQLITE | {"synchronous": "normal"}, False),
        (POSTGRES, True),
        (POSTGRES | {"fsync": "off"}, False),
        (POSTGRES | {"synchronous_commit": "off"}, False),
    ],
)
def test_what_survives_a_loss_of_power_depends_on_the_settings(facts: dict[str, object], survives: bool) -> None:
    assert supports(facts, on_disk=True, artifacts="x")["survives_power_loss"] is survives


def test_a_database_in_memory_survives_nothing() -> None:
    assert supports(SQLITE, on_disk=False, artifacts="table")["survives_power_loss"] is False


def test_an_app_reports_on_its_store_in_both_colours(tmp_path: Path) -> None:
    app = App(tmp_path / "jobs.db", durable=False)
    app.migrate()
    found = app.capabilities()
    assert found == asyncio.run(app.acapabilities())
    assert (found.backend, found.holdfast, found.supports["artifacts"]) == ("sqlite", VERSION, "files")
    assert (found.supports["survives_power_loss"], found.schema > 10) == (False, True)
    app.close()
