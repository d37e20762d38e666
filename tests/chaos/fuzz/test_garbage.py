"""Stored garbage: payloads damaged in the database fail their own jobs, as undecodable, and no others."""

from __future__ import annotations

import random
import sqlite3

import psycopg
import pytest

import holdfast
from holdfast.errors import Undecodable
from holdfast.model import JobFilter
from holdfast.model.jobs import JobState
from holdfast.storage.job_fields import COPIED, STORED
from tests.chaos.dials import Figure, scaled

from .dice import dice
from .pair import Pair

BESIDES = ("tags", "retry", "trace", "error", "result")
_COLUMNS = {"holdfast_job": STORED, "holdfast_live": (*COPIED, "error", "result")}
GARBAGE = (
    "",
    " ",
    "{",
    "[]",
    "null",
    "NaN",
    '{"n":1',
    '{"n":"1"}',
    '{"n":1}}',
    "[" * 500,
    '{"n":1,"m":2}',
    "\ufffd",
    "{}",
    "'",
)


@pytest.mark.parametrize("count", [40, pytest.param(scaled(400), marks=[pytest.mark.proof, pytest.mark.timeout(0)])])
def test_damaged_payloads_fail_their_own_jobs_alone(pair: Pair, count: int, figure: Figure) -> None:
    for app, write in ((pair.sqlite, _into_sqlite), (pair.postgres, _into_postgres)):
        rng, task = dice("garbage"), app.tasks["count"]
        # An argument of another name is perhaps one of newer code: such a job is tried again.
        jobs = app.enqueue_many([task.options(max_attempts=1).job(n) for n in range(count)])
        damaged = {job.id: _damaged(rng, f'{{"n":{n}}}') for n, job in enumerate(jobs) if n % 2}
        write(app, "payload", damaged)
        app.drain()
        found = {job.id: job for job in app.jobs.find(JobFilter(task="count", limit=count))}
        for job in jobs:
            readable = job.id not in damaged or _is_readable(task, damaged[job.id])
            assert found[job.id].state is (JobState.SUCCEEDED if readable else JobState.FAILED), damaged.get(job.id)
            assert readable or found[job.id].reason == "undecodable", (found[job.id].reason, damaged[job.id])
    figure(count, "inputs: stored garbage")


@pytest.mark.parametrize("column", BESIDES)
def test_damage_beside_the_payload_harms_no_other_job(pair: Pair, column: str) -> None:
    for app, write in ((pair.sqlite, _into_sqlite), (pair.postgres, _into_postgres)):
        rng, task = dice(column), app.tasks["count"]
        jobs = app.enqueue_many([task.options(tags=["t"], queue=column).job(n) for n in range(40)])
        damaged = {job.id: rng.choice(GARBAGE) for n, job in enumerate(jobs) if n % 2}
        write(app, column, damaged)
        app.drain(queues=[column])
        found = {job.id: job for job in app.jobs.find(JobFilter(queue=column))}
        assert all(found[job.id].state is JobState.SUCCEEDED for job in jobs if job.id not in damaged)
        assert all(job.state in (JobState.SUCCEEDED, JobState.FAILED) for job in found.values())


@pytest.mark.parametrize("column", ["payload", "tags", "result"])
def test_bytes_that_are_no_text_harm_no_other_job(pair: Pair, column: str) -> None:
    app = pair.sqlite
    jobs = app.enqueue_many([app.tasks["count"].options(queue=f"bytes-{column}").job(n) for n in range(10)])
    with sqlite3.connect(app.config.store) as connection:
        for table in _tables(column):
            connection.execute(f"update {table} set {column} = cast(x'7bff227d' as text) where id = ?", (jobs[3].id,))
    connection.close()
    app.drain(queues=[f"bytes-{column}"])
    for n, job in enumerate(jobs):
        if n != 3:
            assert app.jobs.get(job.id).state is JobState.SUCCEEDED


def _is_readable(task: holdfast.Task[..., object], text: str) -> bool:
    try:
        task.signature.decode(text)
    except Undecodable:
        return False
    return True


def _damaged(rng: random.Random, text: str) -> str:
    if rng.random() < 0.3:
        return rng.choice(GARBAGE)
    at = rng.randrange(len(text))
    return text[:at] + chr((ord(text[at]) ^ 1 << rng.randrange(7)) or 1) + text[at + 1 :]


def _into_sqlite(app: holdfast.App, column: str, texts: dict[str, str]) -> None:
    connection = sqlite3.connect(app.config.store)
    with connection:
        for table in _tables(column):
            rows = [(text, id) for id, text in texts.items()]
            connection.executemany(f"update {table} set {column} = ? where id = ?", rows)
    connection.close()


def _into_postgres(app: holdfast.App, column: str, texts: dict[str, str]) -> None:
    with psycopg.connect(app.config.store) as connection:
        cursor = connection.cursor()
        for table in _tables(column):
            rows = [(text, id) for id, text in texts.items()]
            cursor.executemany(f"update {table} set {column} = %s where id = %s", rows)


def _tables(column: str) -> list[str]:
    """Where a waiting job has it: tags are in both."""
    return [table for table, columns in _COLUMNS.items() if column in columns]
