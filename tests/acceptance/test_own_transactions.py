"""Real web programs whose first request enqueues in its own transaction, on a database Holdfast has never seen."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdfast
from tests.acceptance.conftest import url_of
from tests.acceptance.fleet import ROOT
from tests.patience import SOON
from tests.storage.lenders import sqlalchemy_url
from tests.storage.test_first_use import make_older
from tests.storage.test_foreign_django import in_postgres, in_sqlite

pytestmark = pytest.mark.thorough

WAYS = ("option", "within")
SQLITE_TABLE = "create table if not exists orders (id integer primary key, item text)"
POSTGRES_TABLE = "create table if not exists orders (id bigserial primary key, item text)"
shops = pytest.mark.parametrize("shop", ["with_sessions", "with_async_sessions", "with_django"], indirect=True)


@dataclass
class Shop:
    """A program that serves, and the store it shares with workers."""

    address: tuple[str, int]
    store: str
    environment: dict[str, str]

    def order(self, way: str, item: str = "cup") -> tuple[int, Any]:
        return self._ask("POST", f"/orders/{way}?item={item}")

    @property
    def orders(self) -> int:
        return int(self._ask("GET", "/orders")[1])

    def _ask(self, method: str, path: str) -> tuple[int, Any]:
        connection = HTTPConnection(*self.address, timeout=SOON)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, text.decode() if answer.status == 500 else json.loads(text)
        finally:
            connection.close()

    def result(self, job_id: str) -> Any:
        """What a job gave when a worker in a process of its own has run it."""
        command = [sys.executable, "-m", "holdfast", "worker", "tests.acceptance.shops.jobs:app"]
        worker = subprocess.Popen(command, env=self.environment, cwd=ROOT, stderr=subprocess.DEVNULL)
        app = holdfast.App(self.store)
        try:
            return app.job(job_id).result(2 * SOON)
        finally:
            app.close()
            worker.terminate()
            worker.wait(SOON)


@pytest.fixture(params=["new", "one version behind"])
def sqlite_file(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = str(tmp_path / "shop.db")
    if request.param == "one version behind":
        make_older(path)
    return path


@pytest.fixture
def shop(request: pytest.FixtureRequest, sqlite_file: str, tmp_path: Path) -> Iterator[Shop]:
    driver = "aiosqlite" if request.param == "with_async_sessions" else ""
    database = sqlalchemy_url(sqlite_file, driver).render_as_string()
    if request.param == "with_django":
        database = json.dumps(in_sqlite(sqlite_file))
    yield from serve(request.param, sqlite_file, database, SQLITE_TABLE, tmp_path)


@pytest.fixture
def postgres_shop(request: pytest.FixtureRequest, postgres_dsn: str, tmp_path: Path) -> Iterator[Shop]:
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute("drop schema public cascade")
        connection.execute("create schema public")
    driver = "asyncpg" if request.param == "with_async_sessions" else ""
    database = sqlalchemy_url(postgres_dsn, driver).render_as_string(hide_password=False)
    if request.param == "with_django":
        database = json.dumps(in_postgres(postgres_dsn))
    yield from serve(request.param, url_of(postgres_dsn), database, POSTGRES_TABLE, tmp_path)


def serve(module: str, store: str, database: str, table: str, folder: Path) -> Iterator[Shop]:
    environment = os.environ | {
        "HOLDFAST_STORE": store,
        "SHOP_DATABASE": database,
        "SHOP_TABLE": table,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
    }
    # Listening before the program starts: its first request waits for it in the kernel.
    with socket.create_server(("127.0.0.1", 0)) as listening, (folder / "shop.log").open("wb") as log:
        command = [sys.executable, "-m", "tests.acceptance.shops.serve", module, str(listening.fileno())]
        process = subprocess.Popen(
            command, env=environment, cwd=ROOT, stdout=log, stderr=log, pass_fds=[listening.fileno()]
        )
        try:
            yield Shop(listening.getsockname(), store, environment)
        finally:
            process.terminate()
            process.wait(SOON)


@shops
@pytest.mark.timeout(240)
def test_from_the_first_request_on_jobs_follow_the_transactions_of_the_program(shop: Shop, tmp_path: Path) -> None:
    for way in WAYS:
        assert shop.order(way, "nothing")[0] == 409
    assert (shop.orders, jobs_in(shop.store)) == (0, [])

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(shop.order, WAYS * 2))
    assert [status for status, _ in answers] == [200] * 4, (tmp_path / "shop.log").read_text()
    assert (shop.orders, len(jobs_in(shop.store))) == (4, 4)

    status, why = shop.order("forgotten")
    assert (status, why.split(":")[0]) == (503, "SelfLocked"), why
    assert "app.within" in why
    assert (shop.orders, len(jobs_in(shop.store))) == (4, 4)

    assert {shop.result(job_id) for _, job_id in answers} == {f"receipt for order {n}" for n in range(1, 5)}


@pytest.mark.parametrize("postgres_shop", ["with_sessions", "with_async_sessions", "with_django"], indirect=True)
@pytest.mark.timeout(240)
def test_on_postgres_a_first_request_says_at_once_what_to_run_and_then_works(postgres_shop: Shop) -> None:
    status, why = postgres_shop.order("within")
    assert (status, why.split(":")[0]) == (503, "SchemaMismatch"), why
    assert "holdfast db migrate" in why
    assert postgres_shop.orders == 0
    app = holdfast.App(postgres_shop.store)
    app.migrate()
    app.close()
    assert postgres_shop.order("option", "nothing")[0] == 409
    status, job_id = postgres_shop.order("within")
    assert (status, postgres_shop.orders) == (200, 1)
    assert postgres_shop.result(job_id).startswith("receipt for order")


PLAIN = """
import sqlite3
from tests.acceptance.shops.jobs import app, receipt

db = sqlite3.connect(app.config.store)
db.execute("create table orders (id integer primary key, item text)")
db.commit()
try:
    with db:
        order = db.execute("insert into orders (item) values ('nothing') returning id").fetchone()[0]
        receipt.options(connection=db).enqueue(order)
        raise LookupError("sold out")
except LookupError:
    pass
with db:
    order = db.execute("insert into orders (item) values ('teapot') returning id").fetchone()[0]
    with app.within(db):
        print(receipt.enqueue(order).id)
db.close()
"""


@pytest.mark.timeout(240)
def test_a_plain_program_enqueues_in_its_first_transaction(sqlite_file: str) -> None:
    environment = os.environ | {"HOLDFAST_STORE": sqlite_file, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    command = [sys.executable, "-c", PLAIN]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert Shop(("", 0), sqlite_file, environment).result(done.stdout.strip()) == "receipt for order 1"
    assert len(jobs_in(sqlite_file)) == 1


def jobs_in(path: str) -> list[str]:
    """The tasks of the jobs in a file, without Holdfast: it may have no schema yet."""
    connection = sqlite3.connect(path)
    try:
        if not connection.execute("select 1 from sqlite_master where name = 'holdfast_job'").fetchall():
            return []
        return [task.rpartition(".")[2] for (task,) in connection.execute("select task from holdfast_job")]
    finally:
        connection.close()
