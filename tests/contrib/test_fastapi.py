"""FastAPI in this process: what joins a request's transaction, when it is stored, and what wrong use says."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
import sqlalchemy
import sqlmodel
from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import NullPool
from sqlmodel.ext.asyncio.session import AsyncSession as SQLModelAsyncSession

import holdfast
from holdfast.contrib.fastapi import CurrentApp, DurableBackgroundTasks, job_router, lifespan, transaction
from holdfast.errors import ConfigError
from tests.patience import SOON
from tests.storage.lenders import sqlalchemy_url

SESSIONS: dict[str, Callable[[str], Any]] = {
    "SQLAlchemy": lambda where: sessionmaker(sync_engine(where)),
    "SQLModel": lambda where: sessionmaker(sync_engine(where), class_=sqlmodel.Session),
    "SQLAlchemy async": lambda where: async_sessionmaker(async_engine(where)),
    "SQLModel async": lambda where: lambda: SQLModelAsyncSession(async_engine(where)),
}
sessions = pytest.mark.parametrize("sessions", SESSIONS)


def sync_engine(where: str) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine(sqlalchemy_url(where), poolclass=NullPool)


def async_engine(where: str) -> Any:
    driver = "asyncpg" if "=" in where else "aiosqlite"
    return create_async_engine(sqlalchemy_url(where, driver), poolclass=NullPool)


@pytest.fixture
def receipt(app: holdfast.App) -> Any:
    @app.task
    def receipt(n: int) -> None: ...

    return receipt


def stored(app: holdfast.App) -> list[str]:
    return sorted(job.payload for job in app.jobs.find())


def insert(item: str) -> Any:
    return sqlalchemy.text("insert into orders (item) values (:item)").bindparams(item=item)


class Shop:
    """An application with a transaction per request, and a client of it."""

    def __init__(self, app: holdfast.App, where: str, kind: str, receipt: Any) -> None:
        with sync_engine(where).begin() as connection:
            connection.execute(sqlalchemy.text("create table orders (item text)"))
        self.is_async = "async" in kind
        self.web = FastAPI(lifespan=lifespan(app))
        self.session = Annotated[Any, transaction(app, SESSIONS[kind](where))]
        self.receipt = receipt
        self._where = where
        self._app = app

    async def write(self, session: Any, n: int) -> None:
        """An order and its job, as an endpoint writes them."""
        if self.is_async:
            await (await session.connection()).execute(insert("cup"))
            await self.receipt.aenqueue(n)
        else:
            session.connection().execute(insert("cup"))
            self.receipt.enqueue(n)

    def post(self, endpoint: Any) -> int:
        self.web.post("/orders")(endpoint)
        with TestClient(self.web, raise_server_exceptions=False) as client:
            return client.post("/orders").status_code

    def found(self) -> tuple[int, list[str]]:
        """The orders, and the arguments of the jobs."""
        with sync_engine(self._where).connect() as connection:
            orders = connection.execute(sqlalchemy.text("select count(*) from orders")).scalar_one()
        return orders, stored(self._app)


@pytest.fixture
def shop(app: holdfast.App, where: str, sessions: str, receipt: Any) -> Shop:
    return Shop(app, where, sessions, receipt)


@sessions
def test_what_a_request_enqueues_is_committed_with_its_data(shop: Shop) -> None:
    async def place(session: shop.session, tasks: DurableBackgroundTasks) -> None:  # type: ignore[name-defined]
        await shop.write(session, 1)
        tasks.add_task(shop.receipt, 2)

    assert shop.post(place) == 200
    assert shop.found() == (1, ['{"n":1}', '{"n":2}'])


@sessions
def test_a_request_that_fails_leaves_neither_data_nor_jobs(shop: Shop) -> None:
    async def place(tasks: DurableBackgroundTasks, session: shop.session) -> None:  # type: ignore[name-defined]
        await shop.write(session, 1)
        tasks.add_task(shop.receipt, 2)
        raise HTTPException(409)

    assert shop.post(place) == 409
    assert shop.found() == (0, [])


@sessions
def test_background_tasks_named_before_the_session_are_in_its_transaction_too(shop: Shop) -> None:
    seen: list[int] = []

    def refuse(session: Session) -> None:
        seen.append(session.connection().execute(sqlalchemy.text("select count(*) from holdfast_job")).scalar_one())
        raise ConnectionError("at the commit")

    async def place(tasks: DurableBackgroundTasks, session: shop.session) -> None:  # type: ignore[name-defined]
        tasks.add_task(shop.receipt, 2)
        await shop.write(session, 1)
        event.listen(getattr(session, "sync_session", session), "before_commit", refuse)

    assert shop.post(place) == 500
    assert (seen, shop.found()) == ([2], (0, []))


@sessions
def test_background_tasks_of_an_endpoint_that_commits_by_itself_are_stored(shop: Shop) -> None:
    async def place(session: shop.session, tasks: DurableBackgroundTasks) -> None:  # type: ignore[name-defined]
        await shop.write(session, 1)
        tasks.add_task(shop.receipt, 2)
        await session.commit() if shop.is_async else session.commit()

    assert shop.post(place) == 200
    assert shop.found() == (1, ['{"n":1}', '{"n":2}'])


def test_a_plain_def_endpoint_joins_too(app: holdfast.App, where: str, receipt: Any) -> None:
    shop = Shop(app, where, "SQLAlchemy", receipt)

    def place(session: shop.session, tasks: DurableBackgroundTasks) -> None:  # type: ignore[name-defined]
        session.execute(insert("cup"))
        receipt.enqueue(1)
        tasks.add_task(receipt, 2)
        raise HTTPException(409)

    assert shop.post(place) == 409
    assert shop.found() == (0, [])


def test_background_tasks_are_stored_before_the_response_and_not_at_all_after_an_error(
    app: holdfast.App, receipt: Any
) -> None:
    web = FastAPI(lifespan=lifespan(app))

    @web.post("/visits/{n}")
    def visit(n: int, tasks: DurableBackgroundTasks, jobs: CurrentApp) -> int:
        tasks.add_task(receipt, n)
        if n == 2:
            raise HTTPException(404)
        return len(jobs.jobs.find())

    with TestClient(web) as client:
        assert client.post("/visits/1").json() == 0
        assert stored(app) == ['{"n":1}']
        assert client.post("/visits/2").status_code == 404
    assert stored(app) == ['{"n":1}']


def get_session() -> Iterator[Session]:
    yield Session()


async def get_async_session() -> AsyncIterator[AsyncSession]:
    yield AsyncSession()


@pytest.mark.parametrize("wrong", [get_session, get_async_session, sqlalchemy.create_engine("sqlite://"), Session()])
def test_a_transaction_is_made_from_a_sessionmaker_only(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"such as sessionmaker\(engine\).*async with app\.within"):
        transaction(holdfast.App(":memory:"), wrong)


def test_a_request_outside_the_lifespan_is_told_what_is_missing() -> None:
    web = FastAPI()

    @web.get("/")
    def index(jobs: CurrentApp) -> None: ...

    with pytest.raises(ConfigError, match=r"lifespan=lifespan\(app\).*with TestClient\(web\) as client"):
        TestClient(web).get("/")


def test_the_web_application_given_for_the_app_is_refused_when_the_lifespan_is_made() -> None:
    with pytest.raises(ConfigError, match=r"holdfast\.App is needed here, not <fastapi"):
        lifespan(FastAPI())  # type: ignore[arg-type]


async def undecorated(_: FastAPI) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("inner", [undecorated, asynccontextmanager(undecorated)(FastAPI())])
def test_an_inner_lifespan_without_its_decorator_or_called_too_early_is_refused(inner: Any) -> None:
    with pytest.raises(ConfigError, match="asynccontextmanager above the function, and pass it without calling"):
        lifespan(holdfast.App(":memory:"), inner=inner)


@pytest.mark.parametrize("worker", ["yes", 4, None])
def test_a_worker_is_wanted_by_true_or_by_its_settings(worker: Any) -> None:
    web = FastAPI(lifespan=lifespan(holdfast.App(":memory:"), worker=worker))
    with pytest.raises(ConfigError, match="worker=.*concurrency"), TestClient(web):
        pass


def test_the_lifespan_of_a_program_is_open_while_the_worker_runs(app: holdfast.App) -> None:
    pool: list[str] = []

    @app.task
    async def use() -> list[str]:
        return list(pool)

    @asynccontextmanager
    async def inner(_: FastAPI) -> AsyncIterator[dict[str, str]]:
        pool.append("connection")
        yield {"mine": "too"}
        assert app.workers.list() == [], "the worker has stopped"
        pool.clear()

    web = FastAPI(lifespan=lifespan(app, migrate=True, worker={"concurrency": 2}, inner=inner))

    @web.get("/")
    async def index() -> list[str]:
        job = await use.aenqueue()
        return await job.aresult(SOON)

    with TestClient(web) as client:
        assert client.get("/").json() == ["connection"]
    assert pool == []


def test_the_router_shows_the_status_of_a_job_and_documents_it(app: holdfast.App) -> None:
    @app.task(max_attempts=1)
    def fail() -> None:
        raise ValueError("password=hunter2 is wrong")

    web = FastAPI(lifespan=lifespan(app))
    web.include_router(job_router(dependencies=[]), prefix="/jobs")
    job = fail.enqueue()
    with TestClient(web) as client:
        pending = client.get(f"/jobs/{job.id}").json()
        app.drain()
        failed = client.get(f"/jobs/{job.id}").json()
        assert client.get("/jobs/nothing").status_code == 404
        document = client.get("/openapi.json").json()
    assert (pending["state"], pending["ended"], pending["error"]) == ("ready", False, None)
    assert (failed["state"], failed["ended"], failed["error"]["type"]) == ("failed", True, "ValueError")
    assert "hunter2" not in str(failed)
    assert document["components"]["schemas"]["JobStatus"]["properties"].keys() == failed.keys()


def test_a_follower_sees_states_progress_output_and_the_end(app: holdfast.App) -> None:
    from holdfast.contrib.job_status import _messages

    release = asyncio.Event()

    @app.task
    async def work(ctx: holdfast.Context) -> int:
        await ctx.progress(10)
        await ctx.emit("begun")
        await release.wait()
        return 7

    async def follow() -> list[str]:
        job, seen = await work.aenqueue(), list[str]()
        events = _messages(app, job.id, None)
        first = await anext(events)
        assert (first.event, '"state":"ready"' in first.data) == ("status", True)
        async with app.worker():
            async for said in events:
                seen.append(said.event or "")
                if '"percent":10' in said.data and said.event == "status":
                    release.set()
        assert '"result":7' in said.data
        return seen

    seen = asyncio.run(asyncio.wait_for(follow(), 2 * SOON))
    assert (seen.count("frame"), seen.count("end"), seen[-1]) == (1, 1, "end")
    assert "status" in seen
