"""The statements themselves: used, valid on both databases, in one lock order, and on the right indexes."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.model.outcomes import Done, Finish, Retry
from holdfast.model.routing import Route
from holdfast.model.workers import Rescue
from holdfast.storage import ops
from holdfast.storage.lists import copied
from holdfast.storage.ops.jobs import claims, finishing
from holdfast.storage.ops.jobs.claims import encode_routes
from holdfast.storage.ops.workers import workers
from holdfast.storage.port import Op, Row, Tx
from holdfast.storage.statements import Statement, sql
from tools import fill_jobs

from .racing import aside, await_blocked, claim_op, open_transaction
from .world import ERROR, LEASE, World, claim_request, spec

NAMES = [statement.name for statement in sql]


def test_every_statement_is_used_by_an_operation_and_every_operation_finds_its_statement() -> None:
    texts = [file.read_text() for file in Path(ops.__path__[0]).rglob("*.py")]
    used = {name for text in texts for name in re.findall(r"\bsql\.(\w+)", text)}
    assert used == set(NAMES)


def test_every_statement_is_valid_on_its_database(each_store: World) -> None:
    with closing(each_store.connect()) as connection:
        for statement in sql:
            if each_store.backend == "sqlite":
                connection.execute(f"explain {statement.sqlite}", _nothing_for(statement.sqlite))
                continue
            if statement.postgres.startswith("copy"):  # cannot be prepared
                continue
            for text, _ in (statement.asyncpg, statement.asyncpg_clocked):
                connection.execute(f"prepare it as {text}")
                connection.execute("deallocate it")


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_takes_the_same_parameters_on_both_databases_and_is_not_assembled(name: str) -> None:
    statement: Statement = getattr(sql, name)
    assert _sqlite_parameters(statement) - {"now"} == _postgres_parameters(statement) - {"now"}
    assert "{" not in statement.sqlite + statement.postgres


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_are_locked_together_are_locked_in_one_order_or_not_waited_for(name: str) -> None:
    text = getattr(sql, name).postgres
    for lock in re.finditer(r"for (?:update|no key update|share)\b(?!(?: of \w+)? skip locked)", text):
        query = text[text.rfind("select", 0, lock.start()) : lock.start()]
        assert re.search(r"order by (\w+\.)?(id|key|job_id)\b|where (id|scope|name) = :\w+", query), query


_LIVE_UPDATE = re.compile(r"update holdfast_live\b.*?\bset\b(.*?)(?:\bwhere\b|\Z)", re.DOTALL)


def test_what_changes_a_state_on_sqlite_sets_a_reason_unless_it_claims() -> None:
    """Its trigger for events waits for a reason: a trigger that a claim starts in vain takes a tenth of it."""
    texts = [text for one in sql for text in (one.sqlite, one.then.sqlite if one.then else "")]
    changes = [
        change for text in texts for change in _LIVE_UPDATE.findall(text) if re.search(r"(?:^|,)\s*state = ", change)
    ]
    assert len(changes) > 20
    for change in changes:
        assert re.search(r",\s*reason = ", change) or "state = 'running'" in change, change


# -- lock order, on real locks


def test_a_turn_that_finishes_and_then_claims_does_not_deadlock_with_its_rescue(on_postgres: World) -> None:
    world = on_postgres
    world.enqueue(spec(), spec())
    owner = world.worker()
    first = world.take(owner)
    world.clock.advance(LEASE / 1e6 + 1)

    def rescue_without_retry() -> Rescue:
        with open_transaction(world) as within:
            page: Rescue = within(Op(lambda tx: workers.rescue(tx, owner)))
            return page

    with aside() as start:
        with open_transaction(world) as within:
            within(Op(lambda tx: finishing.finish(tx, owner, [Finish(first.id, first.epoch, Done("1"))])))
            rescue = start(rescue_without_retry)
            await_blocked(world)
            (second,) = within(claim_op(owner, 1))
        assert rescue.result(10).rescued == (second.id,)


def test_a_mixed_batch_waits_for_its_rescue_before_it_locks_a_job(on_postgres: World) -> None:
    world = on_postgres
    world.enqueue(spec(), spec())
    owner = world.worker()
    a, b = world.claim(owner)
    batch = [Finish(a.id, a.epoch, Retry(0, ERROR)), Finish(b.id, b.epoch, Done("1"))]
    with aside() as start:
        with closing(world.connect()) as rescuer:
            rescuer.execute("select 1 from holdfast_worker where id = %s for update", (owner,))
            late = start(lambda: world.run(finishing.finish, owner, batch))
            await_blocked(world)
            locked = rescuer.execute("select id from holdfast_live order by id for update nowait").fetchall()
            assert len(locked) == 2
            rescuer.rollback()
        assert len(late.result(10)) == 2


# -- plans

INDEXES = {
    "promote_due": "holdfast_live_later",
    "claim_signs": "holdfast_live_later",
    "claim_jobs": "holdfast_live_ready",
    "claim_suspects": "holdfast_live_suspect",
    "claimed_under": "holdfast_live_owned",
    "next_due": "holdfast_live_later",
    "owned_jobs": "holdfast_live_owned",
    "running_of_workers": "holdfast_live_owned",
    "page_of_lost": "holdfast_live_owned",
    "expire_jobs": "holdfast_live_deadline",
    "dedupe_winner": "holdfast_live_dedupe",
    "routes_of_suspects": "holdfast_live_suspect",
}
# Where those that come later or are suspect are sought, the index itself is small.
_FULL_SCAN = re.compile(
    r"Seq Scan on holdfast_(job|live|ended)\b"
    r"|SCAN (holdfast_(job|live|ended)|job|live|head)\b(?! USING (COVERING )?INDEX holdfast_live_(later|suspect))"
)
VALUES: dict[str, Any] = {
    "owner": "w", "claim": "c", "routes": encode_routes([[Route("a")], [Route("b")]]), "n": 100, "alone": 0,
    "held": "k", "few": 5, "now": 1_700_000_000_000_000,
}  # fmt: skip


@pytest.mark.parametrize(("name", "index"), INDEXES.items(), ids=INDEXES.keys())
def test_hot_statements_use_their_index_on_sqlite(on_sqlite: World, name: str, index: str) -> None:
    statement: Statement = getattr(sql, name)
    plan = _sqlite_plan(on_sqlite, statement, {key: VALUES.get(key) for key in _parameters(statement.sqlite)})
    assert index in plan
    assert not _FULL_SCAN.search(plan), plan


class Crowd:
    """A table with 200,000 future rows of higher priority and 400,000 ready rows over two queues."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.worker("w", queues=["a", "b"])

    def grow(self) -> None:
        fill(self.world, 200_000, "a", due=0, priority=9, base=1)
        fill(self.world, 200_000, "a", due=1, priority=0, base=2)
        fill(self.world, 200_000, "b", due=1, priority=0, base=3)

    def claim(self) -> float:
        """Seconds for a claim of 100."""
        op = claim_op("w", 100, queues=["a", "b"])
        start = time.perf_counter()
        jobs = self.world.store.write(op)
        took = time.perf_counter() - start
        assert len(jobs) == 100
        return took

    def typical(self) -> float:
        return statistics.median(self.claim() for _ in range(15))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("backend", ["file", "postgres"])
def test_a_claim_costs_the_same_behind_a_crowd(ground: Any, backend: str) -> None:
    small, large = Crowd(ground.open(backend)), Crowd(ground.open(backend))
    for queue, base in (("a", 2), ("b", 3)):
        fill(small.world, 10_000, queue, due=1, priority=0, base=base)
    if backend == "postgres":
        large.world.sql("alter table holdfast_live set (autovacuum_enabled = off)")
    large.grow()
    _check_plans(large.world, "without statistics")

    def within_twice() -> bool:
        return large.typical() <= 2 * small.typical()

    assert _eventually(within_twice), "a claim of 100 takes more than twice as long as on a small table"
    if backend == "postgres":
        for table in ("job", "live"):
            large.world.sql(f"analyze holdfast_{table}")
        _check_plans(large.world, "with statistics")
        assert _eventually(within_twice), "with statistics, a claim of 100 takes more than twice as long"


class Overheard:
    """A transaction that notes what it is asked."""

    def __init__(self, tx: Tx, heard: list[tuple[Statement, dict[str, Any]]]) -> None:
        self._tx = tx
        self._heard = heard

    async def one(self, statement: Statement, /, **params: Any) -> Row | None:
        self._heard.append((statement, params))
        return await self._tx.one(statement, **params)

    async def all(self, statement: Statement, /, **params: Any) -> list[Row]:
        self._heard.append((statement, params))
        return await self._tx.all(statement, **params)

    async def each(self, statement: Statement, rows: Any, /, **common: Any) -> list[Row | None]:
        return await self._tx.each(statement, rows, **common)

    def notify(self, topic: str) -> None:
        self._tx.notify(topic)


def _check_plans(world: World, when: str) -> None:
    """Nothing that a claim asks may read the table, whatever the planner knows."""
    heard: list[tuple[Statement, dict[str, Any]]] = []
    request = claim_request("w", 100, queues=["a", "b"], suspects=1)
    world.store.write(Op(lambda tx: claims.claim(Overheard(tx, heard), request)))
    asked = dict(heard) | {sql.promote_due: {"n": 500}, sql.claim_suspects: dict(heard)[sql.claim_jobs] | {"alone": 0}}
    assert sql.claim_jobs in asked
    for statement, params in asked.items():
        for plan in _plans(world, statement, params):
            assert not _FULL_SCAN.search(plan), f"{statement.name} {when}:\n{plan}"
            if statement.name in INDEXES:
                assert INDEXES[statement.name] in plan, f"{statement.name} {when}:\n{plan}"


def _eventually(check: Callable[[], bool], tries: int = 6) -> bool:
    # Other processes share the machine; the claim itself is either always slow or not.
    return any(check() for _ in range(tries))


def fill(world: World, count: int, queue: str, *, due: int, priority: int, base: int) -> None:
    """Many rows by one statement."""
    columns = {
        "task": "'work'", "queue": ":queue", "route": ":route", "state": "'ready'", "due": ":due",
        "priority": ":priority", "rank": ":now + :later", "not_before": ":now + :later", "created_at": ":now",
    }  # fmt: skip
    numbers = "with recursive n(i) as (select 1 union all select i + 1 from n where i < :count) |n"
    on_sqlite = fill_jobs.inserts({"id": "printf('%06d%020d', :base, i)"} | columns, numbers, ended=False)
    series = "generate_series(1, :count::bigint) as n(i)"
    id = "format('%s%s', lpad(:base::text, 6, '0'), lpad(i::text, 20, '0'))"
    on_postgres = fill_jobs.inserts({"id": id} | columns, series, ended=False)
    later = 0 if due else 86_400_000_000
    values = {
        "queue": queue, "route": Route(queue).number, "due": due, "priority": priority, "later": later, "base": base,
        "count": count,
    }  # fmt: skip
    for texts in zip(on_sqlite, on_postgres, strict=True):
        params = {name: value for name, value in values.items() if f":{name}" in texts[0]}
        fill = Statement("fill", *texts)
        world.store.write(Op(lambda tx, fill=fill, params=params: tx.one(fill, **params)))


def _plans(world: World, statement: Statement, params: dict[str, Any]) -> list[str]:
    params = {**params, "now": world.now}
    if world.backend == "sqlite":
        return [_sqlite_plan(world, statement, params)]
    return [_postgres_plan(world, statement, params, mode) for mode in ("force_custom_plan", "force_generic_plan")]


def _sqlite_plan(world: World, statement: Statement, params: dict[str, Any]) -> str:
    with closing(world.connect()) as connection:
        rows = connection.execute(f"explain query plan {statement.sqlite}", params).fetchall()
    return "\n".join(row[3] for row in rows)


def _postgres_plan(world: World, statement: Statement, params: dict[str, Any], mode: str) -> str:
    text, order = statement.asyncpg_clocked
    with closing(world.connect()) as connection:
        connection.execute(f"set plan_cache_mode = {mode}")
        connection.execute(f"prepare it as {text}")
        given = psycopg.sql.SQL(", ").join(psycopg.sql.Literal(params[key]) for key in order)
        values = psycopg.sql.SQL("({})").format(given) if order else psycopg.sql.SQL("")
        rows = connection.execute(psycopg.sql.SQL("explain execute it {}").format(values)).fetchall()
        connection.rollback()
    return "\n".join(row[0] for row in rows)


def _nothing_for(text: str) -> dict[str, None] | list[None]:
    return dict.fromkeys(_parameters(text)) or [None] * text.count("?")


def _sqlite_parameters(statement: Statement) -> set[str]:
    found = _parameters(statement.sqlite)
    if statement.then:
        found |= _parameters(statement.then.sqlite) - {"ids"}
    if "items" in found:
        found = found - {"items"} | set(re.findall(r"item\.value ->> '\$\.(\w+)'", statement.sqlite))
    return found


def _postgres_parameters(statement: Statement) -> set[str]:
    """Where rows come as one document, the names that are read from it count; where they are copied, the columns."""
    if statement.postgres.startswith("copy "):
        return set(copied(statement.postgres)[1])
    found = _parameters(statement.postgres)
    if "items" in found and (read := re.search(r":items::json\)\s+as \w+\(n int,([^)]*)\)", statement.postgres)):
        found = found - {"items"} | {column.split()[0] for column in read[1].split(",")}
    return found


def _parameters(text: str) -> set[str]:
    return set(re.findall(r"(?<![:\w]):([a-z_]\w*)", text))


def test_a_claim_of_the_whole_table_is_what_the_operation_says_it_is(each_store: World) -> None:
    """The rows made here by one statement are rows like any other."""
    fill(each_store, 30, "a", due=1, priority=0, base=2)
    fill(each_store, 10, "a", due=0, priority=9, base=1)
    owner = each_store.worker()
    assert len(each_store.claim(owner, 100, queues=["a"])) == 30
    assert each_store.run(claims.next_due) == 86_400_000_000
