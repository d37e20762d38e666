"""An enqueue of one job is one statement without BEGIN, and still says what is wrong where it stores nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import QueueClosed
from holdfast.storage.ops.jobs.actions import set_queue_state
from holdfast.storage.port import Op
from holdfast.storage.statements import sql


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[holdfast.App]:
    where = tmp_path / "jobs.db" if request.param == "sqlite" else request.getfixturevalue("postgres_dsn")
    store = str(where) if request.param == "sqlite" else _url(where)
    app = holdfast.App(store)
    app.declare("work", queue="shut")
    yield app
    app.close()


def _url(dsn: str) -> str:
    from psycopg.conninfo import conninfo_to_dict

    return "postgresql:///?" + "&".join(f"{name}={value}" for name, value in conninfo_to_dict(dsn).items())


def test_a_job_for_a_closed_queue_is_refused_by_name_in_both_colours(app: holdfast.App) -> None:
    app.open().write(Op(lambda tx: set_queue_state(tx, "shut", "draining")))
    with pytest.raises(QueueClosed, match="shut"):
        app.tasks["work"].enqueue()
    with pytest.raises(QueueClosed, match="shut"):
        asyncio.run(app.tasks["work"].aenqueue())
    assert app.jobs.find() == []


def test_what_only_reads_is_told_from_what_writes() -> None:
    assert sql.job_identity.only_reads
    assert sql.queue_state.only_reads
    assert not sql.insert_job.only_reads
    assert not sql.limit_lock_wait.only_reads
    assert not any(statement.only_reads for statement in sql if "update " in statement.postgres)
