"""Lists and counts over many finished jobs: right, and by their indexes."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.errors import InvalidCursor
from holdfast.ids import ids
from holdfast.model.answers import Count, JobFilter
from holdfast.model.jobs import JobState
from holdfast.model.outcomes import Done, Failed, Retry
from holdfast.storage.ops.jobs import actions, counting, finding, queries
from holdfast.storage.statements import Statement, sql
from tools import fill_jobs

from .world import ERROR, World, spec

FILTERS: list[dict[str, Any]] = [
    {name: value for name, value in (("state", s), ("queue", q), ("task", t)) if value}
    for s, q, t in product([None, *map(str, JobState)], [None, "a", "none"], [None, "x", "none"])
]
# Statements with the index that they read instead of the table.
INDEXES = {
    "find_any": "holdfast_ended_",
    "find_ready": "holdfast_live_queued",
    "find_later": "holdfast_live_later",
    "ready_queues": "holdfast_live_queued",
    "find_running": "holdfast_live_owned",
    "find_waiting": "holdfast_live_waiting",
    "find_unsuccessful": "holdfast_ended_unsuccessful",
    "find_ended": "holdfast_ended_task",
    "find_of_flow": "holdfast_job_member",
    "find_by_id": "holdfast_ended_",
    "narrow_ids": "holdfast_job_1|holdfast_job_pkey",
    "queued_by_queue": "holdfast_live_queued",
    "running_by_queue": "holdfast_live_owned",
    "waiting_by_queue": "holdfast_live_waiting",
    # Where the state is known and rare, a server may read all that are in it.
    "find_by_end": "holdfast_ended_time|holdfast_ended_unsuccessful",
    "ended_beyond": "holdfast_ended_time",
    "ended_since": "holdfast_ended_time",
    "page_of_ended": "holdfast_ended_time",
    "lock_prunable": "holdfast_ended_1|holdfast_ended_pkey",
    "delete_jobs_of": "holdfast_job_1|holdfast_job_pkey",
    "expired_windows": "holdfast_dedupe_expiry",
    "prune_audit": "holdfast_audit_at",
    "list_audit_of": "holdfast_audit_target",
}
VALUES: dict[str, Any] = {
    "state": "failed", "queue": "q1", "task": "t1", "before": "z", "n": 50, "after": 1_700_000_000_099_000, "skip": 0,
    "since": 1_700_000_000_050_000, "upto": 1_700_000_000_090_000,
    "kept": SECOND, "now": 1_700_000_500_000_000, "ids": '["1", "2"]', "target_kind": "queue", "target": "mail",
}  # fmt: skip
OWN_VALUES: dict[str, dict[str, Any]] = {"find_of_flow": {"flow": "f1"}, "find_by_id": {"prefix": "0"}}


def found(world: World, **wanted: Any) -> list[str]:
    return world.run(finding.find_ids, JobFilter(**wanted), before=None, n=1000)


def move(world: World, queue: str, id: str | None = None) -> None:
    for place in ("live", "ended"):
        world.sql(f"update holdfast_{place} set queue = :queue where id = coalesce(:id, id)", queue=queue, id=id)


def test_every_combination_of_filters_finds_what_a_look_at_every_row_finds(each_store: World) -> None:
    world = each_store
    for state in JobState:
        for queue, task in (("a", "x"), ("b", "x"), ("a", "y")):
            placed = world.place(state, task=task)
            move(world, queue, placed.id)
    for wanted in FILTERS:
        where = " and ".join([f"{name} = :{name}" for name in wanted] or ["1 = 1"])
        expected = [
            id for (id,) in world.sql(f"select id from holdfast_any_job where {where} order by id desc", **wanted)
        ]
        assert found(world, **wanted) == expected, wanted
        page = world.run(queries.list_jobs, JobFilter(**wanted, limit=2))
        assert [job.id for job in page] == expected[:2], wanted
        if page:
            rest = world.run(queries.list_jobs, JobFilter(**wanted, before=page[-1].id))
            assert [job.id for job in rest] == expected[2:], wanted


def test_times_and_reasons_narrow_too(world: World) -> None:
    first = world.place(JobState.FAILED).id
    world.clock.advance(10)
    second = world.place(JobState.CANCELLED).id
    now = world.now
    assert found(world, reason="permanent") == [first]
    assert found(world, created_after=now) == found(world, finished_after=now) == [second]
    assert found(world, created_before=now) == found(world, finished_before=now) == [first]
    assert found(world, older_than=10 * SECOND) == [first]
    assert found(world, older_than=0, state="cancelled") == [second]


def test_tags_texts_priorities_and_attempts_narrow_too(each_store: World) -> None:
    world = each_store
    plain = world.add(payload='{"n": 1}')
    marked = world.add(payload='{"name": "Ada"}', tags='["blue", "b"]', priority=7)
    broken = world.place(JobState.FAILED).id
    world.sql("update holdfast_ended set error = :error where id = :id", error='{"type": "Ada"}', id=broken)
    assert found(world, tag="blue") == found(world, tag="b", priority=7) == found(world, priority=7) == [marked]
    assert found(world, tag="blu") == found(world, text="ada") == found(world, priority=8) == []
    assert found(world, text="Ada") == [broken, marked]
    assert found(world, min_attempts=1) == [broken]
    assert found(world, min_attempts=0) == [broken, marked, plain]


def test_the_creator_narrows_too_and_is_null_for_jobs_from_before_it_was_kept(world: World) -> None:
    shop, other = world.add(created_by="token:shop"), world.add(created_by="token:other")
    world.sql("update holdfast_job set created_by = null where id = :id", id=other)
    assert (world.job(shop).created_by, world.job(other).created_by) == ("token:shop", None)
    assert found(world, created_by="token:shop") == [shop]
    assert found(world, created_by="token") == found(world, created_by="token:other") == []


def test_jobs_whose_time_has_not_come_are_found_by_what_they_wait_for(each_store: World) -> None:
    world = each_store
    delayed, soon, other = (
        world.add(delay=60 * SECOND), world.add(delay=5 * SECOND), world.add(delay=60 * SECOND, queue="other")
    )  # fmt: skip
    world.add()
    worker = world.worker()
    taken = world.take(worker)
    retried = taken.id
    world.finish(worker, taken, Retry(30 * SECOND, '{"type": "ValueError"}'))
    assert found(world, label="delayed") == sorted([delayed, soon, other], reverse=True)
    assert found(world, label="delayed", queue="other") == found(world, label="delayed", id=other) == [other]
    assert found(world, label="retrying") == [retried]
    assert found(world, label="delayed", state="running") == found(world, label="throttled") == []
    world.clock.advance(6)
    assert found(world, label="delayed") == sorted([delayed, other], reverse=True)
    assert found(world, label="delayed", task="none") == []


def test_flows_workers_ids_and_several_states_narrow_too(each_store: World) -> None:
    world = each_store
    owner = world.worker()
    waiting = [world.add(), world.add(id="abc-1", explicit_id=True), world.add(id="abc-2", explicit_id=True)]
    failed, expired = world.place(JobState.FAILED).id, world.place(JobState.EXPIRED).id
    world.sql("update holdfast_job set flow = 'f', member = id where id in (:a, :b)", a=waiting[0], b=failed)
    running = world.take(owner)
    assert found(world, worker=owner) == [running.id]
    assert found(world, worker="nobody") == found(world, flow="g") == found(world, id="b") == []
    assert found(world, flow="f") == sorted([waiting[0], failed], reverse=True)
    assert found(world, flow="f", state="failed") == [failed]
    assert found(world, id="abc") == ["abc-2", "abc-1"]
    assert found(world, id="abc-2") == ["abc-2"]
    assert found(world, states=("failed", "expired")) == sorted([failed, expired], reverse=True)


def test_a_search_that_no_index_answers_looks_at_so_many_and_says_where_to_go_on(
    each_store: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "_STRETCH", 2)
    made = ids.many(7)
    each_store.enqueue(*(spec(id=id, tags='["x"]' if n < 2 else None) for n, id in enumerate(made)))
    first = each_store.run(queries.search_jobs, JobFilter(tag="x"), 4)
    assert (first.jobs, first.next) == ((), made[3])
    rest = each_store.run(queries.search_jobs, JobFilter(tag="x", before=first.next), 4)
    assert ([job.id for job in rest.jobs], rest.next) == ([made[1], made[0]], None)
    one = each_store.run(queries.search_jobs, JobFilter(tag="x", before=first.next, limit=1), 4)
    assert ([job.id for job in one.jobs], one.next) == ([made[1]], made[1])


@pytest.mark.parametrize("most", [None, 12, 1000])
def test_a_search_over_many_queues_finds_each_job_once_and_in_order(
    each_store: World, monkeypatch: pytest.MonkeyPatch, most: int | None
) -> None:
    monkeypatch.setattr(finding, "_STRETCH", 8)
    monkeypatch.setattr(finding, "_LEAST", 2)
    # Runs of one queue, so that the queues are not alike wherever a stretch ends.
    queues = "aaaaaaabcbcbcddddddddabcdaaab"
    added = [(each_store.add(queue=queue, priority=n % 2), n % 2) for n, queue in enumerate(queues)]
    seen: list[str] = []
    before: str | None = None
    while True:
        wanted = JobFilter(state="ready", priority=1)
        page = each_store.run(finding.search_ids, wanted, before=before, n=3, most=most)
        seen += page.ids
        if (before := page.next) is None:
            break
    assert seen == [id for id, odd in reversed(added) if odd]


def ended(world: World, **wanted: Any) -> list[str]:
    return [job.id for job in world.run(queries.list_jobs, JobFilter(order="ended", **wanted))]


def test_ended_jobs_are_listed_by_when_they_ended(each_store: World) -> None:
    world = each_store
    owner = world.worker(queues=["a", "b"])
    first, second, third = (world.add(task=task, queue=queue) for task, queue in ("xa", "ya", "xb"))
    taken = {job.id: job for job in world.claim(owner, queues=("a", "b"))}
    world.add(task="x", queue="a")
    start = world.now
    for seconds, id in ((10, third), (20, first), (30, second)):
        world.clock.advance(10)
        outcome = Failed("permanent", ERROR) if id == first else Done("1")
        world.finish(owner, taken[id], outcome)
        assert world.job(id).finished_at == start + seconds * SECOND
    assert ended(world) == [second, first, third]
    assert ended(world, finished_after=start + 20 * SECOND) == [second, first]
    assert ended(world, finished_before=start + 20 * SECOND) == [third]
    assert ended(world, older_than=10 * SECOND) == [first, third]
    assert ended(world, state="failed") == ended(world, states=("failed", "cancelled")) == [first]
    assert ended(world, states=("failed", "succeeded"), limit=2) == [second, first]
    assert ended(world, task="x") == [first, third]
    assert ended(world, queue="a") == [second, first]
    assert ended(world, id=third) == [third]
    assert ended(world, state="ready") == []


@pytest.mark.parametrize("narrow", [{}, {"task": "x"}], ids=["by the index", "by a look at each"])
def test_a_list_by_end_is_paged_through_jobs_that_ended_in_one_commit(
    each_store: World, monkeypatch: pytest.MonkeyPatch, narrow: dict[str, Any]
) -> None:
    monkeypatch.setattr(finding, "_STRETCH", 2)
    world = each_store
    made = [world.place(JobState.CANCELLED, task="x").id for _ in range(3)]
    world.clock.advance(1)
    made += [world.place(JobState.CANCELLED, task="x").id for _ in range(4)]
    seen: list[str] = []
    page = world.run(queries.search_jobs, JobFilter(order="ended", limit=2, **narrow), 1000)
    while page.jobs:
        seen += [job.id for job in page.jobs]
        if len(seen) == 2:
            # Neither a job that ends meanwhile nor one that is retried changes the pages behind.
            world.place(JobState.CANCELLED, task="x")
            assert world.run(actions.retry, seen[-1])
        if page.next is None:
            break
        page = world.run(queries.search_jobs, JobFilter(order="ended", limit=2, before=page.next, **narrow), 1000)
    assert seen == sorted(made[3:], reverse=True) + sorted(made[:3], reverse=True)


def test_a_search_by_end_looks_at_so_many_and_says_where_to_go_on(
    each_store: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "_STRETCH", 2)
    wanted = JobFilter(order="ended", task="rare")
    rare = each_store.place(JobState.FAILED, task="rare").id
    for _ in range(4):
        each_store.place(JobState.FAILED, task="other")
    page = each_store.run(queries.search_jobs, wanted, 4)
    assert page.jobs == ()
    assert page.next is not None
    rest = each_store.run(queries.search_jobs, replace(wanted, before=page.next), 4)
    assert [job.id for job in rest.jobs] == [rare]


@pytest.mark.parametrize("before", ["", "01jq", "x:1", "1.5:1", f"{10**18}:1"])
def test_a_place_that_no_list_by_end_gave_out_is_refused(each_store: World, before: str) -> None:
    with pytest.raises(InvalidCursor, match="start without it"):
        ended(each_store, before=before)


def test_the_oldest_due_job_is_told_and_future_ones_are_not_due(world: World) -> None:
    world.enqueue(spec(), spec(delay=5 * SECOND), spec(delay=60 * SECOND), spec(queue="later", delay=SECOND * 60))
    world.clock.advance(20)
    found = {item.queue: item for item in world.run(counting.backlogs)}
    assert found["default"] == counting.Backlog("default", 2, 1, 20 * SECOND)
    assert found["later"] == counting.Backlog("later", 0, 1, None)


def test_many_finished_jobs_are_estimated_and_said_to_be(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "FEW", 2)
    for _ in range(3):
        world.place(JobState.SUCCEEDED)
    move(world, "q")
    assert world.run(counting.count_jobs) == [Count("q", "succeeded", 3)]
    world.run(counting.write_tallies, world.run(counting.measure, recount=True))
    assert world.run(counting.count_jobs) == [Count("q", "succeeded", 3, estimated=True)]
    world.clock.advance(1)
    world.place(JobState.FAILED)
    world.add(queue="q")
    move(world, "q")
    counts = [Count("q", "failed", 1, True), Count("q", "ready", 1), Count("q", "succeeded", 3, True)]
    assert world.run(counting.count_jobs) == counts
    world.run(counting.write_tallies, world.run(counting.measure, recount=False))
    assert world.run(counting.count_jobs) == counts
    world.run(counting.lower_tallies, [("q", "succeeded"), ("q", "succeeded")])
    assert Count("q", "succeeded", 1, True) in world.run(counting.count_jobs)


# -- plans


@pytest.fixture(scope="module")
def crowd_on_postgres(ground: Any) -> World:
    world: World = ground.open("postgres")
    columns = {
        "id": "lpad(i::text, 26, '0')", "task": "'t' || i % 5", "queue": "'q' || i % 3", "route": "1",
        "state": "case when i % 50 = 0 then 'failed' else 'succeeded' end", "rank": "0", "not_before": "0",
        "created_at": "0", "finished_at": "1700000000000000 + i",
    }  # fmt: skip
    for text in fill_jobs.inserts(columns, "generate_series(1, 100000) as i", ended=True):
        world.sql(f"{text} returning 0")
    world.enqueue(*(spec(id=id, queue="q1") for id in ids.many(300)))
    with closing(world.connect()) as connection:
        connection.autocommit = True
        connection.execute("vacuum analyze holdfast_job, holdfast_live, holdfast_ended")
    return world


@pytest.mark.parametrize(("name", "index"), INDEXES.items(), ids=INDEXES.keys())
def test_on_postgres_no_list_count_or_purge_reads_the_whole_table(
    crowd_on_postgres: World, name: str, index: str
) -> None:
    statement: Statement = getattr(sql, name)
    text, names = statement.asyncpg_clocked
    given = VALUES | OWN_VALUES.get(name, {})
    values = ", ".join(_literal(given.get(parameter)) for parameter in names)
    with closing(crowd_on_postgres.connect()) as connection:
        # Neither of the two plans may be bad: the driver comes to use the one that does not know the values.
        # But for the one whose range is all that matters; there the server sees that its value pays.
        for mode in ("force_custom_plan", "force_generic_plan")[: 1 if name == "ended_since" else 2]:
            connection.execute(f"set plan_cache_mode = {mode}")
            connection.execute(f"prepare it as {text}")
            rows = connection.execute(f"explain execute it({values})" if values else "explain execute it").fetchall()
            connection.execute("deallocate it")
            plan = "\n".join(row[0] for row in rows)
            assert not re.search(r"Seq Scan on holdfast_(job|ended)\b", plan), plan
            # Small tables are scanned.
            if name.split("_")[0] not in ("expired", "prune", "list", "queued", "running", "waiting"):
                assert re.search(index, plan), plan
        connection.rollback()


@pytest.mark.parametrize(("name", "index"), INDEXES.items(), ids=INDEXES.keys())
def test_on_sqlite_no_list_count_or_purge_reads_the_whole_table(on_sqlite: World, name: str, index: str) -> None:
    statement: Statement = getattr(sql, name)
    with closing(on_sqlite.connect()) as connection:
        parameters = set(re.findall(r"(?<![:\w]):([a-z_]\w*)", statement.sqlite))
        given = VALUES | OWN_VALUES.get(name, {})
        values = {parameter: given.get(parameter) for parameter in parameters}
        plan = "\n".join(row[3] for row in connection.execute(f"explain query plan {statement.sqlite}", values))
    assert re.search(index, plan), plan
    scan = r"SCAN (holdfast_(job|live|ended)|job|live|ended|found)\b(?! USING (COVERING )?INDEX holdfast_(live|ended)_)"
    assert not re.search(scan, plan), plan


def _literal(value: object) -> str:
    return "null" if value is None else f"'{value}'" if isinstance(value, str) else str(value)
