"""The checker itself: a sound store has no violation, and each kind of damage is found and told with its history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from .check import check, report
from .grounds import SqliteGround
from .ledger import Line, append, parsed, read

DAMAGE = {
    "update holdfast_ended set attempts = attempts + 1 where id = :failed": "I5",
    "update holdfast_live set attempts = 9 where id = :ready": "verify",
    "insert into holdfast_attempt (job_id, epoch, generation, attempt, outcome, ended_at)"
    " select id, finished_epoch, 0, 1, 'failed', 1 from holdfast_any_job where id = :done": "I3",
    "update holdfast_ended set finished_epoch = null where id = :done": "verify",
    "update holdfast_live set claim = null where id = :mine": "I7",
    "update holdfast_live set cancel_at = 1 where id = :ready": "verify",
    "update holdfast_live set started_at = 1 where flow is not null and state = 'blocked'": "I11",
    "update holdfast_step set epoch = 99 where job_id = :done": "I14",
    "update holdfast_budget_line set spent = 2000000000": "I15",
    "update holdfast_lane set running = running + 1": "verify",
    "update holdfast_reservation set epoch = epoch + 2": "verify",
    "delete from holdfast_frame where job_id = :done and seq = 1": "verify",
    "delete from holdfast_wait": "verify",
    "insert into holdfast_signal (job_id, seq, name, waitpoint, payload, at)"
    " select w.job_id, 99, p.name, p.id, 'true', 1 from holdfast_wait as w"
    " join holdfast_waitpoint as p on p.job_id = w.job_id where p.closed_at is null": "I12",
    "insert into holdfast_frame (job_id, seq, live, best_effort, kind, encoding, data, step, generation, attempt, at)"
    " select job_id, seq + 1, live, 0, kind, encoding, data, step, generation, attempt - 1, at from holdfast_frame"
    " where job_id = :done and best_effort = 0 and seq = 1": "I13",
    "delete from holdfast_event": "I16",
    "delete from holdfast_join": "verify",
    "update holdfast_live set dedupe_held = null where id = :keyed": "verify",
    "delete from holdfast_worker where id = 'lost'": "verify",
    "update holdfast_flow set live = live + 1": "verify",
    "insert into holdfast_cron_tick (tenant, schedule, tick, job_id) values ('', 'a', 1, 'x'), ('', 'a', 2, 'x')": (
        "verify"
    ),
    "delete from holdfast_live where id = :ready": "verify",
    "delete from holdfast_ended where id = :done": "verify",
    "insert into holdfast_live (id, task, queue, tenant, route, state, due, priority, rank, not_before)"
    " select id, task, queue, tenant, route, 'ready', 1, priority, rank, not_before from holdfast_ended"
    " where id = :done": "verify",
    "insert into holdfast_ended select 'nobody' as id, task, queue, tenant, route, state, priority, rank, not_before,"
    " reason, tags, flow, attempts, past_attempts, generation, epoch, claimed_at, started_at, suspect, crashes, losses,"
    " cancel_at, cancel_reason, deadline, finished_at, finished_epoch, error, result, holds, linked from holdfast_ended"
    " where id = :done": "verify",
}


@pytest.fixture(scope="module")
def ground() -> Iterator[SqliteGround]:
    made = SqliteGround()
    yield made
    made.close()


def test_a_sound_store_has_no_violation(ground: SqliteGround) -> None:
    ground.fresh()
    assert check(ground.facts()) == []


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found(ground: SqliteGround, damage: str) -> None:
    stage = ground.fresh()
    stage.world.sql("pragma ignore_check_constraints = on")
    stage.world.sql(damage, **stage.jobs)
    found = check(replace(ground.facts(), strict_budgets=frozenset({"team"})))
    assert DAMAGE[damage] in {violation.promise for violation in found}, found


LINES = {
    "Q missing 0": "I1",
    "S done 8": "I3",
    "S ready 3": "I4",
    "S failed 1\nS failed 1": "I4",
    "C held 0": "I8",
    "S down 1": "I11",
    "step:say done 7": "I14",
}


@pytest.mark.parametrize("text", LINES)
def test_what_the_ledger_contradicts_is_found(ground: SqliteGround, text: str) -> None:
    stage = ground.fresh()
    known = {**stage.jobs, **stage.things["members"]}
    stage.app.flows.stage(stage.things["staged"], [stage.things["edge"]], revision=1)
    stage.app.flows.apply(stage.things["staged"])
    lines = [line.split() for line in text.splitlines()]
    ledger = parsed(f"{mark} {known.get(job, job)} {epoch} 1 0.0" for mark, job, epoch in lines)
    assert LINES[text] in {violation.promise for violation in check(replace(ground.facts(), ledger=ledger))}


def test_the_first_violation_is_told_with_the_history_of_its_job(ground: SqliteGround) -> None:
    stage = ground.fresh()
    job_id = stage.jobs["failed"]
    stage.world.sql("update holdfast_ended set attempts = 7 where id = :id", id=job_id)
    facts = replace(ground.facts(), ledger=(Line("S", job_id, 1),))
    told = report(facts, check(facts), "a hint")
    assert "7 attempts" in told and "a hint" in told
    assert "holdfast_attempt(" in told and "mark='S'" in told


def test_lines_of_the_ledger_come_back_in_order(tmp_path: pytest.TempPathFactory) -> None:
    path = f"{tmp_path}/ledger"
    assert read(path) == ()
    append(path, "Q", "a")
    append(path, "S", "a", 1)
    assert [(line.mark, line.job, line.epoch) for line in read(path)] == [("Q", "a", 0), ("S", "a", 1)]
