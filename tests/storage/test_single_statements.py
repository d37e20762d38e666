"""An enqueue of one job is one statement without BEGIN, few calls away, and says what is wrong if it stores nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

import holdfast
from holdfast.errors import QueueClosed
from holdfast.storage.ops.jobs.actions import set_queue_state
from holdfast.storage.port import Op
from holdfast.storage.statements import sql

MOST_CALLS: Final = {"sqlite": 35, "postgres": 43}
"""Python calls of Holdfast from `task.enqueue()` to the INSERT. A new one needs a reason: each is paid by every job."""
PACKAGE: Final = str(Path(holdfast.__file__).parent)


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


def test_few_calls_are_between_a_task_and_its_insert(app: holdfast.App) -> None:
    @app.task
    def greet(user_id: int) -> None: ...

    store = app.open()
    for n in range(10):
        greet.enqueue(n)
    # The least of several: once in 256 milliseconds an id needs new random bits.
    assert min(calls_to_insert(lambda: greet.enqueue(7)) for _ in range(5)) <= MOST_CALLS[store.backend]


def calls_to_insert(enqueue: Callable[[], object]) -> int:
    """Count the calls of Holdfast's functions, until one of a transaction executes a statement."""
    calls, sent = 0, False

    def note(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls, sent
        by = frame if event == "c_call" else frame.f_back
        name = arg.__name__ if event == "c_call" else frame.f_code.co_name if event == "call" else ""
        if name == "execute" and by is not None and by.f_code.co_filename.endswith("tx.py"):
            sent = True
        elif event == "call" and not sent:
            calls += frame.f_code.co_filename.startswith(PACKAGE)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        enqueue()
    finally:
        sys.setprofile(before)
    assert sent
    return calls
